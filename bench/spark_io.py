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
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench import _spark_contestants as contestants

KINDS = ("flat", "nested")
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
OLDEST = str(Path(".venv-oldest/bin/python"))


def main(*arguments: str) -> None:
    """Print seconds and ratios."""
    options = dict(each.split("=", 1) for each in arguments)
    rows, files = int(options.get("rows", "10000000")), int(options.get("files", "10000"))
    rounds, kinds = options.get("rounds", "3"), json.dumps(options.get("kinds", ",".join(KINDS)).split(","))
    with tempfile.TemporaryDirectory(prefix="spark-io-") as scratch:
        run(sys.executable, contestants.MAKE, scratch, "1", str(rows))
        found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for python, script, more in (
            (sys.executable, contestants.OURS, ()),
            (PEERS, contestants.PYICEBERG, ()),
            (PEERS, contestants.DUCKDB, ()),
            (OLDEST, contestants.JAR, (runtime(),)),
        ):
            for what, kind, seconds in run(python, script, scratch, rounds, kinds, *more):
                found[kind, what].update(seconds)
        for (kind, what), seconds in sorted(found.items()):
            tell(f"{what} of {rows:,} rows, {kind}", seconds)
        if files:
            many = run(sys.executable, contestants.MANY, scratch, rounds, str(files))
            print(f"{files:,} files of 20 rows, seconds:")
            for name, seconds in many.items():
                print(f"  {name:28}{seconds:10.2f}" if name != "files" else "", end="\n" * (name != "files"))


def tell(title: str, seconds: dict[str, float]) -> None:
    """Print what each took, and how often lakeplane's time fits into it."""
    ours = seconds["lakeplane"]
    print(f"{title}, seconds:")
    for name, spent in seconds.items():
        print(f"  {name:28}{spent:10.2f}{'' if name == 'lakeplane' else f'{spent / ours:10.2f}x'}")


def runtime() -> str:
    """Iceberg's own runtime for Spark, brought by Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("mvn is needed to bring Iceberg's own runtime for Spark")
    get = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    folder = Path(tempfile.mkdtemp(prefix="spark-runtime-"))
    command = [maven, "-q", "-B", get, f"-Dartifact={RUNTIME}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True)
    [jar] = folder.glob("*.jar")
    return str(jar)


def run(python: str, script: str, *arguments: str) -> Any:
    """Run a script in a fresh process, and give what it answers."""
    done = subprocess.run([python, "-c", script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"a contestant failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
