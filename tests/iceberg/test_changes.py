"""Changes of files: what is in the table afterwards, what is written for it, and what is refused."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakeplane.errors import (
    CommitConflict,
    InvalidChange,
    InvalidInput,
    LakeplaneError,
    NotSupported,
    RequirementFailed,
)
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.changes import (
    Append,
    Change,
    DeleteFiles,
    Overwrite,
    OverwritePartitions,
    Rewrite,
    new_paths,
    prepare_change,
)
from lakeplane.iceberg.cherrypick import Cherrypick
from lakeplane.iceberg.manifest_list import parse_manifest_list
from lakeplane.iceberg.manifest_schema import DELETED, EQUALITY_DELETES, FILE_COLUMNS
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import plan
from lakeplane.iceberg.snapshot_maker import AlreadyMade, SnapshotMaker
from lakeplane.iceberg.snapshots import Ref
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import Identity
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Type,
)
from tests.iceberg.built import Listed, bounds, change_list, deletes
from tests.iceberg.changing import FIRST_ID, Changing, changing

COLUMNS = (("id", LONG), ("p", STRING))


def file(name: str, p: str | None, lower: int, upper: int, rows: int = 10) -> Listed:
    return Listed(name, (p,), {1: bounds(LONG, lower, upper, values=rows)}, rows)


@pytest.fixture(params=[1, 2, 3])
def made(request: pytest.FixtureRequest) -> Changing:
    """Files a (ids 1-5) and c (6-9) in the partition x, b (1-5) in y, n (1-5) in that of null."""
    made = changing(*COLUMNS, by=["identity p"], format_version=request.param)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5))))
    made.commit(Append(files=made.new(file("c", "x", 6, 9), file("n", None, 1, 5))))
    return made


# What is there afterwards


def test_an_append_keeps_what_is_there(made: Changing) -> None:
    assert made.live() == ["a", "b", "c", "n"]
    [first, second] = made.table.snapshots
    assert (first.operation, first.parent_snapshot_id) == ("append", None)
    assert second.parent_snapshot_id == first.snapshot_id
    assert second.timestamp_ms > first.timestamp_ms
    assert second.schema_id == made.table.current_schema_id
    numbers = [each.sequence_number for each in made.table.snapshots]
    assert numbers == ([0, 0] if made.table.format_version == 1 else [1, 2])


@pytest.mark.parametrize(
    ("where", "left", "operation"),
    [
        ("p = 'x'", ["b", "n", "new"], "overwrite"),
        ("p = 'x' AND id < 6", ["b", "c", "n", "new"], "overwrite"),
        ("p IS NULL", ["a", "b", "c", "new"], "overwrite"),
        ("id <= 5", ["c", "new"], "overwrite"),
        ("p > 'x' OR id >= 6", ["a", "n", "new"], "overwrite"),
        ("TRUE", ["new"], "overwrite"),
        ("id > 100", ["a", "b", "c", "n", "new"], "overwrite"),
    ],
)
def test_an_overwrite_by_a_condition_removes_whole_files(
    made: Changing, where: str, left: list[str], operation: str
) -> None:
    new = made.new(file("new", "z", 1, 1))
    done = made.commit(Overwrite(files=new, where=made.where(where)))
    assert (made.live(), done.operation) == (left, operation)


@pytest.mark.parametrize("where", ["id = 3", "id < 5", "p = 'x' AND id > 6", "id <> 4", "id IN (1, 2)"])
def test_a_file_that_is_cut_through_is_named(made: Changing, where: str) -> None:
    """Rows that do not match were once lost with the file that they shared with others."""
    before = dict(made.built.files)
    with pytest.raises(InvalidInput, match=r"memory://t/data/\w: some of its rows may match"):
        made.propose(DeleteFiles(where=made.where(where)))
    assert made.built.files == before


def test_nulls_are_not_deleted_by_a_condition_that_they_do_not_match() -> None:
    """PyIceberg #954: a file with nulls went by a condition that is not true of null."""
    made = changing(("id", LONG))
    facts = {1: bounds(LONG, 1, 5, nulls=1)}
    made.commit(Append(files=made.new(Listed("a", facts=facts, rows=10))))
    with pytest.raises(InvalidInput, match="some of its rows may match"):
        made.propose(DeleteFiles(where=made.where("id >= 1")))
    made.commit(Append(files=made.new(Listed("b", facts={1: bounds(LONG, 6, 9)}, rows=10))))
    made.commit(DeleteFiles(where=made.where("id >= 6")))
    assert made.live() == ["a"]


