"""Reading by generated code: blocks in, Arrow arrays out.

``wasm_text`` writes a decoder for the schema and the selection at hand, ``wasmtime`` compiles it in some
milliseconds, and it runs in a memory of its own. Blocks are copied there a batch at a time; what it leaves
in its slots has the layout of Arrow already, and is copied out as it is.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Iterable, Sequence
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
from lakeplane.avro.wasm_prelude import ARGUMENTS, FAILURES, WORD
from lakeplane.avro.wasm_text import (
    Code,
    Items,
    Layout,
    Level,
    Parts,
    Values,
    generate,
    spans,
)
from lakeplane.errors import InvalidMetadata, LimitExceeded

_BATCH_BYTES: Final = 1 << 22
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


_engine()  # Made on import, and once: what one engine has compiled does not run in another.
atexit.register(_engine.cache_clear)


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
        rows = number = 0
        machine.begin(number)
        for number, block in enumerate(blocks, 1):
            if block.rows > (self.limits.empty_items - rows if self.is_empty else len(block.data)):
                raise InvalidMetadata("counts more rows than it can hold", field=f"block {number - 1}")
            rows += block.rows
            if machine.load(block) >= _BATCH_BYTES:
                parts.append(self._decode(machine, room))
                machine.begin(number)
        if machine.loaded:
            parts.append(self._decode(machine, room))
        # One that failed is not used again, and is never put back.
        if len(self.idle) < _KEPT_MACHINES and machine.size <= _KEPT_BYTES:
            self.idle.append(machine)
        types = [column.arrow for column in self.selection.columns]
        found = [
            pa.chunked_array([part[number] for part in parts], type_) for number, type_ in enumerate(types)
        ]
        return rows, found

    def _decode(self, machine: _Machine, room: _Room) -> list[pa.Array]:
        level = self.code.rows
        start, end = machine.start, machine.close()
        table = np.array(machine.loaded, np.uint32)
        at = machine.put(table.tobytes())
        count = int(table[:, 1].sum(dtype=np.int64))
        machine.reserve(level, count, room)
        first = machine.first_block
        machine.call(level.function, at, len(table), start, place=lambda number: f"block {first + number}")
        taking = _Taking(machine, end, room, level, count)
        return [
            taking.array(layout, column.arrow, place)
            for layout, column, place in zip(level.layouts, self.selection.columns, self.places, strict=True)
        ]


def _places(selection: Selection) -> list[str]:
    """How errors call the columns."""
    names = ["row"] * len(selection.columns)
    for result in selection.results:
        if result.column is not None:
            names[result.column] = result.field.name
    return names


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
        names = [each.name for each in module.exports if isinstance(each.type, wasmtime.FuncType)]
        self.functions: dict[str, Any] = {name: self.exports[name] for name in names}
        self.top = self.start = self.first_block = 0
        self.loaded: list[tuple[int, int]] = []
        self._look()

    def _look(self) -> None:
        """Where the memory is, which growing it may change."""
        self.size = self.memory.data_len(self.store)
        self.base = ctypes.cast(self.memory.data_ptr(self.store), ctypes.c_void_p).value or 0
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.base))

    def begin(self, number: int) -> None:
        """Forget what was there; the next block to come has this number."""
        self.top = 0
        self.take(WORD * (ARGUMENTS + len(self.widths)))
        self.start = self.top
        self.first_block = number
        self.loaded = []

    def load(self, block: Block) -> int:
        """Copy a block in, right behind the one before: the size of all that were loaded."""
        at = self.top
        self._move(at + len(block.data))
        ctypes.memmove(self.base + at, block.data, len(block.data))
        self.loaded.append((self.top, block.rows))
        return self.top - self.start

    def close(self) -> int:
        """Where the blocks end; there are zeros behind them."""
        end = self.top
        self.take(0)
        self.bytes[end : self.top] = 0
        return end

    def take(self, size: int) -> int:
        """Room of a size, aligned for 8 bytes: its address."""
        start = self.top
        self._move((start + size + _SLACK) & ~7)
        return start

    def _move(self, top: int) -> None:
        if top > self.size:
            if top > _MOST_MEMORY:
                raise LimitExceeded(f"a part of the file takes more than {_MOST_MEMORY} bytes to read")
            self.memory.grow(self.store, (top - self.size + _PAGE - 1) // _PAGE)
            self._look()
        self.top = top

    def put(self, data: bytes) -> int:
        """Copy bytes in: their address."""
        at = self.take(len(data))
        ctypes.memmove(self.base + at, data, len(data))
        return at

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
        begin = WORD * ARGUMENTS
        return self.bytes[begin : begin + WORD * len(self.widths)].view(np.uint32)

    def call(self, function: str, *arguments: int, place: Callable[[int], str] | None = None) -> None:
        """Run a function; why it stopped is an error."""
        self.bytes[: WORD * len(arguments)].view(np.uint32)[:] = arguments
        try:
            self.functions[function](self.store)
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
    """Takes the arrays of one level out of a machine that has run."""

    def __init__(self, machine: _Machine, end: int, room: _Room, level: Level, count: int) -> None:
        self.machine, self.end, self.room, self.count = machine, end, room, count
        self.gathered = self._gather(level)

    def _gather(self, level: Level) -> dict[int, tuple[int, int, int]]:
        """Collect all texts at once: where their offsets and their bytes are, and how many bytes, by slot."""
        machine, count = self.machine, self.count
        found: dict[int, tuple[int, int, int]] = {}
        jobs: list[int] = []
        for values in spans(level.layouts):
            total = int(machine.view(values.at + 1, count, "<u4").sum(dtype=np.int64))
            self.room.spend(total)
            if total >= 1 << 31:
                raise LimitExceeded(f"{total} bytes of one column in a batch of rows")
            offsets, data = machine.take(4 * (count + 1)), machine.take(total)
            found[values.at] = (offsets, data, total)
            jobs += [machine.address(values.at), machine.address(values.at + 1), count, offsets, data]
        if jobs:
            at = machine.put(np.array(jobs, np.uint32).tobytes())
            machine.call("gather", len(found), at)
        return found

    def array(self, layout: Layout, arrow: pa.DataType, place: str) -> pa.Array:
        flags = None if layout.valid is None else self.machine.view(layout.valid, self.count)
        valid = columns.bitmap(flags)
        match layout:
            case Values():
                return self._scalars(layout, valid, place)
            case Parts(children=children):
                found = [
                    self.array(child, arrow.field(number).type, f"{place}.{arrow.field(number).name}")
                    for number, child in enumerate(children)
                ]
                return columns.structs(arrow, valid, found, self.count)
            case Items():
                return self._items(layout, valid, arrow, place)

    def _items(self, layout: Items, valid: pa.Buffer | None, arrow: pa.DataType, place: str) -> pa.Array:
        machine, level, count = self.machine, layout.level, self.count
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(machine.view(layout.at + 1, count, "<u4"), out=offsets[1:])
        total = int(offsets[-1])
        if total >= 1 << 31:
            raise LimitExceeded(f"{total} items in one batch of rows", field=place)
        machine.reserve(level, total, self.room)
        starts, counts = machine.address(layout.at), machine.address(layout.at + 1)
        machine.call(level.function, starts, counts, count, self.end, place=lambda _: place)
        taking = _Taking(machine, self.end, self.room, level, total)
        if pa.types.is_map(arrow):
            fields = (arrow.key_field, arrow.item_field)
            parts = [
                taking.array(part, field.type, f"{place}.{field.name}")
                for part, field in zip(level.layouts, fields, strict=True)
            ]
            found = columns.structs(pa.struct(list(fields)), None, parts, total)
        else:
            found = taking.array(level.layouts[0], arrow.value_type, f"{place}.element")
        return columns.lists(arrow, valid, pa.py_buffer(offsets.astype(np.int32)), found, count)

    def _scalars(self, layout: Values, valid: pa.Buffer | None, place: str) -> pa.Array:
        machine, node, count = self.machine, layout.node, self.count
        if node.kind == "null":
            return pa.nulls(count)
        buffers: list[Any]
        if layout.at in self.gathered:
            at, data, total = self.gathered[layout.at]
            buffers = [machine.copy(at, 4 * (count + 1)), machine.copy(data, total)]
        else:
            width = machine.widths[layout.at]
            buffers = [machine.copy(machine.address(layout.at), count * width)]
        if node.kind == "boolean":
            buffers = [columns.booleans(np.frombuffer(buffers[0], np.uint8))]
        elif pa.types.is_decimal(node.arrow):
            buffers = [columns.wide_decimals(buffers[-1], *_starts(layout, buffers, count, machine), place)]
        return columns.scalars(node, valid, buffers, count, place)


def _starts(
    layout: Values, buffers: Sequence[bytes], count: int, machine: _Machine
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Where the values of a column are among its bytes, and how long they are."""
    if len(buffers) > 1:
        ends = np.frombuffer(buffers[0], np.int32)
        return ends[:-1], np.diff(ends)
    width = machine.widths[layout.at]
    return np.arange(count) * width, np.full(count, width)
