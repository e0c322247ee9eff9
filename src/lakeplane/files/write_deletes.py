"""Deleted positions become deletion vectors (from v3 on) or position delete files (in v2).

What is deleted of a data file already is part of its new vector, and of its new file if files are to be of
one data file each, so that a reader needs one of them. What they stand in for can go, and so can data files
of which no row is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.files.describe import Finished, describe
from lakeplane.files.open_file import OpenFile, format_of
from lakeplane.files.partitions import Partition, partitions_at
from lakeplane.files.places import Places
from lakeplane.files.target import WriteTarget, delete_target
from lakeplane.files.write import Put
from lakeplane.iceberg.delete_index import only_data_file
from lakeplane.iceberg.deletion_vectors import positions_of, write_vectors
from lakeplane.iceberg.fetch_windows import ReadRanges
from lakeplane.iceberg.incoming_deletes import VECTORS_FROM
from lakeplane.iceberg.manifest_schema import FILE_COLUMNS, POSITION_DELETES, arrow_type
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.expressions.physical import plain
from lakeplane.model.expressions.tree import TRUE
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.parallel import in_parallel
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.transforms import Void

if TYPE_CHECKING:
    from pyroaring import BitMap64

GRANULARITY: Final = "write.delete.granularity"
DELETE_SCHEMA: Final = Schema((METADATA_COLUMNS["file_path"], METADATA_COLUMNS["pos"]))
"""What position delete files hold."""

_METRICS: Final = "write.metadata.metrics.default"
_PIECE: Final = 1 << 19
"""So many rows, with their paths, are in memory at once for each file that is written."""
_NEARLY: Final = 0.9
_WORKERS: Final = 8
_VECTOR_BYTES: Final = 64
"""What a vector takes beside its positions, about."""


class NewDeletes(NamedTuple):
    """Deletes that are written and not published yet, in the words of ``changes.RowDelta``."""

    deletes: tuple[NewFiles, ...]
    deletes_from: pa.Table
    """The data files that they are about."""
    remove: pa.Table
    """Data files of which no row is left."""
    remove_deletes: pa.Table
    """Deletes that nobody needs any more."""


class _Chosen(NamedTuple):
    """Data files with all of their deleted positions, row by row."""

    files: pa.Table
    positions: list[BitMap64]


def write_position_deletes(
    plan: ReadPlan,
    positions: Mapping[int, BitMap64],
    put: Put,
    read_ranges: ReadRanges,
    *,
    options: Mapping[str, str] | None = None,
    run_id: str | None = None,
) -> NewDeletes:
    """Write the deletion of rows of the data files of a plan.

    Args:
        plan: What was read.
        positions: Which rows go: positions within files, by rows of ``plan.files``.
        put: Takes the place and the bytes of each file. After an error, what was put is nobody's.
        read_ranges: Reads what was deleted before.
        options: Properties for this write only, as ``write_target`` takes them.
        run_id: What tells the files of this write from all others; a new UUID.
    """
    table = plan.table
    if table.format_version == 1:
        raise InvalidInput(
            "v1 tables have no deletes", source=table.location, hint="Upgrade the table to v2 or later"
        )
    rows = np.array(sorted(row for row, found in positions.items() if found), np.int64)
    files = plan.files.take(pa.array(rows))
    given = [positions[row] for row in rows.tolist()]
    _check_positions(files, given)
    options = dict(options or {})
    merges = table.format_version >= VECTORS_FROM or _granularity(table, options) == "file"
    older = deleted_positions(files, plan.deletes, read_ranges) if merges else {}
    found = [each | older[row] if row in older else each for row, each in enumerate(given)]
    counts = files["record_count"].to_numpy()
    kinds = [
        _NOTHING if row in older and len(each) == len(older[row]) else _ALL if len(each) == count else _SOME
        for row, (each, count) in enumerate(zip(found, counts.tolist(), strict=True))
    ]
    some = [row for row, kind in enumerate(kinds) if kind == _SOME]
    chosen = _Chosen(files.take(pa.array(some, pa.int64())), [found[row] for row in some])
    write = _write_vectors if table.format_version >= VECTORS_FROM else _write_files
    written = write(chosen, table, put, options, run_id)
    gone = files.filter(pa.array([kind == _ALL for kind in kinds], pa.bool_()))
    changed = rows[[kind != _NOTHING for kind in kinds]] if merges else rows[:0]
    return NewDeletes(tuple(written), chosen.files, gone, _replaced(plan, changed))


_NOTHING, _SOME, _ALL = range(3)
"""How much of what is left of a file goes."""


def _check_positions(files: pa.Table, positions: Sequence[BitMap64]) -> None:
    for path, count, found in zip(
        files["file_path"].to_pylist(), files["record_count"].to_pylist(), positions, strict=True
    ):
        if found.max() >= count:
            problem = f"it has {count} rows, so that none is at {found.max()}"
            raise InvalidInput(problem, source=path, field="positions")


def _granularity(table: TableMetadata, options: Mapping[str, str]) -> str:
    text = options.get(GRANULARITY, table.properties.get(GRANULARITY, "file"))
    found = text.strip().lower()
    if found not in ("file", "partition"):
        hint = "It is file or partition"
        raise InvalidInput(f"{text!r:.80} is no granularity", field=f"property {GRANULARITY!r}", hint=hint)
    return found


def _replaced(plan: ReadPlan, changed: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    """Older deletes of positions that new ones stand in for.

    A delete file of many data files can go when all of them are changed, as a plan of all files tells.
    """
    files = plan.files
    is_changed = np.zeros(files.num_rows, np.bool_)
    is_changed[changed] = True
    goes = np.zeros(plan.deletes.num_rows, np.bool_)
    goes[plan.files["vector"].filter(pa.array(is_changed)).drop_null().to_numpy()] = True
    lists = plain(files["position_deletes"])
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    used, by_changed = lists.flatten().to_numpy(), np.repeat(is_changed, counts)
    of_changed = np.zeros(plan.deletes.num_rows, np.bool_)
    of_changed[used[by_changed]] = True
    by_others = np.zeros(plan.deletes.num_rows, np.bool_)
    by_others[used[~by_changed]] = True
    is_single = only_data_file(plan.deletes).is_valid().to_numpy(zero_copy_only=False)
    goes |= of_changed & (is_single | (~by_others & (plan.predicate == TRUE)))
    return plan.deletes.filter(pa.array(goes))


# Partitions of files that are there


def _by_spec(files: pa.Table) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.int64]]]]:
    spec_ids = files["spec_id"].to_numpy()
    for spec_id in np.unique(spec_ids).tolist():
        yield spec_id, np.flatnonzero(spec_ids == spec_id)


def _partition_values(files: pa.Table, spec: PartitionSpec, table: TableMetadata) -> list[pa.Array]:
    """The partitions of files of one spec, field by field, as manifests hold them."""
    struct = plain(files["partition"])
    told = {each.name for each in struct.type}
    void = {each.field_id for each in spec.fields if isinstance(each.transform, Void)}
    values = []
    for field in table.partition_type(spec.spec_id).fields:
        names = (f"{field.id} of spec {spec.spec_id}", str(field.id))
        name = next((each for each in names if each in told), None)
        if field.id in void or name is None:
            values.append(pa.nulls(files.num_rows, arrow_type(field)))
        else:
            values.append(struct.field(name).cast(arrow_type(field)))
    return values


def _struct(values: Sequence[pa.Array], spec: PartitionSpec, count: int) -> pa.Array:
    if not values:
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays(list(values), names=[str(field.field_id) for field in spec.fields])


# Vectors


def _write_vectors(
    chosen: _Chosen, table: TableMetadata, put: Put, options: Mapping[str, str], run_id: str | None
) -> list[NewFiles]:
    """Many vectors in one file, whatever partitions their data files are in."""
    if not chosen.positions:
        return []
    target = delete_target(
        table, DELETE_SCHEMA, spec_id=table.default_spec_id, options=options, run_id=run_id
    )
    places = Places(target, task=secrets.token_hex(4))
    paths = chosen.files["file_path"].to_pylist()

    def write(rows: range) -> pa.Table:
        file, entries = write_vectors({paths[row]: chosen.positions[row] for row in rows})
        path = places.fresh(ending="-deletes.puffin")
        put(path, file.data)
        return _vector_rows(path, len(file.data), entries)

    written = in_parallel(write, list(_groups(chosen, target.target_bytes)), _WORKERS)
    told = pa.concat_tables(written)
    found = []
    for spec_id, rows in _by_spec(chosen.files):
        spec = table.spec_by_id(spec_id)
        values = _partition_values(chosen.files.take(pa.array(rows)), spec, table)
        partition = _struct(values, spec, len(rows))
        found.append(NewFiles(spec_id, told.take(pa.array(rows)).append_column("partition", partition)))
    return found


def _groups(chosen: _Chosen, target_bytes: int) -> Iterator[range]:
    """Which vectors go to a file together."""
    start, size = 0, 0
    counts = chosen.files["record_count"].to_pylist()
    for row, (positions, count) in enumerate(zip(chosen.positions, counts, strict=True)):
        about = min(2 * len(positions), count // 8) + _VECTOR_BYTES
        if size + about > target_bytes and row > start:
            yield range(start, row)
            start, size = row, 0
        size += about
    yield range(start, len(chosen.positions))


def _vector_rows(path: str, size: int, entries: Sequence[Any]) -> pa.Table:
    count = len(entries)
    columns: dict[str, list[Any]] = {
        "content": [POSITION_DELETES] * count,
        "file_path": [path] * count,
        "file_format": ["PUFFIN"] * count,
        "record_count": [each.cardinality for each in entries],
        "file_size_in_bytes": [size] * count,
        "referenced_data_file": [each.data_file for each in entries],
        "content_offset": [each.offset for each in entries],
        "content_size_in_bytes": [each.size for each in entries],
    }
    return pa.table({name: _array(name, column) for name, column in columns.items()})


def _array(name: str, values: list[Any]) -> pa.Array:
    return pa.array(values, FILE_COLUMNS.field(name).type)


# Files


class _Job(NamedTuple):
    """Data files of one partition, in order of their paths, whose deletes go together."""

    partition: Partition
    rows: list[int]


class _Done(NamedTuple):
    finished: Finished
    data_file: str | None
    """The data file that it is about, if it is only one."""


def _write_files(
    chosen: _Chosen, table: TableMetadata, put: Put, options: Mapping[str, str], run_id: str | None
) -> list[NewFiles]:
    paths = chosen.files["file_path"].to_pylist()
    found: list[NewFiles] = []
    for spec_id, rows in _by_spec(chosen.files):
        target = delete_target(table, DELETE_SCHEMA, spec_id=spec_id, options=options, run_id=run_id)
        target = _with_full_metrics(target)
        values = _partition_values(chosen.files.take(pa.array(rows)), target.spec, table)
        at = np.arange(len(rows))
        partitions = partitions_at(values, at, target.spec, table.schema) * (1 if values else len(rows))
        jobs = _jobs(partitions, rows.tolist(), paths, one_by_one=_granularity(table, options) == "file")
        writer = _Writer(target, put, paths, chosen.positions)
        done = [each for part in in_parallel(writer.write, jobs, _WORKERS) for each in part]
        found += _described(done, target)
    return found


def _with_full_metrics(target: WriteTarget) -> WriteTarget:
    """Bounds of paths are whole: readers find by them which data file a file is about."""
    return msgspec.structs.replace(target, properties=FrozenDict({**target.properties, _METRICS: "full"}))


def _jobs(
    partitions: Sequence[Partition], rows: Sequence[int], paths: Sequence[str], *, one_by_one: bool
) -> list[_Job]:
    jobs: dict[tuple[object, ...], _Job] = {}
    for partition, row in sorted(
        zip(partitions, rows, strict=True), key=lambda each: paths[each[1]].encode()
    ):
        key = (paths[row],) if one_by_one else partition.key
        jobs.setdefault(key, _Job(partition, [])).rows.append(row)
    return list(jobs.values())


class _Writer:
    """Writes position delete files of one target."""

    def __init__(
        self, target: WriteTarget, put: Put, paths: Sequence[str], positions: Sequence[BitMap64]
    ) -> None:
        self._target, self._put, self._paths, self._positions = target, put, paths, positions
        self._format, self._places = format_of(target), Places(target, task=secrets.token_hex(4))
        self._ending = f"-deletes.{target.file_format}"

    def write(self, job: _Job) -> list[_Done]:
        """Write the deletes of some data files, sorted by path and position."""
        done: list[_Done] = []
        file: OpenFile | None = None
        about: set[str] = set()
        for path, piece in self._pieces(job):
            if file is None:
                place = self._places.fresh(job.partition.path, ending=self._ending)
                file, about = OpenFile(self._target, self._format, place), set()
            file.write(piece)
            about.update(path)
            if file.size >= _NEARLY * self._target.target_bytes:
                done.append(self._close(file, about, job.partition))
                file = None
        if file is not None:
            done.append(self._close(file, about, job.partition))
        return done

    def _close(self, file: OpenFile, about: set[str], partition: Partition) -> _Done:
        data = file.finish()
        self._put(file.path, data)
        return _Done(file.finished(data, partition, 0), about.pop() if len(about) == 1 else None)

    def _pieces(self, job: _Job) -> Iterator[tuple[set[str], pa.Table]]:
        """Rows that are written together, with the data files that they are about."""
        waiting: list[pa.Table] = []
        about: set[str] = set()
        count = 0
        for row in job.rows:
            path, positions = self._paths[row], positions_of(self._positions[row])
            for start in range(0, len(positions), _PIECE):
                part = positions[start : start + _PIECE]
                names = pa.repeat(pa.scalar(path, pa.string()), len(part))
                waiting.append(pa.table([names, pa.array(part)], schema=_ARROW))
                about.add(path)
                count += len(part)
                if count >= _PIECE:
                    yield about, pa.concat_tables(waiting)
                    waiting, about, count = [], set(), 0
        if waiting:
            yield about, pa.concat_tables(waiting)


_ARROW: Final = to_arrow(DELETE_SCHEMA)


def _described(done: Sequence[_Done], target: WriteTarget) -> list[NewFiles]:
    about = {each.finished.path: each.data_file for each in done}
    return [
        as_deletes(
            new,
            POSITION_DELETES,
            sort_order_id=None,
            referenced_data_file=pa.array(
                [about[path] for path in new.files["file_path"].to_pylist()], pa.string()
            ),
        )
        for new in describe([each.finished for each in done], target)
    ]


def as_deletes(new: NewFiles, content: int, **columns: Any) -> NewFiles:
    """New files as delete files, with what manifests tell of those; None stands for null in all rows."""
    files = new.files
    for name, given in {"content": content, **columns}.items():
        column = given if isinstance(given, pa.Array) else _array(name, [given] * files.num_rows)
        if name in files.column_names:
            files = files.drop_columns([name])
        files = files.append_column(name, column)
    return new._replace(files=files)
