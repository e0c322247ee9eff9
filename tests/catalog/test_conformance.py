"""Our own catalogs keep the contract that ``testing.catalog`` checks."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, cast

import pytest

from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.metadata_files import Surroundings
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.catalog.pointers import Swap
from lakeplane.errors import CatalogCannot
from lakeplane.model.location import parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.catalog import ALL, CATALOG_CHECKS, Ability, Check, Subject, failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lakeplane.catalog.catalog import Catalog, Change, Entry, Kind, Outcome
    from lakeplane.catalog.names import Name, Namespace
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


class Modest:
    """A catalog that can do little, and says so; what it can, another one does."""

    def __init__(self, inner: Catalog) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        if len(namespace) > 1 or properties:
            raise CatalogCannot("one level, without properties")
        self.inner.create_namespace(namespace, properties)

    def change_namespace(self, *_: object) -> None:
        raise CatalogCannot("no properties")

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        return self.inner.names(kind, namespace) if kind == "table" else []

    def load(self, kind: Kind, name: Name) -> Entry:
        if kind == "view":
            raise CatalogCannot("no views")
        return self.inner.load(kind, name)

    def commit(self, changes: Sequence[Change]) -> Outcome:
        if len(changes) != 1 or changes[0].kind == "view":
            raise CatalogCannot("one table at a time")
        return self.inner.commit(changes)

    def register(self, *_: object) -> Entry:
        raise CatalogCannot("no registration")

    def rename(self, *_: object) -> None:
        raise CatalogCannot("no renaming")


MODEST = ALL - {
    Ability.VIEWS,
    Ability.RENAME,
    Ability.REGISTER,
    Ability.SEVERAL,
    Ability.NESTED,
    Ability.NAMESPACE_PROPERTIES,
    Ability.KEEPS_UNKNOWN,
}


def modest(folder: Path) -> Catalog:
    return cast("Catalog", Modest(in_memory(folder).connect()))


def test_a_catalog_that_lacks_abilities_conforms_when_it_says_so(tmp_path: Path) -> None:
    catalog = modest(tmp_path)
    assert failures(Subject(lambda: catalog, MODEST)) == {}


@pytest.mark.parametrize("ability", sorted(ALL - MODEST - {Ability.KEEPS_UNKNOWN}, key=str), ids=str)
def test_an_ability_that_is_claimed_and_lacking_is_noticed(ability: Ability, tmp_path: Path) -> None:
    catalog = modest(tmp_path)
    assert failures(Subject(lambda: catalog, MODEST | {ability}))


@pytest.mark.parametrize(
    "ability", [Ability.RENAME, Ability.SEVERAL, Ability.METADATA_PATH, Ability.ANY_LOCATION]
)
def test_an_ability_that_is_denied_and_there_is_noticed(ability: Ability, tmp_path: Path) -> None:
    assert failures(in_memory(tmp_path)._replace(abilities=ALL - {ability}))


class Blind(MemoryPointers):
    """Pointers that move whatever they name: what every commit loses that somebody else made meanwhile."""

    def swap(self, swaps: Sequence[Swap]) -> bool:
        seen = [Swap(each.kind, each.name, self.get(each.kind, each.name), each.new) for each in swaps]
        return super().swap(seen)


def test_a_catalog_that_loses_commits_is_noticed() -> None:
    store, pointers = MemoryStore(), Blind()

    def connect() -> PointerCatalog:
        return PointerCatalog(
            pointers, warehouse=store.root / "wh", open_store=lambda _: store, surroundings=REAL
        )

    noticed = set(failures(Subject(connect)))
    assert {"keeps_changes_that_require_nothing", "keeps_every_acknowledged_commit"} & noticed
