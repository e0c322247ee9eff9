"""Data files that Spark writes: what is in them, and what is told of them."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakeplane.errors import InvalidInput
from lakeplane.files.order import sort_positions
from lakeplane.files.target import FileFormat
from lakeplane.model.location import parse_location
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import parse_transform
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
)
from lakeplane.spark.arrange import distribution_mode
from lakeplane.spark.harvest import metrics_of_tails, tails_of, written_files
from lakeplane.spark.harvest_tasks import metrics_by_tasks
from lakeplane.spark.session import allow_time
from lakeplane.spark.write import Way, choose_way, run_directory, write_frame
from lakeplane.storage.open import open_store
from tests.spark.writing import assert_parted, rows_of, spec_of, store_of, target_in, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    ids = {
        each.name: int(each.metadata[b"PARQUET:field_id"]) for each in [*schema, *schema.field("inner").type]
    }
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


def test_workers_tell_of_footers_what_this_process_does(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT[:2])
    store = store_of(target)
    write_frame(spark.range(0, 90, 1, 3).selectExpr("id", "string(id) AS name"), target, store)
    found = written_files(store, run_directory(target))
    assert len(found) == 3
    many = [found[place % 3] for place in range(1100)]
    told = metrics_by_tasks(spark, many, target, store.recipe())
    assert told.equals(metrics_of_tails(many, tails_of(store, many), target))


def test_nothing_but_data_files_is_left(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, FLAT[:1], spec_of((1, "bucket[4]")))
    files = written(spark.range(50), target)
    found = {str(path) for path in Path(target.location).rglob("*") if path.is_file()}
    assert found == set(files.column("file_path").to_pylist())
    assert all(path.startswith(f"{target.location}/data/run-1/p=") for path in found)


WEIRD = [
    *(
        None,
        "",
        "__HIVE_DEFAULT_PARTITION__",
        "_null",
        "_empty",
        "null",
        "a/b",
        "a\\b",
        "100%",
        "%41",
        "A",
        "a",
    ),
    *(
        "a=b",
        "p=x",
        "a b",
        " a ",
        "é",
        "漢字",
        "😀",
        "\0",
        "\n",
        "..",
        ".",
        "~",
        "x" * 151,
        "x" * 5000,
        "X" * 150,
    ),
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
    assert sorted(zip(rows["n"].to_pylist(), rows["s"].to_pylist(), strict=True)) == list(
        enumerate(WEIRD * 2)
    )
    assert all(len(part) < 200 for path in files["file_path"].to_pylist() for part in path.split("/"))
    # Some file systems do not tell capitals: no two directories may differ in them only.
    folders = {path.rpartition("/")[0] for path in files["file_path"].to_pylist()}
    assert len({folder.lower() for folder in folders}) == len(set(WEIRD))


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (DOUBLE, pa.array([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 0.1, 1e-300, 1e300, None])),
        (
            Decimal(38, 10),
            pa.array(
                [decimal.Decimal("-0.0000000001"), decimal.Decimal(10) ** 27, None, 0], pa.decimal128(38, 10)
            ),
        ),
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
    fields = (
        Field(1, "s", Struct((Field(2, "a.b", STRING), Field(3, "t", TIMESTAMPTZ)))),
        Field(4, "n", LONG),
    )
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


NESTED = (
    Field(1, "id", LONG),
    Field(2, "l", List(3, Struct((Field(4, "a", STRING), Field(5, "m", Map(6, STRING, 7, DOUBLE)))))),
    Field(8, "m", Map(9, INT, 10, List(11, INT), value_required=True)),
)
NESTED_SQL = (
    "id",
    "IF(id % 3 = 0, NULL, array(named_struct('a', 'x', 'm', map('k', 1.5D)), NULL)) AS l",
    "IF(id % 4 = 0, NULL, map(CAST(id AS INT), array(1, NULL, 3))) AS m",
)


def ids_of(type_: pa.DataType | pa.Schema) -> list[int]:
    """All field ids of a file in the order of its columns."""
    found: list[int] = []
    match type_:
        case pa.ListType():
            fields = [type_.value_field]
        case pa.MapType():
            fields = [type_.key_field, type_.item_field]
        case pa.StructType() | pa.Schema():
            fields = list(type_)
        case _:
            fields = []
    for field in fields:
        found += [int(field.metadata[b"PARQUET:field_id"]), *ids_of(field.type)]
    return found


def by_id(df: DataFrame) -> list[Any]:
    return sorted(df.collect(), key=lambda row: int(row["id"]))


@pytest.mark.parametrize("way", ["patched", "arrow"])
def test_what_is_in_lists_and_maps_has_ids(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    target = target_in(tmp_path, NESTED, spec_of((1, "bucket[2]")))
    df = spark.range(0, 40, 1, 2).selectExpr(*NESTED_SQL)
    assert choose_way(target) == "patched"
    files = written(df, target, way=way)
    for path in files["file_path"].to_pylist():
        assert ids_of(pq.ParquetFile(path).schema_arrow) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert_parted(files, target)
    counted = dict(files.slice(0, 1).to_pylist()[0]["value_counts"])
    # Files of which the checksums of Hadoop would not hold any more cannot be read by Spark.
    back = spark.read.parquet(*files["file_path"].to_pylist())
    assert by_id(back.select("id", "l", "m")) == by_id(df)
    assert 1 in counted


STAND_INS = (
    Field(1, "u", UUID, required=True),
    Field(2, "f", Fixed(3)),
    Field(3, "n", TIMESTAMP_NS),
    Field(4, "z", TIMESTAMPTZ_NS),
    Field(5, "t", TIME),
    Field(6, "s", Struct((Field(7, "u", UUID), Field(8, "l", List(9, Fixed(2))), Field(12, "x", UNKNOWN)))),
    Field(10, "nothing", UNKNOWN),
    Field(11, "id", LONG),
)


def test_what_spark_cannot_write_is_written_by_arrow(spark: SparkSession, tmp_path: Path) -> None:
    spec = spec_of((1, "bucket[3]"), (3, "day"), (7, "identity"), (5, "identity"))
    target = target_in(tmp_path, STAND_INS, spec)
    assert choose_way(target) == "arrow"
    assert allow_time(spark)
    text = "concat('0000000', id % 2, '-AAAA-bbbb-0000-000000000000')"
    df = spark.range(0, 20, 1, 2).selectExpr(
        f"{text} AS u",
        "IF(id = 1, NULL, X'010203') AS f",
        "1000000000000 * id + 1 AS n",
        "timestamp_micros(id) AS z",
        "make_time(0, 0, CAST(id AS DECIMAL(16, 6)) / 1000000) AS t",
        f"named_struct('u', {text}, 'l', array(X'0102', NULL)) AS s",
        "id",
    )
    files = written(df, target)
    assert_parted(files, target)
    rows = rows_of(files).sort_by("id")
    assert rows.column_names == ["u", "f", "n", "z", "t", "s", "id"]
    first = pq.ParquetFile(files["file_path"][0].as_py())
    stored = {each.path: str(each.logical_type) for each in map(first.schema.column, range(8))}
    assert "UUID" in stored["u"]
    assert first.schema.column(0).physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert first.schema.column(1).length == 3
    assert "nanoseconds" in stored["n"]
    assert rows["n"].cast(pa.int64()).to_pylist() == [10**12 * each + 1 for each in range(20)]
    assert rows["z"].cast(pa.int64()).to_pylist() == [1000 * each for each in range(20)]
    assert rows["t"].cast(pa.int64()).to_pylist() == list(range(20))
    assert rows["f"].to_pylist()[:3] == [b"\1\2\3", None, b"\1\2\3"]
    assert rows["u"].to_pylist()[1] == uuid.UUID("00000001-aaaa-bbbb-0000-000000000000")


def test_times_are_written_natively(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(tmp_path, (Field(1, "t", TIME),), spec_of((1, "bucket[5]")))
    assert allow_time(spark)
    df = spark.range(10).selectExpr("make_time(0, 0, CAST(id AS DECIMAL(16, 6)) / 1000000) AS t")
    assert choose_way(target) == "native"
    files = written(df, target)
    assert_parted(files, target)
    assert sorted(rows_of(files)["t"].cast(pa.int64()).to_pylist()) == list(range(10))


def test_columns_that_differ_in_case_only(spark: SparkSession, tmp_path: Path) -> None:
    fields = (
        Field(1, "a", LONG),
        Field(2, "A", LONG),
        Field(3, "s", Struct((Field(4, "b", INT), Field(5, "B", INT)))),
    )
    target = target_in(tmp_path, fields, spec_of((2, "identity")))
    df = spark.createDataFrame(pa.table({"a": [1], "A": [2], "s": pa.array([{"b": 1, "B": 2}])}))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        files = written(df, target)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    schema = pq.ParquetFile(files["file_path"][0].as_py()).schema_arrow
    assert ids_of(schema) == [1, 2, 3, 4, 5]
    assert [list(row.values())[:2] for row in rows_of(files).to_pylist()] == [[1, 2]]


ORDER = SortOrder(
    4,
    (
        SortField((2,), parse_transform("identity"), "desc", "nulls-first"),
        SortField((1,), parse_transform("truncate[10]"), "asc", "nulls-last"),
    ),
)


@pytest.mark.parametrize("mode", ["none", "hash", "range"])
@pytest.mark.parametrize("way", ["native", "arrow"])
def test_rows_of_files_have_the_order_of_the_table(
    spark: SparkSession, tmp_path: Path, mode: str, way: Way
) -> None:
    fields = (Field(1, "n", LONG), Field(2, "d", DOUBLE))
    target = target_in(tmp_path, fields, spec_of((1, "bucket[2]")), order=ORDER)
    df = spark.range(-100, 100, 1, 4).selectExpr(
        "IF(id % 9 = 0, NULL, id) AS n",
        "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN 0D WHEN 3 THEN -0D ELSE id END d",
    )
    files = written(df, target, distribution=mode, way=way)
    assert set(files["sort_order_id"].to_pylist()) == {4}
    assert_parted(files, target)
    for path in files["file_path"].to_pylist():
        rows = pq.read_table(path, partitioning=None)
        assert sort_positions(rows, ORDER, target.schema).to_pylist() == list(range(rows.num_rows))
    if mode != "none" and way == "native":
        assert files.num_rows <= 5


def test_distribution_modes_are_those_of_iceberg(tmp_path: Path) -> None:
    spec = spec_of((1, "bucket[2]"))
    assert distribution_mode(target_in(tmp_path, FLAT)) == "none"
    assert distribution_mode(target_in(tmp_path, FLAT, spec)) == "hash"
    assert distribution_mode(target_in(tmp_path, FLAT, spec, order=ORDER)) == "range"
    asked = target_in(tmp_path, FLAT, spec, write__distribution_mode="none")
    assert distribution_mode(asked) == "none"
    assert distribution_mode(asked, "Range") == "range"
    with pytest.raises(InvalidInput, match="no distribution mode"):
        distribution_mode(asked, "random")


@pytest.mark.parametrize("prefix", ["", "file://", "FILE:"])
def test_places_with_any_characters(spark: SparkSession, tmp_path: Path, prefix: str) -> None:
    target = target_in(tmp_path / "a b%20c#ü:x?y=1", FLAT[:1], spec_of((1, "bucket[2]")))
    store = store_of(target)
    elsewhere = msgspec.structs.replace(target, location=f"{prefix}{target.location}")
    made = write_frame(spark.range(9), elsewhere, store, schemes={"s3": "s3a"})
    paths = made[0].files["file_path"].to_pylist()
    assert all(path.startswith(f"{prefix}{target.location}/data/run-1/p=") for path in paths)
    assert sum(pq.ParquetFile(path.removeprefix(prefix)).metadata.num_rows for path in paths) == 9


def test_layouts_for_object_stores(spark: SparkSession, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "other place")
    target = target_in(
        tmp_path,
        FLAT[:1],
        spec_of((1, "bucket[2]")),
        write__object_storage__enabled="true",
        write__data__path=elsewhere,
    )
    made = write_frame(spark.range(9), target, open_store(parse_location(str(tmp_path))))
    paths = made[0].files["file_path"].to_pylist()
    assert all(
        re.fullmatch(
            r"[01]{4}/[01]{4}/[01]{4}/[01]{8}/.+/run-1/p=[01]/part-.+", path.removeprefix(f"{elsewhere}/")
        )
        for path in paths
    )
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in paths) == 9


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats_are_written_by_arrow(
    spark: SparkSession, tmp_path: Path, file_format: FileFormat
) -> None:
    fields = (Field(1, "id", LONG), Field(2, "l", List(3, STRING)), Field(4, "at", TIMESTAMPTZ))
    target = target_in(tmp_path, fields, spec_of((1, "truncate[10]")), file_format=file_format)
    assert choose_way(target) == "arrow"
    df = spark.range(0, 40, 1, 2).selectExpr(
        "id", "array(string(id), NULL) AS l", "timestamp_micros(id) AS at"
    )
    files = written(df, target)
    assert set(files["file_format"].to_pylist()) == {file_format.upper()}
    assert sorted(files["partition"].combine_chunks().field("1000").to_pylist()) == [0, 10, 20, 30]
    assert files["record_count"].to_pylist() == [10, 10, 10, 10]
    for path, size in zip(
        files["file_path"].to_pylist(), files["file_size_in_bytes"].to_pylist(), strict=True
    ):
        assert path.endswith(f".{file_format}")
        assert Path(path).stat().st_size == size
        if file_format == "orc":
            assert orc.read_table(path).num_rows == 10
