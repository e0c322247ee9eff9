"""What lies between two states of a table: the commits on the way, and what two plans have not in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.time_travel import At, state_at
from lakeplane.model.schema import Schema

Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Commit(NamedTuple):
    """A snapshot, and the state that it was made from; None if the table was empty."""

    before: Snapshot | None
    after: Snapshot


def commits_between(
    table: TableMetadata, since: At, until: At = None, *, net: bool = False, zone: str = "UTC"
) -> list[Commit]:
    """The commits that changed rows after a state, up to and with another one, in their order.

    Without ``since`` the table begins empty, without ``until`` the current state is the last one. Compactions
    change no rows. With ``net`` all that happened in between counts as one commit.
    """
    first = None if since is None else state_at(table, since, zone).snapshot
    last = state_at(table, until, zone).snapshot
    if last is None:
        return []
    if net and first is None:
        return [Commit(None, last)]
    line = _line(table, first, last)
    line.reverse()
    pairs = zip([first, *line], line, strict=False)
    commits = [Commit(*each) for each in pairs if each[1].operation != "replace"]
    return [Commit(first, last)] if net and commits else commits


def _line(table: TableMetadata, first: Snapshot | None, last: Snapshot) -> list[Snapshot]:
    """The snapshots after the first one up to the last, the last one first."""
    line: list[Snapshot] = []
    for snapshot in table.ancestors(last.snapshot_id):
        if first is not None and snapshot.snapshot_id == first.snapshot_id:
            return line
        line.append(snapshot)
    missing = line[-1].parent_snapshot_id
    if missing is not None:
        problem = f"snapshot {missing}, which {line[-1].snapshot_id} was made from, has expired"
        hint = f"Changes are known since {line[-1].snapshot_id}; its rows are those of read(at=...)"
        raise InvalidInput(problem, field="since", hint=hint)
    if first is not None:
        problem = f"snapshot {last.snapshot_id} does not descend from {first.snapshot_id}"
        hint = "It is on another branch, or was rolled back: ask for the changes since what both descend from"
        raise InvalidInput(problem, field="since", hint=hint)
    return line


class Difference(NamedTuple):
    """Files that two plans have not in common, or to which other deletes apply.

    ``before`` and ``after`` have the same data files in the same order, each with the deletes of its time.
    """

    removed: ReadPlan
    added: ReadPlan
    before: ReadPlan
    after: ReadPlan
    by_value: Mask
    """Of which of those files the equality deletes are not the same."""
    released: Mask
    """From which of those files an equality delete was taken away."""


def difference(before: ReadPlan | None, after: ReadPlan) -> Difference:
    """Compare the plans of two states of a table; without the first one, the table was empty."""
    if before is None:
        before = after._replace(files=after.files.slice(0, 0), deletes=after.deletes.slice(0, 0))
    old, new = _keys(before.files, after.files)
    _, in_old, in_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    codes = _delete_codes(before.deletes, after.deletes)
    sides = [(before.files, in_old, codes[0]), (after.files, in_new, codes[1])]
    by_place, by_place_now = (_attached(*each, ("vector", "position_deletes")) for each in sides)
    by_values, by_values_now = (_attached(*each, ("equality_deletes",)) for each in sides)
    count = len(in_old)
    by_value = _owners(np.setxor1d(by_values, by_values_now, assume_unique=True), count)
    touched = _owners(np.setxor1d(by_place, by_place_now, assume_unique=True), count) | by_value
    released = _owners(np.setdiff1d(by_values, by_values_now, assume_unique=True), count)
    return Difference(
        removed=some_files(before, np.setdiff1d(np.arange(len(old)), in_old, assume_unique=True)),
        added=some_files(after, np.setdiff1d(np.arange(len(new)), in_new, assume_unique=True)),
        before=some_files(before, in_old[touched]),
        after=some_files(after, in_new[touched]),
        by_value=by_value[touched],
        released=released[touched],
    )


def schema_of_changes(table: TableMetadata) -> Schema:
    """The columns of today. Rows that are long gone need not have had those that are required by now."""
    always = frozenset.intersection(
        *(frozenset(each.id for each in schema.fields if each.required) for schema in table.schemas)
    )
    fields = (each if each.id in always else replace(each, required=False) for each in table.schema.fields)
    return Schema(tuple(fields), table.schema.schema_id, table.schema.identifier_field_ids)


class Step(NamedTuple):
    """A commit, and what it changed."""

    ordinal: int
    snapshot_id: int
    difference: Difference


def steps(commits: Sequence[Commit], plan_of: Callable[[Snapshot], ReadPlan]) -> Iterator[Step]:
    """Compare the states of each commit. A plan is kept for the next commit, and no longer."""
    known: dict[int, ReadPlan] = {}
    for ordinal, commit in enumerate(commits):
        known = {
            each.snapshot_id: known.get(each.snapshot_id) or plan_of(each)
            for each in commit
            if each is not None
        }
        before = None if commit.before is None else known[commit.before.snapshot_id]
        after = commit.after.snapshot_id
        yield Step(ordinal, after, difference(before, known[after]))


def some_files(plan: ReadPlan, rows: Rows) -> ReadPlan:
    """A plan with some of its files, numbered as they come."""
    return plan._replace(files=plan.files.take(pa.array(rows, pa.int64())))


def occurrences(codes: Rows, sequence: Rows | None = None) -> Rows:
    """Of each code, how many equal ones come before it, in order of a sequence."""
    order = np.argsort(codes, kind="stable") if sequence is None else np.lexsort((sequence, codes))
    ordered = codes[order]
    starts = np.flatnonzero(_firsts(ordered))
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - np.repeat(starts, np.diff([*starts.tolist(), len(codes)]))
    return found


def _keys(before: pa.Table, after: pa.Table) -> tuple[Rows, Rows]:
    """Numbers of the data files of two plans: the same where they have the same file.

    Nothing keeps a writer from adding a file twice; then the first ones are the same, and so on.
    """
    codes = codes_of([each["file_path"] for each in (before, after)])
    counts = [
        occurrences(code, files["sequence_number"].to_numpy())
        for code, files in zip(codes, (before, after), strict=True)
    ]
    most = max((int(each.max(initial=0)) for each in counts), default=0) + 1
    old, new = (code * most + count for code, count in zip(codes, counts, strict=True))
    return old, new


def _delete_codes(before: pa.Table, after: pa.Table) -> list[Rows]:
    """Numbers of the deletes of two plans: of vectors, many are in one file."""
    names = []
    for each in (before, after):
        offset = pc.fill_null(each["content_offset"].cast(pa.string()), "")
        names.append(pc.binary_join_element_wise(each["file_path"], offset, "#"))
    return codes_of(names)


def codes_of(columns: Sequence[pa.ChunkedArray]) -> list[Rows]:
    """Numbers of texts in several columns: the same for the same text."""
    chunks = [chunk.cast(pa.string()) for column in columns for chunk in column.chunks]
    found = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    indices = np.asarray(found.indices, np.int64)
    return np.split(indices, np.cumsum([len(each) for each in columns])[:-1])


_MANY: Final = 1 << 32


def _attached(files: pa.Table, rows: Rows, codes: Rows, names: Sequence[str]) -> Rows:
    """Which deletes apply to which of some files: both numbers as one."""
    pairs = []
    for name in names:
        column = files[name].combine_chunks().take(pa.array(rows))
        if pa.types.is_list(column.type):
            lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0), np.int64)
            owners = np.repeat(np.arange(len(column)), lengths)
            deletes = np.asarray(column.flatten(), np.int64)
        else:
            owners = np.flatnonzero(np.asarray(column.is_valid()))
            deletes = np.asarray(column.drop_null(), np.int64)
        pairs.append(owners * _MANY + codes[deletes])
    # Not by np.unique: it hashes, and numbers of two halves fall into the same places.
    ordered = np.sort(np.concatenate(pairs))
    return ordered[_firsts(ordered)]


def _firsts(ordered: Rows) -> Mask:
    """Which of some sorted numbers are not the same as the one before."""
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]


def _owners(pairs: Rows, count: int) -> Mask:
    mask = np.zeros(count, bool)
    mask[np.asarray(pairs, np.int64) // _MANY] = True
    return mask
