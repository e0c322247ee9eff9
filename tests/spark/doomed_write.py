"""A program that never ends well: it appends to a table, and is killed when most of its tasks have ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import SparkSession

import lakeplane as lp

if TYPE_CHECKING:
    import pyarrow as pa


def main(lake: str, name: str, columns: str, mark: str) -> None:
    """Append; the last task touches a file when the others are done, and then waits for the end."""

    def last_waits(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 3:
            Path(mark).touch()
            time.sleep(600)

    settings = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master("local[1]")
    for setting, text in settings.items():
        builder = builder.config(setting, text)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    rows = session.range(1000, 2000, 1, 4).mapInArrow(last_waits, "id BIGINT")
    table = lp.connect(lake, spark=session).table(name)
    table.append(rows.selectExpr("id", *filter(None, columns.split(";"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
