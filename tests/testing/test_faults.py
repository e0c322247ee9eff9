from __future__ import annotations

import contextlib
import threading
import time

import pytest

from lakeplane.errors import (
    AccessDenied,
    FileExists,
    FileMissing,
    LakeplaneError,
    NoSpace,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.model.location import parse_location
from lakeplane.storage.memory import MemoryStore
from lakeplane.storage.store import Store
from lakeplane.testing.clock import START_MS, ManualClock, SeededIds
from lakeplane.testing.faults import (
    EVERY_FAULT,
    Crash,
    Delay,
    Dice,
    Die,
    Fail,
    FailAfter,
    FaultStore,
    Hide,
    Script,
    Stale,
    Tear,
    Twice,
    count_steps,
    every_failure,
)

ROOT = parse_location("memory://lake")
AT = ROOT / "v1"


def names(store: Store) -> list[str]:
    return [stat.location.name for stat in store.files(ROOT)]


@pytest.mark.parametrize(
    ("how", "error"),
    [("trouble", StorageError), ("denied", AccessDenied), ("full", NoSpace), ("unknown", OutcomeUnknown)],
)
def test_a_failure_before(how: str, error: type[LakeplaneError]) -> None:
    store = FaultStore(MemoryStore(), Script(Fail(how), nth=2))  # type: ignore[arg-type]
    store.put(AT, b"1")
    with pytest.raises(error) as caught:
        store.put(ROOT / "v2", b"2", if_absent=True)
    assert caught.value.source == str(ROOT / "v2")
    assert names(store) == ["v1"]


def test_a_failure_after() -> None:
    store = FaultStore(MemoryStore(), Script(FailAfter(), for_ever=True))
    with pytest.raises(OutcomeUnknown):
        store.put(AT, b"1", if_absent=True)
    assert store.inner.read(AT) == b"1"
    with pytest.raises(StorageError):
        store.delete(AT)
    with pytest.raises(FileMissing):
        store.inner.read(AT)


def test_a_request_that_is_delivered_twice() -> None:
    store = FaultStore(MemoryStore(), Script(Twice(), name="put"))
    with pytest.raises(FileExists):
        store.put(AT, b"1", if_absent=True)
    assert store.read(AT) == b"1"


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_is_for_good(after: bool) -> None:  # noqa: FBT001
    """Handlers that clean up do not run, and those that do cannot do anything any more."""
    store = FaultStore(MemoryStore(), Script(Die(after=after), name="put"))

    def careful() -> None:
        try:
            store.put(AT, b"1")
        except Exception:  # noqa: BLE001  # that is the question
            pytest.fail("a handler ran in a dead process")
        finally:
            with contextlib.suppress(Crash):
                store.delete(AT)

    with pytest.raises(Crash):
        careful()
    assert names(store.inner) == (["v1"] if after else [])
    with pytest.raises(Crash):
        store.read(AT)


def test_only_a_write_without_condition_is_torn() -> None:
    store = FaultStore(MemoryStore(), Script(Tear(2), name="put", for_ever=True))
    store.put(AT, b"whole", if_absent=True)
    assert store.read(AT) == b"whole"
    with pytest.raises(Crash):
        store.put(ROOT / "hint", b"12345")
    assert store.inner.read(ROOT / "hint") == b"12"


def test_listings_lie() -> None:
    store = FaultStore(MemoryStore(), Script(Stale(3), name="files", nth=2))
    for name in ("a", "b", "c"):
        store.put(ROOT / name, b"")
    store.put(ROOT / "a", b"new")
    store.delete(ROOT / "b")
    assert names(store) == ["a", "c"]
    stale = list(store.files(ROOT))
    assert [(stat.location.name, stat.size) for stat in stale] == [("a", 0), ("b", 0)]
    assert names(store) == ["a", "c"]
    hiding = FaultStore(store.inner, Script(Hide(1.0)))
    assert names(hiding) == []
    assert names(hiding) == ["a", "c"]


def test_a_delay_takes_time_on_the_clock_alone() -> None:
    clock = ManualClock()
    store = FaultStore(MemoryStore(), Script(Delay(60_000)), clock=clock)
    began = time.monotonic()
    store.put(AT, b"")
    assert (clock.now_ms() - START_MS, clock.slept_seconds) == (60_000, 60)
    assert time.monotonic() - began < 5


def test_scripts_pick_their_operation() -> None:
    script = Script(Fail(), nth=2, matching=lambda operation: operation.condition == "if_absent")
    store = FaultStore(MemoryStore(), script)
    store.put(ROOT / "hint", b"")
    store.put(ROOT / "v1", b"", if_absent=True)
    store.put(ROOT / "hint", b"")
    with pytest.raises(StorageError):
        store.put(ROOT / "v2", b"", if_absent=True)
    store.put(ROOT / "v2", b"", if_absent=True)


def test_dice_repeat_themselves_for_a_seed() -> None:
    def outcomes(seed: int) -> list[str]:
        store = FaultStore(MemoryStore(), Dice(seed, chance=0.5, faults=[Fail(), Fail("full"), FailAfter()]))
        for n in range(40):
            with contextlib.suppress(LakeplaneError):
                store.put(ROOT / str(n), b"")
        return [type(entry.error).__name__ for entry in store.log]

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)
    assert set(outcomes(1)) == {"NoneType", "StorageError", "NoSpace", "OutcomeUnknown"}
    assert "seed=1" in repr(Dice(1))


