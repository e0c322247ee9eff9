"""Name mappings: which field a column of a data file is, when the file holds names and no field ids.

A mapping is stored as JSON text in the table property ``schema.name-mapping.default``. It follows the shape
of the schema: below a list there is ``element``, below a map ``key`` and ``value``. A dot in a name is a dot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from lakeplane.errors import InvalidMetadata, LimitExceeded
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field, children

PROPERTY: Final = "schema.name-mapping.default"
"""The table property that holds the mapping."""

MAX_DEPTH: Final = 100
"""How deep a mapping may be nested."""

_KEYS: Final = frozenset({"field-id", "names", "fields"})


class MappedField(msgspec.Struct, frozen=True):
    """The names of one field in files without ids, and the fields inside it.

    A field that only exists in files has no id, one that is in no file has no names.
    """

    field_id: int | None
    names: tuple[str, ...] = ()
    fields: tuple[MappedField, ...] = ()
    unknown: FrozenDict[str, Any] = EMPTY


class NameMapping(msgspec.Struct, frozen=True):
    """The fields that files without ids are read by."""

    fields: tuple[MappedField, ...] = ()


def mapping_for(schema: Schema) -> NameMapping:
    """Map every field of a schema by the name that it has now."""
    return NameMapping(tuple(map(_mapped, schema.fields)))


def find(mapping: NameMapping, path: Sequence[str]) -> int | None:
    """Give the id of the field that a file has at a path of names, None when no id is known for it."""
    fields, found = mapping.fields, None
    for name in path:
        found = next((field for field in fields if name in field.names), None)
        if found is None:
            return None
        fields = found.fields
    return None if found is None else found.field_id


def updated(mapping: NameMapping, old: Schema, new: Schema) -> NameMapping:
    """Follow a schema's evolution: renamed fields get their new name, and keep those of older files.

    Added fields are mapped by their name. A name that is given to another field is taken from the one that
    had it, as the reference implementation does: from then on, files with that name have the new field.
    """
    steps = _evolution(old, new)
    return NameMapping(_followed(mapping.fields, steps, steps.added.get(None, ())))


def read_name_mapping(raw: object, where: str = PROPERTY) -> NameMapping:
    """Read a mapping from its JSON text, or from what that text holds."""
    if isinstance(raw, str | bytes):
        try:
            raw = msgspec.json.decode(raw)
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidMetadata(f"not JSON: {error}", field=where) from None
        except RecursionError:
            raise _too_deep(where) from None
    mapping = NameMapping(_read_fields(raw, where, depth=1))
    _check_ids(mapping, where)
    return mapping


def write_name_mapping(mapping: NameMapping) -> str:
    """Write a mapping as JSON text, the value of the table property."""
    return msgspec.json.encode(_write_fields(mapping.fields)).decode()


def _mapped(field: Field) -> MappedField:
    return MappedField(field.id, (field.name,), tuple(map(_mapped, children(field.type))))


class _Evolution(NamedTuple):
    """What a mapping must know of the way from one schema to another."""

    added: dict[int | None, list[Field]]
    renamed: dict[int | None, str]


def _evolution(old: Schema, new: Schema) -> _Evolution:
    steps = _Evolution({}, {})
    for field in new.all_fields:
        before, parent = old.get(field.id), new.parent_of(field.id)
        if before is not None and before.name != field.name:
            steps.renamed[field.id] = field.name
        if before is None:
            steps.added.setdefault(None if parent is None else parent.id, []).append(field)
    return steps


def _followed(
    fields: tuple[MappedField, ...], steps: _Evolution, added: Sequence[Field]
) -> tuple[MappedField, ...]:
    """Map the fields of one struct, list or map as they are after an evolution."""
    owners: dict[str, int | None] = {field.name: field.id for field in added}
    owners |= {
        steps.renamed[field.field_id]: field.field_id for field in fields if field.field_id in steps.renamed
    }
    followed = []
    for field in fields:
        names = [name for name in field.names if owners.get(name, field.field_id) == field.field_id]
        if field.field_id in steps.renamed:
            names.append(steps.renamed[field.field_id])
        inside = () if field.field_id is None else steps.added.get(field.field_id, ())
        inner = _followed(field.fields, steps, inside)
        followed.append(replace(field, names=tuple(dict.fromkeys(names)), fields=inner))
    return (*followed, *map(_mapped, added))


def _read_fields(raw: object, where: str, depth: int) -> tuple[MappedField, ...]:
    if depth > MAX_DEPTH:
        raise _too_deep(where)
    if not isinstance(raw, list | tuple):
        raise InvalidMetadata(f"expected a list of field mappings, got {raw!r:.80}", field=where)
    fields = tuple(_read_field(each, f"{where}[{position}]", depth) for position, each in enumerate(raw))
    owners: dict[str, MappedField] = {}
    for field in fields:
        for name in field.names:
            if owners.setdefault(name, field) is not field:
                raise InvalidMetadata(f"two fields have the name {name!r}", field=where)
    return fields


def _read_field(raw: object, where: str, depth: int) -> MappedField:
    if not isinstance(raw, dict):
        raise InvalidMetadata(f"expected an object, got {raw!r:.80}", field=where)
    field_id, names = raw.get("field-id"), raw.get("names", ())
    if field_id is not None and type(field_id) is not int:
        raise InvalidMetadata(f"expected an integer, got {field_id!r:.80}", field=f"{where}.field-id")
    if not isinstance(names, list | tuple) or any(type(name) is not str for name in names):
        raise InvalidMetadata(f"expected a list of strings, got {names!r:.80}", field=f"{where}.names")
    inner = raw.get("fields")
    fields = () if inner is None else _read_fields(inner, f"{where}.fields", depth + 1)
    rest = {key: raw[key] for key in raw if key not in _KEYS}
    return MappedField(field_id, tuple(dict.fromkeys(names)), fields, freeze(rest) if rest else EMPTY)


def _check_ids(mapping: NameMapping, where: str) -> None:
    seen: set[int] = set()
    rest = list(mapping.fields)
    while rest:
        field = rest.pop()
        if field.field_id is not None:
            if field.field_id in seen:
                raise InvalidMetadata(f"the field id {field.field_id} is mapped twice", field=where)
            seen.add(field.field_id)
        rest.extend(field.fields)


def _too_deep(where: str) -> LimitExceeded:
    return LimitExceeded(f"nested more than {MAX_DEPTH} levels deep", field=where[:200])


def _write_fields(fields: tuple[MappedField, ...]) -> list[dict[str, Any]]:
    return [_write_field(field) for field in fields]


def _write_field(field: MappedField) -> dict[str, Any]:
    document: dict[str, Any] = {} if field.field_id is None else {"field-id": field.field_id}
    document["names"] = list(field.names)
    if field.fields:
        document["fields"] = _write_fields(field.fields)
    return {**document, **thaw(field.unknown)}
