"""The literals of Spark SQL, with the types that Spark gives them.

A reader here returns None for a text that is not understood exactly; the condition around it is then left
to Spark. Spark reads a few more forms of dates and times than these.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
import zoneinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from lakeplane.errors import InvalidExpression
from lakeplane.model.temporal import DAY_NANOS, civil_from_days, days_from_civil

MAX_DIGITS: Final = 38
"""Digits of the longest decimal."""

_SECOND: Final = 10**9
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # a local time, before its zone is known
_UTC_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UTC_NAMES: Final = frozenset(
    {"utc", "z", "gmt", "etc/utc", "etc/gmt", "etc/uct", "uct", "zulu", "universal"}
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):(\d\d)")

_MONTH_DAY: Final = r"(?:-(\d{1,2})(?:-(\d{1,2})"
_CLOCK: Final = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?"
_DATE_TEXT: Final = re.compile(rf"([+-]?\d{{4,7}}){_MONTH_DAY}(?:[T ]{_CLOCK})?)?)?", re.ASCII)
_TIMESTAMP_TEXT: Final = re.compile(
    rf"([+-]?\d{{4,6}}){_MONTH_DAY}(?:[T ]{_CLOCK} ?(Z|UTC|[+-]\d\d:\d\d)?)?)?)?", re.ASCII
)
_TIME_TEXT: Final = re.compile(_CLOCK, re.ASCII)
_INTEGER_TEXT: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER_TEXT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NUMBER_TOKEN: Final = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(BD|[LSYDF]?)")
_SPECIAL_FLOATS: Final = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}

_LOW_BITS: Final = 2**29 - 1
_TIE: Final = 2**28

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-1][0-7][0-7])|(.))", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Literal(NamedTuple):
    """A constant.

    The kinds, and the Python form of their values, are:

    ``null``; ``boolean``; ``integer`` and ``decimal``; ``double`` and ``float`` (both ``float``);
    ``string``; ``binary``; ``date`` (days); ``time`` (micros); ``timestamp_ntz`` and ``timestamp`` (nanos,
    the latter since the epoch in UTC).
    """

    kind: str
    value: Any


NULL: Final = Literal("null", None)


class Zone(NamedTuple):
    """A session time zone: a fixed offset from UTC in seconds, or the rules of a region."""

    offset: int | None
    rules: zoneinfo.ZoneInfo | None = None

    @property
    def is_utc(self) -> bool:
        """Whether local times are UTC."""
        return self.offset == 0

    def to_utc(self, local: int) -> int | None:
        """The instant of a local time, both in nanos; None outside the years that Python knows.

        As in Java, a time that occurs twice is the earlier one, and one that is skipped is moved on by
        the length of the gap: both follow from the offset before the change.
        """
        if self.offset is not None:
            return local - self.offset * _SECOND
        try:
            moment = _EPOCH + dt.timedelta(seconds=local // _SECOND)
            offset = moment.replace(tzinfo=self.rules).utcoffset()
        except OverflowError:
            return None
        return None if offset is None else local - round(offset.total_seconds()) * _SECOND

    def offset_at(self, instant: int) -> int | None:
        """The offset in seconds at an instant in nanos; None outside the years that Python knows."""
        if self.offset is not None:
            return self.offset
        try:
            moment = _EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=instant // _SECOND)
            offset = moment.astimezone(self.rules).utcoffset()
        except OverflowError:
            return None
        return None if offset is None else round(offset.total_seconds())


def read_zone(name: str) -> Zone:
    """Look a session time zone up."""
    if name.lower() in _UTC_NAMES:
        return Zone(0)
    found = _OFFSET.fullmatch(name)
    if found and (offset := _offset_seconds(found[1], found[2], found[3])) is not None:
        return Zone(offset)
    try:
        return Zone(None, zoneinfo.ZoneInfo(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        problem = f"unknown time zone {name!r}"
        raise InvalidExpression(problem, hint="Name it as in Europe/Berlin, UTC or +01:00") from error


def instant_ms(time: dt.datetime, zone: str) -> int | None:
    """A time in milliseconds since the epoch, in the zone if it names none; None if that does not know it."""
    if time.tzinfo:
        return (time - _UTC_EPOCH) // dt.timedelta(milliseconds=1)
    instant = read_zone(zone).to_utc((time - _EPOCH) // dt.timedelta(microseconds=1) * 1000)
    return None if instant is None else instant // 1_000_000


def read_number(text: str) -> Literal | None:
    """A number as Spark's SQL reads it: 5 is an integer, 1.5 a decimal, 1e3 a double; suffixes decide."""
    found = _NUMBER_TOKEN.fullmatch(text.upper())
    if found is None:
        return None
    digits, suffix = found[1], found[2]
    if (suffix == "" and digits.isdigit()) or suffix in ("L", "S", "Y"):
        return _integer(digits, {"L": 64, "S": 16, "Y": 8}.get(suffix))
    if suffix == "BD" or (suffix == "" and "E" not in digits):
        return decimal_literal(digits)
    return float_literal(digits, single=suffix == "F")


def _integer(digits: str, bits: int | None) -> Literal | None:
    if not digits.isdigit() or len(digits) > MAX_DIGITS:
        return None
    value = int(digits)
    # The sign comes later: -9223372036854775808L is a long.
    return None if bits is not None and value > 1 << (bits - 1) else Literal("integer", value)


