from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakeplane.avro import write
from lakeplane.avro.limits import DEFAULT_LIMITS
from lakeplane.avro.read import Engine, read_avro, read_header
from lakeplane.avro.schema import arrow_type, parse_schema
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput
from tests.avro.kinds import Rows, read_by_fastavro, rows


def record(*fields: tuple[str, Any], name: str = "row") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": label, "type": kind} for label, kind in fields],
    }


def write_column(kind: Any, values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """What fastavro reads of one column."""
    data = write_avro(pa.table({"x": values}), record(("x", kind)), metadata={})
    return [row["x"] for row in read_by_fastavro(data)]


# Against other readers


@settings(max_examples=60)
@given(rows())
def test_fastavro_reads_what_was_written(made: Rows) -> None:
    for block_bytes in (64_000, 1, 40):
        data = write_avro(made.table, made.schema, metadata={}, block_bytes=block_bytes)
        assert read_by_fastavro(data) == made.records


@settings(max_examples=60)
@given(rows())
def test_both_engines_read_what_fastavro_reads(made: Rows) -> None:
    data = write_avro(made.table, made.schema, metadata={}, block_bytes=40)
    natural = arrow_type(parse_schema(made.schema, DEFAULT_LIMITS), "")
    engines: tuple[Engine, ...] = ("wasm", "rows")
    for engine in engines:
        found = read_avro(data, source="made.avro", engine=engine).table
        found.validate(full=True)
        assert pa.struct(list(found.schema)) == natural
        assert write_avro(found, made.schema, metadata={}, block_bytes=40) == data


@settings(max_examples=40)
@given(rows())
def test_how_a_table_lies_in_memory_does_not_change_the_file(made: Rows) -> None:
    pieces = [made.table.slice(at, 1) for at in range(made.table.num_rows)]
    again = pa.concat_tables(pieces) if pieces and made.table.num_columns else made.table
    assert write_avro(again, made.schema, metadata={}) == write_avro(made.table, made.schema, metadata={})


NUMBERS = sorted(
    {sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)}
    | {0, 2**63 - 1, -(2**63)}
)


def test_numbers_of_every_length() -> None:
    assert write_column("long", pa.array(NUMBERS, pa.int64())) == NUMBERS
    for number in NUMBERS:
        assert write_column("long", pa.array([number, number], pa.int64())) == [number, number]
    small = [number for number in NUMBERS if -(2**31) <= number < 2**31]
    assert write_column(["null", "int"], pa.array([*small, None], pa.int64())) == [*small, None]


LENGTHS = [*range(41), 63, 64, 65, 1023, 1024, 1025, 5000, 0]


def test_texts_of_every_length() -> None:
    texts = [
        bytes(place % 251 for place in range(start, start + length)) for start, length in enumerate(LENGTHS)
    ]
    assert write_column("bytes", pa.array(texts)) == texts
    for text in texts:
        assert write_column("bytes", pa.array([text, text[::-1], text])) == [text, text[::-1], text]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 1024, 1025])
def test_fixed_of_every_length(length: int) -> None:
    values = [bytes([row]) * length for row in range(5)]
    kind = {"type": "fixed", "name": "f", "size": length}
    assert write_column(kind, pa.array(values, pa.binary(length)).slice(1)) == values[1:]
    assert write_column(kind, pa.array(values, pa.large_binary())) == values


@pytest.mark.parametrize("size", [1, 2, 8, 16, 17, 30])
def test_decimals_at_the_ends_of_what_a_fixed_holds(size: int) -> None:
    # A precision that fits is stated; the ends of the bytes are past it for all but the largest sizes.
    precision = {1: 2, 2: 4, 8: 18}.get(size, 38)
    top = 10**precision - 1
    values = [Decimal(number) for number in (0, 1, -1, top, -top, 127, -128) if abs(number) <= top]
    kind = {"type": "fixed", "name": "d", "size": size, "logicalType": "decimal", "precision": precision}
    assert write_column(kind, pa.array(values, pa.decimal128(precision, 0))) == values


