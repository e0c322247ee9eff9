"""A table's schema: its fields, how they are found by id or name, and the rules they obey."""

from __future__ import annotations

import difflib
import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_FIELD_ID,
    MAX_NESTING,
    NESTED,
    STRING,
    UNKNOWN,
    Decimal,
    Field,
    List,
    Map,
    Struct,
    children,
    defaults_to_null_only,
    is_primitive,
    min_format_version,
    nesting,
    walk,
)
from lakeplane.model.values import check_value

METADATA_COLUMNS: Final = {
    field.name: field
    for field in (
        Field(2147483646, "_file", STRING, required=True, doc="Path of the file that holds the row"),
        Field(2147483645, "_pos", LONG, required=True, doc="Position of the row in its file, from 0"),
        Field(2147483644, "_deleted", BOOLEAN, required=True, doc="Whether the row has been deleted"),
        Field(2147483643, "_spec_id", INT, required=True, doc="Partition spec of the row's file"),
        Field(2147483642, "_partition", Struct(()), doc="Partition of the row"),
        Field(2147483546, "file_path", STRING, required=True, doc="Path of a file, in position deletes"),
        Field(2147483545, "pos", LONG, required=True, doc="Position of a row, in position deletes"),
        Field(2147483544, "row", Struct(()), doc="Deleted row, in position deletes"),
        Field(2147483543, "_change_type", STRING, required=True, doc="Kind of a change"),
        Field(2147483542, "_change_ordinal", INT, required=True, doc="Order of a change"),
        Field(2147483541, "_commit_snapshot_id", LONG, required=True, doc="Snapshot of a change"),
        Field(2147483540, "_row_id", LONG, doc="Identity of the row, kept for its life"),
        Field(2147483539, "_last_updated_sequence_number", LONG, doc="Commit that last changed the row"),
    )
}
"""The columns that every table has beside its own; their ids are reserved."""

_AMBIGUOUS: Final = -(1 << 64)
"""What an index of names says of a name that fits several fields: no id, also no negative one."""


class _Index(NamedTuple):
    fields: dict[int, Field]
    names: dict[int, str]
    parents: dict[int, int]
    ids: dict[str, int]
    folded: dict[str, int]


