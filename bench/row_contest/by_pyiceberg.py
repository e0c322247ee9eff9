"""PyIceberg's upsert, which is its MERGE: copy-on-write, on a table of its own of version 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from bench.spark_contest.arena import answer, timed

scratch, shares = sys.argv[1], json.loads(sys.argv[2])
catalog = SqlCatalog("bench", uri=f"sqlite:///{scratch}/py.db", warehouse=f"file://{scratch}/py")
catalog.create_namespace("bench")
rows = pq.read_table(f"{scratch}/source/flat")
table = catalog.create_table("bench.flat", rows.schema)
for part in sorted(Path(scratch, "source", "flat").glob("*.parquet")):
    table.append(pq.read_table(part))
del rows
share = shares[0]
source = pq.read_table(f"{scratch}/merge_{share}")
spent = timed(lambda: table.upsert(source, join_cols=["id"]))
answer({f"merge copy-on-write {share / 10:g}%": {"PyIceberg": {"change": spent}}})
