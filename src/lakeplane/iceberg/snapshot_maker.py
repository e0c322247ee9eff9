"""Making snapshots: from what a commit adds and removes to manifests, a manifest list and updates.

A maker belongs to one commit, however many attempts that takes. What it writes for one attempt serves the
next: manifests of new files, manifests that lost files, merged manifests. Only the manifest list is written
each time, as it holds the sequence number. So it knows all files that it wrote, and which of them an
attempt has named: what may be deleted afterwards is the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import CommitConflict, InvalidChange, NotSupported
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.file_removal import (
    Cut,
    DeleteRemoval,
    Removal,
    cut_data,
    cut_deletes,
    delete_keys,
    may_lose_deletes,
)
from lakeplane.iceberg.manifest_list import (
    ManifestFile,
    as_read,
    list_table,
    manifest_files,
    publish_list,
    serialize_manifest_list,
)
from lakeplane.iceberg.manifest_merge import (
    Group,
    MergedManifests,
    complete,
    merge_manifests,
    merge_rules,
    plan_merges,
)
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, remember_list
from lakeplane.iceberg.manifest_schema import ADDED, DATA_MANIFEST
from lakeplane.iceberg.manifest_write import Writing, parts_of, write_manifest, writing_of
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.pruning import manifests_may_hold, manifests_may_match
from lakeplane.iceberg.requirements import AssertRefSnapshotId, AssertTableUuid, Requirement
from lakeplane.iceberg.snapshot_summary import Counted, Manifests, summarize_commit
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.model.expressions.physical import Mask
from lakeplane.model.expressions.tree import FALSE
from lakeplane.model.frozen import EMPTY
from lakeplane.model.parallel import in_parallel

Proposal: TypeAlias = tuple[tuple[Requirement, ...], tuple[u.TableUpdate, ...]]

_WINDOW: Final = 64
"""So many manifests are fetched before they are looked at."""


class Outside(NamedTuple):
    """What making snapshots needs of the world."""

    reading: Reading
    put: Callable[[str, bytes], None]
    """Writes a new file whole."""
    place: Callable[[TableMetadata, str], str]
    """Where a metadata file of a name goes."""
    new_id: Callable[[], str]
    """A name that nobody else has."""
    new_snapshot_id: Callable[[], int]
    now_ms: Callable[[], int]
    engine: Mapping[str, str] = EMPTY
    """What summaries say of the writer."""


class Added(NamedTuple):
    """New files, and what their manifest tells of them beside that."""

    new: NewFiles
    content: int = DATA_MANIFEST
    sequence_number: int | None = None
    """The data sequence number that the files keep; without one they get that of the commit."""


class Edit(NamedTuple):
    """What one snapshot does to the files of its parent."""

    operation: str
    added: tuple[Added, ...] = ()
    removal: Removal = Removal()
    properties: Mapping[str, str] = EMPTY
    """What the summary says beside the counts."""


class Target(NamedTuple):
    """Where a snapshot goes."""

    branch: str = MAIN
    stage_only: bool = False
    """Nobody sees the snapshot before it is published."""


class _Without(NamedTuple):
    """What cutting a manifest led to."""

    left: ManifestFile
    removed: Counted


class AlreadyMade(Exception):
    """The snapshot of this commit is in the table: an earlier attempt has landed after all."""


class SnapshotMaker:
    """Makes the snapshot of one commit, as often as it takes."""

    def __init__(self, outside: Outside) -> None:
        """Nothing is written yet."""
        self.outside = outside
        self.snapshot_id = 0
        self.written: list[str] = []
        """All files that were written, in order."""
        self.named: dict[str, frozenset[str]] = {}
        """The manifests that each manifest list names."""
        self.looked_at: dict[int, frozenset[str]] = {}
        """Snapshots of others that are not in the way, and what they have deleted that is needed no more."""
        self._uid = outside.new_id()
        self._numbers = itertools.count()
        self._added: dict[object, tuple[ManifestFile, ...]] = {}
        self._cuts: dict[object, _Without | None] = {}
        self._completed: dict[str, ManifestFile] = {}
        self._merged = MergedManifests()

    # What a commit looks like

    def make(self, table: TableMetadata, edit: Edit, target: Target) -> Proposal:
        """Write what a snapshot needs on top of a table as it is, and propose it."""
        parent = parent_of(table, target.branch)
        writing = self.begin(table)
        manifests = self.manifests_of(parent, writing)
        new = self.add(edit.added, writing)
        kept, removed, replaced = self._remove(manifests, edit, new, writing)
        live = [each for each in (*new, *kept) if _is_kept(each, self.snapshot_id)]
        merged, merged_away = self._merge(live, writing)
        added = [Counted(each.new.spec_id, _counted(each)) for each in edit.added]
        created = sum(each.added_snapshot_id == self.snapshot_id for each in merged)
        summary = summarize_commit(
            edit.operation,
            added,
            removed,
            table=table,
            parent=parent,
            manifests=Manifests(created, len(merged) - created, replaced + merged_away),
            properties={**self.outside.engine, **edit.properties},
        )
        return self._propose(self._snapshot(table, parent, merged, writing), summary, table, target)

    def begin(self, table: TableMetadata) -> Writing:
        """What the manifests of this commit have in common on top of a table."""
        if table.properties.get("encryption.key-id"):
            raise NotSupported("files of encrypted tables cannot be written", source=table.location)
        if not self.snapshot_id:
            self.snapshot_id = self.outside.new_snapshot_id()
            while self.snapshot_id in table.snapshots_by_id:
                self.snapshot_id = self.outside.new_snapshot_id()
        elif self.snapshot_id in table.snapshots_by_id:
            raise AlreadyMade
        return writing_of(table, self.snapshot_id)

    def manifests_of(self, parent: Snapshot | None, writing: Writing) -> list[ManifestFile]:
        """The manifests of a snapshot, newest first, with all that a commit needs to know of them."""
        listed = manifest_files(list_manifests(parent, self.outside.reading))
        unknown = [
            each
            for each in listed
            if each.manifest_path not in self._completed and None in (each.partition_spec_id, *_counts(each))
        ]
        if unknown:
            contents = self.outside.reading.read_many([each.manifest_path for each in unknown])
            for each, data in zip(unknown, contents, strict=True):
                self._completed[each.manifest_path] = complete(each, data, writing.table)
        return [self._completed.get(each.manifest_path, each) for each in listed]

    # Manifests

    def add(self, added: Sequence[Added], writing: Writing) -> list[ManifestFile]:
        """The manifests of new files."""
        found: list[ManifestFile] = []
        for position, each in enumerate(added):
            # Of deletes, those of files that are gone are left out, and then there are fewer.
            key = position, each.new.files.num_rows, writing.table.format_version
            if key not in self._added:
                self._added[key] = tuple(self._write_new(each, writing))
            found += self._added[key]
        return found

    def _write_new(self, added: Added, writing: Writing) -> list[ManifestFile]:
        spec_id, files = added.new
        if not files.num_rows:
            return []
        entries = _new_entries(added)
        target = merge_rules(writing.table.properties).target_bytes
        return [
            self._write(part, spec_id, added.content, writing)
            for part in parts_of(entries, spec_id, added.content, writing, target)
        ]

    def _write(self, entries: pa.Table, spec_id: int, content: int, writing: Writing) -> ManifestFile:
        path = self._next_path(writing.table)
        written = write_manifest(entries, spec_id, content, path, writing)
        self._put(path, written.data)
        return written.listed

    def _next_path(self, table: TableMetadata) -> str:
        return self.outside.place(table, f"{self._uid}-m{next(self._numbers)}.avro")

    def _put(self, path: str, data: bytes) -> None:
        self.written.append(path)
        self.outside.put(path, data)

    def _remove(
        self, manifests: Sequence[ManifestFile], edit: Edit, new: Sequence[ManifestFile], writing: Writing
    ) -> tuple[list[ManifestFile], list[Counted], int]:
        """What is left of manifests, the files that go, and how many manifests were replaced."""
        if edit.removal.is_nothing:
            return list(manifests), [], 0
        cuts = self._cut_data(manifests, edit.removal, writing) if edit.removal.takes_data else {}
        _check_found(edit.removal, cuts)
        left = [_left(each, cuts) for each in manifests]
        of_deletes: dict[str, _Without] = {}
        if any(each.content != DATA_MANIFEST for each in left):
            oldest = _oldest([each for each in (*new, *left) if each.content == DATA_MANIFEST], writing.table)
            of_deletes = self._cut_deletes(left, DeleteRemoval(edit.removal, _paths(cuts), oldest), writing)
            left = [_left(each, of_deletes) for each in left]
        _check_deletes_found(edit.removal, of_deletes)
        cuts |= of_deletes
        return left, [each.removed for each in cuts.values()], len(cuts)

    def _cut_data(
        self, manifests: Sequence[ManifestFile], removal: Removal, writing: Writing
    ) -> dict[str, _Without]:
        wanted = _may_lose_files(list_table(manifests), removal, writing.table)
        chosen = [
            each
            for each, may in zip(manifests, wanted, strict=True)
            if may and each.content == DATA_MANIFEST and _has_live_files(each)
        ]
        return self._cut(
            chosen, writing, lambda data, each: cut_data(data, each, removal, writing), (DATA_MANIFEST,)
        )

    def _cut_deletes(
        self, manifests: Sequence[ManifestFile], removal: DeleteRemoval, writing: Writing
    ) -> dict[str, _Without]:
        named = _may_lose_deletes(list_table(manifests), removal.removal, writing.table)
        chosen = [
            each
            for each, is_named in zip(manifests, named, strict=True)
            if _has_live_files(each) and may_lose_deletes(each, removal, is_named=bool(is_named))
        ]
        # What goes along depends on all that goes, so that nothing holds for a next attempt but the same.
        key = (removal.oldest, tuple(sorted(removal.data_paths.to_pylist())))
        return self._cut(chosen, writing, lambda data, each: cut_deletes(data, each, removal, writing), key)

    def _cut(
        self,
        chosen: Sequence[ManifestFile],
        writing: Writing,
        cut: Callable[[bytes, ManifestFile], Cut | None],
        key: tuple[object, ...],
    ) -> dict[str, _Without]:
        keys = [(*key, *_identity(each, writing.table)) for each in chosen]
        missing = [(key, each) for key, each in zip(keys, chosen, strict=True) if key not in self._cuts]
        for start in range(0, len(missing), _WINDOW):
            window = missing[start : start + _WINDOW]
            contents = self.outside.reading.read_many([each.manifest_path for _, each in window])
            work = [(data, each) for (_, each), data in zip(window, contents, strict=True)]
            cuts = in_parallel(lambda each: cut(*each), work, self.outside.reading.workers)
            for (each_key, each), found in zip(window, cuts, strict=True):
                self._cuts[each_key] = self._without(each, found, writing)
        known = ((each, self._cuts[key]) for key, each in zip(keys, chosen, strict=True))
        return {each.manifest_path: without for each, without in known if without is not None}

    def _without(self, listed: ManifestFile, cut: Cut | None, writing: Writing) -> _Without | None:
        if cut is None:
            return None
        spec_id = listed.partition_spec_id
        assert spec_id is not None
        left = self._write(cut.entries, spec_id, listed.content, writing)
        return _Without(left, Counted(spec_id, cut.removed))

    def _merge(self, manifests: Sequence[ManifestFile], writing: Writing) -> tuple[list[ManifestFile], int]:
        """Merge manifests by the rules of the table; also gives how many of earlier commits went into it."""
        data_first = sorted(manifests, key=lambda each: each.content)
        found: list[ManifestFile] = []
        away = 0
        for group in plan_merges(data_first, writing.table, merge_rules(writing.table.properties)):
            if len(group) == 1:
                found.append(group[0])
                continue
            away += sum(each.added_snapshot_id != self.snapshot_id for each in group)
            found.append(self._merge_group(group, writing))
        return found, away

    def _merge_group(self, group: Group, writing: Writing) -> ManifestFile:
        merged = self._merged.get(group, writing)
        if merged is None:
            contents = self.outside.reading.read_many([each.manifest_path for each in group])
            path = self._next_path(writing.table)
            written = merge_manifests(group, contents, path, writing)
            self._put(path, written.data)
            merged = written.listed
            self._merged.remember(group, writing, merged)
        return merged

    # The snapshot

    def _snapshot(
        self,
        table: TableMetadata,
        parent: Snapshot | None,
        manifests: Sequence[ManifestFile],
        writing: Writing,
    ) -> Snapshot:
        sequence_number = table.last_sequence_number + 1 if table.format_version > 1 else 0
        first_row_id = table.next_row_id if table.has_row_lineage else None
        published, rows = publish_list(list_table(manifests), sequence_number, first_row_id)
        parent_id = None if parent is None else parent.snapshot_id
        data = serialize_manifest_list(
            published,
            format_version=table.format_version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            codec=writing.codec,
            level=writing.level,
        )
        name = f"snap-{self.snapshot_id}-{len(self.named) + 1}-{self._uid}.avro"
        path = self.outside.place(table, name)
        self.named[path] = frozenset(each.manifest_path for each in manifests)
        self._put(path, data)
        remember_list(path, as_read(published, table.format_version), self.outside.reading)
        times = (self.outside.now_ms(), 0 if parent is None else parent.timestamp_ms + 1)
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            timestamp_ms=max(*times, table.last_updated_ms),
            manifest_list=path,
            schema_id=table.current_schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else rows,
        )

    def _propose(
        self, snapshot: Snapshot, summary: Mapping[str, str], table: TableMetadata, target: Target
    ) -> Proposal:
        snapshot = msgspec.structs.replace(snapshot, summary=summary)
        same: tuple[Requirement, ...] = (AssertTableUuid(table.table_uuid),) if table.table_uuid else ()
        if target.stage_only:
            return same, (u.AddSnapshot(snapshot),)
        old = table.refs.get(target.branch)
        if old is None:
            ref = Ref(snapshot_id=snapshot.snapshot_id, type="branch")
        else:
            ref = msgspec.structs.replace(old, snapshot_id=snapshot.snapshot_id)
        unmoved = AssertRefSnapshotId(target.branch, None if old is None else old.snapshot_id)
        return (*same, unmoved), (u.AddSnapshot(snapshot), u.SetSnapshotRef(target.branch, ref))


def parent_of(table: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot that a write to a branch is made on; a new branch starts where main is."""
    ref = table.refs.get(branch)
    if ref is None:
        return table.current_snapshot
    if not ref.is_branch:
        hint = "Write to a branch; a tag names one snapshot for ever"
        raise InvalidChange("a tag cannot be written to", field=f"ref {branch!r}", hint=hint)
    return table.snapshot(ref.snapshot_id)


