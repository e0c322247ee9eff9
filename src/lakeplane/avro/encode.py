"""From Arrow columns to the bytes of Avro values, led by the schema that is to be written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeplane.avro import cells
from lakeplane.avro.cells import Cells, Longs
from lakeplane.avro.columns import Bytes
from lakeplane.avro.fit import FITTING
from lakeplane.avro.schema import (
    Array,
    Choice,
    Map,
    Node,
    Optional,
    Record,
    Scalar,
    is_optional,
)
from lakeplane.errors import InvalidInput

_KEY: Final = Scalar("string", pa.string())
_DECIMAL_BYTES: Final = 16
_NOTHING: Final = np.zeros(0, np.uint8)
_NOBODY: Final = np.zeros(0, np.int64)


def encode_record(record: Record, columns: Mapping[str, pa.Array], count: int, place: str = "") -> Cells:
    """The fields of a record from the columns of these names; what is wrong with one names it."""
    fields = {field.name: field.type for field in record.fields}
    for name in columns:
        if name not in fields:
            raise InvalidInput("is no field of the schema", field=_within(place, name))
    parts = []
    for name, node in fields.items():
        values = columns.get(name)
        if values is None:
            if not is_optional(node):
                raise InvalidInput("is missing, and is not optional", field=_within(place, name))
            values = pa.nulls(count)
        parts.append(encode(node, values, _within(place, name)))
    return cells.record(parts)


def encode(node: Node, values: pa.Array, place: str) -> Cells:
    """A column of any type; what is wrong with it names the place."""
    values = _plain(values)
    match node:
        case Optional():
            return _optional(node, values, place)
        case Choice(branches=(branch,)):
            return cells.record((cells.constant(b"\0"), encode(branch, values, place)))
        case Choice():
            raise InvalidInput("is a union of several types: only unions with null are written", field=place)
        case Scalar(kind="null"):
            if values.null_count < len(values):
                raise InvalidInput("holds values, and its type is null", field=place)
            return cells.constant(b"")
    if values.null_count:
        raise InvalidInput(f"holds {values.null_count} nulls, and is not optional", field=place)
    match node:
        case Scalar():
            return _scalar(node, values, place)
        case Record():
            return encode_record(node, _children(node, values, place), len(values), place)
        case Array() | Map():
            return _list(node, values, place)


def _optional(node: Optional, values: pa.Array, place: str) -> Cells:
    if not values.null_count:
        return cells.optional(encode(node.value, values, place), len(values), None, node.null_at)
    if values.null_count == len(values):
        _check_type(node.value, values.type, place)
        return cells.optional(cells.constant(b""), len(values), _NOBODY, node.null_at)
    present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    try:
        some = values.drop_null()  # what lies under nulls is of no interest to anybody, whatever it is
    except pa.ArrowNotImplementedError as error:
        raise InvalidInput(f"is {values.type}, which Arrow cannot filter: {error}", field=place) from None
    value = encode(node.value, some, place)
    return cells.optional(value, len(values), present, node.null_at)


@lru_cache(maxsize=1024)
def _check_type(node: Node, found: pa.DataType, place: str) -> None:
    """Refuse a column for its type; what fits once need not be looked at again."""
    encode(node, pa.nulls(0, found), place)


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _plain(values: pa.Array) -> pa.Array:
    """Values without what Arrow wraps them in."""
    while True:
        match values:
            case pa.ExtensionArray():
                values = values.storage
            case pa.DictionaryArray():
                values = values.dictionary_decode()
            case pa.RunEndEncodedArray():
                values = pc.run_end_decode(values)
            case pa.StringViewArray():
                values = pc.cast(values, pa.large_string())
            case pa.BinaryViewArray():
                values = pc.cast(values, pa.large_binary())
            case _:
                return values


def _children(node: Record, values: pa.Array, place: str) -> dict[str, pa.Array]:
    if types.is_null(values.type):
        return {field.name: values for field in node.fields}
    if not types.is_struct(values.type):
        raise InvalidInput(f"is {values.type}, which cannot be written as a record", field=place)
    found: dict[str, pa.Array] = {}
    for position, field in enumerate(values.type):
        if field.name in found:
            raise InvalidInput("there are two fields of this name", field=_within(place, field.name))
        found[field.name] = values.field(position)
    return found


# Lists


def _list(node: Array | Map, values: pa.Array, place: str) -> Cells:
    offsets, items = _items(values, place)
    match node:
        case Map(values=inner):
            key, value = _entries(values, items, place)
            parts = (encode(_KEY, key, f"{place}.key"), encode(inner, value, f"{place}.value"))
            return cells.lists(cells.record(parts), offsets)
        case Array(is_map=True, items=Record(fields=(key_field, value_field)) as entry):
            key, value = _entries(values, items, place)
            columns = {key_field.name: key, value_field.name: value}
            return cells.lists(encode_record(entry, columns, len(items), place), offsets)
        case Array(items=inner):
            if types.is_map(values.type):
                raise InvalidInput(f"is {values.type}, which cannot be written as an array", field=place)
            return cells.lists(encode(inner, items, f"{place}.element"), offsets)


def _items(values: pa.Array, place: str) -> tuple[Longs, pa.Array]:
    """Where the lists start among their items and end, from 0 on, and the items."""
    found = values.type
    if types.is_null(found):
        return np.zeros(1, np.int64), values
    if types.is_fixed_size_list(found) or types.is_list_view(found) or types.is_large_list_view(found):
        ends = np.cumsum(pc.list_value_length(values).to_numpy(), dtype=np.int64)
        return np.concatenate((np.zeros(1, np.int64), ends)), values.flatten()
    if not (types.is_list(found) or types.is_large_list(found) or types.is_map(found)):
        raise InvalidInput(f"is {found}, which cannot be written as an array or a map", field=place)
    offsets = values.offsets.to_numpy().astype(np.int64)
    first = int(offsets[0])
    return offsets - first, values.values.slice(first, int(offsets[-1]) - first)


def _entries(values: pa.Array, items: pa.Array, place: str) -> tuple[pa.Array, pa.Array]:
    if types.is_null(items.type):
        return items, items
    if not types.is_map(values.type):
        raise InvalidInput(f"is {values.type}, which cannot be written as a map", field=place)
    return items.field(0), items.field(1)


# Values without parts


def _scalar(node: Scalar, values: pa.Array, place: str) -> Cells:
    match node.kind:
        case "boolean":
            found = _fit(values, node.arrow, place).to_numpy(zero_copy_only=False)
            return cells.words(found.view(np.uint8))
        case "int" | "long" as kind:
            stored = pa.int32() if kind == "int" else pa.int64()
            return cells.numbers(_fit(values, node.arrow, place).view(stored).to_numpy())
        case "enum":
            return cells.numbers(_symbols(node, values, place))
        case "float" | "double":
            return cells.words(_fit(values, node.arrow, place).to_numpy())
        case _ if types.is_decimal(node.arrow):
            return _decimals(node, _fit(values, node.arrow, place), place)
        case "fixed":
            data, length = _fixed(_fit(values, node.arrow, place), node.size), len(values)
            return cells.spans(data, np.arange(length) * node.size, node.size)
        case _:
            return _texts(_fit(values, _text_type(node, values.type), place))


def _fit(values: pa.Array, wanted: pa.DataType, place: str) -> pa.Array:
    """Convert a column without loss, or say what does not fit."""
    found = values.type
    if found == wanted:
        return values
    if types.is_null(found):
        return pa.nulls(0, wanted)
    if not any(before(found) and after(wanted) for before, after in FITTING) or _changes(found, wanted):
        raise InvalidInput(f"is {found}, which cannot be written as {wanted}", field=place)
    try:
        if types.is_fixed_size_binary(found):
            values = pc.cast(values, pa.binary())
        return pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"is {found}, and does not fit {wanted}: {error}", field=place) from None


def _changes(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow converts one into the other and says nothing of what is lost."""
    if types.is_floating(found) and types.is_floating(wanted):
        return bool(found.bit_width > wanted.bit_width)
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return (found.tz is None) != (wanted.tz is None)
    return False


