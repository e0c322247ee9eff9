"""Types of columns as Spark's, and Spark's as ours.

What a column looks like in Spark is decided once, here:

==============================  =============================================================================
uuid                            ``STRING``, in lower case, as Iceberg's own Spark shows it
fixed, binary                   ``BINARY``
timestamp, timestamptz          ``TIMESTAMP_NTZ``, ``TIMESTAMP``
timestamp_ns, timestamptz_ns    ``BIGINT``, nanoseconds since 1970: Spark's own timestamps would lose digits
time                            ``TIME(6)``, where Spark has it
unknown                         ``VOID``
variant, geometry, geography    the types of these names
==============================  =============================================================================

Spark takes nearly all files to have nulls anywhere, so nothing is said here of what is required.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import types as s

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    DEFAULT_CRS,
    UNKNOWN,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)

FIELD_ID: Final = "parquet.field.id"
"""Where Spark's Parquet reader looks for the id of a field."""

COMMENT: Final = "comment"

_SHOWN: Final[dict[Primitive, s.DataType]] = {
    Primitive.UNKNOWN: s.NullType(),
    Primitive.BOOLEAN: s.BooleanType(),
    Primitive.INT: s.IntegerType(),
    Primitive.LONG: s.LongType(),
    Primitive.FLOAT: s.FloatType(),
    Primitive.DOUBLE: s.DoubleType(),
    Primitive.DATE: s.DateType(),
    Primitive.TIME: s.TimeType(6),
    Primitive.TIMESTAMP: s.TimestampNTZType(),
    Primitive.TIMESTAMPTZ: s.TimestampType(),
    Primitive.TIMESTAMP_NS: s.LongType(),
    Primitive.TIMESTAMPTZ_NS: s.LongType(),
    Primitive.STRING: s.StringType(),
    Primitive.UUID: s.StringType(),
    Primitive.BINARY: s.BinaryType(),
    Primitive.VARIANT: s.VariantType(),
}

_CRS_OF_SRID: Final = {4326: DEFAULT_CRS}
_SRIDS: Final = {
    DEFAULT_CRS: 4326,
    "EPSG:4326": 4326,
    "srid:4326": 4326,
    "EPSG:3857": 3857,
    "srid:3857": 3857,
}


def to_spark(schema: Schema) -> s.StructType:
    """What users see of a schema."""
    return s.StructType([shown_field(each) for each in schema.fields])


def shown_field(field: Field) -> s.StructField:
    """What users see of a field: its name, type, and comment."""
    metadata = {} if field.doc is None else {COMMENT: field.doc}
    return s.StructField(
        field.name, _at(field.name, shown_type, field.type), nullable=True, metadata=metadata
    )


def shown_type(type_: Type) -> s.DataType:
    """The type that users see."""
    match type_:
        case Primitive():
            return _SHOWN[type_]
        case Fixed():
            return s.BinaryType()
        case Decimal():
            return _decimal(type_)
        case Geometry() | Geography():
            return _shape(type_)
        case Struct():
            return s.StructType([shown_field(each) for each in type_.fields])
        case List():
            return s.ArrayType(_at("element", shown_type, type_.element))
        case Map():
            return s.MapType(_at("key", shown_type, type_.key), _at("value", shown_type, type_.value))


def _at(name: str, make: Any, type_: Type) -> s.DataType:
    """Say in an error which field it is about."""
    try:
        found = make(type_)
    except (NotSupported, InvalidInput) as error:
        place = name if error.field is None else f"{name}.{error.field}"
        raise type(error)(error.problem, field=place, hint=error.hint) from None
    assert isinstance(found, s.DataType)
    return found


def _decimal(type_: Decimal) -> s.DecimalType:
    if 0 <= type_.scale <= type_.precision:
        return s.DecimalType(type_.precision, type_.scale)
    hint = "Leave the column out: columns=[...]"
    raise NotSupported(f"Spark has no {type_}: its scale is not from 0 to its precision", hint=hint)


def _shape(type_: Geometry | Geography) -> s.DataType:
    kind = "geometry" if isinstance(type_, Geometry) else "geography"
    srid = _SRIDS.get(type_.crs)
    if srid is None and (found := re.fullmatch(r"(?:srid|EPSG):(\d{1,9})", type_.crs, re.IGNORECASE)):
        srid = int(found[1])
    plain = isinstance(type_, Geometry) or type_.algorithm == "spherical"
    try:
        if srid is not None and plain:
            made: s.DataType = getattr(s, f"{kind.title()}Type")(srid)
            return made
    except Exception:  # noqa: BLE001, S110 - it is said below, whatever Spark thinks of the number
        pass
    hint = f"Spark knows the default {DEFAULT_CRS}, and some numbers. Leave the column out: columns=[...]"
    raise NotSupported(f"this Spark has no type for {type_}", hint=hint)


