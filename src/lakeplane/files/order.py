"""The order of rows within a file, as a table's sort order asks for it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.files.partitions import column_of
from lakeplane.model.expressions.physical import plain
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transform_columns import apply_to_column
from lakeplane.model.transforms import UnknownTransform, Void
from lakeplane.model.types import FLOATS, UNKNOWN

_SIGNED: Final = {pa.float32(): np.int32, pa.float64(): np.int64}


def can_sort(order: SortOrder, schema: Schema) -> bool:
    """Whether there is something to sort by, and this release can: transforms of the future it cannot."""
    return bool(order.fields) and all(
        len(field.source_ids) == 1
        and not isinstance(field.transform, UnknownTransform)
        and schema.has(field.source_id)
        for field in order.fields
    )


def sort_positions(rows: pa.Table, order: SortOrder, schema: Schema) -> pa.Array:
    """The positions of the rows in the order of the table; equal ones keep theirs."""
    keys: dict[str, pa.Array] = {}
    directions: list[tuple[str, str]] = []
    for field in order.fields:
        values = _sort_values(rows, field, schema)
        if values is None or values.null_count == len(values):
            continue
        direction = "ascending" if field.direction == "asc" else "descending"
        name = str(len(directions))
        if values.null_count:
            # Arrow has one place for the nulls of all keys; the format has one for each key.
            nulls = values.is_null().cast(pa.uint8())
            keys[f"{name}?"] = nulls
            directions.append(
                (f"{name}?", "descending" if field.null_order == "nulls-first" else "ascending")
            )
        keys[name] = values
        directions.append((name, direction))
    if not keys:
        return pa.array(np.arange(rows.num_rows))
    # Arrow's sort is stable.
    if len(directions) == 1:
        ((name, direction),) = directions
        return pc.array_sort_indices(keys[name], order=direction)
    return pc.sort_indices(pa.table(keys), sort_keys=directions)


def _sort_values(rows: pa.Table, field: SortField, schema: Schema) -> pa.Array | None:
    source = schema.field(field.source_id)
    if isinstance(field.transform, Void) or source.type is UNKNOWN:
        return None
    found = plain(apply_to_column(field.transform, source.type, column_of(rows, schema, field.source_id)))
    return _ordered_floats(found) if source.type in FLOATS and found.type in _SIGNED else found


def _ordered_floats(column: pa.Array) -> pa.Array:
    """Floats as whole numbers in the order of the format: -0.0 before 0.0, NaN after all others."""
    kind: Any = _SIGNED[column.type]
    values = column.fill_null(0).to_numpy()
    bits = values.view(kind)
    ordered = np.where(bits < 0, bits ^ np.iinfo(kind).max, bits)
    ordered = np.where(np.isnan(values), np.iinfo(kind).max, ordered)
    return pa.array(ordered, mask=column.is_null().to_numpy(zero_copy_only=False))
