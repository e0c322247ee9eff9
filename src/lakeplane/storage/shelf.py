"""Arrow tables kept in a folder of the local disk, for the next process: a cache, never the only copy."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from lakeplane.errors import InvalidInput

DEFAULT_SHELF_BYTES: Final = 8 << 30
_SUFFIX: Final = ".arrow"
_PARTIAL: Final = ".partial"
_ABANDONED_SECONDS: Final = 3600
_LOOK_EVERY: Final = 64


class FolderShelf:
    """Tables in the files of a folder, up to a number of bytes; what was not used for long goes first.

    The folder is for its user alone: what lies in it is believed. Several processes may share it.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int = DEFAULT_SHELF_BYTES) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.max_bytes = max_bytes
        self._puts = 0
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"no folder can be made for the cache: {error.strerror}", source=str(folder)
            ) from None

    def __repr__(self) -> str:
        return f"FolderShelf({str(self.folder)!r})"

    def get(self, key: str) -> pa.Table | None:
        """What was put under a key, unless it is gone. Nothing is read before it is needed."""
        place = self._place(key)
        try:
            with pa.memory_map(str(place)) as source:
                found = pa.ipc.open_file(source).read_all()
            os.utime(place)
        except (OSError, pa.ArrowException):  # not there, or half of it: then it is made again
            return None
        return found

    def put(self, key: str, table: pa.Table) -> None:
        """Keep a table. A disk that is full is no error: the table is made again the next time."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._write(self._place(key), table)
        self._puts += 1
        if self._puts % _LOOK_EVERY == 1:
            self._make_room()

    def _place(self, key: str) -> Path:
        return self.folder / (hashlib.sha256(key.encode()).hexdigest() + _SUFFIX)

    def _write(self, place: Path, table: pa.Table) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        with contextlib.suppress(OSError):  # another process may be doing the same
            for each in self.folder.glob(f"*{_PARTIAL}"):  # its writer may have died
                if time.time() - each.stat().st_mtime > _ABANDONED_SECONDS:
                    each.unlink(missing_ok=True)
            files = [(each.stat(), each) for each in self.folder.glob(f"*{_SUFFIX}")]
            total = sum(stat.st_size for stat, _ in files)
            for stat, each in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
                if total <= self.max_bytes:
                    return
                each.unlink(missing_ok=True)
                total -= stat.st_size
