"""What ``Table.evolve()`` hands out: one method for each way in which a table can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from lakeplane.errors import InvalidInput
from lakeplane.given_schema import as_schema
from lakeplane.iceberg import evolve as steps
from lakeplane.iceberg.evolve import Step
from lakeplane.model import evolution as schema
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.types import Type
from lakeplane.receipt import Commit


class Evolution:
    """Collects steps; nothing happens before all of them are published together.

    Columns are named by dotted paths (``"place.x"``); an element of a list is ``"points.element.x"``, or
    ``"points.x"`` for short. Types are Spark DDL (``"ARRAY<BIGINT>"``) or Iceberg's type strings.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.receipt: Commit | None = None

    def add_column(
        self,
        path: str | tuple[str, ...],
        type: str | Type,  # noqa: A002 - the word that users look for
        *,
        required: bool = False,
        doc: str | None = None,
        default: Any = None,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> None:
        """Add a column; rows that are there already have the ``default`` in it (format version 3)."""
        position = _position(first=first, after=after, before=before)
        self.steps.append(schema.AddColumn(path, _type(type), required, doc, default, position))

    def drop_column(self, path: str | tuple[str, ...]) -> None:
        """Take a column away; its values stay in old files, unread."""
        self.steps.append(schema.DropColumn(path))

    def rename_column(self, path: str | tuple[str, ...], name: str) -> None:
        """Give a column another name."""
        self.steps.append(schema.RenameColumn(path, name))

    def move_column(
        self,
        path: str | tuple[str, ...],
        *,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> None:
        """Put a column elsewhere in its struct."""
        position = _position(first=first, after=after, before=before)
        if position is None:
            raise InvalidInput("it is not said where to", hint="Give first=True, after=... or before=...")
        self.steps.append(schema.MoveColumn(path, position))

    def update_column(
        self,
        path: str | tuple[str, ...],
        *,
        type: str | Type | UnsetType = UNSET,  # noqa: A002
        required: bool | UnsetType = UNSET,
        doc: str | UnsetType | None = UNSET,
        default: Any = UNSET,
    ) -> None:
        """Widen a column's type, make it optional, or change its doc or the default of rows to come."""
        wider = type if isinstance(type, UnsetType) else _type(type)
        self.steps.append(schema.UpdateColumn(path, wider, required, doc, default))

    def union_by_name(self, schema: Any) -> None:
        """Add the columns that another schema has more, at any depth, and widen types until its rows fit.

        It is matched by name after all other steps. Nothing is dropped, narrowed or made required.
        """
        self.steps.append(steps.UnionByName(as_schema(schema)))

    def set_identifier_fields(self, *paths: str) -> None:
        """Say which columns identify a row; none: no columns do."""
        self.steps.append(schema.SetIdentifierFields(paths))

    def add_partition_field(self, rule: str, name: str | None = None) -> None:
        """Partition new files also by a rule: ``"days(at)"``, ``"bucket(16, id)"``, ``"region"``."""
        self.steps.append(steps.AddPartitionField(rule, name))

    def drop_partition_field(self, name: str) -> None:
        """Partition new files no more by a field."""
        self.steps.append(steps.RemovePartitionField(name))

    def rename_partition_field(self, name: str, to: str) -> None:
        """Give a partition field another name."""
        self.steps.append(steps.RenamePartitionField(name, to))

    def sort_by(self, *keys: str) -> None:
        """Sort new files, as in ``"amount DESC NULLS LAST"``; by nothing: leave them unsorted."""
        self.steps.append(steps.SetSortOrder(keys))

    def set_properties(self, properties: Mapping[str, str] | None = None, **named: str) -> None:
        """Set properties."""
        self.steps.append(steps.SetProperties(FrozenDict({**(properties or {}), **named})))

    def remove_properties(self, *names: str) -> None:
        """Remove properties."""
        self.steps.append(steps.RemoveProperties(names))

    def set_location(self, location: str) -> None:
        """Put new files elsewhere; old ones stay where they are."""
        self.steps.append(steps.SetLocation(location))

    def upgrade(self, format_version: int) -> None:
        """Raise the format version; there is no way back."""
        self.steps.append(steps.Upgrade(format_version))


def _type(given: str | Type) -> Type:
    if not isinstance(given, str):
        return given
    from lakeplane.model.ddl import parse_ddl_type  # noqa: PLC0415 - sqlglot is slow to import

    return parse_ddl_type(given)


def _position(*, first: bool, after: str | None, before: str | None) -> schema.Position | None:
    given = [first, after is not None, before is not None]
    if sum(given) > 1:
        raise InvalidInput("a column has one position", hint="Give one of first, after and before")
    if first:
        return schema.First()
    if after is not None:
        return schema.After(after)
    return None if before is None else schema.Before(before)
