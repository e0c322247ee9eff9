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
from decimal import Decimal as Number
from typing import Any, Final

from lakeplane.model.expressions.literals import (
    Literal,
    Zone,
    float_literal,
    to_single,
)
from lakeplane.model.expressions.steps import Source, Step, find_step, from_unit, limits
from lakeplane.model.expressions.tree import (
    FALSE,
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
from lakeplane.model.types import (
    FLOAT,
    FLOATS,
    INT,
    LONG,
    Decimal,
    Fixed,
    Primitive,
    Type,
)

MAX_RANGES: Final = 1000
"""An IN list that stands for more ranges than this is left to Spark."""

_EXACT_DOUBLE: Final = 2**53
_MAX_DIGITS: Final = 38


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
    if "decimal" in kinds and type_ not in FLOATS:
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
