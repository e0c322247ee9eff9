"""What can happen to a table or view, in the vocabulary of the REST catalog.

Each update is a value; ``apply`` and ``view`` say what it does. The same values travel to a REST catalog as
JSON and are applied here by the catalogs that keep metadata files themselves.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.iceberg.statistics import EncryptedKey, PartitionStatisticsFile, StatisticsFile
from lakeplane.iceberg.view_versions import ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortOrder

LAST_ADDED: Final = -1
"""As a schema, spec, order or version id: the one that was added last in the same change."""

UNASSIGNED: Final = -1
"""As a partition field id: to be assigned when the spec is added."""


class AssignUuid(msgspec.Struct, frozen=True):
    """Give a new table or view its identity."""

    uuid: str


class UpgradeFormatVersion(msgspec.Struct, frozen=True):
    """Raise the format version; there is no way back."""

    format_version: int


class AddSchema(msgspec.Struct, frozen=True):
    """Add a schema; its id is assigned, or that of an equal schema reused."""

    schema: Schema
    last_column_id: int | None = None


class SetCurrentSchema(msgspec.Struct, frozen=True):
    """Make a schema the current one."""

    schema_id: int = LAST_ADDED


class RemoveSchemas(msgspec.Struct, frozen=True):
    """Remove schemas that nothing uses."""

    schema_ids: tuple[int, ...]


class AddPartitionSpec(msgspec.Struct, frozen=True):
    """Add a partition spec; its id is assigned, or that of an equivalent spec reused."""

    spec: PartitionSpec


class SetDefaultSpec(msgspec.Struct, frozen=True):
    """Make a partition spec the one that new files follow."""

    spec_id: int = LAST_ADDED


class RemovePartitionSpecs(msgspec.Struct, frozen=True):
    """Remove partition specs that nothing uses."""

    spec_ids: tuple[int, ...]


class AddSortOrder(msgspec.Struct, frozen=True):
    """Add a sort order; its id is assigned, or that of an equal order reused."""

    order: SortOrder


class SetDefaultSortOrder(msgspec.Struct, frozen=True):
    """Make a sort order the one that new files should follow."""

    order_id: int = LAST_ADDED


class AddSnapshot(msgspec.Struct, frozen=True):
    """Add a snapshot; no ref names it yet."""

    snapshot: Snapshot


class RemoveSnapshots(msgspec.Struct, frozen=True):
    """Forget snapshots, and the refs and statistics that belong to them."""

    snapshot_ids: tuple[int, ...]


class SetSnapshotRef(msgspec.Struct, frozen=True):
    """Create or move a branch or tag."""

    name: str
    ref: Ref


class RemoveSnapshotRef(msgspec.Struct, frozen=True):
    """Drop a branch or tag."""

    name: str


class SetProperties(msgspec.Struct, frozen=True):
    """Set properties."""

    updates: FrozenDict[str, str]


class RemoveProperties(msgspec.Struct, frozen=True):
    """Remove properties."""

    removals: tuple[str, ...]


class SetLocation(msgspec.Struct, frozen=True):
    """Change where new files go."""

    location: str


class SetStatistics(msgspec.Struct, frozen=True):
    """Register the statistics file of a snapshot, in place of an older one."""

    statistics: StatisticsFile


class RemoveStatistics(msgspec.Struct, frozen=True):
    """Forget the statistics file of a snapshot."""

    snapshot_id: int


class SetPartitionStatistics(msgspec.Struct, frozen=True):
    """Register the partition statistics file of a snapshot, in place of an older one."""

    statistics: PartitionStatisticsFile


class RemovePartitionStatistics(msgspec.Struct, frozen=True):
    """Forget the partition statistics file of a snapshot."""

    snapshot_id: int


class AddEncryptionKey(msgspec.Struct, frozen=True):
    """Add an encryption key."""

    key: EncryptedKey


class RemoveEncryptionKey(msgspec.Struct, frozen=True):
    """Forget an encryption key."""

    key_id: str


class AddViewVersion(msgspec.Struct, frozen=True):
    """Add a version of a view; its id is assigned, or that of an equal version reused."""

    version: ViewVersion


class SetCurrentViewVersion(msgspec.Struct, frozen=True):
    """Make a version the one that readers of the view see."""

    version_id: int = LAST_ADDED


SharedUpdate: TypeAlias = (
    AssignUuid | UpgradeFormatVersion | AddSchema | SetProperties | RemoveProperties | SetLocation
)
"""What tables and views have in common."""

TableUpdate: TypeAlias = (
    SharedUpdate
    | SetCurrentSchema
    | RemoveSchemas
    | AddPartitionSpec
    | SetDefaultSpec
    | RemovePartitionSpecs
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | RemoveSnapshots
    | SetSnapshotRef
    | RemoveSnapshotRef
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | AddEncryptionKey
    | RemoveEncryptionKey
)
ViewUpdate: TypeAlias = SharedUpdate | AddViewVersion | SetCurrentViewVersion
Update: TypeAlias = TableUpdate | ViewUpdate
