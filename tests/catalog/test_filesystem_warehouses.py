"""Warehouses as directories: namespaces, neighbours, HadoopCatalog's tables, and many processes."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from lakeplane.catalog.catalog import Committed, Conflict
from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.names import Name
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    InvalidChange,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    StoreCannot,
)
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.catalog_subject import (
    a_namespace,
    a_table,
    a_view,
    append,
    change,
    changed,
    property_set,
    table_of,
)
from lakeplane.testing.faults import FaultStore
from tests.catalog.test_conformance import REAL
from tests.catalog.test_filesystem import (
    FORGETFUL,
    ORDERS,
    ROOT,
    SHOP,
    Meanwhile,
    a_shop,
    catalog_on,
    is_put_of,
    versions_in,
)

# Namespaces


def test_a_dropped_namespace_with_a_table_made_meanwhile_is_one_again() -> None:
    store = MemoryStore(ROOT)
    catalog = catalog_on(store)
    catalog.create_namespace(SHOP, {"a": "1"})
    plan = Meanwhile(is_put_of("v2.json"), lambda: a_table(catalog, ORDERS))
    catalog_on(FaultStore(store, plan)).drop_namespace(SHOP)
    assert catalog.namespaces() == [SHOP]
    assert catalog.names("table", SHOP) == [ORDERS]
    assert catalog.namespace(SHOP) == {}
    catalog.drop("table", ORDERS)
    assert catalog.namespaces() == []
    catalog.create_namespace(SHOP, {"b": "2"})
    assert catalog.namespace(SHOP) == {"b": "2"}


def test_properties_of_a_namespace_are_not_lost_between_two_writers() -> None:
    store, catalog = a_shop()
    plan = Meanwhile(is_put_of("v2.json"), lambda: catalog.change_namespace(SHOP, {"theirs": "1"}))
    catalog_on(FaultStore(store, plan)).change_namespace(SHOP, {"ours": "1"})
    assert catalog.namespace(SHOP) == {"ours": "1", "theirs": "1"}


def test_two_creators_of_a_namespace() -> None:
    store = MemoryStore(ROOT)
    catalog = catalog_on(store)
    plan = Meanwhile(is_put_of("v1.json"), lambda: catalog.create_namespace(SHOP, {"of": "them"}))
    with pytest.raises(AlreadyExists):
        catalog_on(FaultStore(store, plan)).create_namespace(SHOP, {"of": "us"})
    assert catalog.namespace(SHOP) == {"of": "them"}


def test_a_namespace_with_a_broken_state_is_no_empty_one() -> None:
    store, catalog = a_shop()
    store.put(ROOT / "shop/.namespace/v2.json", b'{"a": 1}')
    with pytest.raises(InvalidMetadata):
        catalog.namespace(SHOP)
    with pytest.raises(InvalidMetadata):
        catalog.drop_namespace(SHOP)


def test_databases_of_paimon_are_left_alone() -> None:
    store, catalog = a_shop()
    files = [ROOT / "sales.db/orders/schema/schema-0", ROOT / "sales.DB/x/v1.metadata.json"]
    files.append(ROOT / "shop/inner.db/t/metadata/v1.metadata.json")
    for at in files:
        store.put(at, b"paimon")
    assert catalog.namespaces() == [SHOP]
    assert catalog.namespaces(SHOP) == []
    assert catalog.names("table", SHOP) == [ORDERS]
    for namespace in (("sales.db",), ("new.db",), ("shop", "inner.db")):
        with pytest.raises(InvalidInput):
            catalog.create_namespace(namespace, {})
        with pytest.raises(LakeplaneError):
            catalog.drop_namespace(namespace)
        with pytest.raises(LakeplaneError):
            a_table(catalog, Name(namespace, "orders"))
    catalog.drop("table", ORDERS)
    catalog.drop_namespace(SHOP)
    assert [store.read(at) for at in files] == [b"paimon"] * 3


@pytest.mark.parametrize("folder", ["dt=2020%2F01", "v1.2", "a:b", "back\u00a0", "tmp.parquet", "x\u202ey"])
def test_directories_of_others_do_not_break_listings(folder: str) -> None:
    store, catalog = a_shop()
    for at in (ROOT / f"{folder}/file", ROOT / f"shop/{folder}/file") if "\u202e" not in folder else ():
        store.put(at, b"")
    assert catalog.namespaces() == [SHOP]
    assert catalog.namespaces(SHOP) == []
    assert catalog.names("table", SHOP) == [ORDERS]


def test_a_dropped_table_leaves_a_name_that_a_namespace_can_have() -> None:
    store, catalog = a_shop()
    store.put(ROOT / "shop/orders/data/dt=1/part.parquet", b"rows")
    catalog.drop("table", ORDERS)
    assert catalog.namespaces(SHOP) == []
    inner = ("shop", "orders")
    catalog.create_namespace(inner, {})
    assert catalog.namespaces(SHOP) == [inner]
    assert catalog.namespaces(inner) == []
    with pytest.raises(AlreadyExists):
        a_table(catalog, ORDERS)
    catalog.drop_namespace(inner)
    assert catalog.namespaces(SHOP) == []


def test_a_store_that_cannot_put_if_absent_is_refused() -> None:
    with pytest.raises(CatalogCannot, match="two writers would lose commits"):
        catalog_on(MemoryStore(ROOT, can_put_if_absent=False))


def test_a_store_that_only_pretends_to_put_if_absent_is_refused_before_the_first_change() -> None:
    """Some stores that speak S3's protocol ignore the condition: of two writers both would win."""

    class Pretending(MemoryStore):
        def put(self, at: Location, data: bytes, **conditions: object) -> str | None:
            del conditions
            return super().put(at, data)

    store, _ = a_shop()
    there = versions_in(store)
    pretending = Pretending(ROOT)
    for each in store.files(ROOT):
        pretending.put(each.location, store.read(each.location))
    for do in (
        lambda catalog: changed(catalog, ORDERS, property_set("a", "1")),
        lambda catalog: a_table(catalog, Name(SHOP, "new")),
        lambda catalog: catalog.create_namespace(("new",), {}),
    ):
        with pytest.raises(StoreCannot, match="ignores put-if-absent"):
            do(catalog_on(pretending))
    assert versions_in(pretending) == there
    assert len(list(pretending.files(ROOT))) == len(list(store.files(ROOT)))


