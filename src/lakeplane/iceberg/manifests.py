"""Manifests: the files of a table as columns, with what they inherit from the list that names them.

An entry is a row. Its columns are those of ``ENTRY_COLUMNS`` and ``FILE_COLUMNS``, ``partition`` (a struct
whose fields are those of the manifest's spec), and for the fields whose statistics are wanted
``lower_bounds.<id>``, ``value_counts.<id>`` and so on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.avro.read import AvroFile, Pick, read_avro, read_avro_files
from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    BOUND_MAPS,
    COUNT_MAPS,
    DATA,
    DATA_FILE_ID,
    DATA_MANIFEST,
    DELETED,
    ENTRY_COLUMNS,
    EQUALITY_DELETES,
    FIELD_IDS,
    FILE_COLUMNS,
    MANIFEST_CONTENTS,
    PARTITION_ID,
    POSITION_DELETES,
    arrow_type,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.transforms import Void
from lakeplane.model.types import UNKNOWN, Field, Struct

STATISTICS: Final = ("value_counts", "null_value_counts", "nan_value_counts", *BOUND_MAPS)
"""The maps that are read one field at a time."""

DATA_FACTS: Final = (
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "first_row_id",
)
"""What is needed of data files to read them."""

DELETE_FACTS: Final = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
"""What is needed of delete files to apply them."""

_MOST_DIGITS: Final = 10
_HIGHEST_ROW_ID: Final = 2**63 - 1

_REQUIRED: Final = ("file_path", "file_format", "record_count", "file_size_in_bytes")


class Manifest(NamedTuple):
    """A manifest that was read."""

    spec_id: int
    partition: Struct
    entries: pa.Table


def read_manifest(
    data: bytes,
    listed: ManifestFile,
    table: TableMetadata,
    *,
    columns: Sequence[str] = DATA_FACTS,
    statistics_of: Iterable[int] = (),
) -> Manifest:
    """Read the entries of a manifest, with all that they inherit.

    ``columns`` are columns of files; the statistics of single fields come in columns of their own.
    """
    source = listed.manifest_path
    spec_id = listed.partition_spec_id
    if spec_id is None:  # named by a v1 snapshot itself
        spec_id = _spec_id(read_avro(data, [], source=source), source)
    layout = _layout(spec_id, table, columns, statistics_of, source)
    return _manifest(read_avro(data, layout.picks, source=source), layout, listed)


def read_manifests(
    contents: Sequence[bytes],
    group: Sequence[ManifestFile],
    spec_id: int,
    table: TableMetadata,
    *,
    columns: Sequence[str],
) -> list[Manifest]:
    """Read the entries of manifests of one spec as ``read_manifest`` does, many small ones faster."""
    if not group:
        return []
    layout = _layout(spec_id, table, columns, (), group[0].manifest_path)
    sources = [each.manifest_path for each in group]
    files = read_avro_files(list(zip(contents, sources, strict=True)), layout.picks)
    return [_manifest(file, layout, listed) for file, listed in zip(files, group, strict=True)]


class _Layout(NamedTuple):
    """What is read of manifests of one spec."""

    spec_id: int
    partition: Struct
    void: frozenset[int]
    picks: list[Pick]


def _layout(
    spec_id: int, table: TableMetadata, columns: Sequence[str], statistics_of: Iterable[int], source: str
) -> _Layout:
    try:
        partition = table.partition_type(spec_id)
    except InvalidInput as error:
        raise InvalidMetadata(error.problem, source=source, field="partition_spec_id") from None
    fields = table.spec_by_id(spec_id).fields
    unknown = {field.field_id for field in fields if not field.is_known}
    # The spec lets writers store the nulls of void fields in the type of the source, or as integers.
    void = frozenset(field.field_id for field in fields if isinstance(field.transform, Void))
    stored = [field for field in partition.fields if field.id not in void]
    wanted = dict.fromkeys((*columns, "content", "record_count", "first_row_id"))
    picks = [
        *_entry_picks(),
        *_file_picks(wanted),
        *_partition_picks(stored, unknown),
        *_statistics(statistics_of),
    ]
    return _Layout(spec_id, partition, void, picks)


def _manifest(file: AvroFile, layout: _Layout, listed: ManifestFile) -> Manifest:
    _check_content(file.metadata, listed)
    entries = _nest_partition(file.table, layout.partition, layout.void)
    _check(entries, listed)
    return Manifest(layout.spec_id, layout.partition, _inherit(entries, listed))


def _spec_id(file: AvroFile, source: str) -> int:
    text = file.metadata.get("partition-spec-id", b"0")
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        raise InvalidMetadata(f"not a spec id: {text!r:.80}", source=source, field="partition-spec-id")
    return int(text)


def _entry_picks() -> list[Pick]:
    return [Pick(each.name, (FIELD_IDS[each.name],), type=each.type) for each in ENTRY_COLUMNS]


def _file_picks(names: Iterable[str]) -> list[Pick]:
    return [Pick(name, (DATA_FILE_ID, FIELD_IDS[name]), type=FILE_COLUMNS.field(name).type) for name in names]


def _partition_picks(fields: Iterable[Field], unknown: Container[int]) -> list[Pick]:
    # A source column that no schema knows any more leaves the type to the file; so does an unknown transform.
    return [
        Pick(
            f"partition.{field.id}",
            (DATA_FILE_ID, PARTITION_ID, field.id),
            type=None if field.type is UNKNOWN or field.id in unknown else arrow_type(field),
        )
        for field in fields
    ]


def _statistics(field_ids: Iterable[int]) -> list[Pick]:
    ids = tuple(sorted(set(field_ids)))
    kinds = {name: pa.int64() for name in COUNT_MAPS} | {name: pa.binary() for name in BOUND_MAPS}
    return [
        Pick(name, (DATA_FILE_ID, FIELD_IDS[name]), keys=ids, type=kinds[name]) for name in STATISTICS if ids
    ]


def _nest_partition(table: pa.Table, partition: Struct, void: Container[int]) -> pa.Table:
    rows = table.num_rows
    columns = [
        pa.nulls(rows, arrow_type(field))
        if field.id in void
        else table[f"partition.{field.id}"].combine_chunks()
        for field in partition.fields
    ]
    if columns:
        struct = pa.StructArray.from_arrays(columns, names=[str(field.id) for field in partition.fields])
    else:
        struct = pa.array([{}] * rows, pa.struct([]))
    kept = [name for name in table.column_names if not name.startswith("partition.")]
    return table.select(kept).append_column("partition", struct)


def _check_content(metadata: Mapping[str, bytes], listed: ManifestFile) -> None:
    """A manifest that says what is in it must be listed as such: deletes read as data would be rows again."""
    said = metadata.get("content")
    if said is not None and said.decode("utf-8", "replace") != MANIFEST_CONTENTS[listed.content]:
        problem = f"it is listed with the content {MANIFEST_CONTENTS[listed.content]!r}, and says {said!r}"
        raise InvalidMetadata(problem, source=listed.manifest_path, field="content")


def _check(entries: pa.Table, listed: ManifestFile) -> None:
    source = listed.manifest_path
    for name in ("status", *_REQUIRED):
        if name in entries.column_names and entries[name].null_count:
            raise InvalidMetadata("an entry has none", source=source, field=name)
    if not entries.num_rows:
        return
    status = pc.min_max(entries["status"]).as_py()
    if status["min"] < 0 or status["max"] > DELETED:
        raise InvalidMetadata(f"a status is none of 0, 1 and 2: {status}", source=source, field="status")
    for name in ("record_count", "file_size_in_bytes"):
        if name in entries.column_names and pc.min(entries[name]).as_py() < 0:
            raise InvalidMetadata("a count is negative", source=source, field=name)
    # Without a content, a file holds data.
    kinds = pc.min_max(entries["content"], skip_nulls=True).as_py()
    least, most = (DATA, DATA) if listed.content == DATA_MANIFEST else (POSITION_DELETES, EQUALITY_DELETES)
    some_left_out = entries["content"].null_count and least != DATA
    if some_left_out or (kinds["min"] is not None and not least <= kinds["min"] <= kinds["max"] <= most):
        problem = f"an entry does not belong among {MANIFEST_CONTENTS[listed.content]}: {kinds}"
        raise InvalidMetadata(problem, source=source, field="content")


def no_entries(names: Sequence[str]) -> pa.Table:
    """A table without rows, with some of the columns that entries have."""
    return pa.table({name: pa.nulls(0, _type_of(name)) for name in names})


def _type_of(name: str) -> pa.DataType:
    return pa.int64() if name.partition(".")[0] in COUNT_MAPS else _TYPES.get(name, pa.binary())


_TYPES: Final[dict[str, pa.DataType]] = {
    **{each.name: each.type for each in (*ENTRY_COLUMNS, *FILE_COLUMNS)},
    "spec_id": pa.int32(),
    "partition": pa.struct([]),
    "residual": pa.int32(),
    "covered": pa.bool_(),
}


# Inheritance


def _inherit(entries: pa.Table, listed: ManifestFile) -> pa.Table:
    number, source = listed.sequence_number or 0, listed.manifest_path
    status = entries["status"].to_numpy()
    if listed.added_snapshot_id is not None:
        entries = _fill(entries, "snapshot_id", listed.added_snapshot_id)
    entries = _fill(entries, "content", DATA)
    if listed.sequence_number is None:
        # No commit has published it yet: it has nothing else to hand down.
        return entries
    # Only what a manifest adds is as old as the manifest; without numbers, all is older than any.
    open_ = status == ADDED if number else np.ones(len(status), np.bool_)
    for name in ("sequence_number", "file_sequence_number"):
        entries = _fill(entries, name, number, open_)
    unknown = entries["sequence_number"].is_null().to_numpy() & (status != DELETED)
    if unknown.any():
        problem = "an entry that is not new has none, so that nobody can tell which deletes apply to its file"
        raise InvalidMetadata(problem, source=source, field="sequence_number")
    return _set(entries, "first_row_id", _first_row_ids(entries, listed, status))


def _fill(entries: pa.Table, name: str, value: int, where: npt.NDArray[np.bool_] | None = None) -> pa.Table:
    """Put a number where there is none."""
    column = entries[name]
    if not column.null_count:
        return entries
    scalar = pa.scalar(value, column.type)
    if column.null_count == len(column) and (where is None or where.all()):
        return _set(entries, name, pa.repeat(scalar, len(column)))
    filled = pc.fill_null(column, scalar)
    return _set(entries, name, filled if where is None else pc.if_else(pa.array(where), filled, column))


def _first_row_ids(
    entries: pa.Table, listed: ManifestFile, status: npt.NDArray[np.int32]
) -> pa.Array | pa.ChunkedArray:
    """Row ids for the files that have none: by the order of the entries, from the manifest's first one on."""
    given = entries["first_row_id"]
    if listed.content != DATA_MANIFEST or listed.first_row_id is None:
        return given if given.null_count == len(given) else pa.nulls(len(given), pa.int64())
    given = given.combine_chunks()
    open_ = pc.is_null(given).to_numpy(zero_copy_only=False) & (status != DELETED)
    if not open_.any():
        return given
    taken = np.where(open_, entries["record_count"].to_numpy(), 0)
    if listed.first_row_id + float(taken.sum(dtype=np.float64)) > _HIGHEST_ROW_ID:
        raise InvalidMetadata(
            "there are more rows than ids", source=listed.manifest_path, field="first_row_id"
        )
    starts = listed.first_row_id + np.cumsum(taken) - taken
    return pc.if_else(pa.array(open_), pa.array(starts, pa.int64()), given)


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


class EntryCounts(msgspec.Struct, frozen=True):
    """How many files and rows of each status are in some entries."""

    files: tuple[int, int, int]
    rows: tuple[int, int, int]


def count_entries(entries: pa.Table) -> EntryCounts:
    """Count by status: existing, added, deleted."""
    status, rows = entries["status"].to_numpy(), entries["record_count"].to_numpy()
    files = np.bincount(status, minlength=3)
    sums = [int(rows[status == each].sum()) for each in range(3)]
    return EntryCounts((int(files[0]), int(files[1]), int(files[2])), (sums[0], sums[1], sums[2]))
