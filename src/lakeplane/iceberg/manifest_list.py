"""Manifest lists: which manifests make up a snapshot, and what is known of each without opening it.

A list is an Arrow table with the columns ``LIST_COLUMNS`` and one row per manifest, so that a plan can skip
manifests, and a commit can carry them over, without an object for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.avro.read import Pick, read_avro
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg.manifest_schema import (
    DATA_MANIFEST,
    DELETE_MANIFEST,
    LIST_COLUMNS,
    LIST_FIELD_IDS,
    list_avro,
    list_fields,
)

NO_MANIFESTS: Final = LIST_COLUMNS.empty_table()

_COUNTS: Final = tuple(name for name in LIST_COLUMNS.names if name.endswith("_count"))
_NEVER_NEGATIVE: Final = (
    "manifest_length",
    "sequence_number",
    "min_sequence_number",
    *_COUNTS,
    "first_row_id",
)
_ZERO_IN_V1: Final = ("content", "sequence_number", "min_sequence_number")
_HIGHEST_ROW_ID: Final = 2**63 - 1


class FieldSummary(msgspec.Struct, frozen=True):
    """What all partitions in a manifest have in one partition field."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest, as a manifest list tells of it.

    The sequence number of a manifest that no commit has published yet is ``None``: the commit gives it.
    """

    manifest_path: str
    manifest_length: int | None
    """None, like the next two, for a manifest that a v1 snapshot names itself."""
    partition_spec_id: int | None
    content: int = DATA_MANIFEST
    sequence_number: int | None = None
    min_sequence_number: int | None = None
    added_snapshot_id: int | None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None


def list_table(manifests: Sequence[ManifestFile]) -> pa.Table:
    """Manifests as rows of a list."""
    return pa.Table.from_pylist(
        [msgspec.to_builtins(each, builtin_types=(bytes,)) for each in manifests], LIST_COLUMNS
    )


def manifest_files(table: pa.Table) -> tuple[ManifestFile, ...]:
    """The rows of a list as manifests."""
    return msgspec.convert(table.to_pylist(), tuple[ManifestFile, ...])


def each_once(listed: pa.Table) -> pa.Table:
    """The manifests of several lists, each once: later snapshots carry those of earlier ones over."""
    firsts = dict(
        zip(reversed(listed["manifest_path"].to_pylist()), reversed(range(listed.num_rows)), strict=True)
    )
    return listed.take(pa.array(sorted(firsts.values()), pa.int64()))


def inline_list(paths: Sequence[str]) -> pa.Table:
    """The list of a v1 snapshot that names its manifests itself; they tell the rest when they are read."""
    count = len(paths)
    known: dict[str, Any] = {
        "manifest_path": list(paths),
        "content": [DATA_MANIFEST] * count,
        "sequence_number": [0] * count,
        "min_sequence_number": [0] * count,
    }
    columns = [pa.array(known.get(each.name, [None] * count), each.type) for each in LIST_COLUMNS]
    return pa.Table.from_arrays(columns, schema=LIST_COLUMNS)


def parse_manifest_list(data: bytes, source: str) -> pa.Table:
    """Read a manifest list of any version; ``source`` names the file in errors."""
    picks = [Pick(each.name, (LIST_FIELD_IDS[each.name],), type=each.type) for each in LIST_COLUMNS]
    table = read_avro(data, picks, source=source).table
    try:
        table = table.cast(LIST_COLUMNS)
    except pa.ArrowInvalid:
        problem = "a summary leaves out what it must tell"
        raise InvalidMetadata(problem, source=source, field="partitions") from None
    for name in _ZERO_IN_V1:
        # Lists of v1 have none of these: their manifests are older than all sequence numbers.
        table = _set(table, name, pc.fill_null(table[name], pa.scalar(0, LIST_COLUMNS.field(name).type)))
    _check(table, source)
    return table


def _check(table: pa.Table, source: str) -> None:
    for name in ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id"):
        if table[name].null_count:
            raise InvalidMetadata("a manifest without it is listed", source=source, field=name)
    kinds = pc.unique(table["content"]).to_pylist()
    if not {DATA_MANIFEST, DELETE_MANIFEST}.issuperset(kinds):
        raise InvalidMetadata(f"a content is none of 0 and 1: {kinds}", source=source, field="content")
    for name in _NEVER_NEGATIVE:
        least = pc.min(table[name]).as_py()
        if least is not None and least < 0:
            raise InvalidMetadata(f"it is negative: {least}", source=source, field=name)
    paths = table["manifest_path"]
    if pc.count_distinct(paths).as_py() != table.num_rows:
        raise InvalidMetadata("a manifest is listed twice", source=source, field="manifest_path")


def _set(table: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def publish_list(table: pa.Table, sequence_number: int, first_row_id: int | None) -> tuple[pa.Table, int]:
    """Give numbers to the manifests that have none, and count the row ids that they take.

    From v3 on, each data manifest without a first row id gets the next one, and takes as many as it has added
    and existing rows, so that rows of files without ids of their own get theirs by their place.
    """
    number = pa.scalar(sequence_number, pa.int64())
    for name in ("sequence_number", "min_sequence_number"):
        table = _set(table, name, pc.fill_null(table[name], number))
    if first_row_id is None:
        return table, 0
    given = table["first_row_id"].combine_chunks()
    data = pc.equal(table["content"], DATA_MANIFEST).combine_chunks()
    open_ = pc.and_(data, pc.is_null(given))
    counts = [table[name] for name in ("added_rows_count", "existing_rows_count")]
    unknown = table.filter(pc.and_(open_, pc.or_(*map(pc.is_null, counts))))
    if unknown.num_rows:
        hint = "Read the manifest, and complete its counts"
        path = unknown["manifest_path"][0].as_py()
        raise InvalidInput("nobody knows how many row ids it takes", source=path, hint=hint)
    rows = pc.add(*(pc.fill_null(column, 0) for column in counts))
    taken = np.where(open_.to_numpy(zero_copy_only=False), rows.to_numpy(), 0)
    if first_row_id + float(taken.sum(dtype=np.float64)) > _HIGHEST_ROW_ID:
        raise InvalidInput("there are more rows than ids", field="first_row_id")
    starts = pa.array(first_row_id + np.cumsum(taken) - taken, pa.int64())
    return _set(table, "first_row_id", pc.if_else(open_, starts, given)), int(taken.sum())


def as_read(table: pa.Table, format_version: int) -> pa.Table:
    """A list as it will be read once it is written: without what its format version has no place for."""
    written = {field.name for field in list_fields(format_version)}
    for name in LIST_COLUMNS.names:
        if name not in written:
            kind = LIST_COLUMNS.field(name).type
            nothing = pa.scalar(0 if name in _ZERO_IN_V1 else None, kind)
            table = _set(table, name, pa.repeat(nothing, table.num_rows))
    return table


def serialize_manifest_list(
    table: pa.Table,
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
    level: int | None = None,
) -> bytes:
    """Write a manifest list whose manifests have their numbers."""
    if format_version == 1 and pc.any(pc.not_equal(table["content"], DATA_MANIFEST)).as_py():
        # The list could not tell what they hold, and deleted rows would be read as rows.
        raise InvalidInput("v1 tables have no deletes", field="content", hint="Upgrade the table to v2")
    metadata = {"snapshot-id": str(snapshot_id), "parent-snapshot-id": _text(parent_snapshot_id)}
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    if first_row_id is not None:
        metadata["first-row-id"] = str(first_row_id)
    metadata["format-version"] = str(format_version)
    table = table.select([field.name for field in list_fields(format_version)])
    return write_avro(table, list_avro(format_version), metadata=metadata, codec=codec, level=level)


def _text(value: int | None) -> str:
    return "null" if value is None else str(value)
