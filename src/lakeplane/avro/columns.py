"""Arrow arrays from buffers, and what is checked in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.avro.schema import Scalar
from lakeplane.errors import InvalidMetadata

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.integer[Any]]

WIDE: Final = 16
_SIGN: Final = 128

_NOTHING = pa.py_buffer(b"")


def bitmap(flags: Bytes | npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Flags of a byte each as bits; None where all of them are set, or there are none."""
    if flags is None or flags.all():
        return None
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def scalars(
    node: Scalar, valid: pa.Buffer | None, buffers: Sequence[Any], count: int, place: str
) -> pa.Array:
    """An array of a type without parts, from what it is stored as in Arrow.

    Texts and decimals are checked here, as Arrow itself trusts its buffers; an enum comes as numbers.
    """
    arrow = node.arrow
    if node.kind == "null":
        return pa.nulls(count)
    if node.kind == "enum":
        numbers = pa.Array.from_buffers(pa.int32(), count, [valid, *map(pa.py_buffer, buffers)])
        symbols = pa.array(node.symbols, pa.string())
        return pa.DictionaryArray.from_arrays(numbers, symbols, safe=False).cast(pa.string())
    wrapped = [pa.py_buffer(each) if isinstance(each, bytes) else each for each in buffers]
    found = pa.Array.from_buffers(arrow, count, [valid, *wrapped])
    if pa.types.is_string(arrow) or pa.types.is_decimal(arrow):
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidMetadata(f"holds what is no {arrow}: {error}", field=place) from None
    return found


def wide_decimals(data: bytes | Bytes, starts: Numbers, lengths: Numbers, place: str) -> pa.Buffer:
    """Numbers of any length, most significant byte first, as the numbers of 16 bytes that Arrow has."""
    if len(lengths) and lengths.max() > WIDE:
        values = (data[start : start + length] for start, length in zip(starts, lengths, strict=True))
        return pa.py_buffer(b"".join(_wide(bytes(value), place) for value in values))
    bytes_ = np.frombuffer(data if len(data) else b"\0", np.uint8)
    places = np.arange(WIDE)
    inside = places < lengths[:, None]
    found = bytes_[np.where(inside, (starts + lengths)[:, None] - 1 - places, 0)]
    negative = (lengths > 0) & (bytes_[np.where(lengths > 0, starts, 0)] >= _SIGN)
    filler = np.where(negative, np.uint8(255), np.uint8(0))
    return pa.py_buffer(np.ascontiguousarray(np.where(inside, found, filler[:, None]), np.uint8))


def _wide(value: bytes, place: str) -> bytes:
    try:
        return int.from_bytes(value, "big", signed=True).to_bytes(WIDE, "little", signed=True)
    except OverflowError:
        raise InvalidMetadata("holds a decimal of more than 38 digits", field=place) from None


def booleans(flags: Bytes) -> pa.Buffer:
    """Truth values of a byte each as bits."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def structs(
    arrow: pa.DataType, valid: pa.Buffer | None, children: Sequence[pa.Array], count: int
) -> pa.Array:
    """Records."""
    return pa.Array.from_buffers(arrow, count, [valid], children=list(children))


def lists(
    arrow: pa.DataType, valid: pa.Buffer | None, offsets: pa.Buffer, items: pa.Array, count: int
) -> pa.Array:
    """Lists, or maps whose items are structs of key and value."""
    return pa.Array.from_buffers(arrow, count, [valid, offsets], children=[items])
