"""Partition and sort transforms of whole Arrow columns, and the Murmur3 hash of columns.

The results are those of ``transforms.apply`` and ``murmur.hash_value`` on each row. Nothing here loops
over rows in Python, except over a few that are much longer than those beside them.

A column may have any Arrow type that is natural for its Iceberg type; dates, times and timestamps may
also be plain integers. ``identity``, ``void`` and ``truncate`` keep the Arrow type of the column, but
truncated numbers have that of the source type, and a dictionary is decoded unless nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.model.murmur import CANONICAL_NAN, HASHED_AS_LONG, NANOS_PER_MICRO
from lakeplane.model.transforms import (
    HOURS_PER_DAY,
    MICROS_PER_HOUR,
    Bucket,
    Day,
    Identity,
    Month,
    Transform,
    Truncate,
    Void,
    Year,
    check_accepts,
)
from lakeplane.model.types import (
    BOOLEAN,
    DATE,
    FLOATS,
    INT,
    INTEGERS,
    NANOS,
    STRING,
    TIMESTAMPS,
    UUID,
    Decimal,
    Fixed,
    Primitive,
    Type,
)

Numbers: TypeAlias = npt.NDArray[Any]
Compute: TypeAlias = Callable[[pa.Array], pa.Array]

ROWS_AT_A_TIME: Final = 1 << 15
"""Rows are hashed in batches that fit into the cache of a processor."""

FEW_ROWS: Final = 64
"""So many rows that are longer than all others beside them are hashed faster one by one."""

MANY_WORDS: Final = (1 << 16) - 1
"""Rows of more words than this are always hashed one by one: NumPy sorts 16-bit numbers fastest."""

WORD_BYTES: Final = 4
UUID_BYTES: Final = 16

_TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype="<u4")
_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def apply_to_column(transform: Transform, source_type: Type, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Compute the partition values of a column of source values; see ``transforms.apply``.

    Buckets, years, months and hours are int32, days are date32.
    """
    check_accepts(transform, source_type)
    match transform:
        case Identity():
            return _concatenate(column, lambda chunk: chunk)
        case Void():
            return pa.nulls(len(column), column.type)
        case _:
            return _concatenate(column, lambda chunk: _on_values(_kernel(transform, source_type), chunk))


def hash_column(type_: Type, column: pa.Array | pa.ChunkedArray) -> pa.Int32Array:
    """Hash every value of a column, nulls to null; see ``murmur.hash_value``."""

    def compute(chunk: pa.Array) -> pa.Array:
        return _with_nulls(_hashes(type_, chunk).view(np.int32), chunk)

    return _concatenate(column, lambda chunk: _on_values(compute, chunk))


def _concatenate(column: pa.Array | pa.ChunkedArray, compute: Compute) -> pa.Array:
    try:
        if not isinstance(column, pa.ChunkedArray):
            return compute(column)
        if column.num_chunks <= 1:
            return compute(column.combine_chunks())
        return pa.concat_arrays([compute(chunk) for chunk in column.chunks])
    except pa.ArrowException as error:
        problem = f"the transform of a column of type {column.type} failed"
        raise InvalidInput(problem, hint=str(error)) from error


def _on_values(compute: Compute, column: pa.Array) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):
        return _on_values(compute, column.dictionary).take(column.indices)
    return compute(column.storage if isinstance(column, pa.ExtensionArray) else column)


def _kernel(transform: Transform, type_: Type) -> Compute:
    match transform:
        case Bucket():
            return lambda column: _bucket(transform.n, type_, column)
        case Truncate():
            return lambda column: _truncate(transform.width, type_, column)
        case Year():
            return lambda column: _with_nulls(_calendar("Y", type_, column), column)
        case Month():
            return lambda column: _with_nulls(_calendar("M", type_, column), column)
        case Day():
            return lambda column: _with_nulls(_days(type_, column), column).view(pa.date32())
        case _:
            return lambda column: _with_nulls(_hours(type_, column), column)


def _bucket(count: int, type_: Type, column: pa.Array) -> pa.Array:
    buckets = (_hashes(type_, column) & 0x7FFFFFFF) % np.uint32(count)
    return _with_nulls(buckets.view(np.int32), column)


