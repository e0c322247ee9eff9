"""What a predicate on rows says about partition values.

An *inclusive* projection holds for the partition value of every row that matches: a partition for which it
fails can be skipped. A *strict* projection holds only for partition values all of whose rows match.

A stored partition value is not always the transform of the row:

- Writers before Iceberg 0.9 rounded years, months, days and hours before 1970 towards zero (iceberg #1680):
  the value may be one too high where the right one is negative.
- Truncated ints and longs below the least multiple of the width wrap around to the top of their type, and
  an int column may have become a long since. Hours of timestamps some 245,000 years away wrap, too.

Projections allow for all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lakeplane.model.expressions.bind import compare_units
from lakeplane.model.expressions.steps import count_units, from_unit, limits, to_unit
from lakeplane.model.expressions.tree import (
    FALSE,
    TRUE,
    Compare,
    In,
    IsNan,
    IsNull,
    Leaf,
    Opaque,
    Operator,
    Predicate,
    StartsWith,
    Term,
    all_of,
    any_of,
    is_in,
    is_present,
    map_leaves,
    negate,
)
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    Year,
    accepts,
    apply,
    result_type,
)
from lakeplane.model.types import DATE, INT, LONG, MICROS, Type

_FARTHEST_HOUR: Final = 2**63 // 3_600_000_000 + 2
"""No timestamp in micros is as many hours away from 1970."""


def project(predicate: Predicate, spec: PartitionSpec, *, strict: bool) -> Predicate:
    """Project a predicate on rows to one on partition values, with the ids of the partition fields.

    What the spec does not tell is true in an inclusive projection, and false in a strict one.
    """
    return map_leaves(predicate, lambda leaf: project_leaf(leaf, spec, strict=strict))


def project_leaf(leaf: Leaf, spec: PartitionSpec, *, strict: bool) -> Predicate:
    """Project one leaf to all partition fields of its column."""
    if isinstance(leaf, Opaque):
        return FALSE if strict else TRUE
    fields = (f for f in spec.fields if f.is_known and f.source_id == leaf.term.field_id)
    parts = (
        _to_field(leaf, field, strict=strict) for field in fields if accepts(field.transform, leaf.term.type)
    )
    return any_of(parts) if strict else all_of(parts)


def _to_field(
    leaf: Compare | In | IsNull | IsNan | StartsWith, field: PartitionField, *, strict: bool
) -> Predicate:
    term, transform = leaf.term, field.transform
    stored = Term(field.field_id, result_type(transform, term.type))
    if _is_injective(transform, term.type):
        # The transform of a term can be computed from the value itself.
        return msgspec.structs.replace(leaf, term=Term(field.field_id, term.type, term.transform))
    unknown = FALSE if strict else TRUE
    if isinstance(leaf, IsNan) or not isinstance(transform, Bucket | Truncate | Year | Month | Day | Hour):
        return unknown
    if isinstance(leaf, IsNull):
        return IsNull(stored, leaf.negated)
    if not term.is_plain:
        if term.transform == transform:
            return _same_transform(leaf, stored, transform, strict=strict)
        return FALSE if strict else is_present(stored)
    if isinstance(transform, Bucket):
        return _to_bucket(leaf, stored, transform, strict=strict)
    if limits(term.type) is None:
        return _to_start(leaf, stored, transform, strict=strict)
    return _to_cells(leaf, stored, transform, strict=strict)


def _is_injective(transform: Transform, type_: Type) -> bool:
    return (
        isinstance(transform, Identity)
        or (transform == Truncate(1) and limits(type_) is not None)
        or (isinstance(transform, Day) and type_ is DATE)
    )


def _same_transform(
    leaf: Compare | In | StartsWith, stored: Term, transform: Transform, *, strict: bool
) -> Predicate:
    exact = msgspec.structs.replace(leaf, term=stored)
    if not isinstance(transform, Truncate) or leaf.term.type is not LONG:
        return exact
    # The row has the truncate of a long, the partition perhaps that of the int that it was.
    wrapped = is_in(stored, _wrapped_truncates(transform.width, LONG))
    return all_of((exact, negate(wrapped))) if strict else any_of((exact, wrapped))


def _to_bucket(
    leaf: Compare | In | StartsWith, stored: Term, transform: Bucket, *, strict: bool
) -> Predicate:
    present = FALSE if strict else is_present(stored)
    match leaf:
        case Compare(op="=" | "!=" as op, value=value):
            values: Iterable[Any] = (value,)
            negated = op == "!="
        case In(values=values, negated=negated):
            pass
        case _:
            return present
    if negated != strict:
        return present
    buckets = (apply(transform, leaf.term.type, value) for value in values)
    return is_in(stored, buckets, negated=negated)


def _to_start(
    leaf: Compare | In | StartsWith, stored: Term, transform: Transform, *, strict: bool
) -> Predicate:
    """Project to a truncated string or binary."""
    assert isinstance(transform, Truncate)
    width = transform.width
    present = FALSE if strict else is_present(stored)
    match leaf:
        case StartsWith(prefix=prefix, negated=negated):
            if len(prefix) <= width:
                return StartsWith(stored, prefix, negated)
            return Compare(stored, "!=" if negated else "=", prefix[:width]) if negated == strict else present
        case Compare(op=op, value=value):
            # Nothing else is truncated to a value that is shorter than the width.
            if len(value) < width:
                return Compare(stored, op, value)
            found = _START_STRICT if strict else _START_INCLUSIVE
            projected = found[op][len(value) == width]
            return present if projected is None else Compare(stored, projected, value[:width])
        case In(values=values, negated=negated):
            if negated == strict or all(len(value) < width for value in values):
                return is_in(stored, (value[:width] for value in values), negated=negated)
            return is_in(stored, (value for value in values if len(value) < width)) if strict else present


_START_INCLUSIVE: Final[dict[Operator, tuple[Operator | None, Operator | None]]] = {
    "=": ("=", "="),
    "!=": (None, None),
    "<": ("<=", "<"),
    "<=": ("<=", "<="),
    ">": (">=", ">="),
    ">=": (">=", ">="),
}
"""How a start compares when the whole does: with a longer value than the width, and with one as long."""

_START_STRICT: Final[dict[Operator, tuple[Operator | None, Operator | None]]] = {
    "=": (None, None),
    "!=": ("!=", "!="),
    "<": ("<", "<"),
    "<=": ("<", "<"),
    ">": (">", ">"),
    ">=": (">", ">="),
}
"""How a start must compare for the whole to do so."""


def _to_cells(
    leaf: Compare | In | StartsWith, stored: Term, transform: Transform, *, strict: bool
) -> Predicate:
    """Project to a transform that gives neighbouring numbers the same value: a cell of them."""
    type_ = leaf.term.type
    match leaf:
        case In(values=values, negated=negated) if negated == strict:
            return _among(values, stored, transform, type_, negated=negated)
        case Compare(op="=" | "!=" as op, value=value) if (op == "!=") == strict:
            return _among((value,), stored, transform, type_, negated=strict)
        case Compare(op="<" | "<=" | ">" | ">=" as op, value=value):
            return _ordered(op, to_unit(type_, value), stored, transform, type_, strict=strict)
        case _:
            return FALSE if strict else is_present(stored)


def _ordered(
    op: Operator, units: int, stored: Term, transform: Transform, type_: Type, *, strict: bool
) -> Predicate:
    downwards = op in ("<", "<=")
    # Numbers are discrete: x < 10 is x <= 9, whose cell may be another one.
    if strict:
        units += {"<=": 1, ">=": -1}.get(op, 0)
    else:
        units += {"<": -1, ">": 1}.get(op, 0)
    cell = _cell(transform, type_, units)
    if strict:
        if downwards:
            return all_of((_compare(stored, "<", cell), negate(_wrapped_high(stored, transform, type_))))
        beyond = cell + _lag(transform, cell)
        return all_of((_compare(stored, ">", beyond), negate(_wrapped_low(stored, transform, type_))))
    if downwards:
        within = _compare(stored, "<=", cell + _lag(transform, cell))
        return any_of((within, _wrapped_low(stored, transform, type_)))
    return any_of((_compare(stored, ">=", cell), _wrapped_high(stored, transform, type_)))


def _compare(stored: Term, op: Operator, units: int) -> Predicate:
    if stored.type in (INT, LONG, DATE):
        return compare_units(stored, op, units)
    # A truncated decimal may have one digit more than its type.
    return Compare(stored, op, from_unit(stored.type, units))


def _among(
    values: Iterable[Any], stored: Term, transform: Transform, type_: Type, *, negated: bool
) -> Predicate:
    possible: set[int] = set()
    for value in values:
        cell = _cell(transform, type_, to_unit(type_, value))
        possible |= _possible(transform, type_, cell)
    return is_in(stored, (from_unit(stored.type, each) for each in possible), negated=negated)


def _cell(transform: Transform, type_: Type, units: int) -> int:
    """The transform of a value in its smallest unit, before it wraps around."""
    if isinstance(transform, Truncate):
        return units - units % transform.width
    return count_units(str(transform), type_, units)


def _lag(transform: Transform, cell: int) -> int:
    """How much too high old writers may have stored a value."""
    return int(cell < 0 and not isinstance(transform, Truncate))


def _possible(transform: Transform, type_: Type, cell: int) -> set[int]:
    """All values that may be stored for the rows of a cell."""
    stored = {cell, cell + _lag(transform, cell)}
    if isinstance(transform, Hour) or type_ is INT:
        return {_wrap(each, 32) for each in stored}
    if type_ is LONG:
        return {_wrap(cell, 64), *([cell + 2**32] if -(2**32) < cell < -(2**31) else [])}
    return stored


def _wrapped_low(stored: Term, transform: Transform, type_: Type) -> Predicate:
    """Where the lowest rows may be stored, out of their order, among the highest values."""
    if isinstance(transform, Truncate):
        return is_in(stored, _wrapped_truncates(transform.width, type_))
    if isinstance(transform, Hour) and type_ in MICROS:
        return compare_units(stored, ">=", 2**32 - _FARTHEST_HOUR)
    return FALSE


def _wrapped_high(stored: Term, transform: Transform, type_: Type) -> Predicate:
    """Where the highest rows may be stored among the lowest values."""
    if isinstance(transform, Hour) and type_ in MICROS:
        return compare_units(stored, "<=", _FARTHEST_HOUR - 2**32)
    return FALSE


def _wrapped_truncates(width: int, type_: Type) -> set[int]:
    """The truncates that come from below the least multiple of the width; they are no multiples of it."""
    bits = {INT: (32,), LONG: (32, 64)}.get(type_, ()) if type_ in (INT, LONG) else ()
    cells = {size: -(2 ** (size - 1)) - -(2 ** (size - 1)) % width for size in bits}
    return {_wrap(cell, size) for size, cell in cells.items() if cell < -(2 ** (size - 1))}


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half
