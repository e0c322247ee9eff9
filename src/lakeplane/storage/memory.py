"""A store in the memory of this process: for tests, trials and examples. It keeps the whole contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

from lakeplane.errors import FileChanged, FileExists, InvalidInput, StoreCannot
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.recipe import Recipe
from lakeplane.storage.store import (
    READ_LIMIT,
    Range,
    Stat,
    check_conditions,
    check_file,
    check_inside,
    check_limit,
    missing,
    slice_of,
)

ROOT: Final = parse_location("memory://lake")


class _File(NamedTuple):
    data: bytes
    modified_ms: int
    etag: str


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """Files in a dictionary, under any root that the caller likes.

    The conditions of ``put`` can be switched off, to see what happens with a store that lacks them.
    """

    def __init__(
        self,
        root: Location = ROOT,
        *,
        can_put_if_absent: bool = True,
        can_put_if_match: bool = True,
        now_ms: Callable[[], int] = _system_ms,
    ) -> None:
        """Make an empty store."""
        self.root = root
        self._can = (can_put_if_absent, can_put_if_match)
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._files: dict[tuple[str, ...], _File] = {}
        self._writes = 0

    @property
    def can_put_if_absent(self) -> bool:
        """Whether ``put(if_absent=True)`` is offered."""
        return self._can[0]

    @property
    def can_put_if_match(self) -> bool:
        """Whether ``put(if_match=...)`` is offered."""
        return self._can[1]

    def __repr__(self) -> str:
        return f"MemoryStore({self.root}, {len(self._files)} files)"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a store in memory does not travel to another process", source=self.root.text)

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it."""
        data = self._file(at).data
        begin, end = slice_of(len(data), start, length)
        check_limit(at, end - begin, limit)
        return data[begin:end]

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many parts."""
        return [self.read(one.location, start=one.start, length=one.length, limit=limit) for one in ranges]

    def stat(self, at: Location) -> Stat:
        """Tell about a file."""
        found = self._file(at)
        return Stat(at, len(found.data), found.modified_ms, found.etag)

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole, if its condition holds."""
        check_file(self.root, at)
        check_conditions(at, if_absent=if_absent, if_match=if_match)
        if (if_absent and not self._can[0]) or (if_match is not None and not self._can[1]):
            raise StoreCannot("this store was made without that condition", source=at.text)
        with self._lock:
            before = self._files.get(at.segments)
            if if_absent and before is not None:
                raise FileExists("somebody else's file is there", source=at.text)
            if if_match is not None and (before is None or before.etag != if_match):
                raise FileChanged("the file is another one, or gone", source=at.text)
            self._writes += 1
            etag = f"memory-{self._writes}"
            self._files[at.segments] = _File(bytes(data), self._now_ms(), etag)
            return etag

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place, sorted."""
        depth = len(under.segments)
        for key, file in self._below(under):
            at = under / "/".join(key[depth:])
            yield Stat(at, len(file.data), file.modified_ms, file.etag)

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place."""
        depth = len(under.segments)
        return sorted({key[depth] for key, _ in self._below(under) if len(key) > depth + 1})

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names."""
        for one in at:
            check_file(self.root, one)
        with self._lock:
            for one in at:
                self._files.pop(one.segments, None)

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """Refuse: the files are in this process only."""
        del with_secrets
        hint = "Use a directory or a bucket"
        raise StoreCannot("a store in memory has no recipe", source=self.root.text, hint=hint)

    def _file(self, at: Location) -> _File:
        check_file(self.root, at)
        with self._lock:
            found = self._files.get(at.segments)
        if found is None:
            raise missing(at)
        return found

    def _below(self, under: Location) -> list[tuple[tuple[str, ...], _File]]:
        check_inside(self.root, under)
        depth = len(under.segments)
        with self._lock:
            found = [
                (key, file)
                for key, file in self._files.items()
                if len(key) > depth and key[:depth] == under.segments
            ]
        return sorted(found, key=lambda entry: "/".join(entry[0]).encode())
