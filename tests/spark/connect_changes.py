"""A program: reads the change feed of a table through Spark Connect; the argument is a folder to work in."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

import lakeplane as lp
from lakeplane.row_changing import Mode
from lakeplane.spark.session import is_connect
from tests.remote import remote_session, tell


def main(folder: Path) -> None:
    """Change a table in both modes, and print what the feed says."""
    session = remote_session(folder)
    lake = lp.connect(folder / "warehouse", spark=session)
    lake.create_namespace("shop")
    found: dict[str, object] = {"connect": is_connect(session)}
    modes: list[tuple[int, Mode]] = [(2, "copy-on-write"), (3, "merge-on-read")]
    for version, mode in modes:
        properties = {"format-version": str(version)}
        table = lake.create_table(f"shop.v{version}", "id BIGINT, m MAP<STRING, INT>", properties=properties)
        table.append(
            pa.table({"id": range(5), "m": pa.array([[("a", 1)]] * 5, pa.map_(pa.string(), pa.int32()))})
        )
        first = table.metadata.current_snapshot_id
        table.delete("id = 1", mode=mode)
        table.update({"id": "id + 10"}, "id = 3", mode=mode)
        rows = table.changes(first, columns=["id"]).collect()
        found[mode] = sorted(list(row)[:-1] for row in rows)
        found[f"{mode}, all"] = table.changes(None).count()
    tell(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
