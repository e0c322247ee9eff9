"""Plans: which files a reader of a table needs, with the deletes that apply to each, as columns.

The work goes from few things to many, and leaves out at each step what cannot matter: manifests by what the
list tells of their partitions, files by their partition, then by the bounds of their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.delete_index import PATH_ID, attach_deletes
from lakeplane.iceberg.file_removal import coverage
from lakeplane.iceberg.manifest_list import NO_MANIFESTS, each_once
from lakeplane.iceberg.manifest_scan import Reading, Stack, concat, list_manifests, scan
from lakeplane.iceberg.manifest_schema import ADDED, DATA_MANIFEST
from lakeplane.iceberg.manifests import DATA_FACTS, DELETE_FACTS, no_entries
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.pruning import Kept, Partitions, manifests_may_match, partitions_of, prune
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.time_travel import At, state_at
from lakeplane.model.expressions.bounds import Known
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.expressions.tree import TRUE, Predicate, Term, references
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Void


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a plan has kept, and how much each rule has left out."""

    manifests: int
    """In the list of the snapshot."""
    manifests_without_files: int
    manifests_by_partition: int
    files: int
    """In the data manifests that are left."""
    files_by_partition: int
    files_by_statistics: int
    files_kept: int
    rows_kept: int
    bytes_kept: int
    deletes: int
    """Delete files and deletion vectors that apply to files that are kept."""


class ReadPlan(NamedTuple):
    """What is to be read for a predicate at one state of a table.

    ``files`` has a row for each data file: what manifests tell of it (``DATA_FACTS``), what it inherits
    (``snapshot_id``, ``sequence_number``, ``file_sequence_number``), ``spec_id``, ``partition`` (a struct
    whose fields are named by their ids, and by their spec where a later one has another type there),
    ``residual`` (a position in ``residuals``), and rows of ``deletes``: ``vector`` (one or null),
    ``position_deletes`` and ``equality_deletes`` (lists). If it was asked for, ``covered`` tells whether all
    rows of a file match.
    """

    table: TableMetadata
    snapshot: Snapshot | None
    schema: Schema
    predicate: Predicate
    files: pa.Table
    deletes: pa.Table
    residuals: tuple[Predicate, ...]
    counts: Counts


class Request(NamedTuple):
    """What is asked of a table."""

    table: TableMetadata
    snapshot: Snapshot | None
    schema: Schema
    predicate: Predicate
    counts_of: tuple[int, ...] = ()
    covered: bool = False

    @property
    def counted(self) -> list[str]:
        """The columns that tell how many values files have in those columns."""
        return [f"value_counts.{each}" for each in self.counts_of]

    @property
    def told(self) -> tuple[str, ...]:
        """The columns of the files of the plan, but for the deletes that are attached to them."""
        return (*_INHERITED, *DATA_FACTS, "residual", *self.counted, *(("covered",) if self.covered else ()))


def plan(
    table: TableMetadata,
    reading: Reading,
    where: str | Predicate | None = None,
    at: At = None,
    *,
    zone: str = "UTC",
    case_sensitive: bool = False,
    counts_of: Collection[int] = (),
    covered: bool = False,
) -> ReadPlan:
    """Plan a read of all rows that match a condition, now or at another state of the table.

    Of the columns ``counts_of``, files tell the number of values, as ``value_counts.<id>``; where it is null,
    it is not known whether the file has the column at all. With ``covered``, files tell whether all of their
    rows are known to match.
    """
    snapshot, schema = state_at(table, at, zone)
    predicate = _predicate(where, schema, zone=zone, case_sensitive=case_sensitive)
    request = Request(table, snapshot, schema, predicate, tuple(counts_of), covered)
    return _plan(request, list_manifests(snapshot, reading), reading)


def plan_appends(
    table: TableMetadata,
    reading: Reading,
    since: int | None,
    until: int | None = None,
    where: str | Predicate | None = None,
    *,
    zone: str = "UTC",
    case_sensitive: bool = False,
) -> ReadPlan:
    """Plan a read of what was appended after one snapshot, up to and with another one, or the current one.

    Only appends count: the files that other changes add hold rows that were there before.
    """
    last = table.current_snapshot if until is None else table.snapshot(until)
    predicate = _predicate(where, table.schema, zone=zone, case_sensitive=case_sensitive)
    appends = _appends(table, since, last)
    ids = pa.array([each.snapshot_id for each in appends], pa.int64())

    def new(files: pa.Table) -> pa.Table:
        is_new = pc.and_(pc.equal(files["status"], ADDED), pc.is_in(files["snapshot_id"], value_set=ids))
        return files.filter(is_new)

    lists = [_added_by(each, reading) for each in appends]
    listed = each_once(pa.concat_tables(lists)) if lists else NO_MANIFESTS
    return _plan(Request(table, last, table.schema, predicate), listed, reading, new)


