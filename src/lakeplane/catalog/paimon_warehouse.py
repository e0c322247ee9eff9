"""Paimon's databases in a warehouse directory: ``<database>.db/<table>/schema/schema-<N>``.

They may lie beside the namespaces of Iceberg tables, whose names never end in ``.db``.
"""

from __future__ import annotations

from typing import Final

from lakeplane.catalog.names import Name, Namespace, check_part
from lakeplane.errors import InvalidInput
from lakeplane.model.location import Location
from lakeplane.storage.store import Store

_SUFFIX: Final = ".db"


class PaimonWarehouse:
    """The Paimon tables in the directories of a store."""

    def __init__(self, warehouse: Location, store: Store) -> None:
        self._warehouse = warehouse
        self._store = store

    def databases(self) -> list[Namespace]:
        """The databases, sorted."""
        found = (each.removesuffix(_SUFFIX) for each in self._folders(self._warehouse, _SUFFIX))
        return sorted((each,) for each in found if _is_part(each))

    def has(self, namespace: Namespace) -> bool:
        """Whether there is a database of this name."""
        return len(namespace) == 1 and f"{namespace[0]}{_SUFFIX}" in self._folders(self._warehouse, _SUFFIX)

    def names(self, namespace: Namespace) -> list[Name]:
        """The tables in a database, sorted; none if there is no such database."""
        if len(namespace) != 1:
            return []
        at = self._warehouse / f"{namespace[0]}{_SUFFIX}"
        folders = (each for each in self._folders(at, "") if _is_part(each))
        return sorted(Name(namespace, each) for each in folders if is_paimon(self._store, at / each))

    def find(self, name: Name) -> Location | None:
        """Where a table lies; None if there is none of this name."""
        if len(name.namespace) != 1:
            return None
        for part in name.parts:
            check_part(part)
        at = self._warehouse / f"{name.namespace[0]}{_SUFFIX}" / name.name
        return at if is_paimon(self._store, at) else None

    def store(self) -> Store:
        """The store that holds them."""
        return self._store

    def _folders(self, at: Location, suffix: str) -> list[str]:
        return [each for each in self._store.folders(at) if each.endswith(suffix)]


def is_paimon(store: Store, at: Location) -> bool:
    """Whether a directory is that of a Paimon table: it has a schema."""
    from lakeplane.paimon.layout import schema_ids  # noqa: PLC0415 - brings numpy

    return bool(schema_ids([each.location.name for each in store.files(at / "schema")]))


def _is_part(folder: str) -> bool:
    try:
        check_part(folder)
    except InvalidInput:
        return False
    return not folder.startswith((".", "_"))
