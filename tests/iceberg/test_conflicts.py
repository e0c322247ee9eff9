"""F7: what others committed since a table was read: two writers end as in some order, or one is refused."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest

from lakeplane.errors import CommitConflict, InvalidInput, RequirementFailed
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.changes import Append, Change, DeleteFiles, Overwrite, OverwritePartitions, Rewrite
from lakeplane.iceberg.cherrypick import Cherrypick
from lakeplane.iceberg.conflicts import Isolation
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.snapshots import Ref
from lakeplane.model.types import LONG, STRING
from tests.iceberg.built import Listed, bounds, deletes
from tests.iceberg.changing import Changing, changing

Row: TypeAlias = tuple[str, int]

COLUMNS = (("id", LONG), ("p", STRING))
START: list[Row] = [("x", 1), ("x", 2), ("y", 1)]


class World:
    """A table whose files hold rows that the test knows; each file is of one partition."""

    def __init__(self, rows: list[Row]) -> None:
        self.made = changing(*COLUMNS, by=["identity p"])
        self.rows: dict[str, list[Row]] = {}
        self._numbers = itertools.count()
        self.made.commit(Append(files=tuple(new for row in rows for new in self.files([row]))))

    def files(self, rows: list[Row]) -> tuple[NewFiles, ...]:
        """A new file for the rows of each partition."""
        listed = []
        for p in sorted({each for each, _ in rows}):
            name = f"f{next(self._numbers)}"
            self.rows[name] = [row for row in rows if row[0] == p]
            ids = [number for _, number in self.rows[name]]
            facts = {1: bounds(LONG, min(ids), max(ids), values=len(ids))}
            listed.append(Listed(name, (p,), facts, len(ids)))
        return self.made.new(*listed) if listed else ()

    def named(self, matches: Callable[[Row], bool]) -> list[str]:
        return [name for name in self.made.live() if any(map(matches, self.rows[name]))]

    def now(self) -> Counter[Row]:
        return Counter(row for name in self.made.live() for row in self.rows[name])


class Step(NamedTuple):
    """What a writer does: from the rows that it reads to a change."""

    name: str
    plan: Callable[[World], Change]


def _append(p: str) -> Step:
    return Step(f"append to {p}", lambda world: Append(files=world.files([(p, 7)])))


def _delete(where: str) -> Step:
    return Step(f"delete {where}", lambda world: DeleteFiles(where=world.made.where(where)))


def _counted(world: World, p: str) -> list[Row]:
    """What depends on all rows of a partition."""
    return [(p, 100 + sum(number for each, number in world.now().elements() if each == p))]


def _replace_partition(p: str) -> Step:
    return Step(
        f"overwrite the partition {p}",
        lambda world: OverwritePartitions(
            files=world.files(_counted(world, p)),
            isolation="serializable",
            validate_from=world.made.table.current_snapshot_id,
        ),
    )


def _replace_where(where: str, p: str, matches: Callable[[Row], bool]) -> Step:
    def plan(world: World) -> Change:
        read = 200 + sum(row[1] for row in world.now().elements() if matches(row))
        return Overwrite(
            files=world.files([(p, read)]),
            where=world.made.where(where),
            isolation="serializable",
            validate_from=world.made.table.current_snapshot_id,
        )

    return Step(f"overwrite {where}", plan)


def _update(p: str, number: int) -> Step:
    """Copy on write: files with a matching row are read, and written anew without it."""

    def plan(world: World) -> Change:
        names = world.named(lambda row: row == (p, number))
        rows = [row for name in names for row in world.rows[name]]
        new = [(each, other + 10 * (other == number)) for each, other in rows]
        return Overwrite(
            files=world.files(new),
            remove=world.made.files(*names),
            isolation="serializable",
            validate_from=world.made.table.current_snapshot_id,
            conflicts_with=world.made.where(f"p = '{p}' AND id = {number}"),
        )

    return Step(f"update {p}{number}", plan)


def _compact(p: str) -> Step:
    def plan(world: World) -> Change:
        names = world.named(lambda row: row[0] == p)
        rows = [row for name in names for row in world.rows[name]]
        if not names:
            return Append(files=())
        read = world.made.table.current_snapshot_id
        assert read is not None
        return Rewrite(remove=world.made.files(*names), files=world.files(rows), validate_from=read)

    return Step(f"compact {p}", plan)


STEPS = (
    _append("x"),
    _append("y"),
    _delete("p = 'x'"),
    _delete("TRUE"),
    _replace_partition("x"),
    _replace_partition("y"),
    _replace_where("p = 'x'", "x", lambda row: row[0] == "x"),
    _replace_where("p >= 'x'", "y", lambda row: row[0] >= "x"),
    _update("x", 1),
    _update("x", 7),
    _update("y", 1),
    _compact("x"),
    _compact("y"),
)


@functools.cache
def one_after_the_other(*steps: Step) -> Counter[Row]:
    world = World(START)
    for step in steps:
        world.made.commit(step.plan(world))
    return world.now()


@pytest.mark.parametrize("second", STEPS, ids=lambda each: each.name)
def test_two_writers_end_as_in_some_order_or_one_is_refused(second: Step) -> None:
    """Both read, the first one commits, then the second one does, at once or again: whatever they do.

    Iceberg #10720: a row that was deleted meanwhile came back with a file that was written anew.
    """
    problems = []
    for number, first in enumerate(STEPS, STEPS.index(second)):
        world = World(START)
        changes = [step.plan(world) for step in (first, second)]
        attempt = world.made.propose(changes[1]) if number % 2 else None
        world.made.commit(changes[0])
        try:
            if attempt is not None:
                with pytest.raises(RequirementFailed):
                    world.made.publish(attempt)
            world.made.publish(world.made.propose(changes[1], attempt and attempt.maker))
        except CommitConflict:
            assert world.now() == one_after_the_other(first)
            continue
        except InvalidInput:
            pytest.fail(f"{first.name}, {second.name}: refused for ever")
        possible = [one_after_the_other(*order) for order in ((first, second), (second, first))]
        if world.now() not in possible:
            problems.append(f"{first.name}, then {second.name}: {world.now()}, not one of {possible}")
    assert not problems, "\n".join(problems)


def test_not_everything_is_refused() -> None:
    """Whoever refuses all is never wrong."""
    agree = {
        ("overwrite the partition x", "append to y"),
        ("overwrite the partition x", "overwrite the partition y"),
        ("overwrite the partition x", "compact y"),
        ("overwrite p = 'x'", "append to y"),
        ("overwrite p = 'x'", "overwrite the partition y"),
        ("update x1", "append to x"),
        ("update x1", "compact y"),
        ("update x7", "update y1"),
        ("update x7", "compact x"),
        ("compact x", "append to x"),
        ("compact y", "delete p = 'x'"),
        ("delete TRUE", "append to x"),
        ("append to x", "delete TRUE"),
    }
    steps = {step.name: step for step in STEPS}
    for second, first in agree:
        world = World(START)
        changes = [steps[name].plan(world) for name in (first, second)]
        for change in changes:
            world.made.commit(change)


# Rule by rule


def file(name: str, p: str, lower: int, upper: int) -> Listed:
    return Listed(name, (p,), {1: bounds(LONG, lower, upper)}, 10)


@pytest.fixture
def made() -> Changing:
    """The files a (1-5) and c (6-9) in x, and b (1-5) in y."""
    made = changing(*COLUMNS, by=["identity p"])
    new = made.new(file("a", "x", 1, 5), file("b", "y", 1, 5), file("c", "x", 6, 9))
    made.commit(Append(files=new))
    return made


def read_at(made: Changing) -> int:
    found = made.table.current_snapshot_id
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("isolation", "p", "lower", "conflicts"),
    [
        ("serializable", "x", 1, True),
        ("serializable", "x", 50, False),
        ("serializable", "y", 1, False),
        ("snapshot", "x", 1, False),
        (None, "x", 1, False),
    ],
)
def test_new_rows_conflict_with_those_who_would_have_read_them(
    made: Changing,
    isolation: Isolation | None,
    p: str,
    lower: int,
    conflicts: bool,  # noqa: FBT001
) -> None:
    since = read_at(made)
    made.commit(Append(files=made.new(file("new", p, lower, lower))))
    change = Overwrite(
        files=made.new(file("mine", "x", 1, 5)),
        where=made.where("p = 'x' AND id < 6"),
        isolation=isolation,
        validate_from=since,
    )
    if conflicts:
        with pytest.raises(CommitConflict, match=r"data/new: snapshot 1001 has added this file since"):
            made.propose(change)
    else:
        made.commit(change)


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_files_that_others_removed_conflict(made: Changing, isolation: Isolation) -> None:
    since = read_at(made)
    made.commit(DeleteFiles(where=made.where("p = 'x' AND id >= 6")))
    for change in (
        Overwrite(where=made.where("p = 'x'"), isolation=isolation, validate_from=since),
        OverwritePartitions(files=made.new(file("new", "x", 1, 1)), isolation=isolation, validate_from=since),
    ):
        with pytest.raises(CommitConflict, match="data/c: snapshot 1001 has removed this file"):
            made.propose(change)
    made.commit(Overwrite(where=made.where("p = 'y'"), isolation=isolation, validate_from=since))


def _equality(made: Changing, p: str) -> None:
    listed = [Listed("eq", (p,), content=EQUALITY_DELETES, more={"equality_ids": [1]})]
    made.built.commit(deletes(made.table, listed), operation="delete")


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_rows_that_others_deleted_do_not_come_back(made: Changing, isolation: Isolation) -> None:
    """StarRocks #77709: conflicts were looked for from the wrong snapshot on, and deleted rows returned."""
    since, named = read_at(made), made.files("a")
    _equality(made, "x")
    for change in (
        Overwrite(files=(), remove=named, isolation=isolation, validate_from=since),
        Overwrite(where=made.where("p = 'x'"), isolation=isolation, validate_from=since),
        OverwritePartitions(files=made.new(file("new", "x", 1, 1)), isolation=isolation, validate_from=since),
        Rewrite(remove=named, files=made.new(file("new", "x", 1, 5)), validate_from=since),
    ):
        with pytest.raises(CommitConflict, match="has deleted"):
            made.propose(change)