def test_the_log_tells_what_was_done() -> None:
    store = FaultStore(MemoryStore())
    store.put(AT, b"123", if_absent=True)
    store.delete(AT, ROOT / "v2")
    with pytest.raises(FileMissing):
        store.stat(AT)
    seen = [(entry.operation.name, entry.operation.at.name, entry.operation.condition) for entry in store.log]
    assert seen == [
        ("put", "v1", "if_absent"),
        ("delete", "v1", "none"),
        ("delete", "v2", "none"),
        ("stat", "v1", "none"),
    ]
    assert isinstance(store.log[-1].error, FileMissing)


def publish(store: Store) -> None:
    """A protocol of its own: write a file, then a pointer to it; a failure that is certain cleans up."""
    store.put(ROOT / "data", b"data", if_absent=True)
    try:
        store.put(ROOT / "pointer", b"data", if_absent=True)
    except StorageError:
        store.delete(ROOT / "data")
        raise


def hasty(store: Store) -> None:
    """The mistake that lost tables: to clean up after a failure of which nobody knows that it is one."""
    store.put(ROOT / "data", b"data", if_absent=True)
    try:
        store.put(ROOT / "pointer", b"data", if_absent=True)
    except LakeplaneError:
        store.delete(ROOT / "data")
        raise


def broken_by(run: object) -> list[str]:
    found = []
    assert callable(run)
    for script in every_failure(count_steps(run, MemoryStore())):
        store = FaultStore(MemoryStore(), script)
        with contextlib.suppress(LakeplaneError, Crash):
            run(store)
        if "pointer" in names(store.inner) and "data" not in names(store.inner):
            found.append(f"{script.fault} at {script.nth}")
    return found


def test_every_failure_of_every_step_finds_the_hasty_cleanup() -> None:
    assert any("FailAfter" in script for script in broken_by(hasty))
    assert [fault for fault in broken_by(publish) if "Twice" not in fault] == []
    assert len(list(every_failure(3))) == 3 * (2 * len(EVERY_FAULT) - 2)


def test_a_fault_store_is_for_threads() -> None:
    store = FaultStore(MemoryStore(), Dice(0, chance=0.3, faults=[Fail()]))

    def work(me: int) -> None:
        for n in range(50):
            with contextlib.suppress(StorageError):
                store.put(ROOT / f"{me}/{n}", b"")

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.log) == 200
    failed = sum(entry.error is not None for entry in store.log)
    assert len(list(store.inner.files(ROOT))) == 200 - failed


def test_clocks_and_ids() -> None:
    clock = ManualClock(1000, step_ms=-10)
    assert [clock.now_ms(), clock.now_ms()] == [1000, 990]
    clock.set(5)
    assert clock.now_ms() == 5
    one, two = SeededIds(7), SeededIds(7)
    assert [one.uuid(), one.snapshot_id()] == [two.uuid(), two.snapshot_id()]
    assert one.uuid().version == 4
    assert 0 < one.snapshot_id() < 2**63
