from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.retention import retained
from tests.iceberg.documents import Json, metadata

DAY = 24 * 60 * 60 * 1000
NOW = 1_700_000_000_000
MIN, AGE, REF_AGE = (
    "history.expire.min-snapshots-to-keep",
    "history.expire.max-snapshot-age-ms",
    "history.expire.max-ref-age-ms",
)


def table(
    ages: Mapping[int, float],
    refs: dict[str, Json],
    parents: dict[int, int] | None = None,
    **properties: str,
) -> TableMetadata:
    """Snapshots of some ages in days, each the child of the one before it unless parents say otherwise."""
    before = dict(zip(list(ages)[1:], ages, strict=False)) if parents is None else parents
    snapshots = [
        {
            "snapshot-id": snapshot_id,
            "sequence-number": 1,
            "timestamp-ms": NOW - round(age * DAY),
            "manifest-list": "l",
            "summary": {"operation": "append"},
            **({"parent-snapshot-id": before[snapshot_id]} if snapshot_id in before else {}),
        }
        for snapshot_id, age in ages.items()
    ]
    main = refs.get("main")
    return metadata(
        2,
        snapshots=snapshots,
        refs=refs,
        current_snapshot_id=... if main is None else main["snapshot-id"],
        snapshot_log=[],
        statistics=[],
        partition_statistics=[],
        properties={f"history.expire.{key.replace('_', '-')}": value for key, value in properties.items()},
    )


def branch(snapshot_id: int, **policy: int) -> Json:
    named = {key.replace("_", "-"): value for key, value in policy.items()}
    return {"snapshot-id": snapshot_id, "type": "branch", **named}


def tag(snapshot_id: int, **policy: int) -> Json:
    return {**branch(snapshot_id, **policy), "type": "tag"}


def kept(value: TableMetadata) -> set[int]:
    return set(retained(value, NOW).snapshot_ids)


def test_by_default_five_days_and_at_least_the_newest_are_kept() -> None:
    assert kept(table({1: 9, 2: 6, 3: 5, 4: 1}, {"main": branch(4)})) == {3, 4}
    assert kept(table({1: 9, 2: 8}, {"main": branch(2)})) == {2}
    assert kept(table({1: 9, 2: 8}, {})) == set()


def test_an_age_is_kept_to_the_millisecond() -> None:
    limit = 5 * DAY
    exact = table({1: 5, 2: 1}, {"main": branch(2)})
    assert kept(exact) == {1, 2}
    assert retained(exact, NOW + 1).snapshot_ids == {2}
    assert retained(
        table({1: 5, 2: 1}, {"main": branch(2, max_snapshot_age_ms=limit + 1)}), NOW + 1
    ).snapshot_ids == {
        1,
        2,
    }


def test_the_properties_of_the_table_are_the_defaults() -> None:
    ages = {1: 9, 2: 8, 3: 7, 4: 6}
    assert kept(table(ages, {"main": branch(4)}, min_snapshots_to_keep="3")) == {2, 3, 4}
    assert kept(table(ages, {"main": branch(4)}, max_snapshot_age_ms=str(8 * DAY))) == {2, 3, 4}
    assert kept(table(ages, {"main": branch(4)}, max_snapshot_age_ms="0", min_snapshots_to_keep="0")) == {4}


def test_the_policy_of_a_branch_goes_before_that_of_the_table() -> None:
    ages = {1: 9, 2: 8, 3: 7, 4: 6}
    few = branch(4, min_snapshots_to_keep=2, max_snapshot_age_ms=1)
    assert kept(table(ages, {"main": few}, min_snapshots_to_keep="4", max_snapshot_age_ms=str(99 * DAY))) == {
        3,
        4,
    }
    old = branch(4, max_snapshot_age_ms=8 * DAY)
    assert kept(table(ages, {"main": old}, max_snapshot_age_ms="1")) == {2, 3, 4}


def test_each_branch_counts_for_itself() -> None:
    # Main goes from 1 by 2 to 3, audit from 2 to 4.
    value = table(
        {1: 9, 2: 9, 3: 9, 4: 9},
        {"main": branch(3), "audit": branch(4, min_snapshots_to_keep=3)},
        {2: 1, 3: 2, 4: 2},
    )
    assert kept(value) == {1, 2, 3, 4}
    value = table(
        {1: 9, 2: 9, 3: 9, 4: 9},
        {"main": branch(3), "audit": branch(4, min_snapshots_to_keep=2)},
        {2: 1, 3: 2, 4: 2},
    )
    assert kept(value) == {2, 3, 4}


def test_a_branch_is_followed_only_to_the_first_snapshot_that_expires() -> None:
    # A clock went backwards: 1 is young, but its child 2 is old.
    assert kept(table({1: 1, 2: 9, 3: 0}, {"main": branch(3)})) == {3}


