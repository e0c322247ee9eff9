"""Deleted positions of the files of a plan, against sets of pairs of a path and a position."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyroaring import BitMap64

from lakeplane.errors import InvalidMetadata, LakeplaneError, LimitExceeded, NotSupported
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.iceberg import fetch_windows
from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.manifest_schema import FILE_COLUMNS

Pairs = Sequence[tuple[str, int]]


def stored(pairs: Pairs, file_format: str, *, with_rows: bool = False) -> bytes:
    """A position delete file, as other writers make them."""
    fields = [
        pa.field(name, type_, nullable=False, metadata={"PARQUET:field_id": str(field_id)})
        for name, type_, field_id in (
            ("file_path", pa.string(), 2147483546),
            ("pos", pa.int64(), 2147483545),
        )
    ]
    columns = [pa.array([path for path, _ in pairs]), pa.array([pos for _, pos in pairs], pa.int64())]
    if with_rows:
        fields.append(pa.field("row", pa.struct([("id", pa.int64())])))
        columns.append(pa.array([{"id": pos} for _, pos in pairs], fields[-1].type))
    table, sink = pa.Table.from_arrays(columns, schema=pa.schema(fields)), io.BytesIO()
    match file_format:
        case "PARQUET":
            pq.write_table(table, sink, row_group_size=2)
        case "ORC":
            orc.write_table(table, sink)
        case "AVRO":
            named = zip(("file_path", "pos"), ("string", "long"), (2147483546, 2147483545), strict=True)
            avro: list[dict[str, Any]] = [{"name": n, "type": t, "field-id": each} for n, t, each in named]
            schema = {"type": "record", "name": "position_delete", "fields": avro}
            fastavro.writer(sink, schema, [{"file_path": path, "pos": pos} for path, pos in pairs])
    return sink.getvalue()


class World:
    """Data and delete files as plans have them, and where the latter lie."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.stored: dict[str, bytes] = {}
        self.deletes: list[dict[str, Any]] = []
        self.vectors: dict[int, int] = {}
        self.files: list[list[int]] = [[] for _ in paths]
        self.reads: list[tuple[str, int, int]] = []

    def put(self, data: bytes, rows: int, of: Sequence[int], file_format: str = "PARQUET") -> None:
        """Add a position delete file that applies to some data files."""
        path = f"s3://d/{len(self.deletes)}"
        self.stored[path] = data
        for each in of:
            self.files[each].append(len(self.deletes))
        self.deletes.append(
            {
                "file_path": path,
                "file_format": file_format,
                "record_count": rows,
                "file_size_in_bytes": len(data),
            }
        )

    def put_vectors(self, vectors: dict[int, BitMap64]) -> None:
        """Add the vectors of some data files, in one file."""
        file, told = write_vectors({self.paths[each]: vector for each, vector in vectors.items()})
        path = f"s3://d/{len(self.deletes)}.puffin"
        self.stored[path] = file.data
        for row, each in zip(vectors, told, strict=True):
            self.vectors[row] = len(self.deletes)
            self.deletes.append(
                {
                    "file_path": path,
                    "file_format": "puffin",
                    "record_count": each.cardinality,
                    "file_size_in_bytes": len(file.data),
                    "referenced_data_file": each.data_file,
                    "content_offset": each.offset,
                    "content_size_in_bytes": each.size,
                }
            )

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        self.reads += ranges
        return [self.stored[path][start:][:length] for path, start, length in ranges]

    def load(self) -> dict[int, BitMap64]:
        names = (
            *("file_path", "file_format", "record_count", "file_size_in_bytes", "key_metadata"),
            *("referenced_data_file", "content_offset", "content_size_in_bytes"),
        )
        schema = pa.schema([FILE_COLUMNS.field(each) for each in names])
        files = pa.table(
            {
                "file_path": pa.array(self.paths),
                "vector": pa.array([self.vectors.get(n) for n in range(len(self.paths))], pa.int32()),
                "position_deletes": pa.array(self.files, pa.list_(pa.int32())),
            }
        )
        return deleted_positions(files, pa.Table.from_pylist(self.deletes, schema), self.read_ranges)


