"""A plan as a person sees it: what is kept, what is left out, and by which rule."""

from __future__ import annotations

import msgspec
import pyarrow.compute as pc

from lakeplane.iceberg.plan import Counts, ReadPlan
from lakeplane.model.expressions.project import project
from lakeplane.model.expressions.sql_text import to_sql
from lakeplane.model.expressions.tree import TRUE
from lakeplane.model.schema import Schema


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does, as values and, printed, as text."""

    table: str
    snapshot_id: int | None
    where: str | None
    """The condition as it is understood; None without one."""
    partitions: tuple[str, ...]
    """What the condition says about the partitions of specs for which it says something."""
    residuals: tuple[str, ...]
    """What is left to be checked on rows, for some files each."""
    files_with_deletes: int
    counts: Counts

    def __str__(self) -> str:
        counts = self.counts
        state = (
            "no snapshot: the table is empty" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        )
        lines = [f"{self.table}, {state}"]
        if self.where is not None:
            lines.append(f"  where      {self.where}")
        lines += [f"  partitions {each}" for each in self.partitions]
        lines += [
            f"  manifests  {_kept(_manifests_kept(counts), counts.manifests)}"
            + _left_out(
                (counts.manifests_without_files, "without files"),
                (counts.manifests_by_partition, "by partition"),
            ),
            f"  files      {_kept(counts.files_kept, counts.files)}"
            + _left_out(
                (counts.files_by_partition, "by partition"), (counts.files_by_statistics, "by statistics")
            ),
            f"  rows       at most {counts.rows_kept:,} in {counts.bytes_kept:,} bytes",
        ]
        if counts.deletes:
            lines.append(f"  deletes    {counts.deletes:,} for {self.files_with_deletes:,} of the files")
        lines += [f"  check      {each}" for each in self.residuals]
        return "\n".join(lines)


def explain(plan: ReadPlan, table: str) -> Explanation:
    """Tell what a plan does; ``table`` is how it calls the table."""
    where = None if plan.predicate == TRUE else to_sql(plan.predicate, plan.schema)
    projected = [project(plan.predicate, spec, strict=False) for spec in plan.table.partition_specs]
    fields = [Schema(plan.table.partition_type(spec.spec_id).fields) for spec in plan.table.partition_specs]
    deletes = (
        plan.files["vector"].is_valid(),
        *(_some(plan, name) for name in ("position_deletes", "equality_deletes")),
    )
    touched = pc.or_(pc.or_(deletes[0], deletes[1]), deletes[2])
    return Explanation(
        table=table,
        snapshot_id=None if plan.snapshot is None else plan.snapshot.snapshot_id,
        where=where,
        partitions=tuple(
            dict.fromkeys(
                to_sql(predicate, schema)
                for predicate, schema in zip(projected, fields, strict=True)
                if predicate != TRUE
            )
        ),
        residuals=tuple(to_sql(each, plan.schema) for each in plan.residuals if each != TRUE),
        files_with_deletes=pc.sum(touched, min_count=0).as_py(),
        counts=plan.counts,
    )


def _some(plan: ReadPlan, name: str) -> object:
    return pc.greater(pc.list_value_length(plan.files[name]), 0)


def _manifests_kept(counts: Counts) -> int:
    return counts.manifests - counts.manifests_without_files - counts.manifests_by_partition


def _kept(kept: int, of: int) -> str:
    return f"{kept:,} of {of:,} kept"


def _left_out(*rules: tuple[int, str]) -> str:
    told = ", ".join(f"{count:,} {rule}" for count, rule in rules if count)
    return f"; left out: {told}" if told else ""