def test_equality_deletes_apply_to_rewritten_files_that_keep_their_number(made: Changing) -> None:
    read = made.table.snapshot(read_at(made))
    named = made.files("a")
    _equality(made, "x")
    made.commit(
        Rewrite(
            remove=named,
            files=made.new(file("a2", "x", 1, 5)),
            validate_from=read.snapshot_id,
            data_sequence_number=read.sequence_number,
        )
    )
    assert [len(each) for each in made.files("a2")["equality_deletes"].to_pylist()] == [1]


def test_deletes_elsewhere_are_in_nobodys_way(made: Changing) -> None:
    since, named = read_at(made), made.files("a")
    _equality(made, "y")
    made.propose(Overwrite(where=made.where("p = 'x'"), isolation="snapshot", validate_from=since))
    made.commit(Rewrite(remove=named, files=made.new(file("a2", "x", 1, 5)), validate_from=since))


def test_a_vector_of_a_file_that_is_rewritten_conflicts() -> None:
    made = changing(*COLUMNS, by=["identity p"], format_version=3)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "x", 1, 5))))
    since, named = read_at(made), {name: made.files(name) for name in ("a", "b")}
    more = {"file_format": "PUFFIN", "content_offset": 4, "content_size_in_bytes": 40}
    more["referenced_data_file"] = "memory://t/data/a"
    made.built.commit(deletes(made.table, [Listed("v.puffin", ("x",), more=more)]), operation="delete")
    with pytest.raises(CommitConflict, match=r"data/a: snapshot \d+ has deleted rows of this file"):
        made.propose(Rewrite(remove=named["a"], files=(), validate_from=since))
    made.commit(Rewrite(remove=named["b"], files=made.new(file("b2", "x", 1, 5)), validate_from=since))


