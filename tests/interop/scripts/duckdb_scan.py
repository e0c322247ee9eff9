"""The ids that DuckDB finds in Iceberg tables: for each metadata file, for each condition in SQL."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg


def connect() -> duckdb.DuckDBPyConnection:
    """A connection with the extension for Iceberg, loaded from its package."""
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = duckdb.connect(config=settings)
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        for extension in Path(package.__path__[0]).rglob("*.duckdb_extension"):
            connection.load_extension(str(extension))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def main() -> None:
    """Answer one question."""
    connection = connect()
    found = []
    for metadata, conditions in json.load(sys.stdin):
        text = f"SELECT id FROM iceberg_scan('{metadata}') WHERE "  # noqa: S608
        answers = [connection.execute(text + (each or "TRUE")).fetchall() for each in conditions]
        found.append([sorted(number for (number,) in rows) for rows in answers])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
