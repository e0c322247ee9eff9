"""Which bucket a row belongs to, and the index of keys that tables with growing buckets keep.

The hash is Murmur3 with 32 bits and the seed 42, over the bytes of the row of bucket keys behind its arity.
It is what Spark's own ``hash`` gives for a binary value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.errors import InvalidInput, InvalidMetadata, NotSupported
from lakeplane.model.expressions.physical import plain
from lakeplane.paimon.binary_row import ARITY_BYTES, encode_row, row_body
from lakeplane.paimon.options import BucketFunction
from lakeplane.paimon.row_columns import write_rows
from lakeplane.paimon.types import DataType, Simple

SEED: Final = 42
HASH_INDEX: Final = "HASH"
"""The type of the index files with the hashes of all keys of a bucket."""

_MASK: Final = 0xFFFFFFFF
_WORD: Final = 4
_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

Words = npt.NDArray[np.uint32]


def hash_row(row: bytes) -> int:
    """The hash of one row, signed."""
    body = row_body(row)
    state = SEED
    for (word,) in struct.iter_unpack("<I", body):
        mixed = (word * 0xCC9E2D51) & _MASK
        mixed = ((mixed << 15) | (mixed >> 17)) & _MASK
        state ^= (mixed * 0x1B873593) & _MASK
        state = ((state << 13) | (state >> 19)) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    state ^= len(body)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def hash_rows(rows: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """The hashes of many rows."""
    raw = plain(rows).cast(pa.large_binary())
    _, offsets, data = raw.buffers()
    places = np.frombuffer(offsets, np.int64, len(raw) + 1, raw.offset * 8)
    starts, lengths = places[:-1] + ARITY_BYTES, np.diff(places) - ARITY_BYTES
    if raw.null_count or (len(raw) and (lengths.min() < _WORD or (lengths % _WORD).any())):
        raise InvalidInput("what is to be hashed are no rows")
    state: Words = np.full(len(raw), SEED, np.uint32)
    bytes_ = np.zeros(_WORD, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    words = np.ndarray((max(0, len(bytes_) - _WORD + 1),), "<u4", bytes_, strides=(1,))
    active = np.arange(len(raw))
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        active = active[lengths[active] > at]
        state[active] = _mix(state[active], words[starts[active] + at].astype(np.uint32))
    return _finish(state, lengths)


def _mix(state: Words, word: Words) -> Words:
    word = word * _C1
    word = (word << np.uint32(15)) | (word >> np.uint32(17))
    state = state ^ (word * _C2)
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    return state * np.uint32(5) + _C3


def _finish(state: Words, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    state = state ^ lengths.astype(np.uint32)
    state = (state ^ (state >> np.uint32(16))) * _F1
    state = (state ^ (state >> np.uint32(13))) * _F2
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def bucket_of(
    types: Sequence[DataType], values: Sequence[Any], buckets: int, function: BucketFunction = "default"
) -> int:
    """The bucket of one row, by the values of its bucket keys."""
    if buckets < 1:
        raise InvalidInput(f"a row has no place in {buckets} buckets")
    match function:
        case "default":
            # As Java divides: towards zero.
            return abs(hash_row(encode_row(types, values, reserve_null=True))) % buckets
        case "mod":
            _check_mod(types)
            if values[0] is None:
                raise InvalidInput("null has no bucket under the function mod")
            found: int = values[0] % buckets
            return found
        case _:
            raise _unknown(function)


def buckets_of(
    types: Sequence[DataType],
    columns: Sequence[pa.Array | pa.ChunkedArray],
    buckets: int,
    function: BucketFunction = "default",
) -> npt.NDArray[np.int32]:
    """The buckets of many rows, by the columns of their bucket keys."""
    if buckets < 1:
        raise InvalidInput(f"a row has no place in {buckets} buckets")
    match function:
        case "default":
            hashes = hash_rows(write_rows(types, columns, reserve_null=True)).astype(np.int64)
            return (np.abs(hashes) % buckets).astype(np.int32)
        case "mod":
            _check_mod(types)
            column = plain(columns[0])
            if column.null_count:
                raise InvalidInput("null has no bucket under the function mod")
            rest: npt.NDArray[np.int64] = column.to_numpy().astype(np.int64) % buckets
            return rest.astype(np.int32)
        case _:
            raise _unknown(function)


def _check_mod(types: Sequence[DataType]) -> None:
    if len(types) != 1 or types[0].kind not in (Simple.INT, Simple.BIGINT):
        raise InvalidInput("the bucket function mod is for one key of type INT or BIGINT")


def _unknown(function: str) -> NotSupported:
    hint = "This release knows the bucket functions default and mod"
    return NotSupported(f"bucket-function.type = {function}", field="options.bucket-function.type", hint=hint)


def parse_hash_index(data: bytes, source: str, *, expected: int | None = None) -> npt.NDArray[np.int32]:
    """Read the index of a bucket: the hashes of its keys."""
    if len(data) % _WORD:
        raise InvalidMetadata(f"{len(data)} bytes are no whole number of hashes", source=source)
    found = np.frombuffer(data, ">i4").astype(np.int32)
    if expected is not None and len(found) != expected:
        raise InvalidMetadata(f"it has {len(found)} hashes, and should have {expected}", source=source)
    return found


def serialize_hash_index(hashes: npt.NDArray[np.integer[Any]]) -> bytes:
    """Write the index of a bucket."""
    return hashes.astype(">i4").tobytes()
