"""One of PyIceberg's writers, for ``commits``; it tells what ``tests.commits.many_writers`` tells."""

from __future__ import annotations

import json
import logging
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from tests.commits import at_once

if TYPE_CHECKING:
    from pyiceberg.table import Table

TABLE = "shop.busy"


def opened(task: dict[str, Any]) -> SqlCatalog:
    """The catalog."""
    return SqlCatalog("bench", uri=f"sqlite:///{task['database']}", warehouse=task["warehouse"])


def set_property(task: dict[str, Any], table: Table, turn: int) -> str:
    """Set one property."""
    key = f"writer-{task['writer']}-{turn}"
    table.transaction().set_properties({key: "1"}).commit_transaction()
    return key


def add_snapshot(_: dict[str, Any], table: Table, __: int) -> str:
    """Write a small file and add a snapshot that names it: what lakeplane's writer does, with their loop."""
    now = table.metadata
    snapshot_id = uuid.uuid4().int >> 65
    listed = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    with table.io.new_output(listed).create() as file:
        file.write(b"manifests")
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=now.current_snapshot_id,
        sequence_number=now.last_sequence_number + 1,
        timestamp_ms=now.last_updated_ms + 1,
        manifest_list=listed,
        summary=Summary(Operation.APPEND),
        schema_id=now.current_schema_id,
    )
    ref = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)
    held = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=now.current_snapshot_id)
    with table.transaction() as change:
        change._apply((AddSnapshotUpdate(snapshot=snapshot), ref), (held,))  # noqa: SLF001
    return str(snapshot_id)


def append_file(task: dict[str, Any], table: Table, turn: int) -> str:
    """Append a data file that is there already: writes a manifest and a manifest list."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{task['writer']}-{turn}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10,
        file_size_in_bytes=1000,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)
        return str(append.snapshot_id)


KINDS: dict[str, Callable[[dict[str, Any], Table, int], str]] = {
    "property": set_property,
    "snapshot": add_snapshot,
    "file": append_file,
}


def write(task: dict[str, Any], ready: Callable[[], None]) -> at_once.Told:
    """Commit as often as the task says; a commit that fails has failed, as it has for users."""
    told: at_once.Told = {"acknowledged": [], "failed": [], "attempts": [], "waits": []}
    table = opened(task).load_table(TABLE)
    ready()
    for turn in range(task["commits"]):
        began = time.monotonic()
        try:
            told["acknowledged"].append(KINDS[task["kind"]](task, table, turn))
        except Exception as error:  # noqa: BLE001 - whatever users would see
            told["failed"].append(f"{type(error).__name__}: {error}"[:200])
            table.refresh()
        told["waits"].append(time.monotonic() - began)
    return told


def main(tasks: list[dict[str, Any]]) -> None:
    """Make the table, and write to it."""
    logging.disable()
    Path(tasks[0]["warehouse"]).mkdir()
    catalog = opened(tasks[0])
    catalog.create_namespace("shop")
    kept = {"write.metadata.previous-versions-max": "100000"}
    catalog.create_table(TABLE, Schema(NestedField(1, "id", LongType())), properties=kept)
    catalog.engine.dispose()
    json.dump(at_once.run(write, tasks), sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
