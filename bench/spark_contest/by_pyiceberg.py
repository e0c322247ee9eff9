"""PyIceberg, reading lakeplane's tables into Arrow and appending to its own."""

from __future__ import annotations

import json
import sys

import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from bench.spark_contest.arena import answer, in_turn, newest

scratch, rounds, kinds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
catalog = SqlCatalog("bench", uri=f"sqlite:///{scratch}/peer.db", warehouse=f"{scratch}/peer")
catalog.create_namespace("bench")


def measure(kind: str) -> dict[str, dict[str, float]]:
    """Scan, then write."""
    table = StaticTable.from_metadata(newest(scratch, kind))
    scan = in_turn(rounds, PyIceberg=lambda: table.scan().to_arrow())
    rows = ds.dataset(f"{scratch}/source/{kind}").to_table()
    mine = catalog.create_table(f"bench.{kind}", rows.schema)
    return {"scan": scan, "write": in_turn(1, PyIceberg=lambda: mine.append(rows))}


answer({each: measure(each) for each in kinds})
