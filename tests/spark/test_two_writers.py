"""All pairs of changes of which one commits between the other's reading and its commit.

The rows are those that some order of the two gives, or the one that comes later is told of a conflict, and
has left nothing behind. Under snapshot isolation, rows may also be those of two writers that have not seen
each other, as long as no row was changed by both.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lakeplane.errors import CommitConflict, InvalidChange
from lakeplane.testing.clock import ManualClock
from tests.commits.worlds import without_waiting
from tests.spark.two_writers import BEFORE, Act, Both, allowed, as_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LAYOUTS = [(2, ("p",)), (3, ("p",)), (3, ())]
FREE = {
    ("update v", "append"),
    ("delete 1", "append"),
    ("delete 1", "rename a column"),
    ("merge", "add a column"),
}
"""Pairs that are never in each other's way: the later one of these under snapshot isolation."""


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_two_writers_come_one_after_the_other_or_one_is_told(
    layout: tuple[int, tuple[str, ...]], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody pulls the plug here, and waiting for the disk would take most of the time.
    monkeypatch.setattr("os.fsync", lambda _: None)
    both = Both(tmp_path, spark, *layout)
    acts = both.acts()
    later = [*acts, *(each for act in acts if (each := as_snapshot(act)) is not None)]
    wrong, conflicts, done = [], 0, 0
    with without_waiting(ManualClock()):
        for one in later:
            for other in acts:
                if one.written and set(one.written) & set(other.written):
                    continue
                is_conflict, problem = interleaved(both, one, other)
                conflicts += is_conflict
                done += not is_conflict
                if problem:
                    wrong.append(f"{one} after {other}: {problem}")
                if is_conflict and not one.is_serializable and (one.name, other.name) in FREE:
                    wrong.append(f"{one} after {other}: a conflict")
    assert not wrong, "\n".join(wrong)
    assert conflicts
    assert done


def interleaved(both: Both, one: Act, other: Act) -> tuple[bool, str]:
    """Let ``other`` commit while ``one`` is about to; tell whether that was a conflict, and what is wrong."""
    both.put_back()
    mine: set[str] = set()

    def meanwhile() -> None:
        before = both.files()
        both.publish(other)
        mine.update(both.files() - before)

    with both.before_commit(meanwhile):
        try:
            both.publish(one)
        except CommitConflict:
            is_conflict = True
        except InvalidChange:
            # The same column cannot be added twice.
            is_conflict = True
            if not callable(one.does):
                raise
        else:
            is_conflict = False
    if is_conflict:
        expected = (both.start | set(both.contents) | mine) - set(one.written)
        left = both.files() ^ expected
        found = both.rows()
        if found != Counter(other.means(frozenset(BEFORE))):
            return True, f"a conflict, and then {sorted(found.elements())}"
        return True, f"{sorted(left)} is there, or is not" if left else ""
    found = both.rows()
    return False, "" if found in allowed(one, other) else f"{sorted(found.elements())}"
