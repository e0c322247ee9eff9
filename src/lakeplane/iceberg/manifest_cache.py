"""Manifests that were read before: they never change, so what was decoded once need not be decoded again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

import pyarrow as pa

DEFAULT_CACHE_BYTES: Final = 512 * 1024 * 1024


class TableShelf(Protocol):
    """Where decoded manifests may be kept beyond the life of a process."""

    def get(self, key: str) -> pa.Table | None:
        """What was put under a key, unless it is gone."""
        ...

    def put(self, key: str, table: pa.Table) -> None:
        """Keep a table; not being able to is no error."""
        ...


class ManifestCache:
    """Keeps the tables that were used last, up to a number of bytes. May be used from many threads."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES, shelf: TableShelf | None = None) -> None:
        self.max_bytes = max_bytes
        self._shelf = shelf
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"ManifestCache({len(self._kept)} entries, {self._bytes} bytes)"

    def get(self, key: Hashable) -> Any:
        """What is kept under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value, and drop those that were not used for the longest time."""
        if size > self.max_bytes:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += size - (old[1] if old else 0)
            self._kept[key] = (value, size)
            while self._bytes > self.max_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed

    def table(self, key: tuple[Hashable, ...], make: Callable[[], pa.Table]) -> pa.Table:
        """A table from memory, from the shelf, or made now and kept in both."""
        found = self.get(key)
        if found is None:
            name = "|".join(map(str, key))
            found = self._shelf.get(name) if self._shelf else None
            if found is None:
                found = make()
                if self._shelf:
                    self._shelf.put(name, found)
            self.put(key, found, found.nbytes)
        return found
