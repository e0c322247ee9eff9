"""Dates, times and timestamps as integers, and their ISO-8601 text.

A date is days since 1970-01-01, a time is microseconds since midnight, a timestamp is micro- or nanoseconds
since the epoch; zoned ones count from midnight UTC. The calendar is the proleptic Gregorian one. ``datetime``
knows neither nanoseconds nor years outside 1 to 9999, so its arithmetic is not used; ``from_date``,
``from_time`` and ``from_datetime`` take its values over.

Text is written with all digits of the precision, as in the spec's examples, but without a fraction of zero,
which no other implementation writes either. Years outside 0 to 9999 have a sign, and at least four digits.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from lakeplane.errors import InvalidInput
from lakeplane.model.types import DATE, NANOS, TIME, TIMESTAMPS, ZONED, Type

DAY_SECONDS: Final = 86_400
DAY_MICROS: Final = DAY_SECONDS * 10**6
DAY_NANOS: Final = DAY_SECONDS * 10**9

TYPES: Final = TIMESTAMPS | {DATE, TIME}
"""The types whose values this module reads and writes."""

_YEAR: Final = r"(\d{4}|-\d{4,9}|\+\d{5,9})"
_DATE_TEXT: Final = rf"{_YEAR}-(\d\d)-(\d\d)"
_TIME_TEXT: Final = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?"
_DATE: Final = re.compile(_DATE_TEXT, re.ASCII)
_TIME: Final = re.compile(_TIME_TEXT, re.ASCII)
_TIMESTAMP: Final = re.compile(rf"{_DATE_TEXT}[Tt]{_TIME_TEXT}([Zz]|[+-]\d\d:\d\d)?", re.ASCII)

_MICRO_DIGITS: Final = 6
_NANO_DIGITS: Final = 9
_MAX_YEAR_WITHOUT_SIGN: Final = 9999
_MAX_OFFSET_HOURS: Final = 18  # java.time's limit, and wider than any zone ever was
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_ERA_DAYS: Final = 146_097  # 400 years: the calendar repeats
_EPOCH_FROM_MARCH_0000: Final = 719_468


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar, of any year."""
    # Counting years from March puts the leap day last, so that month lengths follow one formula.
    march_year = year - (month <= 2)  # noqa: PLR2004
    era, year_of_era = divmod(march_year, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _ERA_DAYS + day_of_era - _EPOCH_FROM_MARCH_0000


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date; the inverse of ``days_from_civil``."""
    era, day_of_era = divmod(days + _EPOCH_FROM_MARCH_0000, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    month = (march_month + 2) % 12 + 1
    return era * 400 + year_of_era + (month <= 2), month, day  # noqa: PLR2004


def format_date(days: int) -> str:
    """ISO text of a date, as in ``2017-11-16``."""
    year, month, day = civil_from_days(days)
    sign = "-" if year < 0 else "+" if year > _MAX_YEAR_WITHOUT_SIGN else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def format_time(micros: int) -> str:
    """ISO text of a time of day, as in ``22:31:08.123456``."""
    return _format_clock(micros, _MICRO_DIGITS)


def format_timestamp(value: int, *, nanos: bool, zoned: bool) -> str:
    """ISO text of a timestamp; a zoned one is written in UTC, with ``+00:00``."""
    days, clock = divmod(value, DAY_NANOS if nanos else DAY_MICROS)
    text = f"{format_date(days)}T{_format_clock(clock, _NANO_DIGITS if nanos else _MICRO_DIGITS)}"
    return f"{text}+00:00" if zoned else text


def _format_clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    return f"{text}.{fraction:0{digits}}" if fraction else text


def parse_date(text: str) -> int:
    """Days of an ISO date; ``InvalidInput`` when it is not one."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise _refusal(text, "a date", "Write it as 2017-11-16")
    return _days(text, found[1], found[2], found[3])


def parse_time(text: str) -> int:
    """Microseconds of an ISO time of day without an offset; ``InvalidInput`` when it is not one."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise _refusal(text, "a time", "Write it as 22:31:08.123456")
    return _clock(text, found.group(1, 2, 3, 4), _MICRO_DIGITS)


def parse_timestamp(text: str, *, nanos: bool, zoned: bool, any_offset: bool = False) -> int:
    """Micro- or nanoseconds of an ISO timestamp.

    A zoned one must name its offset: ``+00:00`` or ``Z``, as stored values do, or with ``any_offset`` any
    other, which is converted to UTC. One without a zone must not name an offset. Fractions finer than the
    precision are refused, never rounded.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise _refusal(
            text, "a timestamp", f"Write it as 2017-11-16T22:31:08.123456{'+00:00' if zoned else ''}"
        )
    digits = _NANO_DIGITS if nanos else _MICRO_DIGITS
    days = _days(text, found[1], found[2], found[3])
    clock = _clock(text, found.group(4, 5, 6, 7), digits)
    offset: str | None = found[8]
    if zoned and offset is None:
        raise _refusal(text, "a timestamp with a zone", "Add the offset, +00:00 for UTC")
    if not zoned and offset is not None:
        raise _refusal(text, "a timestamp without a zone", f"Leave out the offset {offset}")
    second = 10**9 if nanos else 10**6
    value = days * DAY_SECONDS * second + clock
    if offset is None or offset in ("+00:00", "Z", "z"):
        return value
    if not any_offset:
        raise _refusal(text, "a timestamp in UTC", "The offset must be +00:00")
    return value - _offset_seconds(text, offset) * second


def from_date(date: dt.date) -> int:
    """Days of a ``datetime.date``."""
    return date.toordinal() - dt.date(1970, 1, 1).toordinal()


def from_time(time: dt.time) -> int:
    """Microseconds since midnight of a ``datetime.time``, which must not have a zone."""
    if time.tzinfo is not None:
        raise _refusal(str(time), "a time without a zone", "Leave out the time zone")
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 10**6 + time.microsecond


def from_datetime(moment: dt.datetime, *, nanos: bool, zoned: bool) -> int:
    """Micro- or nanoseconds of a ``datetime.datetime``, which has a time zone exactly when ``zoned``.

    An aware one is converted to UTC. The nanoseconds of a pandas ``Timestamp`` are kept.
    """
    offset = moment.utcoffset()
    if zoned and offset is None:
        raise _refusal(str(moment), "a timestamp with a zone", "Give it a time zone: tzinfo=datetime.UTC")
    if not zoned and offset is not None:
        raise _refusal(
            str(moment), "a timestamp without a zone", "Remove the time zone: .replace(tzinfo=None)"
        )
    micros = from_date(moment.date()) * DAY_MICROS + from_time(moment.time())
    if offset is not None:
        micros -= offset // dt.timedelta(microseconds=1)
    extra: int = getattr(moment, "nanosecond", 0)
    if nanos:
        return micros * 1000 + extra
    if extra:
        raise _refusal(str(moment), "a timestamp in microseconds", "Round it, or use a nanosecond type")
    return micros


def to_text(type_: Type, value: int) -> str:
    """The ISO text of a value of a type of ``TYPES``, as stored in JSON."""
    if type_ is DATE:
        return format_date(value)
    if type_ is TIME:
        return format_time(value)
    return format_timestamp(value, nanos=type_ in NANOS, zoned=type_ in ZONED)


def from_text(type_: Type, text: str, *, any_offset: bool = False) -> int:
    """The value of a type of ``TYPES`` that ISO text stands for; see ``parse_timestamp`` for offsets."""
    if type_ is DATE:
        return parse_date(text)
    if type_ is TIME:
        return parse_time(text)
    return parse_timestamp(text, nanos=type_ in NANOS, zoned=type_ in ZONED, any_offset=any_offset)


def from_python(type_: Type, value: dt.date | dt.time) -> int | None:
    """The value of a type of ``TYPES`` for one of ``datetime``; ``None`` if that is of another kind."""
    match value:
        case dt.datetime():
            if type_ not in TIMESTAMPS:
                return None
            return from_datetime(value, nanos=type_ in NANOS, zoned=type_ in ZONED)
        case dt.date():
            return from_date(value) if type_ is DATE else None
        case dt.time():
            return from_time(value) if type_ is TIME else None


def _days(text: str, year: str, month: str, day: str) -> int:
    numbers = int(year), int(month), int(day)
    if year.startswith("-") and numbers[0] == 0:
        raise _refusal(text, "a date", "The year 0 has no sign")
    if not (1 <= numbers[1] <= len(_MONTH_DAYS) and 1 <= numbers[2] <= _MONTH_DAYS[numbers[1] - 1]):
        raise _refusal(text, "a date", "There is no such day")
    days = days_from_civil(*numbers)
    if civil_from_days(days) != numbers:
        raise _refusal(text, "a date", "There is no such day")
    return days


def _clock(text: str, parts: tuple[Any, ...], digits: int) -> int:
    hours, minutes, seconds = (int(part or 0) for part in parts[:3])
    fraction: str = parts[3] or ""
    if hours > 23 or minutes > 59 or seconds > 59:  # noqa: PLR2004
        raise _refusal(text, "a time", "There is no such time")
    if len(fraction) > digits:
        raise _refusal(text, f"a time with {digits} digits after the point", "Leave out the finer digits")
    ticks: int = ((hours * 60 + minutes) * 60 + seconds) * 10**digits
    return ticks + int(fraction.ljust(digits, "0"))


def _offset_seconds(text: str, offset: str) -> int:
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if offset == "-00:00" or hours > _MAX_OFFSET_HOURS or minutes > 59:  # noqa: PLR2004
        raise _refusal(text, "a timestamp", f"There is no offset {offset}")
    seconds = (hours * 60 + minutes) * 60
    return -seconds if offset.startswith("-") else seconds


def _refusal(text: str, wanted: str, hint: str) -> InvalidInput:
    return InvalidInput(f"not {wanted}: {text[:60]!r}", hint=hint)
