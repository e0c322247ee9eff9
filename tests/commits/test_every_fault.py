"""F1, F2, F3, F4, F11, F23: every operation, failed at each of its steps in every way, once and for ever.

Afterwards, with a healthy store: the catalog is as before or as after, never between; as after, if the
operation was acknowledged; as before, if it said that nothing had happened; no file of a table is gone; and
who tries again, succeeds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from lakeplane.errors import LakeplaneError, OutcomeUnknown
from lakeplane.testing.faults import (
    EVERY_FAULT,
    Crash,
    Die,
    Fail,
    FailAfter,
    Fault,
    Hide,
    Script,
    Stale,
    Tear,
    Twice,
)
from lakeplane.testing.faults import Operation as Seen
from tests.commits.operations import OPERATIONS, Operation
from tests.commits.worlds import WORLDS, Saved, World, populate, state, without_waiting

UNIQUE = re.compile(r"[0-9a-f-]{36}")
Prepared: TypeAlias = tuple[World, Saved, bool]

SLOW = ("filesystem_on_disk", "pointers_in_sqlite")
FEW: tuple[Fault, ...] = (Fail("trouble"), FailAfter(), Die(), Die(after=True))


def faults_for(step: Seen, *, few: bool) -> tuple[Fault, ...]:
    """What can go wrong with an operation; a lost answer to a question is the same as no answer."""
    match step:
        case Seen("put"):
            torn = () if few or step.condition != "none" else (Tear(0), Tear(1))
            return (*(FEW if few else EVERY_FAULT), *torn)
        case Seen("delete"):
            return FEW if few else (*FEW, Fail("denied"), Twice())
        case Seen("files") if not few:
            return Fail("trouble"), Die(), Hide(1.0), Stale(2)
        case _:
            return (Fail("trouble"),) if few else (Fail("trouble"), Fail("denied"), Die())


@pytest.fixture(scope="module", params=WORLDS, ids=lambda each: each.__name__)
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    folder: Path = tmp_path_factory.mktemp("world")
    world: World = request.param(folder)
    with without_waiting(world.clock):
        populate(world)
        yield world, world.save(), request.param.__name__ in SLOW


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_nothing_is_lost_whatever_step_fails(prepared: Prepared, operation: Operation) -> None:
    world, restore, few = prepared
    if (operation.needs_pointers and world.is_filesystem) or (few and not operation.is_typical):
        return
    restore()
    before, files = state(world), world.files()
    lake, store = world.faulty(None)
    operation.run(lake, world)
    after, steps = state(world), [entry.operation for entry in store.log]
    assert before != after
    problems: list[str] = []
    seen: set[str] = set()
    tries = ((nth, fault) for nth, step in enumerate(steps, 1) for fault in faults_for(step, few=few))
    for (nth, fault), for_ever in itertools.product(tries, (False, True)):
        if for_ever and isinstance(fault, Die):
            continue
        restore()
        problem = _try(
            world,
            operation,
            Script(fault, nth=nth, for_ever=for_ever),
            states=(before, after),
            files=files,
            seen=seen,
        )
        if problem:
            step = steps[nth - 1]
            problems.append(f"{step.name} {step.at} {fault} {for_ever=}: {problem}")
    assert not problems, f"{len(problems)} failures in {len(steps)} steps:\n" + "\n".join(problems[:60])


def _try(
    world: World,
    operation: Operation,
    script: Script,
    *,
    states: tuple[dict[str, Any], dict[str, Any]],
    files: set[str],
    seen: set[str],
) -> str | None:
    before, after = states
    lake, _ = world.faulty(script)
    error: BaseException | None = None
    try:
        operation.run(lake, world)
    except (LakeplaneError, Crash) as caught:
        error = caught
    now = state(world)
    if now not in (before, after):
        return f"neither as before nor as after ({error!r})"
    if error is None and now != after:
        return "acknowledged, and not there"
    if not operation.deletes_files and (gone := files - world.files()):
        return f"deleted {gone}"
    if data := {each for each in files - world.files() if "/data/" in each or "snap-" in each}:
        return f"deleted {data}"
    is_honest = error is None or isinstance(error, (Crash, OutcomeUnknown)) or "is dropped" in str(error)
    if now == after and not is_honest:
        return f"has happened, but said {error!r}"
    shape = UNIQUE.sub("*", " ".join(sorted(world.files())))
    if now == before and shape not in seen:
        seen.add(shape)
        operation.run(world.lake(), world)
        if state(world) != after:
            return "cannot be done again"
    return None
