"""What deleted and inserted rows come to: copies that are no changes, rows that were updated, and the rest.

Each way looks at the rows of one commit that have something in common: the row's id, the values of all
columns, or those of identifying columns. Spark brings them together by a shuffle. The table of a million
copied rows is shuffled once for each way that is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.model.schema import Schema
from lakeplane.model.types import UNKNOWN, Field, Geography, Geometry, List, Map, Primitive, Struct, Type
from lakeplane.spark.scan_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHANGE: Final = "_change_type"
ORDINAL: Final = "_change_ordinal"
SNAPSHOT: Final = "_commit_snapshot_id"
ROW_ID: Final = "_row_id"
UPDATED: Final = "_last_updated_sequence_number"

DELETE: Final = "delete"
INSERT: Final = "insert"
_BEFORE: Final = "update_before"
_AFTER: Final = "update_after"

_DELETES: Final = "__lakeplane_deletes"
_INSERTS: Final = "__lakeplane_inserts"
_PLACE: Final = "__lakeplane_place"


def paired_by_row_id(rows: DataFrame) -> DataFrame:
    """Rows with ids: those that were copied are left out, those that were changed are updates."""
    same = Window.partitionBy(ORDINAL, ROW_ID)
    copied = F.min(UPDATED).over(same).eqNullSafe(F.max(UPDATED).over(same))
    return _paired(rows, same, copied)


def paired_by(rows: DataFrame, identifiers: Sequence[Column]) -> DataFrame:
    """A deleted and an inserted row are an update if no others have the same identifiers."""
    return _paired(rows, Window.partitionBy(ORDINAL, *identifiers), F.lit(False))  # noqa: FBT003 - a constant


def _paired(rows: DataFrame, same: Any, copied: Column) -> DataFrame:
    """Take pairs of one deleted and one inserted row for what they are."""
    pair = F.col(CHANGE).isin(DELETE, INSERT) & (F.col(_DELETES) == 1) & (F.col(_INSERTS) == 1)
    was = F.col(CHANGE) == DELETE
    changed = F.when(pair, F.when(was, _BEFORE).otherwise(_AFTER)).otherwise(F.col(CHANGE))
    counted = rows.withColumns({**_counts(same), _PLACE: copied})
    kept = counted.where(~(pair & F.col(_PLACE)))
    return kept.withColumn(CHANGE, changed).drop(_DELETES, _INSERTS, _PLACE)


def without_copies(rows: DataFrame, values: Sequence[Column]) -> DataFrame:
    """Of rows with the same values, as many deleted as inserted ones are no changes."""
    same = Window.partitionBy(ORDINAL, *values)
    # Deleted rows come first, then inserted ones, and then what is known to be an update.
    place = F.row_number().over(same.orderBy(CHANGE))
    before = F.when(F.col(CHANGE) == INSERT, F.col(_DELETES)).otherwise(0)
    copied = F.col(_PLACE) - before <= F.least(_DELETES, _INSERTS)
    counted = rows.withColumns({**_counts(same), _PLACE: place})
    kept = counted.where(~(F.col(CHANGE).isin(DELETE, INSERT) & copied))
    return kept.drop(_DELETES, _INSERTS, _PLACE)


def _counts(same: Any) -> dict[str, Column]:
    kinds = {_DELETES: DELETE, _INSERTS: INSERT}
    return {name: F.count_if(F.col(CHANGE) == kind).over(same) for name, kind in kinds.items()}


# Values that Spark can compare


def identifiers_of(schema: Schema, names: Sequence[str] | None, *, case_sensitive: bool) -> list[int]:
    """The ids of identifying columns: those that are named, or those of the schema."""
    if names is None:
        return list(schema.identifier_field_ids)
    if isinstance(names, str):
        problem = "identifier_columns must be a list of names"
        raise InvalidInput(problem, field="identifier_columns", hint=f"Write [{names!r}]")
    found = []
    for name in names:
        field = schema.find_or_none(name, case_sensitive=case_sensitive)
        if field is None:
            raise InvalidInput(f"no column {name!r:.80}", field="identifier_columns")
        found.append(field.id)
    return found


def path_to(schema: Schema, field_id: int) -> list[Field]:
    """A field, and before it those that it lies in."""
    path = [schema.field(field_id)]
    while (parent := schema.parent_of(path[0].id)) is not None:
        path.insert(0, parent)
    return path


def value_at(path: Sequence[Field], name: str) -> Column:
    """The value of an identifying column, at any depth of structs."""
    if inside := next((each for each in path[:-1] if not isinstance(each.type, Struct)), None):
        problem = f"{path[-1].name} lies in a {inside.type}, and cannot identify rows"
        raise InvalidInput(problem, field="identifier_columns")
    value = functools.reduce(lambda column, each: column.getField(each.name), path[1:], F.col(quoted(name)))
    return _known(path[-1], value, "Name other columns: identifier_columns=[...]")


def values_of(fields: Sequence[Field]) -> list[Column]:
    """The values of columns as Spark can tell them apart."""
    hint = (
        "Leave the column out: columns=[...]. Rows need not be compared in changes that were made after the "
        "table got row ids"
    )
    return [_known(each, F.col(quoted(each.name)), hint) for each in fields if each.type is not UNKNOWN]


def _known(field: Field, value: Column, hint: str) -> Column:
    found = _comparable(field.type, value)
    if found is None:
        problem = f"Spark cannot compare values of {field.type}, by which rows are told apart here"
        raise NotSupported(problem, field=field.name, hint=hint)
    return found


def _comparable(type_: Type, value: Column) -> Column | None:
    """A value that is equal where others are, and can be sorted; None if Spark knows no such."""
    if not _is_odd(type_):
        return value
    match type_:
        case Geometry() | Geography():
            return F.call_function("st_asbinary", value)
        case Struct():
            parts = [_comparable(each.type, value.getField(each.name)) for each in type_.fields]
            known = [each for each in parts if each is not None]
            return F.when(value.isNotNull(), F.struct(*known)) if len(known) == len(parts) else None
        case List():
            return _each(type_.element, lambda inner: F.transform(value, inner))
        case Map():
            made = _each(type_.value, lambda inner: F.transform_values(value, lambda _, each: inner(each)))
            # Entries of a map have no order, and keys are never maps.
            return None if made is None else F.array_sort(F.map_entries(made))
        case _:
            return None


def _each(type_: Type, make: Any) -> Column | None:
    if _comparable(type_, F.lit(None)) is None:
        return None
    made: Column = make(lambda each: _comparable(type_, each))
    return made


def _is_odd(type_: Type) -> bool:
    """Whether Spark cannot sort values as they are."""
    match type_:
        case Geometry() | Geography() | Map():
            return True
        case Struct():
            return any(_is_odd(each.type) for each in type_.fields)
        case List():
            return _is_odd(type_.element)
        case _:
            return type_ is Primitive.VARIANT