def _text_type(node: Scalar, found: pa.DataType) -> pa.DataType:
    """What texts are read as: what they are already, where its bytes are those of the file."""
    as_they_are = types.is_string(found) or types.is_large_string(found)
    if node.kind == "bytes":
        as_they_are = as_they_are or types.is_binary(found) or types.is_large_binary(found)
    return found if as_they_are else node.arrow


def _texts(values: pa.Array) -> Cells:
    large = types.is_large_string(values.type) or types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    if not len(values):
        return cells.texts(_NOTHING, np.zeros(0, np.int64), np.zeros(0, np.int64))
    kind = np.int64 if large else np.int32
    places = np.frombuffer(offsets, kind, len(values) + 1, values.offset * np.dtype(kind).itemsize)
    starts = places.astype(np.int64)
    return cells.texts(_bytes(data), starts[:-1], np.diff(starts))


def _bytes(data: pa.Buffer | None) -> Bytes:
    return _NOTHING if data is None else np.frombuffer(data, np.uint8)


def _fixed(values: pa.Array, size: int) -> Bytes:
    return _bytes(values.buffers()[1])[values.offset * size : (values.offset + len(values)) * size]


def _symbols(node: Scalar, values: pa.Array, place: str) -> Any:
    texts = _fit(values, pa.string(), place)
    found = pc.index_in(texts, pa.array(node.symbols, pa.string()))
    if found.null_count:
        unknown = texts.filter(found.is_null())[0].as_py()
        raise InvalidInput(f"holds {unknown!r}, which is no symbol of its enum", field=place)
    return found.to_numpy()


def _decimals(node: Scalar, values: pa.Array, place: str) -> Cells:
    """Decimals as their unscaled numbers, the highest byte first; on bytes as few of them as do."""
    count = len(values)
    wide = _fixed(values, _DECIMAL_BYTES).reshape(count, _DECIMAL_BYTES)[:, ::-1]
    signs = np.where(wide[:, :1] >> 7, np.uint8(255), np.uint8(0))
    # A byte in front can go if it is all sign, and the one after it has the same sign.
    free = (wide[:, :-1] == signs) & (wide[:, 1:] >> 7 == signs >> 7)
    spare = np.logical_and.accumulate(free, axis=1).sum(axis=1)
    lengths = _DECIMAL_BYTES - spare
    if node.kind == "bytes":
        starts = np.arange(count) * _DECIMAL_BYTES + spare
        return cells.texts(np.ascontiguousarray(wide).reshape(-1), starts, lengths)
    if count and lengths.max() > node.size:
        raise InvalidInput(f"holds a decimal that does not fit into {node.size} bytes", field=place)
    filled = np.repeat(signs, node.size, axis=1)
    stored = min(node.size, _DECIMAL_BYTES)
    filled[:, node.size - stored :] = wide[:, _DECIMAL_BYTES - stored :]
    return cells.spans(filled.reshape(-1), np.arange(count) * node.size, node.size)
