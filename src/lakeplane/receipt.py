"""What a writer gets back: the proof that a change was published."""

from __future__ import annotations

import msgspec

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.model.frozen import EMPTY

_COUNTS = ("added-data-files", "deleted-data-files", "added-records", "deleted-records")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A published change of a table or view."""

    table: str
    metadata_location: str
    attempts: int
    snapshot_id: int | None = None
    """The current snapshot afterwards, if the change made it."""
    operation: str | None = None
    added_files: int = 0
    removed_files: int = 0
    added_rows: int = 0
    removed_rows: int = 0

    def __str__(self) -> str:
        what = self.operation or "metadata"
        tries = "" if self.attempts == 1 else f" after {self.attempts} attempts"
        return f"{self.table}: {what} committed{tries}"


def receipt(name: str, before: TableMetadata, after: TableMetadata, location: str, attempts: int) -> Commit:
    """Tell what a commit did."""
    snapshot = after.current_snapshot
    if snapshot is None or snapshot.snapshot_id in before.snapshots_by_id:
        return Commit(table=name, metadata_location=location, attempts=attempts)
    summary = snapshot.summary or EMPTY
    added, removed, rows, gone = (number(summary.get(key)) or 0 for key in _COUNTS)
    return Commit(
        table=name,
        metadata_location=location,
        attempts=attempts,
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation,
        added_files=added,
        removed_files=removed,
        added_rows=rows,
        removed_rows=gone,
    )
