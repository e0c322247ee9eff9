"""New files on their way into a table: whether they fit it, and whether they are there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.file_removal import coverage
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.manifest_schema import DATA, DATA_MANIFEST, FILE_COLUMNS, arrow_type
from lakeplane.iceberg.manifests import STATISTICS
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.physical import plain, to_mask
from lakeplane.model.expressions.tree import Predicate, references
from lakeplane.model.types import UNKNOWN, Struct

_REQUIRED: Final = ("file_path", "file_format", "record_count", "file_size_in_bytes", "partition")


def check_incoming(files: Sequence[NewFiles], table: TableMetadata) -> list[NewFiles]:
    """New files in the types of manifests; refused if they do not fit the table, or come twice."""
    found = [_fitting(each, table) for each in files]
    _check_once(found)
    return found


def _fitting(new: NewFiles, table: TableMetadata) -> NewFiles:
    partition = table.partition_type(new.spec_id)
    for name in _REQUIRED:
        if name not in new.files.column_names:
            raise InvalidInput("new files must tell it", source=table.location, field=name)
        if new.files[name].null_count:
            raise InvalidInput("a new file does not tell it", source=table.location, field=name)
    columns: dict[str, Any] = {"partition": _partition(plain(new.files["partition"]), partition)}
    for field in FILE_COLUMNS:
        if field.name in new.files.column_names:
            columns[field.name] = _cast(new.files[field.name], field.type, field.name)
    for name in ("record_count", "file_size_in_bytes"):
        least = pc.min(columns[name]).as_py()
        if least is not None and least < 0:
            raise InvalidInput(f"it cannot be {least}", source=table.location, field=name)
    return NewFiles(new.spec_id, pa.table(columns))


def _partition(column: pa.StructArray, partition: Struct) -> pa.Array:
    names = {str(field.id) for field in partition.fields}
    given = {column.type.field(place).name for place in range(column.type.num_fields)}
    if given != names:
        problem = f"its fields are {sorted(given)}, and those of the spec {sorted(names)}"
        raise InvalidInput(problem, field="partition")
    if not names:
        return pa.array([{}] * len(column), pa.struct([]))
    values = [
        column.field(str(field.id))
        if field.type is UNKNOWN
        else _cast(column.field(str(field.id)), arrow_type(field), f"partition.{field.name}")
        for field in partition.fields
    ]
    return pa.StructArray.from_arrays(values, names=[str(field.id) for field in partition.fields])


def _cast(column: Any, type_: pa.DataType, name: str) -> Any:
    if column.type == type_:
        return column
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"not of the type {type_}: {error}", field=name) from None


def _check_once(files: Sequence[NewFiles]) -> None:
    """Refuse files that come twice: their rows would be there twice. Many vectors share a file."""
    columns = [
        plain(
            each.files.filter(pc.not_equal(pc.utf8_upper(each.files["file_format"]), "PUFFIN"))["file_path"]
        )
        for each in files
    ]
    paths = pa.concat_arrays(columns) if columns else pa.array([], pa.string())
    counts = pc.value_counts(paths)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise InvalidInput("the file is added twice", source=twice[0]["values"].as_py())


def check_data(new: NewFiles) -> None:
    """Refuse delete files: taken for data, what they delete would be rows."""
    if "content" in new.files.column_names:
        other = new.files.filter(pc.not_equal(new.files["content"], DATA))
        if other.num_rows:
            raise InvalidInput("it holds no data", source=other["file_path"][0].as_py(), field="content")


def check_against(
    files: Sequence[NewFiles], table: TableMetadata, parent: Snapshot | None, reading: Reading
) -> None:
    """Refuse files that are in the table already, by their exact paths."""
    listed = list_manifests(parent, reading)
    wanted = to_mask(pc.equal(listed["content"], DATA_MANIFEST))
    new = [plain(each.files["file_path"]) for each in files]
    if not new or not listed.num_rows:
        return
    paths = pa.concat_arrays(new)
    for stack in scan(listed, wanted, table, reading):
        known = pc.is_in(paths, value_set=plain(stack.files["file_path"]))
        if stack.content == DATA_MANIFEST and pc.any(known).as_py():
            path = paths.filter(known)[0].as_py()
            raise InvalidInput("the file is in the table already", source=path)


def check_inside(files: Sequence[NewFiles], where: Predicate, table: TableMetadata) -> None:
    """Refuse files whose rows do not all match a condition."""
    for each in check_incoming(files, table):
        known = with_statistics(each.files, sorted(references(where)))
        found = coverage(known, where, table.spec_by_id(each.spec_id), table.schema)
        outside = np.flatnonzero(~found.whole)
        if len(outside):
            path = each.files["file_path"][int(outside[0])].as_py()
            raise InvalidInput(f"not all of its rows match: {where}", source=path)


def with_statistics(files: pa.Table, field_ids: Sequence[int]) -> pa.Table:
    """The statistics of some fields in columns of their own, as manifests are read."""
    for name in STATISTICS:
        type_ = FILE_COLUMNS.field(name).type
        for field_id in field_ids:
            if name in files.column_names:
                column = pc.map_lookup(files[name], pa.scalar(field_id, pa.int32()), "first")
            else:
                column = pa.nulls(files.num_rows, type_.item_type)
            files = files.append_column(f"{name}.{field_id}", column)
    return files


def partitions_in(files: Sequence[NewFiles]) -> pa.Table:
    """The partitions of new files, with their specs."""
    parts = []
    for each in files:
        specs = pa.repeat(pa.scalar(each.spec_id, pa.int32()), each.files.num_rows)
        parts.append(pa.table({"spec_id": specs, "partition": plain(each.files["partition"])}))
    return pa.concat_tables(parts, promote_options="permissive")
