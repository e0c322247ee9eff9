"""Changes of the files of a table, as values: what to add, what to remove, and on which conditions.

``propose_change`` makes a proposal of a change for a table as it is; it is asked again whenever somebody
else was faster. What it needs of the world, and what it has written already, is in a ``SnapshotMaker``.

Files that are named for removal come as a plan has them (``ReadPlan.files``, or some of its rows): their
paths tell which ones go, and the rest what deletes apply to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import CommitConflict, InvalidChange, InvalidInput
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.cherrypick import Cherrypick, propose_cherrypick
from lakeplane.iceberg.conflicts import Isolation, Scope, Watch, check_conflicts
from lakeplane.iceberg.file_removal import Removal
from lakeplane.iceberg.incoming import check_against, check_data, check_incoming, check_inside, partitions_in
from lakeplane.iceberg.incoming_deletes import (
    check_new_deletes,
    check_vectors,
    equality_deletes_in,
    vectors_in,
    without_deletes_of,
)
from lakeplane.iceberg.manifest_schema import DELETE_MANIFEST
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.replacement import Wanted, replacement, unchanged
from lakeplane.iceberg.snapshot_maker import Added, Edit, Proposal, SnapshotMaker, Target, parent_of
from lakeplane.iceberg.snapshot_summary import check_properties
from lakeplane.iceberg.snapshots import MAIN
from lakeplane.model.expressions.physical import plain
from lakeplane.model.expressions.tree import FALSE, TRUE, Predicate
from lakeplane.model.frozen import EMPTY

WAP_ENABLED: Final = "write.wap.enabled"


class Write(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all changes of files can say."""

    branch: str = MAIN
    """A branch that does not exist is made, from where main is."""
    properties: Mapping[str, str] = EMPTY
    """Said by the summary of the snapshot, beside what it says itself."""
    stage_only: bool = False
    """Make a snapshot that nobody sees before it is published."""
    wap_id: str | None = None
    """Stage the snapshot under this id, to be audited and published by it."""
    wap_branch: str | None = None
    """Write to this branch in the place of main, to be audited there."""

    def __post_init__(self) -> None:
        given = getattr(self, "isolation", None)
        if given is not None and given not in get_args(Isolation):
            hint = f"One of {', '.join(get_args(Isolation))}"
            raise InvalidInput(f"{given!r:.80} is no isolation level", field="isolation", hint=hint)


class Append(Write, frozen=True, kw_only=True, eq=False):
    """Add files. It never conflicts."""

    files: tuple[NewFiles, ...]
    refuse_known: bool = False
    """Refuse files that the branch has already."""


class Overwrite(Write, frozen=True, kw_only=True, eq=False):
    """Remove files by a condition and by name, and add others.

    Of ``where``, all rows of a file must match, or none: a file that is cut through is an error. Without
    files to add it is a deletion.
    """

    files: tuple[NewFiles, ...] = ()
    where: Predicate = FALSE
    remove: pa.Table | None = None
    """Data files that go; each of them must still be there."""
    isolation: Isolation | None = None
    """Against what others commit; None: whatever they did since, it is overwritten."""
    validate_from: int | None = None
    """The snapshot that was read; None for a table that had none."""
    conflicts_with: Predicate | None = None
    """Which rows were read; without it, those of ``where``, or all if files are named."""
    refuse_outside: bool = False
    """Refuse files to add whose rows do not all match ``where``."""
    refuse_known: bool = False


class OverwritePartitions(Write, frozen=True, kw_only=True, eq=False):
    """Replace all files in the partitions of the new files; without partitions, all files."""

    files: tuple[NewFiles, ...]
    isolation: Isolation | None = None
    validate_from: int | None = None


class DeleteFiles(Write, frozen=True, kw_only=True, eq=False):
    """Remove whole files, by a condition on all of their rows or by name: a change of metadata alone."""

    where: Predicate = FALSE
    remove: pa.Table | None = None
    isolation: Isolation | None = None
    validate_from: int | None = None


