"""All rows of Iceberg tables as other engines read them, as Arrow streams in base 64."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable


def by_pyiceberg(metadata: str) -> pa.Table:
    """The rows as PyIceberg reads them."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - only who is asked is started

    return StaticTable.from_metadata(metadata).scan().to_arrow()


def by_duckdb(metadata: str) -> pa.Table:
    """The rows as DuckDB reads them."""
    from duckdb_scan import connect  # type: ignore[import-not-found]  # noqa: PLC0415 - beside this file

    return connect().execute(f"FROM iceberg_scan('{metadata}')").to_arrow_table()


def by_polars(metadata: str) -> pa.Table:
    """The rows as polars reads them, natively."""
    import polars as pl  # noqa: PLC0415

    return pl.scan_iceberg(metadata, reader_override="native").collect().to_arrow()


ENGINES: dict[str, Callable[[str], pa.Table]] = {
    "duckdb": by_duckdb,
    "polars": by_polars,
    "pyiceberg": by_pyiceberg,
}


def main() -> None:
    """Answer one question."""
    found = []
    for engine, metadata in json.load(sys.stdin):
        rows = ENGINES[engine](metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        found.append(base64.b64encode(sink.getvalue()).decode())
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
