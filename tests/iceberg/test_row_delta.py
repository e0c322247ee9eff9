"""Changes of single rows: what is there afterwards, what is told of it, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lakeplane.errors import CommitConflict, InvalidInput, LakeplaneError
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.changes import Append, Overwrite, Rewrite, RowDelta, new_paths
from lakeplane.iceberg.cherrypick import Cherrypick
from lakeplane.iceberg.conflicts import Isolation
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES, FILE_COLUMNS
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import plan_appends
from lakeplane.model.schema import Schema
from lakeplane.model.types import DOUBLE, LONG, STRING, Field, List, Struct
from tests.iceberg.built import Listed, deletes
from tests.iceberg.changing import changing
from tests.iceberg.row_deltas import Row, Rows

START: list[Row] = [("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2)]


@pytest.fixture(params=[2, 3])
def rows(request: pytest.FixtureRequest) -> Rows:
    """The files f0 (x1, x2, x3) and f1 (y1, y2)."""
    return Rows(request.param, *START)


def no_row(_: Row) -> bool:
    return False


def x1(row: Row) -> bool:
    return row == ("x", 1)


def x2(row: Row) -> bool:
    return row == ("x", 2)


# What is there afterwards


def test_rows_are_deleted_and_added(rows: Rows) -> None:
    done = rows.commit(rows.delta(x1, [("z", 9)]))
    assert rows.now() == Counter([("x", 2), ("x", 3), ("y", 1), ("y", 2), ("z", 9)])
    assert done.operation == "overwrite"


@pytest.mark.parametrize(
    ("parts", "operation"),
    [
        ({"data"}, "append"),
        ({"deletes"}, "delete"),
        ({"equality"}, "delete"),
        ({"data", "deletes"}, "overwrite"),
        ({"data", "remove"}, "overwrite"),
        ({"deletes", "remove"}, "delete"),
        ({"remove"}, "delete"),
    ],
    ids=lambda each: "+".join(sorted(each)) if isinstance(each, set) else each,
)
def test_the_operation_is_that_of_iceberg(rows: Rows, parts: set[str], operation: str) -> None:
    """As ``BaseRowDelta`` has it, but for a change that only removes files: that is a ``delete`` here."""
    given: dict[str, Any] = {"validate_from": rows.read_at}
    if "data" in parts:
        given["files"] = rows.files([("x", 9)])
    if "deletes" in parts:
        given |= {"deletes": rows.by_position({"f0": {0}}), "deletes_from": rows.made.files("f0")}
    if "equality" in parts:
        given["deletes"] = rows.by_value("x", 1)
    if "remove" in parts:
        given["remove"] = rows.made.files("f1")
    assert rows.commit(RowDelta(**given)).operation == operation


def test_older_deletes_are_replaced(rows: Rows) -> None:
    rows.commit(rows.delta(x1))
    done = rows.commit(rows.delta(x2))
    assert rows.now() == Counter([("x", 3), ("y", 1), ("y", 2)])
    [left] = rows.plan().deletes.to_pylist()
    assert (left["record_count"], left["sequence_number"]) == (2, 3)
    kind = "dvs" if rows.version == 3 else "position-delete-files"
    assert done.summary is not None
    told = {name: done.summary.get(name) for name in (f"added-{kind}", f"removed-{kind}")}
    assert told == {f"added-{kind}": "1", f"removed-{kind}": "1"}
    assert done.summary["total-position-deletes"] == "2"


def test_vectors_of_one_file_are_told_apart_when_one_goes() -> None:
    """Two vectors of one Puffin file once went together: apache/iceberg #17497."""
    rows = Rows(3, *START)
    path = f"{rows.made.table.location}/data/v.puffin"
    new = []
    for name, p, place in (("f0", "x", 4), ("f1", "y", 44)):
        more = {
            "file_format": "PUFFIN",
            "content_offset": place,
            "content_size_in_bytes": 40,
            "referenced_data_file": f"{rows.made.table.location}/data/{name}",
        }
        entries = deletes(rows.made.table, [Listed(path, (p,), more=more)])
        new.append(NewFiles(0, entries.table.drop_columns(["status"])))
    both = RowDelta(deletes=tuple(new), deletes_from=rows.made.files("f0", "f1"), validate_from=rows.read_at)
    assert new_paths(both) == [path]
    rows.commit(both)
    older = rows.older_deletes(["f0"])
    done = rows.commit(
        RowDelta(
            deletes=rows.by_position({"f0": {0, 1}}),
            deletes_from=rows.made.files("f0"),
            remove_deletes=older,
            validate_from=rows.read_at,
        )
    )
    assert done.summary is not None
    assert (done.summary["removed-dvs"], done.summary["total-delete-files"]) == ("1", "2")
    left = rows.plan().deletes.select(["referenced_data_file", "content_offset"]).to_pylist()
    assert sorted((each["referenced_data_file"][-2:], each["content_offset"]) for each in left) == [
        ("f0", 4),
        ("f1", 44),
    ]


