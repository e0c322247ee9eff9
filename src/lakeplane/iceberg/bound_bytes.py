"""Columns of bounds as the bytes that manifests hold: the opposite of ``bound_columns``.

The values are those of ``model.value_bytes``, a column at a time.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.manifest_schema import arrow_type
from lakeplane.model.expressions.physical import plain, valid_mask
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMPS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    Type,
    is_nested,
)

Bytes: TypeAlias = npt.NDArray[np.uint8]

_WIDTHS: Final[dict[Type, str]] = {
    INT: "<i4",
    DATE: "<i4",
    FLOAT: "<f4",
    DOUBLE: "<f8",
    BOOLEAN: "|u1",
    **dict.fromkeys((LONG, TIME, *TIMESTAMPS), "<i8"),
}
_POINT_SIZES: Final = (16, 24, 32)
_DECIMAL_BYTES: Final = 16


def bytes_of_bounds(
    type_: Type, column: pa.Array | pa.ChunkedArray, side: Literal["lower", "upper"], name: str
) -> pa.Array:
    """Bounds of a column as binaries; null where there is none. ``name`` is that of the column in errors.

    NaN and text that is no UTF-8 are no bounds. A zero is the negative one below, and the positive one above.
    """
    if type_ is UNKNOWN or is_nested(type_) or not len(column):
        return pa.nulls(len(column), pa.binary())
    if isinstance(type_, Geometry | Geography):
        return _points(column, name)
    values = _natural(type_, column, name)
    if type_ is STRING:
        return _texts(values)
    if type_ in (BINARY, VARIANT, UUID) or isinstance(type_, Fixed):
        return values.cast(pa.binary())
    valid = valid_mask(values)
    if isinstance(type_, Decimal):
        return _decimals(values, valid)
    kind = np.dtype(_WIDTHS[type_])
    numbers = _numbers(values).astype(kind)
    if type_ in FLOATS:
        valid &= ~np.isnan(numbers)
        numbers = np.where(numbers == 0, np.array(-0.0 if side == "lower" else 0.0, kind), numbers)
    width = kind.itemsize
    rows = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, width)
    return _binary(rows, np.where(valid, width, 0), valid)


def _natural(type_: Type, column: Any, name: str) -> pa.Array:
    wanted = pa.binary() if type_ is VARIANT else arrow_type(Field(1, "bound", type_))
    whole = plain(column)
    try:
        return whole if whole.type == wanted else whole.cast(wanted)
    except pa.ArrowException as error:
        problem = f"bounds of type {type_} cannot be made of {whole.type}: {error}"
        raise InvalidInput(problem, field=name, hint=f"Give them as {wanted}") from None


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    """Times as counts of their unit, booleans as 0 and 1; null as anything."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_time(values.type) or pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    numbers: npt.NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _texts(values: pa.Array) -> pa.Array:
    raw = values.cast(pa.binary())
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([each if each is not None and _is_text(each) else None for each in raw.to_pylist()])
    return raw


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(values: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The unscaled numbers, big-endian, in as few bytes as hold them with their sign."""
    count = len(values)
    stored = np.frombuffer(
        values.buffers()[1], np.uint8, count * _DECIMAL_BYTES, values.offset * _DECIMAL_BYTES
    )
    rows = stored.reshape(count, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(rows[:, :1] >= 128, np.uint8(255), np.uint8(0))  # noqa: PLR2004 - the sign bit
    # A byte in front can go if it repeats the sign, and the next one begins with the sign's bit, too.
    spare = (rows[:, :-1] == sign) & ((rows[:, 1:] ^ sign) < 128)  # noqa: PLR2004
    leading = np.cumprod(spare, axis=1).sum(axis=1)
    lengths = np.where(valid, _DECIMAL_BYTES - leading, 0)
    return _binary(rows, lengths, valid)


def _points(column: Any, name: str) -> pa.Array:
    """Corners as packed doubles: x:y, x:y:z, x:y:NaN:m or x:y:z:m."""
    whole = plain(column)
    if pa.types.is_binary(whole.type) or pa.types.is_large_binary(whole.type):
        sizes = pc.unique(pc.binary_length(whole.drop_null())).to_pylist()
        if not set(_POINT_SIZES).issuperset(sizes):
            problem = f"packed points have 16, 24 or 32 bytes, not {sizes}"
            raise InvalidInput(problem, field=name, hint="Shapes as WKB are no bounds, their corners are")
        return whole.cast(pa.binary())
    if not pa.types.is_struct(whole.type) or not {"x", "y"} <= {each.name for each in whole.type}:
        hint = "Give structs of doubles x, y, z, m"
        raise InvalidInput(f"corners cannot be made of {whole.type}", field=name, hint=hint)
    names = {each.name for each in whole.type}
    corners = np.full((len(whole), 4), np.nan)
    for place, axis in enumerate("xyzm"):
        if axis in names:
            part = pc.struct_field(whole, axis).cast(pa.float64())
            corners[:, place] = part.fill_null(np.nan).to_numpy(zero_copy_only=False)
    known = ~np.isnan(corners)
    valid = valid_mask(whole) & known[:, 0] & known[:, 1]
    doubles = np.where(known[:, 3], 4, np.where(known[:, 2], 3, 2))
    rows = corners.astype("<f8").view(np.uint8).reshape(-1, 32)
    return _binary(rows, np.where(valid, doubles * 8, 0), valid, from_start=True)


def _binary(
    rows: Bytes, lengths: npt.NDArray[Any], valid: npt.NDArray[np.bool_], *, from_start: bool = False
) -> pa.Array:
    """Binaries that are the last bytes of each row, or the first ones; of each row as many as its length."""
    width = rows.shape[1]
    place = np.arange(width)
    taken = place < lengths[:, None] if from_start else place >= width - lengths[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(rows[taken])]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)
