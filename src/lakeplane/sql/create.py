"""CREATE TABLE and REPLACE TABLE, with a query or without, and DROP and TRUNCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeplane.errors import AlreadyExists, InvalidInput, LakeplaneError, NotFound, NotSupported
from lakeplane.model.ddl import parse_ddl
from lakeplane.sql.query import Span
from lakeplane.sql.rows import how_of
from lakeplane.sql.statement import Run, properties_in
from lakeplane.sql.words import QUERY_WORDS, Parts, Words, quoted, wrong

if TYPE_CHECKING:
    from lakeplane.lake import Lake
    from lakeplane.model.schema import Schema
    from lakeplane.spark.frames import DataFrame

_CLAUSES: Final = ("USING", "PARTITIONED BY", "TBLPROPERTIES", "COMMENT", "LOCATION", "AS")


class CreateTable(NamedTuple):
    """``CREATE TABLE`` and its kin."""

    name: Parts
    columns: str | None
    using: str | None
    partition_by: tuple[str, ...]
    properties: dict[str, str]
    location: str | None
    query: Span | None
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        using = (self.using or "iceberg").lower()
        if using == "paimon":
            hint = "Tables of Iceberg can be made: USING iceberg"
            raise NotSupported("tables of Paimon cannot be made by SQL yet", source="SQL", hint=hint)
        if using != "iceberg":
            if run.scope.is_ours(self.name) and len(self.name) > 1:
                wrong(f"a lake holds no tables of {self.using}", "Write USING iceberg")
            return run.to_spark()
        name = run.scope.full(self.name)
        exists = run.scope.exists(self.name)
        if exists and self.if_not_exists:
            return None
        if exists and not self.replace:
            raise AlreadyExists(f"the name {name} is taken", hint="Drop it first, or CREATE OR REPLACE")
        if self.must_exist and not exists:
            run.scope.missing("table", name)
        rows = None if self.query is None else run.query.run(run.words, *self.query)
        made = self._arguments(run, rows)
        if exists:
            run.lake.replace_table(name, rows=rows, **made)
        elif rows is None:
            run.lake.create_table(name, **made)
        else:
            _create_with_rows(run.lake, name, rows, made)
        return None

    def _arguments(self, run: Run, rows: DataFrame | None) -> dict[str, Any]:
        if rows is None:
            schema: Schema = parse_ddl(self._all_columns(), zone=run.zone)
        else:
            from lakeplane.spark.statements import schema_of_rows  # noqa: PLC0415 - brings pyspark

            if self.columns is not None:
                wrong("a table that is made of a query takes its columns from there", "Leave the columns out")
            schema = schema_of_rows(rows)
        return {
            "schema": schema,
            "partition_by": [_rule(each)[0] for each in self.partition_by],
            "properties": self.properties,
            "location": self.location,
        }

    def _all_columns(self) -> str:
        """The columns of the table: those of PARTITIONED BY that come with a type are columns, too."""
        more = [column for each in self.partition_by if (column := _rule(each)[1])]
        found = [each for each in (self.columns, *more) if each]
        if not found:
            wrong("a table without columns", "Write CREATE TABLE namespace.name (id BIGINT)")
        return ", ".join(found)


def _rule(text: str) -> tuple[str, str | None]:
    """A partition rule; with the column it makes, as in ``PARTITIONED BY (day DATE)``."""
    words = Words(text)
    following = words.peek()
    if words.token.kind in ("word", "quoted") and following.kind == "word" and following.word != "AS":
        return quoted(words.name()), text
    return text, None


def _create_with_rows(lake: Lake, name: Any, rows: DataFrame, made: dict[str, Any]) -> None:
    table = lake.create_table(name, **made)
    try:
        table.append(rows)
    except BaseException:
        # Nobody was promised a table without rows.
        try:
            lake.drop_table(name)
        except LakeplaneError as left:
            problem = f"the rows could not be written, and the empty table is still there: {left.problem}"
            raise InvalidInput(problem, source=str(name)) from left
        raise


def create_table(words: Words, *, replace: bool = False, must_exist: bool = False) -> CreateTable:
    """Read what follows ``CREATE TABLE``, ``CREATE OR REPLACE TABLE`` or ``REPLACE TABLE``."""
    if_not_exists = not replace and words.skip_if_not_exists()
    name = words.parts("the name of a table")
    columns = words.inside() if words.sees("(") and words.peek().word not in QUERY_WORDS else None
    using = location = None
    partition_by: list[str] = []
    properties: dict[str, str] = {}
    seen: set[str] = set()
    while not words.is_done() and not words.sees("AS", "(", *QUERY_WORDS):
        clause = words.token.word
        if clause in seen:
            words.refuse(f"a second {clause}")
        seen.add(clause)
        if words.skip("USING"):
            using = words.name()
        elif words.skip("PARTITIONED", "BY"):
            partition_by = words.inside_items()
        elif words.skip("COMMENT"):
            properties["comment"] = words.string()
        elif words.skip("TBLPROPERTIES") or words.skip("OPTIONS"):
            properties = {**properties, **properties_in(words)}
        elif words.skip("LOCATION"):
            location = words.string()
        elif using is not None and using.lower() != "iceberg":
            words.at += 1  # what other formats know is Spark's business
        else:
            words.unknown(_CLAUSES)
    words.skip("AS")
    query = None if words.is_done() else (words.at, len(words.text.tokens) - 1)
    if query and not words.sees("(", *QUERY_WORDS):
        words.refuse("expected a query", "Write AS SELECT ...")
    return CreateTable(
        name,
        columns,
        using,
        tuple(partition_by),
        properties,
        location,
        query,
        if_not_exists,
        replace,
        must_exist,
    )


class DropTable(NamedTuple):
    """``DROP TABLE``."""

    name: Parts
    if_exists: bool
    purge: bool

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        found = run.scope.find(self.name)
        if found is None and not run.scope.is_ours(self.name):
            # A temporary view, or a table that Spark has; if there is none, Spark says so.
            try:
                return run.to_spark()
            except NotFound:
                run.scope.missing("table", run.scope.full(self.name))
        if found is None and self.if_exists:
            return None
        table = run.scope.table(self.name, plain=True).table
        run.lake.drop_table(run.scope.full(self.name), purge=self.purge)
        del table
        return None


def drop_table(words: Words) -> DropTable:
    """Read what follows ``DROP TABLE``."""
    if_exists = words.skip_if_exists()
    name = words.parts("the name of a table")
    purge = words.skip("PURGE")
    words.end("After the name, PURGE is supported")
    return DropTable(name, if_exists, purge)


class Truncate(NamedTuple):
    """``TRUNCATE TABLE``."""

    name: Parts

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        found = run.scope.table(self.name)
        return run.receipt(found.table.delete("true", **how_of(run, found)))


def truncate_table(words: Words) -> Truncate:
    """Read what follows ``TRUNCATE TABLE``."""
    name = words.parts("the name of a table")
    words.end("To remove some rows, write DELETE FROM name WHERE ...")
    return Truncate(name)
