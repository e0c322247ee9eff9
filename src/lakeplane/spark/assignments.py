"""What SET and VALUES say: which column takes which value, at any depth of structs, and in its type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import InvalidInput
from lakeplane.model.schema import Schema
from lakeplane.model.types import Decimal, Field, Struct
from lakeplane.spark.align import aligned_sql, default_sql
from lakeplane.spark.scan_columns import quoted
from lakeplane.spark.session import is_case_sensitive
from lakeplane.spark.wire import stored_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ACTION: Final = "__lakeplane_action"
"""The column with the number of the clause that decides about a row; 0 if none does."""

_DEFAULT: Final = "DEFAULT"
_QUOTED: Final = re.compile("`((?:[^`]|``)*)`")
_MOST_DIGITS: Final = 38


def expression(given: Any) -> Column:
    """What users give for a value or a condition: SQL, a column of Spark, or a plain value."""
    return F.expr(given) if isinstance(given, str) else given if _is_column(given) else F.lit(given)


def _is_column(given: Any) -> bool:
    # The columns of Spark Connect are of a class of their own.
    return isinstance(given, Column) or type(given).__name__ == "Column"


def assigned(
    schema: Schema, given: Mapping[str, Any], alias: str, *, case_sensitive: bool
) -> dict[str, Column]:
    """All columns of a table after SET, by their names; those that it does not name keep their values.

    Args:
        schema: The columns of the table.
        given: What SET says. A name may begin with the alias, and may be that of a field inside of structs.
        alias: What the row that is changed is called.
        case_sensitive: Whether names have to be spelt as the table spells them.
    """
    values: dict[int, Any] = {}
    for name, value in given.items():
        field = named_field(schema, name, alias, case_sensitive=case_sensitive)
        if field.id in values:
            raise InvalidInput("it is assigned twice", field=schema.name_of(field.id))
        values[field.id] = value
    for field_id in values:
        _check_reachable(schema, field_id, values)
    return {
        each.name: _assigned(each, F.col(f"{quoted(alias)}.{quoted(each.name)}"), values)
        for each in schema.fields
    }


def named_field(schema: Schema, name: str, alias: str, *, case_sensitive: bool) -> Field:
    """The field that is to get a value, by a name as it is, or as SQL spells it, also behind the alias."""
    plain = _QUOTED.sub(lambda found: found[1].replace("``", "`"), name)
    for each in (name, plain):
        if (found := schema.find_or_none(each, case_sensitive=case_sensitive)) is not None:
            return found
    if plain.casefold().startswith(f"{alias.casefold()}."):
        plain = plain[len(alias) + 1 :]
    return schema.find(plain, case_sensitive=case_sensitive)


def _check_reachable(schema: Schema, field_id: int, values: Mapping[int, Any]) -> None:
    """Only fields of structs can be set for themselves, and only once."""
    name, around = schema.name_of(field_id), schema.parent_of(field_id)
    while around is not None:
        if not isinstance(around.type, Struct):
            hint = f"Assign {schema.name_of(around.id)} as a whole"
            raise InvalidInput(
                "what is in lists and maps cannot be assigned for itself", field=name, hint=hint
            )
        if around.id in values:
            problem = f"it is assigned, and so is {schema.name_of(around.id)} around it"
            raise InvalidInput(problem, field=name)
        around = schema.parent_of(around.id)


def _assigned(field: Field, now: Column, values: Mapping[int, Any]) -> Column:
    if field.id in values:
        return value_of(field, values[field.id])
    if not isinstance(field.type, Struct) or not _any_inside(field.type, values):
        return now
    # As in Spark, a struct that was null is one afterwards, since one of its fields has a value.
    inside = [_assigned(each, now.getField(each.name), values).alias(each.name) for each in field.type.fields]
    return F.struct(*inside)


def columns_of(alias: str, names: Sequence[str]) -> dict[str, Column]:
    """Columns of one side of a join, whatever the other side has."""
    return {each: F.col(f"{quoted(alias)}.{quoted(each)}") for each in names}


def _any_inside(type_: Struct, values: Mapping[int, Any]) -> bool:
    return any(
        each.id in values or (isinstance(each.type, Struct) and _any_inside(each.type, values))
        for each in type_.fields
    )


def value_of(field: Field, given: Any) -> Column:
    """The value that a column is given; ``DEFAULT`` is its ``write-default``."""
    if isinstance(given, str) and given.strip().upper() == _DEFAULT:
        return F.expr(default_sql(field, field.name))
    return expression(given)


def with_values(
    rows: DataFrame, schema: Schema, clauses: Mapping[int, Mapping[str, Column]], keep: Mapping[str, Column]
) -> DataFrame:
    """The new values of rows, each by the clause that decides about it, in the types of the table.

    Values are only computed for rows of their clause, so that those of others cannot fail.

    Args:
        rows: A frame with the column ``ACTION``.
        schema: The columns of the table.
        clauses: The values by the number of the clause; columns that are not named take their defaults.
        keep: Columns that stay, beside ``ACTION``, by the names that they are to have.
    """
    case_sensitive = is_case_sensitive(rows.sparkSession)
    raw = rows.select(
        ACTION,
        *[column.alias(name) for name, column in keep.items()],
        *[
            F.when(F.col(ACTION) == number, value).alias(_raw(number, place))
            for number, values in clauses.items()
            for place, value in enumerate(values.values())
        ],
    )
    types = {each.name: each.dataType for each in raw.schema.fields}
    found: dict[str, list[str]] = {}
    for number, values in clauses.items():
        names = list(values)
        given = [
            _stored_as(schema, name, types[_raw(number, i)], case_sensitive) for i, name in enumerate(names)
        ]
        sources = {
            name: _rounded(_raw(number, i), types[_raw(number, i)], each.dataType)
            for i, (name, each) in enumerate(zip(names, given, strict=True))
        }
        stored = aligned_sql(schema, given, sources.__getitem__, case_sensitive=case_sensitive)
        for field, sql in zip(stored_fields(schema.fields), stored.values(), strict=True):
            found.setdefault(field.name, []).append(f"WHEN {ACTION} = {number} THEN {sql}")
    columns = (f"CASE {' '.join(sql)} END AS {quoted(name)}" for name, sql in found.items())
    return raw.selectExpr(ACTION, *map(quoted, keep), *columns)


def _raw(number: int, place: int) -> str:
    return f"__lakeplane_v{number}_{place}"


def _stored_as(schema: Schema, name: str, given: s.DataType, case_sensitive: bool) -> s.StructField:  # noqa: FBT001
    """A value as it is stored: with as many digits after the point as the column has, as SQL's SET rounds."""
    field = schema.find_or_none(name, case_sensitive=case_sensitive)
    if field is not None and isinstance(field.type, Decimal) and isinstance(given, s.DecimalType):
        scale = field.type.scale
        if given.scale > scale:
            digits = min(given.precision - given.scale + scale + 1, _MOST_DIGITS)
            return s.StructField(name, s.DecimalType(digits, scale))
    return s.StructField(name, given)


def _rounded(name: str, given: s.DataType, stored: s.DataType) -> str:
    if given == stored or not isinstance(stored, s.DecimalType):
        return name
    return f"round({name}, {stored.scale})"
