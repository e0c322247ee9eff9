"""How the files of a table are read, and what of them is kept: the seam to whoever does I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from lakeplane.model.parallel import in_parallel
from lakeplane.paimon.layout import manifest_path
from lakeplane.paimon.manifests import parse_index_manifest, parse_manifest, parse_manifest_list

Recall: TypeAlias = "Callable[[tuple[str, ...], Callable[[], pa.Table]], pa.Table]"
"""Gives the table that is kept under a key, or makes it now; manifests never change."""

WORKERS: Final = 8
"""Manifests that are read at a time: while some wait for the store, others are decoded."""


def at_once(_: tuple[str, ...], make: Callable[[], pa.Table]) -> pa.Table:
    """Keep nothing."""
    return make()


class Files(NamedTuple):
    """How a table's files are read.

    Paths go from the directory of the table on, or are whole where a table names a place elsewhere.
    """

    read_many: Callable[[Sequence[str]], list[bytes]]
    """From paths to the bytes there; a file that is missing is an error."""
    read_if_there: Callable[[str], bytes | None]
    """The bytes of a file, None if there is none."""
    names: Callable[[str], list[str]]
    """The names of what lies directly in a directory; none if there is no directory."""
    recall: Recall = at_once
    workers: int = WORKERS

    def manifest_list(self, name: str) -> pa.Table:
        """The manifests of a list."""
        path = manifest_path(name)

        def read() -> pa.Table:
            [data] = self.read_many([path])
            return parse_manifest_list(data, path)

        return self.recall((path, "list"), read)

    def index_manifest(self, name: str) -> pa.Table:
        """The index files of an index manifest."""
        path = manifest_path(name)

        def read() -> pa.Table:
            [data] = self.read_many([path])
            return parse_index_manifest(data, path)

        return self.recall((path, "index"), read)

    def manifests(self, names: Sequence[str], parts: Sequence[tuple[str, ...]]) -> list[pa.Table]:
        """The entries of manifests, with the columns of some parts; each part is kept by itself."""
        return in_parallel(lambda name: self._manifest(name, parts), names, self.workers)

    def _manifest(self, name: str, parts: Sequence[tuple[str, ...]]) -> pa.Table:
        path = manifest_path(name)
        fetched: list[bytes] = []

        def read(columns: tuple[str, ...]) -> pa.Table:
            if not fetched:
                fetched.extend(self.read_many([path]))
            return parse_manifest(fetched[0], path, columns)

        found = [self.recall((path, *part), lambda part=part: read(part)) for part in parts]  # type: ignore[misc]
        columns = {name: each[name] for each in found for name in each.column_names}
        return pa.table(columns)
