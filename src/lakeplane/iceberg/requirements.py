"""What must still be true of a table or view for a change to be applied to it.

The vocabulary of the REST catalog: a change carries its requirements, and a catalog checks them against what
it holds at the moment of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from lakeplane.errors import RequirementFailed
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.view import ViewMetadata


class AssertCreate(msgspec.Struct, frozen=True):
    """The table does not exist yet."""


class AssertTableUuid(msgspec.Struct, frozen=True):
    """The table is the one that was read, not another of the same name."""

    uuid: str


class AssertViewUuid(msgspec.Struct, frozen=True):
    """The view is the one that was read, not another of the same name."""

    uuid: str


class AssertRefSnapshotId(msgspec.Struct, frozen=True):
    """A branch or tag names this snapshot; None: it does not exist."""

    ref: str
    snapshot_id: int | None


class AssertLastAssignedFieldId(msgspec.Struct, frozen=True):
    """No column id was assigned since."""

    last_assigned_field_id: int


class AssertCurrentSchemaId(msgspec.Struct, frozen=True):
    """The current schema is still this one."""

    current_schema_id: int


class AssertLastAssignedPartitionId(msgspec.Struct, frozen=True):
    """No partition field id was assigned since."""

    last_assigned_partition_id: int


class AssertDefaultSpecId(msgspec.Struct, frozen=True):
    """The default partition spec is still this one."""

    default_spec_id: int


class AssertDefaultSortOrderId(msgspec.Struct, frozen=True):
    """The default sort order is still this one."""

    default_sort_order_id: int


Requirement: TypeAlias = (
    AssertCreate
    | AssertTableUuid
    | AssertViewUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


def check(requirements: Iterable[Requirement], base: TableMetadata | ViewMetadata | None) -> None:
    """Raise ``RequirementFailed`` for the first requirement that does not hold; None is "does not exist"."""
    for requirement in requirements:
        if problem := _problem(requirement, base):
            raise RequirementFailed(problem, hint="Somebody else changed it: reload and try again")


def _problem(requirement: Requirement, base: TableMetadata | ViewMetadata | None) -> str | None:
    match requirement, base:
        case AssertCreate(), None:
            return None
        case AssertCreate(), _:
            return "it exists already"
        case _, None:
            return "it does not exist"
        case AssertViewUuid(uuid), ViewMetadata():
            return _differs("view uuid", base.view_uuid.lower(), uuid.lower())
        case _, TableMetadata():
            return _table_problem(requirement, base)
        case _, _:
            return f"{type(requirement).__name__} does not fit a view"


def _table_problem(requirement: Requirement, base: TableMetadata) -> str | None:
    match requirement:
        case AssertTableUuid(uuid):
            return _differs("table uuid", (base.table_uuid or "").lower(), uuid.lower())
        case AssertRefSnapshotId(name, snapshot_id):
            ref = base.refs.get(name)
            return _differs(f"snapshot of {name!r}", ref.snapshot_id if ref else None, snapshot_id)
        case AssertLastAssignedFieldId(expected):
            return _differs("last assigned field id", base.last_column_id, expected)
        case AssertCurrentSchemaId(expected):
            return _differs("current schema", base.current_schema_id, expected)
        case AssertLastAssignedPartitionId(expected):
            return _differs("last assigned partition id", base.last_partition_id, expected)
        case AssertDefaultSpecId(expected):
            return _differs("default partition spec", base.default_spec_id, expected)
        case AssertDefaultSortOrderId(expected):
            return _differs("default sort order", base.default_sort_order_id, expected)
        case _:
            return f"{type(requirement).__name__} does not fit a table"


def _differs(what: str, found: object, expected: object) -> str | None:
    return None if found == expected else f"the {what} is {found}, expected {expected}"
