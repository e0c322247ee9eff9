"""What happened to the rows of a table, commit by commit, as a DataFrame.

For each commit it is known which files came and went, and which rows of the others were deleted. Files of
all commits are read together where they can be; a small table says which commit each of them belongs to.
Only where a commit has both deleted and inserted rows they are compared.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import NotSupported
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.iceberg.manifest_scan import concat
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.iceberg.plan_changes import Mask, Step, codes_of, occurrences, some_files
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field
from lakeplane.spark.carry_overs import (
    CHANGE,
    DELETE,
    INSERT,
    ORDINAL,
    ROW_ID,
    SNAPSHOT,
    UPDATED,
    identifiers_of,
    paired_by,
    paired_by_row_id,
    path_to,
    value_at,
    values_of,
    without_copies,
)
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION, is_metadata
from lakeplane.spark.read import Access, chosen, read_plan
from lakeplane.spark.scan_columns import quoted
from lakeplane.spark.session import is_case_sensitive
from lakeplane.spark.types import to_spark

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import Column, SparkSession

Positions: TypeAlias = "Mapping[int, BitMap64]"

_TAGS: Final = s.StructType(
    [
        s.StructField(CHANGE, s.StringType()),
        s.StructField(ORDINAL, s.IntegerType()),
        s.StructField(SNAPSHOT, s.LongType()),
    ]
)
_LINEAGE: Final = (ROW_ID, UPDATED)


class Tag(NamedTuple):
    """What is said of a row: what happened to it, and when."""

    change: str
    ordinal: int
    snapshot_id: int


class Wanted(NamedTuple):
    """The columns of a feed, and how rows are told apart."""

    shown: tuple[Field, ...]
    read: tuple[str, ...]
    """What is shown, and what is needed besides."""
    has_lineage: bool
    identifiers: tuple[Column, ...]


def wanted_columns(
    session: SparkSession,
    table: TableMetadata,
    columns: Sequence[str] | None,
    identifier_columns: Sequence[str] | None,
) -> Wanted:
    """Find out which columns are needed for a feed.

    Raises:
        InvalidInput: there is no such column.
        NotSupported: a column has the name of one that the feed adds.
    """
    shown = tuple(chosen(session, table, table.schema, columns))
    names = [each.name for each in shown]
    if clash := next((each for each in names if each.lower() in _TAGS.names), None):
        problem = "a feed of changes has a column of this name itself"
        raise NotSupported(problem, field=clash, hint="Leave it out: columns=[...]; or rename it")
    own = {each.name.lower() for each in table.schema.fields}
    has_lineage = table.has_row_lineage and own.isdisjoint(_LINEAGE)
    ids = identifiers_of(table.schema, identifier_columns, case_sensitive=is_case_sensitive(session))
    paths = [path_to(table.schema, each) for each in ids]
    needed = [*(each[0].name for each in paths), *(_LINEAGE if has_lineage else ())]
    read = tuple(dict.fromkeys([*names, *needed]))
    return Wanted(shown, read, has_lineage, tuple(value_at(each, each[0].name) for each in paths))


def change_feed(session: SparkSession, steps: Iterable[Step], wanted: Wanted, access: Access) -> DataFrame:
    """Make a DataFrame of the changes of all steps; their plans have the table's current schema."""
    feed = _Feed(session, wanted, access)
    kinds: dict[_Kind, list[_Read]] = {"plain": [], "by id": [], "by value": []}
    for step in steps:
        reads = list(feed.reads(step))
        kinds[feed.kind(reads)] += reads
    frames = [feed.rows(reads, kind) for kind, reads in kinds.items() if reads]
    if not frames:
        fields = to_spark(Schema(wanted.shown)).fields
        return session.createDataFrame([], s.StructType([*fields, *_TAGS.fields]))
    names = [*(each.name for each in wanted.shown), *_TAGS.names]
    return _together([each.select(*[F.col(quoted(name)) for name in names]) for each in frames])


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    found: DataFrame = functools.reduce(DataFrame.unionAll, frames)
    return found


_Kind: TypeAlias = Literal["plain", "by id", "by value"]
"""How the rows of a commit are told apart: all of them are changes; by the ids of rows; by their values."""


