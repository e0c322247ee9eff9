"""Footers of very many files, read by workers of Spark: what this process would do one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeplane.files.footers import parquet_metrics
from lakeplane.files.target import WriteTarget
from lakeplane.model.location import parse_location
from lakeplane.spark.harvest import tails_of
from lakeplane.storage.open import open_recipe
from lakeplane.storage.recipe import Recipe
from lakeplane.storage.store import Stat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY: Final = 2000
"""For fewer files, to start workers takes longer than to read the footers here."""

_FILES_PER_TASK: Final = 500
_ANSWER: Final = "part INT, metrics BINARY"

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def metrics_by_tasks(
    session: SparkSession, files: Sequence[Stat], target: WriteTarget, recipe: Recipe
) -> pa.Table:
    """What ``parquet_metrics`` tells of files, in their order; workers must be able to read them."""
    parts = [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]
    asked = pa.table(
        {
            "part": pa.array(range(len(parts)), pa.int32()),
            "paths": [[each.location.text for each in part] for part in parts],
            "sizes": [[each.size for each in part] for part in parts],
        }
    )
    df = session.createDataFrame(asked).repartition(len(parts))
    answers = df.mapInArrow(_task(target, recipe), _ANSWER).toArrow().sort_by("part")
    tables = [pa.ipc.open_stream(raw).read_all() for raw in answers.column("metrics").to_pylist()]
    return pa.concat_tables(tables)


def _task(target: WriteTarget, recipe: Recipe) -> Task:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield _answer(row["part"], metrics_of(row["paths"], row["sizes"], target, recipe))

    return run


def metrics_of(paths: Sequence[str], sizes: Sequence[int], target: WriteTarget, recipe: Recipe) -> pa.Table:
    """What the footers of some files tell."""
    store = open_recipe(recipe)
    files = [Stat(parse_location(path), size, 0, None) for path, size in zip(paths, sizes, strict=True)]
    return parquet_metrics(tails_of(store, files), target.schema, target.metrics_modes, sources=paths)


def _answer(part: int, metrics: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, metrics.schema) as writer:
        writer.write_table(metrics)
    raw = pa.array([sink.getvalue().to_pybytes()], pa.binary())
    return pa.record_batch([pa.array([part], pa.int32()), raw], names=["part", "metrics"])
