"""Columns and types as Spark's DDL, read and written: ``id BIGINT NOT NULL, at TIMESTAMP COMMENT 'when'``.

Wherever a type stands, Iceberg's names are understood beside those of Spark, in any case: ``uuid``,
``fixed[16]``, ``timestamptz``, ``timestamp_ns``, ``geometry(EPSG:4326)``. The two clash in one word, where
Spark wins: ``TIMESTAMP`` is an instant, Iceberg's ``timestamptz``. For Iceberg's ``timestamp``, which has no
time zone, write ``TIMESTAMP_NTZ``.

More is read than Spark reads, so that every schema can be written: ``NOT NULL`` after the element of an array
or the value of a map, and ``DEFAULT`` in a struct. A column has one ``DEFAULT``, a literal. It stands for
both of Iceberg's, that of the rows which are there and that of later rows; the latter is the one written.

The grammar is our own. sqlglot would change types in silence: it reads ``fixed[16]`` as an array of decimals,
``a: INT, b: STRING`` as columns without types, and takes ``BIGINT(5)``; it knows neither ``VOID`` nor
``timestamp_ns`` nor ``geometry(EPSG:4326)``, and tells no place inside a nested type.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from lakeplane.errors import InvalidExpression, InvalidInput
from lakeplane.model.ddl_types import read_flat, refuse_type, write_flat
from lakeplane.model.ddl_words import Cursor, quote_name, reading
from lakeplane.model.expressions.literals import (
    Literal,
    Zone,
    read_date,
    read_time,
    read_timestamp,
    read_zone,
    timestamp_literal,
    unquote,
)
from lakeplane.model.expressions.opaque import Names
from lakeplane.model.expressions.operands import OperandReader
from lakeplane.model.expressions.sql_text import literal_sql
from lakeplane.model.expressions.tokens import MAX_DEPTH
from lakeplane.model.murmur import NANOS_PER_MICRO
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import number_fields
from lakeplane.model.temporal import TYPES as TEMPORAL
from lakeplane.model.types import (
    NANOS,
    STRING,
    TIMESTAMPS,
    ZONED,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    defaults_to_null_only,
)
from lakeplane.model.values import coerce

_COLUMNS_HINT: Final = "Write columns as in: id BIGINT NOT NULL, name STRING COMMENT 'full'"

_TAKES: Final[dict[str, frozenset[object]]] = {
    "boolean": frozenset({"boolean"}),
    "integer": frozenset({"int", "long", "float", "double", Decimal}),
    "decimal": frozenset({"float", "double", Decimal}),
    "double": frozenset({"float", "double"}),
    "float": frozenset({"float", "double"}),
    "string": frozenset({"string", "uuid"}),
    "binary": frozenset({"binary", "uuid", Fixed}),
    "date": frozenset({"date"}),
    "time": frozenset({"time"}),
    "timestamp": frozenset(map(str, ZONED)),
    "timestamp_ntz": frozenset(map(str, TIMESTAMPS - ZONED)),
}
"""The types of columns that a kind of literal can be the default of."""


def parse_ddl(text: str, *, zone: str = "UTC") -> Schema:
    """Read the columns of a table: ``id BIGINT NOT NULL, name STRING``, or a whole ``STRUCT<...>``.

    The ids of the fields are provisional. ``zone`` is the time zone of ``DEFAULT TIMESTAMP '...'``.
    """

    def columns(reader: _Reader) -> Struct:
        if [token.text.upper() for token in reader.text.tokens[:2]] == ["STRUCT", "<"]:
            struct = reader.type()
            assert isinstance(struct, Struct)
            return struct
        return Struct(reader.fields())

    numbered = _read(text, zone, columns)
    assert isinstance(numbered, Struct)
    return Schema(numbered.fields)


def parse_ddl_type(text: str, *, zone: str = "UTC") -> Type:
    """Read one type; the ids of the fields inside it are provisional."""
    return _read(text, zone, _Reader.type)


def to_ddl(type_: Type) -> str:
    """Write a type in Spark's name for it; where there is none, in Iceberg's."""
    match type_:
        case List():
            return f"ARRAY<{_item(type_.element_field)}>"
        case Map():
            return f"MAP<{to_ddl(type_.key)}, {_item(type_.value_field)}>"
        case Struct():
            return f"STRUCT<{', '.join(column_to_ddl(field, ': ') for field in type_.fields)}>"
        case _:
            return write_flat(type_)


def schema_to_ddl(schema: Schema) -> str:
    """Write the columns of a schema; ids, initial defaults and unknown properties are left out."""
    return ", ".join(map(column_to_ddl, schema.fields)) if schema.fields else "STRUCT<>"


def column_to_ddl(field: Field, separator: str = " ") -> str:
    """Write one column; a default that no literal stands for, as that of a list, is left out."""
    parts = [f"{quote_name(field.name)}{separator}{_item(field)}"]
    if field.write_default is not None:
        with contextlib.suppress(InvalidExpression):
            parts.append(f"DEFAULT {literal_sql(field.type, field.write_default)}")
    if field.doc is not None:
        parts.append(f"COMMENT {literal_sql(STRING, field.doc)}")
    return " ".join(parts)


def _item(field: Field) -> str:
    return f"{to_ddl(field.type)} NOT NULL" if field.required else to_ddl(field.type)


def _read(source: str, zone: str, rule: Callable[[_Reader], Type]) -> Type:
    path: list[str] = []
    with reading("DDL", path):
        reader = _Reader(source, read_zone(zone), path)
        found = rule(reader)
        reader.finish()
    ids = itertools.count(1)
    return number_fields(found, lambda _name: next(ids))


def _temporal(type_: Type, text: str, zone: Zone) -> Literal | None:
    """A string as the date or time that Spark makes of it before it becomes the default of a column."""
    if type_ in ZONED:
        return timestamp_literal(text, zone)
    if type_ in TIMESTAMPS:
        read = read_timestamp(text)
        return None if read is None or read[1] is not None else Literal("timestamp_ntz", read[0])
    value = read_date(text) if type_ is Primitive.DATE else read_time(text)
    return None if value is None else Literal(str(type_), value)


class _Reader(Cursor):
    """Reads types and columns from the words of a text; ``path`` is the column where it stands."""

    def __init__(self, source: str, zone: Zone, path: list[str]) -> None:
        super().__init__(source)
        self.path = path
        self.depth = 0
        self.operands = OperandReader(self.text, Names(Schema(()), case_sensitive=True), zone)

    def type(self) -> Type:
        """A type; what is wrong with the whole of it is raised at its first word."""
        start, word = self.at, self.token.word
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"more than {MAX_DEPTH} types inside types")
        self.at += 1
        try:
            found = self._nested(word) or read_flat(self, word)
        except InvalidExpression:
            raise
        except InvalidInput as error:
            self.refuse(error.problem, error.hint, at=start)
        if found is None:
            refuse_type(self, start, word)
        self.depth -= 1
        return found

    def fields(self) -> tuple[Field, ...]:
        """Columns, or the fields of a struct."""
        found: dict[str, Field] = {}
        while True:
            start = self.at
            field = self._field()
            if field.name in found:
                self.refuse(f"there are two columns {field.name!r}, the second", at=start)
            found[field.name] = field
            if not self.skip(","):
                return tuple(found.values())

    def _nested(self, word: str) -> Type | None:
        if word not in ("ARRAY", "LIST", "MAP", "STRUCT") or not self.skip("<"):
            return None
        match word:
            case "ARRAY" | "LIST":
                element, required = self._inside("element", ">")
                return List(0, element, required)
            case "MAP":
                key, _always_required = self._inside("key", ",")
                value, required = self._inside("value", ">")
                return Map(0, key, 0, value, required)
            case "STRUCT":
                fields = () if self.sees(">") else self.fields()
                self.expect(">", "a comma or '>'")
                return Struct(fields)
            case _:
                return None

    def _inside(self, name: str, closing: str) -> tuple[Type, bool]:
        """The element, key or value of a type."""
        self.path.append(name)
        found = self.type(), self._not_null()
        self.expect(closing, repr(closing))
        self.path.pop()
        return found

    def _field(self) -> Field:
        name = self.name(_COLUMNS_HINT)
        self.path.append(name)
        if self.sees("."):
            self.refuse("a name with a dot", "Write it between backquotes: `a.b`")
        self.skip(":")
        field = self._described(Field(0, name, self.type()))
        self.path.pop()
        return field

    def _described(self, field: Field) -> Field:
        """A field with what follows its type, in any order."""
        seen: set[str] = set()
        while (word := self.token.word) in ("NOT", "COMMENT", "DEFAULT"):
            if word in seen:
                self.refuse(f"a second {word}")
            seen.add(word)
            if word == "NOT":
                field = replace(field, required=self._not_null())
                continue
            self.at += 1
            if word == "COMMENT":
                field = replace(field, doc=self._comment())
            else:
                value = self._default(field.type)
                field = replace(field, initial_default=value, write_default=value)
        if not self.sees(",", ">") and self.token.kind != "end":
            self.refuse("expected NOT NULL, COMMENT, DEFAULT or a comma", _COLUMNS_HINT)
        return field

    def _comment(self) -> str:
        pieces: list[str] = []
        while not pieces or self.token.kind == "string":
            piece = unquote(self.token.text) if self.token.kind == "string" else None
            if piece is None:
                self.refuse("expected a string")
            pieces.append(piece)
            self.at += 1
        return "".join(pieces)

    def _default(self, type_: Type) -> Any:
        start = self.at
        found = self.operands.read(start, len(self.text.tokens) - 1)
        if found is None or not isinstance(found.operand, Literal):
            self.refuse("expected a literal", "A default is one value, the same for all rows")
        self.at = found.after
        kind, value = found.operand
        if kind == "null":
            return None
        if kind == "string" and type_ in TEMPORAL:
            kind, value = _temporal(type_, value, self.operands.zone) or found.operand
        family = str(type_) if isinstance(type_, Primitive) else type(type_)
        if defaults_to_null_only(type_) or family not in _TAKES[kind]:
            self.refuse(f"the default of a column of type {type_} cannot be of kind {kind}", at=start)
        if kind.startswith("timestamp") and type_ not in NANOS:
            value, finer = divmod(value, NANOS_PER_MICRO)
            if finer:
                self.refuse("a default finer than microseconds", "Use a nanosecond type", at=start)
        try:
            return coerce(type_, float(value) if family in ("float", "double") else value)
        except InvalidInput as error:
            self.refuse(error.problem, error.hint, at=start)

    def _not_null(self) -> bool:
        found = self.skip("NOT")
        if found:
            self.expect("NULL", "NULL after NOT")
        return found
