"""Tables that other writers of Paimon have made, read through the front door."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeplane as lp
from tests.paimon.built import Built, make_schema
from tests.paimon.stored import NAMES, stored
from tests.remote import found_by
from tests.spark.paimon_tables import spelled, told, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(name: str, folder: Path, spark: SparkSession) -> lp.PaimonTable:
    table = lp.open(unpacked(stored(name), folder), spark=spark)
    assert isinstance(table, lp.PaimonTable)
    return table


def rows_of(frame: Any, table: lp.PaimonTable, keys: list[str]) -> list[dict[str, Any]]:
    found = told(frame.collect(), table.definition.fields)
    return sorted((spelled(row) for row in found), key=lambda row: [str(row[key]).zfill(12) for key in keys])


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_other_writers_have_the_rows_that_they_say(
    name: str, tmp_path: Path, spark: SparkSession
) -> None:
    facts = stored(name).facts
    table = opened(name, tmp_path, spark)
    found = rows_of(table.read(), table, facts["sort_keys"])
    wanted = sorted(
        map(spelled, facts["rows"]), key=lambda row: [str(row[key]).zfill(12) for key in facts["sort_keys"]]
    )
    assert found == wanted


def values(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=str)


def test_columns_are_found_in_the_schema_of_each_file_and_states_have_those_of_their_time(
    tmp_path: Path, spark: SparkSession
) -> None:
    """`old` was a text in the first schema, was dropped, and is a date now: its texts must not show."""
    table = opened("java09_evolved", tmp_path, spark)
    first = [(1, 10, "a"), (2, 20, "b")]
    for at in ("before", "dev", 1):
        assert values(table.read(at=at)) == first
    assert values(table.read(branch="dev")) == first
    assert values(table.read(at=2)) == [(1, 10, "a", None), (2, 20, "b", None), (3, 30, "c", 1.5)]
    moment = dt.datetime.fromtimestamp(table.snapshots[1].time_millis / 1000, dt.UTC)
    assert values(table.read(["renamed"], at=moment)) == [("a",), ("b",), ("c",)]
    assert values(table.read(["id"], where="v > 15 and old is null")) == [(2,), (3,)]
    assert values(table.read(["v"], where="old = DATE'2022-01-08'")) == [(5_000_000_000,)]
    assert table.refs["kept"] == ("tag", 3)
    assert table.refs["dev"] == ("branch", 1)
    assert values(table.changes(1, 2, ["id"])) == [("+I", 3)]
    with pytest.raises(lp.InvalidInput, match="no column 'renamed'"):
        table.read(["renamed"])


def test_what_was_compacted_is_read_without_merging(tmp_path: Path, spark: SparkSession) -> None:
    table = opened("java09_p_dedup", tmp_path, spark)
    compacted = values(table.read(["dt", "id"], read_optimized=True))
    assert compacted == values(table.read(["dt", "id"], where="dt = 'p1'", at=3))
    assert table.explain("id = 3").counts.files_by_bucket == 7


CONDITIONS = ("id = 3", "id between 2 and 4", "id is null or id > 100")
OF_PARTITIONS = {
    "pp21_p_dedup": ("dt = 'p1'", "dt > 'p1' and name = 'n3'"),
    "java09_p_dedup": ("dt is null or dt = 'p1'", "amount > 50"),
    "java09_p_dv": ("v = 'v3'", "v like 'n%'"),
    "java09_part_types": ("d is null", "d = DATE'2024-01-02' and f > 1"),
}


@pytest.mark.parametrize("name", OF_PARTITIONS)
def test_pruned_reads_have_the_rows_of_filtered_ones(name: str, tmp_path: Path, spark: SparkSession) -> None:
    table = opened(name, tmp_path, spark)
    full = table.read().cache()
    for where in (*CONDITIONS, *OF_PARTITIONS[name]):
        assert values(table.read(where=where)) == values(full.where(where))
    full.unpersist()


def test_changelogs_are_read_row_by_row(tmp_path: Path, spark: SparkSession) -> None:
    table = opened("pp21_p_cl", tmp_path, spark)
    found = values(table.changes(0, columns=["id", "v"]))
    assert found == [("+I", 0, 1, "a"), ("+I", 1, 2, "b"), ("+U", 3, 1, "a2"), ("-D", 4, 2, "b")]
    assert values(table.changes(1, columns=["id"], where="v = 'b'")) == [("-D", 4, 2)]


def test_columns_that_would_be_cut_are_refused_by_name(tmp_path: Path, spark: SparkSession) -> None:
    """A BIGINT that became an INT would wrap around, or be null."""
    home = unpacked(stored("java09_evolved"), tmp_path)
    last = max((home / "schema").iterdir())
    document = json.loads(last.read_text())
    assert document["fields"][1]["type"] == "BIGINT"
    document["fields"][1]["type"] = "SMALLINT"
    last.write_text(json.dumps(document))
    table = lp.open(home, spark=spark)
    with pytest.raises(lp.NotSupported, match=r"v: files have it as (BIG)?INT"):
        table.read()
    assert len(values(table.read(["id"]))) == 4


def test_options_that_would_be_merged_otherwise_are_refused_by_name(
    tmp_path: Path, spark: SparkSession
) -> None:
    home = unpacked(stored("pp21_p_agg"), tmp_path)
    path = max((home / "schema").iterdir())
    document = json.loads(path.read_text())
    document["options"]["fields.total.aggregate-function"] = "nested_update"
    path.write_text(json.dumps(document))
    table = lp.open(home, spark=spark)
    with pytest.raises(lp.NotSupported, match=r"options\.fields\.total\.aggregate-function"):
        table.read()
    assert values(table.read(["id", "mx"])) == [(1, 5), (2, 1)]


@pytest.mark.parametrize("way", ["log", "paths"])
def test_reads_through_connect(tmp_path: Path, way: str) -> None:
    names = ["java09_p_dedup", "java09_p_dv", "java09_a_avro", "java09_evolved"]
    homes = [str(unpacked(stored(name), tmp_path)) for name in names]
    found = found_by("spark.connect_paimon", str(tmp_path), way, *homes)
    for name, home in zip(names, homes, strict=True):
        facts = stored(name).facts
        wanted = sorted(str(row["id"]) for row in facts["rows"])
        assert sorted(row[0] for row in found[home]) == wanted
        assert len(found[home][0]) == len(facts["rows"][0])


def test_what_spark_has_no_reader_for_is_decoded_by_arrow(tmp_path: Path, spark: SparkSession) -> None:
    """Nanoseconds lose digits in Spark's timestamps, and it cannot read times of 32 bits in structs."""
    inside = {"type": "ROW", "fields": [{"id": 3, "name": "t", "type": "TIME(3)"}]}
    columns: Any = {"id": "INT", "at": "TIMESTAMP(9)", "s": inside}
    table = Built(make_schema(columns, options={"bucket": "-1"}))
    times = pa.struct([pa.field("t", pa.time32("ms"))])
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "at": pa.array([1_700_000_000_123_456_789, None], pa.int64()).cast(pa.timestamp("ns")),
            "s": pa.array([{"t": 3_600_001}, {"t": None}], pa.struct([("t", pa.int32())])).cast(times),
        }
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink, use_deprecated_int96_timestamps=True)
    told = [{"id": 1, "at": None, "s": None}, {"id": 2, "at": None, "s": None}]
    entry = table.file(told, stats=False, file_size=len(sink.getvalue()), total_buckets=-1)
    table.commit([entry])
    content = {**table.content, f"bucket-0/{entry['file_name']}": sink.getvalue()}
    for path, data in content.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    found = values(lp.open(tmp_path, spark=spark).read())
    assert found[0][:2] == (1, 1_700_000_000_123_456_789)
    assert found[0][2]["t"] == dt.time(1, 0, 0, 1000)
    assert (found[1][:2], found[1][2]["t"]) == ((2, None), None)
