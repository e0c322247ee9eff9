"""Catalogs that keep a pointer for each table: the files are ours to write, the pointer theirs to swap.

``PointerCatalog`` is the catalog; what keeps the pointers, a database or the memory, is a ``Pointers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from lakeplane.catalog.catalog import Kind
from lakeplane.catalog.names import Name, Namespace
from lakeplane.errors import CommitConflict
from lakeplane.model.frozen import FrozenDict


class Swap(msgspec.Struct, frozen=True):
    """One pointer to move, from the metadata file that it must still name (None: it must not exist).

    One that is to stay where it is holds the others back if it has moved.
    """

    kind: Kind
    name: Name
    expected: str | None
    new: str


class Pointers(Protocol):
    """What keeps the pointers, and the namespaces. What does not exist is ``NotFound``."""

    def namespaces(self) -> list[Namespace]:
        """All namespaces, the implied ones (parents of others, homes of tables) among them, sorted."""
        ...

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace; ``AlreadyExists`` if there is one."""
        ...

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove properties, in one transaction."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace; ``NamespaceNotEmpty`` if something is in it."""
        ...

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        ...

    def get(self, kind: Kind, name: Name) -> str | None:
        """The metadata location of a table or view; None when there is none."""
        ...

    def named(self, files: Sequence[str]) -> set[str]:
        """Which of these metadata files tables and views name."""
        ...

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Move all pointers in one transaction, or none; False when one is not what was expected.

        A name is one for tables and views together. Raises ``NotFound`` for a namespace that does not exist,
        and ``OutcomeUnknown`` when the answer of the transaction's commit was lost.
        """
        ...

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Move a pointer to another name; ``AlreadyExists`` if that is taken by a table or a view."""
        ...

    def drop(self, kind: Kind, name: Name, expected: str | None = None) -> None:
        """Remove a pointer; ``CommitConflict`` if it does not name the expected metadata file."""
        ...


def changed_before_drop(kind: Kind, name: Name) -> CommitConflict:
    """The error for a table or view that is not the one any more that was to be dropped."""
    hint = "Look at it, and drop it again if it still should go"
    return CommitConflict(f"the {kind} {name} was changed or replaced before it was dropped", hint=hint)
