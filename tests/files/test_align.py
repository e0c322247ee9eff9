"""Frames become rows of a table: by name, without loss, and with errors that say what to do."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.files.align import align_arrow, union_schema
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.evolution import EvolutionRules
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)
from tests.files.samples import NESTED, NEW, PLAIN, POINT, UTC, sample


def align(schema: Schema, rows: Any, **options: Any) -> pa.Table:
    found = align_arrow(schema, rows, **options)
    assert isinstance(found, pa.Table)
    assert found.schema.equals(to_arrow(schema), check_metadata=True)
    found.validate(full=True)
    return found


def one(type_: Type, array: pa.Array) -> list[Any]:
    """What a column of one type becomes."""
    return list(align(Schema((Field(1, "x", type_),)), pa.table({"x": array}))["x"].to_pylist())


def refused(type_: Type, array: pa.Array, match: str) -> None:
    with pytest.raises(InvalidInput, match=match) as caught:
        one(type_, array)
    assert caught.value.field is not None
    assert caught.value.field.startswith("x")
    assert caught.value.hint


@pytest.mark.parametrize("group", [PLAIN, NEW, NESTED])
def test_aligned_rows_stay_as_they_are(group: dict[str, tuple[Type, list[Any]]]) -> None:
    schema, rows = sample(group)
    again = align(schema, rows)
    assert again.equals(rows)


def test_what_fits_is_not_copied() -> None:
    rows = pa.table({"x": pa.array(range(1000)), "s": pa.array(["a"] * 1000)})
    found = align(Schema((Field(1, "s", STRING), Field(2, "x", LONG))), rows)
    assert found["x"].chunk(0).buffers()[1].address == rows["x"].chunk(0).buffers()[1].address
    assert found["s"].chunk(0).buffers()[2].address == rows["s"].chunk(0).buffers()[2].address


SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
PAIR = Struct((Field(2, "a", LONG), Field(3, "b", STRING)))
ONE = {"metadata": b"\x01\0\0", "value": b"\x0c\x01"}
LONGS_BY_NAME = pa.map_(pa.string(), pa.int64())
ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        (INT, pa.array([1, None], pa.int64()), [1, None]),
        (INT, pa.array([1.0, None]), [1, None]),
        (LONG, pa.array([1], pa.uint64()), [1]),
        (LONG, pa.array([2], pa.int8()), [2]),
        (DOUBLE, pa.array([1, None], pa.int32()), [1.0, None]),
        (DOUBLE, pa.array(np.array([1.5], np.float16)), [1.5]),
        (FLOAT, pa.array([0.1, float("inf")]), [np.float32(0.1), float("inf")]),
        (Decimal(9, 2), pa.array([Number("1.5")], pa.decimal128(3, 1)), [Number("1.50")]),
        (Decimal(9, 2), pa.array([7, None]), [Number("7.00"), None]),
        (Decimal(38, 2), pa.array([Number("1.5")], pa.decimal256(60, 1)), [Number("1.50")]),
        (DATE, pa.array([dt.date(2026, 1, 1)], pa.date64()), [dt.date(2026, 1, 1)]),
        (TIME, pa.array([1], pa.time32("s")), [dt.time(0, 0, 1)]),
        (TIMESTAMP, pa.array([1_000], pa.timestamp("ns")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
        (TIMESTAMP, pa.array([dt.date(2026, 1, 1)]), [dt.datetime(2026, 1, 1)]),  # noqa: DTZ001
        (TIMESTAMPTZ, pa.array([1], pa.timestamp("s", "Europe/Prague")), [SECOND]),
        (STRING, pa.array(["a", None], pa.large_string()), ["a", None]),
        (STRING, pa.array(["a", None], pa.string_view()), ["a", None]),
        (STRING, pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
        (UUID, pa.array([str(ID), None, ID.hex.upper()]), [ID, None, ID]),
        (UUID, pa.array([None, None], pa.string()), [None, None]),
        (UUID, pa.array([ID.bytes, None]), [ID, None]),
        (UUID, pa.array([ID.bytes], pa.binary(16)), [ID]),
        (Fixed(3), pa.array([b"abc", None]), [b"abc", None]),
        (Fixed(3), pa.array(["abc"]), [b"abc"]),
        (BINARY, pa.array([b"abc"], pa.binary(3)), [b"abc"]),
        (BINARY, pa.array([b"abc"], pa.binary_view()), [b"abc"]),
        (BOOLEAN, pa.nulls(2), [None, None]),
        (UNKNOWN, pa.array([None], pa.string()), [None]),
        (Geometry(), pa.array([POINT]), [POINT]),
        (List(2, LONG), pa.array([[1], None], pa.large_list(pa.int32())), [[1], None]),
        (List(2, LONG), pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        (List(2, LONG), pa.array([[1, 2], None], pa.list_view(pa.int64())), [[1, 2], None]),
        (List(2, LONG), pa.array([[1], [2], [3]]).slice(1), [[2], [3]]),
        (Map(2, STRING, 3, LONG), pa.array([[{"key": "a", "value": 1}], None]), [[("a", 1)], None]),
        (PAIR, pa.array([{"b": "x"}, None]), [{"a": None, "b": "x"}, None]),
        (VARIANT, pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\0\0"}, None]), [ONE, None]),
    ],
)  # fmt: skip
def test_natural_types_are_taken(type_: Type, array: pa.Array, expected: list[Any]) -> None:
    assert one(type_, array) == expected
    if len(array) > 1:
        assert one(type_, array.slice(1)) == expected[1:]


@pytest.mark.parametrize(
    ("type_", "array", "match"),
    [
        (INT, pa.array([2**31]), "do not fit int"),
        (INT, pa.array([2.0**40]), "do not fit int"),
        (LONG, pa.array([1.5]), "do not fit long"),
        (LONG, pa.array([2**63], pa.uint64()), "do not fit long"),
        (LONG, pa.array(["1"]), "string cannot become long"),
        (LONG, pa.array([True]), "bool cannot become long"),
        (DOUBLE, pa.array([2**53 + 1]), "do not fit double"),
        (FLOAT, pa.array([1e300]), "too large"),
        (Decimal(9, 2), pa.array([Number("1.555")]), "do not fit"),
        (Decimal(3, 2), pa.array([Number("12.55")]), "do not fit"),
        (Decimal(3, 2), pa.array([1000]), "do not fit"),
        (Decimal(3, 2), pa.array([1.5]), "double cannot become"),
        (DATE, pa.array([1], pa.timestamp("s")), "cannot become date"),
        (TIME, pa.array([1], pa.time64("ns")), "do not fit time"),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns")), "do not fit timestamp"),
        (TIMESTAMP, pa.array([1], pa.timestamp("us", "UTC")), "Take the zone away"),
        (TIMESTAMPTZ, pa.array([1], pa.timestamp("us")), "assume_timezone"),
        (TIMESTAMP_NS, pa.array([2**60], pa.timestamp("s")), "do not fit"),
        (STRING, pa.array([b"a"]), "binary cannot become string"),
        (STRING, pa.array([1]), "int64 cannot become string"),
        (UUID, pa.array(["no"]), "no UUID"),
        (UUID, pa.array(["g" * 32]), "no UUID"),
        (UUID, pa.array([b"12"]), "2 bytes"),
        (Fixed(3), pa.array([b"abc", b"ab"]), "2 bytes"),
        (Fixed(3), pa.array([b"ab"], pa.binary(2)), "cannot become fixed"),
        (UNKNOWN, pa.array([1]), "unknown"),
        (List(2, LONG), pa.array([1]), "int64 cannot become list"),
        (List(2, INT), pa.array([[2**40]]), "x.element: values"),
        (Map(2, STRING, 3, INT), pa.array([[("a", 2**40)]], LONGS_BY_NAME), "x.value: values"),
        (Struct((Field(2, "a", INT),)), pa.array([{"a": 2**40}]), "x.a: values"),
        (Struct((Field(2, "a", INT),)), pa.array([{"a": 1, "b": 1}]), "x.b: the table has no such column"),
        (Struct((Field(2, "a", INT, required=True),)), pa.array([{"a": None}]), "x.a: is required"),
        (List(2, INT, element_required=True), pa.array([[1, None]]), "x.element: is required"),
        (VARIANT, pa.array([{"value": b""}]), "no variant"),
    ],
)  # fmt: skip
def test_what_would_lose_something_is_refused(type_: Type, array: pa.Array, match: str) -> None:
    refused(type_, array, match)


def test_hidden_values_are_nobodys_business() -> None:
    """Below a null struct, or in a null list, anything may lie."""
    inner = pa.array([2**40, 1])
    struct = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([True, False]))
    assert one(Struct((Field(2, "a", INT, required=True),)), struct) == [None, {"a": 1}]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), inner, mask=pa.array([True, False]))
    assert one(List(2, INT, element_required=True), lists) == [None, [1]]


def test_missing_columns_take_their_write_default() -> None:
    inside = Struct((Field(21, "p", INT, write_default=7), Field(22, "q", STRING)))
    schema = Schema(
        (
            Field(1, "id", LONG),
            Field(2, "n", INT, required=True, write_default=5),
            Field(3, "u", UUID, write_default=ID),
            Field(4, "at", TIMESTAMPTZ, write_default=1_000_000),
            Field(5, "l", List(6, DATE), write_default=(1, 2)),
            Field(7, "m", Map(8, STRING, 9, INT), write_default=(("k", 1),)),
            Field(20, "s", inside, write_default=FrozenDict()),
            Field(30, "plain", STRING),
            Field(31, "v", VARIANT),
        )
    )
    (row,) = align(schema, pa.table({"id": [1]})).to_pylist()
    assert row == {
        "id": 1,
        "n": 5,
        "u": ID,
        "at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "l": [dt.date(1970, 1, 2), dt.date(1970, 1, 3)],
        "m": [("k", 1)],
        "s": {"p": 7, "q": None},
        "plain": None,
        "v": None,
    }
    (row,) = align(schema, pa.table({"s": [{"q": "x"}]})).to_pylist()
    assert row["s"] == {"p": 7, "q": "x"}


def test_required_columns_must_be_given() -> None:
    schema = Schema((Field(1, "a", LONG, required=True),))
    with pytest.raises(InvalidInput, match="a: is required, and the rows do not have it"):
        align_arrow(schema, pa.table({}))
    with pytest.raises(InvalidInput, match="a: is required, and holds 1 nulls"):
        align_arrow(schema, pa.table({"a": [1, None]}))


def test_names_are_matched_with_or_without_their_case() -> None:
    schema = Schema((Field(1, "Id", LONG), Field(2, "s", Struct((Field(3, "Ab", LONG),)))))
    rows = pa.table({"ID": [1], "S": [{"aB": 2}]})
    assert align(schema, rows, case_sensitive=False).to_pylist() == [{"Id": 1, "s": {"Ab": 2}}]
    with pytest.raises(InvalidInput, match="ID: the table has no such column, nor S"):
        align_arrow(schema, rows)
    with pytest.raises(InvalidInput, match="given twice"):
        align_arrow(schema, pa.table({"id": [1], "ID": [2]}), case_sensitive=False)


def test_streams_stay_streams() -> None:
    taken = []

    def batches() -> Any:
        for at in range(3):
            taken.append(at)
            yield pa.record_batch({"x": pa.array([at], pa.int32())})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int32()}), batches())
    found = align_arrow(Schema((Field(1, "x", LONG),)), reader)
    assert isinstance(found, pa.RecordBatchReader)
    assert taken == []
    assert found.read_next_batch()["x"].to_pylist() == [0]
    assert len(taken) == 1


def test_frames_of_pandas_and_polars_are_taken() -> None:
    schema = Schema(
        (Field(1, "a", LONG), Field(2, "s", STRING), Field(3, "at", TIMESTAMPTZ), Field(4, "d", DOUBLE))
    )
    moment = dt.datetime(2026, 1, 1, tzinfo=UTC)
    given = {"a": [1, None], "s": ["x", None], "at": [moment, None], "d": [1.5, None]}
    expected = [{"a": 1, "s": "x", "at": moment, "d": 1.5}, dict.fromkeys(given)]
    assert align(schema, pl.DataFrame(given)).to_pylist() == expected
    assert align(schema, pl.LazyFrame(given)).to_pylist() == expected
    assert align(schema, pd.DataFrame(given, index=[7, 9])).to_pylist() == expected
    assert align(schema, pa.RecordBatch.from_pydict(given)).to_pylist() == expected
    with pytest.raises(InvalidInput, match="values of one type"):
        align_arrow(schema, pd.DataFrame({"a": [1, "x"]}))
    with pytest.raises(InvalidInput, match="rows cannot be taken from"):
        align_arrow(schema, [1])


def test_rows_without_columns_or_rows() -> None:
    schema = Schema((Field(1, "a", LONG), Field(2, "s", Struct((Field(3, "x", UUID),)))))
    assert align(schema, pa.table({"a": pa.array([], pa.int32())})).num_rows == 0
    assert align(schema, pa.table({})).num_rows == 0


@given(st.data())
def test_slices_and_chunks_do_not_matter(data: st.DataObject) -> None:
    schema, rows = sample({**PLAIN, **NEW, **NESTED})
    taken = data.draw(st.lists(st.integers(0, 2), max_size=12))
    many = rows.take(pa.array(taken, pa.int64()))
    start = data.draw(st.integers(0, len(taken)))
    count = data.draw(st.integers(0, len(taken)))
    pieces = [many.slice(start, count), rows, many.slice(0, start)]
    given_rows = pa.concat_tables(pieces)
    plain = pa.Table.from_arrays(given_rows.columns, names=given_rows.column_names)
    assert align(schema, plain).equals(given_rows)


def test_shapes_of_another_reference_system_are_refused() -> None:
    def shapes(parameters: bytes) -> pa.Table:
        metadata = {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": parameters}
        return pa.table(
            [pa.array([POINT])], schema=pa.schema([pa.field("x", pa.binary(), metadata=metadata)])
        )

    schema = Schema((Field(1, "x", Geometry("EPSG:3857")),))
    assert align(schema, shapes(b'{"crs": "EPSG:3857"}')).num_rows == 1
    assert align(schema, shapes(b"{}")).num_rows == 1
    with pytest.raises(InvalidInput, match="x: holds geometry"):
        align_arrow(schema, shapes(b'{"crs": "EPSG:4326"}'))


def test_a_union_has_what_rows_bring_along() -> None:
    schema = Schema((Field(1, "a", INT), Field(2, "u", UUID), Field(3, "s", Struct((Field(4, "x", INT),)))))
    rows = pa.table({"a": [2**40], "u": [str(ID)], "s": [{"x": 1, "y": "new"}], "b": [1.5]})
    found, last = union_schema(schema, rows.schema, EvolutionRules(format_version=2, last_column_id=4))
    assert last == 6
    assert [str(field) for field in found.fields] == [
        "1: a: optional long",
        "2: u: optional uuid",
        "3: s: optional struct<4: x: optional long, 5: y: optional string>",
        "6: b: optional double",
    ]
    assert align(found, rows).to_pylist() == [{"a": 2**40, "u": ID, "s": {"x": 1, "y": "new"}, "b": 1.5}]
