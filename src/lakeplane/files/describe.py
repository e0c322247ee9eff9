"""What manifests will tell of files that are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lakeplane.files.footers import parquet_metrics
from lakeplane.files.leaf_values import LeafFacts
from lakeplane.files.partitions import Partition
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.manifest_schema import DATA, FILE_COLUMNS
from lakeplane.iceberg.metrics import ColumnFacts, metrics_columns
from lakeplane.iceberg.new_files import NewFiles


class Finished(NamedTuple):
    """A file that is written."""

    path: str
    partition: Partition
    size: int
    rows: int
    order_id: int
    facts: dict[int, LeafFacts]
    """What is known of fields, by their ids: of those that no footer tells everything of."""
    tail: bytes | None
    """The end of a Parquet file, with its footer."""


def describe(finished: Sequence[Finished], target: WriteTarget) -> list[NewFiles]:
    """Files of one target as columns; none of no files."""
    if not finished:
        return []
    files = sorted(finished, key=lambda each: each.path)
    told = _told(files, target)
    return new_files(
        target,
        paths=[each.path for each in files],
        sizes=[each.size for each in files],
        told=told,
        order_ids=[each.order_id for each in files],
        partitions=_partitions(files, target),
    )


def new_files(
    target: WriteTarget,
    *,
    paths: Sequence[str],
    sizes: Sequence[int],
    told: pa.Table,
    order_ids: Sequence[int],
    partitions: pa.Array | None = None,
) -> list[NewFiles]:
    """Files of any writer as columns, with one row for each file; none of no files.

    Args:
        target: What was written, and how.
        paths: The places of the files.
        sizes: Their sizes in bytes.
        told: What their footers tell: the columns of ``parquet_metrics``.
        order_ids: The ids of the sort orders that their rows are in; 0 for none.
        partitions: Their partitions, as structs whose fields are named by the ids of partition fields; None
            if the target's spec has no fields.
    """
    if not paths:
        return []
    count = len(paths)
    if partitions is None:
        partitions = pa.array([{}] * count, pa.struct([]))
    columns = {
        "content": pa.array([DATA] * count, FILE_COLUMNS.field("content").type),
        "file_path": pa.array(paths, pa.string()),
        "file_format": pa.array([target.file_format.upper()] * count),
        "partition": partitions,
        "file_size_in_bytes": pa.array(sizes, pa.int64()),
        "sort_order_id": pa.array(order_ids, pa.int32()),
        **{name: told.column(name) for name in told.column_names},
    }
    return [NewFiles(target.spec.spec_id, pa.table(columns))]


def _told(files: Sequence[Finished], target: WriteTarget) -> pa.Table:
    """Counts of rows, metrics, and where row groups begin."""
    modes = target.metrics_modes
    known = {
        field_id: _facts(field_id, [each.facts.get(field_id, LeafFacts()) for each in files])
        for field_id in sorted({field_id for each in files for field_id in each.facts})
    }
    tails = [each.tail for each in files if each.tail is not None]
    if tails:
        return parquet_metrics(tails, target.schema, modes, counted=known)
    rows = pa.array([each.rows for each in files], pa.int64())
    if not known:
        return pa.table({"record_count": rows})
    return pa.table({"record_count": rows, **metrics_columns(list(known.values()), target.schema, modes)})


def _facts(field_id: int, facts: Sequence[LeafFacts]) -> ColumnFacts:
    return ColumnFacts(
        field_id,
        values=pa.array([each.values for each in facts], pa.int64()),
        nulls=pa.array([each.nulls for each in facts], pa.int64()),
        nans=pa.array([each.nans for each in facts], pa.int64()),
        lower=_joined([each.lower for each in facts]),
        upper=_joined([each.upper for each in facts]),
    )


def _joined(ends: Sequence[Any]) -> pa.Array | None:
    """One value for each file."""
    type_ = next((each.type for each in ends if each is not None), None)
    if type_ is None:
        return None
    return pa.concat_arrays([pa.nulls(1, type_) if each is None else each for each in ends])


def _partitions(files: Sequence[Finished], target: WriteTarget) -> pa.Array | None:
    fields = target.spec.fields
    if not fields:
        return None
    columns = [
        pa.concat_arrays([each.partition.values[place] for each in files]) for place in range(len(fields))
    ]
    return pa.StructArray.from_arrays(columns, names=[str(field.field_id) for field in fields])
