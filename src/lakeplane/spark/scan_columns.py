"""How one column is read by Spark, and what is made of it to show it.

Most columns are read under their own name and shown as they are: nothing stands between a query and the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import NotSupported
from lakeplane.model.temporal import DAY_NANOS
from lakeplane.model.types import (
    NANOS,
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
    children,
    walk,
)
from lakeplane.spark.file_schemas import Stored
from lakeplane.spark.guards import History
from lakeplane.spark.literals import initial, sql_literal
from lakeplane.spark.types import COMMENT, FIELD_ID, shown_type

Make = Callable[[Column], Column]

_EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
_LONG_DIGITS: Final = 18
"""Decimals of so many digits are kept in a long; the default of a larger one breaks Spark's reader."""


class Recipe(NamedTuple):
    """A column of a scan, and what is made of it."""

    field: Field
    """What users see."""
    read: s.StructField | None
    """None for a column that is in no file."""
    value: Column | None = None
    """None for a column that is shown as it is read."""
    needs: frozenset[str] = frozenset()
    """What else must be known of a row or its file."""

    @property
    def shown(self) -> Column:
        """The column as users see it."""
        name = self.field.name
        if self.value is None:
            return F.col(quoted(name))
        if self.field.doc is None:
            return self.value.alias(name)
        return self.value.alias(name, metadata={COMMENT: self.field.doc})


def quoted(name: str) -> str:
    """A name that Spark takes as it is, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def opaque_name(field_id: int) -> str:
    """A name that no file has for a column."""
    return f"__f{field_id}"


# Parquet files with ids


def by_id(
    field: Field, history: History, lacking: Collection[int] = (), dates: Collection[int] = ()
) -> Recipe:
    """Read a column of Parquet files by its id.

    ``lacking`` are fields that the files do not have, of those whose default Spark cannot fill in, and
    ``dates`` those that the files have as dates, and the table as nanoseconds.
    """
    if field.id in lacking:
        return Recipe(field, None, initial(field))
    guards = history.guards(field)
    makes: list[Make] = []
    name = opaque_name(field.id) if guards.opaque else field.name
    if guards.whole:
        makes.append(barrier)
    stored = _as_stored(field, lacking, dates, opaque=guards.whole)
    read_type, metadata = _read_type(field.type, stored, with_ids=True), _metadata(field)
    if needs_default(field) and not default_needs_files(field):
        metadata[_EXISTS_DEFAULT] = sql_literal(field.type, field.initial_default)
        if field.type is Primitive.BINARY:
            # Spark's reader cannot fill in bytes; text holds any bytes as well.
            metadata[_EXISTS_DEFAULT] = f"CAST({metadata[_EXISTS_DEFAULT]} AS STRING)"
            name, read_type = opaque_name(field.id), s.StringType()
            makes.append(lambda read: read.cast(s.BinaryType()))
    if (shaped := shaping(field.type, stored)) is not None:
        makes.append(shaped)
    if history.may_miss(field):
        makes.append(lambda read: _insist(read, field))
    if not makes and not guards.opaque:
        if field.doc is not None:
            metadata[COMMENT] = field.doc
        return Recipe(field, s.StructField(field.name, read_type, nullable=True, metadata=metadata))
    value = F.col(quoted(name))
    for make in makes:
        value = make(value)
    return Recipe(field, s.StructField(name, read_type, nullable=True, metadata=metadata), value)


def _metadata(field: Field) -> dict[str, Any]:
    return {FIELD_ID: field.id}


def _as_stored(
    field: Field, lacking: Collection[int], dates: Collection[int], *, opaque: bool = False
) -> Stored:
    """A column of files that call its fields as the table does now, or as no file does.

    Of a struct of which a file has none of the wanted fields, Spark reads another one, to know where the
    struct is null, and fails if it has the name of a wanted field and another type.
    """
    inside = tuple(
        _as_stored(each, lacking, dates, opaque=opaque)
        for each in children(field.type)
        if each.id not in lacking
    )
    name = opaque_name(field.id) if opaque else field.name
    return Stored(name, field.id, pa.date32() if field.id in dates else None, inside)


def barrier(read: Column) -> Column:
    """The same column, so that Spark reads it with all its fields: of all ways, the one it does not undo."""
    return F.coalesce(read, read)


def _insist(read: Column, field: Field) -> Column:
    problem = f"the column {field.name} is required, and a data file has no value for it and no default"
    return F.coalesce(read, F.raise_error(F.lit(problem)).cast(shown_type(field.type)))


# Files without ids that Spark can use: Parquet files of other writers, and ORC files


def by_name(field: Field, stored: Stored | None, *, orc: bool) -> Recipe:
    """Read a column of files by the name that it has in them."""
    if stored is None:
        value = initial(field)
        return Recipe(field, None, _insist(value, field) if _must_be_there(field) else value)
    read = s.StructField(stored.name, _read_type(field.type, stored, orc=orc), nullable=True)
    make = shaping(field.type, stored, orc=orc)
    if make is None and stored.name == field.name:
        return Recipe(field, read)
    value = F.col(quoted(stored.name))
    return Recipe(field, read, value if make is None else make(value))


def _must_be_there(field: Field) -> bool:
    return field.required and field.initial_default is None


def _read_type(type_: Type, stored: Stored, *, with_ids: bool = False, orc: bool = False) -> s.DataType:
    """The type by which Spark reads a column: its fields are those that files have, as they call them."""
    match type_:
        case Struct():
            found = [(each, stored.find(each.id)) for each in type_.fields]
            return s.StructType(
                [
                    s.StructField(
                        there.name,
                        _read_type(each.type, there, with_ids=with_ids, orc=orc),
                        nullable=True,
                        metadata=_metadata(each) if with_ids else {},
                    )
                    for each, there in found
                    if there is not None
                ]
            )
        case List():
            return s.ArrayType(_read_type(type_.element, stored.inside[0], with_ids=with_ids, orc=orc))
        case Map():
            key, value = stored.inside
            return s.MapType(
                _read_type(type_.key, key, with_ids=with_ids, orc=orc),
                _read_type(type_.value, value, with_ids=with_ids, orc=orc),
            )
        case _ if type_ in NANOS and _is_date(stored):
            return s.DateType()
        case _ if orc:
            return _orc_type(type_, stored)
        case Primitive.UUID:
            return s.BinaryType()
        case _:
            return shown_type(type_)


def _orc_type(type_: Type, stored: Stored) -> s.DataType:
    match type_:
        case Primitive.UUID:
            return s.BinaryType()
        case Primitive.TIME:
            return s.LongType()
        case Primitive.TIMESTAMP:
            # As TIMESTAMP_NTZ, Spark would take milliseconds for microseconds.
            return s.DateType() if _is_date(stored) else s.TimestampType()
        case Primitive.VARIANT | Geometry() | Geography():
            raise NotSupported(f"{type_} in ORC files", field=stored.name, hint="Leave the column out")
        case _:
            return shown_type(type_)


# Defaults


def needs_default(field: Field) -> bool:
    """Whether files without a field read something else than null."""
    return field.initial_default is not None


def default_needs_files(field: Field) -> bool:
    """Whether the default of a column is one that Spark's reader fills in wrongly, or not at all."""
    match field.type:
        case Struct() | List() | Map() | Fixed() | Primitive.UUID:
            return True
        case Decimal(precision=precision):
            return precision > _LONG_DIGITS
        case _:
            return False


