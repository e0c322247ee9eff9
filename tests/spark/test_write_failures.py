"""Tasks that fail, jobs that fail, and very many files: never rows twice, never rows lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import lakeplane as lp
from lakeplane.errors import StoreCannot
from lakeplane.model.types import INT, LONG, STRING, UUID, Field
from lakeplane.spark.write import choose_way, write_frame
from lakeplane.storage.memory import MemoryStore
from tests.spark.programs import answer_of, kill_when_there
from tests.spark.writing import assert_parted, rows_of, spec_of, store_of, target_in, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_rows_of_tasks_that_failed_first_are_there_once(tmp_path: Path) -> None:
    answers: dict[str, dict[str, int]] = answer_of("flaky_write", tmp_path)
    for way, answer in answers.items():
        assert answer["rows"] == answer["distinct"] == 2000, way
        assert answer["sum"] == sum(range(2000)), way
    # What failed attempts of Spark's own writer wrote is gone with them.
    assert answers["native"]["there"] == answers["native"]["told"]
    assert answers["native"]["rows_there"] == 2000


DOOMED = {
    "native": ("id BIGINT", ""),
    "patched": ("id BIGINT, l ARRAY<BIGINT>", "array(id) AS l"),
    "arrow": ("id BIGINT, u UUID", "uuid() AS u"),
}


@pytest.fixture(scope="module")
def in_a_cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return answer_of("cluster_write", tmp_path_factory.mktemp("cluster"), seconds=600)


@pytest.mark.parametrize("way", ["native", "arrow"])
def test_rows_are_there_once_though_workers_and_executors_die(in_a_cluster: Any, way: str) -> None:
    found = in_a_cluster[f"deaths, {way}"]
    assert {"1 struck", "2 struck", "1 again", "2 again"} <= set(found["marks"])
    assert (found["rows"], found["sum"], found["lost"]) == (2000, sum(range(2000)), [])


@pytest.mark.parametrize("way", ["native", "arrow"])
def test_rows_are_there_once_though_tasks_run_twice_at_a_time(in_a_cluster: Any, way: str) -> None:
    found = in_a_cluster[f"copies, {way}"]
    assert "1 again" in found["marks"]
    assert (found["rows"], found["sum"], found["lost"]) == (2000, sum(range(2000)), [])


@pytest.mark.parametrize(("types", "columns"), DOOMED.values(), ids=DOOMED)
def test_a_driver_that_dies_while_it_writes_leaves_orphans_only(
    spark: SparkSession, tmp_path: Path, types: str, columns: str
) -> None:
    lake = lp.connect(tmp_path / "lake", spark=spark)
    lake.create_namespace("n")
    table = lake.create_table("n.t", types)
    more = list(filter(None, columns.split(";")))
    table.append(spark.range(10).selectExpr("id", *more))
    known = set(table.inspect("files")["file_path"].to_pylist())
    kill_when_there(tmp_path / "mark", "doomed_write", tmp_path / "lake", "n.t", columns, tmp_path / "mark")
    there = {str(path) for path in Path(table.location, "data").rglob("*") if path.is_file()}
    assert there > known, "the driver died too early to leave anything"
    assert sorted(row[0] for row in table.refresh().read(["id"]).collect()) == list(range(10))
    table.append(spark.range(10, 20).selectExpr("id", *more))
    assert sorted(row[0] for row in table.read(["id"]).collect()) == list(range(20))
    told = set(table.inspect("all_data_files")["file_path"].to_pylist())
    assert told.isdisjoint(there - known)


@pytest.mark.parametrize("kind", [LONG, UUID])
def test_a_job_that_fails_midway_gives_nothing(spark: SparkSession, tmp_path: Path, kind: Any) -> None:
    def fails(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() >= 50:
                raise RuntimeError("half of it")

    target = target_in(tmp_path, (Field(1, "id", LONG), Field(2, "x", kind)), spec_of((1, "bucket[2]")))
    df = spark.range(0, 100, 1, 2).mapInArrow(fails, "id BIGINT")
    with pytest.raises(PySparkException, match="half of it"):
        write_frame(df, target, store_of(target), distribution="none")
    if choose_way(target) == "native":
        # A task that runs on while its job is given up may leave something, but not among the data.
        left = [path for path in Path(target.location).rglob("*") if path.is_file()]
        assert all("_temporary" in path.parts for path in left)


def test_thousands_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, (Field(1, "k", INT), Field(2, "s", STRING)), spec_of((1, "identity")))
    df = spark.range(0, 3000, 1, 2).selectExpr("CAST(id % 1500 AS INT) AS k", "'x' AS s")
    files = written(df, target)
    told = files.column("partition").combine_chunks().field("1000")
    assert sorted(told.to_pylist()) == list(range(1500))
    assert sum(files.column("record_count").to_pylist()) == 3000
    lower = files.column("lower_bounds").to_pylist()
    values = [int.from_bytes(dict(bounds)[1], "little", signed=True) for bounds in lower]
    assert values == told.to_pylist()
    some = files.take([0, 700, 1499])
    assert_parted(some, target)
    assert rows_of(some).num_rows == 6


def test_rows_of_many_tasks_are_brought_together(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 400, 1, 8)
    spec = spec_of((1, "bucket[2]"))
    scattered = written(
        df, target_in(tmp_path, (Field(1, "id", LONG),), spec, write__distribution_mode="none")
    )
    together = written(df, target_in(tmp_path, (Field(1, "id", LONG),), spec, run_id="run-2"))
    assert scattered.num_rows == 16
    assert together.num_rows == 2


def test_what_workers_cannot_reach_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, (Field(1, "u", UUID),))
    with pytest.raises(StoreCannot, match="no recipe"):
        write_frame(spark.range(1).selectExpr("uuid() AS u"), target, MemoryStore())


def test_spark_connect_writes_all_the_same(tmp_path: Path) -> None:
    answer = answer_of("connect_write", tmp_path)
    refused = answer.pop("refused")
    assert answer == {"native": 60, "patched": 51, "arrow": 60}
    assert refused.startswith("id: it is required, and a value is null")
