from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakeplane.errors import (
    AccessDenied,
    FileExists,
    FileMissing,
    InvalidLocation,
    LakeplaneError,
    NoSpace,
    OutcomeUnknown,
    StorageError,
    StoreCannot,
)
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.probe import require_put_if_absent

PUBLISHING = ("open", "write", "fsync", "link", "replace", "mkdir")


class Disk:
    """Counts the system calls that publishing is made of, and lets the N-th one fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fail_at = 0
        self.number = errno.EIO
        self.only = ""
        for name in PUBLISHING:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            what = name
            if name == "fsync":
                what = f"fsync {Path(f'/proc/self/fd/{args[0]}').readlink().name}"
            self.calls.append(what)
            if len(self.calls) == self.fail_at or name == self.only:
                raise OSError(self.number, os.strerror(self.number))
            return real(*args, **kwargs)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".lakeplane-*"))


def test_what_is_acknowledged_survives_a_power_cut(disk: Disk, lake: Location) -> None:
    """Data, name and new directories are synced, in an order that leaves no hole."""
    store = LocalStore(lake)
    store.put(lake / "db/t/v1.json", b"1", if_absent=True)
    publishing = [call for call in disk.calls if call not in ("open", "mkdir")]
    temporary = next(call for call in publishing if call.startswith("fsync .lakeplane-"))
    assert publishing[-4:] == ["write", temporary, "link", "fsync t"]
    above = publishing[:-4]
    assert above[:3] == ["fsync db", "fsync lake", f"fsync {Path(str(lake)).parent.name}"]
    disk.calls.clear()
    store.put(lake / "db/t/v2.json", b"2")
    assert [call for call in disk.calls if call != "open"][-1] == "fsync t"
    assert not [call for call in disk.calls if call in above], "names above are synced once"


def test_a_root_is_synced_together_with_what_was_made_above_it(
    disk: Disk, lake: Location, tmp_path: Path
) -> None:
    """A power cut took a new warehouse away as a whole: its own name was synced, that of its parent not."""
    LocalStore(lake / "new/deep/root").put(lake / "new/deep/root/v1", b"")
    synced = [call for call in disk.calls if call.startswith("fsync ")]
    names = ["deep", "new", "lake", *(each.name for each in Path(str(lake)).parents)]
    assert synced[: len(names)] == [f"fsync {name}" for name in names]
    assert tmp_path.name in names


def test_what_was_deleted_does_not_come_back_after_a_power_cut(disk: Disk, lake: Location) -> None:
    """A purged table was back, and its files were not."""
    store = LocalStore(lake)
    for name in ("t/v1", "t/v2", "u/v1"):
        store.put(lake / name, b"")
    disk.calls.clear()
    store.delete(lake / "t/v1", lake / "t/v2", lake / "t/none", lake / "none/v1", lake / "u/v1")
    assert [call for call in disk.calls if call != "open"] == ["fsync t", "fsync u"]


def test_a_directory_that_was_made_again_is_synced_again(disk: Disk, lake: Location) -> None:
    """Another process dropped and made the directory: what we remember of it is worth nothing."""
    store = LocalStore(lake)
    store.put(lake / "t/v1", b"")
    store.delete(lake / "t/v1")
    folder = Path(str(lake), "t")
    folder.rename(folder.with_name("t-old"))  # keeps the inode taken
    disk.calls.clear()
    store.put(lake / "t/v1", b"")
    assert "fsync lake" in disk.calls


@pytest.mark.parametrize("if_absent", [True, False])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_every_step_may_fail(number: int, if_absent: bool, disk: Disk, lake: Location) -> None:  # noqa: FBT001
    """After any failed step: nothing is there and the error says so, or all is and it says unknown."""
    disk.number = number
    LocalStore(lake).put(lake / "t/first", b"")
    for step in range(1, 40):
        at = lake / f"t/{step}"
        store = LocalStore(lake)
        disk.calls.clear()
        disk.fail_at = step
        outcome = None
        try:
            store.put(at, b"data", if_absent=if_absent)
        except LakeplaneError as error:
            outcome = error
        disk.fail_at = 0
        there = Path(str(at)).exists()
        if isinstance(outcome, OutcomeUnknown):
            assert there
        elif outcome is not None:
            expected = {errno.EIO: StorageError, errno.EACCES: AccessDenied}.get(number, NoSpace)
            assert type(outcome) is expected
            assert outcome.source == at.text
            assert not there
        else:
            assert there
        assert leftovers(Path(str(lake))) == []
        if len(disk.calls) < step:
            assert step > 6, "publishing takes more steps than that"
            return
    pytest.fail("publishing never ended")


def test_a_link_that_succeeds_and_says_it_failed(monkeypatch: pytest.MonkeyPatch, lake: Location) -> None:
    """NFS repeats a call whose answer was lost, and the second one fails on the success of the first."""
    link, replace = os.link, os.replace

    def repeated_link(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        link(*args, **kwargs)

    def repeated_replace(*args: Any, **kwargs: Any) -> None:
        replace(*args, **kwargs)
        replace(*args, **kwargs)

    monkeypatch.setattr(os, "link", repeated_link)
    monkeypatch.setattr(os, "replace", repeated_replace)
    store = LocalStore(lake)
    store.put(lake / "v1", b"ours", if_absent=True)
    with pytest.raises(FileExists):
        store.put(lake / "v1", b"theirs", if_absent=True)
    store.put(lake / "hint", b"1")
    assert store.read(lake / "v1") == b"ours"
    assert store.read(lake / "hint") == b"1"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_hard_links_put_if_absent_is_refused(number: int, disk: Disk, lake: Location) -> None:
    """An unsafe way of publishing lost 350,000 rows for others: there is none to fall back to."""
    disk.only, disk.number = "link", number
    store = LocalStore(lake)
    with pytest.raises(StoreCannot, match="no hard links"):
        store.put(lake / "v1", b"x", if_absent=True)
    assert list(store.files(lake)) == []
    store.put(lake / "v1", b"x")
    with pytest.raises(StoreCannot, match="SQL or REST catalog"):
        require_put_if_absent(store, lake)


def test_a_file_in_the_way_of_a_directory_is_not_a_lost_race(lake: Location) -> None:
    store = LocalStore(lake)
    store.put(lake / "a", b"")
    for if_absent in (True, False):
        with pytest.raises(StorageError) as caught:
            store.put(lake / "a/b", b"", if_absent=if_absent)
        assert type(caught.value) is StorageError
    with pytest.raises(FileMissing):
        store.read(lake / "a/b")


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of 1 MB, where this user may mount one."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)  # noqa: S607


def test_a_full_disk() -> None:
    with small_disk() as folder:
        if folder is None:
            fill_with_a_limit()
            return
        root = parse_location(str(folder))
        store = LocalStore(root)
        store.put(root / "kept", bytes(600_000), if_absent=True)
        for if_absent in (True, False):
            with pytest.raises(NoSpace) as caught:
                store.put(root / "new", bytes(600_000), if_absent=if_absent)
            assert caught.value.source == str(root / "new")
            with pytest.raises(NoSpace):
                store.put(root / "kept", bytes(600_000))
        assert os.listdir(folder) == ["kept"]  # noqa: PTH208
        assert store.read(root / "kept") == bytes(600_000)
        store.put(root / "small", bytes(1000))


def fill_with_a_limit() -> None:
    """The largest file is limited: the kernel stops the write in the middle, as a full disk does."""
    program = """
