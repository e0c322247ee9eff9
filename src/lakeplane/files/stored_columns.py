"""Which columns files hold, and how: those of a table without what is never stored."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from lakeplane.errors import NotSupported
from lakeplane.files.nested_arrays import lists_of, maps_of, structs_of
from lakeplane.model.arrow_schema import EXTENSION_METADATA, EXTENSION_NAME, to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import UNKNOWN, Field, List, Map, Struct, Type, map_fields, walk


def stored_schema(schema: Schema) -> Schema:
    """A schema without columns of type unknown, which are all null and in no file."""
    if all(field.type is UNKNOWN for field in schema.fields):
        hint = "Give a column another type"
        raise NotSupported("no column can be stored: there is none, or all are of type unknown", hint=hint)
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


def stored_rows(rows: pa.Table, schema: Schema, stored: Schema, arrow: pa.Schema) -> pa.Table:
    """Rows in the columns of a file.

    Args:
        rows: The rows, in the types of the schema.
        schema: The schema of the table.
        stored: The same without what is never stored.
        arrow: The Arrow schema of the file, field by field that of the stored one: with other names or
            metadata, or other types that hold the same values.
    """
    if rows.schema.equals(arrow, check_metadata=True):
        return rows
    kept = {field.id: field.type for field in stored.fields}
    fields = [field for field in schema.fields if field.id in kept]
    columns = [
        pa.chunked_array(
            [_stored_array(chunk, field.type, kept[field.id], to.type) for chunk in rows[field.name].chunks],
            to.type,
        )
        for field, to in zip(fields, arrow, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=arrow)


def _stored_array(array: pa.Array, type_: Type, stored: Type, arrow: pa.DataType) -> pa.Array:
    """An array in the type of a file."""
    match type_, stored:
        case Struct(), Struct():
            kept = {field.id: field.type for field in stored.fields}
            inside = [
                (place, field.type, kept[field.id])
                for place, field in enumerate(type_.fields)
                if field.id in kept
            ]
            parts = [
                _stored_array(array.field(place), own, to, each.type)
                for (place, own, to), each in zip(inside, arrow, strict=True)
            ]
            return structs_of(array, parts, arrow)
        case List(), List():
            return lists_of(
                array,
                lambda items: _stored_array(items, type_.element, stored.element, arrow.value_type),
                arrow,
            )
        case Map(), Map():
            return maps_of(
                array,
                lambda keys: _stored_array(keys, type_.key, stored.key, arrow.key_type),
                lambda items: _stored_array(items, type_.value, stored.value, arrow.item_type),
                arrow,
            )
        case _:
            return _stored_leaf(array, arrow)


def _stored_leaf(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    if array.type == arrow and not isinstance(arrow, pa.StructType):
        return array
    if isinstance(array, pa.ExtensionArray) and not isinstance(arrow, pa.BaseExtensionType):
        array = array.storage
    if isinstance(arrow, pa.StructType):
        # A variant: two columns of bytes.
        return structs_of(array, [array.field(each.name) for each in arrow], arrow)
    return array if array.type == arrow else array.cast(arrow)


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
