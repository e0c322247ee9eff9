from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import msgspec
import numpy as np
import pyarrow as pa
import pytest

from lakeplane.avro.read import read_header
from lakeplane.errors import InvalidInput
from lakeplane.iceberg.manifest_list import FieldSummary, list_table, publish_list, serialize_manifest_list
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST, DELETED, EXISTING
from lakeplane.iceberg.manifest_write import parts_of, summarize, write_manifest, writing_of
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema_json import write_schema
from lakeplane.model.types import DOUBLE, INT, UUID, Field, Struct
from tests.iceberg.manifest_rows import (
    EARLIER,
    SNAPSHOT,
    data_rows,
    delete_rows,
    listed,
    older,
    plain_table,
    table,
    writing,
)

VERSIONS = (1, 2, 3)

# The tables of the spec: for v1, v2 and v3 whether a field is required (r), optional (o) or absent (-).
ENTRY = """
r r r 0 status int
r o o 1 snapshot_id long
- o o 3 sequence_number long
- o o 4 file_sequence_number long
r r r 2 data_file record
"""
DATA_FILE = """
- r r 134 content int
r r r 100 file_path string
r r r 101 file_format string
r r r 102 partition record
r r r 103 record_count long
r r r 104 file_size_in_bytes long
r - - 105 block_size_in_bytes long
o o o 108 column_sizes map<117:int,118:long>
o o o 109 value_counts map<119:int,120:long>
o o o 110 null_value_counts map<121:int,122:long>
o o o 137 nan_value_counts map<138:int,139:long>
o o o 125 lower_bounds map<126:int,127:bytes>
o o o 128 upper_bounds map<129:int,130:bytes>
o o o 131 key_metadata bytes
o o o 132 split_offsets list<133:long>
- o o 135 equality_ids list<136:int>
o o o 140 sort_order_id int
- - o 142 first_row_id long
- o o 143 referenced_data_file string
- - o 144 content_offset long
- - o 145 content_size_in_bytes long
"""
MANIFEST_FILE = """
r r r 500 manifest_path string
r r r 501 manifest_length long
r r r 502 partition_spec_id int
- r r 517 content int
- r r 515 sequence_number long
- r r 516 min_sequence_number long
r r r 503 added_snapshot_id long
o r r 504 added_files_count int
o r r 505 existing_files_count int
o r r 506 deleted_files_count int
o r r 512 added_rows_count long
o r r 513 existing_rows_count long
o r r 514 deleted_rows_count long
o o o 507 partitions list<508:record>
o o o 519 key_metadata bytes
- - o 520 first_row_id long
"""
SUMMARY = """
r r r 509 contains_null boolean
o o o 518 contains_nan boolean
o o o 510 lower_bound bytes
o o o 511 upper_bound bytes
"""


def demanded(spec: str, version: int) -> set[tuple[str, ...]]:
    rows = [line.split() for line in spec.strip().splitlines()]
    return {(row[version - 1], *row[3:]) for row in rows if row[version - 1] != "-"}


def written(record: dict[str, Any]) -> set[tuple[str, ...]]:
    return {
        (
            "r" if not isinstance(field["type"], list) else "o",
            str(field["field-id"]),
            field["name"],
            kind(field),
        )
        for field in record["fields"]
    }


def kind(field: dict[str, Any]) -> str:
    """The type of an Avro field, in the words of the tables."""
    type_ = field["type"]
    if isinstance(type_, list):
        assert type_[0] == "null"
        assert field["default"] is None
        type_ = type_[1]
    match type_:
        case {"type": "array", "logicalType": "map", "items": {"fields": [key, value]}}:
            return f"map<{key['field-id']}:{key['type']},{value['field-id']}:{value['type']}>"
        case {"type": "array", "items": items}:
            return f"list<{type_['element-id']}:{items['type'] if isinstance(items, dict) else items}>"
        case {"type": name}:
            return str(name)
        case _:
            return str(type_)


