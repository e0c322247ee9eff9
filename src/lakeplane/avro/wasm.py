"""Reading by generated code: blocks in, Arrow arrays out.

``wasm_text`` writes a decoder for the schema and the selection at hand, ``wasmtime`` compiles it in some
milliseconds, and it runs in a memory of its own. Blocks are copied there a batch at a time; what it leaves
in its slots has the layout of Arrow already, and is copied out as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import wasmtime

from lakeplane.avro import columns
from lakeplane.avro.container import Block
from lakeplane.avro.limits import Limits
from lakeplane.avro.schema import is_empty
from lakeplane.avro.selection import Selection
from lakeplane.avro.wasm_text import FAILURES, SLOT_BYTES, Code, Items, Layout, Level, Parts, Values, generate
from lakeplane.errors import InvalidMetadata, LimitExceeded

_BATCH_BYTES: Final = 1 << 23
"""Blocks are decoded together up to this size: it fits the caches, and one call costs little beside it."""

_PAGE: Final = 1 << 16
_MOST_MEMORY: Final = 3 << 30
_SLACK: Final = 64
"""Room after values: copies of eight bytes at a time may go beyond their end."""

_KEPT_MACHINES: Final = 4
_KEPT_BYTES: Final = 16 << 20


@cache
def _engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    # The threads that would compile in parallel do not survive a fork.
    config.parallel_compilation = False
    return wasmtime.Engine(config)


class Decoder:
    """The decoder of one selection. May be used from many threads: each call has a machine for itself."""

    def __init__(self, selection: Selection, limits: Limits) -> None:
        self.selection = selection
        self.limits = limits
        self.code = generate(selection, limits)
        self.module = wasmtime.Module(_engine(), self.code.text)
        self.idle: list[_Machine] = []
        self.is_empty = is_empty(selection.record) and selection.null_at is None
        self.places = _places(selection)

    def __call__(self, blocks: Iterable[Block], size: int) -> tuple[int, list[pa.ChunkedArray]]:
        """The number of rows, and the columns of the selection."""
        room = _Room(self.limits.columns(size))
        try:
            machine = self.idle.pop()
        except IndexError:
            machine = _Machine(self.module, self.code)
        parts: list[list[pa.Array]] = []
        rows = done = 0
        for batch in _batches(blocks):
            self._check(batch, rows, done)
            count = sum(block.rows for block in batch)
            parts.append(self._decode(machine, batch, count, done, room))
            rows, done = rows + count, done + len(batch)
        # One that failed is not used again, and is never put back.
        if len(self.idle) < _KEPT_MACHINES and machine.size <= _KEPT_BYTES:
            self.idle.append(machine)
        types = [column.arrow for column in self.selection.columns]
        found = [
            pa.chunked_array([part[number] for part in parts], type_) for number, type_ in enumerate(types)
        ]
        return rows, found

    def _check(self, batch: Sequence[Block], rows: int, done: int) -> None:
        for number, block in enumerate(batch):
            if block.rows > (self.limits.empty_items - rows if self.is_empty else len(block.data)):
                raise InvalidMetadata("counts more rows than it can hold", field=f"block {done + number}")
            rows += block.rows

    def _decode(
        self, machine: _Machine, batch: Sequence[Block], count: int, done: int, room: _Room
    ) -> list[pa.Array]:
        start, end = machine.load(batch)
        ends = np.cumsum([len(block.data) for block in batch]) + start
        table = np.stack([ends, [block.rows for block in batch]], axis=1).astype(np.uint32)
        at = machine.put(table.tobytes())
        level = self.code.rows
        machine.reserve(level, count, room)
        machine.call(level.function, at, len(batch), start, place=lambda number: f"block {done + number}")
        taking = _Taking(machine, end, room)
        return [
            taking.array(layout, column.arrow, count, place)
            for layout, column, place in zip(level.layouts, self.selection.columns, self.places, strict=True)
        ]


def _places(selection: Selection) -> list[str]:
    """How errors call the columns."""
    names = ["row"] * len(selection.columns)
    for result in selection.results:
        if result.column is not None:
            names[result.column] = result.field.name
    return names


def _batches(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    waiting: list[Block] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block.data)
        if size >= _BATCH_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


class _Room:
    """How many bytes columns may still take."""

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise LimitExceeded(f"the columns take more than {self.limit} bytes of memory")


class _Machine:
    """An instance of a decoder: its memory and its functions. Room in it is handed out upwards."""

    def __init__(self, module: wasmtime.Module, code: Code) -> None:
        self.widths = code.widths
        self.store = wasmtime.Store(_engine())
        self.exports: Any = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.memory: Any = self.exports["memory"]
        self.top = 0
        self._look()

    def _look(self) -> None:
        """Where the memory is, which growing it may change."""
        self.size = self.memory.data_len(self.store)
        self.base = ctypes.cast(self.memory.data_ptr(self.store), ctypes.c_void_p).value or 0
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.base))

    def take(self, size: int) -> int:
        """Room of a size, aligned for 8 bytes: its address."""
        start = self.top
        self.top = (start + size + _SLACK) & ~7
        if self.top > self.size:
            if self.top > _MOST_MEMORY:
                raise LimitExceeded(f"a part of the file takes more than {_MOST_MEMORY} bytes to read")
            self.memory.grow(self.store, (self.top - self.size + _PAGE - 1) // _PAGE)
            self._look()
        return start

    def put(self, data: bytes) -> int:
        """Copy bytes in: their address."""
        at = self.take(len(data))
        ctypes.memmove(self.base + at, data, len(data))
        return at

    def load(self, batch: Sequence[Block]) -> tuple[int, int]:
        """Forget what was there, and copy blocks in: where they start and end."""
        self.top = 0
        self.take(SLOT_BYTES * len(self.widths))
        at = start = self.take(sum(len(block.data) for block in batch))
        for block in batch:
            ctypes.memmove(self.base + at, block.data, len(block.data))
            at += len(block.data)
        self.bytes[at : at + _SLACK - 7] = 0
        return start, at

    def reserve(self, level: Level, count: int, room: _Room) -> None:
        """Make room for the values of a level, all zeros."""
        widths = [self.widths[slot] for slot in level.slots]
        room.spend(count * (1 + sum(widths)))
        begin = self.top
        addresses = [self.take(count * width) for width in widths]
        self.bytes[begin : self.top] = 0
        self._table()[list(level.slots)] = addresses

    def address(self, slot: int) -> int:
        """Where the values of a slot are."""
        return int(self._table()[slot])

    def _table(self) -> npt.NDArray[np.uint32]:
        return self.bytes[: SLOT_BYTES * len(self.widths)].view(np.uint32)

    def call(self, function: str, *arguments: int, place: Callable[[int], str] | None = None) -> None:
        """Run a function; why it stopped is an error."""
        try:
            self.exports[function](self.store, *arguments)
        except wasmtime.Trap:
            why = FAILURES[self.exports["why"].value(self.store)] or FAILURES[1]
            number = self.exports["block"].value(self.store)
            raise InvalidMetadata(why, field=place and place(number)) from None

    def copy(self, address: int, size: int) -> bytes:
        """Copy bytes out."""
        return ctypes.string_at(self.base + address, size)

    def view(self, slot: int, count: int, kind: str = "u1") -> npt.NDArray[Any]:
        """The values of a slot, until the memory grows."""
        at = self.address(slot)
        return self.bytes[at : at + count * np.dtype(kind).itemsize].view(kind)


class _Taking:
    """Takes arrays out of a machine that has run."""

    def __init__(self, machine: _Machine, end: int, room: _Room) -> None:
        self.machine, self.end, self.room = machine, end, room

    def array(self, layout: Layout, arrow: pa.DataType, count: int, place: str) -> pa.Array:
        flags = None if layout.valid is None else self.machine.view(layout.valid, count)
        valid = columns.bitmap(flags)
        match layout:
            case Values():
                return self.scalars(layout, valid, count, place)
            case Parts(children=children):
                found = [
                    self.array(child, arrow.field(number).type, count, f"{place}.{arrow.field(number).name}")
                    for number, child in enumerate(children)
                ]
                return columns.structs(arrow, valid, found, count)
            case Items():
                return self.items(layout, valid, arrow, count, place)

    def items(
        self, layout: Items, valid: pa.Buffer | None, arrow: pa.DataType, count: int, place: str
    ) -> pa.Array:
        machine, level = self.machine, layout.level
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(machine.view(layout.at + 1, count, "<u4"), out=offsets[1:])
        total = int(offsets[-1])
        machine.reserve(level, total, self.room)
        starts, counts = machine.address(layout.at), machine.address(layout.at + 1)
        machine.call(level.function, starts, counts, count, self.end, place=lambda _: place)
        if total >= 1 << 31:
            raise LimitExceeded(f"{total} items in one batch of rows", field=place)
        if pa.types.is_map(arrow):
            fields = (arrow.key_field, arrow.item_field)
            parts = [
                self.array(part, field.type, total, f"{place}.{field.name}")
                for part, field in zip(level.layouts, fields, strict=True)
            ]
            found = columns.structs(pa.struct(list(fields)), None, parts, total)
        else:
            found = self.array(level.layouts[0], arrow.value_type, total, f"{place}.element")
        return columns.lists(arrow, valid, pa.py_buffer(offsets.astype(np.int32)), found, count)

    def scalars(self, layout: Values, valid: pa.Buffer | None, count: int, place: str) -> pa.Array:
        machine, node = self.machine, layout.node
        if node.kind == "null":
            return pa.nulls(count)
        if node.kind == "boolean":
            return columns.scalars(
                node, valid, [columns.booleans(machine.view(layout.at, count))], count, place
            )
        if node.kind in {"bytes", "string"}:
            offsets, data = self.gather(layout, count)
            if pa.types.is_decimal(node.arrow):
                ends = np.frombuffer(offsets, np.int32)
                buffers = [columns.wide_decimals(data, ends[:-1], np.diff(ends), place)]
            else:
                buffers = [pa.py_buffer(offsets), pa.py_buffer(data)]
            return columns.scalars(node, valid, buffers, count, place)
        width = machine.widths[layout.at]
        data = machine.copy(machine.address(layout.at), count * width)
        if pa.types.is_decimal(node.arrow):
            starts = np.arange(count) * width
            return columns.scalars(
                node, valid, [columns.wide_decimals(data, starts, np.full(count, width), place)], count, place
            )
        return columns.scalars(node, valid, [pa.py_buffer(data)], count, place)

    def gather(self, layout: Values, count: int) -> tuple[bytes, bytes]:
        """The offsets and the bytes of texts."""
        machine = self.machine
        total = int(machine.view(layout.at + 1, count, "<u4").sum(dtype=np.int64))
        self.room.spend(total)
        if total >= 1 << 31:
            raise LimitExceeded(f"{total} bytes of one column in a batch of rows")
        before = machine.top
        offsets, data = machine.take(4 * (count + 1)), machine.take(total)
        machine.call(
            "gather", machine.address(layout.at), machine.address(layout.at + 1), count, offsets, data
        )
        found = machine.copy(offsets, 4 * (count + 1)), machine.copy(data, total)
        machine.top = before
        return found
