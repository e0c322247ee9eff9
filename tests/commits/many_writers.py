"""Processes that commit to one table at once, and a check that each acknowledged commit is there once.

Run as a program, it is one of the writers: it gets what to do as JSON, says when it is ready, waits for the
word to start, and tells which commits were acknowledged.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import lakeplane
from lakeplane.catalog.names import parse_name
from lakeplane.errors import LakeplaneError
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.lake import Lake
from lakeplane.table import Table
from tests.commits.worlds import append

TABLE = "shop.busy"
PATIENCE_SECONDS = 600


class Place(NamedTuple):
    """What ``connect`` needs to open a catalog."""

    target: str
    options: dict[str, Any]

    def open(self) -> Lake:
        return lakeplane.connect(self.target, **self.options)


class Run(NamedTuple):
    """What the writers tell: acknowledged commits by id or key, what failed, and how long all of it took."""

    acknowledged: list[str]
    failed: list[str]
    seconds: float
    attempts: int

    @property
    def per_second(self) -> float:
        return len(self.acknowledged) / self.seconds


def make_table(place: Place, **properties: str) -> None:
    """Make the table that is written to; its log names every version, so that they can be counted."""
    lake = place.open()
    with contextlib.suppress(LakeplaneError):
        lake.create_namespace("shop")
    kept = {"write.metadata.previous-versions-max": "100000"}
    lake.create_table(TABLE, "id BIGINT", properties={**kept, **properties})


def write_at_once(command: Sequence[str], tasks: Sequence[dict[str, Any]]) -> Run:
    """Start a process for each task, let them begin together, and gather what they tell."""
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(_writer([*command, json.dumps(task)])) for task in tasks]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        start = time.monotonic()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        told = [json.loads(writer.communicate(timeout=PATIENCE_SECONDS)[0]) for writer in writers]
        seconds = time.monotonic() - start
    assert [writer.returncode for writer in writers] == [0] * len(writers)
    acknowledged = [each for one in told for each in one["acknowledged"]]
    failed = [each for one in told for each in one["failed"]]
    return Run(acknowledged, failed, seconds, sum(one["attempts"] for one in told))


@contextlib.contextmanager
def _writer(command: list[str]) -> Any:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def run_lakeplane(place: Place, kind: str, *, writers: int, commits: int) -> Run:
    """Let processes of ours set properties (``property``) or add snapshots (``snapshot``)."""
    tasks = [
        {"target": place.target, "options": place.options, "kind": kind, "writer": writer, "commits": commits}
        for writer in range(writers)
    ]
    return write_at_once([sys.executable, "-m", "tests.commits.many_writers"], tasks)


def check_exactly_once(place: Place, kind: str, run: Run) -> None:
    """Every acknowledged commit is in the history, exactly once, and nothing else is."""
    table = cast("TableMetadata", place.open().table(TABLE).metadata)
    assert len(set(run.acknowledged)) == len(run.acknowledged)
    if kind == "snapshot":
        history = [] if table.current_snapshot_id is None else table.ancestors(table.current_snapshot_id)
        assert Counter(str(each.snapshot_id) for each in history) == Counter(run.acknowledged)
        assert len(table.snapshots) == len(run.acknowledged)
        assert [each.snapshot_id for each in table.snapshot_log] == [e.snapshot_id for e in table.snapshots]
    else:
        found = sorted(key for key in table.properties if key.startswith("writer-"))
        assert found == sorted(run.acknowledged)
    # The first version is that of the creation; then each commit made one, and no more.
    assert len(table.metadata_log) == len(run.acknowledged)


def _commit(table: Table, task: dict[str, Any], turn: int) -> tuple[str, int]:
    if task["kind"] == "snapshot":
        snapshot_id = uuid.uuid4().int >> 65
        return str(snapshot_id), append(table._catalog, parse_name(TABLE), snapshot_id).attempts
    key = f"writer-{task['writer']}-{turn}"
    with table.evolve() as change:
        change.set_properties({key: "1"})
    assert change.receipt is not None
    return key, change.receipt.attempts


def main(task: dict[str, Any]) -> None:
    """Be one of the writers."""
    table = Place(task["target"], task["options"]).open().table(TABLE)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    acknowledged, failed, attempts = [], [], 0
    for turn in range(task["commits"]):
        try:
            done, tries = _commit(table, task, turn)
        except LakeplaneError as error:
            failed.append(repr(error))
        else:
            acknowledged.append(done)
            attempts += tries
    json.dump({"acknowledged": acknowledged, "failed": failed, "attempts": attempts}, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
