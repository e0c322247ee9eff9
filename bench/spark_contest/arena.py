"""What the contestants share: a session, a clock, the rows and the questions."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGGREGATE = {
    "flat": ("sum(amount)", "max(seen)", "count(city)", "sum(k)"),
    "nested": ("sum(place.x)", "sum(size(points))", "count(tags)"),
}
COLUMNS = {
    "flat": (
        "id",
        "cast(id * 7919 % 1000003 as int) k",
        "cast(id * 37 % 99999999 / 100 as decimal(12, 2)) amount",
        "id * 0.37D ratio",
        "concat('name_', id * 7919 % 1000003) name",
        "concat('city_', id % 200) city",
        "timestamp_micros(1700000000000000 + id * 1000003) seen",
        "date_add(date '2023-01-01', cast(id % 700 as int)) day",
    ),
    "nested": (
        "id",
        "named_struct('x', id * 0.5D, 'y', named_struct('z', id % 100, 't', concat('t', id % 1000))) place",
        "transform(sequence(1, cast(id % 4 as int) + 1), i -> id * i) points",
        "map(concat('k', id % 7), id, 'all', id % 13) tags",
    ),
}


def session(scratch: str, **more: str) -> SparkSession:
    """A Spark with two cores."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not everybody has it

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": "6g",
        "spark.local.dir": f"{scratch}/local",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{scratch}/spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


def timed(run: Callable[[], object]) -> float:
    """Seconds that something takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def in_turn(rounds: int, **contestants: Callable[[], object]) -> dict[str, float]:
    """The best time of each; they take turns, so that a busy machine is busy for all of them."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            found[name].append(timed(run))
    return {name: min(times) for name, times in found.items()}


def drain(frame: DataFrame) -> None:
    """Read all rows and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def newest(scratch: str, kind: str) -> str:
    """The newest metadata file of a table of lakeplane's."""
    folder = Path(scratch, "warehouse", "bench", kind, "metadata")
    versions = folder.glob("v*.metadata.json")
    return str(max(versions, key=lambda each: int(each.name[1:].partition(".")[0])))


def answer(found: Any) -> None:
    """Give the answer, as the last line."""
    print(json.dumps(found))
