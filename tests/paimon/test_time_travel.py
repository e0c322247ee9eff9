from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.paimon import layout
from lakeplane.paimon.snapshots import Snapshot, Tag, serialize_snapshot, serialize_tag
from lakeplane.paimon.time_travel import (
    branches,
    earliest_snapshot_id,
    latest_schema,
    latest_snapshot_id,
    read_schema,
    snapshots,
    state_at,
)
from tests.paimon.built import Built, make_schema, numbered
from tests.paimon.stored import everyone, reader, stored


def history() -> Built:
    """Three snapshots, a second apart, with a new schema before the last one."""
    table = Built(make_schema({"k": "INT"}))
    for number in range(1, 4):
        if number == 3:
            table.evolve(numbered(table.schema, 1))
        table.commit([table.file([{"k": number}])], time_ms=number * 1000)
    return table


def test_snapshots_of_other_writers_are_found() -> None:
    for table in everyone():
        ids = [each.id for each in snapshots(table.files)]
        assert (earliest_snapshot_id(table.files), latest_snapshot_id(table.files)) == (ids[0], ids[-1])
        snapshot = state_at(table.files).snapshot
        assert snapshot is not None
        assert snapshot.id == ids[-1]
    tagged = state_at(stored("rust04_a1").files, "t1").snapshot
    assert tagged is not None
    assert tagged.id == 2


def test_hints_are_believed_only_if_the_files_agree() -> None:
    """The hint of a writer that died is old; nobody may take the state that it points at for the last one."""
    table = history()
    for hint in (b"1", b"2", b"3", b"4", b"99", b"", b"x", b"-3"):
        table.content["snapshot/LATEST"] = hint
        assert latest_snapshot_id(table.files) == 3
    del table.content["snapshot/LATEST"]
    assert latest_snapshot_id(table.files) == 3


def test_a_hint_at_a_snapshot_that_has_expired_is_not_the_last_one() -> None:
    """Its successor has expired as well: to ask for the next one only would end at a file that is gone."""
    table = history()
    third = table.content.pop("snapshot/snapshot-3")
    del table.content["snapshot/snapshot-1"], table.content["snapshot/snapshot-2"]
    assert table.snapshot is not None
    for number in (7, 8):
        snapshot = msgspec.structs.replace(table.snapshot, id=number)
        table.content[f"snapshot/snapshot-{number}"] = serialize_snapshot(snapshot)
    table.content["snapshot/LATEST"] = b"3"
    assert latest_snapshot_id(table.files) == 8
    table.content["snapshot/EARLIEST"] = b"1"
    assert earliest_snapshot_id(table.files) == 7
    table.content["snapshot/EARLIEST"] = b"8"
    assert earliest_snapshot_id(table.files) == 7
    assert third


def test_states_by_snapshot_time_tag_and_branch() -> None:
    table = history()
    first = table.content["snapshot/snapshot-1"]
    one = state_at(table.files, 1).snapshot
    assert one is not None
    table.content["tag/tag-2020-01-01"] = serialize_tag(Tag(snapshot=one))
    table.content["branch/branch-dev/snapshot/snapshot-1"] = first
    table.content["branch/branch-dev/schema/schema-0"] = table.content["schema/schema-0"]
    files = table.files

    def id_at(at: object, **how: str) -> int | None:
        snapshot = state_at(files, at, **how).snapshot  # type: ignore[arg-type]
        return None if snapshot is None else snapshot.id

    assert [id_at(number) for number in (1, 2, 3)] == [1, 2, 3]
    assert id_at("2020-01-01") == 1
    assert id_at("dev") == 1
    assert id_at("main") == 3
    assert id_at("1970-01-01T00:00:02.500Z") == 2
    assert id_at("1970-01-01T01:00:02.500", zone="+01:00") == 2
    assert id_at(dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=dt.UTC)) == 3
    assert branches(files) == ["dev"]
    assert state_at(files).schema.id == 1
    assert state_at(files, 2).schema.id == 0
    assert state_at(files, "dev") == state_at(files, branch="dev")
    for wrong in (4, 0, "nothing", "1969-01-01", True, 1.5, "../main", ""):
        with pytest.raises(InvalidInput, match=r"at|snapshot"):
            state_at(files, wrong)  # type: ignore[arg-type]


def test_a_branch_reads_files_of_schemas_from_before_it_began() -> None:
    """Its own directory has only the schema that was the last one when it began."""
    table = history()
    table.content["branch/branch-dev/schema/schema-1"] = table.content["schema/schema-1"]
    assert read_schema(table.files, 0, "dev").id == 0
    assert latest_schema(table.files, "dev").id == 1
    with pytest.raises(InvalidMetadata, match="schema 7"):
        read_schema(table.files, 7, "dev")


def test_files_that_hold_another_snapshot_or_schema_are_refused() -> None:
    table = history()
    table.content["snapshot/snapshot-2"] = table.content["snapshot/snapshot-1"]
    table.content["schema/schema-1"] = table.content["schema/schema-0"]
    with pytest.raises(InvalidMetadata, match="holds snapshot 1"):
        state_at(table.files, 2)
    with pytest.raises(InvalidMetadata, match="holds schema 0"):
        latest_schema(table.files)


def test_a_directory_without_a_schema_is_no_table() -> None:
    with pytest.raises(InvalidMetadata, match="no table of Paimon"):
        state_at(reader({"snapshot/snapshot-1.tmp": b""}))


def test_a_table_before_its_first_commit_has_a_schema_and_no_snapshot() -> None:
    table = Built(make_schema({"k": "INT"}))
    assert state_at(table.files).snapshot is None
    assert earliest_snapshot_id(table.files) is None
    assert isinstance(history().snapshot, Snapshot)
    assert state_at(table.files).branch == layout.MAIN
