"""Tables whose manifests, deletes and vectors are ours, over real Parquet files, as others read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST, FILE_COLUMNS
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.plan import plan
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.transforms import Identity
from lakeplane.model.types import LONG, STRING, Field
from lakeplane.model.value_bytes import to_bytes
from lakeplane.testing.tables import BuiltTable, Entries
from tests.interop.peers import ask
from tests.interop.plain_rows import ids, local, reading

COLUMNS: Final = Schema((Field(1, "id", LONG), Field(2, "cat", STRING), Field(3, "s", STRING)))
BY_CAT: Final = PartitionSpec(0, (PartitionField((2,), 1000, "cat", Identity()),))
PLACES: Final = Schema((METADATA_COLUMNS["file_path"], METADATA_COLUMNS["pos"]))
CONDITIONS: Final = [
    "",
    "id >= 25",
    "id = 13",
    "cat = 'a'",
    "cat = 'b' AND id < 12",
    "cat IS NULL",
    "s = 's7'",
    "s LIKE 's1%'",
    "id > 1000",
]


class Disk:
    """A table on disk that is built commit by commit."""

    def __init__(self, folder: Path, spec: PartitionSpec, version: int, codec: str = "deflate") -> None:
        self.built = BuiltTable(COLUMNS, spec, format_version=version, location=f"file://{folder}/t")
        self.built.codec = codec
        self.partition = self.built.metadata.partition_type(0)
        self.count = 0
        for each in ("data", "metadata"):
            (folder / "t" / each).mkdir(parents=True)

    def _path(self, suffix: str) -> str:
        self.count += 1
        return f"{self.built.metadata.location}/data/{self.count}.{suffix}"

    def _entry(self, path: str, records: int, cat: str | None, **more: Any) -> dict[str, Any]:
        size = local(path).stat().st_size
        partition = {"1000": cat} if self.partition.fields else {}
        facts = {"status": 1, "file_path": path, "record_count": records, "file_size_in_bytes": size}
        return {**facts, "content": 0, "file_format": "parquet", "partition": partition, **more}

    def data(self, start: int, stop: int, cat: str | None = None) -> dict[str, Any]:
        """A data file with the ids of a range, and all that manifests tell of one."""
        table = pa.table(
            {
                "id": pa.array(range(start, stop), pa.int64()),
                "cat": pa.array([cat] * (stop - start), pa.string()),
                "s": pa.array([None if each % 5 == 4 else f"s{each}" for each in range(start, stop)]),
            }
        )
        path = self._parquet(COLUMNS, table)
        nulls = {number: table.column(number - 1).null_count for number in (1, 2, 3)}
        some = {number: nulls[number] < table.num_rows for number in (1, 2, 3)}
        bounds: list[dict[int, bytes]] = []
        for end in (min, max):
            values = {
                number: end(table.column(number - 1).drop_null().to_pylist())
                for number in (1, 2, 3)
                if some[number]
            }
            bounds.append(
                {number: to_bytes(COLUMNS.field(number).type, value) for number, value in values.items()}
            )
        return self._entry(
            path,
            table.num_rows,
            cat,
            value_counts=list(dict.fromkeys((1, 2, 3), table.num_rows).items()),
            null_value_counts=list(nulls.items()),
            lower_bounds=list(bounds[0].items()),
            upper_bounds=list(bounds[1].items()),
            sort_order_id=0,
            split_offsets=[4],
        )

    def _parquet(self, schema: Schema, table: pa.Table) -> str:
        path = self._path("parquet")
        pq.write_table(table.cast(to_arrow(schema)), local(path), store_schema=False)
        return path

    def position_deletes(
        self, *places: tuple[str, int], cat: str | None = None, named: bool
    ) -> dict[str, Any]:
        """A file with the places of deleted rows."""
        table = pa.table(
            {
                "file_path": [path for path, _ in places],
                "pos": pa.array([pos for _, pos in places], pa.int64()),
            }
        )
        path = self._parquet(PLACES, table)
        number = METADATA_COLUMNS["file_path"].id
        ends = {end: [(number, end(path for path, _ in places).encode())] for end in (min, max)}
        named_file = {"referenced_data_file": places[0][0]} if named else {}
        return self._entry(
            path, len(places), cat, content=1, lower_bounds=ends[min], upper_bounds=ends[max], **named_file
        )

    def equality_deletes(self, *ids: int, cat: str | None = None) -> dict[str, Any]:
        """A file with the ids of deleted rows."""
        path = self._parquet(Schema(COLUMNS.fields[:1]), pa.table({"id": pa.array(ids, pa.int64())}))
        return self._entry(path, len(ids), cat, content=2, equality_ids=[1], sort_order_id=0)

    def vectors(self, deleted: dict[str, list[int]], cats: dict[str, str | None]) -> list[dict[str, Any]]:
        """Deletion vectors of data files, in one file."""
        file, entries = write_vectors({path: BitMap64(positions) for path, positions in deleted.items()})
        path = self._path("puffin")
        local(path).write_bytes(file.data)
        return [
            self._entry(
                path,
                each.cardinality,
                cats[each.data_file],
                content=1,
                file_format="puffin",
                referenced_data_file=each.data_file,
                content_offset=each.offset,
                content_size_in_bytes=each.size,
            )
            for each in entries
        ]

    def entries(self, files: list[dict[str, Any]], content: int = DATA_MANIFEST) -> Entries:
        """A manifest of these files."""
        fields = [pa.field("status", pa.int32()), *(each for each in FILE_COLUMNS)]
        partition = pa.struct([(str(each.id), pa.string()) for each in self.partition.fields])
        schema = pa.schema([*fields, pa.field("partition", partition)])
        return Entries(pa.Table.from_pylist(files, schema), 0, content)

    def commit(self, *files: dict[str, Any], content: int = DATA_MANIFEST) -> None:
        self.built.commit(self.entries(list(files), content))

    def delete(self, *files: dict[str, Any]) -> None:
        self.built.commit(self.entries(list(files), DELETE_MANIFEST), operation="delete")

    def finish(self) -> str:
        """Write all to disk: the metadata file."""
        for path, data in self.built.files.items():
            local(path).write_bytes(data)
        at = f"{self.built.metadata.location}/metadata/00001-x.metadata.json"
        local(at).write_bytes(serialize_metadata(self.built.metadata))
        return at


def expected(live: dict[int, str | None]) -> list[list[int]]:
    """What each condition finds among ids with their categories, said in Python."""
    text = {number: None if number % 5 == 4 else f"s{number}" for number in live}
    tests: list[Any] = [
        lambda _: True,
        lambda number: number >= 25,
        lambda number: number == 13,
        lambda number: live[number] == "a",
        lambda number: live[number] == "b" and number < 12,
        lambda number: live[number] is None,
        lambda number: text[number] == "s7",
        lambda number: (text[number] or "").startswith("s1"),
        lambda number: number > 1000,
    ]
    return [sorted(filter(test, live)) for test in tests]


class Scene(NamedTuple):
    """A table, what each condition finds in it, and who can read it."""

    metadata: str
    answer: list[list[int]]
    readers: tuple[str, ...] = ("duckdb_scan", "pyiceberg_scan")


def three_files(
    disk: Disk, cats: tuple[str | None, ...] = ("a", "b", None)
) -> tuple[list[dict[str, Any]], dict[int, str | None]]:
    """Files of three partitions in two commits, and what is in them."""
    files = [disk.data(number * 10, number * 10 + 10, cat) for number, cat in enumerate(cats)]
    disk.commit(*files[:2])
    disk.commit(files[2], disk.data(30, 34, "a"))
    return files, {number: cats[number // 10] if number < 30 else "a" for number in range(34)}


def appended(folder: Path, spec: PartitionSpec, version: int, codec: str, *readers: str) -> Scene:
    disk = Disk(folder, spec, version, codec)
    _, live = three_files(disk)
    scene = Scene(disk.finish(), expected(live))
    return scene._replace(readers=readers or scene.readers)


def with_position_deletes(folder: Path) -> Scene:
    disk = Disk(folder, BY_CAT, 2)
    files, live = three_files(disk)
    one, two, three = (each["file_path"] for each in files)
    disk.delete(
        disk.position_deletes((one, 3), (one, 9), cat="a", named=True),
        disk.position_deletes((two, 0), (two, 1), (two, 7), cat="b", named=False),
    )
    disk.delete(disk.position_deletes((three, 5), named=False))
    disk.commit(disk.data(50, 55, "a"))
    live |= dict.fromkeys(range(50, 55), "a")
    for number in (3, 9, 10, 11, 17, 25):
        del live[number]
    return Scene(disk.finish(), expected(live))


def with_equality_deletes(folder: Path, spec: PartitionSpec, *gone: int) -> Scene:
    """Of ids that were there before, of which some are added again."""
    # DuckDB fails where the partition of such a delete meets a file whose partition is null.
    disk = Disk(folder, spec, 2)
    _, live = three_files(disk, ("a", "b", "c"))
    disk.delete(disk.equality_deletes(*gone, cat="a"))
    disk.commit(disk.data(60, 62, "a"))
    disk.delete(disk.equality_deletes(61, cat="a"))
    disk.commit(disk.data(61, 62, "a"))
    live |= {60: "a", 61: "a"}
    for number in gone:
        if spec is not BY_CAT or live[number] == "a":
            del live[number]
    return Scene(disk.finish(), expected(live), ("duckdb_scan",))  # PyIceberg reads none of them


def with_vectors(folder: Path, spec: PartitionSpec) -> Scene:
    disk = Disk(folder, spec, 3)
    files, live = three_files(disk)
    one, two, three = (each["file_path"] for each in files)
    cats = {one: "a", two: "b", three: None}
    disk.delete(*disk.vectors({one: [0, 3, 4, 5], two: [7], three: list(range(10))}, cats))
    disk.commit(disk.data(50, 55, "b"))
    live |= dict.fromkeys(range(50, 55), "b")
    for number in (0, 3, 4, 5, 17, *range(20, 30)):
        del live[number]
    return Scene(disk.finish(), expected(live))


def with_a_file_taken_out(folder: Path) -> Scene:
    """One manifest is written anew: a file of it is gone, the other keeps its numbers."""
    disk = Disk(folder, BY_CAT, 2)
    files, live = three_files(disk)
    listed = disk.built.manifests()
    first = listed[-1]
    assert first.added_files_count == 2
    table = disk.entries(files[:2]).table.set_column(0, "status", pa.array([0, 2], pa.int32()))
    for name in ("sequence_number", "file_sequence_number"):
        table = table.append_column(name, pa.array([1, 1], pa.int64()))
    table = table.append_column("snapshot_id", pa.array([first.added_snapshot_id, None], pa.int64()))
    disk.built.commit(Entries(table), operation="delete", keep=listed[:-1])
    return Scene(disk.finish(), expected({each: live[each] for each in live if not 10 <= each < 20}))


SCENES: Final[dict[str, Callable[[Path], Scene]]] = {
    "appends-v1": lambda folder: appended(folder, UNPARTITIONED, 1, "deflate"),
    "appends-v1-parted": lambda folder: appended(folder, BY_CAT, 1, "null"),
    "appends-v2": lambda folder: appended(folder, UNPARTITIONED, 2, "null"),
    "appends-v2-parted": lambda folder: appended(folder, BY_CAT, 2, "deflate"),
    "appends-v3": lambda folder: appended(folder, UNPARTITIONED, 3, "deflate"),
    "appends-v3-parted": lambda folder: appended(folder, BY_CAT, 3, "deflate"),
    # Not every reader has every codec.
    "appends-zstd": lambda folder: appended(folder, BY_CAT, 2, "zstd", "pyiceberg_scan"),
    "appends-snappy": lambda folder: appended(folder, BY_CAT, 2, "snappy", "duckdb_scan"),
    "position-deletes": with_position_deletes,
    "equality-deletes": lambda folder: with_equality_deletes(folder, UNPARTITIONED, 2, 13, 25, 31),
    "equality-deletes-parted": lambda folder: with_equality_deletes(folder, BY_CAT, 2, 31),
    # DuckDB deletes ids of other partitions as well, which the spec does not allow.
    "equality-deletes-of-one-partition": lambda folder: with_equality_deletes(
        folder, BY_CAT, 2, 13, 25, 31
    )._replace(readers=()),
    "vectors": lambda folder: with_vectors(folder, UNPARTITIONED),
    "vectors-parted": lambda folder: with_vectors(folder, BY_CAT),
    "file-taken-out": with_a_file_taken_out,
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    folder = tmp_path_factory.mktemp("ours")
    return {name: build(folder / name) for name, build in SCENES.items()}


@pytest.fixture(scope="module")
def found(scenes: dict[str, Scene]) -> dict[tuple[str, str], list[list[int]]]:
    """What each reader finds in each table; each is asked once for all."""
    answers: dict[tuple[str, str], list[list[int]]] = {}
    for reader in ("duckdb_scan", "pyiceberg_scan"):
        tables = {name: scene.metadata for name, scene in scenes.items() if reader in scene.readers}
        theirs = ask(reader, [[metadata, CONDITIONS] for metadata in tables.values()])
        answers |= {(name, reader): each for name, each in zip(tables, theirs, strict=True)}
    return answers


@pytest.mark.parametrize("name", SCENES)
def test_others_read_the_rows_that_are_left(
    scenes: dict[str, Scene], found: dict[tuple[str, str], list[list[int]]], name: str
) -> None:
    scene = scenes[name]
    for reader in scene.readers:
        assert found[name, reader] == scene.answer, reader


@pytest.mark.parametrize("name", SCENES)
def test_our_plans_find_the_rows_that_are_left(scenes: dict[str, Scene], name: str) -> None:
    metadata, answer, _ = scenes[name]
    table = parse_metadata(local(metadata).read_bytes(), source=metadata)
    assert [ids(plan(table, reading(), each or None)) for each in CONDITIONS] == answer
