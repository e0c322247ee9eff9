"""Tables at the front door: what they tell, and every way to change one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakeplane as lp
from lakeplane.errors import InvalidChange, InvalidInput, LakeplaneError, NotFound
from lakeplane.iceberg.changes import Append
from lakeplane.iceberg.new_files import NewFiles
from tests.commits.worlds import append


@pytest.fixture(params=["filesystem", "memory"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> lp.Lake:
    lake = (
        lp.connect(tmp_path) if request.param == "filesystem" else lp.connect("memory:", warehouse=tmp_path)
    )
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def table(lake: lp.Lake) -> lp.Table:
    return lake.create_table(
        "shop.orders",
        "id BIGINT NOT NULL, at TIMESTAMP, amount DECIMAL(10, 2), place STRUCT<x: INT, y: INT>",
        partition_by=["days(at)"],
    )


@pytest.fixture
def grown(lake: lp.Lake, table: lp.Table) -> lp.Table:
    """Snapshots 1 - 2 - 3 on main, and 4 on top of them on a branch."""
    for snapshot_id in (1, 2, 3):
        append(lake._catalog, table._entry.name, snapshot_id)
    append(lake._catalog, table._entry.name, 4, branch="audit")
    return table.refresh()


def test_a_table_tells_about_itself(table: lp.Table) -> None:
    assert (table.name, repr(table)) == ("shop.orders", "Table('shop.orders', v2, 0 snapshots)")
    assert table.location.endswith("/shop/orders")
    assert table.metadata_location.startswith(table.location + "/metadata/")
    assert (dict(table.properties), dict(table.refs), table.snapshots) == ({}, {}, ())


def test_a_table_stays_as_it_was_until_it_is_refreshed(lake: lp.Lake, table: lp.Table) -> None:
    with lake.table("shop.orders").evolve() as change:
        change.set_properties(a="1")
    assert dict(table.properties) == {}
    assert dict(table.refresh().properties) == {"a": "1"}
    lake.drop_table("shop.orders")
    with pytest.raises(NotFound, match=r"shop\.orders"):
        table.refresh()


def test_a_receipt_does_not_tell_of_the_work_of_others(lake: lp.Lake, table: lp.Table) -> None:
    """Who set a property was told that it had added the rows that somebody else had added meanwhile."""
    append(lake._catalog, table._entry.name, 7)
    with table.evolve() as change:
        change.set_properties(a="1")
    assert change.receipt is not None
    assert (change.receipt.snapshot_id, change.receipt.operation) == (None, None)


def test_all_that_evolves_is_published_together(lake: lp.Lake, table: lp.Table) -> None:
    with table.evolve() as change:
        change.add_column("place.z", "INT", doc="height")
        change.add_column("currency", "STRING", required=True, default="EUR", after="amount")
        change.rename_column("amount", "total")
        change.update_column("total", type="DECIMAL(12, 2)", doc="in all")
        change.move_column("at", first=True)
        change.drop_column("place.y")
        change.set_identifier_fields("id")
        change.add_partition_field("bucket(16, id)", "shard")
        change.rename_partition_field("at_day", "day")
        change.sort_by("total DESC NULLS LAST", "id")
        change.set_properties({"a.b": "1"}, c="2")
        change.remove_properties("c")
        change.upgrade(3)
    assert change.receipt is not None
    assert (change.receipt.attempts, change.receipt.snapshot_id) == (1, None)
    assert str(change.receipt) == "shop.orders: metadata committed"
    now = lake.table("shop.orders")
    assert now.metadata == table.metadata
    assert change.receipt.metadata_location == now.metadata_location
    assert [field.name for field in now.schema.fields] == ["at", "id", "total", "currency", "place"]
    assert [field.name for field in now.metadata.partition_spec.fields] == ["day", "shard"]
    assert (dict(now.properties), now.metadata.format_version) == ({"a.b": "1"}, 3)
    assert len(now.metadata.metadata_log) == 1


def test_an_evolution_that_fails_or_is_empty_publishes_nothing(table: lp.Table) -> None:
    before = table.metadata_location
    with table.evolve() as nothing:
        pass
    assert nothing.receipt is None
    with pytest.raises(KeyError), table.evolve() as change:
        change.set_properties(a="1")
        raise KeyError
    with pytest.raises(InvalidChange, match="nope"), table.evolve() as change:
        change.set_properties(a="1")
        change.drop_column("nope")
    assert table.refresh().metadata_location == before


def test_an_evolution_that_changes_nothing_is_no_commit(table: lp.Table) -> None:
    before = table.metadata_location
    with table.evolve() as change:
        change.sort_by()
        change.remove_properties("never")
    assert change.receipt is not None
    assert change.receipt.metadata_location == before


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ({}, "it is not said where to. Give first=True"),
        ({"first": True, "after": "id"}, "one position.*Give one of"),
    ],
)
def test_a_column_goes_to_one_place(table: lp.Table, where: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem), table.evolve() as change:
        change.move_column("at", **where)  # type: ignore[arg-type]


def test_columns_go_before_and_after(table: lp.Table) -> None:
    with table.evolve() as change:
        change.move_column("amount", before="at")
        change.add_column("first", "INT", first=True)
        change.add_column("last", "INT", before="place")
    assert [field.name for field in table.schema.fields] == ["first", "id", "amount", "at", "last", "place"]


def test_options_of_an_evolution(table: lp.Table) -> None:
    with pytest.raises(InvalidChange), table.evolve() as change:
        change.update_column("at", required=True)
    with table.evolve(allow_incompatible=True, case_sensitive=False) as change:
        change.update_column("AT", required=True)
    assert table.schema.fields[1].required


def test_two_who_add_columns_both_succeed(lake: lp.Lake, table: lp.Table) -> None:
    other = lake.table("shop.orders")
    with table.evolve() as change:
        change.add_column("mine", "STRING")
        with other.evolve() as theirs:
            theirs.add_column("yours", "STRING")
    names = [field.name for field in lake.table("shop.orders").schema.fields]
    assert names[-2:] == ["yours", "mine"]
    assert len({field.id for field in table.schema.fields}) == len(names)


def test_two_who_rename_one_column_do_not_both_succeed(lake: lp.Lake, table: lp.Table) -> None:
    other = lake.table("shop.orders")
    with pytest.raises(InvalidChange, match="amount"), table.evolve() as change:
        change.rename_column("amount", "mine")
        with other.evolve() as theirs:
            theirs.rename_column("amount", "yours")
    assert "yours" in [field.name for field in table.refresh().schema.fields]


def test_refs_are_made_moved_and_dropped(lake: lp.Lake, grown: lp.Table) -> None:
    grown.create_branch("dev", 1, max_ref_age_ms=5, max_snapshot_age_ms=6, min_snapshots_to_keep=7)
    grown.create_tag("t", "audit", max_ref_age_ms=8)
    assert grown.refs["dev"].min_snapshots_to_keep == 7
    assert (grown.refs["t"].snapshot_id, grown.refs["t"].max_ref_age_ms) == (4, 8)
    grown.fast_forward("dev", "main")
    grown.create_tag("t", 2, replace=True)
    grown.set_retention("dev", min_snapshots_to_keep=9)
    assert (grown.refs["dev"].snapshot_id, grown.refs["dev"].min_snapshots_to_keep) == (3, 9)
    grown.drop_ref("dev")
    assert {name: ref.snapshot_id for name, ref in lake.table("shop.orders").refs.items()} == {
        "main": 3,
        "audit": 4,
        "t": 2,
    }


def test_main_goes_back_and_forth(grown: lp.Table) -> None:
    receipt = grown.rollback(1)
    assert grown.metadata.current_snapshot_id == 1
    assert receipt.snapshot_id is None, "a rollback makes no snapshot"
    grown.set_current_snapshot("audit")
    assert grown.metadata.current_snapshot_id == 4
    grown.rollback(before_ms=grown.metadata.snapshot(3).timestamp_ms)
    assert grown.metadata.current_snapshot_id == 2
    grown.fast_forward("main", 3)
    grown.cherrypick(4)
    assert grown.metadata.current_snapshot_id == 4
    assert [entry.snapshot_id for entry in grown.metadata.snapshot_log][-5:] == [1, 4, 2, 3, 4]


def test_what_refs_cannot_do_is_said_with_names(grown: lp.Table) -> None:
    before = grown.metadata_location
    refused: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: grown.create_tag("audit"), "ref 'audit': the branch exists"),
        (lambda: grown.drop_ref("main"), "main cannot be dropped"),
        (lambda: grown.drop_ref("nope"), "no branch or tag 'nope'. There is audit, main"),
        (lambda: grown.rollback(4), "snapshot 4 is not in the history of main"),
        (grown.rollback, "Give a snapshot id"),
        (lambda: grown.set_current_snapshot(99), "no snapshot 99"),
        (lambda: grown.cherrypick(2), "snapshot 2 is in the history of main already"),
        (lambda: grown.create_branch("b", typo=5), "typo"),
        (lambda: grown.create_branch("b", max_ref_age_ms="soon"), "retention"),  # type: ignore[arg-type]
        (lambda: grown.set_retention("audit"), "Give"),
    )
    for change, problem in refused:
        with pytest.raises(LakeplaneError) as failure:
            change()
        assert problem in str(failure.value)
    assert grown.refresh().metadata_location == before


def test_a_tag_that_somebody_else_made_first_is_not_taken_over(lake: lp.Lake, grown: lp.Table) -> None:
    lake.table("shop.orders").create_tag("t", 1)
    with pytest.raises(InvalidChange, match="the tag exists"):
        grown.create_tag("t", 2)
    assert grown.refresh().refs["t"].snapshot_id == 1


def _file(table: lp.Table, name: str) -> tuple[NewFiles, ...]:
    columns = {
        "file_path": [f"{table.location}/data/{name}"],
        "file_format": ["PARQUET"],
        "record_count": [10],
        "file_size_in_bytes": [100],
        "partition": pa.array([{"1000": None}], pa.struct({"1000": pa.date32()})),
    }
    return (NewFiles(0, pa.table(columns)),)


def test_a_write_to_a_branch_tells_of_its_snapshot(lake: lp.Lake, table: lp.Table) -> None:
    table._change(Append(files=_file(table, "a")))
    done = table._change(Append(files=_file(table, "b"), branch="dev"))
    assert (done.operation, done.added_files, done.added_rows) == ("append", 1, 10)
    assert done.snapshot_id == lake.table("shop.orders").refs["dev"].snapshot_id
    assert done.snapshot_id != table.metadata.current_snapshot_id


def test_a_pick_beside_a_main_that_moved_adds_its_files_anew(lake: lp.Lake, table: lp.Table) -> None:
    with table.evolve() as change:
        change.set_properties({"write.wap.enabled": "true"})
    table._change(Append(files=_file(table, "a")))
    staged = table._change(Append(files=_file(table, "b"), wap_id="w"))
    assert (staged.added_files, staged.added_rows) == (1, 10), "nothing is current, and still it is told"
    table._change(Append(files=_file(table, "c")))
    done = table.publish_changes("w")
    assert (done.operation, done.added_files, done.snapshot_id) == (
        "append",
        1,
        table.refs["main"].snapshot_id,
    )
    again = lake.table("shop.orders")
    assert again.explain().counts.files_kept == 3
    with pytest.raises(InvalidChange, match="published already"):
        again.cherrypick(staged.snapshot_id or 0)


@pytest.mark.parametrize("codec", ["gzip", "none"])
def test_a_table_can_be_compressed_and_go_on(lake: lp.Lake, table: lp.Table, codec: str) -> None:
    for turn in ("gzip", codec, codec):
        with table.evolve() as change:
            change.set_properties({"write.metadata.compression-codec": turn, f"turn-{turn}": "1"})
    with table.evolve() as change:
        change.set_properties(last="1")
    assert lake.table("shop.orders").metadata == table.metadata
    assert (".gz." in table.metadata_location) == (codec == "gzip")


def test_old_metadata_files_go_when_the_table_wants_it(lake: lp.Lake, table: lp.Table) -> None:
    with table.evolve() as change:
        change.set_properties(
            {
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "3",
            }
        )
    for turn in range(8):
        with table.evolve() as change:
            change.set_properties(turn=str(turn))
    folder = Path(table.location) / "metadata"
    there = {str(each) for each in folder.glob("*.metadata.json")}
    log = {entry.metadata_file for entry in table.metadata.metadata_log}
    assert there == {table.metadata_location, *log}
    assert len(log) == 3
    assert lake.table("shop.orders").properties["turn"] == "7"


def test_a_table_of_the_same_name_is_not_changed_through_one_that_was_dropped(lake: lp.Lake) -> None:
    """Who held a table went on, unaware, in another one that somebody had made in its place."""
    held = lake.create_table("shop.orders", "id BIGINT")
    lake.drop_table("shop.orders")
    with pytest.raises(lp.NotFound):
        held.create_tag("mine")
    lake.create_table("shop.orders", "id BIGINT")
    with pytest.raises(lp.CommitConflict, match="its name belongs to another one"), held.evolve() as change:
        change.drop_column("id")
    assert lake.table("shop.orders").properties == {}
    with held.refresh().evolve() as change:
        change.set_properties(meant="yes")
    assert lake.table("shop.orders").properties["meant"] == "yes"
