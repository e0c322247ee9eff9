"""Which columns files hold, and how: those of a table without what is never stored."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from lakeplane.errors import NotSupported
from lakeplane.model.arrow_schema import EXTENSION_METADATA, EXTENSION_NAME, to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import UNKNOWN, Field, List, Map, Struct, Type, map_fields, walk


def stored_schema(schema: Schema) -> Schema:
    """A schema without columns of type unknown, which are all null and in no file."""
    if not any(field.type is UNKNOWN for field in walk(schema.fields)):
        return schema
    fields = tuple(_stored(field, field.name) for field in schema.fields if field.type is not UNKNOWN)
    return msgspec.structs.replace(schema, fields=fields)


def _stored(field: Field, place: str) -> Field:
    match field.type:
        case Struct():
            kept = tuple(each for each in field.type.fields if each.type is not UNKNOWN)
            if field.type.fields and not kept:
                raise _unstorable(field.type, place)
            inside = tuple(_stored(each, f"{place}.{each.name}") for each in kept)
            return msgspec.structs.replace(field, type=msgspec.structs.replace(field.type, fields=inside))
        case List() | Map():

            def change(inner: Field) -> Field:
                if inner.type is UNKNOWN:
                    raise _unstorable(field.type, place)
                return _stored(inner, f"{place}.{inner.name}")

            return msgspec.structs.replace(field, type=map_fields(field.type, change))
        case _:
            return field


def _unstorable(type_: Type, place: str) -> NotSupported:
    hint = "Give what is inside a type, or drop the column"
    return NotSupported(f"a {type_} of nothing but unknown values can be in no file", field=place, hint=hint)


def stored_rows(rows: pa.Table, schema: Schema, stored: Schema) -> pa.Table:
    """Rows without what is never stored."""
    if stored is schema:
        return rows
    types = {field.id: field for field in stored.fields}
    names = [field.name for field in schema.fields if field.id in types]
    columns = [
        pa.chunked_array(
            [
                _stored_array(chunk, field.type, types[field.id].type)
                for chunk in rows.column(field.name).chunks
            ],
        )
        if rows.column(field.name).num_chunks
        else rows.column(field.name)
        for field in schema.fields
        if field.id in types
    ]
    return pa.table(columns, names=names)


def _stored_array(array: pa.Array, type_: Type, stored: Type) -> pa.Array:
    """An array without what is never stored inside of its type."""
    match type_, stored:
        case Struct(), Struct():
            if type_ == stored:
                return array
            kept = {field.id: field for field in stored.fields}
            parts = [
                _stored_array(array.field(place), field.type, kept[field.id].type)
                for place, field in enumerate(type_.fields)
                if field.id in kept
            ]
            names = [
                pa.field(field.name, part.type) for field, part in zip(stored.fields, parts, strict=True)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(parts, fields=names, mask=mask)
        case _ if type_ == stored:
            return array
        case _:
            problem = f"columns of type unknown inside of {type_} cannot be left out yet"
            raise NotSupported(problem, hint="Give them a type, or drop them")


def file_schema(stored: Schema) -> pa.Schema:
    """The Arrow schema that files are written with: with ids, and without marks of extension types.

    What Parquet says of variants and shapes is put into the footer afterwards, whatever extension types are
    registered here.
    """
    return pa.schema([_unmarked(field) for field in to_arrow(stored)])


def _unmarked(field: pa.Field) -> pa.Field:
    metadata = {
        key: value
        for key, value in (field.metadata or {}).items()
        if key not in (EXTENSION_NAME, EXTENSION_METADATA)
    }
    return pa.field(field.name, _unmarked_type(field.type), field.nullable, metadata)


def _unmarked_type(type_: pa.DataType) -> pa.DataType:
    match type_:
        case pa.StructType():
            return pa.struct([_unmarked(each) for each in type_])
        case pa.ListType():
            return pa.list_(_unmarked(type_.value_field))
        case pa.MapType():
            return pa.map_(_unmarked(type_.key_field), _unmarked(type_.item_field))
        case _:
            return type_
