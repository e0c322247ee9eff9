"""The way of every change: propose, publish, and if somebody was faster, look again and propose anew.

A proposal is a pure function of the table as it is: it says what must hold and what is to happen, or raises
``CommitConflict`` when the change no longer fits. So a retry never repeats a decision that was made on an old
state. And before anything else, a lost answer is looked into: a change is never made twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from lakeplane.catalog.catalog import Catalog, Change, Committed, Conflict, Entry, Kind, Outcome, Unknown
from lakeplane.catalog.landed import has_landed
from lakeplane.catalog.names import Name
from lakeplane.catalog.turns import Turns
from lakeplane.errors import CommitConflict, LakeplaneError, OutcomeUnknown
from lakeplane.iceberg.properties import number
from lakeplane.iceberg.requirements import Requirement
from lakeplane.iceberg.updates import Update
from lakeplane.model.frozen import FrozenDict

Proposal: TypeAlias = tuple[Sequence[Requirement], Sequence[Update]]
Propose: TypeAlias = Callable[[Entry], Proposal]


class Retry(NamedTuple):
    """How often and how long something is tried again."""

    retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_ms: int


class Rhythm(NamedTuple):
    """Time and chance, for the pauses between attempts, and the turns; tests put their own in their place."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    turns: Turns = Turns()


class Work(NamedTuple):
    """What is to be done to one table or view."""

    kind: Kind
    name: Name
    propose: Propose


class Published(msgspec.Struct, frozen=True):
    """Tables and views after changes of ours, in the order of the work, and how many attempts that took."""

    entries: tuple[Entry, ...]
    attempts: int


_COMMIT: Final = Retry(4, 100, 60_000, 1_800_000)
_STATUS_CHECK: Final = Retry(3, 1_000, 60_000, 1_800_000)
_REAL: Final = Rhythm()


def publish(catalog: Catalog, work: Sequence[Work], *, rhythm: Rhythm = _REAL) -> Published:
    """Make changes, all or none, whatever others do to the tables meanwhile.

    Raises:
        CommitConflict: others changed a table so that a change fits no more, or kept being faster.
        OutcomeUnknown: the answer was lost and the tables do not tell (yet). Nothing of it may be deleted.
    """
    names = ", ".join(str(each.name) for each in work)
    policy, started, attempt = _COMMIT, rhythm.monotonic(), 0
    while True:
        changes, outcome = _attempt(catalog, work, rhythm)
        if not attempt:
            policy = _policy(_properties(changes), "commit.retry", _COMMIT)
        attempt += 1
        match outcome:
            case Committed(entries=committed):
                return Published(committed, attempt)
            case Unknown(reason=reason):
                found = _look(catalog, changes, rhythm)
                if found is None:
                    hint = "Look at the history before trying again"
                    raise OutcomeUnknown(reason, source=names, hint=hint)
                return Published(found, attempt)
            case Conflict(reason=reason):
                if _is_enough(policy, attempt, started, rhythm):
                    problem = f"others were faster {attempt} times: {reason}"
                    hint = "Raise commit.retry.num-retries, or let fewer writers commit at once"
                    raise CommitConflict(problem, source=names, hint=hint)
        rhythm.sleep(_pause(policy, attempt, rhythm))


def _attempt(catalog: Catalog, work: Sequence[Work], rhythm: Rhythm) -> tuple[list[Change], Outcome]:
    """Load, propose and commit, in turn with the other writers of this machine."""
    places = [f"{catalog!r} {each.kind} {each.name}" for each in work]
    with rhythm.turns.taken(places, monotonic=rhythm.monotonic, sleep=rhythm.sleep):
        changes = [_change(each, catalog.load(each.kind, each.name)) for each in work]
        return changes, catalog.commit(changes)


def _change(work: Work, entry: Entry) -> Change:
    requirements, updates = work.propose(entry)
    return Change(work.kind, work.name, tuple(requirements), tuple(updates), entry)


def _properties(changes: Sequence[Change]) -> FrozenDict[str, str]:
    base = changes[0].base if changes else None
    return FrozenDict() if base is None else base.metadata.properties


def _look(catalog: Catalog, changes: Sequence[Change], rhythm: Rhythm) -> tuple[Entry, ...] | None:
    """The tables, if changes whose answer was lost are in them; looked for several times."""
    policy = _policy(_properties(changes), "commit.status-check", _STATUS_CHECK)
    started, attempt = rhythm.monotonic(), 0
    while True:
        attempt += 1
        try:
            now = tuple(catalog.load(change.kind, change.name) for change in changes)
        except LakeplaneError:
            # Whatever keeps us from looking now: what was sent may have happened, and that must be said.
            now = ()
        if now and all(
            has_landed(change, entry.metadata) for change, entry in zip(changes, now, strict=True)
        ):
            return now
        if _is_enough(policy, attempt, started, rhythm):
            return None
        rhythm.sleep(_pause(policy, attempt, rhythm))


def _is_enough(policy: Retry, attempts: int, started: float, rhythm: Rhythm) -> bool:
    spent_ms = (rhythm.monotonic() - started) * 1000
    return attempts > policy.retries or spent_ms >= policy.total_ms


def _pause(policy: Retry, attempt: int, rhythm: Rhythm) -> float:
    """Seconds to wait: longer each time, and never the same for two writers."""
    longest = min(policy.max_wait_ms, policy.min_wait_ms * 2 ** min(attempt - 1, 30))
    return float(longest) * (0.5 + rhythm.chance() / 2) / 1000


def _policy(properties: FrozenDict[str, str], prefix: str, default: Retry) -> Retry:
    names = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    found = (number(properties.get(f"{prefix}.{name}")) for name in names)
    return Retry(
        *(value if given is None or given < 0 else given for given, value in zip(found, default, strict=True))
    )
