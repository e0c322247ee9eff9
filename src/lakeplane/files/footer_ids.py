"""Footers of Parquet files with more in them: field ids that a writer has left out, and logical types.

Only the elements of the schema change, and of them only what is missing. All other bytes stay what they are,
in front of the footer and in it, so that nothing moves that anything points to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from lakeplane.files import thrift
from lakeplane.files.parquet_schema import (
    ID,
    L_GEOGRAPHY,
    L_GEOMETRY,
    L_VARIANT,
    LOGICAL,
    MAGIC,
    TAIL,
    Element,
    footer_of,
    match_elements,
    read_schema,
    walk,
    write_footer,
)
from lakeplane.files.thrift import RawField
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    DEFAULT_CRS,
    DEFAULT_EDGE_ALGORITHM,
    EDGE_ALGORITHMS,
    VARIANT,
    Field,
    Geography,
    Geometry,
)

_VARIANT_VERSION: Final = 1


def add_field_ids(tail: bytes, schema: Schema, source: str | None = None) -> bytes | None:
    """The end of a Parquet file with the field ids of a table; None if none of them is missing.

    Args:
        tail: The last bytes of the file, with its whole footer. What is in front of the footer comes back as
            it is.
        schema: The schema of the table. Fields without ids are found by name in structs, and by their place
            in lists and maps.
        source: The file, for errors.
    """

    def change(element: Element, field: Field) -> tuple[RawField, ...] | None:
        known = element.number(ID)
        if known == field.id:
            return None
        return _with(element, RawField(ID, thrift.I32, thrift.write_int(field.id)))

    return _changed(tail, schema, change, source)


def missing_field_ids(tail: bytes, schema: Schema, source: str | None = None) -> list[str]:
    """The names of the table's columns that are in a Parquet file without an id."""
    root = read_schema(footer_of(tail, source), source).root
    matched = match_elements(root, schema)
    return [
        schema.name_of(matched[each.place].id)
        for each in walk(root)
        if each.place in matched and each.number(ID) is None
    ]


def mark_types(data: bytes, schema: Schema) -> bytes:
    """A Parquet file that says which of its columns are variants, geometries and geographies."""

    def change(element: Element, field: Field) -> tuple[RawField, ...] | None:
        mark = _mark(field)
        if mark is None or element.logical is not None:
            return None
        return _with(element, RawField(LOGICAL, thrift.STRUCT, thrift.write_struct([mark])))

    return _changed(data, schema, change, None) or data


def _mark(field: Field) -> RawField | None:
    match field.type:
        case _ if field.type is VARIANT:
            version = RawField(1, thrift.BYTE, bytes([_VARIANT_VERSION]))
            return RawField(L_VARIANT, thrift.STRUCT, thrift.write_struct([version]))
        case Geometry(crs=crs):
            return RawField(L_GEOMETRY, thrift.STRUCT, thrift.write_struct(_crs(crs)))
        case Geography(crs=crs, algorithm=algorithm):
            parameters = _crs(crs)
            if algorithm != DEFAULT_EDGE_ALGORITHM:
                number = thrift.write_int(EDGE_ALGORITHMS.index(algorithm))
                parameters.append(RawField(2, thrift.I32, number))
            return RawField(L_GEOGRAPHY, thrift.STRUCT, thrift.write_struct(parameters))
        case _:
            return None


def _crs(crs: str) -> list[RawField]:
    return [] if crs == DEFAULT_CRS else [RawField(1, thrift.BINARY, thrift.write_text(crs))]


def _with(element: Element, field: RawField) -> tuple[RawField, ...]:
    others = (each for each in element.fields if each.id != field.id)
    return tuple(sorted((*others, field), key=lambda each: each.id))


def _changed(
    tail: bytes,
    schema: Schema,
    change: Callable[[Element, Field], tuple[RawField, ...] | None],
    source: str | None,
) -> bytes | None:
    footer = footer_of(tail, source)
    stored = read_schema(footer, source)
    matched = match_elements(stored.root, schema)
    changed: dict[int, tuple[RawField, ...]] = {}
    for element in walk(stored.root):
        field = matched.get(element.place)
        fields = None if field is None else change(element, field)
        if fields is not None:
            changed[element.place] = fields
    if not changed:
        return None
    found = write_footer(footer, stored, changed)
    front = tail[: len(tail) - TAIL - len(footer)]
    return front + found + struct.pack("<I", len(found)) + MAGIC
