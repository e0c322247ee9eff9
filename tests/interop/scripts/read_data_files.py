"""What other readers find in data files; each answer is a file of Arrow's IPC format.

The question has ``reads``: lists of the reader, the path, the format, the path of the answer, and for
PyIceberg the schema. The answer has the versions of the readers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record


def by_pyiceberg(path: str, file_format: str, schema: dict[str, Any]) -> pa.Table:
    wanted = Schema.model_validate(schema)
    metadata = new_table_metadata(
        wanted, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:/lake", {"format-version": "3"}
    )
    # A new table counts its ids anew: the scan has to look for those in the files.
    metadata = metadata.model_copy(update={"schemas": [wanted], "current_schema_id": wanted.schema_id})
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat(file_format.upper()),
        partition=Record(),
        record_count=3,
        file_size_in_bytes=1,
    )
    file.spec_id = 0
    scan = ArrowScan(metadata, PyArrowFileIO(), wanted, AlwaysTrue())
    return scan.to_table([FileScanTask(file)])


def read(reader: str, path: str, file_format: str, schema: dict[str, Any]) -> pa.Table:
    if reader == "pyiceberg":
        return by_pyiceberg(path, file_format, schema)
    if reader == "duckdb":
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        source = f"read_parquet('{path}')"
        columns = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()  # noqa: S608
        # Arrow has no place for these: as texts they show that they were understood.
        texts = [f'"{name}"::VARCHAR AS "{name}"' for name, type_, *_ in columns if type_ == "VARIANT"]
        replaced = f" REPLACE ({', '.join(texts)})" if texts else ""
        return connection.execute(f"SELECT *{replaced} FROM {source}").to_arrow_table()  # noqa: S608
    frame = pl.read_parquet(path) if file_format == "parquet" else pl.read_avro(path)
    return frame.to_arrow()


for reader, path, file_format, out, schema in json.load(sys.stdin)["reads"]:
    found = read(reader, path, file_format, schema)
    with pa.ipc.new_file(out, found.schema) as sink:
        sink.write_table(found)
json.dump({"duckdb": duckdb.__version__, "polars": pl.__version__}, sys.stdout)
