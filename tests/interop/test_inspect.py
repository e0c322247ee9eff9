"""Metadata tables beside PyIceberg's: of tables that it has made, and of one with deletes, of ours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.ipc
import pytest

from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.model.types import LONG, STRING
from tests.iceberg.built import Listed, bounds, build, deletes, entries, with_metadata
from tests.interop.peers import ask

OF_A_SNAPSHOT = ("entries", "files", "data_files", "delete_files", "partitions")
OF_THE_TABLE = (
    *("snapshots", "history", "refs", "manifests", "metadata_log_entries"),
    *("all_manifests", "all_files", "all_data_files", "all_delete_files"),
)

ONLY_OURS = {
    # PyIceberg knows of no column that v3 brought, Java of all of them.
    *("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"),
}
ONLY_OURS_IN_ENTRIES = {*ONLY_OURS, "spec_id"}  # Java has it in both tables, PyIceberg in files only.
ONLY_THEIRS_WITHOUT_PARTITIONS = {"partition"}  # Java leaves out a struct without fields, as we do.

KEYS: dict[str, Callable[[Any], Any]] = {
    "entries": lambda row: (row["status"], row["data_file"]["file_path"]),
    "partitions": lambda row: (repr(sorted((row.get("partition") or {}).items())), row.get("spec_id")),
    "all_files": lambda row: (row["file_path"], row["file_size_in_bytes"]),
    "all_delete_files": lambda row: (row["file_path"], row["file_size_in_bytes"]),
    "all_data_files": lambda row: (row["file_path"], row["file_size_in_bytes"]),
}
"""PyIceberg keeps no order in these tables; in all others the order is compared, too."""


class Peer(NamedTuple):
    """One table of PyIceberg's, and the metadata tables that it has made of it."""

    metadata: TableMetadata
    location: str
    past: int | None
    tables: dict[str, str]

    def theirs(self, name: str) -> pa.Table:
        with pa.memory_map(self.tables[name]) as file:
            return pa.ipc.open_file(file).read_all()

    def ours(self, name: str) -> pa.Table:
        at = self.past if name.endswith("@") else None
        reading = Reading(read_many, ManifestCache())
        found = inspect(self.metadata, reading, name.rstrip("@"), at, metadata_location=self.location)
        found.validate(full=True)
        return found


def read_many(places: Any) -> list[bytes]:
    return [Path(place.removeprefix("file://")).read_bytes() for place in places]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Peer]:
    directory = tmp_path_factory.mktemp("inspect")
    others = {"deletes": with_deletes(directory)}
    answer = ask("pyiceberg_inspect", {"directory": str(directory), "others": others})
    return {
        name: Peer(
            parse_metadata(read_many([each["metadata"]])[0], source=each["metadata"]),
            each["metadata"],
            each["past"],
            each["tables"],
        )
        for name, each in answer.items()
    }


