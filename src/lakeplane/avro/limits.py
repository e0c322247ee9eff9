"""How much is accepted of one Avro file: what lies in storage is not trusted.

A few hundred bytes of deflate or zstandard can stand for gigabytes. Honest manifests reach a ratio of 3 to
30; those whose entries all look alike may reach some hundreds, but are then small. So what a file may
unpack to is an allowance that every file has, plus a multiple of its size.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The caps for one file. Each of them ends in a ``LimitExceeded`` that names the file."""

    header_bytes: int = 16 << 20
    """The header: schema and properties of the file."""
    schema_nodes: int = 20_000
    """Types in the schema, those that are used by name counted at each use."""
    schema_depth: int = 64
    """Types within types."""
    block_bytes: int = 1 << 30
    """One block, before and after decompression."""
    free_bytes: int = 16 << 20
    """What any file may unpack to, however small it is."""
    ratio: int = 100
    """Bytes after decompression for each byte of the file, on top of ``free_bytes``."""
    total_bytes: int = 8 << 30
    """All blocks after decompression."""
    rows: int = 100_000_000
    """Records in the file."""
    empty_items: int = 1_000_000
    """Values that take no byte in the file (nulls, empty records) in one array, or as records of the file."""
    column_bytes: int = 256 << 20
    """What the columns may take in memory, on top of twice what the file may unpack to."""

    def unpacked(self, size: int) -> int:
        """How many bytes a file of this size may unpack to."""
        return min(self.total_bytes, self.free_bytes + self.ratio * size)

    def columns(self, size: int) -> int:
        """How many bytes the columns of a file of this size may take."""
        return self.column_bytes + 2 * self.unpacked(size)


DEFAULT_LIMITS: Final = Limits()
