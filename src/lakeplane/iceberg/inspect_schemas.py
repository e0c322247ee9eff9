"""What metadata tables look like: their columns, with the ids that Iceberg's own give to them.

They are said once, as Iceberg fields; the Arrow schemas follow. Where Java leaves out a partition that has no
fields, it is left out here, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from lakeplane.iceberg.manifest_schema import DATA_FILE_FIELDS, DATA_FILE_ID
from lakeplane.iceberg.metadata import ROW_LINEAGE_VERSION, TableMetadata
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    UNKNOWN,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
    is_primitive,
    walk,
)

if TYPE_CHECKING:
    import pyarrow as pa


def arrow(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of a metadata table."""
    return to_arrow(Schema(tuple(fields)))


SNAPSHOTS: Final = (
    Field(1, "committed_at", TIMESTAMPTZ, required=True),
    Field(2, "snapshot_id", LONG, required=True),
    Field(3, "parent_id", LONG),
    Field(4, "operation", STRING),
    Field(5, "manifest_list", STRING),
    Field(6, "summary", Map(7, STRING, 8, STRING, value_required=True)),
)

HISTORY: Final = (
    Field(1, "made_current_at", TIMESTAMPTZ, required=True),
    Field(2, "snapshot_id", LONG, required=True),
    Field(3, "parent_id", LONG),
    Field(4, "is_current_ancestor", BOOLEAN, required=True),
)

REFS: Final = (
    Field(1, "name", STRING, required=True),
    Field(2, "type", STRING, required=True),
    Field(3, "snapshot_id", LONG, required=True),
    Field(4, "max_reference_age_in_ms", LONG),
    Field(5, "min_snapshots_to_keep", INT),
    Field(6, "max_snapshot_age_in_ms", LONG),
)

METADATA_LOG_ENTRIES: Final = (
    Field(1, "timestamp", TIMESTAMPTZ, required=True),
    Field(2, "file", STRING, required=True),
    Field(3, "latest_snapshot_id", LONG),
    Field(4, "latest_schema_id", INT),
    Field(5, "latest_sequence_number", LONG),
)

_SUMMARY: Final = Struct(
    (
        Field(10, "contains_null", BOOLEAN, required=True),
        # Old manifest lists do not tell, though Java calls it required in one of the two tables.
        Field(11, "contains_nan", BOOLEAN),
        Field(12, "lower_bound", STRING),
        Field(13, "upper_bound", STRING),
    )
)

MANIFESTS: Final = (
    Field(14, "content", INT, required=True),
    Field(1, "path", STRING, required=True),
    Field(2, "length", LONG, required=True),
    Field(3, "partition_spec_id", INT, required=True),
    Field(4, "added_snapshot_id", LONG, required=True),
    Field(5, "added_data_files_count", INT, required=True),
    Field(6, "existing_data_files_count", INT, required=True),
    Field(7, "deleted_data_files_count", INT, required=True),
    Field(15, "added_delete_files_count", INT, required=True),
    Field(16, "existing_delete_files_count", INT, required=True),
    Field(17, "deleted_delete_files_count", INT, required=True),
    Field(8, "partition_summaries", List(9, _SUMMARY, element_required=True), required=True),
)

_MAY_BE_MISSING: Final = frozenset({3, 4, 5, 6, 7, 8})

ALL_MANIFESTS: Final = (
    *(
        msgspec.structs.replace(each, required=each.required and each.id not in _MAY_BE_MISSING)
        for each in MANIFESTS
    ),
    Field(18, "reference_snapshot_id", LONG, required=True),
    Field(19, "key_metadata", BINARY),
)

SPEC_ID: Final = Field(141, "spec_id", INT)

_ENTRY: Final = (
    Field(0, "status", INT, required=True),
    Field(1, "snapshot_id", LONG),
    Field(3, "sequence_number", LONG),
    Field(4, "file_sequence_number", LONG),
)

_PARTITION_COUNTS: Final = (
    Field(2, "record_count", LONG, required=True),
    Field(3, "file_count", INT, required=True),
    Field(11, "total_data_file_size_in_bytes", LONG, required=True),
    Field(5, "position_delete_record_count", LONG, required=True),
    Field(6, "position_delete_file_count", INT, required=True),
    Field(7, "equality_delete_record_count", LONG, required=True),
    Field(8, "equality_delete_file_count", INT, required=True),
    Field(9, "last_updated_at", TIMESTAMPTZ),
    Field(10, "last_updated_snapshot_id", LONG),
)


