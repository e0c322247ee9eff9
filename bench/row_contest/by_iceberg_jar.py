"""Iceberg's own runtime for Spark, on a table of its own with the same rows."""

from __future__ import annotations

import json
import sys

from bench.row_contest.rules import MODES, STATEMENTS, chosen, in_turn_from
from bench.spark_contest.arena import AGGREGATE, answer, drain, session

scratch, rounds, shares, version, jar = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), *sys.argv[4:6]
QUESTION = ", ".join(AGGREGATE["flat"])
CATALOG = "spark.sql.catalog.lake"
TABLE = "lake.bench.flat_of_jar"

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
flat = spark.read.parquet(f"{scratch}/source/flat")
drain(flat)
flat.writeTo(TABLE).tableProperty("format-version", version).create()
base = spark.sql(f"SELECT snapshot_id FROM {TABLE}.snapshots").collect()[0][0]  # noqa: S608
STATEMENT = {
    "delete": "DELETE FROM {table} WHERE {hit}",
    "update": "UPDATE {table} SET amount = amount + 1 WHERE {hit}",
    "merge": "MERGE INTO {table} t USING source s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}


def measure(statement: str, mode: str, share: int) -> dict[str, dict[str, float]]:
    """One cell."""
    spark.read.parquet(f"{scratch}/merge_{share}").createOrReplaceTempView("source")
    spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('write.{statement}.mode' = '{mode}')")
    text = STATEMENT[statement].format(table=TABLE, hit=chosen(share))
    return in_turn_from(
        rounds,
        {
            "jar": (
                lambda: spark.sql(text),
                lambda: spark.sql(f"SELECT {QUESTION} FROM {TABLE}").collect(),  # noqa: S608
                lambda: spark.sql(f"CALL lake.system.set_current_snapshot('bench.flat_of_jar', {base})"),
            )
        },
    )


answer(
    {
        f"{statement} {mode} {share / 10:g}%": measure(statement, mode, share)
        for share in shares
        for statement in STATEMENTS
        for mode in MODES
    }
)
