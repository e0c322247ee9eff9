"""From a plan of a Paimon table to a DataFrame: what must be merged is merged by Spark, the rest is scanned.

Raw files are scans, below each other. Files whose keys overlap are scanned likewise, and merged by key; only
then a condition on their values may leave rows out, as without an update the row before it would come back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.model.expressions.physical import plain
from lakeplane.model.expressions.tree import TRUE, Opaque, leaves, references
from lakeplane.model.schema import Schema
from lakeplane.model.types import TIME, Field, walk
from lakeplane.paimon.deletion_vectors import VectorRange, bytes_of, vector_of
from lakeplane.paimon.plan import ReadPlan
from lakeplane.spark.arrow_rows import NUMBER
from lakeplane.spark.constants import ROW
from lakeplane.spark.merge_engines import (
    KIND,
    SECTION,
    SEQUENCE,
    check_merging,
    is_kept,
    merged,
    needed_for_merging,
)
from lakeplane.spark.paimon_scan import Source, partition_constant, scans, whole_paths
from lakeplane.spark.read import Access
from lakeplane.spark.scan_columns import quoted
from lakeplane.spark.session import allow_time, is_case_sensitive
from lakeplane.spark.types import to_spark

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import SparkSession

ROW_KIND: Final = "_row_kind"
"""The column that tells what a change is."""
SEQUENCE_NUMBER: Final = "_sequence_number"
"""The column that tells in which order the changes of a key were made."""

_DEFAULT: Final = Access()


def read_paimon(
    session: SparkSession,
    plan: ReadPlan,
    location: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    access: Access = _DEFAULT,
) -> DataFrame:
    """Make a DataFrame of the rows of a plan, with all columns of its schema or with some.

    ``location`` is the directory of the table. ``where`` is the text that the plan was made with; the plan
    must be made with the session's time zone and its sense of case.
    """
    shown, read = _fields(session, plan, columns, where)
    if plan.merges:
        check_merging(plan.schema, read)
    source = _source(session, plan, location, access)
    files = source.plan.files
    raw = plain(files["raw"])
    frames = _raw(source, files.filter(raw), read)
    frames += _merged(source, files.filter(pc.invert(raw)), read)
    return _finished(source, frames, shown, read, where)


def read_changes(
    session: SparkSession,
    plan: ReadPlan,
    location: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    access: Access = _DEFAULT,
) -> DataFrame:
    """Make a DataFrame of changes: each row as it was written, none merged, and what it does.

    ``_row_kind`` comes first: ``+I``, ``-U``, ``+U`` or ``-D``; in tables with a primary key then
    ``_sequence_number``.
    """
    shown, read = _fields(session, plan, columns, where)
    source = _source(session, plan, location, access)
    has_key = plan.schema.has_primary_key
    frames = scans(source, source.plan.files, read, (KIND, SEQUENCE) if has_key else ())
    more = [F.lit("+I").alias(ROW_KIND)]
    if has_key:
        kinds = F.array(*[F.lit(each) for each in ("+I", "-U", "+U", "-D")])
        more = [F.get(kinds, F.col(KIND)).alias(ROW_KIND), F.col(SEQUENCE).alias(SEQUENCE_NUMBER)]
    if not frames:
        schema = s.StructType(
            [
                *to_spark(Schema(tuple(read))),
                s.StructField(KIND, s.IntegerType()),
                s.StructField(SEQUENCE, s.LongType()),
            ]
        )
        frames = [session.createDataFrame([], schema)]
    frame: DataFrame = functools.reduce(DataFrame.unionAll, frames)
    if _filters(plan, where):
        frame = frame.where(str(where))
    return frame.select(*more, *[F.col(quoted(each.name)) for each in shown])


def _source(session: SparkSession, plan: ReadPlan, location: str, access: Access) -> Source:
    plan = whole_paths(plan, location)
    return Source(session, plan, access, _deleted(plan, access))


def _deleted(plan: ReadPlan, access: Access) -> dict[int, BitMap64]:
    """The deleted positions of files, by their rows in the plan."""
    files = plan.files.filter(plan.files["vector_path"].is_valid())
    if not files.num_rows:
        return {}
    if access.read_ranges is None:
        problem = "deletion vectors apply to the rows, and no store was given to read them from"
        raise NotSupported(problem, source=files["vector_path"][0].as_py())
    names = ("vector_path", "file_name", "vector_offset", "vector_length", "vector_cardinality", ROW)
    told = [
        (path, row, VectorRange(*vector))
        for path, *vector, row in zip(*[files[name].to_pylist() for name in names], strict=True)
    ]
    spans = [(path, bytes_of(vector)) for path, _, vector in told]
    found = access.read_ranges([(path, start, end - start) for path, (start, end) in spans])
    return {
        row: vector_of(data, vector, source=path, start=vector.offset)
        for data, (path, row, vector) in zip(found, told, strict=True)
    }


# Columns.


def _fields(
    session: SparkSession, plan: ReadPlan, columns: Sequence[str] | None, where: str | None
) -> tuple[list[Field], list[Field]]:
    """The columns that are shown, and those that are read for that."""
    shown = _chosen(session, plan, columns)
    read = _with_references(plan, shown) if _filters(plan, where) else shown
    times = [each.name for each in walk(tuple(read)) if each.type is TIME]
    if times and not allow_time(session):
        hint = "Leave the column out: columns=[...]"
        raise NotSupported(f"Spark {session.version} has no type for time", field=times[0], hint=hint)
    return shown, read


def _filters(plan: ReadPlan, where: str | None) -> bool:
    return where is not None and any(each != TRUE for each in plan.residuals)


def _chosen(session: SparkSession, plan: ReadPlan, columns: Sequence[str] | None) -> list[Field]:
    fields = plan.schema.model.fields
    if columns is None:
        return list(fields)
    if isinstance(columns, str):
        raise InvalidInput("columns must be a list of names", field="columns", hint=f"Write [{columns!r}]")
    chosen = []
    for name in columns:
        same = [each for each in fields if each.name == name]
        if not same and not is_case_sensitive(session):
            same = [each for each in fields if each.name.lower() == name.lower()]
        if len(same) != 1:
            problem = f"no column {name!r}" if not same else f"{name!r} fits more than one column"
            hint = f"Columns: {', '.join(each.name for each in fields[:20])}"
            raise InvalidInput(problem, field="columns", hint=hint)
        if same[0] in chosen:
            raise InvalidInput(f"the column {name!r} is asked for twice", field="columns")
        chosen += same
    return chosen


def _with_references(plan: ReadPlan, shown: list[Field]) -> list[Field]:
    model = plan.schema.model
    known = {each.id for each in shown}
    if any(isinstance(each, Opaque) for each in leaves(plan.predicate)):
        # Only Spark understands it, so only Spark knows what it needs; it reads no more than that.
        needed = {each.id for each in model.fields}
    else:
        needed = {_top(model, field_id) for field_id in references(plan.predicate)}
    return shown + [each for each in model.fields if each.id in needed - known]


def _top(schema: Schema, field_id: int) -> int:
    while (parent := schema.parent_of(field_id)) is not None:
        field_id = parent.id
    return field_id


# Rows.


def _raw(source: Source, files: pa.Table, fields: list[Field]) -> list[DataFrame]:
    if not source.plan.schema.has_primary_key:
        return scans(source, files, fields, ())
    # Some writers say that a file has no deletes, whatever is in it.
    found = scans(source, files, fields, (KIND,))
    return [each.where(is_kept(F.col(KIND))).drop(KIND) for each in found]


def _merged(source: Source, files: pa.Table, fields: list[Field]) -> list[DataFrame]:
    if not files.num_rows:
        return []
    schema = source.plan.schema
    keys = set(schema.partition_keys)
    own = [each for each in fields if each.name not in keys]
    names = {each.name for each in own}
    needed = [schema.field(name).id for name in needed_for_merging(schema) if name not in names]
    hidden = [schema.model.field(each) for each in needed]
    frames = scans(source, files, [*own, *hidden], (KIND, SEQUENCE, SECTION))
    frame = merged(functools.reduce(DataFrame.unionAll, frames), schema, own)
    return [_with_partitions(source, frame, files, fields)]


def _with_partitions(source: Source, frame: DataFrame, files: pa.Table, fields: list[Field]) -> DataFrame:
    """Put the values of partitions beside rows: the files of a section are of one partition."""
    partitioned = [each for each in fields if each.name in source.plan.schema.partition_keys]
    if partitioned:
        sections, firsts = np.unique(files["section"].to_numpy(), return_index=True)
        codes = plain(files["partition_code"]).take(pa.array(firsts))
        told = {
            each.name: partition_constant(each, plain(source.plan.partitions[each.name]).take(codes))
            for each in partitioned
        }
        names = {name: f"{NUMBER}_{place}" for place, name in enumerate(told)}
        table = {SECTION: pa.array(sections.astype(np.int64))}
        table |= {names[name]: each.values for name, each in told.items()}
        struct = [s.StructField(SECTION, s.LongType())]
        struct += [s.StructField(names[name], each.type) for name, each in told.items()]
        small = source.session.createDataFrame(pa.table(table), s.StructType(struct))
        frame = frame.join(F.broadcast(small), SECTION, "left")
        columns = [F.col(names.get(each.name, quoted(each.name))).alias(each.name) for each in fields]
        return frame.select(*columns)
    return frame.drop(SECTION)


def _finished(
    source: Source, frames: list[DataFrame], shown: list[Field], read: list[Field], where: str | None
) -> DataFrame:
    if not frames:
        frames = [source.session.createDataFrame([], to_spark(Schema(tuple(read))))]
    frame: DataFrame = functools.reduce(DataFrame.unionAll, frames)
    if _filters(source.plan, where):
        frame = frame.where(str(where))
    if len(read) != len(shown):
        frame = frame.select(*[F.col(quoted(each.name)) for each in shown])
    return frame
