"""Table metadata: the root of an Iceberg table, as an immutable value.

``metadata_json`` reads and writes it, ``apply`` changes it. Its invariants hold for every value that exists:
they are checked when metadata is read and after every change.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg.snapshots import (
    MAIN,
    MetadataLogEntry,
    Ref,
    Snapshot,
    SnapshotLogEntry,
    ref_problem,
)
from lakeplane.iceberg.statistics import EncryptedKey, PartitionStatisticsFile, StatisticsFile
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortOrder
from lakeplane.model.transforms import Void
from lakeplane.model.types import Field, Struct

T = TypeVar("T")

FORMAT_VERSIONS: Final = (1, 2, 3)
"""The format versions that this release reads and writes."""

ROW_LINEAGE_VERSION: Final = 3


class TableMetadata(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """Everything that is true of a table at one commit, but its files."""

    format_version: int
    table_uuid: str | None
    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int
    properties: FrozenDict[str, str] = EMPTY
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: FrozenDict[str, Ref] = EMPTY
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int = 0
    encryption_keys: tuple[EncryptedKey, ...] = ()
    unknown: FrozenDict[str, Any] = EMPTY

    @functools.cached_property
    def _schemas(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @functools.cached_property
    def _specs(self) -> dict[int, PartitionSpec]:
        return {spec.spec_id: spec for spec in self.partition_specs}

    @functools.cached_property
    def _orders(self) -> dict[int, SortOrder]:
        return {order.order_id: order for order in self.sort_orders}

    @functools.cached_property
    def snapshots_by_id(self) -> dict[int, Snapshot]:
        """The snapshots under their ids."""
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._schemas[self.current_schema_id]

    @property
    def partition_spec(self) -> PartitionSpec:
        """The spec that new files are partitioned by."""
        return self._specs[self.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The order that new files should be sorted in."""
        return self._orders[self.default_sort_order_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see; None for a table without one."""
        return None if self.current_snapshot_id is None else self.snapshots_by_id[self.current_snapshot_id]

    @property
    def has_row_lineage(self) -> bool:
        """Whether rows have ids that they keep."""
        return self.format_version >= ROW_LINEAGE_VERSION

    def schema_by_id(self, schema_id: int) -> Schema:
        """One of the table's schemas."""
        return _known(self._schemas, schema_id, "schema")

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """One of the table's partition specs."""
        return _known(self._specs, spec_id, "partition spec")

    def order_by_id(self, order_id: int) -> SortOrder | None:
        """One of the table's sort orders; None for an id that no order has: readers must not mind."""
        return self._orders.get(order_id)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One of the table's snapshots."""
        return _known(self.snapshots_by_id, snapshot_id, "snapshot")

    def snapshot_of(self, ref: str) -> Snapshot:
        """The snapshot that a branch or tag names."""
        found = self.refs.get(ref)
        if found is None:
            problem = f"no branch or tag {ref!r}"
            raise InvalidInput(problem, hint=f"There is {', '.join(sorted(self.refs)) or 'none yet'}")
        return self.snapshot(found.snapshot_id)

    def snapshot_at(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at a time, by the snapshot log, which need not be sorted."""
        earlier = [entry for entry in self.snapshot_log if entry.timestamp_ms <= timestamp_ms]
        if not earlier:
            problem = f"no snapshot was current at {timestamp_ms} ms"
            first = min((entry.timestamp_ms for entry in self.snapshot_log), default=None)
            hint = "The table has no history" if first is None else f"Its history starts at {first} ms"
            raise InvalidInput(problem, hint=hint)
        # Of entries of the same millisecond, the one that was logged last won.
        last = max(enumerate(earlier), key=lambda each: (each[1].timestamp_ms, each[0]))[1]
        return self.snapshot(last.snapshot_id)

    def schema_of(self, snapshot: Snapshot) -> Schema:
        """The schema at the time of a snapshot; the current one when the snapshot does not tell."""
        return (
            self.schema if snapshot.schema_id is None else self._schemas.get(snapshot.schema_id, self.schema)
        )

    def ancestors(self, snapshot_id: int) -> Iterator[Snapshot]:
        """A snapshot, its parent, and so on, as far as the table still has them."""
        seen: set[int] = set()
        next_id: int | None = snapshot_id
        while next_id is not None and next_id not in seen and next_id in self.snapshots_by_id:
            seen.add(next_id)
            yield self.snapshots_by_id[next_id]
            next_id = self.snapshots_by_id[next_id].parent_snapshot_id

    @functools.cached_property
    def schemas_newest_first(self) -> tuple[Schema, ...]:
        """All schemas, the current one first: where the source of an old partition field is looked up."""
        others = (schema for schema in reversed(self.schemas) if schema.schema_id != self.current_schema_id)
        return (self.schema, *others)

    def partition_type(self, spec_id: int) -> Struct:
        """The type of the partitions of a spec; a source that was dropped keeps the type that it had."""
        return self.spec_by_id(spec_id).partition_type(*self.schemas_newest_first)

    @functools.cached_property
    def unified_partition_type(self) -> Struct:
        """The fields of all specs, by id: the partition type of metadata tables and statistics."""
        fields: dict[int, Field] = {}
        for spec in sorted(self.partition_specs, key=lambda each: each.spec_id):
            dropped = {each.field_id for each in spec.fields if isinstance(each.transform, Void)}
            for field in self.partition_type(spec.spec_id).fields:
                # v1 drops a field by making it void: older files still hold its values, of its real type.
                if field.id not in dropped or field.id not in fields:
                    fields[field.id] = field
        return Struct(tuple(fields[field_id] for field_id in sorted(fields)))


def _known(values: dict[int, T], wanted: int, kind: str) -> T:
    if wanted in values:
        return values[wanted]
    problem = f"the table has no {kind} {wanted}"
    some = ", ".join(map(str, list(values)[-5:]))
    raise InvalidInput(problem, hint=f"It has {some}" if some else None)


def check_invariants(metadata: TableMetadata) -> None:
    """Refuse metadata that contradicts itself."""
    _check_ids("schema", (each.schema_id for each in metadata.schemas), metadata.current_schema_id)
    _check_ids(
        "partition spec", (each.spec_id for each in metadata.partition_specs), metadata.default_spec_id
    )
    _check_ids("sort order", (each.order_id for each in metadata.sort_orders), metadata.default_sort_order_id)
    _check_history(metadata)
    _check_refs(metadata)
    if metadata.format_version > 1 and not metadata.table_uuid:
        raise InvalidMetadata("missing, required from format version 2 on", field="table-uuid")
    if metadata.format_version == 1 and metadata.last_sequence_number != 0:
        raise InvalidMetadata("a v1 table has no sequence numbers", field="last-sequence-number")
    if metadata.next_row_id < 0:
        raise InvalidMetadata("cannot be negative", field="next-row-id")


def _check_ids(kind: str, ids: Iterable[int], current: int) -> None:
    seen: set[int] = set()
    for each in ids:
        if each in seen:
            raise InvalidMetadata(f"two {kind}s have the id {each}", field=kind)
        seen.add(each)
    if current not in seen:
        known = ", ".join(map(str, sorted(seen))) or "none"
        raise InvalidMetadata(f"the current {kind} {current} is missing (there is {known})", field=kind)


def _check_history(metadata: TableMetadata) -> None:
    snapshots = metadata.snapshots_by_id
    if len(snapshots) != len(metadata.snapshots):
        raise InvalidMetadata("two snapshots have the same id", field="snapshots")
    highest = max((each.sequence_number for each in metadata.snapshots), default=0)
    if highest > metadata.last_sequence_number:
        problem = f"a snapshot has the sequence number {highest}, above {metadata.last_sequence_number}"
        raise InvalidMetadata(problem, field="last-sequence-number")
    for position, snapshot in enumerate(metadata.snapshots if metadata.format_version > 1 else ()):
        # In v1 both are optional: such a table can be opened, and the snapshot not be read.
        if snapshot.manifest_list is None and snapshot.manifests is None:
            raise InvalidMetadata("manifest-list is missing", field=f"snapshots[{position}]")
    current = metadata.current_snapshot_id
    if current is not None and current not in snapshots:
        raise InvalidMetadata(f"there is no snapshot {current}", field="current-snapshot-id")


def _check_refs(metadata: TableMetadata) -> None:
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in metadata.snapshots_by_id:
            raise InvalidMetadata(f"there is no snapshot {ref.snapshot_id}", field=f"refs.{name}")
        # The retention rules are for writers: a ref that breaks them can still be read.
    main = metadata.refs.get(MAIN)
    if main is not None and not main.is_branch:
        raise InvalidMetadata(ref_problem(MAIN, main) or "", field="refs.main")
    if (main.snapshot_id if main else None) != metadata.current_snapshot_id:
        problem = f"main names {main.snapshot_id if main else None}, not {metadata.current_snapshot_id}"
        raise InvalidMetadata(problem, field="current-snapshot-id")
