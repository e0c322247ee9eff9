from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.avro.container import parse_header, unpack_blocks
from lakeplane.avro.limits import DEFAULT_LIMITS, Limits
from lakeplane.avro.read import read_header
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded, NotSupported, UnsupportedVersion
from lakeplane.paimon.manifest_schema import (
    ENTRY_COLUMNS,
    ENTRY_OF_LATER,
    INDEX_OF_LATER,
    LIST_OF_LATER,
    ROOT,
    Told,
    avro_schema,
    leaves,
)
from lakeplane.paimon.manifests import (
    entry_rows,
    parse_index_manifest,
    parse_manifest,
    parse_manifest_list,
    serialize_index_manifest,
    serialize_manifest,
    serialize_manifest_list,
)
from tests.paimon.stored import NAMES, Stored, stored

EMPTY = bytes(12)
Parse = Callable[[bytes, str], pa.Table]
Serialize = Callable[[pa.Table], bytes]


def entry(name: str = "data-1.parquet", **values: Any) -> dict[str, Any]:
    return {
        "kind": 0,
        "partition": EMPTY,
        "bucket": 0,
        "total_buckets": -1,
        "file_name": name,
        "file_size": 10,
        "row_count": 1,
        "min_key": EMPTY,
        "max_key": EMPTY,
        "key_min": EMPTY,
        "key_max": EMPTY,
        "key_nulls": [],
        "value_min": EMPTY,
        "value_max": EMPTY,
        "value_nulls": [],
        "min_sequence_number": 0,
        "max_sequence_number": 0,
        "schema_id": 0,
        "level": 0,
        "extra_files": [],
        "value_stats_cols": [],
        **values,
    }


