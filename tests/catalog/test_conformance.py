"""Our own catalogs keep the contract that ``testing.catalog`` checks."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.metadata_files import Surroundings
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.model.location import parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.catalog import ALL, CATALOG_CHECKS, Ability, Check, Subject, failures

if TYPE_CHECKING:
    from pathlib import Path

    from lakeplane.storage.store import Store

REAL = Surroundings(lambda: time.time_ns() // 1_000_000, lambda: str(uuid.uuid4()))
FILESYSTEM = ALL - {Ability.RENAME, Ability.SEVERAL, Ability.ANY_LOCATION, Ability.METADATA_PATH}


def in_memory(_: Path) -> Subject:
    store, pointers = MemoryStore(), MemoryPointers()
    return Subject(
        lambda: PointerCatalog(
            pointers, warehouse=store.root / "wh", open_store=lambda _: store, surroundings=REAL
        )
    )


def on_disk(folder: Path) -> Subject:
    root = parse_location(str(folder / "warehouse"))
    return _filesystem(LocalStore(root), LocalStore(root))


def in_bucket(_: Path) -> Subject:
    store = MemoryStore()
    return _filesystem(store, store)


def _filesystem(*stores: Store) -> Subject:
    turn = iter(stores * 100)

    def connect() -> FilesystemCatalog:
        store = next(turn)
        root = getattr(store, "root")  # noqa: B009 - not part of the contract
        return FilesystemCatalog(root, store, surroundings=REAL, open_store=lambda _: store)

    return Subject(connect, FILESYSTEM)


@pytest.mark.parametrize("subject", [in_memory, on_disk, in_bucket], ids=lambda each: each.__name__)
@pytest.mark.parametrize("check", CATALOG_CHECKS, ids=lambda each: each.__name__)
def test_catalog(check: Check, subject: object, tmp_path: Path) -> None:
    assert callable(subject)
    check(subject(tmp_path))
