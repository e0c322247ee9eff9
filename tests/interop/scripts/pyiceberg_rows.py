"""Tables written by PyIceberg: one that evolves between appends, one with partitions, one with foreign files.

The question is the directory to work in; the answer tells of each table its metadata file, and its rows.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

directory = Path(json.load(sys.stdin))
catalog = SqlCatalog("peer", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
catalog.create_namespace("ns")
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 5)  # noqa: DTZ001 - local time

columns = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "name", DecimalType(9, 2)),
    NestedField(3, "amount", StringType()),
    NestedField(4, "point", StructType(NestedField(5, "x", LongType()), NestedField(6, "y", StringType()))),
    NestedField(7, "at", TimestampType()),
    NestedField(8, "key", UUIDType()),
    NestedField(9, "tags", ListType(10, StringType(), element_required=False)),
)


def renamed_fields() -> tuple[NestedField, NestedField]:
    """The two columns with the names that they have in the end."""
    return NestedField(2, "amount", DecimalType(9, 2)), NestedField(3, "name", StringType())


def row(n: int, amount: str, name: str, x: str) -> dict[str, Any]:
    """A row with some nulls; the names of some columns change."""
    return {
        "id": n,
        amount: Decimal(n) if n % 3 else None,
        name: f"n{n}" if n % 2 else None,
        "point": {x: n, "y": "y"} if n % 4 else None,
        "at": NOON + dt.timedelta(days=n),
        "key": uuid.UUID(int=n).bytes if n % 5 else None,
        "tags": [f"t{n}"],
    }


def append(table: Any, rows: list[dict[str, Any]]) -> None:
    """Append rows in the types of the table."""
    schema = table.schema().as_arrow()
    plain = [pa.binary(16) if isinstance(each.type, pa.UuidType) else each.type for each in schema]
    stored = pa.schema([each.with_type(type_) for each, type_ in zip(schema, plain, strict=True)])
    columns = pa.Table.from_pylist(rows, schema=stored).columns
    arrays = []
    for each, column in zip(schema, columns, strict=True):
        is_key = isinstance(each.type, pa.UuidType)
        parts = (
            [pa.ExtensionArray.from_storage(each.type, part) for part in column.chunks] if is_key else None
        )
        arrays.append(column if parts is None else pa.chunked_array(parts, each.type))
    table.append(pa.table(arrays, schema=schema))


def text(value: Any) -> str | None:
    """A value as Spark's cast to a string shows it."""
    return None if value is None else str(value)


def tell(table: Any) -> dict[str, Any]:
    """Where the metadata is, and what PyIceberg reads."""
    found = []
    for each in table.scan().to_arrow().to_pylist():
        key = each["key"]
        point = each["point"] or {}
        at = each["at"].isoformat(sep=" ") if each["at"] else None
        found.append(
            [
                text(each["id"]),
                text(each["amount"]),
                each["name"],
                text(point.get("u")),
                at,
                text(uuid.UUID(bytes=key) if isinstance(key, bytes) else key),
                (each["tags"] or [None])[0],
            ]
        )
    return {"metadata": table.metadata_location, "rows": sorted(found, key=lambda each: int(each[0]))}


def evolve(table: Any) -> None:
    """Swap two names, rename inside, widen."""
    with table.update_schema() as update:
        update.rename_column("name", "spare")
        update.rename_column("amount", "name")
    with table.update_schema() as update:
        update.rename_column("spare", "amount")
        update.rename_column("point.x", "u")
    with table.update_schema() as update:
        update.update_column("id", field_type=LongType())
        update.update_column("amount", field_type=DecimalType(20, 2))
    table.refresh()


answer = {}
evolved = catalog.create_table("ns.evolved", columns, properties={"format-version": "2"})
append(evolved, [row(n, "name", "amount", "x") for n in range(1, 7)])
evolve(evolved)
append(evolved, [row(n, "amount", "name", "u") for n in range(7, 13)])
answer["evolved"] = tell(evolved)

spec = PartitionSpec(
    PartitionField(7, 1000, DayTransform(), "at_day"),
    PartitionField(3, 1001, IdentityTransform(), "text_part"),
    PartitionField(1, 1002, BucketTransform(3), "id_bucket"),
)
parted = catalog.create_table(
    "ns.partitioned", columns, partition_spec=spec, properties={"format-version": "2"}
)
append(parted, [row(n, "name", "amount", "x") for n in range(1, 7)])
evolve(parted)
append(parted, [row(n, "amount", "name", "u") for n in range(7, 13)])
answer["partitioned"] = tell(parted)

# A name mapping gives swapped names to other columns, which is not what foreign files mean.
straight = Schema(*columns.fields[:1], *renamed_fields(), *columns.fields[3:])
added = catalog.create_table("ns.added", straight, properties={"format-version": "2"})
append(added, [row(n, "amount", "name", "x") for n in range(1, 4)])
foreign = pa.Table.from_pylist(
    [{"id": n, "name": f"n{n}", "point": {"x": n, "y": ""}, "tags": ["f"]} for n in range(4, 8)],
    schema=pa.schema(
        [
            ("id", pa.int32()),
            ("name", pa.string()),
            ("point", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("tags", pa.list_(pa.string())),
        ]
    ),
)
pq.write_table(foreign, directory / "foreign.parquet")
added.add_files([f"file://{directory}/foreign.parquet"])
with added.update_schema() as update:
    update.rename_column("point.x", "u")
    update.rename_column("name", "label")
with added.update_schema() as update:
    update.rename_column("label", "name")
append(added, [row(n, "amount", "name", "u") for n in range(8, 10)])
answer["added"] = tell(added)
json.dump(answer, sys.stdout)
