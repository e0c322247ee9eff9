"""Metadata tables of files: those of one snapshot or of all, alive or not, with what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import LimitExceeded, NotSupported
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.fetch_windows import UNKNOWN_BYTES, fetch_all
from lakeplane.iceberg.manifest_list import NO_MANIFESTS, ManifestFile, manifest_files
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, live_files
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST, DELETED, FILE_COLUMNS
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.readable_metrics import readable_metrics
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.unified_partitions import unify
from lakeplane.model.expressions.physical import plain
from lakeplane.model.parallel import in_parallel

ANY_CONTENT: Final = (DATA_MANIFEST, DELETE_MANIFEST)

MAX_CELLS: Final = 1 << 28
"""Columns of the table times files: each of them takes fifty bytes of readable metrics."""

_GROUP_FILES: Final = 2_000
_GROUP_MANIFESTS: Final = 64


def listed_in(snapshots: Sequence[Snapshot | None], reading: Reading) -> pa.Table:
    """The manifests that snapshots list, each of them once: as the last of the snapshots lists it."""
    lists = all_lists(snapshots, reading)
    if not lists:
        return NO_MANIFESTS
    if len(lists) == 1:
        return lists[0]
    listed = pa.concat_tables(lists)
    paths = plain(listed["manifest_path"])
    places = pa.table({"path": paths, "row": np.arange(len(paths))})
    rows = places.group_by("path", use_threads=False).aggregate([("row", "max")])["row_max"]
    return listed.take(rows)


def all_lists(snapshots: Sequence[Snapshot | None], reading: Reading) -> list[pa.Table]:
    """The manifest lists of snapshots; those that are not at hand are fetched together."""

    def path_of(snapshot: Snapshot | None) -> list[str]:
        if snapshot is None or snapshot.key_id is not None or snapshot.manifest_list is None:
            return []
        path = snapshot.manifest_list
        return [] if reading.cache.recall((path,)) is not None else [path]

    def read(snapshot: Snapshot | None, fetched: list[bytes]) -> pa.Table:
        near = reading._replace(read_many=lambda _: fetched) if fetched else reading
        return list_manifests(snapshot, near)

    return fetch_all(snapshots, path_of, lambda _: UNKNOWN_BYTES, read, reading)


def files(
    table: TableMetadata, listed: pa.Table, reading: Reading, contents: Sequence[int] = ANY_CONTENT
) -> pa.Table:
    """The live files of some manifests."""
    fields = schemas.files(table)
    schema = schemas.arrow(fields)
    wanted = [each for each in manifest_files(listed) if each.content in contents]
    found = _read_all(wanted, table, reading, live_only=True)
    columns = in_parallel(lambda each: _file_columns(each, schema, table), found, reading.workers)
    return _below(columns, schema)


def entries(table: TableMetadata, listed: pa.Table, reading: Reading) -> pa.Table:
    """All entries of some manifests, those of deleted files among them."""
    schema = schemas.arrow(schemas.entries(table))
    found = _read_all(manifest_files(listed), table, reading, live_only=False)
    columns = in_parallel(lambda each: _entry_columns(each, schema, table), found, reading.workers)
    return _below(columns, schema)


def _below(columns: Sequence[list[pa.Array]], schema: pa.Schema) -> pa.Table:
    tables = [pa.Table.from_arrays(each, schema=schema) for each in columns]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _file_columns(found: pa.Table, schema: pa.Schema, table: TableMetadata) -> list[pa.Array]:
    *own, metrics = schema
    measured = readable_metrics(found, table.schema, metrics.type)
    return [*(_whole(found[each.name]) for each in own), measured]


def _entry_columns(found: pa.Table, schema: pa.Schema, table: TableMetadata) -> list[pa.Array]:
    *own, data_file, metrics = schema
    members = [_whole(found[each.name]) for each in data_file.type]
    nested = pa.StructArray.from_arrays(members, fields=list(data_file.type))
    measured = readable_metrics(found, table.schema, metrics.type)
    return [*(_whole(found[each.name]) for each in own), nested, measured]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


# Reading


def _read_all(
    manifests: Sequence[ManifestFile], table: TableMetadata, reading: Reading, *, live_only: bool
) -> list[pa.Table]:
    """The entries of manifests, in their order and in tables of some size."""

    def read(group: Sequence[ManifestFile], contents: Sequence[bytes]) -> pa.Table:
        return _entries(group, contents, table, live_only=live_only)

    check_plain(manifests)
    tables = fetch_all(
        _groups(manifests),
        lambda group: [each.manifest_path for each in group],
        lambda group: sum(each.manifest_length or UNKNOWN_BYTES for each in group),
        read,
        reading,
    )
    found = [each for each in tables if each.num_rows]
    cells = sum(each.num_rows for each in found) * len(schemas.measured_columns(table.schema))
    if cells > MAX_CELLS:
        problem = f"the metrics of {cells} columns of files are more than {MAX_CELLS}"
        raise LimitExceeded(problem, source=table.location, hint="Look at fewer files: plan with a condition")
    return found


def _groups(manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
    """Manifests next to each other: the work on a group is about the same for ten files as for a thousand."""
    groups: list[list[ManifestFile]] = []
    room = 0
    for each in manifests:
        count = live_files(each) or 0
        if not groups or count > room or len(groups[-1]) == _GROUP_MANIFESTS:
            groups.append([])
            room = _GROUP_FILES
        groups[-1].append(each)
        room -= count
    return groups


def _entries(
    group: Sequence[ManifestFile], contents: Sequence[bytes], table: TableMetadata, *, live_only: bool
) -> pa.Table:
    tables = []
    for data, listed in zip(contents, group, strict=True):
        found = read_manifest(data, listed, table, columns=FILE_COLUMNS.names)
        read = found.entries
        if live_only:
            read = read.filter(pc.not_equal(read["status"], DELETED))
        # Formats are written in any case, and shown in one.
        read = _set(read, "file_format", pc.utf8_upper(read["file_format"]))
        read = _set(read, "partition", unify(_whole(read["partition"]), table, listed.manifest_path))
        spec = pa.repeat(pa.scalar(found.spec_id, pa.int32()), read.num_rows)
        tables.append(read.append_column("spec_id", spec))
    return pa.concat_tables(tables)


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def check_plain(manifests: Sequence[ManifestFile]) -> None:
    """Refuse encrypted manifests."""
    encrypted = next((each for each in manifests if each.key_metadata is not None), None)
    if encrypted is not None:
        raise NotSupported("the manifest is encrypted", source=encrypted.manifest_path)
