"""Metrics: from what writers know about the columns of many files to the columns of manifest entries.

A writer says for each column of its data what each file holds of it, as Arrow arrays with one value per
file. What becomes of that in manifests are maps from field ids to counts and bounds.

Bounds are never tighter than what they bound: a text that is cut is rounded up for the upper bound, of the
two zeros the lower bound is the negative one, and what cannot be a bound (NaN, text that is no UTF-8, the
points of lists and maps) is left out. A missing bound prunes nothing, a wrong one loses rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.bound_bytes import bytes_of_bounds
from lakeplane.iceberg.manifest_schema import BOUND_MAPS, COUNT_MAPS, FILE_COLUMNS
from lakeplane.iceberg.metrics_modes import COUNTS, NONE, MetricsMode, Truncated
from lakeplane.model.expressions.physical import plain, valid_mask
from lakeplane.model.schema import Schema
from lakeplane.model.types import BINARY, FLOATS, STRING, UNKNOWN, Field, List, Map, Type, is_nested
from lakeplane.model.value_bytes import truncate_upper

Facts: TypeAlias = "pa.Array | pa.ChunkedArray | None"
"""One value per file; null, or nothing at all, where it is not known."""


class ColumnFacts(NamedTuple):
    """What writers know about one column in each of many files."""

    field_id: int
    sizes: Facts = None
    """Bytes on disk."""
    values: Facts = None
    """Values, nulls and NaN among them."""
    nulls: Facts = None
    nans: Facts = None
    lower: Facts = None
    """No value is below it; in the Arrow type of the column. Of geometries and geographies: structs of the
    doubles x and y, and z and m where there are some. Of variants: bounds as they are stored."""
    upper: Facts = None


_COUNTS: Final = dict(zip(COUNT_MAPS, ("sizes", "values", "nulls", "nans"), strict=True))


def metrics_columns(
    facts: Sequence[ColumnFacts], schema: Schema, modes: Mapping[int, MetricsMode]
) -> dict[str, pa.MapArray]:
    """The six columns of metrics, with one row per file; a file of which nothing is known has null.

    Args:
        facts: What is known, each column once, all of the same number of files.
        schema: The schema that was written with.
        modes: How much is kept of each column (``metrics_modes``); of others, nothing.
    """
    files = _count_files(facts, schema)
    kept = [
        (each, schema.field(each.field_id), modes.get(each.field_id, NONE))
        for each in sorted(facts, key=lambda each: each.field_id)
    ]
    kept = [each for each in kept if each[2] is not NONE and _has_metrics(each[1].type)]
    found: dict[str, list[tuple[int, pa.Array]]] = {name: [] for name in (*COUNT_MAPS, *BOUND_MAPS)}
    for known, field, mode in kept:
        for name, fact in _COUNTS.items():
            column = getattr(known, fact)
            if column is not None and (fact != "nans" or field.type in FLOATS):
                found[name].append((field.id, _counts(column, schema, field, fact)))
        for name, bounds in zip(BOUND_MAPS, _bounds(known, schema, field, mode), strict=True):
            if bounds is not None:
                found[name].append((field.id, bounds))
    return {name: _maps(columns, files, FILE_COLUMNS.field(name).type) for name, columns in found.items()}


def _has_metrics(type_: Type) -> bool:
    # Columns of type unknown are in no file.
    return type_ is not UNKNOWN and not is_nested(type_)


def _count_files(facts: Sequence[ColumnFacts], schema: Schema) -> int:
    lengths = {len(column) for each in facts for column in each[1:] if column is not None}
    if len(lengths) > 1:
        raise InvalidInput(f"facts are of different numbers of files: {sorted(lengths)}", field="facts")
    ids = [each.field_id for each in facts]
    twice = next((each for each in ids if ids.count(each) > 1), None) if len(set(ids)) < len(ids) else None
    if twice is not None:
        raise InvalidInput("facts about it are given twice", field=schema.name_of(twice))
    return lengths.pop() if lengths else 0


def _counts(column: Facts, schema: Schema, field: Field, fact: str) -> pa.Array:
    counts = _cast(column, pa.int64(), schema, field)
    least = pc.min(counts).as_py()
    if least is not None and least < 0:
        raise InvalidInput(f"a count is negative: {fact} {least}", field=schema.name_of(field.id))
    return counts


def _cast(column: Any, type_: pa.DataType, schema: Schema, field: Field) -> pa.Array:
    whole = plain(column)
    try:
        return whole if whole.type == type_ else whole.cast(type_)
    except pa.ArrowException as error:
        raise InvalidInput(f"{whole.type} is no {type_}: {error}", field=schema.name_of(field.id)) from None


# Bounds


def _bounds(
    known: ColumnFacts, schema: Schema, field: Field, mode: MetricsMode
) -> tuple[pa.Array | None, pa.Array | None]:
    """The bounds of one column as they are stored."""
    if mode is COUNTS or _is_repeated(schema, field):
        return None, None
    name = schema.name_of(field.id)
    lower = None if known.lower is None else bytes_of_bounds(field.type, known.lower, "lower", name)
    upper = None if known.upper is None else bytes_of_bounds(field.type, known.upper, "upper", name)
    if field.type in FLOATS:
        lower, upper = _where_numbers(lower, known.upper), _where_numbers(upper, known.lower)
    if isinstance(mode, Truncated) and field.type in (STRING, BINARY):
        lower = None if lower is None else _cut(field.type, lower, mode.length)
        upper = None if upper is None else _cut_up(field.type, upper, mode.length)
    return lower, upper


def _where_numbers(bounds: pa.Array | None, other: Facts) -> pa.Array | None:
    """Bounds, but for files whose other bound is NaN: who computed it did not leave NaN out."""
    if bounds is None or other is None:
        return bounds
    nan = pc.fill_null(pc.is_nan(plain(other).cast(pa.float64())), False)  # noqa: FBT003
    return pc.if_else(nan, pa.scalar(None, bounds.type), bounds)


def _is_repeated(schema: Schema, field: Field) -> bool:
    parent = schema.parent_of(field.id)
    while parent is not None:
        if isinstance(parent.type, List | Map):
            return True
        parent = schema.parent_of(parent.id)
    return False


def _cut(type_: Type, raw: pa.Array, length: int) -> pa.Array:
    """Values cut to a length: of code points for strings, of bytes for binaries."""
    if type_ is STRING:
        return pc.utf8_slice_codeunits(raw.cast(pa.string()), 0, length).cast(pa.binary())
    return pc.binary_slice(raw, 0, length)


def _cut_up(type_: Type, raw: pa.Array, length: int) -> pa.Array:
    """Values cut to a length and rounded up; null where nothing of that length is large enough.

    To count up the last byte is nearly always enough, also in UTF-8: it makes the next code point, but for
    the last one of each length or row of the encoding. Those values are taken one by one.
    """
    count = pc.utf8_length(raw.cast(pa.string())) if type_ is STRING else pc.binary_length(raw)
    is_cut = valid_mask(raw) & (count.fill_null(0).to_numpy() > length)
    if not is_cut.any():
        return raw
    rows = np.flatnonzero(is_cut)
    values = raw.take(pa.array(rows))
    heads = _cut(type_, values, length)
    _, offsets, data = heads.buffers()
    ends = np.frombuffer(offsets, np.int32, len(heads) + 1, heads.offset * 4)[1:]
    bytes_ = np.frombuffer(data, np.uint8).copy()
    last = bytes_[ends - 1]
    easy = last < 0xFF if type_ is BINARY else (last < 0x7F) | ((last >= 0x80) & (last < 0xBF))  # noqa: PLR2004
    bytes_[ends[easy] - 1] += 1
    heads = pa.Array.from_buffers(
        pa.binary(), len(heads), [None, offsets, pa.py_buffer(bytes_)], offset=heads.offset
    )
    if not easy.all():
        hard = pa.array(~easy)
        rounded = [_rounded_up(type_, each, length) for each in values.filter(hard).to_pylist()]
        heads = pc.replace_with_mask(heads, hard, pa.array(rounded, pa.binary()))
    return pc.replace_with_mask(raw, pa.array(is_cut), heads)


def _rounded_up(type_: Type, value: bytes, length: int) -> bytes | None:
    found = truncate_upper(type_, value.decode() if type_ is STRING else value, length)
    return found.encode() if isinstance(found, str) else found


# Maps


def _maps(columns: Sequence[tuple[int, pa.Array]], files: int, type_: pa.MapType) -> pa.MapArray:
    """One map per file, from columns with a value for each; a file without any value has null."""
    if not columns:
        return pa.nulls(files, type_)
    known: npt.NDArray[np.bool_] = np.stack([valid_mask(column) for _, column in columns], axis=1)
    lengths = known.sum(axis=1)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    ids = np.array([field_id for field_id, _ in columns], np.int32)
    keys = pa.array(np.broadcast_to(ids, known.shape)[known])
    # The values lie column by column, and are taken file by file.
    places = (np.arange(files)[:, None] + np.arange(len(columns))[None, :] * files)[known]
    values = pa.concat_arrays([column for _, column in columns]).take(pa.array(places))
    offsets = pa.array(ends, pa.int32(), mask=np.append(lengths == 0, False))
    return pa.MapArray.from_arrays(offsets, keys, values).cast(type_)
