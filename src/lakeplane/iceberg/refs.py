"""Changes of branches and tags: each a pure function from a table to what must hold and what is to happen."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from lakeplane.errors import InvalidChange
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.requirements import AssertRefSnapshotId, AssertTableUuid, Requirement
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.model.frozen import EMPTY

Proposal: TypeAlias = tuple[tuple[Requirement, ...], tuple[u.TableUpdate, ...]]


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a ref, and what a branch reaches, is kept; None leaves it to the table."""

    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


def resolve(table: TableMetadata, at: int | str | None) -> int:
    """The id of a snapshot, given by its id, by a branch or tag, or as the current one."""
    if at is None:
        if table.current_snapshot_id is None:
            raise InvalidChange("the table has no snapshot yet", hint="Write to it first")
        return table.current_snapshot_id
    return table.snapshot(at).snapshot_id if isinstance(at, int) else table.snapshot_of(at).snapshot_id


def create_branch(
    table: TableMetadata, name: str, at: int | str | None, retention: Retention, *, replace: bool = False
) -> Proposal:
    """Make a branch, or with ``replace`` point one elsewhere."""
    ref = Ref(
        snapshot_id=resolve(table, at),
        type="branch",
        min_snapshots_to_keep=retention.min_snapshots_to_keep,
        max_snapshot_age_ms=retention.max_snapshot_age_ms,
        max_ref_age_ms=retention.max_ref_age_ms,
    )
    return _create(table, name, ref, replace=replace)


def create_tag(
    table: TableMetadata, name: str, at: int | str | None, retention: Retention, *, replace: bool = False
) -> Proposal:
    """Make a tag, or with ``replace`` point one elsewhere."""
    if (retention.max_snapshot_age_ms, retention.min_snapshots_to_keep) != (None, None):
        raise InvalidChange("a tag keeps one snapshot, it has no snapshot retention", field=f"ref {name!r}")
    ref = Ref(snapshot_id=resolve(table, at), type="tag", max_ref_age_ms=retention.max_ref_age_ms)
    return _create(table, name, ref, replace=replace)


def _create(table: TableMetadata, name: str, ref: Ref, *, replace: bool) -> Proposal:
    _check_age(name, ref.max_ref_age_ms)
    old = table.refs.get(name)
    if old is not None and not replace:
        raise InvalidChange(
            f"the {old.type} exists", field=f"ref {name!r}", hint="Replace it, or choose another name"
        )
    if old is None and replace:
        raise InvalidChange("there is no such ref to replace", field=f"ref {name!r}", hint="Create it")
    if old is not None and old.type != ref.type:
        raise InvalidChange(
            f"a {old.type} cannot become a {ref.type}", field=f"ref {name!r}", hint="Drop it first"
        )
    return _proposal(table, name, u.SetSnapshotRef(name, ref))


def drop(table: TableMetadata, name: str) -> Proposal:
    """Drop a branch or tag; its snapshots stay until they are expired."""
    if name == MAIN:
        raise InvalidChange("main cannot be dropped", field="ref 'main'")
    table.snapshot_of(name)
    return _proposal(table, name, u.RemoveSnapshotRef(name))


def fast_forward(table: TableMetadata, name: str, to: int | str) -> Proposal:
    """Move a branch to a snapshot that descends from where it is."""
    target = resolve(table, to)
    old = table.refs.get(name)
    if old is None:
        return create_branch(table, name, target, Retention())
    if old.snapshot_id not in {snapshot.snapshot_id for snapshot in table.ancestors(target)}:
        problem = f"snapshot {target} does not descend from {old.snapshot_id}, where {name!r} is"
        raise InvalidChange(problem, hint="Replace the branch if what it has may be lost")
    return move(table, name, target)


def move(table: TableMetadata, name: str, snapshot_id: int) -> Proposal:
    """Point a branch at any snapshot of the table."""
    table.snapshot(snapshot_id)
    old = table.refs.get(name, Ref(snapshot_id=snapshot_id, type="branch"))
    if not old.is_branch:
        raise InvalidChange("a tag does not move", field=f"ref {name!r}", hint="Replace it")
    return _proposal(
        table, name, u.SetSnapshotRef(name, msgspec.structs.replace(old, snapshot_id=snapshot_id))
    )


def rollback(table: TableMetadata, to: int | None = None, *, before_ms: int | None = None) -> Proposal:
    """Point main back at one of its ancestors: a snapshot, or the last one before a time."""
    if table.current_snapshot_id is None:
        raise InvalidChange("the table has no snapshot to roll back", field="ref 'main'")
    if to is None and before_ms is None:
        raise InvalidChange("it is not said what to roll back to", hint="Give a snapshot id, or before_ms")
    ancestors = list(table.ancestors(table.current_snapshot_id))
    if to is None:
        earlier = (each.snapshot_id for each in ancestors if before_ms and each.timestamp_ms < before_ms)
        to = next(earlier, None)
        if to is None:
            raise InvalidChange(f"main has no snapshot before {before_ms} ms")
    if to not in {each.snapshot_id for each in ancestors}:
        hint = "To make any snapshot current, use set_current_snapshot"
        raise InvalidChange(f"snapshot {to} is not in the history of main", hint=hint)
    return move(table, MAIN, to)


def check_pick(table: TableMetadata, picked: Snapshot) -> None:
    """Refuse to do to main what main has done already."""
    if table.current_snapshot_id is not None and any(
        each.snapshot_id == picked.snapshot_id for each in table.ancestors(table.current_snapshot_id)
    ):
        raise InvalidChange(f"snapshot {picked.snapshot_id} is in the history of main already")
    _check_wap(table, picked)


def _check_wap(table: TableMetadata, picked: Snapshot) -> None:
    wap_id = (picked.summary or EMPTY).get("wap.id")
    if wap_id is None or table.current_snapshot_id is None:
        return
    for each in table.ancestors(table.current_snapshot_id):
        summary = each.summary or EMPTY
        if wap_id in (summary.get("wap.id"), summary.get("published-wap-id")):
            raise InvalidChange(f"wap.id {wap_id} is published already, by snapshot {each.snapshot_id}")


def set_retention(table: TableMetadata, name: str, retention: Retention) -> Proposal:
    """Change how long a ref, and what it reaches, is kept."""
    table.snapshot_of(name)
    _check_age(name, retention.max_ref_age_ms)
    old = table.refs[name]
    changes = {key: value for key, value in msgspec.structs.asdict(retention).items() if value is not None}
    return _proposal(table, name, u.SetSnapshotRef(name, msgspec.structs.replace(old, **changes)))


def _check_age(name: str, max_ref_age_ms: int | None) -> None:
    """Tell users that an age has no effect on main; what other clients store of it does no harm."""
    if name == MAIN and max_ref_age_ms is not None:
        raise InvalidChange("main never expires, it cannot have max-ref-age-ms", field="ref 'main'")


def _proposal(table: TableMetadata, name: str, update: u.TableUpdate) -> Proposal:
    old = table.refs.get(name)
    unmoved = AssertRefSnapshotId(name, None if old is None else old.snapshot_id)
    return (*_same_table(table), unmoved), (update,)


def _same_table(table: TableMetadata) -> tuple[Requirement, ...]:
    return (AssertTableUuid(table.table_uuid),) if table.table_uuid else ()
