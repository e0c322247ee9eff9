"""Which buckets may hold rows that match a predicate: those of the keys that it allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

from lakeplane.errors import InvalidInput
from lakeplane.model.expressions.tree import And, Compare, In, Or, Predicate
from lakeplane.paimon.buckets import bucket_of
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.types import Simple

_MOST_KEYS: Final = 1_000
"""For more keys than that, most buckets are hit anyway."""

BucketRule = Callable[[int], "frozenset[int] | None"]
"""From the number of buckets to those that may hold matching rows; None if any may."""


def bucket_rule(predicate: Predicate, schema: TableSchema) -> BucketRule | None:
    """What a predicate says about buckets; None if it says nothing."""
    fields = [schema.field(name) for name in schema.bucket_keys]
    function = schema.settings.bucket_function
    # Floating point numbers that are equal may have different bytes.
    if not fields or function == "hive" or any(f.type.kind in (Simple.FLOAT, Simple.DOUBLE) for f in fields):
        return None
    allowed = [_values(predicate, field.id) for field in fields]
    keys = [each for each in allowed if each is not None]
    if len(keys) < len(fields) or math.prod(map(len, keys)) > _MOST_KEYS:
        return None
    types = [field.type for field in fields]

    def rule(buckets: int) -> frozenset[int] | None:
        if buckets < 1:
            return None
        try:
            return frozenset(bucket_of(types, key, buckets, function) for key in itertools.product(*keys))
        except InvalidInput:
            # No value of the column is like that, which others may find out.
            return None

    return rule


def _values(predicate: Predicate, field_id: int) -> frozenset[Any] | None:
    """The values that a field may have in rows that match; None if there are too many to tell."""
    match predicate:
        case Compare(term=term, op="=", value=value) if term.field_id == field_id and term.is_plain:
            return frozenset({value})
        case In(term=term, values=values, negated=False) if term.field_id == field_id and term.is_plain:
            return frozenset(values)
        case And(parts=parts):
            told = [found for part in parts if (found := _values(part, field_id)) is not None]
            return frozenset.intersection(*told) if told else None
        case Or(parts=parts):
            known = [each for part in parts if (each := _values(part, field_id)) is not None]
            return frozenset().union(*known) if len(known) == len(parts) else None
        case _:
            return None
