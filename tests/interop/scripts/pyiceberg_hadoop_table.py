"""A directory as HadoopCatalog leaves it, made from a table of PyIceberg, which itself cannot make one.

The question is the warehouse; the answer what PyIceberg reads in the table ``db/orders`` in it.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

warehouse = Path(json.load(sys.stdin))
home = warehouse / "db" / "orders"
catalog = SqlCatalog("peer", uri="sqlite:///:memory:", warehouse=f"file://{warehouse}")
catalog.create_namespace("db")
columns = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType()))
table = catalog.create_table(
    "db.orders",
    columns,
    location=f"file://{home}",
    partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name")),
    properties={"owner": "them"},
)
for ids, name in (([1, 2], "a"), ([3], "b")):
    table.append(pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([name] * len(ids))}))

newest = Path(table.metadata_location.removeprefix("file://"))
shutil.copy(newest, home / "metadata" / "v7.metadata.json")
(home / "metadata" / "version-hint.text").write_text("7", encoding="utf-8")
json.dump(
    {"uuid": str(table.metadata.table_uuid), "snapshots": [s.snapshot_id for s in table.snapshots()]},
    sys.stdout,
)
