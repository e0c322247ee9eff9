"""Looks at a change before it is sent: what the format forbids, and what changes nothing, stays here.

Servers differ in how they refuse a change: some answer 500, and then it is unknown what happened. What the
table was when it was last seen tells most of it, for nothing; only to refuse something it is loaded again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lakeplane.catalog.catalog import Change, Entry, Metadata
from lakeplane.catalog.metadata_files import changed
from lakeplane.errors import InvalidChange, RequirementFailed
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.requirements import check
from lakeplane.iceberg.view import ViewMetadata


def prepare(change: Change, seen: Entry | None, load: Callable[[], Entry], now_ms: int) -> Change | Entry:
    """The change as it is to be sent, or the table itself when the change changes nothing of it.

    Raises:
        InvalidChange: the table, as it is now, cannot be changed like that.
    """
    if seen is None and any(map(_names_the_last_added, change.updates)):
        seen = load()
    if seen is None or not _holds(change, seen.metadata):
        return change
    try:
        result = changed(seen, change, now_ms)
    except InvalidChange:
        now = load()
        if _holds(change, now.metadata):
            changed(now, change, now_ms)
        return change
    if result is seen.metadata:
        now = load()
        if _holds(change, now.metadata) and changed(now, change, now_ms) is now.metadata:
            return now
        return change
    return _explicit(change, seen.metadata, result)


def _holds(change: Change, metadata: Metadata) -> bool:
    try:
        check(change.requirements, metadata)
    except RequirementFailed:
        # The server has the last word: the table may have changed, or this may be a change that has landed.
        return False
    return True


def _names_the_last_added(update: u.Update) -> bool:
    match update:
        case (
            u.SetCurrentSchema(u.LAST_ADDED)
            | u.SetDefaultSpec(u.LAST_ADDED)
            | u.SetDefaultSortOrder(u.LAST_ADDED)
        ):
            return True
        case u.AddViewVersion(version):
            return version.schema_id == u.LAST_ADDED
        case _:
            return False


def _explicit(change: Change, base: Metadata, result: Metadata) -> Change:
    """Name what is there already by its id: to some servers only what is new is "the last added"."""
    if isinstance(base, ViewMetadata) and isinstance(result, ViewMetadata):
        return _explicit_in_view(change, base, result)
    assert isinstance(base, TableMetadata)
    assert isinstance(result, TableMetadata)
    schema_id, spec_id = result.current_schema_id, result.default_spec_id
    order_id = result.default_sort_order_id
    updates: list[u.Update] = []
    for update in change.updates:
        match update:
            case u.SetCurrentSchema(u.LAST_ADDED) if any(
                each.schema_id == schema_id for each in base.schemas
            ):
                updates.append(u.SetCurrentSchema(schema_id))
            case u.SetDefaultSpec(u.LAST_ADDED) if any(
                each.spec_id == spec_id for each in base.partition_specs
            ):
                updates.append(u.SetDefaultSpec(spec_id))
            case u.SetDefaultSortOrder(u.LAST_ADDED) if any(
                each.order_id == order_id for each in base.sort_orders
            ):
                updates.append(u.SetDefaultSortOrder(order_id))
            case _:
                updates.append(update)
    return msgspec.structs.replace(change, updates=tuple(updates))


def _explicit_in_view(change: Change, base: ViewMetadata, result: ViewMetadata) -> Change:
    current = result.current_version
    updates: list[u.Update] = []
    for update in change.updates:
        match update:
            case u.AddViewVersion(version) if (
                version.schema_id == u.LAST_ADDED and current.schema_id in base.schemas_by_id
            ):
                named = msgspec.structs.replace(version, schema_id=current.schema_id)
                updates.append(u.AddViewVersion(named))
            case u.SetCurrentViewVersion(u.LAST_ADDED) if current.version_id in base.versions_by_id:
                updates.append(u.SetCurrentViewVersion(current.version_id))
            case _:
                updates.append(update)
    return msgspec.structs.replace(change, updates=tuple(updates))