import resource, sys
from lakeplane.errors import NoSpace
from lakeplane.model.location import parse_location
from lakeplane.storage.local import LocalStore
root = parse_location(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    LocalStore(root).put(root / "new", bytes(600_000), if_absent=True)
except NoSpace:
    assert list(LocalStore(root).files(root)) == []
    print("full")
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "full"


def test_a_file_size_limit() -> None:
    fill_with_a_limit()


def test_nothing_outside_of_the_root(lake: Location, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "lake2").mkdir()
    (tmp_path / "lake2/file").write_bytes(b"secret")
    store = LocalStore(lake)
    store.put(lake / "file", b"")
    Path(str(lake), "leads-out").symlink_to(tmp_path / "secret")
    Path(str(lake), "folder-out").symlink_to(tmp_path / "lake2")
    outside = parse_location(str(tmp_path))
    for at in (outside / "secret", outside / "lake2/file", lake / "leads-out", lake / "folder-out/file"):
        with pytest.raises(InvalidLocation):
            store.read(at)
        with pytest.raises(InvalidLocation):
            store.stat(at)
    for at in (outside / "new", outside / "lake2/new", lake / "folder-out/new"):
        with pytest.raises(InvalidLocation):
            store.put(at, b"")
    for at in (outside / "secret", lake / "folder-out/file"):
        with pytest.raises(InvalidLocation):
            store.delete(at)
    with pytest.raises(InvalidLocation):
        list(store.files(lake / "folder-out"))
    with pytest.raises(InvalidLocation):
        store.put(lake, b"the root itself")
    store.delete(lake / "leads-out")
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert sorted(path.name for path in (tmp_path / "lake2").iterdir()) == ["file"]


def test_a_root_that_is_a_link_is_a_root(lake: Location, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    Path(str(lake)).symlink_to(tmp_path / "real")
    store = LocalStore(lake)
    store.put(lake / "t/file", b"1", if_absent=True)
    assert [stat.location for stat in store.files(lake)] == [lake / "t/file"]
    assert (tmp_path / "real/t/file").read_bytes() == b"1"


def test_links_in_circles_do_not_trap_a_listing(lake: Location) -> None:
    store = LocalStore(lake)
    store.put(lake / "t/file", b"1")
    Path(str(lake), "t/circle").symlink_to(str(lake))
    assert [stat.location for stat in store.files(lake)] == [lake / "t/file"]


def test_what_only_looks_like_a_file_is_not_read(lake: Location) -> None:
    """A poisoned path may point to a device that never ends, or to a pipe that never answers."""
    Path(str(lake)).mkdir()
    os.mkfifo(Path(str(lake), "pipe"))
    with pytest.raises(StorageError, match="not a file"):
        LocalStore(lake).read(lake / "pipe")
    with pytest.raises(StorageError, match="not a file"):
        LocalStore().read(parse_location("/dev/zero"))
    assert list(LocalStore(lake).files(lake)) == []


def test_names_that_are_no_locations_are_left_out(lake: Location) -> None:
    store = LocalStore(lake)
    store.put(lake / "good", b"")
    folder = os.fsencode(str(lake))
    for name in (b"not-utf8-\xff", b"%2e%2e", b"line\nbreak", b"back\\slash"):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"")
    assert [stat.location.name for stat in store.files(lake)] == ["good"]


def test_a_long_name_fits(lake: Location) -> None:
    store = LocalStore(lake)
    store.put(lake / ("n" * 255), b"x", if_absent=True)
    with pytest.raises(StorageError, match="too long"):
        store.put(lake / ("n" * 256), b"x", if_absent=True)


def test_only_files_are_stored_here() -> None:
    with pytest.raises(InvalidLocation):
        LocalStore(parse_location("s3://lake"))
    with pytest.raises(InvalidLocation):
        LocalStore().read(parse_location("s3://lake/file"))