def test_a_tag_keeps_its_snapshot_and_nothing_else() -> None:
    assert kept(table({1: 99, 2: 50, 3: 9}, {"main": branch(3), "v1": tag(2)})) == {2, 3}


def test_refs_expire_by_the_age_of_their_snapshot_but_main_never() -> None:
    refs = {
        "main": branch(1),
        "old": tag(1, max_ref_age_ms=DAY),
        "young": tag(2, max_ref_age_ms=DAY),
        "old branch": branch(1, max_ref_age_ms=DAY),
        "for ever": tag(1),
    }
    result = retained(table({1: 50, 2: 1}, refs), NOW)
    assert result.refs == {"main", "young", "for ever"}
    assert result.snapshot_ids == {1, 2}
    assert "young" not in retained(table({1: 50, 2: 1}, refs), NOW + 1).refs


def test_the_age_of_refs_has_a_default_in_the_table() -> None:
    refs = {"main": branch(1), "v1": tag(1), "v2": tag(1, max_ref_age_ms=99 * DAY)}
    assert retained(table({1: 50}, refs, max_ref_age_ms=str(DAY)), NOW).refs == {"main", "v2"}


def test_the_snapshots_of_an_expired_branch_expire() -> None:
    # Main is at 1, and feature goes from there by 2 to 3.
    refs = {"main": branch(1), "feature": branch(3, max_ref_age_ms=DAY, min_snapshots_to_keep=9)}
    assert kept(table({1: 9, 2: 8, 3: 7}, refs)) == {1}


def test_a_snapshot_that_no_ref_reaches_is_kept_while_it_is_young() -> None:
    # Main goes from 1 to 2, the others were only staged.
    value = table({1: 9, 2: 0, 3: 4, 4: 6}, {"main": branch(2)}, {2: 1})
    assert kept(value) == {2, 3}


def test_a_history_in_a_circle_ends() -> None:
    value = table({1: 1, 2: 1}, {"main": branch(2)}, {2: 1, 1: 2})
    assert kept(value) == {1, 2}


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "--1", "²", "9" * 5000, "1_0", "٣"])
@pytest.mark.parametrize("name", ["min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"])
def test_a_property_that_is_no_number_is_as_if_it_were_absent(name: str, text: str) -> None:
    refs = {"main": branch(3), "v1": tag(1)}
    changed: dict[str, Any] = {name: text}
    assert retained(table({1: 9, 2: 6, 3: 1}, refs, **changed), NOW) == retained(
        table({1: 9, 2: 6, 3: 1}, refs), NOW
    )


@given(
    ages=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    data=st.data(),
)
def test_the_policy_as_the_spec_states_it(ages: list[int], data: st.DataObject) -> None:
    by_id = {position + 1: float(age) for position, age in enumerate(ages)}
    parents = {
        each: data.draw(st.integers(1, each - 1)) for each in by_id if each > 1 and data.draw(st.booleans())
    }
    refs: dict[str, Json] = {"main": branch(data.draw(st.sampled_from(sorted(by_id))))}
    for name in data.draw(st.lists(st.sampled_from("abcd"), unique=True)):
        policy = data.draw(st.sampled_from([{}, {"max_ref_age_ms": 4 * DAY}]))
        made = tag if data.draw(st.booleans()) else branch
        extra = {} if made is tag else data.draw(st.sampled_from([{}, {"min_snapshots_to_keep": 2}]))
        refs[name] = made(data.draw(st.sampled_from(sorted(by_id))), **policy, **extra)
    value = table(by_id, refs, parents)

    # The five steps of the spec.
    keep: set[int] = set()
    alive = {
        name: ref
        for name, ref in refs.items()
        if name == "main" or by_id[ref["snapshot-id"]] * DAY <= ref.get("max-ref-age-ms", float("inf"))
    }
    reached: set[int] = set()
    for ref in alive.values():
        keep.add(ref["snapshot-id"])
        if ref["type"] == "tag":
            continue
        each: int | None = ref["snapshot-id"]
        count = 0
        stopped = False
        while each is not None:
            reached.add(each)
            stopped = stopped or (by_id[each] > 5 and count >= ref.get("min-snapshots-to-keep", 1))
            if not stopped:
                keep.add(each)
            count += 1
            each = parents.get(each)
    # And Java's rule for what no ref reaches.
    keep |= {each for each, age in by_id.items() if each not in reached and age <= 5}
    assert retained(value, NOW) == (frozenset(alive), frozenset(keep))

    # What is kept is a table.
    gone = tuple(set(by_id) - keep)
    removals = [u.RemoveSnapshotRef(name) for name in refs if name not in alive]
    after = apply(value, [*removals, u.RemoveSnapshots(gone)], now_ms=NOW)
    assert set(after.refs) == set(alive)
    assert {snapshot.snapshot_id for snapshot in after.snapshots} == keep
