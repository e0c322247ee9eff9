"""The change feed of tables whose files were made by others, in all the ways that rows can be deleted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.manifest_schema import (
    DATA_MANIFEST,
    DELETE_MANIFEST,
    EQUALITY_DELETES,
    POSITION_DELETES,
)
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.plan_changes import commits_between, schema_of_changes, steps
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.types import DOUBLE, LONG, STRING, VARIANT, Field, Geometry, List, Map, Struct
from lakeplane.spark.carry_overs import values_of
from lakeplane.spark.change_feed import change_feed, wanted_columns
from lakeplane.spark.read import Access
from lakeplane.spark.session import version_of
from lakeplane.testing.tables import Entries
from tests.iceberg.built import Listed, entries
from tests.spark.deleting import PATH, POS, write_file
from tests.spark.made import MadeTable, local_ranges, physical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ID, NAME = Field(1, "id", LONG), Field(2, "name", STRING)


def feed(
    table: MadeTable, spark: SparkSession, since: Any = None, until: Any = None, **how: Any
) -> DataFrame:
    metadata = table.built.metadata
    access = Access(local_ranges, hand_over=how.pop("way", None))
    commits = commits_between(metadata, since, until, net=how.pop("net", False))
    wanted = wanted_columns(spark, metadata, how.get("columns"), how.get("identifier_columns"))
    schema = schema_of_changes(metadata)

    def plan_of(snapshot: Snapshot) -> ReadPlan:
        found = plan(metadata, table.built.reading(), at=snapshot.snapshot_id)
        return found._replace(schema=schema)

    return change_feed(spark, steps(commits, plan_of), wanted, access)


def changes(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows of a feed without their snapshots, in the order of commits."""
    rows = [tuple(row)[:-1] for row in frame.collect()]
    return sorted(rows, key=lambda row: (row[-1], row[-2], str(row)))


def made_of(table: MadeTable, listed: Sequence[Listed], content: int = DATA_MANIFEST) -> Entries:
    """One manifest, with the sizes that files have."""
    made = entries(table.built.metadata, listed, 0, content)
    sizes = pa.array([Path(each.path).stat().st_size for each in listed], pa.int64())
    place = made.table.schema.get_field_index("file_size_in_bytes")
    return Entries(made.table.set_column(place, "file_size_in_bytes", sizes), 0, content)


# Any history


class Item(NamedTuple):
    """A manifest with one file, and what it says."""

    kind: str
    sequence: int
    path: str = ""
    rows: tuple[Any, ...] = ()
    """Of data files their rows, of deletes what they delete."""


