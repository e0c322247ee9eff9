"""Two writers of one table: what each would change is made once, and published in any order, again and again.

Every change is made of the same state of a table, so that any of them may be published after any other one:
that is what happens when one writer reads, another one commits, and the first one commits, too.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeplane.catalog.catalog import Entry
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.metadata_files import Surroundings
from lakeplane.catalog.names import parse_name
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.iceberg.changes import Append, Change, Overwrite, OverwritePartitions, Rewrite, RowDelta
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.lake import Lake
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.frozen import EMPTY
from lakeplane.model.location import parse_location
from lakeplane.reading import Reader
from lakeplane.resources import Resources
from lakeplane.row_changing import RowChange, Statement
from lakeplane.spark.merge import Clause, Merging
from lakeplane.storage.local import LocalStore
from lakeplane.table import Table
from lakeplane.testing.clock import ManualClock, SeededIds
from lakeplane.writing import Written, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeplane.evolution import Evolution

Row = tuple[int, str, int]
"""``id``, ``p`` and ``v``."""
Rows = frozenset[Row]
NAME: Final = parse_name("shop.both")
GONE: Final[Row] = (7, "a", 0)
"""A row that is deleted before anybody begins, so that files have deletes already."""
BEFORE: Final[tuple[Row, ...]] = ((1, "a", 0), (2, "a", 0), (3, "b", 0), (4, "b", 0))


class Act(NamedTuple):
    """What a writer does, and what it means for the rows."""

    name: str
    means: Callable[[Rows], Rows]
    does: Change | Callable[[Evolution], None]
    written: tuple[str, ...] = ()
    is_serializable: bool = True
    mode: str = ""

    def __str__(self) -> str:
        kind = "serializable" if self.is_serializable else "snapshot"
        return f"{self.name} ({self.mode} {kind})" if self.mode else f"{self.name} ({kind})"


def arrow(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    types = (pa.int64(), pa.string(), pa.int32())
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=["id", "p", "v"])


class Both:
    """A table that two writers change, and that can be put back as it was."""

    def __init__(self, folder: Path, spark: SparkSession, version: int, parts: Sequence[str]) -> None:
        root = parse_location(str(folder))
        self.folder, self.store, self.pointers = folder, LocalStore(root), MemoryPointers()
        self.resources = Resources(ManifestCache(), spark)
        clock, ids = ManualClock(step_ms=1), SeededIds(7)
        around = Surroundings(clock.now_ms, lambda: str(ids.uuid()))
        self.catalog = PointerCatalog(
            self.pointers, warehouse=root, open_store=lambda _: self.store, surroundings=around
        )
        lake = Lake(self.catalog, self.resources)
        lake.create_namespace("shop")
        table = lake.create_table(
            NAME,
            "id BIGINT, p STRING, v INT",
            partition_by=parts,
            properties={"format-version": str(version)},
        )
        first = [each for each in (*BEFORE, GONE) if each[1] == "a"]
        table.append(arrow(first))
        table.append(arrow([each for each in BEFORE if each[1] == "b"]))
        table.delete(f"id = {GONE[0]}", mode="merge-on-read")
        self.entry = self.catalog.load("table", NAME)
        self.at = dict(self.pointers._pointers)
        self.start = self.files()
        self.contents: dict[str, bytes] = {}

    @property
    def table(self) -> TableMetadata:
        assert isinstance(self.entry.metadata, TableMetadata)
        return self.entry.metadata

    def files(self) -> set[str]:
        return {f"{place}/{name}" for place, _, names in os.walk(self.folder) for name in names}

    def put_back(self) -> None:
        self.pointers._pointers = dict(self.at)
        for path, data in self.contents.items():
            if not Path(path).exists():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(data)
        for path in self.files() - self.start - set(self.contents):
            Path(path).unlink()

    def keep(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Remember new files, which a writer that loses deletes."""
        self.contents |= {path: Path(path).read_bytes() for path in paths}
        return tuple(paths)

    # What writers do

    def reader(self) -> Reader:
        return Reader.of(self.store, self.resources)

    def changed(
        self, act: Act, statement: Statement, mode: str, make: Callable[[RowChange], Change | None]
    ) -> Act:
        """Find and write what a statement comes to."""
        written = Written(self.store)
        how: Any = {"mode": mode}
        change = make(RowChange(statement, self.table, self.reader(), written, how))
        assert change is not None
        return act._replace(does=change, written=self.keep(written.paths), mode=mode)

    def written(self, name: str, rows: Sequence[Row], means: Callable[[Rows], Rows], make: Any) -> Act:
        files = write_files(arrow(rows), self.table, self.store, EMPTY, EMPTY)
        paths = [path for each in files for path in each.files["file_path"].to_pylist()]
        return Act(name, means, make(files), self.keep(paths))

    def acts(self) -> list[Act]:
        """One act of each kind, all of them serializable."""
        return [*self._plain(), *self._evolving(), *self._of_rows()]

    def _plain(self) -> list[Act]:
        read = self.table.current_snapshot_id
        assert read is not None
        watched: dict[str, Any] = {"isolation": "serializable", "validate_from": read}
        plan = self.reader().plan(self.table)
        replaced = parse_predicate("p = 'a'", self.table.schema)
        is_parted = not self.table.partition_spec.is_unpartitioned
        more, other = ((11, "a", 5), (12, "b", 5)), ((15, "a", 5), (16, "b", 5))
        rewritten = self.written(
            "rewrite", BEFORE, lambda rows: rows, lambda files: _rewrite(plan, files, read)
        )
        found = [
            self.written("append", more, lambda rows: rows | set(more), lambda files: Append(files=files)),
            self.written(
                "overwrite all",
                other,
                lambda _: frozenset(other),
                lambda files: _over(files, "true", self.table, watched),
            ),
            rewritten,
        ]
        if is_parted:
            one = ((13, "a", 6),)
            rest: Callable[[Rows], Rows] = lambda rows: frozenset(  # noqa: E731 - beside its uses
                [*one, *(each for each in rows if each[1] != "a")]
            )
            found += [
                self.written(
                    "overwrite a", one, rest, lambda files: Overwrite(files=files, where=replaced, **watched)
                ),
                self.written(
                    "overwrite partitions",
                    one,
                    rest,
                    lambda files: OverwritePartitions(files=files, **watched),
                ),
            ]
        return found

    def _evolving(self) -> list[Act]:
        def same(rows: Rows) -> Rows:
            return rows

        found = [
            Act("add a column", same, lambda change: change.add_column("more", "STRING")),
            Act("rename a column", same, lambda change: change.rename_column("v", "w")),
            Act("partition anew", same, lambda change: change.add_partition_field("bucket(2, id)")),
        ]
        if self.table.format_version == 2:
            found.append(Act("upgrade", same, lambda change: change.upgrade(3)))
        return found

    def _of_rows(self) -> list[Act]:
        found = []
        source = arrow([(1, "a", 10), (21, "b", 10)])
        clauses = (Clause("matched", "update"), Clause("not matched", "insert"))
        for mode in ("copy-on-write", "merge-on-read"):
            for name, statement, means, make in (
                (
                    "delete 1",
                    "delete",
                    lambda rows: frozenset(each for each in rows if each[0] != 1),
                    lambda work: work.delete("id = 1"),
                ),
                (
                    "delete a",
                    "delete",
                    lambda rows: frozenset(each for each in rows if each[1] != "a"),
                    lambda work: work.delete("p = 'a'"),
                ),
                ("update v", "update", _bumped, lambda work: work.update({"v": "v + 1"}, "p = 'a'")),
                ("move 2", "update", _moved, lambda work: work.update({"p": "'b'"}, "id = 2")),
                ("merge", "merge", _merged, lambda work: work.merge(source, Merging("t.id = s.id", clauses))),
            ):
                act = Act(name, means, Append(files=()))
                found.append(self.changed(act, statement, mode, make))  # type: ignore[arg-type]
        return found

    # Publishing

    def publish(self, act: Act, entry: Entry | None = None) -> Table:
        """Publish a change that was made of the first state."""
        table = Table(self.catalog, entry or self.entry, self.resources)
        if callable(act.does):
            with table.evolve() as change:
                act.does(change)
        else:
            table._publish_files(act.does, self.store, act.written)
        return table

    @contextmanager
    def before_commit(self, work: Callable[[], None]) -> Iterator[None]:
        """Let somebody else work right before the next commit is sent."""
        real, waiting = self.catalog.commit, [work]

        def commit(*given: Any, **named: Any) -> Any:
            if waiting:
                waiting.pop()()
            return real(*given, **named)

        self.catalog.commit = commit  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.catalog.commit = real  # type: ignore[method-assign]

    # Reading

    def rows(self) -> Counter[Row]:
        """The rows as the files and the deletes of a plan tell them, without Spark."""
        entry = self.catalog.load("table", NAME)
        assert isinstance(entry.metadata, TableMetadata)
        plan = self.reader().plan(entry.metadata)
        check_deletes(plan)
        gone = deleted_positions(plan.files, plan.deletes, self.reader().read_ranges)
        found: Counter[Row] = Counter()
        for number, path in enumerate(plan.files["file_path"].to_pylist()):
            rows = stored(path)
            found.update(row for place, row in enumerate(rows) if place not in gone.get(number, ()))
        return found


