"""What manifests tell of the values in files, as what predicates on fields of the table need to know.

Statistics are rows, with a field for each column of the schema that the file was written with, or for those
that the entry names. Here they are looked up by field id, and read as the types that the fields have by now.
Whatever is not understood exactly is unknown: no row of statistics has ever to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.model.expressions.bounds import ColumnStats, StatsOf, constant_stats
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.types import Decimal
from lakeplane.paimon.live_files import codes_of
from lakeplane.paimon.row_columns import RowColumn, arrow_type
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.types import (
    MICRO_DIGITS,
    DataType,
    Kind,
    Simple,
    Sized,
    Time,
    Timestamp,
    is_bytes,
    is_text,
    model_type,
)

Rows = npt.NDArray[np.int64]
SchemaOf = Callable[[int], TableSchema]

_INTEGERS: Final = (Simple.TINYINT, Simple.SMALLINT, Simple.INT, Simple.BIGINT)
_SEPARATOR: Final = "\x00"


class Alike(NamedTuple):
    """Files whose statistics have the same fields."""

    rows: Rows
    schema: TableSchema
    names: tuple[str, ...]


def alike(files: pa.Table, schema_of: SchemaOf) -> Iterator[Alike]:
    """Part files by the fields that their value statistics have."""
    dense = _texts(files["value_stats_cols"])
    written = _texts(files["write_cols"])
    parts = [codes_of(plain(files["schema_id"])), codes_of(dense), codes_of(written)]
    codes = np.zeros(files.num_rows, np.int64)
    for part in parts:
        codes = codes * (int(part.max(initial=0)) + 1) + part
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    for number, first in enumerate(firsts.tolist()):
        schema = schema_of(files["schema_id"][first].as_py())
        names = files["value_stats_cols"][first].as_py()
        if names is None:
            names = files["write_cols"][first].as_py()
        if names is None:
            names = [each.name for each in schema.fields]
        yield Alike(np.flatnonzero(groups == number), schema, tuple(names))


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Lists of names as texts that are equal if the lists are; an empty list is not null."""
    array = plain(column)
    text = pc.binary_join(array, _SEPARATOR)
    return pc.binary_join_element_wise(pc.cast(pc.list_value_length(array), pa.string()), text, ":")


def value_stats(files: pa.Table, group: Alike, schema: TableSchema) -> StatsOf:
    """What is known of the columns of files that are alike, by the ids and types of a schema."""
    types = [group.schema.field(name).type if group.schema.has(name) else None for name in group.names]
    known = [each if each is not None else DataType(Simple.VARIANT) for each in types]
    lower, upper = (RowColumn(files[f"value_{which}"], known) for which in ("min", "max"))
    nulls = plain(files["value_nulls"])
    rows = plain(files["row_count"])

    def stats_of(field_id: int) -> ColumnStats | None:
        field = schema.by_id.get(field_id)
        if field is None:
            return None
        old = group.schema.by_id.get(field_id)
        if old is None:
            # The column was added later: in these files, it is null.
            return constant_stats(model_type(field.type, field_id), None, len(rows))
        if old.name not in group.names:
            return None
        if not widens(old.type.kind, field.type.kind):
            # A cast may turn null into a value or a value into null, as texts that are no numbers do.
            return None
        position = group.names.index(old.name)
        counts = _counts(nulls, position, len(known))
        return ColumnStats(lower.column(position), upper.column(position), rows, counts)

    return stats_of


def _counts(nulls: pa.Array, position: int, fields: int) -> pa.Array:
    """The number of nulls in a column of each file; null where it is not told."""
    lengths = pc.list_value_length(nulls).fill_null(-1).to_numpy(zero_copy_only=False)
    starts = nulls.offsets.to_numpy()[:-1].astype(np.int64)
    places = pa.array(starts + position, pa.int64(), mask=lengths != fields)
    found = nulls.values.take(places)
    return pc.if_else(pc.greater_equal(found, 0), found, pa.scalar(None, pa.int64()))


def key_stats(files: pa.Table, schema_of: SchemaOf, schema: TableSchema) -> StatsOf:
    """What is known of the primary key of files: of its statistics, or of the first and the last key."""
    names = schema.trimmed_primary_keys
    ids = {schema.field(name).id: position for position, name in enumerate(names)}
    alike_types = same_keys(files, schema_of, schema)
    types = schema.types_of(names)
    told = [RowColumn(files[name], types) for name in ("key_min", "key_max", "min_key", "max_key")]
    nulls = plain(files["key_nulls"])
    rows = plain(files["row_count"])

    def stats_of(field_id: int) -> ColumnStats | None:
        position = ids.get(field_id)
        if position is None or not alike_types:
            return None
        fixed = pa.array(_prefix_is_one(told[2], told[3], position))
        lower, upper = (
            _either(of_stats.column(position), of_keys.column(position), fixed)
            for of_stats, of_keys in ((told[0], told[2]), (told[1], told[3]))
        )
        return ColumnStats(lower, upper, rows, _counts(nulls, position, len(types)))

    return stats_of


