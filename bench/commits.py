"""How many commits a second: alone, four at once, and eight at once with nothing lost.

lakeplane and PyIceberg on the same kind of SQLite catalog, with metadata files on the same disk; each
measurement in fresh processes and on a new table, lakeplane and PyIceberg in turn, the median of some rounds.
lakeplane syncs every file and every transaction to the disk, PyIceberg only SQLite's transactions. Both make
as many commits: what one of PyIceberg's takes grows with the snapshots that are there. A commit:

- *property*: one more property is set, through the front door of each.
- *snapshot*: a file of 9 bytes is written, and a snapshot is added that names it as its manifest list. So
  neither side writes manifests. PyIceberg has no call for that, and so no retry either.
- *file*: an append of a data file that needs not be written, with its manifest and manifest list. Here
  PyIceberg tries again, too.

What fails, fails after the retries that each does by default. Afterwards lakeplane's table is checked:
every acknowledged commit is in it, exactly once, and nothing else.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from tests.catalog import postgres, rest_fixture
from tests.commits.many_writers import Place, Run, check_exactly_once, make_table, run_lakeplane, start

ALONE, FOUR, EIGHT = (1, 200), (4, 50), (8, 200)
ROUNDS = 3
KINDS = ("property", "snapshot", "file")
PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
TABLE = "shop.busy"

Maker: TypeAlias = Callable[[Path, ExitStack], Place]


def main() -> None:
    """Print commits per second, failures and the slowest commit, and how lakeplane compares."""
    for writers, commits in (ALONE, FOUR):
        theirs: dict[str, list[Run]] = {kind: [] for kind in KINDS}
        ours: dict[str, list[Run]] = {kind: [] for kind in KINDS}
        for _ in range(ROUNDS):
            for kind in KINDS:
                theirs[kind].append(pyiceberg(kind, writers, commits))
                ours[kind].append(checked(sqlite, (kind,), writers, commits))
        for kind in KINDS:
            tell(f"PyIceberg {kind}", writers, theirs[kind])
            tell(f"lakeplane {kind}", writers, ours[kind])
            compare(kind, ours[kind], theirs[kind])
    for make in (filesystem, sqlite, postgresql, rest):
        run = checked(make, ("snapshot", "property"), *EIGHT)
        tell(f"lakeplane on {make.__name__}, each acknowledged commit there once", EIGHT[0], [run])


def compare(what: str, ours: list[Run], theirs: list[Run]) -> None:
    """Print how many times faster lakeplane is, by the clock and by the processor."""
    clock = middle(ours, speed) / max(middle(theirs, speed), 0.001)
    work = middle(theirs, effort) / middle(ours, effort)
    print(f"  {what}: lakeplane is {clock:.1f} times as fast, with 1/{work:.1f} of the processor's time")


def speed(run: Run) -> float:
    """Commits that were acknowledged, per second."""
    return run.per_second


def effort(run: Run) -> float:
    """Milliseconds of the processor for each commit that was acknowledged."""
    return 1000 * run.processor_seconds / max(len(run.acknowledged), 1)


def middle(runs: list[Run], fact: Callable[[Run], float]) -> float:
    """The median of some runs."""
    return statistics.median(map(fact, runs))


def tell(what: str, writers: int, runs: list[Run]) -> None:
    """Print a measurement."""
    waits = [wait for run in runs for wait in run.waits]
    failed = sum(len(run.failed) for run in runs)
    print(
        f"{what}: {writers} at once, {len(waits)} commits: {middle(runs, speed):.1f}/s, {failed} failed"
        f" ({100 * failed / len(waits):.0f} %), processor {middle(runs, effort):.1f} ms a commit,"
        f" median {1000 * statistics.median(waits):.0f} ms, slowest {1000 * max(waits):.0f} ms",
        flush=True,
    )


def checked(make: Maker, kinds: tuple[str, ...], writers: int, commits: int) -> Run:
    """Let lakeplane write, and check what is there."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        place = make(folder, running)
        make_table(place, TABLE)
        run = run_lakeplane(place, TABLE, kinds, writers=writers, commits=commits)
        check_exactly_once(place, TABLE, run)
    return run


def pyiceberg(kind: str, writers: int, commits: int) -> Run:
    """Let PyIceberg write."""
    with tempfile.TemporaryDirectory() as folder:
        shared = {"database": f"{folder}/catalog.db", "warehouse": f"{folder}/warehouse", "kind": kind}
        tasks = [{**shared, "commits": commits, "writer": writer} for writer in range(writers)]
        return start([PEERS, "-m", "bench._pyiceberg_writer"], tasks)


def filesystem(folder: Path, _: ExitStack) -> Place:
    """A directory."""
    return Place(str(folder / "warehouse"), {})


def sqlite(folder: Path, _: ExitStack) -> Place:
    """A SQLite database."""
    return Place(f"sqlite:///{folder}/catalog.db", {"warehouse": str(folder / "warehouse")})


def postgresql(folder: Path, running: ExitStack) -> Place:
    """A PostgreSQL server of its own, which does not sync."""
    server = running.enter_context(postgres.postgres())
    return Place(server.new_database(), {"warehouse": str(folder / "warehouse")})


def rest(folder: Path, running: ExitStack) -> Place:
    """Iceberg's own REST server, from its test fixtures."""
    return Place(running.enter_context(rest_fixture.running_server(folder)), {})
