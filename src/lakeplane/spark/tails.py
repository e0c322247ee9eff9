"""The ends of data files with their footers, read in few calls: a guess first, then what was longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lakeplane.errors import InvalidMetadata, LimitExceeded
from lakeplane.files.parquet_schema import TAIL, footer_length

_LARGEST: Final = 64 << 20


class FileEnd(NamedTuple):
    """A file whose footer is read."""

    path: str
    size: int
    file_format: str = "PARQUET"


def read_tails(
    files: Sequence[FileEnd],
    read_ranges: Callable[[Sequence[tuple[str, int, int]]], list[bytes]],
    at_first: int,
) -> list[bytes]:
    """The ends of files, each with its whole footer.

    Args:
        files: The files, Parquet or ORC.
        read_ranges: Reads parts of files: path, where it starts, and how long it is.
        at_first: How much is read of each, before its footer tells how long it is.
    """
    tails = read_ranges([_end(each, min(each.size, at_first)) for each in files])
    more: dict[int, int] = {}
    for position, (file, tail) in enumerate(zip(files, tails, strict=True)):
        needed = _needed(file, tail)
        if needed > min(file.size, _LARGEST):
            problem = f"its footer would be {needed} bytes long, of {file.size}"
            kind = InvalidMetadata if needed > file.size else LimitExceeded
            raise kind(problem, source=file.path)
        if needed > len(tail):
            more[position] = needed
    longer = read_ranges([_end(files[each], needed) for each, needed in more.items()]) if more else []
    for position, tail in zip(more, longer, strict=True):
        tails[position] = tail
    return tails


def _end(file: FileEnd, length: int) -> tuple[str, int, int]:
    return file.path, file.size - length, length


def _needed(file: FileEnd, tail: bytes) -> int:
    """How long the end of a file is that holds its footer."""
    if file.file_format == "PARQUET":
        return footer_length(tail, file.path) + TAIL
    # The end of an ORC file tells its own length last, and those of the two parts before it first.
    if not tail or len(tail) < tail[-1] + 1:
        raise InvalidMetadata("it does not end as an ORC file does", source=file.path)
    numbers = _varints(tail[-1 - tail[-1] : -1])
    return tail[-1] + 1 + numbers.get(1, 0) + numbers.get(5, 0)


def _varints(message: bytes) -> dict[int, int]:
    """The plain numbers of a Protocol Buffers message, by their field numbers."""
    found: dict[int, int] = {}
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while place < len(message):
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
                break
            shift += 7
        return value

    while place < len(message):
        key = number()
        match key & 7:
            case 0:
                found[key >> 3] = number()
            case 2:
                length = number()
                place += length
            case _:
                break
    return found
