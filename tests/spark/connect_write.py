"""A program: write tables through Spark Connect, and print what came of it.

A process is either a classic one or one of Connect, so that this needs one of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from lakeplane.errors import InvalidInput
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import parse_transform
from lakeplane.model.types import INT, LONG, STRING, UUID, Decimal, Field, List, Map, Struct
from lakeplane.spark.session import is_connect
from tests.spark.programs import answer
from tests.spark.writing import assert_parted, rows_of, spec_of, target_in, written

if TYPE_CHECKING:
    from lakeplane.files.target import WriteTarget

ORDER = SortOrder(1, (SortField((2,), parse_transform("identity"), "asc", "nulls-first"),))


def main(folder: str) -> None:
    """Write natively, with ids in footers, with Arrow and with an Arrow function; then what is refused."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    assert is_connect(session)
    root = Path(folder)
    df = session.range(0, 60, 1, 2).selectExpr(
        *("id", "IF(id % 7 = 0, NULL, concat('é', id)) AS s", "CAST(id AS DECIMAL(30,2)) AS d"),
        *("array(named_struct('x', id)) AS l", "map(s, 1) AS m"),
    )
    fields = (Field(1, "id", LONG, required=True), Field(2, "s", STRING), Field(3, "d", Decimal(30, 2)))
    inside = (Field(4, "l", List(5, Struct((Field(6, "x", INT),)))), Field(7, "m", Map(8, STRING, 9, LONG)))
    spec = spec_of((2, "truncate[2]"), (3, "bucket[4]"), (1, "bucket[2]"))
    targets = {
        "native": target_in(root / "native", fields, spec, order=ORDER),
        "patched": target_in(root / "patched", (*fields, *inside), spec),
        "arrow": target_in(root / "arrow", (*fields, Field(10, "u", UUID)), spec),
    }
    frames = {
        "native": df.drop("l", "m"),
        "patched": df.where("s IS NOT NULL"),
        "arrow": df.drop("l", "m").selectExpr("*", f"X'{'0a' * 16}' AS u"),
    }
    counts = {way: _count(frames[way], target) for way, target in targets.items()}
    try:
        written(session.range(1).selectExpr("CAST(NULL AS BIGINT) AS id"), targets["native"])
    except InvalidInput as refused:
        counts["refused"] = str(refused)
    session.stop()
    answer(counts)


def _count(df: object, target: WriteTarget) -> object:
    files = written(df, target)  # type: ignore[arg-type]
    assert_parted(files, target)
    return rows_of(files).num_rows


if __name__ == "__main__":
    main(*sys.argv[1:])
