"""A table that PyIceberg appends to, deletes from, overwrites and upserts, with its rows after each commit.

The question is the directory to work in; the answer has the metadata file, and for each snapshot its id, its
operation and its rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

directory = Path(json.load(sys.stdin))
catalog = SqlCatalog("peer", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
catalog.create_namespace("ns")
columns = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    identifier_field_ids=[1],
)
table = catalog.create_table("ns.t", columns)
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


def rows(*found: tuple[int, str | None]) -> pa.Table:
    """Rows in the types of the table."""
    return pa.Table.from_pylist([{"id": number, "name": name} for number, name in found], ARROW)


table.append(rows(*[(n, f"n{n}") for n in range(10)]))
table.append(rows((10, None), (11, "n11")))
table.delete("id in (1, 3, 10)")
table.overwrite(rows((4, "new"), (40, "new")), "id > 3 and id < 6")
table.upsert(rows((7, "seven"), (8, "n8"), (50, "fifty")))
with table.update_schema() as update:
    update.rename_column("name", "label")
table.delete("id = 11")
states: list[dict[str, Any]] = [
    {
        "snapshot": each.snapshot_id,
        "operation": each.summary and each.summary.operation.value,
        "rows": [
            list(row.values()) for row in table.scan(snapshot_id=each.snapshot_id).to_arrow().to_pylist()
        ],
    }
    for each in table.metadata.snapshots
]
json.dump({"metadata": table.metadata_location, "states": states}, sys.stdout)
