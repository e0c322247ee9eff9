"""Rows that are computed once, however often they are looked at, and whatever they are made of.

A source may be random, or read from something that changes: looked at twice it would be two sources, and a
change that was found with one and made with the other loses rows or has them twice. So it is computed once
and kept by Spark, without the way back to what it was made of: if a part of it is lost, the job fails instead
of computing it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WIDTHS: Final[dict[type[s.DataType], int]] = {
    s.BooleanType: 1,
    s.ByteType: 1,
    s.ShortType: 2,
    s.IntegerType: 4,
    s.FloatType: 4,
    s.DateType: 4,
    s.NullType: 1,
}
_LONG: Final = 8
_TEXT: Final = 24
_NESTED: Final = 64


def pinned(rows: DataFrame) -> DataFrame:
    """The same rows, computed once and for all."""
    return rows.localCheckpoint(eager=False)


@contextmanager
def held(rows: DataFrame, said: Iterable[Any] = ()) -> Iterator[DataFrame]:
    """Rows that are kept from the first look on, until nobody needs them any more.

    ``said`` are the conditions and values that users gave for them.
    """
    if any(map(_may_ask_others, said)) or not _is_repeatable(rows):
        yield pinned(rows)
        return
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _may_ask_others(given: Any) -> bool:
    """Whether a condition or value may look at other tables, which may be others at a second look."""
    return bool(_QUERY.search(given)) if isinstance(given, str) else type(given).__name__ == "Column"


_QUERY: Final = re.compile(r"\b(select|from|table)\b", re.IGNORECASE)


def _is_repeatable(rows: DataFrame) -> bool:
    """Whether computing rows again gives the same ones; of a remote session nobody can tell."""
    if is_connect(rows.sparkSession):
        return False
    inner: Any = rows
    return bool(inner._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001 - no other way


def width_of(schema: s.StructType) -> int:
    """How many bytes a row takes in memory, about."""
    return 16 + sum(_width(each.dataType) for each in schema.fields)


def variable_widths(schema: s.StructType) -> list[Column]:
    """What tells how many bytes more the values of some columns take, one sum for each of them."""
    found = []
    names = [each.name.casefold() for each in schema.fields]
    for each in schema.fields:
        if names.count(each.name.casefold()) > 1:
            continue  # nobody can say which one is meant
        column = F.col(f"`{each.name.replace('`', '``')}`")
        match each.dataType:
            case s.StringType() | s.BinaryType():
                found.append(F.sum(F.octet_length(column)))
            case s.ArrayType() | s.MapType():
                found.append(F.sum(F.size(column)) * _NESTED)
    return found


def _width(type_: s.DataType) -> int:
    match type_:
        case s.StringType() | s.BinaryType():
            return _TEXT
        case s.StructType():
            return width_of(type_)
        case s.ArrayType() | s.MapType() | s.VariantType():
            return _NESTED
        case _:
            return _WIDTHS.get(type(type_), _LONG)
