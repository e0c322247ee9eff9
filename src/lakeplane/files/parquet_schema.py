"""The schemas in footers of Parquet files: a tree of elements, and which column of a table each one is.

Elements are found by their field ids where they have some, and else by what they are: the element of a list
and the entries of a map by their place, as writers give them many names, and fields of structs by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from lakeplane.errors import InvalidMetadata
from lakeplane.files import thrift
from lakeplane.files.thrift import RawField
from lakeplane.model.schema import Schema
from lakeplane.model.types import VARIANT, Field, List, Map, Struct, Type, children, is_nested

MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""The bytes at the very end: the length of the footer, and the mark of the format."""

TYPE, LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, ID, LOGICAL = range(1, 11)
"""The ids of the fields of an element."""

REQUIRED, OPTIONAL, REPEATED = range(3)

L_STRING, L_MAP, L_LIST, L_ENUM, L_DECIMAL, L_DATE, L_TIME, L_TIMESTAMP = range(1, 9)
L_INTEGER, L_UNKNOWN, L_JSON, L_BSON, L_UUID, L_FLOAT16, L_VARIANT, L_GEOMETRY, L_GEOGRAPHY = range(10, 19)
"""Logical types, by the id of their field in the union."""

_SCHEMA_FIELD: Final = 2
_REPEATED_NAMES: Final = ("array",)
_MAX_ELEMENTS: Final = 200_000


class Element(NamedTuple):
    """One element of a schema, with its children."""

    place: int
    """Its place in the list of the footer."""
    name: str
    fields: tuple[RawField, ...]
    children: tuple[Element, ...]

    def number(self, field: int) -> int | None:
        """The value of one of its fields that is a number."""
        raw = next((each.raw for each in self.fields if each.id == field), None)
        return None if raw is None else thrift.read_int(raw)

    @property
    def logical(self) -> RawField | None:
        """The logical type: which one, and its parameters as a struct."""
        raw = next((each.raw for each in self.fields if each.id == LOGICAL), None)
        if raw is None:
            return None
        members, _ = thrift.read_struct(raw, 0)
        return members[0] if members else None


class FooterSchema(NamedTuple):
    """The schema of a footer, and where in its bytes it stands."""

    root: Element
    start: int
    end: int


def footer_length(tail: bytes, source: str | None = None) -> int:
    """How long the footer is, without the eight bytes after it that are looked at here."""
    if len(tail) < TAIL or tail[-4:] != MAGIC:
        encrypted = tail[-4:] == b"PARE"
        problem = "its footer is encrypted" if encrypted else "does not end as a Parquet file does"
        raise InvalidMetadata(problem, source=source)
    length: int = struct.unpack("<I", tail[-TAIL:-4])[0]
    return length


def footer_of(tail: bytes, source: str | None = None) -> bytes:
    """The footer in the last bytes of a file."""
    length = footer_length(tail, source)
    if length + TAIL > len(tail):
        problem = f"the footer has {length} bytes, only the last {len(tail)} of the file are here"
        raise InvalidMetadata(problem, source=source, hint="Read as many as footer_length says, and 8 more")
    return tail[-TAIL - length : -TAIL]


def read_schema(footer: bytes, source: str | None = None) -> FooterSchema:
    """The schema in a footer."""
    try:
        return _read_schema(footer)
    except InvalidMetadata as error:
        raise InvalidMetadata(f"the footer is broken: {error.problem}", source=source) from None


def _read_schema(footer: bytes) -> FooterSchema:
    at = field = 0
    while True:
        field, kind, at = thrift.read_field_header(footer, at, field)
        if kind == 0:
            raise InvalidMetadata("it has no schema")
        if field == _SCHEMA_FIELD and kind == thrift.LIST:
            break
        at = thrift.skip(footer, at, kind)
    start = at
    count, kind, at = thrift.read_list_header(footer, at)
    if kind != thrift.STRUCT or not 0 < count <= _MAX_ELEMENTS:
        raise InvalidMetadata("its schema is no list of elements")
    raw: list[tuple[RawField, ...]] = []
    for _ in range(count):
        fields, at = thrift.read_struct(footer, at)
        raw.append(tuple(fields))
    root, read = _tree(raw, 0, 0)
    if read != count:
        raise InvalidMetadata("its schema has elements without a parent")
    return FooterSchema(root, start, at)