def test_decimals_on_bytes_take_as_few_as_do() -> None:
    numbers = [0, 127, 128, -128, -129, 32767, 32768, -32768, 10**38 - 1]
    values = pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))
    # Without the logical type, fastavro shows the bytes.
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38}
    data = write_avro(pa.table({"x": values}), record(("x", kind)), metadata={})
    plain = data.replace(b'"decimal"', b'"nothing"')
    found = [row["x"] for row in read_by_fastavro(plain)]
    few = [b"\x00", b"\x7f", b"\x00\x80", b"\x80", b"\xff\x7f", b"\x7f\xff", b"\x00\x80\x00", b"\x80\x00"]
    assert found == [*few, (10**38 - 1).to_bytes(16, "big")]
    assert [int(row["x"]) for row in read_by_fastavro(data)] == numbers


# What Arrow wraps values in


def test_arrays_of_all_layouts() -> None:
    lists = [[1, 2], [], [3]]
    array = {"type": "array", "items": "long"}
    for kind in (
        pa.list_(pa.int64()),
        pa.large_list(pa.int32()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int8()),
    ):
        assert write_column(array, pa.array([[9], *lists, [9]], kind).slice(1, 3)) == lists
        assert write_column(["null", array], pa.array([None, *lists, None], kind)) == [None, *lists, None]
    pairs = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert write_column([array, "null"], pairs.slice(1)) == [None, [3, 4]]


def test_texts_of_all_layouts() -> None:
    texts = ["a", "", "ä" * 9, "a"]
    encoded = pa.array(texts).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"]))
    for values in (encoded, pa.array(texts, pa.string_view()), pa.chunked_array([encoded, encoded.slice(2)])):
        assert write_column("string", values) == values.to_pylist()
        assert write_column("bytes", values) == [text.encode() for text in values.to_pylist()]
    assert write_column("string", runs) == ["a", "a", "b"]
    assert write_column("string", pa.array([b"a", b"b"], pa.large_binary())) == ["a", "b"]
    assert write_column("bytes", pa.array([b"ab"], pa.binary(2))) == [b"ab"]
    holes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert write_column(["null", "string"], holes) == ["a", None, None]


def test_a_uuid_is_its_sixteen_bytes() -> None:
    number = uuid.UUID(int=7)
    values = pa.array([number.bytes], pa.uuid())
    kind = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    assert write_column(kind, values) == [number.bytes]


def test_columns_of_the_null_type() -> None:
    for kind in ("null", ["null", "int"], [record(("a", "int"), name="r"), "null"]):
        assert write_column(kind, pa.nulls(3)) == [None] * 3
    everything = record(
        ("a", "int"), ("b", {"type": "array", "items": "long"}), ("c", {"type": "map", "values": "int"})
    )
    everything["name"] = "everything"
    everything["fields"].append({"name": "d", "type": {"type": "fixed", "name": "f", "size": 3}})
    no_rows = pa.table({name: pa.nulls(0) for name in "abcd"})
    assert read_by_fastavro(write_avro(no_rows, everything, metadata={})) == []
    empty = pa.array([[], []], pa.list_(pa.null()))
    assert write_column({"type": "array", "items": everything}, empty) == [[], []]


def test_fields_without_a_column_are_null() -> None:
    schema = record(("a", "int"), ("b", ["null", "int"]), ("c", ["string", "null"]), ("d", "null"))
    data = write_avro(pa.table({"a": [1, 2]}), schema, metadata={})
    assert read_by_fastavro(data) == [{"a": row, "b": None, "c": None, "d": None} for row in (1, 2)]


