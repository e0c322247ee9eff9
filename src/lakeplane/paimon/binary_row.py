"""Rows as bytes: partitions, keys, and the least and greatest values of files.

::

    arity   kind and nulls   slots         what does not fit a slot
    4, big  8 or more        8 for each    each part filled up to 8

Behind the arity, everything is little-endian, and offsets count from there. Values are the canonical ones of
``model.values`` for the type that ``types.model_type`` gives.

The writers disagree about nulls of types that never fit a slot: where Java projects a row (to a partition, a
key), it keeps their place free; where it collects statistics, and in Python, there is none. The bytes are the
identity of a partition, so who writes rows has to say which of the two is meant.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Sequence
from typing import Any, Final

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model.murmur import unscaled
from lakeplane.model.types import Decimal
from lakeplane.paimon.types import (
    MICRO_DIGITS,
    DataType,
    Kind,
    Simple,
    Time,
    Timestamp,
    is_bytes,
    is_text,
)

EMPTY_ROW: Final = bytes(12)
"""The row without fields, which stands where there is no partition or key."""

ARITY_BYTES: Final = 4
HEAD_BITS: Final = 8
"""The bits before those that tell which fields are null: the kind of the row."""
SLOT: Final = 8
INLINE: Final = 7
"""So many bytes of a text lie in the slot itself, the last byte tells how many."""
INLINE_MARK: Final = 0x80
COMPACT_DIGITS: Final = 18
WIDE_DECIMAL: Final = 16
COMPACT_PRECISION: Final = 3
MICROS_PER_MILLI: Final = 1000
NANOS_PER_MILLI: Final = 1_000_000
MAX_FIELDS: Final = 100_000
"""No table has so many columns; the arity of a broken row is any number."""

_ARITY: Final = struct.Struct(">i")
_LONG: Final = struct.Struct("<q")
_WORD: Final = struct.Struct("<Q")

PLAIN: Final = {
    Simple.BOOLEAN: "?",
    Simple.TINYINT: "b",
    Simple.SMALLINT: "h",
    Simple.INT: "i",
    Simple.DATE: "i",
    Simple.BIGINT: "q",
    Simple.FLOAT: "f",
    Simple.DOUBLE: "d",
}
"""How values that fit a slot lie at its start, in the letters of ``struct`` and of NumPy."""


def head_bytes(arity: int) -> int:
    """How many bytes the kind of a row and its nulls take."""
    return (arity + 63 + HEAD_BITS) // 64 * 8


def reserved_bytes(kind: Kind) -> int:
    """What a value takes behind the slots whatever it is, null included where a row is a projection."""
    match kind:
        case Decimal(precision=precision) if precision > COMPACT_DIGITS:
            return WIDE_DECIMAL
        case Timestamp(precision=precision) if precision > COMPACT_PRECISION:
            return SLOT
        case _:
            return 0


def encode_row(types: Sequence[DataType], values: Sequence[Any], *, reserve_null: bool) -> bytes:
    """Write a row.

    Args:
        types: What the fields are.
        values: A value for each field.
        reserve_null: Whether nulls that never fit a slot have a place behind the slots: in partitions,
            bucket keys and primary keys as Java makes them they do, in statistics they do not.
    """
    count = len(types)
    if len(values) != count:
        raise InvalidInput(f"{len(values)} values for a row of {count} fields")
    head = bytearray(head_bytes(count))
    slots, rest = bytearray(SLOT * count), bytearray()
    fixed = len(head) + len(slots)
    for position, (type_, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            bit = position + HEAD_BITS
            head[bit // 8] |= 1 << bit % 8
            slot, part = 0, bytes(reserved_bytes(type_.kind) if reserve_null else 0)
            if part:
                slot = (fixed + len(rest)) << 32
        else:
            try:
                slot, part = _encode(type_.kind, value, fixed + len(rest))
            except (TypeError, AttributeError, ValueError, OverflowError, struct.error) as error:
                raise InvalidInput(f"{value!r:.80} is no value of type {type_}", hint=str(error)) from None
        slots[SLOT * position : SLOT * (position + 1)] = _WORD.pack(slot)
        rest += part
    return _ARITY.pack(count) + head + slots + rest


def _encode(kind: Kind, value: Any, offset: int) -> tuple[int, bytes]:
    """The slot of a value, and what lies behind the slots."""
    match kind:
        case Simple() if kind in PLAIN:
            return int.from_bytes(struct.pack(f"<{PLAIN[kind]}", value), "little"), b""
        case Time():
            millis, rest = divmod(value, MICROS_PER_MILLI)
            if rest:
                raise ValueError("times are stored in milliseconds")
            return int.from_bytes(struct.pack("<i", millis), "little"), b""
        case Decimal():
            return _encode_decimal(kind, value, offset)
        case Timestamp(precision=precision):
            unit = NANOS_PER_MILLI if precision > MICRO_DIGITS else MICROS_PER_MILLI
            millis, rest = divmod(value, unit)
            if precision <= COMPACT_PRECISION:
                if rest:
                    raise ValueError("it has more digits than its type")
                return millis & (2**64 - 1), b""
            nanos = rest * (NANOS_PER_MILLI // unit)
            return offset << 32 | nanos, _LONG.pack(millis)
        case _ if is_text(kind):
            return _encode_bytes(value.encode(), offset)
        case _ if is_bytes(kind):
            return _encode_bytes(bytes(memoryview(value)), offset)
        case _:
            raise ValueError("such values have no place in keys, partitions and statistics")


def _encode_decimal(kind: Decimal, value: decimal.Decimal, offset: int) -> tuple[int, bytes]:
    whole = unscaled(value, kind.scale)
    if abs(whole) >= 10**kind.precision:
        raise ValueError("it has more digits than its type")
    if kind.precision <= COMPACT_DIGITS:
        return whole & (2**64 - 1), b""
    # As many bytes as Java's BigInteger takes: the sign has its bit.
    length = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    part = whole.to_bytes(length, "big", signed=True)
    return offset << 32 | length, part + bytes(WIDE_DECIMAL - length)


def _encode_bytes(data: bytes, offset: int) -> tuple[int, bytes]:
    if len(data) <= INLINE:
        return int.from_bytes(data, "little") | (INLINE_MARK | len(data)) << 56, b""
    return offset << 32 | len(data), data + bytes(-len(data) % SLOT)


def decode_row(types: Sequence[DataType], data: bytes) -> tuple[Any, ...]:
    """Read a row; whatever is wrong with it is an ``InvalidMetadata``."""
    body = row_body(data)
    count = _ARITY.unpack_from(data)[0]
    if count != len(types):
        raise InvalidMetadata(f"a row of {count} fields, where {len(types)} are expected")
    head = head_bytes(count)
    values: list[Any] = []
    for position, type_ in enumerate(types):
        bit = position + HEAD_BITS
        if body[bit // 8] & 1 << bit % 8:
            values.append(None)
            continue
        slot = body[head + SLOT * position : head + SLOT * (position + 1)]
        try:
            values.append(_decode(type_.kind, slot, body))
        except (ValueError, struct.error, UnicodeDecodeError) as error:
            raise InvalidMetadata(f"a row has a broken {type_} at {position}: {error}") from None
    return tuple(values)


def row_body(data: bytes) -> memoryview:
    """The bytes of a row behind its arity, which are what is hashed; the slots are all there."""
    if len(data) < ARITY_BYTES:
        raise InvalidMetadata(f"a row of {len(data)} bytes")
    count = _ARITY.unpack_from(data)[0]
    if not 0 <= count <= MAX_FIELDS:
        raise LimitExceeded(f"a row of {count} fields, more than {MAX_FIELDS}")
    if len(data) < ARITY_BYTES + head_bytes(count) + SLOT * count:
        raise InvalidMetadata(f"a row of {count} fields in {len(data)} bytes")
    return memoryview(data)[ARITY_BYTES:]


def _decode(kind: Kind, slot: memoryview, body: memoryview) -> Any:
    match kind:
        case Simple() if kind in PLAIN:
            return struct.unpack_from(f"<{PLAIN[kind]}", slot)[0]
        case Time():
            return struct.unpack_from("<i", slot)[0] * MICROS_PER_MILLI
        case Decimal(precision=precision, scale=scale):
            if precision <= COMPACT_DIGITS:
                return _scaled(_LONG.unpack(slot)[0], scale)
            return _scaled(int.from_bytes(_part(slot, body, WIDE_DECIMAL), "big", signed=True), scale)
        case Timestamp(precision=precision):
            nano = precision > MICRO_DIGITS
            unit = NANOS_PER_MILLI if nano else MICROS_PER_MILLI
            if precision <= COMPACT_PRECISION:
                return _LONG.unpack(slot)[0] * unit
            rest, offset = struct.unpack("<ii", slot)
            if not 0 <= rest < NANOS_PER_MILLI or offset < 0:
                raise ValueError(f"{rest} nanoseconds at {offset}")
            return _LONG.unpack_from(body, offset)[0] * unit + (rest if nano else rest // MICROS_PER_MILLI)
        case _ if is_text(kind):
            return bytes(_part(slot, body)).decode()
        case _ if is_bytes(kind):
            return bytes(_part(slot, body))
        case _:
            raise ValueError("such values have no place in rows")


def _scaled(whole: int, scale: int) -> decimal.Decimal:
    sign, digits = int(whole < 0), tuple(map(int, str(abs(whole))))
    return decimal.Decimal((sign, digits, -scale))


def _part(slot: memoryview, body: memoryview, most: int | None = None) -> memoryview:
    mark = slot[INLINE]
    if most is None and mark & INLINE_MARK:
        length = mark & ~INLINE_MARK
        if length > INLINE:
            raise ValueError(f"{length} bytes in a slot")
        return slot[:length]
    length, offset = struct.unpack("<ii", slot)
    if length < 0 or offset < 0 or offset + length > len(body) or (most is not None and length > most):
        raise ValueError(f"{length} bytes at {offset} of {len(body)}")
    return body[offset : offset + length]
