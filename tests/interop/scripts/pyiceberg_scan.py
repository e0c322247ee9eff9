"""The ids that PyIceberg finds in Iceberg tables: for each metadata file, for each condition."""

from __future__ import annotations

import json
import sys

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

found = []
for metadata, conditions in json.load(sys.stdin):
    table = StaticTable.from_metadata(metadata)
    scans = [table.scan(row_filter=each or AlwaysTrue()) for each in conditions]
    found.append([sorted(scan.to_arrow()["id"].to_pylist()) for scan in scans])
json.dump(found, sys.stdout)