def test_a_file_of_which_nothing_is_known_is_not_removed_on_suspicion() -> None:
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a")))
    with pytest.raises(InvalidInput, match="data/a"):
        made.propose(DeleteFiles(where=made.where("id >= 1")))


def test_overwriting_partitions_replaces_those_of_the_new_files(made: Changing) -> None:
    done = made.commit(OverwritePartitions(files=made.new(file("new", "x", 1, 1), file("none", None, 2, 2))))
    assert made.live() == ["b", "new", "none"]
    assert done.summary is not None
    assert (done.operation, done.summary["replace-partitions"]) == ("overwrite", "true")
    assert (done.summary["deleted-data-files"], done.summary["changed-partition-count"]) == ("3", "2")


def test_overwriting_partitions_without_files_changes_nothing(made: Changing) -> None:
    made.commit(OverwritePartitions(files=()))
    assert made.live() == ["a", "b", "c", "n"]


def test_overwriting_an_unpartitioned_table_replaces_everything() -> None:
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a", "b")))
    made.commit(OverwritePartitions(files=made.new("c")))
    assert made.live() == ["c"]


def test_partitions_of_nan_are_one_partition() -> None:
    made = changing(("d", DOUBLE), by=["identity d"])
    made.commit(Append(files=made.new(Listed("a", (float("nan"),)), Listed("b", (1.0,)))))
    made.commit(OverwritePartitions(files=made.new(Listed("c", (float("nan"),)))))
    assert made.live() == ["b", "c"]


def test_partitions_of_other_specs_stay() -> None:
    made = changing(*COLUMNS, by=["identity p"])
    made.commit(Append(files=made.new(file("a", "x", 1, 5))))
    spec = PartitionSpec(1, (PartitionField((1,), 1001, "id_part", Identity()),))
    made.built.change(u.AddPartitionSpec(spec), u.SetDefaultSpec())
    made.commit(Append(files=made.new(Listed("b", (7,)))))
    made.commit(OverwritePartitions(files=made.new(Listed("c", (7,)))))
    assert made.live() == ["a", "c"]
    with pytest.raises(InvalidInput, match="data/c: some of its rows may match"):
        made.propose(Overwrite(where=made.where("p = 'x'")))


def test_named_files_go_and_must_be_there(made: Changing) -> None:
    named = made.files("a", "n")
    done = made.commit(Overwrite(files=made.new(file("new", "x", 1, 4)), remove=named))
    assert (made.live(), done.operation) == (["b", "c", "new"], "overwrite")
    with pytest.raises(CommitConflict, match="2 of the files that are to be replaced are gone"):
        made.propose(Overwrite(remove=named))


def test_operations_are_called_as_java_calls_them(made: Changing) -> None:
    assert made.commit(Overwrite(files=made.new(file("o", "o", 1, 1)))).operation == "append"
    assert made.commit(Overwrite(where=made.where("p = 'o'"))).operation == "delete"
    assert made.commit(DeleteFiles(where=made.where("p = 'y'"))).operation == "delete"
    last = made.table.current_snapshot_id or 0
    done = made.commit(
        Rewrite(remove=made.files("a", "c"), files=made.new(file("ac", "x", 1, 9, 20)), validate_from=last)
    )
    assert (done.operation, made.live()) == ("replace", ["ac", "n"])