def test_nulls_under_a_null_parent_are_nobodys_business() -> None:
    children = [pa.array([1, None, 3], pa.int32()), pa.array(["a", None, None])]
    struct = pa.StructArray.from_arrays(
        children[:1] * 2, names=["a", "b"], mask=pa.array([False, True, False])
    )
    inner = record(("a", "int"), ("b", "long"), name="inner")
    assert write_column(["null", inner], struct) == [{"a": 1, "b": 1}, None, {"a": 3, "b": 3}]
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], children[0], mask=pa.array([False, True, False]))
    assert write_column([{"type": "array", "items": "int"}, "null"], lists) == [[1], None, [3]]
    # Nor are numbers that would not fit.
    wide = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([5, 2**40]).buffers()[1]])
    assert write_column(["null", "int"], wide) == [5, None]


def test_maps_that_are_slices_of_others() -> None:
    entries = [[(1, b"a")], None, [(2, b""), (3, b"ccc")], [], [(4, b"d")]]
    values = pa.array(entries, pa.map_(pa.int32(), pa.binary()))
    entry = record(("key", "int"), ("value", "bytes"), name="k1_v2")
    kind = ["null", {"type": "array", "logicalType": "map", "items": entry}]
    expected = [
        None if each is None else [{"key": key, "value": value} for key, value in each] for each in entries
    ]
    assert write_column(kind, values) == expected
    assert write_column(kind, values.slice(2, 2)) == expected[2:4]
    listed = pa.array(expected, pa.list_(pa.struct([("value", pa.binary()), ("key", pa.int32())])))
    plain = ["null", {"type": "array", "items": entry}]
    assert write_column(plain, listed) == expected


def test_a_named_type_that_is_used_twice() -> None:
    fixed = {"type": "fixed", "name": "two", "size": 2}
    table = pa.table({"a": [b"ab"], "b": [b"cd"]})
    data = write_avro(table, record(("a", fixed), ("b", "two")), metadata={})
    assert read_by_fastavro(data) == [{"a": b"ab", "b": b"cd"}]


def test_unions_of_one_type() -> None:
    assert write_column(["int"], pa.array([1, 2])) == [1, 2]


def test_rows_that_are_a_union_with_null() -> None:
    schema = ["null", record(("a", "int"))]
    data = write_avro(pa.table({"a": [1, 2]}), schema, metadata={})
    assert read_by_fastavro(data) == [{"a": 1}, {"a": 2}]
    assert read_avro(data, source="x").table.to_pylist() == [{"a": 1}, {"a": 2}]


# Refusals


