"""The lake at the front door: everything in it is found, made, changed and dropped by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types

import lakeplane as lp
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CommitConflict,
    InvalidChange,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
    StorageError,
)
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, Field, List
from tests.commits.worlds import append
from tests.interop.peers import ask

Opener = Callable[[], lp.Lake]


@pytest.fixture(params=["filesystem", "memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a lake; with names in memory, always the same one."""
    if request.param == "filesystem":
        return lambda: lp.connect(tmp_path / "wh")
    if request.param == "sqlite":
        return lambda: lp.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "wh")
    lake = lp.connect("memory:", warehouse=tmp_path / "wh")
    return lambda: lake


@pytest.fixture
def lake(opener: Opener) -> lp.Lake:
    lake = opener()
    lake.create_namespace("shop", {"owner": "ann"})
    return lake


@pytest.fixture
def pointed(tmp_path: Path) -> lp.Lake:
    """A lake in which names are only names."""
    lake = lp.connect("memory:", warehouse=tmp_path / "wh")
    lake.create_namespace("shop")
    return lake


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_namespaces_come_and_go(lake: lp.Lake, opener: Opener) -> None:
    lake.create_namespace("shop.north")
    lake.create_namespace(("shop", "south"), {"a": "b"})
    again = opener()
    assert again.namespaces() == ["shop"]
    assert again.namespaces("shop") == ["shop.north", "shop.south"]
    assert dict(again.namespace("shop.south")) == {"a": "b"}
    lake.change_namespace("shop", {"city": "Oslo"}, ["owner", "never"])
    assert dict(again.namespace("shop")) == {"city": "Oslo"}
    with pytest.raises(NamespaceNotEmpty, match="shop"):
        lake.drop_namespace("shop")
    lake.drop_namespace("shop.north")
    lake.drop_namespace("shop.south")
    lake.drop_namespace("shop")
    assert again.namespaces() == []


