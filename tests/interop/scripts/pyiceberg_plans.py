"""Tables that PyIceberg and polars fill, and how PyIceberg plans and reads them.

The question has a folder, and conditions for each table; the answer has for each table its metadata file, its
rows by their ids, and for each condition the files of the plan, with those that delete from them.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import uuid
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

question: dict[str, Any] = json.load(sys.stdin)
folder = question["folder"]
catalog = SqlCatalog("peer", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
catalog.create_namespace("ns")

TYPES = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "d", DoubleType()),
    NestedField(5, "m", DecimalType(9, 2)),
    NestedField(6, "wide", DecimalType(30, 5)),
    NestedField(7, "day", DateType()),
    NestedField(8, "t", TimeType()),
    NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()),
    NestedField(11, "s", StringType()),
    NestedField(12, "b", BinaryType()),
    NestedField(13, "fx", FixedType(4)),
    NestedField(14, "u", UUIDType()),
    NestedField(15, "flag", BooleanType()),
    NestedField(
        16, "st", StructType(NestedField(17, "x", IntegerType()), NestedField(18, "y", StringType()))
    ),
    NestedField(19, "xs", ListType(20, LongType(), element_required=False)),
    NestedField(21, "mp", MapType(22, StringType(), 23, LongType(), value_required=False)),
)
MORNING = dt.datetime(2024, 1, 1, 8, 30)  # noqa: DTZ001  # columns without a zone
LONG_TEXT = "a text of more than sixteen letters é☃𝄞 "


def row(number: int) -> dict[str, Any]:
    """One row of every type; every seventh has nulls only."""
    if number % 7 == 3:
        return {"id": number}
    at = MORNING + dt.timedelta(hours=number * 31)
    return {
        "id": number,
        "i": number * 10 - 200,
        "f": float("nan") if number % 11 == 5 else number / 8,
        "d": [float("nan"), float("inf"), -0.0, float("-inf")][number % 4]
        if number % 5 == 0
        else number * 0.1,
        "m": Decimal(number * 125 - 3000).scaleb(-2),
        "wide": Decimal(number) * 10**20 - Decimal("0.00001"),
        "day": at.date(),
        "t": dt.time(number % 24, number % 60, 1, number),
        "ts": at - dt.timedelta(days=25_000 if number % 13 == 1 else 0),
        "tz": at.replace(tzinfo=dt.UTC),
        "s": ["", "ab", "abc", f"abd{number}", LONG_TEXT + str(number), "\U0001f600"][number % 6],
        "b": bytes([255 - number % 50]) * (number % 20),
        "fx": number.to_bytes(4, "big"),
        "u": uuid.UUID(int=number << 120 | number).bytes,
        "flag": number % 2 == 0 if number > 50 else number > 20,
        "st": {"x": number, "y": f"y{number}"} if number % 3 else None,
        "xs": [number, None],
        "mp": [("k", number)],
    }


def rows(table: Table, *numbers: int) -> pa.Table:
    """Rows of the table's own types."""
    return pa.Table.from_pylist([row(number) for number in numbers], schema=table.schema().as_arrow())


def types(name: str, version: str, **properties: str) -> Table:
    """Appends of every type, and files with only nulls and only NaN."""
    table = catalog.create_table(f"ns.{name}", TYPES, properties={"format-version": version, **properties})
    for start in range(0, 60, 10):
        table.append(rows(table, *range(start, start + 10)))
    table.append(rows(table, 73, 80, 87))
    table.append(rows(table, 71, 126, 115))
    return table


COLUMNS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "cat", StringType()),
    NestedField(3, "ts", TimestampType()),
    NestedField(4, "m", DecimalType(9, 2)),
    NestedField(5, "day", DateType()),
    NestedField(6, "n", IntegerType()),
    NestedField(7, "f", FloatType()),
)


