"""Turns at a table: who has one, who waits, and who goes without."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeplane.catalog.turns import Turns
from lakeplane.testing.clock import ManualClock

HOLDER = """
import sys, time
from pathlib import Path
from lakeplane.catalog.turns import Turns
with Turns(Path(sys.argv[1])).taken(["orders"]):
    print("mine", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn at ``orders``."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        yield process
        process.kill()


def waited(turns: Turns, *names: str) -> float:
    """How long it takes to have a turn, on a clock on which nothing else takes time."""
    clock = ManualClock()
    start = clock.now_ms()
    with turns.taken(names, monotonic=lambda: clock.now_ms() / 1000, sleep=clock.sleep):
        return (clock.now_ms() - start) / 1000


def test_one_after_the_other(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with Turns(tmp_path).taken(["orders"]):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_the_turn_at_one_table_is_not_that_at_another(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert holder.poll() is None
    assert waited(Turns(tmp_path), "items") == 0


def test_who_has_waited_long_enough_goes_without(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """A writer that hangs must not hold up the others for ever."""
    assert holder.poll() is None
    assert 3 <= waited(Turns(tmp_path, patience=3), "items", "orders") < 3.1


def test_the_turn_of_a_killed_process_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert waited(Turns(tmp_path), "orders") == 0


def test_a_turn_ends_though_a_child_was_forked_within(tmp_path: Path) -> None:
    with Turns(tmp_path).taken(["orders"]):
        child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
        reading, writing = os.pipe()
        forked = os.fork()
        if not forked:
            os.read(reading, 1)
            os._exit(0)
    try:
        assert waited(Turns(tmp_path), "orders") == 0
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.write(writing, b"x")
        os.waitpid(forked, 0)
        os.close(reading)
        os.close(writing)


def test_tables_in_any_order_do_not_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    def work(*names: str) -> None:
        for _ in range(30):
            with Turns(tmp_path).taken(names):
                pass

    threads = [
        threading.Thread(target=work, args=names) for names in (("a", "b", "c"), ("c", "a"), ("b", "a"))
    ]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start < 5


def test_where_there_are_no_locks_writers_go_at_once(tmp_path: Path) -> None:
    assert waited(Turns(tmp_path / "missing"), "orders") == 0


@pytest.mark.parametrize("trick", ["open to all", "a link", "a file"])
def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    """Anybody may make that folder first, and put links into it that lead elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, elsewhere = tmp_path / f"lakeplane-turns-{os.getuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir()
    match trick:
        case "open to all":
            folder.mkdir()
            folder.chmod(0o777)
        case "a link":
            folder.symlink_to(elsewhere)
        case _:
            folder.write_text("")
    assert waited(Turns(), "orders") == 0
    assert not [*elsewhere.iterdir(), *(folder.iterdir() if folder.is_dir() else ())]


def test_the_folder_is_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert waited(Turns(), "orders") == 0
    folder = tmp_path / f"lakeplane-turns-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == 2


def test_who_had_a_turn_waits_behind_the_others(tmp_path: Path) -> None:
    """The fast took the next turn, too, before the others had even looked: for seconds."""
    order: list[int] = []
    begun = threading.Barrier(3)

    def work(me: int) -> None:
        begun.wait()
        for _ in range(20):
            with Turns(tmp_path).taken(["orders"]):
                order.append(me)
                time.sleep(0.003)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = sum(one == next_one for one, next_one in itertools.pairwise(order[:40]))
    assert again < 20, order
