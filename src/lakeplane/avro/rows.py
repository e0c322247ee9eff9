"""Reading in plain Python, value by value: for where there is no wasmtime.

It is also what the tests compare the fast way with. Values are what is stored, not what Python would show: a
timestamp is its number, a decimal its bytes, a record a tuple.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeplane.avro import columns
from lakeplane.avro.container import Block, read_long
from lakeplane.avro.limits import Limits
from lakeplane.avro.schema import (
    TEXT,
    Array,
    Choice,
    Map,
    Node,
    Optional,
    Record,
    Scalar,
    is_empty,
)
from lakeplane.avro.selection import Inside, Keyed, Selection, Whole
from lakeplane.errors import InvalidMetadata, LimitExceeded

_ITEM_BYTES: Final = 64
"""What a value takes in a list of Python, about."""
_KEY_AND_VALUE: Final = 2


class _Cursor:
    """A place in a block, and how many values may still be read."""

    def __init__(self, values: int) -> None:
        self.data = b""
        self.at = 0
        self.values = values

    def long(self) -> int:
        value, self.at = read_long(self.data, self.at)  # type: ignore[arg-type]  # bytes do as well
        return value

    def take(self, length: int) -> bytes:
        end = self.at + length
        if length < 0 or end > len(self.data):
            raise IndexError
        found = self.data[self.at : end]
        self.at = end
        return found

    def spend(self, count: int) -> None:
        self.values -= count
        if self.values < 0:
            raise LimitExceeded("the columns take more memory than they may")


_Read = Callable[[_Cursor], Any]


class Decoder:
    """The decoder of one selection."""

    def __init__(self, selection: Selection, limits: Limits) -> None:
        self.selection = selection
        self.limits = limits

    def __call__(self, blocks: Iterable[Block], size: int) -> tuple[int, list[pa.Array]]:
        """The number of rows, and the columns of the selection."""
        selection, limits = self.selection, self.limits
        found: list[list[Any]] = [[] for _ in selection.columns]
        read = _row(selection, limits, found)
        cursor = _Cursor(limits.columns(size) // _ITEM_BYTES)
        empty = is_empty(selection.record) and selection.null_at is None
        rows = 0
        for number, block in enumerate(blocks):
            cursor.data, cursor.at = block.data, 0
            if block.rows > (limits.empty_items - rows if empty else len(block.data)):
                raise InvalidMetadata("counts more rows than it can hold", field=f"block {number}")
            for _ in range(block.rows):
                cursor.spend(len(found))
                try:
                    read(cursor)
                except IndexError:
                    raise InvalidMetadata("ends within a row", field=f"block {number}") from None
            if cursor.at != len(block.data):
                raise InvalidMetadata("goes on after its last row", field=f"block {number}")
            rows += block.rows
        arrays = [
            _array(column.node, column.arrow, values)
            for column, values in zip(selection.columns, found, strict=True)
        ]
        return rows, arrays


def _row(selection: Selection, limits: Limits, found: list[list[Any]]) -> _Read:
    record = _inside(selection.record, selection.inside, limits, found)
    if selection.null_at is None:
        return record
    null_at = selection.null_at

    def read(cursor: _Cursor) -> None:
        if cursor.long() != 1 - null_at:
            raise InvalidMetadata("a row is null")
        record(cursor)

    return read


def _inside(record: Record, inside: Inside, limits: Limits, found: list[list[Any]]) -> _Read:
    steps: list[_Read] = []
    for position, field in enumerate(record.fields):
        targets = inside.fields.get(position, ())
        for number, target in enumerate(targets):
            step = _target(field.type, target, limits, found)
            steps.append(_again(step) if number < len(targets) - 1 else step)
        if not targets and not is_empty(field.type):
            steps.append(_skipper(field.type, limits))

    def read(cursor: _Cursor) -> None:
        for step in steps:
            step(cursor)

    return read


def _again(step: _Read) -> _Read:
    """Read the same once more with the next step."""

    def read(cursor: _Cursor) -> None:
        at = cursor.at
        step(cursor)
        cursor.at = at

    return read


def _target(node: Node, target: Whole | Keyed | Inside, limits: Limits, found: list[list[Any]]) -> _Read:
    match target:
        case Whole(column=column):
            return _appending(_reader(node, limits), found[column])
        case Keyed(first=first, keys=keys):
            return _keyed(_reader(node, limits), found[first : first + len(keys)], keys)
        case Inside():
            return _descend(node, target, limits, found)


def _appending(read: _Read, values: list[Any]) -> _Read:
    return lambda cursor: values.append(read(cursor))


def _keyed(read: _Read, columns_of_keys: list[list[Any]], keys: Sequence[int]) -> _Read:
    def split(cursor: _Cursor) -> None:
        # Of a key that is there twice, the last value counts that is not null.
        entries = {key: value for key, value in read(cursor) or () if value is not None}
        for key, values in zip(keys, columns_of_keys, strict=True):
            values.append(entries.get(key))

    return split


def _descend(node: Node, inside: Inside, limits: Limits, found: list[list[Any]]) -> _Read:
    match node:
        case Record():
            return _inside(node, inside, limits, found)
        case Optional(value=value, null_at=null_at):
            deeper = _descend(value, inside, limits, found)
            touched = [found[column] for column in columns_in(inside)]

            def read(cursor: _Cursor) -> None:
                if _branch(cursor, 2) != null_at:
                    deeper(cursor)
                else:
                    for values in touched:
                        values.append(None)

            return read
        case Choice(branches=(branch,)):
            deeper = _descend(branch, inside, limits, found)

            def read_alone(cursor: _Cursor) -> None:
                _branch(cursor, 1)
                deeper(cursor)

            return read_alone
        case _:
            raise AssertionError(node)


def columns_in(inside: Inside) -> list[int]:
    """All columns that are filled within a record."""
    found: list[int] = []
    for targets in inside.fields.values():
        for target in targets:
            match target:
                case Whole(column=column):
                    found.append(column)
                case Keyed(first=first, keys=keys):
                    found += range(first, first + len(keys))
                case Inside():
                    found += columns_in(target)
    return found


def _branch(cursor: _Cursor, count: int) -> int:
    branch = cursor.long()
    if not 0 <= branch < count:
        raise InvalidMetadata(f"branch {branch} of a union of {count}")
    return branch


def _reader(node: Node, limits: Limits) -> _Read:
    match node:
        case Scalar():
            return _scalar_reader(node)
        case Optional(value=value, null_at=null_at):
            return _optional_reader(_reader(value, limits), null_at)
        case Choice(branches=branches):
            readers = [_reader(branch, limits) for branch in branches]
            return lambda cursor: readers[_branch(cursor, len(readers))](cursor)
        case Record(fields=fields):
            parts = [_reader(field.type, limits) for field in fields]
            return lambda cursor: tuple(part(cursor) for part in parts)
        case Array(items=items):
            return _list_reader(_reader(items, limits), limits, empty_parts=_empty_parts(items))
        case Map(values=values):
            return _list_reader(_entry_reader(_reader(values, limits)), limits)


def _entry_reader(read: _Read) -> _Read:
    return lambda cursor: (cursor.take(cursor.long()), read(cursor))


def _optional_reader(read: _Read, null_at: int) -> _Read:
    return lambda cursor: None if _branch(cursor, 2) == null_at else read(cursor)


def _scalar_reader(node: Scalar) -> _Read:
    match node.kind:
        case "null":
            return lambda _: None
        case "int" | "long" | "enum":
            return _Cursor.long
        case "bytes" | "string":
            return lambda cursor: cursor.take(cursor.long())
        case "fixed":
            return lambda cursor: cursor.take(node.size)
        case "boolean":
            return lambda cursor: cursor.take(1)[0]
        case "float":
            return lambda cursor: struct.unpack("<f", cursor.take(4))[0]
        case "double":
            return lambda cursor: struct.unpack("<d", cursor.take(8))[0]


def _skipper(node: Node, limits: Limits) -> _Read:
    """Goes past a value; what takes no bytes takes no time."""
    match node:
        case Scalar():
            return _scalar_reader(node)
        case Optional(value=value, null_at=null_at):
            return _optional_reader(_skipper(value, limits), null_at)
        case Choice(branches=branches):
            skippers = [_skipper(branch, limits) for branch in branches]
            return lambda cursor: skippers[_branch(cursor, len(skippers))](cursor)
        case Record(fields=fields):
            parts = [_skipper(field.type, limits) for field in fields if not is_empty(field.type)]
            return lambda cursor: [part(cursor) for part in parts]
        case Array(items=items):
            return _list_skipper(_skipper(items, limits), limits, empty=is_empty(items))
        case Map(values=values):
            return _list_skipper(_entry_reader(_skipper(values, limits)), limits, empty=False)


def _list_skipper(skip: _Read, limits: Limits, *, empty: bool) -> _Read:
    def skip_list(cursor: _Cursor) -> None:
        while count := cursor.long():
            if count < 0:
                count = -count
                cursor.long()
            if count > (limits.empty_items if empty else len(cursor.data) - cursor.at):
                raise InvalidMetadata("counts more items than it can hold")
            if not empty:
                for _ in range(count):
                    skip(cursor)

    return skip_list


def _empty_parts(node: Node) -> int:
    """How many values are in one that takes no bytes; 0 if it takes some."""
    match node:
        case Record(fields=fields) if is_empty(node):
            return 1 + sum(_empty_parts(field.type) for field in fields)
        case _:
            return int(is_empty(node))


def _list_reader(read: _Read, limits: Limits, *, empty_parts: int = 0) -> _Read:
    def read_list(cursor: _Cursor) -> list[Any]:
        found: list[Any] = []
        while count := cursor.long():
            if count < 0:
                count = -count
                cursor.long()
            if count > (limits.empty_items - len(found) if empty_parts else len(cursor.data) - cursor.at):
                raise InvalidMetadata("counts more items than it can hold")
            cursor.spend(count * max(1, empty_parts))
            found += [read(cursor) for _ in range(count)]
        return found

    return read_list


def _array(node: Node, arrow: pa.DataType, values: Sequence[Any], place: str = "") -> pa.Array:
    valid = None if None not in values else np.array([value is not None for value in values], np.uint8)
    bits = columns.bitmap(valid)
    match node:
        case Optional(value=value) | Choice(branches=(value,)):
            return _array(value, arrow, values, place)
        case Scalar():
            return _scalar_array(node, bits, values, place)
        case Record(fields=fields):
            children = [
                _array(
                    field.type,
                    arrow.field(position).type,
                    [None if value is None else value[position] for value in values],
                    f"{place}.{field.name}",
                )
                for position, field in enumerate(fields)
            ]
            return columns.structs(arrow, bits, children, len(values))
        case Array() | Map():
            lengths = np.array([len(value or ()) for value in values], np.int64)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            items = _items(node, arrow, [item for value in values for item in value or ()], place)
            return columns.lists(arrow, bits, pa.py_buffer(offsets), items, len(values))
        case _:
            raise AssertionError(node)


def _items(node: Array | Map, arrow: pa.DataType, values: Sequence[Any], place: str) -> pa.Array:
    if isinstance(node, Array) and not node.is_map:
        return _array(node.items, arrow.value_type, values, f"{place}.element")
    types: tuple[Node, Node]
    match node:
        case Map(values=items):
            types = (TEXT, items)
        case Array(items=Record(fields=(key, value))):
            types = (key.type, value.type)
        case _:
            raise AssertionError(node)
    children = [
        _array(part, field.type, [value[position] for value in values], f"{place}.{field.name}")
        for position, (part, field) in enumerate(zip(types, (arrow.key_field, arrow.item_field), strict=True))
    ]
    return columns.structs(pa.struct([arrow.key_field, arrow.item_field]), None, children, len(values))


def _scalar_array(node: Scalar, bits: pa.Buffer | None, values: Sequence[Any], place: str) -> pa.Array:
    count = len(values)
    match node.kind:
        case "null":
            buffers: list[Any] = []
        case "int" | "enum":
            buffers = [_numbers(node, values, place)]
        case "long":
            buffers = [pa.py_buffer(np.array([value or 0 for value in values], np.int64))]
        case "float" | "double" as kind:
            width = np.float32 if kind == "float" else np.float64
            buffers = [pa.py_buffer(np.array([0 if value is None else value for value in values], width))]
        case "boolean":
            if any(value not in {None, 0, 1} for value in values):
                raise InvalidMetadata("holds what is neither true nor false", field=place)
            buffers = [columns.booleans(np.array([value or 0 for value in values], np.uint8))]
        case _ if pa.types.is_decimal(node.arrow):
            lengths = np.array([len(value or b"") for value in values], np.int64)
            data = b"".join(value or b"" for value in values)
            buffers = [columns.wide_decimals(data, np.cumsum(lengths) - lengths, lengths, place)]
        case "fixed":
            buffers = [pa.py_buffer(b"".join(value or bytes(node.size) for value in values))]
        case _:
            lengths = np.array([len(value or b"") for value in values], np.int64)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            buffers = [pa.py_buffer(offsets), pa.py_buffer(b"".join(value or b"" for value in values))]
    return columns.scalars(node, bits, buffers, count, place)


def _numbers(node: Scalar, values: Sequence[Any], place: str) -> pa.Buffer:
    numbers = np.array([value or 0 for value in values], np.int64)
    low, high = (0, len(node.symbols) - 1) if node.kind == "enum" else (-(1 << 31), (1 << 31) - 1)
    if any(value is not None and not low <= value <= high for value in values):
        raise InvalidMetadata(f"holds a number that is not between {low} and {high}", field=place)
    return pa.py_buffer(numbers.astype(np.int32))
