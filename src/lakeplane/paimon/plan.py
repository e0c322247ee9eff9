"""Plans: which files a reader of a table needs, which of them have to be merged, and what is deleted in them.

Everything is a column. What may be left out, and why, follows from how the rows of a file become rows of the
table. If other files of a bucket may hold the same keys, a file may only be left out if none of its keys can
match: without it, an older row would come back. Where a row stands for itself, all that is known of a file
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import NotSupported
from lakeplane.model.expressions.bounds import StatsOf, may_match
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.physical import Mask, plain
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.expressions.tree import FALSE, TRUE, Predicate, references
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import Identity
from lakeplane.paimon.bucket_pruning import BucketRule, bucket_rule
from lakeplane.paimon.files import Files
from lakeplane.paimon.index_files import attach_vectors
from lakeplane.paimon.layout import bucket_folder, partition_text
from lakeplane.paimon.live_files import codes_of, joined, live
from lakeplane.paimon.manifest_schema import FACT_COLUMNS, KEY_COLUMNS, LIST_COLUMNS, VALUE_COLUMNS
from lakeplane.paimon.options import POSTPONE, check_readable
from lakeplane.paimon.row_columns import read_values
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.sections import sections
from lakeplane.paimon.snapshots import Snapshot
from lakeplane.paimon.statistics import (
    SchemaOf,
    alike,
    key_stats,
    partition_stats,
    same_keys,
    value_stats,
)
from lakeplane.paimon.time_travel import At, State, read_schema, state_at
from lakeplane.paimon.types import check_readable as check_types

Codes = npt.NDArray[np.int64]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a plan has kept, and how much each rule has left out."""

    manifests: int
    """In the lists of the snapshot."""
    manifests_by_partition: int
    manifests_by_bucket: int
    files: int
    """Live ones, in the manifests and partitions that are left."""
    files_by_bucket: int
    files_not_compacted: int
    """On the lowest level of tables whose readers wait for compaction."""
    files_by_key: int
    files_by_statistics: int
    files_kept: int
    rows_kept: int
    bytes_kept: int
    vectors: int
    """Deletion vectors of files that are kept."""
    entries_by_partition: int
    """Entries of manifests, before those that delete others are settled."""


class ReadPlan(NamedTuple):
    """What is to be read for a predicate at one state of a table.

    ``files`` has a row for each data file: what its entry tells (``manifest_schema.FACT_COLUMNS``), its
    ``path``, its ``bucket_path``, and

    - ``partition_code``: the row of ``partitions`` with its partition values;
    - ``group``: a number for its partition and bucket;
    - ``section``: a number for the files that have to be merged with each other;
    - ``raw``: whether its rows are rows of the table as they are, but for those that are deletes;
    - ``residual``: the position in ``residuals`` of what is left to be checked;
    - ``vector_path``, ``vector_offset``, ``vector_length``, ``vector_cardinality``: its deletion vector.
    """

    state: State
    predicate: Predicate
    files: pa.Table
    partitions: pa.Table
    residuals: tuple[Predicate, ...]
    schemas: Mapping[int, TableSchema]
    """The schemas that the files were written with."""
    counts: Counts

    @property
    def schema(self) -> TableSchema:
        """The schema that readers see."""
        return self.state.schema

    @property
    def merges(self) -> bool:
        """Whether any files have to be merged."""
        return not pc.all(self.files["raw"]).as_py() if self.files.num_rows else False


class Request(NamedTuple):
    """What is asked of a table."""

    files: Files
    state: State
    predicate: Predicate
    schema_of: SchemaOf

    @property
    def schema(self) -> TableSchema:
        """The schema that readers see."""
        return self.state.schema


