"""Replacing a table: other columns, partitions and order from one commit on, with the history that was there.

As Iceberg's own writers do it: columns of the same name keep their ids, properties are added to the old ones,
``main`` begins anew, and other branches and tags stay where they are.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from lakeplane.errors import InvalidChange
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import FORMAT_VERSION, check_names, number
from lakeplane.iceberg.snapshots import MAIN
from lakeplane.model.evolution import assign_fresh_ids
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.partitioning import UNPARTITIONED, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.types import walk


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a table shall be; ids are those of its own schema, and given anew."""

    schema: Schema
    spec: PartitionSpec = UNPARTITIONED
    order: tuple[SortField, ...] = ()
    properties: FrozenDict[str, str] = EMPTY
    location: str | None = None


def replacement(table: TableMetadata, wanted: Wanted) -> tuple[u.TableUpdate, ...]:
    """The updates after which the table is what is wanted, and has no rows."""
    fresh = assign_fresh_ids(wanted.schema, base=table.schema, last_column_id=table.last_column_id)
    ids = {old.id: new.id for old, new in zip(walk(wanted.schema.fields), walk(fresh.fields), strict=True)}
    fields = tuple(
        replace(each, source_ids=tuple(ids[one] for one in each.source_ids), field_id=u.UNASSIGNED)
        for each in wanted.spec.fields
    )
    keys = tuple(
        replace(each, source_ids=tuple(ids[one] for one in each.source_ids)) for each in wanted.order
    )
    last = max(table.last_column_id, fresh.highest_field_id)
    kept = dict(wanted.properties)
    version = kept.pop(FORMAT_VERSION, None)
    check_names(kept)
    return (
        *(_upgrade(version) if version is not None else ()),
        u.AddSchema(fresh, last),
        u.SetCurrentSchema(),
        u.AddPartitionSpec(PartitionSpec(0, fields)),
        u.SetDefaultSpec(),
        u.AddSortOrder(SortOrder(1 if keys else 0, keys)),
        u.SetDefaultSortOrder(),
        *((u.SetLocation(wanted.location),) if wanted.location is not None else ()),
        *((u.SetProperties(FrozenDict(kept)),) if kept else ()),
        *((u.RemoveSnapshotRef(MAIN),) if table.current_snapshot_id is not None else ()),
    )


def unchanged(table: TableMetadata) -> tuple[q.Requirement, ...]:
    """What must hold of a table so that the files that were written for its replacement still fit."""
    return (
        *((q.AssertTableUuid(table.table_uuid),) if table.table_uuid else ()),
        q.AssertRefSnapshotId(MAIN, table.current_snapshot_id),
        q.AssertCurrentSchemaId(table.current_schema_id),
        q.AssertLastAssignedFieldId(table.last_column_id),
        q.AssertDefaultSpecId(table.default_spec_id),
        q.AssertLastAssignedPartitionId(table.last_partition_id),
        q.AssertDefaultSortOrderId(table.default_sort_order_id),
    )


def _upgrade(text: str) -> tuple[u.TableUpdate, ...]:
    version = number(text)
    if version is None:
        raise InvalidChange(f"not a format version: {text!r}", field=FORMAT_VERSION)
    return (u.UpgradeFormatVersion(version),)
