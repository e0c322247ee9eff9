"""What a commit writes: manifests, the rows of lists that tell of them, merged manifests, index manifests.

Everything here is a function of what is given: names come in as arguments, files go out as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.model.expressions.bounds import after_prefix
from lakeplane.model.expressions.physical import plain
from lakeplane.paimon.buckets import HASH_INDEX
from lakeplane.paimon.deletion_vectors import DELETION_VECTORS
from lakeplane.paimon.index_files import vector_ranges
from lakeplane.paimon.live_files import codes_of, live, settled
from lakeplane.paimon.manifest_schema import ADD, DELETE, ENTRY_COLUMNS, INDEX_COLUMNS, LIST_COLUMNS
from lakeplane.paimon.manifests import serialize_manifest
from lakeplane.paimon.options import TableOptions
from lakeplane.paimon.row_columns import arrow_type, read_values, write_rows
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.snapshots import SNAPSHOT_VERSION, CommitKind, Snapshot
from lakeplane.paimon.types import DataType


class NewFile(NamedTuple):
    """A file that is to be written before it is named by another one."""

    name: str
    data: bytes


class Written(NamedTuple):
    """New manifests, and the rows that lists tell of them."""

    files: tuple[NewFile, ...]
    listed: pa.Table


def write_manifests(
    entries: pa.Table, schema: TableSchema, new_name: Callable[[], str], options: TableOptions
) -> Written:
    """Write entries as manifests, of which none is much larger than the options want it.

    Args:
        entries: Rows of ``manifest_schema.ENTRY_COLUMNS``.
        schema: The schema of the table, for its partition keys.
        new_name: Gives the name of the next manifest.
        options: What the table says about the size and compression of manifests.
    """
    if not entries.num_rows:
        return Written((), LIST_COLUMNS.empty_table())
    files: list[NewFile] = []
    listed: list[pa.Table] = []
    for part in _parts(entries, options):
        data = serialize_manifest(part, compression=options.manifest_compression)
        name = new_name()
        files.append(NewFile(name, data))
        listed.append(list_row(name, len(data), part, schema))
    return Written(tuple(files), pa.concat_tables(listed).combine_chunks())


def _parts(entries: pa.Table, options: TableOptions) -> list[pa.Table]:
    """Entries cut into parts that take about the same, as one probe of them all tells."""
    if entries.num_rows < _NEVER_CUT:
        return [entries]
    size = len(serialize_manifest(entries, compression=options.manifest_compression))
    parts = max(1, round(size / max(options.manifest_target_bytes, 1)))
    step = -(-entries.num_rows // parts)
    return [entries.slice(start, step) for start in range(0, entries.num_rows, step)]


_NEVER_CUT: Final = 1_000
"""So few entries are less than any reasonable size."""


def list_row(name: str, size: int, entries: pa.Table, schema: TableSchema) -> pa.Table:
    """What a list tells of a manifest with these entries."""
    kinds = entries["kind"].to_numpy()
    types = schema.types_of(schema.partition_keys)
    rows = plain(entries["partition"])
    codes = codes_of(rows)
    _, firsts = np.unique(codes, return_index=True)
    columns = read_values(rows.take(pa.array(firsts)), types, name)
    low, high = (stats_row(types, [_extreme(each, top=top) for each in columns]) for top in (False, True))
    row_ids = _row_ids(entries)
    row = {
        "file_name": name,
        "file_size": size,
        "num_added_files": int((kinds == ADD).sum()),
        "num_deleted_files": int((kinds == DELETE).sum()),
        "partition_min": low,
        "partition_max": high,
        "partition_nulls": [
            int(each.is_null().to_numpy(zero_copy_only=False)[codes].sum()) for each in columns
        ],
        "schema_id": pc.max(entries["schema_id"]).as_py(),
        "min_bucket": pc.min(entries["bucket"]).as_py(),
        "max_bucket": pc.max(entries["bucket"]).as_py(),
        "min_level": pc.min(entries["level"]).as_py(),
        "max_level": pc.max(entries["level"]).as_py(),
        "min_row_id": row_ids[0],
        "max_row_id": row_ids[1],
    }
    return pa.Table.from_pylist([row], LIST_COLUMNS)


def _extreme(column: pa.Array, *, top: bool) -> Any:
    """The least or the greatest value, where NaN is above all numbers; None without any."""
    found = column.drop_null()
    if not len(found):
        return None
    if pa.types.is_floating(found.type):
        numbers = found.to_numpy()
        if np.isnan(numbers).all() or (top and np.isnan(numbers).any()):
            return float("nan")
        found = pa.array(numbers[~np.isnan(numbers)])
    return pc.min_max(found)["max" if top else "min"]


def _row_ids(entries: pa.Table) -> tuple[int | None, int | None]:
    """The range of row ids, if all files have some."""
    firsts = entries["first_row_id"]
    if firsts.null_count or not entries.num_rows:
        return None, None
    lasts = pc.subtract(pc.add(firsts, entries["row_count"]), 1)
    return pc.min(firsts).as_py(), pc.max(lasts).as_py()


def stats_row(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """A row of least or greatest values, from Arrow scalars or Python values; None for what is not known."""
    columns = []
    for type_, value in zip(types, values, strict=True):
        wanted = arrow_type(type_.kind)
        if wanted is None or value is None:
            columns.append(pa.nulls(1, wanted or pa.null()))
        elif isinstance(value, pa.Scalar):
            columns.append(pa.repeat(value, 1))
        else:
            columns.append(pa.array([value], wanted))
    rows = write_rows(types, columns, reserve_null=False) if types else pa.array([bytes(12)], pa.binary())
    row: bytes = rows[0].as_py()
    return row


def truncated(text: str, length: int, *, top: bool) -> str | None:
    """A bound of texts, cut to a length: the upper one is above all texts that begin so, None if none is."""
    if len(text) <= length:
        return text
    return after_prefix(text[:length]) if top else text[:length]


# Merging.


class MergePlan(NamedTuple):
    """Which manifests of a list are to be merged."""

    kept: pa.Table
    groups: tuple[pa.Table, ...]
    """The manifests of each group become new ones."""
    full: bool
    """Whether what deletes files may be left out, as all that adds them is there."""


def plan_merges(listed: pa.Table, options: TableOptions) -> MergePlan:
    """Choose the manifests to be merged, by the rules that Java has.

    If small ones and those that delete files are large together, all that they concern is written anew.
    Otherwise, manifests one after the other are merged as soon as they are as large together as one should
    be, and those at the end if they are many.
    """
    sizes = listed["file_size"].to_numpy()
    deletes = listed["num_deleted_files"].to_numpy()
    must = (deletes > 0) | (sizes < options.manifest_target_bytes)
    if int(sizes[must].sum()) >= options.manifest_full_compaction_bytes:
        chosen = np.ones(len(sizes), np.bool_) if deletes.any() else must
        if int(chosen.sum()) > 1:
            group = listed.filter(pa.array(chosen))
            return MergePlan(listed.filter(pa.array(~chosen)), (group,), full=True)
    kept: list[pa.Table] = []
    groups: list[pa.Table] = []
    for rows in _runs(sizes.tolist(), options):
        (groups if len(rows) > 1 else kept).append(listed.take(pa.array(rows)))
    alone = pa.concat_tables(kept).combine_chunks() if kept else listed.slice(0, 0)
    return MergePlan(alone, tuple(groups), full=False)


def _runs(sizes: Sequence[int], options: TableOptions) -> list[list[int]]:
    runs: list[list[int]] = []
    waiting: list[int] = []
    total = 0
    for row, size in enumerate(sizes):
        waiting.append(row)
        total += size
        if total >= options.manifest_target_bytes:
            runs.append(waiting)
            waiting, total = [], 0
    if len(waiting) >= options.manifest_merge_min_count:
        return [*runs, waiting]
    return [*runs, *([row] for row in waiting)]


def merge_entries(tables: Sequence[pa.Table], *, full: bool, source: str) -> pa.Table:
    """The entries of several manifests as one: what was added and deleted in them is gone."""
    entries = pa.concat_tables(tables).combine_chunks().select(ENTRY_COLUMNS.names)
    return live(entries, source) if full else settled(entries, source)


# Index manifests.


def combine_indexes(
    before: pa.Table | None, added: pa.Table, removed: pa.Table, *, by_bucket: bool
) -> pa.Table:
    """All index files of the next snapshot: an index manifest is never a change, but the whole state.

    With ``by_bucket``, a new index file takes the place of the one of its kind in its bucket; deletion
    vectors of tables without buckets are told apart by the names of their files.
    """
    base = INDEX_COLUMNS.empty_table() if before is None else before
    found = {_index_key(row, by_bucket=by_bucket): row for row in base.to_pylist()}
    for row in removed.to_pylist():
        if found.pop(_index_key(row, by_bucket=by_bucket), None) is None:
            raise InvalidInput(f"the index file {row['file_name']} is not there to be removed")
    for row in added.to_pylist():
        key = _index_key(row, by_bucket=by_bucket)
        if key in found and len(key) == 1:
            raise InvalidInput(f"the index file {row['file_name']} is there already")
        found[key] = {**row, "kind": ADD}
    _check_vectors(list(found.values()))
    return pa.Table.from_pylist(list(found.values()), INDEX_COLUMNS)


def _index_key(row: dict[str, Any], *, by_bucket: bool) -> tuple[Any, ...]:
    kind = row["index_type"]
    if kind == HASH_INDEX or (kind == DELETION_VECTORS and by_bucket):
        return row["partition"], row["bucket"], kind
    return (row["file_name"],)


def _check_vectors(rows: Sequence[dict[str, Any]]) -> None:
    seen: set[tuple[bytes, int, str]] = set()
    for row in rows:
        if row["index_type"] != DELETION_VECTORS:
            continue
        for vector in vector_ranges(row):
            key = row["partition"], row["bucket"], vector.data_file
            if key in seen:
                raise InvalidInput(f"the data file {vector.data_file} would have two deletion vectors")
            seen.add(key)


# Snapshots.


def rows_added(entries: pa.Table) -> int:
    """By how many rows a change makes the files of a table longer."""
    kinds, rows = entries["kind"].to_numpy(), entries["row_count"].to_numpy()
    return int(rows[kinds == ADD].sum()) - int(rows[kinds == DELETE].sum())


def next_snapshot(
    before: Snapshot | None,
    *,
    schema_id: int,
    base: NewFile,
    delta: NewFile,
    changelog: NewFile | None = None,
    index_manifest: str | None,
    commit_user: str,
    commit_identifier: int,
    commit_kind: CommitKind,
    time_ms: int,
    delta_rows: int,
    changelog_rows: int | None = None,
    writer_version: str | None = None,
    uuid: str | None = None,
) -> Snapshot:
    """The snapshot that follows another one: watermarks, statistics and row ids are carried on."""
    if before is not None and before.total_record_count is None:
        raise InvalidInput(f"snapshot {before.id} does not tell how many rows the table has")
    total = (before.total_record_count or 0) if before is not None else 0
    return Snapshot(
        version=SNAPSHOT_VERSION,
        uuid=uuid,
        id=1 if before is None else before.id + 1,
        schema_id=schema_id,
        base_manifest_list=base.name,
        base_manifest_list_size=len(base.data),
        delta_manifest_list=delta.name,
        delta_manifest_list_size=len(delta.data),
        changelog_manifest_list=None if changelog is None else changelog.name,
        changelog_manifest_list_size=None if changelog is None else len(changelog.data),
        index_manifest=index_manifest,
        commit_user=commit_user,
        writer_version=writer_version,
        commit_identifier=commit_identifier,
        commit_kind=commit_kind,
        time_millis=time_ms,
        total_record_count=total + delta_rows,
        delta_record_count=delta_rows,
        changelog_record_count=changelog_rows,
        watermark=None if before is None else before.watermark,
        statistics=None if before is None else before.statistics,
        next_row_id=None if before is None else before.next_row_id,
    )
