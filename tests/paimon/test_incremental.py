from __future__ import annotations

import pytest

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.paimon import layout
from lakeplane.paimon.incremental import plan_changes
from lakeplane.paimon.plan import ReadPlan
from tests.paimon.built import Built, make_schema
from tests.paimon.stored import stored

KEYED = make_schema({"k": "INT NOT NULL", "v": "INT"}, primary_key=["k"], options={"bucket": "1"})


def names(found: ReadPlan) -> list[str]:
    return list(found.files["file_name"].to_pylist())


def test_changes_of_another_writer_are_those_of_its_appends() -> None:
    """Snapshots 1, 2 and 4 append, 3 compacts: 16, 3, 0 and 4 rows."""
    files = stored("java09_p_dedup").files
    for since, until, rows in ((0, 1, 16), (1, 4, 7), (0, 4, 23), (2, 3, 0), (4, 4, 0)):
        assert plan_changes(files, since, until).counts.rows_kept == rows
    assert plan_changes(files, 0).counts.rows_kept == 23


def test_a_changelog_is_read_where_there_is_one() -> None:
    table = stored("pp21_p_cl")
    changes = plan_changes(table.files, 0)
    assert all(name.startswith("changelog-") for name in names(changes))
    assert set(changes.files["path"].to_pylist()) <= set(table.content)
    assert not changes.merges
    assert all(name.startswith("data-") for name in names(plan_changes(table.files, 0, mode="delta")))


def test_changes_are_pruned_and_parted_into_sections() -> None:
    table = Built(KEYED)
    one, two, three = (table.file([{"k": k, "v": v}]) for k, v in ((1, 1), (1, 2), (2, 3)))
    for file in (one, two, three):
        table.commit([file])
    changes = plan_changes(table.files, 0)
    assert changes.files["section"].to_pylist() == [0, 0, 1]
    assert changes.files["raw"].to_pylist() == [False, False, True]
    assert names(plan_changes(table.files, 1)) == [two["file_name"], three["file_name"]]
    assert names(plan_changes(table.files, 0, where="k = 1")) == [one["file_name"], two["file_name"]]


def test_what_compaction_and_overwrites_add_is_no_change() -> None:
    table = Built(KEYED)
    one, two, three = (table.file([{"k": 1, "v": v}]) for v in (1, 2, 3))
    table.commit([one])
    table.commit([two], [one], kind="COMPACT")
    table.commit([three], [two], kind="OVERWRITE")
    assert names(plan_changes(table.files, 0)) == [one["file_name"]]
    assert names(plan_changes(table.files, 1)) == []


def test_deletion_vectors_do_not_take_rows_from_changes() -> None:
    table = stored("pp21_a_rowid")
    assert plan_changes(table.files, 0, 2).counts.vectors == 0


def test_changes_of_snapshots_that_are_not_there_are_refused() -> None:
    table = Built(KEYED)
    for v in (1, 2, 3):
        table.commit([table.file([{"k": 1, "v": v}])])
    for since, until in ((0, 4), (3, 2), (-1, 2)):
        with pytest.raises(InvalidInput):
            plan_changes(table.files, since, until)
    del table.content["snapshot/snapshot-1"]
    assert plan_changes(table.files, 1).counts.files_kept == 2
    with pytest.raises(InvalidInput, match="snapshot 1"):
        plan_changes(table.files, 0)
    assert plan_changes(Built(KEYED).files, 0).files.num_rows == 0


def test_changelogs_may_be_kept_for_longer_than_snapshots() -> None:
    schema = make_schema(
        {"k": "INT NOT NULL"}, primary_key=["k"], options={"bucket": "1", "changelog-producer": "input"}
    )
    table = Built(schema)
    changes = []
    for number in (1, 2):
        changes.append(table.file([{"k": number}]))
        table.commit([table.file([{"k": number}])], changelog=[changes[-1]])
    table.content[layout.changelog_path(1)] = table.content.pop(layout.snapshot_path(1))
    assert names(plan_changes(table.files, 0)) == [each["file_name"] for each in changes]
    del table.content[layout.changelog_path(1)]
    with pytest.raises(InvalidInput, match="snapshot 1 has expired"):
        plan_changes(table.files, 0)


def test_an_append_that_deletes_is_refused() -> None:
    table = Built(KEYED)
    one = table.file([{"k": 1, "v": 1}])
    table.commit([one])
    table.commit([], [one])
    with pytest.raises(InvalidMetadata, match="deletes a file"):
        plan_changes(table.files, 0)
