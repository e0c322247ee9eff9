"""Avro schemas: parsed, names resolved, and what each type is in Arrow.

A schema is a tree of the kinds below. Attributes that Avro itself does not know but Iceberg writes into it
(``field-id``, ``element-id``, ``key-id``, ``value-id``, ``adjust-to-utc``, arrays that stand for maps) are
read here and nowhere else.

The rule of Avro for logical types holds: one that is unknown, or does not fit the type it is written on, is
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
import pyarrow as pa

from lakeplane.avro.limits import Limits
from lakeplane.errors import InvalidMetadata, LimitExceeded

Kind = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"]

FIELD_ID: Final = b"PARQUET:field_id"
"""Where Arrow fields carry the ids of Iceberg."""

MAX_DECIMAL: Final = 38


class Scalar(msgspec.Struct, frozen=True):
    """A type without parts."""

    kind: Kind
    arrow: Any
    size: int = 0
    symbols: tuple[str, ...] = ()


class Field(msgspec.Struct, frozen=True):
    """A field of a record."""

    name: str
    type: Node
    id: int | None = None


class Record(msgspec.Struct, frozen=True):
    """A record, in the file just its fields one after the other."""

    name: str
    fields: tuple[Field, ...]


class Array(msgspec.Struct, frozen=True):
    """An array; one of records of key and value may stand for a map whose keys are no strings."""

    items: Node
    id: int | None = None
    is_map: bool = False


class Map(msgspec.Struct, frozen=True):
    """A map from strings."""

    values: Node
    key_id: int | None = None
    value_id: int | None = None


class Optional(msgspec.Struct, frozen=True):
    """A union of null and one other type."""

    value: Node
    null_at: Literal[0, 1]


class Choice(msgspec.Struct, frozen=True):
    """Any other union. With one branch it is that branch after a byte; with more it can be skipped only."""

    branches: tuple[Node, ...]


Node: TypeAlias = Scalar | Record | Array | Map | Optional | Choice

_PRIMITIVES: Final[dict[str, Scalar]] = {
    "null": Scalar("null", pa.null()),
    "boolean": Scalar("boolean", pa.bool_()),
    "int": Scalar("int", pa.int32()),
    "long": Scalar("long", pa.int64()),
    "float": Scalar("float", pa.float32()),
    "double": Scalar("double", pa.float64()),
    "bytes": Scalar("bytes", pa.binary()),
    "string": Scalar("string", pa.string()),
}
TEXT: Final = _PRIMITIVES["string"]
"""What the keys of Avro's own maps are."""

_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
LENGTHS: Final = {"boolean": 1, "float": 4, "double": 8}


def parse_schema(document: object, limits: Limits) -> Node:
    """Read a schema; errors name the place in it."""
    return _Reader(limits).read(document, "", 0, "schema")


def is_empty(node: Node) -> bool:
    """Whether a value of this type takes no byte in the file."""
    match node:
        case Scalar(kind="null") | Scalar(kind="fixed", size=0):
            return True
        case Record(fields=fields):
            return all(is_empty(field.type) for field in fields)
        case _:
            return False


def weight(node: Node, around: int = 1) -> int:
    """About how much code is needed for a type: what is in an array is gone over for each array around it."""
    match node:
        case Scalar():
            return around
        case Optional(value=value):
            return around + weight(value, around)
        case Choice(branches=branches):
            return around + sum(weight(branch, around) for branch in branches)
        case Record(fields=fields):
            return sum(weight(field.type, around) for field in fields)
        case Array(items=items):
            return around + weight(items, around + 1)
        case Map(values=values):
            return 2 * around + weight(values, around + 1)


def record_of(node: Node) -> tuple[Record, Literal[0, 1] | None]:
    """The record of a file's rows, and where null is if the schema is a union with null, as Paimon writes."""
    match node:
        case Record():
            return node, None
        case Optional(value=Record() as record, null_at=null_at):
            return record, null_at
        case _:
            raise InvalidMetadata("the rows of the file are no records", field="schema")


