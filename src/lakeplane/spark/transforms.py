"""Partition and sort transforms as SQL that Spark compiles: exactly the values that Iceberg defines.

The source is a column, or a field of one, in the form that rows have on their way to files (see ``wire``): a
uuid and a fixed as ``BINARY``, nanoseconds as a number, all the others as Spark's own type. But a time is
given as its microseconds. Nothing here depends on the time zone of the session, or on whether its casts check
their range (ANSI).

``bucket`` and ``truncate`` of decimals of more than 18 digits have no such form: they are Arrow functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeplane.errors import NotSupported
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    Void,
    Year,
    check_accepts,
)
from lakeplane.model.types import (
    DATE,
    MAX_DECIMAL_PRECISION,
    NANOS,
    TIMESTAMP,
    TIMESTAMPS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Fixed,
    Primitive,
    Type,
)
from lakeplane.spark.bucket import Steps, hash_bytes, hash_long, hash_unscaled, hash_words

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LONG_DIGITS: Final = 18
"""Every decimal with so many digits fits into 64 bits."""

_WORD_BYTES: Final = 4
_HOUR_MICROS: Final = 3_600_000_000
_DAY_MICROS: Final = 24 * _HOUR_MICROS
_NANOS_PER_MICRO: Final = 1000


class Derived(NamedTuple):
    """A column to compute: a transform of a source, which is SQL text."""

    name: str
    transform: Transform
    type: Type
    """The type of the source in the table."""
    source: str


def with_transforms(df: DataFrame, wanted: Sequence[Derived]) -> DataFrame:
    """A frame with more columns: the transforms that are wanted, under their names."""
    if not wanted:
        return df
    kept = [quoted(name) for name in df.columns]
    prefix = unused_name("_step", df.columns)
    steps: list[tuple[str, str]] = []
    results = []
    for place, each in enumerate(wanted):
        check_accepts(each.transform, each.type)
        if needs_arrow(each.transform, each.type):
            df = _with_arrow(df, each)
            results.append(quoted(each.name))
            continue
        own = Steps(f"{prefix}{place}_")
        sql = _value(each.transform, each.type, each.source, own)
        steps += own.named
        results.append(f"{sql} AS {quoted(each.name)}")
    if steps:
        # A name may be used by those that come after it: Spark takes the list apart by itself.
        df = df.selectExpr("*", *(f"{sql} AS {quoted(name)}" for name, sql in steps))
    return df.selectExpr(*kept, *results)


def needs_arrow(transform: Transform, type_: Type) -> bool:
    """Whether Spark has no expression for a transform."""
    return (
        isinstance(transform, Bucket | Truncate)
        and isinstance(type_, Decimal)
        and type_.precision > LONG_DIGITS
    )


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def unused_name(wanted: str, taken: Sequence[str]) -> str:
    """A name like the wanted one that is no beginning of others; Spark's names have no case."""
    folded = [name.casefold() for name in taken]
    while any(name.startswith(wanted.casefold()) for name in folded):
        wanted += "_"
    return wanted


def unscaled_sql(source: str, type_: Decimal) -> str:
    """The digits of a decimal of at most ``LONG_DIGITS`` digits as a bigint."""
    if type_.scale == 0:
        return f"CAST({source} AS BIGINT)"
    return f"CAST({source} * {10**type_.scale}BD AS BIGINT)"


def micros_sql(source: str, type_: Type) -> str:
    """A timestamp as microseconds since the epoch, whatever the session's zone is."""
    if type_ in NANOS:
        return floor_sql(source, _NANOS_PER_MICRO)
    if type_ is TIMESTAMPTZ:
        return f"unix_micros({source})"
    # A cast to an instant would go by the session's zone, in which some hours are not there at all.
    days = f"CAST(unix_date(CAST({source} AS DATE)) AS BIGINT) * {_DAY_MICROS}L"
    return f"({days} + {clock_sql(source)})"


def clock_sql(source: str) -> str:
    """The time of day of a timestamp without zone, or a time, as microseconds since midnight."""
    hours = f"hour({source}) * {_HOUR_MICROS}L + minute({source}) * 60000000L"
    return f"({hours} + CAST(extract(SECOND FROM {source}) * 1000000 AS BIGINT))"


def floor_sql(source: str, unit: int) -> str:
    """A bigint divided and rounded down, which ``div`` does not do below zero."""
    return f"(({source}) DIV {unit}L - IF(({source}) < 0L AND ({source}) % {unit}L <> 0L, 1L, 0L))"


def _value(transform: Transform, type_: Type, source: str, steps: Steps) -> str:
    match transform:
        case Identity():
            return source
        case Void():
            return "NULL"
        case Bucket():
            hashed = _hash(type_, source, steps)
            return f"IF({source} IS NULL, NULL, CAST((({hashed}) & 2147483647) % {transform.n} AS INT))"
        case Truncate():
            return _truncate(transform.width, type_, source, steps)
        case Year():
            return f"year({_date(type_, source, steps)}) - 1970"
        case Month():
            date = _date(type_, source, steps)
            return f"(year({date}) - 1970) * 12 + month({date}) - 1"
        case Day():
            return _date(type_, source, steps)
        case Hour():
            hours = steps.add(_hours(type_, source, steps))
            return f"CAST(({hours} + 2147483648L & 4294967295L) - 2147483648L AS INT)"
        case _:
            raise NotSupported(f"the transform {transform} cannot be computed")


