"""Numbered files of which the highest counts, each published by being the first to create it.

That is how a directory alone, without a server, keeps the state of a table: ``v7.metadata.json`` follows
``v6.metadata.json``, and of two writers one creates it. Listings and hints may be stale, so both are only
where the search starts: it goes on upward until a version is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from lakeplane.errors import FileMissing, OutcomeUnknown, StorageError
from lakeplane.model.location import Location
from lakeplane.storage.store import Store

HINT: Final = "version-hint.text"
TABLE_SUFFIXES: Final = ("metadata.json", "gz.metadata.json", "metadata.json.gz")
"""How the metadata files of tables end; the last is what old writers called a gzipped one."""

_VERSION: Final = re.compile(r"v(\d+)\.(.+)")
_DROPPED: Final = re.compile(r"dropped-v(\d+)-.+\.json")
_HINT_SIZE: Final = 20


class Version(NamedTuple):
    """A numbered file; the etag tells whether it is still the same one, where the store has etags."""

    number: int
    at: Location
    etag: str | None


class Series(NamedTuple):
    """The numbered files of one directory, under any of some suffixes."""

    store: Store
    directory: Location
    suffixes: Sequence[str]

    def newest(self) -> Version | None:
        """The highest version; None when there is none."""
        start = self._hinted() or self._listed()
        if start is None:
            return None
        while (following := self._find(start.number + 1)) is not None:
            start = following
        return start

    def file(self, number: int, suffix: str) -> Location:
        """The file of a version."""
        return self.directory / f"v{number}.{suffix}"

    def all(self) -> list[Version]:
        """Every version that a listing shows, the oldest first; what was just written may be missing."""
        found = []
        for stat in self.store.files(self.directory):
            matched = _VERSION.fullmatch(stat.location.name)
            if matched and matched[2] in self.suffixes and stat.location.parent == self.directory:
                found.append(Version(int(matched[1]), stat.location, stat.etag))
        return sorted(found, key=lambda version: version.number)

    def before(self, number: int) -> list[Version]:
        """Every version before one, the oldest first; also those that a stale listing does not show."""
        found = [version for version in self.all() if version.number < number]
        listed = {version.number for version in found}
        for below in range(number - 1, 0, -1):
            if below in listed:
                continue
            if (missed := self._find(below)) is None:
                break
            found.append(missed)
        return sorted(found, key=lambda version: version.number)

    def dropped(self, number: int, unique: str) -> Location:
        """Where the copy of a version goes whose table is dropped."""
        return self.directory / f"dropped-v{number}-{unique}.json"

    def first_free(self) -> int:
        """The number of the first version: above all that were dropped, so that no number is used twice."""
        names = (_DROPPED.fullmatch(stat.location.name) for stat in self.store.files(self.directory))
        return 1 + max((int(found[1]) for found in names if found), default=0)

    def hint(self, number: int) -> None:
        """Leave a hint for readers; without it they only search longer."""
        try:
            self.store.put(self.directory / HINT, str(number).encode())
        except (StorageError, OutcomeUnknown):
            return

    def _hinted(self) -> Version | None:
        try:
            text = (
                self.store.read(self.directory / HINT, length=_HINT_SIZE).decode("ascii", "replace").strip()
            )
        except StorageError:
            return None
        return self._find(int(text)) if text.isdigit() else None

    def _listed(self) -> Version | None:
        for version in reversed(self.all()):
            # A stale listing shows what is gone.
            if (found := self._find(version.number)) is not None:
                return found
        return None

    def _find(self, number: int) -> Version | None:
        for suffix in self.suffixes:
            at = self.file(number, suffix)
            try:
                stat = self.store.stat(at)
            except FileMissing:
                continue
            return Version(number, at, stat.etag)
        return None
