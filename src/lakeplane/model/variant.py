"""Bounds of variant columns, in the Variant binary encoding (version 1) of the Parquet project.

A bound is a variant object. Its keys are normalized JSON paths to the fields inside the column's variants,
``$`` for the variant itself, and its values are primitive variants::

    metadata   header: version (4 bits), sorted (1), unused (1), offset size - 1 (2)
               count of the dictionary, then count + 1 offsets, then the UTF-8 names
    value      header: basic type (2 bits), then 6 bits by type
      primitive     type id; its bytes follow
      short string  length; its bytes follow
      object        offset size - 1 (2 bits), id size - 1 (2), large (1)
                    count (1 byte, or 4 when large), ids, count + 1 offsets, values
      array         offset size - 1 (2 bits), large (1); as an object, without the ids

Every size of that encoding is read, nested values too; only bounds are written. All numbers are little
endian. The bytes come from outside: counts are checked before they are used, nesting is limited, and values
that share bytes cannot make the result much larger than the input.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple, NoReturn

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.temporal import DAY_MICROS

MAX_DEPTH: Final = 128
"""How deep objects and arrays may nest."""

_VERSION: Final = 1
_SORTED: Final = 0x10
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_MAX_SHORT: Final = 63
_MAX_DIGITS: Final = 38
_SHARING: Final = 16  # decoded size over encoded size: values of an object may share bytes
_SMALL: Final = 2**16

_KINDS: Final = (
    *(
        "null",
        "true",
        "false",
        "int8",
        "int16",
        "int32",
        "int64",
        "double",
        "decimal4",
        "decimal8",
        "decimal16",
    ),
    *("date", "timestamptz", "timestamp", "float", "binary", "string", "time"),
    *("timestamptz_ns", "timestamp_ns", "uuid"),
)
"""By type id."""
_IDS: Final = {kind: number for number, kind in enumerate(_KINDS)}
_NUMBERS: Final = {
    "int8": struct.Struct("<b"),
    "int16": struct.Struct("<h"),
    "int32": struct.Struct("<i"),
    "int64": struct.Struct("<q"),
    "double": struct.Struct("<d"),
    "float": struct.Struct("<f"),
    "date": struct.Struct("<i"),
    "time": struct.Struct("<q"),
    "timestamp": struct.Struct("<q"),
    "timestamptz": struct.Struct("<q"),
    "timestamp_ns": struct.Struct("<q"),
    "timestamptz_ns": struct.Struct("<q"),
}
_DECIMALS: Final = {"decimal4": (4, 9), "decimal8": (8, 18), "decimal16": (16, _MAX_DIGITS)}
"""Bytes of the unscaled value, and the digits that the encoding allows it."""

_CONTROL: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
_ESCAPED: Final = re.compile(r"[\x00-\x1f'\\]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class VariantValue(NamedTuple):
    """A variant: its physical type, and the Python value.

    ``kind`` is one of null, boolean, int8, int16, int32, int64, float, double, decimal4, decimal8, decimal16,
    date, time, timestamp, timestamptz, timestamp_ns, timestamptz_ns, binary, string, uuid, object, array.
    Values are as in ``lakeplane.model.values``; an object is a ``FrozenDict`` from name to ``VariantValue``,
    an array a tuple of them.
    """

    kind: str
    value: Any


def normalized_path(parts: Sequence[str]) -> str:
    """The normalized JSON path (RFC 9535) of a field by the names that lead to it; ``$`` for none."""
    names = []
    for part in parts:
        if _SURROGATE.search(part):
            problem = f"a name with half of a surrogate pair has no path: {part!r}"
            raise InvalidInput(problem)
        names.append(f"['{_ESCAPED.sub(_escape, part)}']")
    return "$" + "".join(names)


def _escape(found: re.Match[str]) -> str:
    return _CONTROL.get(found[0]) or f"\\u{ord(found[0]):04x}"


# Writing


def bounds_to_bytes(bounds: Mapping[str, tuple[str, Any]]) -> bytes:
    """Encode bounds: primitive variants by normalized path, as ``VariantValue`` or plain pairs."""
    given: Mapping[Any, Any] = bounds  # the types are a promise that callers may break
    arity = len(VariantValue._fields)
    if not all(
        isinstance(path, str) and isinstance(pair, tuple) and len(pair) == arity
        for path, pair in given.items()
    ):
        problem = "bounds of a variant are pairs of kind and value, by path"
        raise InvalidInput(problem)
    paths = sorted(bounds)  # code point order is the order of the UTF-8 bytes, which the encoding asks for
    names = [_encode_text(path) for path in paths]
    values = [_encode(*bounds[path]) for path in paths]
    total = sum(map(len, names))
    size = _width(max(total, len(names)))
    metadata = bytes([_VERSION | _SORTED | (size - 1) << 6]) + _pack(len(names), size) + _offsets(names, size)
    large = len(values) > 0xFF  # noqa: PLR2004
    id_size, offset_size = _width(len(values)), _width(sum(map(len, values)))
    header = _OBJECT | (offset_size - 1) << 2 | (id_size - 1) << 4 | large << 6
    ids = b"".join(_pack(number, id_size) for number in range(len(values)))
    start = bytes([header]) + _pack(len(values), 4 if large else 1) + ids + _offsets(values, offset_size)
    return b"".join([metadata, *names, start, *values])


def _encode(kind: str, value: Any) -> bytes:
    """The bytes of one primitive variant."""
    if kind in _NUMBERS:
        _check_number(kind, value)
        try:
            return _header(kind) + _NUMBERS[kind].pack(value)
        except (struct.error, OverflowError):
            raise _unfit(kind, value) from None
    match kind, value:
        case "null", None:
            return _header("null")
        case "boolean", bool():
            return _header("true" if value else "false")
        case (("decimal4" | "decimal8" | "decimal16"), Decimal()):
            return _header(kind) + _encode_decimal(kind, value)
        case "string", str():
            text = _encode_text(value)
            if len(text) <= _MAX_SHORT:
                return bytes([_SHORT_STRING | len(text) << 2]) + text
            return _header(kind) + _pack(len(text), 4) + text
        case "binary", bytes():
            return _header(kind) + _pack(len(value), 4) + value
        case "uuid", uuid.UUID():
            return _header(kind) + value.bytes
        case _:
            raise _unfit(kind, value)


def _check_number(kind: str, value: Any) -> None:
    if type(value) is not (float if kind in ("float", "double") else int):
        raise _unfit(kind, value)
    if kind == "time" and not 0 <= value < DAY_MICROS:
        raise _unfit(kind, value)


def _encode_decimal(kind: str, value: Decimal) -> bytes:
    size, limit = _DECIMALS[kind]
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -_MAX_DIGITS <= exponent <= 0 or len(digits) > limit:
        raise _unfit(kind, value)
    unscaled = int("".join(map(str, digits)))
    return bytes([-exponent]) + (-unscaled if sign else unscaled).to_bytes(size, "little", signed=True)


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _unfit("string", text) from None


def _header(kind: str) -> bytes:
    return bytes([_PRIMITIVE | _IDS[kind] << 2])


def _width(highest: int) -> int:
    return max(1, (highest.bit_length() + 7) // 8)


def _pack(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


def _offsets(chunks: Sequence[bytes], size: int) -> bytes:
    packed, end = [_pack(0, size)], 0
    for chunk in chunks:
        end += len(chunk)
        packed.append(_pack(end, size))
    return b"".join(packed)


def _unfit(kind: str, value: Any) -> InvalidInput:
    shown = f"{value!r}"[:60] if not isinstance(value, int) else f"{value:#x}"[:60]
    return InvalidInput(f"not a primitive variant of type {kind[:60]!r}: {shown}")


# Reading


def bounds_from_bytes(raw: bytes) -> FrozenDict[str, VariantValue]:
    """Decode bounds; ``InvalidMetadata`` when the bytes are not an encoded variant object."""
    found = from_bytes(raw)
    if found.kind != "object":
        _broken(f"bounds are an object, not {found.kind}")
    bounds: FrozenDict[str, VariantValue] = found.value
    return bounds


def from_bytes(raw: bytes) -> VariantValue:
    """Decode a variant whose metadata and value follow each other."""
    names, start = _read_names(raw)
    decoder = _Decoder(raw, names)
    value, end = decoder.value(start, len(raw), 0)
    if end != len(raw):
        _broken(f"{len(raw) - end} bytes after the end")
    return value


def _read_names(raw: bytes) -> tuple[list[str], int]:
    """The dictionary, and where the value starts."""
    header = _read_number(raw, 0, 1, len(raw))
    if header & 0xF != _VERSION:
        _broken(f"version {header & 0xF} of the encoding")
    size = (header >> 6) + 1
    count = _read_number(raw, 1, size, len(raw))
    bounds, start = _read_offsets(raw, 1 + size, size, count, len(raw))
    if bounds[0] != 0:
        _broken("the dictionary does not start at 0")
    names = []
    for first, last in pairwise(bounds):
        if not first <= last <= len(raw) - start:
            _broken("a name of the dictionary is out of bounds")
        names.append(_decode_text(raw[start + first : start + last]))
    return names, start + bounds[-1]


class _Decoder:
    """Reads the values of one variant, and keeps count of how much was made of its bytes."""

    def __init__(self, raw: bytes, names: list[str]) -> None:
        self.raw = raw
        self.names = names
        self.budget = _SMALL + _SHARING * len(raw)

    def value(self, at: int, limit: int, depth: int) -> tuple[VariantValue, int]:
        """The value at a position, and where it ends, which is not after ``limit``."""
        if depth > MAX_DEPTH:
            problem = f"a variant nests deeper than {MAX_DEPTH}"
            raise LimitExceeded(problem)
        self.spend(1)
        header = _read_number(self.raw, at, 1, limit)
        basic, rest = header & 3, header >> 2
        if basic == _OBJECT:
            return self.object(rest, at + 1, limit, depth)
        if basic == _ARRAY:
            return self.array(rest, at + 1, limit, depth)
        if basic == _SHORT_STRING:
            payload = self.take(at + 1, rest, limit)
            return VariantValue("string", _decode_text(payload)), at + 1 + rest
        return self.primitive(rest, at + 1, limit)

    def primitive(self, number: int, at: int, limit: int) -> tuple[VariantValue, int]:
        if number >= len(_KINDS):
            _broken(f"unknown primitive type {number}")
        kind = _KINDS[number]
        if kind in ("null", "true", "false"):
            value = None if kind == "null" else kind == "true"
            return VariantValue("null" if kind == "null" else "boolean", value), at
        if kind in ("binary", "string"):
            size = _read_number(self.raw, at, 4, limit)
            at += 4
        else:
            size = _fixed_size(kind)
        payload = self.take(at, size, limit)
        return VariantValue(kind, _decode(kind, payload)), at + size

    def object(self, header: int, at: int, limit: int, depth: int) -> tuple[VariantValue, int]:
        offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
        size = 4 if header & 16 else 1
        count = _read_number(self.raw, at, size, limit)
        ids = at + size
        offsets, start = _read_offsets(self.raw, ids + count * id_size, offset_size, count, limit)
        self.spend(count)
        end = start + offsets[-1]
        if end > limit:
            _broken("an object is longer than the data")
        fields: dict[str, VariantValue] = {}
        for index, offset in enumerate(offsets[:-1]):
            number = _read_number(self.raw, ids + index * id_size, id_size, limit)
            if number >= len(self.names):
                _broken(f"field id {number} of a dictionary of {len(self.names)}")
            if self.names[number] in fields:
                _broken(f"two fields {self.names[number][:60]!r} in an object")
            fields[self.names[number]], _ = self.value(start + offset, end, depth + 1)
        return VariantValue("object", FrozenDict(fields)), end

    def array(self, header: int, at: int, limit: int, depth: int) -> tuple[VariantValue, int]:
        size = 4 if header & 4 else 1
        count = _read_number(self.raw, at, size, limit)
        offsets, start = _read_offsets(self.raw, at + size, (header & 3) + 1, count, limit)
        self.spend(count)
        end = start + offsets[-1]
        if end > limit:
            _broken("an array is longer than the data")
        items = []
        for first, last in pairwise(offsets):
            if last > offsets[-1]:
                _broken("an element of an array is out of bounds")
            item, _ = self.value(start + first, start + last, depth + 1)
            items.append(item)
        return VariantValue("array", tuple(items)), end

    def take(self, at: int, size: int, limit: int) -> bytes:
        if at + size > limit:
            _broken("a value is longer than the data")
        self.spend(size)
        return self.raw[at : at + size]

    def spend(self, size: int) -> None:
        self.budget -= size
        if self.budget < 0:
            problem = "the values of a variant share their bytes too often"
            raise LimitExceeded(problem)


def _fixed_size(kind: str) -> int:
    if kind in _DECIMALS:
        return _DECIMALS[kind][0] + 1
    return _NUMBERS[kind].size if kind in _NUMBERS else 16


def _decode(kind: str, payload: bytes) -> Any:
    match kind:
        case "binary":
            return payload
        case "string":
            return _decode_text(payload)
        case "uuid":
            return uuid.UUID(bytes=payload)
        case "decimal4" | "decimal8" | "decimal16":
            unscaled = int.from_bytes(payload[1:], "little", signed=True)
            digits = str(abs(unscaled))
            if payload[0] > _MAX_DIGITS or len(digits) > _MAX_DIGITS:
                _broken("a decimal with more than 38 digits")
            return Decimal((unscaled < 0, tuple(map(int, digits)), -payload[0]))
        case _:
            number = _NUMBERS[kind].unpack(payload)[0]
            if kind == "time" and not 0 <= number < DAY_MICROS:
                _broken(f"a time of {number} microseconds")
            return number


def _read_number(raw: bytes, at: int, size: int, limit: int) -> int:
    if at + size > limit:
        _broken("it ends too early")
    return int.from_bytes(raw[at : at + size], "little")


def _read_offsets(raw: bytes, at: int, size: int, count: int, limit: int) -> tuple[list[int], int]:
    """``count + 1`` offsets, and where the data that they point into starts."""
    end = at + (count + 1) * size
    if end > limit:
        _broken(f"it ends before its {count} elements")
    return [int.from_bytes(raw[place : place + size], "little") for place in range(at, end, size)], end


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        _broken("text that is not UTF-8")


def _broken(reason: str) -> NoReturn:
    problem = f"not an encoded variant: {reason}"
    raise InvalidMetadata(problem)
