"""Walk through directories in the order in which object stores list names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def below(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files below a directory with their paths relative to it, sorted by the bytes of those.

    A directory sorts as its name with a separator: ``a-b`` comes before ``a/b``. What vanishes while we look
    is left out; links to directories are not followed, for they may lead round in circles.
    """
    waiting = _entries(top, "")
    while waiting:
        path, found = waiting.pop()
        if found is None:
            waiting += _entries(f"{top}/{path}", path)
        else:
            yield path, found


def folder_names(top: str) -> list[str]:
    """The names of the directories in a directory, sorted; also of links to directories."""
    try:
        with os.scandir(top) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((name for name in names if _is_text(name)), key=str.encode)


def _entries(folder: str, prefix: str) -> list[tuple[str, os.stat_result | None]]:
    """What is in a directory, last one first: files with their stat, directories without, ending in ``/``."""
    found: list[tuple[str, os.stat_result | None]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not _is_text(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((f"{prefix}{entry.name}/", None))
                elif (state := _stat(entry)) is not None and stat.S_ISREG(state.st_mode):
                    found.append((prefix + entry.name, state))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda item: item[0].encode(), reverse=True)


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return Path(entry.path).stat()
    except FileNotFoundError:
        return None


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8: others have no location."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
