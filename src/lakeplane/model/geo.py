"""Geometry and geography values: well-known binary, well-known text, and bounds.

Binary is ISO WKB as of OGC 06-103r4: the type code is the kind, plus 1000 with Z, 2000 with M, 3000 with
both. Either byte order is read, little endian is written. Of PostGIS' EWKB the Z and M flags are read as
well, as they mean the same (shapely writes them by default); a spatial reference id is refused, because the
reference system belongs to the column and dropping another one would move the feature.

Text names its dimensions, as in ``POINT Z (1 2 3)``. An empty point is one whose coordinates are all NaN.

Bytes and texts come from outside: counts are checked against what is left before anything is made of them,
and nesting is limited.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

MAX_DEPTH: Final = 32
"""How deep collections may nest."""

Coordinate: TypeAlias = tuple[float, ...]

_POINT, _LINE, _POLYGON, _MULTI_POINT, _MULTI_LINE, _MULTI_POLYGON, _COLLECTION = range(1, 8)
_NAMES: Final = {
    _POINT: "POINT",
    _LINE: "LINESTRING",
    _POLYGON: "POLYGON",
    _MULTI_POINT: "MULTIPOINT",
    _MULTI_LINE: "MULTILINESTRING",
    _MULTI_POLYGON: "MULTIPOLYGON",
    _COLLECTION: "GEOMETRYCOLLECTION",
}
_KINDS: Final = {name: kind for kind, name in _NAMES.items()}
_MEMBERS: Final = {_MULTI_POINT: _POINT, _MULTI_LINE: _LINE, _MULTI_POLYGON: _POLYGON}
"""The kind of the members of each kind that is made of one other kind."""

_DIMENSIONS: Final = ("", "Z", "M", "ZM")  # an index is 1 for Z plus 2 for M, as in the ISO type code
_WIDTHS: Final = (2, 3, 3, 4)
_EWKB_Z, _EWKB_M, _EWKB_SRID = 0x80000000, 0x40000000, 0x20000000
_SMALLEST_MEMBER: Final = 9  # byte order, type code, count
_EXACT_INTEGERS: Final = 1e15

_TOKEN: Final = re.compile(r"[(),]|[^\s(),]+")
_TITLE: Final = re.compile(rf"({'|'.join(_KINDS)})(Z?M?)")
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)


class Point(msgspec.Struct, frozen=True):
    """A corner of a bounding box: the lower or the upper bound of a geometry or geography column."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None


class _Shape(msgspec.Struct, frozen=True):
    """A parsed feature. ``content`` is coordinates, rings of coordinates, or member shapes, by kind."""

    kind: int
    dimensions: int
    content: tuple[Any, ...]


def wkb_to_wkt(raw: bytes) -> str:
    """Text of a WKB value; ``InvalidMetadata`` when the bytes are not one."""
    shape = _read(raw)
    return f"{_title(shape)} {_body(shape)}"


def wkt_to_wkb(text: str) -> bytes:
    """WKB of a text; ``InvalidInput`` when it is not well-known text."""
    parser = _Text(text)
    shape = parser.shape(0)
    parser.expect("")
    parts: list[bytes] = []
    _write(shape, parts)
    return b"".join(parts)


def check_wkb(raw: bytes) -> None:
    """Raise ``InvalidMetadata`` unless the bytes are one well-formed WKB value."""
    _read(raw)


def bounding_points(raw: bytes) -> tuple[Point, Point] | None:
    """The lower and the upper corner of the box around a WKB value's coordinates.

    NaN is skipped in each dimension on its own, and a dimension without any number is left out; without X
    or Y there is no box. The box is planar. It does hold a geometry; the edges of a geography may bulge
    beyond their ends and cross the antimeridian, so that for it the box is right for points only.
    """
    lower = [math.inf] * 4
    upper = [-math.inf] * 4
    for dimensions, coordinate in _coordinates(_read(raw)):
        axes = (0, 1, 3) if _DIMENSIONS[dimensions] == "M" else (0, 1, 2, 3)
        for axis, number in zip(axes, coordinate, strict=False):
            lower[axis] = min(lower[axis], number)  # a NaN is never smaller or greater: it is skipped
            upper[axis] = max(upper[axis], number)
    found = [low <= high for low, high in zip(lower, upper, strict=True)]
    if not (found[0] and found[1]):
        return None
    low, high = (
        Point(corner[0], corner[1], corner[2] if found[2] else None, corner[3] if found[3] else None)
        for corner in (lower, upper)
    )
    return low, high