def _calendar(unit: str, type_: Type, column: pa.Array) -> Numbers:
    days = _days(type_, column).astype("datetime64[D]")
    return days.astype(f"datetime64[{unit}]").astype(np.int64).astype(np.int32)


def _days(type_: Type, column: pa.Array) -> Numbers:
    if type_ is DATE:
        return _whole_numbers(type_, column)
    return (_micros(type_, column) // (MICROS_PER_HOUR * HOURS_PER_DAY)).astype(np.int32)


def _hours(type_: Type, column: pa.Array) -> Numbers:
    # astype wraps around, as transforms.apply does.
    return (_micros(type_, column) // MICROS_PER_HOUR).astype(np.int32)


def _micros(type_: Type, column: pa.Array) -> Numbers:
    numbers = _whole_numbers(type_, column)
    return numbers // NANOS_PER_MICRO if type_ in NANOS else numbers


def _truncate(width: int, type_: Type, column: pa.Array) -> pa.Array:
    match type_:
        case Primitive() if type_ in INTEGERS:
            numbers = _whole_numbers(type_, column)
            return _with_nulls(numbers - numbers % numbers.dtype.type(width), column)
        case Decimal():
            return _truncate_decimals(width, type_, column)
        case _:
            return _truncate_bytes(width, type_, column)


def _truncate_bytes(width: int, type_: Type, column: pa.Array) -> pa.Array:
    if pa.types.is_null(column.type):
        return column
    # What Arrow calls code units are code points.
    cut = pc.utf8_slice_codeunits if type_ is STRING else pc.binary_slice
    short = cut(_bytes_column(type_, column), 0, width)
    return short.cast(column.type) if _is_view(column.type) else short


def _truncate_decimals(width: int, type_: Decimal, column: pa.Array) -> pa.Array:
    low, high = _halves(type_, column)
    # Long division by the width, 32 bits at a time, so that every step fits into 63 bits.
    rest = (high >> 32) % width
    for word in (high & 0xFFFFFFFF, (low >> 32).view("<i8"), (low & 0xFFFFFFFF).view("<i8")):
        rest = ((rest << 32) | word) % width
    borrow = low < rest.view("<u8")
    halves = np.stack([low - rest.view("<u8"), high.view("<u8") - borrow], axis=1)
    arrow_type = pa.decimal128(type_.precision, type_.scale)
    result = pa.Array.from_buffers(arrow_type, len(low), [None, pa.py_buffer(halves)])
    return result if column.null_count == 0 else pc.if_else(column.is_valid(), result, None)


def _with_nulls(values: Numbers, column: pa.Array) -> pa.Array:
    if column.null_count == 0:
        return pa.array(values)
    return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))


# --- Columns as NumPy arrays: what stands in place of a null is of no meaning ------------------------


def _whole_numbers(type_: Type, column: pa.Array) -> Numbers:
    """Give int32 for ints and dates, int64 for the others."""
    if type_ is BOOLEAN or not pa.types.is_integer(column.type):
        natural = _natural(type_, column.type)
        _check(type_, column, fits=natural is not None)
        column = column.cast(natural)
    whole = column.cast(pa.int32() if type_ in (INT, DATE) else pa.int64())
    numbers: Numbers = whole.fill_null(0).to_numpy()
    return numbers


def _natural(type_: Type, found: pa.DataType) -> pa.DataType | None:
    """Give the Arrow type of exactly the type's numbers, if what was found is of that kind."""
    match type_:
        case Primitive() if pa.types.is_null(found):
            return pa.int32()
        case Primitive.BOOLEAN if pa.types.is_boolean(found):
            return found
        case Primitive.DATE if pa.types.is_date(found):
            return pa.date32()
        case Primitive.TIME if pa.types.is_time(found):
            return pa.time64("us")
        case Primitive() if type_ in TIMESTAMPS and pa.types.is_timestamp(found):
            return pa.timestamp("ns" if type_ in NANOS else "us", found.tz)
        case _:
            return None


