"""Finding a field of a schema by its path, and rebuilding the schema around a changed field.

A path is dotted text (``points.element.x``, or ``points.x`` for short) or a tuple of names; only a tuple can
tell the column ``a.b`` from the field ``b`` of ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from lakeplane.errors import InvalidChange, InvalidInput
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field, List, Map, Struct, Type, children, is_nested, map_fields

Path: TypeAlias = str | tuple[str, ...]


def path_text(path: Path) -> str:
    """Write a path for people."""
    return path if isinstance(path, str) else ".".join(path)


def find_field(schema: Schema, path: Path, *, case_sensitive: bool) -> Field:
    """Find the field at a path, or raise ``InvalidChange``."""
    if isinstance(path, str):
        try:
            return schema.find(path, case_sensitive=case_sensitive)
        except InvalidInput as error:
            raise InvalidChange(error.problem, hint=error.hint) from None
    levels: tuple[tuple[Field, ...], ...] = (schema.fields,)
    found: list[Field] = []
    for name in path:
        matches = (called(name, level, case_sensitive=case_sensitive) for level in levels)
        found = next(filter(None, matches), [])
        if len(found) != 1:
            break
        inner = children(found[0].type)
        # The element of a list and the value of a map may be left out before the field of a struct.
        hidden = inner[-1:] if isinstance(found[0].type, List | Map) else ()
        levels = (inner, *(children(each.type) for each in hidden if isinstance(each.type, Struct)))
    if len(found) == 1:
        return found[0]
    text = path_text(path)
    problem = f"the name {text!r} fits more than one column" if found else f"no column {text!r}"
    raise InvalidChange(problem, hint=f"Columns: {', '.join(field.name for field in schema.fields[:20])}")


def called(name: str, fields: Iterable[Field], *, case_sensitive: bool) -> list[Field]:
    """Pick the fields with a name: in its own case, or else in any case if that is allowed."""
    fields = tuple(fields)
    exact = [field for field in fields if field.name == name]
    if exact or case_sensitive:
        return exact
    return [field for field in fields if field.name.casefold() == name.casefold()]


def is_named(schema: Schema, field: Field) -> bool:
    """Whether a field is a column or the field of a struct, not the element, key or value of a type."""
    parent = schema.parent_of(field.id)
    return parent is None or isinstance(parent.type, Struct)


def is_in_key(schema: Schema, field: Field) -> bool:
    """Whether a field is the key of a map, or inside one."""
    inner, outer = field, schema.parent_of(field.id)
    while outer is not None:
        if isinstance(outer.type, Map) and outer.type.key_id == inner.id:
            return True
        inner, outer = outer, schema.parent_of(outer.id)
    return False


def siblings_in(schema: Schema, parent: Field | None) -> tuple[Field, ...]:
    """Give the fields of a struct; of the schema for None."""
    return schema.fields if parent is None else children(parent.type)


def with_siblings(schema: Schema, parent: Field | None, siblings: tuple[Field, ...]) -> Schema:
    """Replace the fields of a struct; of the schema for None."""
    if parent is None:
        return with_fields(schema, siblings)
    assert isinstance(parent.type, Struct)
    struct = replace(parent.type, fields=siblings)
    return with_field(schema, replace(parent, type=struct))


def with_field(schema: Schema, changed: Field) -> Schema:
    """Replace the field with the id of the changed one, wherever it is."""

    def visit(field: Field) -> Field:
        if field.id == changed.id:
            return changed
        return replace(field, type=map_fields(field.type, visit)) if is_nested(field.type) else field

    return with_fields(schema, tuple(map(visit, schema.fields)))


def with_fields(
    schema: Schema, fields: tuple[Field, ...], identifiers: tuple[int, ...] | None = None
) -> Schema:
    """Replace all fields, and if given the ids of those that identify rows."""
    # A new value on purpose: replace() must not carry the old one's index over.
    ids = schema.identifier_field_ids if identifiers is None else identifiers
    return Schema(fields, schema.schema_id, ids, schema.unknown)


def number_fields(type_: Type, id_of: Callable[[str], int], prefix: str = "") -> Type:
    """Give ids, by dotted name, to the fields inside a type.

    The fields of one struct come first, then what is inside each of them, as in the reference implementation.
    """
    ids = iter([id_of(prefix + child.name) for child in children(type_)])

    def visit(child: Field) -> Field:
        child_id = next(ids)
        return replace(child, id=child_id, type=number_fields(child.type, id_of, f"{prefix}{child.name}."))

    return map_fields(type_, visit)
