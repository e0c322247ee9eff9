from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as s

from lakeplane.errors import InvalidLocation, InvalidMetadata
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, Field
from lakeplane.spark import file_list
from lakeplane.spark.file_list import (
    FileList,
    HandOver,
    Scratch,
    find_way,
    load,
    takes_files_from_logs,
    to_uri,
)
from lakeplane.spark.session import read_by_id
from tests.spark.made import MadeTable, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = s.StructType([s.StructField("id", s.LongType(), metadata={"parquet.field.id": 1})])
NAMES = [
    "plain.parquet",
    ".hid/y z.parquet",
    "k=5/a%2Fb.parquet",
    "{a}[b]*?.parquet",
    "é+ü.parquet",
    "a\"b'#&.parquet",
]


@pytest.fixture
def files(tmp_path: Path) -> FileList:
    paths = []
    for n, name in enumerate(NAMES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table([pa.array([n])], pa.schema([field])), path)
        paths.append(str(path))
    return FileList(paths, [Path(each).stat().st_size for each in paths], range(10, 10 + len(paths)))


@pytest.mark.parametrize("way", ["log", "paths"])
def test_any_name_reaches_spark_as_it_is(spark: SparkSession, files: FileList, way: HandOver) -> None:
    read_by_id(spark)
    loaded = load(spark, files, "parquet", SCHEMA, hand_over=way)
    found = rows(loaded.frame.select("id", loaded.file_key))
    assert found == [(n, loaded.keys[n]) for n in range(len(NAMES))]
    assert loaded.frame.columns == ["id"]
    assert (loaded.keys == files.numbers) == (way == "log")


def test_the_log_is_taken_and_gone_at_once(spark: SparkSession, files: FileList, tmp_path: Path) -> None:
    read_by_id(spark)
    assert find_way(spark) == "log"
    folder = tmp_path / "scratch"
    folder.mkdir()
    loaded = load(spark, files, "parquet", SCHEMA, scratch=Scratch.at(folder))
    assert list(folder.iterdir()) == []
    assert loaded.frame.count() == len(NAMES)
    assert loaded.frame.where("id = 3").count() == 1


def test_a_spark_without_logs_is_given_paths(spark: SparkSession, files: FileList, monkeypatch: Any) -> None:
    """Files of a log that is not understood would be no rows, and no error."""

    def load_as_a_folder(*_arguments: Any, **_more: Any) -> Any:
        empty = spark.createDataFrame([], SCHEMA)
        return file_list.Loaded(empty, "log", empty["id"], [])

    assert takes_files_from_logs(spark)
    assert not takes_files_from_logs(spark, load=load_as_a_folder)
    monkeypatch.setattr(file_list, "_KNOWN", {})
    monkeypatch.setattr(file_list, "takes_files_from_logs", lambda *_arguments: False)
    loaded = load(spark, files, "parquet", SCHEMA)
    assert loaded.hand_over == "paths"
    before = spark.conf.get(file_list.LISTED_ONE_BY_ONE)
    assert loaded.frame.count() == len(NAMES)
    assert spark.conf.get(file_list.LISTED_ONE_BY_ONE) == before


def test_ten_thousand_files_are_neither_listed_nor_looked_at(spark: SparkSession) -> None:
    """None of them exists: whoever looks at one fails."""
    count = 10_000
    paths = [f"/nowhere/at/all/{n:05}.parquet" for n in range(count)]
    load(spark, FileList(paths[:1], [1000], [0]), "parquet", SCHEMA)
    began = time.monotonic()
    loaded = load(spark, FileList(paths, [1000] * count, range(count)), "parquet", SCHEMA)
    took = time.monotonic() - began
    assert len(loaded.frame.inputFiles()) == count
    assert loaded.frame.schema == SCHEMA
    # One call of 1 ms for each file would be 10 s.
    assert took < 8
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        loaded.frame.collect()


def test_files_that_are_gone_are_an_error_always(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((Field(1, "id", LONG),)))
    table.append([{"id": 1}])
    table.append([{"id": 2}])
    (tmp_path / "00001.parquet").unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            table.read(spark).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@pytest.mark.parametrize("name", ["_hidden.parquet", ".hidden.parquet"])
def test_names_that_spark_takes_for_hidden(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Spark read no rows of them, and said nothing."""
    table = MadeTable(tmp_path, Schema((Field(1, "id", LONG),)))
    table.add(table.write([{"id": 1}], name))
    if tuple(map(int, spark.version.split(".")[:2])) >= (4, 3):
        assert rows(table.read(spark)) == [(1,)]
    else:
        with pytest.raises(Exception, match=f"{name}: .* reads no file whose name begins"):
            table.read(spark)


def test_a_file_without_a_size_would_be_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidMetadata, match="its size is said to be 0"):
        load(spark, FileList([str(tmp_path / "a")], [0], [0]), "parquet", SCHEMA)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a/b.parquet", "file:///a/b.parquet"),
        ("file:/a/b.parquet", "file:///a/b.parquet"),
        ("file:///a/b c%20.parquet", "file:///a/b%20c%2520.parquet"),
        ("s3://bucket/k=1/é.parquet", "s3://bucket/k=1/%C3%A9.parquet"),
        ("s3a://bucket//x.parquet", "s3a://bucket//x.parquet"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
    ],
)
def test_uris(path: str, uri: str) -> None:
    assert to_uri(path) == uri


@pytest.mark.parametrize(
    "path", ["/a/../b", "/a/./b", "relative", "s3://b/%2e%2e/x", "file://host/x", "/a\nb", ""]
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(InvalidLocation):
        to_uri(path)


def test_schemes_are_called_what_spark_calls_them(spark: SparkSession) -> None:
    files = FileList(["s3://bucket/a b.parquet"], [5], [0])
    renamed = load(spark, files, "parquet", SCHEMA, schemes={"s3": "s3a"})
    assert renamed.frame.inputFiles() == ["s3a://bucket/a%20b.parquet"]