def point_to_bytes(point: Point) -> bytes:
    """A bound as packed doubles: x:y, x:y:z, x:y:NaN:m or x:y:z:m."""
    numbers = [point.x, point.y]
    if point.z is not None or point.m is not None:
        numbers.append(math.nan if point.z is None else point.z)
    if point.m is not None:
        numbers.append(point.m)
    if math.isnan(point.x) or math.isnan(point.y):
        problem = f"a bound needs numbers for x and y: {point}"
        raise InvalidInput(problem)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def point_from_bytes(raw: bytes) -> Point:
    """A bound from packed doubles; NaN for z or m is "not set"."""
    if len(raw) not in (16, 24, 32):
        problem = f"a geospatial bound has 16, 24 or 32 bytes, not {len(raw)}"
        raise InvalidMetadata(problem)
    x, y, *rest = struct.unpack(f"<{len(raw) // 8}d", raw)
    if math.isnan(x) or math.isnan(y):
        problem = "a geospatial bound has NaN for x or y"
        raise InvalidMetadata(problem)
    return Point(x, y, *(None if math.isnan(number) else number for number in rest))


def _coordinates(shape: _Shape) -> Iterator[tuple[int, Coordinate]]:
    if shape.kind in (_POINT, _LINE):
        for coordinate in shape.content:
            yield shape.dimensions, coordinate
    elif shape.kind == _POLYGON:
        for ring in shape.content:
            for coordinate in ring:
                yield shape.dimensions, coordinate
    else:
        for member in shape.content:
            yield from _coordinates(member)


# Binary


def _read(raw: bytes) -> _Shape:
    shape, end = _read_shape(raw, 0, 0)
    if end != len(raw):
        _broken(f"{len(raw) - end} bytes after the end")
    return shape


def _read_shape(raw: bytes, at: int, depth: int) -> tuple[_Shape, int]:
    if depth > MAX_DEPTH:
        problem = f"a WKB value nests deeper than {MAX_DEPTH}"
        raise LimitExceeded(problem)
    order = raw[at : at + 1]
    if order not in (b"\0", b"\1"):
        _broken("no byte order" if order else "it ends too early")
    mark = "<" if order == b"\1" else ">"
    code, at = _read_count(raw, at + 1, mark)
    kind, dimensions = _kind(code)
    width = _WIDTHS[dimensions]
    content: tuple[Any, ...]
    if kind == _POINT:
        content, at = _read_coordinates(raw, at, mark, width, 1)
        if all(map(math.isnan, content[0])):
            content = ()
        return _Shape(kind, dimensions, content), at
    count, at = _read_count(raw, at, mark)
    if kind == _LINE:
        content, at = _read_coordinates(raw, at, mark, width, count)
        return _Shape(kind, dimensions, content), at
    if count * (4 if kind == _POLYGON else _SMALLEST_MEMBER) > len(raw) - at:
        _broken(f"it ends before its {count} parts")
    parts: list[Any] = []
    for _ in range(count):
        if kind == _POLYGON:
            size, at = _read_count(raw, at, mark)
            part, at = _read_coordinates(raw, at, mark, width, size)
            parts.append(part)
        else:
            member, at = _read_shape(raw, at, depth + 1)
            if kind in _MEMBERS and (member.kind, member.dimensions) != (_MEMBERS[kind], dimensions):
                _broken(f"a {_NAMES[kind]} with a {_title(member)} in it")
            parts.append(member)
    return _Shape(kind, dimensions, tuple(parts)), at


def _kind(code: int) -> tuple[int, int]:
    if code & _EWKB_SRID:
        _broken("it carries a spatial reference id; the column's type names the reference system")
    flags = (1 if code & _EWKB_Z else 0) + (2 if code & _EWKB_M else 0)
    dimensions, kind = divmod(code & ~(_EWKB_Z | _EWKB_M), 1000)
    if kind not in _NAMES or dimensions >= len(_DIMENSIONS) or (flags and dimensions):
        _broken(f"unknown type code {code}")
    return kind, dimensions + flags


def _read_count(raw: bytes, at: int, mark: str) -> tuple[int, int]:
    if at + 4 > len(raw):
        _broken("it ends too early")
    return int.from_bytes(raw[at : at + 4], "little" if mark == "<" else "big"), at + 4


def _read_coordinates(
    raw: bytes, at: int, mark: str, width: int, count: int
) -> tuple[tuple[Coordinate, ...], int]:
    end = at + count * width * 8
    if end > len(raw):
        _broken(f"it ends before its {count} coordinates")
    return tuple(struct.iter_unpack(f"{mark}{width}d", raw[at:end])), end


def _broken(reason: str) -> NoReturn:
    problem = f"not a WKB value: {reason}"
    raise InvalidMetadata(problem)


