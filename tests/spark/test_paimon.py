"""Tables that other writers of Paimon have made, read through the front door."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeplane as lp
from tests.paimon.stored import NAMES, stored
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