class _Read(NamedTuple):
    """Files to whose rows the same happened, without deletes by position but those that are told here."""

    tag: Tag
    plan: ReadPlan
    without: Positions
    only: Positions = FrozenDict()
    other: _Read | None = None
    """The same files at another time: rows that are there as well are left out."""

    @property
    def has_row_ids(self) -> Mask:
        """Which of the files give their rows ids."""
        return _mask(pc.is_valid(self.plan.files["first_row_id"]))

    @property
    def is_plain(self) -> Mask:
        """Which of the files are read by themselves."""
        if self.other is not None:
            return np.zeros(self.plan.files.num_rows, bool)
        return _mask(pc.equal(pc.list_value_length(self.plan.files["equality_deletes"]), 0))

    def some(self, mask: Mask) -> list[_Read]:
        """The read of some of the files, if there are any."""
        if mask.all():
            return [self]
        rows = np.flatnonzero(mask)
        if not len(rows):
            return []
        without, only = (
            {number: each[row] for number, row in enumerate(rows.tolist()) if row in each}
            for each in (self.without, self.only)
        )
        other = self.other and self.other.some(mask)[0]
        return [_Read(self.tag, some_files(self.plan, rows), without, only, other)]


class _Feed(NamedTuple):
    """How changes are read."""

    session: SparkSession
    wanted: Wanted
    access: Access

    def kind(self, reads: Sequence[_Read]) -> _Kind:
        """How the rows of a commit are told apart."""
        if len({each.tag.change for each in reads}) < len((DELETE, INSERT)):
            return "plain"
        identified = self.wanted.has_lineage and all(each.has_row_ids.all() for each in reads)
        return "by id" if identified else "by value"

    # What is read

    def reads(self, step: Step) -> Iterator[_Read]:
        """What has to be read for a commit."""
        tags = [Tag(change, step.ordinal, step.snapshot_id) for change in (DELETE, INSERT)]
        found = step.difference
        for tag, plan in zip(tags, (found.removed, found.added), strict=True):
            if plan.files.num_rows:
                yield self._settled(tag, plan)
        if found.before.files.num_rows:
            before, after = (
                self._settled(tag, plan) for tag, plan in zip(tags, (found.before, found.after), strict=True)
            )
            yield from _gone(before, after, found.by_value, found.by_value)
            # Rows come back where a delete was taken away.
            yield from _gone(after, before, found.by_value, found.released)

    def _settled(self, tag: Tag, plan: ReadPlan) -> _Read:
        """A read of whole files, with the positions that are deleted by now."""
        if not plan.deletes.num_rows:
            return _Read(tag, plan, {})
        if self.access.read_ranges is None:
            problem = "delete files apply to the rows, and no store was given to read them from"
            raise NotSupported(problem, source=plan.deletes["file_path"][0].as_py())
        positions = deleted_positions(plan.files, plan.deletes, self.access.read_ranges)
        return _Read(tag, _without_positions(plan), positions)

    # What becomes of it

    def rows(self, reads: Sequence[_Read], kind: _Kind) -> DataFrame:
        """The changes of commits whose rows are told apart in the same way."""
        wanted = self.wanted
        if kind == "plain":
            shown = tuple(each.name for each in wanted.shown)
            return _together(self._replace(wanted=wanted._replace(read=shown)).frames(reads))
        known = [each.has_row_ids & wanted.has_lineage for each in reads]
        identified = [part for each, mask in zip(reads, known, strict=True) for part in each.some(mask)]
        others = [part for each, mask in zip(reads, known, strict=True) for part in each.some(~mask)]
        frames = self.frames(others)
        if identified:
            frames.append(paired_by_row_id(_together(self.frames(identified))))
        rows = _together(frames)
        if kind == "by value":
            rows = without_copies(rows, values_of([each for each in wanted.shown if not is_metadata(each)]))
        return paired_by(rows, wanted.identifiers) if wanted.identifiers else rows

    def frames(self, reads: Sequence[_Read]) -> list[DataFrame]:
        """All that has to be read, in few scans."""
        alone = [
            self._alone(part) for each in reads for turn in _turns(each.some(~each.is_plain)) for part in turn
        ]
        plain = [part for each in reads for part in each.some(each.is_plain)]
        return alone + [self._merged(each) for each in _turns(plain)]

    def _alone(self, read: _Read) -> DataFrame:
        """The rows of files to which equality deletes apply, or applied."""
        other = read.other
        if other is None:
            return _tagged(self._read(read.plan, without=read.without, only=read.only), read.tag)
        place = [FILE_NUMBER, ROW_POSITION]
        there = read_plan(
            self.session, other.plan, [], access=self.access, placed=True, without=other.without
        )
        rows = self._read(read.plan, placed=True, without=read.without)
        return _tagged(rows.join(there, place, "left_anti").drop(*place), read.tag)

    def _merged(self, reads: Sequence[_Read]) -> DataFrame:
        """The rows of files without equality deletes, whatever happened to them."""
        counts = [each.plan.files.num_rows for each in reads]
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        without = _moved([each.without for each in reads], starts)
        only = _moved([each.only for each in reads], starts)
        plan = reads[0].plan
        files = concat([each.plan.files for each in reads])
        plan = plan._replace(files=files, deletes=plan.deletes.slice(0, 0))
        if len({each.tag for each in reads}) == 1:
            return _tagged(self._read(plan, without=without, only=only), reads[0].tag)
        rows = self._read(plan, by_file=True, without=without, only=only)
        owners = pa.array(np.repeat(np.arange(len(reads)), counts))
        tags = [pa.array(each).take(owners) for each in zip(*[each.tag for each in reads], strict=True)]
        of_files = pa.table([np.arange(len(owners)), *tags], [FILE_NUMBER, *_TAGS.names])
        schema = s.StructType([s.StructField(FILE_NUMBER, s.LongType()), *_TAGS.fields])
        small = F.broadcast(self.session.createDataFrame(of_files, schema))
        return rows.join(small, FILE_NUMBER).drop(FILE_NUMBER)

    def _read(self, plan: ReadPlan, **how: Any) -> DataFrame:
        return read_plan(self.session, plan, self.wanted.read, access=self.access, **how)


