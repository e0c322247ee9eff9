"""Where, along the values of a column, a comparison with a literal changes.

Numbers, dates and times are discrete, and every cast and function that is understood keeps their order. So
a comparison of a cast column is one of the column itself, at a value that is found here: the ``Step``.
"""

from __future__ import annotations

import math
from decimal import Context
from decimal import Decimal as Number
from typing import Any, Final, NamedTuple

from lakeplane.model.expressions.literals import (
    Literal,
    Zone,
    float_literal,
    integer_text,
    read_date,
    read_time,
    read_timestamp,
)
from lakeplane.model.expressions.tree import (
    Term,
)
from lakeplane.model.temporal import DAY_MICROS, DAY_NANOS, civil_from_days, days_from_civil
from lakeplane.model.types import (
    DATE,
    INT,
    LONG,
    NANOS,
    TIMESTAMPS,
    ZONED,
    Decimal,
    Primitive,
    Type,
)

_EXACT_DOUBLE: Final = 2**53
_EXACT_DOUBLE_DIGITS: Final = 15
_MAX_DIGITS: Final = 38
_INT_DIGITS: Final = 10
_LONG_DIGITS: Final = 20
_WINDOW: Final = 48
_HOUR_NANOS: Final = 3600 * 10**9
_WIDE: Final = Context(prec=200)


class Source(NamedTuple):
    """The left side of a comparison: a term, seen through a function of Spark.

    ``view`` is empty, or ``date``, ``year`` (the calendar's), ``years``, ``months``, ``days``, ``hours``
    (Iceberg's, counted from 1970), or ``trunc:<unit>``.
    """

    term: Term
    view: str = ""


class Step(NamedTuple):
    """Where an order changes: the first value that is not below a literal, and the first one above it.

    Dates, times and decimals are counted in their smallest unit.
    """

    not_below: float
    above: float


def whole(value: int) -> Step:
    """The step at a value that the column can have."""
    return Step(value, value + 1)


def limits(type_: Type) -> tuple[int, int] | None:
    """The smallest and largest value of a discrete type, in its smallest unit; None for other types."""
    match type_:
        case Primitive.INT | Primitive.DATE:
            return -(2**31), 2**31 - 1
        case Primitive.TIME:
            return 0, DAY_MICROS - 1
        case Primitive.LONG:
            return -(2**63), 2**63 - 1
        case Decimal(precision=precision, scale=scale) if scale >= 0:
            return -(10**precision) + 1, 10**precision - 1
        case _ if type_ in TIMESTAMPS:
            return -(2**63), 2**63 - 1
        case _:
            return None


def to_unit(type_: Type, value: Any) -> int:
    """A value of a discrete type in its smallest unit."""
    return int(value.scaleb(type_.scale, _WIDE)) if isinstance(type_, Decimal) else value


def from_unit(type_: Type, units: int) -> Any:
    """The value of a discrete type with so many of its smallest unit."""
    return Number(f"{units}E-{type_.scale}") if isinstance(type_, Decimal) else units


def find_step(source: Source, literal: Literal, zone: Zone) -> Step | None:
    """Where the order of a discrete source with a literal changes."""
    type_ = source.term.value_type
    if source.view:
        return _view_step(source.view, type_, literal, zone)
    match type_:
        case Primitive.INT | Primitive.LONG:
            return _integer_step(type_, literal)
        case Decimal():
            return _decimal_step(type_, literal)
        case Primitive.DATE:
            return _date_step(literal, zone)
        case Primitive.TIME:
            micros = read_time(literal.value) if literal.kind == "string" else literal.value
            return whole(micros) if literal.kind in ("string", "time") and micros is not None else None
        case _:
            return _timestamp_step(type_, literal, zone)


