"""How fast manifests are written: the same entries, as columns by lakeplane and as objects by PyIceberg."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ENTRIES: Final = 10_000

OURS = """
import sys, time
from pathlib import Path
from bench._planning_tables import columns, entries
from lakeplane.iceberg.manifest_write import Writing, write_manifest
from lakeplane.model.ddl import parse_ddl
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.rules_text import parse_partition_field
from lakeplane.testing.tables import BuiltTable
place, count, width, codec = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
schema = parse_ddl(columns(width))
spec = PartitionSpec(0, tuple(parse_partition_field(rule, schema) for rule in ("region", "days(ts)")))
table = BuiltTable(schema, spec)
made = entries(0, count, width)
writing = Writing(table.metadata, 1, codec)
best = 9e9
for _ in range(5):
    begin = time.process_time()
    data = write_manifest(made, 0, 0, "memory://m.avro", writing).data
    best = min(best, time.process_time() - begin)
place.write_bytes(data)
print(best, len(data))
"""

PYICEBERG = """
import sys, time
import pyiceberg.schema as s, pyiceberg.types as t
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile, write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform
place, count, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rest = (t.NestedField(n, f"c{n}", t.LongType()) for n in range(4, width + 1))
schema = s.Schema(t.NestedField(1, "id", t.LongType()), t.NestedField(2, "ts", t.TimestamptzType()),
                  t.NestedField(3, "region", t.StringType()), *rest)
spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"),
                     PartitionField(2, 1001, DayTransform(), "ts_day"))
io = PyArrowFileIO()
size = len(io.new_input(place))
listed = ManifestFile.from_args(
    manifest_path=place, manifest_length=size, partition_spec_id=0, content=ManifestContent.DATA,
    sequence_number=1, min_sequence_number=1, added_snapshot_id=1, added_files_count=count,
    existing_files_count=0, deleted_files_count=0, added_rows_count=1, existing_rows_count=0,
    deleted_rows_count=0)
made = listed.fetch_manifest_entry(io)
assert len(made) == count
output = io.new_output(place + ".again")
begin = time.process_time()
with write_manifest(2, spec, schema, output, 1, "deflate") as writer:
    for entry in made:
        writer.add(entry)
print(time.process_time() - begin, len(output))
"""


def main(peers: str) -> None:
    """Print CPU seconds for 100,000 entries."""
    print(f"writing manifests, CPU seconds for 100,000 entries (measured on {ENTRIES:,})")
    with tempfile.TemporaryDirectory(prefix="manifests-") as folder:
        for width in (12, 50):
            place = Path(folder, f"{width}.avro")
            ours = {
                codec: measure(sys.executable, OURS, place, width, codec) for codec in ("zstd", "deflate")
            }
            theirs, their_size = measure(peers, PYICEBERG, place, width)
            for codec, (seconds, size) in ours.items():
                print(
                    f"  {width} columns, {codec}: {seconds:.2f} s, {size / 1e6:.0f} MB; PyIceberg, deflate: "
                    f"{theirs:.2f} s, {their_size / 1e6:.0f} MB: {theirs / seconds:.0f}x"
                )


def measure(python: str, script: str, place: Path, *arguments: object) -> tuple[float, float]:
    """Run a script in a fresh process; give seconds and bytes for 100,000 entries."""
    command = [python, "-c", script, str(place), str(ENTRIES), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    told = done.stdout.split()
    scale = 100_000 / ENTRIES
    return float(told[0]) * scale, float(told[1]) * scale