def test_rewritten_files_keep_their_number_on_request() -> None:
    """Deletes that were written meanwhile must still apply to the rows that were moved."""
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a", "b")))
    read = made.table.current_snapshot
    assert read is not None
    made.commit(Append(files=made.new("c")))
    rewrite = Rewrite(
        remove=made.files("a", "b"),
        files=made.new("ab"),
        validate_from=read.snapshot_id,
        data_sequence_number=read.sequence_number,
    )
    made.commit(rewrite)
    files = made.files("ab")
    assert (files["sequence_number"][0].as_py(), files["file_sequence_number"][0].as_py()) == (1, 3)
    [newest, *_] = made.manifests()
    assert (newest.min_sequence_number, newest.sequence_number) == (1, 3)


# Deletes of what goes


def _with_deletes(made: Changing) -> None:
    """A vector of a, one of b, and an equality delete in the partition x."""
    vector = {"file_format": "PUFFIN", "content_offset": 4, "content_size_in_bytes": 40}
    built = deletes(
        made.table,
        [
            Listed("v.puffin", ("x",), more={**vector, "referenced_data_file": "memory://t/data/a"}),
            Listed("v.puffin", ("y",), more={**vector, "referenced_data_file": "memory://t/data/b"}),
            Listed("eq", ("x",), content=EQUALITY_DELETES, more={"equality_ids": [1]}),
        ],
    )
    made.built.commit(built, operation="overwrite")


def _deletes(made: Changing) -> list[tuple[str, str | None]]:
    found = plan(made.table, made.built.reading())
    columns = (found.deletes[name].to_pylist() for name in ("file_path", "referenced_data_file"))
    listed = made.manifests()
    assert found.counts.manifests == len(listed)
    return sorted(zip(*columns, strict=True), key=str)


def test_vectors_of_files_that_go_go_along() -> None:
    made = changing(*COLUMNS, by=["identity p"], format_version=3)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5), file("c", "x", 6, 9))))
    _with_deletes(made)
    done = made.commit(Overwrite(remove=made.files("a")))
    assert done.summary is not None
    assert (done.summary["removed-dvs"], done.summary["removed-delete-files"]) == ("1", "1")
    assert done.summary["removed-position-deletes"] == "1"
    entries: list[tuple[str | None, int]] = []
    for each in made.manifests():
        if each.content:
            data = made.built.files[each.manifest_path]
            found = read_manifest(data, each, made.table, columns=FILE_COLUMNS.names).entries
            entries += zip(
                *(found[name].to_pylist() for name in ("referenced_data_file", "status")), strict=True
            )
    assert sorted(entries, key=str) == [("memory://t/data/a", DELETED), ("memory://t/data/b", 0), (None, 0)]


@pytest.mark.parametrize("by", ["condition", "partitions"])
def test_deletes_of_partitions_that_go_go_along(by: str) -> None:
    made = changing(*COLUMNS, by=["identity p"], format_version=3)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5), file("c", "x", 6, 9))))
    _with_deletes(made)
    new = made.new(file("new", "x", 1, 1))
    change: Change = (
        Overwrite(files=new, where=made.where("p = 'x'"))
        if by == "condition"
        else OverwritePartitions(files=new)
    )
    done = made.commit(change)
    assert done.summary is not None
    assert (done.summary["removed-dvs"], done.summary["removed-equality-delete-files"]) == ("1", "1")
    assert _deletes(made) == [("v.puffin", "memory://t/data/b")]


def test_deletes_that_are_older_than_all_files_go_along() -> None:
    made = changing(("id", LONG))
    made.commit(Append(files=made.new("a", "b")))
    made.built.commit(
        deletes(made.table, [Listed("eq", content=EQUALITY_DELETES, more={"equality_ids": [1]})]),
        operation="delete",
    )
    made.commit(Append(files=made.new("c")))
    made.commit(Overwrite(remove=made.files("a")))
    assert sum(each.existing_files_count or 0 for each in made.manifests() if each.content) <= 1
    assert [each.content for each in made.manifests()].count(1) == 1, "b is older than the delete"
    made.commit(Overwrite(remove=made.files("b")))
    [left] = [each for each in made.manifests() if each.content]
    assert (left.deleted_files_count, left.existing_files_count, left.added_files_count) == (1, 0, 0)
    made.commit(Append(files=made.new("d")))
    assert [each for each in made.manifests() if each.content] == []


