"""Did our change land? The question after a lost answer, asked of the table as it is now."""

from __future__ import annotations

from lakeplane.catalog.catalog import Change, Metadata
from lakeplane.errors import LakeplaneError
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.updates import AddSnapshot, AssignUuid
from lakeplane.iceberg.view import apply_to_view


def has_landed(change: Change, now: Metadata) -> bool:
    """Whether a change is part of what a table or view is now.

    Snapshot ids are made by the writer, and nobody else's are the same: where there is one, it tells. Other
    changes have landed when doing them again would change nothing; whoever did the same did it for us.
    """
    ids = [update.snapshot.snapshot_id for update in change.updates if isinstance(update, AddSnapshot)]
    if ids and isinstance(now, TableMetadata):
        return all(snapshot_id in now.snapshots_by_id for snapshot_id in ids)
    uuids = [update.uuid for update in change.updates if isinstance(update, AssignUuid)]
    if uuids:
        own = now.table_uuid if isinstance(now, TableMetadata) else now.view_uuid
        return (own or "").lower() == uuids[-1].lower()
    try:
        if isinstance(now, TableMetadata):
            return apply(now, change.updates, now_ms=now.last_updated_ms) is now  # type: ignore[arg-type]
        return apply_to_view(now, change.updates, now_ms=0) is now  # type: ignore[arg-type]
    except LakeplaneError:
        return False
