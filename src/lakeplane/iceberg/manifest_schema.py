"""What is in manifests and manifest lists: every field of every format version, as Iceberg fields.

Manifests are Avro files, and their columns here are Arrow tables with one row per data or delete file. The
fields are said once, as Iceberg fields with their ids; the Avro schema that is written, the Arrow types that
are read, and the columns that a version has all follow from them.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from lakeplane.iceberg.avro_schema import avro_name, avro_record
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import BINARY, BOOLEAN, INT, LONG, STRING, UNKNOWN, Field, List, Map, Struct, Type

ADDED, EXISTING, DELETED = 1, 0, 2
"""The status of an entry."""

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
"""The content of a file."""

DATA_MANIFEST, DELETE_MANIFEST = 0, 1
"""The content of a manifest."""

MANIFEST_CONTENTS: Final = ("data", "deletes")
"""How a manifest itself names its content."""

PARTITION_ID: Final = 102
DATA_FILE_ID: Final = 2

COUNT_MAPS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
BOUND_MAPS: Final = ("lower_bounds", "upper_bounds")


def _map(key_id: int, value_id: int, value: Type) -> Map:
    return Map(key_id, INT, value_id, value, value_required=True)


_NO_PARTITION: Final = Struct(())

DATA_FILE_FIELDS: Final = (
    Field(134, "content", INT, required=True),
    Field(100, "file_path", STRING, required=True),
    Field(101, "file_format", STRING, required=True),
    Field(PARTITION_ID, "partition", _NO_PARTITION, required=True),
    Field(103, "record_count", LONG, required=True),
    Field(104, "file_size_in_bytes", LONG, required=True),
    Field(105, "block_size_in_bytes", LONG, required=True),
    Field(108, "column_sizes", _map(117, 118, LONG)),
    Field(109, "value_counts", _map(119, 120, LONG)),
    Field(110, "null_value_counts", _map(121, 122, LONG)),
    Field(137, "nan_value_counts", _map(138, 139, LONG)),
    Field(125, "lower_bounds", _map(126, 127, BINARY)),
    Field(128, "upper_bounds", _map(129, 130, BINARY)),
    Field(131, "key_metadata", BINARY),
    Field(132, "split_offsets", List(133, LONG, element_required=True)),
    Field(135, "equality_ids", List(136, INT, element_required=True)),
    Field(140, "sort_order_id", INT),
    Field(142, "first_row_id", LONG),
    Field(143, "referenced_data_file", STRING),
    Field(144, "content_offset", LONG),
    Field(145, "content_size_in_bytes", LONG),
)
"""Everything that a manifest tells about a file, in the order of the files that Java writes."""

_NOT_IN_V1: Final = frozenset({134, 135, 142, 143, 144, 145})
_NOT_IN_V2: Final = frozenset({105, 142, 144, 145})
_NOT_IN_V3: Final = frozenset({105})

_ENTRY_FIELDS: Final = (
    Field(0, "status", INT, required=True),
    Field(1, "snapshot_id", LONG),
    Field(3, "sequence_number", LONG),
    Field(4, "file_sequence_number", LONG),
)

_SUMMARY: Final = Struct(
    (
        Field(509, "contains_null", BOOLEAN, required=True),
        Field(518, "contains_nan", BOOLEAN),
        Field(510, "lower_bound", BINARY),
        Field(511, "upper_bound", BINARY),
    )
)

_COUNTS: Final = (
    Field(504, "added_files_count", INT, required=True),
    Field(505, "existing_files_count", INT, required=True),
    Field(506, "deleted_files_count", INT, required=True),
    Field(512, "added_rows_count", LONG, required=True),
    Field(513, "existing_rows_count", LONG, required=True),
    Field(514, "deleted_rows_count", LONG, required=True),
)

_LIST_FIELDS: Final = (
    Field(500, "manifest_path", STRING, required=True),
    Field(501, "manifest_length", LONG, required=True),
    Field(502, "partition_spec_id", INT, required=True),
    Field(517, "content", INT, required=True),
    Field(515, "sequence_number", LONG, required=True),
    Field(516, "min_sequence_number", LONG, required=True),
    Field(503, "added_snapshot_id", LONG, required=True),
    *_COUNTS,
    Field(507, "partitions", List(508, _SUMMARY, element_required=True)),
    Field(519, "key_metadata", BINARY),
    Field(520, "first_row_id", LONG),
)
_LIST_NOT_IN_V1: Final = frozenset({517, 515, 516, 520})
_LIST_NOT_IN_V2: Final = frozenset({520})


@lru_cache(maxsize=32)
def data_file_fields(format_version: int, partition: Struct) -> tuple[Field, ...]:
    """What a version writes about a file, with the partition of a spec."""
    left_out = {1: _NOT_IN_V1, 2: _NOT_IN_V2}.get(format_version, _NOT_IN_V3)
    return tuple(
        msgspec.structs.replace(field, type=partition) if field.id == PARTITION_ID else field
        for field in DATA_FILE_FIELDS
        if field.id not in left_out
    )


def entry_avro(format_version: int, partition: Struct) -> dict[str, Any]:
    """The Avro schema of a manifest."""
    data_file = Struct(data_file_fields(format_version, partition))
    entry: tuple[Field, ...] = _ENTRY_FIELDS
    if format_version == 1:
        entry = (entry[0], msgspec.structs.replace(entry[1], required=True))
    return avro_record("manifest_entry", (*entry, Field(DATA_FILE_ID, "data_file", data_file, required=True)))


@cache
def list_fields(format_version: int) -> tuple[Field, ...]:
    """What a version writes about a manifest; v1 may leave out its counts."""
    if format_version == 1:
        counts = {field.id for field in _COUNTS}
        return tuple(
            msgspec.structs.replace(field, required=field.required and field.id not in counts)
            for field in _LIST_FIELDS
            if field.id not in _LIST_NOT_IN_V1
        )
    left_out = _LIST_NOT_IN_V2 if format_version == 2 else frozenset[int]()  # noqa: PLR2004
    return tuple(field for field in _LIST_FIELDS if field.id not in left_out)


def list_avro(format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest list."""
    return avro_record("manifest_file", list_fields(format_version))


