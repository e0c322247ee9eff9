"""Catalogs full of small things, in stores that can be put back as they were: what faults are tried on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import msgspec
import pyarrow as pa

from lakeplane.catalog import commit_loop
from lakeplane.catalog.catalog import Catalog, Entry
from lakeplane.catalog.commit_loop import Published, Rhythm, Work, publish
from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.metadata_files import Surroundings
from lakeplane.catalog.names import Name, parse_name
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.catalog.pointers import Pointers
from lakeplane.catalog.sql import SqlPointers
from lakeplane.catalog.turns import Turns
from lakeplane.changing import Around, Done, publish_change
from lakeplane.errors import InvalidChange
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.changes import Append, Change
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading, list_manifests
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import plan as plan_of
from lakeplane.iceberg.refs import Proposal
from lakeplane.iceberg.requirements import AssertRefSnapshotId
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.iceberg.time_travel import At
from lakeplane.iceberg.view import ViewMetadata
from lakeplane.lake import Lake
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location, parse_location
from lakeplane.reading import reading_of
from lakeplane.storage.local import LocalStore
from lakeplane.storage.memory import MemoryStore
from lakeplane.storage.store import Store
from lakeplane.testing.clock import ManualClock, SeededIds
from lakeplane.testing.faults import Fault, FaultStore, Operation, Plan

ORDERS, ITEMS, LOOSE = parse_name("shop.orders"), parse_name("shop.items"), parse_name("shop.loose")
EVENTS = parse_name("shop.events")
"""A table with files, in partitions named ``p``; the others have only names of snapshots."""
BASE, NEXT, HEAD, STAGED = 101, 102, 103, 104
"""The snapshots of ``shop.orders``: the first three are main, the last is on top of it and beside it."""
STAGED_FILES = 204
"""A snapshot of ``shop.events`` that nobody has published."""


class Saved(Protocol):
    """Puts something back as it was."""

    def __call__(self) -> None: ...


class World:
    """A catalog and what it stands on."""

    def __init__(
        self, store: Store, root: Location, pointers: Pointers | None, save: Callable[[], Saved]
    ) -> None:
        self.store, self.root, self.pointers, self.save = store, root, pointers, save
        self.clock, self.ids = ManualClock(step_ms=1), SeededIds(7)
        # Names of manifest lists are never used twice in a world, so each is read once for all of its states.
        self.read: dict[str, tuple[list[str], list[str]]] = {}

    @property
    def is_filesystem(self) -> bool:
        return self.pointers is None

    def catalog(self, store: Store) -> Catalog:
        around = Surroundings(self.clock.now_ms, lambda: str(self.ids.uuid()))
        if self.pointers is None:
            return FilesystemCatalog(self.root, store, surroundings=around, open_store=lambda _: store)
        return PointerCatalog(
            self.pointers, warehouse=self.root, open_store=lambda _: store, surroundings=around
        )

    def lake(self) -> Lake:
        """The lake of somebody to whom nothing bad happens."""
        return Lake(self.catalog(self.store))

    def faulty(self, plan: Plan | None) -> tuple[Lake, FaultStore]:
        store = FaultStore(self.store, plan, clock=self.clock)
        return Lake(self.catalog(store)), store

    def files(self) -> set[str]:
        return {str(stat.location) for stat in self.store.files(self.root)}


def memory_store() -> tuple[MemoryStore, Callable[[], Saved]]:
    store = MemoryStore()

    def save() -> Saved:
        kept = dict(store._files)

        def restore() -> None:
            store._files = dict(kept)

        return restore

    return store, save


def filesystem_in_memory(_: Path) -> World:
    store, save = memory_store()
    return World(store, store.root, None, save)


def filesystem_on_disk(folder: Path) -> World:
    place, backup = folder / "warehouse", folder / "backup"
    place.mkdir()
    root = parse_location(str(place))

    def save() -> Saved:
        shutil.copytree(place, backup)

        def restore() -> None:
            shutil.rmtree(place)
            shutil.copytree(backup, place)

        return restore

    return World(LocalStore(root), root, None, save)


def pointers_in_memory(_: Path) -> World:
    store, save_files = memory_store()
    pointers = MemoryPointers()

    def save() -> Saved:
        files, names, targets = save_files(), dict(pointers._namespaces), dict(pointers._pointers)

        def restore() -> None:
            files()
            pointers._namespaces, pointers._pointers = dict(names), dict(targets)

        return restore

    return World(store, store.root, pointers, save)


def pointers_in_sqlite(folder: Path) -> World:
    store, save_files = memory_store()
    database = folder / "catalog.db"
    pointers = SqlPointers(f"sqlite:///{database}")
    tables = ("iceberg_tables", "iceberg_namespace_properties")

    def save() -> Saved:
        files = save_files()
        with closing(sqlite3.connect(database)) as connection:
            rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608

        def restore() -> None:
            files()
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("PRAGMA synchronous=OFF")
                for table, kept in rows.items():
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608
                    marks = ", ".join("?" * len(kept[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", kept)  # noqa: S608

        return restore

    return World(store, store.root, pointers, save)


WORLDS = (filesystem_in_memory, filesystem_on_disk, pointers_in_memory, pointers_in_sqlite)


@contextmanager
def without_waiting(clock: ManualClock) -> Iterator[ManualClock]:
    """Let the pauses of the commit loop pass on a clock of our own."""
    defaults = cast("dict[str, Any]", commit_loop.publish.__kwdefaults__)
    real = defaults["rhythm"]
    # Who works in the middle of another's work, in the same thread, must not wait for his turn.
    turns = Turns(patience=0)
    defaults["rhythm"] = Rhythm(lambda: clock.now_ms() / 1000, clock.sleep, lambda: 0.5, turns)
    try:
        yield clock
    finally:
        defaults["rhythm"] = real


class InTheMiddle:
    """A plan that fails nothing, and lets somebody else work before the N-th operation, or N-th ``put``."""

    def __init__(self, kind: str, nth: int, work: Callable[[], None]) -> None:
        self.kind, self.nth, self.work, self.seen = kind, nth, work, 0

    def fault_for(self, operation: Operation) -> Fault | None:
        self.seen += self.kind in ("any", operation.name)
        if self.seen == self.nth:
            self.nth = 0
            self.work()
        return None


def populate(world: World) -> None:
    """Put some of everything into an empty world."""
    lake, catalog = world.lake(), world.catalog(world.store)
    lake.create_namespace("shop", {"owner": "ann"})
    lake.create_namespace("bare")
    lake.create_table("shop.orders", "id BIGINT NOT NULL, at TIMESTAMP, note STRING")
    lake.create_table("shop.items", "id BIGINT")
    loose = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "2",
    }
    lake.create_table("shop.loose", "id BIGINT", properties=loose)
    for number in range(4):
        with lake.table("shop.loose").evolve() as change:
            change.set_properties(turn=str(number))
    for snapshot_id in (BASE, NEXT, HEAD):
        append(catalog, ORDERS, snapshot_id)
    append(catalog, ORDERS, STAGED, branch="audit")
    orders = lake.table("shop.orders")
    orders.create_branch("old", BASE)
    orders.create_tag("first", BASE)
    lake.create_table("shop.events", "id BIGINT, p STRING", partition_by=["p"])
    for number, p in enumerate(("x", "y", "x", "x", "z"), 201):
        _append_file(lake, world, number, p, stage_only=number == STAGED_FILES)
    lake.create_view("shop.totals", "SELECT 1 AS id", "id BIGINT")
    home = world.root / "shop"
    for file in ("orders/data/1.parquet", "items/data/1.parquet", "loose/data/1.parquet"):
        world.store.put(home / file, b"rows")
    found = catalog.load("table", ITEMS)
    lost = msgspec.structs.replace(cast("TableMetadata", found.metadata), location=str(home / "found"))
    place = home / "found/metadata/saved.metadata.json"
    world.store.put(place, commit_file(lost))


def rows_of(table: TableMetadata, name: str, p: str, rows: int = 10) -> NewFiles:
    """A data file, of which nothing but the name exists."""
    files = {
        "file_path": [f"{table.location}/data/{name}"],
        "file_format": ["PARQUET"],
        "record_count": [rows],
        "file_size_in_bytes": [rows * 10],
        "partition": pa.array([{"1000": p}], pa.struct({"1000": pa.string()})),
    }
    return NewFiles(0, pa.table(files))


def deletes_of(table: TableMetadata, name: str, data: pa.Table) -> NewFiles:
    """A position delete file for one data file, of which nothing but the name exists."""
    files = {
        **rows_of(table, name, "x", 3).files.to_pydict(),
        "partition": data["partition"].combine_chunks(),
        "content": pa.array([1], pa.int32()),
        "referenced_data_file": data["file_path"],
    }
    return NewFiles(0, pa.table(files))


ChangeOf: TypeAlias = Callable[[TableMetadata, Reading], Change]


def change_files(lake: Lake, world: World, name: Name, snapshot_id: int, plan: ChangeOf) -> Done:
    """Change the files of a table, after a look at what is there."""
    catalog = lake._catalog
    entry = catalog.load("table", name)
    table = cast("TableMetadata", entry.metadata)
    reading = reading_of(catalog.store_for(entry), ManifestCache())
    around = Around(world.clock.now_ms, lambda: str(world.ids.uuid()), lambda: snapshot_id)
    return publish_change(catalog, entry, ManifestCache(), plan(table, reading), around=around)


def live(table: TableMetadata, reading: Reading, at: At = None) -> pa.Table:
    """The data files of a table."""
    return plan_of(table, reading, at=at).files


def _append_file(lake: Lake, world: World, number: int, p: str, *, stage_only: bool) -> None:
    def plan(table: TableMetadata, _: Reading) -> Change:
        return Append(files=(rows_of(table, f"{number}.parquet", p),), stage_only=stage_only)

    change_files(lake, world, EVENTS, number, plan)


def commit_file(metadata: TableMetadata) -> bytes:
    from lakeplane.iceberg.metadata_json import serialize_metadata  # noqa: PLC0415 - once

    return serialize_metadata(metadata)


def append(catalog: Catalog, name: Name, snapshot_id: int, *, branch: str = MAIN) -> Published:
    """Add a snapshot to a branch, as writers will: with a manifest list and a data file of its own."""

    def propose(entry: Entry) -> Proposal:
        table = cast("TableMetadata", entry.metadata)
        known = table.refs.get(branch)
        if known is not None and not known.is_branch:
            raise InvalidChange("a tag does not move", field=f"ref {branch!r}")
        listed = parse_location(f"{table.location}/metadata/snap-{snapshot_id}.avro")
        catalog.store_for(entry).put(listed, b"manifests")
        old = known or table.refs.get(MAIN)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if old is None else old.snapshot_id,
            sequence_number=table.last_sequence_number + 1,
            timestamp_ms=table.last_updated_ms + 1,
            manifest_list=str(listed),
            summary=FrozenDict({"operation": "append"}),
            schema_id=table.current_schema_id,
        )
        held = AssertRefSnapshotId(branch, None if known is None else known.snapshot_id)
        ref = Ref(snapshot_id=snapshot_id, type="branch")
        return (held,), (u.AddSnapshot(snapshot), u.SetSnapshotRef(branch, ref))

    return publish(catalog, [Work("table", name, propose)])


def state(world: World) -> dict[str, Any]:
    """All that is true of a catalog, but times and made-up ids; checks that no file is missing."""
    lake = world.lake()
    catalog = world.catalog(world.store)
    files = world.files()
    found: dict[str, Any] = {f"namespace {each}": dict(lake.namespace(each)) for each in lake.namespaces()}
    for name in lake.tables():
        entry = catalog.load("table", parse_name(name))
        assert entry.metadata_location in files, f"{name} has lost its metadata file"
        table = cast("TableMetadata", entry.metadata)
        for snapshot in table.snapshots:
            assert snapshot.manifest_list in files, f"{name} has lost the files of {snapshot.snapshot_id}"
        found[f"table {name}"] = _table_facts(table)
        if name == "shop.events":
            found["files"] = _files(world, table, files)
    for name in lake.views():
        found[f"view {name}"] = _view_facts(lake.view(name).metadata)
    return found


def _files(world: World, table: TableMetadata, files: set[str]) -> dict[str, list[str]]:
    """The data files of what was published and staged last; fails where a manifest is gone."""
    found = {}
    for what, snapshot in (("current", table.current_snapshot), ("newest", table.snapshots[-1])):
        assert snapshot is not None
        place = snapshot.manifest_list or ""
        if place not in world.read:
            reading = reading_of(world.store, ManifestCache())
            listed = list_manifests(snapshot, reading)["manifest_path"].to_pylist()
            paths = live(table, reading, snapshot.snapshot_id)["file_path"].to_pylist()
            world.read[place] = (listed, sorted(paths))
        listed, found[what] = world.read[place]
        assert files.issuperset(listed), f"the table has lost {set(listed) - files}"
    return found


def _table_facts(table: TableMetadata) -> dict[str, Any]:
    facts = msgspec.structs.asdict(table)
    for name in ("table_uuid", "last_updated_ms", "metadata_log"):
        del facts[name]
    # A snapshot may be made current twice in a row by a change that is repeated: that is the same history.
    facts["snapshot_log"] = [entry.snapshot_id for entry in table.snapshot_log]
    # Another attempt has another manifest list; what it names is looked at.
    facts["snapshots"] = [
        msgspec.structs.replace(each, timestamp_ms=0, manifest_list=None) for each in table.snapshots
    ]
    return facts


def _view_facts(view: ViewMetadata) -> dict[str, Any]:
    return {
        "location": view.location,
        "schemas": view.schemas,
        "properties": view.properties,
        "versions": [msgspec.structs.replace(each, timestamp_ms=0) for each in view.versions],
        "current": view.current_version_id,
        "log": [entry.version_id for entry in view.version_log],
    }