def _tree(raw: list[tuple[RawField, ...]], index: int, depth: int) -> tuple[Element, int]:
    if index >= len(raw) or depth > thrift.MAX_DEPTH:
        raise InvalidMetadata("its schema misses elements, or is nested too deeply")
    values = {field.id: field.raw for field in raw[index]}
    count = thrift.read_int(values[CHILDREN]) if CHILDREN in values else 0
    inside: list[Element] = []
    after = index + 1
    for _ in range(count):
        child, after = _tree(raw, after, depth + 1)
        inside.append(child)
    name = thrift.read_text(values[NAME]) if NAME in values else ""
    return Element(index, name, raw[index], tuple(inside)), after


def walk(element: Element) -> Iterator[Element]:
    """An element and everything in it, in the order of the footer."""
    yield element
    for child in element.children:
        yield from walk(child)


def leaves(root: Element) -> list[Element]:
    """The elements that are columns of the file, in their order."""
    return [each for each in walk(root) if not each.children and each.place]


def write_footer(footer: bytes, schema: FooterSchema, changed: Mapping[int, tuple[RawField, ...]]) -> bytes:
    """A footer in which some elements of the schema have other fields; everything else is as it was."""
    elements = [changed.get(each.place, each.fields) for each in walk(schema.root)]
    head = thrift.write_list_header(len(elements), thrift.STRUCT)
    body = b"".join(thrift.write_struct(fields) for fields in elements)
    return footer[: schema.start] + head + body + footer[schema.end :]


# Which column of a table an element is


def match_elements(root: Element, schema: Schema, *, by_name: bool = True) -> dict[int, Field]:
    """The fields of a table that the elements of a file are, by the place of the element.

    A group that stands for nothing itself (the repeated one of a list, the entries of a map) is left out, and
    so is what no field of the table fits.

    Args:
        root: The root of a file's schema.
        schema: The schema of the table.
        by_name: Whether fields of structs without an id are found by their name.
    """
    found: dict[int, Field] = {}
    _match_fields(root, schema.fields, found, by_name=by_name)
    return found


def _match_fields(
    group: Element, fields: tuple[Field, ...], found: dict[int, Field], *, by_name: bool
) -> None:
    by_id = {field.id: field for field in fields}
    ids = [child.number(ID) for child in group.children]
    # A group that knows ids leaves one out only for what is no column.
    names = {field.name: field for field in fields} if by_name and not any(ids) else {}
    for child, field_id in zip(group.children, ids, strict=True):
        field = names.get(child.name) if field_id is None else by_id.get(field_id)
        if field is not None:
            _match(child, field, found, by_name=by_name)


def _match(element: Element, field: Field, found: dict[int, Field], *, by_name: bool) -> None:
    found[element.place] = field
    match field.type:
        case Struct():
            _match_fields(element, field.type.fields, found, by_name=by_name)
        case List():
            inner = _list_element(element)
            if inner is not None and _fits(inner, field.type.element_field):
                _match(inner, field.type.element_field, found, by_name=by_name)
        case Map():
            entries = element.children[0].children if element.children else ()
            for child, inner_field in zip(entries, children(field.type), strict=False):
                if _fits(child, inner_field):
                    _match(child, inner_field, found, by_name=by_name)


def _fits(element: Element, field: Field) -> bool:
    return element.number(ID) in (None, field.id) and bool(element.children) == _is_group(field.type)


def _is_group(type_: Type) -> bool:
    return is_nested(type_) or type_ is VARIANT


def _list_element(element: Element) -> Element | None:
    """The element of a list, by the rules of Parquet for older files, too."""
    if not element.children:
        # A repeated column is a list of what is never null.
        return None
    repeated = element.children[0]
    if repeated.number(REPETITION) != REPEATED:
        return None
    two_levels = (
        len(repeated.children) != 1
        or repeated.name in _REPEATED_NAMES
        or repeated.name == f"{element.name}_tuple"
    )
    return repeated if two_levels else repeated.children[0]
