"""Partition and sort transforms: their names, their types, and what they do to single values.

A transform is a value of the sum ``Transform``, to be taken apart with ``match``. A text that is not a
transform of the spec, or one with an impossible parameter (``bucket[0]``), reads as an
``UnknownTransform`` that keeps the text: metadata that holds it stays readable, and only computing with
it fails. Constructing ``Bucket(0)`` is an error at once.

For whole columns, ``transform_columns.apply_to_column`` gives the same results much faster.
"""

from __future__ import annotations

import base64
import decimal
import functools
import math
import re
import struct
from typing import Any, Final, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput
from lakeplane.model.murmur import NANOS_PER_MICRO, hash_value, unscaled
from lakeplane.model.temporal import civil_from_days, format_time, format_timestamp
from lakeplane.model.types import (
    BINARY,
    DATE,
    FLOAT,
    INT,
    INTEGERS,
    NANOS,
    STRING,
    TIME,
    TIMESTAMPS,
    UUID,
    ZONED,
    Decimal,
    Fixed,
    Geography,
    Geometry,
    Primitive,
    Type,
    is_primitive,
)

MAX_PARAMETER: Final = 2**31 - 1
"""The largest number of buckets, and the largest width: both are ints in the format."""

EPOCH_YEAR: Final = 1970
MICROS_PER_HOUR: Final = 3_600_000_000
HOURS_PER_DAY: Final = 24


class Identity(msgspec.Struct, frozen=True):
    """``identity``: the source value."""

    def __str__(self) -> str:
        return "identity"


class Bucket(msgspec.Struct, frozen=True):
    """``bucket[n]``: the hash of the source value, modulo ``n``."""

    n: int

    def __post_init__(self) -> None:
        _check_parameter("the number of buckets", self.n)

    def __str__(self) -> str:
        return f"bucket[{self.n}]"


class Truncate(msgspec.Struct, frozen=True):
    """``truncate[width]``: a number rounded down to a multiple of ``width``, or the start of a text."""

    width: int

    def __post_init__(self) -> None:
        _check_parameter("the width of a truncate transform", self.width)

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


class Year(msgspec.Struct, frozen=True):
    """``year``: years since 1970."""

    def __str__(self) -> str:
        return "year"


class Month(msgspec.Struct, frozen=True):
    """``month``: months since January 1970."""

    def __str__(self) -> str:
        return "month"


class Day(msgspec.Struct, frozen=True):
    """``day``: the date, in days since 1970-01-01."""

    def __str__(self) -> str:
        return "day"


class Hour(msgspec.Struct, frozen=True):
    """``hour``: hours since 1970-01-01 00:00."""

    def __str__(self) -> str:
        return "hour"


class Void(msgspec.Struct, frozen=True):
    """``void``: always null; how a field of a v1 partition spec is dropped."""

    def __str__(self) -> str:
        return "void"


class UnknownTransform(msgspec.Struct, frozen=True):
    """A transform of a later spec, or a malformed one: kept as it was written, never computed."""

    text: str

    def __str__(self) -> str:
        return self.text


Transform: TypeAlias = Identity | Bucket | Truncate | Year | Month | Day | Hour | Void | UnknownTransform

_PLAIN: Final[dict[str, Transform]] = {
    str(each): each for each in (Identity(), Year(), Month(), Day(), Hour(), Void())
}
_WITH_PARAMETER: Final = re.compile(r"(bucket|truncate)\s*\[\s*([0-9]{1,10})\s*\]", re.IGNORECASE)
_BUCKETED: Final = frozenset({DATE, TIME, STRING, UUID, BINARY, *INTEGERS, *TIMESTAMPS})
_TRUNCATED: Final = frozenset({STRING, BINARY, *INTEGERS})


@functools.lru_cache(maxsize=1024)
def parse_transform(text: str) -> Transform:
    """Read a transform's name; case and whitespace are forgiven, and nothing is refused."""
    compact = text.strip().lower()
    if plain := _PLAIN.get(compact):
        return plain
    if found := _WITH_PARAMETER.fullmatch(compact):
        parameter = int(found[2])
        if 0 < parameter <= MAX_PARAMETER:
            return Bucket(parameter) if found[1] == "bucket" else Truncate(parameter)
    return UnknownTransform(text)


def accepts(transform: Transform, source_type: Type) -> bool:
    """Whether the spec allows the transform on columns of the type; an unknown transform may be."""
    match transform:
        case Identity():
            return is_primitive(source_type) and not isinstance(source_type, Geometry | Geography)
        case Bucket():
            return source_type in _BUCKETED or isinstance(source_type, Decimal | Fixed)
        case Truncate():
            return source_type in _TRUNCATED or isinstance(source_type, Decimal)
        case Year() | Month() | Day():
            return source_type is DATE or source_type in TIMESTAMPS
        case Hour():
            return source_type in TIMESTAMPS
        case Void() | UnknownTransform():
            return True


def check_accepts(transform: Transform, source_type: Type) -> None:
    """Raise unless the transform can be computed on values of the type."""
    if isinstance(transform, UnknownTransform):
        problem = f"the transform {str(transform)!r} is not known, so that it cannot be computed"
        raise InvalidInput(problem)
    if not accepts(transform, source_type):
        problem = f"the transform {transform} does not apply to {source_type}"
        raise InvalidInput(problem)


