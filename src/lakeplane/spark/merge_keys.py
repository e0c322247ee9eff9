"""Which rows of a table a source can meet at all, as far as the source's own values tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.model.expressions.join_keys import JoinKeys, Sides, join_keys
from lakeplane.model.expressions.tree import FALSE, TRUE, Compare, Predicate, Term, all_of, is_in
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field, Primitive, Type
from lakeplane.spark.merge import Merging, Source
from lakeplane.spark.scan_columns import quoted
from lakeplane.spark.session import is_case_sensitive, session_zone

if TYPE_CHECKING:
    from pyspark.sql import Column

_FEW: Final = 1000
"""Of so many rows all keys are looked at, of more only the least and the greatest."""

_RANGES: Final[dict[Type, tuple[int, int]]] = {
    Primitive.INT: (-(1 << 31), (1 << 31) - 1),
    Primitive.LONG: (-(1 << 63), (1 << 63) - 1),
}


def reachable(source: Source, merging: Merging, schema: Schema) -> Predicate:
    """What holds for every row of a table that can meet a row of the source."""
    if not isinstance(merging.on, str):
        return TRUE
    session = source.rows.sparkSession
    sides = Sides(
        merging.target,
        schema,
        merging.source,
        source.rows.columns,
        session_zone(session),
        is_case_sensitive(session),
    )
    keys = join_keys(merging.on, sides)
    return all_of([keys.own, *_bounds(source, keys)])


def _bounds(source: Source, keys: JoinKeys) -> list[Predicate]:
    types = {each.name: each.dataType for each in source.rows.schema.fields}
    known = [
        (field, value)
        for field, name in keys.equal
        if (value := _canonical(field.type, types[name], F.col(quoted(name)))) is not None
    ]
    if not known:
        return []
    if source.size <= _FEW:
        rows = source.rows.select(*[value for _, value in known]).collect()
        return [_among(field, [row[place] for row in rows]) for place, (field, _) in enumerate(known)]
    ends = [end for _, value in known for end in (F.min(value), F.max(value))]
    row = source.rows.agg(*ends).collect()[0]
    return [_between(field, row[2 * place], row[2 * place + 1]) for place, (field, _) in enumerate(known)]


def _canonical(type_: Type, given: s.DataType, value: Column) -> Column | None:
    """The value as predicates know it; None for types that are compared in ways of their own."""
    match type_, given:
        case (
            (Primitive.INT | Primitive.LONG),
            (s.ByteType() | s.ShortType() | s.IntegerType() | s.LongType()),
        ):
            return value.cast("bigint")
        case Primitive.STRING, s.StringType() if given == s.StringType():
            return value
        case Primitive.DATE, s.DateType():
            return F.unix_date(value)
        case Primitive.TIMESTAMPTZ, s.TimestampType():
            return F.unix_micros(value)
        case _:
            return None


def _among(field: Field, values: list[Any]) -> Predicate:
    lowest, highest = _RANGES.get(field.type, (None, None))
    kept = [
        each
        for each in values
        if each is not None and (lowest is None or highest is None or lowest <= each <= highest)
    ]
    return is_in(Term(field.id, field.type), kept)


def _between(field: Field, lower: Any, upper: Any) -> Predicate:
    if lower is None:
        return FALSE
    term, (lowest, highest) = Term(field.id, field.type), _RANGES.get(field.type, (lower, upper))
    if lower > highest or upper < lowest:
        return FALSE
    return all_of([Compare(term, ">=", max(lower, lowest)), Compare(term, "<=", min(upper, highest))])