class History:
    """A table that careless writers change, and a plain model of it."""

    def __init__(self, folder: Path, version: int, chance: random.Random) -> None:
        self.table = MadeTable(folder, Schema((ID, NAME)), format_version=version)
        self.chance, self.version = chance, version
        self.items: dict[str, Item] = {}
        """What is there, by the manifest that says it."""
        self.states: list[Counter[Any]] = [Counter()]
        self.number = 0

    def commit(self) -> None:
        """Do something to the table."""
        sequence = self.table.built.metadata.last_sequence_number + 1
        data = [name for name, each in self.items.items() if each.kind == "data"]
        doing = {self.chance.choice(["add", "add", "delete", "delete", "equal", "drop", "undo", "again"])}
        if self.chance.random() < 0.5:
            doing.add(self.chance.choice(["add", "delete", "equal"]))
        if not data:
            doing = {"add"}
        dropped = self._dropped(doing, data)
        new = [self._new(each, sequence, data, dropped) for each in sorted(doing - {"drop", "undo"})]
        keep = [each for each in self.table.built.manifests() if each.manifest_path not in dropped]
        self.table.built.commit(*[each for _, each in new], keep=keep, operation="overwrite")
        written = self.table.built.manifests()[: len(new)]
        self.items = {name: each for name, each in self.items.items() if name not in dropped}
        self.items |= {
            listed.manifest_path: item for listed, (item, _) in zip(reversed(written), new, strict=True)
        }
        self.states.append(self._live())

    def _dropped(self, doing: set[str], data: Sequence[str]) -> set[str]:
        dropped = {self.chance.choice(data)} if "drop" in doing else set()
        deletes = [name for name, each in self.items.items() if each.kind != "data"]
        return dropped | {each for each in deletes if "undo" in doing and self.chance.random() < 0.5}

    def _new(self, doing: str, sequence: int, data: Sequence[str], dropped: set[str]) -> tuple[Item, Entries]:
        match doing:
            case "add":
                return self._add(sequence)
            case "again":
                item = self.items[self.chance.choice(data)]._replace(sequence=sequence)
                return item, self._data(item)
            case "delete" if self.version > 2:
                return self._vector(self.items[self.chance.choice(data)], sequence, dropped)
            case "delete":
                some = self.chance.sample(data, min(2, len(data)))
                return self._positions([self.items[each] for each in some], sequence)
            case _:
                return self._equal(sequence)

    def _add(self, sequence: int) -> tuple[Item, Entries]:
        rows = [{"id": self.chance.randint(0, 12), "name": self.chance.choice(["a", None])} for _ in range(6)]
        path = self.table.write(rows, row_group_size=4)
        item = Item("data", sequence, path, tuple(tuple(each.values()) for each in rows))
        return item, self._data(item)

    def _data(self, item: Item) -> Entries:
        return made_of(self.table, [Listed(item.path, rows=len(item.rows))])

    def _vector(self, item: Item, sequence: int, dropped: set[str]) -> tuple[Item, Entries]:
        old = [
            name for name, each in self.items.items() if each.kind == "positions" and each.path == item.path
        ]
        dropped |= set(old)
        gone = {self.chance.randrange(6) for _ in range(2)}.union(*(self.items[each].rows for each in old))
        file, [told] = write_vectors({item.path: BitMap64(gone)})
        self.number += 1
        path = self.table.folder / f"h{self.number}.puffin"
        path.write_bytes(file.data)
        more = {
            "file_format": "PUFFIN",
            "referenced_data_file": item.path,
            "content_offset": told.offset,
            "content_size_in_bytes": told.size,
        }
        listed = Listed(str(path), rows=len(gone), content=POSITION_DELETES, more=more)
        made = made_of(self.table, [listed], DELETE_MANIFEST)
        return Item("positions", sequence, item.path, tuple(gone)), made

    def _positions(self, data: Sequence[Item], sequence: int) -> tuple[Item, Entries]:
        pairs = sorted({(each.path, self.chance.randrange(6)) for each in data for _ in range(2)})
        fields = [msgspec.structs.replace(each, doc=None) for each in (PATH, POS)]
        rows = [{"file_path": path, "pos": pos} for path, pos in pairs]
        path = write_file(self.table, fields, rows, "PARQUET")
        listed = Listed(path, rows=len(rows), content=POSITION_DELETES)
        return Item("positions", sequence, "", tuple(pairs)), made_of(self.table, [listed], DELETE_MANIFEST)

    def _equal(self, sequence: int) -> tuple[Item, Entries]:
        gone = sorted({self.chance.randint(0, 12) for _ in range(2)})
        path = write_file(self.table, [ID], [{"id": each} for each in gone], "PARQUET")
        listed = Listed(path, rows=len(gone), content=EQUALITY_DELETES, more={"equality_ids": [1]})
        return Item("equal", sequence, "", tuple(gone)), made_of(self.table, [listed], DELETE_MANIFEST)

    def _live(self) -> Counter[Any]:
        """The rows; where they have ids, they are told apart by where they lie."""
        found: Counter[Any] = Counter()
        deletes = [each for each in self.items.values() if each.kind != "data"]
        for item in self.items.values():
            if item.kind != "data":
                continue
            for pos, row in enumerate(item.rows):
                if not any(self._is_deleted(item, pos, row, each) for each in deletes):
                    found[(row, item.path, item.sequence, pos) if self.version > 2 else (row,)] += 1
        return found

    @staticmethod
    def _is_deleted(item: Item, pos: int, row: Any, delete: Item) -> bool:
        if delete.kind == "equal":
            return item.sequence < delete.sequence and row[0] in delete.rows
        if delete.path:
            return delete.path == item.path and item.sequence <= delete.sequence and pos in delete.rows
        return item.sequence <= delete.sequence and (item.path, pos) in delete.rows

    def expected(self, *pairs: tuple[int, int]) -> list[tuple[Any, ...]]:
        found = []
        for ordinal, (since, until) in enumerate(pairs):
            old, new = self.states[since], self.states[until]
            for kind, gone in (("delete", old - new), ("insert", new - old)):
                found += [(*key[0], kind, ordinal) for key in gone.elements()]
        return sorted(found, key=lambda row: (row[-1], row[-2], str(row)))


