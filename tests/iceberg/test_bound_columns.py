from __future__ import annotations

import uuid
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.iceberg.bound_columns import read_bounds
from lakeplane.model.expressions.physical import read_column
from lakeplane.model.temporal import DAY_MICROS, DAY_NANOS
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
    Fixed,
    Geometry,
    Type,
)
from lakeplane.model.value_bytes import from_bytes, to_bytes

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32, allow_nan=False),
    DOUBLE: st.floats(allow_nan=False),
    DATE: st.integers(-(2**31), 2**31 - 1),
    TIME: st.integers(0, DAY_MICROS - 1),
    TIMESTAMP: st.integers(-(2**63), 2**63 - 1),
    TIMESTAMPTZ: st.integers(-(2**63), 2**63 - 1),
    STRING: st.text(),
    BINARY: st.binary(),
    UUID: st.uuids(),
    Fixed(4): st.binary(min_size=4, max_size=4),
    Decimal(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Number(n).scaleb(-2)),
    Decimal(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Number),
}


def comparable(type_: Type, raw: pa.Array) -> list[Any]:
    bounds = read_bounds(type_, raw)
    assert bounds is not None
    values, valid = read_column(type_, bounds)
    listed = values.tolist() if not isinstance(values, pa.Array) else values.to_pylist()
    return [value if known else None for value, known in zip(listed, valid.tolist(), strict=True)]


def physical(type_: Type, value: Any) -> Any:
    match value:
        case uuid.UUID():
            return value.bytes
        case str():
            return value.encode()
        case Number():
            assert isinstance(type_, Decimal)
            return int(value.scaleb(type_.scale))
        case bool():
            return int(value)
        case _:
            return value


@given(st.data(), st.sampled_from(list(VALUES)), st.integers(0, 3))
def test_columns_are_read_as_single_values_are(data: st.DataObject, type_: Type, offset: int) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], max_size=8))
    raw = [None if value is None else to_bytes(type_, value) for value in values]
    column = pa.array([b"before"] * offset + raw, pa.binary()).slice(offset)
    known = [None if each is None else from_bytes(type_, each) for each in raw]
    assert comparable(type_, column) == [None if each is None else physical(type_, each) for each in known]


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [(INT, LONG, 1), (FLOAT, DOUBLE, 1), (DATE, TIMESTAMP, DAY_MICROS), (DATE, TIMESTAMP_NS, DAY_NANOS)],
)
def test_bounds_of_columns_that_were_widened_are_told_by_their_length(
    old: Type, new: Type, factor: int
) -> None:
    three, four, less = (3.0, 4.0, -2.0) if old is FLOAT else (3, 4 * factor, -2)
    raw = [to_bytes(old, three), None, to_bytes(new, four), to_bytes(old, less)]
    assert comparable(new, pa.array(raw, pa.binary())) == [3 * factor, None, 4 * factor, -2 * factor]


def test_a_date_too_far_away_for_nanoseconds_is_unknown() -> None:
    raw = pa.array([to_bytes(DATE, 2**31 - 1), to_bytes(DATE, 1)], pa.binary())
    assert comparable(TIMESTAMP_NS, raw) == [None, DAY_NANOS]


@pytest.mark.parametrize("type_", [INT, LONG, DOUBLE, BOOLEAN, UUID, TIMESTAMP, Decimal(9, 2)])
def test_bytes_of_another_length_are_unknown(type_: Type) -> None:
    """A bound that is read from too few or too many bytes would leave out files that hold matching rows."""
    raw = pa.array(
        [b"", b"\x01" * 3 if not isinstance(type_, Decimal) else b"\x01" * 17, b"\x01" * 20], pa.binary()
    )
    assert comparable(type_, raw) == [None] * 3


@pytest.mark.parametrize("type_", [UNKNOWN, VARIANT, Geometry("OGC:CRS84")])
def test_what_cannot_be_compared_has_no_bounds(type_: Type) -> None:
    assert read_bounds(type_, pa.array([b"abcd"], pa.binary())) is None


def test_chunks_are_read_as_one_column() -> None:
    chunked = pa.chunked_array([[to_bytes(LONG, 1)], [None, to_bytes(LONG, 2)]], pa.binary())
    assert comparable(LONG, chunked) == [1, None, 2]
