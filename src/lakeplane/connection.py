"""From what a user types to a lake: which catalog, and which stores."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from lakeplane.catalog.catalog import Catalog
from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.lone import LoneTable, home_of, is_metadata_file
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.metadata_files import Surroundings
from lakeplane.catalog.paimon_warehouse import PaimonWarehouse, is_paimon
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.catalog.pointers import Pointers
from lakeplane.errors import InvalidInput
from lakeplane.iceberg.manifest_cache import DEFAULT_CACHE_BYTES, ManifestCache
from lakeplane.lake import Lake
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location, parse_location
from lakeplane.paimon_table import PaimonTable
from lakeplane.resources import SPARK_SCHEMES, Resources
from lakeplane.storage.open import open_router
from lakeplane.storage.store import Store
from lakeplane.table import Table

_SQL: Final = re.compile(r"(sqlite|postgresql|mysql|mariadb)(\+\w+)?:")
_REAL: Final = Surroundings(now_ms=lambda: time.time_ns() // 1_000_000, new_id=lambda: str(uuid.uuid4()))


def connect(
    target: str | Path,
    *,
    spark: Any = None,
    warehouse: str | Path | None = None,
    locations: Iterable[str] = (),
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    cache_folder: str | Path | None = None,
    scratch: str | Path | None = None,
    spark_schemes: Mapping[str, str] = SPARK_SCHEMES,
    name: str = "lake",
    **options: Any,
) -> Lake:
    """Connect to a catalog.

    - a directory or bucket (``"warehouse"``, ``"s3://bucket/lake"``): tables in it, and no server beside it
    - ``"sqlite:///catalog.db"``, ``"postgresql://..."``, ``"mysql://..."``: names in a database, which others
      may share; new tables go into ``warehouse``
    - ``"https://host/catalog"``: an Iceberg REST catalog
    - ``"memory:"``: names that vanish with the process

    ``locations`` are places beside the warehouse that tables may lie in: what metadata points to elsewhere is
    not opened. Options of stores are named as other Iceberg clients name them (``s3.endpoint``, ...).

    ``spark`` is the session that reads and writes rows; without one, the active one is used, or one is
    started on this machine when rows are first needed. ``scratch`` is a folder that this process and a Spark
    Connect server both see: with it, tables of many files are handed over faster. ``spark_schemes`` tells
    what Spark calls the schemes of locations, if not ``{"s3": "s3a"}``.

    What is read of manifests is kept in memory, up to ``cache_bytes``, and in the folder ``cache_folder``
    of this machine if one is given, for the next process.

    ``name`` is what SQL may call the lake, in front of namespaces: ``lake.shop.orders``.
    """
    text = str(target)
    if not text:
        # An empty setting must not turn the directory that somebody happens to be in into a warehouse.
        raise InvalidInput("an empty text names no catalog", hint="Give a directory or a URL")
    resources = _resources(cache_bytes, cache_folder, spark, scratch, spark_schemes)._replace(name=name)
    catalog = _catalog(text, warehouse, locations, options)
    return Lake(catalog, resources, _paimon(catalog))


def open(  # noqa: A001 - it is lakeplane.open
    path: str | Path,
    *,
    spark: Any = None,
    locations: Iterable[str] = (),
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    cache_folder: str | Path | None = None,
    scratch: str | Path | None = None,
    spark_schemes: Mapping[str, str] = SPARK_SCHEMES,
    **options: Any,
) -> Table | PaimonTable:
    """Open a table without a catalog, to read it: by its directory, or by one of its metadata files.

    A directory with Paimon's schema files is a Paimon table, even if there is metadata of Iceberg, which
    Paimon keeps beside its own. In another directory, the newest metadata file counts. ``locations`` are
    places beside the directory that the table's files may lie in; the other options are those of ``connect``.
    """
    at = _place(str(path))
    store, _ = _stores(home_of(at), locations, options)
    resources = _resources(cache_bytes, cache_folder, spark, scratch, spark_schemes)
    if not is_metadata_file(at) and is_paimon(store, at):
        return PaimonTable(at.name, at, store, resources)
    table = LoneTable(at, store)
    return Table(table, table.load("table", table.name), resources)


def _resources(
    cache_bytes: int,
    cache_folder: str | Path | None,
    spark: Any,
    scratch: str | Path | None,
    spark_schemes: Mapping[str, str],
) -> Resources:
    place = None if scratch is None else str(scratch)
    return Resources(_cache(cache_bytes, cache_folder), spark, place, FrozenDict(spark_schemes))


def _cache(size: int, folder: str | Path | None) -> ManifestCache:
    if folder is None:
        return ManifestCache(size)
    from lakeplane.storage.shelf import FolderShelf  # noqa: PLC0415 - brings pyarrow

    return ManifestCache(size, FolderShelf(folder))


def _catalog(
    text: str, warehouse: str | Path | None, locations: Iterable[str], options: dict[str, Any]
) -> Catalog:
    if re.match(r"https?:", text):
        return _rest(text, warehouse, options)
    if text == "memory:" or _SQL.match(text):
        return _pointed(text, warehouse, locations, options)
    if warehouse is not None:
        raise InvalidInput("a directory is its own warehouse", source=text, hint="Leave warehouse out")
    root = _place(text)
    store, opener = _stores(root, locations, options)
    return FilesystemCatalog(root, store, surroundings=_REAL, open_store=opener)


def _paimon(catalog: Catalog) -> PaimonWarehouse | None:
    """The databases of Paimon in a directory; other catalogs do not tell of any."""
    if not isinstance(catalog, FilesystemCatalog):
        return None
    return PaimonWarehouse(*catalog.home)


def _pointed(
    text: str, warehouse: str | Path | None, locations: Iterable[str], options: dict[str, Any]
) -> Catalog:
    if warehouse is None:
        hint = "Say where tables go: connect(..., warehouse='s3://bucket/lake')"
        raise InvalidInput("this catalog needs a warehouse", hint=hint)
    pointers: Pointers
    if text == "memory:":
        pointers = MemoryPointers()
    else:
        from lakeplane.catalog.sql import SqlPointers  # noqa: PLC0415 - SQLAlchemy is slow to import

        own = {
            key: options.pop(key) for key in ("catalog_name", "timeout", "create_tables") if key in options
        }
        pointers = SqlPointers(text, **own)
    root = _place(str(warehouse))
    _, opener = _stores(root, locations, options)
    return PointerCatalog(pointers, warehouse=root, open_store=opener, surroundings=_REAL)


def _rest(text: str, warehouse: str | Path | None, options: dict[str, Any]) -> Catalog:
    from lakeplane.catalog.rest import RestCatalog  # noqa: PLC0415 - httpx is slow to import

    named: dict[str, Any] = {} if warehouse is None else {"warehouse": str(warehouse)}
    return RestCatalog(text, **named, **options)


def _stores(
    root: Location, locations: Iterable[str], options: dict[str, Any]
) -> tuple[Store, Callable[[Location], Store]]:
    # Buckets are reached with the user's own credentials; of a disk, only what the user has named is ours.
    elsewhere = () if root.scheme == "file" else (root.scheme,)
    router = open_router([root, *map(_place, locations)], options, elsewhere=elsewhere)
    return router, lambda _: router


def _place(text: str) -> Location:
    """Read a location; paths of this machine may be relative."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return parse_location(text)
    return parse_location(str(Path(text).expanduser().absolute()))
