"""Writing Avro files: Arrow tables in, bytes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from lakeplane.avro import cells
from lakeplane.avro.cells import Cells, Longs
from lakeplane.avro.codecs import packer
from lakeplane.avro.container import pack_file
from lakeplane.avro.encode import encode_record
from lakeplane.avro.limits import DEFAULT_LIMITS
from lakeplane.avro.schema import Record, parse_schema, record_of
from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.parallel import in_parallel

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES: Final = 4 << 20
"""What is encoded at once, about: little enough for the caches of a processor."""
_BATCH_ROWS: Final = 1 << 16
_THREADS: Final = 4
"""Blocks that are packed at once; the libraries that do it let other threads run."""


def write_avro(
    table: pa.Table,
    schema: dict[str, Any] | list[Any],
    *,
    metadata: Mapping[str, str | bytes],
    codec: str = "deflate",
    level: int | None = None,
    block_bytes: int = 64_000,
) -> bytes:
    """Write a table as the records of a schema, whose fields are the columns of the same names.

    A field without a column is null, if it may be. Columns are converted to what the schema says where
    nothing is lost by it; what does not fit is an ``InvalidInput`` that names the column. The same rows
    always give the same bytes, however the table lies in memory.

    Args:
        table: The rows. Records are structs, arrays are lists, and maps are maps.
        schema: The writer's schema as JSON: a record, or a union of null and a record.
        metadata: What the file is to carry besides its rows.
        codec: ``deflate``, ``zstandard``, ``snappy`` or ``null``.
        level: How hard the codec tries.
        block_bytes: A block ends with the row that makes it reach this size, before it is packed.
    """
    text = msgspec.json.encode(schema)
    record, null_at = _record(text)
    if block_bytes < 1:
        raise InvalidInput(f"blocks of {block_bytes} bytes hold nothing")
    if len(set(table.column_names)) < table.num_columns:
        raise InvalidInput("two columns have the same name", field=", ".join(table.column_names))
    name, pack = packer(codec, level)
    packed: list[tuple[int, bytes]] = []
    for blocks in _blocks(table, record, null_at, block_bytes):
        rows = [count for count, _ in blocks]
        packed += zip(rows, in_parallel(pack, [data for _, data in blocks], _THREADS), strict=True)
    properties = {key: value.encode() if isinstance(value, str) else value for key, value in metadata.items()}
    return pack_file(text, properties, name, packed)


@lru_cache(maxsize=32)
def _record(schema: bytes) -> tuple[Record, int | None]:
    try:
        return record_of(parse_schema(msgspec.json.decode(schema), DEFAULT_LIMITS))
    except InvalidMetadata as error:
        raise InvalidInput(error.problem, field=error.field, hint=error.hint) from None


def _blocks(
    table: pa.Table, record: Record, null_at: int | None, block_bytes: int
) -> Iterator[list[tuple[int, memoryview]]]:
    """Rows and bytes of blocks, batch by batch; what does not fill a block waits for the next batch."""
    rows, waiting = 0, 0
    rest: list[memoryview] = []
    for batch in _batches(table):
        data, ends = cells.pack(_rows(batch, record, null_at), batch.num_rows)
        view = data.data
        blocks: list[tuple[int, memoryview]] = []
        row = at = 0
        for cut in _cuts(ends, block_bytes, waiting):
            end = int(ends[cut - 1])
            blocks.append((rows + cut - row, _joined([*rest, view[at:end]])))
            rows, waiting, rest, row, at = 0, 0, [], cut, end
        rows, waiting = rows + batch.num_rows - row, waiting + len(view) - at
        rest.append(view[at:])
        yield blocks
    if rows:
        yield [(rows, _joined(rest))]


def _cuts(ends: Longs, block_bytes: int, waiting: int) -> list[int]:
    """After which rows blocks end."""
    cuts: list[int] = []
    start = -waiting
    while (row := int(np.searchsorted(ends, start + block_bytes))) < len(ends):
        cuts.append(row + 1)
        start = int(ends[row])
    return cuts


def _joined(parts: list[memoryview]) -> memoryview:
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _batches(table: pa.Table) -> Iterator[pa.Table]:
    """At least one, as columns of no rows have to fit as well."""
    rows = table.num_rows
    step = min(_BATCH_ROWS, max(1, rows * _BATCH_BYTES // max(table.nbytes, 1)))
    for start in range(0, max(rows, 1), step):
        yield table.slice(
            start, min(step, rows - start)
        )  # without columns, Arrow would count on past the end


def _rows(batch: pa.Table, record: Record, null_at: int | None) -> Cells:
    columns = {name: _whole(batch[name]) for name in batch.column_names}
    rows = encode_record(record, columns, batch.num_rows)
    return rows if null_at is None else cells.optional(rows, batch.num_rows, None, null_at)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
