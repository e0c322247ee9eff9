"""Rows as Arrow columns, and as files with partitions and statistics, as writers would make them."""

from __future__ import annotations

import math
import uuid
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from lakeplane.model.expressions.bounds import ColumnStats
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    accepts,
    apply,
    result_type,
)
from lakeplane.model.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Fixed,
    Type,
)
from lakeplane.model.value_bytes import truncate_lower, truncate_upper
from tests.model.expressions.oracle import COLUMNS, IDS, NAMES, Names, Row

ARROW: dict[Any, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    TIMESTAMP_NS: pa.timestamp("ns"),
    STRING: pa.string(),
    UUID: pa.binary(16),
}


def arrow_array(type_: Type, values: list[Any]) -> pa.Array:
    if isinstance(type_, Decimal):
        # Truncated decimals may be longer than their type.
        return pa.array(values, pa.decimal128(38, type_.scale))
    plain = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
    target = pa.binary(type_.length) if isinstance(type_, Fixed) else ARROW.get(type_, pa.binary())
    if pa.types.is_date(target) or pa.types.is_timestamp(target):
        whole = pa.array(plain, pa.int32() if pa.types.is_date(target) else pa.int64())
        return whole.cast(target)
    return pa.array(plain, target)


def columns_of(rows: list[Row]) -> dict[int, pa.Array]:
    return {IDS[name]: arrow_array(type_, [row[name] for row in rows]) for name, type_ in COLUMNS.items()}


TRANSFORMS: list[Transform] = [
    *(
        Identity(),
        Bucket(4),
        Truncate(1),
        Truncate(2),
        Truncate(3),
        Truncate(10),
        Truncate(16),
        Truncate(1000),
    ),
    *(Year(), Month(), Day(), Hour(), Void(), UnknownTransform("zorder[3]")),
]


@st.composite
def specs(draw: st.DrawFn, names: Names) -> PartitionSpec:
    fields = []
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(names))
        transform = draw(st.sampled_from([each for each in TRANSFORMS if accepts(each, COLUMNS[name])]))
        fields.append(PartitionField((IDS[name],), 1000 + number, f"p{number}", transform))
    return PartitionSpec(0, tuple(fields))


def stored_value(field: PartitionField, row: Row, *, rounded_up: bool) -> Any:
    """The partition value that a writer stores; old ones rounded negative dates and times up."""
    name = NAMES[field.source_id]
    if row[name] is None or isinstance(field.transform, UnknownTransform | Void):
        return None
    value = apply(field.transform, COLUMNS[name], row[name])
    old = rounded_up and isinstance(field.transform, Year | Month | Day | Hour) and COLUMNS[name] is not DATE
    return value + 1 if old and value < 0 else value


class File(NamedTuple):
    rows: list[Row]
    partition: tuple[Any, ...]


@st.composite
def files(draw: st.DrawFn, rows: list[Row], spec: PartitionSpec) -> list[File]:
    parted: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        rounded_up = draw(st.booleans())
        number = draw(st.integers(0, 1))
        values = tuple(stored_value(field, row, rounded_up=rounded_up) for field in spec.fields)
        same = tuple(repr(value) for value in values)
        parted.setdefault((*same, number), []).append({**row, "": values})
    return [
        File([{k: v for k, v in r.items() if k} for r in group], group[0][""]) for group in parted.values()
    ]


def partition_columns(found: list[File], spec: PartitionSpec) -> dict[int, pa.Array]:
    return {
        field.field_id: arrow_array(
            result_type(field.transform, COLUMNS[NAMES[field.source_id]]),
            [file.partition[n] for file in found],
        )
        for n, field in enumerate(spec.fields)
    }


def order_key(value: Any, *, signed_uuids: bool) -> Any:
    if isinstance(value, uuid.UUID):
        halves = value.int >> 64, value.int & (2**64 - 1)
        return tuple(half - 2**64 * (half >> 63) for half in halves) if signed_uuids else halves
    return value.encode() if isinstance(value, str) else value


class FileStats(NamedTuple):
    lower: Any = None
    upper: Any = None
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None


@st.composite
def column_stats(draw: st.DrawFn, type_: Type, values: list[Any]) -> FileStats:
    """The statistics of one column of one file, with gaps and faults as they are found in the wild."""
    if draw(st.integers(0, 5)) == 0:
        return FileStats()
    nans = sum(isinstance(value, float) and math.isnan(value) for value in values)
    ordinary = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    signed = draw(st.booleans())
    ordinary.sort(key=lambda value: order_key(value, signed_uuids=signed))
    lower, upper = (ordinary[0], ordinary[-1]) if ordinary else (None, None)
    if ordinary and isinstance(lower, str | bytes) and not isinstance(type_, Fixed) and draw(st.booleans()):
        length = draw(st.integers(1, 3))
        lower, upper = truncate_lower(type_, lower, length), truncate_upper(type_, upper, length)
    if nans and draw(st.booleans()):
        # Old Java writers gave NaN as a bound.
        lower, upper = draw(st.sampled_from([(math.nan, math.nan), (lower, math.nan)]))
    gaps = draw(st.sets(st.integers(0, 4), max_size=2))
    facts = [lower, upper, len(values), values.count(None), nans if type_ in (FLOAT, DOUBLE) else None]
    return FileStats(*(None if n in gaps else fact for n, fact in enumerate(facts)))


@st.composite
def table_stats(draw: st.DrawFn, found: list[File], names: Names) -> dict[int, ColumnStats | None]:
    result: dict[int, ColumnStats | None] = {}
    for name in names:
        type_ = COLUMNS[name]
        if draw(st.integers(0, 9)) == 0:
            result[IDS[name]] = None
            continue
        each = [draw(column_stats(type_, [row[name] for row in file.rows])) for file in found]
        lower, upper = (
            arrow_array(type_, [getattr(one, side) for one in each]) for side in ("lower", "upper")
        )
        counts = [
            pa.array([getattr(one, c) for one in each], pa.int64()) for c in ("values", "nulls", "nans")
        ]
        result[IDS[name]] = ColumnStats(lower, upper, *counts)
    return result