@pytest.mark.parametrize(
    ("do", "kind", "problem"),
    [
        (lambda lake: lake.create_namespace("shop"), AlreadyExists, "shop"),
        (lambda lake: lake.create_namespace(""), InvalidInput, "root"),
        (lambda lake: lake.namespace("nope"), NotFound, "no namespace nope"),
        (lambda lake: lake.namespaces("nope"), NotFound, "no namespace nope"),
        (lambda lake: lake.change_namespace("nope", {"a": "b"}), NotFound, "no namespace nope"),
        (lambda lake: lake.drop_namespace("nope"), NotFound, "no namespace nope"),
        (lambda lake: lake.tables("nope"), NotFound, "no namespace nope"),
        (lambda lake: lake.views("nope"), NotFound, "no namespace nope"),
        (lambda lake: lake.table("shop.nope"), NotFound, "no table shop.nope"),
        (lambda lake: lake.view("shop.nope"), NotFound, "no view shop.nope"),
        (lambda lake: lake.drop_table("shop.nope"), NotFound, "no table shop.nope"),
        (lambda lake: lake.drop_table("shop.nope", purge=True), NotFound, "no table shop.nope"),
        (lambda lake: lake.drop_view("shop.nope"), NotFound, "no view shop.nope"),
        (lambda lake: lake.create_table("nope.t", "id BIGINT"), NotFound, "no namespace nope"),
        (lambda lake: lake.create_view("nope.v", "SELECT 1", "a INT"), NotFound, "no namespace nope"),
        (lambda lake: lake.create_table("t", "id BIGINT"), InvalidInput, "Write namespace.name"),
        (lambda lake: lake.create_table("shop.a/b", "id BIGINT"), InvalidInput, "a/b"),
        (lambda lake: lake.create_table("shop.`..`", "id BIGINT"), InvalidInput, ".."),
        (lambda lake: lake.create_table("shop.t", "id BIGINT", using="paimon"), InvalidInput, "Use iceberg"),
        (lambda lake: lake.create_table("shop.t", 5), InvalidInput, "not a schema: int. Give DDL"),
        (lambda lake: lake.create_table("shop.t", "id NOPE"), LakeplaneError, "NOPE"),
        (lambda lake: lake.create_table("shop.t", "id INT", partition_by=["days(id)"]), LakeplaneError, "id"),
        (lambda lake: lake.create_table("shop.t", "id INT", partition_by=["nope"]), LakeplaneError, "nope"),
        (lambda lake: lake.create_table("shop.t", "id BIGINT", sort_by=["nope"]), LakeplaneError, "nope"),
        (
            lambda lake: lake.create_table("shop.t", "id BIGINT", properties={"format-version": "9"}),
            InvalidChange,
            "9",
        ),
        (
            lambda lake: lake.create_table("shop.t", "id BIGINT", properties={"format-version": "two"}),
            InvalidInput,
            "not a format version: 'two'",
        ),
        (
            lambda lake: lake.create_table("shop.t", "id BIGINT, id INT"),
            LakeplaneError,
            "id",
        ),
        (lambda lake: lake.register_table("shop.t", "/etc/passwd"), LakeplaneError, "/etc/passwd"),
        (lambda lake: lake.rename_table("shop.nope", "shop.x"), LakeplaneError, "shop.nope"),
        (lambda lake: lake.rename_view("shop.nope", "shop.x"), LakeplaneError, "shop.nope"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_with_names(
    lake: lp.Lake, do: Callable[[lp.Lake], object], kind: type[LakeplaneError], problem: str
) -> None:
    with pytest.raises(kind) as failure:
        do(lake)
    assert problem in str(failure.value)
    assert lake.tables() == []
    assert lake.views() == []


def test_a_table_is_made_from_ddl_with_everything(lake: lp.Lake, opener: Opener) -> None:
    made = lake.create_table(
        "shop.orders",
        "id BIGINT NOT NULL, at TIMESTAMP COMMENT 'when', place STRUCT<x: INT>, tags ARRAY<STRING>",
        partition_by=["days(at)", "bucket(16, id)"],
        sort_by=["id DESC NULLS LAST"],
        properties={"format-version": "3", "owner": "ann"},
    )
    table = opener().table("shop.orders")
    assert table.metadata == made.metadata
    assert table.metadata.format_version == 3
    assert dict(table.properties) == {"owner": "ann"}
    assert [(field.name, field.required, field.doc) for field in table.schema.fields][:2] == [
        ("id", True, None),
        ("at", False, "when"),
    ]
    assert [field.name for field in table.metadata.partition_spec.fields] == ["at_day", "id_bucket"]
    assert table.metadata.sort_order.fields[0].source_id == 1
    assert table.snapshots == ()


SCHEMAS: list[Any] = [
    "id BIGINT NOT NULL, name STRING",
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]),
    types.StructType(
        [
            types.StructField("id", types.LongType(), nullable=False),
            types.StructField("name", types.StringType()),
        ]
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["ddl", "arrow", "spark"])
def test_a_schema_may_come_in_many_forms(pointed: lp.Lake, schema: Any) -> None:
    table = pointed.create_table("shop.t", schema)
    assert [(f.id, f.name, str(f.type), f.required) for f in table.schema.fields] == [
        (1, "id", "long", True),
        (2, "name", "string", False),
    ]


def test_a_spark_schema_keeps_what_ddl_cannot_say(pointed: lp.Lake) -> None:
    tags = types.ArrayType(types.StringType(), containsNull=False)
    table = pointed.create_table("shop.t", types.StructType([types.StructField("tags", tags)]))
    assert table.schema.fields[0].type == List(2, STRING, element_required=True)


def test_a_schema_of_ours_gets_ids_of_its_own(pointed: lp.Lake) -> None:
    table = pointed.create_table(
        "shop.t", Schema((Field(77, "id", LONG),)), partition_by=["id"], sort_by=["id"]
    )
    assert table.schema.fields[0].id == 1
    assert table.metadata.partition_spec.fields[0].source_id == 1
    assert table.metadata.sort_order.fields[0].source_id == 1


def test_a_name_is_taken_by_tables_and_views_together(lake: lp.Lake) -> None:
    lake.create_table("shop.a", "id BIGINT")
    lake.create_view("shop.b", "SELECT 1 AS x", "x INT")
    for taken in ("shop.a", "shop.b"):
        with pytest.raises(AlreadyExists, match=rf"the name {taken} is taken.*Drop it first"):
            lake.create_table(taken, "id BIGINT")
        with pytest.raises(AlreadyExists, match=rf"the name {taken} is taken"):
            lake.create_view(taken, "SELECT 1 AS x", "x INT")
    assert (lake.tables(), lake.views()) == (["shop.a"], ["shop.b"])


def test_everything_in_all_namespaces_is_listed(lake: lp.Lake) -> None:
    lake.create_namespace("shop.north")
    lake.create_namespace("attic")
    for name in ("shop.north.t", "shop.z", "shop.a", "attic.t"):
        lake.create_table(name, "id BIGINT")
        lake.create_view(f"{name}_view", "SELECT 1 AS x", "x INT")
    assert lake.tables() == ["attic.t", "shop.a", "shop.z", "shop.north.t"]
    assert lake.tables("shop") == ["shop.a", "shop.z"]
    assert lake.tables(("shop", "north")) == ["shop.north.t"]
    assert len(lake.views()) == 4


def test_odd_names_are_quoted_and_read_again(lake: lp.Lake) -> None:
    lake.create_table("shop.`größe & co`", "id BIGINT")
    assert lake.tables() == ["shop.`größe & co`"]
    assert lake.table(lake.tables()[0]).name == "shop.`größe & co`"


def test_a_view_is_made_and_replaced(lake: lp.Lake, opener: Opener) -> None:
    view = lake.create_view("shop.v", "SELECT 1 AS a", "a INT", properties={"owner": "ann"})
    assert (view.name, view.sql(), dict(view.properties)) == ("shop.v", "SELECT 1 AS a", {"owner": "ann"})
    lake.create_view("shop.v", "SELECT 'x' AS a", "a STRING", replace=True, properties={"more": "1"})
    view = opener().view("shop.v")
    assert view.sql("SPARK") == "SELECT 'x' AS a"
    assert str(view.schema.fields[0].type) == "string"
    assert dict(view.properties) == {"owner": "ann", "more": "1"}
    assert len(view.metadata.versions) == 2
    assert view.metadata.current_version.default_namespace == ("shop",)
    lake.create_view("shop.new", "SELECT 1 AS a", "a INT", replace=True, default_namespace="other")
    assert lake.view("shop.new").metadata.current_version.default_namespace == ("other",)
    with pytest.raises(InvalidInput, match=r"shop\.v: no definition for trino\. There is one for spark"):
        view.sql("trino")
    lake.drop_view("shop.v")
    assert lake.views() == ["shop.new"]
    assert repr(view) == "View('shop.v')"


def test_replacing_a_view_by_itself_makes_no_version(lake: lp.Lake) -> None:
    for _ in range(3):
        view = lake.create_view("shop.v", "SELECT 1 AS a", "a INT", replace=True)
    assert len(view.metadata.versions) == 1


def test_a_dropped_table_leaves_its_data_and_its_name(lake: lp.Lake, tmp_path: Path) -> None:
    old = lake.create_table("shop.t", "id BIGINT")
    data = tmp_path / "wh/shop/t/data/1.parquet"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"rows")
    lake.drop_table("shop.t")
    assert lake.tables() == []
    assert data.exists()
    new = lake.create_table("shop.t", "other STRING")
    assert new.metadata.table_uuid != old.metadata.table_uuid
    with pytest.raises(LakeplaneError):
        old.create_tag("t")
    assert lake.table("shop.t").refs == {}


def test_purging_deletes_what_the_metadata_names_and_nothing_else(lake: lp.Lake, tmp_path: Path) -> None:
    """Dropping `test` with purge took `test2` along elsewhere, by a prefix."""
    for name in ("shop.test", "shop.test2"):
        table = lake.create_table(name, "id BIGINT")
        for turn in ("1", "2"):
            with table.evolve() as change:
                change.set_properties(turn=turn)
    home = tmp_path / "wh/shop"
    (home / "test/data").mkdir()
    (home / "test/data/1.parquet").write_bytes(b"not ours to know")
    kept = {each for each in files(home) if not each.startswith("test/metadata")}
    named = Path(lake.table("shop.test").metadata_location).name
    lake.drop_table("shop.test", purge=True)
    assert lake.tables() == ["shop.test2"]
    assert kept <= files(home)
    assert f"test/metadata/{named}" not in files(home)
    lake.table("shop.test2").refresh()


def test_purging_is_refused_where_it_could_take_what_is_not_owned(lake: lp.Lake) -> None:
    lake.create_table("shop.shared", "id BIGINT", properties={"gc.enabled": "False"})
    table = lake.create_table("shop.used", "id BIGINT")
    append(lake._catalog, table._entry.name, 1)
    with pytest.raises(CatalogCannot, match=r"shop\.shared: gc\.enabled is false.*set gc\.enabled=true"):
        lake.drop_table("shop.shared", purge=True)
    with pytest.raises(InvalidMetadata, match="no Avro file"):  # nothing tells what it owns
        lake.drop_table("shop.used", purge=True)
    assert lake.tables() == ["shop.shared", "shop.used"]
    lake.drop_table("shop.used")


def test_places_that_are_written_from_the_table_on_are_purged(pointed: lp.Lake, tmp_path: Path) -> None:
    properties = {"write.data.path": "rows", "write.metadata.path": "files"}
    pointed.create_table("shop.t", "id BIGINT", properties=properties)
    assert files(tmp_path / "wh/shop/t/files")
    pointed.drop_table("shop.t", purge=True)
    assert files(tmp_path / "wh") == set()


def test_purging_a_registered_table_spares_the_files_of_the_one_it_came_from(
    pointed: lp.Lake, tmp_path: Path
) -> None:
    old = pointed.create_table("shop.old", "id BIGINT")
    with old.evolve() as change:
        change.set_properties(a="1")
    with old.evolve() as change:
        change.set_location(str(tmp_path / "wh/elsewhere"))
    pointed.register_table("shop.twin", old.metadata_location)
    before = {each for each in files(tmp_path / "wh") if "shop/old/" in each}
    pointed.drop_table("shop.old")
    pointed.drop_table("shop.twin", purge=True)
    assert {each for each in files(tmp_path / "wh") if "shop/old/" in each} == before


def test_a_table_of_two_names_is_purged_with_the_last_of_them(pointed: lp.Lake, tmp_path: Path) -> None:
    """One table was registered under two names, and purging one of them took the rows of the other."""
    pointed.create_namespace("shop.deep")
    one = pointed.create_table("shop.one", "id BIGINT")
    pointed.create_table("shop.other", "id BIGINT")
    pointed.register_table("shop.deep.two", one.metadata_location)
    before = files(tmp_path / "wh")
    with pytest.raises(
        CatalogCannot, match=r"shop\.one: shop\.deep\.two is the same table under another name"
    ):
        pointed.drop_table("shop.one", purge=True)
    assert files(tmp_path / "wh") == before
    pointed.drop_table("shop.one")
    pointed.drop_table("shop.deep.two", purge=True)
    assert not any("shop/one" in each for each in files(tmp_path / "wh"))


def test_a_copied_table_is_not_purged_at_the_cost_of_the_one_it_was_copied_from(tmp_path: Path) -> None:
    """The metadata of a copied directory names the files of the original."""
    lake = lp.connect(str(tmp_path / "wh"))
    lake.create_namespace("shop")
    lake.create_table("shop.old", "id BIGINT")
    shutil.copytree(tmp_path / "wh/shop/old", tmp_path / "wh/shop/copy")
    before = files(tmp_path / "wh")
    with pytest.raises(CatalogCannot, match=r"shop\.copy: shop\.old is the same table"):
        lake.drop_table("shop.copy", purge=True)
    assert files(tmp_path / "wh") == before


def test_a_purge_does_not_take_the_files_of_a_table_that_got_another_name(
    pointed: lp.Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The name was dropped of one table, and the files were deleted of another one that lived on."""
    pointed.create_table("shop.t", "id BIGINT")
    drop = type(pointed._catalog).drop

    def meanwhile(*given: object) -> None:
        pointed.rename_table("shop.t", "shop.kept")
        pointed.create_table("shop.t", "id BIGINT", location=str(tmp_path / "wh/other"))
        drop(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(type(pointed._catalog), "drop", meanwhile)
    with pytest.raises(CommitConflict, match=r"shop\.t was changed or replaced before it was dropped"):
        pointed.drop_table("shop.t", purge=True)
    assert pointed.tables() == ["shop.kept", "shop.t"]
    for name in pointed.tables():
        pointed.table(name)


def test_a_purge_that_fails_half_way_says_that_the_name_is_gone(
    pointed: lp.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pointed.create_table("shop.t", "id BIGINT")
    store = pointed._catalog.store_for(table._entry)

    def fail(*_: object) -> None:
        raise StorageError("503")

    monkeypatch.setattr(type(store), "delete", fail)
    with pytest.raises(StorageError, match=r"shop\.t: the table is dropped, but not all.*503.*shop/t"):
        pointed.drop_table("shop.t", purge=True)
    assert pointed.tables() == []


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The home of a table that PyIceberg made, with two snapshots, next to files of somebody else."""
    ask("pyiceberg_hadoop_table", str(tmp_path / "wh"))
    home = tmp_path / "wh/db/orders"
    (home / "data/not named.parquet").write_bytes(b"of nobody knows whom")
    for beside in ("db/orders2/data/1.parquet", "db/orders.parquet", "other/1.parquet"):
        place = tmp_path / "wh" / beside
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"of somebody else")
    return home


def others(home: Path) -> set[str]:
    """What is left when all files that the table names are gone."""
    known = {"not named.parquet", "version-hint.text"}
    named = {each for each in files(home) if Path(each).name not in known}
    # One metadata file of PyIceberg is the same as the copy that a directory of tables has.
    return files(home.parent.parent) - {f"db/orders/{each}" for each in named}


def test_purging_a_table_with_rows_deletes_its_files_and_no_others(theirs: Path) -> None:
    kept = others(theirs)
    rows = list(theirs.glob("data/**/*.parquet"))
    assert len(rows) == 3
    lake = lp.connect("memory:", warehouse=theirs.parent.parent)
    lake.create_namespace("db")
    newest = max(theirs.glob("metadata/0*.metadata.json"))
    lake.register_table("db.orders", str(newest))
    lake.drop_table("db.orders", purge=True)
    assert lake.tables() == []
    # The copy of its metadata is not named by the metadata.
    assert files(theirs.parent.parent) == kept | {"db/orders/metadata/v7.metadata.json"}


def test_purging_a_table_in_a_directory_deletes_its_files_and_no_others(theirs: Path) -> None:
    kept = others(theirs)
    lake = lp.connect(theirs.parent.parent)
    lake.drop_table("db.orders", purge=True)
    assert lake.tables() == []
    left = files(theirs.parent.parent)
    assert kept - {"db/orders/metadata/version-hint.text"} <= left
    assert not [each for each in left if each.endswith(".avro")]
    assert [each for each in left if each.startswith("db/orders/data")] == [
        "db/orders/data/not named.parquet"
    ]


@pytest.mark.parametrize("broken", ["snap-*.avro", "*-m0.avro"])
def test_a_table_that_cannot_be_read_whole_is_not_dropped_by_a_purge(theirs: Path, broken: str) -> None:
    for how in (b"", b"nonsense", None):
        lake = lp.connect("memory:", warehouse=theirs.parent.parent)
        lake.create_namespace("db")
        lake.register_table("db.orders", str(max(theirs.glob("metadata/0*.metadata.json"))))
        place = min(theirs.glob(f"metadata/{broken}"))
        whole = place.read_bytes()
        if how is None:
            place.unlink()
        else:
            place.write_bytes(how)
        before = files(theirs)
        with pytest.raises((InvalidMetadata, StorageError), match=place.name):
            lake.drop_table("db.orders", purge=True)
        assert lake.tables() == ["db.orders"]
        assert files(theirs) == before
        place.write_bytes(whole)


def test_purging_spares_rows_that_lie_elsewhere(theirs: Path, tmp_path: Path) -> None:
    """Metadata that was copied, or files that were added where they lay, belong to somebody else."""
    lake = lp.connect("memory:", warehouse=tmp_path / "wh")
    lake.create_namespace("db")
    table = lake.register_table("db.orders", str(max(theirs.glob("metadata/0*.metadata.json"))))
    with table.evolve() as change:
        change.set_location(str(tmp_path / "wh/moved"))
    before = files(theirs)
    assert files(tmp_path / "wh/moved")
    lake.drop_table("db.orders", purge=True)
    assert files(theirs) == before
    assert files(tmp_path / "wh/moved") == set()


def test_a_table_is_registered_by_its_metadata_file(lake: lp.Lake) -> None:
    table = lake.create_table("shop.t", "id BIGINT", properties={"a": "1"})
    with pytest.raises(AlreadyExists, match=r"shop\.t is taken"):
        lake.register_table("shop.t", table.metadata_location)
    with pytest.raises((InvalidMetadata, StorageError), match="nothing"):
        lake.register_table("shop.other", table.location + "/metadata/nothing.metadata.json")
    assert lake.tables() == ["shop.t"]


def test_a_dropped_table_comes_back_by_registering(pointed: lp.Lake) -> None:
    table = pointed.create_table("shop.t", "id BIGINT")
    pointed.drop_table("shop.t")
    assert pointed.register_table("shop.t", table.metadata_location).metadata == table.metadata


def test_a_table_dropped_from_a_directory_comes_back_by_its_copy(tmp_path: Path) -> None:
    lake = lp.connect(tmp_path)
    lake.create_namespace("shop")
    table = lake.create_table("shop.t", "id BIGINT")
    lake.drop_table("shop.t")
    [copy] = (tmp_path / "shop/t/metadata").glob("dropped-*")
    assert lake.register_table("shop.t", str(copy)).metadata == table.metadata
    with lake.table("shop.t").evolve() as change:
        change.set_properties(a="1")


def test_renaming_moves_a_name_and_no_file(pointed: lp.Lake) -> None:
    table = pointed.create_table("shop.a", "id BIGINT")
    pointed.create_view("shop.v", "SELECT 1 AS x", "x INT")
    pointed.create_namespace("attic")
    pointed.rename_table("shop.a", "attic.b")
    pointed.rename_view("shop.v", "attic.v")
    assert (pointed.tables(), pointed.views()) == (["attic.b"], ["attic.v"])
    assert pointed.table("attic.b").metadata == table.metadata
    with pytest.raises(AlreadyExists, match=r"attic\.v"):
        pointed.rename_table("attic.b", "attic.v")
    with pytest.raises(NotFound, match="no namespace nope"):
        pointed.rename_table("attic.b", "nope.b")
    with pytest.raises(NotFound):
        table.create_tag("t", 1)


def test_a_directory_cannot_rename_and_says_what_can(tmp_path: Path) -> None:
    lake = lp.connect(tmp_path)
    lake.create_namespace("shop")
    lake.create_table("shop.a", "id BIGINT")
    with pytest.raises(CatalogCannot, match=r"rename the table shop\.a to shop\.b.*sql or rest catalog"):
        lake.rename_table("shop.a", "shop.b")
    with pytest.raises(InvalidChange, match=r"location: .*Leave the location out"):
        lake.create_table("shop.c", "id BIGINT", location=str(tmp_path / "else"))


def test_a_location_may_be_chosen_where_names_are_only_names(pointed: lp.Lake, tmp_path: Path) -> None:
    place = str(tmp_path / "wh/chosen")
    assert pointed.create_table("shop.t", "id BIGINT", location=place).location == place
    pointed.create_namespace("far", {"location": str(tmp_path / "wh/faraway")})
    assert pointed.create_table("far.t", "id BIGINT").location == str(tmp_path / "wh/faraway/t")


def test_a_transaction_publishes_all_or_nothing(pointed: lp.Lake) -> None:
    for name in ("shop.a", "shop.b"):
        pointed.create_table(name, "id BIGINT")
    with pointed.transaction() as work:
        work.evolve("shop.a").add_column("note", "STRING")
        work.evolve("shop.b").add_column("note", "STRING")
        work.evolve("shop.a").set_properties(x="1")
    assert [len(pointed.table(name).schema.fields) for name in ("shop.a", "shop.b")] == [2, 2]
    assert pointed.table("shop.a").properties["x"] == "1"
    with pytest.raises(InvalidChange, match="nope"), pointed.transaction() as work:
        work.evolve("shop.a").add_column("more", "STRING")
        work.evolve("shop.b").drop_column("nope")
    assert len(pointed.table("shop.a").schema.fields) == 2


def test_a_transaction_that_fails_or_does_nothing_changes_nothing(pointed: lp.Lake) -> None:
    pointed.create_table("shop.a", "id BIGINT")
    before = pointed.table("shop.a").metadata_location
    with pytest.raises(KeyError), pointed.transaction() as work:
        work.evolve("shop.a").add_column("note", "STRING")
        raise KeyError
    with pointed.transaction() as work:
        work.evolve("shop.a")
    with pointed.transaction():
        pass
    with pytest.raises(NotFound, match=r"shop\.nope"), pointed.transaction() as work:
        work.evolve("shop.nope").set_properties(a="1")
    assert pointed.table("shop.a").metadata_location == before


def test_a_directory_commits_one_table_at_a_time(tmp_path: Path) -> None:
    lake = lp.connect(tmp_path)
    lake.create_namespace("shop")
    for name in ("shop.a", "shop.b"):
        lake.create_table(name, "id BIGINT")
    with lake.transaction() as work:
        work.evolve("shop.a").set_properties(x="1")
    assert lake.table("shop.a").properties["x"] == "1"
    with (
        pytest.raises(CatalogCannot, match=r"one table at a time.*sql or rest catalog"),
        lake.transaction() as work,
    ):
        work.evolve("shop.a").set_properties(x="2")
        work.evolve("shop.b").set_properties(x="2")
    assert lake.table("shop.a").properties["x"] == "1"


def test_two_transactions_on_one_column_do_not_both_win(pointed: lp.Lake) -> None:
    pointed.create_table("shop.a", "id BIGINT, note STRING")
    with pytest.raises((CommitConflict, InvalidChange)), pointed.transaction() as work:
        work.evolve("shop.a").rename_column("note", "remark")
        with pointed.table("shop.a").evolve() as change:
            change.drop_column("note")
    assert [field.name for field in pointed.table("shop.a").schema.fields] == ["id"]


def test_a_lake_says_what_it_is(lake: lp.Lake) -> None:
    assert repr(lake).startswith("Lake(")
