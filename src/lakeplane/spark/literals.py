"""Values of columns as Spark expressions: as SQL text for Spark's own defaults, and as columns."""

from __future__ import annotations

import decimal
import math
import uuid
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import NotSupported
from lakeplane.model import temporal
from lakeplane.model.types import (
    NANOS,
    Field,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakeplane.spark.types import shown_type


def sql_literal(type_: Type, value: Any) -> str:
    """A value, not nested, as an expression of Spark SQL of the type that users see.

    No session setting changes what it means: neither how strings are escaped, nor the time zone, nor ANSI.
    """
    shown = shown_type(type_).simpleString()
    if value is None:
        return f"CAST(NULL AS {shown})"
    if type_ in temporal.TYPES and type_ not in NANOS:
        return _time(type_, value)
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            # The smallest number cannot be written with its sign before it.
            return f"CAST('{value}' AS {shown})"
        case float():
            return f"CAST('{_float(value)}' AS {shown})"
        case decimal.Decimal():
            return f"CAST('{value:f}' AS {shown})"
        case str():
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        case uuid.UUID():
            return f"'{value}'"
        case bytes() if not isinstance(type_, Geometry | Geography):
            return f"X'{value.hex()}'"
        case _:
            raise NotSupported(f"a constant of type {type_}")


def _time(type_: Type, value: int) -> str:
    match type_:
        case Primitive.DATE:
            return f"date_from_unix_date({value})"
        case Primitive.TIME:
            return f"TIME'{temporal.format_time(value)}'"
        case Primitive.TIMESTAMPTZ:
            return f"timestamp_micros(CAST('{value}' AS BIGINT))"
        case _:
            return f"TIMESTAMP_NTZ'{temporal.format_timestamp(value, nanos=False, zoned=False)}'"


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def literal(type_: Type, value: Any) -> Column:
    """A value of any type as a column of the type that users see."""
    if value is None:
        return F.lit(None).cast(shown_type(type_))
    match type_:
        case Struct():
            return F.struct(
                *[literal(each.type, value.get(each.id)).alias(each.name) for each in type_.fields]
            )
        case List():
            items = F.array(*[literal(type_.element, each) for each in value])
            return items.cast(shown_type(type_))
        case Map():
            keys = F.array(*[literal(type_.key, key) for key, _ in value])
            values = F.array(*[literal(type_.value, each) for _, each in value])
            return F.map_from_arrays(keys, values).cast(shown_type(type_))
        case _:
            return F.expr(sql_literal(type_, value))


def initial(field: Field) -> Column:
    """What rows read that are older than a field: its initial default, with those of the fields inside."""
    if isinstance(field.type, Struct) and field.initial_default is not None:
        # The default of a struct is {}: what is inside has defaults of its own.
        return F.struct(*[initial(each).alias(each.name) for each in field.type.fields])
    return literal(field.type, field.initial_default)
