"""Rows that we have deleted: PyIceberg, DuckDB and polars find those that are left, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyroaring import BitMap64

import lakeplane as lp
from lakeplane.changing import publish_change
from lakeplane.files.write_deletes import write_position_deletes
from lakeplane.files.write_equality import write_equality_deletes
from lakeplane.iceberg.changes import RowDelta
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.location import parse_location
from lakeplane.storage.store import Range
from lakeplane.writing import Written
from tests.interop.peers import ask
from tests.interop.plain_rows import local, reading

NAME = "shop.events"


class Events:
    """A table of ours in partitions named ``p``; ids tell rows apart."""

    def __init__(self, folder: Path, version: int, **properties: str) -> None:
        self.lake = lp.connect(folder)
        self.lake.create_namespace("shop")
        self.lake.create_table(
            NAME,
            "id BIGINT, p STRING",
            partition_by=["p"],
            properties={"format-version": str(version), **properties},
        )

    @property
    def table(self) -> lp.Table:
        found = self.lake.table(NAME)
        assert isinstance(found, lp.Table)
        return found

    def append(self, p: str, ids: Sequence[int]) -> None:
        self.table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": [p] * len(ids)}))

    def plan(self) -> ReadPlan:
        return plan(self.table.metadata, reading())

    def commit(self, change: RowDelta) -> Snapshot:
        table = self.table
        done = publish_change(table._catalog, table._entry, ManifestCache(), change)
        assert done.snapshot_id is not None
        return self.table.metadata.snapshot(done.snapshot_id)

    def delete(self, *ids: int, **options: str) -> Snapshot:
        """Delete rows by position; files say in which order their rows are, and nothing else is asked."""
        table, found, gone = self.table, self.plan(), set(ids)
        store = table._catalog.store_for(table._entry)
        positions = {}
        for row, path in enumerate(found.files["file_path"].to_pylist()):
            stored = orc.read_table(local(path)) if path.endswith("orc") else pq.read_table(local(path))
            hits = [at for at, each in enumerate(stored["id"].to_pylist()) if each in gone]
            if hits:
                positions[row] = BitMap64(hits)

        def ranges(parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
            return store.read_many([Range(parse_location(path), *at) for path, *at in parts])

        with Written(store) as written:
            new = write_position_deletes(found, positions, written.put, ranges, options=options)
        return self.commit(
            RowDelta(
                **new._asdict(),
                isolation="serializable",
                validate_from=table.metadata.current_snapshot_id,
                refuse_new_deletes=False,
            )
        )

    def delete_values(self, rows: pa.Table, equality_ids: Sequence[int]) -> Snapshot:
        table = self.table
        store = table._catalog.store_for(table._entry)

        def put(path: str, data: bytes) -> None:
            store.put(parse_location(path), data)

        new = write_equality_deletes(rows, equality_ids, table.metadata, put)
        return self.commit(RowDelta(deletes=tuple(new), validate_from=table.metadata.current_snapshot_id))


class Expected(NamedTuple):
    """A table, and the ids that are left."""

    name: str
    metadata: str
    readers: Sequence[str]
    left: list[int]


ALL: Final = ("pyiceberg_scan", "duckdb_scan", "polars_scan")
CASES: Final[tuple[tuple[str, int, Sequence[str], dict[str, str]], ...]] = (
    ("a file each", 2, ALL, {}),
    # polars reads only position deletes of one data file each.
    ("a file for a partition", 2, ALL[:2], {"write.delete.granularity": "partition"}),
    ("orc", 2, ["pyiceberg_scan"], {"write.delete.format.default": "orc"}),
    ("vectors", 3, ALL, {}),
    ("a vector in a file", 3, ALL, {"write.delete.target-file-size-bytes": "1"}),
)


def _deleted_in_turn(folder: Path) -> Iterator[Expected]:
    gone = {3, 5, 99, 100, 150, 101, 102, 399, *range(0, 100, 7), *range(200, 300)}
    left = [each for each in range(400) if each not in gone]
    for name, version, readers, properties in CASES:
        events = Events(folder / name.replace(" ", "-"), version, **properties)
        events.append("x", range(100))
        events.append("y", range(100, 200))
        events.append("x", range(200, 300))
        events.delete(3, 5, 99, 100, 150, 299)
        events.append("y", range(300, 400))
        events.delete(*range(0, 100, 7), 101, 102, 399)
        events.delete(*range(200, 300))
        yield Expected(name, events.table.metadata_location, readers, left)


def _dense(folder: Path) -> Expected:
    events = Events(folder / "dense", 3)
    events.append("x", range(300_000))
    gone = {*range(1000, 150_000), *range(150_000, 250_000, 3)}
    events.delete(*gone)
    left = [each for each in range(300_000) if each not in gone]
    return Expected("dense", events.table.metadata_location, ALL, left)


def _upgraded(folder: Path) -> Iterator[Expected]:
    """Position deletes of many files stay until each of the files has a vector."""
    events = Events(folder / "upgraded", 2, **{"write.delete.granularity": "partition"})
    events.append("x", range(10))
    events.append("x", range(10, 20))
    events.delete(1, 11)
    with events.table.evolve() as change:
        change.upgrade(3)
    events.delete(2)
    assert sorted(events.plan().deletes["file_format"].to_pylist()) == ["PARQUET", "PUFFIN"]
    readers = ("duckdb_scan",)
    left = [each for each in range(20) if each not in (1, 2, 11)]
    yield Expected("upgraded", events.table.metadata_location, readers, left)
    last = events.delete(12)
    assert events.plan().deletes["file_format"].to_pylist() == ["PUFFIN", "PUFFIN"]
    assert last.summary is not None
    assert last.summary["removed-position-delete-files"] == "1"
    yield Expected("all vectors", events.table.metadata_location, ALL, [each for each in left if each != 12])


def _by_value(folder: Path) -> Iterator[Expected]:
    for version in (2, 3):
        events = Events(folder / f"values-{version}", version)
        events.append("x", range(10))
        events.append("y", range(10))
        keys = pa.table({"id": pa.array([3, 4], pa.int64()), "p": ["x", "y"]})
        done = events.delete_values(keys, [1, 2])
        assert done.summary is not None
        assert done.summary["added-equality-deletes"] == "2"
        events.append("x", [3])
        left = sorted([*range(10), *range(10)])
        left.remove(4)
        yield Expected(f"values in v{version}", events.table.metadata_location, ["duckdb_scan"], left)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Expected]:
    folder = tmp_path_factory.mktemp("tables")
    return [*_deleted_in_turn(folder), _dense(folder), *_upgraded(folder), *_by_value(folder)]


@pytest.mark.parametrize("reader", ALL)
def test_others_find_the_rows_that_are_left(expected: list[Expected], reader: str) -> None:
    mine = [each for each in expected if reader in each.readers]
    answers = ask(reader, [[each.metadata, [""]] for each in mine])
    wrong = [each.name for each, [ids] in zip(mine, answers, strict=True) if ids != each.left]
    assert not wrong
