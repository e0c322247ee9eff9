"""Branches and tags: what each change needs, does and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from lakeplane.errors import LakeplaneError, RequirementFailed
from lakeplane.iceberg import refs
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.refs import Proposal, Retention
from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, Field

ANY = Retention()


def empty() -> TableMetadata:
    made = creation(
        Schema((Field(1, "id", LONG),)), uuid="00000000-0000-4000-8000-000000000001", location="s3://b/t"
    )
    return apply(None, cast("Any", made), now_ms=0)


def grown(
    table: TableMetadata, snapshot_id: int, parent: int | None, ref: str | None, **summary: str
) -> TableMetadata:
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=table.last_sequence_number + 1,
        timestamp_ms=snapshot_id * 10,
        manifest_list=f"s3://b/t/{snapshot_id}.avro",
        summary=FrozenDict(
            {"operation": "append", **{key.replace("_", "."): summary[key] for key in summary}}
        ),
    )
    updates: list[u.TableUpdate] = [u.AddSnapshot(snapshot)]
    if ref:
        updates.append(u.SetSnapshotRef(ref, Ref(snapshot_id=snapshot_id, type="branch")))
    return apply(table, updates, now_ms=snapshot_id * 10)


@pytest.fixture
def table() -> TableMetadata:
    """1 - 2 - 3 is main; 4 was written on 3, and 5 on 2, beside it; a tag is at 1, a branch at 2."""
    now = empty()
    for snapshot_id, parent in ((1, None), (2, 1), (3, 2)):
        now = grown(now, snapshot_id, parent, "main")
    now = grown(now, 4, 3, None)
    now = grown(now, 5, 2, None)
    now = done(now, refs.create_tag(now, "first", 1, ANY))
    return done(now, refs.create_branch(now, "dev", 2, ANY))


def done(table: TableMetadata, proposal: Proposal) -> TableMetadata:
    requirements, updates = proposal
    q.check(requirements, table)
    return apply(table, updates, now_ms=1000)


def at(table: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in table.refs.items()}


@pytest.mark.parametrize(("place", "found"), [(None, 3), (1, 1), ("first", 1), ("dev", 2), ("main", 3)])
def test_a_place_is_an_id_a_ref_or_the_current_snapshot(
    table: TableMetadata, place: int | str | None, found: int
) -> None:
    assert at(done(table, refs.create_tag(table, "new", place, ANY)))["new"] == found
    assert at(done(table, refs.create_branch(table, "new", place, ANY)))["new"] == found


def test_retention_is_kept_as_it_was_given(table: TableMetadata) -> None:
    kept = Retention(max_ref_age_ms=1, max_snapshot_age_ms=2, min_snapshots_to_keep=3)
    made = done(table, refs.create_branch(table, "b", None, kept)).refs["b"]
    assert (made.max_ref_age_ms, made.max_snapshot_age_ms, made.min_snapshots_to_keep) == (1, 2, 3)
    tag = done(table, refs.create_tag(table, "t", None, Retention(max_ref_age_ms=5))).refs["t"]
    assert (tag.type, tag.max_ref_age_ms) == ("tag", 5)


def test_retention_changes_only_what_is_given(table: TableMetadata) -> None:
    first = done(
        table, refs.set_retention(table, "dev", Retention(max_ref_age_ms=1, min_snapshots_to_keep=3))
    )
    then = done(first, refs.set_retention(first, "dev", Retention(min_snapshots_to_keep=4)))
    assert (then.refs["dev"].max_ref_age_ms, then.refs["dev"].min_snapshots_to_keep) == (1, 4)
    assert at(then) == at(table)


def test_replacing_points_a_ref_elsewhere_also_sideways(table: TableMetadata) -> None:
    assert at(done(table, refs.create_tag(table, "first", 5, ANY, replace=True)))["first"] == 5
    assert at(done(table, refs.create_branch(table, "dev", 5, ANY, replace=True)))["dev"] == 5


def test_a_dropped_ref_leaves_its_snapshots(table: TableMetadata) -> None:
    dropped = done(table, refs.drop(table, "dev"))
    assert at(dropped) == {"main": 3, "first": 1}
    assert dropped.snapshots == table.snapshots


def test_a_branch_moves_forward_to_descendants_only(table: TableMetadata) -> None:
    assert at(done(table, refs.fast_forward(table, "dev", "main")))["dev"] == 3
    assert at(done(table, refs.fast_forward(table, "dev", 5)))["dev"] == 5
    assert at(done(table, refs.fast_forward(table, "new", 4)))["new"] == 4
    assert done(table, refs.fast_forward(table, "main", 3)) is table
    ahead = done(table, refs.fast_forward(table, "main", 4))
    assert (ahead.current_snapshot_id, ahead.snapshot_log[-1].timestamp_ms) == (4, 1000)


def test_fast_forward_keeps_the_retention_of_the_branch(table: TableMetadata) -> None:
    kept = done(table, refs.set_retention(table, "dev", Retention(min_snapshots_to_keep=9)))
    assert done(kept, refs.fast_forward(kept, "dev", "main")).refs["dev"].min_snapshots_to_keep == 9


def test_rolling_back_goes_to_an_ancestor_and_is_logged_as_now(table: TableMetadata) -> None:
    back = done(table, refs.rollback(table, 1))
    assert (back.current_snapshot_id, back.snapshot_log[-1].snapshot_id) == (1, 1)
    assert back.snapshot_log[-1].timestamp_ms == 1000
    assert back.snapshots == table.snapshots


@pytest.mark.parametrize(("before_ms", "found"), [(31, 3), (30, 2), (11, 1)])
def test_rolling_back_in_time_goes_to_the_last_snapshot_before_it(
    table: TableMetadata, before_ms: int, found: int
) -> None:
    assert done(table, refs.rollback(table, before_ms=before_ms)).current_snapshot_id == found


def test_any_snapshot_can_be_made_current(table: TableMetadata) -> None:
    assert done(table, refs.move(table, "main", 5)).current_snapshot_id == 5


Refused = tuple[Callable[[TableMetadata], Proposal], str]
REFUSED: list[Refused] = [
    (lambda t: refs.create_tag(t, "first", None, ANY), "the tag exists. Replace it"),
    (lambda t: refs.create_branch(t, "dev", None, ANY), "the branch exists. Replace it"),
    (lambda t: refs.create_branch(t, "main", None, ANY), "the branch exists"),
    (lambda t: refs.create_tag(t, "nope", None, ANY, replace=True), "no such ref to replace. Create it"),
    (lambda t: refs.create_tag(t, "dev", None, ANY, replace=True), "a branch cannot become a tag"),
    (lambda t: refs.create_branch(t, "first", None, ANY, replace=True), "a tag cannot become a branch"),
    (lambda t: refs.create_tag(t, "new", 99, ANY), "99"),
    (lambda t: refs.create_tag(t, "new", "nope", ANY), "no branch or tag 'nope'. There is dev, first, main"),
    (
        lambda t: refs.create_tag(t, "new", None, Retention(min_snapshots_to_keep=1)),
        "a tag keeps one snapshot",
    ),
    (lambda t: refs.create_tag(t, "", None, ANY), "a ref needs a name"),
    (lambda t: refs.create_branch(t, "b", None, Retention(max_ref_age_ms=0)), "must be positive"),
    (lambda t: refs.drop(t, "main"), "main cannot be dropped"),
    (lambda t: refs.drop(t, "nope"), "no branch or tag 'nope'"),
    (lambda t: refs.set_retention(t, "nope", ANY), "no branch or tag 'nope'"),
    (lambda t: refs.set_retention(t, "main", Retention(max_ref_age_ms=5)), "main never expires"),
    (lambda t: refs.set_retention(t, "first", Retention(min_snapshots_to_keep=5)), "snapshot retention"),
    (
        lambda t: refs.fast_forward(t, "main", 5),
        "does not descend from 3, where 'main' is. Replace the branch",
    ),
    (lambda t: refs.fast_forward(t, "dev", 1), "does not descend"),
    (lambda t: refs.fast_forward(t, "first", 3), "a tag does not move"),
    (lambda t: refs.fast_forward(t, "dev", "nope"), "nope"),
    (lambda t: refs.move(t, "main", 99), "99"),
    (lambda t: refs.rollback(t, 5), "not in the history of main. To make any snapshot current"),
    (lambda t: refs.rollback(t, 99), "99"),
    (lambda t: refs.rollback(t, before_ms=10), "no snapshot before 10 ms"),
    (refs.rollback, "it is not said what to roll back to. Give a snapshot id"),
]


@pytest.mark.parametrize(
    ("change", "problem"), REFUSED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_cannot_be_is_refused_and_says_why(
    table: TableMetadata, change: Callable[[TableMetadata], Proposal], problem: str
) -> None:
    with pytest.raises(LakeplaneError) as failure:
        done(table, change(table))
    assert problem in str(failure.value)


EMPTY_REFUSED: list[Refused] = [
    (lambda t: refs.create_tag(t, "new", None, ANY), "no snapshot yet. Write to it first"),
    (lambda t: refs.rollback(t, 1), "no snapshot to roll back"),
    (lambda t: refs.fast_forward(t, "main", "main"), "There is none yet"),
]


@pytest.mark.parametrize(
    ("change", "problem"), EMPTY_REFUSED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_table_without_snapshots_has_nothing_to_point_at(
    change: Callable[[TableMetadata], Proposal], problem: str
) -> None:
    with pytest.raises(LakeplaneError) as failure:
        change(empty())
    assert problem in str(failure.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: refs.create_branch(t, "dev", 3, ANY, replace=True),
        lambda t: refs.drop(t, "dev"),
        lambda t: refs.fast_forward(t, "dev", "main"),
        lambda t: refs.set_retention(t, "dev", Retention(max_ref_age_ms=1)),
    ],
)
def test_a_ref_that_somebody_moved_meanwhile_is_looked_at_again(
    table: TableMetadata, change: Callable[[TableMetadata], Proposal]
) -> None:
    requirements, _ = change(table)
    moved = done(table, refs.create_branch(table, "dev", 5, ANY, replace=True))
    with pytest.raises(RequirementFailed):
        q.check(requirements, moved)


def test_a_ref_that_somebody_made_meanwhile_is_not_taken_over(table: TableMetadata) -> None:
    requirements, _ = refs.create_tag(table, "new", 1, ANY)
    with pytest.raises(RequirementFailed):
        q.check(requirements, done(table, refs.create_tag(table, "new", 2, ANY)))
