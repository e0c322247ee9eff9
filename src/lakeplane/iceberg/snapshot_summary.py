"""Summaries of snapshots: what a commit has added and removed, in the words that all writers share.

Counts that are zero are left out, totals follow from those of the parent, as Java does it: a total that the
parent does not tell is unknown from then on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.manifest_schema import DATA, EQUALITY_DELETES, POSITION_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.iceberg.pruning import partitions_of
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import plain, to_mask
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import to_human
from lakeplane.model.types import UNKNOWN, UUID, Field

PARTITION_LIMIT: Final = "write.summary.partition-limit"

SUMMARY_COLUMNS: Final = ("content", "file_format", "record_count", "file_size_in_bytes")
"""What is needed of files to count them, beside ``partition`` and, of deletion vectors, their sizes."""

_COUNTED: Final[tuple[tuple[str, str, str | None], ...]] = (
    ("added-files-size", "removed-files-size", "total-files-size"),
    ("added-data-files", "deleted-data-files", "total-data-files"),
    ("added-equality-delete-files", "removed-equality-delete-files", None),
    ("added-position-delete-files", "removed-position-delete-files", None),
    ("added-dvs", "removed-dvs", None),
    ("added-delete-files", "removed-delete-files", "total-delete-files"),
    ("added-records", "deleted-records", "total-records"),
    ("added-position-deletes", "removed-position-deletes", "total-position-deletes"),
    ("added-equality-deletes", "removed-equality-deletes", "total-equality-deletes"),
)
"""What is counted of added files, of removed ones, and of all."""

_RESERVED: Final = frozenset(
    {
        *(name for names in _COUNTED for name in names if name),
        *("operation", "changed-partition-count", "partition-summaries-included"),
        *("manifests-created", "manifests-kept", "manifests-replaced", "entries-processed"),
        *("published-wap-id", "source-snapshot-id", "replace-partitions"),
    }
)


class Counted(NamedTuple):
    """Files of one spec that a commit adds or removes, with what is counted of them."""

    spec_id: int
    files: pa.Table


class Manifests(NamedTuple):
    """How many manifests a commit has made, left alone, and replaced."""

    created: int
    kept: int
    replaced: int


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties of a snapshot that would say something else than what the commit did."""
    for name, value in properties.items():
        if not all(isinstance(each, str) for each in (name, value)):
            raise InvalidInput("names and values are text", field=f"snapshot property {name!r}")
        if name in _RESERVED or name.startswith("partitions."):
            raise InvalidInput("the commit itself says this", field=f"snapshot property {name!r}")


def summarize_commit(
    operation: str,
    added: Sequence[Counted],
    removed: Sequence[Counted],
    *,
    table: TableMetadata,
    parent: Snapshot | None,
    manifests: Manifests,
    properties: Mapping[str, str],
) -> FrozenDict[str, str]:
    """Tell what a commit does."""
    known = _counts(added, 0) | _counts(removed, 1)
    texts = {name: str(count) for name, count in known.items() if count > 0}
    limit = number(table.properties.get(PARTITION_LIMIT)) or 0
    return FrozenDict(
        {
            "operation": operation,
            **properties,
            **texts,
            **_partitions(added, removed, table, limit),
            "manifests-created": str(manifests.created),
            "manifests-kept": str(manifests.kept),
            "manifests-replaced": str(manifests.replaced),
            **_totals(texts, parent),
        }
    )


def _counts(files: Sequence[Counted], side: int) -> dict[str, int]:
    """Count files; side 0 is what was added, 1 what was removed."""
    sums = np.zeros(len(_COUNTED), np.int64)
    for each in files:
        sums += _each(each.files).sum(axis=1)
    return {
        (added, removed)[side]: int(count) for (added, removed, _), count in zip(_COUNTED, sums, strict=True)
    }


def _each(files: pa.Table) -> npt.NDArray[np.int64]:
    """For each kind of count, what each file adds to it."""
    count = files.num_rows
    content = _column(files, "content", DATA)
    rows, size = _column(files, "record_count", 0), _column(files, "file_size_in_bytes", 0)
    puffin = to_mask(pc.equal(pc.utf8_upper(plain(files["file_format"])), "PUFFIN"))
    data, positions = content == DATA, content == POSITION_DELETES
    equality, vectors = content == EQUALITY_DELETES, positions & puffin
    if "content_size_in_bytes" in files.column_names and vectors.any():
        # Many vectors lie in one file: each counts what is its own.
        size = np.where(vectors, _column(files, "content_size_in_bytes", 0), size)
    ones = np.ones(count, np.int64)
    return np.stack(
        [
            size,
            ones * data,
            ones * equality,
            ones * (positions & ~vectors),
            ones * vectors,
            ones * ~data,
            rows * data,
            rows * positions,
            rows * equality,
        ]
    )


