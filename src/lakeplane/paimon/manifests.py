"""Manifest lists, manifests and index manifests: Avro files as Arrow tables, read and written.

Tables have the columns of ``manifest_schema``. What is read may be of any writer and release; what is
written has the fields and the names of Paimon 1.3, which everybody reads, and later ones only where a value
is there to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.avro.read import DEFAULT_LIMITS, Limits, Pick, read_avro
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput, InvalidMetadata, NotSupported, UnsupportedVersion
from lakeplane.paimon.manifest_schema import (
    ADD,
    DELETE,
    ENTRY,
    ENTRY_COLUMNS,
    ENTRY_OF_LATER,
    INDEX,
    INDEX_COLUMNS,
    INDEX_OF_LATER,
    INDEX_VERSION,
    LIST,
    LIST_COLUMNS,
    LIST_OF_LATER,
    MANIFEST_VERSION,
    Told,
    avro_schema,
    leaves,
)
from lakeplane.paimon.snapshots import check_file_name


class _File(NamedTuple):
    """What a kind of files holds."""

    fields: tuple[Told, ...]
    version: int


_LISTS: Final = _File(LIST_OF_LATER, MANIFEST_VERSION)
_MANIFESTS: Final = _File(ENTRY_OF_LATER, MANIFEST_VERSION)
_INDEXES: Final = _File(INDEX_OF_LATER, INDEX_VERSION)

CODECS: Final = {"zstd": "zstandard", "zstandard": "zstandard", "snappy": "snappy", "deflate": "deflate"}
_NO_CODECS: Final = ("none", "null", "uncompressed")

_NEVER_NEGATIVE: Final = frozenset(
    {"file_size", "row_count", "num_added_files", "num_deleted_files", "level"}
)


def parse_manifest_list(data: bytes, source: str, *, limits: Limits = DEFAULT_LIMITS) -> pa.Table:
    """Read a manifest list of any writer; ``source`` names the file in errors."""
    table = _read(data, _LISTS, LIST_COLUMNS.names, source, limits)
    _check_names(table["file_name"], source)
    return table


def parse_manifest(
    data: bytes, source: str, columns: Sequence[str] | None = None, *, limits: Limits = DEFAULT_LIMITS
) -> pa.Table:
    """Read the entries of a manifest, or some of their columns."""
    names = ENTRY_COLUMNS.names if columns is None else list(columns)
    return _read(data, _MANIFESTS, names, source, limits)


def parse_index_manifest(data: bytes, source: str, *, limits: Limits = DEFAULT_LIMITS) -> pa.Table:
    """Read an index manifest: all index files of a snapshot."""
    table = _read(data, _INDEXES, INDEX_COLUMNS.names, source, limits)
    _check_names(table["file_name"], source)
    if pc.any(pc.not_equal(table["kind"], ADD)).as_py():
        raise InvalidMetadata("an index manifest is a list of files, and cannot delete any", source=source)
    return table


def _read(data: bytes, file: _File, names: Sequence[str], source: str, limits: Limits) -> pa.Table:
    fields, version = file
    wanted = {"version", *names}
    found = {each.column: each for each in leaves(fields)}
    picks = [
        Pick(each.column, each.path, type=None if _is_nested(each.arrow) else each.arrow)
        for each in found.values()
        if each.column in wanted
    ]
    table = read_avro(data, picks, source=source, limits=limits).table
    _check_version(table["version"], version, source)
    columns = []
    for name in names:
        leaf = found[name]
        column = table[name]
        if column.null_count and not leaf.optional:
            raise InvalidMetadata("an entry does not tell it", source=source, field=leaf.path[-1])
        if name in _NEVER_NEGATIVE and len(column) and (least := pc.min(column).as_py()) < 0:
            raise InvalidMetadata(f"it is negative: {least}", source=source, field=leaf.path[-1])
        columns.append(_fitting(column, leaf.arrow, source, leaf.path[-1]))
    schema = pa.schema([pa.field(name, found[name].arrow) for name in names])
    _check_kinds(dict(zip(names, columns, strict=True)).get("kind"), source)
    return pa.Table.from_arrays(columns, schema=schema)


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_struct(kind))


def _fitting(column: pa.ChunkedArray, wanted: pa.DataType, source: str, field: str) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), wanted)], wanted)
    try:
        return _cast(column.combine_chunks(), wanted)
    except (pa.ArrowException, TypeError, KeyError) as error:
        raise InvalidMetadata(f"is {column.type} in the file: {error}", source=source, field=field) from None


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.ChunkedArray:
    """Lists and records that other writers give other names, or fewer fields."""
    if pa.types.is_list(wanted) and pa.types.is_struct(wanted.value_type):
        items = _struct(column.values, wanted.value_type)
        mask = pc.is_null(column) if column.null_count else None
        return pa.chunked_array([pa.ListArray.from_arrays(column.offsets, items, wanted, mask=mask)])
    if pa.types.is_struct(wanted):
        return pa.chunked_array([_struct(column, wanted)])
    return pa.chunked_array([column.cast(wanted)])


def _struct(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    parts = []
    for field in wanted:
        position = column.type.get_field_index(field.name)
        missing = position < 0
        parts.append(
            pa.nulls(len(column), field.type) if missing else column.field(position).cast(field.type)
        )
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)


def _check_version(column: pa.ChunkedArray, version: int, source: str) -> None:
    for found in pc.unique(column).to_pylist():
        if found == version:
            continue
        if found is not None and found < version:
            hint = "Such tables were made by a preview of Paimon: create the table again"
            raise UnsupportedVersion(f"version {found} is not read any more", source=source, hint=hint)
        raise UnsupportedVersion(
            f"entries of version {found}, not {version}", source=source, field="_VERSION"
        )


def _check_kinds(column: pa.ChunkedArray | None, source: str) -> None:
    kinds = [] if column is None else pc.unique(column).to_pylist()
    if not {ADD, DELETE}.issuperset(kinds):
        raise InvalidMetadata(f"a kind is none of 0 and 1: {kinds}", source=source, field="_KIND")


def _check_names(column: pa.ChunkedArray, source: str) -> None:
    for name in column.to_pylist():
        try:
            check_file_name(name, "_FILE_NAME")
        except InvalidMetadata as error:
            raise InvalidMetadata(error.problem, source=source, field=error.field) from None


# Writing.


def serialize_manifest_list(manifests: pa.Table, *, compression: str = "zstd") -> bytes:
    """Write a manifest list."""
    later = [each.column for each in leaves(LIST_OF_LATER)[len(leaves(LIST)) :]]
    fields = LIST_OF_LATER if _any_told(manifests, later) else LIST
    return _write(manifests, _File(fields, MANIFEST_VERSION), LIST_COLUMNS, compression)


def serialize_manifest(entries: pa.Table, *, compression: str = "zstd") -> bytes:
    """Write a manifest."""
    fields = ENTRY_OF_LATER if _any_told(entries, ["write_cols_sequences"]) else ENTRY
    return _write(entries, _File(fields, MANIFEST_VERSION), ENTRY_COLUMNS, compression)


def serialize_index_manifest(files: pa.Table, *, compression: str = "zstd") -> bytes:
    """Write an index manifest."""
    fields = INDEX_OF_LATER if _any_told(files, ["global_index"]) else INDEX
    return _write(files, _File(fields, INDEX_VERSION), INDEX_COLUMNS, compression)


def _any_told(table: pa.Table, names: Sequence[str]) -> bool:
    return any(name in table.column_names and table[name].null_count < table.num_rows for name in names)


def _write(table: pa.Table, file: _File, columns: pa.Schema, compression: str) -> bytes:
    fields, version = file
    missing = [
        each.column
        for each in leaves(fields)
        if each.column not in ("version", *table.column_names) and not each.optional
    ]
    if missing:
        raise InvalidInput(f"there are no columns {', '.join(missing)}")
    if strange := set(table.column_names) - set(columns.names):
        raise InvalidInput(f"there are columns {', '.join(sorted(strange))}, which no file has")
    versions = pa.repeat(pa.scalar(version, pa.int32()), table.num_rows)
    told = table.append_column("version", versions)
    rows = pa.table({each.name: _column(told, each) for each in fields})
    return write_avro(rows, avro_schema(fields), metadata={}, codec=_codec(compression))


def _column(table: pa.Table, field: Told) -> pa.Array:
    """A column as it is in the file: records are structs."""
    if field.column:
        if field.column not in table.column_names:
            return pa.nulls(table.num_rows, field.arrow)
        column = table[field.column].combine_chunks()
        if column.null_count and not field.optional:
            raise InvalidInput("an entry does not tell it", field=field.column)
        # A logical type of Avro counts from the epoch in UTC; here it is the clock on the writer's wall.
        return column.cast(pa.timestamp("ms", "UTC")) if pa.types.is_timestamp(column.type) else column
    parts = [_column(table, each) for each in field.avro]
    return pa.StructArray.from_arrays(parts, names=[each.name for each in field.avro])


def _codec(compression: str) -> str:
    name = compression.lower()
    if name in _NO_CODECS:
        return "null"
    if name not in CODECS:
        hint = f"This release knows {', '.join(sorted(CODECS))} and none"
        raise NotSupported(f"manifest.compression = {compression!r:.40}", field="options", hint=hint)
    return CODECS[name]


def entry_rows(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Entries of manifests from their values by the names of ``ENTRY_COLUMNS``; what is left out is null."""
    return pa.Table.from_pylist(list(rows), ENTRY_COLUMNS)
