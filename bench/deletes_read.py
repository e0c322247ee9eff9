"""What deletes cost a scan: 10 million rows in 4 and in 400 files, of which a part is deleted, in three ways.

The limit is the same scan of the same files before anything was deleted, in turn with the scan after it, in
one session; an aggregate of three columns each time. A scan is planned anew each time, and its delete files
are read anew. Beside the seconds stands the time that the processors worked, which others on the machine
disturb less. DuckDB reads the same tables, and is given a minute.
``deletes_read:rows=1000000:files=4,40:rounds=5:kinds=vector`` takes other sizes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench._deleted_tables import KINDS, make
from bench.spark_contest.arena import session
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata
from lakeplane.reading import read_rows
from lakeplane.resources import Resources
from lakeplane.storage.local import LocalStore

PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
PATIENCE = 60
SHARES = (0.001, 0.1)


class Spent(NamedTuple):
    """Seconds on the clock, and of all processors."""

    wall: float
    work: float


def main(*arguments: str) -> None:
    """Print seconds and ratios."""
    options = dict(each.split("=", 1) for each in arguments)
    rows, rounds = int(options.get("rows", "10000000")), int(options.get("rounds", "5"))
    counts = [int(each) for each in options.get("files", "4,400").split(",")]
    kinds = options.get("kinds", ",".join(KINDS)).split(",")
    with tempfile.TemporaryDirectory(prefix="deletes-read-") as scratch:
        spark = session(scratch, **{"spark.driver.memory": "2g"})
        print(f"{rows:,} rows; seconds (of processors), and ratios to the scan without deletes:")
        heads = [f"{each:>16}" for each in ("without", "cold", "warm", "ratio", "DuckDB")]
        print("  files  deleted  by        " + "".join(heads))
        for count in counts:
            for share in SHARES:
                for kind in kinds:
                    measure(spark, Path(scratch, f"{count}-{share}-{kind}"), rows, count, share, kind, rounds)
        spark.stop()


def measure(  # noqa: PLR0917 - what the table is
    spark: Any, folder: Path, rows: int, count: int, share: float, kind: str, rounds: int
) -> None:
    """One row of the table of results."""
    metadata, left = make(folder, rows, count, share, kind)
    table = parse_metadata(Path(metadata.removeprefix("file://")).read_bytes())
    before = table.snapshots[0].snapshot_id

    def scan(at: int | None, expected: int) -> Callable[[], None]:
        return lambda: check(aggregate(spark, table, at), expected)

    scan(before, rows)()
    cold = spent(spark, scan(None, left))
    found = [(spent(spark, scan(before, rows)), spent(spark, scan(None, left))) for _ in range(rounds)]
    without, warm = (best([pair[n] for pair in found]) for n in (0, 1))
    theirs = by_duckdb(metadata, left, rounds)
    ratio = f"{warm.wall / without.wall:.2f} ({warm.work / without.work:.2f})"
    print(
        f"  {count:<7}{share:<9.1%}{kind:10}"
        + "".join(f"{each:>16}" for each in (tell(without), tell(cold), tell(warm), ratio, theirs)),
        flush=True,
    )


def aggregate(spark: Any, table: TableMetadata, at: int | None) -> int:
    """Read three columns of all rows, and tell how many there are."""
    resources = Resources(ManifestCache(), spark=spark)
    frame = read_rows(table, LocalStore(), resources, columns=["id", "k", "v"], at=at)
    return int(frame.selectExpr("sum(id)", "sum(k)", "sum(v)", "count(*)").collect()[0][3])


def check(found: int, expected: int) -> None:
    """A fast scan of other rows is worth nothing."""
    if found != expected:
        sys.exit(f"{found} rows were read, and there are {expected}")


def spent(spark: Any, do: Callable[[], None]) -> Spent:
    """How long something takes."""
    wall, work = time.perf_counter(), working(spark)
    do()
    return Spent(time.perf_counter() - wall, working(spark) - work)


def working(spark: Any) -> float:
    """How long the processors have worked for this process and for Spark."""
    java = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get().toMillis()  # noqa: SLF001
    return time.process_time() + float(java) / 1000


def best(found: list[Spent]) -> Spent:
    """The shortest of each."""
    return Spent(*(float(np.min(each)) for each in zip(*found, strict=True)))


def tell(each: Spent) -> str:
    """Both sorts of seconds."""
    return f"{each.wall:.2f} ({each.work:.2f})"


def by_duckdb(metadata: str, expected: int, rounds: int) -> str:
    """DuckDB's best seconds, or what it says instead."""
    command = [PEERS, "-m", "bench._deleted_by_duckdb", metadata, str(rounds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"> {PATIENCE // rounds}"
    if done.returncode:
        return "fails"
    count, seconds = done.stdout.split()
    return f"{float(seconds):.2f}" if int(count) == expected else f"{count} rows"
