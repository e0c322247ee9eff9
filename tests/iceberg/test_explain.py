"""What a plan tells of itself, as values and as text."""

from __future__ import annotations

from lakeplane.iceberg.explain import Explanation, explain
from lakeplane.iceberg.plan import plan
from lakeplane.model.types import DATE, LONG
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, bounds, build, deletes, entries, with_metadata
from tests.iceberg.test_plan_evolution import add_spec


def explained(built: BuiltTable, where: str | None = None, at: int | None = None) -> Explanation:
    return explain(plan(built.metadata, built.reading(), where, at), "shop.orders")


def orders() -> BuiltTable:
    """Two days of two files each, deletes on one of them, and a third day that was deleted."""
    built = build(("id", LONG), ("day", DATE), by=["identity day"])
    for day in (0, 1):
        files = [
            Listed(f"{day}-{n}", (day,), {1: bounds(LONG, 1000 * n, 1000 * n + 999)}, 1000) for n in (0, 1)
        ]
        built.commit(entries(built.metadata, files))
    built.commit(deletes(built.metadata, [Listed("gone", (1,), more={"referenced_data_file": "1-0"})]))
    return built


def test_a_plan_of_everything() -> None:
    found = explained(orders())
    assert str(found) == (
        "shop.orders, snapshot 1003\n"
        "  manifests  3 of 3 kept\n"
        "  files      4 of 4 kept\n"
        "  rows       at most 4,000 in 4,000 bytes\n"
        "  deletes    1 for 1 of the files"
    )
    assert (found.where, found.partitions, found.residuals, found.files_with_deletes) == (None, (), (), 1)


def test_a_plan_of_a_part_tells_what_each_rule_left_out() -> None:
    found = explained(orders(), "day = DATE '1970-01-02' and ID < 10")
    assert str(found) == (
        "shop.orders, snapshot 1003\n"
        "  where      `day` = DATE '1970-01-02' AND `id` < 10\n"
        "  partitions `day_0` = DATE '1970-01-02'\n"
        "  manifests  2 of 3 kept; left out: 1 by partition\n"
        "  files      1 of 4 kept; left out: 2 by partition, 1 by statistics\n"
        "  rows       at most 1,000 in 1,000 bytes\n"
        "  deletes    1 for 1 of the files\n"
        "  check      `id` < 10"
    )


def test_a_plan_of_nothing() -> None:
    found = explained(orders(), "day > DATE '1980-01-01'")
    assert found.counts.files_kept == 0
    assert str(found).splitlines()[3:] == [
        "  manifests  0 of 3 kept; left out: 3 by partition",
        "  files      0 of 0 kept",
        "  rows       at most 0 in 0 bytes",
    ]


def test_a_plan_of_an_empty_table() -> None:
    found = explained(build(("id", LONG)), "id = 1")
    assert found.snapshot_id is None
    assert str(found).splitlines()[:3] == [
        "shop.orders, no snapshot: the table is empty",
        "  where      `id` = 1",
        "  manifests  0 of 0 kept",
    ]


def test_a_plan_of_the_past() -> None:
    found = explained(orders(), at=1001)
    assert found.snapshot_id == 1001
    assert (found.counts.files_kept, found.counts.deletes) == (2, 0)


def test_each_spec_and_each_residual_is_told_once() -> None:
    built = orders()
    [field] = built.metadata.partition_spec.fields
    add_spec(built)
    add_spec(built, field, spec_id=2)
    built.commit(
        entries(built.metadata, [Listed("whole")], 1), entries(built.metadata, [Listed("new", (1,))], 2)
    )
    found = explained(built, "day = DATE '1970-01-02'")
    assert found.partitions == ("`day_0` = DATE '1970-01-02'",)
    assert found.residuals == ("`day` = DATE '1970-01-02'",)
    assert found.counts.files_kept == 4


def test_a_condition_that_only_spark_understands_is_told_and_left_to_it() -> None:
    found = explained(orders(), "length(cast(id as string)) = 3 AND day = DATE '1970-01-01'")
    assert found.partitions == ("`day_0` = DATE '1970-01-01'",)
    assert len(found.residuals) == 1
    assert "length" in found.residuals[0]
    assert found.counts.files_kept == 2


def test_a_partition_field_whose_source_is_gone_is_no_trouble() -> None:
    built = orders()
    schema = built.metadata.schema
    only_id = type(schema)(schema.fields[:1], schema_id=0)
    with_metadata(built, schemas=(only_id,))
    found = explained(built, "id < 10")
    assert found.partitions == ()
    assert found.counts.files_kept == 2
