"""Rows of one key become one row: what the merge engines of Paimon do, as Spark's own SQL.

Rows are numbered within their key, by the fields of the table's sequence and then by the number that their
writer gave them. With these numbers, every engine is an aggregation by key, or picks the last row.

A key that has one row only is that row, whatever the engine is: so it is with Paimon's own readers, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s
from pyspark.sql.window import Window

from lakeplane.errors import NotSupported
from lakeplane.model.types import Field
from lakeplane.paimon.options import TableOptions
from lakeplane.paimon.schema import TableSchema
from lakeplane.spark.aggregations import Rule, commutes, fold, rule_of
from lakeplane.spark.scan_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SECTION: Final = "__lakeplane_section"
"""The number of the files that are merged with each other."""
KIND: Final = "__lakeplane_kind"
"""What a row is: inserted (0), taken back (1), put in its place (2), or deleted (3)."""
SEQUENCE: Final = "__lakeplane_number"
"""The number that a writer gave a row."""

_ORDER: Final = "__lakeplane_order"
_LAST_DELETE: Final = "__lakeplane_last_delete"
_ROWS: Final = "__lakeplane_rows"
_RETRACTS: Final = "__lakeplane_retracts"
_KEEPS: Final = (0, 2)
_DELETE: Final = 3


class Merging(NamedTuple):
    """How the rows of a table are merged."""

    schema: TableSchema

    @property
    def options(self) -> TableOptions:
        """What the table says about it."""
        return self.schema.settings

    @property
    def keys(self) -> tuple[str, ...]:
        """What rows of a section share if they are one."""
        return self.schema.trimmed_primary_keys


def check_merging(schema: TableSchema, fields: Sequence[Field]) -> None:
    """Refuse what this release would merge in another way than Paimon does, by the name of the option."""
    options = schema.settings
    if options.merge_engine == "aggregation":
        for each in fields:
            _rule(schema, each.name)
    elif options.merge_engine == "partial-update":
        _check_partial(schema, fields)


def _check_partial(schema: TableSchema, fields: Sequence[Field]) -> None:
    options = schema.settings
    if options.remove_record_on_sequence_group:
        key = "partial-update.remove-record-on-sequence-group"
        raise _refused(key, ",".join(options.remove_record_on_sequence_group))
    if options.remove_record_on_delete and options.sequence_groups:
        raise _refused("partial-update.remove-record-on-delete", "true beside sequence groups")
    groups = _groups_of(options)
    for each in fields:
        name = _partial_function(schema, each.name, groups)
        if name is None:
            continue
        inside = each.name in groups
        if inside and not commutes(name):
            raise _refused(f"fields.{each.name}.aggregate-function", f"{name} in a sequence group")
        if not inside and name != "last_non_null_value":
            raise _refused(f"fields.{each.name}.aggregate-function", f"{name} outside of sequence groups")
        _rule_named(schema, each.name, name)


def _refused(key: str, value: str) -> NotSupported:
    hint = "Read the table with Paimon's own readers, or leave the column out"
    return NotSupported(f"{key} = {value}", field=f"options.{key}", hint=hint)


def needed_for_merging(schema: TableSchema) -> list[str]:
    """The columns that must be read to merge rows, whatever is asked for."""
    options = schema.settings
    names = [*schema.trimmed_primary_keys, *options.sequence_fields]
    for sequence in options.sequence_groups:
        names += sequence
    return [name for name in dict.fromkeys(names) if name not in schema.partition_keys]


def merged(frame: DataFrame, schema: TableSchema, fields: Sequence[Field]) -> DataFrame:
    """Merge rows by section and key; what is left has the section and the columns that are given.

    The frame has these columns in today's types, and ``SECTION``, ``KIND`` and ``SEQUENCE``.
    """
    merging = Merging(schema)
    match schema.settings.merge_engine:
        case "partial-update":
            found = _partially_updated(frame, merging, fields)
        case "aggregation":
            found = _aggregated(frame, merging, fields)
        case _:
            found = _last_ones(frame, merging)
    return found.select(F.col(SECTION), *[F.col(quoted(each.name)) for each in fields])


def is_kept(kind: Column) -> Column:
    """Whether a row adds something, and does not take it away."""
    return kind.isin(*_KEEPS)


def _order(merging: Merging, *, last_first: bool) -> list[Column]:
    """Rows of a key one after the other. Null is before all else, in which order others may be."""
    columns = []
    ascending = merging.options.sequence_order == "ascending"
    for name in merging.options.sequence_fields:
        column = F.col(quoted(name))
        if last_first:
            columns.append(column.desc_nulls_last() if ascending else column.asc_nulls_last())
        else:
            columns.append(column.asc_nulls_first() if ascending else column.desc_nulls_first())
    number = F.col(SEQUENCE)
    return [*columns, number.desc() if last_first else number.asc()]


def _key_columns(merging: Merging) -> list[Column]:
    return [F.col(SECTION), *[F.col(quoted(name)) for name in merging.keys]]


def _last_ones(frame: DataFrame, merging: Merging) -> DataFrame:
    if merging.options.ignore_delete:
        frame = frame.where(is_kept(F.col(KIND)))
    window = Window.partitionBy(*_key_columns(merging)).orderBy(*_order(merging, last_first=True))
    last = frame.withColumn(_ORDER, F.row_number().over(window)).where(F.col(_ORDER) == 1)
    return last.where(is_kept(F.col(KIND)))


def _numbered(frame: DataFrame, merging: Merging) -> DataFrame:
    """Rows with their place among those of their key; what comes before a delete that removes is gone."""
    options = merging.options
    if options.ignore_delete:
        frame = frame.where(is_kept(F.col(KIND)))
    keys = Window.partitionBy(*_key_columns(merging))
    order = F.row_number().over(keys.orderBy(*_order(merging, last_first=False)))
    frame = frame.withColumn(_ORDER, order)
    if not options.remove_record_on_delete:
        return frame
    deleted = F.max(F.when(F.col(KIND) == _DELETE, F.col(_ORDER))).over(keys)
    frame = frame.withColumn(_LAST_DELETE, deleted)
    return frame.where(F.col(_LAST_DELETE).isNull() | (F.col(_ORDER) > F.col(_LAST_DELETE)))


def _by_key(frame: DataFrame, merging: Merging, values: Sequence[Column]) -> DataFrame:
    facts = (
        F.count(F.lit(1)).alias(_ROWS),
        F.count(F.when(~is_kept(F.col(KIND)), 1)).alias(_RETRACTS),
    )
    keys = [F.col(SECTION), *[F.col(quoted(name)) for name in merging.keys]]
    return frame.groupBy(*keys).agg(*facts, *values)


def _values(merging: Merging, fields: Sequence[Field]) -> list[Field]:
    return [each for each in fields if each.name not in merging.keys]


# Partial updates.


def _groups_of(options: TableOptions) -> dict[str, tuple[str, ...]]:
    """For each field that a sequence protects, or is part of, the fields of this sequence."""
    groups: dict[str, tuple[str, ...]] = {}
    for sequence, protected in options.sequence_groups.items():
        groups |= dict.fromkeys((*protected, *sequence), sequence)
    return groups


def _partial_function(schema: TableSchema, name: str, groups: dict[str, tuple[str, ...]]) -> str | None:
    options = schema.settings
    if name in schema.primary_keys or name in groups.get(name, ()) or name in options.sequence_fields:
        return None
    return options.of_field(name).aggregate_function or options.default_aggregation


def _partially_updated(frame: DataFrame, merging: Merging, fields: Sequence[Field]) -> DataFrame:
    options = merging.options
    groups = _groups_of(options)
    values = [_partial(each, merging, groups).alias(each.name) for each in _values(merging, fields)]
    found = _by_key(_numbered(frame, merging), merging, values)
    adds = F.col(_ROWS) > F.col(_RETRACTS)
    unable = _unable(merging, fields, groups)
    if unable and not options.ignore_delete:
        problem = f"rows were taken back, which cannot be done to {', '.join(unable)}"
        return found.where(_or_fail(adds, (F.col(_RETRACTS) > 0) & (F.col(_ROWS) > 1), problem))
    if groups or options.ignore_delete or options.remove_record_on_delete:
        return found.where(adds)
    problem = (
        "rows of a partial-update table were deleted, and it says neither ignore-delete, nor "
        "partial-update.remove-record-on-delete, nor has it sequence groups"
    )
    return found.where(_or_fail(adds, (F.col(_RETRACTS) > 0) & (F.col(_ROWS) > 1), problem))


def _unable(merging: Merging, fields: Sequence[Field], groups: dict[str, tuple[str, ...]]) -> list[str]:
    """The aggregated columns of which no value can be taken back."""
    found = []
    for each in fields:
        function = _partial_function(merging.schema, each.name, groups)
        if function is None or each.name not in groups:
            continue
        rule = _rule_named(merging.schema, each.name, function)
        if not rule.retracts and not rule.ignores_retracts:
            found.append(f"{function} of {each.name}")
    return found


def _or_fail(keeps: Column, is_wrong: Column, problem: str) -> Column:
    return F.when(is_wrong, F.raise_error(F.lit(problem)).cast(s.BooleanType())).otherwise(keeps)


def _partial(field: Field, merging: Merging, groups: dict[str, tuple[str, ...]]) -> Column:
    column, adds = F.col(quoted(field.name)), is_kept(F.col(KIND))
    sequence = groups.get(field.name)
    if sequence is None:
        return F.max_by(column, F.when(adds & column.isNotNull(), F.col(_ORDER)))
    parts = [F.col(quoted(name)) for name in sequence]
    any_there = parts[0].isNotNull()
    for part in parts[1:]:
        any_there = any_there | part.isNotNull()
    names = [F.col(quoted(name)).alias(f"p{place}") for place, name in enumerate(sequence)]
    place = F.when(any_there, F.struct(*names, F.col(_ORDER)))
    function = _partial_function(merging.schema, field.name, groups)
    if function is not None:
        rule = _rule_named(merging.schema, field.name, function)
        found = fold(rule, column, adds, F.when(any_there, F.col(_ORDER)))
    else:
        # What is taken back is null, but for the sequence, which goes on.
        value = column if field.name in sequence else F.when(adds, column)
        found = F.max_by(value, place)
    alone = F.max_by(column, F.col(_ORDER))
    return F.when(F.count(F.lit(1)) == 1, alone).otherwise(found)


# Aggregations.


def _rule(schema: TableSchema, name: str) -> Rule | None:
    """How the values of a field are aggregated; None for those of keys."""
    options = schema.settings
    if name in schema.primary_keys:
        return None
    if name in options.sequence_fields:
        return _rule_named(schema, name, "last_value")
    function = options.of_field(name).aggregate_function or options.default_aggregation
    return _rule_named(schema, name, function or "last_non_null_value")


def _rule_named(schema: TableSchema, name: str, function: str) -> Rule:
    field = schema.field(name)
    return rule_of(function, schema.model.field(field.id), schema.settings.of_field(name))


def _aggregated(frame: DataFrame, merging: Merging, fields: Sequence[Field]) -> DataFrame:
    values, unable = [], []
    adds, order = is_kept(F.col(KIND)), F.col(_ORDER)
    for each in _values(merging, fields):
        rule = _rule(merging.schema, each.name)
        if rule is None:
            values.append(F.max_by(F.col(quoted(each.name)), order).alias(each.name))
            continue
        values.append(fold(rule, F.col(quoted(each.name)), adds, order).alias(each.name))
        if not rule.retracts and not rule.ignores_retracts:
            unable.append(f"{rule.function} of {each.name}")
    found = _by_key(_numbered(frame, merging), merging, values)
    alone = (F.col(_ROWS) == 1) & (F.col(_RETRACTS) == 1)
    if not unable:
        return found.where(~alone)
    problem = f"rows were taken back, which cannot be done to {', '.join(unable)}"
    return found.where(_or_fail(~alone, (F.col(_RETRACTS) > 0) & (F.col(_ROWS) > 1), problem))
