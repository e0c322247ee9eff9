"""The ids of what is in lists and maps, put into the footers of files that Spark has just written to a disk.

Nobody knows the files yet, so that they may be changed in place. The footer is the last thing in a file, and
nothing in it says where it begins but the eight bytes behind it: it may become longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lakeplane.errors import StorageError
from lakeplane.files.footer_ids import add_field_ids
from lakeplane.model.location import Location
from lakeplane.model.parallel import in_parallel
from lakeplane.model.schema import Schema
from lakeplane.storage.store import Stat

_THREADS: Final = 8


def patch_files(
    files: Sequence[Stat], tails: Sequence[bytes], schema: Schema
) -> tuple[list[Stat], list[bytes]]:
    """Put ids into the footers of files on a disk; what the files and their ends are then.

    Args:
        files: The files.
        tails: Their ends, with their footers.
        schema: The schema of the table.
    """

    def patch(place: int) -> tuple[Stat, bytes]:
        file, tail = files[place], tails[place]
        changed = add_field_ids(tail, schema, file.location.text)
        if changed is None:
            return file, tail
        size = _replace_end(file, len(tail), changed)
        return msgspec.structs.replace(file, size=size, etag=None), changed

    patched = in_parallel(patch, list(range(len(files))), _THREADS)
    return [file for file, _ in patched], [tail for _, tail in patched]


def _replace_end(file: Stat, length: int, end: bytes) -> int:
    try:
        with open(_path(file.location), "r+b") as opened:  # noqa: PTH123 - a name as it is
            opened.seek(file.size - length)
            opened.write(end)
            opened.truncate()
            return opened.tell()
    except OSError as failure:
        problem = f"the field ids could not be put into the file: {failure.strerror}"
        raise StorageError(problem, source=file.location.text) from failure


def _path(location: Location) -> str:
    return "/" + "/".join(location.segments)
