"""Any table with any deletes, against a model in plain Python that looks at each row and each delete."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeplane.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity
from lakeplane.model.types import INT, LONG, STRING, Field
from lakeplane.spark import equality_deletes
from lakeplane.spark.metadata_columns import FILE_NUMBER, ROW_POSITION
from lakeplane.spark.read import Access
from tests.iceberg.built import Listed
from tests.spark.deleting import delete_by_vectors, delete_equal, delete_positions, write_file
from tests.spark.made import MadeTable, local_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID, KIND, COUNT = Field(1, "id", LONG), Field(2, "kind", STRING), Field(3, "count", INT)
SCOPE = Field(4, "scope", STRING)
BY_SCOPE = PartitionSpec(0, (PartitionField((4,), 1000, "scope", Identity()),))
EVERYWHERE = msgspec.structs.replace(UNPARTITIONED, spec_id=1)
KINDS = ("PARQUET", "ORC", "AVRO")


class File(NamedTuple):
    """A data file of the model: its rows by ids of columns."""

    path: str
    partition: tuple[Any, ...]
    spec_id: int
    number: int
    rows: list[dict[int, Any]]


class World:
    """A table, and what is known of its rows."""

    def __init__(self, folder: Path, chance: random.Random, version: int) -> None:
        self.chance, self.version = chance, version
        self.table = MadeTable(folder, Schema((ID, KIND, COUNT, SCOPE)), BY_SCOPE, format_version=version)
        self.table.add_spec(EVERYWHERE)
        self.files: list[File] = []
        self.gone: set[tuple[str, int]] = set()
        self.vectors: set[str] = set()
        self.past = {each.id: each for each in self.table.schema.fields}

    @property
    def number(self) -> int:
        return self.table.built.metadata.last_sequence_number

    def value(self, field: Field) -> Any:
        if self.chance.random() < 0.25:
            return None
        number = self.chance.randrange(4)
        return f"k{number}" if field.type is STRING else number

    def partition(self) -> tuple[int, tuple[Any, ...]]:
        spec_id = self.chance.randrange(2)
        return spec_id, (() if spec_id else (self.chance.choice(("a", "b", None)),))

    def append(self) -> None:
        spec_id, partition = self.partition()
        fields = self.table.schema.fields
        made = [{f.name: self.value(f) for f in fields} for _ in range(self.chance.randrange(1, 9))]
        for row in made:
            row["scope"] = partition[0] if partition else "z"
        kind = self.chance.choice(KINDS)
        path = write_file(self.table, fields, made, kind)
        self.table.add(Listed(path, partition, more={"file_format": kind}), spec_id=spec_id)
        rows = [{f.id: row[f.name] for f in fields} for row in made]
        self.files.append(File(path, partition, spec_id, self.number, rows))

    def delete_positions(self) -> None:
        file = self.chance.choice(self.files)
        same = [each for each in self.files if each[1:3] == file[1:3]]
        pairs = [(each.path, n) for each in same for n in range(12) if self.chance.random() < 0.2]
        if self.version == 2 and pairs:
            kind = self.chance.choice(KINDS)
            delete_positions(self.table, pairs, kind, partition=file.partition, spec_id=file.spec_id)
            self.gone |= set(pairs)
        vectors = {path: BitMap64([n for at, n in pairs if at == path]) for path, _ in pairs}
        vectors = {path: each for path, each in vectors.items() if path not in self.vectors}
        if self.version == 3 and vectors:
            delete_by_vectors(self.table, vectors, partition=file.partition, spec_id=file.spec_id)
            self.vectors |= vectors.keys()
            self.gone |= {(path, n) for path, each in vectors.items() for n in each}

    def delete_equal(self) -> None:
        spec_id, partition = self.partition()
        fields = self.chance.sample(self.table.schema.fields, self.chance.randrange(1, 3))
        made = [{f.name: self.value(f) for f in fields} for _ in range(self.chance.randrange(1, 3))]
        kind = self.chance.choice(KINDS)
        keys = sorted(each.id for each in fields)
        delete_equal(self.table, made, *keys, kind=kind, partition=partition, spec_id=spec_id, fields=fields)
        wanted = [{f.id: row[f.name] for f in fields} for row in made]
        for file in self.files:
            if spec_id == 1 or (file.spec_id, file.partition) == (spec_id, partition):
                for place, row in enumerate(file.rows):
                    if any(all(self.read(row, key) == each[key] for key in keys) for each in wanted):
                        self.gone.add((file.path, place))

    def read(self, row: dict[int, Any], field_id: int) -> Any:
        return row.get(field_id, self.past[field_id].initial_default)

    def evolve(self) -> None:
        """Drop a column, widen one, or add one."""
        fields = list(self.table.schema.fields)
        match self.chance.randrange(3):
            case 0 if len(fields) > 3:
                fields.remove(
                    self.chance.choice([each for each in fields if each.name not in ("id", "scope")])
                )
            case 1:
                fields = [msgspec.structs.replace(f, type=LONG) if f.type is INT else f for f in fields]
            case _:
                new = self.table.built.metadata.last_column_id + 1
                default = self.chance.choice((None, 1)) if self.version == 3 else None
                # Perhaps under a name that another column has had.
                name = next(n for n in ("count", "kind", f"c{new}") if all(n != each.name for each in fields))
                fields.append(Field(new, name, INT, initial_default=default))
        self.table.evolve(*fields)
        self.past |= {each.id: each for each in self.table.schema.fields}

    def left(self) -> list[tuple[Any, ...]]:
        fields = self.table.schema.fields
        return [
            (file.path, place, *[self.read(row, each.id) for each in fields])
            for file in self.files
            for place, row in enumerate(file.rows)
            if (file.path, place) not in self.gone
        ]


def check(world: World, spark: SparkSession, chance: random.Random) -> None:
    expected = world.left()
    names = [each.name for each in world.table.schema.fields]
    shown = chance.sample(names, chance.randrange(1, len(names) + 1))
    where = chance.choice((None, "id > 1", "id is null"))
    way: Any = chance.choice((None, "paths"))
    files = world.table.plan(spark, where).files["file_path"].to_pylist()
    frame = world.table.read(
        spark, ["_pos", *shown], where, access=Access(local_ranges, hand_over=way), placed=True
    )
    assert frame.columns == ["_pos", *shown, FILE_NUMBER, ROW_POSITION]
    found = [(files[row[FILE_NUMBER]], *row[:-2]) for row in frame.collect() if row["_pos"] == row[-1]]
    tests: dict[str | None, Any] = {
        None: lambda _: True,
        "id > 1": lambda each: each is not None and each > 1,
        "id is null": lambda each: each is None,
    }
    columns = [names.index(each) + 2 for each in shown]
    kept = [row for row in expected if tests[where](row[names.index("id") + 2])]
    wanted = [(*row[:2], *[row[each] for each in columns]) for row in kept]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_the_rows_that_are_left(spark: SparkSession, version: int, seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), chance, version)
        world.append()
        for _ in range(chance.randrange(4, 20)):
            chance.choice(
                (world.append, world.append, world.delete_positions, world.delete_equal, world.evolve)
            )()
        with pytest.MonkeyPatch.context() as patch:
            # As if there were many sets of deletes, and large ones.
            patch.setattr(equality_deletes, "_MOST_SETS", chance.choice((0, 8)))
            patch.setattr(equality_deletes, "_BROADCAST_ROWS", chance.choice((0, 100, 100)))
            check(world, spark, chance)
