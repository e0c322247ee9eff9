"""What was read of manifests is not read again: in memory, on disk, from many threads."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeplane.iceberg import manifest_cache, manifest_scan
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.manifest_schema import LIST_COLUMNS
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.model.types import LONG, STRING
from lakeplane.storage.shelf import FolderShelf
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, bounds, build, deletes, entries

WHERE = (None, "id = 15", "id > 30 AND s = 's2'", "s < 's2'", "id IS NULL")


class Reads:
    """Counts what is read of a table."""

    def __init__(self, built: BuiltTable, cache: ManifestCache) -> None:
        self.built = built
        self.paths: list[str] = []
        self.reading = Reading(self.read_many, cache, workers=4)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        self.paths += paths
        return self.built.read_many(paths)

    def plan(self, where: str | None = None) -> ReadPlan:
        return plan(self.built.metadata, self.reading, where)

    def taken(self) -> set[str]:
        """The files read since the last look, each at most once."""
        assert len(self.paths) == len(set(self.paths))
        found = {path.rpartition("/")[2] for path in self.paths}
        self.paths.clear()
        return found


def content(found: ReadPlan) -> Any:
    """A plan as plain values, with its files in order."""
    rows = sorted(found.files.to_pylist(), key=lambda each: each["file_path"])
    for row in rows:
        row["residual"] = found.residuals[row["residual"]]
    return rows, found.deletes.to_pylist(), found.counts


def grow(built: BuiltTable, number: int) -> None:
    """One more commit, of ten files and a delete."""
    files = [
        Listed(f"{number}-{n}", (f"s{n % 4}",), {1: bounds(LONG, 10 * n, 10 * n + 9)}, 10) for n in range(10)
    ]
    gone = Listed(f"d{number}", ("s1",), content=2, more={"equality_ids": [1]})
    built.commit(entries(built.metadata, files), deletes(built.metadata, [gone]), operation="overwrite")


def grown() -> BuiltTable:
    made = build(("id", LONG), ("s", STRING), by=["identity s"], format_version=3)
    for number in range(1, 4):
        grow(made, number)
    return made


@pytest.fixture(scope="module")
def built() -> BuiltTable:
    """A table of three commits, which no test changes."""
    return grown()


@pytest.fixture(scope="module")
def truth(built: BuiltTable) -> dict[str | None, Any]:
    """What plans are that have no cache."""
    return {where: content(plan(built.metadata, built.reading(), where)) for where in WHERE}


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few files already make batches and stacks, as millions do otherwise."""
    monkeypatch.setattr(manifest_scan, "_BATCH_FILES", 10)
    monkeypatch.setattr(manifest_scan, "_STACK_FILES", 15)


def test_a_plan_that_is_made_again_reads_nothing(built: BuiltTable, truth: dict[str | None, Any]) -> None:
    reads = Reads(built, ManifestCache())
    assert content(reads.plan("id = 15")) == truth["id = 15"]
    lists = {"snap-1003.avro"}
    manifests = {f"{n:05}-m{m}.avro" for n in (1, 2, 3) for m in (0, 1)}
    assert reads.taken() == lists | manifests
    assert content(reads.plan("id = 15")) == truth["id = 15"]
    assert reads.taken() == set()


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("where", WHERE)
def test_a_cache_that_is_too_small_for_a_table_is_of_no_harm(
    built: BuiltTable, truth: dict[str | None, Any], where: str | None
) -> None:
    """Second plans failed with a KeyError: what they had found was evicted by what they read beside it."""
    for size in range(0, 20_000, 250):
        reads = Reads(built, ManifestCache(size))
        for _ in range(3):
            assert content(reads.plan(where)) == truth[where]


@pytest.mark.parametrize("order", list(itertools.permutations(WHERE[1:4])))
def test_other_conditions_need_only_what_is_not_known_yet(
    built: BuiltTable, truth: dict[str | None, Any], order: tuple[str, ...]
) -> None:
    reads = Reads(built, ManifestCache())
    for where in (*order, None, *order):
        assert content(reads.plan(where)) == truth[where], where
        reads.paths.clear()
    for where in WHERE[:4]:
        assert content(reads.plan(where)) == truth[where]
    assert reads.taken() == set()


@pytest.mark.usefixtures("_small_batches")
def test_after_another_commit_only_what_is_new_is_read() -> None:
    built = grown()
    reads = Reads(built, ManifestCache())
    for number in range(4, 8):
        reads.plan("id = 15")
        reads.taken()
        grow(built, number)
        found = content(reads.plan("id = 15"))
        new = {name for name in reads.taken() if "-m0" in name}
        assert new == {f"{number:05}-m0.avro"}
        assert found == content(plan(built.metadata, built.reading(), "id = 15"))


@pytest.mark.usefixtures("_small_batches")
def test_the_past_is_planned_with_what_the_present_has_left(built: BuiltTable) -> None:
    reads = Reads(built, ManifestCache())
    reads.plan("id = 15")
    reads.taken()
    for snapshot in built.metadata.snapshots:
        found = plan(built.metadata, reads.reading, "id = 15", snapshot.snapshot_id)
        fresh = plan(built.metadata, built.reading(), "id = 15", snapshot.snapshot_id)
        assert content(found) == content(fresh)


@pytest.mark.parametrize("size", [0, 1, 1000, 5000, 20_000])
@pytest.mark.usefixtures("_small_batches")
def test_a_small_cache_lets_go_and_stays_right(
    built: BuiltTable, truth: dict[str | None, Any], size: int
) -> None:
    cache = ManifestCache(size)
    reads = Reads(built, cache)
    for where in (*WHERE, *WHERE):
        assert content(reads.plan(where)) == truth[where]
        assert cache._bytes == sum(each for _, each in cache._kept.values()) <= size


