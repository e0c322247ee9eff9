"""INSERT INTO and INSERT OVERWRITE: by position or by name, with static partitions, defaults and branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeplane.errors import InvalidExpression, InvalidInput
from lakeplane.model.expressions.sql_text import literal_sql
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity
from lakeplane.model.types import Field
from lakeplane.sql.query import Span
from lakeplane.sql.rows import how_of
from lakeplane.sql.statement import Run
from lakeplane.sql.words import QUERY_WORDS, Edit, Parts, Words, edited, quoted, wrong

if TYPE_CHECKING:
    from lakeplane.receipt import Commit
    from lakeplane.spark.frames import DataFrame
    from lakeplane.table import Table


class Insert(NamedTuple):
    """``INSERT``."""

    name: Parts
    query: Span
    overwrite: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
    """Columns of partitions with their values; None where the rows say."""
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: Span | None = None

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        found = run.scope.table(self.name)
        table, how = found.table, how_of(run, found)
        fixed = self._fixed(table, run)
        frame = self._rows(run, table.schema, fixed)
        return run.receipt(self._write(run, table, frame, fixed, how))

    def _write(
        self, run: Run, table: Table, frame: DataFrame, fixed: Mapping[str, str], how: dict[str, Any]
    ) -> Commit:
        from lakeplane.spark.statements import is_dynamic_overwrite  # noqa: PLC0415 - brings pyspark

        if self.replace_where is not None:
            return table.overwrite(frame, run.words.text.between(*self.replace_where), **how)
        if not self.overwrite:
            return table.append(frame, **how)
        if is_dynamic_overwrite(run.session):
            return table.overwrite_partitions(frame, **how)
        where = [
            f"{quoted(name)} IS NULL" if value.upper() == "NULL" else f"{quoted(name)} = {value}"
            for name, value in fixed.items()
        ]
        return table.overwrite(frame, " AND ".join(where) or None, **how)

    def _fixed(self, table: Table, run: Run) -> dict[str, str]:
        """The values of PARTITION, by the names of the table's columns."""
        known = {
            table.schema.name_of(each.source_id)
            for each in table.metadata.partition_spec.fields
            if isinstance(each.transform, Identity)
        }
        found: dict[str, str] = {}
        for name, value in self.partition:
            field = _column(table.schema, name, run)
            if field.name not in known:
                hint = "PARTITION takes columns that the table is partitioned by as they are: "
                raise InvalidInput(
                    f"the table is not partitioned by {name}",
                    source="SQL",
                    hint=hint + (", ".join(known) or "none"),
                )
            if value is not None:
                found[field.name] = value
        return found

    def _rows(self, run: Run, schema: Schema, fixed: Mapping[str, str]) -> DataFrame:
        """The rows of the query, with the columns called as in the table."""
        wanted = self._wanted(run, schema, fixed)
        words, span = run.words, self.query
        if words.text.tokens[span[0]].word == "VALUES":
            words, span = _with_defaults(words, span, wanted)
        frame = run.query.run(words, *span)
        if not self.by_name:
            if len(frame.columns) != len(wanted):
                problem = f"the query has {len(frame.columns)} columns, and {len(wanted)} are to be filled"
                names = ", ".join(each.name for each in wanted)
                raise InvalidInput(
                    problem, source="SQL", hint=f"They are {names}. Name some: INSERT INTO t (a, b)"
                )
            frame = frame.toDF(*(each.name for each in wanted))
        if not fixed:
            return frame
        from lakeplane.spark.types import shown_type  # noqa: PLC0415 - brings pyspark

        more = [
            f"CAST({value} AS {shown_type(schema.find(name).type).simpleString()}) AS {quoted(name)}"
            for name, value in fixed.items()
        ]
        return frame.selectExpr("*", *more)

    def _wanted(self, run: Run, schema: Schema, fixed: Mapping[str, str]) -> Sequence[Field]:
        """The columns that the query fills, in its order."""
        if self.columns is None:
            return [each for each in schema.fields if each.name not in fixed]
        found = [_column(schema, name, run) for name in self.columns]
        names = [each.name for each in found]
        for name in names:
            if names.count(name) > 1 or name in fixed:
                wrong(f"the column {name} is filled twice")
        return found


def _column(schema: Schema, name: str, run: Run) -> Field:
    exact = [each for each in schema.fields if each.name == name]
    folded = [each for each in schema.fields if each.name.lower() == name.lower()]
    found = exact or ([] if run.case_sensitive else folded)
    if len(found) != 1:
        known = ", ".join(each.name for each in schema.fields)
        raise InvalidInput(f"there is no column {name}", source="SQL", hint=f"There is {known}")
    return found[0]


def _with_defaults(words: Words, span: Span, wanted: Sequence[Field]) -> tuple[Words, Span]:
    """VALUES with the write default of the column in the place of each DEFAULT."""
    tokens, edits, at = words.text.tokens, [], span[0] + 1
    while at < span[1]:
        if tokens[at].text == "(":
            for place, (first, after) in enumerate(words.split(at + 1, words.text.partners[at])):
                if after == first + 1 and tokens[first].word == "DEFAULT" and place < len(wanted):
                    edits.append(Edit(tokens[first].start, tokens[first].end, _default(wanted[place])))
            at = words.text.partners[at]
        at += 1
    if not edits:
        return words, span
    text = edited(words.source, edits, tokens[span[0]].start, tokens[span[1] - 1].end)
    made = Words(text)
    return made, (0, len(made.text.tokens) - 1)


def _default(field: Field) -> str:
    if field.write_default is None:
        return "NULL"
    try:
        return literal_sql(field.type, field.write_default)
    except InvalidExpression:
        hint = "Leave the column out of the list of columns"
        raise InvalidInput("its default cannot be written as SQL", field=field.name, hint=hint) from None


def insert(words: Words, *, overwrite: bool = False) -> Insert:
    """Read what follows ``INSERT INTO`` or ``INSERT OVERWRITE``."""
    if words.token.word == "TABLE" and words.peek().kind in ("word", "quoted"):
        words.at += 1
    name = words.parts("the name of a table")
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] | None = None
    replace_where = None
    by_name = False
    if words.skip("PARTITION"):
        partition = _partition(words)
    if words.sees("IF"):
        words.refuse("IF NOT EXISTS is not supported here", "Leave it out")
    if words.skip("BY", "NAME"):
        by_name = True
    elif words.sees("(") and words.peek().word not in QUERY_WORDS and words.peek().text != "(":
        columns = tuple(Words(each).name() for each in words.inside_items())
    elif not overwrite and words.skip("REPLACE", "WHERE"):
        replace_where = words.expression(*(QUERY_WORDS - {"MAP", "REDUCE"}))
    if not words.sees("(", *QUERY_WORDS):
        words.refuse(
            "expected a query or VALUES", "Write INSERT INTO name [(columns)] SELECT ... or VALUES ..."
        )
    query = (words.at, len(words.text.tokens) - 1)
    return Insert(name, query, overwrite, partition, columns, by_name, replace_where)


def _partition(words: Words) -> tuple[tuple[str, str | None], ...]:
    words.expect("(", "'('")
    found: list[tuple[str, str | None]] = []
    while True:
        name, value = words.name(), None
        if words.skip("=") or words.skip("=="):
            value = words.text.between(*words.expression(",", ")"))
        found.append((name, value))
        if not words.skip(","):
            words.expect(")", "a comma or ')'")
            return tuple(found)
