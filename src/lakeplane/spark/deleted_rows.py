"""Rows that are deleted by position, taken out of scans: Spark looks them up in a small table of bitmaps.

Each row of the table is a chunk of a file in which something is deleted: its bits in words of 64, under one
number made of the file's number and the chunk's. So Spark hashes a single long, the same for thousands of
rows one after the other, and tests one bit. A chunk in which nothing is deleted is not in the table.

In the same way, the rows at some positions are all that is read of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.iceberg.deletion_vectors import positions_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CHUNK: Final = "__lakeplane_chunk"
_WORDS: Final = "__lakeplane_words"
_CHUNK_BITS: Final = 12
"""Positions of a chunk: with fewer the table has many rows, with more it is large if few rows are deleted."""
_FILE_SHIFT: Final = 36
"""Room for the number of a chunk, below that of a file."""
_END: Final = 1 << _CHUNK_BITS + _FILE_SHIFT
"""No file has rows from here on."""
_STEP: Final = 1 << 24
"""Positions that are taken out of a bitmap at once: it may stand for billions."""

_SCHEMA: Final = s.StructType(
    [s.StructField(_CHUNK, s.LongType()), s.StructField(_WORDS, s.ArrayType(s.LongType()))]
)


def at_positions(
    session: SparkSession,
    frame: DataFrame,
    positions: Mapping[int, BitMap64],
    number: Column,
    position: Column,
    *,
    keep: bool,
) -> DataFrame:
    """Keep the rows of a scan at some positions, or leave them out: rows tell the number of their file."""
    small = F.broadcast(session.createDataFrame(chunks(positions), _SCHEMA))
    key = F.shiftleft(number, _FILE_SHIFT).bitwiseOR(F.shiftright(position, _CHUNK_BITS))
    word = F.get(F.col(_WORDS), F.shiftright(position, 6).bitwiseAND((1 << _CHUNK_BITS - 6) - 1))
    # The functions of PySpark shift by constants only.
    bit = F.call_function("shiftright", word, position.bitwiseAND(63).cast(s.IntegerType()))
    met = (key == F.col(_CHUNK)) & (bit.bitwiseAND(1) == 1)
    return frame.join(small, met, "left_semi" if keep else "left_anti")


def chunks(positions: Mapping[int, BitMap64]) -> pa.Table:
    """Bitmaps as chunks of words, by the numbers of files and chunks."""
    keys: list[npt.NDArray[np.int64]] = []
    words: list[npt.NDArray[np.int64]] = []
    for number, vector in positions.items():
        for some in _slabs(vector):
            chunk, within = some >> _CHUNK_BITS, some & (1 << _CHUNK_BITS) - 1
            used, place = np.unique(chunk, return_inverse=True)
            bits = np.zeros((len(used), 1 << _CHUNK_BITS), np.bool_)
            bits[place, within] = True
            keys.append(number << _FILE_SHIFT | used)
            words.append(np.packbits(bits, bitorder="little").view("<i8"))
    flat = np.concatenate(words) if words else np.zeros(0, np.int64)
    offsets = np.arange(0, len(flat) + 1, 1 << _CHUNK_BITS - 6, dtype=np.int32)
    return pa.table(
        {
            _CHUNK: pa.array(np.concatenate(keys) if keys else np.zeros(0, np.int64)),
            _WORDS: pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat)),
        }
    )


def _slabs(vector: BitMap64) -> Iterator[npt.NDArray[np.int64]]:
    """The positions of a bitmap in order, some millions at a time, and never a chunk in two parts."""
    last = min(vector.max(), _END - 1) if vector else -1
    start = 0
    while start <= last and (start := vector.next_set_bit(start)) <= last:
        end = (start // _STEP + 1) * _STEP
        yield positions_of(vector & BitMap64(range(start, end)))
        start = end
