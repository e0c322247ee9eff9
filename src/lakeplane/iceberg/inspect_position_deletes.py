"""The metadata table of position deletes: which rows of which files a snapshot leaves out, and who says so.

Here the delete files themselves are read: deletion vectors in Puffin files, and files with paths and
positions in Parquet, Avro or ORC. What they may hold is limited by what the manifests tell of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.deletion_vectors import VectorEntry, positions_of, vector_of
from lakeplane.iceberg.fetch_windows import fetch_all
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.manifest_schema import DELETE_MANIFEST, POSITION_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.position_delete_files import read_positions
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.unified_partitions import unify

MAX_POSITIONS: Final = 1 << 28
"""Positions in one table: more are refused before any of them is read."""

_PATHS: Final = pa.dictionary(pa.int32(), pa.string())
_FACTS: Final = (
    *("file_path", "file_format", "record_count", "file_size_in_bytes", "referenced_data_file"),
    *("content_offset", "content_size_in_bytes", "key_metadata", "spec_id"),
)


def position_deletes(table: TableMetadata, snapshot: Snapshot | None, reading: Reading) -> pa.Table:
    """One row for each position that a live delete file or deletion vector holds."""
    schema = _schema(table)
    listed = list_manifests(snapshot, reading)
    wanted = pc.equal(listed["content"], DELETE_MANIFEST).to_numpy()
    stacks = scan(listed.filter(pa.array(wanted)), np.ones(wanted.sum(), np.bool_), table, reading)
    parts = [_facts(each.files, table) for each in stacks if each.files.num_rows]
    if not parts:
        return schema.empty_table()
    files = pa.concat_tables(parts)
    told = pc.sum(files["record_count"], min_count=0).as_py()
    if told > MAX_POSITIONS:
        problem = f"{told} positions are more than {MAX_POSITIONS}"
        raise LimitExceeded(problem, source=table.location, hint="Compact the table's deletes first")
    found = fetch_all(
        _by_file(files),
        lambda each: [each["file_path"][0].as_py()],
        lambda each: each["file_size_in_bytes"][0].as_py(),
        lambda each, contents: _read(each, contents[0], schema),
        reading,
    )
    return pa.concat_tables([each for part in found for each in part]).unify_dictionaries()


def _schema(table: TableMetadata) -> pa.Schema:
    """The columns; a path is there as often as it has positions, so it is a number of a dictionary."""
    schema = schemas.arrow(schemas.position_deletes(table))
    for name in ("file_path", "delete_file_path"):
        place = schema.get_field_index(name)
        schema = schema.set(place, schema.field(place).with_type(_PATHS))
    return schema


def _facts(files: pa.Table, table: TableMetadata) -> pa.Table:
    files = files.filter(pc.equal(files["content"], POSITION_DELETES))
    partition = unify(files["partition"].combine_chunks(), table, table.location)
    return files.select(_FACTS).append_column("partition", partition)


def _by_file(files: pa.Table) -> list[pa.Table]:
    """The deletes of each file together, as one Puffin file holds the vectors of many data files."""
    rows: dict[str, list[int]] = {}
    for row, path in enumerate(files["file_path"].to_pylist()):
        rows.setdefault(path, []).append(row)
    return [files.take(pa.array(each)) for each in rows.values()]


def _read(deletes: pa.Table, data: bytes, schema: pa.Schema) -> list[pa.Table]:
    told = deletes.drop_columns("partition").to_pylist()
    if any(each["key_metadata"] is not None for each in told):
        raise NotSupported("the delete file is encrypted", source=told[0]["file_path"])
    partitions = deletes["partition"].combine_chunks()
    return [
        _table(each, *_positions(each, data), partitions.slice(row, 1), schema)
        for row, each in enumerate(told)
    ]


def _table(
    told: dict[str, Any], paths: pa.Array, positions: pa.Array, partition: pa.Array, schema: pa.Schema
) -> pa.Table:
    count = len(positions)
    same = pa.array(np.zeros(count, np.int32))
    constants = {
        "partition": partition.take(same),
        "delete_file_path": pa.DictionaryArray.from_arrays(same, pa.array([told["file_path"]])),
        "row": pa.nulls(count, schema.field("row").type),
    }
    for name in ("spec_id", "content_offset", "content_size_in_bytes"):
        if name in schema.names:
            constants[name] = pa.repeat(pa.scalar(told[name], schema.field(name).type), count)
    columns = {"file_path": paths, "pos": positions, **constants}
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _positions(told: dict[str, Any], data: bytes) -> tuple[pa.Array, pa.Array]:
    """The paths and positions in a file."""
    if told["file_format"].upper() == "PUFFIN":
        return _vector(told, data)
    return read_positions(data, told["file_format"], source=told["file_path"], most=told["record_count"])


def _vector(told: dict[str, Any], data: bytes) -> tuple[pa.Array, pa.Array]:
    source = told["file_path"]
    for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        if told[name] is None:
            raise InvalidMetadata(
                "the manifest does not tell it of a deletion vector", source=source, field=name
            )
    entry = VectorEntry(
        told["referenced_data_file"],
        told["content_offset"],
        told["content_size_in_bytes"],
        told["record_count"],
    )
    positions = positions_of(vector_of(data, entry, source=source))
    numbers = pa.array(np.zeros(len(positions), np.int32))
    return pa.DictionaryArray.from_arrays(numbers, pa.array([entry.data_file])), pa.array(positions)
