"""Predicates on whole columns of rows, or of partition values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.physical import (
    Column,
    Mask,
    is_any_of,
    physical,
    plain,
    read_column,
    test,
    to_mask,
    valid_mask,
)
from lakeplane.model.expressions.tree import (
    And,
    Compare,
    Constant,
    In,
    IsNan,
    IsNull,
    Leaf,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
)
from lakeplane.model.transform_columns import apply_to_column
from lakeplane.model.types import FLOATS

ColumnOf: TypeAlias = Callable[[int], "pa.Array | pa.ChunkedArray"]
"""Gives the column of a field id; dates, times and timestamps may also be plain integers."""


def matches_rows(predicate: Predicate, column_of: ColumnOf, count: int) -> Mask:
    """Which of ``count`` rows match. An ``Opaque`` part is an error: only Spark can tell."""
    known: dict[Term, Column] = {}

    def column(term: Term) -> Column:
        if term not in known:
            array = column_of(term.field_id)
            if not term.is_plain:
                array = apply_to_column(term.transform, term.type, array)
            known[term] = read_column(term.value_type, array)
        return known[term]

    def leaf_mask(leaf: Leaf) -> Mask:
        if isinstance(leaf, IsNull):
            # Any column can be null, also one whose values cannot be compared.
            valid = valid_mask(plain(column_of(leaf.term.field_id)))
            return valid if leaf.negated else ~valid
        if isinstance(leaf, Opaque):
            problem = f"only Spark can evaluate {leaf.sql[:60]!r}"
            raise InvalidExpression(problem, source="predicate")
        return _rows(leaf, column(leaf.term))

    return fold(predicate, leaf_mask, count)


def fold(predicate: Predicate, leaf_mask: Callable[[Leaf], Mask], count: int) -> Mask:
    """Combine the masks of leaves as the predicate does."""
    match predicate:
        case Constant(value=value):
            return np.full(count, value)
        case And(parts=parts):
            mask = np.ones(count, np.bool_)
            for part in parts:
                mask &= fold(part, leaf_mask, count)
            return mask
        case Or(parts=parts):
            mask = np.zeros(count, np.bool_)
            for part in parts:
                mask |= fold(part, leaf_mask, count)
            return mask
        case _:
            return leaf_mask(predicate)


def _rows(leaf: Compare | In | IsNan | StartsWith, column: Column) -> Mask:
    type_ = leaf.term.value_type
    values, valid = column
    match leaf:
        case Compare(op=op, value=value):
            found = test(values, op, physical(type_, value))
            if type_ in FLOATS and op in (">", ">="):
                # NaN is the greatest number.
                found |= np.isnan(values)
        case In(values=members, negated=negated):
            found = is_any_of(values, [physical(type_, value) for value in members]) != negated
        case IsNan(negated=negated):
            return np.asarray((np.isnan(values) & valid) != negated, np.bool_)
        case StartsWith(prefix=prefix, negated=negated):
            found = to_mask(pc.starts_with(values, pattern=prefix.encode())) != negated
    return found & valid
