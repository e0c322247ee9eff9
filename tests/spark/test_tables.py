"""Tables through the front door: rows are written, evolved, travelled to and read, by us and by others."""

from __future__ import annotations

import base64
import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeplane as lp
from lakeplane.iceberg.changes import Append
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.writing import given_rows
from tests.interop.peers import ask
from tests.spark.made import physical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = """id BIGINT NOT NULL, at TIMESTAMP, amount DECIMAL(10,2), region STRING, tags ARRAY<STRING>,
    place STRUCT<x: DOUBLE, y: INT>"""
READERS = {1: ("pyiceberg",), 2: ("pyiceberg", "duckdb", "polars"), 3: ("duckdb",)}
"""Who is asked about tables of each version."""


def rows(start: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=5 * number),
            "amount": Decimal(number) / 4,
            "region": None if number % 7 == 0 else f"region {number % 3}",
            "tags": [f"t{each}" for each in range(number % 3)],
            "place": None if number % 5 == 0 else {"x": number / 2, "y": number},
        }
        for number in range(start, end)
    ]


ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(10, 2)),
        ("region", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.int32())])),
    ]
)


def as_arrow(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(found, ARROW)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> lp.Lake:
    made = lp.connect(tmp_path / "warehouse", spark=spark)
    made.create_namespace("shop")
    return made


def ours(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: row["id"])


def theirs(engine: str, table: lp.Table) -> list[dict[str, Any]]:
    [answer] = ask("table_rows", [[engine, table.metadata_location]])
    found = pa.ipc.open_stream(base64.b64decode(answer)).read_all()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def data_files(table: lp.Table) -> set[str]:
    return {str(each) for each in Path(table.location, "data").rglob("*") if each.is_file()}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_frames_of_all_kinds_are_appended_and_read_by_all(
    spark: SparkSession, lake: lp.Lake, version: int
) -> None:
    table = lake.create_table(
        "shop.orders",
        DDL,
        partition_by=["days(at)", "bucket(3, id)"],
        properties={"format-version": str(version)},
    )
    receipts = [
        table.append(spark.createDataFrame(as_arrow(rows(0, 20)))),
        table.append(as_arrow(rows(20, 30))),
        table.append(pl.from_arrow(as_arrow(rows(40, 50)))),
        table.append(as_arrow(rows(50, 60)).to_reader(3)),
    ]
    assert [each.added_rows for each in receipts] == [20, 10, 10, 10]
    assert [each.operation for each in receipts] == ["append"] * 4
    expected = [*rows(0, 30), *rows(40, 60)]
    assert ours(table.read()) == expected
    for engine in READERS[version]:
        assert theirs(engine, table) == expected, engine


def test_a_pandas_frame_is_appended(lake: lp.Lake) -> None:
    table = lake.create_table("shop.small", "id BIGINT, name STRING, ratio DOUBLE")
    table.append(pd.DataFrame({"name": ["a", None], "id": [1, 2], "ratio": [0.5, None]}))
    assert ours(table.read()) == [
        {"id": 1, "name": "a", "ratio": 0.5},
        {"id": 2, "name": None, "ratio": None},
    ]


def test_a_frame_of_pandas_on_spark_is_a_frame_of_spark(spark: SparkSession) -> None:
    frame = spark.range(3).pandas_api()
    assert given_rows(frame).collect() == spark.range(3).collect()


def test_small_appends_start_no_job(spark: SparkSession, lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL)
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup()
    table.append(as_arrow(rows(0, 3)))
    assert tracker.getJobIdsForGroup() == before


def test_time_travel_by_id_branch_tag_and_time(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL)
    first = table.append(as_arrow(rows(0, 5)))
    table.create_tag("first")
    with table.evolve() as change:
        change.drop_column("tags")
        change.rename_column("amount", "total")
    table.append(as_arrow(rows(5, 8)).drop_columns(["tags"]).rename_columns({"amount": "total"}))
    table.append(as_arrow(rows(8, 9)).drop_columns(["tags"]).rename_columns({"amount": "total"}), "audit")
    written_ms = table.metadata.snapshot(first.snapshot_id or 0).timestamp_ms
    at = dt.datetime.fromtimestamp(written_ms / 1000, dt.UTC)
    assert ours(table.read(at=first.snapshot_id)) == rows(0, 5)
    assert ours(table.read(at="first")) == rows(0, 5)
    assert ours(table.read(at=at)) == rows(0, 5)
    assert table.read(["id"], at="audit").count() == 9
    assert table.read().columns == ["id", "at", "total", "region", "place"]
    assert [row["id"] for row in ours(table.read(["id"], where="total >= 1"))] == [4, 5, 6, 7]


def test_a_condition_is_the_same_in_the_plan_and_in_spark(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, partition_by=["days(at)", "region"])
    table.append(as_arrow(rows(0, 60)))
    everything = table.read()
    for where in (
        "at >= '2026-01-03' AND at < '2026-01-05'",
        "region IS NULL OR region = 'region 1'",
        "NOT (region = 'region 1')",
        "place.y > 30 AND region <=> 'region 2'",
        "size(tags) = 2 AND id % 4 = 1",
        "id IN (1, 2, 999) OR amount > 14.5",
    ):
        assert ours(table.read(where=where)) == ours(everything.where(where)), where
    assert table.explain("at < '2026-01-02'").counts.files_by_partition > 0


def test_overwrite_replaces_what_a_condition_covers(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, partition_by=["region"])
    table.append(as_arrow(rows(1, 7)))
    done = table.overwrite(as_arrow(rows(100, 101)), "region = 'region 1'")
    assert (done.operation, done.added_rows, done.removed_rows) == ("overwrite", 1, 2)
    assert [row["id"] for row in ours(table.read(["id"]))] == [2, 3, 5, 6, 100]
    before, files = table.metadata, data_files(table)
    with pytest.raises(lp.LakeplaneError, match=r"\.parquet"):
        table.overwrite(as_arrow(rows(200, 201)), "id = 2")
    assert table.refresh().metadata == before
    assert data_files(table) == files, "what was not published is deleted"
    table.overwrite(as_arrow(rows(0, 1)))
    assert ours(table.read()) == rows(0, 1)


def test_overwrite_partitions_replaces_those_of_the_rows(spark: SparkSession, lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, partition_by=["days(at)"])
    table.append(as_arrow(rows(0, 15)))
    new = [{**rows(0, 1)[0], "id": 500}]
    done = table.overwrite_partitions(spark.createDataFrame(as_arrow(new)))
    assert done.operation == "overwrite"
    assert [row["id"] for row in ours(table.read(["id"]))] == [*range(5, 15), 500]


def test_an_overwrite_does_not_bury_what_others_added(spark: SparkSession, tmp_path: Path) -> None:
    lake = lp.connect(tmp_path / "warehouse", spark=spark)
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", DDL)
    table.append(as_arrow(rows(0, 2)))
    other = lake.table("shop.orders")
    other.append(as_arrow(rows(2, 4)))
    files = data_files(table)
    with pytest.raises(lp.CommitConflict):
        table.overwrite(as_arrow(rows(10, 11)))
    assert data_files(table) == files
    table.append(as_arrow(rows(4, 5)))
    assert ours(table.read()) == rows(0, 5)
    table.overwrite(as_arrow(rows(10, 11)))
    assert ours(table.read()) == rows(10, 11)


def test_a_stale_writer_may_choose_to_overwrite_what_others_added(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL)
    for isolation in ("snapshot", None):
        lake.table("shop.orders").append(as_arrow(rows(2, 4)))
        table.overwrite(as_arrow(rows(10, 11)), isolation=isolation)
        assert ours(table.read()) == rows(10, 11)


def test_rows_are_staged_audited_and_published(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, properties={"write.wap.enabled": "true"})
    table.append(as_arrow(rows(0, 2)))
    staged = table.append(as_arrow(rows(2, 4)), wap_id="load-7")
    assert ours(table.read()) == rows(0, 2)
    assert ours(table.read(at=staged.snapshot_id)) == rows(0, 4)
    table.append(as_arrow(rows(4, 5)))
    table.publish_changes("load-7")
    assert ours(table.read()) == rows(0, 5)
    with pytest.raises(lp.LakeplaneError, match="load-7"):
        table.publish_changes("load-7")
    table.append(as_arrow(rows(5, 6)), wap_branch="audit")
    assert ours(table.read()) == rows(0, 5)
    table.fast_forward("main", "audit")
    assert ours(table.read()) == rows(0, 6)


@pytest.mark.parametrize("spark_frame", [False, True])
def test_a_schema_grows_with_the_rows(spark: SparkSession, lake: lp.Lake, *, spark_frame: bool) -> None:
    table = lake.create_table("shop.grows", "id INT, place STRUCT<x: FLOAT>")
    table.append(pa.table({"id": pa.array([1], pa.int32()), "place": [{"x": 0.5}]}))
    wide = pa.table(
        {"id": pa.array([2**40], pa.int64()), "place": [{"x": 0.1, "z": "far"}], "new": [dt.date(2026, 1, 1)]}
    )
    frame = spark.createDataFrame(wide) if spark_frame else wide
    with pytest.raises(lp.InvalidInput, match=r"new|z"):
        table.append(frame)
    table.append(frame, merge_schema=True, properties={"why": "growth"})
    assert [str(field.type) for field in table.schema.fields][:1] == ["long"]
    assert ours(table.read()) == [
        {"id": 1, "place": {"x": 0.5, "z": None}, "new": None},
        {"id": 2**40, "place": {"x": 0.1, "z": "far"}, "new": dt.date(2026, 1, 1)},
    ]
    summary = table.metadata.current_snapshot.summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary["why"] == "growth"


def test_bad_rows_leave_the_table_and_its_folder_as_they_were(spark: SparkSession, lake: lp.Lake) -> None:
    table = lake.create_table("shop.strict", "id BIGINT NOT NULL, small INT")
    table.append(pa.table({"id": [1], "small": pa.array([1], pa.int32())}))
    before, files = table.metadata, data_files(table)
    null_id = pa.table({"id": pa.array([None], pa.int64()), "small": pa.array([1], pa.int32())})
    too_large = pa.table({"id": [2], "small": [2**31]})
    for bad, column in ((null_id, "id"), (too_large, "small")):
        with pytest.raises(lp.InvalidInput, match=column):
            table.append(bad)
        with pytest.raises(lp.InvalidInput, match=column):
            table.append(spark.createDataFrame(bad))
    assert table.refresh().metadata == before
    assert {each for each in data_files(table) if each.endswith(".parquet")} == files


def test_defaults_fill_old_rows_and_new_ones(lake: lp.Lake) -> None:
    table = lake.create_table("shop.filled", "id BIGINT", properties={"format-version": "3"})
    table.append(pa.table({"id": [1]}))
    with table.evolve() as change:
        change.add_column("currency", "STRING", required=True, default="EUR")
    table.append(pa.table({"id": [2]}))
    table.append(pa.table({"id": [3], "currency": ["USD"]}))
    assert ours(table.read()) == [
        {"id": 1, "currency": "EUR"},
        {"id": 2, "currency": "EUR"},
        {"id": 3, "currency": "USD"},
    ]
    assert table.read(where="currency = 'EUR'").count() == 2


def test_lineage_counts_rows_over_all_appends(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, properties={"format-version": "3"})
    table.append(as_arrow(rows(0, 3)))
    table.append(as_arrow(rows(3, 5)))
    found = table.read(["id", "_row_id", "_last_updated_sequence_number", "_pos", "_spec_id"])
    by_id = {row["id"]: tuple(row.values())[1:] for row in ours(found)}
    assert sorted(row_id for row_id, *_ in by_id.values()) == [0, 1, 2, 3, 4]
    assert [by_id[number][1] for number in range(5)] == [1, 1, 1, 2, 2]
    assert table.metadata.next_row_id == 5


@pytest.mark.parametrize("seed", range(2))
def test_a_table_that_went_through_everything_reads_like_a_model(
    spark: SparkSession, lake: lp.Lake, seed: int
) -> None:
    chance = random.Random(f"evolution {seed}")
    columns, number = {"id": "BIGINT", "c0": "INT"}, 0
    model: list[dict[str, Any]] = []
    table = lake.create_table("shop.lived", "id BIGINT, c0 INT")
    for step in range(20):
        with table.evolve() as change:
            _evolve(change, columns, model, chance, step)
        new = [_row(columns, number + each, chance) for each in range(chance.randint(1, 4))]
        number += len(new)
        model += new
        types = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "DOUBLE": pa.float64()}
        frame = pa.Table.from_pylist(new, pa.schema([(name, types[kind]) for name, kind in columns.items()]))
        table.append(spark.createDataFrame(frame) if step % 4 == 0 else frame)
    expected = [{name: row.get(name) for name in columns} for row in model]
    assert [{name: row[name] for name in columns} for row in ours(table.read())] == expected
    assert [{name: row[name] for name in columns} for row in theirs("pyiceberg", table)] == expected


