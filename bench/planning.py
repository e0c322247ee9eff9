"""How fast scans are planned: 100,000 files with full statistics of 12 and of 50 columns.

``planning:files=1000000:columns=12:codecs=zstd`` takes other sizes. Each approach runs in processes of its
own and is measured in CPU seconds: lakeplane cold (nothing kept), warm, and after one more small commit;
PyIceberg as it comes and with its collector off; DuckDB's list of all entries, as it shows no plans; and
the limit, which is unpacking the manifests and nothing else. A plan is complete: files with their residuals
and deletes. Beside it, writing manifests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
RUNS = 3


class Query(NamedTuple):
    """A condition, in the words of each."""

    name: str
    spark: str | None
    pyiceberg: str | None


QUERIES = (
    Query("everything", None, None),
    Query(
        "one day",
        "ts >= '2026-01-05' AND ts < '2026-01-06'",
        "ts >= '2026-01-05T00:00:00+00:00' and ts < '2026-01-06T00:00:00+00:00'",
    ),
    Query(
        "0.01 % by statistics",
        "id BETWEEN 20000000000 AND 20010000000",
        "id >= 20000000000 and id <= 20010000000",
    ),
    Query("one region of 20", "region = 'region-03'", "region = 'region-03'"),
    Query("half by statistics", "c01 < 562949953421312", "c01 < 562949953421312"),
)

OURS = """
import json, resource, sys, time
start = time.process_time()
from pathlib import Path
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata_json import parse_metadata
from lakeplane.iceberg.plan import plan
folder, where, runs = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
before, after = (parse_metadata((folder / f"v{n}.metadata.json").read_bytes()) for n in (1, 2))
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def read_many(paths): return [Path(path).read_bytes() for path in paths]
def measure(table, reading):
    begin = time.process_time()
    found = plan(table, reading, where)
    return time.process_time() - begin, found.files.num_rows
reading = Reading(read_many, ManifestCache(4 << 30))
first, files = measure(before, reading)
process = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
warm = min(measure(before, reading)[0] for _ in range(runs))
commit = []
for _ in range(runs):
    reading = Reading(read_many, ManifestCache(4 << 30))
    measure(before, reading), measure(before, reading)
    commit.append(measure(after, reading)[0])
cold = min(measure(before, Reading(read_many, ManifestCache(4 << 30)))[0] for _ in range(runs))
print(json.dumps({"files": files, "process": process, "first": first, "cold": cold, "warm": warm,
                  "commit": min(commit), "peak": peak * 1024}))
"""

LIMIT = """
import json, sys, time
from pathlib import Path
from lakeplane.avro.container import parse_header, unpack_blocks
from lakeplane.avro.limits import DEFAULT_LIMITS
paths = sorted(Path(sys.argv[1], "metadata").glob("00001-*.avro"))
best = 9e9
for _ in range(int(sys.argv[2])):
    begin = time.process_time()
    for path in paths:
        data = memoryview(path.read_bytes())
        for _ in unpack_blocks(data, parse_header(data, DEFAULT_LIMITS), DEFAULT_LIMITS): pass
    best = min(best, time.process_time() - begin)
print(best)
"""

PYICEBERG = """
import gc, json, resource, sys, time
from pyiceberg.table import StaticTable
from pyiceberg.expressions import AlwaysTrue
table = StaticTable.from_metadata(sys.argv[1] + "/v1.metadata.json")
where = json.loads(sys.argv[2])
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[3] == "off": gc.disable()
begin = time.process_time()
files = len(list(table.scan(row_filter=where or AlwaysTrue()).plan_files()))
spent = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
print(json.dumps({"files": files, "cold": spent, "process": time.process_time(), "peak": peak * 1024}))
"""

DUCKDB = """
import sys, time
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
from pathlib import Path
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 1})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    [extension] = Path(module.__file__).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))
begin = time.process_time()
query = "SELECT count(*), sum(record_count) FROM iceberg_metadata(?)"
connection.execute(query, [sys.argv[1] + "/v1.metadata.json"]).fetchall()
print(time.process_time() - begin)
"""


def main(*arguments: str) -> None:
    """Print CPU seconds and ratios."""
    options = dict(each.split("=", 1) for each in arguments)
    files = int(options.get("files", "100000"))
    with tempfile.TemporaryDirectory(prefix="planning-") as scratch:
        for columns in map(int, options.get("columns", "12,50").split(",")):
            for codec in options.get("codecs", "deflate,zstd").split(","):
                folder = Path(scratch, f"{columns}-{codec}")
                make = [
                    sys.executable,
                    "-m",
                    "bench._planning_tables",
                    str(folder),
                    str(files),
                    str(columns),
                    codec,
                ]
                subprocess.run(make, check=True)
                compare(folder, files, f"{files:,} files, {columns} columns, {codec}")
    from bench import _manifest_writing  # noqa: PLC0415  # it is a measurement of its own

    _manifest_writing.main(PEERS)


def compare(folder: Path, files: int, title: str) -> None:
    """Measure all queries on one table."""
    limit = float(run(sys.executable, LIMIT, folder, str(RUNS)))
    print(f"{title}; CPU seconds; unpacking alone takes {limit:.3f}")
    print(
        f"  {'':22}{'kept':>9}{'cold':>9}{'warm':>9}{'commit':>9}"
        f"{'PyIceberg':>11}{'gc off':>8}{'ratio':>7}{'gc off':>8}"
    )
    for query in QUERIES:
        ours = json.loads(run(sys.executable, OURS, folder, json.dumps(query.spark), str(RUNS)))
        question = json.dumps(query.pyiceberg)
        theirs = {gc: json.loads(run(PEERS, PYICEBERG, folder, question, gc)) for gc in ("on", "off")}
        cold, on, off = ours["cold"], theirs["on"]["cold"], theirs["off"]["cold"]
        same = (
            "" if ours["files"] == theirs["on"]["files"] else f"  PyIceberg keeps {theirs['on']['files']:,}"
        )
        print(
            f"  {query.name:22}{ours['files']:>9,}{cold:>9.4f}{ours['warm']:>9.4f}{ours['commit']:>9.4f}"
            f"{on:>11.2f}{off:>8.2f}{on / cold:>6.0f}x{off / cold:>7.0f}x{same}"
        )
        if query.spark is None:
            whole = theirs["on"]["process"]
            print(
                f"    {limit / cold:.0%} of the limit; after a commit {ours['commit'] / cold:.1%}; "
                f"bytes a file {ours['peak'] / files:,.0f}, PyIceberg {theirs['on']['peak'] / files:,.0f}"
            )
            print(
                f"    a whole new process {ours['process']:.2f} s, PyIceberg {whole:.2f} s: "
                f"{whole / ours['process']:.0f}x"
            )
    try:
        print(f"  DuckDB lists all entries in {float(run(PEERS, DUCKDB, folder)):.2f}")
    except subprocess.CalledProcessError as failed:
        print(f"  DuckDB cannot: {failed.stderr.strip().splitlines()[-1][:100]}")


def run(python: str, script: str, folder: Path, *arguments: Any) -> str:
    """Run a script in a fresh process, and give what it prints."""
    command = [python, "-c", script, str(folder), *arguments]
    # With compiled modules kept, as on a machine that is in use.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
