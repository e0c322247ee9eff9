"""A data file on its way, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakeplane.files.avro_write import AvroFormat
from lakeplane.files.describe import Finished
from lakeplane.files.leaf_values import LeafTotals
from lakeplane.files.orc_write import OrcFormat
from lakeplane.files.parquet_schema import TAIL, footer_length
from lakeplane.files.parquet_write import ParquetFormat
from lakeplane.files.partitions import Partition
from lakeplane.files.target import WriteTarget

if TYPE_CHECKING:
    import pyarrow as pa


class Sink(Protocol):
    """A file of one format that takes rows."""

    @property
    def size(self) -> int:
        """How many bytes are written, about."""

    def write(self, rows: pa.Table) -> None:
        """Write rows, together."""

    def finish(self) -> bytes:
        """The whole file."""


class Format(Protocol):
    """How files of one format are written for a target."""

    group_bytes: int
    """How many bytes are written at once."""

    def open(self) -> Sink:
        """Begin a file."""


def format_of(target: WriteTarget) -> Format:
    """How the files of a target are written; what cannot be is refused here."""
    match target.file_format:
        case "parquet":
            return ParquetFormat(target.schema, target.properties)
        case "orc":
            return OrcFormat(target.schema, target.properties)
        case "avro":
            return AvroFormat(target.schema, target.properties)


class OpenFile:
    """A file that takes rows, and keeps what is to be told of them."""

    def __init__(self, target: WriteTarget, format_: Format, path: str) -> None:
        self.path = path
        self._sink = format_.open()
        self._rows = 0
        # Footers of Parquet tell nearly all, those of the others nothing.
        self._totals = LeafTotals(target.schema, everything=target.file_format != "parquet")
        self._has_footer = target.file_format == "parquet"

    @property
    def size(self) -> int:
        """How many bytes are written, about."""
        return self._sink.size

    def write(self, rows: pa.Table) -> None:
        """Write rows, together."""
        self._sink.write(rows)
        self._rows += rows.num_rows
        self._totals.add(rows)

    def finish(self) -> bytes:
        """The whole file."""
        return self._sink.finish()

    def finished(self, data: bytes, partition: Partition, order_id: int) -> Finished:
        """What is to be told of the file, whose bytes ``finish`` has given."""
        tail = data[-footer_length(data[-TAIL:]) - TAIL :] if self._has_footer else None
        return Finished(self.path, partition, len(data), self._rows, order_id, self._totals.facts, tail)