class Schema(msgspec.Struct, frozen=True, dict=True):
    """The fields of a table or view at one point of its history."""

    fields: tuple[Field, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    unknown: FrozenDict[str, Any] = EMPTY

    def __str__(self) -> str:
        return "\n".join(map(str, self.fields))

    @functools.cached_property
    def _index(self) -> _Index:
        return _build_index(self.fields)

    @functools.cached_property
    def struct(self) -> Struct:
        """The schema as a struct type."""
        return Struct(self.fields)

    @functools.cached_property
    def field_ids(self) -> tuple[int, ...]:
        """The ids of all fields at every depth: far cheaper than the index, which few schemas need."""
        return tuple(_field_ids(self.fields))

    @property
    def highest_field_id(self) -> int:
        """The highest id that a field uses, 0 without fields."""
        return max(self.field_ids, default=0)

    @property
    def all_fields(self) -> Iterable[Field]:
        """Every field at every depth, parents first."""
        return self._index.fields.values()

    def has(self, field_id: int) -> bool:
        """Whether a field has the id."""
        return field_id in self._index.fields

    def get(self, field_id: int) -> Field | None:
        """The field with the id, or None."""
        return self._index.fields.get(field_id)

    def field(self, field_id: int) -> Field:
        """The field with the id."""
        if found := self._index.fields.get(field_id):
            return found
        problem = f"schema {self.schema_id} has no field with id {field_id}"
        raise InvalidInput(problem)

    def name_of(self, field_id: int) -> str:
        """The dotted name of a field, from the top."""
        return self._index.names[self.field(field_id).id]

    def parent_of(self, field_id: int) -> Field | None:
        """The field around a nested one; None at the top."""
        parent = self._index.parents.get(self.field(field_id).id)
        return None if parent is None else self._index.fields[parent]

    def find(self, name: str, *, case_sensitive: bool = True) -> Field:
        """The field with a dotted name; ``element`` and ``value`` may be left out before a struct's field."""
        index = self._index
        found = index.ids.get(name) if case_sensitive else index.folded.get(name.casefold())
        if found is None:
            close = difflib.get_close_matches(name, index.ids, n=3)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"Columns: {self._column_names()}"
            problem = f"no column {name!r}"
            raise InvalidInput(problem, hint=hint)
        if found == _AMBIGUOUS:
            problem = f"the name {name!r} fits more than one column"
            raise InvalidInput(problem, hint="Spell it in the column's own case, from the top")
        return index.fields[found]

    def find_or_none(self, name: str, *, case_sensitive: bool = True) -> Field | None:
        """The field with a dotted name, or None when there is none or more than one."""
        index = self._index
        found = index.ids.get(name) if case_sensitive else index.folded.get(name.casefold())
        return None if found is None or found == _AMBIGUOUS else index.fields[found]

    def same_fields(self, other: Schema) -> bool:
        """Whether two schemas describe the same columns, whatever their ids are."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(
            other.identifier_field_ids
        )

    def _column_names(self) -> str:
        return ", ".join(field.name for field in self.fields[:20]) or "none"


def _build_index(fields: tuple[Field, ...]) -> _Index:
    index = _Index({}, {}, {}, {}, {})
    short_names: dict[str, int] = {}

    def visit(field: Field, parent: Field | None, prefix: str, short_prefix: str) -> None:
        name = prefix + field.name
        index.fields[field.id] = field
        index.names[field.id] = name
        if parent is not None:
            index.parents[field.id] = parent.id
        _claim(index.ids, name, field.id)
        _claim(index.folded, name.casefold(), field.id)
        _claim(short_names, short_prefix + field.name, field.id)
        # Iceberg's readers also accept paths that leave out the element of a list and the value of a map.
        hidden = isinstance(field.type, Struct) and parent is not None and isinstance(parent.type, List | Map)
        short = short_prefix if hidden and field.name != "key" else f"{short_prefix}{field.name}."
        for child in children(field.type):
            visit(child, field, name + ".", short)

    for field in fields:
        visit(field, None, "", "")
    for name, field_id in short_names.items():
        index.ids.setdefault(name, field_id)
        index.folded.setdefault(name.casefold(), field_id)
    return index


def _claim(names: dict[str, int], name: str, field_id: int) -> None:
    if names.setdefault(name, field_id) != field_id:
        names[name] = _AMBIGUOUS


def _field_ids(fields: tuple[Field, ...]) -> list[int]:
    ids = [field.id for field in fields]
    for field in fields:
        if isinstance(field.type, NESTED):
            ids += _field_ids(children(field.type))
    return ids


def check_structure(schema: Schema) -> None:
    """Refuse a schema that nobody could read: double ids, unusable identifier fields."""
    ids = schema.field_ids
    if len(set(ids)) != len(ids):
        double = next(field_id for field_id, count in Counter(ids).items() if count > 1)
        raise InvalidMetadata(f"field id {double} is used twice", field=f"schema {schema.schema_id}")
    for field_id in schema.identifier_field_ids:
        if problem := identifier_problem(schema, field_id):
            raise InvalidMetadata(problem, field=f"schema {schema.schema_id}: identifier-field-ids")


def identifier_problem(schema: Schema, field_id: int) -> str | None:
    """Why a field cannot identify rows; None when it can."""
    if not schema.has(field_id):
        return f"no field has the id {field_id}"
    field, name = schema.field(field_id), schema.name_of(field_id)
    if not is_primitive(field.type):
        return f"{name} is not of a primitive type"
    if field.type in (FLOAT, DOUBLE):
        return f"{name} is a floating point number, which has no reliable equality"
    if not field.required:
        return f"{name} is not required"
    parent = schema.parent_of(field_id)
    while parent is not None:
        if not isinstance(parent.type, Struct):
            return f"{name} is inside a list or map"
        if not parent.required:
            return f"{name} is inside the optional struct {schema.name_of(parent.id)}"
        parent = schema.parent_of(parent.id)
    return None


def check_compatible(schema: Schema, format_version: int) -> None:
    """Refuse a new schema that tables of a format version must not have."""
    for field in schema.fields:
        if nesting(field.type) > MAX_NESTING:
            problem = f"it has more than {MAX_NESTING} levels of types in types"
            raise InvalidInput(problem, field=field.name)
    check_structure(schema)
    _check_names(schema)
    for field in walk(schema.fields):
        place = schema.name_of(field.id)
        if not 0 <= field.id <= MAX_FIELD_ID:
            raise InvalidInput(f"field id {field.id} is reserved or negative", field=place)
        if (needed := min_format_version(field.type)) > format_version:
            problem = f"the type {field.type} needs format version {needed}, the table has {format_version}"
            raise InvalidInput(problem, field=place, hint=f"Upgrade the table to format version {needed}")
        if isinstance(field.type, Decimal) and field.type.scale < 0:
            # A type string cannot say it: nobody could read the table any more.
            raise InvalidInput("a column cannot have a decimal with a negative scale", field=place)
        _check_defaults(field, place, format_version)


def _check_names(schema: Schema) -> None:
    for parent in (None, *(f for f in walk(schema.fields) if isinstance(f.type, Struct))):
        siblings = schema.fields if parent is None else children(parent.type)
        place = "schema" if parent is None else schema.name_of(parent.id)
        names: set[str] = set()
        for name in (field.name for field in siblings):
            if not name:
                raise InvalidInput("a column needs a name", field=place)
            if name in names:
                raise InvalidInput(f"two columns are called {name!r}", field=place)
            names.add(name)
    for field in schema.all_fields:
        # Other implementations cannot open a table with a column a.b next to a field b of a.
        if schema.find_or_none(name := schema.name_of(field.id)) is None:
            raise InvalidInput(f"two columns have the full name {name!r}", field=name)


def _check_defaults(field: Field, place: str, format_version: int) -> None:
    if field.type is UNKNOWN and field.required:
        raise InvalidInput("a column of type unknown cannot be required", field=place)
    defaults = [value for value in (field.initial_default, field.write_default) if value is not None]
    if not defaults:
        return
    # A write default is harmless to older readers, yet v1 and v2 have no field to keep it in.
    if format_version < 3:  # noqa: PLR2004
        problem = f"default values need format version 3, the table has {format_version}"
        raise InvalidInput(problem, field=place, hint="Upgrade the table to format version 3")
    if defaults_to_null_only(field.type):
        raise InvalidInput(f"a column of type {field.type} can only default to null", field=place)
    if isinstance(field.type, Struct) and any(defaults):
        hint = "Give the default {} here, and a default to each field inside"
        raise InvalidInput("the default of a struct holds no field values", field=place, hint=hint)
    for value in defaults:
        check_value(field.type, value)
