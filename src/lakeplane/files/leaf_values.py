"""The values inside nested columns, and what is known of them: for what no footer tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.model.expressions.physical import plain
from lakeplane.model.schema import Schema
from lakeplane.model.types import FLOATS, Field, List, Map, Struct, Type, walk


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
            yield from _inside(field.type.element_field, array.flatten(), is_repeated=True)
        case Map():
            # As a list of entries, whatever part of its values the array shows.
            entries = _entries(array)
            for inner, part in zip(
                (field.type.key_field, field.type.value_field), entries.flatten(), strict=True
            ):
                yield from _inside(inner, part, is_repeated=True)
        case _:
            yield LeafValues(field, plain(array), is_repeated)


def _entries(array: pa.MapArray) -> pa.StructArray:
    """The entries of all maps that are not null."""
    entry = pa.struct([array.type.key_field, array.type.item_field])
    as_list = pa.Array.from_buffers(
        pa.list_(pa.field("entries", entry, nullable=False)),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[pa.StructArray.from_arrays([array.keys, array.items], fields=list(entry))],
    )
    return as_list.flatten()


def has_floats(type_: Type) -> bool:
    """Whether values of a type can hold NaN."""
    return type_ in FLOATS or any(field.type in FLOATS for field in walk((Field(0, "", type_),)))


def nan_counts(rows: pa.Table, schema: Schema) -> dict[int, int]:
    """How many values of each floating-point column are NaN."""
    counts: dict[int, int] = {}
    for field in schema.fields:
        if not has_floats(field.type):
            continue
        for chunk in rows.column(field.name).chunks:
            for leaf in _inside(field, chunk, is_repeated=False):
                if leaf.field.type in FLOATS:
                    found = pc.sum(pc.is_nan(leaf.values)).as_py() or 0
                    counts[leaf.field.id] = counts.get(leaf.field.id, 0) + found
    return counts