def arrow_type(node: Node, place: str) -> pa.DataType:
    """What values of this type are in Arrow."""
    match node:
        case Scalar(arrow=arrow):
            return arrow
        case Optional(value=value):
            return arrow_type(value, place)
        case Choice(branches=(branch,)):
            return arrow_type(branch, place)
        case Choice(branches=branches):
            names = ", ".join(map(_name, branches))
            raise InvalidMetadata(f"a union of {names}: only unions with null can be read", field=place)
        case Record(fields=fields):
            return pa.struct([arrow_field(field, place) for field in fields])
        case Array(items=Record(fields=(key, value)), is_map=True):
            key_field = arrow_field(key, place).with_nullable(False)  # noqa: FBT003  # pyarrow's own way
            return pa.map_(key_field, arrow_field(value, place))
        case Array(items=items, id=number):
            return pa.list_(_field("element", items, number, f"{place}.element"))
        case Map(values=values, key_id=key_id, value_id=value_id):
            key_field = _field("key", _PRIMITIVES["string"], key_id, place)
            return pa.map_(key_field, _field("value", values, value_id, f"{place}.value"))


def arrow_field(field: Field, place: str = "") -> pa.Field:
    """A field in Arrow, with its Iceberg id."""
    return _field(field.name, field.type, field.id, f"{place}.{field.name}" if place else field.name)


def is_optional(node: Node) -> bool:
    """Whether a value of this type may be null."""
    match node:
        case Optional() | Scalar(kind="null"):
            return True
        case Choice(branches=(branch,)):
            return is_optional(branch)
        case _:
            return False


def _field(name: str, node: Node, number: int | None, place: str) -> pa.Field:
    metadata = None if number is None else {FIELD_ID: str(number).encode()}
    return pa.field(name, arrow_type(node, place), nullable=is_optional(node), metadata=metadata)


def _name(node: Node) -> str:
    match node:
        case Scalar(kind=kind):
            return kind
        case Record(name=name):
            return name
        case _:
            return type(node).__name__.lower()


