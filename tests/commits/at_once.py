"""Lets processes begin at the same moment, and gathers what they tell.

Run by a program of its own, which has imported what the processes need and has no threads: they are forks of
it. Knows nothing of lakeplane, so that others can be run in the same way.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

PATIENCE_SECONDS: Final = 300

Told: TypeAlias = dict[str, list[Any]]
"""Lists, which are joined."""

Work: TypeAlias = Callable[[dict[str, Any], Callable[[], None]], Told]
"""Gets a task, prepares, calls what waits for the others, and works."""


def run(work: Work, tasks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Do each task in a process of its own.

    The seconds are from the first start to the last end, those of the processor are of all together.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(tasks))

    def one(task: dict[str, Any]) -> tuple[float, float, float, Told]:
        started: list[float] = []

        def ready() -> None:
            barrier.wait(PATIENCE_SECONDS)
            started.extend((time.monotonic(), time.process_time()))

        told = work(task, ready)
        return started[0], time.monotonic(), time.process_time() - started[1], told

    _CURRENT[:] = [one]
    sys.stdout.flush()
    with context.Pool(len(tasks)) as pool:
        # Nobody gets two tasks, since none begins before all are there.
        done = pool.map(_do, tasks, chunksize=1)
    joined = {key: [each for *_, told in done for each in told[key]] for key in done[0][-1]}
    seconds = max(end for _, end, *_ in done) - min(start for start, *_ in done)
    return {**joined, "seconds": seconds, "processor_seconds": sum(busy for _, _, busy, _ in done)}


_CURRENT: Final[list[Callable[[dict[str, Any]], tuple[float, float, float, Told]]]] = []


def _do(task: dict[str, Any]) -> tuple[float, float, float, Told]:
    return _CURRENT[0](task)
