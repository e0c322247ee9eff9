"""What PyIceberg reads in tables that no catalog holds.

The question is a list of directories or metadata files, and for each whether its rows are wanted, too, and
the options of its store, if it needs some.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyiceberg.table import StaticTable


def facts(place: str, rows: object, options: dict[str, str] | None = None) -> dict[str, Any]:
    """What a table is, by its own words."""
    table = StaticTable.from_metadata(place, options or {})
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
        "rows": sorted(table.scan().to_arrow()["id"].to_pylist()) if rows else None,
    }


json.dump([facts(*each) for each in json.load(sys.stdin)], sys.stdout)
