"""The first metadata of a table, as the updates that make it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakeplane.errors import InvalidInput
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import DEFAULT_FORMAT_VERSION
from lakeplane.iceberg.properties import FORMAT_VERSION, check_names, number
from lakeplane.model.evolution import assign_fresh_ids
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import UNPARTITIONED, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.types import walk


def creation(
    schema: Schema,
    *,
    uuid: str,
    location: str,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    properties: Mapping[str, str] | None = None,
) -> tuple[u.TableUpdate, ...]:
    """The updates that create a table; columns get ids from 1, and spec and order follow them.

    The format version comes in as a property, and is not stored as one.
    """
    kept = dict(properties or {})
    text = kept.pop(FORMAT_VERSION, str(DEFAULT_FORMAT_VERSION))
    version = number(text)
    if version is None:
        raise InvalidInput(f"not a format version: {text!r}", field=FORMAT_VERSION)
    check_names(kept)
    fresh = msgspec.structs.replace(assign_fresh_ids(schema), schema_id=0)
    # Fresh ids do not change the shape: both walks meet the same columns.
    ids = {old.id: new.id for old, new in zip(walk(schema.fields), walk(fresh.fields), strict=True)}
    fields = tuple(
        msgspec.structs.replace(field, source_ids=_moved(field.source_ids, ids), field_id=u.UNASSIGNED)
        for field in spec.fields
    )
    keys = tuple(msgspec.structs.replace(key, source_ids=_moved(key.source_ids, ids)) for key in order.fields)
    return (
        u.AssignUuid(uuid),
        u.UpgradeFormatVersion(version),
        u.AddSchema(fresh),
        u.SetCurrentSchema(),
        u.AddPartitionSpec(PartitionSpec(0, fields)),
        u.SetDefaultSpec(),
        u.AddSortOrder(SortOrder(1 if keys else 0, keys)),
        u.SetDefaultSortOrder(),
        u.SetLocation(location),
        u.SetProperties(FrozenDict(kept)),
    )


def _moved(source_ids: tuple[int, ...], ids: Mapping[int, int]) -> tuple[int, ...]:
    missing = [source_id for source_id in source_ids if source_id not in ids]
    if missing:
        problem = f"no column has the id {missing[0]}"
        raise InvalidInput(problem, hint="Partition fields and sort keys must use columns of the schema")
    return tuple(ids[source_id] for source_id in source_ids)
