"""F7: changes of single rows beside others: both count as in some order, or one is refused."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from lakeplane.errors import CommitConflict, InvalidInput, RequirementFailed
from lakeplane.iceberg.changes import (
    Append,
    Change,
    DeleteFiles,
    Overwrite,
    OverwritePartitions,
    Rewrite,
    RowDelta,
)
from tests.iceberg.row_deltas import Row, Rows

START: list[Row] = [("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2)]


class Step(NamedTuple):
    """What a writer does: from the rows that it reads to a change."""

    name: str
    plan: Callable[[Rows], Change]


def _is(p: str, *ids: int) -> Callable[[Row], bool]:
    return lambda row: row[0] == p and row[1] in ids


def _delete(p: str, *ids: int) -> Step:
    read = f"p = '{p}' AND id IN ({', '.join(map(str, ids))})"
    return Step(f"delete {p}{ids}", lambda rows: rows.delta(_is(p, *ids), read=read, only_deletes=True))


def _delete_whole(p: str) -> Step:
    def plan(rows: Rows) -> Change:
        names = rows.named(lambda row: row[0] == p)
        return RowDelta(
            remove=rows.made.files(*names),
            isolation="serializable",
            validate_from=rows.read_at,
            conflicts_with=rows.made.where(f"p = '{p}'"),
            refuse_new_deletes=False,
        )

    return Step(f"delete the files of {p}", plan)


def _update(p: str, number: int) -> Step:
    """An UPDATE that adds ten."""

    def plan(rows: Rows) -> Change:
        found = sum(1 for row in rows.now().elements() if row == (p, number))
        new = [(p, number + 10)] * found
        return rows.delta(_is(p, number), new, read=f"p = '{p}' AND id = {number}")

    return Step(f"update {p}{number}", plan)


def _copy_update(p: str, number: int) -> Step:
    """The same UPDATE, which copies the files."""

    def plan(rows: Rows) -> Change:
        names = rows.named(_is(p, number))
        kept = [row for name in names for row in rows.live()[name].values()]
        return Overwrite(
            files=rows.files((each, other + 10 * (other == number)) for each, other in kept),
            remove=rows.made.files(*names),
            isolation="serializable",
            validate_from=rows.read_at,
            conflicts_with=rows.made.where(f"p = '{p}' AND id = {number}"),
        )

    return Step(f"copy-update {p}{number}", plan)


def _merge_missing(p: str, number: int) -> Step:
    """A MERGE that inserts a row unless it is there."""

    def plan(rows: Rows) -> Change:
        new = [] if (p, number) in rows.now() else [(p, number)]
        return rows.delta(lambda _: False, new, read=f"p = '{p}' AND id = {number}")

    return Step(f"merge {p}{number}", plan)


def _sum(p: str) -> Step:
    """What depends on all rows of a partition."""

    def plan(rows: Rows) -> Change:
        total = 100 + sum(number for each, number in rows.now().elements() if each == p)
        return rows.delta(_is(p, 1), [(p, total)], read=f"p = '{p}'")

    return Step(f"sum {p}", plan)


def _upsert(p: str, number: int) -> Step:
    """An equality delete and a new row, without a look at the table."""
    return Step(
        f"upsert {p}{number}",
        lambda rows: RowDelta(
            files=rows.files([(p, number)]), deletes=rows.by_value(p, number), validate_from=rows.read_at
        ),
    )


def _compact(p: str) -> Step:
    def plan(rows: Rows) -> Change:
        names = rows.named(lambda row: row[0] == p)
        read = rows.read_at
        if not names or read is None:
            return Append(files=())
        kept = [row for name in names for row in rows.live()[name].values()]
        return Rewrite(remove=rows.made.files(*names), files=rows.files(kept), validate_from=read)

    return Step(f"compact {p}", plan)


def _replace(p: str) -> Step:
    def plan(rows: Rows) -> Change:
        total = 200 + sum(number for each, number in rows.now().elements() if each == p)
        return OverwritePartitions(
            files=rows.files([(p, total)]), isolation="serializable", validate_from=rows.read_at
        )

    return Step(f"overwrite {p}", plan)


OWN = (
    _delete("x", 1),
    _delete("y", 1, 2),
    _delete_whole("x"),
    _update("x", 1),
    _update("x", 2),
    _merge_missing("x", 11),
    _sum("x"),
    _upsert("x", 1),
)
OTHERS = (
    Step("append to x", lambda rows: Append(files=rows.files([("x", 11)]))),
    Step("delete p = 'x'", lambda rows: DeleteFiles(where=rows.made.where("p = 'x'"))),
    _copy_update("x", 1),
    _copy_update("y", 1),
    _compact("x"),
    _replace("x"),
)
BEFORE = ("large files", "small files", "deletes")


def world(version: int, before: str) -> Rows:
    """A table, perhaps with rows that are deleted already."""
    rows = Rows(version, *START, apart=before == "small files")
    if before == "deletes":
        rows.commit(_delete("x", 3).plan(rows))
        rows.commit(_delete("y", 2).plan(rows))
    return rows


@functools.cache
def one_after_the_other(version: int, before: str, *steps: Step) -> Counter[Row]:
    rows = world(version, before)
    for step in steps:
        rows.commit(step.plan(rows))
    return rows.now()


@pytest.mark.parametrize("second", [*OWN, *OTHERS], ids=lambda each: each.name)
@pytest.mark.parametrize("version", [2, 3])
def test_two_writers_end_as_in_some_order_or_one_is_refused(version: int, second: Step) -> None:
    """Both read, the first one commits, then the second one does, at once or again.

    Deleted rows came back, and updated ones were there twice: apache/iceberg #10720, #12653, #15006.
    """
    problems = []
    steps = [*OWN, *OTHERS] if second in OWN else list(OWN)
    for number, first in enumerate(steps):
        before = BEFORE[([*OWN, *OTHERS].index(first) + [*OWN, *OTHERS].index(second)) % len(BEFORE)]
        rows = world(version, before)
        changes = [step.plan(rows) for step in (first, second)]
        attempt = rows.made.propose(changes[1]) if number % 2 else None
        rows.commit(changes[0])
        try:
            if attempt is not None:
                with pytest.raises(RequirementFailed):
                    rows.made.publish(attempt)
            rows.made.publish(rows.made.propose(changes[1], attempt and attempt.maker))
        except CommitConflict:
            assert rows.now() == one_after_the_other(version, before, first)
            continue
        except InvalidInput as error:
            pytest.fail(f"{first.name}, {second.name}: refused for ever: {error}")
        orders = ((first, second), (second, first))
        possible = [one_after_the_other(version, before, *order) for order in orders]
        if rows.now() not in possible:
            problems.append(f"{first.name}, then {second.name}: {rows.now()}, not one of {possible}")
    assert not problems, "\n".join(problems)