def _either(of_stats: pa.Array | None, of_keys: pa.Array | None, fixed: pa.Array) -> pa.Array | None:
    if of_stats is None or of_keys is None:
        return None
    return pc.coalesce(of_stats, pc.if_else(fixed, of_keys, pa.scalar(None, of_keys.type)))


def same_keys(files: pa.Table, schema_of: SchemaOf, schema: TableSchema) -> bool:
    """Whether all files have the key that the table has now: a cast one has other bytes and another order."""
    now = [(schema.field(name).id, schema.field(name).type.kind) for name in schema.trimmed_primary_keys]
    for schema_id in pc.unique(files["schema_id"]).to_pylist():
        old = schema_of(schema_id)
        if [(old.field(n).id, old.field(n).type.kind) for n in old.trimmed_primary_keys] != now:
            return False
    return True


def _prefix_is_one(first: RowColumn, last: RowColumn, position: int) -> Mask:
    """Where the fields before one are the same in the first and the last key, so that it is in order, too."""
    same = np.ones(first.count, np.bool_)
    for before in range(position):
        same &= to_mask(pc.equal(first.column(before), last.column(before)))
    return same


def partition_stats(listed: pa.Table, schema: TableSchema) -> StatsOf:
    """What a manifest list tells of the partitions in each manifest, by the ids of partition keys."""
    types = schema.types_of(schema.partition_keys)
    ids = {schema.field(name).id: position for position, name in enumerate(schema.partition_keys)}
    lower, upper = (RowColumn(listed[f"partition_{which}"], types) for which in ("min", "max"))
    nulls = plain(listed["partition_nulls"])
    counts = plain(pc.add(listed["num_added_files"], listed["num_deleted_files"]))

    def stats_of(field_id: int) -> ColumnStats | None:
        position = ids.get(field_id)
        if position is None:
            return None
        return ColumnStats(
            lower.column(position), upper.column(position), counts, _counts(nulls, position, len(types))
        )

    return stats_of


def widens(old: Kind, new: Kind) -> bool:
    """Whether a cast keeps each value, and the order of values, so that old bounds are still bounds."""
    if old == new:
        return True
    match old, new:
        case (Simple(), Simple()) if old in _INTEGERS and new in _INTEGERS:
            return _INTEGERS.index(old) < _INTEGERS.index(new)
        case Simple.FLOAT, Simple.DOUBLE:
            return True
        case Decimal(), Decimal():
            return old.scale == new.scale and old.precision <= new.precision
        case Time(), Time():
            return True
        case Timestamp(), Timestamp():
            unit = (old.precision > MICRO_DIGITS) == (new.precision > MICRO_DIGITS)
            return unit and old.zoned == new.zoned and old.precision <= new.precision
        case _ if is_text(old) and is_text(new):
            return _room(old) <= _room(new) and not _pads(new)
        case _ if is_bytes(old) and is_bytes(new):
            return _room(old) <= _room(new) and not _pads(new)
        case _:
            return False


def _room(kind: Kind) -> float:
    return kind.length if isinstance(kind, Sized) else float("inf")


def _pads(kind: Kind) -> bool:
    return isinstance(kind, Sized) and kind.kind in ("CHAR", "BINARY")


def readable(
    columns: Sequence[tuple[str, DataType]], rows: pa.Array | pa.ChunkedArray
) -> list[dict[str, Any] | None]:
    """Rows as dictionaries, for people: what cannot be read is None."""
    found = RowColumn(rows, [type_ for _, type_ in columns])
    parts = {
        name: _shown(found.column(position), type_.kind)
        for position, (name, type_) in enumerate(columns)
        if arrow_type(type_.kind) is not None
    }
    return [
        {name: part[row] for name, part in parts.items()} if usable else None
        for row, usable in enumerate(found.usable.tolist())
    ]


def _shown(column: pa.Array | None, kind: Kind) -> list[Any]:
    assert column is not None
    values: list[Any] = column.to_pylist()
    if is_text(kind):
        return [None if each is None else each.decode(errors="replace") for each in values]
    return values
