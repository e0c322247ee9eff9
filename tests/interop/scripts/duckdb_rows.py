"""Which rows DuckDB finds: the question holds rows and conditions as SQL, the answer numbers of rows."""

from __future__ import annotations

import json
import sys

import duckdb

question = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute(f"CREATE TABLE t ({question['columns']})")
connection.execute(f"INSERT INTO t VALUES {', '.join(question['rows'])}")  # noqa: S608
found = [
    sorted(row for (row,) in connection.execute(f"SELECT n FROM t WHERE {condition}").fetchall())  # noqa: S608
    for condition in question["conditions"]
]
json.dump(found, sys.stdout)
