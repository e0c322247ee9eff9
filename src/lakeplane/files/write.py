"""Rows become data files: parted by partition, sorted, rolled at the target size, put, and described."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from lakeplane.files.align import align_arrow
from lakeplane.files.describe import Finished, describe
from lakeplane.files.open_file import OpenFile, format_of
from lakeplane.files.order import can_sort, sort_positions
from lakeplane.files.partitions import Partition, split
from lakeplane.files.places import Places
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.parallel import in_parallel

Put: TypeAlias = Callable[[str, bytes], object]
"""Puts a new file at a place; it is called from several threads."""

BUFFER_BYTES: Final = 256 << 20
"""How many bytes of rows wait for more rows of their partition."""

_BLOCK_BYTES: Final = 256 << 20
"""Rows that are parted at once, about."""
_SAMPLE_BYTES: Final = 8 << 20
_NEARLY: Final = 0.9
"""A file of so much of its target size is done."""
_WORKERS: Final = 8
"""Files that are encoded and put at once: to put one is mostly to wait."""


def write_rows(
    rows: pa.Table | pa.RecordBatchReader,
    target: WriteTarget,
    put: Put,
    *,
    partition: int = 0,
    task: str | None = None,
    buffer_bytes: int = BUFFER_BYTES,
) -> list[NewFiles]:
    """Write rows as data files.

    Rows of a stream are not kept: what waits for more of its partition, and the files that are not yet full,
    take a few times ``buffer_bytes``. Rows that already waited too long become files that are smaller than
    they could be.

    Args:
        rows: The rows, in the types of the target's schema (``align_arrow``); others are aligned first.
        target: What is written, and how.
        put: Takes the place and the bytes of each file. Only files that are in the result are of any use:
            after an error, those that were put are nobody's.
        partition: The number of the part of the data that this is, for the names of files.
        task: What tells this attempt to write them from all others of the same target; by default a random
            text, so that two writes never take the same names.
        buffer_bytes: How much is kept in memory, about.
    """
    writer = RowWriter(target, put, partition=partition, task=task, buffer_bytes=buffer_bytes)
    if isinstance(rows, pa.Table):
        writer.add(rows)
    else:
        for batches in _gathered(rows):
            writer.add(pa.Table.from_batches(batches))
    return writer.finish()


def _gathered(reader: pa.RecordBatchReader) -> Iterator[list[pa.RecordBatch]]:
    """Batches that are worth to be parted together."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size >= _BLOCK_BYTES // 4:
            yield batches
            batches, size = [], 0
    if batches:
        yield batches


