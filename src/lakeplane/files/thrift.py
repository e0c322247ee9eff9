"""Thrift's compact protocol, as far as footers of Parquet files need it: structs as lists of raw fields.

A field is kept as the bytes that it is written with, so that a struct of which one field changes keeps all
others, known or not, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lakeplane.errors import InvalidMetadata

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)

MAX_DEPTH: Final = 64
_MAX_VARINT_BYTES: Final = 10
_LONG_LIST: Final = 15
_WIDTHS: Final = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8, UUID: 16}


class RawField(NamedTuple):
    """A field of a struct: its id, its kind on the wire, and its bytes there."""

    id: int
    kind: int
    raw: bytes


def read_struct(data: bytes, at: int) -> tuple[list[RawField], int]:
    """The fields of a struct, and where it ends."""
    fields: list[RawField] = []
    last = 0
    while True:
        last, kind, at = read_field_header(data, at, last)
        if kind == 0:
            return fields, at
        end = skip(data, at, kind)
        fields.append(RawField(last, kind, data[at:end]))
        at = end


def read_field_header(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """The id and the kind of the next field, and where its value begins; kind 0 ends the struct."""
    head = _byte(data, at)
    kind, delta = head & 0x0F, head >> 4
    if head == 0:
        return last, 0, at + 1
    if delta:
        return last + delta, kind, at + 1
    number, at = read_varint(data, at + 1)
    return unzigzag(number), kind, at


def write_struct(fields: Iterable[RawField]) -> bytes:
    """A struct of fields; each of their ids is above the one before."""
    out = bytearray()
    last = 0
    for field in fields:
        delta = field.id - last
        if 0 < delta < 16:  # noqa: PLR2004 - what four bits hold
            out.append(delta << 4 | field.kind)
        else:
            out.append(field.kind)
            out += write_varint(zigzag(field.id))
        out += field.raw
        last = field.id
    out.append(0)
    return bytes(out)


def read_list_header(data: bytes, at: int) -> tuple[int, int, int]:
    """How many items a list has, of which kind, and where the first one begins."""
    head = _byte(data, at)
    count, at = head >> 4, at + 1
    if count == _LONG_LIST:
        count, at = read_varint(data, at)
    if count > len(data):
        raise InvalidMetadata(f"a list of {count} items is longer than the footer")
    return count, head & 0x0F, at


def write_list_header(count: int, kind: int) -> bytes:
    """The head of a list."""
    if count < _LONG_LIST:
        return bytes([count << 4 | kind])
    return bytes([_LONG_LIST << 4 | kind]) + write_varint(count)


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where a value ends."""
    if depth > MAX_DEPTH:
        raise InvalidMetadata("structs are nested too deeply")
    if kind in _WIDTHS:
        end = at + _WIDTHS[kind]
    elif kind in (I16, I32, I64):
        _, end = read_varint(data, at)
    elif kind == BINARY:
        length, at = read_varint(data, at)
        end = at + length
    elif kind in (LIST, SET):
        count, inner, end = read_list_header(data, at)
        for _ in range(count):
            # A boolean in a list takes a byte, in a struct it is told by its kind.
            end = end + 1 if inner in (TRUE, FALSE) else skip(data, end, inner, depth + 1)
    elif kind == MAP:
        end = _skip_map(data, at, depth)
    elif kind == STRUCT:
        end = _skip_struct(data, at, depth)
    else:
        raise InvalidMetadata(f"kind {kind} is not known")
    if end > len(data):
        raise InvalidMetadata("ends within a value")
    return end


def _skip_map(data: bytes, at: int, depth: int) -> int:
    count, at = read_varint(data, at)
    if count == 0:
        return at
    if count > len(data):
        raise InvalidMetadata(f"a map of {count} entries is longer than the footer")
    kinds, at = _byte(data, at), at + 1
    for _ in range(count):
        for kind in (kinds >> 4, kinds & 0x0F):
            at = at + 1 if kind in (TRUE, FALSE) else skip(data, at, kind, depth + 1)
    return at


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    while True:
        _, kind, at = read_field_header(data, at, 0)
        if kind == 0:
            return at
        at = skip(data, at, kind, depth + 1)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and where it ends."""
    number = shift = 0
    for place in range(at, at + _MAX_VARINT_BYTES):
        byte = _byte(data, place)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit of those that go on
            return number, place + 1
        shift += 7
    raise InvalidMetadata("a number has more than 64 bits")


def write_varint(number: int) -> bytes:
    """An unsigned number."""
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - what seven bits hold
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> int:
    """A signed number as an unsigned one."""
    return (number << 1) ^ (number >> 63)


def unzigzag(number: int) -> int:
    """The signed number that an unsigned one stands for."""
    return (number >> 1) ^ -(number & 1)


def read_int(raw: bytes) -> int:
    """The value of a field of a whole number."""
    return unzigzag(read_varint(raw, 0)[0])


def write_int(number: int) -> bytes:
    """A whole number as the value of a field."""
    return write_varint(zigzag(number))


def read_text(raw: bytes) -> str:
    """The value of a field of text."""
    length, at = read_varint(raw, 0)
    return raw[at : at + length].decode("utf-8", "replace")


def write_text(text: str) -> bytes:
    """A text as the value of a field."""
    encoded = text.encode()
    return write_varint(len(encoded)) + encoded


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise InvalidMetadata("ends within a value")
    return data[at]
