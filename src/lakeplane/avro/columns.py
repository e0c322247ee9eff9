"""Arrow arrays from buffers, and what is checked in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.avro.schema import Scalar
from lakeplane.errors import InvalidMetadata

Bytes = npt.NDArray[np.uint8]

_NOTHING = pa.py_buffer(b"")


def bitmap(flags: Bytes | None) -> pa.Buffer | None:
    """Flags of a byte each as bits; None where all of them are set, or there are none."""
    if flags is None or flags.all():
        return None
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def scalars(node: Scalar, valid: pa.Buffer | None, buffers: Sequence[Any], count: int, place: str) -> pa.Array:
    """An array of a type without parts, from what it is stored as in Arrow.

    Texts and decimals are checked here, as Arrow itself trusts its buffers; an enum comes as numbers.
    """
    arrow = node.arrow
    if node.kind == "null":
        return pa.nulls(count)
    if node.kind == "enum":
        numbers = pa.Array.from_buffers(pa.int32(), count, [valid, *buffers])
        symbols = pa.array(node.symbols, pa.string())
        return pa.DictionaryArray.from_arrays(numbers, symbols, safe=False).cast(pa.string())
    found = pa.Array.from_buffers(arrow, count, [valid, *buffers])
    if pa.types.is_string(arrow) or pa.types.is_decimal(arrow):
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidMetadata(f"holds what is no {arrow}: {error}", field=place) from None
    return found


def booleans(flags: Bytes) -> pa.Buffer:
    """Truth values of a byte each as bits."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def structs(arrow: pa.DataType, valid: pa.Buffer | None, children: Sequence[pa.Array], count: int) -> pa.Array:
    """Records."""
    return pa.Array.from_buffers(arrow, count, [valid], children=list(children))


def lists(
    arrow: pa.DataType, valid: pa.Buffer | None, offsets: pa.Buffer, items: pa.Array, count: int
) -> pa.Array:
    """Lists, or maps whose items are structs of key and value."""
    return pa.Array.from_buffers(arrow, count, [valid, offsets], children=[items])
