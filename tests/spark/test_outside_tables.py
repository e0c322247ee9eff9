"""Tables that PyIceberg has made, evolved and written, read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata_json import parse_metadata
from lakeplane.iceberg.plan import plan
from lakeplane.spark.read import Access, read_plan
from tests.interop.peers import ask
from tests.spark.made import local_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return ask("pyiceberg_rows", str(tmp_path_factory.mktemp("peer")))


def read_bytes(paths: Any) -> list[bytes]:
    return [Path(each.removeprefix("file://")).read_bytes() for each in paths]


@pytest.mark.parametrize("name", ["evolved", "partitioned", "added"])
@pytest.mark.parametrize(
    "where", [None, "amount > 3", "name is null", "point.u = 2 or id < 3", "key is not null"]
)
def test_rows_of_pyiceberg(spark: SparkSession, peer: Any, name: str, where: str | None) -> None:
    table = peer[name]
    metadata = parse_metadata(Path(table["metadata"].removeprefix("file://")).read_bytes())
    found = plan(metadata, Reading(read_bytes, ManifestCache()), where)
    frame = read_plan(spark, found, where=where, access=Access(local_ranges))
    text = [f"cast({each} as string)" for each in ("id", "amount", "name", "point.u", "at", "key", "tags[0]")]
    rows = sorted([list(row) for row in frame.selectExpr(*text).collect()], key=lambda row: int(row[0]))
    assert rows == [row for row in table["rows"] if holds(where, row)]
    assert rows or where is not None


def holds(where: str | None, row: list[Any]) -> bool:
    number, amount, name, u, _at, key, _tag = row
    match where:
        case "amount > 3":
            return amount is not None and float(amount) > 3
        case "name is null":
            return name is None
        case "point.u = 2 or id < 3":
            return u == "2" or int(number) < 3
        case "key is not null":
            return key is not None
        case _:
            return True
