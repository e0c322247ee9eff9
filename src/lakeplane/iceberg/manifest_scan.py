"""Reading many manifests: in batches, several batches at a time, and none of them twice.

What a manifest holds never changes, so what was decoded is kept. It is kept by batch: a large manifest is a batch
of its own, small ones are read together, as the work on a batch costs about the same for ten files as for a
thousand. Batches are formed from the oldest manifest on, so that a commit adds to the last one and leaves the others
as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_list import (
    NO_MANIFESTS,
    ManifestFile,
    inline_list,
    manifest_files,
    parse_manifest_list,
)
from lakeplane.iceberg.manifest_schema import DELETED
from lakeplane.iceberg.manifests import FILE_FACTS, STATISTICS, read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot

WORKERS: Final = 8
"""Batches in work at a time. Decoding lets go of the interpreter, and fetching waits for the store."""

_BATCH_FILES: Final = 2_000
_BATCH_MANIFESTS: Final = 64


class Reading(NamedTuple):
    """How the files of a table are read, and where what they hold is kept."""

    read_many: Callable[[Sequence[str]], list[bytes]]
    cache: ManifestCache
    workers: int = WORKERS


class Batch(NamedTuple):
    """Manifests of one spec and one content that are read together."""

    manifests: tuple[ManifestFile, ...]
    key: str


def list_manifests(snapshot: Snapshot | None, reading: Reading) -> pa.Table:
    """The manifest list of a snapshot."""
    if snapshot is None:
        return NO_MANIFESTS
    if snapshot.key_id is not None:
        raise NotSupported("its manifest list is encrypted", field=f"snapshot {snapshot.snapshot_id}")
    path = snapshot.manifest_list
    if path is None:
        return inline_list(snapshot.manifests or ())

    def read() -> pa.Table:
        [data] = reading.read_many([path])
        return parse_manifest_list(data, path)

    return reading.cache.table((path,), read)


def batches(listed: pa.Table) -> list[Batch]:
    """Part the rows of a manifest list into what is read together."""
    groups: dict[tuple[int | None, int], list[ManifestFile]] = {}
    # Lists begin with the newest, and v1 has no numbers to tell.
    oldest_first = sorted(reversed(manifest_files(listed)), key=lambda each: each.sequence_number or 0)
    for each in oldest_first:
        groups.setdefault((each.partition_spec_id, each.content), []).append(each)
    return [batch for group in groups.values() for batch in _cut(group)]


def _cut(manifests: Sequence[ManifestFile]) -> Iterator[Batch]:
    waiting: list[ManifestFile] = []
    files = 0
    for each in manifests:
        count = live_files(each)
        if count is None or count >= _BATCH_FILES or each.partition_spec_id is None:
            yield _batch([each])
            continue
        if files + count > _BATCH_FILES or len(waiting) == _BATCH_MANIFESTS:
            yield _batch(waiting)
            waiting, files = [], 0
        waiting.append(each)
        files += count
    if waiting:
        yield _batch(waiting)


def live_files(manifest: ManifestFile) -> int | None:
    """How many files a manifest holds that are part of the table; None if the list does not tell."""
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        return None
    return manifest.added_files_count + manifest.existing_files_count


def _batch(manifests: Sequence[ManifestFile]) -> Batch:
    # Rows inherit what the list tells of their manifest, so that is part of what they are.
    facts = [
        f"{m.manifest_path}|{m.manifest_length}|{m.sequence_number}|{m.first_row_id}|{m.added_snapshot_id}"
        for m in manifests
    ]
    return Batch(tuple(manifests), hashlib.sha256("\n".join(facts).encode()).hexdigest())


def read_batch(batch: Batch, table: TableMetadata, reading: Reading, field_ids: Iterable[int] = ()) -> pa.Table:
    """The live entries of a batch: the facts of files, and the statistics of some fields."""
    cache, ids = reading.cache, sorted(field_ids)
    parts = {part: cache.recall((batch.key, part)) for part in (_FACTS, *map(str, ids))}
    missing = [part for part, found in parts.items() if found is None]
    if missing:
        wanted = [field_id for field_id in ids if str(field_id) in missing]
        entries = _read(batch, table, reading, FILE_FACTS if _FACTS in missing else (), wanted)
        for part in missing:
            names = _statistics_names(int(part)) if part != _FACTS else _fact_names(entries)
            parts[part] = entries.select(names)
            cache.keep((batch.key, part), parts[part])
    facts = parts.pop(_FACTS)
    columns = {name: each[name] for each in (facts, *parts.values()) for name in each.column_names}
    return pa.table(columns)


_FACTS: Final = "facts"


def _statistics_names(field_id: int) -> list[str]:
    return [f"{name}.{field_id}" for name in STATISTICS]


def _fact_names(entries: pa.Table) -> list[str]:
    return [name for name in entries.column_names if "." not in name]


def _read(
    batch: Batch, table: TableMetadata, reading: Reading, columns: Sequence[str], field_ids: Sequence[int]
) -> pa.Table:
    encrypted = next((each for each in batch.manifests if each.key_metadata is not None), None)
    if encrypted is not None:
        raise NotSupported("the manifest is encrypted", source=encrypted.manifest_path)
    contents = reading.read_many([each.manifest_path for each in batch.manifests])
    tables = []
    for data, listed in zip(contents, batch.manifests, strict=True):
        found = read_manifest(data, listed, table, columns=columns, statistics_of=field_ids)
        spec = pa.repeat(pa.scalar(found.spec_id, pa.int32()), found.entries.num_rows)
        tables.append(found.entries.append_column("spec_id", spec))
    entries = concat(tables)
    return entries.filter(pc.not_equal(entries["status"], DELETED)).combine_chunks()


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables one below the other, with the partitions of different specs brought to the same fields."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidMetadata(f"manifests of one table differ in their columns: {error}") from error