def test_files_go_with_the_deletes_that_are_of_them_alone(rows: Rows) -> None:
    """Deletes of files that were long gone once stayed for ever: apache/iceberg #6126."""
    rows.commit(rows.delta(x1))
    done = rows.commit(Overwrite(remove=rows.made.files("f0")))
    assert done.summary is not None
    assert (done.summary["removed-delete-files"], done.summary["total-delete-files"]) == ("1", "0")


def test_delete_manifests_have_no_row_ids(rows: Rows) -> None:
    rows.commit(rows.delta(x1, [("x", 8)]))
    rows.commit(rows.delta(lambda row: row == ("y", 1), [("x", 9)]))
    rows.commit(rows.delta(x2))
    for each in rows.made.manifests():
        found = read_manifest(
            rows.made.built.files[each.manifest_path], each, rows.made.table, columns=FILE_COLUMNS.names
        ).entries
        has_ids = rows.version == 3 and each.content == 0
        assert (each.first_row_id is not None) == has_ids
        assert (found["first_row_id"].null_count == 0) == (has_ids or not found.num_rows)
    expected = 7 if rows.version == 3 else 0
    assert rows.made.table.next_row_id == expected


def test_equality_deletes_go_when_vectors_say_the_same() -> None:
    rows = Rows(3, *START)
    rows.commit(RowDelta(deletes=rows.by_value("x", 1, 3), validate_from=rows.read_at))
    assert rows.now() == Counter([("x", 2), ("y", 1), ("y", 2)])
    found = rows.plan()
    change = RowDelta(
        deletes=rows.by_position({"f0": {0, 2}}),
        deletes_from=rows.made.files("f0"),
        remove_deletes=found.deletes,
        validate_from=rows.read_at,
    )
    rows.commit(Append(files=rows.files([("x", 1)])))
    done = rows.commit(change)
    assert done.summary is not None
    assert done.summary["removed-equality-deletes"] == "2"
    assert rows.now() == Counter([("x", 1), ("x", 2), ("y", 1), ("y", 2)])
    assert rows.plan().deletes["content"].to_pylist() == [1]


def test_an_equality_delete_stays_if_a_file_needs_it_that_was_written_anew() -> None:
    """A file that was written anew keeps its number, so that the delete still applies to it."""
    rows = Rows(2, ("x", 1), ("x", 2), ("x", 7), apart=True)
    number = rows.made.table.last_sequence_number
    rows.commit(RowDelta(deletes=rows.by_value("x", 7), validate_from=rows.read_at))
    read = rows.read_at
    assert read is not None
    change = RowDelta(
        deletes=rows.by_position({"f2": {0}}),
        deletes_from=rows.made.files("f2"),
        remove_deletes=rows.plan().deletes,
        validate_from=read,
    )
    rows.commit(
        Rewrite(
            remove=rows.made.files("f0", "f1"),
            files=rows.files([("x", 1), ("x", 2)]),
            validate_from=read,
            data_sequence_number=number,
        )
    )
    with pytest.raises(CommitConflict, match="with rows that a delete which is to go applies to"):
        rows.made.propose(change)


# What is refused


def _vector(rows: Rows, name: str = "f0", p: str = "x", **more: Any) -> tuple[NewFiles, ...]:
    told: dict[str, Any] = {
        "file_format": "PUFFIN",
        "content_offset": 4,
        "content_size_in_bytes": 40,
        "referenced_data_file": f"{rows.made.table.location}/data/{name}",
        **more,
    }
    count, content = told.pop("count", 1), told.pop("content", 1)
    listed = [Listed("memory://t/data/v", (p,), {}, count, content=content, more=told)]
    return (NewFiles(0, deletes(rows.made.table, listed).table.drop_columns(["status"])),)


