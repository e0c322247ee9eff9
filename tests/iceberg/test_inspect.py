"""Metadata tables: their names and columns, and those that the metadata of a table tells by itself."""

from __future__ import annotations

import datetime as dt

import msgspec
import pyarrow as pa
import pytest

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg import inspect_schemas
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.inspect import NAMES, inspect
from lakeplane.iceberg.snapshots import MetadataLogEntry, Ref, Snapshot, SnapshotLogEntry
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import UNPARTITIONED
from lakeplane.model.schema import Schema
from lakeplane.model.types import INT, LONG, STRING, Field
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, entries, spec, with_metadata

FILE_COLUMNS = (
    "134 content? int32, 100 file_path string, 101 file_format string, 141 spec_id? int32, "
    "102 partition struct, 103 record_count int64, 104 file_size_in_bytes int64, 108 column_sizes? map, "
    "109 value_counts? map, 110 null_value_counts? map, 137 nan_value_counts? map, "
    "125 lower_bounds? map, 128 upper_bounds? map, "
    "131 key_metadata? binary, 132 split_offsets? list, 135 equality_ids? list, 140 sort_order_id? int32, "
    "142 first_row_id? int64, 143 referenced_data_file? string, 144 content_offset? int64, "
    "145 content_size_in_bytes? int64"
)
FILES = f"{FILE_COLUMNS}, 1015 readable_metrics? struct"
ENTRIES = (
    "0 status int32, 1 snapshot_id? int64, 3 sequence_number? int64, 4 file_sequence_number? int64, "
    "2 data_file struct, 1015 readable_metrics? struct"
)
MANIFESTS = (
    "14 content int32, 1 path string, 2 length int64, 3 partition_spec_id int32, 4 added_snapshot_id int64, "
    "5 added_data_files_count int32, 6 existing_data_files_count int32, 7 deleted_data_files_count int32, "
    "15 added_delete_files_count int32, 16 existing_delete_files_count int32, "
    "17 deleted_delete_files_count int32, 8 partition_summaries list"
)
COLUMNS = {
    "snapshots": "1 committed_at timestamp, 2 snapshot_id int64, 3 parent_id? int64, 4 operation? string, "
    "5 manifest_list? string, 6 summary? map",
    "history": "1 made_current_at timestamp, 2 snapshot_id int64, 3 parent_id? int64, "
    "4 is_current_ancestor bool",
    "refs": "1 name string, 2 type string, 3 snapshot_id int64, 4 max_reference_age_in_ms? int64, "
    "5 min_snapshots_to_keep? int32, 6 max_snapshot_age_in_ms? int64",
    "metadata_log_entries": "1 timestamp timestamp, 2 file string, 3 latest_snapshot_id? int64, "
    "4 latest_schema_id? int32, 5 latest_sequence_number? int64",
    "manifests": MANIFESTS,
    "all_manifests": "14 content int32, 1 path string, 2 length int64, 3 partition_spec_id? int32, "
    "4 added_snapshot_id? int64, 5 added_data_files_count? int32, 6 existing_data_files_count? int32, "
    "7 deleted_data_files_count? int32, 15 added_delete_files_count int32, "
    "16 existing_delete_files_count int32, 17 deleted_delete_files_count int32, 8 partition_summaries? list, "
    "18 reference_snapshot_id int64, 19 key_metadata? binary",
    **dict.fromkeys(("files", "data_files", "delete_files"), FILES),
    **dict.fromkeys(("all_files", "all_data_files", "all_delete_files"), FILES),
    **dict.fromkeys(("entries", "all_entries"), ENTRIES),
    "partitions": "1 partition struct, 4 spec_id int32, 2 record_count int64, 3 file_count int32, "
    "11 total_data_file_size_in_bytes int64, 5 position_delete_record_count int64, "
    "6 position_delete_file_count int32, 7 equality_delete_record_count int64, "
    "8 equality_delete_file_count int32, 9 last_updated_at? timestamp, 10 last_updated_snapshot_id? int64",
    "position_deletes": "2147483546 file_path string, 2147483545 pos int64, 2147483544 row? struct, "
    "2147483642 partition struct, 2147483643 spec_id int32, 2147483646 delete_file_path string",
}
"""The columns as Java declares them: ids, names, what may be null, and types."""


def declared(schema: pa.Schema | pa.StructType) -> str:
    return ", ".join(
        f"{each.metadata[b'PARQUET:field_id'].decode()} {each.name}{'?' * each.nullable} {kind(each.type)}"
        for each in schema
    )


def kind(type_: pa.DataType) -> str:
    if pa.types.is_dictionary(type_):
        return str(type_.value_type)
    if type_ == pa.timestamp("us", "UTC"):
        return "timestamp"
    return str(type_).partition("<")[0]


