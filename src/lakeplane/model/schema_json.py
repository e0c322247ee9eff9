"""Schemas and types as the JSON of Appendix C, both ways."""

from __future__ import annotations

from typing import Any

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model import value_json
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.partitioning import is_int
from lakeplane.model.records import Int, Record, read_all
from lakeplane.model.schema import Schema, check_structure
from lakeplane.model.types import MAX_NESTING, Field, List, Map, Struct, Type, parse_type

_SCHEMA_KEYS = frozenset({"type", "schema-id", "identifier-field-ids", "fields"})
_STRUCT_KEYS = frozenset({"type", "fields"})
_LIST_KEYS = frozenset({"type", "element-id", "element", "element-required"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})


class _FieldRecord(Record, frozen=True, kw_only=True):
    """A field as it is stored: its defaults can only be read once its type is."""

    id: Int
    name: str
    required: bool
    type: Any
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


def read_schema(raw: object, where: str = "schema") -> Schema:
    """Read a schema object and check that it can be used."""
    document = _object(raw, where)
    kind = document.get("type", "struct")  # some v1 writers left it out
    if kind != "struct":
        raise InvalidMetadata(f"a schema must be of type struct, not {kind!r}", field=where)
    identifiers = document.get("identifier-field-ids") or ()
    if not isinstance(identifiers, list | tuple) or any(type(each) is not int for each in identifiers):
        raise InvalidMetadata("expected a list of field ids", field=f"{where}.identifier-field-ids")
    schema_id = 0 if document.get("schema-id") is None else document["schema-id"]
    if not is_int(schema_id):
        raise InvalidMetadata(f"expected an integer, got {schema_id!r}", field=f"{where}.schema-id")
    fields = _read_fields(document, where, MAX_NESTING)
    schema = Schema(fields, schema_id, tuple(identifiers), _unknown(document, _SCHEMA_KEYS))
    check_structure(schema)
    return schema


def read_type(raw: object, where: str = "type", depth: int = MAX_NESTING) -> Type:
    """Read a type: a type string, or the object of a nested type with at most ``depth`` levels."""
    if isinstance(raw, str):
        try:
            return parse_type(raw)
        except InvalidInput as error:
            raise InvalidMetadata(error.problem, field=where, hint=error.hint) from None
    document = _object(raw, where)
    if depth == 0:
        raise LimitExceeded(f"types are nested more than {MAX_NESTING} levels deep", field=where[:200])
    match document.get("type"):
        case "struct":
            fields = _read_fields(document, where, depth - 1)
            return Struct(fields, _unknown(document, _STRUCT_KEYS))
        case "list":
            return List(
                _get(document, "element-id", int, where),
                read_type(document.get("element"), f"{where}.element", depth - 1),
                _get(document, "element-required", bool, where),
                _unknown(document, _LIST_KEYS),
            )
        case "map":
            return Map(
                _get(document, "key-id", int, where),
                read_type(document.get("key"), f"{where}.key", depth - 1),
                _get(document, "value-id", int, where),
                read_type(document.get("value"), f"{where}.value", depth - 1),
                _get(document, "value-required", bool, where),
                _unknown(document, _MAP_KEYS),
            )
        case other:
            raise InvalidMetadata(f"unknown type {other!r}", field=where)


def write_schema(schema: Schema, *, with_id: bool = True) -> dict[str, Any]:
    """Write a schema object."""
    document: dict[str, Any] = {"type": "struct"}
    if with_id:
        document["schema-id"] = schema.schema_id
    if schema.identifier_field_ids:
        document["identifier-field-ids"] = list(schema.identifier_field_ids)
    document["fields"] = [_write_field(field) for field in schema.fields]
    return {**document, **thaw(schema.unknown)}


def write_type(type_: Type) -> Any:
    """Write a type: a string, or an object for nested types."""
    match type_:
        case Struct():
            fields = [_write_field(field) for field in type_.fields]
            return {"type": "struct", "fields": fields, **thaw(type_.unknown)}
        case List():
            return {
                "type": "list",
                "element-id": type_.element_id,
                "element": write_type(type_.element),
                "element-required": type_.element_required,
                **thaw(type_.unknown),
            }
        case Map():
            return {
                "type": "map",
                "key-id": type_.key_id,
                "key": write_type(type_.key),
                "value-id": type_.value_id,
                "value": write_type(type_.value),
                "value-required": type_.value_required,
                **thaw(type_.unknown),
            }
        case _:
            return str(type_)


def _read_fields(document: dict[str, Any], where: str, depth: int) -> tuple[Field, ...]:
    records = read_all(_FieldRecord, document.get("fields"), f"{where}.fields")
    return tuple([_field(record, where, position, depth) for position, record in enumerate(records)])


def _field(record: _FieldRecord, where: str, position: int, depth: int) -> Field:
    # Tables have hundreds of schemas of hundreds of fields: the name of the place is made when it is needed.
    if type(record.type) is str and record.initial_default is None and record.write_default is None:
        try:
            type_ = parse_type(record.type)
        except InvalidInput as error:
            place = f"{where}.fields[{position}].type"
            raise InvalidMetadata(error.problem, field=place, hint=error.hint) from None
        return Field(record.id, record.name, type_, record.required, record.doc, None, None, record.unknown)
    place = f"{where}.fields[{position}]"
    type_ = read_type(record.type, f"{place}.type", depth)
    return Field(
        record.id,
        record.name,
        type_,
        record.required,
        record.doc,
        value_json.from_json(type_, record.initial_default, f"{place}.initial-default"),
        value_json.from_json(type_, record.write_default, f"{place}.write-default"),
        record.unknown,
    )


def _write_field(field: Field) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": write_type(field.type),
    }
    if field.doc is not None:
        document["doc"] = field.doc
    if field.initial_default is not None:
        document["initial-default"] = value_json.to_json(field.type, field.initial_default)
    if field.write_default is not None:
        document["write-default"] = value_json.to_json(field.type, field.write_default)
    return {**document, **thaw(field.unknown)} if field.unknown else document


def _object(raw: object, where: str) -> dict[str, Any]:
    if isinstance(raw, dict):
        return raw
    raise InvalidMetadata(f"expected an object, got {raw!r:.80}", field=where)


def _get(document: dict[str, Any], key: str, kind: type, where: str) -> Any:
    value = document.get(key)
    if type(value) is not kind:
        problem = f"{key} is missing" if value is None else f"expected {kind.__name__}, got {value!r:.80}"
        raise InvalidMetadata(problem, field=f"{where}.{key}")
    return value


def _unknown(document: dict[str, Any], known: frozenset[str]) -> FrozenDict[str, Any]:
    if known.issuperset(document):
        return EMPTY
    rest: FrozenDict[str, Any] = freeze({key: document[key] for key in document if key not in known})
    return rest