class Rewrite(Write, frozen=True, kw_only=True, eq=False):
    """Put files in the place of others that hold the same rows."""

    remove: pa.Table
    files: tuple[NewFiles, ...]
    validate_from: int
    """The snapshot that the rows were read from."""
    data_sequence_number: int | None = None
    """Kept by the new files, so that newer equality deletes still apply to them."""


class RowDelta(Write, frozen=True, kw_only=True, eq=False):
    """Delete single rows, and add others: what DELETE, UPDATE and MERGE come to without copying files.

    Whatever the isolation, the data files that rows are deleted from by position must still be there, and
    nobody else may have deleted rows of those that get a new vector.
    """

    files: tuple[NewFiles, ...] = ()
    """Data files with new rows."""
    deletes: tuple[NewFiles, ...] = ()
    """Delete files and vectors: their ``content`` tells which."""
    deletes_from: pa.Table | None = None
    """The data files that positions are deleted from, as a plan has them (``ReadPlan.files``)."""
    remove: pa.Table | None = None
    """Data files that go as a whole."""
    remove_deletes: pa.Table | None = None
    """Deletes that the new ones stand in for, as a plan has them (``ReadPlan.deletes``)."""
    isolation: Isolation | None = None
    """Against what others commit; None: whatever rows they have added or deleted since."""
    validate_from: int | None = None
    """The snapshot that was read; None for a table that had none."""
    conflicts_with: Predicate = TRUE
    """Which rows were read."""
    refuse_new_deletes: bool = True
    """Refuse the change if others have deleted rows that may have been read. An UPDATE or MERGE would bring
    them back in new files; only a change that does nothing but delete may say False."""


