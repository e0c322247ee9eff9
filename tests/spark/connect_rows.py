"""A program: change rows of tables through Spark Connect, and print what is left.

A process is either a classic one or one of Connect, so that this needs one of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import lakeplane as lp
from lakeplane.errors import InvalidInput
from lakeplane.spark.session import is_connect

if TYPE_CHECKING:
    from lakeplane.table import Table


def main(folder: str) -> None:
    """Delete, update and merge in both modes, with rows of this process, of the server, and random ones."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    assert is_connect(session)
    scratch = Path(folder) / "scratch"
    scratch.mkdir()
    lake = lp.connect(f"{folder}/warehouse", spark=session, scratch=str(scratch))
    lake.create_namespace("shop")
    answers = {}
    for mode in ("copy-on-write", "merge-on-read"):
        properties = {"format-version": "3"} | {
            f"write.{each}.mode": mode for each in ("delete", "update", "merge")
        }
        table = lake.create_table(
            f"shop.{mode.replace('-', '_')}", "id BIGINT, v STRING", properties=properties
        )
        table.append(pa.table({"id": list(range(8)), "v": [f"v{n}" for n in range(8)]}))
        answers[mode] = changed(table, session)
    session.stop()
    sys.stdout.write(f"\nANSWER {json.dumps(answers)}\n")


def changed(table: Table, session: Any) -> dict[str, Any]:
    """What is left of a table."""
    ids = {row.id: row._row_id for row in table.read(["id", "_row_id"]).collect()}
    table.delete("id = 0")
    table.update({"v": "concat(v, '!')"}, "id < 3")
    source = session.range(2, 4).selectExpr("id", "'s' AS v")
    merging = table.merge(source, "t.id = s.id").when_matched_update()
    merging.when_not_matched_by_source_delete("t.id = 7").execute()
    here = pa.table({"id": [4, 9], "v": ["h", "h"]})
    table.merge(here, "t.id = s.id").when_matched_update({"v": "s.v"}).when_not_matched_insert().execute()
    refused = ""
    try:
        twice = pa.table({"id": [4, 4], "v": ["x", "y"]})
        table.merge(twice, "t.id = s.id").when_matched_update().execute()
    except InvalidInput as error:
        refused = str(error)
    rows = {row.id: row.v for row in table.read().collect()}
    kept = {row.id: row._row_id for row in table.read(["id", "_row_id"]).collect()}
    chance = session.range(100).selectExpr("IF(rand() < 0.5, id, id + 1000) AS id", "'r' AS v")
    table.merge(chance, "t.id = s.id").when_matched_delete().when_not_matched_insert().execute()
    after = [row.id for row in table.read().collect()]
    return {
        "rows": rows,
        "refused": refused,
        "kept": all(kept[each] == ids[each] for each in kept if each in ids),
        "once": len(after) == len(set(after)),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
