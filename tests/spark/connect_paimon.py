"""A program: reads Paimon tables through Spark Connect, in a process without a classic session.

Arguments are a folder to work in, ``log`` or ``paths``, and the directories of tables. It prints their rows,
with the column ``id`` first, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lakeplane as lp
from lakeplane.spark.session import is_connect


def main(folder: Path, way: str, homes: list[str]) -> None:
    """Read the tables, and print their rows."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    scratch = folder / "scratch"
    scratch.mkdir()
    found: dict[str, Any] = {"connect": is_connect(session)}
    for home in homes:
        table = lp.open(home, spark=session, scratch=scratch if way == "log" else None)
        names = sorted((each.name for each in table.schema.fields), key=lambda name: name != "id")
        found[home] = [list(map(str, row)) for row in table.read(names).collect()]
    json.dump(found, sys.stdout, default=str)
    sys.stdout.flush()
    # The server of this process is not waited for.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
