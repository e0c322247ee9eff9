"""How one column is read by Spark, and what is made of it to show it.

Most columns are read under their own name and shown as they are: nothing stands between a query and the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.model.types import (
    UNKNOWN,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    children,
    walk,
)
from lakeplane.spark.guards import History
from lakeplane.spark.literals import initial, sql_literal
from lakeplane.spark.types import COMMENT, FIELD_ID, shown_type

Make = Callable[[Column], Column]

_EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
_LONG_DIGITS: Final = 18
"""Decimals of so many digits are kept in a long; the default of a larger one breaks Spark's reader."""


class Recipe(NamedTuple):
    """A column of a scan, and what is made of it."""

    name: str
    """What users call it."""
    read: s.StructField | None
    """None for a column that is the same in all rows."""
    value: Column | None = None
    """None for a column that is shown as it is read."""

    @property
    def shown(self) -> Column:
        """The column as users see it."""
        return F.col(quoted(self.name)) if self.value is None else self.value.alias(self.name)


def quoted(name: str) -> str:
    """A name that Spark takes as it is, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def by_id(field: Field, history: History, lacking: Collection[int] = ()) -> Recipe:
    """Read a column of Parquet files by its id.

    ``lacking`` are fields that the files do not have, of those whose default Spark cannot fill in.
    """
    if field.id in lacking:
        return Recipe(field.name, None, initial(field))
    guards = history.guards(field)
    makes: list[Make] = []
    if guards.whole:
        makes.append(barrier)
    read_type, metadata = physical(field.type), _metadata(field)
    if needs_default(field) and not default_needs_files(field):
        metadata[_EXISTS_DEFAULT] = sql_literal(field.type, field.initial_default)
        if field.type is Primitive.BINARY:
            # Spark's reader cannot fill in bytes; text holds any bytes as well.
            metadata[_EXISTS_DEFAULT] = f"CAST({metadata[_EXISTS_DEFAULT]} AS STRING)"
            read_type = s.StringType()
            makes.append(lambda read: read.cast(s.BinaryType()))
    if (shaped := shaping(field.type, lacking)) is not None:
        makes.append(shaped)
    if history.may_miss(field):
        makes.append(lambda read: _insist(read, field))
    name = field.name if not makes and not guards.opaque else f"__f{field.id}"
    if name == field.name and field.doc is not None:
        metadata[COMMENT] = field.doc
    read = s.StructField(name, read_type, nullable=True, metadata=metadata)
    if name == field.name:
        return Recipe(field.name, read)
    value = F.col(name)
    for make in makes:
        value = make(value)
    return Recipe(field.name, read, value)


def _metadata(field: Field) -> dict[str, Any]:
    return {FIELD_ID: field.id}


def barrier(read: Column) -> Column:
    """The same column, so that Spark reads it with all its fields: of all ways, the one it does not undo."""
    return F.coalesce(read, read)


def _insist(read: Column, field: Field) -> Column:
    problem = f"the column {field.name} is required, and a data file has no value for it and no default"
    return F.coalesce(read, F.raise_error(F.lit(problem)).cast(shown_type(field.type)))


def physical(type_: Type) -> s.DataType:
    """The type by which Spark reads a column of Parquet files, with ids all the way down."""
    match type_:
        case Primitive.UUID:
            return s.BinaryType()
        case Struct():
            return s.StructType([_physical_field(each) for each in type_.fields])
        case List():
            return s.ArrayType(physical(type_.element))
        case Map():
            return s.MapType(physical(type_.key), physical(type_.value))
        case _:
            return shown_type(type_)


def _physical_field(field: Field) -> s.StructField:
    return s.StructField(field.name, physical(field.type), nullable=True, metadata={FIELD_ID: field.id})


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


def fields_to_look_for(field: Field) -> set[int]:
    """The ids of a column and of fields inside it for which one must know which files have them."""
    found = {each.id for each in walk(children(field.type)) if needs_default(each)}
    if needs_default(field) and default_needs_files(field):
        found.add(field.id)
    return found


# From what is read to what is shown


def shaping(type_: Type, lacking: Collection[int] = ()) -> Make | None:
    """What makes of a read value what users see; None where that is the same."""
    match type_:
        case Primitive.UUID:
            return uuid_text
        case Struct():
            return _shaping_struct(type_, lacking)
        case List():
            inside = shaping(type_.element, lacking)
            return None if inside is None else lambda read: F.transform(read, inside)
        case Map():
            return _shaping_map(type_, lacking)
        case _:
            return None


def _shaping_struct(type_: Struct, lacking: Collection[int]) -> Make | None:
    makes = {each.id: shaping(each.type, lacking) for each in type_.fields}
    if not any(makes.values()) and not any(each.id in lacking for each in type_.fields):
        return None

    def one(read: Column, field: Field) -> Column:
        if field.id in lacking:
            return initial(field).alias(field.name)
        value, make = read.getField(field.name), makes[field.id]
        return (value if make is None else make(value)).alias(field.name)

    def shape(read: Column) -> Column:
        return F.when(read.isNotNull(), F.struct(*[one(read, each) for each in type_.fields]))

    return shape


def _shaping_map(type_: Map, lacking: Collection[int]) -> Make | None:
    key, value = shaping(type_.key, lacking), shaping(type_.value, lacking)
    if key is None and value is None:
        return None

    def shape(read: Column) -> Column:
        shaped = read if key is None else F.transform_keys(read, lambda each, _value: key(each))
        return shaped if value is None else F.transform_values(shaped, lambda _key, each: value(each))

    return shape


def uuid_text(read: Column) -> Column:
    """Sixteen bytes as the text of a uuid."""
    digits = F.lower(F.hex(read))
    parts = [
        F.substring(digits, start, length) for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    ]
    text = parts[0]
    for part in parts[1:]:
        text = F.concat(text, F.lit("-"), part)
    return text


def is_nothing(type_: Type) -> bool:
    """Whether a column of a type holds nulls only, and is in no file."""
    return type_ is UNKNOWN