def decimal_literal(text: str) -> Literal | None:
    """A decimal of at most 38 digits."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or max(len(value.as_tuple().digits), -exponent) + max(exponent, 0) > 38:  # noqa: PLR2004
        return None
    return Literal("decimal", value)


def float_literal(text: str, *, single: bool) -> Literal | None:
    """A double or float: a number, ``NaN`` or an infinity; None for a number out of its range."""
    special = _SPECIAL_FLOATS.get(text.lower())
    if special is not None:
        return Literal("float" if single else "double", special)
    if not _NUMBER_TEXT.fullmatch(text):
        return None
    value = float(text)
    if not math.isfinite(value):
        return None
    if not single:
        return Literal("double", value)
    narrow = to_single(value)
    # Where a text was rounded to the middle of two floats, rounding again could go the wrong way.
    tied = struct.unpack("<Q", struct.pack("<d", value))[0] & _LOW_BITS == _TIE
    return None if narrow is None or (tied and narrow != value) else Literal("float", narrow)


def to_single(value: float) -> float | None:
    """The 4-byte float nearest to a number; None beyond their range."""
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return narrow


def integer_text(text: str) -> int | None:
    """A string that casts to an integer."""
    compact = text.strip(" \t\r\n")
    return int(compact) if _INTEGER_TEXT.fullmatch(compact) else None


def negative(literal: Literal) -> Literal | None:
    """A literal with a minus before it."""
    match literal.kind:
        case "integer" | "double" | "float":
            return Literal(literal.kind, -literal.value)
        case "decimal":
            # Arithmetic would round to the precision of the context.
            return Literal("decimal", literal.value.copy_negate())
        case _:
            return None


def unquote(text: str) -> str | None:
    """The value of a string token, in single or double quotes, raw or with escapes."""
    if text[0] in "rR":
        return text[2:-1]
    quote, inner = text[0], text[1:-1].replace(text[0] * 2, text[0]) if "\\" not in text else text[1:-1]
    if "\\" not in text:
        return inner
    pieces = re.split(r"(\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-1][0-7][0-7]|.))", inner, flags=re.DOTALL)
    try:
        value = "".join(_unescape(p) if p.startswith("\\") else p.replace(quote * 2, quote) for p in pieces)
        # Java joins a pair of escaped surrogates to one character; half a pair is no text.
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        return None


def _unescape(text: str) -> str:
    found = _ESCAPE.fullmatch(text)
    if found is None:
        return text
    if code := found[1] or found[2]:
        return chr(int(code, 16))
    if found[3]:
        return chr(int(found[3], 8))
    return _ESCAPED.get(found[4], found[4])


def read_date(text: str) -> int | None:
    """Days of a string that casts to a date; a time after it is ignored, as by Spark."""
    found = _DATE_TEXT.fullmatch(text.strip(" \t\r\n"))
    return None if found is None else _days(found[1], found[2], found[3])


def read_timestamp(text: str) -> tuple[int, int | None] | None:
    """Local nanos and the offset in seconds, if any, of a string that casts to a timestamp.

    Spark cuts a fraction to microseconds. Nine digits are kept here, for the columns that have them.
    """
    found = _TIMESTAMP_TEXT.fullmatch(text.strip(" \t\r\n"))
    if found is None or (days := _days(found[1], found[2], found[3])) is None:
        return None
    clock = 0 if found[4] is None else _clock(found[4], found[5], found[6], found[7])
    if clock is None:
        return None
    if found[8] is None:
        return days * DAY_NANOS + clock, None
    offset = _offset_of(found[8])
    return None if offset is None else (days * DAY_NANOS + clock, offset)


def read_time(text: str) -> int | None:
    """Micros of a string that casts to a time of day."""
    found = _TIME_TEXT.fullmatch(text.strip(" \t\r\n"))
    clock = None if found is None else _clock(found[1], found[2], found[3], found[4])
    return None if clock is None else clock // 1000


def timestamp_literal(text: str, zone: Zone) -> Literal | None:
    """A ``TIMESTAMP '...'``: an instant, whose text may leave the zone to the session."""
    read = read_timestamp(text)
    if read is None:
        return None
    local, offset = read
    instant = zone.to_utc(local) if offset is None else local - offset * _SECOND
    return None if instant is None else Literal("timestamp", instant)


def _days(year: str, month: str | None, day: str | None) -> int | None:
    numbers = int(year), int(month or 1), int(day or 1)
    if not (1 <= numbers[1] <= 12 and 1 <= numbers[2] <= 31):  # noqa: PLR2004
        return None
    days = days_from_civil(*numbers)
    return days if civil_from_days(days) == numbers else None


def _clock(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:  # noqa: PLR2004
        return None
    nanos = int((fraction or "")[:9].ljust(9, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND + nanos


def _offset_of(text: str) -> int | None:
    return 0 if text in ("Z", "UTC") else _offset_seconds(text[0], text[1:3], text[4:6])


def _offset_seconds(sign: str, hours: str, minutes: str) -> int | None:
    seconds = (int(hours) * 60 + int(minutes)) * 60
    if int(minutes) > 59 or seconds > 18 * 3600:  # noqa: PLR2004
        return None
    return -seconds if sign == "-" else seconds
