"""Values as bytes, by columns: how long each value is, and how all of them are put where they belong.

In the file a row is its fields one after the other, each of its own length. So first every column tells the
lengths of its values. Their sums are the places of all values, and then every column puts its bytes there.
Both are done for all rows at once. The items of lists are columns too, with places of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lakeplane.avro.columns import Bytes

Longs: TypeAlias = npt.NDArray[np.int64]
Sizes: TypeAlias = int | Longs
"""The length of each value, or the one that all of them have."""


class Cells(NamedTuple):
    """The values of a column, ready to be written."""

    sizes: Sizes
    put: Callable[[Bytes, Longs], None]
    """Writes each value into a buffer at its place. The places are not changed."""


_STEPS: Final = tuple(np.uint64(1 << 7 * count) for count in range(1, 10))
"""From each of these numbers on, a number takes a byte more."""
_NONE: Final = np.uint64(0)
_MORE: Final = np.uint64(128)
_LONG: Final = 1024
"""Texts of so many bytes are copied one by one, shorter ones all together in words."""
_WORD: Final = 8


def pack(cells: Cells, count: int) -> tuple[Bytes, Longs]:
    """The bytes of all values one after the other, and where each of them ends."""
    sizes = _each(cells.sizes, count)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if count else 0, np.uint8)
    cells.put(out, ends - sizes)
    return out, ends


def constant(data: bytes) -> Cells:
    """The same bytes for every value."""

    def put(out: Bytes, at: Longs) -> None:
        for offset, byte in enumerate(data):
            out[at + offset] = byte

    return Cells(len(data), put)


def numbers(values: npt.NDArray[Any]) -> Cells:
    """Whole numbers, 7 bits a byte, the sign in the lowest bit."""
    wide = values.astype(np.int64, copy=False)
    raw = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    if raw.max(initial=_NONE) < _MORE:
        return words(raw.astype(np.uint8))
    return Cells(_number_sizes(raw), lambda out, at: _put_numbers(out, at, raw))


def _number_sizes(raw: npt.NDArray[np.uint64]) -> Longs:
    sizes = np.ones(len(raw), np.int64)
    top = raw.max()
    for step in _STEPS:
        if top < step:
            break
        sizes += raw >= step
    return sizes


def _put_numbers(out: Bytes, at: Longs, raw: npt.NDArray[np.uint64]) -> None:
    """Put the first byte of all numbers, then the second of those that have one, and so on."""
    while len(raw):
        more = raw >= _MORE
        out[at] = raw.astype(np.uint8) | (more.view(np.uint8) << 7)
        if not more.all():
            longer = np.flatnonzero(more)
            at, raw = at[longer], raw[longer]
        at, raw = at + 1, raw >> np.uint64(7)


def words(values: npt.NDArray[Any]) -> Cells:
    """Values as they are in memory, lowest byte first: truth values and floats."""
    ordered = values.astype(values.dtype.newbyteorder("<"), copy=False)

    def put(out: Bytes, at: Longs) -> None:
        _words(out, ordered.dtype)[at] = ordered

    return Cells(ordered.dtype.itemsize, put)


def spans(data: Bytes, starts: Longs, lengths: Sizes) -> Cells:
    """Parts of a buffer."""
    if isinstance(lengths, int):
        length = lengths
        return Cells(length, lambda out, at: _copy_alike(out, at, data, starts, length))
    each = lengths
    return Cells(each, lambda out, at: _copy(out, at, data, starts, each))


def texts(data: Bytes, starts: Longs, lengths: Longs) -> Cells:
    """Parts of a buffer, each after its length."""
    if len(lengths) and (lengths[0] == lengths).all():
        length = int(lengths[0])
        return record((numbers(lengths), spans(data, starts, length)))
    return record((numbers(lengths), spans(data, starts, lengths)))


def record(parts: Sequence[Cells]) -> Cells:
    """Several values one after the other."""
    alike = sum(part.sizes for part in parts if isinstance(part.sizes, int))
    sizes: Sizes = alike
    for part in parts:
        if not isinstance(part.sizes, int):
            sizes = sizes + part.sizes

    def put(out: Bytes, at: Longs) -> None:
        for part in parts:
            part.put(out, at)
            at = at + part.sizes

    return Cells(sizes, put)


def optional(value: Cells, count: int, present: Longs | None, null_at: int) -> Cells:
    """A union with null: the number of the branch, and the value where there is one.

    Which rows have a value is told by ``present``, where it is None all of them do.
    """
    null, some = bytes([2 * null_at]), bytes([2 * (1 - null_at)])
    if present is None:
        return record((constant(some), value))
    if not len(present):
        return constant(null)
    sizes = np.ones(count, np.int64)
    sizes[present] += value.sizes

    def put(out: Bytes, at: Longs) -> None:
        out[at] = null[0]
        there = at[present]
        out[there] = some[0]
        value.put(out, there + 1)

    return Cells(sizes, put)


def lists(items: Cells, offsets: Longs) -> Cells:
    """Arrays and maps: how many items, these, and a zero; of none just the zero.

    Items are those of all lists one after the other, the offsets tell where each list starts and the last
    one ends.
    """
    counts = np.diff(offsets)
    count = numbers(counts)
    before = np.zeros(int(offsets[-1]) + 1, np.int64)
    np.cumsum(_each(items.sizes, len(before) - 1), out=before[1:])
    starts = before[offsets[:-1]]
    sizes = before[offsets[1:]] - starts + count.sizes + (counts > 0)

    def put(out: Bytes, at: Longs) -> None:
        count.put(out, at)
        out[at + sizes - 1] = 0
        places = np.repeat(at + count.sizes - starts, counts)
        places += before[:-1]
        items.put(out, places)

    return Cells(sizes, put)


def _each(sizes: Sizes, count: int) -> Longs:
    return np.full(count, sizes, np.int64) if isinstance(sizes, int) else sizes


def _words(data: Bytes, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A buffer as the words that start at each of its bytes: numpy reads and writes them at any place."""
    dtype = np.dtype(kind)
    return np.ndarray((max(0, len(data) - dtype.itemsize + 1),), dtype, data, strides=(1,))


