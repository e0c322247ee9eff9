"""Which rows of which files a change is about: found by Spark, and handed to this process as bitmaps.

Positions come in pieces of 32,768: what Spark sends for one is a bitmap of four kilobytes, however many rows
of it are meant, so that neither side ever holds a row for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import InvalidInput
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_SHIFT: Final = 15
_PIECE: Final = 1 << _SHIFT
"""As many positions as Spark puts into one bitmap."""


def positions_of(
    rows: DataFrame, changed: Column | None = None, *, once: bool = False
) -> dict[int, BitMap64]:
    """The places of rows, as bitmaps of positions by the number of the file.

    Args:
        rows: A frame with the columns ``FILE_NUMBER`` and ``ROW_POSITION``, which are null for rows that are
            in no file.
        changed: Which of the rows count; without it, all of them.
        once: Refuse rows that come twice, whether they count or not.
    """
    bit = F.col(ROW_POSITION).bitwiseAND(_PIECE - 1)
    counted = bit if changed is None else F.when(changed, bit)
    pieces = (
        rows.where(F.col(FILE_NUMBER).isNotNull())
        .groupBy(F.col(FILE_NUMBER).alias("file"), F.shiftright(ROW_POSITION, _SHIFT).alias("piece"))
        .agg(
            F.bitmap_construct_agg(counted).alias("changed"),
            F.bitmap_construct_agg(bit).alias("met"),
            F.count(F.lit(1)).alias("rows"),
        )
    )
    columns = ["file", "piece", "changed", *(["met", "rows"] if once else [])]
    found = pieces.select(*columns).toArrow()
    if once:
        _refuse_twice(found)
    return _bitmaps(found)


def _refuse_twice(found: pa.Table) -> None:
    for bits, rows in zip(found["met"], found["rows"].to_pylist(), strict=True):
        if rows > np.unpackbits(_bytes(bits)).sum():
            problem = "several rows of the source match the same row of the table"
            hint = "Leave one source row for each key, or make the conditions tell them apart"
            raise InvalidInput(problem, field="merge", hint=hint)


def _bitmaps(found: pa.Table) -> dict[int, BitMap64]:
    parts: dict[int, list[npt.NDArray[np.uint64]]] = {}
    for file, piece, bits in zip(
        found["file"].to_pylist(), found["piece"].to_pylist(), found["changed"], strict=True
    ):
        inside = np.flatnonzero(np.unpackbits(_bytes(bits), bitorder="little")).astype(np.uint64)
        if len(inside):
            parts.setdefault(file, []).append(inside + np.uint64(piece << _SHIFT))
    return {file: BitMap64(np.concatenate(each)) for file, each in sorted(parts.items())}


def _bytes(bits: pa.BinaryScalar) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bits.as_buffer(), np.uint8)
