"""Purging a dropped table: exactly the files that it owns, and none that another name stands for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakeplane.catalog.catalog import Catalog, Entry, table_of
from lakeplane.catalog.metadata_files import place_in
from lakeplane.catalog.names import Name, Namespace
from lakeplane.errors import AccessDenied, CatalogCannot, NotFound
from lakeplane.model.location import Location, parse_location
from lakeplane.model.parallel import in_parallel

if TYPE_CHECKING:
    from lakeplane.iceberg.manifest_cache import ManifestCache
    from lakeplane.storage.store import Store

log = logging.getLogger(__name__)

_LOADS: Final = 8
"""So many tables are loaded at a time."""

_OWN_PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path")


def check_only_name(catalog: Catalog, entry: Entry) -> None:
    """Refuse to purge a table that is registered under two names: each names the files of the other."""

    def same(name: Name) -> bool:
        try:
            other = table_of(catalog.load("table", name))
        except NotFound:
            return False
        except AccessDenied as denied:
            log.warning("whether %s names files of %s cannot be seen: %s", name, entry.name, denied)
            return False
        # Tables of v1 may have no uuid.
        return other.table_uuid == mine.table_uuid if mine.table_uuid else other.location == mine.location

    mine = table_of(entry)
    names = [name for name in _all_tables(catalog) if name != entry.name]
    for name, is_same in zip(names, in_parallel(same, names, _LOADS), strict=True):
        if is_same:
            problem = f"{name} is the same table under another name, and would lose its files"
            hint = "Drop it without purging, or drop the other name first"
            raise CatalogCannot(problem, source=str(entry.name), hint=hint)


def _all_tables(catalog: Catalog, under: Namespace = ()) -> Iterator[Name]:
    for namespace in catalog.namespaces(under):
        with contextlib.suppress(NotFound):
            yield from catalog.names("table", namespace)
            yield from _all_tables(catalog, namespace)


def own_files(entry: Entry, store: Store, cache: ManifestCache) -> list[Location]:
    """What a table names within its own places: copied metadata may name the files of others, too."""
    from lakeplane.iceberg.reachable import reachable  # noqa: PLC0415 - manifests bring pyarrow
    from lakeplane.reading import reading_of  # noqa: PLC0415

    table = table_of(entry)
    if table.properties.get("gc.enabled", "true").strip().lower() == "false":
        problem = "gc.enabled is false, so nothing of the table is deleted"
        hint = "Its files may belong to others too; set gc.enabled=true if they do not"
        raise CatalogCannot(problem, source=str(entry.name), hint=hint)
    home = parse_location(table.location)
    named = (table.properties.get(name) for name in _OWN_PLACES)
    places = [home, *(place_in(home, each) for each in named if each)]
    files = [*reachable(table, reading_of(store, cache)), entry.metadata_location]
    found = dict.fromkeys(map(parse_location, files))
    return [at for at in found if any(place.contains(at) for place in places)]
