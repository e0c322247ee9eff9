"""What every catalog can do: the contract that the four kinds keep, and ``testing.catalog`` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from lakeplane.catalog.names import Name, Namespace
from lakeplane.errors import CommitConflict
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.requirements import Requirement
from lakeplane.iceberg.updates import Update
from lakeplane.iceberg.view import ViewMetadata
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location
from lakeplane.storage.store import Store

Kind: TypeAlias = Literal["table", "view"]
Metadata: TypeAlias = TableMetadata | ViewMetadata


class Entry(msgspec.Struct, frozen=True):
    """A table or view as a catalog holds it at one moment."""

    kind: Kind
    name: Name
    metadata: Metadata
    metadata_location: str


def table_of(entry: Entry) -> TableMetadata:
    """The metadata of an entry that is a table."""
    assert isinstance(entry.metadata, TableMetadata)
    return entry.metadata


def same_table(before: Entry, now: Entry) -> TableMetadata:
    """The metadata of a table as it is now, if the name still stands for the one that was loaded."""
    if table_of(now).table_uuid != table_of(before).table_uuid:
        problem = "this table was dropped, and its name belongs to another one now"
        raise CommitConflict(problem, source=str(before.name), hint="Load it anew if you mean that one")
    return table_of(now)


class Change(msgspec.Struct, frozen=True):
    """What is to happen to one table or view, and what must be true of it for that."""

    kind: Kind
    name: Name
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]
    base: Entry | None = None
    """What the change was proposed on, if it was just loaded: it need not be read again to be compared."""


class Committed(msgspec.Struct, frozen=True):
    """All changes were published together; the entries are what they led to, in the order of the changes."""

    entries: tuple[Entry, ...]


class Conflict(msgspec.Struct, frozen=True):
    """Nothing was published, and nothing will be: what was written for it may be deleted."""

    reason: str


class Unknown(msgspec.Struct, frozen=True):
    """The answer was lost: the changes may have been published, or may yet be. Delete nothing."""

    reason: str


Outcome: TypeAlias = Committed | Conflict | Unknown


class Catalog(Protocol):
    """A set of namespaces with tables and views in them.

    - Every method may raise ``CatalogUnavailable``; what does not exist is ``NotFound``, what exists already
      ``AlreadyExists``.
    - ``commit`` is atomic over all of its changes, or refuses more than one. A change whose requirements
      hold ``AssertCreate`` makes its table or view.
    - ``drop`` and ``rename`` touch names only: no file of a table is moved or deleted.
    """

    def namespaces(self, under: Namespace = ()) -> list[Namespace]:
        """The namespaces directly inside another one, sorted."""
        ...

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        ...

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace that is empty."""
        ...

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        ...

    def load(self, kind: Kind, name: Name) -> Entry:
        """A table or view as it is now."""
        ...

    def commit(self, changes: Sequence[Change]) -> Outcome:
        """Publish changes."""
        ...

    def register(self, kind: Kind, name: Name, metadata_location: str) -> Entry:
        """Give a name to a table or view whose metadata file exists."""
        ...

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Give a table or view another name."""
        ...

    def drop(self, kind: Kind, name: Name, expected: Entry | None = None) -> None:
        """Take the name of a table or view away; its files stay.

        ``expected`` is what is to be dropped; if the name stands for something else by now, that is a
        ``CommitConflict``.
        """
        ...

    def default_location(self, kind: Kind, name: Name) -> Location:
        """Where a new table or view of that name would lie."""
        ...

    def store_for(self, entry: Entry) -> Store:
        """The store that holds the files of a table, with the credentials for it."""
        ...