def test_only_what_applies_is_deleted() -> None:
    """A delete file may speak of files that are newer than it, or gone: their rows would be lost."""
    world = World("a", "b", "c")
    world.put(stored([("a", 1), ("b", 7), ("gone", 3), ("a", 2**31 + 5)], "PARQUET"), 4, of=[0, 2])
    world.put(stored([("a", 1), ("a", 4)], "PARQUET", with_rows=True), 2, of=[0])
    assert world.load() == {0: BitMap64([1, 4, 2**31 + 5])}


def test_a_file_that_a_plan_has_twice_loses_its_rows_twice() -> None:
    world = World("a", "a")
    world.put(stored([("a", 1)], "ORC"), 1, [0, 1], "ORC")
    found = world.load()
    assert found == {0: BitMap64([1]), 1: BitMap64([1])}
    assert found[0] is not found[1]


def test_vectors_that_lie_together_are_read_at_once() -> None:
    world = World(*(f"f{n}" for n in range(50)))
    world.put_vectors({n: BitMap64([n, n + 2**33]) for n in range(50)})
    assert world.load() == {n: BitMap64([n, n + 2**33]) for n in range(50)}
    assert len(world.reads) == 1


def test_without_deletes_nothing_is_read() -> None:
    world = World("a", "b")
    assert world.load() == {}
    assert not world.reads


kinds = st.sampled_from(["PARQUET", "ORC", "AVRO"])
pairs_of = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "other"]), st.integers(0, 40)), max_size=30)


@settings(deadline=None)
@given(
    st.lists(st.tuples(kinds, pairs_of, st.sets(st.integers(0, 2)), st.booleans()), max_size=4),
    st.dictionaries(st.integers(0, 2), st.sets(st.integers(0, 2**40), min_size=1), max_size=3),
    st.integers(1, 10**6),
)
def test_any_deletes(
    given_files: list[tuple[str, list[tuple[str, int]], set[int], bool]],
    vectors: dict[int, set[int]],
    window: int,
) -> None:
    world = World("a", "b", "c")
    expected: dict[int, set[int]] = {row: set(each) for row, each in vectors.items()}
    for file_format, pairs, of, is_sorted in given_files:
        ordered = sorted(pairs) if is_sorted else pairs
        world.put(stored(ordered, file_format), len(pairs), sorted(of), file_format)
        for row in of:
            own = {pos for path, pos in pairs if path == world.paths[row]}
            if own:
                expected.setdefault(row, set()).update(own)
    if vectors:
        world.put_vectors({row: BitMap64(each) for row, each in vectors.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_windows, "WINDOW_BYTES", window)
        found = world.load()
    assert {row: set(each) for row, each in found.items()} == expected


@pytest.mark.parametrize(
    ("change", "kind", "problem"),
    [
        ({"key_metadata": b"k"}, NotSupported, "encrypted"),
        ({"content_offset": None}, InvalidMetadata, "tells None"),
        ({"content_offset": -1}, InvalidMetadata, "tells -1"),
        ({"content_size_in_bytes": 1 << 40}, LimitExceeded, "bytes, more than"),
        ({"content_size_in_bytes": 10}, InvalidMetadata, "10 bytes only"),
        ({"record_count": 3}, InvalidMetadata, "2 positions, and should have 3"),
        ({"content_offset": 5}, InvalidMetadata, "broken deletion vector"),
    ],
)
def test_vectors_that_are_not_what_manifests_tell(
    change: dict[str, Any], kind: type[LakeplaneError], problem: str
) -> None:
    world = World("a")
    world.put_vectors({0: BitMap64([1, 2])})
    world.deletes[0] |= change
    with pytest.raises(kind, match=problem) as caught:
        world.load()
    assert caught.value.source == "s3://d/0.puffin"


@pytest.mark.parametrize(
    ("data", "rows", "problem"),
    [
        (stored([("a", -1)], "PARQUET"), 1, "positions are from 0"),
        (stored([("a", 1), ("a", 2)], "PARQUET"), 1, "it has 2 rows"),
        (b"PAR1 or not", 1, "cannot be read as position deletes"),
    ],
)
def test_position_deletes_that_are_broken(data: bytes, rows: int, problem: str) -> None:
    world = World("a")
    world.put(data, rows, [0])
    with pytest.raises(InvalidMetadata, match=problem) as caught:
        world.load()
    assert caught.value.source == "s3://d/0"
