"""Position delete files: pairs of a path and a position, in Parquet, Avro or ORC.

Only the two columns are read, whatever else is there: some writers put the deleted rows beside them. What a
file may hold is limited by what its manifest tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa

from lakeplane.avro.limits import DEFAULT_LIMITS
from lakeplane.avro.read import Pick, read_avro
from lakeplane.errors import InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.model.arrow_schema import FIELD_ID
from lakeplane.model.schema import METADATA_COLUMNS

MAX_COLUMN_BYTES: Final = 1 << 31
"""What the paths and positions of one file may take when they are unpacked."""

_COLUMNS: Final = ("file_path", "pos")


def read_positions(data: bytes, file_format: str, *, source: str, most: int) -> tuple[pa.Array, pa.Array]:
    """The paths, as numbers of a dictionary, and the positions in a file of at most so many rows."""
    match file_format.upper():
        case "PARQUET":
            return _guarded(_parquet, data, source, most)
        case "AVRO":
            return _guarded(_avro, data, source, most)
        case "ORC":
            return _guarded(_orc, data, source, most)
        case other:
            raise NotSupported(f"position deletes in {other} files", source=source)


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