def build_some(*, by: tuple[str, ...] = ("identity region",), format_version: int = 2) -> BuiltTable:
    return build(("id", LONG), ("region", STRING), by=by, format_version=format_version)


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_those_that_java_declares_also_without_a_row(name: str) -> None:
    built = build_some()
    found = inspect(built.metadata, built.reading(), name)
    assert declared(found.schema) == COLUMNS[name]
    assert found.num_rows == 0
    if name.endswith("entries") and "data_file" in found.schema.names:
        assert declared(found.schema.field("data_file").type) == FILE_COLUMNS


@pytest.mark.parametrize("name", NAMES)
def test_a_table_with_files_has_the_same_columns_as_one_without(name: str) -> None:
    built = build_some()
    empty = inspect(built.metadata, built.reading(), name).schema
    built.commit(entries(built.metadata, [Listed("a", ("eu",)), Listed("b", (None,))]))
    found = inspect(built.metadata, built.reading(), name, metadata_location="memory://t/v2.json")
    found.validate(full=True)
    assert found.schema.equals(empty, check_metadata=True)
    assert bool(found.num_rows) is (name not in {"delete_files", "all_delete_files", "position_deletes"})


def test_v3_tells_where_in_a_file_a_deletion_vector_is() -> None:
    built = build_some(format_version=3)
    found = inspect(built.metadata, built.reading(), "position_deletes").schema
    more = "2147483641 content_offset? int64, 2147483640 content_size_in_bytes? int64"
    assert declared(found) == f"{COLUMNS['position_deletes']}, {more}"


def test_a_table_without_partitions_has_no_column_of_them() -> None:
    built = build_some(by=())
    for name in NAMES:
        assert "partition" not in inspect(built.metadata, built.reading(), name).column_names
    assert "spec_id" not in inspect(built.metadata, built.reading(), "partitions").column_names
    data_file = inspect(built.metadata, built.reading(), "entries").schema.field("data_file").type
    assert "partition" not in [each.name for each in data_file]


def test_every_metadata_table_of_java_is_there() -> None:
    assert set(NAMES) == set(COLUMNS)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    built = build_some()
    with pytest.raises(InvalidInput, match=r"no metadata table 'Files'.*all_data_files, .*, snapshots"):
        inspect(built.metadata, built.reading(), "Files")


@pytest.mark.parametrize("name", ["snapshots", "history", "refs", "metadata_log_entries", "all_files"])
def test_what_is_about_the_whole_table_has_no_state_at_a_time(name: str) -> None:
    built = build_some()
    snapshot = built.commit(entries(built.metadata, [Listed("a", ("eu",))]))
    with pytest.raises(InvalidInput, match=f"{name} is about the whole table.*entries, files, manifests"):
        inspect(built.metadata, built.reading(), name, snapshot.snapshot_id)


def test_a_state_that_is_not_there_is_refused() -> None:
    built = build_some()
    with pytest.raises(InvalidInput, match="no snapshot 77"):
        inspect(built.metadata, built.reading(), "files", 77)


