"""What manifests will tell of files that are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakeplane.files.footers import parquet_metrics
from lakeplane.files.partitions import Partition
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.manifest_schema import DATA, FILE_COLUMNS
from lakeplane.iceberg.new_files import NewFiles


class Finished(NamedTuple):
    """A file that is written."""

    path: str
    partition: Partition
    size: int
    rows: int
    order_id: int
    nans: dict[int, int]
    """Counts of NaN by field id."""
    tail: bytes
    """The end of a Parquet file, with its footer."""


def describe(finished: Sequence[Finished], target: WriteTarget) -> list[NewFiles]:
    """Files of one target as columns; none of no files."""
    if not finished:
        return []
    files = sorted(finished, key=lambda each: each.path)
    count = len(files)
    ids = sorted({field_id for each in files for field_id in each.nans})
    nans = {
        field_id: pa.array([each.nans.get(field_id, 0) for each in files], pa.int64()) for field_id in ids
    }
    told = parquet_metrics([each.tail for each in files], target.schema, target.metrics_modes, nans=nans)
    columns = {
        "content": pa.array([DATA] * count, FILE_COLUMNS.field("content").type),
        "file_path": pa.array([each.path for each in files]),
        "file_format": pa.array([target.file_format.upper()] * count),
        "partition": _partitions(files, target),
        "file_size_in_bytes": pa.array([each.size for each in files], pa.int64()),
        "sort_order_id": pa.array([each.order_id for each in files], pa.int32()),
        **{name: told.column(name) for name in told.column_names},
    }
    return [NewFiles(target.spec.spec_id, pa.table(columns))]


def _partitions(files: Sequence[Finished], target: WriteTarget) -> pa.Array:
    fields = target.spec.fields
    if not fields:
        return pa.array([{}] * len(files), pa.struct([]))
    columns = [
        pa.concat_arrays([each.partition.values[place] for each in files]) for place in range(len(fields))
    ]
    return pa.StructArray.from_arrays(columns, names=[str(field.field_id) for field in fields])
