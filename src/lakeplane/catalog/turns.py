"""Writers of one machine take turns at a table, so that they do not undo each other's work.

What is committed, the catalog alone decides, by comparing and swapping. But where several processes commit
without a pause, most attempts are in vain, and a slow one is overtaken until its retries are used up. So an
attempt waits for its turn first, for some seconds at most, behind a lock that the system takes back from
processes that die. Where there is no such lock, or a writer on another machine, the pauses of the commit
loop have to do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_SLOTS: Final = 1024
"""So many tables can be written at once; two that share a slot only wait a little longer."""

_PATIENCE_SECONDS: Final = 10.0
"""After that long, somebody hangs: then it is a race, as with writers elsewhere."""

_QUEUE_SECONDS: Final = 0.002
_NEXT_SECONDS: Final = 0.0005
"""How often one looks whether it is time: the one who is next, and all behind him."""


class Turns:
    """Turns among the processes and threads of one user that use the same folder."""

    def __init__(self, folder: Path | None = None, *, patience: float = _PATIENCE_SECONDS) -> None:
        self._folder = folder
        self._patience = patience

    @contextlib.contextmanager
    def taken(
        self,
        names: Sequence[str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[None]:
        """Have the turn at some tables, or go without it if that takes too long."""
        until = monotonic() + self._patience
        # In one order, so that nobody waits for somebody who waits for him.
        slots = sorted(
            {int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % _SLOTS for name in names}
        )
        with contextlib.ExitStack() as held:
            for slot in slots:
                # Who comes from a turn waits behind the one who is next, and does not take the next one, too.
                with contextlib.ExitStack() as waiting:
                    gate = self._lock(
                        f"next-{slot}", waiting, lambda: monotonic() < until, sleep, _QUEUE_SECONDS
                    )
                    if not gate or not self._lock(
                        f"turn-{slot}", held, lambda: monotonic() < until, sleep, _NEXT_SECONDS
                    ):
                        break
            yield

    def _lock(
        self,
        name: str,
        held: contextlib.ExitStack,
        patient: Callable[[], bool],
        sleep: Callable[[float], None],
        pause: float,
    ) -> bool:
        """Lock a file until the end of a block; False when it cannot be had."""
        handle = self._open(name)
        if handle is None:
            return False
        held.callback(os.close, handle)
        while not (is_ours := _try_to_lock(handle)) and patient():
            sleep(pause * (0.5 + random.random()))  # noqa: S311
        if is_ours:
            # Told, not left to the closing: a child that was forked meanwhile has the file open, too.
            held.callback(_unlock, handle)
        return is_ours

    def _open(self, name: str) -> int | None:
        if sys.platform == "win32":
            return None
        try:
            folder = self._folder or _own_folder()
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            return os.open(folder / name, flags, 0o600)
        except OSError:
            return None


def _own_folder() -> Path:
    """A folder that nobody else can put things into."""
    folder = Path(tempfile.gettempdir()) / f"lakeplane-turns-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError
    return folder


def _try_to_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(handle: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
