"""A program: reads Paimon tables through Spark Connect, in a process without a classic session.

Arguments are a folder to work in, ``log`` or ``paths``, and the directories of tables. It prints their rows,
with the column ``id`` first, as JSON.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lakeplane as lp
from lakeplane.spark.session import is_connect
from tests.remote import remote_session, tell


def main(folder: Path, way: str, homes: list[str]) -> None:
    """Read the tables, and print their rows."""
    session = remote_session(folder)
    scratch = folder / "scratch"
    scratch.mkdir()
    found: dict[str, Any] = {"connect": is_connect(session)}
    for home in homes:
        table = lp.open(home, spark=session, scratch=scratch if way == "log" else None)
        names = sorted((each.name for each in table.schema.fields), key=lambda name: name != "id")
        found[home] = [list(map(str, row)) for row in table.read(names).collect()]
    tell(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
