"""Tables in directories, as Iceberg's HadoopCatalog keeps them: ours for PyIceberg, and its files for us."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.names import Name
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.snapshots import Ref
from lakeplane.model.location import parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.testing.catalog_subject import a_table, appended, as_table, changed, property_set, table_of
from tests.catalog.test_conformance import REAL
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

    from lakeplane.iceberg.metadata import TableMetadata

ORDERS = Name(("db",), "orders")


def catalog_in(folder: Path) -> FilesystemCatalog:
    root = parse_location(str(folder))
    store = LocalStore(root)
    return FilesystemCatalog(root, store, surroundings=REAL, open_store=lambda _: store)


def facts(table: TableMetadata, metadata_location: str) -> dict[str, object]:
    """The same words as those of the script, without rows."""
    return {
        "metadata-location": metadata_location,
        "uuid": table.table_uuid,
        "format-version": table.format_version,
        "location": table.location,
        "properties": table.properties,
        "columns": [[field.id, field.name, str(field.type)] for field in table.schema.fields],
        "snapshots": [snapshot.snapshot_id for snapshot in table.snapshots],
        "refs": {name: ref.snapshot_id for name, ref in table.refs.items()},
        "log": [entry.metadata_file for entry in table.metadata_log],
        "rows": None,
    }


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_pyiceberg_opens_directories_of_our_tables(tmp_path: Path, version: str) -> None:
    catalog = catalog_in(tmp_path)
    catalog.create_namespace(("db",), {"owner": "us"})
    a_table(catalog, ORDERS, properties={"format-version": version, "ü": "é"})
    appended(catalog, ORDERS)
    changed(catalog, ORDERS, property_set("write.metadata.compression-codec", "gzip"))
    plain = changed(catalog, ORDERS, property_set("write.metadata.compression-codec", "none"))
    last = changed(catalog, ORDERS, property_set("a", "1"))
    [directory, gzipped] = ask(
        "pyiceberg_static_tables", [[str(tmp_path / "db/orders"), False], [plain.metadata_location, False]]
    )
    assert plain.metadata_location.endswith(".gz.metadata.json")
    assert gzipped == facts(as_table(plain), plain.metadata_location)
    assert directory == facts(as_table(last), last.metadata_location)
    assert len(directory["log"]) == 4


def test_pyiceberg_opens_a_table_that_was_made_again_after_a_drop(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    catalog.create_namespace(("db",), {})
    a_table(catalog, ORDERS, properties={"is": "old"})
    changed(catalog, ORDERS, property_set("a", "1"))
    catalog.drop("table", ORDERS)
    new = a_table(catalog, ORDERS, properties={"is": "new"})
    [found] = ask("pyiceberg_static_tables", [[str(tmp_path / "db/orders"), False]])
    assert found == facts(as_table(new), new.metadata_location)


def test_we_open_and_write_a_directory_made_from_a_table_of_pyiceberg(tmp_path: Path) -> None:
    theirs = ask("pyiceberg_hadoop_table", str(tmp_path))
    catalog = catalog_in(tmp_path)
    assert catalog.namespaces() == [("db",)]
    assert catalog.names("table", ("db",)) == [ORDERS]
    table = table_of(catalog, ORDERS)
    assert table.table_uuid == theirs["uuid"]
    assert [snapshot.snapshot_id for snapshot in table.snapshots] == theirs["snapshots"]
    assert table.properties["owner"] == "them"
    tag = Ref(snapshot_id=theirs["snapshots"][0], type="tag")
    after = changed(catalog, ORDERS, property_set("owner", "us"), u.SetSnapshotRef("first", tag))
    assert parse_location(after.metadata_location).name == "v8.metadata.json"
    [found] = ask("pyiceberg_static_tables", [[str(tmp_path / "db/orders"), True]])
    assert found["metadata-location"] == after.metadata_location
    assert found["properties"]["owner"] == "us"
    assert found["snapshots"] == theirs["snapshots"]
    assert found["refs"] == {"main": theirs["snapshots"][1], "first": theirs["snapshots"][0]}
    assert found["rows"] == [1, 2, 3]
