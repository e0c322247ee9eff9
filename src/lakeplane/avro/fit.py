"""From the natural Arrow type of a column to the one that is wanted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeplane.errors import InvalidMetadata

Test = Callable[[pa.DataType], bool]


def _any_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


FITTING: tuple[tuple[Test, Test], ...] = (
    (types.is_null, lambda _: True),
    (types.is_integer, types.is_integer),
    (types.is_integer, types.is_floating),
    (types.is_integer, types.is_decimal),
    (types.is_int32, lambda kind: types.is_date32(kind) or types.is_time32(kind)),
    (types.is_int64, lambda kind: types.is_timestamp(kind) or types.is_time64(kind)),
    (types.is_date32, types.is_int32),
    (types.is_time32, lambda kind: types.is_int32(kind) or types.is_time(kind)),
    (types.is_time64, lambda kind: types.is_int64(kind) or types.is_time(kind)),
    (types.is_timestamp, lambda kind: types.is_int64(kind) or types.is_timestamp(kind)),
    (types.is_floating, types.is_floating),
    (types.is_decimal, types.is_decimal),
    (_any_text, _any_text),
)
"""Which kinds may become which. Whether each value fits is then seen while they are converted."""


def fit(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType, place: str) -> pa.Array | pa.ChunkedArray:
    """Convert a column; what does not fit is an error that names the place."""
    if values.type == wanted:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([fit(chunk, wanted, place) for chunk in values.chunks], wanted)
    found = values.type
    if types.is_struct(found) and types.is_struct(wanted):
        return _fit_struct(values, wanted, place)
    if types.is_map(found) and types.is_map(wanted):
        keys = fit(values.keys, wanted.key_type, f"{place}.key")
        items = fit(values.items, wanted.item_type, f"{place}.value")
        return pa.MapArray.from_arrays(values.offsets, keys, items, wanted, mask=_nulls(values))
    if _list(found) and _list(wanted):
        items = fit(values.values, wanted.value_type, f"{place}.element")
        build = pa.ListArray if types.is_list(wanted) else pa.LargeListArray
        offsets = values.offsets.cast(pa.int32() if types.is_list(wanted) else pa.int64())
        return build.from_arrays(offsets, items, wanted, mask=_nulls(values))
    if not any(before(found) and after(wanted) for before, after in FITTING):
        raise InvalidMetadata(f"is {found} in the file, which cannot be read as {wanted}", field=place)
    try:
        return _cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidMetadata(
            f"is {found} in the file and does not fit {wanted}: {error}", field=place
        ) from None


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if types.is_fixed_size_binary(values.type) and not types.is_fixed_size_binary(wanted):
        values = pc.cast(values, pa.binary())
    return pc.cast(values, wanted)


def _fit_struct(values: pa.StructArray, wanted: pa.StructType, place: str) -> pa.StructArray:
    children = []
    for field in wanted:
        position = values.type.get_field_index(field.name)
        if position < 0:
            children.append(pa.nulls(len(values), field.type))
        else:
            child = values.field(position).slice(0, len(values))
            children.append(fit(child, field.type, f"{place}.{field.name}"))
    if not children:
        return pa.array([{}] * len(values), wanted, mask=_nulls(values))
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=_nulls(values))


def _nulls(values: pa.Array) -> pa.Array | None:
    return pc.is_null(values) if values.null_count else None
