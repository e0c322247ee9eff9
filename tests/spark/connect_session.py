"""A program: reads a table through Spark Connect, in a process without a classic session.

Arguments are a folder to work in, and ``log`` or ``paths``. It prints what it has read, as JSON.
"""

from __future__ import annotations

import datetime as dt
import gc
import sys
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, TIME, UUID, Field, Struct
from lakeplane.spark.file_list import Scratch
from lakeplane.spark.read import Access
from lakeplane.spark.session import find_session, is_connect
from tests.iceberg.built import Listed
from tests.remote import remote_session, tell
from tests.spark.deleting import delete_by_vectors, delete_equal
from tests.spark.made import MadeTable, local_ranges, rows
from tests.spark.test_other_files import write_own_avro

ID, NAME = Field(1, "id", LONG), Field(2, "name", STRING)
INSIDE = (Field(4, "x", LONG), Field(5, "k", UUID))


def main(folder: Path, way: str) -> None:
    """Build a table, read it in several ways, and print the rows."""
    session = find_session(remote_session(folder))
    scratch = folder / "scratch"
    scratch.mkdir()
    access = Access(local_ranges, Scratch.at(scratch) if way == "log" else None)
    (folder / "data").mkdir()
    table = MadeTable(folder / "data", Schema((ID, NAME, Field(3, "p", Struct(INSIDE)))))
    table.append([{"id": n, "name": f"n{n}", "p": {"x": n, "k": bytes(16)}} for n in range(3)])
    table.evolve(
        ID, Field(3, "name", Struct(INSIDE)), Field(2, "p", STRING), Field(6, "t", TIME, initial_default=1)
    )
    table.add(
        Listed(
            write_own_avro(table, [{"id": 3, "p": "n3", "t": dt.time(0, 0, 1)}]), more={"file_format": "AVRO"}
        )
    )
    found: dict[str, Any] = {
        "connect": is_connect(session),
        "logs": len(list(scratch.iterdir())),
        "all": rows(table.read(session, access=access)),
        "filtered": rows(table.read(session, ["id"], "p = 'n1'", access=access)),
        "later": rows(table.read(session, access=access).where("name.x = 2").select("name.k", "p")),
        "where": rows(table.read(session, ["id", "_pos", "_file", "_row_id"], "id <> 2", access=access)),
    }
    delete_by_vectors(table, {str(folder / "data" / "00001.parquet"): BitMap64([1])})
    delete_equal(table, [{"id": 3, "p": None}, {"id": 0, "p": "n0"}], 1, 2)
    found["left"] = rows(table.read(session, ["id", "_pos"], access=access, placed=True))
    kept = table.read(session, ["id"], "id < 3", access=access)
    derived = kept.where("id = 2")
    found["logs while frames live"] = len(list(scratch.iterdir()))
    del kept
    found["derived"] = rows(derived)
    del derived
    gc.collect()
    found["logs"] = len(list(scratch.iterdir()))
    tell(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