def plan(
    files: Files,
    where: str | Predicate | None = None,
    at: At = None,
    *,
    branch: str = "main",
    zone: str = "UTC",
    case_sensitive: bool = False,
    read_optimized: bool = False,
) -> ReadPlan:
    """Plan a read of all rows that match a condition, now or at another state of the table.

    ``read_optimized`` leaves out what has not reached the highest level of a table with a primary key, so
    that nothing has to be merged, and what was written since the last full compaction is not seen.
    """
    state = state_at(files, at, branch=branch, zone=zone)
    request = make_request(files, state, where, zone=zone, case_sensitive=case_sensitive)
    found = scan(request, snapshot_lists(state.snapshot))
    return finish(request, found, _shape_of(state.schema, read_optimized=read_optimized))


def make_request(
    files: Files,
    state: State,
    where: str | Predicate | None,
    *,
    zone: str = "UTC",
    case_sensitive: bool = False,
) -> Request:
    """Check that a table can be read, and bind a condition to it."""
    check_readable(state.schema.settings)
    check_types(state.schema.fields)
    known: dict[int, TableSchema] = {state.schema.id: state.schema}

    def schema_of(schema_id: int) -> TableSchema:
        if schema_id not in known:
            known[schema_id] = read_schema(files, schema_id, state.branch)
        return known[schema_id]

    match where:
        case None:
            predicate: Predicate = TRUE
        case str():
            model = state.schema.model
            predicate = parse_predicate(where, model, zone=zone, case_sensitive=case_sensitive)
        case _:
            predicate = where
    return Request(files, state, predicate, schema_of)


def snapshot_lists(snapshot: Snapshot | None) -> tuple[str, ...]:
    """The manifest lists that together are a snapshot."""
    return () if snapshot is None else (snapshot.base_manifest_list, snapshot.delta_manifest_list)


class Scanned(NamedTuple):
    """The live files that partitions and buckets leave."""

    files: pa.Table
    partitions: pa.Table
    codes: Codes
    """The partition of each file."""
    residual_codes: Codes
    residuals: Sequence[Predicate]
    manifests: int
    manifests_by_partition: int
    manifests_by_bucket: int
    entries_by_partition: int
    files_by_bucket: int


def list_manifests(files: Files, lists: Sequence[str]) -> pa.Table:
    """The manifests of several lists, in their order."""
    found = [files.manifest_list(name) for name in lists]
    return pa.concat_tables(found).combine_chunks() if found else LIST_COLUMNS.empty_table()


def scan(
    request: Request, lists: Sequence[str], settle: Callable[[pa.Table, str], pa.Table] = live
) -> Scanned:
    """Read the entries of manifest lists, and leave out partitions and buckets that cannot match."""
    predicate, schema = request.predicate, request.schema
    listed = list_manifests(request.files, lists)
    rule = bucket_rule(predicate, schema)
    by_partition = _manifests_in_partitions(listed, request)
    by_bucket = _manifests_with_buckets(listed, rule)
    names = listed["file_name"].filter(pa.array(by_partition & by_bucket)).to_pylist()
    parts = [FACT_COLUMNS]
    if schema.has_primary_key:
        parts.append(KEY_COLUMNS)
    if _needs_values(request):
        parts.append(VALUE_COLUMNS)
    entries = joined(request.files.manifests(names, parts), [name for part in parts for name in part])
    source = ", ".join(lists)
    partitions, codes = distinct_partitions(entries, schema, source)
    residual_codes, left = _residuals(predicate, schema, partitions)
    mine = residual_codes[codes]
    within = np.array([each != FALSE for each in left], np.bool_)[mine] if len(mine) else np.ones(0, np.bool_)
    # Where buckets were rescaled, what deletes a file may tell of another number of them than what added it:
    # only files that are settled are judged by their bucket.
    numbered = entries.append_column(_ROW, pa.array(np.arange(entries.num_rows)))
    settled = settle(numbered.filter(pa.array(within)), source)
    hit = _in_buckets(settled, rule)
    kept = settled.filter(pa.array(hit))
    rows = kept[_ROW].to_numpy()
    return Scanned(
        kept.drop_columns([_ROW]),
        partitions,
        codes[rows],
        mine[rows],
        left,
        listed.num_rows,
        int((~by_partition).sum()),
        int((by_partition & ~by_bucket).sum()),
        int((~within).sum()),
        int((~hit).sum()),
    )