def _copy_alike(out: Bytes, to: Longs, data: Bytes, starts: Longs, length: int) -> None:
    if not length or not len(to):
        return
    if length > _LONG:
        _copy_each(out, to, data, starts, np.full(len(to), length))
        return
    width = next(width for width in (8, 4, 2, 1) if width <= length)
    target, source = _words(out, f"<u{width}"), _words(data, f"<u{width}")
    for offset in (*range(0, length - width, width), length - width):
        target[to + offset] = source[starts + offset]


def _copy(out: Bytes, to: Longs, data: Bytes, starts: Longs, lengths: Longs) -> None:
    """Copy parts of a buffer in words, the last word of each part so that it ends where the part does."""
    for width in (1, 2, 4):
        chosen = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        _copy_words(out, to[chosen], data, starts[chosen], lengths[chosen], width=width)
    chosen = np.flatnonzero((lengths >= _WORD) & (lengths <= _LONG))
    _copy_words(out, to[chosen], data, starts[chosen], lengths[chosen], width=_WORD)
    chosen = np.flatnonzero(lengths > _LONG)
    _copy_each(out, to[chosen], data, starts[chosen], lengths[chosen])


def _copy_words(out: Bytes, to: Longs, data: Bytes, starts: Longs, lengths: Longs, *, width: int) -> None:
    target, source = _words(out, f"<u{width}"), _words(data, f"<u{width}")
    last = lengths - width
    offset = 0
    while len(to):
        here = np.minimum(last, offset)
        target[to + here] = source[starts + here]
        longer = last > offset
        if not longer.all():
            chosen = np.flatnonzero(longer)
            to, starts, last = to[chosen], starts[chosen], last[chosen]
        offset += width


def _copy_each(out: Bytes, to: Longs, data: Bytes, starts: Longs, lengths: Longs) -> None:
    for place, start, length in zip(to.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        out[place : place + length] = data[start : start + length]