def _floating_bits(type_: Type, column: pa.Array) -> Numbers:
    _check(type_, column, fits=pa.types.is_float32(column.type) or pa.types.is_float64(column.type))
    numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy()
    bits: Numbers = numbers.view("<i8").copy()
    bits[np.isnan(numbers)] = CANONICAL_NAN
    bits[numbers == 0] = 0
    return bits


def _halves(type_: Decimal, column: pa.Array) -> tuple[Numbers, Numbers]:
    """Give the lower halves of 128-bit integers, unsigned, and the upper ones, signed."""
    _check(type_, column, fits=pa.types.is_decimal(column.type))
    if not pa.types.is_decimal128(column.type) or column.type.scale != type_.scale:
        column = column.cast(pa.decimal128(type_.precision, type_.scale))
    halves = _buffer(column, 1, "<u8", 2).reshape(-1, 2)
    return halves[:, 0], halves[:, 1].view("<i8")


def _bytes_column(type_: Type, column: pa.Array) -> pa.Array:
    """Give a column of strings, or binaries, with offsets of 4 or 8 bytes, or of fixed length."""
    kinds = _TEXTS if type_ is STRING else _BINARIES
    _check(type_, column, fits=any(kind(column.type) for kind in kinds))
    if isinstance(type_, Fixed) or type_ is UUID:
        width = type_.length if isinstance(type_, Fixed) else UUID_BYTES
        fixed = pa.types.is_fixed_size_binary(column.type)
        _check(type_, column, fits=not fixed or column.type.byte_width == width)
    if _is_view(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.large_string() if type_ is STRING else pa.large_binary())
    return column


def _is_view(found: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(found) or pa.types.is_binary_view(found))


def _buffer(column: pa.Array, index: int, kind: str, per_row: int = 1, extra: int = 0) -> Numbers:
    buffer = column.buffers()[index]
    count, size = len(column) * per_row + extra, np.dtype(kind).itemsize
    if len(column) == 0 or buffer is None:
        return np.zeros(count, dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=count, offset=column.offset * per_row * size)


def _check(type_: Type, column: pa.Array, *, fits: bool) -> None:
    if not fits and not pa.types.is_null(column.type):
        problem = f"a column of type {column.type} does not hold values of type {type_}"
        raise InvalidInput(problem)


# --- Murmur3 on arrays of 32-bit words, whose arithmetic wraps around --------------------------------