@pytest.mark.parametrize(
    ("version", "more", "error", "problem"),
    [
        (1, {}, InvalidInput, "v1 tables have no deletes"),
        (2, {}, InvalidInput, "v2 tables have no deletion vectors"),
        (3, {"file_format": "PARQUET"}, CommitConflict, "no new position delete files, only vectors"),
        (3, {"content": 2}, InvalidInput, "a Puffin file holds vectors, no values"),
        (3, {"content": 2, "file_format": "AVRO"}, InvalidInput, "only vectors have it"),
        (3, {"referenced_data_file": None}, InvalidInput, "a vector has to tell it"),
        (3, {"content_offset": None}, InvalidInput, "content_offset: a vector has to tell it"),
        (3, {"content_size_in_bytes": None}, InvalidInput, "content_size_in_bytes: a vector has to"),
        (3, {"equality_ids": [1]}, InvalidInput, "it names rows by place"),
        (3, {"sort_order_id": 0}, InvalidInput, "in an order of their own"),
        (3, {"count": 0}, InvalidInput, "it deletes nothing"),
        (3, {"p": "y"}, InvalidInput, "not in the partition of the data files that it is about"),
        (3, {"name": "gone"}, InvalidInput, "about a file that is not told of"),
        (2, {"file_format": "PARQUET", "p": "y"}, InvalidInput, "only vectors have it"),
    ],
)
def test_vectors_that_do_not_fit(
    version: int, more: dict[str, Any], error: type[LakeplaneError], problem: str
) -> None:
    rows = Rows(version, *START)
    change = RowDelta(
        deletes=_vector(rows, **more), deletes_from=rows.made.files("f0"), validate_from=rows.read_at
    )
    before = dict(rows.made.built.files)
    with pytest.raises(error, match=problem):
        rows.made.propose(change)
    assert rows.made.built.files == before


def test_it_must_be_told_what_is_deleted_from(rows: Rows) -> None:
    with pytest.raises(InvalidInput, match="it is not told which files rows are deleted from"):
        rows.made.propose(RowDelta(deletes=rows.by_position({"f0": {0}}), validate_from=rows.read_at))
    paths = rows.made.files("f0").select(["file_path", "spec_id", "partition"])
    with pytest.raises(InvalidInput, match="as a plan has them"):
        rows.made.propose(
            RowDelta(deletes=rows.by_position({"f0": {0}}), deletes_from=paths, validate_from=rows.read_at)
        )


def test_a_file_does_not_lose_rows_and_go_at_once(rows: Rows) -> None:
    change = RowDelta(
        deletes=rows.by_position({"f0": {0}}),
        deletes_from=rows.made.files("f0"),
        remove=rows.made.files("f0"),
        validate_from=rows.read_at,
    )
    with pytest.raises(InvalidInput, match="the file goes as a whole"):
        rows.made.propose(change)


def test_a_file_has_one_vector() -> None:
    """Two vectors of one file made tables that nobody could read: apache/iceberg #15006."""
    rows = Rows(3, *START)
    twice = (*_vector(rows), *_vector(rows))
    given: dict[str, Any] = {"deletes_from": rows.made.files("f0"), "validate_from": rows.read_at}
    with pytest.raises(InvalidInput, match="it gets two vectors"):
        rows.made.propose(RowDelta(deletes=twice, **given))
    done = rows.commit(rows.delta(x1))
    given["validate_from"] = done.snapshot_id
    with pytest.raises(CommitConflict, match="has a vector that the new one does not stand in for"):
        rows.made.propose(RowDelta(deletes=_vector(rows), **given))


def test_deletes_are_no_data_and_data_no_deletes(rows: Rows) -> None:
    new = rows.by_position({"f0": {0}})
    with pytest.raises(InvalidInput, match="it holds no data"):
        rows.made.propose(Append(files=new))
    with pytest.raises(InvalidInput, match="it is no delete file"):
        rows.made.propose(RowDelta(deletes=rows.files([("x", 1)]), validate_from=rows.read_at))


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (None, "it does not tell which columns it compares"),
        ([], "it does not tell which columns it compares"),
        ([99], "no column with the id 99"),
        ([2], "rows cannot be named by ratio, which is a double"),
        ([3], "rows cannot be named by tags"),
        ([4], "element is inside of a list or map"),
        ([1, 1], "a column comes twice"),
    ],
)
def test_columns_that_rows_cannot_be_named_by(ids: list[int] | None, problem: str) -> None:
    made = changing(("id", LONG), ("ratio", DOUBLE), ("tags", List(4, STRING)))
    listed = Listed("eq", content=EQUALITY_DELETES, more={"equality_ids": ids})
    new = deletes(made.table, [listed]).table.drop_columns(["status"])
    if ids is None:
        new = new.drop_columns(["equality_ids"])
    with pytest.raises(InvalidInput, match=problem):
        made.propose(RowDelta(deletes=(NewFiles(0, new),)))


