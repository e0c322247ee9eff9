"""Views: those of the lake, and temporary ones of the session over its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from lakeplane.errors import AlreadyExists, InvalidInput
from lakeplane.model.schema import Schema
from lakeplane.sql.query import Span, scan
from lakeplane.sql.select import QUERY_COLUMNS
from lakeplane.sql.statement import Run, properties_in, property_keys
from lakeplane.sql.words import Parts, Words, wrong

if TYPE_CHECKING:
    from lakeplane.spark.frames import DataFrame

COMMENT: Final = "comment"


class ShownColumn(NamedTuple):
    """A column that a view gives a name."""

    name: str
    comment: str | None = None


class CreateView(NamedTuple):
    """``CREATE VIEW``."""

    name: Parts
    query: Span
    columns: tuple[ShownColumn, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    replace: bool = False
    if_not_exists: bool = False

    def run(self, run: Run) -> DataFrame | None:
        """Make it: the text of its query is kept, and looked at now to know its columns."""
        name = run.scope.full(self.name)
        found = run.scope.find(self.name)
        if found is not None and self.if_not_exists:
            return None
        if found is not None and not self.replace:
            raise AlreadyExists(f"the name {name} is taken", hint="Write CREATE OR REPLACE VIEW")
        _define(run, self)
        return None


class AlterView(NamedTuple):
    """``ALTER VIEW``."""

    name: Parts
    query: Span | None = None
    rename: Parts | None = None
    updates: tuple[tuple[str, str], ...] = ()
    removals: tuple[str, ...] = ()

    def run(self, run: Run) -> DataFrame | None:
        """Change it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        run.scope.view(self.name)
        name = run.scope.full(self.name)
        if self.query is not None:
            _define(run, CreateView(self.name, self.query, replace=True))
        elif self.rename is not None:
            run.lake.rename_view(name, run.scope.full(self.rename))
        else:
            run.lake.change_view(name, dict(self.updates), self.removals)
        return None


class DropView(NamedTuple):
    """``DROP VIEW``."""

    name: Parts
    if_exists: bool

    def run(self, run: Run) -> DataFrame | None:
        """Take its name away."""
        found = run.scope.find(self.name)
        if found is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        if found is None and self.if_exists:
            return None
        run.scope.view(self.name)
        run.lake.drop_view(run.scope.full(self.name))
        return None


class TemporaryView(NamedTuple):
    """``CREATE TEMPORARY VIEW``: Spark's own, over what the query reads now."""

    name: Parts
    query: Span
    columns: tuple[ShownColumn, ...]
    replace: bool
    is_global: bool

    def run(self, run: Run) -> DataFrame | None:
        """Make it."""
        frame = run.query.run(run.words, *self.query)
        if self.columns:
            frame = _called(frame, self.columns)
        if len(self.name) > 1:
            wrong("a temporary view has no namespace", f"Call it {self.name[-1]}")
        kind = "GlobalTempView" if self.is_global else "TempView"
        getattr(frame, f"create{'OrReplace' if self.replace else ''}{kind}")(self.name[0])
        return None


def _define(run: Run, view: CreateView) -> None:
    from lakeplane.spark.statements import schema_of_rows  # noqa: PLC0415 - brings pyspark

    for reference in scan(run.words, *view.query).references:
        if len(reference.parts) == 1 and run.scope.is_temporary(reference.parts[0]):
            problem = f"a view of the lake cannot read {reference.parts[0]}, which is a temporary view"
            raise InvalidInput(problem, source="SQL", hint="Write CREATE TEMPORARY VIEW")
    frame = run.query.run(run.words, *view.query)
    asked = ",".join(frame.columns)
    if view.columns:
        frame = _called(frame, view.columns)
    if len({each.lower() for each in frame.columns}) < len(frame.columns):
        wrong("two columns of the view have one name", "Give them others: CREATE VIEW v (a, b) AS ...")
    schema = _commented(schema_of_rows(frame), view.columns)
    # The property keeps names between commas, so that those with one cannot be told.
    said = {} if any("," in each for each in asked.split(",")) else {QUERY_COLUMNS: asked}
    run.lake.create_view(
        run.scope.full(view.name),
        run.words.between(*view.query),
        schema,
        default_namespace=run.scope.namespace,
        properties={**dict(view.properties), **said},
        replace=view.replace,
    )


def _called(frame: DataFrame, columns: tuple[ShownColumn, ...]) -> DataFrame:
    if len(columns) != len(frame.columns):
        wrong(f"the view has {len(columns)} columns, and its query {len(frame.columns)}")
    return frame.toDF(*(each.name for each in columns))


def _commented(schema: Schema, columns: tuple[ShownColumn, ...]) -> Schema:
    told = {each.name: each.comment for each in columns if each.comment is not None}
    fields = (replace(each, doc=told.get(each.name, each.doc)) for each in schema.fields)
    return Schema(tuple(fields), schema.schema_id)


def create_view(
    words: Words, *, may_replace: bool = False, temporary: bool = False, is_global: bool = False
) -> CreateView | TemporaryView:
    """Read what follows ``CREATE VIEW``."""
    if_not_exists = not may_replace and words.skip_if_not_exists()
    name = words.parts("the name of a view")
    columns = _columns(words) if words.sees("(") else ()
    properties: dict[str, str] = {}
    while not words.sees("AS"):
        if words.skip("COMMENT"):
            properties[COMMENT] = words.string()
        elif words.skip("TBLPROPERTIES"):
            properties |= properties_in(words)
        else:
            words.unknown(("COMMENT 'text'", "TBLPROPERTIES (...)", "AS query"))
    query = _query(words)
    if temporary:
        return TemporaryView(name, query, columns, may_replace, is_global)
    return CreateView(name, query, columns, tuple(properties.items()), may_replace, if_not_exists)


def alter_view(words: Words) -> AlterView:
    """Read what follows ``ALTER VIEW``."""
    name = words.parts("the name of a view")
    if words.skip("RENAME", "TO"):
        found = AlterView(name, rename=words.parts("the new name"))
    elif words.skip("SET", "TBLPROPERTIES"):
        found = AlterView(name, updates=tuple(properties_in(words).items()))
    elif words.skip("UNSET", "TBLPROPERTIES"):
        words.skip_if_exists()
        found = AlterView(name, removals=property_keys(words))
    elif words.sees("AS"):
        return AlterView(name, query=_query(words))
    else:
        words.unknown(("AS query", "RENAME TO name", "SET TBLPROPERTIES (...)", "UNSET TBLPROPERTIES (...)"))
    words.end()
    return found


def drop_view(words: Words) -> DropView:
    """Read what follows ``DROP VIEW``."""
    if_exists = words.skip_if_exists()
    name = words.parts("the name of a view")
    words.end()
    return DropView(name, if_exists)


def _query(words: Words) -> Span:
    words.expect("AS", "AS")
    if words.is_done():
        words.refuse("expected a query")
    return words.at, len(words.text.tokens) - 1


def _columns(words: Words) -> tuple[ShownColumn, ...]:
    words.expect("(", "'('")
    found: list[ShownColumn] = []
    while True:
        name = words.name()
        found.append(ShownColumn(name, words.string() if words.skip("COMMENT") else None))
        if not words.skip(","):
            words.expect(")", "COMMENT, a comma or ')'")
            return tuple(found)
