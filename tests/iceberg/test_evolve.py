"""Steps of an evolution become one proposal, by the rules of the table's format version."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakeplane.errors import InvalidChange, LakeplaneError, RequirementFailed
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.evolve import (
    AddPartitionField,
    RemovePartitionField,
    RemoveProperties,
    RenamePartitionField,
    SetLocation,
    SetProperties,
    SetSortOrder,
    Step,
    UnionByName,
    Upgrade,
    propose_evolution,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.model.evolution import AddColumn, DropColumn, RenameColumn, UpdateColumn
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.rules_text import parse_partition_field, parse_sort_key
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortOrder
from lakeplane.model.transforms import Void
from lakeplane.model.types import INT, LONG, STRING, TIMESTAMP, Field

COLUMNS = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "at", TIMESTAMP),
        Field(3, "region", STRING),
        Field(4, "size", INT),
    )
)


def new_table(
    version: int = 2, partition_by: tuple[str, ...] = (), sort_by: tuple[str, ...] = ()
) -> TableMetadata:
    fields = tuple(parse_partition_field(rule, COLUMNS) for rule in partition_by)
    keys = tuple(parse_sort_key(key, COLUMNS) for key in sort_by)
    made = creation(
        COLUMNS,
        uuid="00000000-0000-4000-8000-000000000001",
        location="s3://bucket/t",
        spec=PartitionSpec(0, fields),
        order=SortOrder(1 if keys else 0, keys),
        properties={"format-version": str(version), "owner": "ann"},
    )
    return apply(None, cast("Any", made), now_ms=1)


def evolved(table: TableMetadata, *steps: Step, **options: bool) -> TableMetadata:
    requirements, updates = propose_evolution(table, steps, **options)
    q.check(requirements, table)
    return apply(table, cast("Any", updates), now_ms=2)


def partition(table: TableMetadata) -> list[tuple[str, str, int]]:
    return [(each.name, str(each.transform), each.field_id) for each in table.partition_spec.fields]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_fields_are_added_at_the_end_with_ids_that_count_up(version: int) -> None:
    table = evolved(new_table(version, ("days(at)",)), AddPartitionField("bucket(16, id)"))
    assert partition(table) == [("at_day", "day", 1000), ("id_bucket_16", "bucket[16]", 1001)]
    table = evolved(table, AddPartitionField("region", "place"))
    assert partition(table)[2] == ("place", "identity", 1002)
    assert [spec.spec_id for spec in table.partition_specs] == [0, 1, 2]
    assert table.last_partition_id == 1002


@pytest.mark.parametrize("version", [2, 3])
def test_since_v2_a_dropped_partition_field_is_gone(version: int) -> None:
    table = evolved(new_table(version, ("days(at)", "region")), RemovePartitionField("at_day"))
    assert partition(table) == [("region", "identity", 1001)]


def test_in_v1_a_dropped_partition_field_leaves_a_void_in_its_place() -> None:
    table = evolved(new_table(1, ("days(at)", "region")), RemovePartitionField("at_day"))
    assert partition(table) == [("at_day", "void", 1000), ("region", "identity", 1001)]
    assert isinstance(table.partition_spec.fields[0].transform, Void)
    table = evolved(table, AddPartitionField("bucket(4, id)"))
    assert [field_id for _, _, field_id in partition(table)] == [1000, 1001, 1002]


def test_a_v1_table_that_becomes_v2_at_the_same_time_needs_no_void() -> None:
    table = evolved(new_table(1, ("days(at)", "region")), RemovePartitionField("at_day"), Upgrade(2))
    assert partition(table) == [("region", "identity", 1001)]
    assert table.format_version == 2


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_partition_fields_can_go(version: int) -> None:
    table = evolved(new_table(version, ("days(at)",)), RemovePartitionField("at_day"))
    assert [name for name, transform, _ in partition(table) if transform != "void"] == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_field_that_is_dropped_and_added_again_is_the_old_one(version: int) -> None:
    base = new_table(version, ("days(at)",))
    once = evolved(base, RemovePartitionField("at_day"))
    again = evolved(once, AddPartitionField("days(at)", "day_again" if version == 1 else None))
    kept = [each for each in partition(again) if each[1] == "day"]
    assert len(kept) == 1
    if version > 1:
        assert again.default_spec_id == base.default_spec_id
        assert kept == [("at_day", "day", 1000)]


def test_a_partition_field_can_be_renamed_and_keeps_its_id() -> None:
    table = evolved(new_table(2, ("days(at)",)), RenamePartitionField("at_day", "day"))
    assert partition(table) == [("day", "day", 1000)]
    table = evolved(
        table,
        AddPartitionField("region"),
        RenamePartitionField("region", "place"),
        RemovePartitionField("day"),
    )
    assert partition(table) == [("place", "identity", 1001)]


def test_a_field_can_be_replaced_by_another_of_its_name() -> None:
    table = evolved(
        new_table(2, ("days(at)",)), RemovePartitionField("at_day"), AddPartitionField("hours(at)", "at_day")
    )
    assert partition(table) == [("at_day", "hour", 1001)]


def test_a_field_that_was_just_added_goes_by_its_rule_too() -> None:
    steps = (
        AddPartitionField("region"),
        AddPartitionField("bucket(8, id)"),
        RemovePartitionField("bucket(8, id)"),
    )
    assert partition(evolved(new_table(), *steps)) == [("region", "identity", 1000)]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([AddPartitionField("days(at)")], "partitioned by days"),
        ([AddPartitionField("hours(at)", "at_day")], "at_day"),
        ([AddPartitionField("days(nope)")], "nope"),
        ([AddPartitionField("days(region)")], "region"),
        ([AddPartitionField("bucket(0, id)")], "bucket"),
        ([AddPartitionField("identity(size)", "id")], "id"),
        ([RemovePartitionField("nope")], "no partition field 'nope'. There is at_day"),
        ([RenamePartitionField("nope", "x")], "no partition field 'nope'"),
        ([RemovePartitionField("at_day"), RemovePartitionField("at_day")], "There is none"),
        ([DropColumn("at")], "at_day"),
        ([SetSortOrder(("nope",))], "nope"),
        ([DropColumn("nope")], "nope"),
        ([Upgrade(1)], "cannot go back"),
        ([Upgrade(9)], "format version 9"),
        ([AddColumn("n", STRING, required=True)], "n"),
        ([SetLocation("../elsewhere")], "elsewhere"),
    ],
)
def test_what_cannot_be_is_refused_and_says_what(steps: list[Step], problem: str) -> None:
    table = new_table(2, ("days(at)",))
    with pytest.raises(LakeplaneError) as failure:
        evolved(table, *steps)
    assert problem in str(failure.value)


def test_a_column_may_go_together_with_what_is_made_from_it() -> None:
    table = new_table(2, ("days(at)",), ("at",))
    with pytest.raises(InvalidChange):
        evolved(table, DropColumn("at"))
    with pytest.raises(InvalidChange):
        evolved(table, DropColumn("at"), RemovePartitionField("at_day"))
    with pytest.raises(InvalidChange):
        evolved(table, DropColumn("at"), SetSortOrder(()))
    gone = evolved(table, SetSortOrder(("id",)), DropColumn("at"), RemovePartitionField("at_day"))
    assert [field.name for field in gone.schema.fields] == ["id", "region", "size"]
    assert partition(gone) == []
    assert [key.source_id for key in gone.sort_order.fields] == [1]


def test_in_v1_a_column_may_go_with_its_partition_field_and_the_table_stays_writable() -> None:
    gone = evolved(new_table(1, ("days(at)", "region")), DropColumn("at"), RemovePartitionField("at_day"))
    assert partition(gone) == [("at_day", "void", 1000), ("region", "identity", 1001)]
    assert partition(evolved(gone, AddPartitionField("bucket(4, id)")))[0][1] == "void"


def test_rules_and_sort_keys_are_read_with_the_columns_of_the_new_schema() -> None:
    table = evolved(
        new_table(),
        AddPartitionField("truncate(4, place)"),
        SetSortOrder(("place DESC NULLS LAST", "note")),
        RenameColumn("region", "place"),
        AddColumn("note", STRING),
    )
    assert partition(table) == [("place_trunc_4", "truncate[4]", 1000)]
    assert [key.source_id for key in table.sort_order.fields] == [3, 5]


def test_a_renamed_column_keeps_its_partition_field() -> None:
    table = evolved(new_table(2, ("region",), ("region",)), RenameColumn("region", "place"))
    assert partition(table) == [("region", "identity", 1000)]
    assert table.sort_order.fields[0].source_id == 3


def test_sorting_by_nothing_is_order_zero_and_an_old_order_is_found_again() -> None:
    table = new_table(2, (), ("id",))
    unsorted = evolved(table, SetSortOrder(()))
    assert (unsorted.default_sort_order_id, unsorted.sort_order.is_unsorted) == (0, True)
    again = evolved(unsorted, SetSortOrder(("id",)))
    assert again.default_sort_order_id == table.default_sort_order_id
    assert evolved(again, SetSortOrder(("size",)), SetSortOrder(("id DESC",))).default_sort_order_id == 2


def test_properties_are_set_and_removed_in_order() -> None:
    table = evolved(
        new_table(),
        SetProperties(FrozenDict({"a": "1", "b": "2"})),
        RemoveProperties(("a", "owner", "never")),
        SetProperties(FrozenDict({"b": "3"})),
    )
    assert dict(table.properties) == {"b": "3"}


def test_location_and_version_change_nothing_else() -> None:
    table = evolved(new_table(1), SetLocation("s3://bucket/elsewhere"), Upgrade(3))
    assert (table.location, table.format_version, table.next_row_id) == ("s3://bucket/elsewhere", 3, 0)


def test_v3_types_and_defaults_may_come_with_the_upgrade() -> None:
    add = AddColumn("currency", STRING, required=True, default="EUR")
    with pytest.raises(InvalidChange):
        evolved(new_table(2), add)
    field = evolved(new_table(2), add, Upgrade(3)).schema.fields[-1]
    assert (field.required, field.initial_default, field.write_default) == (True, "EUR", "EUR")


def test_options_reach_the_rules() -> None:
    with pytest.raises(InvalidChange):
        evolved(new_table(), UpdateColumn("size", required=True))
    table = evolved(new_table(), UpdateColumn("size", required=True), allow_incompatible=True)
    assert table.schema.fields[3].required
    with pytest.raises(InvalidChange):
        evolved(new_table(), RenameColumn("REGION", "place"))
    table = evolved(new_table(), RenameColumn("REGION", "place"), case_sensitive=False)
    assert table.schema.fields[2].name == "place"


def test_what_changes_nothing_is_the_same_table() -> None:
    table = new_table(2, ("days(at)",), ("id",))
    same = evolved(
        table,
        SetProperties(FrozenDict({"owner": "ann"})),
        RenameColumn("region", "x"),
        RenameColumn("x", "region"),
        SetSortOrder(("id",)),
        AddPartitionField("region"),
        RemovePartitionField("region"),
    )
    assert same is table


STEPS_AND_RIVALS: list[tuple[Step, Step]] = [
    (AddColumn("a", STRING), AddColumn("b", STRING)),
    (RenameColumn("size", "a"), DropColumn("size")),
    (AddPartitionField("region"), AddPartitionField("days(at)")),
    (SetSortOrder(("id",)), SetSortOrder(("size",))),
]


@pytest.mark.parametrize(("mine", "theirs"), STEPS_AND_RIVALS)
def test_a_proposal_made_for_an_older_table_does_not_hold_any_more(mine: Step, theirs: Step) -> None:
    table = new_table()
    requirements, _ = propose_evolution(table, [mine])
    with pytest.raises(RequirementFailed):
        q.check(requirements, evolved(table, theirs))


def test_changes_that_do_not_touch_each_other_need_no_second_try() -> None:
    table = new_table()
    others = evolved(table, SetProperties(FrozenDict({"a": "1"})))
    for step in (AddColumn("a", STRING), AddPartitionField("region"), SetSortOrder(("id",))):
        requirements, updates = propose_evolution(table, [step])
        q.check(requirements, others)
        assert apply(others, cast("Any", updates), now_ms=3).properties["a"] == "1"


def test_another_table_of_the_same_name_is_not_changed() -> None:
    table = new_table()
    requirements, _ = propose_evolution(table, [SetProperties(FrozenDict({"a": "1"}))])
    assert q.AssertTableUuid(table.table_uuid or "") in requirements


def test_a_union_comes_after_all_other_steps() -> None:
    incoming = Schema((Field(1, "bytes", LONG), Field(2, "extra", INT), Field(3, "region", STRING)))
    after = evolved(new_table(), UnionByName(incoming), RenameColumn("size", "bytes"))
    assert after.schema.fields == (
        *COLUMNS.fields[:3],
        Field(4, "bytes", LONG),
        Field(5, "extra", INT),
    )
    assert after.last_column_id == 5
    assert evolved(after, UnionByName(incoming)) is after
