"""How fast manifests are written: entries as columns by lakeplane, as objects by PyIceberg, who is given them made."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

ENTRIES: Final = 10_000

OURS = """
import sys, time
from bench._planning_tables import columns, entries
from lakeplane.iceberg.manifest_write import Writing, write_manifest
from lakeplane.model.ddl import parse_ddl
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.rules_text import parse_partition_field
from lakeplane.testing.tables import BuiltTable
count, width, codec = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
schema = parse_ddl(columns(width))
spec = PartitionSpec(0, tuple(parse_partition_field(rule, schema) for rule in ("region", "days(ts)")))
table = BuiltTable(schema, spec)
made = entries(0, count, width)
writing = Writing(table.metadata, 1, codec)
best = 9e9
for _ in range(3):
    begin = time.process_time()
    size = len(write_manifest(made, 0, 0, "memory://m.avro", writing).data)
    best = min(best, time.process_time() - begin)
print(best, size)
"""

PYICEBERG = """
import sys, tempfile, time
from pathlib import Path
import pyiceberg.schema as s, pyiceberg.types as t
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
count, width = int(sys.argv[1]), int(sys.argv[2])
schema = s.Schema(t.NestedField(1, "id", t.LongType()), t.NestedField(2, "ts", t.TimestamptzType()),
                  t.NestedField(3, "region", t.StringType()),
                  *(t.NestedField(n, f"c{n}", t.LongType()) for n in range(4, width + 1)))
spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), PartitionField(2, 1001, DayTransform(), "ts_day"))
ids = range(1, width + 1)
made = [ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=DataFile.from_args(
    content=DataFileContent.DATA, file_path=f"s3://warehouse-bucket/warehouse/events/data/day=20454/region=r00/{n:05}-4611686018427387904-0-00001-4f1c2b7e.parquet",
    file_format=FileFormat.PARQUET, partition=Record(f"region-{n % 20:02}", 20454), record_count=1_000_000 + n,
    file_size_in_bytes=40_000_000 + n, column_sizes={i: 9_000_000 - n * i for i in ids}, value_counts={i: 1_000_000 + n for i in ids},
    null_value_counts={i: n % 100 for i in ids}, nan_value_counts={}, lower_bounds={i: (n * i * 7919).to_bytes(8, "little") for i in ids},
    upper_bounds={i: (n * i * 7919 + 5_000_000).to_bytes(8, "little") for i in ids}, split_offsets=[4, 134217732], sort_order_id=0))
    for n in range(count)]
with tempfile.TemporaryDirectory() as folder:
    output = PyArrowFileIO().new_output(f"{folder}/m.avro")
    begin = time.process_time()
    with write_manifest(2, spec, schema, output, 1, "deflate") as writer:
        for entry in made:
            writer.add_entry(entry)
    print(time.process_time() - begin, len(output))
"""


def main(peers: str) -> None:
    """Print CPU seconds for 100,000 entries."""
    print(f"writing manifests, CPU seconds for 100,000 entries (measured on {ENTRIES:,})")
    for width in (12, 50):
        ours = {codec: measure(sys.executable, OURS, width, codec) for codec in ("deflate", "zstd")}
        theirs, their_size = measure(peers, PYICEBERG, width)
        for codec, (seconds, size) in ours.items():
            print(
                f"  {width} columns, {codec}: {seconds:.2f}, {size / 1e6:.0f} MB; "
                f"PyIceberg (deflate) {theirs:.2f}, {their_size / 1e6:.0f} MB: {theirs / seconds:.0f}x"
            )


def measure(python: str, script: str, *arguments: object) -> tuple[float, float]:
    """Run a script in a fresh process; give seconds and bytes for 100,000 entries."""
    command = [python, "-c", script, str(ENTRIES), *map(str, arguments)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    scale = 100_000 / ENTRIES
    return float(told[0]) * scale, float(told[1]) * scale
