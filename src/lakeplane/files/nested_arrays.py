"""Nested Arrow arrays with other parts inside: slices, hidden values and null parents taken care of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

Change: TypeAlias = Callable[[pa.Array], pa.Array]


def visible_nulls(parent: pa.Array, part: pa.Array) -> int:
    """How many nulls a part has where the struct around it has a value; the part is null where that is."""
    if not part.null_count:
        return 0
    if not parent.null_count:
        return int(part.null_count)
    return int(pc.sum(pc.and_(part.is_null(), parent.is_valid())).as_py() or 0)


def structs_of(array: pa.Array, parts: Sequence[pa.Array], type_: pa.StructType) -> pa.Array:
    """Structs of other parts, null where an array is."""
    parts = [
        part if each.nullable or not part.null_count else unmasked(part)
        for part, each in zip(parts, type_, strict=True)
    ]
    if not parts:
        return pa.Array.from_buffers(type_, len(array), [_validity(array)], children=[])
    return pa.Array.from_buffers(type_, len(array), [_validity(array)], children=list(parts))


def lists_of(array: pa.Array, change: Change, type_: pa.ListType) -> pa.Array:
    """Lists of changed elements, from lists of any layout."""
    offsets = _offsets(array)
    items = change(flat_items(array))
    return pa.Array.from_buffers(type_, len(array), [_validity(array), offsets], children=[items])


def maps_of(array: pa.Array, keys: Change, items: Change, type_: pa.MapType) -> pa.Array:
    """Maps of changed keys and values, from maps or from lists of entries."""
    if kinds.is_map(array.type):
        array = as_entries(array)
    entries = flat_items(array)
    entry = pa.struct([type_.key_field, type_.item_field])
    parts = [keys(pc.struct_field(entries, "key")), items(pc.struct_field(entries, "value"))]
    whole = pa.Array.from_buffers(entry, len(entries), [None], children=parts)
    return pa.Array.from_buffers(type_, len(array), [_validity(array), _offsets(array)], children=[whole])


def flat_items(array: pa.Array) -> pa.Array:
    """The elements of all lists that are not null, one after the other.

    Arrow's own ``flatten`` fails where it has to leave out values of an extension type.
    """
    if not kinds.is_list(array.type) and not kinds.is_large_list(array.type):
        return array.flatten()
    if not len(array):
        return array.values.slice(0, 0)
    edges = array.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(edges)
    if array.null_count:
        hidden = array.is_null().to_numpy(zero_copy_only=False)
        if lengths[hidden].any():
            shown = np.where(hidden, 0, lengths)
            ends = np.cumsum(shown)
            at = np.arange(int(ends[-1])) + np.repeat(edges[:-1] - (ends - shown), shown)
            return array.values.take(pa.array(at))
    return array.values.slice(int(edges[0]), int(edges[-1] - edges[0]))


def as_entries(array: pa.MapArray) -> pa.ListArray:
    """Maps as lists of structs of ``key`` and ``value``."""
    entry = pa.struct(
        [
            pa.field("key", array.type.key_type, nullable=False),
            pa.field("value", array.type.item_type),
        ]
    )
    return pa.Array.from_buffers(
        pa.list_(pa.field("entries", entry, nullable=False)),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[pa.Array.from_buffers(entry, len(array.keys), [None], children=[array.keys, array.items])],
    )


def all_null(type_: pa.DataType, count: int) -> pa.Array:
    """Nulls of a type; below them, what must not be null is not."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, all_null(type_.storage_type, count))
    if not kinds.is_struct(type_):
        return pa.nulls(count, type_)
    parts = [all_null(each.type, count) for each in type_]
    return structs_of(pa.nulls(count), parts, type_)


def unmasked(array: pa.Array) -> pa.Array:
    """An array without nulls, which has something of no meaning in their place.

    Below a null struct nobody sees what a required field holds, but it must not be null.
    """
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, unmasked(array.storage))
    if not array.null_count:
        return array
    compact = pa.concat_arrays([array]) if array.offset else array
    if kinds.is_struct(array.type):
        parts = [
            compact.field(place) if each.nullable else unmasked(compact.field(place))
            for place, each in enumerate(array.type)
        ]
        return pa.Array.from_buffers(array.type, len(array), [None], children=parts)
    if kinds.is_list(array.type):
        return pa.Array.from_buffers(
            array.type, len(array), [None, _offsets(array)], children=[flat_items(array)]
        )
    if kinds.is_map(array.type):
        entries = flat_items(as_entries(array))
        entry = pa.struct([array.type.key_field, array.type.item_field])
        parts = [entries.field(0), entries.field(1)]
        whole = pa.Array.from_buffers(entry, len(entries), [None], children=parts)
        return pa.Array.from_buffers(array.type, len(array), [None, _offsets(array)], children=[whole])
    filler: Any = b"" if kinds.is_binary(array.type) else "" if kinds.is_string(array.type) else None
    if filler is not None:
        return pc.fill_null(array, filler)
    return pa.Array.from_buffers(
        array.type, len(array), [None, *compact.buffers()[1:]], offset=compact.offset
    )


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _offsets(array: pa.Array) -> pa.Buffer:
    """Where the lists begin among the elements that ``flatten`` gives, and where the last one ends."""
    lengths = (
        pc.list_value_length(array)
        if not kinds.is_map(array.type)
        else pc.list_value_length(as_entries(array))
    )
    ends = np.cumsum(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    return pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32).tobytes())
