"""DuckDB, reading lakeplane's tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg

from bench.spark_contest.arena import AGGREGATE, answer, in_turn, newest

scratch, rounds, kinds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    [extension] = Path(module.__file__).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))


def measure(kind: str) -> dict[str, dict[str, float]]:
    """Scan, then aggregate."""
    rows = f"FROM iceberg_scan('{newest(scratch, kind)}')"
    question = ", ".join(AGGREGATE[kind]).replace("size(", "len(")
    return {
        "scan": in_turn(rounds, DuckDB=lambda: connection.execute(f"SELECT * {rows}").to_arrow_table()),
        "aggregate": in_turn(
            rounds, DuckDB=lambda: connection.execute(f"SELECT {question} {rows}").to_arrow_table()
        ),
    }


answer({each: measure(each) for each in kinds})
