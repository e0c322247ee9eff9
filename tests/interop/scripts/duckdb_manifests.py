"""What DuckDB reads in manifests: by its Iceberg extension, and as plain Avro files.

The question has a metadata file and the manifests of its table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg

connection = duckdb.connect(
    config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
)
for package in (duckdb_extension_avro, duckdb_extension_iceberg):
    for extension in Path(package.__path__[0]).rglob("*.duckdb_extension"):
        connection.load_extension(str(extension))
question = json.load(sys.stdin)
found = connection.execute("SELECT * FROM iceberg_metadata(?)", [question["metadata"]])
names = [column[0] for column in found.description or ()]
listed = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
files = [
    json.loads(file)
    for place in question["manifests"]
    for (file,) in connection.execute("SELECT to_json(data_file) FROM read_avro(?)", [place]).fetchall()
]
json.dump({"listed": listed, "files": files}, sys.stdout, default=str)