# Manifests


PARTITIONS: list[tuple[str, Type, list[Any]]] = [
    ("identity", INT, [-5, 0, 7]),
    ("identity", LONG, [-(2**40), 0, 2**40]),
    ("identity", STRING, ["", "a", "\U0001f600"]),
    ("identity", DATE, [-1, 0, 20_000]),
    ("day", TIMESTAMP, [-1, 0, 20_000]),
    ("hour", TIMESTAMPTZ, [-1, 0, 400_000]),
    ("bucket[4]", STRING, [0, 1, 3]),
    ("identity", TIMESTAMP, [-1, 0, 2**50]),
    ("identity", DOUBLE, [-1.5, -0.0, 0.0, float("nan")]),
    ("identity", BOOLEAN, [True, False]),
    ("identity", UUID, [uuid.UUID(int=1), uuid.UUID(int=2**127)]),
    ("identity", Decimal(9, 2), [decimal.Decimal("-1.50"), decimal.Decimal("2.25")]),
    ("identity", BINARY, [b"", b"\xff"]),
]


@pytest.mark.parametrize(("rule", "type_", "values"), PARTITIONS, ids=str)
def test_a_partition_of_any_type_is_found_and_the_others_are_left(
    rule: str, type_: Type, values: list[Any]
) -> None:
    """What is pruned by mistake would stay, beside what replaces it."""
    made = changing(("c", type_), by=[f"{rule} c"])
    for number, value in enumerate([*values, None]):
        made.commit(Append(files=made.new(Listed(f"f{number}", (value,)))))
    for number, value in enumerate([*values, None]):
        attempt = made.propose(OverwritePartitions(files=made.new(Listed(f"g{number}", (value,)))))
        made.publish(attempt)
        named = made.propose(Overwrite(remove=made.files(f"g{number}")))
        assert named.maker.written
    assert made.live() == sorted(f"g{number}" for number in range(len(values) + 1))


def test_manifests_of_other_partitions_are_not_even_read() -> None:
    made = changing(*COLUMNS, by=["identity p"])
    for p in ("a", "m", "z"):
        made.commit(Append(files=made.new(file(p, p, 1, 5))))
    named = made.files("m")
    for each in made.manifests():
        if (each.partitions or ())[0].lower_bound != b"m":
            made.built.files[each.manifest_path] = b"not read"
    made.propose(OverwritePartitions(files=made.new(file("n", "m", 1, 5))))
    made.propose(Overwrite(remove=named))
    made.propose(DeleteFiles(where=made.where("p = 'm'")))


def test_what_is_written_for_one_attempt_serves_the_next(made: Changing) -> None:
    attempt = made.propose(Overwrite(files=made.new(file("new", "y", 1, 1)), where=made.where("p = 'x'")))
    written = list(attempt.maker.written)
    made.commit(Append(files=made.new(file("other", "y", 1, 1))))
    with pytest.raises(RequirementFailed):
        made.publish(attempt)
    change = Overwrite(files=made.new(file("new", "y", 1, 1)), where=made.where("p = 'x'"))
    again = made.propose(change, attempt.maker)
    [more] = attempt.maker.written[len(written) :]
    assert "/snap-" in more, "only the manifest list is written again"
    done = made.publish(again)
    assert made.live() == ["b", "n", "new", "other"]
    assert done.parent_snapshot_id == FIRST_ID + 3
    assert done.manifest_list == more


