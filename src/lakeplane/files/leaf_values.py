"""The values inside nested columns, and what is known of them: for what no footer tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.files.nested_arrays import as_entries, flat_items
from lakeplane.model.expressions.physical import plain
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    FLOATS,
    UNKNOWN,
    VARIANT,
    Field,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
    walk,
)


class LeafValues(NamedTuple):
    """The values of a field that has none inside."""

    field: Field
    values: pa.Array
    is_repeated: bool
    """Whether a row can have several values, or none."""


def leaf_values(rows: pa.Table, schema: Schema) -> Iterator[LeafValues]:
    """The values of all fields that have some themselves; null where something around them is."""
    for field in schema.fields:
        for chunk in rows.column(field.name).chunks:
            yield from _inside(field, chunk, is_repeated=False)


def _inside(field: Field, array: pa.Array, *, is_repeated: bool) -> Iterator[LeafValues]:
    match field.type:
        case Struct():
            for inner, part in zip(field.type.fields, array.flatten(), strict=True):
                yield from _inside(inner, part, is_repeated=is_repeated)
        case List():
            yield from _inside(field.type.element_field, flat_items(array), is_repeated=True)
        case Map():
            # As a list of entries, whatever part of its values the array shows.
            entries = flat_items(as_entries(array))
            for inner, part in zip(
                (field.type.key_field, field.type.value_field), entries.flatten(), strict=True
            ):
                yield from _inside(inner, part, is_repeated=True)
        case _:
            yield LeafValues(field, plain(array), is_repeated)


class LeafFacts(NamedTuple):
    """What is known of the values of a field in a file."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Any = None
    """An array of one value, or None."""
    upper: Any = None


class LeafTotals:
    """Facts about the rows of a file, piece by piece.

    Counts of NaN are in no footer, and nulls not of what has no statistics; the rest of them only where files
    have no footers that would tell.
    """

    def __init__(self, schema: Schema, *, everything: bool) -> None:
        self._everything = everything
        self._fields = [field for field in schema.fields if everything or _in_no_footer(field.type)]
        self.facts: dict[int, LeafFacts] = {}

    def add(self, rows: pa.Table) -> None:
        """Count rows."""
        for field in self._fields:
            for chunk in rows.column(field.name).chunks:
                for leaf in _inside(field, chunk, is_repeated=False):
                    if self._everything or _in_no_footer(leaf.field.type):
                        self._add(leaf)

    def _add(self, leaf: LeafValues) -> None:
        field_id = leaf.field.id
        old = self.facts.get(field_id, LeafFacts())
        lower, upper = old.lower, old.upper
        if self._everything and not leaf.is_repeated and _has_order(leaf.field.type):
            lower, upper = _wider(leaf.values, lower, upper)
        nans = 0
        if leaf.field.type in FLOATS:
            nans = pc.sum(pc.is_nan(leaf.values)).as_py() or 0
        self.facts[field_id] = LeafFacts(
            old.values + len(leaf.values), old.nulls + leaf.values.null_count, old.nans + nans, lower, upper
        )


def _wider(values: pa.Array, lower: Any, upper: Any) -> tuple[Any, Any]:
    found = pc.min_max(values)
    ends = [pa.repeat(found[side], 1) for side in ("min", "max")]
    if not ends[0].null_count and lower is not None:
        found = pc.min_max(pa.concat_arrays([*ends, lower, upper]))
        ends = [pa.repeat(found[side], 1) for side in ("min", "max")]
    return (lower, upper) if ends[0].null_count else (ends[0], ends[1])


def _has_order(type_: Type) -> bool:
    return type_ not in (UNKNOWN, VARIANT) and not isinstance(type_, Geometry | Geography)


def _in_no_footer(type_: Type) -> bool:
    """Whether values of a type, or some inside of them, are told of by no footer."""
    fields = walk((Field(0, "", type_),))
    return any(each.type in FLOATS or each.type is VARIANT or _is_shape(each.type) for each in fields)


def _is_shape(type_: Type) -> bool:
    return isinstance(type_, Geometry | Geography)
