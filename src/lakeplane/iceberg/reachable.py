"""All files that a table names: what it may own, and what must not be deleted while it needs it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.iceberg.manifest_list import NO_MANIFESTS, each_once
from lakeplane.iceberg.manifest_scan import Reading, list_manifests, scan
from lakeplane.iceberg.metadata import TableMetadata


def reachable(table: TableMetadata, reading: Reading) -> Iterator[str]:
    """The locations of all files of all snapshots, each at least once: rows first, then what names them.

    The metadata file itself is not among them, but those before it, as far as its log tells.
    """
    lists = [list_manifests(each, reading) for each in table.snapshots]
    listed = each_once(pa.concat_tables(lists)) if lists else NO_MANIFESTS
    for stack in scan(listed, np.ones(listed.num_rows, np.bool_), table, reading):
        yield from pc.unique(stack.files["file_path"]).to_pylist()
    yield from listed["manifest_path"].to_pylist()
    yield from (each.manifest_list for each in table.snapshots if each.manifest_list is not None)
    yield from (each.statistics_path for each in table.statistics)
    yield from (each.statistics_path for each in table.partition_statistics)
    yield from (each.metadata_file for each in table.metadata_log)
