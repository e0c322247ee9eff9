"""Columns of values as arrays that NumPy or Arrow can compare, and the comparisons themselves.

Numbers, times and booleans become NumPy numbers (decimals of more than 18 digits: Python ints in a NumPy
array), counted in the smallest unit of their type. Strings, binaries and uuids become Arrow's large_binary,
whose order is that of their unsigned bytes; for UTF-8 that is the order of code points.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.steps import to_unit
from lakeplane.model.expressions.tree import Operator
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOATS,
    INTEGERS,
    NANOS,
    STRING,
    TIME,
    TIMESTAMPS,
    UUID,
    Decimal,
    Fixed,
    Type,
)

Mask: TypeAlias = npt.NDArray[np.bool_]
Comparable: TypeAlias = Any
"""A NumPy array of numbers, or an Arrow array of bytes; nulls hold something of no meaning, or null."""

_COMPARED: Final = frozenset({STRING, UUID, BINARY, BOOLEAN, DATE, TIME, *INTEGERS, *FLOATS, *TIMESTAMPS})
_INT64_DIGITS: Final = 18
_FEW_MEMBERS: Final = 32


class Column(NamedTuple):
    """Values that can be compared, and where there are any."""

    values: Comparable
    valid: Mask


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of storage values, without dictionary, chunks or extension type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        return plain(array.dictionary_decode())
    return array


def valid_mask(array: pa.Array) -> Mask:
    """Where an array is not null."""
    return to_mask(array.is_valid())


def to_mask(array: pa.Array) -> Mask:
    """A NumPy mask of Arrow booleans; null counts as false."""
    mask: Mask = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)  # noqa: FBT003
    return mask


def read_column(type_: Type, array: pa.Array | pa.ChunkedArray) -> Column:
    """Take over a column, of any Arrow type that is natural for its type, or of plain integers."""
    array = plain(array)
    valid = valid_mask(array)
    try:
        return Column(_comparable(type_, array), valid)
    except pa.ArrowException as error:
        problem = f"a column of Arrow type {array.type} cannot be compared as {type_}"
        raise InvalidExpression(problem, hint=str(error)) from error


def can_compare(type_: Type) -> bool:
    """Whether predicates compare values of the type, beyond asking whether they are null."""
    return isinstance(type_, Decimal | Fixed) or type_ in _COMPARED


def _comparable(type_: Type, array: pa.Array) -> Comparable:
    if pa.types.is_null(array.type):
        texts = type_ in (STRING, UUID, BINARY) or isinstance(type_, Fixed)
        number = np.float64 if type_ in FLOATS else np.int64
        return array.cast(pa.large_binary()) if texts else np.zeros(len(array), number)
    match type_:
        case _ if type_ is STRING and pa.types.is_binary(array.type):
            # Bounds are bytes: what a careless writer has cut within a character still has its place.
            return array.cast(pa.large_binary())
        case _ if type_ is STRING:
            text = array if pa.types.is_large_string(array.type) else array.cast(pa.large_string())
            return text.cast(pa.large_binary())
        case _ if type_ in (UUID, BINARY) or isinstance(type_, Fixed):
            return array.cast(pa.large_binary())
        case _ if type_ in FLOATS:
            return array.cast(pa.float64()).fill_null(0.0).to_numpy()
        case Decimal():
            return _unscaled(type_, array)
        case _ if type_ in INTEGERS or type_ in (BOOLEAN, DATE, TIME) or type_ in TIMESTAMPS:
            return _integers(type_, array).cast(pa.int64()).fill_null(0).to_numpy()
        case _:
            problem = f"values of type {type_} cannot be compared"
            raise InvalidExpression(problem)


def _integers(type_: Type, array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        return array
    if type_ is DATE:
        return array.cast(pa.date32()).cast(pa.int32())
    if type_ is TIME:
        return array.cast(pa.time64("us")).cast(pa.int64())
    if type_ in TIMESTAMPS and pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("ns" if type_ in NANOS else "us", array.type.tz)).cast(pa.int64())
    return array


def _unscaled(type_: Decimal, array: pa.Array) -> Comparable:
    if not pa.types.is_decimal128(array.type) or array.type.scale != type_.scale:
        array = array.cast(pa.decimal128(38, type_.scale))
    if not len(array):
        return np.zeros(0, np.int64)
    halves = np.frombuffer(array.buffers()[1], dtype="<i8", offset=array.offset * 16, count=2 * len(array))
    low, high = halves[0::2], halves[1::2]
    fits = bool(np.all((high == low >> 63) | ~valid_mask(array)))
    if type_.precision <= _INT64_DIGITS and fits:
        return low
    whole = [(int(top) << 64) + int(rest) for top, rest in zip(high, low.view("<u8"), strict=True)]
    return np.array(whole, dtype=object)


def physical(type_: Type, value: Any) -> Any:
    """A canonical value in the form of ``Column.values``."""
    match type_:
        case Decimal():
            return to_unit(type_, value)
        case _ if type_ is STRING:
            return value.encode()
        case _ if type_ is UUID:
            return value.bytes
        case _ if type_ is BOOLEAN:
            return int(value)
        case _:
            return value


def test(values: Comparable, op: Operator, value: Any) -> Mask:
    """Compare each value with one, as numbers or bytes: NaN is neither less nor greater than any."""
    if isinstance(values, np.ndarray):
        found: Mask = np.asarray(_OPERATORS[op](values, value), np.bool_)
        return found
    kernel = _KERNELS[op]
    return to_mask(kernel(values, pa.scalar(value, pa.large_binary())))


_OPERATORS: Final[dict[Operator, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KERNELS: Final[dict[Operator, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def pairwise(left: Comparable, op: Operator, right: Comparable) -> Mask:
    """Compare two columns row by row."""
    return test(left, op, right) if isinstance(left, np.ndarray) else to_mask(_KERNELS[op](left, right))


def is_any_of(values: Comparable, members: list[Any]) -> Mask:
    """Whether each value is one of the members."""
    if not isinstance(values, np.ndarray):
        return to_mask(pc.is_in(values, value_set=pa.array(members, pa.large_binary())))
    if values.dtype == object or not _fit(values, members):
        known = frozenset(members)
        return np.fromiter((value in known for value in values.tolist()), np.bool_, len(values))
    return np.isin(values, np.array(members, dtype=values.dtype))


def _fit(values: Comparable, members: list[Any]) -> bool:
    """Whether the sorted members can be numbers of NumPy; long decimals cannot."""
    return values.dtype != np.int64 or not members or (members[0] >= -(2**63) and members[-1] < 2**63)


def first_not_below(
    values: Comparable, members: list[Any], *, after_equal: bool = False
) -> npt.NDArray[np.intp]:
    """For each value, the position of the first of the sorted members that is not below it.

    With ``after_equal``, the first one that is above it. Null gives anything.
    """
    side = "right" if after_equal else "left"
    if isinstance(values, np.ndarray):
        kind = values.dtype if _fit(values, members) else np.dtype(object)
        return np.searchsorted(np.array(members, dtype=kind), values.astype(kind), side=side)  # type: ignore[call-overload,no-any-return]
    if len(members) <= _FEW_MEMBERS:
        after: Operator = ">=" if after_equal else ">"
        return sum((test(values, after, m).astype(np.intp) for m in members), np.zeros(len(values), np.intp))
    # Of many files, each distinct bound is looked up once. Bytes have the same order in Python.
    coded = values.dictionary_encode()
    texts = np.array(
        [b"" if each is None else each for each in coded.dictionary.to_pylist()] or [b""], dtype=object
    )
    positions = np.searchsorted(np.array(members, dtype=object), texts, side=side)  # type: ignore[call-overload]
    codes = coded.indices.fill_null(0).to_numpy()
    result: npt.NDArray[np.intp] = positions[codes]
    return result
