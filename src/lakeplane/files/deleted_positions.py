"""Which rows of the files of a plan are deleted by position: vectors and position delete files as bitmaps.

Only what applies is kept: a delete file may speak of files that are in no plan, or that are newer than it is.
Rows stay in columns until they are bitmaps, which take a bit for a row of a data file, and less where few or
most rows are deleted. The bitmaps of all files of a plan are in memory at once, and so are some delete files
(``WINDOW_BYTES``, as they are stored); nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.iceberg.deletion_vectors import DEFAULT_LIMITS, VectorEntry, vector_from, vector_of
from lakeplane.iceberg.fetch_windows import ReadRanges, windows
from lakeplane.iceberg.position_delete_files import read_positions
from lakeplane.model.parallel import in_parallel

if TYPE_CHECKING:
    from pyroaring import BitMap64

_NEAR: Final = 64 << 10
"""Vectors of one Puffin file that are so close are read at once."""
_LARGEST_READ: Final = 8 << 20

Rows: TypeAlias = npt.NDArray[np.int64]


class _Piece(NamedTuple):
    """A part of a delete file, and what is made of it: deleted positions by rows of the plan."""

    path: str
    start: int
    length: int
    use: Callable[[bytes], list[tuple[int, BitMap64]]]


def deleted_positions(files: pa.Table, deletes: pa.Table, read_ranges: ReadRanges) -> dict[int, BitMap64]:
    """Load the deleted positions of the data files of a plan, by their rows in ``plan.files``.

    ``files`` and ``deletes`` are those of a ``ReadPlan``, and ``files`` may also be some rows of it: they are
    numbered as they come. Files without deleted rows have no entry. Equality deletes are not looked at.
    """
    found: dict[int, BitMap64] = {}
    pieces = _vectors(files, deletes) + _position_files(files, deletes)
    for window in windows(pieces, lambda each: each.length):
        contents = read_ranges([(each.path, each.start, each.length) for each in window])
        work = list(zip(window, contents, strict=True))
        for part in in_parallel(lambda each: each[0].use(each[1]), work, pa.cpu_count()):
            for row, positions in part:
                if row in found:
                    found[row] |= positions
                else:
                    found[row] = positions
    return found


# Deletion vectors


def _vectors(files: pa.Table, deletes: pa.Table) -> list[_Piece]:
    """Reads of deletion vectors: those that lie close to each other are one."""
    column = files["vector"].combine_chunks()
    rows = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    told = _told(deletes, column.take(pa.array(rows)))
    found = sorted(
        ((each["file_path"], _entry(each), row) for row, each in zip(rows.tolist(), told, strict=True)),
        key=lambda each: (each[0], each[1].offset),
    )
    pieces: list[_Piece] = []
    together: list[tuple[str, VectorEntry, int]] = []
    for each in found:
        if together and not _fits(together, each):
            pieces.append(_vector_piece(together))
            together = []
        together.append(each)
    return [*pieces, _vector_piece(together)] if together else pieces


def _told(deletes: pa.Table, rows: pa.Array) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = deletes.select(_FACTS).take(rows).to_pylist()
    if encrypted := next((each["file_path"] for each in told if each["key_metadata"] is not None), None):
        raise NotSupported("the delete file is encrypted", source=encrypted)
    return told


_FACTS: Final = (
    *("file_path", "file_format", "record_count", "file_size_in_bytes", "key_metadata"),
    *("referenced_data_file", "content_offset", "content_size_in_bytes"),
)


def _entry(told: dict[str, Any]) -> VectorEntry:
    source, offset, size = told["file_path"], told["content_offset"], told["content_size_in_bytes"]
    for name in ("content_offset", "content_size_in_bytes"):
        if told[name] is None or told[name] < 0:
            problem = f"the manifest tells {told[name]} of a deletion vector"
            raise InvalidMetadata(problem, source=source, field=name)
    if size > DEFAULT_LIMITS.size:
        problem = f"the deletion vector takes {size} bytes, more than {DEFAULT_LIMITS.size}"
        raise LimitExceeded(problem, source=source, hint="Rewrite the data file")
    return VectorEntry(told["referenced_data_file"], offset, size, told["record_count"])


def _fits(together: list[tuple[str, VectorEntry, int]], other: tuple[str, VectorEntry, int]) -> bool:
    (path, first, _), (_, last, _) = together[0], together[-1]
    entry = other[1]
    gap = entry.offset - (last.offset + last.size)
    return other[0] == path and gap <= _NEAR and entry.offset + entry.size - first.offset <= _LARGEST_READ


def _vector_piece(together: list[tuple[str, VectorEntry, int]]) -> _Piece:
    path, first, _ = together[0]
    end = max(entry.offset + entry.size for _, entry, _ in together)

    def use(data: bytes) -> list[tuple[int, BitMap64]]:
        return [(row, vector_of(data, entry, source=path, start=first.offset)) for _, entry, row in together]

    return _Piece(path, first.offset, end - first.offset, use)


# Position delete files


def _position_files(files: pa.Table, deletes: pa.Table) -> list[_Piece]:
    """Reads of position delete files, each with the data files that it applies to."""
    lists = files["position_deletes"].combine_chunks()
    rows = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy(zero_copy_only=False))
    numbers = lists.flatten().to_numpy()
    order = np.argsort(numbers, kind="stable")
    used, starts = np.unique(numbers[order], return_index=True)
    paths = files["file_path"].combine_chunks()
    apart = np.split(rows[order], starts[1:]) if len(used) else []
    told = _told(deletes, pa.array(used))
    return [_file_piece(each, own, paths.take(pa.array(own))) for each, own in zip(told, apart, strict=True)]


def _file_piece(told: dict[str, Any], rows: Rows, paths: pa.Array) -> _Piece:
    source = told["file_path"]

    def use(data: bytes) -> list[tuple[int, BitMap64]]:
        names, positions = read_positions(data, told["file_format"], source=source, most=told["record_count"])
        try:
            by_path = _by_path(names, positions.to_numpy(), paths)
        except InvalidInput as error:
            raise InvalidMetadata(error.problem, source=source, field="pos") from None
        return [
            # A file may be in a plan twice.
            (row, by_path[path].copy())
            for row, path in zip(rows.tolist(), paths.to_pylist(), strict=True)
            if path in by_path
        ]

    return _Piece(source, 0, told["file_size_in_bytes"], use)


def _by_path(names: pa.DictionaryArray, positions: Rows, wanted: pa.Array) -> dict[str, BitMap64]:
    """The positions of each of the wanted paths."""
    wanted = wanted.unique()
    hits = pc.fill_null(pc.index_in(names.dictionary, value_set=wanted), -1).to_numpy()
    numbers = hits[names.indices.to_numpy()] if len(hits) else np.zeros(0, np.int32)
    kept = numbers >= 0
    if not kept.all():
        numbers, positions = numbers[kept], positions[kept]
    if len(numbers) and (numbers[1:] < numbers[:-1]).any():
        order = np.argsort(numbers, kind="stable")
        numbers, positions = numbers[order], positions[order]
    used, starts = np.unique(numbers, return_index=True)
    parts: Sequence[Rows] = np.split(positions, starts[1:]) if len(used) else []
    return {
        wanted[number].as_py(): vector_from(part) for number, part in zip(used.tolist(), parts, strict=True)
    }
