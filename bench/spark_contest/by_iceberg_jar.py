"""Iceberg's own runtime for Spark, reading lakeplane's tables and writing its own."""

from __future__ import annotations

import json
import sys

from bench.spark_contest.arena import AGGREGATE, answer, drain, in_turn, session

scratch, rounds, kinds, jar = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
CATALOG = "spark.sql.catalog.lake"

spark = session(
    scratch,
    **{
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": f"{scratch}/warehouse",
        f"{CATALOG}.cache-enabled": "false",
    },
)


def measure(kind: str) -> dict[str, dict[str, float]]:
    """Write, then scan, then aggregate."""
    source = spark.read.parquet(f"{scratch}/source/{kind}")
    drain(source)
    mine, theirs = f"lake.bench.{kind}_of_jar", f"lake.bench.{kind}"
    source.limit(0).writeTo(mine).create()
    return {
        "write": in_turn(rounds, jar=lambda: source.writeTo(mine).overwritePartitions()),
        "scan": in_turn(rounds, jar=lambda: drain(spark.table(theirs))),
        "aggregate": in_turn(rounds, jar=lambda: spark.table(theirs).selectExpr(*AGGREGATE[kind]).collect()),
    }


answer({each: measure(each) for each in kinds})
