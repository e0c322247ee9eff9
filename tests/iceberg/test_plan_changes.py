"""What lies between two states of a table: commits in one line, and files that plans have not in common."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.plan_changes import Commit, commits_between, difference, occurrences
from lakeplane.iceberg.snapshots import Ref
from lakeplane.model.types import LONG
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, deletes, entries


def add(built: BuiltTable, *names: str, **how: Any) -> int:
    return built.commit(entries(built.metadata, [Listed(each) for each in names]), **how).snapshot_id


def ids(commits: list[Commit]) -> list[tuple[int | None, int]]:
    return [(each.before.snapshot_id if each.before else None, each.after.snapshot_id) for each in commits]


def names(read: ReadPlan) -> list[str]:
    found: list[str] = read.files["file_path"].to_pylist()
    return found


# Commits


def test_commits_come_in_their_order_and_compactions_are_none() -> None:
    built = build(("id", LONG))
    a, b = add(built, "a"), add(built, "b")
    c = add(built, "c", operation="replace")
    d = add(built, "d", operation="overwrite")
    table = built.metadata
    assert ids(commits_between(table, None)) == [(None, a), (a, b), (c, d)]
    assert ids(commits_between(table, a, c)) == [(a, b)]
    assert ids(commits_between(table, c)) == [(c, d)]
    assert ids(commits_between(table, d)) == []
    assert ids(commits_between(table, a, net=True)) == [(a, d)]
    assert ids(commits_between(table, None, c, net=True)) == [(None, c)]
    assert ids(commits_between(table, b, c, net=True)) == [], "nothing but a compaction"
    moment = table.snapshots_by_id[b].timestamp_ms
    table = built.change(u.SetSnapshotRef("tagged", Ref(snapshot_id=c, type="tag")))
    later = np.datetime64(moment, "ms").item()
    assert ids(commits_between(table, later, "tagged")) == []
    assert ids(commits_between(table, str(later), "main")) == [(c, d)]


def test_a_table_without_snapshots_has_no_changes() -> None:
    assert commits_between(build(("id", LONG)).metadata, None) == []


def test_a_range_must_be_in_one_line() -> None:
    built = build(("id", LONG))
    a = add(built, "a")
    b = add(built, "b")
    built.change(u.SetSnapshotRef("side", Ref(snapshot_id=a, type="branch")))
    c = add(built, "c", branch="side")
    for since, until in ((b, c), (c, b), (b, a), ("main", "side")):
        for net in (False, True):
            with pytest.raises(InvalidInput, match="does not descend"):
                commits_between(built.metadata, since, until, net=net)
    assert ids(commits_between(built.metadata, a, "side")) == [(a, c)]


def test_what_has_expired_is_said() -> None:
    built = build(("id", LONG))
    a, b, c, d = (add(built, each) for each in "abcd")
    table = built.change(u.RemoveSnapshots((b,)))
    for since in (None, a):
        with pytest.raises(InvalidInput, match=f"snapshot {b}, which {c} was made from, has expired"):
            commits_between(table, since)
    with pytest.raises(InvalidInput, match=f"no snapshot {b}"):
        commits_between(table, b)
    assert ids(commits_between(table, c)) == [(c, d)]
    assert ids(commits_between(table, None, net=True)) == [(None, d)], "no history is needed for it"


# Files


def test_files_come_and_go() -> None:
    built = build(("id", LONG))
    add(built, "a", "b")
    before = plan(built.metadata, built.reading())
    add(built, "c")
    after = plan(built.metadata, built.reading())
    found = difference(before, after)
    assert (names(found.removed), names(found.added), names(found.before)) == ([], ["c"], [])
    found = difference(after, before)
    assert (names(found.removed), names(found.added)) == (["c"], [])
    found = difference(None, after)
    assert (names(found.removed), sorted(names(found.added))) == ([], ["a", "b", "c"])
    add(built, "d", keep=built.manifests()[:1], operation="overwrite")
    found = difference(before, plan(built.metadata, built.reading()))
    assert (sorted(names(found.removed)), sorted(names(found.added))) == (["a", "b"], ["c", "d"])


def test_a_file_that_is_there_twice_is_two_files() -> None:
    """A file that somebody adds again has its rows twice: they would be missing in the feed."""
    built = build(("id", LONG))
    add(built, "a", "b")
    before = plan(built.metadata, built.reading())
    add(built, "a")
    found = difference(before, after := plan(built.metadata, built.reading()))
    assert (names(found.removed), names(found.added)) == ([], ["a"])
    assert found.added.files["sequence_number"].to_pylist() == [2]
    assert names(difference(after, before).removed) == ["a"]


def test_files_are_told_apart_by_their_deletes() -> None:
    built = build(("id", LONG))
    add(built, "a", "b", "c", "d")
    before = plan(built.metadata, built.reading())
    key = {"equality_ids": [1]}
    built.commit(
        deletes(
            built.metadata,
            [
                Listed("p", more={"referenced_data_file": "b"}),
                Listed("q", more={"referenced_data_file": "c"}),
            ],
        )
    )
    middle = plan(built.metadata, built.reading())
    found = difference(before, middle)
    assert names(found.before) == names(found.after)
    assert sorted(names(found.after)) == ["b", "c"]
    assert not found.by_value.any()
    assert found.before.files["position_deletes"].to_pylist() == [[], []]
    assert all(found.after.files["position_deletes"].to_pylist())
    built.commit(deletes(built.metadata, [Listed("e", content=EQUALITY_DELETES, more=key)]))
    after = plan(built.metadata, built.reading())
    found = difference(middle, after)
    assert sorted(names(found.after)) == ["a", "b", "c", "d"]
    assert found.by_value.all()
    assert not found.released.any()
    assert difference(after, middle).released.all()
    assert not difference(after, after).before.files.num_rows


def test_vectors_of_one_file_are_different_deletes() -> None:
    built = build(("id", LONG), format_version=3)
    add(built, "a", "b")

    def vectors(**offsets: int) -> None:
        listed = [
            Listed(
                "v.puffin",
                more={
                    "file_format": "PUFFIN",
                    "referenced_data_file": name,
                    "content_offset": offset,
                    "content_size_in_bytes": 10,
                },
            )
            for name, offset in offsets.items()
        ]
        kept = [each for each in built.manifests() if each.content == 0]
        built.commit(deletes(built.metadata, listed), keep=kept)

    vectors(a=4, b=14)
    before = plan(built.metadata, built.reading())
    vectors(a=4, b=24)
    found = difference(before, plan(built.metadata, built.reading()))
    assert names(found.before) == names(found.after) == ["b"]


@given(st.lists(st.integers(0, 5)), st.randoms())
def test_occurrences_are_counted(codes: list[int], chance: Any) -> None:
    sequence = [chance.randint(0, 3) for _ in codes]
    seen: collections.Counter[int] = collections.Counter()
    expected = [0] * len(codes)
    for row in sorted(range(len(codes)), key=lambda each: (sequence[each], each)):
        expected[row] = seen[codes[row]]
        seen[codes[row]] += 1
    found = occurrences(np.array(codes, np.int64), np.array(sequence, np.int64))
    assert found.tolist() == expected
