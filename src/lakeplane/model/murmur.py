"""The 32-bit Murmur3 hash of single values, as Appendix B of the Iceberg spec defines it.

For whole columns, ``transform_columns.hash_column`` gives the same numbers much faster.
"""

from __future__ import annotations

import decimal
import math
import struct
from typing import Any, Final

from lakeplane.errors import InvalidInput
from lakeplane.model.types import (
    BOOLEAN,
    DATE,
    FLOATS,
    INTEGERS,
    MICROS,
    NANOS,
    TIME,
    Decimal,
    Fixed,
    Primitive,
    Type,
)

CANONICAL_NAN: Final = 0x7FF8000000000000
"""The bits that stand for every NaN."""

NANOS_PER_MICRO: Final = 1000

HASHED_AS_LONG: Final = frozenset({BOOLEAN, DATE, TIME, *INTEGERS, *MICROS})
"""Types whose hash is that of 8 bytes; the spec's test values for dates and booleans are such, too."""

_MASK: Final = 0xFFFFFFFF
_MAX_DECIMAL_EXPONENT: Final = 100  # far above any decimal(38, S), far below what would exhaust memory


def murmur3(data: bytes) -> int:
    """Hash bytes: Murmur3, x86, 32 bits, seed 0; the result is signed."""
    body = len(data) & ~3
    state = 0
    for (word,) in struct.iter_unpack("<I", data[:body]):
        state ^= _mix(word)
        state = ((state << 13) & _MASK) | (state >> 19)
        state = (state * 5 + 0xE6546B64) & _MASK
    # A tail of zero bytes mixes to zero, so that it needs no case of its own.
    state ^= _mix(int.from_bytes(data[body:], "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def hash_value(type_: Type, value: Any) -> int:
    """Hash a value of a type; the result is signed.

    Booleans and floating-point numbers have a hash, though the spec does not allow them as sources of
    ``bucket``. Null has none: ask before.
    """
    try:
        data = _hashed_bytes(type_, value)
    except (TypeError, AttributeError, ValueError, ArithmeticError, struct.error) as error:
        problem = f"a value of Python type {type(value).__name__} cannot be hashed as {type_}"
        raise InvalidInput(problem) from error
    return murmur3(data)


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Give the integer that a decimal is at a scale, exactly, whatever the decimal context says."""
    if value.is_finite() and value and abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        problem = f"the decimal {value} is out of range"
        raise InvalidInput(problem)
    if not value:
        return 0
    numerator, denominator = value.as_integer_ratio()
    factor: int = 10**scale  # never negative
    whole, rest = divmod(numerator * factor, denominator)
    if rest:
        problem = f"the decimal {value} has more than {scale} digits after the point"
        raise InvalidInput(problem)
    return whole


def _mix(word: int) -> int:
    word = (word * 0xCC9E2D51) & _MASK
    word = ((word << 15) & _MASK) | (word >> 17)
    return (word * 0x1B873593) & _MASK


def _hashed_bytes(type_: Type, value: Any) -> bytes:
    match type_:
        case Primitive() if type_ in HASHED_AS_LONG:
            return _long_bytes(value)
        case Primitive() if type_ in NANOS:
            return _long_bytes(value // NANOS_PER_MICRO)
        case Primitive() if type_ in FLOATS:
            return _double_bytes(value)
        case Decimal():
            return _minimal_bytes(unscaled(value, type_.scale))
        case Primitive.STRING:
            return bytes(value.encode())
        case Primitive.UUID:
            return bytes(value.bytes)
        case Primitive.BINARY | Fixed():
            return bytes(memoryview(value))
        case _:
            problem = f"the hash of {type_} is not defined"
            raise InvalidInput(problem)


def _long_bytes(value: int) -> bytes:
    return struct.pack("<q", value)


def _double_bytes(value: float) -> bytes:
    if math.isnan(value):
        return struct.pack("<Q", CANONICAL_NAN)
    return struct.pack("<d", value or 0.0)


def _minimal_bytes(value: int) -> bytes:
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
