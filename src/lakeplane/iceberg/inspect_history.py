"""Metadata tables that a table's metadata tells by itself: snapshots, their history, refs, and the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import MetadataLogEntry
from lakeplane.model.types import Field


def snapshots(table: TableMetadata) -> pa.Table:
    """The snapshots that the table still has; the operation is apart from the rest of the summary."""
    found = table.snapshots
    return rows(
        schemas.SNAPSHOTS,
        [
            micros(each.timestamp_ms for each in found),
            [each.snapshot_id for each in found],
            [each.parent_snapshot_id for each in found],
            [each.operation for each in found],
            [each.manifest_list for each in found],
            [_rest(each.summary) for each in found],
        ],
    )


def _rest(summary: Any) -> list[tuple[str, str]] | None:
    if summary is None:
        return None
    return [(key, value) for key, value in summary.items() if key != "operation"]


def history(table: TableMetadata) -> pa.Table:
    """When each snapshot became the current one, and whether the current one descends from it."""
    current = table.current_snapshot_id
    ancestors = set() if current is None else {each.snapshot_id for each in table.ancestors(current)}
    known, log = table.snapshots_by_id, table.snapshot_log
    return rows(
        schemas.HISTORY,
        [
            micros(each.timestamp_ms for each in log),
            [each.snapshot_id for each in log],
            [
                known[each.snapshot_id].parent_snapshot_id if each.snapshot_id in known else None
                for each in log
            ],
            [each.snapshot_id in ancestors for each in log],
        ],
    )


def refs(table: TableMetadata) -> pa.Table:
    """The branches and tags, with how long they are kept."""
    found = list(table.refs.items())
    return rows(
        schemas.REFS,
        [
            [name for name, _ in found],
            [ref.type.upper() for _, ref in found],
            [ref.snapshot_id for _, ref in found],
            [ref.max_ref_age_ms for _, ref in found],
            [ref.min_snapshots_to_keep for _, ref in found],
            [ref.max_snapshot_age_ms for _, ref in found],
        ],
    )


def metadata_log_entries(table: TableMetadata, metadata_location: str | None) -> pa.Table:
    """The metadata files of the table, the current one last, each with the snapshot of its time."""
    log = list(table.metadata_log)
    if metadata_location is not None:
        log.append(MetadataLogEntry(timestamp_ms=table.last_updated_ms, metadata_file=metadata_location))
    ids = _current_at(table, [each.timestamp_ms for each in log])
    known = [table.snapshots_by_id.get(each) if each is not None else None for each in ids]
    return rows(
        schemas.METADATA_LOG_ENTRIES,
        [
            micros(each.timestamp_ms for each in log),
            [each.metadata_file for each in log],
            ids,
            [None if each is None else each.schema_id for each in known],
            [None if each is None else each.sequence_number for each in known],
        ],
    )


def _current_at(table: TableMetadata, times: Sequence[int]) -> list[int | None]:
    """The snapshot that was current at each time; the table may not have it any more."""
    log = sorted(table.snapshot_log, key=lambda each: each.timestamp_ms)
    starts = np.array([each.timestamp_ms for each in log], np.int64)
    places = np.searchsorted(starts, np.array(times, np.int64), side="right") - 1
    return [log[place].snapshot_id if place >= 0 else None for place in places.tolist()]


def micros(times: Iterable[int]) -> list[int]:
    """Times in milliseconds as those of Arrow columns."""
    found = [each * 1000 for each in times]
    wrong = next((each for each in found if not -(2**63) < each < 2**63), None)
    if wrong is not None:
        raise InvalidMetadata(f"{wrong // 1000} ms is not the time of anything", field="timestamp-ms")
    return found


def rows(fields: Sequence[Field], columns: Sequence[Any]) -> pa.Table:
    """A table of columns of Python values."""
    schema = schemas.arrow(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
