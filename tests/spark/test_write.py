"""Data files that Spark writes: what is in them, and what is told of them."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeplane.errors import InvalidInput
from lakeplane.model.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, Decimal, Field, Struct
from lakeplane.spark.write import write_frame
from tests.spark.writing import assert_parted, rows_of, spec_of, store_of, target_in, written

FLAT = (
    Field(1, "id", LONG, required=True),
    Field(2, "name", STRING),
    Field(5, "amount", Decimal(10, 2)),
    Field(7, "at", TIMESTAMPTZ),
    Field(9, "inner", Struct((Field(3, "x", INT), Field(4, "y", DOUBLE)))),
)


def test_files_have_ids_micros_and_metrics(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT)
    df = spark.range(0, 100, 1, 2).selectExpr(
        "id",
        "concat('n', id) AS name",
        "CAST(id AS DECIMAL(10,2)) AS amount",
        "timestamp_micros(id) AS at",
        "named_struct('x', CAST(id AS INT), 'y', double('NaN')) AS inner",
    )
    files = written(df, target)
    assert files.num_rows == 2
    assert sorted(rows_of(files).column("id").to_pylist()) == list(range(100))
    schema = pq.ParquetFile(files.column("file_path")[0].as_py()).schema_arrow
    ids = {each.name: int(each.metadata[b"PARQUET:field_id"]) for each in [*schema, *schema.field("inner").type]}
    assert ids == {"id": 1, "name": 2, "amount": 5, "at": 7, "inner": 9, "x": 3, "y": 4}
    assert schema.field("at").type == pa.timestamp("us", "UTC")
    assert not schema.field("id").nullable
    first = files.slice(0, 1).to_pylist()[0]
    assert first["file_format"] == "PARQUET"
    assert first["content"] == 0
    assert first["partition"] == {}
    assert dict(first["value_counts"])[1] == 50
    assert dict(first["lower_bounds"])[1] == (0).to_bytes(8, "little")
    assert 4 not in dict(first["lower_bounds"])
    assert first["nan_value_counts"] in (None, [])
    assert first["split_offsets"] == [4]


def test_nothing_but_data_files_is_left(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT[:1], spec_of((1, "bucket[4]")))
    files = written(spark.range(50), target)
    found = {str(path) for path in Path(target.location).rglob("*") if path.is_file()}
    assert found == set(files.column("file_path").to_pylist())
    assert all(path.startswith(f"{target.location}/data/run-1/p=") for path in found)


WEIRD = [
    *(None, "", "__HIVE_DEFAULT_PARTITION__", "_null", "_empty", "null", "a/b", "a\\b", "100%", "%41", "A", "a"),
    *("a=b", "p=x", "a b", " a ", "é", "漢字", "😀", "\0", "\n", "..", ".", "~", "x" * 151, "x" * 5000, "X" * 150),
    *("_h0123456789abcdef", "__", "_", "-", "a__b", "a_", "_41", "*+'\"`{}[]^|#?:;,<>&$@!()", "ß" * 100),
]


def test_partitions_of_any_text(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, (Field(1, "s", STRING), Field(2, "n", INT)), spec_of((1, "identity")))
    table = pa.table({"s": pa.array(WEIRD * 2), "n": pa.array(range(len(WEIRD) * 2), pa.int32())})
    files = written(spark.createDataFrame(table).repartition(3), target)
    assert_parted(files, target)
    told = files.column("partition").combine_chunks().field("1000").to_pylist()
    assert set(told) == set(WEIRD)
    rows = rows_of(files)
    assert sorted(zip(rows["n"].to_pylist(), rows["s"].to_pylist(), strict=True)) == list(enumerate(WEIRD * 2))
    assert all(len(part) < 200 for path in files["file_path"].to_pylist() for part in path.split("/"))
    # Some file systems do not tell capitals: no two directories may differ in them only.
    folders = {os.path.dirname(path) for path in files["file_path"].to_pylist()}
    assert len({folder.lower() for folder in folders}) == len(set(WEIRD))


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (DOUBLE, pa.array([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 0.1, 1e-300, 1e300, None])),
        (Decimal(38, 10), pa.array([decimal.Decimal("-0.0000000001"), decimal.Decimal(10) ** 27, None, 0], pa.decimal128(38, 10))),
        (DATE, pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1969, 12, 31)])),
        (DATE, pa.array([-719_162, 2_932_896, 0], pa.int32()).cast(pa.date32())),
        (TIMESTAMP, pa.array([-(2**52), 2**52, 0, -1, None], pa.timestamp("us"))),
        (TIMESTAMPTZ, pa.array([-(2**52), 2**52, 0, -1, None], pa.timestamp("us", "UTC"))),
    ],
    ids=str,
)
def test_partitions_of_any_type(spark: SparkSession, tmp_path: Path, type_: object, column: pa.Array) -> None:
    target = target_in(tmp_path, (Field(1, "v", type_),), spec_of((1, "identity"), (1, "void")))  # type: ignore[arg-type]
    files = written(spark.createDataFrame(pa.table({"v": column})), target)
    assert files.num_rows == len(column)
    assert_parted(files, target)


def test_many_fields_and_nested_sources(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field(1, "s", Struct((Field(2, "a.b", STRING), Field(3, "t", TIMESTAMPTZ)))), Field(4, "n", LONG))
    spec = spec_of((2, "truncate[2]"), (3, "day"), (4, "bucket[3]"), (3, "hour"), (4, "truncate[10]"))
    target = target_in(tmp_path, fields, spec, write__distribution_mode="none")
    df = spark.range(60).selectExpr(
        "named_struct('a.b', IF(id % 7 = 0, NULL, concat('é', id % 2, '/', id)), 't',"
        " timestamp_micros((id - 20) * 3600000000)) AS s",
        "id AS n",
    )
    files = written(df, target)
    assert_parted(files, target)
    assert rows_of(files).num_rows == 60


def test_a_frame_without_rows_gives_no_files(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT[:1])
    assert write_frame(spark.range(0), target, store_of(target)) == []
    assert not [path for path in Path(target.location).rglob("*") if path.is_file()]


def test_a_null_in_a_required_column_fails_the_write(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT[:1])
    df = spark.range(50).selectExpr("IF(id = 7, NULL, id) AS id")
    with pytest.raises(InvalidInput, match="id: it is required, and a value is null"):
        write_frame(df, target, store_of(target))
    assert not [path for path in Path(target.location).rglob("*.parquet") if path.is_file()]
