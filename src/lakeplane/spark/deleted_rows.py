"""Rows at some positions, taken out of scans or kept: Spark looks each row up in one array of bits.

The array is a scalar sub-query, so that it is computed once and goes to tasks as a constant; nothing is
joined. Bits lie in chunks of 4,096 positions, and chunks that are empty are not stored::

    for each file number   where its chunks begin, and how many there are
    for each chunk         where its words are; empty ones share theirs
    words                  of 64 positions each, 64 for a chunk
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.iceberg.deletion_vectors import positions_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Words: TypeAlias = npt.NDArray[np.int64]

_CHUNK_BITS: Final = 12
"""Positions of a chunk: with fewer there are many of them, with more they are large for few rows."""
_CHUNK_WORDS: Final = 1 << _CHUNK_BITS - 6
_END: Final = 1 << 48
"""No file has rows from here on."""
_STEP: Final = 1 << 24
"""Positions that are taken out of a bitmap at once: it may stand for billions."""

_BITS: Final = "bits"
_SCHEMA: Final = s.StructType([s.StructField(_BITS, s.ArrayType(s.LongType(), containsNull=False))])


def at_positions(
    session: SparkSession,
    frame: DataFrame,
    positions: Mapping[int, BitMap64],
    number: Column,
    position: Column,
    *,
    keep: bool,
) -> DataFrame:
    """Keep the rows of a scan at some positions, or leave them out.

    Rows tell the number of their file, which is one of ``positions``, and where they are in it.
    """
    one = pa.table({_BITS: pa.array([bits_of(positions)], pa.list_(pa.int64()))})
    bits = session.createDataFrame(one, _SCHEMA).scalar()

    def at(place: Column) -> Column:
        return F.get(bits, place.cast(s.IntegerType()))

    chunk = F.least(F.shiftright(position, _CHUNK_BITS), at(number * 2 + 1))
    word = at(at(at(number * 2) + chunk) + F.shiftright(position, 6).bitwiseAND(_CHUNK_WORDS - 1))
    # Of a row whose place is not known, nobody may say that it is there, or that it is not.
    known = F.coalesce(word, F.raise_error(F.lit("a row does not tell where it is")).cast(s.LongType()))
    # The functions of PySpark shift by constants only.
    bit = F.call_function("shiftright", known, position.bitwiseAND(63).cast(s.IntegerType()))
    return frame.where(bit.bitwiseAND(1) == int(keep))


def bits_of(positions: Mapping[int, BitMap64]) -> Words:
    """Bitmaps of files as one array, as it is told above."""
    heads = 2 * (max(positions, default=-1) + 1)
    found = {number: _chunks(vector) for number, vector in positions.items()}
    counts = {number: int(used[-1]) + 1 if len(used) else 0 for number, (used, _) in found.items()}
    # One more than there are: what lies behind the last chunk is not deleted.
    index = np.zeros(sum(counts.values()) + len(counts), np.int64)
    nothing = heads + len(index)
    index += nothing
    head, words = np.zeros(heads, np.int64), [np.zeros(_CHUNK_WORDS, np.int64)]
    begin, next_word = 0, nothing + _CHUNK_WORDS
    for number, (used, bits) in found.items():
        head[2 * number : 2 * number + 2] = heads + begin, counts[number]
        index[begin + used] = next_word + _CHUNK_WORDS * np.arange(len(used))
        begin, next_word = begin + counts[number] + 1, next_word + len(bits)
        words.append(bits)
    return np.concatenate([head, index, *words])


def _chunks(vector: BitMap64) -> tuple[Words, Words]:
    """The chunks in which something is deleted, and their words."""
    chunks: list[Words] = []
    words: list[Words] = []
    for some in _slabs(vector):
        chunk, within = some >> _CHUNK_BITS, some & (1 << _CHUNK_BITS) - 1
        used, place = np.unique(chunk, return_inverse=True)
        bits = np.zeros((len(used), 1 << _CHUNK_BITS), np.bool_)
        bits[place, within] = True
        chunks.append(used)
        words.append(np.packbits(bits, bitorder="little").view("<i8"))
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *chunks]), np.concatenate([none, *words])


def _slabs(vector: BitMap64) -> Iterator[npt.NDArray[np.int64]]:
    """The positions of a bitmap in order, some millions at a time, and never a chunk in two parts."""
    last = min(vector.max(), _END - 1) if vector else -1
    start = 0
    while start <= last and (start := vector.next_set_bit(start)) <= last:
        end = (start // _STEP + 1) * _STEP
        yield positions_of(vector & BitMap64(range(start, end)))
        start = end