@pytest.mark.parametrize(("version", "commits", "way"), [(2, 12, None), (3, 12, None), (3, 5, "paths")])
def test_any_history_is_told(
    spark: SparkSession, tmp_path: Path, version: int, commits: int, way: Any
) -> None:
    history = History(tmp_path, version, random.Random(f"history {version}"))
    for _ in range(commits):
        history.commit()
    each_step = [(number, number + 1) for number in range(commits)]
    assert changes(feed(history.table, spark, way=way)) == history.expected(*each_step)
    ids = [None, *(each.snapshot_id for each in history.table.built.metadata.snapshots)]
    net = feed(history.table, spark, ids[3], ids[commits - 1], net=True, way=way)
    assert changes(net) == history.expected((3, commits - 1))


# Rows that were copied, and rows that were updated

ROW_ID, UPDATED = METADATA_COLUMNS["_row_id"], METADATA_COLUMNS["_last_updated_sequence_number"]


def replace(table: MadeTable, rows: Sequence[dict[str, Any]], fields: Sequence[Field]) -> None:
    """Write all rows anew: the files that were there go."""
    path = write_file(table, [msgspec.structs.replace(each, doc=None) for each in fields], rows, "PARQUET")
    table.built.commit(made_of(table, [Listed(path, rows=len(rows))]), keep=(), operation="overwrite")


def named(*pairs: tuple[int | None, str | None]) -> list[dict[str, Any]]:
    return [{"id": number, "name": name} for number, name in pairs]


def test_updates_are_told_by_identifiers_as_iceberg_does(spark: SparkSession, tmp_path: Path) -> None:
    """The examples of Iceberg's create_changelog_view: carried over rows, and both images of an update."""
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append(named((1, "Alice"), (2, "Bob"), (3, "Robert"), (4, None)))
    replace(table, named((1, "Alice"), (3, "Dan"), (4, None)), (ID, NAME))
    first = table.built.metadata.snapshots[0].snapshot_id
    plain = [(2, "Bob", "delete", 0), (3, "Robert", "delete", 0), (3, "Dan", "insert", 0)]
    assert changes(feed(table, spark, first)) == plain
    paired = [(2, "Bob", "delete", 0), (3, "Dan", "update_after", 0), (3, "Robert", "update_before", 0)]
    assert changes(feed(table, spark, first, identifier_columns=["ID"])) == paired
    # Columns that are not shown tell rows apart nevertheless.
    less = feed(table, spark, first, identifier_columns=["id"], columns=["name"])
    assert changes(less) == [each[1:] for each in paired]
    schema = msgspec.structs.replace(
        table.schema, fields=(msgspec.structs.replace(ID, required=True), NAME), identifier_field_ids=(1,)
    )
    table.built.metadata = msgspec.structs.replace(table.built.metadata, schemas=(schema,))
    assert changes(feed(table, spark, first)) == paired
    assert changes(feed(table, spark, first, identifier_columns=[])) == plain


def test_identifiers_that_are_not_unique_pair_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append(named((1, "a"), (1, "b"), (2, "c"), (2, "d"), (None, "e")))
    replace(table, named((1, "a"), (1, "x"), (2, "y"), (2, "z"), (None, "f")), (ID, NAME))
    first = table.built.metadata.snapshots[0].snapshot_id
    assert changes(feed(table, spark, first, identifier_columns=["id"])) == [
        (2, "c", "delete", 0),
        (2, "d", "delete", 0),
        (2, "y", "insert", 0),
        (2, "z", "insert", 0),
        (1, "x", "update_after", 0),
        (None, "f", "update_after", 0),
        (1, "b", "update_before", 0),
        (None, "e", "update_before", 0),
    ]


