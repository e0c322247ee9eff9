"""What was read from manifests: they never change, so what was decoded once need not be decoded again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_CACHE_BYTES: Final = 512 * 1024 * 1024

LAYOUT: Final = 1
"""Which columns the kept tables have; goes up with every change of them, as shelves outlive releases."""

Key: TypeAlias = tuple[Any, ...]
V = TypeVar("V")


class TableShelf(Protocol):
    """Where decoded manifests may be kept beyond the life of a process."""

    def get(self, key: str) -> pa.Table | None:
        """What was put under a key, unless it is gone."""
        ...

    def put(self, key: str, table: pa.Table) -> None:
        """Keep a table; not being able to is no error."""
        ...


class ManifestCache:
    """Keeps what was used last, up to a number of bytes. May be used from many threads."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES, shelf: TableShelf | None = None) -> None:
        self.max_bytes = max_bytes
        self._shelf = shelf
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"ManifestCache({len(self._kept)} entries, {self._bytes} bytes)"

    def get(self, key: Key) -> Any:
        """What is kept in memory under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Any, size: int) -> None:
        """Keep a value in memory, and let go of those that were not used for the longest time."""
        if size > self.max_bytes:
            return
        with self._lock:
            _, old = self._kept.pop(key, (None, 0))
            self._bytes += size - old
            self._kept[key] = (value, size)
            while self._bytes > self.max_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed

    def value(self, key: Key, make: Callable[[], V], size: int) -> V:
        """A value that is kept in memory, or is made now and kept."""
        found: V | None = self.get(key)
        if found is None:
            found = make()
            self.put(key, found, size)
        return found

    def recall(self, key: tuple[str, ...]) -> pa.Table | None:
        """A table from memory or from the shelf."""
        found: pa.Table | None = self.get(key)
        if found is None and self._shelf is not None:
            found = self._shelf.get(_shelf_key(key))
            if found is not None:
                self.put(key, found, found.nbytes)
        return found

    def keep(self, key: tuple[str, ...], table: pa.Table) -> None:
        """Keep a table in memory, and on the shelf."""
        self.put(key, table, table.nbytes)
        if self._shelf is not None:
            self._shelf.put(_shelf_key(key), table)

    def table(self, key: tuple[str, ...], make: Callable[[], pa.Table]) -> pa.Table:
        """A table that is kept, or is made now and kept."""
        found = self.recall(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found


def _shelf_key(key: tuple[str, ...]) -> str:
    return "|".join((str(LAYOUT), *key))
