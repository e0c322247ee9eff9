"""Tables of some rows in some files, of which a share is deleted at random, in one of three ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.iceberg.deletion_vectors import vector_from, write_vectors
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST, FILE_COLUMNS
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.partitioning import UNPARTITIONED
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.types import DOUBLE, INT, LONG, Field
from lakeplane.testing.tables import BuiltTable, Entries

KINDS = ("vector", "positions", "equality")
COLUMNS = Schema((Field(1, "id", LONG), Field(2, "k", INT), Field(3, "v", DOUBLE)))
PLACES = Schema((METADATA_COLUMNS["file_path"], METADATA_COLUMNS["pos"]))
Numbers = npt.NDArray[np.int64]


class Made(NamedTuple):
    """Data files, and the deleted positions of each."""

    paths: list[str]
    rows: int
    """In each of them."""
    deleted: list[Numbers]


def make(folder: Path, rows: int, count: int, share: float, kind: str) -> tuple[str, int]:
    """Make a table with one snapshot before the deletes: its metadata file, and how many rows are left."""
    (folder / "data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    built = BuiltTable(
        COLUMNS, UNPARTITIONED, format_version=3 if kind == "vector" else 2, location=f"file://{folder}"
    )
    draw = np.random.default_rng(5)
    each = rows // count
    deleted = [np.flatnonzero(draw.random(each) < share) for _ in range(count)]
    made = Made([f"file://{folder}/data/{number:05}.parquet" for number in range(count)], each, deleted)
    for number, path in enumerate(made.paths):
        table = pa.table(
            {
                "id": np.arange(number * each, (number + 1) * each),
                "k": draw.integers(0, 1000, each).astype(np.int32),
                "v": draw.random(each),
            }
        )
        pq.write_table(table.cast(to_arrow(COLUMNS)), local(path))
    built.commit(entries([{**file(path, each), "content": 0} for path in made.paths], DATA_MANIFEST))
    built.commit(entries(WAYS[kind](folder, made), DELETE_MANIFEST), operation="delete")
    for path, data in built.files.items():
        local(path).write_bytes(data)
    place = folder / "metadata" / "00001-x.metadata.json"
    place.write_bytes(serialize_metadata(built.metadata))
    return f"file://{place}", each * count - sum(map(len, deleted))


def local(path: str) -> Path:
    """Where a file is on this machine."""
    return Path(path.removeprefix("file://"))


def entries(files: list[dict[str, Any]], content: int) -> Entries:
    """A manifest of these files."""
    fields = [pa.field("status", pa.int32()), *FILE_COLUMNS, pa.field("partition", pa.struct([]))]
    rows = [{"status": 1, "file_format": "parquet", "partition": {}, **each} for each in files]
    return Entries(pa.Table.from_pylist(rows, pa.schema(fields)), 0, content)


def file(path: str, rows: int) -> dict[str, Any]:
    """What a manifest tells of any file."""
    size = local(path).stat().st_size
    return {"file_path": path, "record_count": rows, "file_size_in_bytes": size}


def _vectors(folder: Path, made: Made) -> list[dict[str, Any]]:
    path = f"file://{folder}/data/v.puffin"
    vectors = {each: vector_from(gone) for each, gone in zip(made.paths, made.deleted, strict=True)}
    written, told = write_vectors({each: vector for each, vector in vectors.items() if vector})
    local(path).write_bytes(written.data)
    return [
        {
            **file(path, each.cardinality),
            "content": 1,
            "file_format": "puffin",
            "referenced_data_file": each.data_file,
            "content_offset": each.offset,
            "content_size_in_bytes": each.size,
        }
        for each in told
    ]


def _positions(folder: Path, made: Made) -> list[dict[str, Any]]:
    """One delete file for ten data files, as commits leave them."""
    found = []
    for start in range(0, len(made.paths), 10):
        some = list(zip(made.paths[start : start + 10], made.deleted[start : start + 10], strict=True))
        path = f"file://{folder}/data/p{start}.parquet"
        columns = [
            pa.concat_arrays([pa.repeat(each, len(gone)) for each, gone in some]),
            pa.array(np.concatenate([gone for _, gone in some])),
        ]
        pq.write_table(
            pa.Table.from_arrays(columns, ["file_path", "pos"]).cast(to_arrow(PLACES)), local(path)
        )
        number = METADATA_COLUMNS["file_path"].id
        ends = {
            "lower_bounds": [(number, some[0][0].encode())],
            "upper_bounds": [(number, some[-1][0].encode())],
        }
        found.append({**file(path, len(columns[0])), "content": 1, **ends})
    return found


def _equality(folder: Path, made: Made) -> list[dict[str, Any]]:
    path = f"file://{folder}/data/e.parquet"
    ids = np.concatenate([number * made.rows + gone for number, gone in enumerate(made.deleted)])
    pq.write_table(pa.table({"id": ids}).cast(to_arrow(Schema(COLUMNS.fields[:1]))), local(path))
    return [{**file(path, len(ids)), "content": 2, "equality_ids": [1]}]


WAYS: dict[str, Callable[[Path, Made], list[dict[str, Any]]]] = {
    "vector": _vectors,
    "positions": _positions,
    "equality": _equality,
}
