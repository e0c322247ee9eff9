"""Tables that DuckDB writes and deletes from, through a REST catalog: the question is the server's address.

The answer tells of each table its name, and the rows that DuckDB finds in the end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb_extension_httpfs
from duckdb_scan import connect  # type: ignore[import-not-found] # beside this file

TABLES = {
    "positions": "WITH ('format-version' = '2')",
    "positions_parted": "PARTITIONED BY (part) WITH ('format-version' = '2')",
    "vectors": "WITH ('format-version' = '3')",
    "vectors_parted": "PARTITIONED BY (part) WITH ('format-version' = '3')",
}
STEPS = (
    "INSERT INTO {} SELECT i, 'n' || i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM range(5000) t(i)",
    "INSERT INTO {} SELECT i, NULL, 'a' FROM range(5000, 5010) t(i)",
    "DELETE FROM {} WHERE id % 10 = 3 OR id BETWEEN 1000 AND 1999",
    "INSERT INTO {} SELECT i, 'n' || i, 'b' FROM range(6000, 6010) t(i)",
    "DELETE FROM {} WHERE id IN (4, 5007, 6001)",
    "UPDATE {} SET name = 'new' WHERE id = 5",
)

uri: str = json.load(sys.stdin)
connection = connect()
for extension in Path(duckdb_extension_httpfs.__path__[0]).rglob("*.duckdb_extension"):
    connection.load_extension(str(extension))
connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
connection.execute("CREATE SCHEMA lake.ns")
found = {}
for name, how in TABLES.items():
    table = f"lake.ns.{name}"
    connection.execute(f"CREATE TABLE {table} (id BIGINT, name VARCHAR, part VARCHAR) {how}")
    for step in STEPS:
        connection.execute(step.format(table))
    found[name] = sorted(connection.execute(f"FROM {table}").fetchall())
json.dump(found, sys.stdout)
