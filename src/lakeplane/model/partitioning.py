"""Partition specs: how the partition of a row follows from its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import (
    Identity,
    Transform,
    UnknownTransform,
    Void,
    accepts,
    parse_transform,
    result_type,
)
from lakeplane.model.types import UNKNOWN, Field, List, Map, Struct, is_primitive

FIRST_PARTITION_FIELD_ID: Final = 1000

_FIELD_KEYS: Final = frozenset({"source-id", "source-ids", "field-id", "name", "transform"})


class PartitionField(msgspec.Struct, frozen=True):
    """One value of a partition: a transform of a column (of several, for transforms of the future)."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def source_id(self) -> int:
        """The only source column; transforms of several columns are not known to this release."""
        return self.source_ids[0]

    @property
    def is_known(self) -> bool:
        """Whether the values of the field can be computed, and used to skip files."""
        return len(self.source_ids) == 1 and not isinstance(self.transform, UnknownTransform)

    def same_rule(self, other: PartitionField) -> bool:
        """Whether two fields produce the same values."""
        return self.source_ids == other.source_ids and self.transform == other.transform

    def __str__(self) -> str:
        sources = ", ".join(map(str, self.source_ids))
        return f"{self.field_id}: {self.name}: {self.transform}({sources})"


class PartitionSpec(msgspec.Struct, frozen=True):
    """The partition fields of a table at one point of its history."""

    spec_id: int = 0
    fields: tuple[PartitionField, ...] = ()
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows share one partition (void fields do not part them)."""
        return all(isinstance(field.transform, Void) for field in self.fields)

    @property
    def highest_field_id(self) -> int:
        """The highest partition field id in use; 999 when there is none."""
        return max((field.field_id for field in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def compatible(self, other: PartitionSpec) -> bool:
        """Whether two specs are equivalent in the words of the spec: sources, transforms and names."""
        return len(self.fields) == len(other.fields) and all(
            mine.same_rule(theirs) and mine.name == theirs.name
            for mine, theirs in zip(self.fields, other.fields, strict=True)
        )

    def partition_type(self, *schemas: Schema) -> Struct:
        """The type of a partition; sources dropped from the first schema are looked up in the others.

        A source that no schema knows any more has values of an unknown type: they read as null.
        """
        return Struct(tuple(_value_field(field, schemas) for field in self.fields))

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"


def _value_field(field: PartitionField, schemas: Sequence[Schema]) -> Field:
    sources = (schema.get(field.source_id) for schema in schemas)
    source = next((found for found in sources if found is not None), None)
    type_ = UNKNOWN if source is None else result_type(field.transform, source.type)
    return Field(field.field_id, field.name, type_)


UNPARTITIONED: Final = PartitionSpec()


def check_spec(spec: PartitionSpec, schema: Schema) -> None:
    """Refuse a new spec that no table with the schema may use."""
    names = [field.name for field in spec.fields]
    ids = [field.field_id for field in spec.fields]
    for field in spec.fields:
        place = f"partition field {field.name!r}"
        if not field.name or names.count(field.name) > 1:
            raise InvalidInput("a partition field needs a name of its own", field=place)
        if ids.count(field.field_id) > 1:
            raise InvalidInput(f"the id {field.field_id} is used twice", field=place)
        if isinstance(field.transform, UnknownTransform):
            hint = "This release cannot compute it, and a writer must not commit what it cannot compute"
            raise InvalidInput(f"unknown transform {field.transform}", field=place, hint=hint)
        if isinstance(field.transform, Void):
            continue
        if len(field.source_ids) != 1:
            raise InvalidInput(f"{field.transform} takes one column", field=place)
        check_source(schema, field.source_id, field.transform, place)
        _check_name(field, schema, place)


def check_source(schema: Schema, source_id: int, transform: Transform, place: str) -> None:
    """Refuse a transform of a column that is missing, inside a list or map, or of the wrong type."""
    source = schema.get(source_id)
    if source is None:
        raise InvalidInput(f"the source column {source_id} does not exist", field=place)
    name = schema.name_of(source_id)
    if not is_primitive(source.type) or not accepts(transform, source.type):
        raise InvalidInput(f"{transform} does not take {name}, a {source.type}", field=place)
    parent = schema.parent_of(source_id)
    while parent is not None:
        if isinstance(parent.type, List | Map):
            raise InvalidInput(f"{name} is inside a list or map", field=place)
        parent = schema.parent_of(parent.id)


def column_in_the_way(field: PartitionField, schema: Schema) -> Field | None:
    """The column that has the name of a partition field without being its source; mostly there is none.

    Other implementations cannot open a table with such a column, whichever of its specs has the field. Only
    where the source is gone, the spec is history to them.
    """
    column = schema.find_or_none(field.name)
    if column is None or column.id in field.source_ids or not any(map(schema.has, field.source_ids)):
        return None
    return column


def _check_name(field: PartitionField, schema: Schema, place: str) -> None:
    """Only an identity field may share its name with a column, and only with its own source."""
    column = schema.find_or_none(field.name)
    if column is None or (isinstance(field.transform, Identity) and column.id == field.source_id):
        return
    raise InvalidInput(
        "the name is that of a column", field=place, hint="Give the partition field another name"
    )


def read_spec(raw: object, where: str) -> PartitionSpec:
    """Read a full spec object."""
    if not isinstance(raw, dict) or not is_int(raw.get("spec-id")):
        raise InvalidMetadata("expected an object with an integer spec-id", field=where)
    fields = read_spec_fields(raw.get("fields"), f"{where}.fields")
    rest = {key: raw[key] for key in raw if key not in ("spec-id", "fields")}
    return PartitionSpec(raw["spec-id"], fields, freeze(rest) if rest else EMPTY)


def read_spec_fields(raw: object, where: str) -> tuple[PartitionField, ...]:
    """Read a list of partition fields; v1 writers left their ids out, so they count up from 1000."""
    if not isinstance(raw, list | tuple):
        raise InvalidMetadata("expected a list of partition fields", field=where)
    given = [isinstance(each, dict) and "field-id" in each for each in raw]
    if any(given) and not all(given):
        raise InvalidMetadata("some partition fields have ids and some have none", field=where)
    return tuple(_read_field(each, f"{where}[{position}]", position) for position, each in enumerate(raw))


def _read_field(raw: object, where: str, position: int) -> PartitionField:
    if not isinstance(raw, dict):
        raise InvalidMetadata("expected an object", field=where)
    name, field_id = raw.get("name"), raw.get("field-id", FIRST_PARTITION_FIELD_ID + position)
    if type(name) is not str or not is_int(field_id):
        raise InvalidMetadata("a partition field needs a string name and an integer field-id", field=where)
    sources, transform = read_rule(raw, where)
    rest = {key: raw[key] for key in raw if key not in _FIELD_KEYS}
    return PartitionField(sources, field_id, name, transform, freeze(rest) if rest else EMPTY)


def is_int(value: object) -> TypeGuard[int]:
    """Whether a JSON value is an integer of 32 bits, as all ids of a table's parts are."""
    return type(value) is int and -(2**31) <= value < 2**31