class _Reader:
    """Keeps the named types that were met so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.named: dict[str, Node | None] = {}  # None: not read to its end yet
        self.weights: dict[str, int] = {}
        self.nodes = 0

    def read(self, document: object, namespace: str, depth: int, place: str) -> Node:
        if depth > self.limits.schema_depth:
            raise LimitExceeded(f"types are nested deeper than {self.limits.schema_depth}", field=place)
        self._count(1, place)
        match document:
            case str():
                return self._named(document, namespace, place)
            case list():
                return self._union(document, namespace, depth, place)
            case {"type": str() as kind} if kind in _COMPLEX:
                return self._complex(kind, cast("dict[str, Any]", document), namespace, depth, place)
            case {"type": str() as kind} if kind in _PRIMITIVES:
                return _logical(_PRIMITIVES[kind], cast("dict[str, Any]", document))
            case {"type": inner}:
                return self.read(inner, namespace, depth + 1, place)
            case _:
                raise InvalidMetadata("is no Avro type", field=place)

    def _count(self, more: int, place: str) -> None:
        self.nodes += more
        if self.nodes > self.limits.schema_nodes:
            raise LimitExceeded(f"the schema has more than {self.limits.schema_nodes} types", field=place)

    def _named(self, name: str, namespace: str, place: str) -> Node:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.named:
            full = name
        if full not in self.named:
            raise InvalidMetadata(f"there is no type {name!r}", field=place)
        node = self.named[full]
        if node is None:
            raise InvalidMetadata(f"{name} holds itself: recursive types have no columns", field=place)
        self._count(self.weights[full], place)
        return node

    def _union(self, branches: list[object], namespace: str, depth: int, place: str) -> Node:
        nodes = tuple(self.read(branch, namespace, depth + 1, place) for branch in branches)
        null = _PRIMITIVES["null"]
        if len(nodes) == len((0, 1)) and (nodes[0] == null) != (nodes[1] == null):
            return Optional(nodes[1], 0) if nodes[0] == null else Optional(nodes[0], 1)
        if not nodes:
            raise InvalidMetadata("is a union of nothing", field=place)
        return Choice(nodes)

    def _complex(self, kind: str, document: dict[str, Any], namespace: str, depth: int, place: str) -> Node:
        if kind == "array":
            items = self.read(document.get("items"), namespace, depth + 1, f"{place}.element")
            return Array(items, _id(document, "element-id"), _stands_for_map(document, items))
        if kind == "map":
            values = self.read(document.get("values"), namespace, depth + 1, f"{place}.value")
            return Map(values, _id(document, "key-id"), _id(document, "value-id"))
        name, before = self._begin(document, namespace, place), self.nodes
        match kind:
            case "enum":
                node: Node = _enum(document, place)
            case "fixed":
                node = _fixed(document, place)
            case _:
                node = self._record(name, document, depth, place)
        self.named[name], self.weights[name] = node, self.nodes - before
        return node

    def _begin(self, document: Mapping[str, Any], namespace: str, place: str) -> str:
        name = document.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidMetadata("a type without a name", field=place)
        space = document.get("namespace", namespace)
        if not isinstance(space, str):
            raise InvalidMetadata("a namespace that is no text", field=place)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.named:
            raise InvalidMetadata(f"there are two types {full!r}", field=place)
        self.named[full] = None
        return full

    def _record(self, name: str, document: Mapping[str, Any], depth: int, place: str) -> Record:
        listed = document.get("fields")
        if not isinstance(listed, list):
            raise InvalidMetadata("a record without fields", field=place)
        namespace = name.rpartition(".")[0]
        fields: dict[str, Field] = {}
        for item in listed:
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                raise InvalidMetadata("a field without a name", field=place)
            label = item["name"]
            where = label if place == "schema" else f"{place}.{label}"
            if label in fields:
                raise InvalidMetadata("there are two fields of this name", field=where)
            node = self.read(item.get("type"), namespace, depth + 1, where)
            fields[label] = Field(label, node, _id(item, "field-id"))
        return Record(name, tuple(fields.values()))


_COMPLEX: Final = frozenset({"array", "map", "enum", "fixed", "record", "error"})


def _id(document: Mapping[str, Any], key: str) -> int | None:
    number = document.get(key)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _stands_for_map(document: Mapping[str, Any], items: Node) -> bool:
    match items:
        case Record(fields=(Field(name="key", type=key), Field(name="value"))):
            return document.get("logicalType") == "map" and not is_optional(key)
        case _:
            return False


def _enum(document: Mapping[str, Any], place: str) -> Scalar:
    symbols = document.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise InvalidMetadata("an enum without symbols", field=place)
    return Scalar("enum", pa.string(), symbols=tuple(symbols))


def _fixed(document: Mapping[str, Any], place: str) -> Scalar:
    size = document.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise InvalidMetadata("a fixed type without a size", field=place)
    return _logical(Scalar("fixed", pa.binary(size), size), document)


def _logical(scalar: Scalar, document: Mapping[str, Any]) -> Scalar:
    logical = document.get("logicalType")
    if not isinstance(logical, str):
        return scalar
    arrow = scalar.arrow
    match scalar.kind, logical.rpartition("-"):
        case "int", ("", "", "date"):
            arrow = pa.date32()
        case "int", ("time", _, "millis"):
            arrow = pa.time32("ms")
        case "long", ("time", _, ("micros" | "nanos") as unit):
            arrow = pa.time64(_UNITS[unit])
        case "long", ("local-timestamp", _, ("millis" | "micros" | "nanos") as unit):
            arrow = pa.timestamp(_UNITS[unit])
        case "long", ("timestamp", _, ("millis" | "micros" | "nanos") as unit):
            local = document.get("adjust-to-utc") is False
            arrow = pa.timestamp(_UNITS[unit], None if local else "UTC")
        case (("bytes" | "fixed"), ("", "", "decimal")):
            arrow = _decimal(scalar, document)
    return msgspec.structs.replace(scalar, arrow=arrow)


def _decimal(scalar: Scalar, document: Mapping[str, Any]) -> pa.DataType:
    precision, scale = document.get("precision"), document.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return scalar.arrow
    if not 0 < precision <= MAX_DECIMAL or not 0 <= scale <= precision:
        return scalar.arrow
    return pa.decimal128(precision, scale)
