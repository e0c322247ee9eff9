"""Tables with deletes that DuckDB and PyIceberg read as we say in ``tests.interop.test_plans_of_ours``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeplane
from lakeplane.iceberg.metadata_json import parse_metadata
from lakeplane.iceberg.plan import plan
from lakeplane.spark.read import Access, read_plan
from tests.catalog.rest_fixture import running_server
from tests.interop.peers import ask
from tests.interop.plain_rows import local, reading
from tests.interop.test_plans_of_ours import CONDITIONS, SCENES
from tests.spark.made import local_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITH_DELETES = [name for name in SCENES if "deletes" in name or "vectors" in name or "taken" in name]


@pytest.mark.parametrize("way", [None, "paths"])
@pytest.mark.parametrize("name", WITH_DELETES)
def test_rows_are_those_that_others_find(
    spark: SparkSession, tmp_path: Path, name: str, way: str | None
) -> None:
    metadata, answer, _ = SCENES[name](tmp_path)
    table = parse_metadata(local(metadata).read_bytes(), source=metadata)
    access = Access(local_ranges, hand_over=way)  # type: ignore[arg-type]
    for condition, expected in zip(CONDITIONS, answer, strict=True):
        where = condition or None
        frame = read_plan(spark, plan(table, reading(), where), ["id"], where, access=access)
        assert sorted(row[0] for row in frame.collect()) == expected, condition


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """Tables that DuckDB has made and deleted from, in the catalog of Iceberg's own server."""
    folder = tmp_path_factory.mktemp("rest")
    with running_server(folder) as uri:
        return folder / "wh" / "ns", ask("duckdb_deletes", uri)


@pytest.mark.parametrize("name", ["positions", "positions_parted", "vectors", "vectors_parted"])
def test_rows_that_duckdb_has_deleted(
    spark: SparkSession, duckdb: tuple[Path, dict[str, list[Any]]], name: str
) -> None:
    folder, answers = duckdb
    table = lakeplane.open(max((folder / name / "metadata").glob("*.metadata.json")), spark=spark)
    rows = answers[name]
    assert 3000 < len(rows) < 4000
    assert sorted(map(list, table.read().collect())) == rows
    some = table.read(["name"], "id between 995 and 2004 and part = 'a'")
    assert sorted(some.collect()) == sorted(
        (name,) for number, name, part in rows if 995 <= number <= 2004 and part == "a"
    )
    before = table.metadata.snapshots[1].snapshot_id
    assert table.read(at=before).count() == 5010