def test_snapshots_have_their_operation_beside_the_rest_of_the_summary() -> None:
    built = build_some()
    first = built.commit(operation="append")
    summary = FrozenDict({"operation": "delete", "deleted-files": "1", "who": "me"})
    second = Snapshot(
        snapshot_id=9,
        parent_snapshot_id=first.snapshot_id,
        sequence_number=2,
        timestamp_ms=first.timestamp_ms + 5,
        manifest_list="memory://t/metadata/9.avro",
        summary=summary,
    )
    old = Snapshot(snapshot_id=3, timestamp_ms=-1, manifests=("memory://t/m.avro",))
    with_metadata(built, snapshots=(old, *built.metadata.snapshots, second))
    assert inspect(built.metadata, built.reading(), "snapshots").to_pylist() == [
        {
            "committed_at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC),
            "snapshot_id": 3,
            "parent_id": None,
            "operation": None,
            "manifest_list": None,
            "summary": None,
        },
        {
            "committed_at": dt.datetime.fromtimestamp(first.timestamp_ms // 1000, dt.UTC),
            "snapshot_id": first.snapshot_id,
            "parent_id": None,
            "operation": "append",
            "manifest_list": first.manifest_list,
            "summary": [],
        },
        {
            "committed_at": dt.datetime.fromtimestamp(first.timestamp_ms // 1000, dt.UTC)
            + dt.timedelta(milliseconds=5),
            "snapshot_id": 9,
            "parent_id": first.snapshot_id,
            "operation": "delete",
            "manifest_list": "memory://t/metadata/9.avro",
            "summary": [("deleted-files", "1"), ("who", "me")],
        },
    ]


def test_a_time_that_no_column_can_hold_is_named() -> None:
    built = build_some()
    with_metadata(built, snapshots=(Snapshot(snapshot_id=3, timestamp_ms=2**62, manifests=()),))
    with pytest.raises(InvalidMetadata, match=str(2**62)):
        inspect(built.metadata, built.reading(), "snapshots")


def test_history_tells_what_was_rolled_back_and_what_has_expired() -> None:
    built = build_some()
    first, second, third = built.commit(), built.commit(), built.commit()
    built.change(u.SetSnapshotRef("main", Ref(snapshot_id=first.snapshot_id, type="branch")))
    fourth = built.commit()
    gone = SnapshotLogEntry(timestamp_ms=5, snapshot_id=500)
    with_metadata(built, snapshot_log=(gone, *built.metadata.snapshot_log))
    found = inspect(built.metadata, built.reading(), "history")
    assert [
        (row["snapshot_id"], row["parent_id"], row["is_current_ancestor"]) for row in found.to_pylist()
    ] == [
        (500, None, False),
        (first.snapshot_id, None, True),
        (second.snapshot_id, first.snapshot_id, False),
        (third.snapshot_id, second.snapshot_id, False),
        (first.snapshot_id, None, True),
        (fourth.snapshot_id, first.snapshot_id, True),
    ]
    assert found["made_current_at"][0].as_py() == dt.datetime(1970, 1, 1, 0, 0, 0, 5_000, dt.UTC)


def test_refs_tell_how_long_they_are_kept() -> None:
    built = build_some()
    first = built.commit()
    kept = Ref(
        snapshot_id=first.snapshot_id,
        type="branch",
        min_snapshots_to_keep=2,
        max_snapshot_age_ms=3,
        max_ref_age_ms=4,
    )
    built.change(u.SetSnapshotRef("audit", kept))
    built.change(u.SetSnapshotRef("eoy", Ref(snapshot_id=first.snapshot_id, type="tag")))
    found = inspect(built.metadata, built.reading(), "refs").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("main", "BRANCH", first.snapshot_id, None, None, None),
        ("audit", "BRANCH", first.snapshot_id, 4, 2, 3),
        ("eoy", "TAG", first.snapshot_id, None, None, None),
    ]


def test_the_metadata_log_tells_the_snapshot_of_each_file_and_ends_with_the_current_one() -> None:
    built = build_some()
    known = Snapshot(snapshot_id=7, sequence_number=4, schema_id=0, timestamp_ms=100, manifests=())
    log = [(100, 7), (300, 8), (200, 7)]  # writers with wrong clocks log out of order
    with_metadata(
        built,
        snapshots=(known,),
        snapshot_log=tuple(SnapshotLogEntry(timestamp_ms=time, snapshot_id=each) for time, each in log),
        metadata_log=tuple(
            MetadataLogEntry(timestamp_ms=time, metadata_file=f"{time}.json") for time in (99, 100, 250, 300)
        ),
        last_updated_ms=400,
    )
    reading = built.reading()
    found = inspect(built.metadata, reading, "metadata_log_entries", metadata_location="400.json").to_pylist()
    assert [tuple(row.values())[1:] for row in found] == [
        ("99.json", None, None, None),
        ("100.json", 7, 0, 4),
        ("250.json", 7, 0, 4),
        ("300.json", 8, None, None),  # the snapshot has expired since
        ("400.json", 8, None, None),
    ]
    assert found[0]["timestamp"] == dt.datetime(1970, 1, 1, 0, 0, 0, 99_000, dt.UTC)
    assert inspect(built.metadata, reading, "metadata_log_entries").num_rows == 4


def test_partition_fields_of_one_name_are_told_apart_by_their_ids() -> None:
    built = BuiltTable(Schema((Field(1, "id", INT), Field(2, "s", STRING))), UNPARTITIONED)
    rules = ("bucket[2] id", "bucket[3] id", "identity s")
    fields = spec(built.metadata.schema, *rules).fields
    one, other, last = (
        msgspec.structs.replace(each, name=name) for each, name in zip(fields, ("p", "p", "s"), strict=True)
    )
    specs = tuple(
        msgspec.structs.replace(built.metadata.partition_spec, spec_id=n, fields=each)
        for n, each in enumerate(((one,), (other, last)))
    )
    with_metadata(built, partition_specs=specs, default_spec_id=1, last_partition_id=1002)
    names = [each.name for each in inspect_schemas.partition_fields(built.metadata).fields]
    assert names == ["p_1000", "p", "s"]
