"""A program: write a table with tasks that fail at first, and print what was told and what lies there.

Whether tasks are tried again is decided when a session starts, so that this needs a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakeplane.model.types import LONG, UUID, Field
from lakeplane.spark.write import write_frame
from tests.spark.programs import answer
from tests.spark.writing import rows_of, spec_of, store_of, target_in

if TYPE_CHECKING:
    import pyarrow as pa


def fails_at_first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the rows, and then fail, unless it is another attempt: what was written by then must not count."""
    context = TaskContext.get()
    assert context is not None
    yield from batches
    if context.attemptNumber() == 0 and context.partitionId() % 2 == 0:
        raise RuntimeError("this attempt fails")


def main(folder: str) -> None:
    """Write in both ways, with every second task failing once after it has given all of its rows."""
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    answers = {way: written_in(session, Path(folder) / way, way) for way in ("native", "arrow")}
    session.stop()
    answer(answers)


def written_in(session: SparkSession, folder: Path, way: str) -> dict[str, int]:
    """Write in one way, and count what is told and what is there."""
    fields = (Field(1, "id", LONG), *((Field(2, "u", UUID),) if way == "arrow" else ()))
    target = target_in(folder, fields, spec_of((1, "bucket[3]")))
    # Without a shuffle in between, the failing tasks are those that write.
    df = session.range(0, 2000, 1, 5).mapInArrow(fails_at_first, "id BIGINT")
    made = write_frame(df, target, store_of(target), distribution="none")
    rows = rows_of(made[0].files).column("id").to_pylist()
    there = [path for path in Path(target.location).rglob("*.parquet") if path.is_file()]
    return {
        "rows": len(rows),
        "distinct": len(set(rows)),
        "sum": sum(rows),
        "told": made[0].files.num_rows,
        "there": len(there),
        "rows_there": sum(pq.ParquetFile(path).metadata.num_rows for path in there),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