def partition_fields(table: TableMetadata) -> Struct:
    """The partition in metadata tables: a field for each one of any spec, by the names they have last had.

    A field whose column no schema knows any more has no type, and is left out. Of two fields of one name the
    older one has its id behind the name, as columns are found by name.
    """
    known = [field for field in table.unified_partition_type.fields if field.type is not UNKNOWN]
    taken: set[str] = set()
    named = []
    for field in reversed(known):
        name = field.name if field.name not in taken else f"{field.name}_{field.id}"
        taken.add(name)
        named.append(msgspec.structs.replace(field, name=name, required=False))
    return Struct(tuple(reversed(named)))


def data_file(table: TableMetadata) -> tuple[Field, ...]:
    """What is told of a file, in the order of Java."""
    partition = partition_fields(table)
    return tuple(_data_file(partition))


def _data_file(partition: Struct) -> Iterator[Field]:
    by_name = {field.name: field for field in DATA_FILE_FIELDS}
    for name in _FILE_ORDER:
        match name:
            case "spec_id":
                yield SPEC_ID
            case "partition" if not partition.fields:
                continue
            case "partition":
                yield msgspec.structs.replace(by_name[name], type=partition)
            case "content":
                yield msgspec.structs.replace(by_name[name], required=False)
            case _:
                yield by_name[name]


_FILE_ORDER: Final = (
    *("content", "file_path", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes"),
    *(
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    ),
    *("key_metadata", "split_offsets", "equality_ids", "sort_order_id", "first_row_id"),
    *("referenced_data_file", "content_offset", "content_size_in_bytes"),
)


def files(table: TableMetadata) -> tuple[Field, ...]:
    """The columns of ``files`` and of its relatives."""
    fields = data_file(table)
    return (*fields, readable_metrics(table.schema, fields))


def entries(table: TableMetadata) -> tuple[Field, ...]:
    """The columns of ``entries``."""
    fields = (*_ENTRY, Field(DATA_FILE_ID, "data_file", Struct(data_file(table)), required=True))
    return (*fields, readable_metrics(table.schema, fields))


def measured_columns(schema: Schema) -> tuple[Field, ...]:
    """The columns that metrics are kept of: those without others in them, in the order of the schema."""
    return tuple(field for field in schema.all_fields if is_primitive(field.type))


def readable_metrics(schema: Schema, beside: tuple[Field, ...]) -> Field:
    """A struct for each column of the table, with ids above those that the metadata table has already."""
    ids = itertools.count(max(field.id for field in walk(beside)) + 1)
    columns = []
    for column in measured_columns(schema):
        field_id = next(ids)
        metrics = [Field(next(ids), name, LONG) for name in COLUMN_COUNTS]
        bound = bound_type(column.type)
        metrics += [Field(next(ids), name, bound) for name in COLUMN_BOUNDS]
        columns.append(Field(field_id, schema.name_of(column.id), Struct(tuple(metrics))))
    return Field(next(ids), "readable_metrics", Struct(tuple(columns)))


COLUMN_COUNTS: Final = ("column_size", "value_count", "null_value_count", "nan_value_count")
COLUMN_BOUNDS: Final = ("lower_bound", "upper_bound")


def bound_type(type_: Type) -> Type:
    """The type that bounds of a column are shown in.

    A bound of ``fixed`` may be cut short, and one of a shape is a point, in the bytes that the spec gives it.
    """
    return BINARY if isinstance(type_, Fixed | Geometry | Geography) else type_


def partitions(table: TableMetadata) -> tuple[Field, ...]:
    """The columns of ``partitions``."""
    partition = partition_fields(table)
    if not partition.fields:
        return _PARTITION_COUNTS
    return (
        Field(1, "partition", partition, required=True),
        Field(4, "spec_id", INT, required=True),
        *_PARTITION_COUNTS,
    )


_LAST_ID: Final = 2**31 - 1


def position_deletes(table: TableMetadata) -> tuple[Field, ...]:
    """The columns of ``position_deletes``."""
    partition = partition_fields(table)
    row = msgspec.structs.replace(METADATA_COLUMNS["row"], type=table.schema.struct)
    found = [METADATA_COLUMNS["file_path"], METADATA_COLUMNS["pos"], row]
    if partition.fields:
        found.append(Field(_LAST_ID - 5, "partition", partition, required=True))
    found.append(Field(_LAST_ID - 4, "spec_id", INT, required=True))
    found.append(Field(_LAST_ID - 1, "delete_file_path", STRING, required=True))
    if table.format_version >= ROW_LINEAGE_VERSION:
        found.append(Field(_LAST_ID - 6, "content_offset", LONG))
        found.append(Field(_LAST_ID - 7, "content_size_in_bytes", LONG))
    return tuple(found)
