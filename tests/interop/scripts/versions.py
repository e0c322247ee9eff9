"""The versions of the oracles, and whether DuckDB has its Iceberg extension: the question is not used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyiceberg

# Loaded from their packages, so that nothing is installed into the home directory.
connection = duckdb.connect(
    config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
)
for package in (duckdb_extension_avro, duckdb_extension_iceberg):
    for extension in Path(package.__path__[0]).rglob("*.duckdb_extension"):
        connection.load_extension(str(extension))
loaded = connection.sql("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()

json.dump(
    {
        "pyiceberg": pyiceberg.__version__,
        "duckdb": duckdb.__version__,
        "extensions": sorted({name for (name,) in loaded} & {"avro", "iceberg"}),
    },
    sys.stdout,
)
