"""A store that fails on command: for proving that nothing is lost when storage misbehaves.

``FaultStore`` wraps any store and asks a **plan** before each operation what is to go wrong with it. A
``Script`` says it for the N-th operation of a kind, once or from then on; ``Dice`` throws for each one, from
a seed. The same plan and the same calls give the same failures, every time.

To fail a task at each of its steps::

    steps = count_steps(run, fresh())
    for script in every_failure(steps):
        store = FaultStore(fresh(), script)
        with contextlib.suppress(LakeplaneError, Crash):
            run(store)
        verify(store.inner)
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, Protocol, TypeAlias, TypeVar

from lakeplane.errors import (
    AccessDenied,
    FileMissing,
    InvalidInput,
    LakeplaneError,
    NoSpace,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.model.location import Location
from lakeplane.storage.recipe import Recipe
from lakeplane.storage.store import READ_LIMIT, Range, Stat, Store
from lakeplane.testing.clock import Clock, ManualClock

T = TypeVar("T")
E = TypeVar("E", bound=BaseException | None)

OperationName: TypeAlias = Literal["read", "read_many", "stat", "put", "files", "folders", "delete"]
Condition: TypeAlias = Literal["none", "if_absent", "if_match"]


@dataclass(frozen=True)
class Operation:
    """One call of a store, as plans and recordings see it; a ``delete`` of many files is many operations."""

    name: OperationName
    at: Location
    size: int = 0
    condition: Condition = "none"


class Crash(BaseException):
    """The process dies here. Nothing that handles errors may catch it, and the store is dead afterwards."""


@dataclass(frozen=True)
class Fail:
    """The operation fails before anything happens: the store says so, and it is true.

    ``unknown`` is for a ``put`` whose request never arrived, while the writer cannot know; elsewhere it is
    plain ``trouble``.
    """

    how: Literal["trouble", "denied", "full", "unknown"] = "trouble"


@dataclass(frozen=True)
class FailAfter:
    """The operation happens, and its answer is lost: a ``put`` is unknown, anything else is trouble."""


@dataclass(frozen=True)
class Tear:
    """A ``put`` without condition leaves the first bytes only, and the process dies: a store that is none."""

    kept: int = 0


@dataclass(frozen=True)
class Hide:
    """A listing does not show some of the files: each one with a probability."""

    chance: float = 0.5


@dataclass(frozen=True)
class Stale:
    """A listing is as of some writes ago: what was put since is not in it, what was deleted still is."""

    writes: int = 1


@dataclass(frozen=True)
class Delay:
    """The operation takes a while, on the plan's clock."""

    milliseconds: int = 1000


@dataclass(frozen=True)
class Twice:
    """The request is delivered twice, as proxies do; the second answer is the one that comes back."""


@dataclass(frozen=True)
class Die:
    """The process dies before the operation, or right after it."""

    after: bool = False


Fault: TypeAlias = Fail | FailAfter | Tear | Hide | Stale | Delay | Twice | Die

EVERY_FAULT: Final[tuple[Fault, ...]] = (
    Fail("trouble"),
    Fail("denied"),
    Fail("full"),
    Fail("unknown"),
    FailAfter(),
    Twice(),
    Die(),
    Die(after=True),
)
"""The faults that every operation can have, and that must never lose anything."""


class Plan(Protocol):
    """What goes wrong when."""

    def fault_for(self, operation: Operation) -> Fault | None:
        """What is to go wrong with this operation; asked once for each, in their order."""
        ...


@dataclass
class Script:
    """One fault for the N-th operation (counted from 1) of some kind; ``for_ever`` for all after it, too."""

    fault: Fault
    nth: int = 1
    for_ever: bool = False
    name: OperationName | None = None
    matching: Callable[[Operation], bool] | None = None
    seen: int = field(default=0, init=False)

    def fault_for(self, operation: Operation) -> Fault | None:
        """The fault, if this is the operation for it."""
        if self.name is not None and operation.name != self.name:
            return None
        if self.matching is not None and not self.matching(operation):
            return None
        self.seen += 1
        return self.fault if self.seen == self.nth or (self.for_ever and self.seen > self.nth) else None


class Dice:
    """Any of some faults, with a probability, from a seed."""

    def __init__(self, seed: int, chance: float = 0.1, faults: Sequence[Fault] = EVERY_FAULT) -> None:
        """Throw for each operation."""
        self.seed, self.chance, self.faults = seed, chance, tuple(faults)
        self._random = random.Random(seed)  # noqa: S311  # not for secrets

    def __repr__(self) -> str:
        return f"Dice(seed={self.seed}, chance={self.chance})"

    def fault_for(self, operation: Operation) -> Fault | None:
        """What the dice say; they are thrown for every operation, so that a seed stays what it is."""
        del operation
        thrown, fault = self._random.random(), self._random.choice(self.faults)
        return fault if thrown < self.chance else None


def every_failure(steps: int, faults: Sequence[Fault] = EVERY_FAULT) -> Iterator[Script]:
    """A script for each step, each fault, once and for ever."""
    for nth, fault, for_ever in itertools.product(range(1, steps + 1), faults, (False, True)):
        if not (for_ever and isinstance(fault, Die)):
            yield Script(fault, nth=nth, for_ever=for_ever)


def count_steps(run: Callable[[Store], object], store: Store) -> int:
    """How many operations a task takes when nothing goes wrong."""
    recorded = FaultStore(store)
    run(recorded)
    return len(recorded.log)


@dataclass(frozen=True)
class Entry:
    """What a ``FaultStore`` saw: an operation, its fault, and the error that came of it."""

    operation: Operation
    fault: Fault | None
    error: BaseException | None = None