def _hashes(type_: Type, column: pa.Array) -> Numbers:
    match type_:
        case Primitive.UNKNOWN if column.null_count == len(column):
            return np.zeros(len(column), dtype="<u4")
        case Primitive() if type_ in NANOS:
            return _hash_words((_whole_numbers(type_, column) // NANOS_PER_MICRO).view("<u4").reshape(-1, 2))
        case Primitive() if type_ in HASHED_AS_LONG:
            numbers = _whole_numbers(type_, column).astype("<i8", copy=False)
            return _hash_words(numbers.view("<u4").reshape(-1, 2))
        case Primitive() if type_ in FLOATS:
            return _hash_words(_floating_bits(type_, column).view("<u4").reshape(-1, 2))
        case Decimal():
            return _hash_bytes(*_minimal_bytes(*_halves(type_, column)))
        case Primitive.STRING | Primitive.BINARY | Primitive.UUID | Fixed():
            return _hash_bytes(*_byte_slices(_bytes_column(type_, column)))
        case _:
            problem = f"the hash of {type_} is not defined"
            raise InvalidInput(problem)


def _minimal_bytes(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Find the shortest big-endian form of 128-bit integers: bytes, and where each begins and ends."""
    sign = high >> 63
    low_magnitude, high_magnitude = low ^ sign.view("<u8"), (high ^ sign).view("<u8")
    lengths = np.ones(len(low), dtype=np.int64)
    for bits in range(7, 64, 8):
        lengths += (low_magnitude >> bits != 0) | (high_magnitude != 0)
    if high_magnitude.any():
        for bits in range(7, 63, 8):
            lengths += high_magnitude >> bits != 0
    data = np.stack([high.view("<u8"), low], axis=1).astype(">u8").view(np.uint8).reshape(-1)
    ends = np.arange(1, len(low) + 1) * 16
    return data, ends - lengths, ends


def _byte_slices(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Find the bytes of a column, and where in them each row begins and ends."""
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        edges = np.arange(len(column) + 1) * width
        return _buffer(column, 1, "u1", width), edges[:-1], edges[1:]
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    edges = _buffer(column, 1, "<i8" if large else "<i4", extra=1)
    data = column.buffers()[2]
    return np.frombuffer(data or b"", dtype=np.uint8), edges[:-1], edges[1:]


def _hash_words(words: Numbers) -> Numbers:
    """Hash rows of equally many words."""
    rows, width = words.shape
    hashes = np.empty(rows, dtype="<u4")
    for first in range(0, rows, ROWS_AT_A_TIME):
        batch = words[first : first + ROWS_AT_A_TIME]
        state = np.zeros(len(batch), dtype="<u4")
        for position in range(width):
            state = _absorb(state, batch[:, position])
        hashes[first : first + ROWS_AT_A_TIME] = _finish(state, 4 * width)
    return hashes


def _hash_bytes(data: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """Hash slices of bytes."""
    if len(data) < WORD_BYTES:
        data = np.append(data, np.zeros(WORD_BYTES, dtype=np.uint8))
    # One word for each byte at which it can begin: overlapping, and nothing is copied.
    words = np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))
    hashes = np.empty(len(starts), dtype="<u4")
    for first in range(0, len(starts), ROWS_AT_A_TIME):
        batch = slice(first, first + ROWS_AT_A_TIME)
        hashes[batch] = _hash_slices(words, starts[batch].astype(np.int64), ends[batch].astype(np.int64))
    return hashes


def _hash_slices(words: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    # The longest rows come first: then those that have a word at a position are always the first ones.
    order = np.argsort(np.minimum((ends - starts) >> 2, MANY_WORDS).astype(np.uint16), kind="stable")[::-1]
    starts, ends = starts[order], ends[order]
    counts = (ends - starts) >> 2
    having = len(starts) - np.cumsum(np.bincount(np.minimum(counts, MANY_WORDS)))
    state = np.zeros(len(starts), dtype="<u4")
    position = 0
    while having[position] > FEW_ROWS:
        now = slice(0, having[position])
        state[now] = _absorb(state[now], words[starts[now] + 4 * position])
        position += 1
    for row in np.flatnonzero(counts > position):
        rest = slice(starts[row] + 4 * position, starts[row] + 4 * counts[row], 4)
        state[row] = _absorb_one_by_one(int(state[row]), words[rest])
    # The tails are read as whole words, too, moved to the left where those would leave the buffer.
    tails = starts + 4 * counts
    readable = np.minimum(tails, len(words) - 1)
    tail = (words[readable] >> (8 * (tails - readable)).astype("<u4")) & _TAIL_MASKS[(ends - starts) & 3]
    hashes = np.empty_like(state)
    hashes[order] = _finish(state ^ _mix(tail), (ends - starts).astype("<u4"))
    return hashes


def _absorb_one_by_one(state: int, words: Numbers) -> int:
    for first in range(0, len(words), ROWS_AT_A_TIME):
        for word in _mix(words[first : first + ROWS_AT_A_TIME]).tolist():
            state ^= word
            state = ((state << 13) & 0xFFFFFFFF) | (state >> 19)
            state = (state * 5 + 0xE6546B64) & 0xFFFFFFFF
    return state


def _absorb(state: Numbers, words: Numbers) -> Numbers:
    return _rotate(state ^ _mix(words), 13) * 5 + 0xE6546B64


def _mix(words: Numbers) -> Numbers:
    return _rotate(words * 0xCC9E2D51, 15) * 0x1B873593


def _rotate(words: Numbers, bits: int) -> Numbers:
    return (words << bits) | (words >> (32 - bits))


def _finish(state: Numbers, lengths: Numbers | int) -> Numbers:
    state = state ^ lengths
    state = (state ^ (state >> 16)) * 0x85EBCA6B
    state = (state ^ (state >> 13)) * 0xC2B2AE35
    return state ^ (state >> 16)
