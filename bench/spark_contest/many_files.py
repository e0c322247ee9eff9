"""A table of many small files, read by lakeplane and by Spark itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lakeplane as lp
from bench.spark_contest.arena import answer, drain, in_turn, session, timed

scratch, rounds, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DDL = "id BIGINT, k INT, name STRING"

spark = session(scratch)
table = lp.connect(f"{scratch}/warehouse", spark=spark).create_table("bench.many", DDL)
source = spark.read.parquet(f"{scratch}/source/flat").select("id", "k", "name").limit(number * 20)
spread = source.repartition(number)
wrote = timed(lambda: table.append(spread, options={"distribution-mode": "none"}))
paths = table.inspect("files")["file_path"].to_pylist()
folder = str(Path(paths[0]).parent)


def plain() -> Any:
    """The folder, as Spark lists it."""
    return spark.read.schema(DDL).parquet(folder)


found = {
    "files": len(paths),
    "append": wrote,
    **{
        f"frame, {name}": seconds
        for name, seconds in in_turn(rounds, plain=plain, lakeplane=table.read).items()
    },
    **{
        f"scan, {name}": seconds
        for name, seconds in in_turn(
            rounds, plain=lambda: drain(plain()), lakeplane=lambda: drain(table.read())
        ).items()
    },
}
answer(found)
