"""lakeplane, in turn with Spark itself on the same files."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import lakeplane as lp
from bench.spark_contest.arena import AGGREGATE, answer, drain, in_turn, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

scratch, rounds, kinds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])


def measure(spark: SparkSession, lake: lp.Lake, kind: str) -> dict[str, dict[str, float]]:
    """Write, then scan, then aggregate."""
    source = spark.read.parquet(f"{scratch}/source/{kind}")
    drain(source)
    table = lake.create_table(f"bench.{kind}", source.schema)
    plain_folder = f"{scratch}/plain"

    def plain_write() -> None:
        source.write.mode("overwrite").option("compression", "zstd").parquet(plain_folder)

    found = {"write": in_turn(rounds, plain=plain_write, lakeplane=lambda: table.overwrite(source))}
    shutil.rmtree(plain_folder)
    files = table.inspect("files")["file_path"].to_pylist()

    def plain() -> Any:
        return spark.read.parquet(*files)

    found["scan"] = in_turn(rounds, plain=lambda: drain(plain()), lakeplane=lambda: drain(table.read()))
    question = AGGREGATE[kind]
    found["aggregate"] = in_turn(
        rounds,
        plain=lambda: plain().selectExpr(*question).collect(),
        lakeplane=lambda: table.read().selectExpr(*question).collect(),
    )
    same = plain().selectExpr(*question).collect() == table.read().selectExpr(*question).collect()
    assert same, "both must read the same"
    return found


session_ = session(scratch)
lake_ = lp.connect(f"{scratch}/warehouse", spark=session_)
lake_.create_namespace("bench")
answer({each: measure(session_, lake_, each) for each in kinds})
