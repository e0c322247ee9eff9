"""How many commits a second: alone, four at once, and eight at once with nothing lost.

lakeplane and PyIceberg on the same kind of SQLite catalog, with metadata files on the same disk; each
measurement in fresh processes, on a new table, and lakeplane and PyIceberg in turn. lakeplane syncs every
file and every transaction to the disk, PyIceberg syncs SQLite's transactions only. A commit is:

- *property*: one more property is set, through the front door of each.
- *snapshot*: a file of 9 bytes is written, and a snapshot is added that names it as its manifest list. So
  neither side writes manifests. PyIceberg has no call for that, and so no retry either.
- *file*, PyIceberg only: a fast append of a data file that needs not be written, with its manifest and
  manifest list. It has PyIceberg's retries, and is more work than the other two.

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

ALONE, FOUR, EIGHT = (1, 200), (4, 100), (8, 200)
THEIRS = ("property", "snapshot", "file")
PEERS = os.environ.get("LAKEPLANE_ORACLES") or str(Path(".venv-oracles/bin/python"))
TABLE = "shop.busy"

Maker: TypeAlias = Callable[[Path, ExitStack], Place]


def main() -> None:
    """Print commits per second, failures and the slowest commit, and how lakeplane compares."""
    for writers, commits in (ALONE, FOUR):
        ours, theirs = {}, {}
        for kind in THEIRS:
            theirs[kind] = pyiceberg(kind, writers, commits // 2)
            tell(f"PyIceberg {kind}", writers, theirs[kind])
            if kind != "file":
                ours[kind] = checked(sqlite, (kind,), writers, commits)
                tell(f"lakeplane {kind}", writers, ours[kind])
        for kind, run in ours.items():
            ratio = run.per_second / max(theirs[kind].per_second, 0.001)
            print(f"  {kind}: lakeplane is {ratio:.1f} times PyIceberg")
        ratio = ours["snapshot"].per_second / theirs["file"].per_second
        print(f"  lakeplane's snapshot is {ratio:.1f} times PyIceberg's file (less work)")
    for make in (filesystem, sqlite, postgresql, rest):
        run = checked(make, ("snapshot", "property"), *EIGHT)
        tell(f"lakeplane on {make.__name__}, each commit there once", EIGHT[0], run)


def tell(what: str, writers: int, run: Run) -> None:
    """Print a measurement."""
    share = 100 * len(run.failed) / len(run.waits)
    print(
        f"{what}: {writers} at once, {len(run.waits)} commits: {run.per_second:.1f}/s,"
        f" {len(run.failed)} failed ({share:.0f} %), median {1000 * statistics.median(run.waits):.0f} ms,"
        f" slowest {1000 * max(run.waits):.0f} ms",
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
