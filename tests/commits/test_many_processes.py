"""F6: eight processes commit to one table at once, through each kind of catalog.

Every acknowledged commit is in the history, exactly once, and nobody gives up. ``bench/commits.py`` does the
same with 200 commits each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.catalog import postgres, rest_fixture
from tests.commits.many_writers import Place, check_exactly_once, make_table, run_lakeplane

WRITERS, COMMITS = 8, 15
BUSY = "shop.busy"


def filesystem(folder: Path, _: ExitStack) -> Place:
    return Place(str(folder / "warehouse"), {})


def sqlite(folder: Path, _: ExitStack) -> Place:
    return Place(f"sqlite:///{folder}/catalog.db", {"warehouse": str(folder / "warehouse")})


def postgresql(folder: Path, running: ExitStack) -> Place:
    try:
        server = running.enter_context(postgres.postgres())
    except postgres.CannotStart as why:
        pytest.skip(f"NOT TESTED on PostgreSQL: {why}")
    return Place(server.new_database(), {"warehouse": str(folder / "warehouse")})


def rest(folder: Path, running: ExitStack) -> Place:
    return Place(running.enter_context(rest_fixture.running_server(folder)), {})


@pytest.mark.parametrize("make", [filesystem, sqlite, postgresql, rest], ids=lambda each: each.__name__)
def test_every_acknowledged_commit_is_there_once(
    tmp_path: Path, make: Callable[[Path, ExitStack], Place]
) -> None:
    with ExitStack() as running:
        place = make(tmp_path, running)
        make_table(place, BUSY)
        run = run_lakeplane(place, BUSY, ("snapshot", "property"), writers=WRITERS, commits=COMMITS)
        assert run.failed == []
        assert len(run.acknowledged) == WRITERS * COMMITS
        check_exactly_once(place, BUSY, run)
