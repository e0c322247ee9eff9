"""Rows on their way to files: brought to the tasks that shall write them, and sorted there.

``write.distribution-mode`` says how, as in Iceberg's own Spark: ``none`` leaves rows where they are, ``hash``
brings the rows of a partition together, ``range`` sorts all rows roughly, by partition and sort order.
Without it, sorted tables take ``range``, other partitioned ones ``hash``, and all the others ``none``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.order import can_sort
from lakeplane.files.target import WriteTarget
from lakeplane.files.write_settings import whole_number
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity, Transform, Void, result_type
from lakeplane.model.types import FLOATS, TIME, UNKNOWN, Field, Type
from lakeplane.spark.partition_names import name_sql, short_sql
from lakeplane.spark.session import is_connect
from lakeplane.spark.transforms import Derived, clock_sql, quoted, unused_name, with_transforms
from lakeplane.spark.wire import stored_fields, wire_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Mode: TypeAlias = Literal["none", "hash", "range"]

DISTRIBUTION: Final = "write.distribution-mode"
ADVISORY: Final = "write.spark.advisory-partition-size-bytes"
MODES: Final[tuple[Mode, ...]] = get_args(Mode)


class Arranged(NamedTuple):
    """Rows as they shall be written."""

    df: DataFrame
    partition: str | None
    """The column with the names of partitions, the last one; None where there is only one."""
    order_id: int
    """The sort order that the rows of each file have."""


def distribution_mode(target: WriteTarget, given: str | None = None) -> Mode:
    """How rows are brought to tasks; ``given`` is for one write only."""
    text = given or target.properties.get(DISTRIBUTION)
    if text is None:
        sorts = can_sort(target.sort_order, target.schema)
        return "range" if sorts else "none" if target.spec.is_unpartitioned else "hash"
    found = next((each for each in MODES if each == text.strip().lower()), None)
    if found is None:
        raise InvalidInput(
            f"{text!r:.80} is no distribution mode", field=DISTRIBUTION, hint=f"One of {MODES}"
        )
    return found


_ADVISORY: Final = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_SHUFFLED: Final = 2
"""How many bytes of a shuffle become one of a file, about."""
_SIZE: Final = re.compile(r"(\d+)\s*([bkmgtp]?)b?", re.IGNORECASE)


def shuffle_session(df: DataFrame, target: WriteTarget, mode: Mode) -> dict[str, str]:
    """The setting of a session that says how much is brought together in a task.

    It is what makes files of the size that the table asks for. As Spark has one for the whole query, it stays
    as it is if other shuffles come before that of the write, and where nobody can tell.
    """
    if ADVISORY in target.properties:
        return {_ADVISORY: str(whole_number(target.properties, ADVISORY, 0))}
    if mode == "none" or _may_shuffle(df):
        return {}
    wanted = _SHUFFLED * target.target_bytes
    own = _SIZE.fullmatch(str(df.sparkSession.conf.get(_ADVISORY)))
    if own is not None and int(own[1]) << 10 * "bkmgtp".find(own[2].lower() or "b") >= wanted:
        return {}
    return {_ADVISORY: str(wanted)}


def _may_shuffle(df: DataFrame) -> bool:
    if is_connect(df.sparkSession):
        return True
    inner: Any = df
    return "Exchange" in inner._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - told nowhere else


def arrange(df: DataFrame, target: WriteTarget, mode: Mode) -> Arranged:
    """Bring aligned rows (see ``align_frame``) to the tasks that shall write them, and sort them there."""
    columns = df.columns
    reserved = unused_name("p", columns)
    df, partition = _with_partition(df, target, reserved)
    sorts = can_sort(target.sort_order, target.schema)
    keys: list[Column] = []
    if sorts:
        df, keys = _with_keys(df, target, f"{reserved}_key")
    own = [df[partition]] if partition else []
    if mode == "range" and (own or keys):
        df = df.repartitionByRange(*own, *keys)
    elif mode == "hash" and partition:
        df = df.hint("rebalance", partition)
    if keys:
        df = df.sortWithinPartitions(*own, *keys)
    kept = [*columns, *([partition] if partition else [])]
    if df.columns != kept:
        df = df.select(*(df[quoted(name)] for name in kept))
    return Arranged(df, partition, target.sort_order.order_id if sorts else 0)


def partition_types(target: WriteTarget) -> list[Type]:
    """The types of the partition values."""
    types: list[Type] = []
    for field in target.spec.fields:
        source = target.schema.get(field.source_id)
        if source is None and not isinstance(field.transform, Void):
            raise NotSupported(f"the source of the partition field {field} is gone: it cannot be written")
        types.append(UNKNOWN if source is None else result_type(field.transform, source.type))
    return types


def _with_partition(df: DataFrame, target: WriteTarget, name: str) -> tuple[DataFrame, str | None]:
    if target.spec.is_unpartitioned:
        return df, None
    columns = [quoted(each) for each in df.columns]
    wanted: list[Derived] = []
    values: list[tuple[str, Type, str]] = []
    for place, (field, type_) in enumerate(zip(target.spec.fields, partition_types(target), strict=True)):
        if isinstance(field.transform, Void):
            values.append(("NULL", UNKNOWN, field.name))
            continue
        own = f"{name}_{place}"
        wanted.append(_derived(own, field.transform, target.schema, field.source_id, df.columns))
        values.append((own, type_, field.name))
    df = with_transforms(df, wanted)
    full = f"{name}_name"
    df = df.selectExpr(*columns, f"{name_sql(values)} AS {full}")
    return df.selectExpr(*columns, f"{short_sql(full)} AS {name}"), name


def _with_keys(df: DataFrame, target: WriteTarget, name: str) -> tuple[DataFrame, list[Column]]:
    wanted: list[Derived] = []
    plan: list[tuple[str, bool, bool]] = []
    zeros: list[str] = []
    for place, field in enumerate(target.sort_order.fields):
        source = target.schema.field(field.source_id)
        if isinstance(field.transform, Void) or source.type is UNKNOWN:
            continue
        own = f"{name}{place}"
        wanted.append(_derived(own, field.transform, target.schema, field.source_id, df.columns))
        ascending, first = field.direction == "asc", field.null_order == "nulls-first"
        plan.append((own, ascending, first))
        if source.type in FLOATS and isinstance(field.transform, Identity):
            # To Spark the two zeros are equal, but in the order of the format the negative one comes first.
            zeros.append(f"{own} <> 0 OR CAST({own} AS STRING) <> '-0.0' AS {own}_zero")
            plan.append((f"{own}_zero", ascending, first))
    df = with_transforms(df, wanted)
    if zeros:
        df = df.selectExpr("*", *zeros)
    return df, [_direction(df[own], ascending=asc, nulls_first=first) for own, asc, first in plan]


def _direction(column: Column, *, ascending: bool, nulls_first: bool) -> Column:
    if ascending:
        return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()
    return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()


def _derived(
    name: str, transform: Transform, schema: Schema, source_id: int, columns: Sequence[str]
) -> Derived:
    sql, type_ = source_sql(schema, source_id, columns)
    return Derived(name, transform, type_, sql)


def source_sql(schema: Schema, field_id: int, columns: Sequence[str]) -> tuple[str, Type]:
    """SQL of a column of an aligned frame, at any depth of structs, and its type."""
    path = [schema.field(field_id)]
    while (parent := schema.parent_of(path[0].id)) is not None:
        path.insert(0, parent)
    stored = stored_fields(schema.fields)
    place = next(place for place, field in enumerate(stored) if field.id == path[0].id)
    names = [columns[place]]
    for around, field in itertools.pairwise(path):
        names.append(_name_within(around, field))
    sql = ".".join(map(quoted, names))
    type_ = path[-1].type
    return (clock_sql(sql) if type_ is TIME else sql), type_


def _name_within(around: Field, field: Field) -> str:
    inner = stored_fields(around.type.fields)  # type: ignore[union-attr]
    return dict(zip((each.id for each in inner), wire_names(inner), strict=True))[field.id]