class FaultStore:
    """A store around another one. Without a plan nothing goes wrong, and ``log`` is a recording."""

    def __init__(
        self, inner: Store, plan: Plan | None = None, *, clock: Clock | None = None, seed: int = 0
    ) -> None:
        """Wrap a store; ``seed`` is for what listings hide."""
        self.inner = inner
        self.plan = plan
        self.log: list[Entry] = []
        self.is_dead = False
        self._clock = clock if clock is not None else ManualClock()
        self._random = random.Random(seed)  # noqa: S311  # not for secrets
        self._before_writes: list[tuple[Location, Stat | None]] = []
        self._lock = threading.Lock()

    @property
    def can_put_if_absent(self) -> bool:
        """As the store within."""
        return self.inner.can_put_if_absent

    @property
    def can_put_if_match(self) -> bool:
        """As the store within."""
        return self.inner.can_put_if_match

    def __repr__(self) -> str:
        return f"FaultStore({self.inner!r}, {self.plan!r})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a store does not travel to another process")

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it."""
        return self._do(
            Operation("read", at), lambda: self.inner.read(at, start=start, length=length, limit=limit)
        )

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many parts at once: one operation."""
        if not ranges:
            return []
        operation = Operation("read_many", ranges[0].location, len(ranges))
        return self._do(operation, lambda: self.inner.read_many(ranges, limit=limit))

    def stat(self, at: Location) -> Stat:
        """Tell about a file."""
        return self._do(Operation("stat", at), lambda: self.inner.stat(at))

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole, if its condition holds."""
        condition: Condition = "if_absent" if if_absent else "none" if if_match is None else "if_match"
        operation = Operation("put", at, len(data), condition)
        fault = self._next(operation)
        if isinstance(fault, Tear):
            if condition != "none":  # no store of ours publishes anything but whole files
                fault = None
            else:
                self.inner.put(at, data[: fault.kept])
                self._die(operation, fault)
        before = self._stat_or_none(at)
        done = self._run(
            operation, fault, lambda: self.inner.put(at, data, if_absent=if_absent, if_match=if_match)
        )
        self._before_writes.append((at, before))
        return done

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place; all at once, so that the listing is one operation."""
        operation = Operation("files", under)
        fault = self._next(operation)
        found = self._run(operation, fault, lambda: list(self.inner.files(under)))
        match fault:
            case Hide(chance):
                found = [stat for stat in found if self._random.random() >= chance]
            case Stale(writes):
                found = self._as_of(found, under, writes)
        return iter(found)

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place."""
        return self._do(Operation("folders", under), lambda: self.inner.folders(under))

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names, one after the other; all are tried, unless the process dies."""
        errors: list[LakeplaneError] = []
        for one in at:
            operation = Operation("delete", one)
            try:
                fault = self._next(operation)
                before = self._stat_or_none(one)
                self._run(operation, fault, lambda one=one: self.inner.delete(one))  # type: ignore[misc]
                self._before_writes.append((one, before))
            except LakeplaneError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """The recipe of the store within: faults do not travel."""
        return self.inner.recipe(with_secrets=with_secrets)

    def _do(self, operation: Operation, do: Callable[[], T]) -> T:
        return self._run(operation, self._next(operation), do)

    def _next(self, operation: Operation) -> Fault | None:
        with self._lock:
            if self.is_dead:
                raise Crash("the process died before")
            return None if self.plan is None else self.plan.fault_for(operation)

    def _run(self, operation: Operation, fault: Fault | None, do: Callable[[], T]) -> T:
        """Do an operation together with its fault, and write down what came of it."""
        match fault:
            case Fail(how):
                raise self._noted(operation, fault, _refusal(how, operation))
            case Die(after=False):
                self._die(operation, fault)
            case Delay(milliseconds):
                self._clock.sleep(milliseconds / 1000)
            case Twice():
                with contextlib.suppress(LakeplaneError):
                    do()
            case FailAfter() | Die(after=True):
                with contextlib.suppress(LakeplaneError):
                    do()
                if isinstance(fault, Die):
                    self._die(operation, fault)
                raise self._noted(operation, fault, _refusal("unknown", operation))
        try:
            done = do()
        except BaseException as error:
            self._noted(operation, fault, error)
            raise
        self._noted(operation, fault, None)
        return done

    def _die(self, operation: Operation, fault: Fault) -> NoReturn:
        self.is_dead = True
        crash = Crash(f"at {operation.name} {operation.at}")
        self._noted(operation, fault, crash)
        raise crash

    def _noted(self, operation: Operation, fault: Fault | None, error: E) -> E:
        self.log.append(Entry(operation, fault, error))
        return error

    def _stat_or_none(self, at: Location) -> Stat | None:
        try:
            return self.inner.stat(at)
        except FileMissing:
            return None

    def _as_of(self, found: list[Stat], under: Location, writes: int) -> list[Stat]:
        """A listing with the last writes undone."""
        shown = {stat.location: stat for stat in found}
        for at, before in reversed(self._before_writes[-writes:] if writes else []):
            shown.pop(at, None)
            if before is not None and under.contains(at) and at != under:
                shown[at] = before
        return sorted(shown.values(), key=lambda stat: "/".join(stat.location.segments).encode())


def _refusal(how: Literal["trouble", "denied", "full", "unknown"], operation: Operation) -> LakeplaneError:
    source = operation.at.text
    match how:
        case "denied":
            return AccessDenied("injected: not allowed", source=source)
        case "full" if operation.name == "put":
            return NoSpace("injected: no space left", source=source)
        case "unknown" if operation.name == "put":
            return OutcomeUnknown("injected: the answer was lost", source=source)
    return StorageError("injected: the store answered 503", source=source)
