from __future__ import annotations

from typing import Any

import pytest

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg.snapshots import Ref, Snapshot, ref_problem, without_v3_fields
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.records import read, write
from tests.iceberg.documents import EARLY, FIRST, LATE, SECOND, Json, metadata, table

# The cases of Java's TestSnapshotJson and TestSnapshotRefParser.
SNAPSHOTS: list[Json] = [
    {"snapshot-id": 2, "sequence-number": 0, "timestamp-ms": 9, "manifest-list": "l", "schema-id": 3},
    {"snapshot-id": 2, "sequence-number": 0, "timestamp-ms": 9, "manifest-list": "l"},
    {
        "snapshot-id": 2,
        "parent-snapshot-id": 1,
        "sequence-number": 7,
        "timestamp-ms": 9,
        "manifest-list": "l",
        "summary": {"operation": "replace", "files-added": "4", "files-deleted": "100"},
        "schema-id": 3,
    },
    {
        "snapshot-id": 2,
        "sequence-number": 7,
        "timestamp-ms": 9,
        "manifest-list": "l",
        "summary": {"operation": "append"},
        "first-row-id": 20,
        "added-rows": 20,
        "key-id": "k",
    },
    {
        "snapshot-id": 2,
        "parent-snapshot-id": 1,
        "sequence-number": 0,
        "timestamp-ms": 9,
        "manifests": ["/t/manifest1.avro", "/t/manifest2.avro"],
        "schema-id": 3,
    },
]
REFS: list[Json] = [
    {"snapshot-id": 1, "type": "tag"},
    {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 1},
    {"snapshot-id": 1, "type": "branch"},
    {
        "snapshot-id": 1,
        "type": "branch",
        "min-snapshots-to-keep": 2,
        "max-snapshot-age-ms": 3,
        "max-ref-age-ms": 4,
    },
]


@pytest.mark.parametrize("document", SNAPSHOTS)
def test_a_snapshot_is_read_and_written(document: Json) -> None:
    written = write(read(Snapshot, document, "snapshot"))
    assert {
        **written,
        **({"manifests": list(written["manifests"])} if "manifests" in written else {}),
    } == document


