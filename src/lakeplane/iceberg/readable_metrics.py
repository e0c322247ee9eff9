"""What is known of each column of files, for people: from maps by field id to structs by column name.

The maps of all files are taken apart at once: their entries are sorted by field, and each field's entries go
to the rows they belong to.
"""

from __future__ import annotations

import decimal
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.bound_columns import read_bounds
from lakeplane.iceberg.manifest_schema import BOUND_MAPS, COUNT_MAPS
from lakeplane.iceberg.unified_partitions import as_extension
from lakeplane.model.schema import Schema
from lakeplane.model.temporal import DAY_MICROS
from lakeplane.model.types import STRING, TIME, UNKNOWN, Decimal, Type

_MAX_SMALL: Final = 1 << 16


class _Entries(NamedTuple):
    """The entries of one map column, those of each field next to each other."""

    items: pa.Array
    places: npt.NDArray[np.int64]
    """Where each entry is in ``items``."""
    rows: npt.NDArray[np.int64]
    """The file that each entry is of."""
    starts: npt.NDArray[np.int64]
    """Where the entries of each field start, and those of the last one end."""


def readable_metrics(files: pa.Table, schema: Schema, type_: pa.StructType) -> pa.StructArray:
    """The metrics of files, with a struct for each column of a schema.

    ``files`` has the maps of ``COUNT_MAPS`` and ``BOUND_MAPS``; ``type_`` is the type of the result.
    """
    columns = schemas.measured_columns(schema)
    if not columns:
        return pa.array([{}] * files.num_rows, pa.struct([]))
    ids = np.array([column.id for column in columns], np.int64)
    counts = [_entries(files[name].combine_chunks(), ids) for name in COUNT_MAPS]
    bounds = [_entries(files[name].combine_chunks(), ids) for name in BOUND_MAPS]
    size = files.num_rows
    no_count = pa.nulls(size, pa.int64())
    structs = []
    for number, column in enumerate(columns):
        members = list(type_.field(number).type)
        bound = members[-1].type
        values = [_numbers(each, number, size, no_count) for each in counts]
        values += [_bounds(each, number, size, column.type, bound) for each in bounds]
        structs.append(pa.StructArray.from_arrays(values, fields=members))
    return pa.StructArray.from_arrays(structs, fields=list(type_))


def _entries(column: pa.MapArray, ids: npt.NDArray[np.int64]) -> _Entries:
    offsets = column.offsets.to_numpy().astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    keys = column.keys.slice(first, last - first).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    order = np.argsort(ids)
    found = np.minimum(np.searchsorted(ids[order], keys), len(ids) - 1)
    numbers = order[found]
    known = ids[numbers] == keys
    if column.null_count:
        known &= column.is_valid().to_numpy(zero_copy_only=False)[rows]
    items = column.items
    if items.null_count:
        known &= items.slice(first, last - first).is_valid().to_numpy(zero_copy_only=False)
        items = items.fill_null(pa.scalar(0 if pa.types.is_integer(items.type) else b"", items.type))
    # A field that no column has any more comes after all others.
    numbers = np.where(known, numbers, len(ids))
    small = numbers.astype(np.uint16) if len(ids) < _MAX_SMALL else numbers
    by_field = np.argsort(small, kind="stable")
    starts = np.searchsorted(numbers[by_field], np.arange(len(ids) + 1))
    return _Entries(items, by_field + first, rows[by_field], starts.astype(np.int64))


def _of(entries: _Entries, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of a field's entries, and the rows that they are of."""
    part = slice(int(entries.starts[number]), int(entries.starts[number + 1]))
    return entries.places[part], entries.rows[part]


def _numbers(entries: _Entries, number: int, size: int, nothing: pa.Array) -> pa.Array:
    places, rows = _of(entries, number)
    if not len(places):
        return nothing
    values = np.zeros(size, np.int64)
    missing = np.ones(size, np.bool_)
    values[rows] = entries.items.to_numpy()[places]
    missing[rows] = False
    return pa.array(values, mask=missing)


def _bounds(entries: _Entries, number: int, size: int, type_: Type, wanted: pa.DataType) -> pa.Array:
    places, rows = _of(entries, number)
    if not len(places):
        return pa.nulls(size, wanted)
    found = np.full(size, -1, np.int64)
    found[rows] = places
    return _natural(type_, entries.items.take(pa.array(found, mask=found < 0)), wanted)


# From what can be compared to what can be read


def _natural(type_: Type, raw: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Bounds as values of the column's own Arrow type; what is not a value of it is null."""
    if type_ is UNKNOWN:
        return pa.nulls(len(raw), wanted)
    values = read_bounds(type_, raw)
    if values is None:  # shapes have bounds that are no values of theirs
        return raw
    if type_ is STRING:
        return _texts(values)
    if isinstance(type_, Decimal):
        return _within(values, type_)
    if type_ is TIME:
        inside = pc.and_(pc.greater_equal(values, 0), pc.less(values, DAY_MICROS))
        values = pc.if_else(inside, values, pa.scalar(None, values.type))
    if isinstance(wanted, pa.BaseExtensionType):
        return as_extension(values, wanted)
    return values.cast(wanted)


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        # Careless writers cut bounds within a character.
        found: list[Any] = values.to_pylist()
        return pa.array([None if each is None else each.decode("utf-8", "replace") for each in found])


def _within(values: pa.Array, type_: Decimal) -> pa.Array:
    """Decimals of as many digits as the type has: sixteen bytes may hold more than Arrow's largest, too."""
    digits = (9,) * type_.precision
    least, most = (
        pa.scalar(decimal.Decimal((sign, digits, -type_.scale)), pa.decimal128(38, type_.scale))
        for sign in (1, 0)
    )
    inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
    values = pc.if_else(inside, values, pa.scalar(None, values.type))
    return values.cast(pa.decimal128(type_.precision, type_.scale))