_ROW: Final = "row"


def _needs_values(request: Request) -> bool:
    keys = {request.schema.field(name).id for name in request.schema.partition_keys}
    return bool(references(request.predicate) - keys)


def _manifests_in_partitions(listed: pa.Table, request: Request) -> Mask:
    if request.predicate == TRUE or not request.schema.partition_keys:
        return np.ones(listed.num_rows, np.bool_)
    return may_match(request.predicate, partition_stats(listed, request.schema), listed.num_rows)


def _manifests_with_buckets(listed: pa.Table, rule: BucketRule | None) -> Mask:
    """Manifests tell the range of their buckets, and how many there are if all entries agree.

    Those that delete files are read: what they delete may be of another number of buckets.
    """
    keep = np.ones(listed.num_rows, np.bool_)
    if rule is None:
        return keep
    only_adds = pc.equal(listed["num_deleted_files"], 0)
    totals = pc.if_else(plain(only_adds), plain(listed["total_buckets"]), pa.scalar(None, pa.int32()))
    for total in pc.unique(totals).drop_null().to_pylist():
        buckets = rule(total)
        if buckets is None:
            continue
        rows = np.flatnonzero(pc.equal(totals, total).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
        low, high = (
            plain(listed[name]).take(pa.array(rows)).fill_null(absent).to_numpy()
            for name, absent in (("min_bucket", -(2**31)), ("max_bucket", 2**31 - 1))
        )
        wanted = np.array(sorted(buckets), np.int64)
        first = np.searchsorted(wanted, low)
        keep[rows] = (first < len(wanted)) & (np.append(wanted, 2**62)[first] <= high)
    return keep


def distinct_partitions(entries: pa.Table, schema: TableSchema, source: str) -> tuple[pa.Table, Codes]:
    """The distinct partitions as values, and which of them each entry is of."""
    rows = plain(entries["partition"])
    codes = codes_of(rows)
    firsts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    distinct = rows.take(pa.array(firsts))
    types = schema.types_of(schema.partition_keys)
    columns = read_values(distinct, types, source)
    table = pa.table([distinct, *columns], names=[PARTITION_BYTES, *schema.partition_keys])
    return table, codes


PARTITION_BYTES: Final = ""
"""The column of ``ReadPlan.partitions`` with the partition as it is stored; the others are named by keys."""


def _residuals(
    predicate: Predicate, schema: TableSchema, partitions: pa.Table
) -> tuple[Codes, list[Predicate]]:
    fields = [schema.field(name) for name in schema.partition_keys]
    spec = PartitionSpec(
        0, tuple(PartitionField((each.id,), each.id, each.name, Identity()) for each in fields)
    )
    names = {each.id: each.name for each in fields}
    return residuals(predicate, spec, lambda number: partitions[names[number]], partitions.num_rows)


def _in_buckets(entries: pa.Table, rule: BucketRule | None) -> Mask:
    keep = np.ones(entries.num_rows, np.bool_)
    if rule is None:
        return keep
    totals, buckets = entries["total_buckets"].to_numpy(), entries["bucket"].to_numpy()
    for total in np.unique(totals).tolist():
        wanted = rule(total)
        if wanted is not None:
            keep &= (totals != total) | np.isin(buckets, np.array(sorted(wanted), np.int64))
    return keep


class Shape(NamedTuple):
    """How the files of a table become rows."""

    merged: bool
    """Whether files with the same keys have to be merged."""
    from_level: int = 0
    """Files below this level are not seen."""
    picks: bool = True
    """Whether each row of the table is a row of a file, not made of several."""
    deletes: bool = True
    """Whether deletion vectors take rows away: they do from states, and not from changes."""


def _shape_of(schema: TableSchema, *, read_optimized: bool = False) -> Shape:
    options = schema.settings
    if not schema.has_primary_key:
        return Shape(merged=False)
    waits = options.deletion_vectors and not options.deletion_vectors_merge_on_read
    if waits or options.merge_engine == "first-row":
        return Shape(merged=False, from_level=1)
    if read_optimized:
        return Shape(merged=False, from_level=options.num_levels - 1)
    return Shape(merged=True, picks=options.merge_engine == "deduplicate")


def finish(request: Request, scanned: Scanned, shape: Shape) -> ReadPlan:
    """Leave out files that cannot matter, say which have to be merged, and attach deletion vectors."""
    schema, source = request.schema, _source(request.state)
    found = scanned.files.num_rows
    check_files(scanned.files, source)
    seen = scanned.files["level"].to_numpy() >= shape.from_level
    files, select = scanned.files, np.flatnonzero(seen)
    if shape.merged:
        with_keys = _take(files, select)
        select = select[_may(request, key_stats(with_keys, request.schema_of, schema), with_keys.num_rows)]
    by_key = int(seen.sum()) - len(select)
    files = _take(files, select)
    groups = _groups(files, scanned.codes[select])
    numbers = np.arange(files.num_rows)
    if shape.merged:
        numbers = _sections(request, files, groups, source)
    raw = np.bincount(numbers, minlength=1)[numbers] == 1 if len(numbers) else np.ones(0, np.bool_)
    keep = _by_statistics(request, files, numbers, raw, shape)
    within = len(select)
    select, files = select[keep], _take(files, np.flatnonzero(keep))
    told = {
        "partition_code": pa.array(scanned.codes[select], pa.int32()),
        "group": pa.array(groups[keep], pa.int32()),
        "section": pa.array(numbers[keep], pa.int32()),
        "raw": pa.array(raw[keep]),
        "residual": pa.array(scanned.residual_codes[select], pa.int32()),
    }
    files = _told(files, told, scanned.partitions, schema)
    indexes = _indexes(request) if shape.deletes else None
    files = attach_vectors(files, indexes, schema.settings, source)
    counts = Counts(
        manifests=scanned.manifests,
        manifests_by_partition=scanned.manifests_by_partition,
        manifests_by_bucket=scanned.manifests_by_bucket,
        files=found + scanned.files_by_bucket,
        files_by_bucket=scanned.files_by_bucket,
        files_not_compacted=int((~seen).sum()),
        files_by_key=by_key,
        files_by_statistics=within - files.num_rows,
        files_kept=files.num_rows,
        rows_kept=pc.sum(files["row_count"], min_count=0).as_py(),
        bytes_kept=pc.sum(files["file_size"], min_count=0).as_py(),
        vectors=files.num_rows - files["vector_path"].null_count,
        entries_by_partition=scanned.entries_by_partition,
    )
    ids = pc.unique(files["schema_id"]).to_pylist()
    schemas = {each: request.schema_of(each) for each in ids}
    return ReadPlan(
        request.state,
        request.predicate,
        files,
        scanned.partitions,
        tuple(scanned.residuals),
        schemas,
        counts,
    )


def _sections(request: Request, files: pa.Table, groups: Codes, source: str) -> Codes:
    """The sections of files; all of a bucket are one if their keys cannot be compared."""
    schema = request.schema
    if not same_keys(files, request.schema_of, schema):
        return groups
    keys = schema.types_of(schema.trimmed_primary_keys)
    return sections(groups, files["min_key"], files["max_key"], keys, source)


def _source(state: State) -> str:
    return "the table" if state.snapshot is None else f"snapshot {state.snapshot.id}"


def check_files(files: pa.Table, source: str) -> None:
    """Refuse files whose rows this release cannot put together."""
    if pc.any(pc.equal(files["bucket"], POSTPONE)).as_py():
        raise NotSupported("rows wait for their buckets in bucket-postpone", source=source, field="_BUCKET")
    if files["write_cols"].null_count < files.num_rows:
        problem = "files hold some columns of rows whose other columns are in other files"
        raise NotSupported(problem, source=source, field="options.data-evolution.enabled")
    ids = files.select(["first_row_id", "row_count"]).filter(files["first_row_id"].is_valid())
    starts = ids["first_row_id"].to_numpy()
    order = np.argsort(starts, kind="stable")
    ends = starts[order] + ids["row_count"].to_numpy()[order]
    if (starts[order][1:] < ends[:-1]).any():
        problem = "files share row ids, so that their rows are parts of the same rows"
        raise NotSupported(problem, source=source, field="_FIRST_ROW_ID")


def _take(files: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    return files if len(rows) == files.num_rows else files.take(pa.array(rows, pa.int64()))


def _may(request: Request, stats: StatsOf, count: int) -> Mask:
    if request.predicate == TRUE:
        return np.ones(count, np.bool_)
    return may_match(request.predicate, stats, count)


def _by_statistics(request: Request, files: pa.Table, numbers: Codes, raw: Mask, shape: Shape) -> Mask:
    """Which files are left by what is known of their values: those whose rows stand for themselves.

    Where the row of a key is one of the rows in the files, files that are merged may go as well, but only all
    together: as long as one of them has a row that matches, the others may have a newer one.
    """
    keep = np.ones(files.num_rows, np.bool_)
    if not _needs_values(request):
        return keep
    for group in alike(files, request.schema_of):
        part = files.take(pa.array(group.rows))
        stats = value_stats(part, group, request.schema)
        keep[group.rows] = may_match(request.predicate, stats, len(group.rows))
    if shape.merged and len(numbers):
        any_kept = np.bincount(numbers, weights=keep) > 0
        together = any_kept[numbers] if shape.picks else np.ones(len(keep), np.bool_)
        keep = np.where(raw, keep, together)
    return keep


def _groups(files: pa.Table, partition_codes: Codes) -> Codes:
    """A number for each partition and bucket."""
    buckets = files["bucket"].to_numpy().astype(np.int64)
    buckets = buckets - buckets.min(initial=0)
    _, groups = np.unique(partition_codes * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)
    found: Codes = groups.astype(np.int64)
    return found


def _told(
    files: pa.Table, told: Mapping[str, pa.Array], partitions: pa.Table, schema: TableSchema
) -> pa.Table:
    names = [name for name in FACT_COLUMNS if name != "kind"]
    files = files.select(names)
    folders = bucket_folders(
        told["partition_code"].to_numpy(), files["bucket"].to_numpy(), partitions, schema
    )
    path = pc.binary_join_element_wise(folders, plain(files["file_name"]), "/")
    columns: dict[str, Any] = {
        "path": pc.coalesce(plain(files["external_path"]), path),
        "bucket_path": folders,
        **told,
    }
    for name, column in columns.items():
        files = files.append_column(name, column)
    return files


def bucket_folders(
    codes: npt.NDArray[Any], buckets: npt.NDArray[Any], partitions: pa.Table, schema: TableSchema
) -> pa.Array:
    """The directory of each file: made once for each partition and bucket."""
    pairs = np.stack([codes.astype(np.int64), buckets.astype(np.int64)], axis=1)
    distinct, positions = np.unique(pairs, axis=0, return_inverse=True)
    options, keys = schema.settings, schema.partition_keys
    values = [_canonical(partitions[name]) for name in keys]
    folders = []
    for code, bucket in distinct.tolist():
        texts = [
            partition_text(schema.field(name).type, column[code], options)
            for name, column in zip(keys, values, strict=True)
        ]
        folders.append(bucket_folder(options, keys, texts, bucket))
    return pa.array(folders, pa.string()).take(pa.array(positions.reshape(-1)))


def _canonical(column: pa.ChunkedArray) -> list[Any]:
    """Values as ``model.values`` has them: times as numbers."""
    array = plain(column)
    if pa.types.is_date(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_time(array.type):
        return [None if each is None else each * 1000 for each in array.view(pa.int32()).to_pylist()]
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def _indexes(request: Request) -> pa.Table | None:
    snapshot = request.state.snapshot
    if snapshot is None or snapshot.index_manifest is None:
        return None
    return request.files.index_manifest(snapshot.index_manifest)
