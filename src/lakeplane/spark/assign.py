"""Values of Spark's types as values of a table's types, as SQL: what is safe, and what is checked row by row.

As in Spark's own ``INSERT``, a type must be one that can be stored as another one; unlike there, no value is
rounded or cut, except floating-point numbers that are brought to fewer bits. A value that does not fit makes
the write fail with the name of its column: nothing depends on whether casts of the session check their range.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as s

from lakeplane.errors import InvalidInput
from lakeplane.model.types import (
    FLOATS,
    INTEGERS,
    MICROS,
    NANOS,
    UUID,
    ZONED,
    Decimal,
    Fixed,
    Primitive,
    Type,
)
from lakeplane.spark.transforms import micros_sql
from lakeplane.spark.types import shown_type
from lakeplane.spark.wire import text

MARK: Final = "lakeplane refuses a row"
"""What errors that are raised within Spark begin with."""
END: Final = " [row refused]"

_WHOLE: Final = (s.ByteType, s.ShortType, s.IntegerType, s.LongType)
_FLOATING: Final = (s.FloatType, s.DoubleType)
_MOMENTS: Final = (s.DateType, s.TimestampType, s.TimestampNTZType)
_AS_TEXT: Final = (*_WHOLE, *_FLOATING, *_MOMENTS, s.BooleanType, s.DecimalType)
_BITS: Final[dict[type[s.DataType], int]] = {
    s.ByteType: 8,
    s.ShortType: 16,
    s.IntegerType: 32,
    s.LongType: 64,
}
_UUID: Final = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


def refusal(place: str, problem: str) -> str:
    """SQL that makes the write fail, naming the column."""
    return f"raise_error({text(f'{MARK}: {place}: {problem}{END}')})"


def assigned(source: str, given: s.DataType, type_: Type, place: str) -> str:
    """A value of one of Spark's types, not nested, as one of the type that the table's column has on its way.

    Args:
        source: SQL of the value.
        given: Its type.
        type_: The type of the column.
        place: The name of the column, for errors.
    """
    if isinstance(given, s.NullType):
        return f"CAST(NULL AS {_name(type_)})"
    if isinstance(given, s.StringType):
        sql = _from_text(source, given, type_, place)
    elif isinstance(given, s.BinaryType):
        sql = _from_binary(source, type_, place)
    elif isinstance(given, _MOMENTS):
        sql = _from_moment(source, given, type_, place)
    elif isinstance(given, (*_WHOLE, *_FLOATING, s.DecimalType)):
        sql = _from_number(source, given, type_, place)
    elif isinstance(given, s.TimeType) and type_ is Primitive.TIME:
        sql = source if given == shown_type(type_) else f"CAST({source} AS {_name(type_)})"
    else:
        sql = source if given == shown_type(type_) else None
    if sql is None and type_ is Primitive.STRING and isinstance(given, _AS_TEXT):
        sql = f"CAST({source} AS STRING)"
    if sql is None:
        problem = f"{given.simpleString()} cannot be stored as {type_}"
        raise InvalidInput(
            problem, field=place, hint="Cast it first, and decide what becomes of other values"
        )
    return sql


def _name(type_: Type) -> str:
    if type_ is UUID or isinstance(type_, Fixed):
        return "BINARY"
    return shown_type(type_).simpleString()


def _checked(source: str, result: str, fits: str, place: str, problem: str) -> str:
    return f"IF({source} IS NULL OR ({fits}), {result}, {refusal(place, problem)})"


def _tried(source: str, type_: Type, place: str) -> str:
    """A cast that gives null for what is out of range, also in sessions that let numbers wrap around."""
    cast = f"try_cast({source} AS {_name(type_)})"
    return _checked(source, cast, f"{cast} IS NOT NULL", place, f"a value is out of the range of {type_}")


def _from_text(source: str, given: s.StringType, type_: Type, place: str) -> str | None:
    if type_ is Primitive.STRING:
        return source if given == s.StringType() else f"CAST({source} AS STRING)"
    if type_ is UUID:
        result = f"unhex(replace({source}, '-', ''))"
        return _checked(source, result, f"{source} RLIKE {text(_UUID)}", place, "a value is no uuid")
    return None


def _from_binary(source: str, type_: Type, place: str) -> str | None:
    if type_ is Primitive.BINARY:
        return source
    length = 16 if type_ is UUID else type_.length if isinstance(type_, Fixed) else None
    if length is None:
        return None
    fits = f"octet_length({source}) = {length}"
    return _checked(source, source, fits, place, f"a value does not have {length} bytes")


def _from_moment(source: str, given: s.DataType, type_: Type, place: str) -> str | None:
    if isinstance(given, s.DateType):
        if type_ is Primitive.DATE:
            return source
        if type_ not in MICROS and type_ not in NANOS:
            return None
    elif type_ is Primitive.DATE:
        return None
    wanted = Primitive.TIMESTAMPTZ if type_ in ZONED else Primitive.TIMESTAMP
    if given != shown_type(wanted):
        source = f"CAST({source} AS {shown_type(wanted).simpleString()})"
    if type_ in MICROS:
        return source
    if type_ not in NANOS:
        return None
    nanos = f"try_multiply({micros_sql(source, wanted)}, 1000L)"
    return _checked(source, nanos, f"{nanos} IS NOT NULL", place, f"a value is out of the range of {type_}")


def _from_number(source: str, given: s.DataType, type_: Type, place: str) -> str | None:
    if type_ in INTEGERS or type_ in NANOS:
        return _to_whole(source, given, type_, place)
    if type_ in FLOATS:
        return _to_floating(source, given, type_, place)
    if isinstance(type_, Decimal):
        return _to_decimal(source, given, type_, place)
    return None


def _to_whole(source: str, given: s.DataType, type_: Type, place: str) -> str | None:
    bits = _BITS.get(type(given))
    if type_ in NANOS:
        # A number is what a column of nanoseconds reads as.
        return source if bits == _BITS[s.LongType] else None
    if bits is None and not (isinstance(given, s.DecimalType) and given.scale == 0):
        return None
    wanted = 32 if type_ is Primitive.INT else 64
    if bits == wanted:
        return source
    if bits is not None and bits < wanted:
        return f"CAST({source} AS {_name(type_)})"
    # Spark takes the first number behind the range of a long for one of it.
    low, high = -(1 << (wanted - 1)), (1 << (wanted - 1)) - 1
    fits = f"{source} BETWEEN {low}BD AND {high}BD"
    cast = f"try_cast({source} AS {_name(type_)})"
    return _checked(source, cast, fits, place, f"a value is out of the range of {type_}")


def _to_floating(source: str, given: s.DataType, type_: Type, place: str) -> str:
    if given == shown_type(type_):
        return source
    cast = f"CAST({source} AS {_name(type_)})"
    bits = _BITS.get(type(given))
    if bits is not None:
        digits = 24 if type_ is Primitive.FLOAT else 53
        if bits <= digits:
            return cast
        exact = f"CAST({cast} AS DECIMAL(20,0)) = {source}"
        return _checked(source, cast, exact, place, f"a value has more digits than {type_} can hold")
    if isinstance(given, s.DoubleType):
        infinite = "abs({}) = double('Infinity')"
        fits = f"{infinite.format(source)} OR NOT ({infinite.format(cast)})"
        return _checked(source, cast, fits, place, f"a value is out of the range of {type_}")
    return cast


def _to_decimal(source: str, given: s.DataType, type_: Decimal, place: str) -> str | None:
    if given == shown_type(type_):
        return source
    if isinstance(given, _FLOATING):
        return None
    if isinstance(given, s.DecimalType) and given.scale > type_.scale:
        cast = f"try_cast({source} AS {_name(type_)})"
        exact = f"try_cast({cast} AS {given.simpleString()}) <=> {source}"
        return _checked(source, cast, exact, place, f"a value is no {type_} without rounding it")
    return _tried(source, type_, place)