def test_a_table_that_was_empty_when_it_was_read() -> None:
    made = changing(*COLUMNS, by=["identity p"])
    change = OverwritePartitions(files=made.new(file("new", "x", 1, 1)), isolation="serializable")
    made.commit(change)
    with pytest.raises(CommitConflict, match="has added this file"):
        made.propose(OverwritePartitions(files=made.new(file("more", "x", 1, 1)), isolation="serializable"))


def test_a_history_that_has_expired_is_said(made: Changing) -> None:
    since = read_at(made)
    ids = [made.commit(Append(files=made.new(file(f"f{n}", "z", 1, 1)))).snapshot_id for n in range(3)]
    change = Overwrite(where=made.where("p = 'x'"), isolation="serializable", validate_from=since)
    made.built.change(u.RemoveSnapshots((since,)))
    made.propose(change)
    made.built.change(u.RemoveSnapshots((ids[0],)))
    with pytest.raises(CommitConflict, match=rf"since snapshot {since}: the history does not lead back"):
        made.propose(change)
    with pytest.raises(CommitConflict, match="since the table was empty: the history does not lead back"):
        made.propose(Overwrite(where=made.where("p = 'x'"), isolation="serializable"))


def test_a_branch_that_was_moved_is_said(made: Changing) -> None:
    first = read_at(made)
    since = made.commit(Append(files=made.new(file("f", "z", 1, 1)))).snapshot_id
    made.built.change(u.SetSnapshotRef("main", Ref(snapshot_id=first, type="branch")))
    with pytest.raises(CommitConflict, match="or the branch was moved"):
        made.propose(Overwrite(where=made.where("p = 'x'"), isolation="snapshot", validate_from=since))


