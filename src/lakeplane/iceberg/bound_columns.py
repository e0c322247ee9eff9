"""Columns of bounds: from the bytes that manifests hold to columns that can be compared.

What is not a value of its type is unknown, which prunes nothing. Bounds that were written before the column
was widened are told by their length, as in ``model.value_bytes``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.avro.columns import WIDE, bitmap, wide_decimals
from lakeplane.model.expressions.physical import can_compare, plain
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
    TIMESTAMPS,
    UUID,
    Decimal,
    Fixed,
    Type,
)

_WIDTHS: Final[dict[Type, str]] = {
    INT: "<i4",
    DATE: "<i4",
    FLOAT: "<f4",
    DOUBLE: "<f8",
    BOOLEAN: "|u1",
    **dict.fromkeys((LONG, TIME, *TIMESTAMPS), "<i8"),
}
_NARROW: Final[dict[Type, tuple[str, int]]] = {
    LONG: ("<i4", 1),
    DOUBLE: ("<f4", 1),
    TIMESTAMP: ("<i4", DAY_MICROS),
    TIMESTAMP_NS: ("<i4", DAY_NANOS),
}
_UUID_BYTES: Final = 16


def read_bounds(type_: Type, column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """Bounds of a column as values; None for types whose values cannot be compared."""
    raw = plain(column)
    if not can_compare(type_):
        return None
    if type_ in (STRING, BINARY) or isinstance(type_, Fixed):
        return raw
    if type_ is UUID:
        return _where_length(raw, _UUID_BYTES)
    bytes_, starts, lengths = _parts(raw)
    if isinstance(type_, Decimal):
        return _decimals(type_, bytes_, starts, lengths)
    return _numbers(type_, bytes_, starts, lengths)


def _parts(raw: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes, and where each value starts and how long it is; null has the length -1."""
    offsets_type = np.int64 if pa.types.is_large_binary(raw.type) else np.int32
    _, offsets, data = raw.buffers()
    count = len(raw)
    ends = np.frombuffer(offsets, offsets_type, count + 1, raw.offset * np.dtype(offsets_type).itemsize)
    places: npt.NDArray[np.int64] = ends.astype(np.int64)
    lengths = np.diff(places)
    if raw.null_count:
        lengths[raw.is_null().to_numpy(zero_copy_only=False)] = -1
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return bytes_, places[:-1], lengths


def _where_length(raw: pa.Array, length: int) -> pa.Array:
    _, _, lengths = _parts(raw)
    wrong = lengths != length
    return pa.array(raw.to_numpy(zero_copy_only=False), pa.binary(), mask=wrong) if wrong.any() else raw


def _gather(
    bytes_: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.uint8]:
    """The ``width`` bytes at each start, as rows."""
    if not len(starts):
        return np.zeros((0, width), np.uint8)
    if starts[-1] - starts[0] == width * (len(starts) - 1) and (np.diff(starts) == width).all():
        return bytes_[starts[0] : starts[0] + width * len(starts)].reshape(-1, width)
    return np.ascontiguousarray(bytes_[starts[:, None] + np.arange(width)])


def _numbers(
    type_: Type,
    bytes_: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> pa.Array:
    kind = np.dtype(_WIDTHS[type_])
    known = lengths == kind.itemsize
    values = np.zeros(len(starts), kind)
    values[known] = _gather(bytes_, starts[known], kind.itemsize).view(kind)[:, 0]
    if type_ in _NARROW:
        narrow, factor = _NARROW[type_]
        older = lengths == np.dtype(narrow).itemsize
        if older.any():
            past = _gather(bytes_, starts[older], 4).view(narrow)[:, 0].astype(kind)
            fits = np.abs(past) <= (2**63 - 1) // factor if factor > 1 else np.ones(len(past), np.bool_)
            values[older] = np.where(fits, past, 0) * factor
            older[older] = fits
            known |= older
    return pa.array(values.astype(np.int64) if type_ is BOOLEAN else values, mask=~known)


def _decimals(
    type_: Decimal,
    bytes_: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> pa.Array:
    known = (lengths > 0) & (lengths <= WIDE)
    values = wide_decimals(bytes_, starts, np.where(known, lengths, 0), "bound")
    return pa.Array.from_buffers(pa.decimal128(38, type_.scale), len(starts), [bitmap(known), values])