def kinds(table: Stored) -> list[tuple[dict[str, bytes], Parse, Serialize, tuple[Told, ...]]]:
    return [
        (table.manifest_lists, parse_manifest_list, serialize_manifest_list, LIST_OF_LATER),
        (table.manifests, parse_manifest, serialize_manifest, ENTRY_OF_LATER),
        (table.index_manifests, parse_index_manifest, serialize_index_manifest, INDEX_OF_LATER),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_files_of_other_writers_are_read_as_an_independent_reader_does(name: str) -> None:
    for files, parse, _, fields in kinds(stored(name)):
        for path, data in files.items():
            expected = list(fastavro_rows(data))
            found = parse(data, path).to_pylist()
            assert len(found) == len(expected)
            for row, other in zip(found, expected, strict=True):
                for leaf in leaves(fields):
                    if leaf.column != "version":
                        assert plain(row[leaf.column]) == plain(follow(other, leaf.path)), leaf.column


def follow(row: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        row = None if row is None else row.get(step)
    return row


def plain(value: Any) -> Any:
    """Without what is null: other writers leave fields out."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items() if item is not None}
        case list():
            return [plain(item) for item in value]
        case _ if hasattr(value, "tzinfo"):
            return value.replace(tzinfo=None)
        case _:
            return value


def fastavro_rows(data: bytes) -> Any:
    """fastavro cannot unpack zstandard without more libraries: the blocks are packed anew."""
    view = memoryview(data)
    header = parse_header(view, DEFAULT_LIMITS)
    blocks = list(unpack_blocks(view, header, DEFAULT_LIMITS))
    unpacked = payload(data)
    count = sum(block[0] for block in blocks)
    body = io.BytesIO(unpacked)
    schema = fastavro.parse_schema(header.schema)
    return [fastavro.schemaless_reader(body, schema, None) for _ in range(count)]


def payload(data: bytes) -> bytes:
    view = memoryview(data)
    header = parse_header(view, DEFAULT_LIMITS)
    return b"".join(bytes(block.data) for block in unpack_blocks(view, header, DEFAULT_LIMITS))


@pytest.mark.parametrize("name", NAMES)
def test_files_of_other_writers_are_written_again_byte_by_byte_under_their_schemas(name: str) -> None:
    count = 0
    for files, parse, _, fields in kinds(stored(name)):
        for path, data in files.items():
            schema = read_header(data, source=path).schema
            record = schema[1] if isinstance(schema, list) else schema
            table = parse(data, path)
            rows = nested(table, fields, record, 1 if "index-manifest" in path else 2)
            again = write_avro(rows, schema, metadata={}, codec="null")
            assert payload(again) == payload(data), path
            count += 1
    assert count >= 3


def nested(table: pa.Table, fields: tuple[Told, ...], record: dict[str, Any], version: int) -> pa.Table:
    """The rows of a table as a record of a file has them, with the fields that the file has."""
    rows = table.append_column("version", pa.repeat(pa.scalar(version, pa.int32()), table.num_rows))
    return pa.table(
        {
            each["name"]: nested_column(rows, told_of(fields, each["name"]), each["type"])
            for each in record["fields"]
        }
    )


def told_of(fields: tuple[Told, ...], name: str) -> Told:
    return next(each for each in fields if each.name == name)


def nested_column(rows: pa.Table, told: Told, avro: Any) -> pa.Array:
    if told.column:
        column = rows[told.column].combine_chunks()
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("ms", "UTC"))
        if told.column == "ranges" and "_CARDINALITY" not in str(avro):
            kind = pa.list_(pa.struct([("f0", pa.string()), ("f1", pa.int32()), ("f2", pa.int32())]))
            return pa.array([None if each is None else list(each) for each in column.to_pylist()], kind)
        return column
    record = next(each for each in (avro if isinstance(avro, list) else [avro]) if each != "null")
    parts = [nested_column(rows, told_of(told.avro, each["name"]), each["type"]) for each in record["fields"]]
    return pa.StructArray.from_arrays(parts, names=[each["name"] for each in record["fields"]])


@pytest.mark.parametrize("name", NAMES)
def test_what_we_write_of_them_reads_the_same(name: str) -> None:
    for files, parse, serialize, _ in kinds(stored(name)):
        for path, data in files.items():
            table = parse(data, path)
            again = serialize(table)
            assert parse(again, path).equals(table)
            assert serialize(table) == again


def test_records_are_named_as_java_names_them() -> None:
    schema = avro_schema(ENTRY_OF_LATER)
    file = next(each for each in schema["fields"] if each["name"] == "_FILE")["type"]
    stats = next(each for each in file["fields"] if each["name"] == "_KEY_STATS")["type"]
    assert schema["name"] == ROOT
    assert file["name"] == f"{ROOT}__FILE"
    assert stats["name"] == f"{ROOT}__FILE__KEY_STATS"
    assert avro_schema(LIST_OF_LATER)["fields"][5]["type"]["name"] == f"{ROOT}__PARTITION_STATS"


def test_fields_that_only_later_releases_know_are_written_only_with_a_value() -> None:
    plain_ones = serialize_manifest(entry_rows([entry()]))
    assert b"_WRITE_COLS_SEQUENCES" not in plain_ones
    later = entry_rows([entry(write_cols=["a"], write_cols_sequences=[1])])
    assert b"_WRITE_COLS_SEQUENCES" in serialize_manifest(later)
    assert parse_manifest(serialize_manifest(later), "m").equals(later)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "none"])
def test_codecs(codec: str) -> None:
    rows = entry_rows([entry(), entry("data-2.parquet", kind=1)])
    assert parse_manifest(serialize_manifest(rows, compression=codec), "m").equals(rows)


def test_a_codec_that_is_not_known_is_refused() -> None:
    with pytest.raises(NotSupported, match=r"manifest\.compression"):
        serialize_manifest(entry_rows([entry()]), compression="lzma")


def test_the_version_of_entries_is_checked() -> None:
    rows = {"_VERSION": pa.array([1], pa.int32()), "_KIND": pa.array([0], pa.int32())}
    for version, said in ((1, "create the table again"), (3, "version 3")):
        rows["_VERSION"] = pa.array([version], pa.int32())
        table = entry_rows([entry()])
        data = write_avro(
            nested(table, ENTRY_OF_LATER, avro_schema(ENTRY_OF_LATER), version),
            avro_schema(ENTRY_OF_LATER),
            metadata={},
        )
        with pytest.raises(UnsupportedVersion, match=said) as refusal:
            parse_manifest(data, "manifest/manifest-1")
        assert refusal.value.source == "manifest/manifest-1"


@pytest.mark.parametrize("wrong", [{"kind": 2}, {"file_size": -1}, {"row_count": -5}, {"level": -1}])
def test_entries_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    data = serialize_manifest(entry_rows([entry(**wrong)]))
    with pytest.raises(InvalidMetadata, match="manifest-1"):
        parse_manifest(data, "manifest-1")


def test_manifest_lists_cannot_name_files_elsewhere() -> None:
    lists = stored("rust04_a1").manifest_lists.values()
    table = next(found for data in lists if (found := parse_manifest_list(data, "list")).num_rows)
    for name in ("../../x", "a/b", "..", ""):
        moved = table.set_column(0, "file_name", pa.array([name] * table.num_rows))
        with pytest.raises(InvalidMetadata, match="no name of a file"):
            parse_manifest_list(serialize_manifest_list(moved), "list")


def test_what_is_missing_or_strange_is_not_written() -> None:
    rows = entry_rows([entry()])
    with pytest.raises(InvalidInput, match="row_count"):
        serialize_manifest(rows.drop_columns(["row_count"]))
    with pytest.raises(InvalidInput, match="strange"):
        serialize_manifest(rows.append_column("strange", pa.array([1])))
    with pytest.raises(InvalidInput, match="bucket"):
        serialize_manifest(entry_rows([entry(bucket=None)]))
    assert rows.schema == ENTRY_COLUMNS


def test_manifests_are_limited() -> None:
    data = serialize_manifest(entry_rows([entry(f"data-{number}") for number in range(1000)]))
    with pytest.raises(LimitExceeded, match="manifest-1"):
        parse_manifest(data, "manifest-1", limits=Limits(rows=10))


@given(st.data())
def test_broken_manifests_are_errors_that_name_the_file(data: st.DataObject) -> None:
    table = stored(data.draw(st.sampled_from(NAMES)))
    files, parse, _, _ = data.draw(st.sampled_from(kinds(table)[:2]))
    content = bytearray(data.draw(st.sampled_from(sorted(files.values()))))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    source = None
    try:
        parse(bytes(content), "manifest-1")
    except InvalidMetadata as error:
        source = error.source
    assert source in (None, "manifest-1")
