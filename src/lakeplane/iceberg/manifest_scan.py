"""Reading many manifests at once, and none of them twice.

What a manifest holds never changes, so what was decoded is kept, and it is kept in pieces that stay the
same when the table grows. A *batch* is a large manifest, or some small ones, as the work on a batch costs
about the same for ten files as for a thousand. A *stack* is many batches seen as one table, so that a plan
has few tables to look at. Both are formed from the oldest manifest on: a commit adds to the last ones and
leaves the others as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_list import (
    NO_MANIFESTS,
    ManifestFile,
    inline_list,
    manifest_files,
    parse_manifest_list,
)
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETED
from lakeplane.iceberg.manifests import DATA_FACTS, DELETE_FACTS, STATISTICS, read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.parallel import in_parallel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WORKERS: Final = 2
"""Batches that are decoded at a time, unless whoever reads knows how many cores there are."""

_BATCH_FILES: Final = 2_000
_BATCH_MANIFESTS: Final = 64
_STACK_FILES: Final = 50_000
_WINDOW_BYTES: Final = 64 << 20
"""So much is fetched before it is decoded."""

_FACTS: Final = "facts"


class Reading(NamedTuple):
    """How the files of a table are read, and where what they hold is kept."""

    read_many: Callable[[Sequence[str]], list[bytes]]
    """From locations to the bytes there."""
    cache: ManifestCache
    workers: int = WORKERS


class Batch(NamedTuple):
    """Manifests of one spec and one content that are read together."""

    manifests: tuple[ManifestFile, ...]
    files: int
    key: str


class Stack(NamedTuple):
    """The live entries of many manifests of one spec and one content."""

    spec_id: int
    content: int
    files: pa.Table
    key: str
    """What tells these entries from all others."""


def list_manifests(snapshot: Snapshot | None, reading: Reading) -> pa.Table:
    """The manifest list of a snapshot."""
    if snapshot is None:
        return NO_MANIFESTS
    if snapshot.key_id is not None:
        raise NotSupported("its manifest list is encrypted", field=f"snapshot {snapshot.snapshot_id}")
    path = snapshot.manifest_list
    if path is None:
        if snapshot.manifests is None:
            problem = "it names neither a manifest list nor manifests, so that its rows cannot be found"
            raise InvalidMetadata(problem, field=f"snapshot {snapshot.snapshot_id}")
        return inline_list(snapshot.manifests)

    def read() -> pa.Table:
        [data] = reading.read_many([path])
        return parse_manifest_list(data, path)

    return reading.cache.table((path,), read)


def remember_list(path: str, listed: pa.Table, reading: Reading) -> None:
    """Keep a manifest list that was written just now: the next commit starts from it."""
    reading.cache.put((path,), listed, listed.nbytes)


def scan(
    listed: pa.Table,
    wanted: Sequence[bool] | npt.NDArray[np.bool_],
    table: TableMetadata,
    reading: Reading,
    field_ids: Callable[[int], Iterable[int]] = lambda _: (),
) -> list[Stack]:
    """Read the live entries of the manifests in a list that are wanted, and perhaps of others beside them.

    ``field_ids`` gives for a content of manifests the fields whose statistics are read.
    """
    manifests = manifest_files(listed)
    paths = {each.manifest_path for each, is_wanted in zip(manifests, wanted, strict=True) if is_wanted}
    chosen = [
        batch for batch in batches(manifests) if any(each.manifest_path in paths for each in batch.manifests)
    ]
    stacks = [(stack, sorted(field_ids(stack[0].manifests[0].content))) for stack in _stacks(chosen)]
    # What is found is held: what is read next may take its place in the cache.
    found = [_recall(_key(stack), ids, reading.cache) if len(stack) > 1 else None for stack, ids in stacks]
    missing = [
        (batch, ids)
        for (stack, ids), files in zip(stacks, found, strict=True)
        if files is None
        for batch in stack
    ]
    known = _read_batches(missing, table, reading)
    return [
        _stack(stack, _joined(stack, known, ids, reading.cache) if files is None else files)
        for (stack, ids), files in zip(stacks, found, strict=True)
    ]


def batches(manifests: Sequence[ManifestFile]) -> list[Batch]:
    """Part the manifests of a list into what is read together."""
    groups: dict[tuple[int | None, int], list[ManifestFile]] = {}
    # Lists begin with the newest, and v1 has no numbers to tell.
    newest_last = manifests[::-1]
    oldest_first = sorted(newest_last, key=lambda each: each.sequence_number or 0)
    for each in oldest_first:
        groups.setdefault((each.partition_spec_id, each.content), []).append(each)
    return [batch for group in groups.values() for batch in _cut(group)]


def _cut(manifests: Sequence[ManifestFile]) -> Iterator[Batch]:
    waiting: list[ManifestFile] = []
    files = 0
    for each in manifests:
        count = live_files(each)
        if count is None or count >= _BATCH_FILES or each.partition_spec_id is None:
            yield _batch([each], count or 0)
            continue
        if files + count > _BATCH_FILES or len(waiting) == _BATCH_MANIFESTS:
            yield _batch(waiting, files)
            waiting, files = [], 0
        waiting.append(each)
        files += count
    if waiting:
        yield _batch(waiting, files)


def live_files(manifest: ManifestFile) -> int | None:
    """How many files a manifest holds that are part of the table; None if the list does not tell."""
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        return None
    return manifest.added_files_count + manifest.existing_files_count


def _batch(manifests: Sequence[ManifestFile], files: int) -> Batch:
    # Rows inherit what the list tells of their manifest, so that is part of what they are.
    facts = [
        f"{m.manifest_path}|{m.manifest_length}|{m.sequence_number}|{m.first_row_id}|{m.added_snapshot_id}"
        for m in manifests
    ]
    return Batch(tuple(manifests), files, _hash(facts))


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _stacks(found: Sequence[Batch]) -> list[tuple[Batch, ...]]:
    """Batches that are next to each other, as many as make a stack."""
    stacks: list[list[Batch]] = []
    files, last = 0, None
    for batch in found:
        first = batch.manifests[0]
        kind = (first.partition_spec_id, first.content)
        if not stacks or kind != last or first.partition_spec_id is None or files >= _STACK_FILES:
            stacks.append([])
            files = 0
        stacks[-1].append(batch)
        files, last = files + batch.files, kind
    return [tuple(stack) for stack in stacks]


def _key(stack: Sequence[Batch]) -> str:
    return stack[0].key if len(stack) == 1 else _hash(batch.key for batch in stack)


def _joined(
    stack: Sequence[Batch], known: dict[str, pa.Table], ids: Sequence[int], cache: ManifestCache
) -> pa.Table:
    """The batches of a stack as one table, which is kept."""
    if len(stack) == 1:
        return known[stack[0].key]
    files = concat([known[batch.key] for batch in stack])
    for part, names in _parts(files, ids):
        own = files.select(names)
        cache.put((_key(stack), part), own, own.nbytes)
    return files


def _stack(stack: Sequence[Batch], files: pa.Table) -> Stack:
    first = stack[0].manifests[0]
    spec_id = first.partition_spec_id
    if spec_id is None:
        spec_id = files["spec_id"][0].as_py() if files.num_rows else 0
    return Stack(spec_id, first.content, files, _key(stack))


def _recall(key: str, ids: Sequence[int], cache: ManifestCache) -> pa.Table | None:
    """What is kept of a stack, if it is all there."""
    parts = [cache.get((key, part)) for part in (_FACTS, *map(str, ids))]
    return None if any(part is None for part in parts) else _beside(parts)


class _Part(NamedTuple):
    """What is kept of a batch, and what has to be read."""

    batch: Batch
    kept: list[pa.Table]
    columns: tuple[str, ...]
    field_ids: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return not self.columns and not self.field_ids


def _read_batches(
    wanted: Sequence[tuple[Batch, Sequence[int]]], table: TableMetadata, reading: Reading
) -> dict[str, pa.Table]:
    """The live entries of batches by their keys: the facts of files, and the statistics of some fields."""
    parts = [_recall_batch(batch, ids, reading.cache) for batch, ids in wanted]
    known = {part.batch.key: _beside(part.kept) for part in parts if part.is_whole}
    for window in _windows([part for part in parts if not part.is_whole]):
        # All of a window is fetched at once, as stores answer many questions as fast as one.
        paths = [each.manifest_path for part in window for each in part.batch.manifests]
        contents = iter(reading.read_many(paths))
        work = [(part, [next(contents) for _ in part.batch.manifests]) for part in window]
        tables = in_parallel(lambda each: _complete(*each, table, reading.cache), work, reading.workers)
        known |= {part.batch.key: found for part, found in zip(window, tables, strict=True)}
    return known


def _recall_batch(batch: Batch, ids: Sequence[int], cache: ManifestCache) -> _Part:
    kept = {part: cache.recall((batch.key, part)) for part in (_FACTS, *map(str, ids))}
    facts = DATA_FACTS if batch.manifests[0].content == DATA_MANIFEST else DELETE_FACTS
    return _Part(
        batch,
        [found for found in kept.values() if found is not None],
        facts if kept[_FACTS] is None else (),
        tuple(field_id for field_id in ids if kept[str(field_id)] is None),
    )


def _windows(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    waiting: list[_Part] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += sum(each.manifest_length or 0 for each in part.batch.manifests)
        if size >= _WINDOW_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _complete(part: _Part, contents: Sequence[bytes], table: TableMetadata, cache: ManifestCache) -> pa.Table:
    entries = _decode(part, contents, table)
    kept = list(part.kept)
    for name, columns in _parts(entries, part.field_ids):
        if name != _FACTS or part.columns:
            kept.append(entries.select(columns))
            cache.keep((part.batch.key, name), kept[-1])
    return _beside(kept)


def _parts(entries: pa.Table, ids: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
    """The columns that are kept together: the facts, and the statistics of each field."""
    yield _FACTS, [name for name in entries.column_names if "." not in name]
    for field_id in ids:
        yield str(field_id), [f"{name}.{field_id}" for name in STATISTICS]


def _beside(parts: Sequence[pa.Table]) -> pa.Table:
    if len(parts) == 1:
        return parts[0]
    return pa.table({name: each[name] for each in parts for name in each.column_names})


def _decode(part: _Part, contents: Sequence[bytes], table: TableMetadata) -> pa.Table:
    tables = []
    for data, listed in zip(contents, part.batch.manifests, strict=True):
        if listed.key_metadata is not None:
            raise NotSupported("the manifest is encrypted", source=listed.manifest_path)
        found = read_manifest(data, listed, table, columns=part.columns, statistics_of=part.field_ids)
        spec = pa.repeat(pa.scalar(found.spec_id, pa.int32()), found.entries.num_rows)
        tables.append(found.entries.append_column("spec_id", spec))
    entries = concat(tables)
    live = entries["status"].to_numpy() != DELETED
    if not live.all():
        entries = entries.filter(pa.array(live))
    return entries.combine_chunks()


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables one below the other, with the partitions of different specs brought to the same fields."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidMetadata(f"manifests of one table differ in their columns: {error}") from error
