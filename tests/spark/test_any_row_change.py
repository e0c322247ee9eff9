"""Random histories of DELETE, UPDATE, MERGE and all around them: rows are those of a model in plain Python.

``LAKEPLANE_HISTORIES=200`` tries so many of them. A failure tells the seed of its history, and what was done.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pyarrow as pa

import lakeplane as lp
from tests.interop.peers import ask
from tests.spark.row_histories import History

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

STEPS = 9
HISTORIES = int(os.environ.get("LAKEPLANE_HISTORIES", "3"))


def test_rows_of_any_history_are_those_of_the_model(
    request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession
) -> None:
    first = int(request.config.option.hypothesis_seed) % 10**9
    lake = lp.connect(str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("shop")
    histories = [History(spark, lake, seed) for seed in range(first, first + HISTORIES)]
    for history in histories:
        history.append()
        for _ in range(STEPS):
            history.step()
            history.check()
    check_outside(histories)


def check_outside(histories: list[History]) -> None:
    """What other readers find."""
    asked = [(each, reader) for each in histories for reader in readers(each)]
    question = [[reader, each.table.metadata_location] for each, reader in asked]
    for (history, reader), answer in zip(asked, ask("table_rows", question), strict=True):
        found = pa.ipc.open_stream(base64.b64decode(answer)).read_all()
        assert history.found_in(found) == history.expected(), f"{reader}\n{history.story}"


def readers(history: History) -> list[str]:
    """Who can read the table: PyIceberg reads no vectors yet, DuckDB Parquet only."""
    found = ["duckdb"] if history.format == "parquet" else []
    return [*found, "pyiceberg"] if history.version == 2 and history.format != "avro" else found