def test_a_table_stays_in_its_place() -> None:
    _, catalog = a_shop()
    for update in (u.SetLocation("memory://lake/shop/orders2"), u.SetLocation("memory://lake/shop")):
        with pytest.raises(InvalidChange):
            change(catalog, ORDERS, update)
    with pytest.raises(InvalidChange):
        change(catalog, ORDERS, property_set("write.metadata.path", "memory://lake/elsewhere"))


# Tables of HadoopCatalog


def a_hadoop_table(folder: Path, versions: int = 3) -> None:
    """What Iceberg's HadoopCatalog leaves in a directory: no state of namespaces, a hint, checksums."""
    store = MemoryStore(parse_location("memory://lake"))
    catalog = FilesystemCatalog(
        parse_location("memory://lake"), store, surroundings=REAL, open_store=lambda _: store
    )
    namespace = a_namespace(catalog)
    name = Name(namespace, "x")
    a_table(catalog, name)
    metadata = folder / "metadata"
    metadata.mkdir(parents=True)
    for number in range(1, versions + 1):
        document = json.loads(serialize_metadata(table_of(catalog, name)))
        document["location"] = f"file:{folder}"
        document["metadata-log"] = []
        document["properties"] = {"version": str(number)}
        (metadata / f"v{number}.metadata.json").write_text(json.dumps(document))
        (metadata / f".v{number}.metadata.json.crc").write_bytes(b"crc")
    (metadata / "version-hint.text").write_text(str(versions))
    (metadata / ".version-hint.text.crc").write_bytes(b"crc")


def local(folder: Path) -> FilesystemCatalog:
    root = parse_location(str(folder))
    store = LocalStore(root)
    return FilesystemCatalog(root, store, surroundings=REAL, open_store=lambda _: store)