def inner(record: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [field["type"] for field in record["fields"] if field["name"] == name]
    whole: dict[str, Any] = found[1] if isinstance(found, list) else found
    return whole


def raw(data: bytes) -> tuple[dict[str, str], dict[str, Any], list[Any]]:
    """Metadata, schema and records of an Avro file, by fastavro."""
    reader: Any = fastavro.reader(io.BytesIO(data))
    records = list(reader)
    return dict(reader.metadata), json.loads(reader.metadata["avro.schema"]), records


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_have_the_fields_of_the_spec(version: int) -> None:
    of = table(version, nanos=version > 2)
    _, schema, _ = raw(write_manifest(data_rows(of, 3), 0, DATA_MANIFEST, "m", writing(of)).data)
    assert written(schema) == demanded(ENTRY, version)
    data_file = inner(schema, "data_file")
    assert written(data_file) == demanded(DATA_FILE, version)
    partition = inner(data_file, "partition")
    assert [field["field-id"] for field in partition["fields"]] == [
        field.field_id for field in of.partition_spec.fields
    ]
    assert all(field["type"][0] == "null" for field in partition["fields"])
    assert (schema["name"], data_file["name"], partition["name"]) == ("manifest_entry", "r2", "r102")


@pytest.mark.parametrize("version", VERSIONS)
def test_manifest_lists_have_the_fields_of_the_spec(version: int) -> None:
    data = serialize(version, listed(partitions=(FieldSummary(contains_null=True),)))
    _, schema, _ = raw(data)
    assert written(schema) == demanded(MANIFEST_FILE, version)
    assert written(inner(schema, "partitions")["items"]) == demanded(SUMMARY, version)
    assert schema["name"] == "manifest_file"


def serialize(version: int, *manifests: Any, **more: Any) -> bytes:
    known = {"snapshot_id": SNAPSHOT, "parent_snapshot_id": EARLIER, "sequence_number": 7, **more}
    return serialize_manifest_list(list_table(manifests), format_version=version, **known)


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_say_what_they_are(version: int) -> None:
    of = table(version)
    metadata, _, _ = raw(write_manifest(data_rows(of, 1), 0, DATA_MANIFEST, "m", writing(of)).data)
    assert json.loads(metadata["schema"]) == write_schema(of.schema)
    fields = json.loads(metadata["partition-spec"])
    assert [field["field-id"] for field in fields] == [field.field_id for field in of.partition_spec.fields]
    assert [set(field) for field in fields] == [{"source-id", "field-id", "name", "transform"}] * len(fields)
    content = {"content": "data"} if version > 1 else {}
    assert {key: metadata[key] for key in metadata if not key.startswith("avro.")} == {
        "schema": metadata["schema"],
        "partition-spec": metadata["partition-spec"],
        "schema-id": "0",
        "partition-spec-id": "0",
        "format-version": str(version),
        **content,
    }


def test_manifests_of_deletes_say_so() -> None:
    of = table(2)
    metadata, _, records = raw(write_manifest(delete_rows(of, 3), 0, DELETE_MANIFEST, "m", writing(of)).data)
    assert metadata["content"] == "deletes"
    assert [each["data_file"]["content"] for each in records] == [1, 1, 2]
    assert [each["data_file"]["equality_ids"] for each in records] == [None, None, [1, 2]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("parent", [None, EARLIER])
def test_manifest_lists_say_what_they_are(version: int, parent: int | None) -> None:
    first = 1000 if version > 2 else None
    metadata, _, _ = raw(serialize(version, listed(), parent_snapshot_id=parent, first_row_id=first))
    assert {key: metadata[key] for key in metadata if not key.startswith("avro.")} == {
        "snapshot-id": str(SNAPSHOT),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        **({"sequence-number": "7"} if version > 1 else {}),
        **({"first-row-id": "1000"} if version > 2 else {}),
        "format-version": str(version),
    }


# Java's names of the codecs (TableProperties.MANIFEST_COMPRESSION), and those that Avro has for them.
PROPERTIES = {
    "": "deflate",
    "gzip": "deflate",
    "ZSTD": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
}


@pytest.mark.parametrize("text", PROPERTIES)
@pytest.mark.parametrize("level", [None, "3", "high"])
def test_the_table_says_how_manifests_are_packed(text: str, level: str | None) -> None:
    given = {"write.manifest.compression-codec": text or None, "write.manifest.compression-level": level}
    properties = FrozenDict({key: value for key, value in given.items() if value is not None})
    made = msgspec.structs.replace(plain_table(), properties=properties)
    change = writing_of(made, SNAPSHOT)
    assert (change.snapshot_id, change.level) == (SNAPSHOT, 3 if level == "3" else None)
    written = write_manifest(data_rows(made, 3), 0, DATA_MANIFEST, "p", change)
    assert read_header(written.data, source="p").codec == PROPERTIES[text]


@pytest.mark.parametrize("text", ["lz4", "deflate", "", "gzip,zstd"])
def test_a_codec_that_iceberg_does_not_have_is_refused_by_the_name_of_its_property(text: str) -> None:
    properties = FrozenDict({"write.manifest.compression-codec": text})
    with pytest.raises(InvalidInput, match=r"write\.manifest\.compression-codec.*no codec.*There are gzip"):
        writing_of(msgspec.structs.replace(plain_table(), properties=properties), SNAPSHOT)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy", "null"])
def test_files_name_their_codec(codec: str) -> None:
    of = plain_table()
    manifest = write_manifest(data_rows(of, 3), 0, DATA_MANIFEST, "m", writing(of, codec)).data
    for data in (manifest, serialize(2, listed(), codec=codec)):
        assert f"avro.codec{chr(2 * len(codec))}{codec}".encode() in data
        if codec in ("deflate", "null"):  # what fastavro unpacks without more libraries
            assert raw(data)[0]["avro.codec"] == codec
    assert read_manifest(manifest, listed("m"), of, columns=["file_path"]).entries.num_rows == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_fastavro_reads_the_values_that_were_written(version: int) -> None:
    of = plain_table(version)
    rows = data_rows(of, 4)
    _, _, records = raw(write_manifest(rows, 0, DATA_MANIFEST, "m", writing(of)).data)
    assert [each["status"] for each in records] == [1] * 4
    assert [each["snapshot_id"] for each in records] == [SNAPSHOT] * 4
    assert {each.get("sequence_number") for each in records} == {None}
    for row, record in zip(rows.to_pylist(), records, strict=True):
        file = record["data_file"]
        assert file.pop("block_size_in_bytes", None) == (64 * 2**20 if version == 1 else None)
        for name, value in file.items():
            expected = row.get(name)
            if isinstance(expected, list) and expected and isinstance(expected[0], tuple):
                expected = [{"key": key, "value": each} for key, each in expected]
            assert value == expected, name


def test_what_a_list_tells_of_a_manifest_is_counted() -> None:
    of = plain_table()
    rows = pa.concat_tables(
        [
            data_rows(of, 2),
            data_rows(of, 3, **older(3)),
            data_rows(of, 4, **older(4, DELETED)),
        ],
        promote_options="default",
    )
    made = write_manifest(rows, 0, DATA_MANIFEST, "m", writing(of))
    found = made.listed
    assert (found.added_files_count, found.existing_files_count, found.deleted_files_count) == (2, 3, 4)
    assert (found.added_rows_count, found.existing_rows_count, found.deleted_rows_count) == (21, 33, 46)
    assert (found.manifest_length, found.sequence_number, found.min_sequence_number) == (
        len(made.data),
        None,
        5,
    )
    assert (found.added_snapshot_id, found.partitions, found.content) == (SNAPSHOT, (), DATA_MANIFEST)


def test_a_manifest_of_new_files_gets_all_numbers_from_the_commit() -> None:
    of = plain_table()
    made = write_manifest(data_rows(of, 2), 0, DATA_MANIFEST, "m", writing(of)).listed
    published, _ = publish_list(list_table([made]), 9, None)
    assert published.select(["sequence_number", "min_sequence_number"]).to_pylist() == [
        {"sequence_number": 9, "min_sequence_number": 9}
    ]


def test_deleted_files_do_not_make_a_manifest_older() -> None:
    of = plain_table()
    made = write_manifest(data_rows(of, 2, **older(2, DELETED)), 0, DATA_MANIFEST, "m", writing(of))
    assert made.listed.min_sequence_number is None


# Summaries


def summary(type_: Any, values: pa.Array) -> FieldSummary:
    struct_ = pa.StructArray.from_arrays([values], names=["1000"])
    [found] = summarize(pa.chunked_array([struct_]), Struct((Field(1000, "p", type_),)))
    return found


def test_summaries_leave_out_nan_and_keep_the_signs_of_zeros() -> None:
    nan = float("nan")
    packed = [struct.pack("<d", each) for each in (-0.0, 0.0, -1.0, 2.0)]
    assert summary(DOUBLE, pa.array([0.0, nan, None])) == FieldSummary(
        contains_null=True, contains_nan=True, lower_bound=packed[0], upper_bound=packed[1]
    )
    assert summary(DOUBLE, pa.array([-0.0])) == FieldSummary(
        contains_null=False, contains_nan=False, lower_bound=packed[0], upper_bound=packed[1]
    )
    assert summary(DOUBLE, pa.array([-1.0, 2.0])) == FieldSummary(
        contains_null=False, contains_nan=False, lower_bound=packed[2], upper_bound=packed[3]
    )
    assert summary(DOUBLE, pa.array([nan])) == FieldSummary(contains_null=False, contains_nan=True)
    assert summary(INT, pa.array([None, None], pa.int32())) == FieldSummary(
        contains_null=True, contains_nan=False
    )


def test_uuids_are_summed_up_in_the_order_of_their_bytes() -> None:
    low, high = b"\x7f" * 16, b"\x80" + bytes(15)
    assert summary(UUID, pa.array([high, low], pa.binary(16))) == FieldSummary(
        contains_null=False, contains_nan=False, lower_bound=low, upper_bound=high
    )


# What is refused


@pytest.mark.parametrize("column", ["file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_entries_without_what_is_required_are_refused(column: str) -> None:
    of = plain_table()
    rows = data_rows(of, 2, **{column: [None, None]})
    with pytest.raises(InvalidInput, match=column):
        write_manifest(rows, 0, DATA_MANIFEST, "m", writing(of))


def test_v1_has_no_deletes() -> None:
    of = plain_table(1)
    with pytest.raises(InvalidInput, match=r"v1 tables have no deletes\. Upgrade the table to v2"):
        write_manifest(delete_rows(of, 1), 0, DELETE_MANIFEST, "m", writing(of))


def test_a_v1_list_of_deletes_is_refused_as_java_does() -> None:
    """A list of v1 cannot say that a manifest holds deletes, so their rows were read as data."""
    lists = list_table([listed("a"), listed("b", content=DELETE_MANIFEST)])
    with pytest.raises(InvalidInput, match="v1 tables have no deletes"):
        serialize_manifest_list(
            lists, format_version=1, snapshot_id=SNAPSHOT, parent_snapshot_id=None, sequence_number=0
        )


def unnumbered(status: int, snapshot_id: int | None) -> Iterator[Any]:
    of = plain_table()
    rows = data_rows(of, 1, status=[status], snapshot_id=[snapshot_id])
    yield write_manifest(rows, 0, DATA_MANIFEST, "m", writing(of))


@pytest.mark.parametrize(("status", "snapshot_id"), [(EXISTING, EARLIER), (DELETED, SNAPSHOT), (1, EARLIER)])
def test_old_entries_without_sequence_numbers_are_refused(status: int, snapshot_id: int) -> None:
    """Harm: the entry would inherit the number of the commit, and deletes from before it would not apply."""
    with pytest.raises(
        InvalidInput, match="sequence_number: an entry that is not new has no sequence number"
    ):
        next(unnumbered(status, snapshot_id))
    assert next(unnumbered(1, SNAPSHOT)).listed.added_files_count == 1


def test_v1_needs_no_sequence_numbers() -> None:
    of = plain_table(1)
    rows = data_rows(of, 1, status=[EXISTING], snapshot_id=[EARLIER])
    assert write_manifest(rows, 0, DATA_MANIFEST, "m", writing(of)).listed.existing_files_count == 1


def test_row_ids_cannot_be_given_to_manifests_whose_rows_nobody_has_counted() -> None:
    """Harm: two manifests would get the same row ids."""
    with pytest.raises(InvalidInput, match="m1: nobody knows how many row ids it takes"):
        publish_list(list_table([listed("m0"), listed("m1", added_rows_count=None)]), 8, 0)
    known = listed("m1", added_rows_count=None, first_row_id=5)
    assert publish_list(list_table([known]), 8, 0)[1] == 0
    assert publish_list(list_table([listed("m1", added_rows_count=None)]), 8, None)[1] == 0


def test_row_ids_do_not_run_over() -> None:
    with pytest.raises(InvalidInput, match="more rows than ids"):
        publish_list(list_table([listed("a", added_rows_count=2**62)]), 8, 2**62)


def test_v2_lists_have_all_counts() -> None:
    with pytest.raises(InvalidInput, match="added_files_count"):
        serialize(2, listed(added_files_count=None))
    _, _, [record] = raw(serialize(1, listed(added_files_count=None)))
    assert record["added_files_count"] is None


# Parts


@pytest.mark.parametrize(
    ("count", "target"),
    [(0, 1), (1, 1), (20, 1), (0, 100_000), (500, 100_000), (30_000, 100_000), (30_000, 8 * 2**20)],
)
def test_parts_are_about_as_large_as_wanted(count: int, target: int) -> None:
    of = plain_table()
    source = np.random.default_rng(count)
    names = [f"s3://lake/t/data/{number:020}.parquet" for number in source.integers(0, 2**62, count)]
    rows = data_rows(of, count, file_path=names)
    parts = list(parts_of(rows, 0, DATA_MANIFEST, writing(of), target))
    assert pa.concat_tables(parts).equals(rows)
    sizes = [len(write_manifest(part, 0, DATA_MANIFEST, "m", writing(of)).data) for part in parts]
    if target == 1:
        assert [part.num_rows for part in parts] == [1] * count or count == 0
    elif len(parts) == 1:
        assert sizes[0] <= 1.1 * target
    else:
        assert max(sizes) <= 1.1 * target
        assert min(sizes) >= 0.4 * target


def test_few_large_entries_are_parted_too() -> None:
    """Harm: 4,000 entries with long bounds made one manifest far above the target."""
    of = plain_table()
    source = np.random.default_rng(1)
    rows = data_rows(of, 200, lower_bounds=[[(1, source.bytes(1000))] for _ in range(200)])
    sizes = [
        len(write_manifest(part, 0, DATA_MANIFEST, "m", writing(of)).data)
        for part in parts_of(rows, 0, DATA_MANIFEST, writing(of), 20_000)
    ]
    assert len(sizes) > 5
    assert max(sizes) < 24_000  # each has a header of its own
