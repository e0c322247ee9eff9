"""Metadata tables of manifests: what lists tell of them, with the partitions in them as texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.fetch_windows import UNKNOWN_BYTES, fetch_all
from lakeplane.iceberg.inspect_files import all_lists, check_plain
from lakeplane.iceberg.manifest_list import ManifestFile, list_table, manifest_files
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST
from lakeplane.iceberg.manifests import count_entries, read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import plain
from lakeplane.model.partitioning import PartitionField
from lakeplane.model.transforms import result_type, to_human
from lakeplane.model.value_bytes import from_bytes

_AS_LISTED: Final = ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")
_COUNTS: Final = ("added", "existing", "deleted")


def manifests(table: TableMetadata, snapshot: Snapshot | None, reading: Reading) -> pa.Table:
    """The manifests of one snapshot."""
    schema = schemas.arrow(schemas.MANIFESTS)
    if snapshot is None:
        return schema.empty_table()
    [listed] = _lists(table, [snapshot], reading)
    return pa.Table.from_arrays(_columns(listed, table), schema=schema)


def all_manifests(table: TableMetadata, reading: Reading) -> pa.Table:
    """The manifests of all snapshots, each of them once for every snapshot that lists it."""
    schema = schemas.arrow(schemas.ALL_MANIFESTS)
    lists = _lists(table, table.snapshots, reading)
    if not lists:
        return schema.empty_table()
    snapshot_ids = [each.snapshot_id for each in table.snapshots]
    references = np.repeat(np.array(snapshot_ids, np.int64), [each.num_rows for each in lists])
    listed = pa.concat_tables(lists)
    columns = [*_columns(listed, table), pa.array(references), plain(listed["key_metadata"])]
    return pa.Table.from_arrays(columns, schema=schema)


def _lists(table: TableMetadata, snapshots: Sequence[Snapshot], reading: Reading) -> list[pa.Table]:
    """The lists of snapshots, with what v1 may leave out as the manifests themselves tell it."""
    lists = all_lists(snapshots, reading)
    unsaid = {each.manifest_path: each for listed in lists for each in _incomplete(listed)}
    check_plain(list(unsaid.values()))

    def read(listed: ManifestFile, contents: list[bytes]) -> _Told:
        [data] = contents
        found = read_manifest(data, listed, table, columns=())
        return _Told(len(data), found.spec_id, count_entries(found.entries).files)

    found = fetch_all(
        list(unsaid.values()),
        lambda each: [each.manifest_path],
        lambda each: each.manifest_length or UNKNOWN_BYTES,
        read,
        reading,
    )
    told = dict(zip(unsaid, found, strict=True))
    return [_filled(listed, snapshot, told) for listed, snapshot in zip(lists, snapshots, strict=True)]


class _Told(NamedTuple):
    """What a manifest tells of itself; the files by status: existing, added, deleted."""

    length: int
    spec_id: int
    files: tuple[int, int, int]


def _incomplete(listed: pa.Table) -> Iterable[ManifestFile]:
    known = [pc.is_valid(listed[name]).to_numpy() for name in _OFTEN_UNSAID]
    return manifest_files(listed.filter(pa.array(~np.logical_and.reduce(known))))


_OFTEN_UNSAID: Final = ("manifest_length", *(f"{each}_files_count" for each in _COUNTS))


def _filled(listed: pa.Table, snapshot: Snapshot, told: Mapping[str, _Told]) -> pa.Table:
    if not told:
        return listed
    return list_table(
        [_fill(each, snapshot, told.get(each.manifest_path)) for each in manifest_files(listed)]
    )


def _fill(listed: ManifestFile, snapshot: Snapshot, told: _Told | None) -> ManifestFile:
    if told is None:
        return listed
    existing, added, deleted = told.files
    author = listed.added_snapshot_id
    return msgspec.structs.replace(
        listed,
        manifest_length=told.length,
        partition_spec_id=told.spec_id,
        # A v1 snapshot that names its manifests itself does not tell who wrote them.
        added_snapshot_id=snapshot.snapshot_id if author is None else author,
        added_files_count=added,
        existing_files_count=existing,
        deleted_files_count=deleted,
    )


def _columns(listed: pa.Table, table: TableMetadata) -> list[pa.Array]:
    content = plain(listed["content"])
    columns = [content, *(plain(listed[name]) for name in _AS_LISTED)]
    for kind in (DATA_MANIFEST, DELETE_MANIFEST):
        is_kind = pc.equal(content, kind)
        for which in _COUNTS:
            count = plain(listed[f"{which}_files_count"])
            columns.append(pc.if_else(is_kind, count, pa.scalar(0, count.type)))
    return [*columns, _summaries(listed, table)]


# Summaries


def _summaries(listed: pa.Table, table: TableMetadata) -> pa.Array:
    """What lists tell of each partition field; nothing told is an empty list."""
    column = plain(listed["partitions"])
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    found = column.flatten()
    spec_ids = np.repeat(plain(listed["partition_spec_id"]).to_numpy(), lengths)
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(found)) - np.repeat(starts, lengths)
    texts = {
        name: _texts(found.field(name), spec_ids, positions, table) for name in ("lower_bound", "upper_bound")
    }
    schema = schemas.arrow(schemas.MANIFESTS)
    type_ = schema.field("partition_summaries").type
    members = [texts.get(each.name, found.field(each.name)) for each in type_.value_type]
    structs = pa.StructArray.from_arrays(members, fields=list(type_.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, type_)


def _texts(
    raw: pa.Array, spec_ids: npt.NDArray[Any], positions: npt.NDArray[np.int64], table: TableMetadata
) -> pa.Array:
    """Bounds of partitions as texts, each distinct one written once."""
    texts: npt.NDArray[Any] = np.full(len(raw), None, object)
    specs = {spec.spec_id: spec for spec in table.partition_specs}
    for spec_id in np.unique(spec_ids).tolist():
        if spec_id not in specs:
            raise InvalidMetadata(f"a manifest of spec {spec_id} is listed", source=table.location)
        for position, field in enumerate(specs[spec_id].fields):
            rows = np.flatnonzero((spec_ids == spec_id) & (positions == position))
            coded = raw.take(pa.array(rows)).dictionary_encode()
            words = np.array([*_human(field, coded.dictionary.to_pylist(), table), None], object)
            texts[rows] = words[coded.indices.fill_null(len(words) - 1).to_numpy()]
    return pa.array(texts, pa.string())


def _human(field: PartitionField, values: Iterable[bytes], table: TableMetadata) -> list[str | None]:
    sources = (schema.get(field.source_id) for schema in table.schemas_newest_first)
    source = next((each for each in sources if each is not None), None)
    if source is None:
        return [None for _ in values]
    found: list[str | None] = []
    for raw in values:
        try:
            value = from_bytes(result_type(field.transform, source.type), raw)
            found.append(to_human(field.transform, source.type, value))
        except InvalidMetadata:  # what is not a value of its type is unknown, as for plans
            found.append(None)
    return found
