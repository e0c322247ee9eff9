"""How fast rows of a table are changed: delete, update and merge of scattered rows, in both modes.

The limit is Spark itself doing the work that cannot be spared, on the same files: finding rows, and writing
what has to be written. Beside it, in processes of their own on tables with the same rows: Iceberg's own Spark
runtime with the newest Spark that it supports, DuckDB on a table of its own format, and PyIceberg's own
``upsert`` (of the smallest share, given ``patience`` seconds). After each change the table is read, and goes
back to its start. ``row_changes:rows=1000000:shares=1,10:version=2`` takes other sizes; shares are
thousandths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.spark_io import runtime

PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
OLDEST = str(Path(".venv-oldest/bin/python"))


def main(*arguments: str) -> None:
    """Print seconds and ratios."""
    options = dict(each.split("=", 1) for each in arguments)
    rows, rounds, version = (
        options.get("rows", "10000000"),
        options.get("rounds", "2"),
        options.get("version", "3"),
    )
    shares = json.dumps([int(each) for each in options.get("shares", "1,10,100").split(",")])
    with tempfile.TemporaryDirectory(prefix="row-changes-") as scratch:
        run(sys.executable, "spark_contest.make_rows", scratch, rows)
        found = [
            run(sys.executable, "row_contest.by_lakeplane", scratch, rounds, shares, version),
            run(OLDEST, "row_contest.by_iceberg_jar", scratch, rounds, shares, version, runtime(scratch)),
            run(PEERS, "row_contest.by_duckdb", scratch, rounds, shares),
        ]
        if patience := float(options.get("patience", "600")):
            found.append(run(PEERS, "row_contest.by_pyiceberg", scratch, shares, patience=patience))
        print(f"{int(rows):,} rows, v{version}: seconds of the change, and of a read afterwards")
        for cell in found[0]:
            tell(cell, {name: each for answer in found for name, each in answer.get(cell, {}).items()})


def tell(cell: str, spent: dict[str, dict[str, float]]) -> None:
    """Print what each took, and how often lakeplane's time fits into it."""
    print(f"{cell}:")
    ours = spent["lakeplane"]["change"]
    for name, each in spent.items():
        read = f"{each['read']:10.2f}" if each.get("read", 0) > 0.001 else ""  # noqa: PLR2004 - who reads at all
        print(f"  {name:28}{each['change']:10.2f}{each['change'] / ours:10.2f}x{read}")


def run(python: str, contestant: str, *arguments: str, patience: float | None = None) -> Any:
    """Run a contestant in a fresh process, and give what it answers."""
    command = [python, "-m", f"bench.{contestant}", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
    except subprocess.TimeoutExpired:
        print(f"{contestant} gave no answer in {patience} s")
        return {}
    if done.returncode:
        sys.exit(f"{contestant} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