@pytest.mark.parametrize("document", REFS)
def test_a_ref_is_read_and_written(document: Json) -> None:
    ref = read(Ref, document, "ref")
    assert write(ref) == document
    assert ref.is_branch == (document["type"] == "branch")
    assert ref_problem("x", ref) is None


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    [
        (Ref, {"type": "tag"}, "snapshot-id"),
        (Ref, {"snapshot-id": 1}, "type"),
        (Ref, {"snapshot-id": 1, "type": "bookmark"}, "type"),
        (Ref, {"snapshot-id": "1", "type": "tag"}, "snapshot-id"),
        (Ref, {"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 2**31}, "min-snapshots-to-keep"),
        (Ref, {"snapshot-id": 1, "type": "branch", "max-snapshot-age-ms": "3"}, "max-snapshot-age-ms"),
        (Ref, [], "object"),
        (Snapshot, {"timestamp-ms": 1}, "snapshot-id"),
        (Snapshot, {"snapshot-id": 1}, "timestamp-ms"),
        (Snapshot, {"snapshot-id": 2**63, "timestamp-ms": 1}, "snapshot-id"),
        (Snapshot, {"snapshot-id": True, "timestamp-ms": 1}, "snapshot-id"),
        (Snapshot, {"snapshot-id": 1, "timestamp-ms": 1, "schema-id": 2**31}, "schema-id"),
        (Snapshot, {"snapshot-id": 1, "timestamp-ms": 1, "summary": {"a": 1}}, "summary"),
        (Snapshot, {"snapshot-id": 1, "timestamp-ms": 1, "manifests": "m"}, "manifests"),
        (Snapshot, None, "object"),
    ],
)
def test_what_is_no_snapshot_or_ref_is_refused_with_its_place(kind: Any, document: Any, problem: str) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        read(kind, document, "here")
    assert problem in str(refusal.value)
    assert (refusal.value.field or "").startswith("here")


@pytest.mark.parametrize("summary", [None, {}, {"files-added": "4"}])
def test_a_summary_may_lack_the_operation(summary: Any) -> None:
    # Out of the spec, yet there are such files: they must be read.
    document = {"snapshot-id": 2, "timestamp-ms": 9, "manifest-list": "l", "summary": summary}
    assert read(Snapshot, document, "snapshot").operation == ("overwrite" if summary else None)


@pytest.mark.parametrize(
    ("name", "policy", "problem"),
    [
        ("", {"type": "tag"}, "name"),
        ("main", {"type": "tag"}, "branch"),
        ("main", {"type": "branch", "max_ref_age_ms": 1}, None),
        ("main", {"type": "branch", "max_snapshot_age_ms": 1}, None),
        ("x", {"type": "tag", "min_snapshots_to_keep": 1}, "tag"),
        ("x", {"type": "tag", "max_snapshot_age_ms": 1}, "tag"),
        ("x", {"type": "branch", "min_snapshots_to_keep": 0}, "positive"),
        ("x", {"type": "branch", "max_snapshot_age_ms": 0}, "positive"),
        ("x", {"type": "branch", "max_ref_age_ms": -1}, "positive"),
        ("x", {"type": "tag", "max_ref_age_ms": 1}, None),
    ],
)
def test_what_a_ref_may_say(name: str, policy: dict[str, Any], problem: str | None) -> None:
    found = ref_problem(name, Ref(snapshot_id=1, **policy))
    assert problem is None or problem in (found or "")
    assert (found is None) == (problem is None)


def test_a_ref_that_breaks_the_retention_rules_can_be_read() -> None:
    refs = {
        "main": {"snapshot-id": SECOND, "type": "branch", "max-ref-age-ms": 1},
        "x": {"snapshot-id": FIRST, "type": "tag", "min-snapshots-to-keep": 1},
    }
    assert set(metadata(2, refs=refs).refs) == {"main", "x"}


def test_without_the_fields_of_v3_a_snapshot_is_otherwise_the_same() -> None:
    whole = Snapshot(snapshot_id=1, timestamp_ms=2, first_row_id=0, added_rows=0, key_id="k", schema_id=4)
    assert without_v3_fields(whole) == Snapshot(snapshot_id=1, timestamp_ms=2, schema_id=4)
    for alone in ({"first_row_id": 0}, {"added_rows": 0}, {"key_id": "k"}):
        fields: dict[str, Any] = alone
        one = Snapshot(snapshot_id=1, timestamp_ms=2, **fields)
        assert without_v3_fields(one) == Snapshot(snapshot_id=1, timestamp_ms=2)
    plain = Snapshot(snapshot_id=1, timestamp_ms=2, unknown=FrozenDict({"x": 1}))
    assert without_v3_fields(plain) is plain


# --- finding snapshots --------------------------------------------------------------------------------------


def test_snapshots_are_found_by_id_by_ref_and_by_time() -> None:
    found = metadata(2)
    assert found.snapshot(FIRST).snapshot_id == found.snapshot_of("v1.0").snapshot_id == FIRST
    assert found.current_snapshot is found.snapshot_of("main")
    assert found.snapshot_at(EARLY).snapshot_id == found.snapshot_at(LATE - 1).snapshot_id == FIRST
    assert found.snapshot_at(LATE).snapshot_id == found.snapshot_at(2**60).snapshot_id == SECOND


def test_what_cannot_be_found_is_named_beside_what_there_is() -> None:
    found = metadata(2)
    with pytest.raises(InvalidInput, match="no snapshot 7") as refusal:
        found.snapshot(7)
    assert str(FIRST) in str(refusal.value)
    with pytest.raises(InvalidInput, match="'nobody'") as refusal:
        found.snapshot_of("nobody")
    assert "audit" in str(refusal.value)
    with pytest.raises(InvalidInput, match="no snapshot was current") as refusal:
        found.snapshot_at(EARLY - 1)
    assert str(EARLY) in str(refusal.value)


def test_time_travel_without_a_log_says_so() -> None:
    # "If ... snapshot-log is not populated ..., then systems should raise an informative error message."
    with pytest.raises(InvalidInput, match="no history"):
        metadata(2, snapshot_log=...).snapshot_at(LATE)


def test_of_two_changes_in_the_same_millisecond_the_later_one_counts() -> None:
    log = [{"snapshot-id": each, "timestamp-ms": EARLY} for each in (SECOND, FIRST, SECOND, FIRST)]
    assert metadata(2, snapshot_log=log).snapshot_at(EARLY).snapshot_id == FIRST


def test_time_travel_to_an_expired_snapshot_is_refused() -> None:
    log = [{"snapshot-id": 77, "timestamp-ms": EARLY}, {"snapshot-id": SECOND, "timestamp-ms": LATE}]
    with pytest.raises(InvalidInput, match="77"):
        metadata(2, snapshot_log=log).snapshot_at(EARLY)


def test_a_snapshot_has_the_schema_of_its_time() -> None:
    found = metadata(2)
    assert found.schema_of(found.snapshot(FIRST)).schema_id == 0
    document = table(2)
    del document["snapshots"][0]["schema-id"]
    old = metadata(2, snapshots=document["snapshots"])
    assert old.schema_of(old.snapshot(FIRST)) is old.schema