def parted_rows(table: Table, numbers: range) -> pa.Table:
    """Rows that fall into many partitions, null ones among them."""
    found = [
        {
            "id": number,
            "cat": None if number % 9 == 4 else f"{'ab' if number % 2 else 'cd'}{number % 5}",
            "ts": None if number % 8 == 6 else MORNING + dt.timedelta(hours=number * 13 - 300),
            "m": Decimal(number * 50 - 1000).scaleb(-2),
            "day": (MORNING + dt.timedelta(days=number * 11)).date(),
            "n": number % 4,
            "f": number / 4,
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(found, schema=table.schema().as_arrow())


def parted() -> Table:
    """A table whose partitioning changes all the time."""
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "cat"),
        PartitionField(3, 1001, YearTransform(), "ts_year"),
    )
    table = catalog.create_table("ns.parted", COLUMNS, partition_spec=spec)
    table.append(parted_rows(table, range(30)))
    with table.update_spec() as update:
        update.remove_field("cat").remove_field("ts_year")
        update.add_field("id", BucketTransform(4), "id_bucket").add_field("ts", MonthTransform(), "ts_month")
    table.append(parted_rows(table, range(30, 50)))
    with table.update_spec() as update:
        update.remove_field("id_bucket").remove_field("ts_month")
        update.add_field("cat", TruncateTransform(1), "cat_trunc").add_field("day", DayTransform(), "day_day")
    table.append(parted_rows(table, range(50, 60)))
    with table.update_spec() as update:
        update.remove_field("cat_trunc").remove_field("day_day")
        update.add_field("id", TruncateTransform(10), "id_trunc").add_field("ts", HourTransform(), "ts_hour")
    table.append(parted_rows(table, range(60, 70)))
    with table.update_spec() as update:
        update.remove_field("id_trunc").remove_field("ts_hour")
        update.add_field("m", BucketTransform(3), "m_bucket").add_field(
            "cat", BucketTransform(2), "cat_bucket"
        )
    table.append(parted_rows(table, range(70, 85)))
    with table.update_spec() as update:
        update.remove_field("m_bucket").remove_field("cat_bucket")
    table.append(parted_rows(table, range(85, 90)))
    return table


def changed() -> Table:
    """Rows deleted and overwritten by copies of files, columns added, renamed, widened and dropped."""
    spec = PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "n"))
    table = catalog.create_table("ns.changed", COLUMNS, partition_spec=spec)
    table.append(parted_rows(table, range(40)))
    table.delete("id in (4, 5, 6) or n = 3")
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.rename_column("cat", "kind")
        update.update_column("n", LongType())
        update.update_column("f", DoubleType())
        update.update_column("m", DecimalType(12, 2))
        update.delete_column("day")

    def more(numbers: range) -> pa.Table:
        arrow = table.schema().as_arrow()
        return pa.Table.from_pylist(
            [
                {"id": each, "kind": f"k{each}", "n": each % 3 + 2**33, "note": f"note {each}"}
                for each in numbers
            ],
            schema=arrow,
        )

    table.append(more(range(100, 110)))
    table.overwrite(more(range(200, 205)), overwrite_filter="id >= 100 and id < 104")
    table.dynamic_partition_overwrite(more(range(300, 303)))
    return table


def by_polars() -> Table:
    """What polars writes."""
    table = catalog.create_table(
        "ns.polars", Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    )
    for start in (0, 100, 200):
        frame = pl.DataFrame(
            {"id": range(start, start + 20), "s": [f"p{each % 4}" for each in range(start, start + 20)]}
        )
        frame.write_iceberg(table, mode="append")
    return table


def answer(table: Table, conditions: list[str]) -> dict[str, Any]:
    """How each condition is planned, and what is read without one."""
    plans = [
        {
            task.file.file_path: sorted(each.file_path for each in task.delete_files)
            for task in table.scan(row_filter=condition or AlwaysTrue()).plan_files()
        }
        for condition in conditions
    ]
    ids = sorted(table.scan().to_arrow()["id"].to_pylist())
    return {"metadata": table.metadata_location, "plans": plans, "ids": ids}


warnings.simplefilter("ignore")
made = {
    "types": types("types", "2"),
    "types_v1": types("types_v1", "1", **{"write.metadata.metrics.default": "full"}),
    "parted": parted(),
    "changed": changed(),
    "polars": by_polars(),
}
json.dump({name: answer(table, question["conditions"][name]) for name, table in made.items()}, sys.stdout)
