"""Statements of SQL on a session: with frames in the place of names, and with answers as frames."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import types as s

from lakeplane.errors import InvalidInput, NotFound
from lakeplane.model.schema import Schema
from lakeplane.spark.types import from_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def run(
    session: SparkSession, template: str, frames: Mapping[str, DataFrame], text: str | None = None
) -> DataFrame:
    """Run a statement in which ``{name}`` stands for a frame; braces that are its own are doubled.

    PySpark gives the frames names of its own while it looks at the statement, and takes them back afterwards:
    as temporary views of a classic session, as parts of the plan with Connect. ``text`` is what was typed.
    """
    try:
        if frames:
            named: dict[str, Any] = dict(frames)
            return session.sql(template, **named)
        return session.sql(template if text is None else text)
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            raise NotFound(
                _first_line(error), hint="It is neither in this lake nor in the session"
            ) from error
        raise


def _first_line(error: PySparkException) -> str:
    return str(error).partition("\n")[0].partition("Verify the spelling")[0].strip().rstrip(".")


@contextlib.contextmanager
def named_frames(session: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Give frames names that statements can use, until the end of the block."""
    names = {key: f"lakeplane_{uuid.uuid4().hex}" for key in frames}
    try:
        for key, frame in frames.items():
            frame.createOrReplaceTempView(names[key])
        yield names
    finally:
        for name in names.values():
            session.catalog.dropTempView(name)


def is_temporary_view(session: SparkSession, name: str) -> bool:
    """Whether the session has a temporary view of a name."""
    quoted = "`" + name.replace("`", "``") + "`"
    try:
        # To ask for what is not there would be told to the user as an error, on stderr.
        return session.catalog.tableExists(quoted) and session.catalog.getTable(quoted).isTemporary
    except PySparkException:
        return False


def has_database(session: SparkSession, name: str) -> bool:
    """Whether the session's own catalog has a database of a name."""
    try:
        return bool(session.catalog.databaseExists(name))
    except PySparkException:
        return False


def evaluate(session: SparkSession, expression: str, type_: str, what: str) -> Any:
    """The value of an expression without columns, cast to a type."""
    # A comment at its end must not take the bracket along.
    try:
        [row] = session.sql(f"SELECT CAST(({expression}\n) AS {type_})").collect()
    except PySparkException as error:
        raise InvalidInput(f"{expression!r:.80} is no {type_}: {_first_line(error)}", field=what) from error
    return row[0]


def evaluate_time(session: SparkSession, expression: str, what: str) -> int | None:
    """The value of an expression as an instant, in microseconds since 1970."""
    try:
        [row] = session.sql(f"SELECT unix_micros(CAST(({expression}\n) AS TIMESTAMP))").collect()
    except PySparkException as error:
        raise InvalidInput(f"{expression!r:.80} is no time: {_first_line(error)}", field=what) from error
    return None if row[0] is None else int(row[0])


def answer(session: SparkSession, ddl: str, rows: Sequence[Sequence[Any]]) -> DataFrame:
    """A frame of a few rows, in the order given; the columns are Spark's DDL."""
    schema: Any = ddl or s.StructType([])
    return session.createDataFrame([tuple(row) for row in rows], schema)


def schema_of_rows(frame: DataFrame) -> Schema:
    """The schema of a table that takes the rows of a frame: nothing is required, as in Spark's own tables."""
    document = frame.schema.jsonValue()
    return from_spark(s.StructType.fromJson(_all_nullable(document)))


def _all_nullable(document: Any) -> Any:
    match document:
        case dict():
            said = {"nullable": True, "containsNull": True, "valueContainsNull": True}
            return {key: said.get(key) or _all_nullable(value) for key, value in document.items()}
        case list():
            return [_all_nullable(each) for each in document]
        case _:
            return document


def arrow_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A frame of an Arrow table."""
    return session.createDataFrame(table)


def is_dynamic_overwrite(session: SparkSession) -> bool:
    """Whether the session replaces only the partitions that it writes to."""
    mode = session.conf.get("spark.sql.sources.partitionOverwriteMode", "static")
    return str(mode).lower() == "dynamic"