@functools.cache
def stored(path: str) -> list[Row]:
    """The rows of a file; no two files ever have one name."""
    table = pq.read_table(path, partitioning=None)
    return list(zip(*(table.column(place).to_pylist() for place in range(3)), strict=True))


def check_deletes(plan: ReadPlan) -> None:
    """There is one vector for a file, and nothing older beside it."""
    if plan.table.format_version < 3:
        return
    about = [each for each in plan.deletes["referenced_data_file"].to_pylist() if each is not None]
    assert len(set(about)) == len(about), about


def as_snapshot(act: Act) -> Act | None:
    """The same under snapshot isolation, if it has one."""
    if not isinstance(act.does, Overwrite | OverwritePartitions | RowDelta):
        return None
    return act._replace(does=replace(act.does, isolation="snapshot"), is_serializable=False)


def allowed(one: Act, other: Act) -> list[Counter[Row]]:
    """What may be there after one was published, which was made before the other one was."""
    start = frozenset(BEFORE)
    found = [Counter(one.means(other.means(start))), Counter(other.means(one.means(start)))]
    if one.is_serializable:
        return found
    # Each of the two may have worked on rows as they were before the other one, but not on the same ones.
    taken, brought, there = start - one.means(start), one.means(start) - start, other.means(start)
    if taken <= there:
        found.append(Counter(there - taken) + Counter(brought))
    return found


def _bumped(rows: Rows) -> Rows:
    return frozenset((i, p, v + 1) if p == "a" else (i, p, v) for i, p, v in rows)


def _moved(rows: Rows) -> Rows:
    return frozenset((i, "b" if i == 2 else p, v) for i, p, v in rows)


def _merged(rows: Rows) -> Rows:
    source = {1: (1, "a", 10), 21: (21, "b", 10)}
    return frozenset([*(each for each in rows if each[0] not in source), *source.values()])


def _rewrite(plan: ReadPlan, files: Any, read: int) -> Change:
    return Rewrite(remove=plan.files, files=files, validate_from=read)


def _over(files: Any, where: str, table: TableMetadata, watched: dict[str, Any]) -> Change:
    return Overwrite(files=files, where=parse_predicate(where, table.schema), **watched)
