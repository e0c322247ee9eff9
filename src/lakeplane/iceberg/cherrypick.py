"""Cherry-picks: what a snapshot, written beside main, has done, done to main as it is now.

Where that snapshot was written on top of the current one, main simply moves to it. Otherwise an append is
made anew from its files, and so is an overwrite of partitions that nobody else has changed since. Anything
else depends on what it was written on.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import CommitConflict, InvalidChange, InvalidInput, NotSupported
from lakeplane.iceberg import refs
from lakeplane.iceberg.conflicts import Scope, Watch, check_conflicts
from lakeplane.iceberg.file_removal import Removal
from lakeplane.iceberg.incoming import partitions_in
from lakeplane.iceberg.manifest_list import ManifestFile, manifest_files
from lakeplane.iceberg.manifest_scan import Reading, list_manifests
from lakeplane.iceberg.manifest_schema import ADDED, DATA_MANIFEST, DELETED, FILE_COLUMNS
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.snapshot_maker import Added, Edit, Proposal, SnapshotMaker, Target
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import plain
from lakeplane.model.frozen import EMPTY


class Cherrypick(msgspec.Struct, frozen=True, kw_only=True):
    """Do to main what a snapshot did, which is named by its id or by that of its write-audit-publish."""

    snapshot_id: int | None = None
    wap_id: str | None = None


def propose_cherrypick(change: Cherrypick, table: TableMetadata, maker: SnapshotMaker) -> Proposal:
    """What must hold, and what is to happen, for a cherry-pick on a table as it is."""
    picked = _picked(change, table)
    refs.check_pick(table, picked)
    if picked.parent_snapshot_id == table.current_snapshot_id:
        return refs.move(table, "main", picked.snapshot_id)
    replaces = (picked.summary or EMPTY).get("replace-partitions") == "true"
    if picked.operation != "append" and not (picked.operation == "overwrite" and replaces):
        problem = f"main has moved since snapshot {picked.snapshot_id} was written, which did not only append"
        hint = "Write the change anew, on main as it is"
        raise CommitConflict(problem, source=table.location, hint=hint)
    added, removed = _files_of(picked, table, maker.outside.reading)
    said = {"source-snapshot-id": str(picked.snapshot_id)}
    wap_id = (picked.summary or EMPTY).get("wap.id")
    if wap_id is not None:
        said["published-wap-id"] = wap_id
    edit = Edit(picked.operation, tuple(map(Added, added)), properties=said)
    if replaces:
        _check_partitions([*added, *removed], picked, table, maker)
        paths = [plain(each.files["file_path"]) for each in removed]
        removal = Removal(paths=pa.concat_arrays(paths) if paths else None)
        edit = edit._replace(removal=removal, properties={**said, "replace-partitions": "true"})
    return maker.make(table, edit, Target())


def _picked(change: Cherrypick, table: TableMetadata) -> Snapshot:
    if (change.snapshot_id is None) == (change.wap_id is None):
        raise InvalidInput("a snapshot is picked by its id or by its wap.id", field="cherrypick")
    if change.snapshot_id is not None:
        return table.snapshot(change.snapshot_id)
    staged = (each for each in table.snapshots if (each.summary or EMPTY).get("wap.id") == change.wap_id)
    found = next(staged, None)
    if found is None:
        raise InvalidChange(f"no snapshot was staged as {change.wap_id!r}", field="wap.id")
    return found


def _check_partitions(
    files: list[NewFiles], picked: Snapshot, table: TableMetadata, maker: SnapshotMaker
) -> None:
    """Refuse to overwrite what the picked snapshot has not seen."""
    if not files:
        return
    scope = Scope(partitions=partitions_in(files))
    watch = Watch(picked.parent_snapshot_id, appended=scope, deleted=scope)
    check_conflicts(table, table.current_snapshot, watch, maker.outside.reading, maker.looked_at)


def _files_of(
    picked: Snapshot, table: TableMetadata, reading: Reading
) -> tuple[list[NewFiles], list[NewFiles]]:
    """The files that a snapshot has added, and those that it has removed."""
    own = [
        each
        for each in manifest_files(list_manifests(picked, reading))
        if each.added_snapshot_id in (None, picked.snapshot_id)
    ]
    contents = reading.read_many([each.manifest_path for each in own])
    sides: tuple[list[NewFiles], list[NewFiles]] = ([], [])
    for listed, data in zip(own, contents, strict=True):
        for side, found in zip(sides, _changes(listed, data, picked, table), strict=True):
            if found.files.num_rows:
                side.append(found)
    return sides


def _changes(
    listed: ManifestFile, data: bytes, picked: Snapshot, table: TableMetadata
) -> tuple[NewFiles, NewFiles]:
    if listed.content != DATA_MANIFEST or listed.key_metadata is not None:
        problem = f"snapshot {picked.snapshot_id} has deleted rows, or is encrypted"
        raise NotSupported(problem, source=listed.manifest_path, hint="Write the change anew")
    found = read_manifest(data, listed, table, columns=FILE_COLUMNS.names)
    entries = found.entries.filter(pc.equal(found.entries["snapshot_id"], picked.snapshot_id))
    added, removed = (entries.filter(pc.equal(entries["status"], each)) for each in (ADDED, DELETED))
    return NewFiles(found.spec_id, added), NewFiles(found.spec_id, removed)