def _new_entries(added: Added) -> pa.Table:
    """New files as entries: they inherit their numbers, but for the data sequence number if they keep one."""
    files = added.new.files
    left_out = [name for name in _OF_THE_COMMIT if name in files.column_names]
    entries = files.drop_columns(left_out) if left_out else files
    count = files.num_rows
    if "content" not in entries.column_names:
        entries = entries.append_column("content", pa.repeat(pa.scalar(0, pa.int32()), count))
    entries = entries.append_column("status", pa.repeat(pa.scalar(ADDED, pa.int32()), count))
    if added.sequence_number is not None:
        numbers = pa.repeat(pa.scalar(added.sequence_number, pa.int64()), count)
        entries = entries.append_column("sequence_number", numbers)
    return entries


_OF_THE_COMMIT: Final = (
    "status",
    "snapshot_id",
    "sequence_number",
    "file_sequence_number",
    "first_row_id",
    "spec_id",
)
"""What the commit says of its files, whatever comes along with them."""


def _counted(added: Added) -> pa.Table:
    return added.new.files


def _counts(listed: ManifestFile) -> tuple[int | None, ...]:
    return (
        listed.manifest_length,
        listed.added_snapshot_id,
        listed.added_files_count,
        listed.existing_files_count,
        listed.deleted_files_count,
        listed.added_rows_count,
        listed.existing_rows_count,
        listed.deleted_rows_count,
    )


