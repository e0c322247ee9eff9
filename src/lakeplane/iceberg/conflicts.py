"""Conflicts: whether what others have committed since a table was read is in the way of a change.

The rules are those of Iceberg's own writers. Under *serializable* isolation, a change that has read rows
conflicts with new files that may hold rows it would have read; under *snapshot* isolation only with what
others have deleted. Files that merely were written anew (``replace``) hold no new rows.

Each snapshot since is looked at once, however many attempts a commit takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import CommitConflict, InvalidInput, NotSupported
from lakeplane.iceberg.delete_index import PATH_ID, attach_deletes
from lakeplane.iceberg.file_removal import coverage, in_partitions
from lakeplane.iceberg.manifest_list import ManifestFile, manifest_files
from lakeplane.iceberg.manifest_scan import Reading, list_manifests
from lakeplane.iceberg.manifest_schema import ADDED, DATA_MANIFEST, DELETED, EQUALITY_DELETES
from lakeplane.iceberg.manifests import DATA_FACTS, DELETE_FACTS, Manifest, read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import told_apart
from lakeplane.iceberg.pruning import partitions_of
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.expressions.tree import FALSE, Predicate, references

Isolation: TypeAlias = Literal["serializable", "snapshot"]

_AGAIN: Final = "Read the table again, and repeat the change"


class Scope(NamedTuple):
    """Which files matter: those that may hold matching rows, and those in some partitions."""

    where: Predicate = FALSE
    partitions: pa.Table | None = None
    """``spec_id`` and ``partition``."""

    @property
    def is_nothing(self) -> bool:
        """Whether no file matters."""
        return self.where == FALSE and self.partitions is None


NOWHERE: Final = Scope()


class Watch(NamedTuple):
    """What must not have happened since a table was read."""

    since: int | None
    """The snapshot that was read; None if there was none yet."""
    appended: Scope = NOWHERE
    """No new data files here."""
    deleted: Scope = NOWHERE
    """No data files removed, and no rows deleted here."""
    rows_of: pa.Table | None = None
    """No rows deleted from these data files, which are as plans have them."""
    ignore_equality: bool = False
    """Equality deletes apply to the files that come in the place of these, too."""
    new_deletes: Scope = NOWHERE
    """No rows deleted here by delete files."""
    removed: Scope = NOWHERE
    """No data files removed here; those that were written anew do not count."""
    needed: pa.Table | None = None
    """These data files are still there, as their rows are deleted by position."""
    may_be_deleted: bool = False
    """But for those that a snapshot has removed which does nothing but delete."""
    vectors_of: pa.Table | None = None
    """No rows deleted by position from these data files: their new vectors would hide that."""
    equality_removed: pa.Table | None = None
    """No data files added that these equality deletes, which go, apply to."""


OF_FILES: Final = ("file_path", "spec_id", "partition", "sequence_number")
"""What is to be known of data files whose deletes are looked for."""


def check_conflicts(
    table: TableMetadata,
    head: Snapshot | None,
    watch: Watch,
    reading: Reading,
    seen: dict[int, frozenset[str]],
) -> frozenset[str]:
    """Refuse a change that what was committed since stands in the way of.

    Gives the files that are needed no more, as others have deleted them. ``seen`` has what snapshots that
    were looked at already have deleted of them, and gets those that are looked at now.
    """
    for files in (watch.rows_of, watch.needed, watch.vectors_of):
        if files is not None and (missing := set(OF_FILES) - set(files.column_names)):
            raise InvalidInput("files are to be given as a plan has them", field=", ".join(sorted(missing)))
    since = snapshots_since(table, head, watch.since)
    for snapshot in since:
        if snapshot.snapshot_id not in seen:
            seen[snapshot.snapshot_id] = _check_snapshot(snapshot, watch, table, reading)
    return frozenset[str]().union(*(seen[each.snapshot_id] for each in since))


def snapshots_since(table: TableMetadata, head: Snapshot | None, since: int | None) -> list[Snapshot]:
    """The snapshots after one, newest first; the one itself may have expired, those after it may not."""
    found: list[Snapshot] = []
    next_id = None if head is None else head.snapshot_id
    if head is not None and next_id != since:
        for snapshot in table.ancestors(head.snapshot_id):
            found.append(snapshot)
            next_id = snapshot.parent_snapshot_id
            if next_id == since:
                break
    if next_id != since:
        what = "the table was empty" if since is None else f"snapshot {since}"
        problem = f"nobody can tell what has happened since {what}: the history does not lead back to it"
        hint = f"Snapshots have expired, or the branch was moved. {_AGAIN}"
        raise CommitConflict(problem, source=table.location, hint=hint)
    return found


def changes_of(
    snapshot: Snapshot, table: TableMetadata, reading: Reading, statistics_of: frozenset[int] = frozenset()
) -> Iterator[tuple[ManifestFile, Manifest]]:
    """The manifests that a snapshot has written, with the entries that it has added or deleted."""
    manifests = [
        each
        for each in manifest_files(list_manifests(snapshot, reading))
        # A list within a snapshot does not tell who wrote a manifest; its entries do.
        if each.added_snapshot_id in (None, snapshot.snapshot_id)
    ]
    encrypted = next((each for each in manifests if each.key_metadata is not None), None)
    if encrypted is not None:
        raise NotSupported("the manifest is encrypted", source=encrypted.manifest_path)
    contents = reading.read_many([each.manifest_path for each in manifests])
    for listed, data in zip(manifests, contents, strict=True):
        is_data = listed.content == DATA_MANIFEST
        found = read_manifest(
            data,
            listed,
            table,
            columns=DATA_FACTS if is_data else DELETE_FACTS,
            statistics_of=statistics_of if is_data else (PATH_ID,),
        )
        yield listed, found._replace(entries=_by(found.entries, snapshot))


def _by(entries: pa.Table, snapshot: Snapshot) -> pa.Table:
    status = plain(entries["status"])
    changed = pc.or_(pc.equal(status, ADDED), pc.equal(status, DELETED))
    return entries.filter(pc.and_(changed, pc.equal(plain(entries["snapshot_id"]), snapshot.snapshot_id)))


def _check_snapshot(
    snapshot: Snapshot, watch: Watch, table: TableMetadata, reading: Reading
) -> frozenset[str]:
    scopes = (watch.appended, watch.deleted, watch.removed)
    ids = frozenset[int]().union(*(references(each.where) for each in scopes))
    gone: set[str] = set()
    for listed, found in changes_of(snapshot, table, reading, ids):
        added = found.entries.filter(pc.equal(found.entries["status"], ADDED))
        if listed.content == DATA_MANIFEST:
            removed = found.entries.filter(pc.equal(found.entries["status"], DELETED))
            _check_data(found._replace(entries=added), removed, watch, table, snapshot)
            gone.update(_needed_no_more(removed, watch, snapshot))
        else:
            _check_deletes(found._replace(entries=added), watch, table, snapshot)
    return frozenset(gone)


def _check_data(
    manifest: Manifest, removed: pa.Table, watch: Watch, table: TableMetadata, snapshot: Snapshot
) -> None:
    added = manifest.entries
    _refuse(removed, _in_scope(removed, manifest, watch.deleted, table), snapshot, "has removed")
    if snapshot.operation != "replace":
        _refuse(added, _in_scope(added, manifest, watch.appended, table), snapshot, "has added")
        _refuse(removed, _in_scope(removed, manifest, watch.removed, table), snapshot, "has removed")
    gone = watch.equality_removed
    if gone is not None and gone.num_rows and added.num_rows:
        # Only files that were written anew are older than their snapshot, so that these deletes apply.
        hit = _hits(_as_planned(manifest, table), gone, table)
        _refuse(added, hit, snapshot, "has added, with rows that a delete which is to go applies to,")


def _needed_no_more(removed: pa.Table, watch: Watch, snapshot: Snapshot) -> list[str]:
    if watch.needed is None or not removed.num_rows:
        return []
    hit = to_mask(pc.is_in(plain(removed["file_path"]), value_set=plain(watch.needed["file_path"])))
    if not watch.may_be_deleted or snapshot.operation != "delete":
        _refuse(removed, hit, snapshot, "has removed")
    found: list[str] = removed["file_path"].filter(pa.array(hit)).to_pylist()
    return found


def _refuse(files: pa.Table, is_conflict: Mask, snapshot: Snapshot, what: str) -> None:
    if is_conflict.any():
        path = files["file_path"][int(np.flatnonzero(is_conflict)[0])].as_py()
        number = int(is_conflict.sum())
        more = "" if number == 1 else f" and {number - 1} more"
        problem = f"snapshot {snapshot.snapshot_id} {what} this file{more} since the table was read"
        raise CommitConflict(problem, source=path, hint=_AGAIN)


def _in_scope(files: pa.Table, manifest: Manifest, scope: Scope, table: TableMetadata) -> Mask:
    inside = np.zeros(files.num_rows, np.bool_)
    if files.num_rows and scope.partitions is not None:
        inside |= in_partitions(files, manifest.spec_id, scope.partitions)
    if files.num_rows and scope.where != FALSE:
        found = coverage(files, scope.where, table.spec_by_id(manifest.spec_id), table.schema)
        inside |= found.whole | found.partly
    return inside


def _deletes_in_scope(files: pa.Table, manifest: Manifest, scope: Scope, table: TableMetadata) -> Mask:
    """Delete files by their partitions alone: their statistics do not tell which rows they delete."""
    inside = np.zeros(files.num_rows, np.bool_)
    if not files.num_rows or scope.is_nothing:
        return inside
    spec = table.spec_by_id(manifest.spec_id)
    if spec.is_unpartitioned:
        # Equality deletes without a partition are about all of them.
        return ~inside
    if scope.partitions is not None:
        inside |= in_partitions(files, manifest.spec_id, scope.partitions)
    if scope.where != FALSE:
        partitions = partitions_of(files)
        codes, distinct = residuals(scope.where, spec, partitions.column, len(partitions.distinct))
        possible = np.array([each != FALSE for each in distinct], np.bool_)
        inside |= possible[codes[partitions.codes]]
    return inside


def _check_deletes(manifest: Manifest, watch: Watch, table: TableMetadata, snapshot: Snapshot) -> None:
    """Refuse new deletes of rows that were read, and of rows of files that are written anew."""
    files = _as_planned(manifest, table)
    if watch.vectors_of is not None:
        positions = files.filter(pc.not_equal(files["content"], EQUALITY_DELETES))
        hit = _hits(watch.vectors_of, positions, table)
        _refuse(watch.vectors_of, hit, snapshot, "has deleted rows of")
    if snapshot.operation == "replace":
        # The same rows are deleted as before.
        return
    for scope in (watch.deleted, watch.new_deletes):
        is_inside = _deletes_in_scope(manifest.entries, manifest, scope, table)
        _refuse(files, is_inside, snapshot, "has deleted by")
    if watch.rows_of is not None:
        if watch.ignore_equality:
            files = files.filter(pc.not_equal(files["content"], EQUALITY_DELETES))
        hit = _hits(watch.rows_of, files, table)
        _refuse(watch.rows_of, hit, snapshot, "has deleted rows of")


def _as_planned(manifest: Manifest, table: TableMetadata) -> pa.Table:
    """Entries of a manifest as plans have them."""
    files = told_apart(manifest.entries, manifest.spec_id, table)
    specs = pa.repeat(pa.scalar(manifest.spec_id, pa.int32()), files.num_rows)
    return files.append_column("spec_id", specs)


def _hits(data: pa.Table, deletes: pa.Table, table: TableMetadata) -> Mask:
    """The data files that some of the deletes apply to."""
    hit = np.zeros(data.num_rows, np.bool_)
    if data.num_rows and deletes.num_rows:
        specs = {each.spec_id: each for each in table.partition_specs}
        found = attach_deletes(data.select(OF_FILES), deletes, specs)
        hit |= to_mask(found.vector.is_valid())
        for lists in (found.position, found.equality):
            hit |= to_mask(pc.greater(pc.list_value_length(lists), 0))
    return hit
