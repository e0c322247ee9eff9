"""Rows of a plan, read the slow and plain way: a Parquet file at a time, its deletes looked up in sets."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeplane.iceberg.deletion_vectors import VectorEntry, vector_of
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.expressions.columns import matches_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeplane.iceberg.plan import ReadPlan
    from lakeplane.model.expressions.tree import Predicate
    from lakeplane.model.schema import Schema

FIELD_ID = b"PARQUET:field_id"


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def reading() -> Reading:
    """A reading of local files that remembers nothing."""

    def read_many(paths: Sequence[str]) -> list[bytes]:
        return [local(path).read_bytes() for path in paths]

    return Reading(read_many, ManifestCache())


def attached(plan: ReadPlan) -> dict[str, list[str]]:
    """The files of a plan, each with the files of its deletes."""
    deletes = plan.deletes["file_path"].to_pylist()
    return {
        file["file_path"]: sorted(deletes[number] for number in _deletes_of(file))
        for file in plan.files.to_pylist()
    }


def _deletes_of(file: dict[str, Any]) -> list[int]:
    vector = [] if file["vector"] is None else [file["vector"]]
    return [*vector, *file["position_deletes"], *file["equality_deletes"]]


def ids(plan: ReadPlan) -> list[int]:
    """The ids of the rows of a plan, in order."""
    deletes = plan.deletes.to_pylist()
    number = plan.schema.find("id").id
    found: list[int] = []
    for file in plan.files.to_pylist():
        data = table_at(file["file_path"])
        assert data.num_rows == file["record_count"]
        keep = matching(data, plan.residuals[file["residual"]], plan.schema)
        for each in _deletes_of(file):
            keep &= ~_is_deleted(data, file["file_path"], deletes[each], plan.schema)
        found += _column(data, plan.schema, number).filter(pa.array(keep)).to_pylist()
    return sorted(found)


def matching(data: pa.Table, predicate: Predicate, schema: Schema) -> npt.NDArray[np.bool_]:
    """Which rows of a file match."""
    return matches_rows(predicate, lambda number: _column(data, schema, number), data.num_rows)


@functools.cache
def table_at(location: str) -> pa.Table:
    return pq.read_table(local(location), partitioning=None)


def _column(data: pa.Table, schema: Schema, field_id: int) -> pa.ChunkedArray:
    """A column by its id, perhaps within a struct, as it is in the schema of the table."""
    wanted = to_arrow(schema)
    for field in wanted:
        if int(field.metadata[FIELD_ID]) == field_id:
            return _find(data, field_id, field.type)
        if pa.types.is_struct(field.type):
            for inner in field.type:
                if int(inner.metadata[FIELD_ID]) == field_id:
                    outer = _find(data, int(field.metadata[FIELD_ID]), None)
                    return pa.chunked_array([pc.struct_field(each, inner.name) for each in outer.chunks])
    raise AssertionError(field_id)


def _find(data: pa.Table, field_id: int, wanted: pa.DataType | None) -> pa.ChunkedArray:
    for position, field in enumerate(data.schema):
        if int((field.metadata or {}).get(FIELD_ID, -1)) == field_id:
            column = data.column(position)
            if isinstance(wanted, pa.BaseExtensionType):
                wanted = wanted.storage_type
            is_nested = pa.types.is_nested(column.type)
            return column if wanted is None or is_nested else column.cast(wanted)
    return pa.chunked_array([pa.nulls(data.num_rows, wanted)])


def _is_deleted(data: pa.Table, path: str, delete: dict[str, Any], schema: Schema) -> npt.NDArray[np.bool_]:
    gone = np.zeros(data.num_rows, np.bool_)
    if delete["file_format"].upper() == "PUFFIN":
        assert delete["referenced_data_file"] == path
        place = (delete["content_offset"], delete["content_size_in_bytes"], delete["record_count"])
        blob = local(delete["file_path"]).read_bytes()
        gone[list(vector_of(blob, VectorEntry(path, *place), source=delete["file_path"]))] = True
        return gone
    table = table_at(delete["file_path"])
    if delete["content"] == 1:
        gone[[row["pos"] for row in table.to_pylist() if row["file_path"] == path]] = True
        return gone
    ids = delete["equality_ids"]
    keys = set(zip(*(_column(table, schema, number).to_pylist() for number in ids), strict=True))
    values = zip(*(_column(data, schema, number).to_pylist() for number in ids), strict=True)
    return np.array([value in keys for value in values], np.bool_)
