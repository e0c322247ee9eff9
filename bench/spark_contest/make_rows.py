"""Make the rows: ``python -m bench.spark_contest.make_rows scratch rows``."""

from __future__ import annotations

import sys

from bench.spark_contest.arena import COLUMNS, answer, session

scratch, rows = sys.argv[1], int(sys.argv[2])
base = session(scratch).range(0, rows, 1, 8)
for kind, columns in COLUMNS.items():
    base.selectExpr(*columns).write.parquet(f"{scratch}/source/{kind}")
answer(None)
