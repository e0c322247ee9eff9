"""The index files of a snapshot: deletion vectors of data files, and hashes of keys."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata
from lakeplane.paimon.buckets import HASH_INDEX
from lakeplane.paimon.deletion_vectors import DELETION_VECTORS, VectorRange
from lakeplane.paimon.layout import index_path
from lakeplane.paimon.options import TableOptions

VECTOR_COLUMNS: Final = pa.schema(
    [
        ("vector_path", pa.string()),
        ("vector_offset", pa.int32()),
        ("vector_length", pa.int32()),
        ("vector_cardinality", pa.int64()),
    ]
)
"""What a plan tells of the deletion vector of a file; all null where there is none."""


def attach_vectors(files: pa.Table, indexes: pa.Table | None, options: TableOptions, source: str) -> pa.Table:
    """Files with where their deletion vectors lie. Vectors are few, and gone over one by one."""
    found = _vectors(indexes, source)
    if not found:
        empty = [pa.nulls(files.num_rows, field.type) for field in VECTOR_COLUMNS]
        return _beside(files, empty)
    rows: list[int] = []
    told: list[tuple[str, VectorRange]] = []
    wanted = pc.is_in(files["file_name"], value_set=pa.array([name for _, _, name in found], pa.string()))
    candidates = pc.indices_nonzero(wanted).to_pylist()
    part = files.select(["partition", "bucket", "file_name", "bucket_path"]).take(
        pa.array(candidates, pa.int64())
    )
    for row, file in zip(candidates, part.to_pylist(), strict=True):
        entry = found.get((file["partition"], file["bucket"], file["file_name"]))
        if entry is not None:
            name, external, vector = entry
            folder = file["bucket_path"] if options.index_file_in_data_file_dir else None
            rows.append(row)
            told.append((index_path(name, external, folder), vector))
    places = dict(zip(rows, told, strict=True))
    each = [places.get(row) for row in range(files.num_rows)]
    columns = [
        pa.array([None if one is None else one[0] for one in each], pa.string()),
        pa.array([None if one is None else one[1].offset for one in each], pa.int32()),
        pa.array([None if one is None else one[1].length for one in each], pa.int32()),
        pa.array([None if one is None else one[1].cardinality for one in each], pa.int64()),
    ]
    return _beside(files, columns)


def _beside(files: pa.Table, columns: list[pa.Array]) -> pa.Table:
    for field, column in zip(VECTOR_COLUMNS, columns, strict=True):
        files = files.append_column(field, column)
    return files


_Found = dict[tuple[bytes, int, str], tuple[str, "str | None", VectorRange]]


def _vectors(indexes: pa.Table | None, source: str) -> _Found:
    """The vectors by partition, bucket and data file."""
    found: _Found = {}
    if indexes is None:
        return found
    for entry in of_type(indexes, DELETION_VECTORS).to_pylist():
        for vector in vector_ranges(entry):
            key = entry["partition"], entry["bucket"], vector.data_file
            if key in found:
                problem = f"the data file {vector.data_file} has two deletion vectors"
                raise InvalidMetadata(problem, source=source)
            found[key] = entry["file_name"], entry["external_path"], vector
    return found


def vector_ranges(entry: dict[str, Any]) -> list[VectorRange]:
    """The vectors of an index file, as its row in an index manifest tells."""
    return [
        VectorRange(each["f0"], each["f1"], each["f2"], each["_CARDINALITY"])
        for each in entry["ranges"] or ()
        if each is not None
    ]


def of_type(indexes: pa.Table, index_type: str) -> pa.Table:
    """The index files of one type."""
    return indexes.filter(pc.equal(indexes["index_type"], index_type))


def hash_indexes(indexes: pa.Table) -> pa.Table:
    """The index files with the hashes of keys."""
    return of_type(indexes, HASH_INDEX)