def test_a_compared_column_that_somebody_has_dropped() -> None:
    made = changing(("id", LONG), ("p", STRING))
    made.built.change(u.AddSchema(Schema((Field(2, "p", STRING),))), u.SetCurrentSchema(-1))
    listed = Listed("eq", content=EQUALITY_DELETES, more={"equality_ids": [1]})
    new = deletes(made.table, [listed]).table.drop_columns(["status"])
    with pytest.raises(CommitConflict, match="no column with the id 1 any more"):
        made.propose(RowDelta(deletes=(NewFiles(0, new),)))


def test_nested_columns_can_be_compared() -> None:
    made = changing(("who", Struct((Field(2, "name", STRING),))))
    listed = Listed("eq", content=EQUALITY_DELETES, more={"equality_ids": [2]})
    new = deletes(made.table, [listed]).table.drop_columns(["status"])
    assert made.commit(RowDelta(deletes=(NewFiles(0, new),))).operation == "delete"


# What others do meanwhile: the rules of Iceberg, by command and isolation


def _meanwhile(rows: Rows, what: str) -> None:
    match what:
        case "append here":
            rows.commit(Append(files=rows.files([("x", 1)])))
        case "append elsewhere":
            rows.commit(Append(files=rows.files([("y", 1)])))
        case "delete the file":
            rows.commit(RowDelta(remove=rows.made.files("f0"), validate_from=rows.read_at))
        case "overwrite the file":
            rows.commit(Overwrite(remove=rows.made.files("f0"), files=rows.files([("x", 50)])))
        case "rewrite the file":
            read = rows.read_at
            assert read is not None
            live = rows.live()["f0"].values()
            rows.commit(Rewrite(remove=rows.made.files("f0"), files=rows.files(live), validate_from=read))
        case "delete other rows of the file":
            rows.commit(rows.delta(lambda row: row == ("x", 3), only_deletes=True))
        case "delete elsewhere":
            rows.commit(rows.delta(lambda row: row == ("y", 2), only_deletes=True))
        case "delete by value here":
            rows.commit(RowDelta(deletes=rows.by_value("x", 3), validate_from=rows.read_at))
        case "delete by value elsewhere":
            rows.commit(RowDelta(deletes=rows.by_value("y", 2), validate_from=rows.read_at))


