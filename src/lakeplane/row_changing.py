"""DELETE, UPDATE and MERGE: rows are found by Spark, and what becomes of them is a change of files.

All three come to the same: places of rows that go, and rows that come. *Copy-on-write* reads the touched
files without the rows that go, and writes what is left and what comes into files that take their place.
*Merge-on-read* leaves the files as they are, writes down which of their rows are deleted, and adds files with
the rows that come. Which of the two is said by ``write.delete.mode``, ``write.update.mode`` and
``write.merge.mode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.errors import InvalidChange, InvalidInput, NotSupported
from lakeplane.files.target import WriteTarget, write_target
from lakeplane.files.write_deletes import write_position_deletes
from lakeplane.iceberg.changes import Change, Overwrite, RowDelta, Write
from lakeplane.iceberg.conflicts import Isolation
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.iceberg.snapshots import MAIN
from lakeplane.model.expressions.tree import TRUE, Predicate
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.types import Field
from lakeplane.reading import Reader
from lakeplane.spark.merge import Merging, source_here, source_of
from lakeplane.spark.merge_keys import reachable
from lakeplane.spark.metadata_columns import is_reserved
from lakeplane.spark.row_changes import Found, find_deleted, find_merged, find_updated, remaining
from lakeplane.spark.write import write_frame
from lakeplane.writing import How, Written, is_spark_frame

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from lakeplane.spark.frames import DataFrame

Statement: TypeAlias = Literal["delete", "update", "merge"]
Mode: TypeAlias = Literal["copy-on-write", "merge-on-read"]

_LINEAGE: Final = tuple(METADATA_COLUMNS[name] for name in ("_row_id", "_last_updated_sequence_number"))
_ROW_ID: Final = "_row_id"


class RowHow(How, total=False):
    """What a change of rows can say besides its rows."""

    mode: Mode
    """In the place of the table's ``write.<statement>.mode``."""
    isolation: Isolation
    """In the place of the table's ``write.<statement>.isolation-level``."""


class RowChange:
    """A statement that changes rows of a table as it is.

    Each method writes files, and gives the change that is to be published; None if no row is touched.
    """

    def __init__(
        self, statement: Statement, table: TableMetadata, reader: Reader, written: Written, how: RowHow
    ) -> None:
        self.statement, self.table, self.reader, self.written = statement, table, reader, written
        self.branch = how.get("wap_branch") or how.get("branch", MAIN)
        self.mode = _mode(statement, table, how)
        self.isolation = _isolation(statement, table, how)
        self.options = how.get("options", {})
        self.said: dict[str, Any] = {
            key: value for key, value in how.items() if key in Write.__struct_fields__
        }
        _check_known(how)
        _check_names(table)

    def delete(self, where: str) -> Change | None:
        """Delete rows that match. Files whose rows are known to match all are not even read."""
        plan = self._plan(where, covered=True)
        covered = np.asarray(plan.files["covered"].to_numpy(), np.bool_)
        whole, partly = np.flatnonzero(covered), np.flatnonzero(~covered)
        found = Found({})
        if len(partly):
            rows = self.reader.frame(_part(plan, partly), [], where, placed=True)
            positions = find_deleted(rows).positions
            found = Found({int(partly[row]): each for row, each in positions.items()})
        return self._change(plan, found, whole.tolist())

    def update(self, values: Mapping[str, Any], where: str | None) -> Change | None:
        """Give columns of matching rows other values."""
        if not values:
            raise InvalidInput("there is nothing to set", field="set")
        plan = self._plan(where)
        rows = self.reader.frame(plan, self._columns(plan.schema), where, placed=True)
        with find_updated(rows, plan.schema, values, where, self._carried) as found:
            return self._change(plan, found)

    def merge(self, rows: Any, merging: Merging) -> Change | None:
        """Bring a source and the table together. The source is a frame of Spark, or rows in Arrow."""
        schema = self.table.schema
        source = source_of(rows) if is_spark_frame(rows) else source_here(self.reader.session, rows, schema)
        everything = merging.of("not matched by source")
        plan = self._plan(TRUE if everything else reachable(source, merging, schema))
        target = self.reader.frame(plan, self._columns(plan.schema), placed=True)
        with find_merged(target, source, merging, plan.schema, self._carried) as found:
            return self._change(plan, found)

    # Reading

    def _plan(self, where: str | Predicate | None, *, covered: bool = False) -> ReadPlan:
        at = self.branch if self.branch in self.table.refs and self.branch != MAIN else None
        return self.reader.plan(self.table, where, at, covered=covered)

    @property
    def _carried(self) -> list[str]:
        """What rows keep when they are changed, beside the columns of the table."""
        return [_ROW_ID] if self.table.has_row_lineage else []

    def _columns(self, schema: Schema) -> list[str]:
        return [*(each.name for each in schema.fields), *self._carried]

    # Writing

    def _change(self, plan: ReadPlan, found: Found, whole: Sequence[int] = ()) -> Change | None:
        if not found.positions and not whole and found.rows is None:
            return None
        if self.mode == "merge-on-read" and (found.positions or not whole):
            return self._delta(plan, found, whole)
        return self._copies(plan, found, whole)

    def _copies(self, plan: ReadPlan, found: Found, whole: Sequence[int]) -> Change | None:
        """Files with what is left of the touched ones, and with the rows that come."""
        emptied = _emptied(plan, found.positions)
        left = [row for row in found.positions if row not in emptied]
        target, frame = self._target(), found.rows
        if left:
            columns = [each.name for each in (*plan.schema.fields, *self._lineage)]
            without = {number: found.positions[row] for number, row in enumerate(left)}
            survivors = self.reader.frame(_part(plan, left), columns, without=without)
            frame = remaining(survivors, found.rows, target.schema)
        files = () if frame is None else self._write(frame, target)
        removed = _rows(plan.files, {*found.positions, *whole})
        if not files and not removed.num_rows:
            return None
        return Overwrite(
            files=files,
            remove=removed,
            conflicts_with=plan.predicate,
            isolation=self.isolation,
            validate_from=_read(plan),
            **self.said,
        )

    def _delta(self, plan: ReadPlan, found: Found, whole: Sequence[int]) -> Change | None:
        """Deletes of the rows that go, and files with those that come."""
        files = () if found.rows is None else self._write(found.rows, self._target())
        new = write_position_deletes(
            plan, found.positions, self.written.put, self.reader.read_ranges, options=self.options
        )
        remove = pa.concat_tables([new.remove, _rows(plan.files, whole)])
        if not files and not new.deletes and not remove.num_rows:
            return None
        return RowDelta(
            files=files,
            deletes=new.deletes,
            deletes_from=new.deletes_from,
            remove=remove,
            remove_deletes=new.remove_deletes,
            conflicts_with=plan.predicate,
            refuse_new_deletes=self.statement != "delete",
            isolation=self.isolation,
            validate_from=_read(plan),
            **self.said,
        )

    def _write(self, frame: DataFrame, target: WriteTarget) -> tuple[NewFiles, ...]:
        mode = target.properties.get(f"write.{self.statement}.distribution-mode")
        schemes = self.reader.resources.spark_schemes
        made = write_frame(frame, target, self.reader.store, distribution=mode, schemes=schemes)
        return self.written.add(made)

    def _target(self) -> WriteTarget:
        schema = self.table.schema
        if self._lineage:
            schema = Schema((*schema.fields, *self._lineage), schema.schema_id)
        return write_target(self.table, schema=schema, options=self.options)

    @property
    def _lineage(self) -> tuple[Field, ...]:
        """The columns that files of changed rows have beside those of the table."""
        return _LINEAGE if self.table.has_row_lineage else ()