def test_a_warehouse_of_hadoop_catalog_is_opened_and_written(tmp_path: Path) -> None:
    for path in ("db/orders", "db/data", "db/metadata", "db/inner/deep/lines"):
        a_hadoop_table(tmp_path / path)
    (tmp_path / "empty").mkdir()
    catalog = local(tmp_path)
    assert catalog.namespaces() == [("db",), ("empty",)]
    assert catalog.namespaces(("db",)) == [("db", "inner")]
    assert catalog.namespaces(("db", "inner")) == [("db", "inner", "deep")]
    assert [name.name for name in catalog.names("table", ("db",))] == ["data", "metadata", "orders"]
    name = Name(("db", "inner", "deep"), "lines")
    assert catalog.names("table", name.namespace) == [name]
    assert table_of(catalog, name).properties["version"] == "3"
    entry = changed(catalog, name, property_set("ours", "1"))
    assert parse_location(entry.metadata_location).name == "v4.metadata.json"
    assert (tmp_path / "db/inner/deep/lines/metadata/version-hint.text").read_text() == "4"
    catalog.change_namespace(("db",), {"owner": "ann"})
    assert catalog.namespace(("db",)) == {"owner": "ann"}
    assert len(catalog.names("table", ("db",))) == 3
    catalog.drop_namespace(("empty",))
    assert catalog.namespaces() == [("db",)]


def test_a_table_and_a_view_and_a_namespace_do_not_share_a_name() -> None:
    _, catalog = a_shop()
    a_view(catalog, Name(SHOP, "totals"))
    for name in ("orders", "totals"):
        with pytest.raises(AlreadyExists):
            catalog.create_namespace(("shop", name), {})
    catalog.create_namespace(("shop", "inner"), {})
    with pytest.raises(AlreadyExists):
        a_table(catalog, Name(SHOP, "inner"))
    with pytest.raises(AlreadyExists):
        a_view(catalog, Name(SHOP, "inner"))


# Many processes


def _write(folder: str, commits: int, seed: int) -> list[int]:
    catalog, chance = local(Path(folder)), random.Random(seed)
    acknowledged = []
    for _ in range(commits):
        while True:
            requirements, updates, snapshot_id = append(table_of(catalog, ORDERS))
            outcome = change(catalog, ORDERS, *updates, requirements=requirements)
            if isinstance(outcome, Committed):
                break
            assert isinstance(outcome, Conflict), outcome
            time.sleep(chance.random() / 100)
        acknowledged.append(snapshot_id)
    return acknowledged


@pytest.mark.parametrize(("properties", "commits"), [({}, 50), (FORGETFUL, 20)], ids=["keeping", "forgetful"])
def test_every_commit_of_many_processes_is_there_once(
    tmp_path: Path, properties: dict[str, str], commits: int
) -> None:
    catalog = local(tmp_path)
    catalog.create_namespace(SHOP, {})
    keeping = {"write.metadata.previous-versions-max": "1000"}
    a_table(catalog, ORDERS, properties={**keeping, **properties})
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        writers = [pool.submit(_write, str(tmp_path), commits, seed) for seed in range(4)]
        # A writer that fails is raised here; who waits for what it did not do waits for ever.
        found = [snapshot_id for writer in writers for snapshot_id in writer.result()]
    table = table_of(catalog, ORDERS)
    assert table.current_snapshot_id is not None
    history = [snapshot.snapshot_id for snapshot in table.ancestors(table.current_snapshot_id)]
    assert sorted(history) == sorted(found)
    assert len(history) == len(table.snapshots) == 4 * commits
    files = [parse_location(entry.metadata_file).name for entry in table.metadata_log]
    first = 1 if not properties else 4 * commits
    assert files == [f"v{number}.metadata.json" for number in range(first, 4 * commits + 1)]
    left = versions_in(LocalStore(), parse_location(str(tmp_path / "shop/orders/metadata")))
    assert set(files) <= set(left)
    assert len(left) == len(files) + 1, "nothing but the log and the present version"
