"""Fetching what many things need, a window at a time: enough for a store, not too much for memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.model.parallel import in_parallel

T = TypeVar("T")
R = TypeVar("R")

ReadRanges: TypeAlias = Callable[[Sequence[tuple[str, int, int]]], list[bytes]]
"""Reads parts of files: path, where it starts, and how long it is."""

WINDOW_BYTES: Final = 64 << 20
UNKNOWN_BYTES: Final = 1 << 20
"""What a file is taken to have whose size nobody tells."""


def fetch_all(
    things: Sequence[T],
    paths_of: Callable[[T], Sequence[str]],
    size_of: Callable[[T], int],
    do: Callable[[T, list[bytes]], R],
    reading: Reading,
) -> list[R]:
    """Do something with each thing and the bytes of its files; ``reading`` tells with how many at a time."""
    results: list[R] = []
    for window in windows(things, size_of):
        paths = [paths_of(each) for each in window]
        contents = iter(reading.read_many([path for each in paths for path in each]))
        work = [(each, [next(contents) for _ in own]) for each, own in zip(window, paths, strict=True)]
        results += in_parallel(lambda each: do(*each), work, reading.workers)
    return results


def windows(things: Sequence[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Things in their order, as many together as a window takes."""
    waiting: list[T] = []
    size = 0
    for each in things:
        waiting.append(each)
        size += size_of(each)
        if size >= WINDOW_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting
