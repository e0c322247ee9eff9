"""Tables that have gone through many changes of their schema, against a model in plain Python."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Field,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.spark.read import Access
from tests.spark.made import MadeTable, local_ranges, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

STEPS = 20
NAMES = "abcdeABC"
KEY = Field(1, "key", LONG)
WIDER: dict[Type, Type] = {INT: LONG, FLOAT: DOUBLE, DATE: TIMESTAMP}
DEFAULTS: dict[Type, Any] = {INT: 7, LONG: 2**40, FLOAT: 0.5, DOUBLE: 0.25, STRING: "new", DATE: 3}
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local time


class World:
    """What the table should be: rows by field ids, and the schema of now."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.last_id = 1
        self.fields: tuple[Field, ...] = (KEY, self.new("a"), self.new("b"), self.nested("c"))
        self.rows: list[dict[int, Any]] = []
        self.table = MadeTable(folder, Schema(self.fields))
        self.folder = folder

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def new(self, name: str, *, default: bool = False) -> Field:
        type_ = self.random.choice([INT, FLOAT, STRING, DATE, LONG])
        value = DEFAULTS[type_] if default and self.random.random() < 0.5 else None
        return Field(self.next_id(), name, type_, initial_default=value)

    def nested(self, name: str) -> Field:
        number = self.next_id()
        inside = Struct((self.new("x"), self.new("y")))
        kind = self.random.choice(["struct", "list", "map"])
        if kind == "list":
            return Field(number, name, List(self.next_id(), inside))
        if kind == "map":
            return Field(number, name, Map(self.next_id(), STRING, self.next_id(), inside))
        return Field(number, name, inside)

    def free_name(self, fields: tuple[Field, ...]) -> str:
        taken = {each.name.lower() for each in fields}
        return self.random.choice([each for each in NAMES if each.lower() not in taken] or ["z"])

    def change(self, fields: tuple[Field, ...], *, depth: int = 0) -> tuple[Field, ...]:
        """One change to the fields of a struct, the first of which stays at the top."""
        start = 1 if depth == 0 else 0
        position = self.random.randrange(start, len(fields)) if len(fields) > start else None
        step = self.random.choice(
            ["add", "add", "drop", "rename", "swap", "widen", "move", "inside", "inside"]
        )
        if position is None or (step == "add" and len(fields) < 5):
            added = self.new if self.random.random() < 0.6 or depth else lambda name, **_: self.nested(name)
            return (*fields, added(self.free_name(fields), default=True))
        chosen, others = fields[position], [*fields]
        match step:
            case "drop" if len(fields) > start + 1:
                del others[position]
            case "rename" if len(fields) < 5:
                others[position] = replace(chosen, name=self.free_name(fields))
            case "swap" if len(fields) > start + 1:
                other = self.random.choice([n for n in range(start, len(fields)) if n != position])
                others[position] = replace(chosen, name=fields[other].name)
                others[other] = replace(fields[other], name=chosen.name)
            case "widen" if chosen.type in WIDER and chosen.initial_default is None:
                others[position] = replace(chosen, type=WIDER[chosen.type])
            case "move":
                del others[position]
                others.insert(self.random.randrange(start, len(others) + 1), chosen)
            case "inside":
                others[position] = replace(chosen, type=self.change_inside(chosen.type))
        return tuple(others)

    def change_inside(self, type_: Type) -> Type:
        match type_:
            case Struct():
                return Struct(self.change(type_.fields, depth=1))
            case List():
                return replace(type_, element=self.change_inside(type_.element))
            case Map():
                return replace(type_, value=self.change_inside(type_.value))
            case _:
                return type_

    def evolve(self) -> None:
        self.fields = self.change(self.fields)
        self.table.evolve(*self.fields)

    def append(self) -> None:
        new = [{1: len(self.rows) + n} for n in range(3)]
        for row in new:
            row.update({each.id: self.value(each.type) for each in self.fields[1:]})
        self.rows += new
        named = [{each.name: as_python(each.type, row[each.id]) for each in self.fields} for row in new]
        self.table.append(named)

    def value(self, type_: Type) -> Any:
        """A value as the model has it: structs by ids, times as numbers."""
        if self.random.random() < 0.25:
            return None
        match type_:
            case Struct():
                return {each.id: self.value(each.type) for each in type_.fields}
            case List():
                return [self.value(type_.element) for _ in range(self.random.randrange(3))]
            case Map():
                return {f"k{n}": self.value(type_.value) for n in range(self.random.randrange(3))}
            case _ if type_ in (FLOAT, DOUBLE):
                return self.random.randrange(4) / 2
            case _ if type_ is STRING:
                return self.random.choice(["", "a", "b"])
            case _ if type_ is TIMESTAMP:
                return ("micros", self.random.randrange(3) * 3_600_000_000)
            case _ if type_ is DATE:
                return ("days", self.random.randrange(4))
            case _:
                return self.random.randrange(4)

    def expected(self) -> list[tuple[Any, ...]]:
        found = [tuple(shown(each, row) for each in self.fields) for row in self.rows]
        return sorted(found, key=repr)


