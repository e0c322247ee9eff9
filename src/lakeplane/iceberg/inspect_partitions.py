"""The metadata table of partitions: how much is in each of them, and who changed it last."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.inspect_history import micros
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.manifest_schema import DATA, EQUALITY_DELETES, POSITION_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.unified_partitions import unify
from lakeplane.model.expressions.physical import plain

_FACTS: Final = ("spec_id", "content", "record_count", "file_size_in_bytes", "snapshot_id", "sequence_number")
_NO_TIME: Final = np.iinfo(np.int64).min


def partitions(table: TableMetadata, snapshot: Snapshot | None, reading: Reading) -> pa.Table:
    """One row for each partition with live files, the one that was not changed for the longest time first.

    Partitions of two specs are the same if they have as many fields, and the same values in the unified type.
    """
    schema = schemas.arrow(schemas.partitions(table))
    listed = list_manifests(snapshot, reading)
    stacks = scan(listed, np.ones(listed.num_rows, np.bool_), table, reading)
    parts = [_facts(each.files, table) for each in stacks if each.files.num_rows]
    if not parts:
        return schema.empty_table()
    files = _by_time(pa.concat_tables(parts), table)
    grouped = _grouped(files, table)
    last = files.take(grouped["row_max"])
    columns = {name: grouped[f"{name}_sum"] for name in _counted(files)}
    columns |= {
        "partition": last["partition"],
        "spec_id": last["spec_id"],
        "last_updated_at": last["time"],
        "last_updated_snapshot_id": last["author"],
    }
    arrays = [columns[each.name].combine_chunks() for each in schema]
    fitting = [
        array if array.type == each.type else array.cast(each.type)
        for array, each in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(fitting, schema=schema)


def _facts(files: pa.Table, table: TableMetadata) -> pa.Table:
    partition = unify(files["partition"].combine_chunks(), table, table.location)
    return files.select(_FACTS).append_column("partition", partition)


def _by_time(files: pa.Table, table: TableMetadata) -> pa.Table:
    """Files with the snapshot that brought them, if the table still has it, and its time: the newest last."""
    ids = plain(files["snapshot_id"])
    known = pa.array([each.snapshot_id for each in table.snapshots], pa.int64())
    times = pa.array(micros(each.timestamp_ms for each in table.snapshots), pa.timestamp("us", "UTC"))
    found = pc.index_in(ids, value_set=known)
    time = times.take(found)
    author = pc.if_else(pc.is_valid(found), ids, pa.scalar(None, pa.int64()))
    files = files.append_column("time", time).append_column("author", author)
    order = np.lexsort((_integers(files["sequence_number"], 0), _integers(time.cast(pa.int64()), _NO_TIME)))
    return files.take(pa.array(order))


def _integers(column: pa.Array | pa.ChunkedArray, missing: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = plain(column).fill_null(missing).to_numpy()
    return found


def _grouped(files: pa.Table, table: TableMetadata) -> pa.Table:
    keys = _keys(files, table)
    rows = pa.array(np.arange(files.num_rows))
    counted = _counted(files)
    sums = [(name, "sum") for name in counted]
    return (
        pa.table({**keys, **counted, "row": rows})
        .group_by(list(keys), use_threads=False)
        .aggregate([*sums, ("row", "max")])
    )


def _keys(files: pa.Table, table: TableMetadata) -> dict[str, Any]:
    """What tells partitions apart: the number of their fields, and their values."""
    partition = files["partition"].combine_chunks()
    unified = {field.id for field in schemas.partition_fields(table).fields}
    spec_ids = plain(files["spec_id"]).to_numpy()
    widths = np.zeros(len(spec_ids), np.int32)
    for spec in table.partition_specs:
        widths[spec_ids == spec.spec_id] = sum(field.field_id in unified for field in spec.fields)
    columns = [_key(partition.field(number)) for number in range(partition.type.num_fields)]
    return {"width": pa.array(widths), **{f"key {number}": each for number, each in enumerate(columns)}}


def _key(values: pa.Array) -> pa.Array:
    values = plain(values)
    if not pa.types.is_floating(values.type):
        return values
    # Any NaN is the same as any other, and the two zeros are not the same.
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy().copy()
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))


def _counted(files: pa.Table) -> dict[str, Any]:
    """Columns whose sums are the counts of a partition."""
    content = plain(files["content"]).to_numpy()
    rows = plain(files["record_count"]).to_numpy()
    sizes = plain(files["file_size_in_bytes"]).to_numpy()
    data, positions, equalities = (
        (content == kind).astype(np.int64) for kind in (DATA, POSITION_DELETES, EQUALITY_DELETES)
    )
    return {
        "record_count": pa.array(rows * data),
        "file_count": pa.array(data),
        "total_data_file_size_in_bytes": pa.array(sizes * data),
        "position_delete_record_count": pa.array(rows * positions),
        "position_delete_file_count": pa.array(positions),
        "equality_delete_record_count": pa.array(rows * equalities),
        "equality_delete_file_count": pa.array(equalities),
    }
