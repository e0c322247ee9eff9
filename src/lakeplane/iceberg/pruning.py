"""Which manifests and files can be left out, as none of their rows can match a predicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.iceberg.bound_columns import read_bounds
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.expressions.bounds import ColumnStats, Recall, StatsOf, may_match, summary_stats
from lakeplane.model.expressions.physical import Mask, plain, valid_mask
from lakeplane.model.expressions.project import project
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.expressions.tree import FALSE, TRUE, Predicate, Term, all_of, is_in
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.types import BINARY, DATE, INT, LONG, NANOS, STRING, TIMESTAMPS, Field, Fixed, Struct


class Kept(NamedTuple):
    """What is left of some files, and how many each rule has left out."""

    files: pa.Table
    codes: npt.NDArray[np.int64]
    """The position of each file's residual in ``residuals``."""
    residuals: Sequence[Predicate]
    by_partition: int
    by_statistics: int


def manifests_may_match(listed: pa.Table, predicate: Predicate, table: TableMetadata) -> Mask:
    """Which manifests of a list may hold files with matching rows, by their partition summaries.

    Deletes only concern rows of their own partitions, so their manifests are judged alike.
    """
    keep = np.ones(listed.num_rows, np.bool_)
    spec_ids = plain(listed["partition_spec_id"])
    specs = {spec.spec_id for spec in table.partition_specs}
    for spec_id in pc.unique(spec_ids).to_pylist():
        # Nothing is known of what a v1 snapshot names itself; without its spec, reading a manifest will fail.
        if spec_id not in specs:
            continue
        inclusive = project(predicate, table.spec_by_id(spec_id), strict=False)
        if inclusive == TRUE:
            continue
        rows = np.flatnonzero(pc.fill_null(pc.equal(spec_ids, spec_id), False).to_numpy(zero_copy_only=False))  # noqa: FBT003
        summaries = plain(listed["partitions"]).take(pa.array(rows))
        stats = _summaries(summaries, table.partition_type(spec_id))
        keep[rows] = may_match(inclusive, stats, len(rows))
    return keep


def manifests_may_hold(listed: pa.Table, partitions: pa.Table, table: TableMetadata) -> Mask:
    """Which manifests of a list may hold files in some partitions: ``spec_id`` and ``partition``."""
    spec_ids = plain(listed["partition_spec_id"])
    keep: Mask = ~valid_mask(spec_ids)
    for spec_id in pc.unique(plain(partitions["spec_id"])).to_pylist():
        wanted = partitions.filter(pc.equal(partitions["spec_id"], spec_id))
        rows = np.flatnonzero(pc.fill_null(pc.equal(spec_ids, spec_id), False).to_numpy(zero_copy_only=False))  # noqa: FBT003
        partition = table.partition_type(spec_id)
        values = plain(wanted["partition"])
        told = {each.name for each in values.type}
        predicate = all_of(
            _among(field, values.field(str(field.id))) for field in partition.fields if str(field.id) in told
        )
        stats = _summaries(plain(listed["partitions"]).take(pa.array(rows)), partition)
        keep[rows] = may_match(predicate, stats, len(rows))
    return keep


def _among(field: Field, values: pa.Array) -> Predicate:
    """That a partition field has one of some values; of types with values that are hard to tell, always."""
    if field.type not in _PLAIN_TYPES:
        return TRUE
    found = pc.unique(values)
    if found.null_count:
        return TRUE
    if pa.types.is_date32(found.type):
        found = found.cast(pa.int32())
    elif pa.types.is_time(found.type) or pa.types.is_timestamp(found.type):
        found = found.cast(pa.int64())
    return is_in(Term(field.id, field.type), found.to_pylist())


_PLAIN_TYPES: Final = frozenset({INT, LONG, DATE, STRING, *TIMESTAMPS})


def _summaries(column: pa.ListArray, partition: Struct) -> StatsOf:
    """The summaries of each partition field; they are in the order of the fields."""
    width = len(partition.fields)
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    starts = column.offsets.to_numpy()[:-1]
    positions = {field.id: (number, field) for number, field in enumerate(partition.fields)}

    def stats_of(field_id: int) -> ColumnStats | None:
        if field_id not in positions:
            return None
        number, field = positions[field_id]
        found = column.values.take(pa.array(starts + number, mask=lengths != width))
        lower, upper, has_null, has_nan = (
            pc.struct_field(found, name)
            for name in ("lower_bound", "upper_bound", "contains_null", "contains_nan")
        )
        if field.type is BINARY or isinstance(field.type, Fixed):
            # Java before 1.11 overwrites these bounds when it deletes files (iceberg #15127).
            return summary_stats(None, None, has_null, has_nan)
        return summary_stats(
            read_bounds(field.type, lower), read_bounds(field.type, upper), has_null, has_nan
        )

    return stats_of