def test_a_list_is_remembered_as_others_read_it(made: Changing) -> None:
    """A list that is not read again must not say more than its file: in v1, there are no sequence numbers."""
    attempt = made.propose(Overwrite(files=made.new(file("new", "y", 1, 1)), where=made.where("p = 'x'")))
    done = made.publish(attempt)
    path = done.manifest_list or ""
    kept = attempt.maker.outside.reading.cache.get((path,))
    read = parse_manifest_list(made.built.files[path], path)
    assert kept.schema.equals(read.schema)
    assert kept.equals(read)
    assert read.num_rows == 3


def test_manifests_of_new_files_are_written_before_it_is_known_what_others_did(made: Changing) -> None:
    change, maker = Append(files=made.new(file("new", "y", 1, 1))), SnapshotMaker(made.outside())
    prepare_change(change, made.table, maker)
    [manifest] = maker.written
    made.commit(Append(files=made.new(file("other", "y", 1, 1))))
    made.publish(made.propose(change, maker))
    assert maker.written[0] == manifest
    assert len(maker.written) == 2, "and the list"
    assert made.live() == ["a", "b", "c", "n", "new", "other"]


def test_an_attempt_that_has_landed_after_all_is_not_made_twice(made: Changing) -> None:
    """Iceberg #5846, #10765: an answer was lost, the commit was repeated, the rows were there twice."""
    attempt = made.propose(Append(files=made.new(file("new", "y", 1, 1))))
    made.publish(attempt)
    with pytest.raises(AlreadyMade):
        made.propose(Append(files=made.new(file("new", "y", 1, 1))), attempt.maker)


def test_a_manifest_without_live_files_is_left_out_by_the_next_commit(made: Changing) -> None:
    made.commit(DeleteFiles(where=made.where("TRUE")))
    assert made.live() == []
    assert {each.deleted_files_count for each in made.manifests()} == {2}
    made.commit(Append(files=made.new(file("new", "y", 1, 1))))
    assert len(made.manifests()) == 1


def test_deleted_entries_tell_who_deleted_them_and_keep_their_numbers() -> None:
    """PyIceberg #3236: deleted entries kept the snapshot that had added them."""
    made = changing(*COLUMNS, by=["identity p"], format_version=3)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5))))
    done = made.commit(DeleteFiles(where=made.where("p = 'x'")))
    [listed] = made.manifests()
    entries = read_manifest(made.built.files[listed.manifest_path], listed, made.table).entries
    names = ("status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")
    assert entries.select(names).to_pylist() == [
        dict(zip(names, (DELETED, done.snapshot_id, 1, 1, 0), strict=True)),
        dict(zip(names, (0, FIRST_ID, 1, 1, 10), strict=True)),
    ]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_appends_merge_manifests_when_there_are_enough(enabled: str) -> None:
    made = changing(("id", LONG), min_count="3", merges=enabled)
    for number in range(5):
        made.commit(Append(files=made.new(f"f{number}")))
    assert len(made.manifests()) == (1 if enabled == "true" else 5)
    assert made.live() == [f"f{number}" for number in range(5)]
    summary = made.table.snapshots[2].summary or EMPTY
    expected = ("1", "0", "2") if enabled == "true" else ("1", "2", "0")
    names = ("manifests-created", "manifests-kept", "manifests-replaced")
    assert tuple(summary[name] for name in names) == expected


def test_many_files_become_manifests_of_the_target_size() -> None:
    made = changing(("id", LONG), target_bytes="4000")
    made.commit(Append(files=made.new(*(f"{number:05}-{'x' * 40}" for number in range(2_000)))))
    assert len(made.manifests()) > 1
    assert len(made.live()) == 2_000


@pytest.mark.parametrize(
    ("codec", "level", "found"),
    [
        ("gzip", "9", b"deflate"),
        ("zstd", "3", b"zstandard"),
        ("uncompressed", "", b"null"),
        ("snappy", "", b"snappy"),
    ],
)
def test_manifests_are_compressed_as_the_table_says(codec: str, level: str, found: bytes) -> None:
    made = changing(("id", LONG), codec=codec, level=level)
    attempt = made.propose(Append(files=made.new("a")))
    for path in attempt.maker.written:
        assert found in made.built.files[path][:4_000]
    made.publish(attempt)
    assert made.live() == ["a"]