def test_a_snapshot_is_looked_at_once_however_many_attempts_there_are(made: Changing) -> None:
    since = read_at(made)
    change = Overwrite(where=made.where("p = 'x'"), isolation="serializable", validate_from=since)
    attempt = made.propose(change)
    for n in range(3):
        made.commit(Append(files=made.new(file(f"f{n}", "z", 1, 1))))
        made.propose(change, attempt.maker)
    assert len(attempt.maker.looked_at) == 3
    made.commit(Append(files=made.new(file("hit", "x", 1, 1))))
    with pytest.raises(CommitConflict, match="data/hit"):
        made.propose(change, attempt.maker)


def test_files_must_be_given_as_a_plan_has_them(made: Changing) -> None:
    paths = made.files("a").select(["file_path"])
    with pytest.raises(InvalidInput, match="files are to be given as a plan has them"):
        made.propose(Overwrite(remove=paths, isolation="snapshot", validate_from=read_at(made)))
    made.commit(Overwrite(remove=paths))
    assert made.live() == ["b", "c"]


# Cherry-picks


def test_a_snapshot_on_top_of_main_is_picked_by_moving_to_it(made: Changing) -> None:
    staged = made.commit(Append(files=made.new(file("new", "x", 1, 1)), stage_only=True))
    before = len(made.built.files)
    made.commit(Cherrypick(snapshot_id=staged.snapshot_id))
    assert made.table.current_snapshot_id == staged.snapshot_id
    assert len(made.built.files) == before
    with pytest.raises(InvalidInput, match="in the history of main already"):
        made.propose(Cherrypick(snapshot_id=staged.snapshot_id))


def test_staged_partitions_are_picked_unless_somebody_else_changed_them(made: Changing) -> None:
    staged = [
        made.commit(OverwritePartitions(files=made.new(file(f"s{p}", p, 1, 1)), stage_only=True))
        for p in ("x", "y")
    ]
    made.commit(Append(files=made.new(file("late", "y", 1, 1))))
    done = made.commit(Cherrypick(snapshot_id=staged[0].snapshot_id))
    assert made.live() == ["b", "late", "sx"]
    assert done.summary is not None
    assert (done.operation, done.summary["deleted-data-files"]) == ("overwrite", "2")
    with pytest.raises(CommitConflict, match="data/late: snapshot 1003 has added this file"):
        made.propose(Cherrypick(snapshot_id=staged[1].snapshot_id))


def test_what_depends_on_its_state_is_not_picked_onto_another(made: Changing) -> None:
    staged = made.commit(DeleteFiles(where=made.where("p = 'x'"), stage_only=True))
    made.commit(Append(files=made.new(file("late", "x", 1, 1))))
    with pytest.raises(CommitConflict, match="main has moved since"):
        made.propose(Cherrypick(snapshot_id=staged.snapshot_id))


def test_an_overwrite_of_another_history_is_not_picked(made: Changing) -> None:
    first = read_at(made)
    made.commit(Append(files=made.new(file("f", "x", 1, 1))))
    staged = made.commit(OverwritePartitions(files=made.new(file("s", "x", 1, 1)), stage_only=True))
    made.built.change(u.SetSnapshotRef("main", Ref(snapshot_id=first, type="branch")))
    with pytest.raises(CommitConflict, match="the history does not lead back"):
        made.propose(Cherrypick(snapshot_id=staged.snapshot_id))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Cherrypick(), "by its id or by its wap.id"),
        (Cherrypick(snapshot_id=1, wap_id="w"), "by its id or by its wap.id"),
        (Cherrypick(snapshot_id=99), "the table has no snapshot 99"),
        (Cherrypick(wap_id="w"), "no snapshot was staged as 'w'"),
    ],
)
def test_what_cannot_be_picked(made: Changing, change: Cherrypick, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        made.propose(change)
