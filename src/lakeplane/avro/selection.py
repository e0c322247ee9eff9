"""From the schema of a file and what is wanted of it, to the columns that a decoder has to fill.

A decoder gets a tree: for each record on the way the fields of it that are wanted, and for these the number
of a column, or of several columns for the keys of a map, or the same once more for a record inside. What is
not in the tree is skipped. A field may be wanted more than once; the decoder then reads it as often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from lakeplane.avro.schema import (
    Array,
    Choice,
    Field,
    Node,
    Optional,
    Record,
    Scalar,
    arrow_field,
    arrow_type,
    is_optional,
    record_of,
)
from lakeplane.errors import InvalidInput, InvalidMetadata


class Pick(NamedTuple):
    """A column that is wanted of a file."""

    name: str
    """What the column is to be called."""
    path: tuple[int | str, ...]
    """From the rows inwards: ids of Iceberg, or names of fields. Records on the way may be optional."""
    keys: tuple[int, ...] = ()
    """Of an array of key and value: a column ``name.key`` for each of these keys, null where it is absent."""
    type: pa.DataType | None = None
    """What the column is to be in Arrow. A column of nulls of this type if the file has no such field."""


class Whole(msgspec.Struct, frozen=True, gc=False):
    """A field that becomes a column."""

    column: int


class Keyed(msgspec.Struct, frozen=True):
    """A field whose values become columns, from this one on, by their keys."""

    first: int
    keys: tuple[int, ...]


class Inside(msgspec.Struct, frozen=True):
    """A record with wanted fields, by their position in it."""

    fields: dict[int, tuple[Target, ...]]


Target: TypeAlias = Whole | Keyed | Inside


class Column(msgspec.Struct, frozen=True):
    """A column to be filled with one value for each row."""

    node: Node
    """What it is in the file."""
    nullable: bool
    """Whether it, or a record on the way to it, may be null or absent."""
    arrow: Any
    """Its natural Arrow type."""


class Result(msgspec.Struct, frozen=True):
    """A column of the table that is handed out."""

    field: Any
    """As it is in Arrow."""
    column: int | None
    """Where its values come from; None if the file does not have them."""


class Selection(msgspec.Struct, frozen=True):
    """What is to be decoded, and what becomes of it."""

    record: Record
    null_at: int | None
    """Which branch is null, if the rows are a union of null and a record."""
    inside: Inside
    columns: tuple[Column, ...]
    results: tuple[Result, ...]


_MAX_COLUMNS: Final = 20_000


def select(root: Node, picks: Sequence[Pick] | None) -> Selection:
    """Find what is wanted in a schema; errors name the place."""
    record, null_at = record_of(root)
    finder = _Finder(record)
    if picks is None:
        for position, field in enumerate(record.fields):
            column = finder.add(
                (position,), (), field.type, nullable=is_optional(field.type), place=field.name
            )
            finder.results.append(Result(arrow_field(field), column))
    else:
        for pick in picks:
            finder.pick(pick)
    if len(finder.results) > _MAX_COLUMNS:
        raise InvalidInput(f"{len(finder.results)} columns of one file, more than {_MAX_COLUMNS}")
    return Selection(record, null_at, finder.inside(), tuple(finder.columns), tuple(finder.results))


class _Finder:
    def __init__(self, record: Record) -> None:
        self.record = record
        self.columns: list[Column] = []
        self.results: list[Result] = []
        self.known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def pick(self, pick: Pick) -> None:
        names = [f"{pick.name}.{key}" for key in pick.keys] or [pick.name]
        if not pick.path:
            raise InvalidInput("a path of no steps", field=pick.name)
        found = self._follow(pick)
        for offset, name in enumerate(names):
            column = None if found is None else found + offset
            natural = pa.null() if column is None else self.columns[column].arrow
            self.results.append(Result(pa.field(name, natural if pick.type is None else pick.type), column))

    def _follow(self, pick: Pick) -> int | None:
        node: Node = self.record
        steps: list[int] = []
        nullable = False
        places: list[str] = []
        for step in pick.path:
            nullable = nullable or is_optional(node)
            record = _present(node)
            if not isinstance(record, Record):
                raise InvalidMetadata("is no record, and has no fields", field=".".join(places))
            position = _position(record, step)
            if position is None:
                return None
            steps.append(position)
            places.append(record.fields[position].name)
            node = record.fields[position].type
        place = ".".join(places)
        if pick.keys:
            return self.add(tuple(steps), pick.keys, _values(node, place), nullable=True, place=place)
        return self.add(tuple(steps), (), node, nullable=nullable or is_optional(node), place=place)

    def add(
        self, path: tuple[int, ...], keys: tuple[int, ...], node: Node, *, nullable: bool, place: str
    ) -> int:
        """The number of the first column for this path, which may be there already."""
        first = self.known.get((path, keys))
        if first is None:
            first = self.known[path, keys] = len(self.columns)
            column = Column(node, nullable, arrow_type(node, place))
            self.columns += [column] * max(1, len(keys))
        return first

    def inside(self) -> Inside:
        """The tree of all that was added."""
        tree: dict[int, Any] = {}
        for (path, keys), first in self.known.items():
            here = tree
            for step in path[:-1]:
                here = here.setdefault(step, ({}, []))[0]
            here.setdefault(path[-1], ({}, []))[1].append(Keyed(first, keys) if keys else Whole(first))
        return _freeze(tree)


def _freeze(tree: dict[int, Any]) -> Inside:
    return Inside(
        {
            position: (*targets, *([_freeze(deeper)] if deeper else []))
            for position, (deeper, targets) in sorted(tree.items())
        }
    )


def _present(node: Node) -> Node:
    match node:
        case Optional(value=value):
            return value
        case Choice(branches=(branch,)):
            return _present(branch)
        case _:
            return node


def _position(record: Record, step: int | str) -> int | None:
    for position, field in enumerate(record.fields):
        if step in ((field.name,) if isinstance(step, str) else (field.id,)):
            return position
    return None


def _values(node: Node, place: str) -> Node:
    """The type of the values in an array of key and value."""
    match _present(node):
        case Array(items=Record(fields=(Field(type=Scalar(kind="int" | "long")), Field(type=value)))):
            if isinstance(_present(value), Scalar):
                return value
    raise InvalidMetadata("is no array of numbered scalar values, and has no keys to pick", field=place)
