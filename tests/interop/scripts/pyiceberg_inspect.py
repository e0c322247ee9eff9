"""Metadata tables by PyIceberg, of tables that it has made itself and of others.

The question is the directory to work in, and the metadata files of the others. Each metadata table becomes
an Arrow file there; the answer names the metadata file of each table, the metadata tables, and a snapshot of
the past.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

question = json.load(sys.stdin)
directory = Path(question["directory"])
catalog = SqlCatalog("peer", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
catalog.create_namespace("ns")

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "region", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "amount", DecimalType(9, 2)),
    NestedField(5, "share", DoubleType()),
    NestedField(6, "small", IntegerType()),
    NestedField(7, "day", DateType()),
    NestedField(8, "clock", TimeType()),
    NestedField(9, "local", TimestampType()),
    NestedField(10, "raw", BinaryType()),
    NestedField(11, "tag", FixedType(4)),
    NestedField(12, "flag", BooleanType()),
    NestedField(13, "ratio", FloatType()),
)
OF_A_SNAPSHOT = ("entries", "files", "data_files", "delete_files", "partitions")
OF_THE_TABLE = (
    *("snapshots", "history", "refs", "manifests", "metadata_log_entries"),
    *("all_manifests", "all_files", "all_data_files", "all_delete_files"),
)


def rows(schema: pa.Schema, start: int, count: int) -> pa.Table:
    """Rows with a null and a NaN in them, as columns of the schema."""
    begin = dt.datetime(2024, 2, 28, 22, tzinfo=dt.UTC)
    columns: dict[str, list[Any]] = {
        "id": list(range(start, start + count)),
        "region": [("eu", "us", None)[n % 3] for n in range(count)],
        "at": [begin + dt.timedelta(hours=start + n) for n in range(count)],
        "amount": [decimal.Decimal(n - start) / 4 for n in range(count)],
        "share": [float("nan") if n == 1 else n / 8 for n in range(count)],
        "small": [-n if n else None for n in range(count)],
        "day": [dt.date(1969, 12, 30) + dt.timedelta(days=n) for n in range(count)],
        "clock": [dt.time(n, 30) for n in range(count)],
        "local": [
            dt.datetime(1960, 1, 1, microsecond=n, tzinfo=dt.UTC).replace(tzinfo=None) for n in range(count)
        ],
        "raw": [bytes([n, 255, n]) for n in range(count)],
        "tag": [bytes([n, 0, 255, n]) for n in range(count)],
        "flag": [bool(n % 2) for n in range(count)],
        "ratio": [n / 4 for n in range(count)],
        "note": [f"a note of more than sixteen characters, number {n}" for n in range(count)],
    }
    return pa.table([pa.array(columns[each.name], each.type) for each in schema], schema=schema)


def append(table: Table, start: int, count: int) -> None:
    """Append rows in the table's own schema."""
    table.append(rows(table.schema().as_arrow(), start, count))


def partitioned() -> Table:
    """Appends, a delete that rewrites files, another schema and spec, a branch and a tag."""
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "region"),
        PartitionField(3, 1001, DayTransform(), "at_day"),
    )
    table = catalog.create_table("ns.parts", SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    append(table, 0, 6)
    append(table, 40, 3)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_branch(
        first, "audit", max_ref_age_ms=10**12, max_snapshot_age_ms=10**11, min_snapshots_to_keep=2
    ).commit()
    table.manage_snapshots().create_tag(first, "first", max_ref_age_ms=10**12).commit()
    table.delete("id = 2")
    with table.update_schema() as schema:
        schema.add_column("note", StringType())
        schema.rename_column("small", "little")
    with table.update_spec() as update:
        update.remove_field("at_day")
        update.add_field("id", BucketTransform(4), "id_bucket")
        update.add_field("amount", TruncateTransform(10), "amount_trunc")
    columns = [("little" if each == "small" else each) for each in SCHEMA.column_names] + ["note"]
    assert table.schema().column_names == columns
    arrow = table.schema().as_arrow()
    renamed = pa.schema([each.with_name("small") if each.name == "little" else each for each in arrow])
    table.append(rows(renamed, 100, 4).rename_columns(arrow.names))
    return table


def plain() -> Table:
    """A table without partitions: appended to, and rolled back by a delete of everything."""
    table = catalog.create_table("ns.plain", SCHEMA, properties={"format-version": "2"})
    append(table, 0, 5)
    append(table, 5, 5)
    table.delete("id >= 5")
    return table


def empty() -> Table:
    """A table without a snapshot."""
    return catalog.create_table("ns.empty", SCHEMA, properties={"format-version": "2"})


def store(table: pa.Table) -> str:
    """Write a metadata table to a file of its own, and tell its path."""
    place = directory / f"{uuid.uuid4()}.arrow"
    with pa.OSFile(str(place), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    return str(place)


def inspect(table: Table) -> dict[str, Any]:
    """All metadata tables of a table, and some of its first snapshot."""
    found = {name: store(getattr(table.inspect, name)()) for name in OF_THE_TABLE}
    past = None
    if table.metadata.snapshots:
        found |= {name: store(getattr(table.inspect, name)()) for name in OF_A_SNAPSHOT}
        past = table.metadata.snapshots[0].snapshot_id
        found |= {f"{name}@": store(getattr(table.inspect, name)(past)) for name in OF_A_SNAPSHOT}
    return {"metadata": table.metadata_location, "past": past, "tables": found}


tables = {"parts": partitioned(), "plain": plain(), "empty": empty()}
tables |= {name: StaticTable.from_metadata(place) for name, place in question["others"].items()}
json.dump({name: inspect(table) for name, table in tables.items()}, sys.stdout)
