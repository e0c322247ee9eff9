"""Tables and rows of every type, for the tests of what writes and reads files."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa

from lakeplane.files.align import align_arrow
from lakeplane.files.target import FileFormat, WriteTarget
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import UNPARTITIONED, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)

NAN = float("nan")
POINT = bytes.fromhex("0101000000000000000000F03F0000000000000040")
UTC = dt.UTC

PLAIN: dict[str, tuple[Type, list[Any]]] = {
    "boolean": (BOOLEAN, [True, False]),
    "int": (INT, [-(2**31), 2**31 - 1]),
    "long": (LONG, [-(2**63), 2**63 - 1]),
    "float": (FLOAT, [-0.0, 1.5]),
    "double": (DOUBLE, [float("-inf"), 0.1]),
    "decimal_9_2": (Decimal(9, 2), [Number("-9999999.99"), Number("0.01")]),
    "decimal_18_3": (Decimal(18, 3), [Number("-999999999999999.999"), Number("0.001")]),
    "decimal_38_0": (Decimal(38, 0), [Number("-9" * 1 + "9" * 37), Number(1)]),
    "decimal_20_20": (Decimal(20, 20), [Number("-0.00000000000000000001"), Number("0.5")]),
    "date": (DATE, [dt.date(1, 1, 1), dt.date(2026, 2, 3)]),
    "time": (TIME, [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "timestamp": (
        TIMESTAMP,
        [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2026, 1, 1, 0, 0, 0, 999999)],  # noqa: DTZ001
    ),
    "timestamptz": (
        TIMESTAMPTZ,
        [dt.datetime(1950, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 1, UTC)],
    ),
    "string": (STRING, ["", "žluťoučký 🐎"]),
    "uuid": (UUID, [uuid.UUID(int=0), uuid.UUID(int=2**128 - 2)]),
    "fixed": (Fixed(5), [b"\0\0\0\0\0", b"\xff\x01abc"]),
    "binary": (BINARY, [b"", b"\xff\x00"]),
}
NEW: dict[str, tuple[Type, list[Any]]] = {
    "timestamp_ns": (TIMESTAMP_NS, [-(10**9), 1_767_225_600_000_000_001]),
    "timestamptz_ns": (TIMESTAMPTZ_NS, [-(10**9), 1_767_225_600_000_000_001]),
    "unknown": (UNKNOWN, [None, None]),
    "variant": (VARIANT, [{"metadata": b"\x01\0\0", "value": b"\x0c\x01"}] * 2),
    "geometry": (Geometry("EPSG:3857"), [POINT, POINT]),
    "geography": (Geography("OGC:CRS84", "karney"), [POINT, POINT]),
}
"""Types of format version 3."""

NESTED: dict[str, tuple[Type, list[Any]]] = {
    "struct": (
        Struct((Field(21, "a", INT, required=True), Field(22, "b", UUID))),
        [{"a": 1, "b": uuid.UUID(int=5).bytes}, {"a": -1, "b": None}],
    ),
    "list": (List(31, TIMESTAMPTZ), [[dt.datetime(2026, 1, 1, tzinfo=UTC), None], []]),
    "required_list": (List(32, LONG, element_required=True), [[1, 2], [3]]),
    "map": (Map(41, STRING, 42, DOUBLE), [[("a", 1.5), ("b", None)], []]),
    "map_of_ints": (Map(43, INT, 44, STRING, value_required=True), [[(1, "x")], [(2, "y")]]),
    "deep": (
        List(51, Struct((Field(52, "m", Map(53, STRING, 54, List(55, Decimal(9, 2)))),))),
        [[{"m": [("k", [Number("1.25"), None])]}, {"m": None}, None], [{"m": []}]],
    ),
}


def column(type_: Type, values: list[Any]) -> pa.Array:
    """Values of Python as a column of a type."""
    return build(to_arrow(Schema((Field(1, "x", type_),))).field(0).type, values)


def build(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    """An array, also of types that pyarrow makes no arrays of."""
    if isinstance(arrow, pa.BaseExtensionType):
        raw = [each.bytes if isinstance(each, uuid.UUID) else each for each in values]
        return pa.ExtensionArray.from_storage(arrow, pa.array(raw, arrow.storage_type))
    return pa.array(values, _storage(arrow))


def _storage(arrow: pa.DataType) -> pa.DataType:
    match arrow:
        case pa.StructType():
            return pa.struct([pa.field(each.name, _storage(each.type)) for each in arrow])
        case pa.ListType():
            return pa.list_(pa.field("element", _storage(arrow.value_type)))
        case pa.MapType():
            return pa.map_(_storage(arrow.key_type), _storage(arrow.item_type))
        case pa.BaseExtensionType():
            return arrow.storage_type
        case _:
            return arrow


def sample(types: dict[str, tuple[Type, list[Any]]]) -> tuple[Schema, pa.Table]:
    """A schema with a column of each type, and its values with a null between them."""
    fields = [Field(100 + at, name, type_) for at, (name, (type_, _)) in enumerate(types.items())]
    schema = Schema((Field(1, "id", LONG, required=True), *fields))
    columns = {name: column(type_, [one, None, two]) for name, (type_, (one, two)) in types.items()}
    rows = pa.table({"id": pa.array([1, 2, 3]), **columns})
    aligned = align_arrow(schema, rows)
    assert isinstance(aligned, pa.Table)
    return schema, aligned


def target(
    schema: Schema,
    *,
    file_format: FileFormat = "parquet",
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    location: str = "/lake/t",
    properties: dict[str, str] | None = None,
) -> WriteTarget:
    """A target of a write."""
    return WriteTarget(
        schema=schema,
        spec=spec,
        sort_order=order,
        properties=FrozenDict(properties or {}),
        format_version=3,
        location=location,
        file_format=file_format,
        run_id="run",
    )