def _has_live_files(listed: ManifestFile) -> bool:
    return listed.added_files_count != 0 or listed.existing_files_count != 0


def _is_kept(listed: ManifestFile, snapshot_id: int) -> bool:
    """A manifest without files only told what its own commit had removed."""
    return _has_live_files(listed) or listed.added_snapshot_id == snapshot_id


def _may_lose_files(listed: pa.Table, removal: Removal, table: TableMetadata) -> Mask:
    """Which manifests have to be looked at for files that go."""
    wanted: Mask = np.zeros(listed.num_rows, np.bool_)
    if removal.where != FALSE:
        wanted |= manifests_may_match(listed, removal.where, table)
    if removal.partitions is not None:
        wanted |= manifests_may_hold(listed, removal.partitions, table)
    if removal.paths is not None and len(removal.paths):
        wanted |= True if removal.places is None else manifests_may_hold(listed, removal.places, table)
    return wanted


def _may_lose_deletes(listed: pa.Table, removal: Removal, table: TableMetadata) -> Mask:
    """Which manifests may hold deletes that go by their names."""
    if not removal.deletes:
        return np.zeros(listed.num_rows, np.bool_)
    return manifests_may_hold(listed, removal.deletes, table)


def _identity(listed: ManifestFile, table: TableMetadata) -> tuple[object, ...]:
    """What must be the same for what was written for a manifest to hold."""
    inherited = (listed.sequence_number, listed.added_snapshot_id, listed.first_row_id)
    return (listed.manifest_path, *inherited, table.format_version, table.current_schema_id)


