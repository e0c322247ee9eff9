"""Settings that a session has for the time of a write, and only then.

Several threads may write in one session. Whoever comes second finds the settings of the first one, which must
last until both are done; who needs other ones waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakeplane.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Held:
    """A setting that somebody has changed."""

    def __init__(self, value: str, before: str | None) -> None:
        self.value, self.before = value, before
        self.holders = 0


_HELD: Final[dict[tuple[object, str], _Held]] = {}
_CHANGED: Final = threading.Condition()


@contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have some settings for a while; those that it has already are not touched."""
    key = _identity(session)
    taken: list[str] = []
    with _CHANGED:
        # All at once or none: two who wait for each other would wait for ever.
        while any(_is_in_the_way(_HELD.get((key, name)), value) for name, value in wanted.items()):
            _CHANGED.wait()
        try:
            for name, value in wanted.items():
                _take(session, key, name, value)
                taken.append(name)
        except BaseException:
            _give_back(session, key, taken)
            raise
    try:
        yield
    finally:
        with _CHANGED:
            _give_back(session, key, taken)


def _identity(session: SparkSession) -> object:
    """What all objects that stand for one session have in common."""
    if is_connect(session):
        return session.session_id  # type: ignore[attr-defined]
    inner: Any = session
    return inner._jsparkSession.hashCode()  # noqa: SLF001 - two wrappers of one session are not equal


def _is_in_the_way(held: _Held | None, value: str) -> bool:
    return held is not None and not _same(held.value, value)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _take(session: SparkSession, key: object, name: str, value: str) -> None:
    held = _HELD.get((key, name))
    if held is None:
        before = session.conf.get(name, None)
        held = _Held(value, before)
        if before is None or not _same(before, value):
            session.conf.set(name, value)
        _HELD[key, name] = held
    held.holders += 1


def _give_back(session: SparkSession, key: object, names: list[str]) -> None:
    ended: list[tuple[str, _Held]] = []
    for name in names:
        held = _HELD[key, name]
        held.holders -= 1
        if not held.holders:
            ended.append((name, _HELD.pop((key, name))))
    # First of all, so that nobody waits for a session that is gone.
    _CHANGED.notify_all()
    for name, held in ended:
        if held.before is None:
            session.conf.unset(name)
        elif not _same(held.before, held.value):
            session.conf.set(name, held.before)