def test_rows_that_are_there_more_than_once_cancel_out_one_by_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append(named((1, "a"), (1, "a"), (1, "a"), (2, None)))
    replace(table, named((1, "a"), (2, None), (2, None)), (ID, NAME))
    first = table.built.metadata.snapshots[0].snapshot_id
    assert changes(feed(table, spark, first)) == [(1, "a", "delete", 0)] * 2 + [(2, None, "insert", 0)]


def test_row_ids_tell_what_was_updated(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    table.append(named((1, "a"), (2, "b"), (3, "c"), (4, "d")))
    rows = [
        {"id": 1, "name": "a", "_row_id": 0, "_last_updated_sequence_number": 1},
        {"id": 9, "name": "b", "_row_id": 1, "_last_updated_sequence_number": None},
        {"id": 3, "name": "c", "_row_id": None, "_last_updated_sequence_number": None},
        {"id": 4, "name": "d", "_row_id": 3, "_last_updated_sequence_number": None},
    ]
    replace(table, rows, (ID, NAME, ROW_ID, UPDATED))
    first = table.built.metadata.snapshots[0].snapshot_id
    told = [
        (4, "d", "update_after", 0),
        (9, "b", "update_after", 0),
        (2, "b", "update_before", 0),
        (4, "d", "update_before", 0),
    ]
    # A row that was written anew without its id is another one, unless somebody says what identifies it.
    new = [(3, "c", "delete", 0), (3, "c", "insert", 0)]
    assert changes(feed(table, spark, first)) == [*new, *told]
    paired = changes(feed(table, spark, first, identifier_columns=["id"]))
    assert paired == sorted(
        [(*each[:2], f"update_{when}", 0) for each, when in zip(new, ("before", "after"), strict=True)]
        + told,
        key=lambda row: (row[-1], row[-2], str(row)),
    )
    shown = changes(feed(table, spark, first, columns=["_row_id", "id"]))
    assert shown == [
        (2, 3, "delete", 0),
        (6, 3, "insert", 0),
        (1, 9, "update_after", 0),
        (3, 4, "update_after", 0),
        (1, 2, "update_before", 0),
        (3, 4, "update_before", 0),
    ]


def test_rows_from_before_the_upgrade_are_told_by_their_values(spark: SparkSession, tmp_path: Path) -> None:
    """Old rows have no ids, and their copies have some: each copied row was a deleted and an inserted one."""
    tags = Field(3, "tags", Map(4, STRING, 5, List(6, DOUBLE)))
    place = Field(7, "place", Struct((Field(8, "x", DOUBLE), Field(9, "at", Map(10, LONG, 11, LONG)))))
    table = MadeTable(tmp_path, Schema((ID, tags, place)), format_version=2)
    nan = float("nan")
    old: list[dict[str, Any]] = [
        {"id": 1, "tags": [("a", [nan]), ("b", [])], "place": {"x": nan, "at": [(1, 1), (2, 2)]}},
        {"id": 2, "tags": None, "place": None},
        {"id": 3, "tags": [], "place": {"x": None, "at": None}},
    ]
    table.append(old)
    table.built.change(u.UpgradeFormatVersion(3))
    new: list[dict[str, Any]] = [
        {"id": 1, "tags": [("b", []), ("a", [nan])], "place": {"x": nan, "at": [(2, 2), (1, 1)]}},
        {"id": 2, "tags": None, "place": None},
        {"id": 3, "tags": [("c", [])], "place": {"x": None, "at": None}},
    ]
    replace(table, new, (ID, tags, place))
    first = table.built.metadata.snapshots[0].snapshot_id
    told = changes(feed(table, spark, first))
    assert [(row[0], row[1], row[3]) for row in told] == [(3, {}, "delete"), (3, {"c": []}, "insert")]
    paired = changes(feed(table, spark, first, identifier_columns=["id"]))
    assert [row[3] for row in paired] == ["update_after", "update_before"]


def test_values_that_spark_cannot_compare_are_an_error_that_names_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    odd = Field(3, "odd", List(4, VARIANT))
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append(named((1, "a"), (2, "b")))
    table.built.change(u.UpgradeFormatVersion(3))
    table.evolve(ID, NAME, odd)
    replace(table, named((1, "a"), (2, "c")), (ID, NAME))
    first = table.built.metadata.snapshots[0].snapshot_id
    with pytest.raises(NotSupported, match=r"odd: Spark cannot compare.*columns=\[\.\.\.\]"):
        feed(table, spark, first)
    told = [(2, "b", "delete", 0), (2, "c", "insert", 0)]
    assert changes(feed(table, spark, first, columns=["id", "name"])) == told
    # What only comes needs no comparison.
    assert [row[:2] for row in changes(feed(table, spark, None, first))] == [(1, "a"), (2, "b")]


def test_shapes_are_compared_by_their_bytes(spark: SparkSession) -> None:
    fields = [Field(1, "g", Geometry()), Field(2, "l", List(3, Struct((Field(4, "g", Geometry()),))))]
    if version_of(spark) < (4, 3):
        return  # older releases have no shapes, or have them switched off
    one, other = (
        f"st_geomfromwkb(x'0101000000{n}0000000000000040', 4326)"
        for n in ("000000000000f03f", "0000000000000040")
    )
    shapes = " UNION ALL ".join(
        f"SELECT {each} AS g, array(named_struct('g', {each})) AS l" for each in (one, other, one)
    )
    values = [each.alias(f"v{n}") for n, each in enumerate(values_of(fields))]
    found = spark.sql(shapes).select(*values).distinct().count()
    assert found == 2


def test_columns_are_those_of_today(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)), format_version=2)
    table.append(named((1, "a")))
    table.evolve(ID, Field(3, "name", LONG), Field(2, "note", STRING))
    table.append([{"id": 2, "name": 7, "note": "b"}])
    assert changes(feed(table, spark)) == [(1, None, "a", "insert", 0), (2, 7, "b", "insert", 1)]
    frame = feed(table, spark, columns=["note", "_file"])
    assert frame.columns == ["note", "_file", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert [type(each.dataType).__name__ for each in frame.schema.fields[-3:]] == [
        "StringType",
        "IntegerType",
        "LongType",
    ]
    last = table.built.metadata.snapshots[-1].snapshot_id
    assert feed(table, spark, last).schema.simpleString() == feed(table, spark).schema.simpleString()


def test_what_cannot_be_asked_for_is_said(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, Field(2, "_CHANGE_type", STRING), Field(3, "l", List(4, LONG)))))
    with pytest.raises(NotSupported, match="_CHANGE_type: a feed"):
        feed(table, spark)
    assert changes(feed(table, spark, columns=["id"])) == []
    for names, problem in (
        (["no"], "no column 'no'"),
        ("id", r"\['id'\]"),
        (["l.element"], "cannot identify"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            feed(table, spark, columns=["id"], identifier_columns=names)


def test_rows_that_were_deleted_need_not_have_what_is_required_by_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column is made required when its nulls are gone: the feed that tells of their end failed."""
    table = MadeTable(tmp_path, Schema((msgspec.structs.replace(ID, required=True), NAME)), format_version=2)
    table.append(named((1, None), (2, "b")))
    replace(table, named((2, "b")), (ID, NAME))
    table.evolve(*(msgspec.structs.replace(each, required=True) for each in (ID, NAME)))
    first = table.built.metadata.snapshots[0].snapshot_id
    assert changes(feed(table, spark, first)) == [(1, None, "delete", 0)]
    assert [each.required for each in schema_of_changes(table.built.metadata).fields] == [True, False]


def test_rows_that_only_come_are_plain_scans(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, NAME)))
    for number in range(3):
        table.append(named((number, "a")))
    ids = [each.snapshot_id for each in table.built.metadata.snapshots]
    one = physical(feed(table, spark, ids[1], identifier_columns=["id"]).where("id > 1"))
    assert "Join" not in one
    assert "Exchange" not in one
    assert "GreaterThan(id,1)" in one
    all_of_them = physical(feed(table, spark, identifier_columns=["id"]))
    assert all_of_them.count("FileScan") == 1
    assert "hashpartitioning" not in all_of_them
