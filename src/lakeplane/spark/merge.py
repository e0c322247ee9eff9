"""MERGE as frames: which rows of a table meet which rows of a source, and what becomes of them.

The source is kept before it is looked at, so that it has the same rows each time, whatever it is made of.
Rows of the table that meet one are found by a join that sends the source around where that is possible; the
table is never shuffled to find out which source rows are new: those that no row of the table has met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import InvalidInput
from lakeplane.model.schema import Schema
from lakeplane.model.types import NANOS
from lakeplane.spark.assignments import (
    ACTION,
    assigned,
    columns_of,
    expression,
    named_field,
    value_of,
    with_values,
)
from lakeplane.spark.held import pinned, variable_widths, width_of
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION, is_reserved
from lakeplane.spark.scan_columns import quoted
from lakeplane.spark.session import is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

When: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Does: TypeAlias = Literal["update", "delete", "insert"]

SOURCE_ROW: Final = "__lakeplane_source_row"
"""The number of a row of the source."""

_SENT_AROUND: Final = 256 << 20
"""A source of so many bytes is sent to all tasks."""


class Clause(NamedTuple):
    """What becomes of rows, in the words of MERGE."""

    when: When
    does: Does
    condition: Any = None
    values: Mapping[str, Any] | None = None
    """None: each column takes the source's of the same name."""


class Merging(NamedTuple):
    """A MERGE, but for the two tables."""

    on: Any
    clauses: tuple[Clause, ...] = ()
    target: str = "t"
    source: str = "s"
    evolves: bool = False
    """Whether the table takes the columns that only the source has."""

    def of(self, *when: When) -> dict[int, Clause]:
        """The clauses about some rows, by their numbers, which begin at 1."""
        return {number: each for number, each in enumerate(self.clauses, 1) if each.when in when}

    @property
    def may_meet_twice(self) -> bool:
        """Whether a row of the table may meet two rows of the source: if it is deleted in any case."""
        return list(self.of("matched").values()) in ([], [Clause("matched", "delete")])

    @property
    def said(self) -> list[Any]:
        """All conditions and values."""
        values = [value for each in self.clauses for value in (each.values or {}).values()]
        return [self.on, *(each.condition for each in self.clauses), *values]

    def doing(self, *does: Does) -> list[int]:
        """The numbers of the clauses that do one of some things."""
        return [number for number, each in enumerate(self.clauses, 1) if each.does in does]


def check(merging: Merging) -> None:
    """Refuse clauses that can never be reached, or that there are none."""
    if not merging.clauses:
        raise InvalidInput("there is nothing to do", field="merge", hint="Add a when_… clause")
    if merging.target.casefold() == merging.source.casefold():
        raise InvalidInput(f"both sides are called {merging.target}", field="merge")
    for when in ("matched", "not matched", "not matched by source"):
        found = list(merging.of(when).values())
        if any(each.condition is None for each in found[:-1]):
            hint = "Only the last clause of its kind may have no condition"
            raise InvalidInput(
                f"a clause for rows that are {when} is never reached", field="merge", hint=hint
            )


class Source(NamedTuple):
    """The source of a MERGE: the same rows each time it is looked at."""

    rows: DataFrame
    """With the column ``SOURCE_ROW``."""
    size: int
    """How many there are."""
    bytes: int
    """What they take in memory, about."""

    @property
    def is_small(self) -> bool:
        """Whether it is sent to all tasks."""
        return self.bytes <= _SENT_AROUND


def source_of(rows: DataFrame) -> Source:
    """Number the rows of a source, and keep them."""
    _check_names(rows.columns)
    kept = pinned(rows.withColumn(SOURCE_ROW, F.monotonically_increasing_id()))
    count, *lengths = kept.agg(F.count(F.lit(1)), *variable_widths(kept.schema)).collect()[0]
    return Source(kept, count, count * width_of(kept.schema) + sum(each or 0 for each in lengths))


def source_here(session: SparkSession, rows: pa.Table, schema: Schema) -> Source:
    """A source of rows that are in this process, for a table with some columns."""
    _check_names(rows.column_names)
    for place, field in enumerate(rows.schema):
        values = _without_nanos(rows[place], field, schema, cased=is_case_sensitive(session))
        rows = rows.set_column(place, field.name, values)
    numbers = pa.array(range(rows.num_rows), pa.int64())
    frame = session.createDataFrame(rows.append_column(SOURCE_ROW, numbers))
    return Source(frame, rows.num_rows, rows.num_rows * width_of(frame.schema) + rows.nbytes)


def _without_nanos(
    values: pa.ChunkedArray, given: pa.Field, schema: Schema, *, cased: bool
) -> pa.ChunkedArray:
    """Values as Spark can hold them, which knows no nanoseconds: its own way is to cut them off.

    What goes by its name to a column of nanoseconds becomes their number, as Spark sees such columns.
    """
    micros = _in_micros(given.type)
    if micros == given.type:
        return values
    field = schema.find_or_none(given.name, case_sensitive=cased)
    if field is not None and field.type in NANOS and pa.types.is_timestamp(given.type):
        return values.cast(pa.int64())
    try:
        return values.cast(micros)
    except pa.ArrowInvalid:
        hint = "Round them, or give them as numbers"
        problem = "it has nanoseconds, which Spark has not"
        raise InvalidInput(problem, field=given.name, hint=hint) from None


