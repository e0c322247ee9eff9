"""What DELETE, UPDATE and MERGE come to: the places of the rows that go, and the rows that come."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.model.schema import Schema
from lakeplane.spark.align import align_frame, row_refused
from lakeplane.spark.assignments import ACTION, assigned, columns_of, with_values
from lakeplane.spark.held import held
from lakeplane.spark.merge import SOURCE_ROW, Merging, Source, met_rows, unmet_rows
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION
from lakeplane.spark.row_positions import positions_of
from lakeplane.spark.session import is_case_sensitive
from lakeplane.spark.wire import stored_fields

if TYPE_CHECKING:
    from pyroaring import BitMap64

_UPDATED: Final = "t"
_PLACES: Final = (FILE_NUMBER, ROW_POSITION)


class Found(NamedTuple):
    """What a statement does."""

    positions: Mapping[int, BitMap64]
    """Where the rows are that go, by the rows of the plan they were read with."""
    rows: DataFrame | None = None
    """The rows that come, by the names of the table's columns."""


def find_deleted(rows: DataFrame) -> Found:
    """DELETE: rows go. They come with their places."""
    return Found(positions_of(rows))


@contextmanager
def find_updated(
    rows: DataFrame, schema: Schema, values: Mapping[str, Any], where: str | None, carried: Sequence[str]
) -> Iterator[Found]:
    """UPDATE: rows go, and come again with other values, and with the columns ``carried`` as they were.

    They are those for which ``where`` holds.
    """
    cased = is_case_sensitive(rows.sparkSession)
    changes = assigned(schema, values, _UPDATED, case_sensitive=cased)
    acting = rows.alias(_UPDATED).withColumn(ACTION, F.lit(1))
    changed = with_values(acting, schema, {1: changes}, columns_of(_UPDATED, [*_PLACES, *carried]))
    with held(changed, [where, *values.values()]) as kept, _naming_refused_rows():
        yield Found(positions_of(kept), kept.drop(*_PLACES, ACTION))


@contextmanager
def find_merged(
    target: DataFrame, source: Source, merging: Merging, schema: Schema, carried: Sequence[str]
) -> Iterator[Found]:
    """MERGE: rows of the table go or come again, and rows of the source come."""
    met_once = held(met_rows(target, source, merging, schema, carried), merging.said)
    with met_once as met, _naming_refused_rows():
        acted = F.col(ACTION) > 0
        positions = positions_of(met, acted, once=not merging.may_meet_twice)
        parts = []
        if positions and (updating := merging.doing("update")):
            parts.append(met.where(F.col(ACTION).isin(updating)).drop(*_PLACES, SOURCE_ROW, ACTION))
        if (new := unmet_rows(source, met, merging, schema)) is not None:
            parts.append(new)
        yield Found(positions, _together(parts))


@contextmanager
def _naming_refused_rows() -> Iterator[None]:
    """Let errors for values that cannot be stored name the column, wherever Spark met them."""
    try:
        yield
    except Exception as failure:
        if (refused := row_refused(failure)) is not None:
            raise refused from None
        raise


def remaining(survivors: DataFrame, rows: DataFrame | None, schema: Schema) -> DataFrame:
    """The rows that stay, and those that come, in the form in which they are written."""
    parts = [align_frame(each, schema) for each in (survivors, rows) if each is not None]
    # On their way, columns have names of their own where two differ in case only.
    return functools.reduce(DataFrame.unionAll, parts).toDF(
        *(each.name for each in stored_fields(schema.fields))
    )


def _together(parts: Sequence[DataFrame]) -> DataFrame | None:
    if not parts:
        return None
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
