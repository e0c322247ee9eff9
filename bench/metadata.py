"""How fast a table's metadata file is read: 10,000 snapshots, 500 schemas of up to 200 columns.

lakeplane beside PyIceberg (in the oracles' environment) and beside the limit, a bare JSON parse; each in
processes of its own, the best of some runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNS = 5
SNAPSHOTS, SCHEMAS, COLUMNS = 10_000, 500, 200
KINDS = ("long", "string", "timestamptz", "decimal(18,2)", "double")

MEASURE = """
import sys, time
data = open(sys.argv[1], "rb").read()
{prepare}
best = float("inf")
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    {run}
    best = min(best, time.process_time() - start)
print(best)
"""
LIMIT = MEASURE.format(prepare="import msgspec", run="msgspec.json.decode(data)")
OURS = MEASURE.format(
    prepare="from lakeplane.iceberg.metadata_json import parse_metadata", run="parse_metadata(data)"
)
WRITE = MEASURE.format(
    prepare="from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata; "
    "table = parse_metadata(data)",
    run="serialize_metadata(table)",
)
THEIRS = MEASURE.format(
    prepare="from pyiceberg.table.metadata import TableMetadataUtil; text = data.decode()",
    run="TableMetadataUtil.parse_raw(text)",
)


def main() -> None:
    """Print CPU seconds, and how many times faster lakeplane is."""
    peers = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
    with tempfile.TemporaryDirectory() as folder:
        for name, shared in (("columns added one by one", True), ("every schema all new", False)):
            file = Path(folder) / "metadata.json"
            file.write_text(json.dumps(document(shared=shared)))
            limit, ours = measure(sys.executable, LIMIT, file), measure(sys.executable, OURS, file)
            write, theirs = measure(sys.executable, WRITE, file), measure(peers, THEIRS, file)
            print(f"{name}, {file.stat().st_size / 1e6:.1f} MB, CPU seconds, best of {RUNS}:")
            print(f"  bare JSON parse {limit:.3f}  lakeplane read {ours:.3f}  write {write:.3f}")
            print(f"  PyIceberg read {theirs:.3f}: lakeplane is {theirs / ours:.1f} times faster")


def measure(python: str, script: str, file: Path) -> float:
    """Run a measurement in a fresh process."""
    command = [python, "-c", script, str(file), str(RUNS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def document(*, shared: bool) -> dict[str, Any]:
    """A table that was written to and evolved for years."""
    first = 10**12
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://bucket/warehouse/db/table",
        "last-sequence-number": SNAPSHOTS,
        "last-updated-ms": 1_700_000_000_000 + SNAPSHOTS * 1000,
        "last-column-id": COLUMNS,
        "current-schema-id": SCHEMAS - 1,
        "schemas": [schema(number, shared=shared) for number in range(SCHEMAS)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "bench"},
        "current-snapshot-id": first + SNAPSHOTS - 1,
        "refs": {"main": {"snapshot-id": first + SNAPSHOTS - 1, "type": "branch"}},
        "snapshots": [snapshot(first, number) for number in range(SNAPSHOTS)],
        "snapshot-log": [
            {"snapshot-id": first + number, "timestamp-ms": 1_700_000_000_000 + number * 1000}
            for number in range(SNAPSHOTS)
        ],
        "metadata-log": [
            {"metadata-file": f"s3://bucket/metadata/{number:05d}.metadata.json", "timestamp-ms": number}
            for number in range(100)
        ],
    }


def schema(number: int, *, shared: bool) -> dict[str, Any]:
    """One of the schemas: a column more every few evolutions, or all columns commented anew each time."""
    width = COLUMNS - (SCHEMAS - 1 - number) * COLUMNS // (2 * SCHEMAS)
    doc = {} if shared else {"doc": f"as of evolution {number}"}
    fields = [
        {"id": i + 1, "name": f"column_{i}", "required": i == 0, "type": KINDS[i % len(KINDS)], **doc}
        for i in range(width)
    ]
    return {"type": "struct", "schema-id": number, "fields": fields}


def snapshot(first: int, number: int) -> dict[str, Any]:
    """One of the snapshots, with the summary that engines write."""
    parent = {"parent-snapshot-id": first + number - 1} if number else {}
    return {
        "snapshot-id": first + number,
        **parent,
        "sequence-number": number + 1,
        "timestamp-ms": 1_700_000_000_000 + number * 1000,
        "manifest-list": f"s3://bucket/warehouse/db/table/metadata/snap-{first + number}-1-0af5.avro",
        "summary": {
            "operation": "append",
            "added-data-files": "4",
            "added-records": "1000",
            "added-files-size": "123456",
            "changed-partition-count": "1",
            "total-records": str(1000 * number),
            "total-files-size": str(123456 * number),
            "total-data-files": str(4 * number),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
        "schema-id": number * SCHEMAS // SNAPSHOTS,
    }