class _Waiting:
    """The rows of a partition that are not written yet, and the file that they go to."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.pieces: list[pa.Table] = []
        self.bytes = 0
        self.file: OpenFile | None = None

    @property
    def file_bytes(self) -> int:
        """How much of its file is written."""
        return 0 if self.file is None else self.file.size


class _Sizes(NamedTuple):
    """How large things become."""

    group_bytes: int
    file_bytes: int


class RowWriter:
    """Takes rows bit by bit; see ``write_rows``. It is used by one thread."""

    def __init__(
        self,
        target: WriteTarget,
        put: Put,
        *,
        partition: int = 0,
        task: str | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._target = target
        self._put = put
        self._places = Places(target, partition=partition, task=task or secrets.token_hex(4))
        self._buffer_bytes = buffer_bytes
        self._sorts = can_sort(target.sort_order, target.schema)
        file_bytes = target.target_bytes
        self._format = format_of(target)
        self._arrow = to_arrow(target.schema)
        self._sizes = _Sizes(min(self._format.group_bytes, file_bytes), file_bytes)
        self._waiting: dict[tuple[object, ...], _Waiting] = {}
        self._finished: list[Finished] = []
        self._ratio: float | None = None
        """Bytes in a file for each byte in memory, as far as anything is known."""

    def add(self, rows: pa.Table) -> None:
        """Take rows, in the types of the target's schema or in others that ``align_arrow`` takes."""
        if not rows.schema.equals(self._arrow):
            rows = align_arrow(self._target.schema, rows)
        for block in _blocks(rows, whole=bool(self._target.spec.fields)):
            for part in split(block, self._target.spec, self._target.schema):
                piece = block if part.rows is None else block.take(pa.array(part.rows))
                waiting = self._waiting.setdefault(part.partition.key, _Waiting(part.partition))
                waiting.pieces.append(piece)
                waiting.bytes += piece.nbytes
            self._make_room()

    def finish(self) -> list[NewFiles]:
        """Write what waits, and describe all files."""
        in_parallel(self._drain, list(self._waiting.values()), _WORKERS)
        self._waiting.clear()
        return describe(self._finished, self._target)

    def _make_room(self) -> None:
        waiting = sorted(self._waiting.values(), key=lambda each: each.bytes)
        total = sum(each.bytes for each in waiting)
        while total > self._buffer_bytes and waiting[-1].bytes:
            largest = waiting.pop()
            total -= largest.bytes
            self._write_out(largest)
        written = sorted(
            (each for each in self._waiting.values() if each.file), key=lambda each: each.file_bytes
        )
        total = sum(each.file_bytes for each in written)
        while total > self._buffer_bytes and len(written) > 1:
            largest = written.pop()
            total -= largest.file_bytes
            self._close(largest)

    def _drain(self, waiting: _Waiting) -> None:
        self._write_out(waiting)
        self._close(waiting)

    def _write_out(self, waiting: _Waiting) -> None:
        """Write the rows that wait to the file of their partition, which may become several."""
        if not waiting.pieces:
            return
        rows = waiting.pieces[0] if len(waiting.pieces) == 1 else pa.concat_tables(waiting.pieces)
        waiting.pieces, waiting.bytes = [], 0
        order = None
        if self._sorts:
            # What is in the file already is sorted for itself.
            self._close(waiting)
            rows = rows.combine_chunks()
            order = sort_positions(rows, self._target.sort_order, self._target.schema)
        at, size = 0, max(rows.nbytes, 1)
        while at < rows.num_rows:
            if waiting.file is None:
                waiting.file = OpenFile(
                    self._target, self._format, self._places.fresh(waiting.partition.path)
                )
            room = self._sizes.file_bytes - waiting.file.size
            count = self._count(rows, size, min(self._sizes.group_bytes, max(room, 1)), rows.num_rows - at)
            piece = rows.slice(at, count) if order is None else rows.take(order.slice(at, count))
            before = waiting.file.size
            waiting.file.write(piece)
            self._learn(waiting.file.size - before, size * count / rows.num_rows)
            at += count
            if waiting.file.size >= _NEARLY * self._sizes.file_bytes:
                self._close(waiting)

    def _count(self, rows: pa.Table, size: int, wanted: int, left: int) -> int:
        """How many rows make a row group of so many bytes, of those that are left."""
        if size * left / rows.num_rows <= wanted and self._ratio is None:
            return left
        if self._ratio is None:
            sample = rows.slice(0, max(1, int(rows.num_rows * _SAMPLE_BYTES / size)))
            trial = OpenFile(self._target, self._format, "")
            trial.write(sample)
            self._learn(max(trial.size, 1), size * sample.num_rows / rows.num_rows)
        per_row = size / rows.num_rows * (self._ratio or 1.0)
        count = max(1, int(wanted / per_row))
        # No small group behind a large one.
        return left if left <= count + count // 8 else count

    def _learn(self, written: int, bytes_of_rows: float) -> None:
        if bytes_of_rows >= 1 << 20:
            self._ratio = max(written / bytes_of_rows, 1e-6)

    def _close(self, waiting: _Waiting) -> None:
        if waiting.file is None:
            return
        file, waiting.file = waiting.file, None
        data = file.finish()
        self._put(file.path, data)
        order_id = self._target.sort_order.order_id if self._sorts else 0
        self._finished.append(file.finished(data, waiting.partition, order_id))


def _blocks(rows: pa.Table, *, whole: bool) -> Iterator[pa.Table]:
    """Rows in pieces whose columns each fit into one array, and with ``whole`` are one."""
    count = max(1, -(-rows.nbytes // _BLOCK_BYTES))
    step = max(1, -(-rows.num_rows // count))
    for start in range(0, rows.num_rows, step):
        block = rows.slice(start, step)
        yield block.combine_chunks() if whole else block
