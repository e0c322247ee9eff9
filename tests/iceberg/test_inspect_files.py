"""Metadata tables of files and entries, of tables that are built manifest by manifest."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import msgspec
import pytest

from lakeplane.errors import InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.iceberg import inspect_files
from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_list import inline_list
from lakeplane.iceberg.manifest_schema import DELETED, EQUALITY_DELETES, EXISTING
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity, Void
from lakeplane.model.types import DATE, INT, LONG, STRING, UUID, Field
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import (
    FILE_BYTES,
    Listed,
    bounds,
    build,
    change_list,
    deletes,
    entries,
    with_metadata,
)


def look(built: BuiltTable, name: str, at: Any = None) -> list[dict[str, Any]]:
    found = inspect(built.metadata, built.reading(), name, at)
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def paths(built: BuiltTable, name: str, at: Any = None) -> list[str]:
    return [row["file_path"] for row in look(built, name, at)]


@pytest.fixture
def built() -> BuiltTable:
    """Two data files, of which the second commit deletes one, and deletes of both kinds."""
    built = build(("id", LONG), ("region", STRING), by=("identity region",))
    table = built.metadata
    built.commit(entries(table, [Listed("a", ("eu",), {1: bounds(LONG, 1, 9)}), Listed("b", (None,))]))
    gone = Listed("b", (None,), status=DELETED, more={"sequence_number": 1, "file_sequence_number": 1})
    kept = Listed("a", ("eu",), {1: bounds(LONG, 1, 9)}, 1, EXISTING, more={**gone.more, "snapshot_id": 1001})
    built.commit(
        entries(table, [kept, gone]),
        deletes(table, [Listed("p", ("eu",)), Listed("e", ("eu",), content=EQUALITY_DELETES)]),
        keep=(),
        operation="delete",
    )
    return built


def test_files_are_those_that_are_alive(built: BuiltTable) -> None:
    assert paths(built, "files") == ["p", "e", "a"]
    assert paths(built, "data_files") == ["a"]
    assert paths(built, "delete_files") == ["p", "e"]
    assert [row["content"] for row in look(built, "files")] == [1, 2, 0]


def test_files_of_the_past_are_those_of_its_snapshot(built: BuiltTable) -> None:
    assert paths(built, "files", 1001) == ["a", "b"]
    assert paths(built, "delete_files", 1001) == []
    assert [row["status"] for row in look(built, "entries", 1001)] == [1, 1]


def test_a_file_is_told_of_with_everything_that_its_manifest_knows(built: BuiltTable) -> None:
    [row] = look(built, "data_files")
    assert row == {
        "content": 0,
        "file_path": "a",
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": {"region_0": "eu"},
        "record_count": 1,
        "file_size_in_bytes": FILE_BYTES,
        "column_sizes": None,
        "value_counts": [(1, 10)],
        "null_value_counts": [(1, 0)],
        "nan_value_counts": [(1, 0)],
        "lower_bounds": [(1, (1).to_bytes(8, "little"))],
        "upper_bounds": [(1, (9).to_bytes(8, "little"))],
        "key_metadata": None,
        "split_offsets": None,
        "equality_ids": None,
        "sort_order_id": None,
        "first_row_id": None,
        "referenced_data_file": None,
        "content_offset": None,
        "content_size_in_bytes": None,
        "readable_metrics": {
            "id": {
                "column_size": None,
                "value_count": 10,
                "null_value_count": 0,
                "nan_value_count": 0,
                "lower_bound": 1,
                "upper_bound": 9,
            },
            "region": dict.fromkeys(
                (
                    *("column_size", "value_count", "null_value_count"),
                    *("nan_value_count", "lower_bound", "upper_bound"),
                )
            ),
        },
    }


def test_entries_tell_also_of_files_that_were_deleted(built: BuiltTable) -> None:
    found = look(built, "entries")
    assert [(row["data_file"]["file_path"], row["status"]) for row in found] == [
        *(("p", 1), ("e", 1)),
        *(("a", 0), ("b", 2)),
    ]
    inherited = [(row["snapshot_id"], row["sequence_number"], row["file_sequence_number"]) for row in found]
    assert inherited == [(1002, 2, 2), (1002, 2, 2), (1001, 1, 1), (1002, 1, 1)]
    [files] = [row for row in look(built, "files") if row["file_path"] == "a"]
    [entry] = [row for row in found if row["data_file"]["file_path"] == "a"]
    assert {**entry["data_file"], "readable_metrics": entry["readable_metrics"]} == files


def test_tables_of_all_snapshots_read_each_manifest_once(built: BuiltTable) -> None:
    built.commit(entries(built.metadata, [Listed("c", ("us",))]))
    reads: list[str] = []
    reading = built.reading()

    def read_many(places: Any) -> list[bytes]:
        reads.extend(places)
        return built.read_many(places)

    found = inspect(built.metadata, reading._replace(read_many=read_many), "all_files")
    # A file is told of by every manifest that holds it: a is in two.
    assert sorted(found["file_path"].to_pylist()) == ["a", "a", "b", "c", "e", "p"]
    assert len(reads) == len(set(reads))
    assert sorted(paths(built, "all_data_files")) == ["a", "a", "b", "c"]
    assert sorted(paths(built, "all_delete_files")) == ["e", "p"]
    assert len(look(built, "all_entries")) == 7


def test_what_a_branch_has_is_among_all_files_and_not_on_main(built: BuiltTable) -> None:
    built.commit(entries(built.metadata, [Listed("aside", ("us",))]), branch="audit")
    assert "aside" in paths(built, "all_data_files")
    assert "aside" not in paths(built, "files")
    assert paths(built, "files", "audit") == ["aside"]


def test_formats_are_shown_in_one_case() -> None:
    built = build(("id", LONG), format_version=3)
    files = [Listed("a", more={"file_format": "parquet"}), Listed("b", more={"file_format": "Orc"})]
    vector = {
        "file_format": "puffin",
        "referenced_data_file": "a",
        "content_offset": 4,
        "content_size_in_bytes": 40,
    }
    built.commit(entries(built.metadata, files), deletes(built.metadata, [Listed("v", more=vector)]))
    found = {row["file_path"]: row for row in look(built, "files")}
    assert {path: row["file_format"] for path, row in found.items()} == {
        "a": "PARQUET",
        "b": "ORC",
        "v": "PUFFIN",
    }
    named = ("referenced_data_file", "content_offset", "content_size_in_bytes", "first_row_id")
    assert [found["v"][name] for name in named] == ["a", 4, 40, None]
    assert [found[path]["first_row_id"] for path in "ab"] == [0, 1]


def test_partitions_of_all_specs_are_in_one_struct_by_the_names_they_have_last_had() -> None:
    schema = Schema((Field(1, "day", DATE), Field(2, "key", UUID), Field(3, "n", INT)))
    built = BuiltTable(schema, PartitionSpec(0, (PartitionField((1,), 1000, "old_day", Identity()),)))
    built.commit(entries(built.metadata, [Listed("a", (19_000,))]))
    later = PartitionSpec(
        1, (PartitionField((1,), 1000, "day", Identity()), PartitionField((2,), 1001, "key", Identity()))
    )
    with_metadata(built, partition_specs=(*built.metadata.partition_specs, later), default_spec_id=1)
    key = uuid.UUID(int=7)
    built.commit(entries(built.metadata, [Listed("b", (None, key))], spec_id=1))
    found = {row["file_path"]: (row["spec_id"], row["partition"]) for row in look(built, "files")}
    assert found == {
        "a": (0, {"day": dt.date(2022, 1, 8), "key": None}),
        "b": (1, {"day": None, "key": key}),
    }


def test_a_field_that_v1_made_void_keeps_the_values_of_older_files() -> None:
    schema = Schema((Field(1, "region", STRING), Field(2, "n", INT)))
    first = PartitionSpec(0, (PartitionField((1,), 1000, "region", Identity()),))
    built = BuiltTable(schema, first, format_version=1)
    built.commit(entries(built.metadata, [Listed("a", ("eu",))]))
    void = PartitionSpec(1, (PartitionField((1,), 1000, "region", Void()),))
    with_metadata(built, partition_specs=(first, void), default_spec_id=1)
    built.commit(entries(built.metadata, [Listed("b", (None,))], spec_id=1))
    found = {row["file_path"]: row["partition"] for row in look(built, "files")}
    assert found == {"a": {"region": "eu"}, "b": {"region": None}}


def test_a_partition_whose_column_was_dropped_is_shown_as_long_as_a_schema_knows_its_type() -> None:
    built = build(("id", LONG), ("region", STRING), by=("identity region", "bucket[2] id"))
    built.commit(entries(built.metadata, [Listed("a", ("eu", 1))]))
    without = Schema((Field(1, "id", LONG),), schema_id=1)
    with_metadata(built, schemas=(*built.metadata.schemas, without), current_schema_id=1)
    [row] = look(built, "files")
    assert row["partition"] == {"region_0": "eu", "id_1": 1}
    with_metadata(built, schemas=(without,))
    [row] = look(built, "files")
    assert row["partition"] == {"id_1": 1}


def test_metrics_are_those_of_the_columns_that_the_table_has_now() -> None:
    built = build(("id", INT), ("gone", STRING))
    facts = {1: bounds(INT, 1, 2), 2: bounds(STRING, "a", "b")}
    built.commit(entries(built.metadata, [Listed("a", (), facts)]))
    now = Schema((Field(1, "number", LONG), Field(3, "new", STRING)), schema_id=1)
    with_metadata(built, schemas=(*built.metadata.schemas, now), current_schema_id=1)
    [row] = look(built, "files", 1001)
    assert list(row["readable_metrics"]) == ["number", "new"]
    assert row["readable_metrics"]["number"]["upper_bound"] == 2


def v1_inline() -> BuiltTable:
    """A v1 table whose two snapshots name their manifests themselves."""
    built = build(("id", LONG), ("region", STRING), by=("identity region",), format_version=1)
    first = built.commit(entries(built.metadata, [Listed("a", ("eu",)), Listed("b", ("us",))]))
    second = built.commit(entries(built.metadata, [Listed("c", (None,))]))
    inline = [
        msgspec.structs.replace(each, manifest_list=None, manifests=paths, summary=None)
        for each, paths in (
            (first, ("memory://t/metadata/00001-m0.avro",)),
            (second, ("memory://t/metadata/00002-m0.avro", "memory://t/metadata/00001-m0.avro")),
        )
    ]
    with_metadata(built, snapshots=tuple(inline))
    return built


def test_manifests_that_a_v1_snapshot_names_itself_are_read_like_others() -> None:
    built = v1_inline()
    assert paths(built, "files") == ["c", "a", "b"]
    assert sorted(paths(built, "all_files")) == ["a", "b", "c"]
    assert [row["sequence_number"] for row in look(built, "entries")] == [0, 0, 0]
    assert [row["snapshot_id"] for row in look(built, "entries")] == [1002, 1001, 1001]


def test_a_manifest_is_taken_as_the_last_snapshot_lists_it() -> None:
    # An upgraded table gives row ids to the files of manifests that it had without them.
    built = build(("id", LONG), format_version=3)
    first = built.commit(entries(built.metadata, [Listed("a"), Listed("b", rows=5)]))
    change_list(built, first, lambda each: msgspec.structs.replace(each, first_row_id=None))
    built.commit(entries(built.metadata, [Listed("c")]))
    found = {row["file_path"]: row["first_row_id"] for row in look(built, "all_files")}
    assert found == {"c": 6, "a": 7, "b": 8}


def test_many_small_manifests_keep_their_order() -> None:
    built = build(("id", LONG))
    count = 70
    built.commit(*(entries(built.metadata, [Listed(f"{n:03}")]) for n in range(count)))
    assert paths(built, "files") == [f"{n:03}" for n in reversed(range(count))]


def test_an_encrypted_manifest_is_refused(built: BuiltTable) -> None:
    snapshot = built.metadata.current_snapshot
    assert snapshot is not None
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, key_metadata=b"key"))
    for name in ("files", "entries", "all_files"):
        with pytest.raises(NotSupported, match=r"00002-m1\.avro.*encrypted"):
            look(built, name)


def test_partition_values_that_do_not_fit_the_type_of_the_table_name_the_manifest() -> None:
    built = build(("id", STRING), by=("identity id",))
    built.commit(entries(built.metadata, [Listed("a", ("x",))]))
    wrong = Schema((Field(1, "id", LONG),))
    with_metadata(built, schemas=(wrong,))
    with pytest.raises(InvalidMetadata, match=r"00001-m0\.avro"):
        look(built, "files")


def test_more_metrics_than_memory_should_hold_are_refused(
    built: BuiltTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_files, "MAX_CELLS", 5)
    with pytest.raises(LimitExceeded, match="6 columns of files are more than 5"):
        look(built, "files")
    assert len(look(built, "data_files")) == 1


def test_lists_of_one_snapshot_and_of_none() -> None:
    empty = build(("id", LONG))
    assert inspect_files.listed_in([], empty.reading()).num_rows == 0
    assert inspect_files.listed_in([None], empty.reading()).num_rows == 0
    snapshot = Snapshot(snapshot_id=1, timestamp_ms=1, manifests=("m",))
    found = inspect_files.listed_in([snapshot, snapshot], empty.reading())
    assert found.equals(inline_list(["m"]))


def test_an_encrypted_list_is_refused(built: BuiltTable) -> None:
    snapshot = built.metadata.snapshots[0]
    with_metadata(
        built, snapshots=(msgspec.structs.replace(snapshot, key_id="k"), *built.metadata.snapshots[1:])
    )
    with pytest.raises(NotSupported, match="its manifest list is encrypted"):
        look(built, "all_files")
