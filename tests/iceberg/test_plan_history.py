"""Plans of the past: by snapshot, by branch and tag, by time; and of what was appended since."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.manifest_schema import ADDED, DELETED, EXISTING
from lakeplane.iceberg.plan import plan, plan_appends
from lakeplane.iceberg.snapshots import Ref, SnapshotLogEntry
from lakeplane.iceberg.time_travel import At, state_at
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, Field
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, bounds, build, deletes, entries, paths, with_metadata


@pytest.fixture
def built() -> BuiltTable:
    """Three appends: a, b and c, one second after the other."""
    made = build(("id", LONG))
    for n, name in enumerate("abc"):
        made.commit(entries(made.metadata, [Listed(name, (), {1: bounds(LONG, n, n)})]))
    return made


def at(built: BuiltTable, when: At) -> set[str]:
    return paths(plan(built.metadata, built.reading(), at=when))


def moments(built: BuiltTable) -> list[int]:
    return [each.timestamp_ms for each in built.metadata.snapshots]


def utc(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


# Time travel


def test_a_snapshot_is_planned_by_its_id(built: BuiltTable) -> None:
    assert [at(built, each.snapshot_id) for each in built.metadata.snapshots] == [{"a"}, {"a", "b"}, {*"abc"}]
    with pytest.raises(InvalidInput, match="5"):
        at(built, 5)


def test_a_snapshot_is_planned_by_its_time(built: BuiltTable) -> None:
    first, second, third = moments(built)
    assert at(built, utc(first)) == {"a"}
    assert at(built, utc(second - 1)) == {"a"}
    assert at(built, utc(second)) == {"a", "b"}
    assert at(built, utc(third + 10**9)) == {*"abc"}
    assert at(built, utc(second).isoformat()) == {"a", "b"}
    assert at(built, utc(second).replace(tzinfo=None)) == {"a", "b"}
    elsewhere = utc(second).astimezone(dt.timezone(dt.timedelta(hours=-7)))
    assert at(built, elsewhere) == at(built, elsewhere.isoformat()) == {"a", "b"}


@pytest.mark.parametrize(("zone", "hours"), [("Asia/Tokyo", 9), ("-07:00", -7), ("UTC", 0)])
def test_a_time_without_a_zone_is_one_of_the_session_as_in_spark(
    built: BuiltTable, zone: str, hours: int
) -> None:
    """Conditions went by the zone that was given and times by UTC: plans were of another snapshot."""
    second = utc(moments(built)[1]).replace(tzinfo=None)
    there = second + dt.timedelta(hours=hours)
    for when in (there, there.isoformat(), second.isoformat() + "Z"):
        assert paths(plan(built.metadata, built.reading(), at=when, zone=zone)) == {"a", "b"}
    just_before = there - dt.timedelta(milliseconds=1)
    assert paths(plan(built.metadata, built.reading(), at=just_before, zone=zone)) == {"a"}


def test_before_the_first_snapshot_there_is_nothing_to_read(built: BuiltTable) -> None:
    first = moments(built)[0]
    for when in (utc(first - 1), "1970-01-01", dt.datetime(1, 1, 1)):  # noqa: DTZ001 - as users give it
        with pytest.raises(InvalidInput, match=f"history starts at {first} ms"):
            at(built, when)
    with pytest.raises(InvalidInput, match="no history"):
        at(build(("id", LONG)), "2026-01-01")


@pytest.mark.parametrize("when", [True, 1.5, b"main", "nonsense", "", dt.date(2026, 1, 1)])
def test_what_is_no_state_is_refused(built: BuiltTable, when: object) -> None:
    with pytest.raises(InvalidInput) as failure:
        at(built, when)  # type: ignore[arg-type]
    assert failure.value.field == "at"


def test_the_log_of_snapshots_is_not_taken_to_be_sorted(built: BuiltTable) -> None:
    """Clocks of writers differ: the time of an entry may be before that of the one above it."""
    first, second, third = built.metadata.snapshots
    times = moments(built)
    entry = SnapshotLogEntry
    log = (
        entry(timestamp_ms=times[2], snapshot_id=third.snapshot_id),
        entry(timestamp_ms=times[0], snapshot_id=first.snapshot_id),
        entry(timestamp_ms=times[1], snapshot_id=second.snapshot_id),
        entry(timestamp_ms=times[2] + 5, snapshot_id=first.snapshot_id),
    )
    with_metadata(built, snapshot_log=log)
    assert at(built, utc(times[1])) == {"a", "b"}
    assert at(built, utc(times[2])) == {*"abc"}
    assert at(built, utc(times[2] + 4)) == {*"abc"}
    assert at(built, utc(times[2] + 5)) == {"a"}  # rolled back


def test_time_goes_by_what_was_current_not_by_what_was_written(built: BuiltTable) -> None:
    first, second, _ = built.metadata.snapshots
    built.commit(entries(built.metadata, [Listed("side")]), branch="side")
    built.change(u.SetSnapshotRef("main", Ref(snapshot_id=first.snapshot_id, type="branch")))
    last = built.metadata.last_updated_ms
    assert at(built, utc(last)) == at(built, None) == {"a"}
    assert at(built, utc(last - 1)) == {*"abc"}
    assert at(built, second.snapshot_id) == {"a", "b"}


def test_tags_have_the_schema_of_their_snapshot_and_branches_that_of_the_table(built: BuiltTable) -> None:
    second = built.metadata.snapshots[1].snapshot_id
    built.change(
        u.SetSnapshotRef("old", Ref(snapshot_id=second, type="tag")),
        u.SetSnapshotRef("work", Ref(snapshot_id=second, type="branch")),
        u.SetSnapshotRef("2026-01-01", Ref(snapshot_id=second, type="tag")),
        u.AddSchema(Schema((Field(1, "key", LONG), Field(2, "s", STRING)), schema_id=1)),
        u.SetCurrentSchema(),
    )
    names = {
        when: state_at(built.metadata, when).schema.fields[0].name
        for when in ("old", "work", "main", "2026-01-01", None, second)
    }
    assert names == {"old": "id", "work": "key", "main": "key", "2026-01-01": "id", None: "key", second: "id"}
    for when in ("old", "work", "2026-01-01"):
        assert at(built, when) == {"a", "b"}
    assert paths(plan(built.metadata, built.reading(), "id = 1", "old")) == {"b"}
    assert paths(plan(built.metadata, built.reading(), "key = 1", "work")) == {"b"}


def test_a_snapshot_without_a_schema_or_with_a_lost_one_has_that_of_the_table(built: BuiltTable) -> None:
    for schema_id in (None, 17):
        snapshots = [msgspec.structs.replace(each, schema_id=schema_id) for each in built.metadata.snapshots]
        with_metadata(built, snapshots=tuple(snapshots))
        assert at(built, built.metadata.snapshots[0].snapshot_id) == {"a"}


# Appends


def appended(
    built: BuiltTable, since: int | None, until: int | None = None, where: str | None = None
) -> set[str]:
    return paths(plan_appends(built.metadata, built.reading(), since, until, where))


def test_appends_are_those_after_the_one_and_up_to_the_other(built: BuiltTable) -> None:
    first, second, third = (each.snapshot_id for each in built.metadata.snapshots)
    assert appended(built, None) == {*"abc"}
    assert appended(built, first) == {*"bc"}
    assert appended(built, first, second) == {"b"}
    assert appended(built, third) == set()
    assert appended(built, second, second) == set()
    assert appended(built, None, first) == {"a"}
    assert appended(built, first, None, "id = 2") == {"c"}
    counts = plan_appends(built.metadata, built.reading(), first, where="id = 2").counts
    assert (counts.manifests, counts.files, counts.files_by_statistics, counts.files_kept) == (2, 2, 1, 1)


def test_only_appends_are_appended(built: BuiltTable) -> None:
    first = built.metadata.snapshots[0].snapshot_id
    kept = built.manifests()[1:]
    rewritten = [
        Listed("c", (), status=DELETED, more={"snapshot_id": 1003, "sequence_number": 3}),
        Listed("C", (), status=ADDED),
    ]
    built.commit(entries(built.metadata, rewritten), operation="replace", keep=kept)
    built.commit(entries(built.metadata, [Listed("over")]), operation="overwrite")
    built.commit(deletes(built.metadata, [Listed("d")]), operation="delete")
    built.commit(entries(built.metadata, [Listed("e")]), deletes(built.metadata, [Listed("f")]))
    assert at(built, None) == {"a", "b", "C", "over", "e"}
    # A file that was rewritten since is read as it was when it came in: its rows are these.
    assert appended(built, first) == {"b", "c", "e"}
    assert plan_appends(built.metadata, built.reading(), first).counts.deletes == 0


def test_a_manifest_that_an_append_has_merged_tells_its_own_files_from_the_others(built: BuiltTable) -> None:
    first, _, third = (each.snapshot_id for each in built.metadata.snapshots)
    old = {"snapshot_id": 1002, "sequence_number": 2, "file_sequence_number": 2}
    merged = [
        Listed("b", (), status=EXISTING, more=old),
        Listed("new", ()),
        Listed("c", (), status=EXISTING, more=old),
    ]
    built.commit(entries(built.metadata, merged), keep=built.manifests()[2:])
    assert at(built, None) == {*"abc", "new"}
    assert appended(built, third) == {"new"}
    assert appended(built, first) == {"b", "c", "new"}


def test_appends_since_a_snapshot_that_is_no_ancestor_are_refused(built: BuiltTable) -> None:
    first, second, third = (each.snapshot_id for each in built.metadata.snapshots)
    for since, until in ((99, None), (third, second), (third, first)):
        with pytest.raises(InvalidInput, match=str(since)) as failure:
            appended(built, since, until)
        assert failure.value.field == "since"
    with pytest.raises(InvalidInput, match="no snapshot 99"):
        appended(built, first, 99)
    built.change(u.SetSnapshotRef("main", Ref(snapshot_id=first, type="branch")))
    with pytest.raises(InvalidInput, match="rolled back"):
        appended(built, second)


def test_appends_go_on_from_a_snapshot_that_has_just_expired(built: BuiltTable) -> None:
    """Whoever reads on from where they were must not start over, as long as nothing in between is gone."""
    first, second, third = (each.snapshot_id for each in built.metadata.snapshots)
    built.change(u.RemoveSnapshots((first,)))
    assert appended(built, first) == {*"bc"}
    assert appended(built, first, second) == {"b"}
    built.change(u.RemoveSnapshots((second,)))
    assert appended(built, second) == {"c"}
    with pytest.raises(InvalidInput, match="expired"):
        appended(built, first)
    assert appended(built, third) == set()


def test_appends_of_snapshots_that_name_their_manifests_themselves_are_read_once() -> None:
    """Such a list does not tell who wrote a manifest: rows came in again with each later append."""
    built = build(("id", LONG), format_version=1)
    for name in "abc":
        built.commit(entries(built.metadata, [Listed(name)]))
    first, second, third = built.metadata.snapshots
    manifests = [each.manifest_path for each in built.manifests()]
    inline = [
        msgspec.structs.replace(each, manifest_list=None, manifests=tuple(manifests[2 - n :]))
        for n, each in enumerate((first, second, third))
    ]
    with_metadata(built, snapshots=tuple(inline))
    assert at(built, None) == {*"abc"}
    assert appended(built, None) == {*"abc"}
    assert appended(built, first.snapshot_id) == {*"bc"}
    assert appended(built, first.snapshot_id, second.snapshot_id) == {"b"}


def test_a_snapshot_that_names_no_manifests_is_not_planned_as_one_without_rows() -> None:
    built = build(("id", LONG), format_version=1)
    built.commit(entries(built.metadata, [Listed("a")]))
    [only] = built.metadata.snapshots
    with_metadata(built, snapshots=(msgspec.structs.replace(only, manifest_list=None),))
    with pytest.raises(InvalidMetadata, match="its rows cannot be found") as refusal:
        at(built, None)
    assert refusal.value.field == f"snapshot {only.snapshot_id}"


def test_appends_of_an_empty_table_are_none() -> None:
    built = build(("id", LONG))
    assert appended(built, None) == set()
    with pytest.raises(InvalidInput, match="no ancestor"):
        appended(built, 1)
