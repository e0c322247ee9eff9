"""Which files of a bucket have to be merged with each other, as the ranges of their keys overlap.

The files of a bucket, in the order of their first keys, fall into sections: a section ends where the next
file begins after all that came before. A key lies in one section only, so a section of a single file needs
no merging, whatever its level is: keys are unique within a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.errors import InvalidMetadata
from lakeplane.model.expressions.physical import plain, to_mask
from lakeplane.paimon.row_columns import RowColumn
from lakeplane.paimon.types import DataType, Simple, is_text

Codes = npt.NDArray[np.int64]

_SIGN: Final = np.int64(-(2**63))
_NARROW: Final = 32


def sections(
    groups: Codes, first: pa.ChunkedArray, last: pa.ChunkedArray, types: Sequence[DataType], source: str
) -> Codes:
    """Number the sections of files.

    Args:
        groups: The bucket of each file, as a number for each partition and bucket.
        first: The first keys of the files, as rows.
        last: The last keys.
        types: What the fields of a key are.
        source: What to name in errors.

    Returns:
        A number for each file: that of its section, ascending with groups and keys.
    """
    count = len(groups)
    ranks = key_ranks(pa.concat_arrays([plain(first), plain(last)]), types, source)
    low, high = ranks[:count], ranks[count:]
    if (low > high).any():
        raise InvalidMetadata("the first key of a file comes after its last one", source=source)
    order = np.lexsort((high, low, groups))
    # Each group gets a range of its own, so that one running maximum serves all of them.
    base = groups[order] * (int(ranks.max(initial=0)) + 1)
    starts, ends = base + low[order], base + high[order]
    reach = np.maximum.accumulate(ends)
    begins = np.ones(count, np.bool_)
    begins[1:] = starts[1:] > reach[:-1]
    numbers = np.empty(count, np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers


def key_ranks(rows: pa.Array, types: Sequence[DataType], source: str) -> Codes:
    """The place of each key in the order of all of them; equal keys share one."""
    found = RowColumn(rows, types).require(source, "_MIN_KEY")
    ranks: Codes = np.zeros(found.count, np.int64)
    for position, type_ in enumerate(types):
        column = found.column(position)
        if column is None:
            raise InvalidMetadata(f"keys of type {type_} have no order", source=source)
        part = _ranks(column, type_)
        _, ranks = np.unique(ranks * (int(part.max(initial=0)) + 1) + part, return_inverse=True)
    return ranks


def _ranks(column: pa.Array, type_: DataType) -> Codes:
    """The place of each value in the order that Java has: null first, NaN last, texts by their bytes."""
    valid = ~column.is_null().to_numpy(zero_copy_only=False)
    values = _ordered(column, type_)
    _, codes = np.unique(values[valid], return_inverse=True)
    ranks = np.zeros(len(values), np.int64)
    ranks[valid] = codes + 1
    return ranks


def _ordered(column: pa.Array, type_: DataType) -> npt.NDArray[Any]:
    """Values that NumPy orders as Java orders what they stand for."""
    if is_text(type_.kind) or pa.types.is_large_binary(column.type):
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        places = np.empty(len(texts), np.int64)
        places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        if not texts:
            return np.zeros(len(column), np.int64)
        found: Codes = places[encoded.indices.fill_null(0).to_numpy()]
        return found
    if type_.kind in (Simple.FLOAT, Simple.DOUBLE):
        values = column.cast(pa.float64()).fill_null(0).to_numpy()
        bits: Codes = np.where(np.isnan(values), np.int64(2**63 - 1), values.view(np.int64))
        # As whole numbers, negative ones are in the order of their amounts: turned around.
        turned: Codes = np.where(bits < 0, ~bits ^ _SIGN, bits)
        return turned
    if pa.types.is_decimal(column.type):
        return np.array([each or 0 for each in column.to_pylist()], object)
    if pa.types.is_boolean(column.type):
        return to_mask(column).astype(np.int64)
    kind = pa.int32() if column.type.bit_width == _NARROW else pa.int64()
    whole = column if pa.types.is_integer(column.type) else column.view(kind)
    numbers: npt.NDArray[Any] = whole.fill_null(0).to_numpy().astype(np.int64)
    return numbers
