"""Iceberg types as Avro schemas: what manifests and Avro data files are written with (Appendix A).

Every field carries its Iceberg id. A field that may be null is a union with null first, and defaults to
null. Names that Avro does not allow are spelt with ``_x`` and the code of the character, as Java does, and
keep their real name in ``iceberg-field-name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from lakeplane.errors import InvalidInput
from lakeplane.model.types import (
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)

AvroSchema: TypeAlias = "str | dict[str, Any] | list[Any]"

_PLAIN: Final[dict[Type, AvroSchema]] = {
    Primitive.BOOLEAN: "boolean",
    Primitive.INT: "int",
    Primitive.LONG: "long",
    Primitive.FLOAT: "float",
    Primitive.DOUBLE: "double",
    Primitive.DATE: {"type": "int", "logicalType": "date"},
    Primitive.TIME: {"type": "long", "logicalType": "time-micros"},
    Primitive.TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    Primitive.TIMESTAMPTZ: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    Primitive.TIMESTAMP_NS: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    Primitive.TIMESTAMPTZ_NS: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
    Primitive.STRING: "string",
    Primitive.BINARY: "bytes",
    Primitive.UUID: {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
}

_ALLOWED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_record(name: str, fields: Iterable[Field]) -> dict[str, Any]:
    """The Avro record that holds fields; those of type unknown are never stored."""
    whole = _define_once(_record(name, fields), set())
    assert isinstance(whole, dict)
    return whole


def _define_once(schema: AvroSchema, defined: set[str]) -> AvroSchema:
    """Name the second fixed of a kind instead of defining it again, which Avro forbids."""
    if isinstance(schema, list):
        return [_define_once(each, defined) for each in schema]
    if isinstance(schema, str):
        return schema
    match schema["type"]:
        case "fixed":
            name: str = schema["name"]
            if name in defined:
                return name
            defined.add(name)
        case "record":
            fields = [{**each, "type": _define_once(each["type"], defined)} for each in schema["fields"]]
            return {**schema, "fields": fields}
        case "array":
            return {**schema, "items": _define_once(schema["items"], defined)}
        case "map":
            return {**schema, "values": _define_once(schema["values"], defined)}
    return schema


def _record(name: str, fields: Iterable[Field]) -> dict[str, Any]:
    stored = [_field(field) for field in fields if field.type is not Primitive.UNKNOWN]
    return {"type": "record", "name": name, "fields": stored}


def _field(field: Field) -> dict[str, Any]:
    inner = _avro_type(field.type, f"r{field.id}")
    name = avro_name(field.name)
    found: dict[str, Any] = {"name": name, "type": inner if field.required else ["null", inner]}
    if not field.required:
        found["default"] = None
    if field.doc is not None:
        found["doc"] = field.doc
    if name != field.name:
        found["iceberg-field-name"] = field.name
    return {**found, "field-id": field.id}


def avro_name(name: str) -> str:
    """A name that Avro accepts."""
    if _ALLOWED.fullmatch(name):
        return name
    start = name[0]
    first = f"_{start}" if re.fullmatch("[0-9]", start) else _allowed(start)
    return first + "".join(map(_allowed, name[1:]))


def _allowed(char: str) -> str:
    return char if re.fullmatch("[A-Za-z0-9_]", char) else f"_x{ord(char):X}"


def _avro_type(type_: Type, name: str) -> AvroSchema:
    if plain := _PLAIN.get(type_):
        return plain
    match type_:
        case Struct():
            return _record(name, type_.fields)
        case List():
            return {"type": "array", "items": _nullable(type_.element_field), "element-id": type_.element_id}
        case Map() if type_.key is Primitive.STRING:
            values = _nullable(type_.value_field)
            return {"type": "map", "values": values, "key-id": type_.key_id, "value-id": type_.value_id}
        case Map():
            pair = _record(f"k{type_.key_id}_v{type_.value_id}", (type_.key_field, type_.value_field))
            return {"type": "array", "logicalType": "map", "items": pair}
        case Decimal():
            size = decimal_size(type_.precision)
            logical = {"logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
            return {
                "type": "fixed",
                "name": f"decimal_{type_.precision}_{type_.scale}",
                "size": size,
                **logical,
            }
        case Fixed():
            return {"type": "fixed", "name": f"fixed_{type_.length}", "size": type_.length}
        case Geometry() | Geography():
            return "bytes"
        case Primitive.VARIANT:
            parts = [{"name": part, "type": "bytes"} for part in ("metadata", "value")]
            return {"type": "record", "name": name, "logicalType": "variant", "fields": parts}
        case _:
            problem = f"Avro files cannot hold a {type_}"
            raise InvalidInput(problem)


def _nullable(field: Field) -> AvroSchema:
    inner = _avro_type(field.type, f"r{field.id}")
    return inner if field.required else ["null", inner]


def decimal_size(precision: int) -> int:
    """How many bytes hold every number of so many digits, with its sign."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 1 + 7) // 8
