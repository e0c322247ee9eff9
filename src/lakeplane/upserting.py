"""Rows that replace those with the same key without a look at the table, and what makes reading cheap again.

An upsert writes the keys of its rows as *equality deletes*: readers leave out older rows that have them. So
it costs what an append costs, and each read pays for it until the deletes are converted into positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput
from lakeplane.files.write_deletes import write_position_deletes
from lakeplane.files.write_equality import write_equality_deletes
from lakeplane.iceberg.changes import RowDelta
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.expressions.tree import FALSE, TRUE
from lakeplane.model.schema import Schema
from lakeplane.writing import Written, is_spark_frame, write_files

if TYPE_CHECKING:
    from lakeplane.reading import Reader


def upsert(
    rows: Any,
    on: Sequence[str] | None,
    table: TableMetadata,
    written: Written,
    *,
    options: Mapping[str, str],
    schemes: Mapping[str, str],
    said: Mapping[str, Any],
) -> RowDelta:
    """Write rows, and the deletion of older ones with their keys.

    Args:
        rows: A frame of Spark, or rows in Arrow.
        on: The columns that make up the key; those that identify rows of the table by default.
        table: The table as it is.
        written: Where files go.
        options: Properties for this write only.
        schemes: What schemes of locations are called in Spark.
        said: What the change says beside its files.
    """
    ids = _key(table.schema, on)
    names = [table.schema.name_of(each) for each in ids]
    if is_spark_frame(rows):
        from lakeplane.spark.held import pinned  # noqa: PLC0415 - brings pyspark

        rows = pinned(rows)
        keys = rows.select(*_present(rows.columns, names)).toArrow()
    else:
        rows = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
        keys = rows.select(_present(rows.column_names, names))
    _check_once(keys)
    files = written.add(write_files(rows, table, written.store, options, schemes))
    deletes = write_equality_deletes(keys.rename_columns(names), ids, table, written.put, options=options)
    # Whatever others do, older rows with these keys are gone, and newer ones are theirs.
    return RowDelta(
        files=files,
        deletes=tuple(deletes),
        conflicts_with=FALSE,
        refuse_new_deletes=False,
        validate_from=table.current_snapshot_id,
        **said,
    )


def _key(schema: Schema, on: Sequence[str] | None) -> list[int]:
    if on is None:
        if not schema.identifier_field_ids:
            hint = 'Say on=["id"], or let the table have identifier fields'
            raise InvalidInput("the table does not say which columns identify a row", field="on", hint=hint)
        found = [schema.field(each) for each in schema.identifier_field_ids]
    elif not on or isinstance(on, str):
        raise InvalidInput("on is a list of names of columns", field="on", hint=f"Write {[on or 'id']}")
    else:
        found = [schema.find(each) for each in on]
    if nested := next((each for each in found if schema.parent_of(each.id) is not None), None):
        raise InvalidInput("a key is made of whole columns", field=schema.name_of(nested.id))
    return [each.id for each in found]


def _present(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns of a frame that make up the key, in its spelling."""
    found = []
    for name in names:
        same = [each for each in columns if each == name] or [
            each for each in columns if each.casefold() == name.casefold()
        ]
        if len(same) != 1:
            raise InvalidInput("the frame lacks this column of the key", field=name)
        found += same
    return found


def _check_once(keys: pa.Table) -> None:
    """Two rows with one key would both be there: a delete only counts for rows that are older."""
    distinct = keys.group_by(keys.column_names).aggregate([])
    if distinct.num_rows < keys.num_rows:
        hint = "Leave one row for each key"
        problem = f"{keys.num_rows - distinct.num_rows} rows have the key of another one"
        raise InvalidInput(problem, field=", ".join(keys.column_names), hint=hint)


def convert(
    table: TableMetadata, reader: Reader, written: Written, *, options: Mapping[str, str], branch: str
) -> RowDelta | None:
    """Put positions into the place of equality deletes; None if there are none."""
    at = branch if branch in table.refs else None
    plan = reader.plan(table, at=at)
    touched = np.flatnonzero(pc.greater(pc.list_value_length(plan.files["equality_deletes"]), 0).to_numpy())
    is_equality = pc.equal(plan.deletes["content"], EQUALITY_DELETES)
    converted = plan.deletes.filter(is_equality)
    if not converted.num_rows:
        return None
    from lakeplane.spark.row_positions import positions_of  # noqa: PLC0415 - brings pyspark

    part = plan._replace(files=plan.files.take(pa.array(touched)))
    live = positions_of(reader.frame(part, [], placed=True))
    counts = part.files["record_count"].to_pylist()
    gone = {
        int(touched[row]): BitMap64(range(count)) - live.get(row, BitMap64())
        for row, count in enumerate(counts)
    }
    new = write_position_deletes(plan, gone, written.put, reader.read_ranges, options=options)
    assert plan.predicate == TRUE, "all files that the deletes apply to"
    return RowDelta(
        deletes=new.deletes,
        deletes_from=new.deletes_from,
        remove=new.remove,
        remove_deletes=pa.concat_tables([new.remove_deletes, converted]),
        conflicts_with=FALSE,
        refuse_new_deletes=False,
        validate_from=None if plan.snapshot is None else plan.snapshot.snapshot_id,
        branch=branch,
    )
