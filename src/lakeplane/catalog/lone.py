"""One table without a catalog: found by its directory or by one metadata file, and only read.

A directory does not say which of its metadata files counts when a catalog elsewhere does. The newest one is
taken, as its name tells it; to be certain, open the file itself, or ask the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from lakeplane.catalog.catalog import Change, Entry, Kind
from lakeplane.catalog.metadata_files import read_entry
from lakeplane.catalog.names import Name, Namespace
from lakeplane.catalog.versions import TABLE_SUFFIXES, Series
from lakeplane.errors import CatalogCannot, NotFound
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location
from lakeplane.storage.store import Store

_NUMBERED: Final = re.compile(r"(\d+)-[^.]+\.(.+)")


class LoneTable:
    """A table, and no way to change it."""

    def __init__(self, at: Location, store: Store) -> None:
        self._at = at
        self._store = store

    def __repr__(self) -> str:
        return f"LoneTable({str(self._at)!r})"

    @property
    def name(self) -> Name:
        """What the table is called: there is no catalog to tell, so its directory does."""
        home = home_of(self._at)
        return Name((), home.name or "table")

    def load(self, kind: Kind, name: Name) -> Entry:
        """The table as it is now."""
        return read_entry(kind, name, self._store, self._file())

    def _file(self) -> Location:
        if is_metadata_file(self._at):
            return self._at
        folder = self._at / "metadata"
        newest = Series(self._store, folder, TABLE_SUFFIXES).newest()
        if newest is not None:
            return newest.at
        numbered = [
            (int(found[1]), stat.modified_ms, stat.location)
            for stat in self._store.files(folder)
            if (found := _NUMBERED.fullmatch(stat.location.name)) and found[2] in TABLE_SUFFIXES
        ]
        if not numbered:
            hint = "Give the directory of an Iceberg table, or one of its metadata files"
            raise NotFound("there is no metadata file in it", source=str(folder), hint=hint)
        return max(numbered, key=lambda each: each[:2])[2]

    def store_for(self, entry: Entry) -> Store:  # noqa: ARG002 - there is one
        """The store that holds the files of the table."""
        return self._store

    def _cannot(self) -> NoReturn:
        problem = "it was opened without a catalog, so it can only be read"
        hint = (
            "Connect to its catalog, or give it a name in one: lake.register_table(name, metadata_location)"
        )
        raise CatalogCannot(problem, source=str(self._at), hint=hint)

    def commit(self, changes: Sequence[Change]) -> NoReturn:  # noqa: ARG002 - refused, whatever it is
        """Refused: who publishes is the catalog that owns the table."""
        self._cannot()

    def namespaces(self, under: Namespace = ()) -> list[Namespace]:  # noqa: ARG002
        """None: there is no catalog."""
        return []

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def change_namespace(
        self,
        namespace: Namespace,  # noqa: ARG002
        updates: Mapping[str, str],  # noqa: ARG002
        removals: Sequence[str] = (),  # noqa: ARG002
    ) -> None:
        """Refused."""
        self._cannot()

    def drop_namespace(self, namespace: Namespace) -> None:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The one table."""
        return [self.name] if (kind, namespace) == ("table", ()) else []

    def register(self, kind: Kind, name: Name, metadata_location: str) -> Entry:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def rename(self, kind: Kind, old: Name, new: Name) -> None:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def drop(self, kind: Kind, name: Name, expected: Entry | None = None) -> None:  # noqa: ARG002
        """Refused."""
        self._cannot()

    def default_location(self, kind: Kind, name: Name) -> Location:  # noqa: ARG002
        """Refused: nothing is made here."""
        self._cannot()


def is_metadata_file(at: Location) -> bool:
    """Whether a location is that of a metadata file, and not of a table's directory."""
    return any(at.name.endswith(f".{suffix}") for suffix in TABLE_SUFFIXES)


def home_of(at: Location) -> Location:
    """The directory of a table, for itself or for a metadata file in its usual place."""
    if not is_metadata_file(at):
        return at
    folder = at.parent
    return folder.parent if folder.name == "metadata" else folder
