"""Summaries of snapshots: the counts of the spec's Appendix F, as Java writes them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import msgspec
import pytest

from lakeplane.iceberg.changes import Append, DeleteFiles, Overwrite
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.snapshot_maker import Added, Edit, SnapshotMaker, Target
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.types import DATE, LONG, STRING, TIMESTAMP, UUID, Type
from tests.iceberg.built import Listed, deletes
from tests.iceberg.changing import Attempt, Changing, changing

TOTALS = {
    "total-data-files": "0",
    "total-delete-files": "0",
    "total-records": "0",
    "total-files-size": "0",
    "total-position-deletes": "0",
    "total-equality-deletes": "0",
}


def said(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.summary or EMPTY)


def test_a_commit_without_files_tells_totals_and_no_counts() -> None:
    made = changing(("id", LONG))
    assert said(made.commit(Append(files=()))) == {
        "operation": "append",
        "changed-partition-count": "0",
        "manifests-created": "0",
        "manifests-kept": "0",
        "manifests-replaced": "0",
        **TOTALS,
    }


def test_each_kind_of_delete_is_counted_for_itself() -> None:
    """A deletion vector counts its own bytes, not those of the file that it shares with others."""
    made = changing(("id", LONG), format_version=3)
    made.commit(Append(files=made.new("a", "b")))
    vector = {"file_format": "PUFFIN", "content_offset": 4, "content_size_in_bytes": 40}
    rows: list[Listed] = [
        Listed("v", rows=3, more={**vector, "referenced_data_file": "memory://t/data/a"}),
        Listed("v", rows=4, more={**vector, "referenced_data_file": "memory://t/data/b"}),
        Listed("pos", rows=5),
        Listed("eq", rows=6, content=EQUALITY_DELETES, more={"equality_ids": [1]}),
    ]
    built = deletes(made.table, rows)
    new = made.new()[0]._replace(files=built.table.drop_columns(["status"]))
    attempt_edit = Edit("delete", (Added(new, content=1),))
    maker = SnapshotMaker(made.outside())
    done = made.publish(Attempt(maker, maker.make(made.table, attempt_edit, Target())))
    assert said(done) == {
        "operation": "delete",
        "added-delete-files": "4",
        "added-dvs": "2",
        "added-position-delete-files": "1",
        "added-equality-delete-files": "1",
        "added-position-deletes": "12",
        "added-equality-deletes": "6",
        "added-files-size": "2080",
        "changed-partition-count": "1",
        "manifests-created": "1",
        "manifests-kept": "1",
        "manifests-replaced": "0",
        "total-data-files": "2",
        "total-records": "2",
        "total-delete-files": "4",
        "total-position-deletes": "12",
        "total-equality-deletes": "6",
        "total-files-size": "4080",
    }
    gone = said(made.commit(DeleteFiles(where=made.where("TRUE"))))
    names = ("removed-dvs", "removed-delete-files", "removed-position-deletes", "removed-files-size")
    assert [gone[name] for name in names] == ["2", "4", "12", "4080"]
    assert {name: gone[name] for name in TOTALS} == TOTALS


@pytest.mark.parametrize("told", [None, {}, {"total-records": "many"}, {"total-records": "-5"}])
def test_totals_that_a_parent_does_not_tell_stay_unknown(told: dict[str, str] | None) -> None:
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a")))
    summary = None if told is None else FrozenDict({"operation": "append", **told})
    [old] = made.table.snapshots
    changed = msgspec.structs.replace(old, summary=summary)
    made.built.metadata = msgspec.structs.replace(made.table, snapshots=(changed,))
    assert not [name for name in said(made.commit(Append(files=made.new("b")))) if name in TOTALS]


def test_totals_never_become_negative() -> None:
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a")))
    [old] = made.table.snapshots
    summary = FrozenDict({"operation": "append", "total-records": "0", "total-data-files": "1"})
    changed = msgspec.structs.replace(old, summary=summary)
    made.built.metadata = msgspec.structs.replace(made.table, snapshots=(changed,))
    found = said(made.commit(DeleteFiles(where=made.where("TRUE"))))
    assert ("total-records" in found, found["total-data-files"]) == (False, "0")


PATHS: list[tuple[str, Type, Any, str]] = [
    ("identity", STRING, "a b/ü=", "c_0=a+b%2F%C3%BC%3D"),
    ("identity", STRING, None, "c_0=null"),
    ("identity", DATE, 20_000, "c_0=2024-10-04"),
    ("day", TIMESTAMP, 20_000, "c_0=2024-10-04"),
    ("hour", TIMESTAMP, 480_001, "c_0=2024-10-04-01"),
    ("month", DATE, 657, "c_0=2024-10"),
    ("bucket[4]", STRING, 3, "c_0=3"),
    ("identity", UUID, uuid.UUID(int=1), "c_0=00000000-0000-0000-0000-000000000001"),
]


@pytest.mark.parametrize(("rule", "type_", "value", "path"), PATHS, ids=str)
def test_partitions_are_told_by_their_paths_where_they_are_few(
    rule: str, type_: Type, value: Any, path: str
) -> None:
    made = changing(("c", type_), by=[f"{rule} c"], partition_limit="1")
    found = said(made.commit(Append(files=made.new(Listed("a", (value,), rows=3)))))
    assert found["partition-summaries-included"] == "true"
    assert found[f"partitions.{path}"] == "added-files-size=1000,added-data-files=1,added-records=3"
    assert found["changed-partition-count"] == "1"


def _two_partitions(limit: str) -> Changing:
    made = changing(("p", STRING), by=["identity p"], partition_limit=limit)
    made.commit(Append(files=made.new(Listed("a", ("x",)), Listed("b", ("x",)), Listed("c", ("y",)))))
    return made


def test_more_partitions_than_the_limit_are_only_counted() -> None:
    found = said(_two_partitions("1").table.snapshots[0])
    assert found["changed-partition-count"] == "2"
    assert not [name for name in found if name.startswith(("partitions.", "partition-summaries"))]


def test_a_partition_tells_what_came_and_what_went() -> None:
    made = _two_partitions("2")
    done = made.commit(Overwrite(files=made.new(Listed("d", ("x",))), where=made.where("p = 'x'")))
    told = said(done)["partitions.p_0=x"].split(",")
    assert dict(each.split("=") for each in told) == {
        "added-files-size": "1000",
        "removed-files-size": "2000",
        "added-data-files": "1",
        "deleted-data-files": "2",
        "added-records": "1",
        "deleted-records": "2",
    }
    assert said(done)["changed-partition-count"] == "1"


def test_what_the_writer_says_beside_the_counts() -> None:
    made = changing(("id", LONG))
    outside = made.outside()._replace(engine=FrozenDict({"engine-name": "lakeplane"}))
    day = dt.date(2026, 1, 1).isoformat()
    attempt = made.propose(Append(files=(), properties={"job": day}), SnapshotMaker(outside))
    found = said(made.publish(attempt))
    assert (found["engine-name"], found["job"], found["operation"]) == ("lakeplane", "2026-01-01", "append")