def test_snapshots_of_v1_that_name_their_manifests_themselves_are_written_on() -> None:
    made = changing(("id", LONG), format_version=1)
    made.commit(Append(files=made.new("a", "b")))
    [old] = made.table.snapshots
    paths = tuple(each.manifest_path for each in made.manifests())
    inline = msgspec.structs.replace(old, manifest_list=None, manifests=paths)
    made.built.metadata = msgspec.structs.replace(made.table, snapshots=(inline,))
    made.commit(Append(files=made.new("c")))
    made.commit(Overwrite(remove=made.files("a")))
    assert made.live() == ["b", "c"]


def test_a_table_can_be_upgraded_between_commits() -> None:
    made = changing(*COLUMNS, by=["identity p"], format_version=1)
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5))))
    for version in (2, 3):
        made.built.change(u.UpgradeFormatVersion(version))
        made.commit(Append(files=made.new(file(f"v{version}", "x", 1, 5))))
        made.commit(
            Overwrite(files=made.new(file(f"w{version}", "z", 1, 5)), remove=made.files(f"v{version}"))
        )
    assert made.live() == ["a", "b", "w2", "w3"]
    ids = plan(made.table, made.built.reading()).files.select(["file_path", "first_row_id"]).to_pylist()
    taken = [each["first_row_id"] for each in ids]
    assert None not in taken
    assert len(set(taken)) == 4
    assert made.table.next_row_id >= max(taken) + 10


def test_manifests_of_an_attempt_before_an_upgrade_are_not_used_after_it() -> None:
    made = changing(("id", LONG), format_version=2)
    attempt = made.propose(Append(files=made.new("a")))
    made.built.change(u.UpgradeFormatVersion(3))
    done = made.publish(made.propose(Append(files=made.new("a")), attempt.maker))
    assert (done.first_row_id, done.added_rows) == (0, 1)
    path = made.manifests()[0].manifest_path
    assert b"first_row_id" in made.built.files[path]


# Row lineage


def test_the_example_of_the_spec() -> None:
    """Format v3, "Row Lineage for Upgraded Tables" and the example of first row ids: 1000 becomes 1375."""
    made = changing(("id", LONG), format_version=3, merges="false")
    made.commit(Append(files=made.new(Listed("existing", rows=75))))
    [listed] = made.manifests()
    made.built.metadata = msgspec.structs.replace(made.table, next_row_id=1_000)
    # The example's commit lists a manifest that nobody has given ids yet, as after an upgrade.

    change_list(
        made.built, made.table.snapshots[0], lambda each: msgspec.structs.replace(each, first_row_id=None)
    )
    done = made.commit(
        Append(
            files=(
                *made.new(Listed("data1", rows=50), Listed("data2", rows=75), Listed("data3", rows=100)),
                *made.new(Listed("data4", rows=75)),
            )
        )
    )
    assert (done.first_row_id, done.added_rows, made.table.next_row_id) == (1_000, 375, 1_375)
    first_ids = {
        path.rpartition("/")[2]: first
        for path, first in zip(
            *(
                plan(made.table, made.built.reading()).files[name].to_pylist()
                for name in ("file_path", "first_row_id")
            ),
            strict=True,
        )
    }
    assert first_ids == {"data1": 1000, "data2": 1050, "data3": 1125, "data4": 1225, "existing": 1300}
    assert listed.first_row_id == 0


def test_row_ids_of_files_stay_when_their_manifest_is_written_anew() -> None:
    made = changing(*COLUMNS, by=["identity p"], format_version=3, min_count="2")
    made.commit(Append(files=made.new(file("a", "x", 1, 5), file("b", "y", 1, 5), file("c", "z", 1, 5))))
    before = {name: made.files(name)["first_row_id"][0].as_py() for name in ("b", "c")}
    made.commit(DeleteFiles(where=made.where("p = 'x'")))
    made.commit(Append(files=made.new(file("d", "x", 1, 5))))
    assert {name: made.files(name)["first_row_id"][0].as_py() for name in ("b", "c")} == before
    assert made.files("d")["first_row_id"][0].as_py() >= 30


