"""New deletes on their way into a table: whether they fit it, and the data files that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import CommitConflict, InvalidInput
from lakeplane.iceberg.delete_index import PATH_ID, only_data_file, partition_codes
from lakeplane.iceberg.file_removal import delete_keys
from lakeplane.iceberg.incoming import check_incoming, with_statistics
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, EQUALITY_DELETES, FILE_COLUMNS, POSITION_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import told_apart
from lakeplane.iceberg.pruning import manifests_may_hold
from lakeplane.iceberg.snapshot_maker import Added
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.types import FLOATS, List, Map, is_nested

VECTORS_FROM: Final = 3
"""The format version from which on positions are deleted by vectors, and by nothing else."""

_PUFFIN: Final = "PUFFIN"
_OF_VECTORS: Final = ("referenced_data_file", "content_offset", "content_size_in_bytes")
_AGAIN: Final = "Read the table again, and repeat the change"


def vectors_in(new: NewFiles) -> pa.Array:
    """The data files that get a vector."""
    files = new.files
    if "referenced_data_file" not in files.column_names:
        return pa.array([], pa.string())
    return plain(files["referenced_data_file"]).filter(pa.array(_is_vector(files))).cast(pa.string())


def _is_vector(files: pa.Table) -> Mask:
    return to_mask(pc.equal(pc.utf8_upper(plain(files["file_format"])), _PUFFIN))


def equality_deletes_in(deletes: pa.Table | None) -> pa.Table | None:
    """Those of some deletes that name rows by their values."""
    if deletes is None:
        return None
    return deletes.filter(pc.equal(deletes["content"], EQUALITY_DELETES))


def without_deletes_of(gone: frozenset[str], added: tuple[Added, ...]) -> tuple[Added, ...]:
    """New files without the deletes that are about data files which are gone, and about nothing else."""
    if not gone:
        return added
    paths = pa.array(sorted(gone), pa.string())
    found = []
    for each in added:
        if each.content != DATA_MANIFEST:
            known = only_data_file(with_statistics(each.new.files, (PATH_ID,)))
            kept = pc.invert(pc.is_in(known, value_set=paths))
            each = each._replace(new=each.new._replace(files=each.new.files.filter(kept)))  # noqa: PLW2901
        found.append(each)
    return tuple(found)


# Whether they fit


def check_new_deletes(
    new: Sequence[NewFiles], deletes_from: pa.Table | None, table: TableMetadata
) -> list[NewFiles]:
    """New deletes in the types of manifests; refused if they do not fit the table or their data files."""
    if any(each.files.num_rows for each in new) and table.format_version == 1:
        hint = "Upgrade the table to v2 or later"
        raise InvalidInput("v1 tables have no deletes", source=table.location, hint=hint)
    found = [_complete(each) for each in check_incoming(new, table) if each.files.num_rows]
    for each in found:
        _check_kinds(each.files, table)
        _check_equality(each.files, table)
    _check_single([path for each in found for path in vectors_in(each).to_pylist()])
    positions = [_positions(each, table) for each in found]
    _check_places([each for each in positions if each.files.num_rows], deletes_from)
    return found


def _complete(new: NewFiles) -> NewFiles:
    files = new.files
    for name in ("content", "equality_ids", "sort_order_id", *_OF_VECTORS):
        if name not in files.column_names:
            files = files.append_column(name, pa.nulls(files.num_rows, FILE_COLUMNS.field(name).type))
    return new._replace(files=files)


def _check_kinds(files: pa.Table, table: TableMetadata) -> None:
    """Each is of a kind that the version has, and tells what its kind has to tell."""
    contents = pa.array([POSITION_DELETES, EQUALITY_DELETES], pa.int32())
    is_delete = to_mask(pc.is_in(plain(files["content"]), value_set=contents))
    _refuse(files, ~is_delete, "it is no delete file", "content")
    is_vector = _is_vector(files)
    is_equality = to_mask(pc.equal(plain(files["content"]), EQUALITY_DELETES))
    _refuse(files, is_vector & is_equality, "a Puffin file holds vectors, no values", "content")
    if table.format_version < VECTORS_FROM:
        _refuse(files, is_vector, f"v{table.format_version} tables have no deletion vectors", "file_format")
    stale = ~is_vector & ~is_equality
    if table.format_version >= VECTORS_FROM and stale.any():
        problem = f"tables of v{table.format_version} take no new position delete files, only vectors"
        hint = f"If the table was upgraded meanwhile: {_AGAIN.lower()}"
        raise CommitConflict(problem, source=_first(files, stale), hint=hint)
    for name in _OF_VECTORS:
        _refuse(files, is_vector & _is_null(files, name), "a vector has to tell it", name)
    for name in _OF_VECTORS[1:]:
        _refuse(files, ~is_vector & ~_is_null(files, name), "only vectors have it", name)
    _refuse(files, is_equality & ~_is_null(files, _OF_VECTORS[0]), "it names rows by values", _OF_VECTORS[0])
    _refuse(files, ~is_equality & ~_is_null(files, "equality_ids"), "it names rows by place", "equality_ids")
    sorted_ = ~is_equality & ~_is_null(files, "sort_order_id")
    _refuse(files, sorted_, "deletes of positions are in an order of their own", "sort_order_id")
    _refuse(files, files["record_count"].to_numpy() < 1, "it deletes nothing", "record_count")


def _check_equality(files: pa.Table, table: TableMetadata) -> None:
    of_values = files.filter(pc.equal(files["content"], EQUALITY_DELETES))
    for ids in {None if each is None else tuple(each) for each in of_values["equality_ids"].to_pylist()}:
        if not ids:
            path = of_values["file_path"][0].as_py()
            raise InvalidInput(
                "it does not tell which columns it compares", source=path, field="equality_ids"
            )
        check_equality_ids(ids, table)


def check_equality_ids(ids: Sequence[int], table: TableMetadata) -> None:
    """Refuse columns that rows cannot be named by."""
    if len(set(ids)) < len(ids):
        raise InvalidInput(f"a column comes twice: {list(ids)}", field="equality_ids")
    for field_id in ids:
        field = table.schema.get(field_id)
        if field is None:
            problem = f"the table has no column with the id {field_id}"
            if any(each.has(field_id) for each in table.schemas):
                raise CommitConflict(f"{problem} any more", source=table.location, hint=_AGAIN)
            raise InvalidInput(problem, source=table.location, field="equality_ids")
        around = table.schema.parent_of(field_id)
        while around is not None:
            if isinstance(around.type, List | Map):
                problem = f"{field.name} is inside of a list or map"
                raise InvalidInput(problem, source=table.location, field="equality_ids")
            around = table.schema.parent_of(around.id)
        if is_nested(field.type) or field.type in FLOATS:
            problem = f"rows cannot be named by {field.name}, which is a {field.type}"
            raise InvalidInput(problem, source=table.location, field="equality_ids")


def _check_single(paths: Sequence[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise InvalidInput("it gets two vectors", source=path, hint="Merge them into one")
        seen.add(path)


# What they are about


def _positions(new: NewFiles, table: TableMetadata) -> NewFiles:
    """Vectors and position deletes, as plans have them."""
    files = new.files.filter(pc.equal(new.files["content"], POSITION_DELETES))
    files = told_apart(with_statistics(files, (PATH_ID,)), new.spec_id, table)
    return new._replace(files=files)


def _check_places(positions: Sequence[NewFiles], data: pa.Table | None) -> None:
    """Deletes of positions lie where their data files do; elsewhere, some readers would not apply them."""
    if not positions:
        return
    if data is None or not data.num_rows:
        hint = "Give the data files as a plan has them"
        raise InvalidInput(
            "it is not told which files rows are deleted from", field="deletes_from", hint=hint
        )
    for spec_id, files in positions:
        specs = pa.repeat(pa.scalar(spec_id, pa.int32()), files.num_rows)
        placed = pa.table({"spec_id": specs, "partition": plain(files["partition"])})
        ours, of_data = partition_codes(placed, data.select(["spec_id", "partition"]))
        names = only_data_file(files)
        is_named = to_mask(names.is_valid())
        at = pc.fill_null(pc.index_in(names, value_set=plain(data["file_path"])), -1).to_numpy()
        _refuse(files, is_named & (at < 0), "it is about a file that is not told of", "deletes_from")
        same = np.where(is_named, ours == of_data[at], np.isin(ours, of_data))
        _refuse(files, ~same, "it is not in the partition of the data files that it is about", "partition")


def check_vectors(
    new: Sequence[NewFiles],
    gone: pa.Table | None,
    table: TableMetadata,
    parent: Snapshot | None,
    reading: Reading,
) -> None:
    """Refuse a second vector for a data file: readers would take one of them, or none."""
    listed = list_manifests(parent, reading)
    for each in new:
        paths = vectors_in(each)
        if not len(paths) or not listed.num_rows:
            continue
        specs = pa.repeat(pa.scalar(each.spec_id, pa.int32()), each.files.num_rows)
        places = pa.table({"spec_id": specs, "partition": plain(each.files["partition"])})
        wanted = manifests_may_hold(listed, places, table)
        wanted &= to_mask(pc.not_equal(plain(listed["content"]), DATA_MANIFEST))
        for stack in scan(listed, wanted, table, reading):
            if stack.content == DATA_MANIFEST:
                continue
            named = pc.is_in(plain(stack.files["referenced_data_file"]), value_set=paths)
            live = stack.files.filter(pc.and_(named, pa.array(_is_vector(stack.files))))
            left = live if not gone else live.filter(_others(live, gone))
            if left.num_rows:
                problem = "the file has a vector that the new one does not stand in for"
                path = left["referenced_data_file"][0].as_py()
                raise CommitConflict(problem, source=path, hint=_AGAIN)


def _others(files: pa.Table, gone: pa.Table) -> pa.Array:
    ours, theirs = delete_keys(files, gone)
    return pa.array(~np.isin(ours, theirs))


def _is_null(files: pa.Table, name: str) -> Mask:
    return to_mask(plain(files[name]).is_null())


def _first(files: pa.Table, rows: Mask) -> str:
    path: str = files["file_path"][int(np.flatnonzero(rows)[0])].as_py()
    return path


def _refuse(files: pa.Table, rows: Mask, problem: str, field: str) -> None:
    if rows.any():
        raise InvalidInput(problem, source=_first(files, rows), field=field)