def _hash(type_: Type, source: str, steps: Steps) -> str:
    match type_:
        case Primitive.INT | Primitive.LONG | Primitive.TIME:
            return hash_long(f"CAST({source} AS BIGINT)")
        case Primitive.DATE:
            return hash_long(f"CAST(unix_date({source}) AS BIGINT)")
        case Primitive() if type_ in NANOS:
            return hash_long(steps.add(micros_sql(source, type_)))
        case Primitive() if type_ in TIMESTAMPS:
            return hash_long(source)
        case Primitive.STRING:
            return hash_bytes(f"CAST({source} AS BINARY)", steps)
        case Decimal():
            return hash_unscaled(unscaled_sql(source, type_), steps)
        case _ if type_ is UUID or (isinstance(type_, Fixed) and type_.length % _WORD_BYTES == 0):
            return hash_words(source)
        case _:
            return hash_bytes(source, steps)


def _truncate(width: int, type_: Type, source: str, steps: Steps) -> str:
    match type_:
        case Primitive.INT:
            # Below the range of its type a number wraps around, as in Java.
            number = steps.add(f"CAST({source} AS BIGINT) - pmod(CAST({source} AS BIGINT), {width}L)")
            return f"CAST(IF({number} < -2147483648L, {number} + 4294967296L, {number}) AS INT)"
        case Primitive.LONG:
            rest = steps.add(f"pmod({source}, {width}L)")
            # How far a number is above the lowest one: without its sign, nothing can overflow.
            above = steps.add(f"IF({source} < 0L, {source} & 9223372036854775807L, {width}L)")
            wrapped = f"9223372036854775807L - ({rest} - {above} - 1L)"
            return f"IF({above} < {rest}, {wrapped}, {source} - {rest})"
        case Decimal():
            number = steps.add(unscaled_sql(source, type_))
            digits = f"CAST({number} - pmod({number}, {width}L) AS DECIMAL(19,0))"
            # The product is as wide as it needs to be: the lowest numbers can have more digits than the type.
            return f"{digits} * {decimal_unit(type_.scale)}BD"
        case _:
            # Of strings, Spark counts code points.
            return f"substring({source}, 1, {width})"


def decimal_unit(scale: int) -> str:
    """The last digit of a decimal: 0.01 for two digits after the point."""
    return "1" if scale == 0 else "0." + "0" * (scale - 1) + "1"


def _date(type_: Type, source: str, steps: Steps) -> str:
    if type_ is DATE:
        return source
    if type_ is TIMESTAMP:
        return f"CAST({source} AS DATE)"
    if type_ in NANOS:
        days = floor_sql(source, _DAY_MICROS * _NANOS_PER_MICRO)
    else:
        days = floor_sql(steps.add(micros_sql(source, type_)), _DAY_MICROS)
    return steps.add(f"date_from_unix_date(CAST({days} AS INT))")


def _hours(type_: Type, source: str, steps: Steps) -> str:
    if type_ is TIMESTAMP:
        return f"CAST(unix_date(CAST({source} AS DATE)) AS BIGINT) * 24L + hour({source})"
    if type_ in NANOS:
        return floor_sql(source, _HOUR_MICROS * _NANOS_PER_MICRO)
    return floor_sql(steps.add(micros_sql(source, type_)), _HOUR_MICROS)


def _with_arrow(df: DataFrame, wanted: Derived) -> DataFrame:
    """Compute a transform that Spark has no expression for, with Arrow on the executors."""
    transform, type_ = wanted.transform, wanted.type
    assert isinstance(type_, Decimal)
    result = "int" if isinstance(transform, Bucket) else f"decimal({MAX_DECIMAL_PRECISION},{type_.scale})"
    source = unused_name("_source", df.columns)
    names = [quoted(name) for name in df.columns]
    df = df.selectExpr("*", f"{wanted.source} AS {quoted(source)}")
    column: Column = _arrow_function(transform, type_, result, df)(df[source])
    return df.withColumn(wanted.name, column).selectExpr(*names, quoted(wanted.name))


def _arrow_function(transform: Transform, type_: Decimal, result: str, df: DataFrame) -> Any:
    remote = type(df).__module__.startswith("pyspark.sql.connect")
    functions = importlib.import_module(f"pyspark.sql.{'connect.' if remote else ''}functions")
    import pyarrow as pa  # noqa: PLC0415

    wide = pa.decimal128(MAX_DECIMAL_PRECISION, type_.scale)

    def compute(column: Any) -> Any:
        from lakeplane.model.transform_columns import apply_to_column  # noqa: PLC0415

        values = apply_to_column(transform, type_, column)
        return values if isinstance(transform, Bucket) else values.cast(wide)

    # What kind of function it is, Spark tells from its annotations, which it does not find as text.
    compute.__annotations__ = {"column": pa.Array, "return": pa.Array}
    return functions.arrow_udf(compute, result)