# From Spark


_FLAT: Final[dict[type[s.DataType], Type]] = {
    s.NullType: UNKNOWN,
    s.BooleanType: Primitive.BOOLEAN,
    s.ByteType: Primitive.INT,
    s.ShortType: Primitive.INT,
    s.IntegerType: Primitive.INT,
    s.LongType: Primitive.LONG,
    s.FloatType: Primitive.FLOAT,
    s.DoubleType: Primitive.DOUBLE,
    s.DateType: Primitive.DATE,
    s.TimeType: Primitive.TIME,
    s.TimestampNTZType: Primitive.TIMESTAMP,
    s.TimestampType: Primitive.TIMESTAMPTZ,
    # CHAR and VARCHAR say how long a text may be: a table cannot keep that.
    s.StringType: Primitive.STRING,
    s.CharType: Primitive.STRING,
    s.VarcharType: Primitive.STRING,
    s.BinaryType: Primitive.BINARY,
    s.VariantType: Primitive.VARIANT,
}

_HINTS: Final[tuple[tuple[type[s.DataType], str], ...]] = (
    (s.DayTimeIntervalType, "Cast it to BIGINT, or keep its seconds"),
    (s.YearMonthIntervalType, "Cast it to INT, or keep its months"),
    (s.CalendarIntervalType, "Keep its months, days and microseconds in columns of their own"),
    (s.UserDefinedType, "Store what it is made of"),
)


def from_spark(schema: s.StructType) -> Schema:
    """Make a schema of one of Spark's, with provisional ids."""
    return Schema(_fields(schema, "", itertools.count(1)))


def _fields(struct: s.StructType, place: str, ids: Iterator[int]) -> tuple[Field, ...]:
    # As where Iceberg itself makes a table: the fields of a struct come before what is in them.
    numbered = [(next(ids), each) for each in struct.fields]
    return tuple(_field(number, each, place, ids) for number, each in numbered)


def _field(number: int, field: s.StructField, around: str, ids: Iterator[int]) -> Field:
    place = f"{around}{field.name}"
    type_ = _type(field.dataType, place, ids)
    comment = (field.metadata or {}).get(COMMENT)
    # Nothing but null is in a column without a type.
    required = not field.nullable and type_ is not UNKNOWN
    return Field(number, field.name, type_, required, comment if isinstance(comment, str) else None)


def _type(type_: s.DataType, place: str, ids: Iterator[int]) -> Type:
    if isinstance(type_, s.StringType) and not isinstance(type_, s.CharType | s.VarcharType):
        _check_collation(type_, place)
    if (found := _FLAT.get(type(type_))) is not None:
        return found
    match type_:
        case s.DecimalType():
            if not 0 <= type_.scale <= type_.precision:
                raise InvalidInput(f"a table cannot hold {type_.simpleString()}", field=place)
            return Decimal(type_.precision, type_.scale)
        case s.StructType():
            return Struct(_fields(type_, f"{place}.", ids))
        case s.ArrayType():
            number = next(ids)
            return List(number, _type(type_.elementType, f"{place}.element", ids), not type_.containsNull)
        case s.MapType():
            key_id, value_id = next(ids), next(ids)
            key = _type(type_.keyType, f"{place}.key", ids)
            value = _type(type_.valueType, f"{place}.value", ids)
            return Map(key_id, key, value_id, value, not type_.valueContainsNull)
    if (shape := _from_shape(type_)) is not None:
        return shape
    hint = next((hint for kind, hint in _HINTS if isinstance(type_, kind)), "Cast it, or leave it out")
    raise InvalidInput(f"a table cannot hold Spark's type {type_.simpleString()}", field=place, hint=hint)


def _check_collation(type_: s.StringType, place: str) -> None:
    collation = getattr(type_, "collation", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        hint = "Cast it to STRING COLLATE UTF8_BINARY"
        raise InvalidInput(f"a table cannot hold the collation {collation}", field=place, hint=hint)


def _from_shape(type_: s.DataType) -> Type | None:
    kind = type(type_).__name__
    if kind not in ("GeometryType", "GeographyType"):
        return None
    srid = getattr(type_, "srid", None)
    if not isinstance(srid, int) or srid < 0:
        hint = "Give it one reference system, as in GEOMETRY(4326)"
        raise InvalidInput(f"a table cannot hold {type_.simpleString()}", hint=hint)
    crs = _CRS_OF_SRID.get(srid, f"srid:{srid}")
    return Geometry(crs) if kind == "GeometryType" else Geography(crs)
