"""The change feed through the front door, against a model of what happened to the rows."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import lakeplane as lp
from lakeplane.iceberg.changes import Rewrite
from lakeplane.reading import Reader
from lakeplane.row_changing import RowChange
from lakeplane.spark.row_changes import remaining
from lakeplane.writing import Written
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
STATEMENTS = ("delete", "update", "merge")
ADDED = ("_change_type", "_change_ordinal", "_commit_snapshot_id")


class Layout(NamedTuple):
    version: int
    mode: str
    parts: tuple[str, ...] = ()
    identified: bool = False
    """Whether the schema has an identifier field."""


LAYOUTS = [
    Layout(2, "copy-on-write"),
    Layout(2, "merge-on-read", ("region",), identified=True),
    Layout(3, "copy-on-write", ("bucket(2, id)",)),
    Layout(3, "merge-on-read", ("region",)),
]


class State(NamedTuple):
    """A table after a commit."""

    snapshot: int | None
    rows: dict[int, Row]
    updated: AbstractSet[int]
    """The rows that were updated, even if to what they were."""


class Lived:
    """A table that things happen to, and what its changes should be."""

    def __init__(self, folder: Path, spark: SparkSession, layout: Layout) -> None:
        self.lake = lp.connect(str(folder / "warehouse"), spark=spark)
        self.lake.create_namespace("shop")
        properties = {"format-version": str(layout.version)}
        properties |= {f"write.{each}.mode": layout.mode for each in STATEMENTS}
        self.table = self.lake.create_table(
            "shop.orders",
            "id BIGINT NOT NULL, amount DOUBLE, region STRING, tags MAP<STRING, INT>",
            partition_by=list(layout.parts),
            properties=properties,
        )
        if layout.identified:
            with self.table.evolve() as change:
                change.set_identifier_fields("id")
        self.pairs = layout.version > 2 or layout.identified
        """Whether rows that change are updates, and not a deleted and an inserted row."""
        self.columns = ["id", "amount", "region", "tags"]
        self.has_row_ids = layout.version > 2
        self.states = [State(None, {}, frozenset())]

    @property
    def rows(self) -> dict[int, Row]:
        return {each: dict(row) for each, row in self.states[-1].rows.items()}

    def done(self, rows: dict[int, Row], updated: AbstractSet[int] = frozenset()) -> None:
        self.states.append(State(self.table.metadata.current_snapshot_id, rows, updated))

    def add(self, start: int, end: int) -> None:
        new = [self._row(number) for number in range(start, end)]
        self.table.append(self._arrow(new))
        self.done(self.rows | {each["id"]: each for each in new})

    def delete(self, some: set[int]) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, some))})")
        self.done({each: row for each, row in self.rows.items() if each not in some})

    def update(self, some: set[int], region: str) -> None:
        self.table.update({"region": f"'{region}'"}, f"id IN ({', '.join(map(str, some))})")
        rows = self.rows
        for each in some & set(rows):
            rows[each]["region"] = region
        self.done(rows, some)

    def merge(self, some: set[int], gone: set[int]) -> None:
        source = pa.table(
            {"id": pa.array(sorted(some | gone)), "gone": [each in gone for each in sorted(some | gone)]}
        )
        merging = self.table.merge(source, "t.id = s.id").when_matched_delete("s.gone")
        merging = merging.when_matched_update({"amount": "t.amount + 1"})
        merging.when_not_matched_insert({"id": "s.id"}, "NOT s.gone").execute()
        rows = {each: row for each, row in self.rows.items() if each not in gone}
        for each in some:
            if each in rows:
                rows[each]["amount"] = None if rows[each]["amount"] is None else rows[each]["amount"] + 1
            else:
                rows[each] = dict.fromkeys(self.columns) | {"id": each}
        self.done(rows, some)

    def add_column(self) -> None:
        with self.table.evolve() as change:
            change.add_column("note", "STRING")
            change.rename_column("amount", "total")
        self.columns = ["id", "total", "region", "tags", "note"]

    def _row(self, number: int) -> Row:
        amounts = (float("nan"), None, number / 2)
        tags = None if number % 5 == 0 else [("b", number), ("a", 1)]
        return {"id": number, "amount": amounts[number % 3], "region": f"r{number % 3}", "tags": tags}

    def _arrow(self, rows: list[Row]) -> pa.Table:
        types = [pa.int64(), pa.float64(), pa.string(), pa.map_(pa.string(), pa.int32())]
        names = ["id", "amount", "region", "tags"]
        return pa.Table.from_pylist(rows, pa.schema(list(zip(names, types, strict=True))))

    # What should be

    def change(self, since: int, until: int) -> list[tuple[str, Row]]:
        """The difference between two states, by their positions."""
        old, new = self.states[since].rows, self.states[until].rows
        # Whoever has written a row anew without another value is known where rows have ids.
        updated: set[int] = set().union(
            *(each.updated for each in self.states[since + 1 : until + 1] if self.has_row_ids)
        )
        kinds = ("update_before", "update_after") if self.pairs else ("delete", "insert")
        found = [("delete", row) for each, row in old.items() if each not in new]
        found += [("insert", row) for each, row in new.items() if each not in old]
        for each in old.keys() & new.keys():
            if each in updated or canonical(new[each]) != canonical(old[each]):
                found += [(kinds[0], old[each]), (kinds[1], new[each])]
        return found

    def expected(self, since: int = 0, until: int | None = None) -> list[Any]:
        """The feed between two states."""
        steps = itertools.pairwise(range(since, len(self.states) if until is None else until + 1))
        return sorted(
            (str(self.shown(row)), kind, ordinal, self.states[after].snapshot)
            for ordinal, (before, after) in enumerate(steps)
            for kind, row in self.change(before, after)
        )

    def shown(self, row: Row) -> Row:
        """A row in the columns of today."""
        older = {"total": "amount"}
        return canonical({name: row.get(name, row.get(older.get(name, ""))) for name in self.columns})

    def feed(self, *args: Any, **how: Any) -> list[Any]:
        return shown(self.table.changes(*args, **how))


def canonical(row: Row) -> Row:
    """A row that equals those with the same values: NaN is itself, and entries of maps have no order."""
    return {
        name: "NaN"
        if isinstance(value, float) and math.isnan(value)
        else sorted(map(tuple, value))
        if name == "tags" and value
        else value
        for name, value in row.items()
    }


def shown(frame: DataFrame) -> list[Any]:
    found = []
    for row in frame.toArrow().to_pylist():
        kind, ordinal, snapshot = (row.pop(each) for each in ADDED)
        found.append((str(canonical(row)), kind, ordinal, snapshot))
    return sorted(found)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_feed_tells_what_happened(spark: SparkSession, tmp_path: Path, layout: Layout) -> None:
    chance = random.Random(f"feed {layout}")
    lived = Lived(tmp_path, spark, layout)
    lived.add(0, 20)
    lived.delete({1, 3, 8})
    lived.add(20, 26)
    lived.update({4, 5, 22}, "new")
    lived.merge({6, 7, 40, 41}, {9, 21})
    lived.add_column()
    lived.delete(set(chance.sample(sorted(lived.rows), 5)))
    assert lived.table.changes(None).columns == [*lived.columns, *ADDED]
    assert lived.feed(None) == lived.expected()
    ids = [each.snapshot for each in lived.states]
    assert lived.feed(ids[2], ids[5]) == lived.expected(2, 5)
    assert lived.feed(ids[-1]) == []
    net = lived.change(1, len(ids) - 1)
    assert lived.feed(ids[1], net=True) == sorted(
        (str(lived.shown(row)), kind, 0, ids[-1]) for kind, row in net
    )


def compact(lived: Lived) -> None:
    """Put one file in the place of all others."""
    table = lived.table.refresh()
    store = table._catalog.store_for(table._entry)
    reader = Reader.of(store, table._resources)
    writer = RowChange("update", table.metadata, reader, Written(store), {})
    found = reader.plan(table.metadata)
    columns = [each.name for each in writer._target().schema.fields]
    rows = remaining(reader.frame(found, columns), None, writer._target().schema)
    files = writer._write(rows.coalesce(1), writer._target())
    read = table.metadata.current_snapshot_id
    assert read is not None
    table._change(Rewrite(remove=found.files, files=files, validate_from=read))
    current = table.metadata.current_snapshot
    assert current is not None
    assert current.operation == "replace"


@pytest.mark.parametrize("layout", [Layout(1, "copy-on-write"), Layout(3, "merge-on-read")], ids=str)
def test_compactions_change_nothing(spark: SparkSession, tmp_path: Path, layout: Layout) -> None:
    lived = Lived(tmp_path, spark, layout)
    lived.add(0, 9)
    lived.delete({2, 5})
    before = lived.table.metadata.current_snapshot_id
    compact(lived)
    assert lived.feed(before) == []
    assert lived.feed(before, net=True) == []
    lived.update({3, 4}, "new")
    assert lived.feed(None) == lived.expected(), "compactions are not counted"
    net = [(str(lived.shown(row)), kind, 0, lived.states[-1].snapshot) for kind, row in lived.change(1, 3)]
    assert lived.feed(lived.states[1].snapshot, net=True) == sorted(net)


def test_the_feed_of_a_table_of_pyiceberg(spark: SparkSession, tmp_path: Path) -> None:
    told = ask("pyiceberg_changes", str(tmp_path))
    table = lp.open(told["metadata"], spark=spark)
    assert isinstance(table, lp.Table)
    states: list[dict[int, Any]] = [{}, *(dict(each["rows"]) for each in told["states"])]
    snapshots = [each["snapshot"] for each in told["states"]]

    def between(old: dict[int, Any], new: dict[int, Any], ordinal: int, snapshot: int) -> list[Any]:
        found = []
        for number in old.keys() ^ new.keys():
            kind = "delete" if number in old else "insert"
            found.append((number, (old | new)[number], kind, ordinal, snapshot))
        for number in old.keys() & new.keys():
            if old[number] != new[number]:
                found.append((number, old[number], "update_before", ordinal, snapshot))
                found.append((number, new[number], "update_after", ordinal, snapshot))
        return sorted(found, key=str)

    expected = [
        row
        for ordinal, (old, new) in enumerate(itertools.pairwise(states))
        for row in between(old, new, ordinal, snapshots[ordinal])
    ]
    frame = table.changes(None)
    assert frame.columns == ["id", "label", *ADDED]
    assert sorted(map(tuple, frame.collect()), key=str) == sorted(expected, key=str)
    # PyIceberg publishes an update as two snapshots.
    net = sorted(map(tuple, table.changes(snapshots[2], net=True).collect()), key=str)
    assert net == between(states[3], states[-1], 0, snapshots[-1])
    assert {each[2] for each in net} == {"insert", "delete", "update_before", "update_after"}