WHO = (
    ("DELETE", "serializable"),
    ("DELETE", "snapshot"),
    ("UPDATE", "serializable"),
    ("UPDATE", "snapshot"),
    ("UPDATE", None),
)
CONFLICTS: dict[str, tuple[str, ...]] = {
    # what others do: whom it stops, in the order of WHO; ! only from v3 on, - nobody
    "append here": ("yes", "no", "yes", "no", "no"),
    "append elsewhere": ("no", "no", "no", "no", "no"),
    "delete the file": ("no", "no", "yes", "yes", "yes"),
    "overwrite the file": ("yes", "yes", "yes", "yes", "yes"),
    "rewrite the file": ("yes", "yes", "yes", "yes", "yes"),
    "delete other rows of the file": ("v3", "v3", "yes", "yes", "v3"),
    "delete elsewhere": ("no", "no", "no", "no", "no"),
    "delete by value here": ("no", "no", "yes", "yes", "no"),
    "delete by value elsewhere": ("no", "no", "no", "no", "no"),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_what_others_do_stops_those_whom_iceberg_stops(rows: Rows, what: str) -> None:
    """As ``SparkPositionDeltaWrite`` validates, and ``TestRowDelta`` has it case by case."""
    found, expected = [], []
    for (command, isolation), stops in zip(WHO, CONFLICTS[what], strict=True):
        fresh = Rows(rows.version, *START)
        new = [] if command == "DELETE" else [("x", 11)]
        level: Isolation | None = isolation  # type: ignore[assignment]
        read = "p = 'x' AND id = 1"
        change = fresh.delta(x1, new, read=read, isolation=level, only_deletes=command == "DELETE")
        _meanwhile(fresh, what)
        try:
            fresh.commit(change)
        except CommitConflict:
            found.append((command, isolation, True))
        else:
            found.append((command, isolation, False))
        expected.append((command, isolation, stops == "yes" or (stops == "v3" and rows.version == 3)))
    assert found == expected


def test_deletes_of_files_that_others_deleted_are_left_out(rows: Rows) -> None:
    """Vectors of files that are gone were never removed again."""
    change = rows.delta(lambda row: row[1] == 1, only_deletes=True)
    attempt = rows.made.propose(change)
    _meanwhile(rows, "delete the file")
    done = rows.made.publish(rows.made.propose(change, attempt.maker))
    assert done.summary is not None
    assert (done.summary["added-delete-files"], done.summary["total-delete-files"]) == ("1", "1")
    assert rows.now() == Counter([("y", 2)])


def test_position_deletes_are_refused_after_an_upgrade() -> None:
    """Position deletes of v2 landed in tables that were v3 by then: apache/iceberg #16146."""
    rows = Rows(2, *START)
    change = rows.delta(x1)
    attempt = rows.made.propose(change)
    rows.made.built.change(u.UpgradeFormatVersion(3))
    with pytest.raises(LakeplaneError):
        rows.made.publish(attempt)
    with pytest.raises(CommitConflict, match="v3 take no new position delete files, only vectors"):
        rows.made.propose(change, attempt.maker)


def test_position_deletes_of_before_an_upgrade_stay_until_a_vector_has_them() -> None:
    rows = Rows(2, *START)
    rows.commit(rows.delta(x1))
    rows.made.built.change(u.UpgradeFormatVersion(3))
    rows.version = 3
    assert rows.now() == Counter([("x", 2), ("x", 3), ("y", 1), ("y", 2)])
    done = rows.commit(rows.delta(x2))
    assert done.summary is not None
    assert (done.summary["added-dvs"], done.summary["removed-position-delete-files"]) == ("1", "1")
    assert rows.now() == Counter([("x", 3), ("y", 1), ("y", 2)])


# Other changes


def test_a_staged_row_delta_is_picked_only_on_the_state_it_was_made_for(rows: Rows) -> None:
    staged = rows.commit(rows.delta(x1, stage_only=True))
    rows.commit(Append(files=rows.files([("y", 5)])))
    with pytest.raises(CommitConflict, match="main has moved since"):
        rows.made.propose(Cherrypick(snapshot_id=staged.snapshot_id))
    again = rows.commit(rows.delta(x1, stage_only=True))
    rows.commit(Cherrypick(snapshot_id=again.snapshot_id))
    assert rows.now() == Counter([("x", 2), ("x", 3), ("y", 1), ("y", 2), ("y", 5)])


def test_row_deltas_are_no_appends(rows: Rows) -> None:
    since = rows.read_at
    rows.commit(rows.delta(x1, [("x", 11)]))
    rows.commit(rows.delta(no_row, [("x", 12)]))
    found = plan_appends(rows.made.table, rows.made.built.reading(), since)
    assert [path.rpartition("/")[2] for path in found.files["file_path"].to_pylist()] == rows.named(
        lambda row: row == ("x", 12)
    )


def test_removed_deletes_need_not_be_there_twice() -> None:
    """Two DELETEs that both merge an older file: v2 tables take both, as Iceberg does."""
    rows = Rows(2, *START)
    rows.commit(rows.delta(lambda row: row == ("x", 3)))
    changes = [rows.delta(each, only_deletes=True) for each in (x1, x2)]
    for change in changes:
        rows.commit(change)
    assert rows.now() == Counter([("y", 1), ("y", 2)])


def test_the_deletes_to_replace_must_be_there_for_an_update() -> None:
    rows = Rows(2, *START)
    rows.commit(rows.delta(lambda row: row == ("x", 3)))
    update = rows.delta(x1, [("y", 11)], isolation=None)
    rows.commit(rows.delta(x2, only_deletes=True))
    with pytest.raises(CommitConflict, match="1 of the deletes that are to be replaced are gone"):
        rows.made.propose(update)


def test_nothing_at_all_is_a_snapshot_without_changes(rows: Rows) -> None:
    before = rows.now()
    done = rows.commit(rows.delta(no_row))
    assert (rows.now(), done.operation) == (before, "delete")
    assert isinstance(rows.plan().files, pa.Table)