def _left(listed: ManifestFile, cuts: Mapping[str, _Without]) -> ManifestFile:
    found = cuts.get(listed.manifest_path)
    return listed if found is None else found.left


def _paths(cuts: Mapping[str, _Without]) -> pa.Array:
    columns = [each.removed.files["file_path"] for each in cuts.values()]
    return pa.concat_arrays(
        [chunk for each in columns for chunk in each.chunks] or [pa.array([], pa.string())]
    )


def _oldest(manifests: Sequence[ManifestFile], table: TableMetadata) -> int:
    numbers = [each.min_sequence_number for each in manifests if _has_live_files(each)]
    return min((each for each in numbers if each is not None), default=table.last_sequence_number + 1)


def _check_deletes_found(removal: Removal, cuts: Mapping[str, _Without]) -> None:
    if not removal.deletes or not removal.deletes_required:
        return
    tables = [each.removed.files for each in cuts.values()]
    wanted, *found = delete_keys(removal.deletes, *tables)
    missing = np.flatnonzero(~np.isin(wanted, np.concatenate(found))) if found else np.arange(len(wanted))
    if len(missing):
        problem = f"{len(missing)} of the deletes that are to be replaced are gone"
        path = removal.deletes["file_path"][int(missing[0])].as_py()
        raise CommitConflict(problem, source=path, hint="Read the table again")


def _check_found(removal: Removal, cuts: Mapping[str, _Without]) -> None:
    if removal.paths is None or not len(removal.paths):
        return
    missing = removal.paths.filter(pc.invert(pc.is_in(removal.paths, value_set=_paths(cuts))))
    if len(missing):
        problem = f"{len(missing)} of the files that are to be replaced are gone"
        raise CommitConflict(problem, source=missing[0].as_py(), hint="Read the table again")