def test_what_was_used_last_is_kept() -> None:
    cache = ManifestCache(100)
    for n in range(10):
        cache.put((n,), f"value {n}", 10)
    assert cache.get((0,)) == "value 0"
    cache.put((10,), "value 10", 15)
    assert [n for n in range(11) if cache.get((n,)) is None] == [1, 2]
    cache.put((3,), "other", 10)
    assert cache.get((3,)) == "other"
    cache.put((99,), "too large", 101)
    assert cache.get((99,)) is None
    assert repr(cache) == "ManifestCache(9 entries, 95 bytes)"


def test_many_threads_plan_at_once(built: BuiltTable, truth: dict[str | None, Any]) -> None:
    for size in (5000, 10**8):
        reads = Reads(built, ManifestCache(size))
        start = threading.Barrier(8)

        def work(n: int, reads: Reads = reads, start: threading.Barrier = start) -> list[bool]:
            start.wait()
            order = WHERE[n % 5 :] + WHERE[: n % 5]
            return [content(reads.plan(where)) == truth[where] for where in order]

        with ThreadPoolExecutor(8) as pool:
            assert all(all(each) for each in pool.map(work, range(8)))


# On disk


def test_the_next_process_reads_no_manifests(
    built: BuiltTable, truth: dict[str | None, Any], tmp_path: Path
) -> None:
    first = Reads(built, ManifestCache(shelf=FolderShelf(tmp_path)))
    first.plan("id = 15")
    first.plan("s < 's2'")
    second = Reads(built, ManifestCache(shelf=FolderShelf(tmp_path)))
    for where in ("id = 15", "s < 's2'", None):
        assert content(second.plan(where)) == truth[where]
    assert second.taken() == set()


def spoil(place: Path, how: str) -> None:
    data = place.read_bytes()
    match how:
        case "empty":
            place.write_bytes(b"")
        case "half":
            place.write_bytes(data[: len(data) // 2])
        case "no end":
            place.write_bytes(data[:-1])
        case "zeros":
            place.write_bytes(bytes(len(data)))
        case "zeros after the first block":
            place.write_bytes(data[:512] + bytes(len(data) - 512))
        case "other":
            place.write_bytes(b"ARROW1\0\0 but nothing else")
        case "folder":
            place.unlink()
            place.mkdir()


@pytest.mark.parametrize(
    "how", ["empty", "half", "no end", "zeros", "zeros after the first block", "other", "folder"]
)
def test_broken_files_on_disk_do_no_harm(
    built: BuiltTable, truth: dict[str | None, Any], tmp_path: Path, how: str
) -> None:
    Reads(built, ManifestCache(shelf=FolderShelf(tmp_path))).plan("id = 15")
    for place in tmp_path.iterdir():
        spoil(place, how)
    reads = Reads(built, ManifestCache(shelf=FolderShelf(tmp_path)))
    assert content(reads.plan("id = 15")) == truth["id = 15"]
    assert len(reads.taken()) == 7


def test_what_another_release_has_left_on_disk_is_not_taken_for_ours(
    built: BuiltTable, truth: dict[str | None, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lacks a column which plans have by now made every plan fail, for good."""
    Reads(built, ManifestCache(shelf=FolderShelf(tmp_path))).plan("id = 15")
    for place in tmp_path.iterdir():
        with pa.ipc.open_file(place.read_bytes()) as file:
            table = file.read_all()
        with pa.ipc.new_file(place, table.select([0]).schema) as writer:
            writer.write_table(table.select([0]))
    monkeypatch.setattr(manifest_cache, "LAYOUT", manifest_cache.LAYOUT + 1)
    reads = Reads(built, ManifestCache(shelf=FolderShelf(tmp_path)))
    assert content(reads.plan("id = 15")) == truth["id = 15"]


def test_other_columns_are_another_layout(built: BuiltTable, tmp_path: Path) -> None:
    """When this fails, what is kept has changed: raise ``LAYOUT``, and then change what is said here."""
    Reads(built, ManifestCache(shelf=FolderShelf(tmp_path))).plan("id = 15")
    found = set()
    for place in tmp_path.iterdir():
        with pa.ipc.open_file(place.read_bytes()) as file:
            found.add(frozenset(file.schema.names))
    entry = {"status", "snapshot_id", "sequence_number", "file_sequence_number", "spec_id", "partition"}
    both = {"content", "file_path", "file_format", "record_count", "file_size_in_bytes", "key_metadata"}
    gone = {"equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes", "first_row_id"}
    facts = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    assert manifest_cache.LAYOUT == 1
    assert found == {
        frozenset(LIST_COLUMNS.names),
        frozenset((entry | both) | {"first_row_id"}),
        frozenset(entry | both | gone),
        *(frozenset(f"{each}.{field_id}" for each in facts) for field_id in (1, 2147483546)),
    }


def test_a_full_disk_is_no_error(
    built: BuiltTable, truth: dict[str | None, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = FolderShelf(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pyarrow.ipc.RecordBatchFileWriter.write_table", full)
    reads = Reads(built, ManifestCache(shelf=shelf))
    for where in WHERE:
        assert content(reads.plan(where)) == truth[where]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_vanishes_is_no_error(
    built: BuiltTable, truth: dict[str | None, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    shelf = FolderShelf(folder)
    folder.rmdir()
    reads = Reads(built, ManifestCache(shelf=shelf))
    assert content(reads.plan("id = 15")) == truth["id = 15"]