def _column(files: pa.Table, name: str, default: int) -> npt.NDArray[Any]:
    if name not in files.column_names:
        return np.full(files.num_rows, default, np.int64)
    values = plain(files[name]).cast(pa.int64()).fill_null(default)
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


# Partitions


def _partitions(
    added: Sequence[Counted], removed: Sequence[Counted], table: TableMetadata, limit: int
) -> dict[str, str]:
    """How many partitions a commit has changed and, if they are few, what it did to each."""
    found: dict[str, dict[str, int]] = {}
    total = 0
    for spec_id in sorted({each.spec_id for each in (*added, *removed)}):
        sides = [
            (side, each.files)
            for side, of_side in enumerate((added, removed))
            for each in of_side
            if each.spec_id == spec_id and each.files.num_rows
        ]
        if not sides:
            continue
        parted = partitions_of(
            pa.concat_tables(
                [files.select(["partition"]) for _, files in sides], promote_options="permissive"
            )
        )
        total += len(parted.distinct)
        if total > limit:
            found.clear()
            continue
        paths = _paths(parted.distinct, table, table.spec_by_id(spec_id))
        start = 0
        for side, files in sides:
            codes = parted.codes[start : start + files.num_rows]
            start += files.num_rows
            _add_up(found, paths, codes, _each(files), side)
    summary = {"changed-partition-count": str(total)}
    if total and total <= limit:
        summary["partition-summaries-included"] = "true"
        for path, counts in found.items():
            told = ",".join(f"{name}={count}" for name, count in counts.items() if count > 0)
            summary[f"partitions.{path}"] = told
    return summary


def _add_up(
    found: dict[str, dict[str, int]],
    paths: Sequence[str],
    codes: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    side: int,
) -> None:
    for (added, removed, _), row in zip(_COUNTED, counts, strict=True):
        name = (added, removed)[side]
        sums = np.bincount(codes, weights=row, minlength=len(paths))
        for path, amount in zip(paths, sums, strict=True):
            of_path = found.setdefault(path, {})
            of_path[name] = of_path.get(name, 0) + int(amount)


def _paths(distinct: pa.StructArray, table: TableMetadata, spec: PartitionSpec) -> list[str]:
    """Partitions as paths, as in ``day=2026-01-31/id_bucket=3``."""
    fields = table.partition_type(spec.spec_id).fields
    columns = []
    for field, rule in zip(fields, spec.fields, strict=True):
        source = _source(table, rule.source_ids)
        values = _values(distinct.field(str(field.id)), field)
        texts = (
            "null" if value is None or source is None else to_human(rule.transform, source.type, value)
            for value in values
        )
        columns.append([f"{quote_plus(field.name)}={quote_plus(text)}" for text in texts])
    return ["/".join(parts) for parts in zip(*columns, strict=True)] if columns else [""] * len(distinct)


def _source(table: TableMetadata, source_ids: tuple[int, ...]) -> Field | None:
    schemas: tuple[Schema, ...] = table.schemas_newest_first
    return next((found for each in schemas if (found := each.get(source_ids[0])) is not None), None)


def _values(column: pa.Array, field: Field) -> list[Any]:
    """Single values as the model has them: times are numbers."""
    if field.type is UNKNOWN:
        return [None] * len(column)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_time(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if field.type is UUID:
        return [None if each is None else uuid.UUID(bytes=each) for each in values]
    return values


# Totals


def _totals(texts: Mapping[str, str], parent: Snapshot | None) -> dict[str, str]:
    before = EMPTY if parent is None else parent.summary or EMPTY
    totals: dict[str, str] = {}
    for added, removed, name in _COUNTED:
        if name is None:
            continue
        old = 0 if parent is None else number(before.get(name))
        if old is None:
            continue
        new = old + int(texts.get(added, "0")) - int(texts.get(removed, "0"))
        if old >= 0 and new >= 0:
            totals[name] = str(new)
    return totals