def test_branches_take_row_ids_too() -> None:
    made = changing(("id", LONG), format_version=3)
    made.commit(Append(files=made.new(Listed("a", rows=10))))
    made.commit(Append(files=made.new(Listed("b", rows=20)), branch="dev"))
    made.commit(Append(files=made.new(Listed("c", rows=30)), stage_only=True))
    done = made.commit(Append(files=made.new(Listed("d", rows=40))))
    assert (done.first_row_id, made.table.next_row_id) == (60, 100)


# Branches, and what nobody sees yet


def test_a_branch_is_made_by_the_first_write_to_it(made: Changing) -> None:
    done = made.commit(Append(files=made.new(file("new", "y", 1, 1)), branch="dev"))
    assert made.live() == ["a", "b", "c", "n"]
    assert made.live("dev") == ["a", "b", "c", "n", "new"]
    assert made.table.refs["dev"] == Ref(snapshot_id=done.snapshot_id, type="branch")
    assert (done.summary or EMPTY)["total-data-files"] == "5"


def test_a_branch_keeps_its_retention(made: Changing) -> None:
    first = made.table.snapshots[0].snapshot_id
    made.built.change(u.SetSnapshotRef("dev", Ref(snapshot_id=first, type="branch", min_snapshots_to_keep=7)))
    done = made.commit(Append(files=made.new(file("new", "y", 1, 1)), branch="dev"))
    assert made.table.refs["dev"] == Ref(snapshot_id=done.snapshot_id, type="branch", min_snapshots_to_keep=7)
    assert made.live("dev") == ["a", "b", "new"]


def test_a_staged_snapshot_is_seen_by_nobody(made: Changing) -> None:
    before = made.table.refs
    done = made.commit(Append(files=made.new(file("new", "y", 1, 1)), stage_only=True))
    assert (made.live(), made.table.refs) == (["a", "b", "c", "n"], before)
    assert made.live(done.snapshot_id) == ["a", "b", "c", "n", "new"]


def test_writes_to_be_audited_go_to_a_staged_snapshot_or_a_branch() -> None:
    made = changing(("id", LONG), wap="true")
    made.commit(Append(files=made.new("a")))
    staged = made.commit(Append(files=made.new("b"), wap_id="w1"))
    made.commit(Append(files=made.new("c"), wap_branch="audit"))
    assert (made.live(), made.live(staged.snapshot_id), made.live("audit")) == (["a"], ["a", "b"], ["a", "c"])
    assert (staged.summary or EMPTY)["wap.id"] == "w1"
    made.commit(Append(files=made.new("d")))
    done = made.commit(Cherrypick(wap_id="w1"))
    summary = done.summary or EMPTY
    assert made.live() == ["a", "b", "d"]
    assert (summary["published-wap-id"], summary["source-snapshot-id"]) == ("w1", str(staged.snapshot_id))
    with pytest.raises(InvalidChange, match="published already"):
        made.commit(Cherrypick(wap_id="w1"))


# What is refused


def _twice(made: Changing) -> Change:
    new = made.new(file("new", "x", 1, 1))
    return Append(files=(*new, *new))


def _known(made: Changing) -> Change:
    return Append(files=made.new(file("a", "x", 1, 5)), refuse_known=True)


def _both(made: Changing) -> Change:
    return Overwrite(files=made.new(file("a", "x", 1, 5)), remove=made.files("a"))


def _without(name: str) -> Callable[[Changing], Change]:
    def change(made: Changing) -> Change:
        [new] = made.new(file("new", "x", 1, 1))
        return Append(files=(NewFiles(new.spec_id, new.files.drop_columns([name])),))

    return change