def result_type(transform: Transform, source_type: Type) -> Type:
    """Give the type of the partition field; string, if the transform is unknown."""
    match transform:
        case Identity() | Truncate() | Void():
            return source_type
        case Bucket() | Year() | Month() | Hour():
            return INT
        case Day():
            return DATE
        case UnknownTransform():
            return STRING


def preserves_order(transform: Transform) -> bool:
    """Whether ``a <= b`` implies that the results compare so, too."""
    return not isinstance(transform, Bucket | Void | UnknownTransform)


def same_after_promotion(transform: Transform, old_type: Type, new_type: Type) -> bool:
    """Whether partition values stay right when their source column is promoted from one type to another.

    The spec forbids a promotion after which the transform "would produce a different value". A pair of
    types that is not one of the spec's promotions gives False.
    """
    if isinstance(transform, Void) or old_type == new_type:
        return True
    if isinstance(transform, UnknownTransform) or not accepts(transform, new_type):
        return False
    match old_type, new_type:
        # Every value was null, and every transform of null is null.
        case Primitive.UNKNOWN, _:
            return True
        # The hash of an int is that of the long. (Only where a truncated int wrapped around below
        # -2**31 does the long differ: see apply.)
        case (Primitive.INT, Primitive.LONG) | (Primitive.FLOAT, Primitive.DOUBLE):
            return accepts(transform, old_type)
        # Neither the hash nor the width depends on the precision.
        case Decimal(), Decimal():
            return old_type.scale == new_type.scale and old_type.precision <= new_type.precision
        # Days become micros or nanos: another number, another hash, but the same year, month and day.
        case Primitive.DATE, (Primitive.TIMESTAMP | Primitive.TIMESTAMP_NS):
            return isinstance(transform, Year | Month | Day)
        case _:
            return False


def apply(transform: Transform, source_type: Type, value: Any) -> Any:
    """Compute the partition value of one source value, in the canonical Python forms.

    A truncated int or long that would fall below the range of its type wraps around to its top, and so
    does the hour of a timestamp after the year 246953, as in Java. A truncated decimal is exact: close to
    the lower end of its type it can need one digit more than the precision.
    """
    check_accepts(transform, source_type)
    if value is None:
        return None
    match transform:
        case Identity():
            return value
        case Bucket():
            return (hash_value(source_type, value) & 0x7FFFFFFF) % transform.n
        case Truncate():
            return _truncate(transform.width, source_type, value)
        case Year():
            return civil_from_days(_days(source_type, value))[0] - EPOCH_YEAR
        case Month():
            year, month, _ = civil_from_days(_days(source_type, value))
            return (year - EPOCH_YEAR) * 12 + month - 1
        case Day():
            return _days(source_type, value)
        case Hour():
            return _wrap(_micros(source_type, value) // MICROS_PER_HOUR, 32)
        case _:
            return None


def to_human(transform: Transform, source_type: Type, value: Any) -> str:
    """Write a partition value (a result of the transform) for people, and for the paths of files.

    The text is not escaped.
    """
    match transform:
        case Void():
            return "null"
        case _ if value is None:
            return "null"
        case Year():
            return f"{EPOCH_YEAR + value:04d}"
        case Month():
            return f"{EPOCH_YEAR + value // 12:04d}-{value % 12 + 1:02d}"
        case Hour():
            return f"{_date_to_human(value // HOURS_PER_DAY)}-{value % HOURS_PER_DAY:02d}"
        case _:
            return _value_to_human(result_type(transform, source_type), value)


def _check_parameter(what: str, parameter: int) -> None:
    if not 0 < parameter <= MAX_PARAMETER:
        problem = f"{what} must be 1 to {MAX_PARAMETER}, not {parameter}"
        raise InvalidInput(problem)


def _truncate(width: int, source_type: Type, value: Any) -> Any:
    match source_type:
        case Primitive.INT:
            return _wrap(value - value % width, 32)
        case Primitive.LONG:
            return _wrap(value - value % width, 64)
        case Decimal(scale=scale):
            number = unscaled(value, scale)
            # From text, because arithmetic on decimals rounds to the precision of the context.
            return decimal.Decimal(f"{number - number % width}E{-scale:+d}")
        case _:
            return value[:width]


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _micros(source_type: Type, value: int) -> int:
    return value // NANOS_PER_MICRO if source_type in NANOS else value


def _days(source_type: Type, value: int) -> int:
    if source_type is DATE:
        return value
    return _micros(source_type, value) // (HOURS_PER_DAY * MICROS_PER_HOUR)


def _date_to_human(days: int) -> str:
    # Unlike ISO, years above 9999 have no sign: paths of dates, days, months and years agree, and with Java.
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _value_to_human(type_: Type, value: Any) -> str:
    match type_:
        case Primitive.BOOLEAN:
            return "true" if value else "false"
        case Primitive.FLOAT | Primitive.DOUBLE:
            return _float_to_human(value, single=type_ is FLOAT)
        case Decimal():
            return format(value, "f")
        case Primitive.DATE:
            return _date_to_human(value)
        case Primitive.TIME:
            return format_time(value)
        case Primitive() if type_ in TIMESTAMPS:
            return format_timestamp(value, nanos=type_ in NANOS, zoned=type_ in ZONED)
        case Primitive.BINARY | Fixed():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _float_to_human(value: float, *, single: bool) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not single:
        return repr(value)
    # The shortest text that reads back as the same 4-byte number; nine digits always do.
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return repr(next(number for number in map(float, texts) if _single(number) == _single(value)))


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
