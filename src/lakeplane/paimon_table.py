"""Paimon tables as users hold them: to be read, so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lakeplane.errors import NotSupported
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location
from lakeplane.model.schema import Schema
from lakeplane.paimon_reading import PaimonReader, files_of
from lakeplane.resources import Resources
from lakeplane.storage.store import Store
from lakeplane.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeplane.paimon.files import Files
    from lakeplane.paimon.incremental import ChangeMode
    from lakeplane.paimon.plan import Counts
    from lakeplane.paimon.schema import TableSchema
    from lakeplane.paimon.snapshots import Snapshot
    from lakeplane.paimon.time_travel import At
    from lakeplane.spark.frames import DataFrame

MAIN = "main"


class PaimonRef(NamedTuple):
    """A branch or tag, and the snapshot that it stands for: None for a branch without any."""

    type: Literal["branch", "tag"]
    snapshot_id: int | None


class PaimonExplanation(NamedTuple):
    """What a read would look at."""

    snapshot_id: int | None
    counts: Counts
    merges: bool
    """Whether some of the files have to be merged with each other."""


class PaimonTable:
    """A table in the Paimon format. Everything is looked up when it is asked for, so nothing gets old."""

    def __init__(self, name: str, home: Location, store: Store, resources: Resources) -> None:
        self._name = name
        self._home = home
        self._store = store
        self._resources = resources

    def __repr__(self) -> str:
        return f"PaimonTable({self._name!r})"

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there: what other tables can do is refused by its name.
        if not name.startswith("_") and hasattr(Table, name):
            hint = "Paimon tables can be read; write them with Paimon's own engines"
            raise NotSupported(f"{name} of a Paimon table", source=self._name, hint=hint)
        raise AttributeError(f"'PaimonTable' object has no attribute {name!r}", name=name, obj=self)

    @property
    def name(self) -> str:
        """The name in the catalog, or that of the directory."""
        return self._name

    @property
    def location(self) -> str:
        """The directory of the table."""
        return self._home.text

    @property
    def format(self) -> str:
        """``paimon``."""
        return "paimon"

    @property
    def _files(self) -> Files:
        return files_of(self._store, self._home, self._resources.cache)

    @property
    def definition(self) -> TableSchema:
        """The last schema as Paimon has it: fields with Paimon's types, keys and options."""
        from lakeplane.paimon.time_travel import latest_schema  # noqa: PLC0415 - brings pyarrow

        return latest_schema(self._files)

    @property
    def schema(self) -> Schema:
        """The columns that the table has now, with the types that all tables here have."""
        return self.definition.model

    @property
    def properties(self) -> FrozenDict[str, str]:
        """The options of the table."""
        return FrozenDict(self.definition.options)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart; none in an append table."""
        return self.definition.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns by whose values the table is parted."""
        return self.definition.partition_keys

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots that have not expired, the first one first."""
        from lakeplane.paimon.time_travel import snapshots  # noqa: PLC0415 - brings pyarrow

        return tuple(snapshots(self._files))

    @property
    def refs(self) -> FrozenDict[str, PaimonRef]:
        """The branches and tags, by name; a tag of the name of a branch comes first."""
        from lakeplane.paimon import layout, time_travel  # noqa: PLC0415 - brings pyarrow

        files = self._files
        found = {
            name: PaimonRef("branch", time_travel.latest_snapshot_id(files, name))
            for name in (MAIN, *time_travel.branches(files))
        }
        for name in layout.tag_names(files.names(layout.tag_folder())):
            tag = time_travel.read_tag(files, name)
            if tag is not None:
                found[name] = PaimonRef("tag", tag.snapshot.id)
        return FrozenDict(found)

    def refresh(self) -> PaimonTable:
        """Give the table back: there is nothing that could be old."""
        return self

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: At = None,
        branch: str | None = None,
        *,
        read_optimized: bool = False,
    ) -> DataFrame:
        """The rows of the table, as an ordinary DataFrame of Spark.

        Args:
            columns: Some of the columns, in this order.
            where: A condition in Spark's SQL. It leaves out files before Spark hears of them.
            at: A snapshot id, a tag, a branch or a time; without one, the table as it is now.
            branch: The branch whose snapshots and tags are meant, if not the main one.
            read_optimized: Read what has been compacted as a whole, and merge nothing: faster, and without
                what was written since.
        """
        reader = PaimonReader.of(self._store, self._home, self._resources)
        return reader.read(columns, where, at, branch or MAIN, read_optimized=read_optimized)

    def changes(
        self,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        mode: ChangeMode = "auto",
        branch: str | None = None,
    ) -> DataFrame:
        """What was changed after one snapshot, up to and with another one, or the last one.

        Each change is a row with ``_row_kind`` (``+I``, ``-U``, ``+U``, ``-D``), in tables with a primary key
        ``_sequence_number``, and the columns of the table. ``mode`` says whether changes are those of
        changelogs, what appends have written (``"delta"``), or changelogs where the table has any
        (``"auto"``).
        """
        reader = PaimonReader.of(self._store, self._home, self._resources)
        return reader.changes((since, until), columns, where, mode=mode, branch=branch or MAIN)

    def explain(
        self, where: str | None = None, at: At = None, branch: str | None = None, *, zone: str = "UTC"
    ) -> PaimonExplanation:
        """Tell what a read would look at, and how much each rule leaves out. No rows are read."""
        from lakeplane.paimon.plan import plan  # noqa: PLC0415 - planning brings pyarrow

        found = plan(self._files, where, at, branch=branch or MAIN, zone=zone)
        snapshot = found.state.snapshot
        return PaimonExplanation(None if snapshot is None else snapshot.id, found.counts, found.merges)

    def inspect(self, name: str, at: At = None, branch: str | None = None, *, zone: str = "UTC") -> pa.Table:
        """One of the system tables: ``snapshots``, ``schemas``, ``files``, ``manifests``, ``partitions``,
        ``buckets``, ``options``, ``tags``, ``branches`` or ``consumers``.
        """  # noqa: D205 - the list is one sentence
        from lakeplane.paimon.inspect import inspect  # noqa: PLC0415 - brings pyarrow

        return inspect(self._files, name, at, branch=branch or MAIN, zone=zone)
