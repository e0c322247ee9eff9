"""A table whose rows a test knows, one by one: in which files they are, and which of them are deleted."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lakeplane.iceberg.changes import Append, RowDelta
from lakeplane.iceberg.conflicts import Isolation
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.types import LONG, STRING
from tests.iceberg.built import Listed, bounds, deletes
from tests.iceberg.changing import changing

Row: TypeAlias = tuple[str, int]
"""Partition and id."""

COLUMNS = (("id", LONG), ("p", STRING))


class DeletedRows(NamedTuple):
    """What a delete file says: positions by data file, or ids."""

    positions: dict[str, set[int]]
    ids: set[int] = set()  # noqa: RUF012 - nobody changes it


class Rows:
    """A table, partitioned by ``p``, whose files exist only here."""

    def __init__(self, version: int, *rows: Row, apart: bool = False, **properties: str) -> None:
        self.made = changing(*COLUMNS, by=["identity p"], format_version=version, **properties)
        self.version = version
        self.rows: dict[str, list[Row]] = {}
        self.deleted: dict[tuple[str, int | None], DeletedRows] = {}
        self._numbers = itertools.count()
        parts = [[row] for row in rows] if apart else [list(rows)]
        if rows:
            self.made.commit(Append(files=tuple(new for each in parts for new in self.files(each))))

    # What comes

    def files(self, rows: Iterable[Row]) -> tuple[NewFiles, ...]:
        """A new file for the rows of each partition."""
        listed, given = [], list(rows)
        for p in sorted({each for each, _ in given}):
            name = f"f{next(self._numbers)}"
            self.rows[name] = [row for row in given if row[0] == p]
            ids = [number for _, number in self.rows[name]]
            facts = {1: bounds(LONG, min(ids), max(ids), values=len(ids))}
            listed.append(Listed(name, (p,), facts, len(ids)))
        return self.made.new(*listed) if listed else ()

    def by_position(self, found: dict[str, set[int]]) -> tuple[NewFiles, ...]:
        """A vector, or a position delete file, for each data file, given the positions that are deleted."""
        return tuple(self._of_file(name, positions) for name, positions in found.items() if positions)

    def _of_file(self, name: str, positions: set[int]) -> NewFiles:
        path = f"{self.made.table.location}/data/{name}"
        more: dict[str, Any] = {"referenced_data_file": path}
        if self.version > 2:
            more |= {"file_format": "PUFFIN", "content_offset": 4, "content_size_in_bytes": 40}
        listed = Listed(f"d{next(self._numbers)}", (self.rows[name][0][0],), {}, len(positions), more=more)
        self.deleted[self._path(listed), more.get("content_offset")] = DeletedRows({name: positions})
        return self._new(listed)

    def by_value(self, p: str, *ids: int) -> tuple[NewFiles, ...]:
        """An equality delete file."""
        more = {"equality_ids": [1]}
        listed = Listed(f"e{next(self._numbers)}", (p,), {}, len(ids), content=EQUALITY_DELETES, more=more)
        self.deleted[self._path(listed), None] = DeletedRows({}, set(ids))
        return (self._new(listed),)

    def _path(self, listed: Listed) -> str:
        return f"{self.made.table.location}/data/{listed.path}"

    def _new(self, listed: Listed) -> NewFiles:
        placed = listed._replace(path=self._path(listed))
        return NewFiles(0, deletes(self.made.table, [placed]).table.drop_columns(["status"]))

    # What is there

    def plan(self) -> ReadPlan:
        return plan(self.made.table, self.made.built.reading())

    def live(self) -> dict[str, dict[int, Row]]:
        """The rows of each data file that are not deleted, by their positions."""
        found = self.plan()
        said = [
            self.deleted[path, place]
            for path, place in zip(
                *(found.deletes[name].to_pylist() for name in ("file_path", "content_offset")), strict=True
            )
        ]
        columns = ("file_path", "vector", "position_deletes", "equality_deletes")
        live = {}
        for each in found.files.select(columns).to_pylist():
            name = each["file_path"].rpartition("/")[2]
            vector = [] if each["vector"] is None else [each["vector"]]
            gone = set[int]().union(
                *(said[at].positions.get(name, set()) for at in (*vector, *each["position_deletes"]))
            )
            ids = set[int]().union(*(said[at].ids for at in each["equality_deletes"]))
            rows = enumerate(self.rows[name])
            live[name] = {at: row for at, row in rows if at not in gone and row[1] not in ids}
        return live

    def now(self) -> Counter[Row]:
        return Counter(row for rows in self.live().values() for row in rows.values())

    def deleted_positions(self, name: str) -> set[int]:
        """What is deleted of a file, by position or by value."""
        return set(range(len(self.rows[name]))) - set(self.live()[name])

    def older_deletes(self, names: Iterable[str]) -> pa.Table:
        """The vectors and position deletes of some data files, as a plan has them."""
        found = self.plan()
        paths = {f"{self.made.table.location}/data/{name}" for name in names}
        keep = [path in paths for path in found.deletes["referenced_data_file"].to_pylist()]
        return found.deletes.filter(pa.array(keep, pa.bool_()))

    def named(self, matches: Callable[[Row], bool]) -> list[str]:
        """The files with matching rows."""
        return [name for name, rows in self.live().items() if any(map(matches, rows.values()))]

    @property
    def read_at(self) -> int | None:
        return self.made.table.current_snapshot_id

    def delta(
        self,
        matches: Callable[[Row], bool],
        new: Iterable[Row] = (),
        *,
        read: str = "TRUE",
        isolation: Isolation | None = "serializable",
        only_deletes: bool = False,
        **more: Any,
    ) -> RowDelta:
        """Delete the rows that match, with what was deleted of their files before, and add new ones."""
        positions = {}
        for name, rows in self.live().items():
            gone = {at for at, row in rows.items() if matches(row)}
            if gone:
                positions[name] = gone | self.deleted_positions(name)
        return RowDelta(
            files=self.files(new),
            deletes=self.by_position(positions),
            deletes_from=self.made.files(*positions),
            remove_deletes=self.older_deletes(positions),
            conflicts_with=self.made.where(read),
            isolation=isolation,
            validate_from=self.read_at,
            refuse_new_deletes=not only_deletes,
            **more,
        )

    def commit(self, change: Any) -> Snapshot:
        return self.made.commit(change)
