"""The types of Paimon: as schema files spell them, and as the types that all tables here have.

Paimon tells more apart than ``model.types`` does: integers of one and two bytes, texts with a length, times
with a precision. What it tells apart decides how a value lies in a row, so it is kept here as it is written.
Expressions, plans and engines see the type that ``model_type`` gives.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.model import types as model
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.types import Decimal, Geography, Geometry

MAX_LENGTH: Final = 2**31 - 1
MAX_FRACTION_DIGITS: Final = 9
MICRO_DIGITS: Final = 6
NESTED_IDS_FROM: Final = 536870911
"""Where the ids of elements, keys and values begin: schema files number the fields of rows only."""

NESTED_IDS_EACH: Final = 1024


class Simple(enum.Enum):
    """The types without parameters."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    STRING = "STRING"
    BYTES = "BYTES"
    VARIANT = "VARIANT"
    BLOB = "BLOB"

    def __str__(self) -> str:
        return self.value

    __hash__ = object.__hash__


class Sized(msgspec.Struct, frozen=True):
    """Texts and bytes with a length."""

    kind: Literal["CHAR", "VARCHAR", "BINARY", "VARBINARY"]
    length: int

    def __post_init__(self) -> None:
        if not 0 < self.length <= MAX_LENGTH:
            raise InvalidInput(f"the length of {self.kind} is 1 to {MAX_LENGTH}, not {self.length}")

    def __str__(self) -> str:
        return f"{self.kind}({self.length})"


class Time(msgspec.Struct, frozen=True):
    """A time of day. However precise it is declared, milliseconds are what is stored."""

    precision: int

    def __post_init__(self) -> None:
        _check_precision("TIME", self.precision)

    def __str__(self) -> str:
        return f"TIME({self.precision})"


class Timestamp(msgspec.Struct, frozen=True):
    """A time on a calendar, or (zoned) a moment."""

    precision: int
    zoned: bool = False

    def __post_init__(self) -> None:
        _check_precision("TIMESTAMP", self.precision)

    def __str__(self) -> str:
        return f"TIMESTAMP({self.precision}){' WITH LOCAL TIME ZONE' if self.zoned else ''}"


class Array(msgspec.Struct, frozen=True):
    """Elements of one type."""

    element: DataType
    unknown: FrozenDict[str, Any] = EMPTY


class Vector(msgspec.Struct, frozen=True):
    """As many elements of one type as the type says."""

    element: DataType
    length: int
    unknown: FrozenDict[str, Any] = EMPTY


class Multiset(msgspec.Struct, frozen=True):
    """Elements, and how often each is there."""

    element: DataType
    unknown: FrozenDict[str, Any] = EMPTY


class Map(msgspec.Struct, frozen=True):
    """Pairs of key and value."""

    key: DataType
    value: DataType
    unknown: FrozenDict[str, Any] = EMPTY


class Row(msgspec.Struct, frozen=True):
    """A tuple of fields."""

    fields: tuple[DataField, ...]
    unknown: FrozenDict[str, Any] = EMPTY


Nested: TypeAlias = Array | Vector | Multiset | Map | Row
Kind: TypeAlias = Simple | Sized | Decimal | Time | Timestamp | Geometry | Geography | Nested

TEXTS: Final = frozenset({"CHAR", "VARCHAR"})


class DataType(msgspec.Struct, frozen=True):
    """A kind of values, and whether null is one of them."""

    kind: Kind
    nullable: bool = True

    def __str__(self) -> str:
        name = type(self.kind).__name__.upper() if is_nested(self.kind) else _text(self.kind)
        return name if self.nullable else f"{name} NOT NULL"


