"""Comparisons of columns with literals, as Spark's casts would have them (ANSI mode).

A comparison of discrete values is bound through its ``Step``: where, along the values of the column, the
comparison with a literal changes. That covers the plain case, and all those where the column is cast before
it is compared: ``id > 2.5``, ``day = TIMESTAMP '...'``, ``CAST(at AS DATE) = '2024-01-01'``, ``year(at) <
2020`` become comparisons of the column itself, which bounds and partitions of every kind understand.

Functions return None for what they do not understand exactly.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
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
    to_single,
)
from lakeplane.model.expressions.tree import (
    FALSE,
    MIRRORED,
    Compare,
    IsNan,
    Operator,
    Predicate,
    Term,
    all_of,
    any_of,
    is_in,
    is_present,
)
from lakeplane.model.temporal import DAY_MICROS, DAY_NANOS, days_from_civil, civil_from_days
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    FLOATS,
    INT,
    LONG,
    NANOS,
    STRING,
    TIME,
    TIMESTAMPS,
    UUID,
    ZONED,
    Decimal,
    Fixed,
    Primitive,
    Type,
)

MAX_RANGES: Final = 1000
"""An IN list that stands for more ranges than this is left to Spark."""

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
        case Decimal(precision=precision):
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


def compare_units(term: Term, op: Operator, units: float) -> Predicate:
    """``term op units`` for a discrete term; the units may be out of its range, or infinite."""
    type_ = term.value_type
    found = limits(type_)
    assert found is not None
    low, high = found
    if op in ("<", ">="):
        certain = units <= low if op == ">=" else units > high
        never = units > high if op == ">=" else units <= low
    elif op in (">", "<="):
        certain = units < low if op == ">" else units >= high
        never = units >= high if op == ">" else units < low
    else:
        outside = not low <= units <= high
        certain, never = op == "!=" and outside, op == "=" and outside
    if never:
        return FALSE
    return is_present(term) if certain else Compare(term, op, from_unit(type_, int(units)))


def compare_step(term: Term, op: Operator, step: Step) -> Predicate:
    """A comparison whose result changes at a step."""
    if step.above == step.not_below + 1:
        return compare_units(term, op, step.not_below)
    match op:
        case "<" | ">=":
            return compare_units(term, op, step.not_below)
        case "<=" | ">":
            return compare_units(term, "<" if op == "<=" else ">=", step.above)
        case "=":
            parts = compare_units(term, ">=", step.not_below), compare_units(term, "<", step.above)
            return FALSE if step.not_below == step.above else all_of(parts)
        case "!=":
            parts = compare_units(term, "<", step.not_below), compare_units(term, ">=", step.above)
            if step.not_below == step.above:
                return is_present(term)
            return any_of(parts)


def compare(source: Source, op: Operator, literal: Literal, zone: Zone) -> Predicate | None:
    """Bind ``source op literal``."""
    if literal.kind == "null":
        return FALSE
    term, type_ = source.term, source.term.value_type
    if limits(type_) is not None:
        step = find_step(source, literal, zone)
        return None if step is None else compare_step(term, op, step)
    if type_ in FLOATS:
        number = to_double(type_, literal)
        return None if number is None else compare_double(term, op, number)
    value = to_value(type_, literal)
    return None if value is None else Compare(term, op, value)


def mirror(op: Operator) -> Operator:
    """The operator for swapped sides."""
    return MIRRORED[op]


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


def in_list(source: Source, literals: Iterable[Literal], zone: Zone, *, negated: bool) -> Predicate | None:
    """Bind ``source [NOT] IN (literals)``."""
    given = list(literals)
    kept = [each for each in given if each.kind != "null"]
    if not _same_family(source.term.value_type, kept):
        return None
    found = _members(source, kept, zone, negated=negated)
    # With a null in the list, NOT IN is never true.
    return FALSE if found is not None and negated and len(kept) < len(given) else found


def _members(source: Source, kept: list[Literal], zone: Zone, *, negated: bool) -> Predicate | None:
    term, type_ = source.term, source.term.value_type
    if limits(type_) is not None:
        steps = [find_step(source, each, zone) for each in kept]
        known = [step for step in steps if step is not None]
        return None if len(known) < len(steps) else _steps(term, known, negated=negated)
    if type_ in FLOATS:
        numbers = [to_double(type_, each) for each in kept]
        if any(number is None for number in numbers):
            return None
        ordinary = [number + 0.0 for number in numbers if number is not None and not math.isnan(number)]
        listed = is_in(term, ordinary, negated=negated)
        if len(ordinary) == len(numbers):
            return listed
        return all_of((listed, IsNan(term, negated=True))) if negated else any_of((listed, IsNan(term)))
    values = [to_value(type_, each) for each in kept]
    return None if any(value is None for value in values) else is_in(term, values, negated=negated)


def _steps(term: Term, steps: list[Step], *, negated: bool) -> Predicate | None:
    type_ = term.value_type
    low, high = limits(type_) or (0, 0)
    single = [s.not_below for s in steps if s.above == s.not_below + 1 and low <= s.not_below <= high]
    # Neighbouring ranges, such as the days of a week, become one.
    merged: list[Step] = []
    for step in sorted(s for s in steps if s.above > s.not_below + 1):
        if merged and step.not_below <= merged[-1].above:
            merged[-1] = Step(merged[-1].not_below, max(step.above, merged[-1].above))
        else:
            merged.append(step)
    if len(merged) > MAX_RANGES:
        return None
    listed = is_in(term, [from_unit(type_, int(units)) for units in single], negated=negated)
    ranges = [compare_step(term, "!=" if negated else "=", step) for step in merged]
    return all_of([listed, *ranges]) if negated else any_of([listed, *ranges])


def _same_family(type_: Type, literals: list[Literal]) -> bool:
    """Whether Spark compares each of the list as if it were alone (it casts them to one common type)."""
    kinds = {each.kind for each in literals}
    if "decimal" in kinds and not type_ in FLOATS:
        numbers = [Number(each.value) for each in literals if each.kind in ("integer", "decimal")]
        digits = [len(n.as_tuple().digits) + int(n.as_tuple().exponent) for n in numbers]
        if max(digits) - min(int(n.as_tuple().exponent) for n in numbers) > _MAX_DIGITS:
            return False
    if len(kinds) <= 1:
        return True
    if type_ in (INT, LONG):
        if kinds == {"integer", "double"}:
            return all(abs(each.value) < _EXACT_DOUBLE for each in literals if each.kind == "integer")
        return kinds == {"integer", "decimal"}
    if type_ in FLOATS:
        return kinds <= {"integer", "decimal", "double"}
    return isinstance(type_, Decimal) and kinds == {"integer", "decimal"}


def compare_double(term: Term, op: Operator, number: float) -> Predicate:
    """A comparison with a double, which may be NaN."""
    if not math.isnan(number):
        # Without the sign of a zero, equal leaves are the same leaf.
        return Compare(term, op, number + 0.0)
    present = is_present(term)
    match op:
        case "=":
            return IsNan(term)
        case ">=":
            return IsNan(term)
        case "<" | "!=":
            return all_of((present, IsNan(term, negated=True)))
        case "<=":
            return present
        case ">":
            return FALSE


def to_double(type_: Type, literal: Literal) -> float | None:
    """A literal as the double that a float or double column is compared with."""
    match literal.kind:
        case "string":
            read = float_literal(literal.value.strip(" \t\r\n"), single=False)
            number = None if read is None else read.value
        case "integer" | "decimal" | "double" | "float":
            number = float(literal.value)
        case _:
            return None
    if type_ is FLOAT and literal.kind in ("string", "integer") and number is not None:
        # Without ANSI mode, Spark would compare as floats: only a float is the same in both modes.
        return number if math.isnan(number) or to_single(number) == number else None
    return number


def to_value(type_: Type, literal: Literal) -> Any:
    """A literal as a value of a type that is neither a number nor a time."""
    match type_, literal.kind:
        case (Primitive.BOOLEAN, "boolean") | (Primitive.STRING, "string"):
            return literal.value
        case (Primitive.BINARY | Fixed(), "binary"):
            return literal.value
        case Primitive.UUID, "string":
            # Spark holds a uuid as its text, in lower case; those texts are in the order of their bytes.
            return _uuid(literal.value)
        case _:
            return None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return value if str(value) == text else None


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
            whole_digits = _INT_DIGITS if abs(literal.value) < 2**31 else _LONG_DIGITS
            fits = max(type_.precision - type_.scale, whole_digits) + type_.scale <= _MAX_DIGITS
            return whole(literal.value * 10**type_.scale) if fits and abs(literal.value) < 2**63 else None
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
