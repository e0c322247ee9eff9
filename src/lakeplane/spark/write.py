"""Rows of Spark become data files at their final place; nothing is published here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeplane.files.places import Places
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.location import Location, parse_location
from lakeplane.spark.align import align_frame, row_refused
from lakeplane.spark.arrange import arrange, distribution_mode
from lakeplane.spark.harvest import describe_parquet, read_tails, written_files
from lakeplane.spark.parquet_options import SESSION, parquet_options
from lakeplane.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_frame(
    df: DataFrame, target: WriteTarget, store: Store, *, distribution: str | None = None
) -> list[NewFiles]:
    """Write the rows of a frame as data files of a table.

    Args:
        df: The rows, with columns of any order; see ``align_frame``.
        target: What is written, and how.
        store: Where the files are; what it shows must be what Spark has written.
        distribution: Another ``write.distribution-mode`` than the table's.

    Raises:
        InvalidInput: the rows do not fit the table. Files may be left behind that nobody knows.
    """
    mode = distribution_mode(target, distribution)
    arranged = arrange(align_frame(df, target.schema), target, mode)
    directory = run_directory(target)
    writer = arranged.df.write.format("parquet").mode("append").options(**parquet_options(target))
    if arranged.partition is not None:
        writer = writer.partitionBy(arranged.partition)
    try:
        with settings(df.sparkSession, SESSION):
            writer.save(directory.text)
    except Exception as failure:
        if (refused := row_refused(failure)) is not None:
            raise refused from None
        raise
    files = written_files(store, directory)
    tails = read_tails(store, files)
    return describe_parquet(
        store, files, tails, target, partition=arranged.partition, order_id=arranged.order_id
    )


def run_directory(target: WriteTarget) -> Location:
    """The directory of one write, which no other write has."""
    return parse_location(Places(target).place(target.run_id))


@contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have some settings for a while; those that it has already are not touched."""
    before: dict[str, str | None] = {}
    try:
        for name, value in wanted.items():
            found = session.conf.get(name, None)
            if found is None or found.lower() != value.lower():
                before[name] = found
                session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
