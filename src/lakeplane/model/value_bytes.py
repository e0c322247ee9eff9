"""Single values as bytes: the binary form of Appendix D, column bounds, and how bounds are shortened.

What cannot be written raises ``InvalidInput``, what cannot be read ``InvalidMetadata``.
"""

from __future__ import annotations

import decimal
import struct
import uuid
from collections.abc import Mapping
from typing import Any, Final

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model import geo, temporal, variant
from lakeplane.model.types import (
    TIMESTAMPS,
    Decimal,
    Fixed,
    Geography,
    Geometry,
    Primitive,
    Type,
)
from lakeplane.model.values import check_value, fault_of, from_unscaled, show, unscaled

_PACKERS: Final[dict[Type, struct.Struct]] = {
    Primitive.INT: struct.Struct("<i"),
    Primitive.DATE: struct.Struct("<i"),
    Primitive.FLOAT: struct.Struct("<f"),
    Primitive.DOUBLE: struct.Struct("<d"),
    **dict.fromkeys((Primitive.LONG, Primitive.TIME, *TIMESTAMPS), struct.Struct("<q")),
}
_PROMOTED: Final[dict[Type, tuple[struct.Struct, int]]] = {
    Primitive.LONG: (_PACKERS[Primitive.INT], 1),
    Primitive.DOUBLE: (_PACKERS[Primitive.FLOAT], 1),
    Primitive.TIMESTAMP: (_PACKERS[Primitive.DATE], temporal.DAY_MICROS),
    Primitive.TIMESTAMP_NS: (_PACKERS[Primitive.DATE], temporal.DAY_NANOS),
}
"""How a value from before a promotion was written, and the factor to today's unit; none with a zone."""

_UUID_BYTES: Final = 16
_SURROGATES: Final = (0xD800, 0xDFFF)


def to_bytes(type_: Type, value: Any) -> bytes:
    """The binary single-value form of a value; null has none."""
    check_value(type_, value)
    match type_, value:
        case _, (int() | float()) if packer := _PACKERS.get(type_):
            return packer.pack(value)
        case _, decimal.Decimal():
            digits = unscaled(value)
            # One bit more than the magnitude, for the sign; -128 needs eight bits, 128 nine.
            bits = (digits if digits >= 0 else ~digits).bit_length() + 1
            return digits.to_bytes((bits + 7) // 8, "big", signed=True)
        case _, bool():
            return b"\1" if value else b"\0"
        case _, str():
            return value.encode()
        case _, uuid.UUID():
            return value.bytes
        case _, bytes():
            return value
        case _:
            problem = f"no binary form for {show(value)} of type {type_}"
            raise InvalidInput(problem)


def from_bytes(type_: Type, raw: bytes) -> Any:
    """Read the binary single-value form; values from before a promotion are known by their length."""
    if packer := _PACKERS.get(type_):
        return _unpack(type_, packer, raw)
    if type_ is Primitive.STRING:  # the most frequent bounds have the short way
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise _misread(type_, raw, "not UTF-8") from None
    match type_:
        case Decimal():
            unscaled = int.from_bytes(raw, "big", signed=True)
            if raw and abs(unscaled) < 10**type_.precision:
                return from_unscaled(unscaled, type_.scale)
        case Fixed() if len(raw) == type_.length:
            return bytes(raw)
        case Geometry() | Geography() | Primitive.BINARY:
            return bytes(raw)
        case Primitive.BOOLEAN if len(raw) == 1:
            return raw != b"\0"
        case Primitive.UUID if len(raw) == _UUID_BYTES:
            return uuid.UUID(bytes=bytes(raw))
    raise _misread(type_, raw)


def bound_to_bytes(type_: Type, value: Any) -> bytes:
    """The form of a lower or upper bound: that of ``to_bytes``, except for these types.

    Geometry and geography have a ``geo.Point``, variant has values by path, and a bound of ``fixed`` may
    have been truncated.
    """
    match type_, value:
        case ((Geometry() | Geography()), geo.Point()):
            return geo.point_to_bytes(value)
        case Fixed(), bytes() if len(value) <= type_.length:
            return value
        case Primitive.VARIANT, Mapping():
            return variant.bounds_to_bytes(value)
        case ((Geometry() | Geography()), _):
            problem = f"a bound of type {type_} is a Point, not {show(value)}"
            raise InvalidInput(problem)
        case _:
            return to_bytes(type_, value)


def bound_from_bytes(type_: Type, raw: bytes) -> Any:
    """Read a lower or upper bound; see ``bound_to_bytes``."""
    match type_:
        case Geometry() | Geography():
            return geo.point_from_bytes(raw)
        case Fixed() if len(raw) <= type_.length:
            return bytes(raw)
        case Primitive.VARIANT:
            return variant.bounds_from_bytes(raw)
        case _:
            return from_bytes(type_, raw)


def _unpack(type_: Type, packer: struct.Struct, raw: bytes) -> Any:
    if len(raw) == packer.size:
        value = packer.unpack(raw)[0]
    else:
        old, factor = _PROMOTED.get(type_, (packer, 1))
        if len(raw) != old.size:
            raise _misread(type_, raw)
        value = old.unpack(raw)[0] * factor
    # All bits are in range, except for a time of day, and for a date far from today in a shorter unit.
    if type_ in temporal.TYPES and (fault := fault_of(type_, value)):
        raise _misread(type_, raw, fault)
    return value


def _misread(type_: Type, raw: bytes, reason: str = "") -> InvalidMetadata:
    return InvalidMetadata(f"{len(raw)} bytes are not a value of type {type_}{reason and ': '}{reason}")


def truncate_lower(type_: Type, value: Any, length: int) -> Any:
    """A lower bound of at most ``length`` code points or bytes that is not above the value."""
    _check_truncation(type_, value, length)
    return value[:length]


def truncate_upper(type_: Type, value: Any, length: int) -> Any:
    """An upper bound of at most ``length`` code points or bytes that is not below the value.

    ``None`` when there is none: nothing of that length is above a value of the highest code points.
    """
    _check_truncation(type_, value, length)
    if len(value) <= length:
        return value
    if isinstance(value, str):
        prefix = value[:length].rstrip("\U0010ffff")
        if not prefix:
            return None
        last = ord(prefix[-1]) + 1
        # The surrogates are not characters: the one after U+D7FF is U+E000.
        return prefix[:-1] + chr(_SURROGATES[1] + 1 if last == _SURROGATES[0] else last)
    head = value[:length].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _check_truncation(type_: Type, value: Any, length: int) -> None:
    text, raw = type_ is Primitive.STRING, type_ is Primitive.BINARY or isinstance(type_, Fixed)
    if length < 1 or not ((text and type(value) is str) or (raw and type(value) is bytes)):
        problem = f"cannot truncate {show(value)}, of type {type_}, to {length}"
        raise InvalidInput(problem, hint="Only strings and bytes can be truncated, to 1 or more")
