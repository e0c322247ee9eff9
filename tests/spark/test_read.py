from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, Field
from tests.spark.made import MadeTable, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID, NAME = Field(1, "id", LONG), Field(2, "name", STRING, doc="what it is called")


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    made = MadeTable(tmp_path, Schema((ID, NAME)))
    made.append([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
    made.append([{"id": 3, "name": "c"}])
    return made


def test_an_ordinary_table_is_a_bare_scan(spark: SparkSession, table: MadeTable) -> None:
    frame = table.read(spark)
    assert rows(frame) == [(1, "a"), (2, None), (3, "c")]
    assert frame.schema.simpleString() == "struct<id:bigint,name:string>"
    assert frame.schema["name"].metadata["comment"] == "what it is called"
    chosen = physical(frame.where("id > 1").select("name"))
    assert "FileScan parquet [id#" in chosen
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in chosen
    assert "Project" not in physical(frame)


def test_columns_and_conditions(spark: SparkSession, table: MadeTable) -> None:
    assert rows(table.read(spark, ["name"], "id >= 2")) == [("c",), (None,)]
    assert rows(table.read(spark, ["name", "id"], "length(name) = 1 and id < 3")) == [("a", 1)]
    assert rows(table.read(spark, where="id > 99")) == []
    assert table.read(spark, ["name"], where="id > 99").schema.simpleString() == "struct<name:string>"