ENTRY = record(("key", "int"), ("value", "long"), name="entry")
STRUCT = pa.array([{"a": 1, "b": 2}])
REFUSED = [
    ("int", pa.array([2**31]), "x", "does not fit int32"),
    ("int", pa.array([1, None]), "x", "1 nulls, and is not optional"),
    ("int", pa.array(["1"]), "x", "is string, which cannot be written as int32"),
    ("long", pa.array([2**63], pa.uint64()), "x", "does not fit int64"),
    ("long", pa.array([1.5]), "x", "is double, which cannot be written as int64"),
    ("float", pa.array([0.1]), "x", "is double, which cannot be written as float"),
    ("float", pa.array([2**24 + 1]), "x", "does not fit float"),
    ("boolean", pa.array([1]), "x", "cannot be written as bool"),
    ("string", pa.array([b"\xff"]), "x", "does not fit string"),
    ("null", pa.array([1]), "x", "its type is null"),
    ({"type": "fixed", "name": "f", "size": 2}, pa.array([b"abc"]), "x", "does not fit fixed_size_binary[2]"),
    (
        {"type": "enum", "name": "e", "symbols": ["A", "B"]},
        pa.array(["A", "C"]),
        "x",
        "'C', which is no symbol",
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        pa.array([Decimal("100.0")]),
        "x",
        "does not fit decimal128(3, 1)",
    ),
    (
        {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3},
        pa.array([Decimal(128)]),
        "x",
        "does not fit into 1 bytes",
    ),
    ({"type": "int", "logicalType": "time-millis"}, pa.array([dt.time(0, 0, 0, 1)]), "x", "would lose data"),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        pa.array([0], pa.timestamp("us")),
        "x",
        "is timestamp[us], which cannot be written as timestamp[us, tz=UTC]",
    ),
    ({"type": "array", "items": "int"}, pa.array([[1, None]]), "x.element", "1 nulls"),
    (
        {"type": "array", "items": "int"},
        pa.array([1]),
        "x",
        "is int64, which cannot be written as an array or a map",
    ),
    (
        {"type": "array", "items": ENTRY},
        pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int64())),
        "x",
        "as an array",
    ),
    ({"type": "map", "values": "int"}, pa.array([[1]]), "x", "cannot be written as a map"),
    (
        {"type": "map", "values": "int"},
        pa.array([[("a", None)]], pa.map_("string", "int32")),
        "x.value",
        "1 nulls",
    ),
    ({"type": "map", "values": "int"}, pa.array([[(1, 1)]], pa.map_("int32", "int32")), "x.key", "is int32"),
    (
        {"type": "array", "logicalType": "map", "items": ENTRY},
        pa.array([[("a", 1)]], pa.map_("string", "int64")),
        "x.key",
        "is string",
    ),
    (record(("a", "int"), name="r"), STRUCT, "x.b", "is no field of the schema"),
    (
        record(("a", "int"), ("b", "int"), ("c", "int"), name="r"),
        STRUCT,
        "x.c",
        "is missing, and is not optional",
    ),
    (record(("a", "int"), ("b", "string"), name="r"), STRUCT, "x.b", "is int64"),
    (record(("a", "int"), name="r"), pa.array([1]), "x", "cannot be written as a record"),
    (["int", "string", "null"], pa.array([1]), "x", "only unions with null"),
    (
        record(("a", "int"), name="r"),
        pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], names=["a", "a"]),
        "x.a",
        "two fields of this name",
    ),
]