def read_rule(raw: dict[str, Any], where: str) -> tuple[tuple[int, ...], Transform]:
    """Read what partition and sort fields share: the source columns and the transform."""
    # With both, the list tells the whole: the first of two columns alone would give wrong values.
    sources = raw.get("source-ids") or [raw.get("source-id")]
    if not isinstance(sources, list | tuple) or not sources or not all(map(is_int, sources)):
        raise InvalidMetadata("source-id must be an integer (or source-ids a list of them)", field=where)
    transform = raw.get("transform")
    if type(transform) is not str:
        raise InvalidMetadata("transform must be a string", field=where)
    return tuple(sources), parse_transform(transform)


def write_rule(source_ids: tuple[int, ...], transform: Transform) -> dict[str, Any]:
    """Write what partition and sort fields share."""
    sources: dict[str, Any] = (
        {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}
    )
    return {**sources, "transform": str(transform)}


def write_spec(spec: PartitionSpec) -> dict[str, Any]:
    """Write a full spec object."""
    return {"spec-id": spec.spec_id, "fields": write_spec_fields(spec.fields), **thaw(spec.unknown)}


def write_spec_fields(fields: Iterable[PartitionField]) -> list[dict[str, Any]]:
    """Write a list of partition fields, as manifests and v1 tables store it."""
    return [
        {
            **write_rule(field.source_ids, field.transform),
            "field-id": field.field_id,
            "name": field.name,
            **thaw(field.unknown),
        }
        for field in fields
    ]