def _read(plan: ReadPlan) -> int | None:
    return None if plan.snapshot is None else plan.snapshot.snapshot_id


def _rows(files: pa.Table, rows: Iterable[int]) -> pa.Table:
    return files.take(pa.array(sorted(rows), pa.int64()))


def _part(plan: ReadPlan, rows: Sequence[int] | npt.NDArray[np.int64]) -> ReadPlan:
    """A plan with some of its files, numbered as they come."""
    return plan._replace(files=plan.files.take(pa.array(rows, pa.int64())))


def _emptied(plan: ReadPlan, positions: Mapping[int, BitMap64]) -> set[int]:
    """The files all of whose rows go, as far as that is known without a look at older deletes."""
    counts = plan.files["record_count"].to_pylist()
    return {row for row, each in positions.items() if len(each) >= counts[row]}


def _check_known(how: RowHow) -> None:
    """Refuse arguments that nobody would look at."""
    unknown = next((each for each in how if each not in RowHow.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"Unexpected keyword argument '{unknown}'")
    if how.get("merge_schema", False):
        hint = "Let a MERGE have with_schema_evolution(), or add columns with evolve() first"
        raise InvalidInput("a change of rows does not change columns", field="merge_schema", hint=hint)


def _check_names(table: TableMetadata) -> None:
    """Refuse columns that Spark, or whoever looks for changed rows, would take for others."""
    names = [each.name for each in table.schema.fields]
    if clash := [each for each in names if is_reserved(each)]:
        problem = "rows of a table that has a column of this name cannot be changed"
        raise NotSupported(problem, field=clash[0], hint="Rename the column")
    lineage = {each.name for each in _LINEAGE}
    if table.has_row_lineage and (clash := [each for each in names if each.casefold() in lineage]):
        problem = "rows of a table that has a column of this name cannot keep their identity"
        raise NotSupported(problem, field=clash[0], hint="Rename the column")


def _mode(statement: Statement, table: TableMetadata, how: RowHow) -> Mode:
    name = f"write.{statement}.mode"
    text = how.get("mode") or how.get("options", {}).get(name) or table.properties.get(name, "copy-on-write")
    found: Mode | None = next((each for each in get_args(Mode) if each == text.strip().lower()), None)
    if found is None:
        raise InvalidInput(f"{text!r:.80} is no mode", field=name, hint=f"One of {', '.join(get_args(Mode))}")
    if found == "merge-on-read" and table.format_version == 1:
        hint = "Choose copy-on-write, or upgrade the table to format version 2"
        raise InvalidChange("tables of version 1 have no deletes of rows", field=name, hint=hint)
    return found


def _isolation(statement: Statement, table: TableMetadata, how: RowHow) -> Isolation:
    name = f"write.{statement}.isolation-level"
    if how.get("isolation", "") is None:
        problem = "without isolation, rows that others delete meanwhile would come back"
        raise InvalidInput(problem, field=name, hint=f"One of {', '.join(get_args(Isolation))}")
    text = (
        how.get("isolation") or how.get("options", {}).get(name) or table.properties.get(name, "serializable")
    )
    levels: tuple[Isolation, ...] = get_args(Isolation)
    found = next((each for each in levels if each == text.strip().lower()), None)
    if found is None:
        hint = f"One of {', '.join(get_args(Isolation))}"
        raise InvalidInput(f"{text!r:.80} is no isolation level", field=name, hint=hint)
    return found
