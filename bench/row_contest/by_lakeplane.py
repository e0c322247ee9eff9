"""lakeplane, in turn with Spark itself doing the same work on the same files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakeplane as lp
from bench.row_contest.rules import COLUMNS, MODES, STATEMENTS, chosen, in_turn_from, source_sql
from bench.spark_contest.arena import AGGREGATE, answer, drain, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

scratch, rounds, shares, version = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
QUESTION = AGGREGATE["flat"]
spark = session(scratch)
lake = lp.connect(f"{scratch}/warehouse", spark=spark)
lake.create_namespace("bench")
flat = spark.read.parquet(f"{scratch}/source/flat")
flat.createOrReplaceTempView("flat")
table = lake.create_table("bench.flat", flat.schema, properties={"format-version": version})
base = table.append(flat).snapshot_id
files = table.inspect("files")["file_path"].to_pylist()
rows = flat.count()


def ours(statement: str, mode: Any, share: int, source: DataFrame) -> None:
    """Change rows of the table."""
    if statement == "delete":
        table.delete(chosen(share), mode=mode)
    elif statement == "update":
        table.update({"amount": "amount + 1"}, chosen(share), mode=mode)
    else:
        begun = table.merge(source, "t.id = s.id", mode=mode)
        begun.when_matched_update().when_not_matched_insert().execute()


def plain(statement: str, mode: str, share: int, source: DataFrame) -> None:
    """The work that cannot be spared: find the rows, and write what has to be written."""
    found, folder = spark.read.parquet(*files), f"{scratch}/plain"
    hit = chosen(share)
    changed = found.withColumn("amount", found["amount"] + 1)
    if statement == "delete" and mode == "merge-on-read":
        drain(found.where(hit).select("_metadata.file_path", "_metadata.row_index"))
        return
    if statement == "delete":
        out = found.where(f"NOT ({hit})")
    elif statement == "update":
        out = changed.where(hit)
        if mode == "copy-on-write":
            out = out.unionByName(found.where(f"NOT ({hit})"))
    elif mode == "copy-on-write":
        out = found.join(source, "id", "left_anti").unionByName(source)
    else:
        drain(found.select("id", "_metadata.row_index").join(source.select("id"), "id", "left_semi"))
        out = source
    out.write.mode("overwrite").option("compression", "zstd").parquet(folder)


def read() -> Any:
    """Ask the table as it is now."""
    return table.read().selectExpr(*QUESTION).collect()


def measure(statement: str, mode: str, share: int) -> dict[str, dict[str, float]]:
    """One cell."""
    source = spark.read.parquet(f"{scratch}/merge_{share}")
    return in_turn_from(
        rounds,
        {
            "plain": (lambda: plain(statement, mode, share, source), lambda: None, lambda: None),
            "lakeplane": (
                lambda: ours(statement, mode, share, source),
                read,
                lambda: table.set_current_snapshot(base or 0),
            ),
        },
    )


for share in shares:
    if not Path(f"{scratch}/merge_{share}").exists():
        spark.sql(source_sql(share, rows)).select(*COLUMNS).write.parquet(f"{scratch}/merge_{share}")
drain(flat)
answer(
    {
        f"{statement} {mode} {share / 10:g}%": measure(statement, mode, share)
        for share in shares
        for statement in STATEMENTS
        for mode in MODES
    }
)
