"""DuckDB, reading a table with deletes: ``python -m bench._deleted_by_duckdb METADATA ROUNDS``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg

metadata, rounds = sys.argv[1:]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    [extension] = Path(module.__file__).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))
found = []
for _ in range(int(rounds)):
    start = time.perf_counter()
    query = f"SELECT sum(id), sum(k), sum(v), count(*) FROM iceberg_scan('{metadata}')"  # noqa: S608
    [(*_, count)] = connection.execute(query).fetchall()
    found.append(time.perf_counter() - start)
print(count, min(found))
