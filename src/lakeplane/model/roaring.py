"""Positions of deleted rows as bitmaps: the blob that Iceberg and Paimon share, and the bitmaps in it.

::

    length   magic     count    key  bitmap  key  bitmap …   checksum
    4, big   D1D33964  8        4    …                       CRC-32, 4, big
             └ what the length and the checksum are of ┘

A position is split in a key, its upper 32 bits, and the rest, which is in the key's Roaring bitmap. From the
count on, it is the portable format of Roaring, in little-endian. Its layout is checked here before pyroaring
sees a byte of it; pyroaring checks what is in the containers, and gives the positions as a ``BitMap64``.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

MAX_POSITION: Final = (2**31 - 2 << 32) + 2**31
"""The last position that Java's implementation takes."""

_MAGIC: Final = bytes.fromhex("d1d33964")
_AROUND: Final = 8
"""The length before, and the checksum after what they are of."""
_LEAST: Final = 20
_MAX_KEY: Final = 2**31 - 2
_MAX_LENGTH: Final = 2**31 - 1

_COUNT: Final = struct.Struct("<Q")
_WORD: Final = struct.Struct("<I")
_HALF: Final = struct.Struct("<H")
_PLAIN_COOKIE: Final = 12346
_RUN_COOKIE: Final = 12347
_OFFSETS_FROM: Final = 4
_MAX_ARRAY: Final = 4096
_BITSET_BYTES: Final = 8192


class VectorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is accepted of one vector. Each of them ends in a ``LimitExceeded`` that names the file."""

    size: int = 1 << 29
    """Bytes of the blob: a file of four billion rows needs no more."""
    keys: int = 1 << 14
    """Bitmaps in the vector: each is for four billion rows."""
    containers: int = 1 << 20
    """Containers in all bitmaps: a few bytes of the blob stand for ten times as many in memory."""
    positions: int = 1 << 28
    """Positions, where each is to be a number of its own."""


DEFAULT_LIMITS: Final = VectorLimits()


def read_vector(
    blob: bytes,
    *,
    source: str,
    expected_cardinality: int | None = None,
    limits: VectorLimits = DEFAULT_LIMITS,
) -> BitMap64:
    """The positions in a blob, cut out as a manifest tells; a broken one is refused whole."""
    if len(blob) > limits.size:
        problem = f"the deletion vector takes {len(blob)} bytes, more than {limits.size}"
        raise LimitExceeded(problem, source=source, hint="Raise the limits if the file is honest")
    try:
        vector = _read(blob, limits)
    except InvalidMetadata as error:
        problem = f"broken deletion vector: {error.problem}"
        raise type(error)(problem, source=source, field=error.field, hint=error.hint) from None
    if expected_cardinality is not None and len(vector) != expected_cardinality:
        problem = f"the deletion vector has {len(vector)} positions, and should have {expected_cardinality}"
        raise InvalidMetadata(problem, source=source)
    return vector


def _read(blob: bytes, limits: VectorLimits) -> BitMap64:
    if len(blob) < _LEAST:
        raise InvalidMetadata(f"it has {len(blob)} bytes only")
    length = int.from_bytes(blob[:4], "big")
    if length != len(blob) - _AROUND:
        raise InvalidMetadata(f"it is of {length + _AROUND} bytes, and {len(blob)} are there")
    if blob[4:8] != _MAGIC:
        raise InvalidMetadata(f"it starts with {blob[4:8].hex()}, not with {_MAGIC.hex()}")
    if zlib.crc32(memoryview(blob)[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise InvalidMetadata("the checksum is that of other bytes")
    bitmaps = blob[8:-4]
    _check_layout(bitmaps, limits)
    try:
        return BitMap64.deserialize(bitmaps)
    except ValueError as error:
        raise InvalidMetadata(str(error)) from None


def _check_layout(data: bytes, limits: VectorLimits) -> None:
    """The bitmaps fill the bytes, not one too few nor too many, and their keys ascend."""
    (count,) = _COUNT.unpack_from(data)
    if count > limits.keys:
        raise _too_many(count, "bitmaps", limits.keys)
    place, last, total = _COUNT.size, -1, 0
    for _ in range(count):
        key = _word(data, place)
        if not last < key <= _MAX_KEY:
            raise InvalidMetadata(f"the key {key} follows {last}, and the largest is {_MAX_KEY}")
        place, containers = after_bitmap(data, place + _WORD.size)
        last, total = key, total + containers
        if total > limits.containers:
            raise _too_many(total, "containers", limits.containers)
    if place != len(data):
        raise InvalidMetadata(f"its bitmaps end at {place} of {len(data)} bytes")


def after_bitmap(data: bytes, start: int) -> tuple[int, int]:
    """Where a 32-bit bitmap ends, and how many containers it has; what does not fit there is refused."""
    cookie = _word(data, start)
    if cookie == _PLAIN_COOKIE:
        count, flags, place = _word(data, start + _WORD.size), b"", start + 2 * _WORD.size
    elif cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        place = start + _WORD.size + (count + 7) // 8
        flags = data[start + _WORD.size : place]
    else:
        raise InvalidMetadata(f"the bitmap at {start} starts with {cookie:#x}")
    body = place + 4 * count + (4 * count if not flags or count >= _OFFSETS_FROM else 0)
    if body > len(data):
        raise InvalidMetadata(f"the bitmap at {start} has no room for its {count} containers")
    heads = np.frombuffer(data, "<u2", 2 * count, place)
    keys, cardinalities = heads[::2], heads[1::2].astype(np.int64) + 1
    if not (keys[1:] > keys[:-1]).all():
        raise InvalidMetadata(f"the containers of the bitmap at {start} are in no order")
    sizes = np.where(cardinalities > _MAX_ARRAY, _BITSET_BYTES, 2 * cardinalities)
    end = _after_runs(data, body, sizes, flags) if flags else body + int(sizes.sum())
    if end > len(data):
        raise InvalidMetadata(f"the containers of the bitmap at {start} take more than there is")
    return end, count


def _after_runs(data: bytes, place: int, sizes: np.ndarray[Any, np.dtype[np.int64]], flags: bytes) -> int:
    """Where containers end of which some are runs: only a container itself tells how many runs it has."""
    runs = np.unpackbits(np.frombuffer(flags, np.uint8), count=len(sizes), bitorder="little")
    for size, is_run in zip(sizes.tolist(), runs.tolist(), strict=True):
        if not is_run:
            place += size
        elif place + _HALF.size <= len(data):
            place += _HALF.size + 4 * _HALF.unpack_from(data, place)[0]
        else:
            raise InvalidMetadata(f"it ends before its container at {place}")
    return place


def _word(data: bytes, place: int) -> int:
    if place + _WORD.size > len(data):
        raise InvalidMetadata(f"it ends at {len(data)}, within a bitmap")
    word: int = _WORD.unpack_from(data, place)[0]
    return word


def _too_many(count: int, what: str, allowed: int) -> LimitExceeded:
    problem = f"it has {count} {what} or more, and {allowed} are allowed"
    return LimitExceeded(problem, hint="Raise the limits if the file is honest")


def write_vector(positions: BitMap64) -> bytes:
    """The blob of these positions, with runs where they are smaller; what is given stays as it is."""
    if positions and positions.max() > MAX_POSITION:
        raise InvalidInput(f"the position {positions.max()} is larger than {MAX_POSITION}")
    smallest = positions.copy()
    smallest.run_optimize()
    content = _MAGIC + smallest.serialize()
    if len(content) + _AROUND > _MAX_LENGTH:
        raise InvalidInput(
            f"a deletion vector of {len(content)} bytes is too large", hint="Rewrite the data file"
        )
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


def vector_from(positions: np.ndarray[Any, Any] | pa.Array | pa.ChunkedArray) -> BitMap64:
    """A vector of positions in any order, from an array of integers of numpy or Arrow."""
    if isinstance(positions, pa.Array | pa.ChunkedArray):
        if positions.null_count:
            raise InvalidInput("a position is null")
        if not pa.types.is_integer(positions.type):
            raise InvalidInput(f"positions are integers, not {positions.type}")
        positions = (
            positions.to_numpy(zero_copy_only=False)
            if isinstance(positions, pa.Array)
            else positions.to_numpy()
        )
    if positions.dtype.kind not in "iu":
        raise InvalidInput(f"positions are integers, not {positions.dtype}")
    if positions.size and not 0 <= int(positions.min()) <= int(positions.max()) <= MAX_POSITION:
        raise InvalidInput(
            f"positions are from 0 to {MAX_POSITION}, not {positions.min()} to {positions.max()}"
        )
    # What array.array holds is added at once, other sequences one by one.
    return BitMap64(array.array("Q", positions.astype(np.uint64).tobytes()))


def positions_of(
    vector: BitMap64, *, limits: VectorLimits = DEFAULT_LIMITS
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions in ascending order; a run of billions is a few bytes in a vector, and is refused here."""
    if len(vector) > limits.positions:
        problem = f"a deletion vector of {len(vector)} positions, more than {limits.positions}"
        raise LimitExceeded(problem, hint="Raise the limits if they are all needed at once")
    return np.frombuffer(vector.to_array(), np.uint64).astype(np.int64)


def merged(vectors: Iterable[BitMap64]) -> BitMap64:
    """The positions that are in any of them."""
    return BitMap64().union(*vectors)