def _evolve(
    change: Any, columns: dict[str, str], model: list[dict[str, Any]], chance: random.Random, step: int
) -> None:
    """Change a table and a model of it in the same way."""
    rest = [name for name in columns if name != "id"]
    match chance.choice(["add", "add", "drop", "rename", "widen", "part"]):
        case "drop" if rest:
            name = chance.choice(rest)
            change.drop_column(name)
            del columns[name]
            for row in model:
                row.pop(name, None)
        case "rename" if rest:
            name, new = chance.choice(rest), f"c{chance.randint(0, 5)}"
            if new not in columns:
                change.rename_column(name, new)
                columns[new] = columns.pop(name)
                for row in model:
                    if name in row:
                        row[new] = row.pop(name)
        case "widen" if ints := [name for name in rest if columns[name] == "INT"]:
            name = chance.choice(ints)
            change.update_column(name, type="BIGINT")
            columns[name] = "BIGINT"
        case "part":
            change.add_partition_field(f"bucket({step + 2}, id)")
        case _:
            name = f"c{chance.randint(0, 5)}"
            if name not in columns:
                columns[name] = chance.choice(["INT", "STRING", "DOUBLE"])
                change.add_column(name, columns[name])


def _row(columns: dict[str, str], number: int, chance: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"id": number}
    values = {"BIGINT": 2**40 + number, "INT": number, "STRING": f"text {number}", "DOUBLE": number / 8}
    for name, kind in columns.items():
        if name != "id":
            made[name] = None if chance.random() < 0.2 else values[kind]
    return made


