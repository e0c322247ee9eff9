"""What keeps the pointers fails: before, after, without an answer, once or for ever, at each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lakeplane.catalog.pointers import Pointers
from lakeplane.errors import CatalogUnavailable, LakeplaneError, OutcomeUnknown
from tests.commits.operations import OPERATIONS, Operation
from tests.commits.worlds import Saved, World, pointers_in_memory, populate, state, without_waiting

WRITES = ("swap", "rename", "drop", "create_namespace", "change_namespace", "drop_namespace")
HOW = ("unavailable", "unknown before", "unknown after")


class FailingPointers:
    """Pointers whose N-th call fails; ``for_ever``: and all after it."""

    def __init__(self, inner: Pointers, nth: int = 0, how: str = "", *, for_ever: bool = False) -> None:
        self._inner, self._nth, self._how, self._for_ever = inner, nth, how, for_ever
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.calls.append(name)
            number = len(self.calls)
            if self._nth and (number == self._nth or (self._for_ever and number > self._nth)):
                if name not in WRITES or self._how == "unavailable":
                    raise CatalogUnavailable("injected: no connection")
                if self._how == "unknown after":
                    getattr(self._inner, name)(*given)
                raise OutcomeUnknown("injected: the answer was lost")
            return getattr(self._inner, name)(*given)

        return call


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Saved]]:
    folder: Path = tmp_path_factory.mktemp("world")
    world = pointers_in_memory(folder)
    with without_waiting(world.clock):
        populate(world)
        yield world, world.save()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_nothing_is_lost_whatever_call_fails(prepared: tuple[World, Saved], operation: Operation) -> None:
    world, restore = prepared
    restore()
    before, files = state(world), world.files()
    counted = FailingPointers(cast("Pointers", world.pointers))
    operation.run(_lake(world, counted), world)
    after = state(world)
    for nth, name in enumerate(counted.calls, 1):
        for how in HOW if name in WRITES else HOW[:1]:
            for for_ever in (False, True):
                restore()
                place = f"{nth}: {name}, {how}, {for_ever=}"
                error = _fails(world, operation, (nth, how, for_ever))
                now = state(world)
                assert now in (before, after), f"{place}: neither as before nor as after"
                assert error is not None or now == after, f"{place}: acknowledged, and not there"
                said_nothing_happened = error is not None and not isinstance(error, OutcomeUnknown)
                assert not said_nothing_happened or now == before, (
                    f"{place}: has happened, but said {error!r}"
                )
                gone = files - world.files()
                assert operation.deletes_files or not gone, f"{place}: deleted {gone}"


def _lake(world: World, pointers: FailingPointers) -> Any:
    real = world.pointers
    world.pointers = cast("Pointers", pointers)
    try:
        return world.lake()
    finally:
        world.pointers = real


def _fails(world: World, operation: Operation, script: tuple[int, str, bool]) -> LakeplaneError | None:
    nth, how, for_ever = script
    pointers = FailingPointers(cast("Pointers", world.pointers), nth, how, for_ever=for_ever)
    try:
        operation.run(_lake(world, pointers), world)
    except LakeplaneError as error:
        return error
    return None
