"""From a plan to a DataFrame: the rows of a snapshot, read by Spark's own readers.

Files that can be read in the same way are one scan; the scans are put one below the other. What is done to
which columns is decided in ``scan_columns`` and ``guards``, how files get to Spark in ``file_list``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.expressions.tree import TRUE, Opaque, leaves, references
from lakeplane.model.schema import Schema
from lakeplane.model.types import TIME, Field, walk
from lakeplane.spark.file_list import FileList, HandOver, Scratch, load
from lakeplane.spark.guards import history_of
from lakeplane.spark.scan_columns import by_id, quoted
from lakeplane.spark.session import allow_time, is_case_sensitive, read_by_id
from lakeplane.spark.types import to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Access(NamedTuple):
    """How files come to Spark."""

    scratch: Scratch | None = None
    schemes: Mapping[str, str] | None = None
    hand_over: HandOver | None = None


def read_plan(
    session: SparkSession,
    plan: ReadPlan,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    access: Access = Access(),  # noqa: B008 - a value that nobody changes
) -> DataFrame:
    """Make a DataFrame of the rows of a plan, with all columns of its schema or with some.

    ``where`` is the text that the plan was made with: what the plan could not decide is filtered by Spark.
    """
    _check(plan)
    filtered = where is not None and any(each != TRUE for each in plan.residuals)
    shown = (
        list(plan.schema.fields)
        if columns is None
        else [_column(plan.schema, session, each) for each in columns]
    )
    read = _with_references(plan, shown) if filtered else shown
    _prepare(session, read)
    if not plan.files.num_rows:
        frame: DataFrame = session.createDataFrame([], to_spark(Schema(tuple(read))))
    else:
        frame = _scan(session, plan, read, access)
    if filtered and where is not None:
        frame = frame.where(where)
    if [each.id for each in read] != [each.id for each in shown]:
        frame = frame.select(*[F.col(quoted(each.name)) for each in shown])
    return frame


def _check(plan: ReadPlan) -> None:
    if plan.deletes.num_rows:
        some = ", ".join(plan.deletes["file_path"].slice(0, 3).to_pylist())
        problem = f"{plan.deletes.num_rows} delete files apply to the rows: {some}"
        raise NotSupported(problem, source=plan.table.location, hint="Rewrite the data files without them")
    encrypted = plan.files.filter(pc.is_valid(plan.files["key_metadata"]))
    if encrypted.num_rows:
        raise NotSupported("the file is encrypted", source=encrypted["file_path"][0].as_py())


def _prepare(session: SparkSession, fields: list[Field]) -> None:
    """Tell a session what it must know to read columns, once."""
    read_by_id(session)
    times = [each.name for each in walk(tuple(fields)) if each.type is TIME]
    if times and not allow_time(session):
        hint = "Leave the column out: columns=[...]"
        raise NotSupported(f"Spark {session.version} has no type for time", field=times[0], hint=hint)


def _column(schema: Schema, session: SparkSession, name: str) -> Field:
    same = [each for each in schema.fields if each.name == name]
    if not same and not is_case_sensitive(session):
        same = [each for each in schema.fields if each.name.lower() == name.lower()]
    if len(same) != 1:
        schema.find(name)
        raise InvalidInput(f"{name!r} is not one column at the top of the table", field="columns")
    return same[0]


def _with_references(plan: ReadPlan, shown: list[Field]) -> list[Field]:
    """What must be read to show some columns and to filter."""
    if any(isinstance(each, Opaque) for each in leaves(plan.predicate)):
        # Only Spark understands it, so only Spark knows what it needs; what it does not need is not read.
        return shown if len(shown) == len(plan.schema.fields) else list(plan.schema.fields)
    needed = {_top(plan.schema, field_id) for field_id in references(plan.predicate)}
    missing = needed - {each.id for each in shown}
    return shown + [each for each in plan.schema.fields if each.id in missing]


def _top(schema: Schema, field_id: int) -> int:
    while (parent := schema.parent_of(field_id)) is not None:
        field_id = parent.id
    return field_id


def _scan(session: SparkSession, plan: ReadPlan, fields: list[Field], access: Access) -> DataFrame:
    history = history_of(plan.table)
    recipes = [by_id(each, history) for each in fields]
    files = plan.files
    paths = files["file_path"].to_pylist()
    listed = FileList(paths, files["file_size_in_bytes"].to_pylist(), range(len(paths)))
    schema = StructType([each.read for each in recipes if each.read is not None])
    loaded = load(session, listed, "parquet", schema, options=_PARQUET, **access._asdict())
    if all(each.value is None for each in recipes):
        return loaded.frame
    return loaded.frame.select(*[each.shown for each in recipes])


_PARQUET: Final = {
    # Dates before 1582 are what they are in the Gregorian calendar, whatever a session says.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}
