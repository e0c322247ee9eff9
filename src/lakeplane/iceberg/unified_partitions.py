"""Partitions of any spec in the one type that metadata tables have for all of them."""

from __future__ import annotations

import pyarrow as pa

from lakeplane.avro.fit import fit
from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.manifest_schema import arrow_type
from lakeplane.iceberg.metadata import TableMetadata


def unify(partition: pa.StructArray, table: TableMetadata, source: str) -> pa.StructArray:
    """Partitions, whose fields are named by their ids, as values of the unified type with its names.

    A field that a spec does not have is null. ``source`` names the manifest in errors.
    """
    wanted = schemas.partition_fields(table).fields
    if not wanted:
        return pa.array([{}] * len(partition), pa.struct([]))
    columns = []
    for field in wanted:
        type_ = arrow_type(field)
        place = partition.type.get_field_index(str(field.id))
        column = pa.nulls(len(partition), type_) if place < 0 else partition.field(place)
        if column.type != type_:
            column = _converted(column, type_, field.name, source)
        columns.append(column)
    types = schemas.arrow(wanted)
    natural = [as_extension(column, each.type) for column, each in zip(columns, types, strict=True)]
    return pa.StructArray.from_arrays(natural, fields=list(types))


def _converted(column: pa.Array, type_: pa.DataType, name: str, source: str) -> pa.Array:
    """What an older spec holds of a field: nothing, if the field was void by then."""
    if column.null_count == len(column):
        return pa.nulls(len(column), type_)
    try:
        return fit(column, type_, name)
    except InvalidMetadata as error:
        raise InvalidMetadata(error.problem, source=source, field=f"partition.{name}") from None


def as_extension(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column of storage values as one of the type that is natural for it."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, column.cast(type_.storage_type))
    return column
