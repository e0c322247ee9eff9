"""Pointers in the memory of this process: for tests and throw-away work, and safe between threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from lakeplane.catalog.catalog import Kind
from lakeplane.catalog.names import Name, Namespace, show
from lakeplane.catalog.pointers import Swap, changed_before_drop
from lakeplane.errors import AlreadyExists, NamespaceNotEmpty, NotFound
from lakeplane.model.frozen import FrozenDict


class MemoryPointers:
    """Pointers that vanish with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._namespaces: dict[Namespace, FrozenDict[str, str]] = {}
        self._pointers: dict[Name, tuple[Kind, str]] = {}

    def __repr__(self) -> str:
        return "MemoryPointers()"

    def namespaces(self) -> list[Namespace]:
        """All namespaces, parents of others among them, sorted."""
        with self._lock:
            return sorted(self._all_namespaces())

    def _all_namespaces(self) -> set[Namespace]:
        # Parents of others and homes of tables exist too, though nobody made them.
        known = [*self._namespaces, *(name.namespace for name in self._pointers)]
        return {each[:depth] for each in known for depth in range(1, len(each) + 1)}

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        with self._lock:
            self._require(namespace)
            return self._namespaces.get(namespace, FrozenDict())

    def _require(self, namespace: Namespace) -> None:
        if namespace not in self._all_namespaces():
            raise NotFound(f"there is no namespace {show(namespace)}", hint="Create it first")

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        with self._lock:
            if namespace in self._all_namespaces():
                raise AlreadyExists(f"the namespace {show(namespace)} exists")
            self._namespaces[namespace] = FrozenDict(properties)

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove properties."""
        with self._lock:
            self._require(namespace)
            kept = {
                key: value
                for key, value in self._namespaces.get(namespace, FrozenDict()).items()
                if key not in removals
            }
            self._namespaces[namespace] = FrozenDict({**kept, **updates})

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace that is empty."""
        with self._lock:
            self._require(namespace)
            depth = len(namespace)
            inside = [each for each in self._namespaces if len(each) > depth and each[:depth] == namespace]
            if inside or any(name.namespace[:depth] == namespace for name in self._pointers):
                raise NamespaceNotEmpty(f"the namespace {show(namespace)} is not empty")
            self._namespaces.pop(namespace, None)

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        with self._lock:
            self._require(namespace)
            return sorted(
                name
                for name, (found, _) in self._pointers.items()
                if found == kind and name.namespace == namespace
            )

    def get(self, kind: Kind, name: Name) -> str | None:
        """The metadata location of a table or view."""
        with self._lock:
            return self._get(kind, name)

    def _get(self, kind: Kind, name: Name) -> str | None:
        found = self._pointers.get(name)
        return found[1] if found is not None and found[0] == kind else None

    def named(self, files: Sequence[str]) -> set[str]:
        """Which of these metadata files tables and views name."""
        with self._lock:
            return {at for _, at in self._pointers.values()}.intersection(files)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Move all pointers, or none."""
        with self._lock:
            for swap in swaps:
                self._require(swap.name.namespace)
                if swap.expected is None and swap.name in self._pointers:
                    return False
                if self._get(swap.kind, swap.name) != swap.expected:
                    return False
            self._pointers.update({swap.name: (swap.kind, swap.new) for swap in swaps})
            return True

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Move a pointer to another name."""
        with self._lock:
            self._require(new.namespace)
            if self._get(kind, old) is None:
                raise NotFound(f"there is no {kind} {old}")
            if new in self._pointers:
                raise AlreadyExists(f"the name {new} is taken")
            self._pointers[new] = self._pointers.pop(old)

    def drop(self, kind: Kind, name: Name, expected: str | None = None) -> None:
        """Remove a pointer."""
        with self._lock:
            found = self._get(kind, name)
            if found is None:
                raise NotFound(f"there is no {kind} {name}")
            if expected not in (None, found):
                raise changed_before_drop(kind, name)
            del self._pointers[name]
