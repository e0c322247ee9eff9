"""Time and ids that a test decides about."""

from __future__ import annotations

import random
import uuid
from typing import Final, Protocol

START_MS: Final = 1_767_225_600_000
"""The first moment of 2026."""


class Clock(Protocol):
    """What tells the time, and waits."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class ManualClock:
    """A clock that stands still until it is moved, and sleeps by moving itself: a test never waits."""

    def __init__(self, now_ms: int = START_MS, *, step_ms: int = 0) -> None:
        """Start somewhere; ``step_ms`` is what passes with each look at the clock, negative for a mad one."""
        self._now_ms = now_ms
        self.step_ms = step_ms
        self.slept_seconds = 0.0

    def now_ms(self) -> int:
        """The time, before it moves on by a step."""
        now = self._now_ms
        self._now_ms += self.step_ms
        return now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept_seconds += seconds
        self._now_ms += round(seconds * 1000)

    def set(self, now_ms: int) -> None:
        """Jump, also backwards."""
        self._now_ms = now_ms


class SeededIds:
    """Ids that are the same for each run with a seed."""

    def __init__(self, seed: int = 0) -> None:
        """Begin with a seed."""
        self._random = random.Random(seed)  # noqa: S311  # not for secrets

    def uuid(self) -> uuid.UUID:
        """A UUID of the random kind."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def snapshot_id(self) -> int:
        """A positive number of 63 bits."""
        return self._random.randrange(1, 2**63)
