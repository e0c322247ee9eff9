"""What PyIceberg reads in tables that no catalog holds.

The question is a list of directories or metadata files, and for each whether its rows are wanted, too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyiceberg.table import StaticTable


def facts(place: str, *, with_rows: bool) -> dict[str, Any]:
    """What a table is, by its own words."""
    table = StaticTable.from_metadata(place)
    return {
        "metadata-location": table.metadata_location,
        "uuid": str(table.metadata.table_uuid),
        "format-version": table.metadata.format_version,
        "location": table.location(),
        "properties": table.properties,
        "columns": [[field.field_id, field.name, str(field.field_type)] for field in table.schema().fields],
        "snapshots": [snapshot.snapshot_id for snapshot in table.snapshots()],
        "refs": {name: ref.snapshot_id for name, ref in table.refs().items()},
        "log": [entry.metadata_file for entry in table.metadata.metadata_log],
        "rows": sorted(table.scan().to_arrow()["id"].to_pylist()) if with_rows else None,
    }


json.dump([facts(place, with_rows=rows) for place, rows in json.load(sys.stdin)], sys.stdout)
