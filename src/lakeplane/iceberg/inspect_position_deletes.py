"""The metadata table of position deletes: which rows of which files a snapshot leaves out, and who says so.

Here the delete files themselves are read: deletion vectors in Puffin files, and files with paths and
positions in Parquet, Avro or ORC. What they may hold is limited by what the manifests tell of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.avro.limits import DEFAULT_LIMITS
from lakeplane.avro.read import Pick, read_avro
from lakeplane.errors import InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.deletion_vectors import VectorEntry, positions_of, vector_of
from lakeplane.iceberg.fetch_windows import fetch_all
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.manifest_schema import DELETE_MANIFEST, POSITION_DELETES
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.unified_partitions import unify
from lakeplane.model.arrow_schema import FIELD_ID
from lakeplane.model.schema import METADATA_COLUMNS

MAX_POSITIONS: Final = 1 << 28
"""Positions in one table: more are refused before any of them is read."""

MAX_COLUMN_BYTES: Final = 1 << 31
"""What the paths and positions of one file may take when they are unpacked."""

_PATHS: Final = pa.dictionary(pa.int32(), pa.string())
_COLUMNS: Final = ("file_path", "pos")
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
    source, most = told["file_path"], told["record_count"]
    match told["file_format"].upper():
        case "PUFFIN":
            return _vector(told, data)
        case "PARQUET":
            return _guarded(_parquet, data, source, most)
        case "AVRO":
            return _guarded(_avro, data, source, most)
        case "ORC":
            return _guarded(_orc, data, source, most)
        case other:
            raise NotSupported(f"position deletes in {other} files", source=source)


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


# Files of paths and positions


def _guarded(
    read: Callable[[bytes, str, int], pa.Table], data: bytes, source: str, most: int
) -> tuple[pa.Array, pa.Array]:
    try:
        paths, positions = (column.combine_chunks() for column in read(data, source, most).columns)
        return _natural(paths, positions, source)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidMetadata(f"cannot be read as position deletes: {error}", source=source) from None


def _natural(paths: pa.Array, positions: pa.Array, source: str) -> tuple[pa.Array, pa.Array]:
    coded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
    texts = coded.dictionary
    is_text = pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)
    if not is_text or not pa.types.is_integer(positions.type):
        problem = f"its paths are {texts.type}, and its positions {positions.type}"
        raise InvalidMetadata(problem, source=source)
    if coded.null_count or positions.null_count:
        raise InvalidMetadata("a path or position is null", source=source)
    numbers = coded.indices.cast(pa.int32())
    # By way of bytes, as that looks whether they are UTF-8, which readers of files do not.
    names = texts.cast(pa.large_binary()).cast(pa.string())
    return pa.DictionaryArray.from_arrays(numbers, names), positions.cast(pa.int64())


def _check_rows(rows: int, most: int, source: str) -> None:
    if rows > most:
        problem = f"it has {rows} rows, and the manifest tells of {most}"
        raise InvalidMetadata(problem, source=source, field="record_count")


def _parquet(data: bytes, source: str, most: int) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415 - for old deletes only

    file = pq.ParquetFile(pa.BufferReader(data))
    footer = file.metadata
    _check_rows(footer.num_rows, most, source)
    names = list(_names(file.schema_arrow, source))
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    unpacked = sum(each.total_uncompressed_size for each in chunks if each.path_in_schema in names)
    if unpacked > MAX_COLUMN_BYTES:
        problem = f"its paths and positions take {unpacked} bytes, more than {MAX_COLUMN_BYTES}"
        raise LimitExceeded(problem, source=source)
    file = pq.ParquetFile(pa.BufferReader(data), metadata=footer, read_dictionary=names[:1])
    return file.read(columns=names, use_threads=False).rename_columns(_COLUMNS)


def _orc(data: bytes, source: str, most: int) -> pa.Table:
    from pyarrow import orc  # noqa: PLC0415 - for old deletes only

    file = orc.ORCFile(pa.BufferReader(data))
    _check_rows(file.nrows, most, source)
    return file.read(columns=list(_names(file.schema, source))).rename_columns(_COLUMNS)


def _names(schema: pa.Schema, source: str) -> Iterator[str]:
    """The names of the two columns in a file: found by their ids, or else by the names that the spec has."""
    by_id = {(each.metadata or {}).get(FIELD_ID): each.name for each in schema}
    for name in _COLUMNS:
        found = by_id.get(str(METADATA_COLUMNS[name].id).encode(), name)
        if found not in schema.names:
            raise InvalidMetadata(f"it has no column {name}", source=source)
        yield found


def _avro(data: bytes, source: str, most: int) -> pa.Table:
    picks = [
        Pick(name, (METADATA_COLUMNS[name].id,), type=kind)
        for name, kind in zip(_COLUMNS, (pa.string(), pa.int64()), strict=True)
    ]
    limits = msgspec.structs.replace(DEFAULT_LIMITS, rows=min(most, DEFAULT_LIMITS.rows))
    return read_avro(data, picks, source=source, limits=limits).table
