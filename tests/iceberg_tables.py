"""Tables of Iceberg by their names: a lake may hold others."""

from __future__ import annotations

from lakeplane.lake import Lake
from lakeplane.table import Table


def iceberg(lake: Lake, name: str) -> Table:
    table = lake.table(name)
    assert isinstance(table, Table)
    return table
