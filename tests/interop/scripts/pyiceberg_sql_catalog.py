"""PyIceberg's SQL catalog on the file of a catalog that others use too.

The question is ``{"file", "warehouse", "do", …}``: ``make`` namespaces and tables, ``tell`` what is there, or
``change`` a property of a table many times; the answer is what PyIceberg sees, or has acknowledged.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy.exc import OperationalError

question: dict[str, Any] = json.load(sys.stdin)
catalog = SqlCatalog(
    question.get("name", "shared"), uri=f"sqlite:///{question['file']}", warehouse=question["warehouse"]
)


def spaces(under: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for each in catalog.list_namespaces(under):
        found += [each, *spaces(each)]
    return sorted(found)


def tell() -> dict[str, Any]:
    tables = {}
    for space in spaces():
        for name in catalog.list_tables(space):
            table = catalog.load_table(name)
            columns = [field.name for field in table.schema().fields]
            tables["/".join(name)] = [table.metadata_location, columns, dict(table.properties)]
    properties = {"/".join(each): dict(catalog.load_namespace_properties(each)) for each in spaces()}
    return {"namespaces": properties, "tables": tables}


def make() -> None:
    catalog.create_namespace("plain")
    catalog.create_namespace("rich", {"owner": "peer", "ü": "é"})
    catalog.create_namespace(("outer", "inner"))
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    for name in (("plain", "orders"), ("rich", "Orders"), ("outer", "inner", "deep"), ("plain", "gone")):
        catalog.create_table(name, schema)
    catalog.load_table("plain.orders").transaction().set_properties(changed="once").commit_transaction()
    catalog.rename_table("rich.Orders", "rich.o%_'rders")
    catalog.drop_table("plain.gone")


def change(name: str, prefix: str, times: int) -> list[str]:
    done: list[str] = []
    while len(done) < times:
        key = f"{prefix}{len(done)}"
        try:
            catalog.load_table(name).transaction().set_properties({key: "done"}).commit_transaction()
        except (CommitFailedException, OperationalError):
            time.sleep(0.002)
        else:
            done.append(key)
    return done


if question["do"] == "make":
    make()
done = change(question["table"], "theirs", question["times"]) if question["do"] == "change" else []
json.dump({**tell(), "done": done}, sys.stdout)