def _integer_step(type_: Type, literal: Literal) -> Step | None:
    value = literal.value
    match literal.kind:
        case "integer":
            return whole(value)
        case "string":
            integer = integer_text(value)
            return None if integer is None or not -(2**63) <= integer < 2**63 else whole(integer)
        case "decimal":
            digits = _LONG_DIGITS if type_ is LONG else _INT_DIGITS
            return _number_step(value, 0) if _comparable(digits, 0, value) else None
        case "double" | "float":
            if math.isnan(value) or math.isinf(value):
                edge = -math.inf if value < 0 else math.inf
                return Step(edge, edge)
            # Without ANSI mode, Spark compares an int and a float as floats.
            exact = 2**24 if literal.kind == "float" else _EXACT_DOUBLE
            if abs(value) < exact or (abs(value) > 2**63 and literal.kind == "double"):
                return _number_step(Number(value), 0)
            return None
        case _:
            return None


def _decimal_step(type_: Decimal, literal: Literal) -> Step | None:
    match literal.kind:
        case "integer":
            value = literal.value
            usual = _INT_DIGITS if -(2**31) <= value < 2**31 else _LONG_DIGITS
            whole_digits = max(type_.precision - type_.scale, usual, len(str(abs(value))))
            return whole(value * 10**type_.scale) if whole_digits + type_.scale <= _MAX_DIGITS else None
        case "decimal":
            fits = _comparable(type_.precision - type_.scale, type_.scale, literal.value)
            return _number_step(literal.value, type_.scale) if fits else None
        case "double" | "string":
            read = (
                float_literal(literal.value.strip(" \t\r\n"), single=False)
                if literal.kind == "string"
                else literal
            )
            return None if read is None else _rounded_step(type_, read.value)
        case _:
            return None


def _rounded_step(type_: Decimal, value: float) -> Step | None:
    """Spark compares decimals with doubles as doubles: find the decimals around one."""
    if type_.precision > _EXACT_DOUBLE_DIGITS:
        return None
    if math.isnan(value) or abs(value) > 10.0**_MAX_DIGITS:
        edge = -math.inf if value < 0 else math.inf
        return Step(edge, edge)
    near = int(Number(value).scaleb(type_.scale, _WIDE).to_integral_value())
    around = range(near - 2, near + 3)
    not_below = next((u for u in around if float(from_unit(type_, u)) >= value), near + 3)
    above = next((u for u in around if float(from_unit(type_, u)) > value), near + 3)
    return Step(not_below, above)


def _number_step(value: Number, scale: int) -> Step:
    shifted = value.scaleb(scale, _WIDE)
    floor = int(shifted.to_integral_value("ROUND_FLOOR", _WIDE))
    return Step(floor if floor == shifted else floor + 1, floor + 1)


def _comparable(whole_digits: int, scale: int, value: Number) -> bool:
    """Whether the type that Spark compares decimals in holds both without rounding."""
    exponent = int(value.as_tuple().exponent)
    needed = max(len(value.as_tuple().digits) + exponent, 0)
    return max(whole_digits, needed) + max(scale, -exponent) <= _MAX_DIGITS


