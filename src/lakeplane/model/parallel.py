"""Do many things at once in threads: what waits for a store, or computes without the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORKERS: Final = 32
"""Requests in flight. Waiting for a store is not computing: the number of cores does not matter."""


def in_parallel(do: Callable[[T], R], things: Sequence[T], workers: int = WORKERS) -> list[R]:
    """Do something with each thing; the first failure in their order is raised, and what waits is dropped.

    The threads end with the call, so that nothing of them is left when a process forks or exits.
    """
    if len(things) <= 1 or workers <= 1:
        return [do(thing) for thing in things]
    with ThreadPoolExecutor(min(workers, len(things)), thread_name_prefix="lakeplane") as pool:
        return list(pool.map(do, things))


def try_all(do: Callable[[T], object], things: Sequence[T], workers: int = WORKERS) -> None:
    """Do something with each thing, also after a failure; then raise the first one."""

    def attempt(thing: T) -> Exception | None:
        try:
            do(thing)
        except Exception as error:  # noqa: BLE001  # raised below, when all were tried
            return error
        return None

    for failure in in_parallel(attempt, things, workers):
        if failure is not None:
            raise failure
