"""A data file on its way, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakeplane.files.describe import Finished
from lakeplane.files.leaf_values import nan_counts
from lakeplane.files.parquet_schema import TAIL, footer_length
from lakeplane.files.parquet_write import ParquetFile
from lakeplane.files.partitions import Partition
from lakeplane.files.target import WriteTarget
from lakeplane.files.write_settings import parquet_settings

if TYPE_CHECKING:
    import pyarrow as pa


class _Sink(Protocol):
    @property
    def size(self) -> int: ...

    def write(self, rows: pa.Table) -> None: ...

    def finish(self) -> bytes: ...


class OpenFile:
    """A file that takes rows, and keeps what is to be told of them."""

    def __init__(self, target: WriteTarget, path: str) -> None:
        self.path = path
        self._target = target
        self._sink = _open(target)
        self._rows = 0
        self._nans: dict[int, int] = {}

    @staticmethod
    def group_bytes(target: WriteTarget) -> int:
        """How many bytes are written at once."""
        return parquet_settings(target.properties).row_group_bytes

    @property
    def size(self) -> int:
        """How many bytes are written, about."""
        return self._sink.size

    def write(self, rows: pa.Table) -> None:
        """Write rows, together."""
        self._sink.write(rows)
        self._rows += rows.num_rows
        for field_id, count in nan_counts(rows, self._target.schema).items():
            self._nans[field_id] = self._nans.get(field_id, 0) + count

    def finish(self) -> bytes:
        """The whole file."""
        return self._sink.finish()

    def finished(self, data: bytes, partition: Partition, order_id: int) -> Finished:
        """What is to be told of the file, whose bytes ``finish`` has given."""
        tail = data[-footer_length(data[-TAIL:]) - TAIL :]
        return Finished(self.path, partition, len(data), self._rows, order_id, self._nans, tail)


def _open(target: WriteTarget) -> _Sink:
    return ParquetFile(target.schema, parquet_settings(target.properties))
