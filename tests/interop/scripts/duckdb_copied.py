"""A table that DuckDB writes by COPY: the question is its folder, the answer its metadata and its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg

ROWS = """
SELECT i::BIGINT id, (i * 10 - 200)::INTEGER i, i::FLOAT / 8 f,
    CASE i % 6 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN '-Infinity'::DOUBLE ELSE i * 0.1 END d,
    (i * 1.25 - 30)::DECIMAL(9, 2) m, i::DECIMAL(30, 5) * 100000 wide,
    DATE '2024-01-01' + i::INTEGER "day", TIME '00:00:01' + INTERVAL (i) MINUTE t,
    TIMESTAMP '2024-01-01 08:30:00' + INTERVAL (i * 31) HOUR ts,
    TIMESTAMPTZ '2024-01-01 08:30:00+00' + INTERVAL (i * 31) HOUR tz,
    CASE WHEN i % 7 = 3 THEN NULL ELSE 'abd' || i END s, ('x' || i)::BLOB b,
    ('00000000-0000-0000-0000-0000000000' || (10 + i))::UUID u, i > 20 flag,
    {'x': i::INTEGER, 'y': 'y' || i} st, [i, NULL] xs, MAP {'k': i} mp, NULL::VARCHAR empty
FROM range(60) rows(i)
"""

folder: str = json.load(sys.stdin)
connection = duckdb.connect(
    config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
)
for package in (duckdb_extension_avro, duckdb_extension_iceberg):
    for extension in Path(package.__path__[0]).rglob("*.duckdb_extension"):
        connection.load_extension(str(extension))
connection.execute(f"COPY ({ROWS}) TO '{folder}' (FORMAT iceberg)")
[metadata] = map(str, Path(folder).glob("metadata/*.metadata.json"))
files = connection.execute(f"SELECT file_path FROM iceberg_metadata('{metadata}')").fetchall()  # noqa: S608
json.dump({"metadata": metadata, "files": [path for (path,) in files]}, sys.stdout)
