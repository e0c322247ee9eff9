"""A lake with some rows, and the same rows in plain Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakeplane as lp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakeplane.lake import Lake

ORDERS = "id BIGINT, region STRING, amount DECIMAL(10, 2), at TIMESTAMP, place STRUCT<x: INT, y: STRING>"


def orders_of(spark: SparkSession, count: int = 24) -> DataFrame:
    """Rows with nulls in all columns but the first."""
    return spark.range(count).selectExpr(
        "id",
        "CASE id % 4 WHEN 0 THEN 'EU' WHEN 1 THEN 'US' WHEN 2 THEN 'APAC' END AS region",
        "IF(id % 5 = 0, NULL, CAST(id * 1.25 AS DECIMAL(10, 2))) AS amount",
        "timestampadd(HOUR, CAST(id * 7 AS INT), TIMESTAMP '2026-01-01 00:00:00') AS at",
        "IF(id % 6 = 0, NULL, named_struct('x', CAST(id % 3 AS INT), 'y', concat('y', id))) AS place",
    )


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    """An empty lake with a namespace."""
    made = lp.connect("memory:", warehouse=tmp_path / "lake", spark=spark)
    made.create_namespace("shop")
    return made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    """A lake with tables that tests do not change; views ``orders_`` and ``items_`` hold the same rows."""
    folder = tmp_path_factory.mktemp("shop")
    made = lp.connect(folder / "lake", spark=spark)
    made.create_namespace("shop")
    orders = made.create_table("shop.orders", ORDERS, partition_by=["days(at)", "region"])
    rows = orders_of(spark)
    rows.write.parquet(str(folder / "orders"))
    orders.append(rows)
    items = spark.range(40).selectExpr(
        "id", "id % 30 AS order_id", "concat('sku', id % 7) AS sku", "id % 4 AS n"
    )
    items.write.parquet(str(folder / "items"))
    made.create_table("shop.items", "id BIGINT, order_id BIGINT, sku STRING, n BIGINT").append(items)
    for name in ("orders", "items"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(f"{name}_")
    yield made
    for name in ("orders", "items"):
        spark.catalog.dropTempView(f"{name}_")
