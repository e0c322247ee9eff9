"""Object container files: a header, then blocks of records, a marker of 16 bytes after each.

::

    Obj 1 | avro.schema, avro.codec, ... | marker
    records, bytes | packed records | marker
    records, bytes | packed records | marker
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from lakeplane.avro.codecs import unpacker
from lakeplane.avro.limits import Limits
from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

MAGIC: Final = b"Obj\x01"
SYNC: Final = 16
_MAX_VARINT: Final = 10
_MORE: Final = 128
_LONG: Final = 64


class Header(msgspec.Struct, frozen=True):
    """What a file says about itself before its first block."""

    schema: dict[str, Any] | list[Any]
    """The writer's schema as JSON."""
    schema_text: bytes
    """The same, as it is in the file."""
    metadata: Mapping[str, bytes]
    """What the file carries besides, as ``schema`` and ``partition-spec-id`` in manifests of Iceberg."""
    codec: str
    sync: bytes
    blocks_at: int
    """Where the first block starts."""


class Block(NamedTuple):
    """Some records, unpacked."""

    rows: int
    data: bytes


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Let the errors within name the file."""
    try:
        yield
    except InvalidMetadata as error:
        if error.source is not None:
            raise
        raise type(error)(error.problem, source=source, field=error.field, hint=error.hint) from None


def parse_header(data: memoryview, limits: Limits) -> Header:
    """Read the header; errors name the place."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise InvalidMetadata("is no Avro file: it does not start with Obj 1", field="header")
    head = _Head(data[: limits.header_bytes])
    try:
        found = head.properties()
        sync = bytes(head.take(SYNC))
    except (IndexError, UnicodeDecodeError) as error:
        if len(data) > limits.header_bytes and isinstance(error, IndexError):
            problem = f"the header is larger than {limits.header_bytes} bytes"
            raise LimitExceeded(problem, field="header") from None
        raise InvalidMetadata("the header is cut off or broken", field="header") from None
    text = found.get("avro.schema", b"")
    codec = found.get("avro.codec", b"null").decode(errors="replace")
    metadata = {key: value for key, value in found.items() if not key.startswith("avro.")}
    return Header(_schema(text), text, metadata, codec, sync, head.at)


def _schema(text: bytes) -> Any:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMetadata(f"not JSON: {error}", field="avro.schema") from None
    except RecursionError:
        raise LimitExceeded("nested too deep", field="avro.schema") from None
    if not isinstance(document, dict | list):
        raise InvalidMetadata("is no record", field="avro.schema")
    return document


class _Head:
    """Reads the map at the start of a file; an ``IndexError`` is its end."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = len(MAGIC)

    def properties(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            for _ in range(count):
                key = bytes(self.take(self.long())).decode()
                found[key] = bytes(self.take(self.long()))
        return found

    def take(self, length: int) -> memoryview:
        if not 0 <= length <= len(self.data) - self.at:
            raise IndexError
        self.at += length
        return self.data[self.at - length : self.at]

    def long(self) -> int:
        value, self.at = read_long(self.data, self.at)
        return value


def read_long(data: memoryview, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the sign in its lowest bit, and where it ends."""
    raw = shift = 0
    for place in range(at, at + _MAX_VARINT):
        byte = data[place]
        raw |= (byte & 127) << shift
        if byte < _MORE:
            raw &= (1 << _LONG) - 1
            return (raw >> 1) ^ -(raw & 1), place + 1
        shift += 7
    raise InvalidMetadata("a number of more than ten bytes", field=f"byte {at}")


def write_long(value: int) -> bytes:
    """The same, written."""
    raw = (value << 1) ^ (value >> 63)
    found = bytearray()
    while raw >= _MORE:
        found.append(raw & 127 | _MORE)
        raw >>= 7
    found.append(raw)
    return bytes(found)


def unpack_blocks(data: memoryview, header: Header, limits: Limits) -> Iterator[Block]:
    """The blocks one after the other, within the limits of the file as a whole."""
    unpack = unpacker(header.codec)
    sync, size = header.sync, len(data)
    at, number, rows = header.blocks_at, 0, 0
    left = limits.unpacked(size)
    while at < size:
        try:
            count, start = read_long(data, at)
            length, start = read_long(data, start)
        except IndexError:
            raise InvalidMetadata("is cut off", field=_place(number, at)) from None
        end = start + length
        if count < 0 or length < 0:
            raise InvalidMetadata("a negative length", field=_place(number, at))
        if end + SYNC > size:
            raise InvalidMetadata("is cut off, or a length in it is broken", field=_place(number, at))
        if data[end : end + SYNC] != sync:
            raise InvalidMetadata("the marker after it is not that of the file", field=_place(number, at))
        rows += count
        if rows > limits.rows or length > limits.block_bytes:
            problem = f"more than {limits.rows} rows, or {limits.block_bytes} bytes in a block"
            raise LimitExceeded(problem, field=_place(number, at))
        try:
            block = unpack(data[start:end], min(left, limits.block_bytes))
        except InvalidMetadata as error:
            raise type(error)(error.problem, field=_place(number, at), hint=error.hint) from None
        left -= len(block)
        yield Block(count, block)
        at, number = end + SYNC, number + 1


def _place(number: int, at: int) -> str:
    return f"block {number} at byte {at}"


def pack_file(
    schema: bytes,
    metadata: Mapping[str, bytes],
    codec: str,
    blocks: Iterable[tuple[int, bytes]],
) -> bytes:
    """Frame blocks that are packed already.

    The marker is a hash of all the rest: the same rows always give the same bytes.
    """
    properties = {"avro.schema": schema, "avro.codec": codec.encode(), **metadata}
    head = [MAGIC, write_long(len(properties))]
    for key, value in properties.items():
        if key in metadata and key.startswith("avro."):
            raise InvalidInput(f"the property {key!r} belongs to Avro itself")
        name = key.encode()
        head += [write_long(len(name)), name, write_long(len(value)), value]
    head.append(write_long(0))
    listed = list(blocks)
    hashed = hashlib.blake2b(b"".join(head), digest_size=SYNC)
    for rows, packed in listed:
        hashed.update(write_long(rows))
        hashed.update(packed)
    sync = hashed.digest()
    parts = [*head, sync]
    for rows, packed in listed:
        parts += [write_long(rows), write_long(len(packed)), packed, sync]
    return b"".join(parts)
