"""What manifests tell of files that Spark has written."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lakeplane.model.types import DOUBLE, FLOAT, Field, Geography, Geometry, List
from lakeplane.spark.session import version_of
from tests.spark.writing import target_in, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_columns_without_nan_are_known_to_have_none(spark: SparkSession, tmp_path: Path) -> None:
    """To Parquet's own writer NaN is above all numbers: a maximum that is a number tells of none."""
    fields = (
        Field(1, "a", DOUBLE),
        Field(2, "b", FLOAT),
        Field(3, "c", DOUBLE),
        Field(4, "l", List(5, DOUBLE)),
    )
    df = spark.range(0, 100, 1, 1).selectExpr(
        "id * 1.5D AS a",
        "IF(id = 50, FLOAT('nan'), FLOAT(-id)) AS b",
        "CAST(NULL AS DOUBLE) AS c",
        "array(id * 1D, NULL) AS l",
    )
    files = written(df, target_in(tmp_path, fields, write__parquet__row_group_size_bytes="100"))
    told = files.slice(0, 1).to_pylist()[0]
    assert dict(told["nan_value_counts"]) == {1: 0, 3: 0, 5: 0}
    assert 2 not in dict(told["upper_bounds"])
    [most] = struct.unpack("<d", dict(told["upper_bounds"])[1])
    assert most == 148.5


def test_boxes_of_shapes_are_bounds(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field(1, "g", Geometry()), Field(2, "h", Geography()))
    if version_of(spark) < (4, 3):
        with pytest.raises(PySparkException, match="GEOSPATIAL_DISABLED"):
            written(spark.sql("SELECT NULL AS g, NULL AS h"), target_in(tmp_path, fields))
        return
    x = "IF(id % 2 = 0, '000000000000F03F', '0000000000000040')"
    wkb = f"unhex(concat('0101000000', {x}, '0000000000000840'))"
    df = spark.range(0, 10, 1, 1).selectExpr(
        f"IF(id = 3, NULL, st_geomfromwkb({wkb}, 4326)) AS g", f"st_geogfromwkb({wkb}) AS h"
    )
    files = written(df, target_in(tmp_path, fields))
    told = files.slice(0, 1).to_pylist()[0]
    # The box of a geography may go around the earth the other way: it has none.
    assert {each: struct.unpack("<dd", raw) for each, raw in told["lower_bounds"]} == {1: (1.0, 3.0)}
    assert {each: struct.unpack("<dd", raw) for each, raw in told["upper_bounds"]} == {1: (2.0, 3.0)}