def _date_step(literal: Literal, zone: Zone) -> Step | None:
    match literal.kind:
        case "date":
            return whole(literal.value)
        case "string":
            days = read_date(literal.value)
            return None if days is None else whole(days)
        case "timestamp_ntz":
            nanos = _micros_only(literal.value)
            return Step(-(-nanos // DAY_NANOS), nanos // DAY_NANOS + 1)
        case "timestamp":
            return _midnight_step(_micros_only(literal.value), zone)
        case _:
            return None


def _midnight_step(instant: int, zone: Zone) -> Step | None:
    """Spark compares a date with an instant by the start of the day in the session's zone."""
    near = instant // DAY_NANOS
    # A clock is at most 18 hours from UTC, and a zone has skipped at most one whole day.
    starts = {day: zone.to_utc(day * DAY_NANOS) for day in range(near - 3, near + 4)}
    if any(start is None for start in starts.values()):
        return None
    known = [(day, start) for day, start in starts.items() if start is not None]
    return Step(
        next(day for day, start in known if start >= instant),
        next(day for day, start in known if start > instant),
    )


def _timestamp_step(type_: Type, literal: Literal, zone: Zone) -> Step | None:
    nanos = _moment(type_, literal, zone)
    if nanos is None:
        return None
    if type_ in NANOS:
        return whole(nanos)
    return whole(nanos // 1000)


def _moment(type_: Type, literal: Literal, zone: Zone) -> int | None:
    """The nanos that a timestamp column is compared with."""
    local, offset = 0, None
    match literal.kind:
        case "date":
            local = literal.value * DAY_NANOS
        case "timestamp_ntz":
            local = literal.value
        case "timestamp":
            return literal.value if type_ in ZONED else _local_moment(literal.value, zone)
        case "string":
            read = read_timestamp(literal.value)
            if read is None:
                return None
            local, offset = read
        case _:
            return None
    if type_ not in ZONED:
        # Spark ignores an offset here, with a cast that readers of the query would not expect.
        return local if offset is None else None
    return zone.to_utc(local) if offset is None else local - offset * 10**9


def _local_moment(instant: int, zone: Zone) -> int | None:
    """The local time that compares with a column of local times as Spark compares an instant with it.

    Spark casts the column to instants. That keeps its order, but not around a change of the clock.
    """
    hours = range(-_WINDOW, _WINDOW + 1)
    offsets = {
        zone.offset_at(instant + hour * _HOUR_NANOS) for hour in (hours if zone.offset is None else [0])
    }
    offset = offsets.pop()
    return None if offsets or offset is None else instant + offset * 10**9


def _micros_only(nanos: int) -> int:
    return nanos - nanos % 1000


def _view_step(view: str, type_: Type, literal: Literal, zone: Zone) -> Step | None:
    """The step of a function of a date or timestamp, in the units of the column."""
    nanos = _nanos_per_unit(type_)
    if view.startswith("trunc:"):
        unit = view.removeprefix("trunc:")
        moment = _moment(type_, literal, zone)
        if moment is None:
            return None
        moment -= moment % nanos
        count = _count(unit, moment)
        after = _begin(unit, count + 1) // nanos
        return Step(moment // nanos if _begin(unit, count) == moment else after, after)
    unit, first = _UNITS[view]
    step = _date_step(literal, zone) if unit == "day" else _integer_step(INT, literal)
    if step is None or math.isinf(step.not_below):
        return step
    return Step(*(_begin(unit, int(each) - first) // nanos for each in step))


_UNITS: Final = {
    "date": ("day", 0),
    "year": ("year", 1970),
    "years": ("year", 0),
    "months": ("month", 0),
    "days": ("day", 0),
    "hours": ("hour", 0),
}
"""The views: their unit, and which of these units counts as 0."""

_FIXED_UNITS: Final = {
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": _HOUR_NANOS,
    "day": DAY_NANOS,
}
_UNIT_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}

TRUNCATING_UNITS: Final = frozenset({*_FIXED_UNITS, *_UNIT_MONTHS})
"""The units of ``date_trunc`` that have views."""


def count_units(unit: str, type_: Type, value: int) -> int:
    """The year, month, day or hour, counted from 1970, of a date or timestamp in its own unit."""
    return _count(unit, value * _nanos_per_unit(type_))


def _nanos_per_unit(type_: Type) -> int:
    return DAY_NANOS if type_ is DATE else 1 if type_ in NANOS else 1000


def _begin(unit: str, count: int) -> int:
    """Nanos at which the unit number ``count`` since 1970 begins."""
    if months := _UNIT_MONTHS.get(unit):
        years, month = divmod(count * months, 12)
        return days_from_civil(1970 + years, month + 1, 1) * DAY_NANOS
    return count * _FIXED_UNITS[unit]


def _count(unit: str, nanos: int) -> int:
    """The number, since 1970, of the unit that holds a moment."""
    if months := _UNIT_MONTHS.get(unit):
        year, month, _ = civil_from_days(nanos // DAY_NANOS)
        return ((year - 1970) * 12 + month - 1) // months
    return nanos // _FIXED_UNITS[unit]