@pytest.mark.parametrize(("kind", "values", "place", "text"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(
    kind: Any, values: pa.Array, place: str, text: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        write_column(kind, values)
    assert caught.value.field == place
    assert text in caught.value.problem


def test_columns_of_no_rows_have_to_fit_as_well() -> None:
    with pytest.raises(InvalidInput, match="x: is string"):
        write_column("int", pa.array([], pa.string()))
    with pytest.raises(InvalidInput, match="y: is missing"):
        write_avro(pa.table({"x": []}), record(("x", "null"), ("y", "int")), metadata={})


def test_tables_that_are_not_those_of_the_schema() -> None:
    with pytest.raises(InvalidInput, match="y: is no field of the schema"):
        write_avro(pa.table({"x": [1], "y": [1]}), record(("x", "int")), metadata={})
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["x", "x"])
    with pytest.raises(InvalidInput, match="two columns have the same name"):
        write_avro(twice, record(("x", "int")), metadata={})


def test_schemas_and_settings_that_are_wrong() -> None:
    table = pa.table({"x": [1]})
    wrong: list[dict[str, Any]] = [{"type": "record", "name": "r"}, {"type": "array", "items": "int"}]
    for schema in wrong:
        with pytest.raises(InvalidInput):
            write_avro(table, schema, metadata={})
    with pytest.raises(InvalidInput, match=r"'avro\.codec' belongs to Avro"):
        write_avro(table, record(("x", "int")), metadata={"avro.codec": "null"})
    with pytest.raises(InvalidInput, match="blocks of 0 bytes"):
        write_avro(table, record(("x", "int")), metadata={}, block_bytes=0)
    with pytest.raises(InvalidInput, match="'lzo' is no codec"):
        write_avro(table, record(("x", "int")), metadata={}, codec="lzo")
    with pytest.raises(InvalidInput, match="level 13 is not between 0 and 12"):
        write_avro(table, record(("x", "int")), metadata={}, level=13)


# The file around the rows


def test_the_header_keeps_the_schema_and_the_metadata() -> None:
    schema = record(("a", "int"))
    schema["fields"][0] |= {"field-id": 7, "iceberg-field-name": "a-b", "doc": "ä"}
    data = write_avro(pa.table({"a": [1]}), schema, metadata={"content": "data", "raw": b"ab"}, codec="null")
    reader = fastavro.reader(io.BytesIO(data))
    assert reader.metadata["avro.codec"] == "null"
    assert json.loads(reader.metadata["avro.schema"]) == schema
    header = read_header(data, source="x")
    assert header.metadata == {"content": b"data", "raw": b"ab"}
    assert header.schema == schema


def blocks_of(data: bytes) -> list[tuple[int, int]]:
    """Rows and bytes of the blocks, as fastavro sees them."""
    blocks: Iterator[Any] = fastavro.block_reader(io.BytesIO(data))
    return [(block.num_records, len(block.bytes_.getvalue())) for block in blocks]


def test_a_table_without_rows_has_no_blocks() -> None:
    for schema, table in (
        (record(("a", "int")), pa.table({"a": pa.array([], pa.int32())})),
        (record(), pa.table({})),
        (record(("a", "int")), pa.table({"a": pa.chunked_array([], pa.int32())})),
    ):
        data = write_avro(table, schema, metadata={})
        assert blocks_of(data) == []
        assert read_by_fastavro(data) == []


def test_records_without_fields() -> None:
    table = pa.table({"a": [1, 2, 3]}).select([])
    assert read_by_fastavro(write_avro(table, record(), metadata={})) == [{}, {}, {}]
    assert write_column(record(name="empty"), pa.array([{}, {}], pa.struct([]))) == [{}, {}]


def test_blocks_end_with_the_row_that_fills_them() -> None:
    table = pa.table({"a": pa.array([b"x" * 9] * 25)})
    data = write_avro(table, record(("a", "bytes")), metadata={}, codec="null", block_bytes=95)
    assert blocks_of(data) == [(10, 100), (10, 100), (5, 50)]
    data = write_avro(table, record(("a", "bytes")), metadata={}, codec="null", block_bytes=100)
    assert blocks_of(data) == [(10, 100), (10, 100), (5, 50)]
    data = write_avro(table, record(("a", "bytes")), metadata={}, codec="null", block_bytes=101)
    assert blocks_of(data) == [(11, 110), (11, 110), (3, 30)]


def test_batches_leave_no_trace_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 500
    table = pa.table(
        {
            "a": pa.array([None if row % 7 == 0 else row * 31 for row in range(count)]),
            "b": pa.array([[str(item) * (row % 5) for item in range(row % 4)] for row in range(count)]),
        }
    )
    schema = record(("a", ["null", "long"]), ("b", {"type": "array", "items": "string"}))
    whole = write_avro(table, schema, metadata={}, block_bytes=300)
    for size in (1, 100, 1000, 5000):
        monkeypatch.setattr(write, "_BATCH_BYTES", size)
        assert write_avro(table, schema, metadata={}, block_bytes=300) == whole
    monkeypatch.setattr(write, "_BATCH_ROWS", 3)
    assert write_avro(table, schema, metadata={}, block_bytes=300) == whole
    assert read_by_fastavro(whole) == table.to_pylist()


def test_more_rows_than_a_batch_has() -> None:
    count = 70_000
    table = pa.table({"a": pa.array(range(count)), "b": pa.array([f"{row:09}" for row in range(count)])})
    data = write_avro(table, record(("a", "long"), ("b", "string")), metadata={})
    sizes = blocks_of(data)
    assert sum(rows for rows, _ in sizes) == count
    assert all(64_000 <= size < 64_020 for _, size in sizes[:-1])
    assert read_avro(data, source="x").table.equals(table.cast(read_avro(data, source="x").table.schema))