def _with(name: str, column: Any) -> Callable[[Changing], Change]:
    def change(made: Changing) -> Change:
        [new] = made.new(file("new", "x", 1, 1))
        place = new.files.schema.get_field_index(name)
        return Append(files=(NewFiles(new.spec_id, new.files.set_column(place, name, column)),))

    return change


REFUSED: list[tuple[Callable[[Changing], Change], str]] = [
    (_twice, "data/new: the file is added twice"),
    (_known, "data/a: the file is in the table already"),
    (_both, "data/a: a file cannot be added and removed by one change"),
    (_without("record_count"), "record_count: new files must tell it"),
    (_without("partition"), "partition: new files must tell it"),
    (_with("file_path", pa.nulls(1, pa.string())), "file_path: a new file does not tell it"),
    (_with("record_count", pa.array([-1])), "record_count: it cannot be -1"),
    (_with("record_count", pa.array(["many"])), "record_count: not of the type int64"),
    (_with("partition", pa.array([{"7": "x"}])), "its fields are ['7'], and those of the spec ['1000']"),
    (lambda made: Append(files=(NewFiles(9, made.new()[0].files),)), "the table has no partition spec 9"),
    (lambda _: Append(files=(), properties={"operation": "delete"}), "the commit itself says this"),
    (lambda _: Append(files=(), properties={"total-records": "0"}), "the commit itself says this"),
    (lambda _: Append(files=(), wap_id="w"), "Set its property write.wap.enabled to true"),
    (
        lambda made: Overwrite(
            files=made.new(file("new", "x", 1, 9)), where=made.where("id < 5"), refuse_outside=True
        ),
        "data/new: not all of its rows match",
    ),
    (lambda made: Rewrite(remove=made.files(), files=(), validate_from=1), "there is nothing to rewrite"),
]


@pytest.mark.parametrize(
    ("change", "problem"), REFUSED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    made: Changing, change: Callable[[Changing], Change], problem: str
) -> None:
    before = dict(made.built.files)
    with pytest.raises(LakeplaneError) as failure:
        made.propose(change(made))
    assert problem in str(failure.value)
    assert made.built.files == before


def test_files_within_the_condition_are_taken(made: Changing) -> None:
    new = made.new(file("new", "x", 1, 4))
    made.commit(Overwrite(files=new, where=made.where("p = 'x' AND id < 6"), refuse_outside=True))
    assert made.live() == ["b", "c", "n", "new"]


def test_tags_and_encrypted_tables_are_not_written_to(made: Changing) -> None:
    first = made.table.snapshots[0].snapshot_id
    made.built.change(u.SetSnapshotRef("t", Ref(snapshot_id=first, type="tag")))
    with pytest.raises(InvalidChange, match="a tag cannot be written to"):
        made.propose(Append(files=(), branch="t"))
    made.built.change(u.SetProperties(FrozenDict({"encryption.key-id": "k"})))
    with pytest.raises(NotSupported, match="encrypted"):
        made.propose(Append(files=()))


def test_a_retried_append_of_known_files_looks_again(made: Changing) -> None:
    """F21: the same file, added by two writers."""
    change = Append(files=made.new(file("new", "y", 1, 1)), refuse_known=True)
    attempt = made.propose(change)
    made.commit(change)
    with pytest.raises(InvalidInput, match="data/new: the file is in the table already"):
        made.propose(change, attempt.maker)


def test_the_files_that_a_change_would_add_are_told(made: Changing) -> None:
    new = made.new(file("d", "x", 1, 1), file("e", None, 1, 1))
    assert new_paths(Append(files=new)) == ["memory://t/data/d", "memory://t/data/e"]
    assert new_paths(DeleteFiles()) == new_paths(Cherrypick(snapshot_id=1)) == []


def test_times_never_go_back(made: Changing) -> None:
    made.clock.set(0)
    last = made.table.current_snapshot
    done = made.commit(Append(files=()))
    assert last is not None
    assert done.timestamp_ms > last.timestamp_ms
