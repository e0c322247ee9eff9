"""Parquet files by other writers: the question holds a table as Arrow IPC, and paths by writer."""

from __future__ import annotations

import json
import sys

import duckdb
import polars as pl
import pyarrow as pa

question = json.load(sys.stdin)
rows = pa.ipc.open_file(question["rows"]).read_all()
connection = duckdb.connect()
connection.register("given", rows)
connection.execute(f"COPY given TO '{question['duckdb']}' (FORMAT parquet)")
frame = pl.from_arrow(rows)
assert isinstance(frame, pl.DataFrame)
frame.write_parquet(question["polars"], statistics="full")
json.dump({}, sys.stdout)