def fields_to_look_for(field: Field, history: History) -> set[int]:
    """The ids of a column and of fields inside it for which one must know what files have."""
    found = {each.id for each in walk(children(field.type)) if needs_default(each)}
    found |= {each.id for each in walk((field,)) if each.type in NANOS and history.was_date(each.id)}
    if needs_default(field) and default_needs_files(field):
        found.add(field.id)
    return found


# From what is read to what is shown


def shaping(type_: Type, stored: Stored, *, orc: bool = False) -> Make | None:
    """What makes of a read value what users see; None where that is the same."""
    match type_:
        case Primitive.UUID:
            return uuid_text
        case Struct():
            return _shaping_struct(type_, stored, orc=orc)
        case List():
            inside = shaping(type_.element, stored.inside[0], orc=orc)
            return None if inside is None else lambda read: F.transform(read, inside)
        case Map():
            return _shaping_map(type_, stored, orc=orc)
        case _ if type_ in NANOS and _is_date(stored):
            return lambda read: F.unix_date(read).cast(s.LongType()) * DAY_NANOS
        case Primitive.TIME if orc:
            return clock
        case Primitive.TIMESTAMP if orc:
            return _from_date if _is_date(stored) else _local
        case _:
            return None


def clock(read: Column) -> Column:
    """Microseconds since midnight as a time: ``time_from_micros``, which Spark 4.1 does not have."""
    hours = F.floor(read / 3_600_000_000).cast(s.IntegerType())
    minutes = F.floor(read / 60_000_000).cast(s.LongType()) % 60
    micros = (read % 60_000_000).cast(s.DecimalType(20, 0))
    seconds = (micros / 1_000_000).cast(s.DecimalType(16, 6))
    return F.call_function("make_time", hours, minutes.cast(s.IntegerType()), seconds)


def _is_date(stored: Stored) -> bool:
    return stored.type is not None and bool(pa.types.is_date(stored.type))


def _from_date(read: Column) -> Column:
    return read.cast(s.TimestampNTZType())


def _local(read: Column) -> Column:
    """What a clock in UTC shows at an instant: not what one in the session's zone does."""
    seconds = (F.unix_micros(read).cast(s.DecimalType(20, 0)) / 1_000_000).cast(s.DecimalType(18, 6))
    nought = F.lit(0)
    return F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.make_dt_interval(nought, nought, nought, seconds)


def _shaping_struct(type_: Struct, stored: Stored, *, orc: bool) -> Make | None:
    found = [(each, stored.find(each.id)) for each in type_.fields]
    makes = {each.id: shaping(each.type, there, orc=orc) for each, there in found if there is not None}
    if not any(makes.values()) and all(
        there is not None and there.name == each.name for each, there in found
    ):
        return None

    def one(read: Column, field: Field, there: Stored | None) -> Column:
        if there is None:
            return initial(field).alias(field.name)
        value, make = read.getField(there.name), makes[field.id]
        return (value if make is None else make(value)).alias(field.name)

    def shape(read: Column) -> Column:
        return F.when(read.isNotNull(), F.struct(*[one(read, each, there) for each, there in found]))

    return shape


def _shaping_map(type_: Map, stored: Stored, *, orc: bool) -> Make | None:
    key = shaping(type_.key, stored.inside[0], orc=orc)
    value = shaping(type_.value, stored.inside[1], orc=orc)
    if key is None and value is None:
        return None

    def shape(read: Column) -> Column:
        shaped = read if key is None else F.transform_keys(read, lambda each, _value: key(each))
        return shaped if value is None else F.transform_values(shaped, lambda _key, each: value(each))

    return shape


def uuid_text(read: Column) -> Column:
    """Sixteen bytes as the text of a uuid."""
    digits = F.lower(F.hex(read))
    parts = [F.substring(digits, start, n) for start, n in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    text = parts[0]
    for part in parts[1:]:
        text = F.concat(text, F.lit("-"), part)
    return text


def reads_nanos(field: Field) -> bool:
    """Whether a column holds nanoseconds, at any depth."""
    return any(each.type in NANOS for each in walk((field,)))