def as_python(type_: Type, value: Any) -> Any:
    """A value of the model as pyarrow takes it."""
    match type_, value:
        case _, None:
            return None
        case Struct(), _:
            return {each.name: as_python(each.type, value[each.id]) for each in type_.fields}
        case List(), _:
            return [as_python(type_.element, each) for each in value]
        case Map(), _:
            return [(key, as_python(type_.value, each)) for key, each in value.items()]
        case _, ("days", days):
            return (EPOCH + dt.timedelta(days=days)).date()
        case _, ("micros", micros):
            return EPOCH + dt.timedelta(microseconds=micros)
        case _:
            return value


def shown(field: Field, row: dict[int, Any]) -> Any:
    """What a row reads for a field of now."""
    if field.id not in row:
        default = field.initial_default
        return as_shown(
            field.type, ("days", default) if field.type is DATE and default is not None else default
        )
    return as_shown(field.type, row[field.id])


def as_shown(type_: Type, value: Any) -> Any:
    match type_, value:
        case _, None:
            return None
        case Struct(), _:
            return tuple(shown(each, value) for each in type_.fields)
        case List(), _:
            return [as_shown(type_.element, each) for each in value]
        case Map(), _:
            return {key: as_shown(type_.value, each) for key, each in value.items()}
        case _, ("days", days) if type_ is TIMESTAMP:
            return EPOCH + dt.timedelta(days=days)
        case _:
            return as_python(type_, value)


def plain(value: Any) -> Any:
    """What Spark gives, with structs as plain tuples."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("seed", [1, 574466, random.SystemRandom().randrange(10**6)])
def test_a_table_reads_as_the_model_says(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    world = World(seed, tmp_path)
    access = Access(read_ranges=local_ranges)
    for step in range(STEPS):
        world.append()
        world.evolve()
        if step % 5 != 4:
            continue
        frame = world.table.read(spark, access=access)
        expected = world.expected()
        assert sorted((plain(tuple(row)) for row in frame.collect()), key=repr) == expected, seed
        for position, field in enumerate(world.fields):
            check_filters(frame, field, {row[0]: row[position] for row in expected}, seed)


def check_filters(frame: DataFrame, field: Field, values: dict[int, Any], seed: int) -> None:
    def keys(condition: str) -> set[int]:
        return {row[0] for row in rows(frame.where(condition).select("key"))}

    name = f"`{field.name}`"
    assert keys(f"{name} is null") == {key for key, value in values.items() if value is None}, (seed, name)
    if field.type in (INT, LONG, FLOAT, DOUBLE):
        assert keys(f"{name} = 1") == {key for key, value in values.items() if value == 1}, (seed, name)
    if isinstance(field.type, Struct):
        inner = f"{name}.`{field.type.fields[0].name}`"
        absent = {key for key, value in values.items() if value is None or value[0] is None}
        assert keys(f"{inner} is null") == absent, (seed, inner)