class Replace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Give the table other columns and rows; ``main`` begins anew."""

    wanted: Wanted
    base: TableMetadata
    """The table as it was when the files were written for what it shall be."""
    files: tuple[NewFiles, ...] = ()
    properties: Mapping[str, str] = EMPTY
    """Said by the summary of the snapshot."""


Change: TypeAlias = (
    Append | Overwrite | OverwritePartitions | DeleteFiles | Rewrite | RowDelta | Replace | Cherrypick
)


def propose_change(change: Change, table: TableMetadata, maker: SnapshotMaker) -> Proposal:
    """What must hold, and what is to happen, for a change of a table as it is.

    Raises:
        CommitConflict: what others did since stands in the way.
        InvalidInput: the change does not fit the table.
    """
    if isinstance(change, Cherrypick):
        return propose_cherrypick(change, table, maker)
    if isinstance(change, Replace):
        return _replace(change, table, maker)
    target, said = _target(change, table)
    step = _step(change, table)
    parent = parent_of(table, target.branch)
    if step.watch is not None:
        gone = check_conflicts(table, parent, step.watch, maker.outside.reading, maker.looked_at)
        step = step._replace(edit=step.edit._replace(added=without_deletes_of(gone, step.edit.added)))
    if isinstance(change, RowDelta):
        check_vectors(change.deletes, change.remove_deletes, table, parent, maker.outside.reading)
    if isinstance(change, Append | Overwrite) and change.refuse_known:
        check_against(change.files, table, parent, maker.outside.reading)
    edit = step.edit._replace(properties={**change.properties, **said, **step.edit.properties})
    return maker.make(table, edit, target)


def _replace(change: Replace, table: TableMetadata, maker: SnapshotMaker) -> Proposal:
    must_hold = unchanged(table)
    if must_hold != unchanged(change.base):
        problem = "the table was changed while it was being replaced"
        raise CommitConflict(problem, source=table.location, hint="Look at it again, and replace it anew")
    updates = replacement(table, change.wanted)
    if not change.files:
        return must_hold, updates
    draft = apply(table, updates, now_ms=maker.outside.now_ms())
    _, added = propose_change(Append(files=change.files, properties=change.properties), draft, maker)
    return must_hold, (*updates, *added)


def prepare_change(change: Change, table: TableMetadata, maker: SnapshotMaker) -> None:
    """Make what does not depend on what others do meanwhile: the manifests of new files."""
    if not isinstance(change, Cherrypick | Replace) and (added := _step(change, table).edit.added):
        maker.add(added, maker.begin(table))


def new_paths(change: Change) -> list[str]:
    """The files that a change would add: garbage, once it is certain that it was not published."""
    if isinstance(change, Cherrypick | DeleteFiles):
        return []
    new = (*change.files, *change.deletes) if isinstance(change, RowDelta) else change.files
    # Many vectors share a file.
    return list(dict.fromkeys(path for each in new for path in each.files["file_path"].to_pylist()))


class _Step(NamedTuple):
    """What a change comes to on a table as it is."""

    edit: Edit
    watch: Watch | None = None


def _target(change: Write, table: TableMetadata) -> tuple[Target, dict[str, str]]:
    """Where a change goes, and what the summary says of it."""
    check_properties(change.properties)
    branch, staged = change.branch, change.wap_id is not None
    if staged or change.wap_branch is not None:
        if table.properties.get(WAP_ENABLED, "false").strip().lower() != "true":
            hint = f"Set its property {WAP_ENABLED} to true"
            raise InvalidChange("the table does not take writes to be audited", field=WAP_ENABLED, hint=hint)
        if change.wap_branch is not None and (staged or branch not in (MAIN, change.wap_branch)):
            raise InvalidInput("a write has one target", field="wap_branch", hint="Leave the other one out")
        branch = change.wap_branch or branch
    said = {} if change.wap_id is None else {"wap.id": change.wap_id}
    return Target(branch, change.stage_only or staged), said


def _step(change: Write, table: TableMetadata) -> _Step:
    match change:
        case Append():
            return _Step(Edit("append", _added(change.files, table)))
        case Overwrite():
            return _overwrite(change, table)
        case OverwritePartitions():
            return _overwrite_partitions(change, table)
        case DeleteFiles():
            removal = Removal(change.where, _named(change.remove), _places(change.remove))
            return _Step(Edit("delete", (), removal), _watch(change, change.remove, change.where))
        case Rewrite():
            return _rewrite(change, table)
        case RowDelta():
            return _row_delta(change, table)
        case _:
            raise InvalidInput(f"not a change of files: {type(change).__name__}")


def _overwrite(change: Overwrite, table: TableMetadata) -> _Step:
    if change.refuse_outside:
        check_inside(change.files, change.where, table)
    removal = Removal(change.where, _named(change.remove), _places(change.remove))
    added = _added(change.files, table)
    operation = "append" if removal.is_nothing else "overwrite" if added else "delete"
    _check_disjoint(change.files, removal.paths)
    watch = _watch(change, change.remove, change.where, change.conflicts_with)
    return _Step(Edit(operation, added, removal), watch)


def _watch(
    change: Overwrite | DeleteFiles,
    remove: pa.Table | None,
    where: Predicate,
    read: Predicate | None = None,
) -> Watch | None:
    if change.isolation is None:
        return None
    names_files = remove is not None and remove.num_rows > 0
    appended = read if read is not None else TRUE if names_files else where
    deleted = FALSE if where == FALSE else where if read is None else read
    return Watch(
        change.validate_from,
        appended=Scope(appended if change.isolation == "serializable" else FALSE),
        deleted=Scope(deleted),
        rows_of=remove if names_files else None,
    )


def _overwrite_partitions(change: OverwritePartitions, table: TableMetadata) -> _Step:
    added = _added(change.files, table)
    whole = any(table.spec_by_id(each.new.spec_id).is_unpartitioned for each in added)
    partitions = None if whole or not added else partitions_in(change.files)
    scope = Scope(TRUE) if whole else Scope(partitions=partitions)
    watch = Watch(
        change.validate_from,
        appended=scope if change.isolation == "serializable" else Scope(),
        deleted=scope,
    )
    removal = Removal(scope.where, partitions=scope.partitions)
    edit = Edit("overwrite", added, removal, {"replace-partitions": "true"})
    return _Step(edit, None if change.isolation is None else watch)


def _rewrite(change: Rewrite, table: TableMetadata) -> _Step:
    if not change.remove.num_rows:
        raise InvalidInput("there is nothing to rewrite", source=table.location)
    number = change.data_sequence_number
    added = tuple(each._replace(sequence_number=number) for each in _added(change.files, table))
    removal = Removal(paths=_named(change.remove), places=_places(change.remove))
    _check_disjoint(change.files, removal.paths)
    watch = Watch(change.validate_from, rows_of=change.remove, ignore_equality=number is not None)
    return _Step(Edit("replace", added, removal), watch)


def _row_delta(change: RowDelta, table: TableMetadata) -> _Step:
    data = _added(change.files, table)
    deletes = check_new_deletes(change.deletes, change.deletes_from, table)
    added = (*data, *(Added(each, DELETE_MANIFEST) for each in deletes))
    removal = Removal(
        paths=_named(change.remove),
        places=_places(change.remove),
        deletes=change.remove_deletes,
        deletes_required=change.refuse_new_deletes,
    )
    _check_disjoint((*change.files, *change.deletes), removal.paths)
    _check_kept(change.deletes_from, removal.paths)
    # A change that takes rows away and adds none is one that others may rely on as such.
    operation = "delete" if not data else "append" if removal.is_nothing and not deletes else "overwrite"
    return _Step(Edit(operation, added, removal), _watch_rows(change))


def _watch_rows(change: RowDelta) -> Watch | None:
    read = Scope(change.conflicts_with)
    is_serializable = change.isolation == "serializable"
    names_files = any(each is not None and each.num_rows for each in (change.deletes_from, change.remove))
    if change.isolation is None and not names_files and not change.remove_deletes:
        return None
    vectors = [path for each in change.deletes for path in vectors_in(each).to_pylist()]
    of_vectors = None
    if vectors and change.deletes_from is not None:
        wanted = pa.array(vectors, pa.string())
        of_vectors = change.deletes_from.filter(pc.is_in(change.deletes_from["file_path"], value_set=wanted))
    return Watch(
        change.validate_from,
        appended=read if is_serializable else Scope(),
        new_deletes=read if change.isolation and change.refuse_new_deletes else Scope(),
        removed=read if is_serializable and change.refuse_new_deletes else Scope(),
        rows_of=change.remove,
        needed=change.deletes_from,
        may_be_deleted=not change.refuse_new_deletes,
        vectors_of=of_vectors,
        equality_removed=equality_deletes_in(change.remove_deletes),
    )


def _added(files: tuple[NewFiles, ...], table: TableMetadata) -> tuple[Added, ...]:
    found = tuple(Added(each) for each in check_incoming(files, table) if each.files.num_rows)
    for each in found:
        check_data(each.new)
    return found


def _named(remove: pa.Table | None) -> pa.Array | None:
    return None if remove is None or not remove.num_rows else plain(remove["file_path"])


def _places(remove: pa.Table | None) -> pa.Table | None:
    columns = ("spec_id", "partition")
    if remove is None or not set(columns).issubset(remove.column_names):
        return None
    return remove.select(columns)


def _check_kept(deletes_from: pa.Table | None, gone: pa.Array | None) -> None:
    if deletes_from is None or gone is None:
        return
    both = deletes_from.filter(pc.is_in(deletes_from["file_path"], value_set=gone))
    if both.num_rows:
        problem = "the file goes as a whole, so that rows cannot be deleted from it"
        raise InvalidInput(problem, source=both["file_path"][0].as_py())


def _check_disjoint(files: tuple[NewFiles, ...], paths: pa.Array | None) -> None:
    if paths is None:
        return
    gone = set(paths.to_pylist())
    for each in files:
        for path in each.files["file_path"].to_pylist():
            if path in gone:
                raise InvalidInput("a file cannot be added and removed by one change", source=path)