class DataField(msgspec.Struct, frozen=True):
    """A field of a table or of a row in it."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    unknown: FrozenDict[str, Any] = EMPTY


def is_nested(kind: Kind) -> bool:
    """Whether values of the kind have values of other types in them."""
    return isinstance(kind, Array | Vector | Multiset | Map | Row)


def is_text(kind: Kind) -> bool:
    """Whether values of the kind are texts."""
    return kind is Simple.STRING or (isinstance(kind, Sized) and kind.kind in TEXTS)


def is_bytes(kind: Kind) -> bool:
    """Whether values of the kind are bytes."""
    return kind is Simple.BYTES or (isinstance(kind, Sized) and kind.kind not in TEXTS)


def walk(fields: tuple[DataField, ...]) -> Iterator[DataField]:
    """Every field that schema files number, parents before their children."""
    for field in fields:
        yield field
        yield from _inside(field.type.kind)


def _inside(kind: Kind) -> Iterator[DataField]:
    match kind:
        case Row(fields=fields):
            yield from walk(fields)
        case Array(element=element) | Vector(element=element) | Multiset(element=element):
            yield from _inside(element.kind)
        case Map(key=key, value=value):
            yield from _inside(key.kind)
            yield from _inside(value.kind)
        case _:
            return


def _check_precision(name: str, precision: int) -> None:
    if not 0 <= precision <= MAX_FRACTION_DIGITS:
        raise InvalidInput(f"the precision of {name} is 0 to {MAX_FRACTION_DIGITS}, not {precision}")


# From and to the JSON of schema files.

_SPACES: Final = re.compile(r"\s+")
_SHAPE: Final = re.compile(
    r"(?P<name>[A-Z_]+)(?: PRECISION)? ?(?:\((?P<parameters>[^()]*)\))?"
    r"(?P<zone> WITH LOCAL TIME ZONE| WITHOUT TIME ZONE)?(?P<null> NOT NULL| NULL)?"
)
_WORDS: Final[dict[str, Simple]] = {**{each.value: each for each in Simple}, "INTEGER": Simple.INT}
_DECIMALS: Final = frozenset({"DECIMAL", "NUMERIC", "DEC"})
_SIZED: Final[dict[str, Literal["CHAR", "VARCHAR", "BINARY", "VARBINARY"]]] = {
    "CHAR": "CHAR",
    "VARCHAR": "VARCHAR",
    "BINARY": "BINARY",
    "VARBINARY": "VARBINARY",
}
_GEO: Final = frozenset({"GEOMETRY", "GEOGRAPHY"})
_DECIMAL_DEFAULTS: Final = (10, 0)
_TIMESTAMP_DEFAULT: Final = 6


def parse_type(raw: Any, place: str, depth: int = model.MAX_NESTING) -> DataType:
    """Read a type; ``place`` names it in errors."""
    if depth < 0:
        raise LimitExceeded(f"it has more than {model.MAX_NESTING} levels of types in types", field=place)
    match raw:
        case str():
            try:
                return _parse_text(raw)
            except InvalidInput as error:
                raise InvalidMetadata(error.problem, field=place, hint=error.hint) from None
        case {"type": str() as text}:
            name, _, null = " ".join(text.split()).partition(" ")
            if null not in ("", "NOT NULL", "NULL"):
                raise InvalidMetadata(f"no type of Paimon: {text!r:.80}", field=place)
            return DataType(_parse_nested(name, raw, place, depth), null != "NOT NULL")
        case _:
            raise InvalidMetadata(f"no type of Paimon: {raw!r:.80}", field=place)


def _parse_nested(name: str, raw: dict[str, Any], place: str, depth: int) -> Kind:
    def part(key: str) -> DataType:
        return parse_type(raw.get(key), f"{place}.{key}", depth - 1)

    def rest(*known: str) -> FrozenDict[str, Any]:
        found: FrozenDict[str, Any] = freeze({k: v for k, v in raw.items() if k not in ("type", *known)})
        return found or EMPTY

    match name:
        case "ARRAY":
            return Array(part("element"), rest("element"))
        case "MULTISET":
            return Multiset(part("element"), rest("element"))
        case "VECTOR":
            length = raw.get("length")
            if type(length) is not int or length < 1:
                raise InvalidMetadata(f"a vector of {length!r:.40} elements", field=place)
            return Vector(part("element"), length, rest("element", "length"))
        case "MAP":
            return Map(part("key"), part("value"), rest("key", "value"))
        case "ROW":
            return Row(parse_fields(raw.get("fields"), place, depth - 1), rest("fields"))
        case _:
            raise InvalidMetadata(f"no type of Paimon: {name!r:.80}", field=place)


def parse_fields(raw: object, place: str, depth: int = model.MAX_NESTING) -> tuple[DataField, ...]:
    """Read the fields of a table or of a row."""
    if not isinstance(raw, list):
        raise InvalidMetadata("is no list of fields", field=place)
    return tuple(_parse_field(each, f"{place}.{number}", depth) for number, each in enumerate(raw))


_FIELD_KEYS: Final = frozenset({"id", "name", "type", "description", "defaultValue"})


def _parse_field(raw: Any, place: str, depth: int) -> DataField:
    match raw:
        case {"id": int() as number, "name": str() as name} if type(number) is int and 0 <= number < 2**31:
            texts = [raw.get("description"), raw.get("defaultValue")]
            if not all(each is None or isinstance(each, str) for each in texts):
                raise InvalidMetadata("a description or default value is no text", field=place)
            unknown: FrozenDict[str, Any] = freeze({k: v for k, v in raw.items() if k not in _FIELD_KEYS})
            type_ = parse_type(raw.get("type"), name, depth)
            return DataField(number, name, type_, texts[0], texts[1], unknown or EMPTY)
        case _:
            raise InvalidMetadata(f"is no field with an id and a name: {raw!r:.80}", field=place)


def fields_json(fields: tuple[DataField, ...]) -> list[dict[str, Any]]:
    """Fields as schema files hold them."""
    return [_field_json(each) for each in fields]


def _field_json(field: DataField) -> dict[str, Any]:
    document: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        document["description"] = field.description
    if field.default_value is not None:
        document["defaultValue"] = field.default_value
    return {**document, **thaw(field.unknown)}


def type_json(type_: DataType) -> Any:
    """A type as schema files hold it."""
    match type_.kind:
        case Array(element=element, unknown=unknown) | Multiset(element=element, unknown=unknown):
            return {"type": str(type_), "element": type_json(element), **thaw(unknown)}
        case Vector(element=element, length=length, unknown=unknown):
            return {"type": str(type_), "element": type_json(element), "length": length, **thaw(unknown)}
        case Map(key=key, value=value, unknown=unknown):
            return {"type": str(type_), "key": type_json(key), "value": type_json(value), **thaw(unknown)}
        case Row(fields=fields, unknown=unknown):
            return {"type": str(type_), "fields": fields_json(fields), **thaw(unknown)}
        case _:
            return str(type_)


def _text(kind: Kind) -> str:
    match kind:
        case Decimal(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case Geometry(crs=crs):
            return "GEOMETRY" if kind == Geometry() else f"GEOMETRY('{crs}')"
        case Geography(crs=crs, algorithm=algorithm):
            return "GEOGRAPHY" if kind == Geography() else f"GEOGRAPHY('{crs}', '{algorithm}')"
        case _:
            return str(kind)


@functools.lru_cache(maxsize=4096)
def _parse_text(text: str) -> DataType:
    compact = _SPACES.sub(" ", text.strip())
    # What is in the brackets of shapes are names of their own; everything else is spelt in any case.
    parts = re.split(r"(\(.*\))", compact)
    found = _SHAPE.fullmatch("".join(part if part.startswith("(") else part.upper() for part in parts))
    if not found:
        raise _no_type(text)
    kind = _kind(found["name"], found["parameters"], text)
    if found["zone"] == " WITH LOCAL TIME ZONE":
        if not isinstance(kind, Timestamp):
            raise _no_type(text)
        kind = Timestamp(kind.precision, zoned=True)
    return DataType(kind, found["null"] != " NOT NULL")


def _kind(name: str, parameters: str | None, text: str) -> Kind:
    if name in _GEO:
        given = [each.strip().strip("'") for each in (parameters or "").split(",") if each.strip()]
        return Geometry(*given[:1]) if name == "GEOMETRY" else Geography(*given[:1], *given[1:2])
    numbers = _numbers(parameters, text)
    match name, numbers:
        case _, [] if name in _WORDS:
            return _WORDS[name]
        case _, [] | [_] | [_, _] if name in _DECIMALS:
            precision, scale = (*numbers, *_DECIMAL_DEFAULTS[len(numbers) :])
            return Decimal(precision, scale)
        case _, [] | [_] if name in _SIZED:
            return Sized(_SIZED[name], numbers[0] if numbers else 1)
        case "TIME", [] | [_]:
            return Time(numbers[0] if numbers else 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ", [] | [_]:
            precision = numbers[0] if numbers else _TIMESTAMP_DEFAULT
            return Timestamp(precision, zoned=name == "TIMESTAMP_LTZ")
        case _:
            raise _no_type(text)


def _numbers(parameters: str | None, text: str) -> list[int]:
    if parameters is None:
        return []
    found = [each.strip() for each in parameters.split(",")]
    if not all(each.isascii() and each.isdecimal() and len(each) <= len(str(MAX_LENGTH)) for each in found):
        raise _no_type(text)
    return [int(each) for each in found]


def _no_type(text: str) -> InvalidInput:
    return InvalidInput(f"no type of Paimon: {text!r:.80}")


# The types that all tables here have.

_MODEL: Final[dict[Simple, model.Type]] = {
    Simple.BOOLEAN: model.BOOLEAN,
    Simple.TINYINT: model.INT,
    Simple.SMALLINT: model.INT,
    Simple.INT: model.INT,
    Simple.BIGINT: model.LONG,
    Simple.FLOAT: model.FLOAT,
    Simple.DOUBLE: model.DOUBLE,
    Simple.DATE: model.DATE,
    Simple.STRING: model.STRING,
    Simple.BYTES: model.BINARY,
    Simple.VARIANT: model.VARIANT,
    Simple.BLOB: model.BINARY,
}


def model_fields(fields: tuple[DataField, ...]) -> tuple[model.Field, ...]:
    """Fields as those of any table: types that Paimon alone tells apart become the next wider one."""
    return tuple(
        model.Field(
            each.id,
            each.name,
            model_type(each.type, each.id),
            required=not each.type.nullable,
            doc=each.description,
        )
        for each in fields
    )


def model_type(type_: DataType, field_id: int, depth: int = 0) -> model.Type:
    """What values of a type are in tables of any format; ``field_id`` and ``depth`` number what is inside."""
    match type_.kind:
        case Simple() as simple:
            return _MODEL[simple]
        case Sized() as sized:
            return model.STRING if is_text(sized) else model.BINARY
        case Time():
            return model.TIME
        case Timestamp(precision=precision, zoned=zoned):
            if precision > MICRO_DIGITS:
                return model.TIMESTAMPTZ_NS if zoned else model.TIMESTAMP_NS
            return model.TIMESTAMPTZ if zoned else model.TIMESTAMP
        case Row(fields=fields):
            return model.Struct(model_fields(fields))
        case Array(element=element) | Vector(element=element):
            number = NESTED_IDS_FROM + field_id * NESTED_IDS_EACH + depth + 1
            inner = model_type(element, field_id, depth + 1)
            return model.List(number, inner, element_required=not element.nullable)
        case Multiset(element=key):
            return _model_map(key, DataType(Simple.INT, nullable=False), field_id, depth)
        case Map(key=key, value=value):
            return _model_map(key, value, field_id, depth)
        case other:
            return other


def _model_map(key: DataType, value: DataType, field_id: int, depth: int) -> model.Map:
    away = field_id * NESTED_IDS_EACH + depth + 1
    return model.Map(
        NESTED_IDS_FROM - away,
        model_type(key, field_id, depth + 1),
        NESTED_IDS_FROM + away,
        model_type(value, field_id, depth + 1),
        value_required=not value.nullable,
    )


def check_readable(fields: tuple[DataField, ...]) -> None:
    """Refuse types whose values this release cannot read exactly."""
    for field in fields:
        for inner in (field, *_inside(field.type.kind)):
            if problem := _unreadable(inner.type.kind):
                raise NotSupported(problem, field=inner.name, hint="Read the table with Paimon's own readers")


def _unreadable(kind: Kind) -> str | None:
    match kind:
        case Simple.BLOB:
            return "columns of type BLOB lie in files of their own, which cannot be read yet"
        case Vector():
            return "columns of type VECTOR cannot be read yet"
        case Array(element=element) | Multiset(element=element):
            return _unreadable(element.kind)
        case Map(key=key, value=value):
            return _unreadable(key.kind) or _unreadable(value.kind)
        case _:
            return None