def _in_micros(type_: pa.DataType) -> pa.DataType:
    match type_:
        case pa.TimestampType() if type_.unit == "ns":
            return pa.timestamp("us", type_.tz)
        case pa.Time64Type() if type_.unit == "ns":
            return pa.time64("us")
        case pa.StructType():
            return pa.struct([each.with_type(_in_micros(each.type)) for each in type_])
        case pa.ListType():
            return pa.list_(type_.value_field.with_type(_in_micros(type_.value_type)))
        case _:
            return type_


def _check_names(names: Sequence[str]) -> None:
    if clash := next((each for each in names if is_reserved(each)), None):
        raise InvalidInput("the source has a column of a name that is taken", field=clash, hint="Rename it")


def met_rows(
    target: DataFrame, source: Source, merging: Merging, schema: Schema, carried: Sequence[str]
) -> DataFrame:
    """Rows of the table about which something is said, with what becomes of them.

    Args:
        target: The rows of the table, with their places.
        source: The rows of the source.
        merging: What is to be done.
        schema: The columns of the table.
        carried: Columns of the target that stay as they are.

    Returns:
        A frame with the places, ``SOURCE_ROW`` (null for rows that meet none), ``ACTION`` (0 for rows that
        stay as they are), what is carried, and the new values by the table's names.
    """
    t, s = target.alias(merging.target), source.rows.alias(merging.source)
    alone = merging.of("not matched by source")
    sent = F.broadcast(s) if source.is_small else s
    join = t.join(sent, expression(merging.on), "left" if alone else "inner")
    met = F.col(SOURCE_ROW).isNotNull()
    action = F.when(met, _chosen(merging.of("matched"))).otherwise(_chosen(alone))
    # What SET says is computed below the columns that are added here, which hide none of the table's.
    rows = join.withColumn(ACTION, action if alone else _chosen(merging.of("matched")))
    if alone:
        rows = rows.where(met | (F.col(ACTION) > 0))
    updates = {
        number: _values(each, source.rows, merging, schema)
        for number, each in merging.of("matched", "not matched by source").items()
        if each.does == "update"
    }
    own = columns_of(merging.target, [FILE_NUMBER, ROW_POSITION, *carried])
    return with_values(rows, schema, updates, {**own, SOURCE_ROW: F.col(SOURCE_ROW)})


def unmet_rows(source: Source, met: DataFrame, merging: Merging, schema: Schema) -> DataFrame | None:
    """Rows that the source adds to the table: none that any row of the table has met."""
    inserts = merging.of("not matched")
    if not inserts:
        return None
    known = met.where(F.col(SOURCE_ROW).isNotNull()).select(SOURCE_ROW)
    rows = source.rows.join(known, SOURCE_ROW, "left_anti").alias(merging.source)
    rows = rows.withColumn(ACTION, _chosen(inserts)).where(F.col(ACTION) > 0)
    values = {number: _inserted(each, source.rows, merging, schema) for number, each in inserts.items()}
    return with_values(rows, schema, values, {}).drop(ACTION)


def _chosen(clauses: Mapping[int, Clause]) -> Column:
    """The number of the first clause whose condition holds."""
    action: Column | None = None
    for number, each in clauses.items():
        holds = F.lit(True) if each.condition is None else expression(each.condition)  # noqa: FBT003
        action = F.when(holds, number) if action is None else action.when(holds, number)
    return F.lit(0) if action is None else action.otherwise(0)


def _values(clause: Clause, source: DataFrame, merging: Merging, schema: Schema) -> dict[str, Column]:
    cased = is_case_sensitive(source.sparkSession)
    values = clause.values
    if values is None:
        values = _of_source(source, merging, schema, cased=cased)
        missing = [each.name for each in schema.fields if each.name not in values]
        if missing and not merging.evolves:
            hint = "Name the columns to update, or let the source have them all"
            raise InvalidInput("the source has no such column", field=missing[0], hint=hint)
    return assigned(schema, values, merging.target, case_sensitive=cased)


def _inserted(clause: Clause, source: DataFrame, merging: Merging, schema: Schema) -> dict[str, Column]:
    cased = is_case_sensitive(source.sparkSession)
    given = clause.values
    if given is None:
        return {
            name: expression(sql) if isinstance(sql, str) else sql
            for name, sql in _of_source(source, merging, schema, cased=cased).items()
        }
    found: dict[str, Column] = {}
    for name, value in given.items():
        field = named_field(schema, name, merging.target, case_sensitive=cased)
        if schema.parent_of(field.id) is not None:
            raise InvalidInput("only whole columns can be inserted", field=name)
        if field.name in found:
            raise InvalidInput("it is given twice", field=name)
        found[field.name] = value_of(field, value)
    return found


def _of_source(source: DataFrame, merging: Merging, schema: Schema, *, cased: bool) -> dict[str, Any]:
    """The source's columns that the table has, too, by the table's names."""
    found: dict[str, Any] = {}
    for name in source.columns:
        fields = [each for each in schema.fields if each.name == name]
        if not fields and not cased:
            fields = [each for each in schema.fields if each.name.casefold() == name.casefold()]
        if len(fields) == 1:
            found[fields[0].name] = F.col(f"{quoted(merging.source)}.{quoted(name)}")
    return found