def _predicate(
    where: str | Predicate | None, schema: Schema, *, zone: str, case_sensitive: bool
) -> Predicate:
    match where:
        case None:
            return TRUE
        case str():
            return parse_predicate(where, schema, zone=zone, case_sensitive=case_sensitive)
        case _:
            return where


def _appends(table: TableMetadata, since: int | None, last: Snapshot | None) -> list[Snapshot]:
    found: list[Snapshot] = []
    before = None if last is None else last.snapshot_id
    for snapshot in () if last is None else table.ancestors(last.snapshot_id):
        if snapshot.snapshot_id == since:
            break
        if snapshot.operation == "append":
            found.append(snapshot)
        before = snapshot.parent_snapshot_id
    # The snapshot itself may have expired, as long as nothing after it has.
    if since is not None and since != before:
        hint = "It may have expired, or been rolled back"
        raise InvalidInput(f"snapshot {since} is no ancestor of the last one", field="since", hint=hint)
    return found


def _added_by(snapshot: Snapshot, reading: Reading) -> pa.Table:
    """The data manifests that a snapshot has written itself."""
    listed = list_manifests(snapshot, reading)
    # A list within a snapshot does not tell who wrote a manifest; its entries do.
    author = pc.fill_null(listed["added_snapshot_id"], snapshot.snapshot_id)
    mine = pc.equal(author, snapshot.snapshot_id)
    return listed.filter(pc.and_(mine, pc.equal(listed["content"], DATA_MANIFEST)))


def _plan(
    request: Request,
    listed: pa.Table,
    reading: Reading,
    select: Callable[[pa.Table], pa.Table] | None = None,
) -> ReadPlan:
    table, predicate = request.table, request.predicate
    live = ~_is_empty(listed)
    wanted = live & manifests_may_match(listed, predicate, table)
    stacks = scan(listed, wanted, table, reading, _statistics_for(request))
    data = [each for each in stacks if each.content == DATA_MANIFEST]
    pruned = [_prune(each, request, reading, select) for each in data]
    kept = [
        each._replace(files=told_apart(each.files, stack.spec_id, table))
        for stack, each in zip(data, pruned, strict=True)
    ]
    distinct = tuple(dict.fromkeys(residual for each in kept for residual in each.residuals))
    files = _below([_numbered(each, distinct) for each in kept], request.told)
    deletes = _below(
        [told_apart(each.files, each.spec_id, table) for each in stacks if each.content != DATA_MANIFEST],
        (*_INHERITED, *DELETE_FACTS, *_PATH_BOUNDS),
    )
    files, deletes = _with_deletes(files, deletes, table)
    counts = Counts(
        manifests=listed.num_rows,
        manifests_without_files=int((~live).sum()),
        manifests_by_partition=int((live & ~wanted).sum()),
        files=sum(each.files.num_rows + each.by_partition + each.by_statistics for each in kept),
        files_by_partition=sum(each.by_partition for each in kept),
        files_by_statistics=sum(each.by_statistics for each in kept),
        files_kept=files.num_rows,
        rows_kept=pc.sum(files["record_count"], min_count=0).as_py(),
        bytes_kept=pc.sum(files["file_size_in_bytes"], min_count=0).as_py(),
        deletes=deletes.num_rows,
    )
    return ReadPlan(table, request.snapshot, request.schema, predicate, files, deletes, distinct, counts)


def _is_empty(listed: pa.Table) -> Mask:
    """Which manifests hold no live file; a count that is not told may be anything."""
    none = [pc.equal(listed[f"{which}_files_count"], _ZERO) for which in ("added", "existing")]
    return to_mask(pc.and_(*none))


_ZERO: Final = pa.scalar(0, pa.int32())


def _statistics_for(request: Request) -> Callable[[int], Iterable[int]]:
    """Which statistics are needed: of data files those of the predicate, of deletes those of paths."""
    ids = references(request.predicate) | set(request.counts_of)
    return lambda content: ids if content == DATA_MANIFEST else (PATH_ID,)


