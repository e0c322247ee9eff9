"""F1: a process that commits is killed at any moment, as the system kills it: without a word."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeplane.catalog.names import parse_name
from tests.commits.many_writers import Place, make_table
from tests.commits.worlds import append

KILLS = 4
BUSY = "shop.busy"

WRITER = """
import json, sys, uuid
from lakeplane.catalog.names import parse_name
from tests.commits.many_writers import Place
from tests.commits.worlds import append
with Place(*json.loads(sys.argv[1])).opened() as lake:
    while True:
        snapshot_id = uuid.uuid4().int >> 65
        print("trying", snapshot_id, flush=True)
        append(lake._catalog, parse_name("shop.busy"), snapshot_id)
        print("done", snapshot_id, flush=True)
"""


def directory(folder: Path) -> Place:
    return Place(str(folder / "warehouse"), {})


def sqlite(folder: Path) -> Place:
    return Place(f"sqlite:///{folder}/catalog.db", {"warehouse": str(folder / "warehouse")})


def told_before_death(place: Place, seconds: float) -> tuple[set[int], set[int]]:
    """What a writer said that it tried, and that it had done, before it was killed."""
    command = [sys.executable, "-c", WRITER, json.dumps(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        lines = [line.split() for line in (first + writer.stdout.read()).splitlines()]
    tried, done = ({int(line[1]) for line in lines if line[0] == word} for word in ("trying", "done"))
    return tried, done


@pytest.mark.parametrize("make", [directory, sqlite], ids=lambda each: each.__name__)
def test_what_a_killed_writer_acknowledged_is_there_and_others_go_on(
    tmp_path: Path, make: Callable[[Path], Place]
) -> None:
    place, chance = make(tmp_path), random.Random()
    make_table(place, BUSY)
    tried, done = set[int](), set[int]()
    for turn in range(1, KILLS + 1):
        now = told_before_death(place, 0.05 + chance.random() / 4)
        tried |= now[0]
        done |= now[1]
        with place.opened() as lake:
            table = lake.table(BUSY).metadata
            head = table.current_snapshot_id
            found = set() if head is None else {each.snapshot_id for each in table.ancestors(head)}
            mine = {own for own in found if own < KILLS + 1}
            assert done <= found - mine <= tried
            assert mine == set(range(1, turn))
            append(lake._catalog, parse_name(BUSY), turn)
    assert done, "the writers were killed before they had done anything"