def _write(shape: _Shape, parts: list[bytes]) -> None:
    parts.append(struct.pack("<BI", 1, shape.dimensions * 1000 + shape.kind))
    width = _WIDTHS[shape.dimensions]
    if shape.kind == _POINT:
        parts.append(struct.pack(f"<{width}d", *(shape.content[0] if shape.content else [math.nan] * width)))
        return
    parts.append(struct.pack("<I", len(shape.content)))
    if shape.kind == _LINE:
        parts += [struct.pack(f"<{width}d", *coordinate) for coordinate in shape.content]
        return
    for part in shape.content:
        if shape.kind == _POLYGON:
            parts.append(struct.pack("<I", len(part)))
            parts += [struct.pack(f"<{width}d", *coordinate) for coordinate in part]
        else:
            _write(part, parts)


# Text


def _title(shape: _Shape) -> str:
    dimensions = _DIMENSIONS[shape.dimensions]
    return f"{_NAMES[shape.kind]} {dimensions}" if dimensions else _NAMES[shape.kind]


def _body(shape: _Shape) -> str:
    if not shape.content:
        return "EMPTY"
    if shape.kind in (_POINT, _LINE):
        return _sequence(shape.content)
    if shape.kind == _POLYGON:
        return f"({', '.join(map(_sequence, shape.content))})"
    if shape.kind == _COLLECTION:
        return f"({', '.join(f'{_title(member)} {_body(member)}' for member in shape.content)})"
    return f"({', '.join(map(_body, shape.content))})"


def _sequence(coordinates: tuple[Coordinate, ...]) -> str:
    if not coordinates:
        return "EMPTY"
    return f"({', '.join(' '.join(map(_number, coordinate)) for coordinate in coordinates)})"


def _number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Inf" if number > 0 else "-Inf"
    if number.is_integer() and abs(number) < _EXACT_INTEGERS:
        return f"{number:.0f}"
    return repr(number)


class _Text:
    """A reader of well-known text: the tokens, and where it is in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = [*_TOKEN.findall(text), ""]
        self.at = 0

    def shape(self, depth: int) -> _Shape:
        if depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH}")
        name = self.next().upper()
        found = _TITLE.fullmatch(name)
        if found is None:
            self.refuse(f"unknown kind {name[:20]!r}")
        kind, dimensions = _KINDS[found[1]], found[2]
        if not dimensions and self.peek().upper() in _DIMENSIONS[1:]:
            dimensions = self.next().upper()
        return _Shape(kind, _DIMENSIONS.index(dimensions), self.content(kind, dimensions, depth))

    def content(self, kind: int, dimensions: str, depth: int) -> tuple[Any, ...]:
        if self.peek().upper() == "EMPTY":
            self.next()
            return ()
        width = _WIDTHS[_DIMENSIONS.index(dimensions)]
        self.expect("(")
        items: list[Any] = []
        while not items or self.peek() == ",":
            if items:
                self.expect(",")
            items.append(self.item(kind, dimensions, width, depth))
            if kind == _POINT:
                break
        self.expect(")")
        return tuple(items)

    def item(self, kind: int, dimensions: str, width: int, depth: int) -> Any:
        if kind in (_POINT, _LINE):
            return tuple(self.number() for _ in range(width))
        if kind == _POLYGON:
            return self.content(_LINE, dimensions, depth)
        if kind == _COLLECTION:
            return self.shape(depth + 1)
        index = _DIMENSIONS.index(dimensions)
        if kind == _MULTI_POINT and self.peek() != "(" and self.peek().upper() != "EMPTY":
            # An older form, still common: MULTIPOINT (10 40, 40 30).
            return _Shape(_POINT, index, (tuple(self.number() for _ in range(width)),))
        return _Shape(_MEMBERS[kind], index, self.content(_MEMBERS[kind], dimensions, depth))

    def number(self) -> float:
        token = self.next()
        if not _NUMBER.fullmatch(token):
            self.refuse(f"expected a number, found {token[:20] or 'the end'!r}")
        return float(token)

    def peek(self) -> str:
        return self.tokens[self.at]

    def next(self) -> str:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def expect(self, wanted: str) -> None:
        if (token := self.next()) != wanted:
            self.refuse(f"expected {wanted or 'the end'!r}, found {token[:20] or 'the end'!r}")

    def refuse(self, reason: str) -> NoReturn:
        problem = f"not well-known text: {reason} in {self.text[:60]!r}"
        raise InvalidInput(problem, hint="Write it as POINT (30 10), or as POINT Z (30 10 5)")