def test_columns_that_files_lack_have_the_values_of_their_partition(lake: lp.Lake) -> None:
    """Other writers leave out the columns that they part files by: rows came back with null in them."""
    table = lake.create_table("shop.parted", "id BIGINT, region STRING, n INT", partition_by=["region"])
    table.append(pa.table({"id": [1], "region": ["written"], "n": pa.array([1], pa.int32())}))
    parts = {"left out": 2, None: 3}
    for region, number in parts.items():
        path = f"{table.location}/data/{number}.parquet"
        field = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
        pq.write_table(pa.table({"id": [number]}, pa.schema([field])), path)
        table._change(Append(files=(_file(path, region),)))
    expected = [
        {"id": 1, "region": "written", "n": 1},
        {"id": 2, "region": "left out", "n": None},
        {"id": 3, "region": None, "n": None},
    ]
    assert ours(table.read()) == expected
    assert ours(table.read(["id"], where="region = 'left out'")) == [{"id": 2}]
    assert ours(table.read(["id"]).where("id > 2")) == [{"id": 3}]
    assert ours(table.read().where("region IS NULL")) == expected[2:]


def _file(path: str, region: str | None) -> NewFiles:
    """A file of one row, of whose columns nothing is told."""
    facts = {
        "file_path": [path],
        "file_format": ["PARQUET"],
        "record_count": [1],
        "file_size_in_bytes": [Path(path).stat().st_size],
        "partition": pa.array([{"1000": region}], pa.struct({"1000": pa.string()})),
    }
    return NewFiles(0, pa.table(facts))


def test_partitioned_tables_of_ours_are_bare_scans(lake: lp.Lake) -> None:
    table = lake.create_table("shop.orders", DDL, partition_by=["region", "days(at)"])
    table.append(as_arrow(rows(0, 20)))
    plan = physical(table.read(["id", "region"]).where("id > 3"))
    assert "Join" not in plan
    assert "Union" not in plan
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,3)]" in plan


def test_files_are_cut_as_the_table_asks(spark: SparkSession, lake: lp.Lake) -> None:
    table = lake.create_table("shop.cut", "id BIGINT", properties={"read.split.target-size": "20000"})
    table.append(pa.table({"id": range(200_000)}), options={"write.parquet.row-group-size-bytes": "10000"})
    cut = table.read()
    assert cut.rdd.getNumPartitions() > 4
    assert cut.count() == 200_000
    cut.createOrReplaceTempView("cut")
    assert spark.sql("SELECT count(DISTINCT id) FROM cut").collect()[0][0] == 200_000
    assert cut.sparkSession is spark
    with table.evolve() as change:
        change.remove_properties("read.split.target-size")
    assert table.read().rdd.getNumPartitions() <= 2
