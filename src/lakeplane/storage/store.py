"""The contract of every store: eight methods, of which ``put`` is the only one that publishes.

A store holds **files**: byte strings under whole names. There are no folders to make, no handles, no seeking
and no renaming, since no object store has them. What a commit needs is one thing: to write a file whole,
if and only if nobody else was faster. So ``put`` with ``if_absent`` or ``if_match`` is the heart of it, and
its answers are told apart with care: *done*, *lost*, *not done*, and *unknown*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from lakeplane.errors import FileMissing, InvalidInput, InvalidLocation, LimitExceeded
from lakeplane.model.location import Location
from lakeplane.storage.recipe import Recipe

READ_LIMIT: Final = 1 << 30
"""How many bytes one read gives at most, unless its caller says otherwise: what is stored is not trusted."""


class Stat(msgspec.Struct, frozen=True):
    """What a store tells about a file without reading it."""

    location: Location
    size: int
    modified_ms: int
    etag: str | None
    """Names this content in ``put(if_match=...)``; ``None`` where the store has no such name.

    Equal bytes may have equal etags, as on S3. What is swapped must differ each time, or two can win.
    """


class Range(msgspec.Struct, frozen=True):
    """A part of a file, for ``read_many``: the same as the arguments of ``read``."""

    location: Location
    start: int = 0
    length: int | None = None


class Store(Protocol):
    """A place that holds files.

    **Every method** takes locations inside of the store; others are refused with ``InvalidLocation``. It may
    raise ``AccessDenied``, or ``StorageError`` for a failure that may be gone the next time. Reads, stats,
    listings and deletes are repeated by the store itself, with growing and random pauses, before it gives
    up; so is a ``put`` without condition. **A ``put`` with a condition is sent exactly once.**

    **Methods may be called from many threads at once.** A store does not travel to another process: what
    travels is its ``recipe()``.
    """

    @property
    def can_put_if_absent(self) -> bool:
        """Whether ``put(if_absent=True)`` is offered. ``require_put_if_absent`` tries it out."""
        ...

    @property
    def can_put_if_match(self) -> bool:
        """Whether ``put(if_match=...)`` is offered."""
        ...

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it.

        The part is cut as by slicing: ``data[start:][:length]``, with a negative ``start`` counting from the
        end. What lies beyond the end is not there, and no error.

        Raises:
            FileMissing: there is no such file.
            LimitExceeded: it would be more than ``limit`` bytes; they are not loaded first.
        """
        ...

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many files or parts at once, concurrently; the answers are in the order of the questions.

        The first failure is raised, and what has not begun is not begun. ``limit`` holds for each.
        """
        ...

    def stat(self, at: Location) -> Stat:
        """Tell about a file.

        Raises:
            FileMissing: there is no such file.
        """
        ...

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole, and give its etag, where there is one.

        Atomic: whoever reads sees all of the new bytes or none of them, under every failure. Durable: when
        this returns, the file survives a power cut. At most one of the conditions can be given; without one,
        what was there is replaced.

        Raises:
            FileExists: ``if_absent`` was given, and somebody else's file is there.
            FileChanged: ``if_match`` was given, and the file is another one, or gone.
            NoSpace: the store is full.
            StoreCannot: this store does not offer that condition, or no writing at all.
            StorageError: it certainly did not happen, and will not.
            OutcomeUnknown: the answer was lost. It may have happened, or may yet happen: look before doing
                anything, and delete nothing.
        """
        ...

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place, at every depth, sorted by the UTF-8 bytes of their names.

        What does not exist has nothing below it. **A listing is never the proof of anything**: it may miss
        files that were just written and show files that were just deleted. Names that are refused as
        locations are left out, for they cannot be addressed.
        """
        ...

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place, sorted: what has files below it, on disks also if empty."""
        ...

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names. One that is not there is deleted already.

        Durable as a put is: what is deleted does not come back. All are tried; the first failure is raised
        afterwards.
        """
        ...

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """Tell how to make this store in another process: without secrets, unless that is consented to.

        Raises:
            StoreCannot: the store exists in this process only.
        """
        ...


def slice_of(size: int, start: int, length: int | None) -> tuple[int, int]:
    """The bytes from and to which a read goes, for a file of that size."""
    if length is not None and length < 0:
        raise InvalidInput(f"a length of {length} bytes cannot be read")
    begin = max(0, size + start) if start < 0 else min(start, size)
    end = size if length is None else min(size, begin + length)
    return begin, end


def check_limit(at: Location, count: int, limit: int) -> None:
    """Refuse to load more bytes than the caller can take."""
    if count > limit:
        problem = f"{count} bytes are to be read, more than the limit of {limit}"
        raise LimitExceeded(problem, source=at.text)


def check_inside(root: Location | None, at: Location) -> None:
    """Refuse a place that is not inside of a store's root."""
    if root is not None and not root.contains(at):
        raise InvalidLocation(
            "outside of this store", source=at.text, hint=f"It holds what is in {root.text}"
        )


def check_file(root: Location | None, at: Location) -> None:
    """Refuse what cannot be the name of a file in a store."""
    check_inside(root, at)
    if not at.segments or (root is not None and at == root):
        raise InvalidLocation("the root of a store is not a file", source=at.text)


def check_conditions(at: Location, *, if_absent: bool, if_match: str | None) -> None:
    """Refuse conditions that contradict each other."""
    if if_absent and if_match is not None:
        raise InvalidInput("a file cannot both be absent and match", source=at.text)


def missing(at: Location) -> FileMissing:
    """The error for a file that is not there."""
    return FileMissing("there is no such file", source=at.text)
