"""Metadata tables: what a table knows of itself, as Arrow tables with the columns of Iceberg's own.

Each is made by one of the rooms ``inspect_*``; this one knows their names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa

from lakeplane.errors import InvalidInput
from lakeplane.iceberg import inspect_files, inspect_history
from lakeplane.iceberg.inspect_manifests import all_manifests, manifests
from lakeplane.iceberg.inspect_partitions import partitions
from lakeplane.iceberg.inspect_position_deletes import position_deletes
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETE_MANIFEST
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.time_travel import At, state_at


class _Asked(NamedTuple):
    """What a metadata table is made of; the snapshot is the one that was asked for."""

    table: TableMetadata
    reading: Reading
    snapshot: Snapshot | None
    metadata_location: str | None

    @property
    def listed(self) -> pa.Table:
        """The manifests of the snapshot."""
        return inspect_files.listed_in([self.snapshot], self.reading)

    @property
    def listed_ever(self) -> pa.Table:
        """The manifests of all snapshots."""
        return inspect_files.listed_in(self.table.snapshots, self.reading)


_Make = Callable[[_Asked], pa.Table]


def _files(*contents: int) -> _Make:
    return lambda asked: inspect_files.files(asked.table, asked.listed, asked.reading, contents)


def _all_files(*contents: int) -> _Make:
    return lambda asked: inspect_files.files(asked.table, asked.listed_ever, asked.reading, contents)


_OF_A_SNAPSHOT: Final[dict[str, _Make]] = {
    "entries": lambda asked: inspect_files.entries(asked.table, asked.listed, asked.reading),
    "files": _files(DATA_MANIFEST, DELETE_MANIFEST),
    "data_files": _files(DATA_MANIFEST),
    "delete_files": _files(DELETE_MANIFEST),
    "manifests": lambda asked: manifests(asked.table, asked.snapshot, asked.reading),
    "partitions": lambda asked: partitions(asked.table, asked.snapshot, asked.reading),
    "position_deletes": lambda asked: position_deletes(asked.table, asked.snapshot, asked.reading),
}

_OF_THE_TABLE: Final[dict[str, _Make]] = {
    "snapshots": lambda asked: inspect_history.snapshots(asked.table),
    "history": lambda asked: inspect_history.history(asked.table),
    "refs": lambda asked: inspect_history.refs(asked.table),
    "metadata_log_entries": lambda asked: inspect_history.metadata_log_entries(
        asked.table, asked.metadata_location
    ),
    "all_entries": lambda asked: inspect_files.entries(asked.table, asked.listed_ever, asked.reading),
    "all_files": _all_files(DATA_MANIFEST, DELETE_MANIFEST),
    "all_data_files": _all_files(DATA_MANIFEST),
    "all_delete_files": _all_files(DELETE_MANIFEST),
    "all_manifests": lambda asked: all_manifests(asked.table, asked.reading),
}

NAMES: Final = tuple(sorted({*_OF_A_SNAPSHOT, *_OF_THE_TABLE}))
"""The metadata tables that there are."""


def inspect(
    table: TableMetadata,
    reading: Reading,
    name: str,
    at: At = None,
    *,
    metadata_location: str | None = None,
) -> pa.Table:
    """One of a table's metadata tables, now or (for those of a snapshot) at another state of the table.

    ``metadata_location`` is the file that the metadata is from: the last entry of the metadata log.
    """
    make = _OF_A_SNAPSHOT.get(name) or _OF_THE_TABLE.get(name)
    if make is None:
        hint = f"There is {', '.join(NAMES)}"
        raise InvalidInput(f"no metadata table {name!r:.80}", field="name", hint=hint)
    if at is not None and name in _OF_THE_TABLE:
        hint = f"Those of one snapshot are {', '.join(sorted(_OF_A_SNAPSHOT))}"
        raise InvalidInput(f"{name} is about the whole table, at no time", field="at", hint=hint)
    snapshot = state_at(table, at).snapshot
    return make(_Asked(table, reading, snapshot, metadata_location))
