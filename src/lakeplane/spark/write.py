"""Rows of Spark become data files at their final place; nothing is published here.

Spark's own Parquet writer is the fastest, and writes most tables as the spec says. It leaves out the ids of
what is in lists and maps: on disks they are put into the footers of the new files, where that costs next to
nothing. Whatever else it cannot do is written by Arrow, in tasks of Spark, see ``arrow_tasks``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyspark.errors import PySparkException

from lakeplane.errors import NotSupported, StoreCannot
from lakeplane.files.places import Places, hides_partitions
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.location import Location, parse_location
from lakeplane.model.types import TIME, walk
from lakeplane.spark.align import align_frame, row_refused
from lakeplane.spark.arrange import Arranged, arrange, distribution_mode, shuffle_session
from lakeplane.spark.arrow_tasks import write_in_tasks
from lakeplane.spark.harvest import describe_parquet, metrics_of_tails, tails_of, written_files
from lakeplane.spark.harvest_tasks import MANY, metrics_by_tasks
from lakeplane.spark.inner_ids import patch_files
from lakeplane.spark.parquet_options import (
    can_write_codec,
    committer_options,
    parquet_options,
    parquet_session,
)
from lakeplane.spark.session import allow_time
from lakeplane.spark.settings import settings
from lakeplane.spark.wire import has_inner_ids, has_stand_ins
from lakeplane.storage.store import Stat, Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Way: TypeAlias = Literal["native", "patched", "arrow"]

_DISK: Final = "file"


def write_frame(
    df: DataFrame,
    target: WriteTarget,
    store: Store,
    *,
    distribution: str | None = None,
    way: Way | None = None,
    schemes: Mapping[str, str] | None = None,
) -> list[NewFiles]:
    """Write the rows of a frame as data files of a table.

    Args:
        df: The rows, with columns of any order; see ``align_frame``.
        target: What is written, and how.
        store: Where the files are; what it shows must be what Spark has written.
        distribution: Another ``write.distribution-mode`` than the table's.
        way: Another way than ``choose_way`` would take, which must be able to write the table.
        schemes: What schemes of locations are called in Spark, as in ``{"s3": "s3a"}``.

    Raises:
        InvalidInput: the rows do not fit the table. Files may be left behind that nobody knows.
    """
    session = df.sparkSession
    if any(field.type is TIME for field in walk(target.schema.fields)) and not allow_time(session):
        raise NotSupported("this Spark has no times of day", hint="Use Spark 4.1 or newer, or leave them out")
    chosen = way or choose_way(target)
    mode = distribution_mode(target, distribution)
    arranged = arrange(align_frame(df, target.schema), target, mode)
    own = {} if chosen == "arrow" else parquet_session(target)
    try:
        with settings(session, {**shuffle_session(df, target, mode), **own}):
            if chosen == "arrow":
                return _write_arrow(arranged, target, store)
            return _write_native(session, arranged, target, store, schemes or {})
    except Exception as failure:
        if (refused := row_refused(failure)) is not None:
            raise refused from None
        raise


def choose_way(target: WriteTarget) -> Way:
    """The fastest way that writes a table as the spec says."""
    fields = target.schema.fields
    if target.file_format != "parquet" or has_stand_ins(fields) or not can_write_codec(target):
        return "arrow"
    if hides_partitions(target.properties) and not target.spec.is_unpartitioned:
        # Spark's own writer names the directories of partitions.
        return "arrow"
    if not has_inner_ids(fields):
        return "native"
    return "patched" if run_directory(target).scheme == _DISK else "arrow"


def run_directory(target: WriteTarget) -> Location:
    """The directory of one write, which no other write has."""
    return parse_location(Places(target).place(target.run_id))


def _write_native(
    session: SparkSession, arranged: Arranged, target: WriteTarget, store: Store, schemes: Mapping[str, str]
) -> list[NewFiles]:
    directory = run_directory(target)
    options = {**parquet_options(target), **committer_options(directory)}
    writer = arranged.df.write.format("parquet").mode("append").options(**options)
    if arranged.partition is not None:
        writer = writer.partitionBy(arranged.partition)
    writer.save(_in_spark(directory, schemes))
    files = written_files(store, directory)
    told = None
    if len(files) > MANY and not has_inner_ids(target.schema.fields):
        told = _metrics_by_tasks(session, files, target, store)
    if told is None:
        tails = tails_of(store, files)
        if has_inner_ids(target.schema.fields):
            files, tails = patch_files(files, tails, target.schema)
        told = metrics_of_tails(files, tails, target)
    return describe_parquet(
        store, files, told, target, partition=arranged.partition, order_id=arranged.order_id
    )


def _metrics_by_tasks(
    session: SparkSession, files: list[Stat], target: WriteTarget, store: Store
) -> pa.Table | None:
    """What footers tell, if Spark's workers can read them; they may lack lakeplane, or credentials."""
    try:
        return metrics_by_tasks(session, files, target, store.recipe())
    except (PySparkException, StoreCannot):
        return None


def _in_spark(directory: Location, schemes: Mapping[str, str]) -> str:
    """The text of a place as Hadoop takes it: not encoded, whatever is in it."""
    scheme, colon, rest = directory.text.partition("://")
    return f"{schemes.get(scheme.lower(), scheme)}{colon}{rest}" if colon else directory.text


def _write_arrow(arranged: Arranged, target: WriteTarget, store: Store) -> list[NewFiles]:
    rows = arranged.df if arranged.partition is None else arranged.df.drop(arranged.partition)
    return write_in_tasks(rows, target, store.recipe())
