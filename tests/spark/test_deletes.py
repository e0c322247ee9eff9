"""Rows that are deleted, by position or by values: whoever reads a table must not see them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap64

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.model.schema import Schema
from lakeplane.model.types import DOUBLE, INT, LONG, STRING, Field, Struct
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION
from lakeplane.spark.read import Access
from tests.iceberg.built import Listed
from tests.spark.deleting import delete_by_vectors, delete_equal, delete_positions, write_file
from tests.spark.made import MadeTable, local_ranges, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID, NAME = Field(1, "id", LONG), Field(2, "name", STRING)
WAYS = [None, "paths"]
KINDS = ["PARQUET", "ORC", "AVRO"]


def access(way: Any = None) -> Access:
    return Access(local_ranges, hand_over=way)


def some(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in range(first, first + count)]


def ids(table: MadeTable, spark: SparkSession, way: Any = None, **more: Any) -> list[int]:
    return sorted(row[0] for row in table.read(spark, ["id"], access=access(way), **more).collect())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [False, True])
def test_position_delete_files(
    spark: SparkSession, tmp_path: Path, kind: str, way: Any, *, named: bool
) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    first, second = table.write(some(0, 10), row_group_size=3), table.write(some(10, 5))
    third = table.write(some(20, 2))
    table.add(first, second, third)
    pairs = [(first, 0), (first, 4), (first, 9)] + ([] if named else [(second, 2), ("file:///gone", 1)])
    row = Field(2147483544, "row", Struct((ID,))) if kind == "PARQUET" else None
    delete_positions(table, pairs, kind, row=row, named=named)
    left = set(range(15)) - {0, 4, 9} - (set() if named else {12}) | {20, 21}
    assert ids(table, spark, way) == sorted(left)
    # Files that are newer than a delete file keep their rows.
    table.append(some(30, 1))
    assert ids(table, spark, way) == [*sorted(left), 30]


@pytest.mark.parametrize("way", WAYS)
def test_deletion_vectors(spark: SparkSession, tmp_path: Path, way: Any) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    first, second = table.write(some(0, 20_000), row_group_size=5000), table.write(some(20_000, 10))
    table.add(first, second)
    # A whole chunk of positions without deletes, one that is deleted as a whole, and rows that are nowhere.
    gone = {*range(4096), 4097, 19_999}
    delete_by_vectors(table, {first: BitMap64([*gone, 2**31 + 7, 2**60]), second: BitMap64([3])})
    left = set(range(20_010)) - gone - {20_003}
    assert ids(table, spark, way) == sorted(left)
    assert ids(table, spark, way, where="id > 19995") == [*range(19_996, 19_999), *sorted(left)[-9:]]
    frame = table.read(spark, ["id", "_pos", "_row_id"], access=access(way)).where("id in (4096, 20004)")
    assert set(rows(frame)) == {(4096, 4096, 4096), (20_004, 4, 20_004)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_equality_deletes(spark: SparkSession, tmp_path: Path, kind: str, way: Any) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append([*some(0, 5), {"id": 5, "name": None}, {"id": None, "name": "n6"}])
    delete_equal(table, [{"id": 1, "name": "n1"}, {"id": 2, "name": "other"}], 1, 2, kind=kind)
    delete_equal(table, [{"name": None}, {"name": "n4"}], 2, kind=kind)
    table.append(some(1, 1))
    frame = table.read(spark, access=access(way))
    assert rows(frame) == [(0, "n0"), (1, "n1"), (2, "n2"), (3, "n3"), (None, "n6")]
    # The columns that are compared need not be asked for.
    assert ids(table, spark, way, where="id is not null") == [0, 1, 2, 3]
    assert table.read(spark, ["id"], access=access(way)).columns == ["id"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_places_of_rows(spark: SparkSession, tmp_path: Path, kind: str, way: Any) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    table.append(some(0, 4), row_group_size=2)
    path = write_file(table, [ID, NAME], some(4, 3), kind)
    table.add(Listed(path, more={"file_format": kind}))
    plan = table.plan(spark)
    files = plan.files["file_path"].to_pylist()
    more: dict[str, Any] = {"access": access(way), "placed": True}
    frame = table.read(spark, ["id"], **more)
    assert frame.columns == ["id", FILE_NUMBER, ROW_POSITION]
    other = files.index(path)
    places = [(n, 1 - other, n) for n in range(4)] + [(n, other, n - 4) for n in range(4, 7)]
    assert rows(frame) == places
    less = table.read(spark, ["id"], "name <> 'n0'", without={other: BitMap64([1])}, **more)
    assert rows(less) == [each for each in places if each[0] not in (0, 5)]
    delete_by_vectors(table, {path: BitMap64([0])})
    less = table.read(spark, ["id"], without={other: BitMap64([1]), 1 - other: BitMap64()}, **more)
    assert rows(less) == [each for each in places if each[0] not in (4, 5)]


def test_files_without_deletes_are_bare_scans(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    first, second = table.write(some(0, 4)), table.write(some(4, 4))
    table.add(first, second)
    delete_by_vectors(table, {first: BitMap64([0])})
    plan = physical(table.read(spark, ["id"], access=access()))
    assert plan.count("FileScan") == 2
    assert plan.count("Filter (") == 1


def test_keys_that_were_dropped_added_and_widened(spark: SparkSession, tmp_path: Path) -> None:
    """Deletes by a column that is gone still delete, and must not compare another column of its name."""
    count = Field(3, "count", INT)
    table = MadeTable(tmp_path, Schema((ID, NAME, count)))
    table.append([{"id": n, "name": f"n{n}", "count": n} for n in range(6)])
    delete_equal(table, [{"name": "n1"}], 2)
    delete_equal(table, [{"count": 2}], 3)
    added = Field(4, "name", LONG, initial_default=7)
    table.evolve(ID, Field(3, "count", LONG), added)
    delete_equal(table, [{"count": 3, "name": 7}, {"count": 4, "name": None}], 3, 4)
    assert rows(table.read(spark, access=access())) == [(0, 0, 7), (4, 4, 7), (5, 5, 7)]
    assert ids(table, spark) == [0, 4, 5]
    # The state before: what came later does not delete.
    first = table.built.metadata.snapshots[1].snapshot_id
    assert ids(table, spark, at=first) == [0, 2, 3, 4, 5]


def test_keys_inside_of_structs(spark: SparkSession, tmp_path: Path) -> None:
    place = Field(2, "place", Struct((Field(3, "x", LONG), Field(4, "y", STRING))))
    table = MadeTable(tmp_path, Schema((ID, place)))
    table.append([{"id": n, "place": {"x": n, "y": "y"} if n else None} for n in range(4)])
    inside = [Field(2, "place", Struct((Field(3, "x", LONG),)))]
    delete_equal(table, [{"place": {"x": 1}}, {"place": {"x": None}}], 3, fields=inside)
    assert ids(table, spark) == [2, 3]
    assert rows(table.read(spark, ["place"], access=access())) == [((2, "y"),), ((3, "y"),)]
    table.evolve(ID, Field(2, "place", Struct((Field(4, "y", STRING),))))
    assert ids(table, spark) == [2, 3]
    with pytest.raises(NotSupported, match="field x, which was dropped from place"):
        table.read(spark, access=access())


@pytest.mark.parametrize(
    ("keys", "problem"), [((5,), "a column of double"), ((77,), "no schema"), ((), "without columns")]
)
def test_keys_that_no_writer_may_use(
    spark: SparkSession, tmp_path: Path, keys: tuple[int, ...], problem: str
) -> None:
    ratio = Field(5, "ratio", DOUBLE)
    table = MadeTable(tmp_path, Schema((ID, ratio)))
    table.append([{"id": 1, "ratio": 0.5}])
    delete_equal(table, [{"ratio": 0.5}], *keys, fields=[ratio])
    with pytest.raises(InvalidMetadata, match=problem):
        table.read(spark, access=access())


def test_deletes_without_a_store_to_read_them_from(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    path = table.write(some(0, 2))
    table.add(path)
    delete_by_vectors(table, {path: BitMap64([0])})
    with pytest.raises(NotSupported, match="no store was given"):
        table.read(spark)
