"""What Paimon tables are read with: their files in a store, and Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakeplane.errors import FileMissing
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.model.location import Location, parse_location
from lakeplane.resources import Resources
from lakeplane.storage.store import Range, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeplane.paimon.files import Files
    from lakeplane.paimon.incremental import ChangeMode
    from lakeplane.paimon.time_travel import At
    from lakeplane.spark.frames import DataFrame, SparkSession
    from lakeplane.spark.read import Access


def files_of(store: Store, home: Location, cache: ManifestCache) -> Files:
    """The files of a table in a store; what is decoded of them is kept under the table's own place."""
    from lakeplane.paimon.files import Files  # noqa: PLC0415 - brings pyarrow

    def place(path: str) -> Location:
        return parse_location(path) if path.startswith("/") or ":/" in path else home / path

    def read_many(paths: Sequence[str]) -> list[bytes]:
        return store.read_many([Range(place(path)) for path in paths])

    def read_if_there(path: str) -> bytes | None:
        try:
            return store.read(place(path))
        except FileMissing:
            return None

    def names(folder: str) -> list[str]:
        at = place(folder)
        depth = len(at.segments)
        inside = (each.location.segments[depth] for each in store.files(at))
        return sorted({*inside, *store.folders(at)})

    def recall(key: tuple[str, ...], make: Callable[[], pa.Table]) -> pa.Table:
        return cache.table(("paimon", home.text, *key), make)

    return Files(read_many, read_if_there, names, recall)


class PaimonReader(NamedTuple):
    """A session of Spark that reads a table."""

    session: SparkSession
    store: Store
    home: Location
    resources: Resources

    @staticmethod
    def of(store: Store, home: Location, resources: Resources) -> PaimonReader:
        """With the session that a user gave, or the active one, or a new one."""
        from lakeplane.spark.session import find_session  # noqa: PLC0415 - brings pyspark

        return PaimonReader(find_session(resources.spark), store, home, resources)

    @property
    def files(self) -> Files:
        """The files of the table."""
        return files_of(self.store, self.home, self.resources.cache)

    def read(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        at: At,
        branch: str,
        *,
        read_optimized: bool,
    ) -> DataFrame:
        """The rows of a state."""
        from lakeplane.paimon.plan import plan  # noqa: PLC0415 - planning brings pyarrow
        from lakeplane.spark.paimon_read import read_paimon  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.session import is_case_sensitive, session_zone  # noqa: PLC0415

        found = plan(
            self.files,
            where,
            at,
            branch=branch,
            zone=session_zone(self.session),
            case_sensitive=is_case_sensitive(self.session),
            read_optimized=read_optimized,
        )
        return read_paimon(self.session, found, self.home.text, columns, where, access=self._access())

    def changes(
        self,
        between: tuple[int, int | None],
        columns: Sequence[str] | None,
        where: str | None,
        *,
        mode: ChangeMode,
        branch: str,
    ) -> DataFrame:
        """The changes between two snapshots."""
        from lakeplane.paimon.incremental import plan_changes  # noqa: PLC0415 - planning brings pyarrow
        from lakeplane.spark.paimon_read import read_changes  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.session import is_case_sensitive, session_zone  # noqa: PLC0415

        found = plan_changes(
            self.files,
            *between,
            where,
            mode=mode,
            branch=branch,
            zone=session_zone(self.session),
            case_sensitive=is_case_sensitive(self.session),
        )
        return read_changes(self.session, found, self.home.text, columns, where, access=self._access())

    def _read_ranges(self, parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        return self.store.read_many([Range(parse_location(path), *at) for path, *at in parts])

    def _access(self) -> Access:
        from lakeplane.spark.file_list import Scratch  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.read import Access  # noqa: PLC0415

        scratch, schemes = self.resources.scratch, self.resources.spark_schemes
        return Access(self._read_ranges, None if scratch is None else Scratch.at(scratch), schemes)
