"""PyIceberg appends to a table of an SQL catalog, and tells what it sees.

The question is ``{"file", "warehouse", "name", "table", "ids"}``; the answer has the ids of all rows
afterwards, and the summaries of all snapshots.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

question: dict[str, Any] = json.load(sys.stdin)
catalog = SqlCatalog(question["name"], uri=f"sqlite:///{question['file']}", warehouse=question["warehouse"])
table = catalog.load_table(question["table"])
if question["ids"]:
    rows = {"id": pa.array(question["ids"], pa.int64()), "p": pa.array(["theirs"] * len(question["ids"]))}
    table.append(pa.table(rows))
    table = catalog.load_table(question["table"])
summaries = [
    {"operation": each.summary.operation.value, **each.summary.additional_properties}
    for each in table.metadata.snapshots
    if each.summary is not None
]
ids = sorted(table.scan().to_arrow()["id"].to_pylist())
json.dump({"ids": ids, "summaries": summaries}, sys.stdout)
