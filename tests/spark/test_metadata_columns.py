from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeplane.errors import InvalidInput
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import LONG, STRING, UUID, Field
from lakeplane.spark.read import Access
from tests.iceberg.built import Listed
from tests.spark.made import MadeTable, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID, KIND = Field(1, "id", LONG), Field(2, "kind", STRING)
ROW_ID, WRITTEN = Field(2147483540, "_row_id", LONG), Field(2147483539, "_last_updated_sequence_number", LONG)
BY_KIND = PartitionSpec(
    0, (PartitionField((2,), 1000, "kind", Identity()), PartitionField((1,), 1001, "id_bucket", Bucket(4)))
)
WAYS = [None, "paths"]


@pytest.mark.parametrize("way", WAYS)
def test_where_rows_lie(spark: SparkSession, tmp_path: Path, way: str | None) -> None:
    table = MadeTable(tmp_path, Schema((ID, KIND)), BY_KIND)
    first = table.write(
        [{"id": n, "kind": "é b"} for n in range(3)], "kind=é%20b/{x} [1]+'.parquet", row_group_size=2
    )
    second = table.write([{"id": 9, "kind": None}], "second.parquet")
    table.add(Listed(f"file://{first}", ("é b", 1)))
    table.add(Listed(second, (None, 3)))
    access = Access(hand_over=way)  # type: ignore[arg-type]
    frame = table.read(spark, ["id", "_file", "_pos", "_spec_id", "_partition"], access=access)
    assert rows(frame) == [
        (0, f"file://{first}", 0, 0, ("é b", 1)),
        (1, f"file://{first}", 1, 0, ("é b", 1)),
        (2, f"file://{first}", 2, 0, ("é b", 1)),
        (9, second, 0, 0, (None, 3)),
    ]
    assert rows(frame.where("id = 2").select("_pos")) == [(2,)]
    assert rows(frame.where("_partition.kind is null").select("id")) == [(9,)]
    assert rows(table.read(spark, ["_file"], "id = 9", access=access)) == [(second,)]
    only = rows(table.read(spark, ["_file"], access=access))
    assert set(only) == {(f"file://{first}",), (second,)}
    assert len(only) == 4


def test_row_lineage(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID,)))
    table.append([{"id": n} for n in range(3)])
    table.append([{"id": 3}])
    # As rewrites keep them: some rows tell their own, some do not.
    moved = table.rows(
        [{"id": 4, "_row_id": 77, "_last_updated_sequence_number": None}, {"id": 5}], ID, ROW_ID, WRITTEN
    )
    table.append(moved)
    frame = table.read(spark, ["id", "_row_id", "_last_updated_sequence_number"])
    assert rows(frame) == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 77, 3), (5, 5, 3)]
    assert rows(frame.where("_row_id = 77").select("id")) == [(4,)]
    assert rows(table.read(spark, ["_row_id"], "id = 3")) == [(3,)]


def test_tables_without_row_ids_tell_none(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID,)), format_version=2)
    table.append([{"id": 1}])
    assert rows(table.read(spark, ["id", "_row_id", "_last_updated_sequence_number"])) == [(1, None, None)]


def test_partitions_of_several_specs(spark: SparkSession, tmp_path: Path) -> None:
    key = Field(3, "key", UUID)
    table = MadeTable(tmp_path, Schema((ID, KIND, key)), BY_KIND)
    table.add(Listed(table.write([{"id": 1, "kind": "a"}]), ("a", 0)))
    other = PartitionSpec(1, (PartitionField((3,), 1002, "key", Identity()),))
    table.add_spec(other)
    value = bytes(range(16))
    table.add(Listed(table.write([{"id": 2, "key": value}]), (value,)), spec_id=1)
    found = rows(table.read(spark, ["id", "_spec_id", "_partition"]))
    assert found == [(1, 0, ("a", 0, None)), (2, 1, (None, None, "00010203-0405-0607-0809-0a0b0c0d0e0f"))]


def test_a_column_of_the_table_with_such_a_name_wins(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, Field(2, "_pos", STRING))))
    table.append([{"id": 1, "_pos": "mine"}])
    assert rows(table.read(spark, ["_pos", "_file"]))[0][0] == "mine"


def test_without_them_nothing_is_joined(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, KIND)))
    table.append([{"id": 1}])
    assert "Join" in physical(table.read(spark, ["id", "_file"]))
    assert "Join" not in physical(table.read(spark, ["id", "_pos"]))
    assert "Project" not in physical(table.read(spark, ["id"]))


def test_columns_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, KIND)))
    for columns, problem in (
        (["nope"], "no column 'nope'"),
        (["id", "id"], "asked for twice"),
        ("id", "a list"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            table.read(spark, columns)
    assert table.read(spark, ["KIND", "_partition"]).columns == ["kind", "_partition"]
