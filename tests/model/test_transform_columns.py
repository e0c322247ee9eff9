"""Transforms of columns: each row is what the transform of the single value gives."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model import transform_columns, transforms, types
from lakeplane.model.murmur import hash_value, murmur3
from lakeplane.model.transform_columns import apply_to_column, hash_column
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
)

ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
texts, blobs = st.text(max_size=40), st.binary(max_size=40)


def decimals(type_: types.Decimal) -> st.SearchStrategy[Decimal]:
    largest = 10**type_.precision - 1
    edges = [sign * 2**bits - back for bits in range(7, 127, 8) for sign in (1, -1) for back in (0, 1)]
    inside = [edge for edge in edges if abs(edge) <= largest]
    numbers = st.integers(-largest, largest) | st.sampled_from([*inside, largest, -largest, 0])
    return numbers.map(lambda number: Decimal(f"{number}E-{type_.scale}"))


NARROW, MIDDLE, WIDE = types.Decimal(4, 2), types.Decimal(18, 0), types.Decimal(38, 6)
# What each type holds, and the Arrow types that are natural for it; the first is that of results.
VALUES: dict[types.Type, st.SearchStrategy[Any]] = {
    types.BOOLEAN: st.booleans(),
    types.INT: ints,
    types.LONG: longs,
    types.FLOAT: st.floats(width=32),
    types.DOUBLE: st.floats(),
    NARROW: decimals(NARROW),
    MIDDLE: decimals(MIDDLE),
    WIDE: decimals(WIDE),
    types.DATE: ints,
    types.TIME: st.integers(0, 86_400 * 10**6 - 1),
    types.TIMESTAMP: longs,
    types.TIMESTAMPTZ: longs,
    types.TIMESTAMP_NS: longs,
    types.TIMESTAMPTZ_NS: longs,
    types.STRING: texts,
    types.UUID: st.uuids(),
    types.Fixed(7): st.binary(min_size=7, max_size=7),
    types.Fixed(0): st.just(b""),
    types.BINARY: blobs,
}
ARROW: dict[types.Type, list[pa.DataType]] = {
    types.BOOLEAN: [pa.bool_()],
    types.INT: [pa.int32(), pa.int64()],
    types.LONG: [pa.int64()],
    types.FLOAT: [pa.float32(), pa.float64()],
    types.DOUBLE: [pa.float64()],
    NARROW: [pa.decimal128(4, 2), pa.decimal128(38, 2), pa.decimal32(4, 2), pa.decimal256(40, 2)],
    MIDDLE: [pa.decimal128(18, 0), pa.decimal128(38, 0), pa.decimal64(18, 0), pa.decimal128(20, 1)],
    WIDE: [pa.decimal128(38, 6), pa.decimal256(38, 6), pa.decimal256(76, 10)],
    types.DATE: [pa.date32(), pa.int32()],
    types.TIME: [pa.time64("us"), pa.int64()],
    types.TIMESTAMP: [pa.timestamp("us"), pa.int64()],
    types.TIMESTAMPTZ: [pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.int64()],
    types.TIMESTAMP_NS: [pa.timestamp("ns"), pa.int64()],
    types.TIMESTAMPTZ_NS: [pa.timestamp("ns", "UTC"), pa.int64()],
    types.STRING: [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    types.UUID: [pa.binary(16), pa.uuid()],
    types.Fixed(7): [pa.binary(7), pa.binary(), pa.large_binary()],
    types.Fixed(0): [pa.binary(0)],
    types.BINARY: [pa.binary(), pa.large_binary(), pa.binary_view()],
}
FIXED_TRANSFORMS: list[Transform] = [Identity(), Void(), Year(), Month(), Day(), Hour()]
parameters = st.sampled_from([1, 2, 3, 10, 16, 1000, 2**30 + 1, 2**31 - 1])
any_transform = st.sampled_from(FIXED_TRANSFORMS) | parameters.map(Bucket) | parameters.map(Truncate)


def to_arrow(type_: types.Type, arrow: pa.DataType, values: list[Any]) -> pa.Array:
    """Put canonical Python values into an array."""
    if type_ is types.UUID:
        return pa.array([value and value.bytes for value in values], arrow)
    if type_ in (types.DATE, types.TIME, *types.TIMESTAMPS):
        return pa.array(values, pa.int32() if type_ is types.DATE else pa.int64()).cast(arrow)
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode()
    return pa.array(values, arrow)


def from_arrow(column: pa.Array) -> list[Any]:
    """Take values out of an array, such that they compare equal exactly if they are the same."""
    found = column.type
    if pa.types.is_temporal(found):
        column = column.cast(pa.int32() if pa.types.is_date(found) else pa.int64())
    if found == pa.binary(16):
        return [value and uuid.UUID(bytes=value) for value in column.to_pylist()]
    return [comparable(value) for value in column.to_pylist()]


def comparable(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if value != value else struct.pack("<d", value)  # noqa: PLR0124
        case Decimal():
            return value.normalize().as_tuple() if value else 0
        case _:
            return value


@st.composite
def columns(draw: st.DrawFn) -> tuple[types.Type, list[Any], pa.Array | pa.ChunkedArray]:
    """Columns with nulls, as slices of larger arrays, in one or more chunks."""
    type_ = draw(st.sampled_from(list(VALUES)))
    arrow = draw(st.sampled_from(ARROW[type_]))
    some = VALUES[type_] if draw(st.booleans()) else st.none() | VALUES[type_]
    chunks = draw(st.lists(st.lists(some, max_size=12), min_size=1, max_size=3))
    arrays = []
    for values in chunks:
        before, after = draw(st.lists(some, max_size=9)), draw(st.lists(some, max_size=2))
        whole = to_arrow(type_, arrow, [*before, *values, *after])
        arrays.append(whole.slice(len(before), len(values)))
    column = arrays[0] if len(arrays) == 1 and draw(st.booleans()) else pa.chunked_array(arrays)
    return type_, [value for values in chunks for value in values], column


@settings(max_examples=1000, deadline=None)
@given(columns(), any_transform)
def test_columns_agree_with_single_values(
    column: tuple[types.Type, list[Any], pa.Array | pa.ChunkedArray], transform: Transform
) -> None:
    type_, values, array = column
    if not transforms.accepts(transform, type_):
        with pytest.raises(InvalidInput, match="does not apply to"):
            apply_to_column(transform, type_, array)
        return
    result = apply_to_column(transform, type_, array)
    assert isinstance(result, pa.Array)
    # Truncated decimals can need one more digit than their precision, which validate(full=True) sees.
    result.validate(full=not isinstance(type_, types.Decimal))
    match transform:
        case Identity() | Void():
            assert result.type == array.type
        case Truncate() if type_ in (types.STRING, types.BINARY):
            plain = getattr(array.type, "value_type", array.type)
            assert result.type == plain
        case _:
            assert result.type == ARROW[transforms.result_type(transform, type_)][0]
    expected = [transforms.apply(transform, type_, value) for value in values]
    assert len(result) == len(expected)
    if type_ is types.UUID and isinstance(result.type, pa.ExtensionType):
        result = result.storage
    assert from_arrow(result) == [comparable(value) for value in expected]


@settings(max_examples=500, deadline=None)
@given(columns())
def test_hashes_agree_with_single_values(
    column: tuple[types.Type, list[Any], pa.Array | pa.ChunkedArray],
) -> None:
    type_, values, array = column
    result = hash_column(type_, array)
    assert result.type == pa.int32()
    assert result.to_pylist() == [None if value is None else hash_value(type_, value) for value in values]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60)), st.integers(1, 9), st.integers(0, 4), st.integers(0, 6))
def test_batches_and_long_rows_do_not_matter(rows: list[bytes], batch: int, few: int, many: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform_columns, "ROWS_AT_A_TIME", batch)
        patch.setattr(transform_columns, "FEW_ROWS", few)
        patch.setattr(transform_columns, "MANY_WORDS", many)
        result = hash_column(types.BINARY, pa.array(rows, pa.binary()))
        numbers = hash_column(types.LONG, pa.array(map(len, rows), pa.int64()))
    assert result.to_pylist() == [murmur3(row) for row in rows]
    assert numbers.to_pylist() == [hash_value(types.LONG, len(row)) for row in rows]


def test_many_rows_and_a_few_very_long_ones() -> None:
    rows = [f"row {number % 977:x}" * (number % 13) for number in range(70_000)]
    rows[40_000] = "\N{SNOWMAN}" * 100_000
    result = hash_column(types.STRING, pa.array(rows))
    for number in (*range(0, 70_000, 371), 40_000, 69_999):
        assert result[number].as_py() == murmur3(rows[number].encode())


def test_long_rows_that_are_many() -> None:
    rows = [bytes([number]) * (300_000 + number) for number in range(70)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform_columns, "MANY_WORDS", 20)
        result = hash_column(types.BINARY, pa.array(rows))
    assert result[0].as_py() == murmur3(rows[0])
    assert result[69].as_py() == murmur3(rows[69])


def test_bytes_at_the_very_end_of_a_buffer() -> None:
    """A buffer of exactly the bytes in use: reading whole words must not go beyond it."""
    for size in range(9):
        data = bytes(range(1, size + 1))
        offsets = np.array([0, size // 2, size], dtype="<i4")
        column = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        expected = [murmur3(data[: size // 2]), murmur3(data[size // 2 :])]
        assert hash_column(types.BINARY, column).to_pylist() == expected


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x80000000, 0x00000001])
def test_bit_patterns_of_floats(bits: int) -> None:
    column = pa.array(np.array([bits], dtype="<u4").view("<f4"))
    expected = hash_value(types.FLOAT, column[0].as_py())
    assert hash_column(types.FLOAT, column).to_pylist() == [expected]


def test_nan_survives_identity() -> None:
    column = pa.array([float("nan"), None, 1.0])
    result = apply_to_column(Identity(), types.DOUBLE, column)
    assert [str(value) for value in result.to_pylist()] == ["nan", "None", "1.0"]


def test_truncation_wraps_around_at_the_lower_end() -> None:
    for type_, bits in ((types.INT, 31), (types.LONG, 63)):
        column = pa.array([-(2**bits), -(2**bits) + 7, 5], ARROW[type_][0])
        result = apply_to_column(Truncate(10), type_, column)
        assert result.to_pylist() == [2**bits - 2, 2**bits - 2, 0]


def test_truncated_decimals_are_exact_beyond_their_precision() -> None:
    lowest = -(10**38) + 1
    column = pa.array([Decimal(f"{lowest}E-6"), None, Decimal(f"{-lowest}E-6")], pa.decimal128(38, 6))
    result = apply_to_column(Truncate(2**31 - 1), WIDE, column)
    expected = [number - number % (2**31 - 1) for number in (lowest, -lowest)]
    assert [str(value).replace(".", "") for value in result.to_pylist() if value] == list(map(str, expected))
    assert result.is_null().to_pylist() == [False, True, False]


@pytest.mark.parametrize("transform", [*FIXED_TRANSFORMS, Bucket(4), Truncate(4)], ids=str)
def test_empty_columns_and_columns_of_nulls(transform: Transform) -> None:
    for type_, choices in ARROW.items():
        if not transforms.accepts(transform, type_):
            continue
        for arrow in [*choices, pa.null()]:
            assert len(apply_to_column(transform, type_, pa.chunked_array([], arrow))) == 0
            if arrow != pa.null():
                assert len(apply_to_column(transform, type_, to_arrow(type_, arrow, []))) == 0
            result = apply_to_column(transform, type_, pa.nulls(3, arrow))
            assert result.null_count == len(result) == 3


def test_unknown_columns_hold_nulls_only() -> None:
    column = pa.nulls(2)
    assert apply_to_column(Identity(), types.UNKNOWN, column).equals(column)
    assert hash_column(types.UNKNOWN, column).to_pylist() == [None, None]
    with pytest.raises(InvalidInput):
        hash_column(types.UNKNOWN, pa.array([1]))


def test_dates_and_times_of_other_units() -> None:
    seconds = pa.array([-1, None, 86_400], pa.timestamp("s"))
    assert apply_to_column(Day(), types.TIMESTAMP, seconds).cast(pa.int32()).to_pylist() == [-1, None, 1]
    day = pa.array([86_400_000], pa.int64()).cast(pa.date64())
    assert hash_column(types.DATE, day).to_pylist() == [hash_value(types.DATE, 1)]
    time = pa.array([1], pa.time32("ms"))
    assert hash_column(types.TIME, time).to_pylist() == [hash_value(types.TIME, 1000)]


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (types.INT, pa.array(["1"])),
        (types.INT, pa.array([1.0])),
        (types.INT, pa.array([2**31])),
        (types.INT, pa.array([True])),
        (types.BOOLEAN, pa.array([2])),
        (types.DATE, pa.array([0], pa.timestamp("us"))),
        (types.TIMESTAMP, pa.array(["2017-11-16"])),
        (types.TIMESTAMP, pa.array([1], pa.timestamp("ns"))),
        (types.TIMESTAMP_NS, pa.array([2**60], pa.timestamp("us"))),
        (types.FLOAT, pa.array([1])),
        (types.STRING, pa.array([b"a"])),
        (types.BINARY, pa.array(["a"])),
        (types.UUID, pa.array(["f79c3e09-677c-4bbd-a479-3f349cb785e7"])),
        (types.UUID, pa.array([b"abc"], pa.binary(3))),
        (types.Fixed(4), pa.array([b"abc"], pa.binary(3))),
        (types.Decimal(9, 2), pa.array([1])),
        (types.Decimal(9, 2), pa.array([Decimal("1.001")])),
        (types.VARIANT, pa.array([b"a"])),
        (types.List(1, types.INT), pa.array([[1]])),
    ],
)
def test_columns_of_another_type_are_refused(type_: types.Type, column: pa.Array) -> None:
    with pytest.raises(InvalidInput):
        hash_column(type_, column)


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not known"):
        apply_to_column(UnknownTransform("zorder"), types.INT, pa.array([1]))
    with pytest.raises(InvalidInput, match="does not apply to fixed"):
        apply_to_column(Truncate(2), types.Fixed(3), pa.array([b"abc"], pa.binary(3)))