def _prune(
    stack: Stack, request: Request, reading: Reading, select: Callable[[pa.Table], pa.Table] | None
) -> Kept:
    spec, rows = request.table.spec_by_id(stack.spec_id), stack.files.num_rows
    if select is not None:
        return prune(select(stack.files), request.predicate, spec, request.schema, counted=request.counted)
    files = _with_coverage(stack.files, spec, request) if request.covered else stack.files

    def partitions() -> Partitions:
        key = (stack.key, "partitions")
        return reading.cache.value(key, lambda: partitions_of(stack.files), _PARTITION_BYTES * rows)

    def recall(term: Term, make: Callable[[], Known]) -> Known:
        # How bounds are read depends on the type that the column has by now.
        key = (stack.key, str(term), str(term.type))
        return reading.cache.value(key, make, _KNOWN_BYTES * rows)

    return prune(
        files,
        request.predicate,
        spec,
        request.schema,
        partitions=partitions,
        recall=recall,
        counted=request.counted,
    )


def _with_coverage(files: pa.Table, spec: PartitionSpec, request: Request) -> pa.Table:
    found = coverage(files, request.predicate, spec, request.schema)
    return files.append_column("covered", pa.array(found.whole))


_PARTITION_BYTES: Final = 16
_KNOWN_BYTES: Final = 48
"""What is known of a column of a file takes about so much memory."""


def _numbered(kept: Kept, distinct: Sequence[Predicate]) -> pa.Table:
    numbers = np.array([distinct.index(each) for each in kept.residuals], np.int32)
    return kept.files.append_column("residual", pa.array(numbers[kept.codes]))


_PATH_BOUNDS: Final = tuple(f"{which}_bounds.{PATH_ID}" for which in ("lower", "upper"))
_INHERITED: Final = ("snapshot_id", "sequence_number", "file_sequence_number", "spec_id", "partition")


def told_apart(files: pa.Table, spec_id: int, table: TableMetadata) -> pa.Table:
    """Partitions that can lie below those of other specs.

    Early v1 tables number the fields of each spec from 1000 on, so that other specs may have fields of other
    types under the same ids. Void fields become nulls of no type, and fields whose id has another type in
    later specs have a name of their own.
    """
    void = {each.field_id for each in table.spec_by_id(spec_id).fields if isinstance(each.transform, Void)}
    types = {each.id: each.type for each in table.unified_partition_type.fields}
    fields = table.partition_type(spec_id).fields
    other = {each.id for each in fields if each.type != types[each.id]} - void
    if not void and not other:
        return files
    partition = plain(files["partition"])
    names = [f"{each.id} of spec {spec_id}" if each.id in other else str(each.id) for each in fields]
    columns = [
        pa.nulls(len(partition)) if each.id in void else partition.field(str(each.id)) for each in fields
    ]
    place = files.schema.get_field_index("partition")
    return files.set_column(place, "partition", pa.StructArray.from_arrays(columns, names=names))


def _below(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Entries of several stacks one below the other, with the columns that a plan has."""
    found = [each.select(names) for each in tables if each.num_rows]
    return concat(found) if found else no_entries(names)


def _with_deletes(files: pa.Table, deletes: pa.Table, table: TableMetadata) -> tuple[pa.Table, pa.Table]:
    """Attach deletes to files, and leave out those that apply to none."""
    attached = attach_deletes(files, deletes, {spec.spec_id: spec for spec in table.partition_specs})
    columns = dict(zip(_ATTACHED, attached, strict=True))
    used = np.unique(np.concatenate([_rows(each) for each in columns.values()]))
    renumbered = np.zeros(deletes.num_rows, np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    for name, column in columns.items():
        files = files.append_column(name, _renumber(column, renumbered))
    return files, deletes.take(pa.array(used)) if len(used) < deletes.num_rows else deletes


_ATTACHED: Final = ("vector", "position_deletes", "equality_deletes")


def _rows(column: pa.Array) -> npt.NDArray[np.int32]:
    rows = column.values if isinstance(column, pa.ListArray) else column.drop_null()
    return np.asarray(rows, np.int32)


def _renumber(column: pa.Array, numbers: npt.NDArray[np.int32]) -> pa.Array:
    if isinstance(column, pa.ListArray):
        return pa.ListArray.from_arrays(column.offsets, pa.array(numbers[column.values.to_numpy()]))
    if column.null_count == len(column):
        return column
    return pa.array(numbers[column.fill_null(0).to_numpy()], mask=~to_mask(column.is_valid()))