def partition_arrow(partition: Struct) -> pa.DataType:
    """The Arrow struct of partitions, with the names that Avro gives to the fields."""
    stored = (field for field in partition.fields if field.type is not UNKNOWN)
    fields = tuple(msgspec.structs.replace(field, name=avro_name(field.name)) for field in stored)
    return storage(to_arrow(Schema(fields)))


def arrow_type(field: Field) -> pa.DataType:
    """The Arrow type of a column of files or manifests."""
    return storage(to_arrow(Schema((field,)))).field(0).type


def storage(schema: pa.Schema) -> pa.DataType:
    """A struct of plain types: what an extension type stores, without the metadata of fields."""
    return pa.struct([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])


def _plain(type_: pa.DataType) -> pa.DataType:
    match type_:
        case pa.BaseExtensionType():
            return type_.storage_type
        case pa.StructType():
            return pa.struct([pa.field(each.name, _plain(each.type), each.nullable) for each in type_])
        case pa.ListType():
            return pa.list_(pa.field("element", _plain(type_.value_type), type_.value_field.nullable))
        case pa.MapType():
            value = pa.field("value", _plain(type_.item_type), type_.item_field.nullable)
            return pa.map_(pa.field("key", _plain(type_.key_type), nullable=False), value)
        case _:
            return type_


FILE_COLUMNS: Final = pa.schema(
    [pa.field(each.name, arrow_type(each)) for each in DATA_FILE_FIELDS if each.id not in (105, PARTITION_ID)]
)
"""The columns of files, all but the partition, whose type each spec has for itself."""

ENTRY_COLUMNS: Final = pa.schema([pa.field(each.name, arrow_type(each)) for each in _ENTRY_FIELDS])
"""What is told of an entry beside its file."""

LIST_COLUMNS: Final = pa.schema([pa.field(each.name, arrow_type(each)) for each in _LIST_FIELDS])
"""The columns of manifest lists."""

FIELD_IDS: Final = {each.name: each.id for each in (*_ENTRY_FIELDS, *DATA_FILE_FIELDS)}
LIST_FIELD_IDS: Final = {each.name: each.id for each in _LIST_FIELDS}
"""The ids of columns; ``key_metadata`` and ``first_row_id`` have one in each of the two kinds of files."""
