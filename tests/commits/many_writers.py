"""Processes that commit to one table at once, and a check that each acknowledged commit is there once.

Run as a program, it gets tasks as JSON, does each in a process of its own, and tells what was acknowledged.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import lakeplane
from lakeplane.catalog.names import parse_name
from lakeplane.errors import AlreadyExists, LakeplaneError
from lakeplane.iceberg.changes import Append
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.lake import Lake
from lakeplane.table import Table
from tests.commits import at_once
from tests.commits.worlds import append

TIMEOUT_SECONDS = 900


class Place(NamedTuple):
    """What ``connect`` needs to open a catalog."""

    target: str
    options: dict[str, Any]

    @contextlib.contextmanager
    def opened(self) -> Iterator[Lake]:
        lake = lakeplane.connect(self.target, **self.options)
        try:
            yield lake
        finally:
            for each in (lake._catalog, getattr(lake._catalog, "_pointers", None)):
                close = getattr(each, "close", None)
                if close is not None:
                    close()


class Run(NamedTuple):
    """What the writers tell: commits by the id of the snapshot or the key of the property."""

    acknowledged: list[str]
    failed: list[str]
    attempts: list[int]
    """Of each acknowledged commit."""
    waits: list[float]
    """The seconds that each commit took."""
    seconds: float
    processor_seconds: float

    @property
    def per_second(self) -> float:
        return len(self.acknowledged) / self.seconds


def make_table(place: Place, name: str) -> None:
    """Make the table that is written to; its log names every version, so that they can be counted."""
    with place.opened() as lake:
        with contextlib.suppress(AlreadyExists):
            lake.create_namespace("shop")
        kept = {"write.metadata.previous-versions-max": "100000"}
        lake.create_table(name, "id BIGINT", properties=kept)


def start(command: Sequence[str], tasks: Sequence[dict[str, Any]]) -> Run:
    """Run a program that does tasks at once."""
    done = subprocess.run(
        [*command, json.dumps(tasks)], stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS, check=True
    )
    return Run(**json.loads(done.stdout))


def run_lakeplane(place: Place, name: str, kinds: Sequence[str], *, writers: int, commits: int) -> Run:
    """Let processes set properties, add bare snapshots, and append files (``kinds``), in turn."""
    shared = {**place._asdict(), "table": name, "kinds": kinds, "commits": commits}
    return start(
        [sys.executable, "-m", "tests.commits.many_writers"],
        [{**shared, "writer": writer} for writer in range(writers)],
    )


def check_exactly_once(place: Place, name: str, run: Run) -> None:
    """Every acknowledged commit is in the history, exactly once, and nothing else is."""
    with place.opened() as lake:
        table = lake.table(name).metadata
    keys = [each for each in run.acknowledged if each.startswith("writer-")]
    ids = [int(each) for each in run.acknowledged if not each.startswith("writer-")]
    assert sorted(keys) == sorted(key for key in table.properties if key.startswith("writer-"))
    head = table.current_snapshot_id
    history = [] if head is None else [each.snapshot_id for each in table.ancestors(head)]
    assert Counter(history) == Counter(ids)
    assert [entry.snapshot_id for entry in table.snapshot_log] == history[::-1]
    assert len(table.snapshots) == len(ids)
    # The first version is that of the creation; then each commit made one, and no more.
    assert len(table.metadata_log) == len(run.acknowledged)


def _commit(table: Table, kind: str, key: str) -> tuple[str, int]:
    if kind == "file":
        done = table._change(Append(files=(_new_file(table),)))
        return str(done.snapshot_id), done.attempts
    if kind == "snapshot":
        snapshot_id = uuid.uuid4().int >> 65
        return str(snapshot_id), append(table._catalog, parse_name(table.name), snapshot_id).attempts
    with table.evolve() as change:
        change.set_properties({key: "1"})
    assert change.receipt is not None
    return key, change.receipt.attempts


def _new_file(table: Table) -> NewFiles:
    """A data file, of which nothing but the name exists."""
    facts = {
        "file_path": [f"{table.location}/data/{uuid.uuid4()}.parquet"],
        "file_format": ["PARQUET"],
        "record_count": [1],
        "file_size_in_bytes": [1000],
        "partition": pa.array([{}], pa.struct([])),
    }
    return NewFiles(0, pa.table(facts))


def write(task: dict[str, Any], ready: Callable[[], None]) -> at_once.Told:
    """Be one of the writers."""
    told: at_once.Told = {"acknowledged": [], "failed": [], "attempts": [], "waits": []}
    with Place(task["target"], task["options"]).opened() as lake:
        table = lake.table(task["table"])
        assert isinstance(table, Table)
        ready()
        for turn in range(task["commits"]):
            began = time.monotonic()
            try:
                done, tries = _commit(
                    table, task["kinds"][turn % len(task["kinds"])], f"writer-{task['writer']}-{turn}"
                )
            except LakeplaneError as error:
                told["failed"].append(repr(error))
            else:
                told["acknowledged"].append(done)
                told["attempts"].append(tries)
            told["waits"].append(time.monotonic() - began)
    return told


if __name__ == "__main__":
    json.dump(at_once.run(write, json.loads(sys.argv[1])), sys.stdout)