def with_deletes(directory: Path) -> str:
    """A table of two specs with deletes of both kinds, which PyIceberg reads and cannot write."""
    built = build(("id", LONG), ("region", STRING), by=("identity region",), name="deletes")
    location = f"file://{directory}/deletes"
    with_metadata(built, location=location)
    sizes = {"column_sizes": [(1, 40), (2, 41)]}  # without them, PyIceberg shows no entries
    data = [
        Listed(
            f"{location}/{name}",
            (region,),
            {1: bounds(LONG, -3, n), 2: bounds(STRING, "a", "ü")},
            n,
            more=sizes,
        )
        for n, (name, region) in enumerate([("a", "eu"), ("b", "us"), ("c", None)], 1)
    ]
    built.commit(entries(built.metadata, data))
    every = msgspec.structs.replace(built.metadata.partition_spec, spec_id=1, fields=())
    with_metadata(built, partition_specs=(built.metadata.partition_spec, every))
    named = Listed(f"{location}/p", ("eu",), rows=2, more={"referenced_data_file": f"{location}/a", **sizes})
    keys = {"equality_ids": [1], **sizes}
    local = Listed(f"{location}/e", ("us",), rows=3, content=EQUALITY_DELETES, more=keys)
    far = Listed(f"{location}/g", (), rows=4, content=EQUALITY_DELETES, more=keys)
    built.commit(deletes(built.metadata, [named, local]), deletes(built.metadata, [far], spec_id=1))
    place = f"{location}/metadata/v1.metadata.json"
    for path, content in {**built.files, place: serialize_metadata(built.metadata)}.items():
        file = Path(path.removeprefix("file://"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return place


def comparable(value: Any) -> Any:
    """A value without what PyIceberg's types leave out or cannot tell apart."""
    match value:
        case dt.datetime():  # its times are in UTC, without saying so
            return value.replace(tzinfo=None)
        case float() if value != value:  # noqa: PLR0124
            return "NaN"
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case list():
            return [comparable(each) for each in value]
        case _:
            return value


def rows(table: pa.Table, name: str) -> list[Any]:
    found = [comparable(row) for row in table.to_pylist()]
    key = KEYS.get(name.rstrip("@"))
    return sorted(found, key=key) if key else found


def without(rows: list[Any], columns: set[str]) -> list[Any]:
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]


def missing_maps(row: Any) -> Any:
    """A map that no writer has written: PyIceberg's entries (not its files) show it as an empty one."""
    maps = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    file = row["data_file"]
    return {**row, "data_file": {**file, **{name: file[name] or [] for name in maps}}}


@pytest.mark.parametrize("table", ["parts", "plain", "empty", "deletes"])
@pytest.mark.parametrize("name", OF_THE_TABLE)
def test_tables_of_the_whole_table_tell_what_pyiceberg_tells(
    peers: dict[str, Peer], table: str, name: str
) -> None:
    ours, theirs = peers[table].ours(name), peers[table].theirs(name)
    more, less = set(), set()
    if name.endswith("_files"):
        more = ONLY_OURS
        less = ONLY_THEIRS_WITHOUT_PARTITIONS if table in {"plain", "empty"} else set[str]()
    assert [each for each in ours.column_names if each not in more] == [
        each for each in theirs.column_names if each not in less
    ]
    assert without(rows(ours, name), more) == without(rows(theirs, name), less)


@pytest.mark.parametrize("table", ["parts", "plain", "deletes"])
@pytest.mark.parametrize("name", [*OF_A_SNAPSHOT, *(f"{each}@" for each in OF_A_SNAPSHOT)])
def test_tables_of_a_snapshot_tell_what_pyiceberg_tells(
    peers: dict[str, Peer], table: str, name: str
) -> None:
    ours, theirs = peers[table].ours(name), peers[table].theirs(name)
    less = ONLY_THEIRS_WITHOUT_PARTITIONS if table == "plain" else set[str]()
    if name.startswith("entries"):
        assert ours.column_names == theirs.column_names
        found, expected = rows(ours, name), rows(theirs, name)
        for each, given in ((found, ONLY_OURS_IN_ENTRIES), (expected, less)):
            each[:] = [
                missing_maps({**row, "data_file": without([row["data_file"]], given)[0]}) for row in each
            ]
        assert found == expected
        assert found
        return
    if name == "partitions@" and table == "parts":
        # Its partitions have the fields of specs of that snapshot; Java's those of all specs.
        later = {"id_bucket", "amount_trunc"}
        found = rows(ours, name)
        assert all(row["partition"][each] is None for row in found for each in later)
        expected = rows(theirs, name)
        cut = [{**row, "partition": without([row["partition"]], later)[0]} for row in found]
        assert sorted(cut, key=KEYS["partitions"]) == expected
        return
    more = ONLY_OURS if name.rstrip("@").endswith("files") else set[str]()
    assert [each for each in ours.column_names if each not in more] == [
        each for each in theirs.column_names if each not in less
    ]
    assert without(rows(ours, name), more) == without(rows(theirs, name), less)


def test_the_tables_that_are_compared_hold_what_they_should(peers: dict[str, Peer]) -> None:
    parts = peers["parts"]
    partition = parts.ours("files").schema.field("partition").type
    assert [each.name for each in partition] == ["region", "at_day", "id_bucket", "amount_trunc"]
    assert set(parts.ours("files")["spec_id"].to_pylist()) == {0, 1}
    assert set(parts.ours("entries")["status"].to_pylist()) == {0, 1}
    assert parts.ours("refs")["name"].to_pylist() == ["main", "audit", "first"]
    assert set(parts.ours("snapshots")["operation"].to_pylist()) == {"append", "overwrite"}
    metrics = parts.ours("files").schema.field("readable_metrics").type
    assert metrics.num_fields == 14
    assert parts.ours("files").num_rows < parts.ours("all_files").num_rows
    assert peers["plain"].ours("snapshots")["operation"].to_pylist()[-1] == "delete"
    assert sorted(peers["deletes"].ours("files")["content"].to_pylist()) == [0, 0, 0, 1, 2, 2]
    assert peers["deletes"].ours("delete_files").num_rows == 3
    assert 2 in peers["plain"].ours("entries")["status"].to_pylist()


@pytest.mark.parametrize("table", ["parts", "plain", "empty", "deletes"])
def test_arrow_types_are_those_of_pyiceberg_but_for_the_ones_where_java_has_others(
    peers: dict[str, Peer], table: str
) -> None:
    java = {
        pa.int8(): pa.int32(),  # content and status are integers
        pa.timestamp("ms"): pa.timestamp("us", "UTC"),
        pa.dictionary(pa.int32(), pa.string()): pa.string(),
        pa.large_string(): pa.string(),
        pa.large_binary(): pa.binary(),
        # A bound may be a part of a value only.
        pa.binary(4): pa.binary(),
    }
    for name in peers[table].tables:
        ours, theirs = peers[table].ours(name).schema, peers[table].theirs(name).schema
        assert_types(ours, theirs, java, name)


def assert_types(ours: Any, theirs: Any, java: dict[pa.DataType, pa.DataType], place: str) -> None:
    """What is in lists and maps may be null for PyIceberg, and may not for Java."""
    names = {each.name for each in ours}
    for field in theirs:
        if field.name not in names:
            assert field.name == "partition"
            continue
        mine, other = ours.field(field.name).type, field.type
        where = f"{place}.{field.name}"
        if pa.types.is_list(other):
            mine, other = mine.value_type, other.value_type
        if pa.types.is_struct(other):
            assert_types(mine, other, java, where)
        elif pa.types.is_map(other):
            assert (mine.key_type, mine.item_type) == (other.key_type, other.item_type), where
        else:
            assert mine == java.get(other, other), where
