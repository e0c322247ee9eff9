"""How fast Spark reads and writes tables: 10 million rows, flat and nested, and a table of 10,000 files.

The limit is Spark itself on the same files: ``spark.read.parquet`` of a table's data files, and
``df.write.parquet`` of the same frame, in turn with lakeplane in one session, the best of some rounds. Beside
it, in processes of their own on the same tables: PyIceberg (``to_arrow``, ``append``), DuckDB, and Iceberg's
own Spark runtime with the newest Spark that it supports. ``spark_io:rows=1000000:files=1000`` takes other
sizes. A scan reads all columns and throws them away; DuckDB and PyIceberg make an Arrow table of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

KINDS = "flat,nested"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
OLDEST = str(Path(".venv-oldest/bin/python"))


def main(*arguments: str) -> None:
    """Print seconds and ratios."""
    options = dict(each.split("=", 1) for each in arguments)
    rows, files = int(options.get("rows", "10000000")), int(options.get("files", "10000"))
    rounds, kinds = options.get("rounds", "3"), options.get("kinds", KINDS).split(",")
    with tempfile.TemporaryDirectory(prefix="spark-io-") as scratch:
        run(sys.executable, "make_rows", scratch, str(rows))
        asked = scratch, rounds, json.dumps(kinds)
        answers = [
            run(sys.executable, "by_lakeplane", *asked),
            run(PEERS, "by_pyiceberg", *asked),
            run(PEERS, "by_duckdb", *asked),
            run(OLDEST, "by_iceberg_jar", *asked, runtime(scratch)),
        ]
        for kind in kinds:
            for what in ("write", "scan", "aggregate"):
                seconds = [
                    (each, spent) for found in answers for each, spent in found[kind].get(what, {}).items()
                ]
                tell(f"{what} of {rows:,} rows, {kind}", dict(seconds))
        if files:
            found = run(sys.executable, "many_files", scratch, rounds, str(files))
            print(f"{found.pop('files'):,} files of about 20 rows, seconds:")
            for name, spent in found.items():
                print(f"  {name:28}{spent:10.2f}")


def tell(title: str, seconds: dict[str, float]) -> None:
    """Print what each took, and how often lakeplane's time fits into it."""
    print(f"{title}, seconds:")
    for name, spent in seconds.items():
        print(f"  {name:28}{spent:10.2f}{spent / seconds['lakeplane']:10.2f}x")


def runtime(scratch: str) -> str:
    """Iceberg's own runtime for Spark, brought by Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("mvn is needed to bring Iceberg's own runtime for Spark")
    folder = Path(scratch, "jars")
    subprocess.run(
        [maven, "-q", "-B", COPY, f"-Dartifact={RUNTIME}", f"-DoutputDirectory={folder}"], check=True
    )
    [jar] = folder.glob("*.jar")
    return str(jar)


def run(python: str, contestant: str, *arguments: str) -> Any:
    """Run a contestant in a fresh process, and give what it answers."""
    command = [python, "-m", f"bench.spark_contest.{contestant}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{contestant} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