def _gone(here: _Read, there: _Read, by_value: Mask, looked_at: Mask) -> Iterator[_Read]:
    """Rows of one state that are not in the other one, of files that are in both.

    Of files with the same equality deletes, the positions tell. Of others, both states are read where
    ``looked_at`` says so, or where a position is deleted in the other state only.
    """
    only: dict[int, BitMap64] = {}
    for row, deleted in there.without.items():
        new = deleted - here.without[row] if row in here.without else deleted
        if new:
            only[row] = new
    marked = np.zeros(len(by_value), bool)
    marked[list(only)] = True
    positional = here._replace(without={}, only=only)
    yield from positional.some(marked & ~by_value)
    yield from here._replace(other=there).some((looked_at | marked) & by_value)


def _without_positions(plan: ReadPlan) -> ReadPlan:
    """A plan whose files have no vectors and position deletes."""
    count, files = plan.files.num_rows, plan.files
    lists = pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.int32()))
    for name, column in (("vector", pa.nulls(count, pa.int32())), ("position_deletes", lists)):
        files = files.set_column(files.schema.get_field_index(name), name, column)
    return plan._replace(files=files)


def _turns(reads: Sequence[_Read]) -> Iterator[list[_Read]]:
    """Reads that can be one: a scan has each file once, and the deletes of a file may change often."""
    if not reads:
        return
    codes = codes_of([each.plan.files["file_path"] for each in reads])
    turns = np.split(occurrences(np.concatenate(codes)), np.cumsum([len(each) for each in codes])[:-1])
    for turn in range(max(int(each.max()) for each in turns) + 1):
        yield [part for each, own in zip(reads, turns, strict=True) for part in each.some(own == turn)]


def _moved(parts: Sequence[Positions], starts: Sequence[int]) -> dict[int, BitMap64]:
    return {
        start + row: positions
        for start, part in zip(starts, parts, strict=True)
        for row, positions in part.items()
    }


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(column.to_numpy(), np.bool_)


def _tagged(rows: DataFrame, tag: Tag) -> DataFrame:
    said = [
        F.lit(value).cast(field.dataType).alias(field.name)
        for value, field in zip(tag, _TAGS.fields, strict=True)
    ]
    return rows.select("*", *said)
