"""Index files with deletion vectors: the positions of the deleted rows of some data files.

::

    version   vector   vector …
    1         and what the index manifest tells of each: where it begins, how long it is

    with 32 bits   length   magic     bitmap   checksum     the length told is that of magic and bitmap
                   4, big   5E43F2D0  …        CRC-32, big
    with 64 bits   the blob of ``model.roaring``            the length told is that of all of it

A file may have no vector at all: Java leaves such ones behind where the last vector of a bucket has gone.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyroaring import BitMap, BitMap64

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model.roaring import DEFAULT_LIMITS, VectorLimits, after_bitmap, read_vector, write_vector

DELETION_VECTORS: Final = "DELETION_VECTORS"
"""The type of these index files."""

VERSION: Final = 1
MAX_POSITION_32: Final = 2**31 - 1

_MAGIC: Final = bytes.fromhex("5e43f2d0")
_MAGIC_64: Final = bytes.fromhex("d1d33964")
_LENGTH: Final = 4
_AROUND: Final = 8
"""The length before, and the checksum after what they are of."""


class VectorRange(NamedTuple):
    """What an index manifest tells of a vector."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


def vector_of(
    data: bytes, told: VectorRange, *, source: str, start: int = 0, limits: VectorLimits = DEFAULT_LIMITS
) -> BitMap64:
    """The vector that an index manifest tells of, from bytes of its file that begin at ``start``."""
    if start == 0 and data[:1] != bytes([VERSION]):
        raise InvalidMetadata(f"it is of version {data[:1].hex() or 'nothing'}", source=source)
    begin = told.offset - start
    head = data[begin : begin + _AROUND] if begin >= 0 else b""
    if len(head) < _AROUND or told.offset < 1:
        raise InvalidMetadata(f"there is no vector at {told.offset}", source=source, field=told.data_file)
    is_wide = head[_LENGTH:] == _MAGIC_64
    size = told.length if is_wide else told.length + _AROUND
    blob = data[begin : begin + size]
    if told.length < 0 or len(blob) < size:
        problem = f"{size} bytes from {told.offset} on are not all there"
        raise InvalidMetadata(problem, source=source, field=told.data_file)
    if is_wide:
        return read_vector(blob, source=source, expected_cardinality=told.cardinality, limits=limits)
    return _read_narrow(blob, told, source, limits)


def bytes_of(told: VectorRange) -> tuple[int, int]:
    """From where to where a vector may lie in its file, whichever of the two it is."""
    return told.offset, told.offset + told.length + _AROUND


def _read_narrow(blob: bytes, told: VectorRange, source: str, limits: VectorLimits) -> BitMap64:
    try:
        found = _bitmap(blob, told.length, limits)
    except ValueError as error:
        raise InvalidMetadata(
            f"broken deletion vector: {error}", source=source, field=told.data_file
        ) from None
    except InvalidMetadata as error:
        problem = f"broken deletion vector: {error.problem}"
        raise type(error)(problem, source=source, field=told.data_file, hint=error.hint) from None
    if told.cardinality is not None and len(found) != told.cardinality:
        problem = f"the deletion vector has {len(found)} positions, and should have {told.cardinality}"
        raise InvalidMetadata(problem, source=source, field=told.data_file)
    return BitMap64(found)


def _bitmap(blob: bytes, told: int, limits: VectorLimits) -> BitMap:
    if len(blob) > limits.size:
        problem = f"it takes {len(blob)} bytes, more than {limits.size}"
        raise LimitExceeded(problem, hint="Raise the limits if the file is honest")
    length = int.from_bytes(blob[:_LENGTH], "big")
    content, checksum = blob[_LENGTH:-_LENGTH], blob[-_LENGTH:]
    if length != told:
        raise InvalidMetadata(f"it is of {length} bytes, and {told} were told")
    if content[:_LENGTH] != _MAGIC:
        raise InvalidMetadata(f"it starts with {content[:_LENGTH].hex()}, not with {_MAGIC.hex()}")
    if zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise InvalidMetadata("the checksum is that of other bytes")
    bitmap = content[_LENGTH:]
    end, containers = after_bitmap(bitmap, 0)
    if end != len(bitmap):
        raise InvalidMetadata(f"its bitmap ends at {end} of {len(bitmap)} bytes")
    if containers > limits.containers:
        problem = f"it has {containers} containers, and {limits.containers} are allowed"
        raise LimitExceeded(problem, hint="Raise the limits if the file is honest")
    return BitMap.deserialize(bitmap)


def write_vectors(
    vectors: Mapping[str, BitMap64], *, bitmap64: bool
) -> tuple[bytes, tuple[VectorRange, ...]]:
    """An index file with the vectors of data files, and what its manifest tells of them, in their order."""
    parts, told = [bytes([VERSION])], []
    offset = 1
    for name, vector in vectors.items():
        if not vector:
            hint = "Leave the file out"
            raise InvalidInput("a deletion vector without a position", source=name, hint=hint)
        part = write_vector(vector) if bitmap64 else _write_narrow(vector, name)
        told.append(VectorRange(name, offset, len(part) - (0 if bitmap64 else _AROUND), len(vector)))
        parts.append(part)
        offset += len(part)
    return b"".join(parts), tuple(told)


def _write_narrow(vector: BitMap64, name: str) -> bytes:
    if vector.max() > MAX_POSITION_32:
        hint = "Set deletion-vectors.bitmap64 to true"
        raise InvalidInput(f"the position {vector.max()} needs more than 32 bits", source=name, hint=hint)
    bitmap = BitMap(vector)
    bitmap.run_optimize()
    content = _MAGIC + bitmap.serialize()
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
