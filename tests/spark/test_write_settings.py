"""Properties of tables that say how files are written, looked for in the files that Spark and Arrow write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest

from lakeplane.errors import InvalidInput
from lakeplane.files.target import WriteTarget
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.types import LONG, STRING, VARIANT, Field, List, Struct
from tests.spark.writing import assert_parted, rows_of, spec_of, target_in, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAT = (Field(1, "id", LONG, required=True), Field(2, "name", STRING))


def test_settings_of_tables_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    target = target_in(
        tmp_path,
        FLAT,
        write__parquet__compression_codec="gzip",
        write__parquet__compression_level="9",
        write__parquet__row_group_size_bytes="100000",
        write__parquet__page_row_limit="1000",
        write__parquet__bloom_filter_enabled__column__id="true",
        write__parquet__stats_enabled__column__name="false",
    )
    df = spark.range(0, 60_000, 1, 1).selectExpr("id", "sha2(string(id), 256) AS name")
    files = written(df, target)
    footer = pq.ParquetFile(files["file_path"][0].as_py()).metadata
    assert footer.num_row_groups > 3
    group = footer.row_group(0)
    assert group.column(0).compression == "GZIP"
    assert group.column(0).is_stats_set
    assert not group.column(1).is_stats_set
    assert len(files["split_offsets"][0].as_py()) == footer.num_row_groups
    assert dict(files["lower_bounds"][0].as_py()).keys() == {1}


def test_settings_of_columns_inside_of_others_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """A list is called by other names in a file than in a table: its filter was left out without a word."""
    fields = (
        Field(1, "l", List(2, LONG)),
        Field(3, "s", Struct((Field(4, "x", STRING),))),
        Field(5, "k", LONG),
    )
    inside = ("l.element", "s.x")
    properties = {
        **{f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in inside},
        **{f"write.parquet.dict-encoding-enabled.column.{name}": "false" for name in inside},
        **{f"write.parquet.stats-enabled.column.{name}": "false" for name in inside},
        "write.parquet.bloom-filter-adaptive-enabled": "true",
    }
    df = spark.range(0, 5000, 1, 1).selectExpr(
        "array(id % 9) AS l", "named_struct('x', string(id % 9)) AS s", "id % 9 AS k"
    )
    for way in ("patched", "arrow"):
        target = with_properties(target_in(tmp_path / way, fields, run_id=way), properties)
        files = written(df, target, way=way)
        path = files["file_path"][0].as_py()
        group = pq.ParquetFile(path).metadata.row_group(0)
        *found, other = (group.column(place) for place in range(3))
        for column in found:
            assert not column.is_stats_set, (way, column.path_in_schema)
            assert "RLE_DICTIONARY" not in column.encodings
            assert "PLAIN_DICTIONARY" not in column.encodings
        assert other.is_stats_set
        assert {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & set(other.encodings)
        assert [each is not None for each in bloom_offsets(path)] == [True, True, False]


def test_a_struct_has_no_bloom_filter(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field(3, "s", Struct((Field(4, "x", STRING),))),)
    properties = {"write.parquet.bloom-filter-enabled.column.s": "true"}
    with pytest.raises(InvalidInput, match="cannot have a Bloom filter"):
        written(
            spark.sql("SELECT named_struct('x', 'a') AS s"),
            with_properties(target_in(tmp_path, fields), properties),
        )


def test_files_of_rebalanced_rows_have_the_size_that_the_table_asks_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    """How much a session brings together decided how many files a partition got, whatever the table said."""
    spec = spec_of((1, "truncate[1000000]"))
    df = spark.range(0, 40_000, 1, 8).selectExpr("id", "sha2(string(id), 256) AS name")
    setting = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "64k")
    try:
        one = written(df, target_in(tmp_path, FLAT, spec))
        asked = {"write.spark.advisory-partition-size-bytes": "65536"}
        many = written(df, with_properties(target_in(tmp_path, FLAT, spec, run_id="run-2"), asked))
        # Shuffles that come before are the user's, and Spark has one size for all of them.
        shuffled = written(df.repartition(4), target_in(tmp_path, FLAT, spec, run_id="run-3"))
        assert spark.conf.get(setting) == "64k"
    finally:
        spark.conf.set(setting, str(before))
    assert one.num_rows == 1
    assert many.num_rows > 2
    assert shuffled.num_rows > 2
    assert rows_of(one).num_rows == rows_of(many).num_rows == 40_000


def test_paths_may_hide_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Where paths shall tell nothing of partitions, Spark's own writer named its directories by them."""
    properties = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
    target = with_properties(target_in(tmp_path, FLAT, spec_of((2, "identity"))), properties)
    files = written(spark.range(9).selectExpr("id", "'secret' AS name"), target)
    assert_parted(files, target)
    assert all("secret" not in path and "=" not in path for path in files["file_path"].to_pylist())


@pytest.mark.parametrize("shredded", [None, "false", "true"])
def test_variants_are_shredded_where_the_table_asks_for_it(
    spark: SparkSession, tmp_path: Path, shredded: str | None
) -> None:
    properties = {} if shredded is None else {"write.parquet.shred-variants": shredded}
    target = with_properties(target_in(tmp_path, (Field(1, "v", VARIANT),)), properties)
    df = spark.range(0, 100, 1, 1).selectExpr("parse_json(concat('{\"a\":', id, '}')) AS v")
    files = written(df, target)
    names = str(pq.ParquetFile(files["file_path"][0].as_py()).schema)
    assert ("typed_value" in names) == (shredded == "true")


def with_properties(target: WriteTarget, properties: dict[str, str]) -> WriteTarget:
    return msgspec.structs.replace(target, properties=FrozenDict(properties))


def bloom_offsets(path: str) -> list[int | None]:
    """Where the Bloom filters of the columns of the first row group lie."""
    footer = pq.ParquetFile(path).metadata.row_group(0)
    found = [footer.column(place) for place in range(footer.num_columns)]
    return [getattr(each, "bloom_filter_offset", None) for each in found]
