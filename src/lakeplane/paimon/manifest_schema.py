"""What is in manifests: every field that a release of Paimon has had, its place in the files, its column.

The fields are told once. The Avro schemas that are written, what is picked from files that others wrote, and
the columns in memory follow from them. Fields are found by their names, as each writer has names of its own
for the records, and some put everything into unions with null.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa

ADD, DELETE = 0, 1
"""The kind of an entry."""

MANIFEST_VERSION: Final = 2
"""What manifests and manifest lists have in ``_VERSION``."""
INDEX_VERSION: Final = 1

APPENDED, COMPACTED = 0, 1
"""The source of a file."""

ROOT: Final = "org.apache.paimon.avro.generated.record"
"""The name of the outermost record where Java writes; the others are named after the way to them."""


class Told(NamedTuple):
    """A field of a record in the files."""

    name: str
    """In the file."""
    column: str
    """In memory: the name of the column, or empty for a record of fields."""
    avro: Any
    """Its type, or the fields of the record."""
    arrow: pa.DataType | None = None
    optional: bool = False


_NUMBERS: Final = pa.list_(pa.int64())
_TEXTS: Final = pa.list_(pa.string())


def _int(name: str, column: str, *, optional: bool = False) -> Told:
    return Told(name, column, "int", pa.int32(), optional)


def _long(name: str, column: str, *, optional: bool = False) -> Told:
    return Told(name, column, "long", pa.int64(), optional)


def _text(name: str, column: str, *, optional: bool = False) -> Told:
    return Told(name, column, "string", pa.string(), optional)


def _bytes(name: str, column: str, *, optional: bool = False) -> Told:
    return Told(name, column, "bytes", pa.large_binary(), optional)


def _texts(name: str, column: str, *, optional: bool = False) -> Told:
    return Told(name, column, {"type": "array", "items": "string"}, _TEXTS, optional)


def _stats(name: str, column: str) -> Told:
    counts = {"type": "array", "items": ["null", "long"]}
    parts = (
        _bytes("_MIN_VALUES", f"{column}_min"),
        _bytes("_MAX_VALUES", f"{column}_max"),
        Told("_NULL_COUNTS", f"{column}_nulls", counts, _NUMBERS, optional=True),
    )
    return Told(name, "", parts)


_FILE: Final = (
    _text("_FILE_NAME", "file_name"),
    _long("_FILE_SIZE", "file_size"),
    _long("_ROW_COUNT", "row_count"),
    _bytes("_MIN_KEY", "min_key"),
    _bytes("_MAX_KEY", "max_key"),
    _stats("_KEY_STATS", "key"),
    _stats("_VALUE_STATS", "value"),
    _long("_MIN_SEQUENCE_NUMBER", "min_sequence_number"),
    _long("_MAX_SEQUENCE_NUMBER", "max_sequence_number"),
    _long("_SCHEMA_ID", "schema_id"),
    _int("_LEVEL", "level"),
    _texts("_EXTRA_FILES", "extra_files"),
    Told(
        "_CREATION_TIME",
        "creation_time",
        {"type": "long", "logicalType": "timestamp-millis"},
        pa.timestamp("ms"),
        optional=True,
    ),
    _long("_DELETE_ROW_COUNT", "delete_row_count", optional=True),
    _bytes("_EMBEDDED_FILE_INDEX", "embedded_file_index", optional=True),
    _int("_FILE_SOURCE", "file_source", optional=True),
    _texts("_VALUE_STATS_COLS", "value_stats_cols", optional=True),
    _text("_EXTERNAL_PATH", "external_path", optional=True),
    _long("_FIRST_ROW_ID", "first_row_id", optional=True),
    _texts("_WRITE_COLS", "write_cols", optional=True),
)

_SEQUENCES: Final = Told(
    "_WRITE_COLS_SEQUENCES",
    "write_cols_sequences",
    {"type": "array", "items": "long"},
    _NUMBERS,
    optional=True,
)
"""Read where a later release wrote it, and written only with a value: Paimon 1.3 does not know it."""

_HEAD: Final = (
    _int("_VERSION", "version"),
    _int("_KIND", "kind"),
    _bytes("_PARTITION", "partition"),
    _int("_BUCKET", "bucket"),
)

ENTRY: Final = (*_HEAD, _int("_TOTAL_BUCKETS", "total_buckets"), Told("_FILE", "", _FILE))
ENTRY_OF_LATER: Final = (*ENTRY[:-1], Told("_FILE", "", (*_FILE, _SEQUENCES)))

LIST: Final = (
    _int("_VERSION", "version"),
    _text("_FILE_NAME", "file_name"),
    _long("_FILE_SIZE", "file_size"),
    _long("_NUM_ADDED_FILES", "num_added_files"),
    _long("_NUM_DELETED_FILES", "num_deleted_files"),
    _stats("_PARTITION_STATS", "partition"),
    _long("_SCHEMA_ID", "schema_id"),
    _int("_MIN_BUCKET", "min_bucket", optional=True),
    _int("_MAX_BUCKET", "max_bucket", optional=True),
    _int("_MIN_LEVEL", "min_level", optional=True),
    _int("_MAX_LEVEL", "max_level", optional=True),
    _long("_MIN_ROW_ID", "min_row_id", optional=True),
    _long("_MAX_ROW_ID", "max_row_id", optional=True),
)

_LIST_OF_LATER: Final = (
    _int("_TOTAL_BUCKETS", "total_buckets", optional=True),
    _texts("_EXTRA_FILES", "extra_files", optional=True),
)
LIST_OF_LATER: Final = (*LIST, *_LIST_OF_LATER)

_RANGE: Final = pa.struct(
    [("f0", pa.string()), ("f1", pa.int32()), ("f2", pa.int32()), ("_CARDINALITY", pa.int64())]
)
_RANGES_AVRO: Final = {
    "type": "array",
    "items": [
        "null",
        {
            "type": "record",
            "name": f"{ROOT}__DELETIONS_VECTORS_RANGES",
            "fields": [
                {"name": "f0", "type": "string"},
                {"name": "f1", "type": "int"},
                {"name": "f2", "type": "int"},
                {"name": "_CARDINALITY", "type": ["null", "long"], "default": None},
            ],
        },
    ],
}
_GLOBAL: Final = pa.struct(
    [
        ("_ROW_RANGE_START", pa.int64()),
        ("_ROW_RANGE_END", pa.int64()),
        ("_INDEX_FIELD_ID", pa.int32()),
        ("_EXTRA_FIELD_IDS", pa.list_(pa.int32())),
        ("_INDEX_META", pa.large_binary()),
        ("_SOURCE_META", pa.large_binary()),
    ]
)
_GLOBAL_AVRO: Final = {
    "type": "record",
    "name": f"{ROOT}__GLOBAL_INDEX",
    "fields": [
        {"name": "_ROW_RANGE_START", "type": "long"},
        {"name": "_ROW_RANGE_END", "type": "long"},
        {"name": "_INDEX_FIELD_ID", "type": "int"},
        {"name": "_EXTRA_FIELD_IDS", "type": ["null", {"type": "array", "items": "int"}], "default": None},
        {"name": "_INDEX_META", "type": ["null", "bytes"], "default": None},
        {"name": "_SOURCE_META", "type": ["null", "bytes"], "default": None},
    ],
}

INDEX: Final = (
    *_HEAD,
    _text("_INDEX_TYPE", "index_type"),
    _text("_FILE_NAME", "file_name"),
    _long("_FILE_SIZE", "file_size"),
    _long("_ROW_COUNT", "row_count"),
    Told("_DELETIONS_VECTORS_RANGES", "ranges", _RANGES_AVRO, pa.list_(_RANGE), optional=True),
    _text("_EXTERNAL_PATH", "external_path", optional=True),
)
INDEX_OF_LATER: Final = (*INDEX, Told("_GLOBAL_INDEX", "global_index", _GLOBAL_AVRO, _GLOBAL, optional=True))


def avro_schema(fields: tuple[Told, ...], name: str = ROOT) -> dict[str, Any]:
    """The schema of a record as Java names it."""
    return {"type": "record", "name": name, "fields": [_avro_field(each, name) for each in fields]}


def _avro_field(field: Told, record: str) -> dict[str, Any]:
    if not field.column:
        return {"name": field.name, "type": avro_schema(field.avro, f"{record}_{field.name}")}
    if field.optional:
        return {"name": field.name, "type": ["null", field.avro], "default": None}
    return {"name": field.name, "type": field.avro}


class Leaf(NamedTuple):
    """A column, and the way to it in the file."""

    column: str
    path: tuple[str, ...]
    arrow: pa.DataType
    optional: bool


def leaves(fields: tuple[Told, ...], path: tuple[str, ...] = ()) -> list[Leaf]:
    """The columns of a record and the records in it."""
    found: list[Leaf] = []
    for field in fields:
        way = (*path, field.name)
        if field.column:
            assert field.arrow is not None
            found.append(Leaf(field.column, way, field.arrow, field.optional))
        else:
            found += leaves(field.avro, way)
    return found


def _columns(fields: tuple[Told, ...]) -> pa.Schema:
    return pa.schema(
        [pa.field(each.column, each.arrow) for each in leaves(fields) if each.column != "version"]
    )


ENTRY_COLUMNS: Final = _columns(ENTRY_OF_LATER)
"""The columns of the entries of manifests: a row for each file that was added or deleted."""
LIST_COLUMNS: Final = _columns(LIST_OF_LATER)
"""The columns of manifest lists: a row for each manifest."""
INDEX_COLUMNS: Final = _columns(INDEX_OF_LATER)
"""The columns of index manifests: a row for each index file."""

KEY_COLUMNS: Final = ("min_key", "max_key", "key_min", "key_max", "key_nulls")
VALUE_COLUMNS: Final = ("value_min", "value_max", "value_nulls", "value_stats_cols")
FACT_COLUMNS: Final = tuple(
    name for name in ENTRY_COLUMNS.names if name not in {*KEY_COLUMNS, *VALUE_COLUMNS}
)
"""What entries tell of files besides keys and statistics."""