class Partitions(NamedTuple):
    """The partitions of some files: there are fewer of them than files, so they are looked at once each."""

    distinct: pa.StructArray
    codes: npt.NDArray[np.int64]
    """Which of them each file is in."""

    def column(self, field_id: int) -> pa.Array:
        """The values of a partition field."""
        return pc.struct_field(self.distinct, str(field_id))


def partitions_of(files: pa.Table) -> Partitions:
    """Find the distinct partitions of files of one spec."""
    values = plain(files["partition"])
    codes: npt.NDArray[np.int64] = np.zeros(len(values), np.int64)
    for position in range(values.type.num_fields):
        column = values.field(position)
        if not pa.types.is_null(column.type):
            part = _codes(column)
            codes = _codes(pa.array(codes * (int(part.max(initial=0)) + 1) + part))
    firsts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return Partitions(values.take(pa.array(firsts)), codes)


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    encoded = column.dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return codes


def prune(
    files: pa.Table,
    predicate: Predicate,
    spec: PartitionSpec,
    schema: Schema,
    *,
    partitions: Callable[[], Partitions] | None = None,
    recall: Recall | None = None,
    counted: Sequence[str] = (),
) -> Kept:
    """The files of one spec that may hold matching rows, and what is left to check on the rows of each.

    Of statistics only the columns ``counted`` are kept. ``partitions`` and ``recall`` give what is known of
    the files, where it is kept for several predicates.
    """
    count = files.num_rows
    facts = files.select([name for name in files.column_names if "." not in name or name in counted])
    if predicate == TRUE or not count:
        return Kept(facts, np.zeros(count, np.int64), (predicate,), 0, 0)
    found = partitions() if partitions else partitions_of(files)
    codes, distinct = residuals(predicate, spec, found.column, len(found.distinct))
    codes = codes[found.codes]
    keep = np.array([each != FALSE for each in distinct], np.bool_)[codes]
    within = int(keep.sum())
    if within and not {TRUE, FALSE}.issuperset(distinct):
        keep = keep & may_match(predicate, statistics(files, schema), count, recall)
    if not keep.all():
        facts, codes = facts.filter(pa.array(keep)), codes[keep]
    is_used = np.bincount(codes, minlength=len(distinct)) > 0
    left = [each for each, used in zip(distinct, is_used, strict=True) if used]
    return Kept(facts, (np.cumsum(is_used) - 1)[codes], left, count - within, within - facts.num_rows)


def statistics(files: pa.Table, schema: Schema) -> StatsOf:
    """What is known of the columns of files, read as the types of a schema."""

    def stats_of(field_id: int) -> ColumnStats | None:
        field = schema.get(field_id)
        if field is None or f"lower_bounds.{field_id}" not in files.column_names:
            return None
        lower, upper = (
            read_bounds(field.type, files[f"{which}_bounds.{field_id}"]) for which in ("lower", "upper")
        )
        values, nulls, nans = (
            plain(files[f"{which}_counts.{field_id}"]) for which in ("value", "null_value", "nan_value")
        )
        if _is_in_optional(field_id, schema):
            # ORC does not count the rows in which the struct itself is null.
            nulls = _unless_orc(files, nulls)
        if field.type in NANOS and lower is not None and upper is not None:
            # Java up to 1.11 writes bounds of ORC files in microseconds (iceberg #16922).
            lower, upper = _unless_orc(files, lower), _unless_orc(files, upper)
        return ColumnStats(lower, upper, values, nulls, nans)

    return stats_of


def _unless_orc(files: pa.Table, column: pa.Array) -> pa.Array:
    orc = pc.equal(pc.utf8_upper(plain(files["file_format"])), "ORC")
    return pc.if_else(orc, pa.scalar(None, column.type), column)


def _is_in_optional(field_id: int, schema: Schema) -> bool:
    parent = schema.parent_of(field_id)
    while parent is not None:
        if not parent.required:
            return True
        parent = schema.parent_of(parent.id)
    return False
