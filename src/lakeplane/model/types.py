"""The types of a table's columns, and their type strings.

A type is a value: a member of ``Primitive``, or one of the parametrised and nested classes below.
``Type`` is their sum, to be taken apart with ``match``.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput
from lakeplane.model.frozen import EMPTY, FrozenDict

MAX_FIELD_ID: Final = 2**31 - 1 - 200
"""Ids above this one belong to the metadata columns."""

MAX_DECIMAL_PRECISION: Final = 38
MAX_FIXED_LENGTH: Final = 2**31 - 1
MAX_NESTING: Final = 100
"""How many levels of structs, lists and maps a column may have.

What is read must also be changed, compared and shown, from deeper in a program than it was read.
"""

DEFAULT_CRS: Final = "OGC:CRS84"
DEFAULT_EDGE_ALGORITHM: Final = "spherical"
EDGE_ALGORITHMS: Final = ("spherical", "vincenty", "thomas", "andoyer", "karney")


class Primitive(enum.Enum):
    """The types without parameters; ``variant`` and ``unknown`` among them."""

    UNKNOWN = "unknown"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIMESTAMP_NS = "timestamp_ns"
    TIMESTAMPTZ_NS = "timestamptz_ns"
    STRING = "string"
    UUID = "uuid"
    BINARY = "binary"
    VARIANT = "variant"

    def __str__(self) -> str:
        return self.value

    # Members are singletons: identity hashing is enough, and much faster than Enum's own.
    __hash__ = object.__hash__


UNKNOWN, BOOLEAN, INT, LONG = Primitive.UNKNOWN, Primitive.BOOLEAN, Primitive.INT, Primitive.LONG
FLOAT, DOUBLE, DATE, TIME = Primitive.FLOAT, Primitive.DOUBLE, Primitive.DATE, Primitive.TIME
TIMESTAMP, TIMESTAMPTZ = Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ
TIMESTAMP_NS, TIMESTAMPTZ_NS = Primitive.TIMESTAMP_NS, Primitive.TIMESTAMPTZ_NS
STRING, UUID, BINARY, VARIANT = Primitive.STRING, Primitive.UUID, Primitive.BINARY, Primitive.VARIANT

INTEGERS: Final = frozenset({INT, LONG})
FLOATS: Final = frozenset({FLOAT, DOUBLE})
MICROS: Final = frozenset({TIMESTAMP, TIMESTAMPTZ})
NANOS: Final = frozenset({TIMESTAMP_NS, TIMESTAMPTZ_NS})
TIMESTAMPS: Final = MICROS | NANOS
ZONED: Final = frozenset({TIMESTAMPTZ, TIMESTAMPTZ_NS})
"""Families of types, for membership tests."""


class Decimal(msgspec.Struct, frozen=True):
    """``decimal(precision, scale)``: exact numbers with ``scale`` digits after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 0 < self.precision <= MAX_DECIMAL_PRECISION:
            problem = f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, not {self.precision}"
            raise InvalidInput(problem)
        # The spec does not tie the scale to the precision; the limit keeps the texts of values short.
        if not -MAX_DECIMAL_PRECISION <= self.scale <= MAX_DECIMAL_PRECISION:
            problem = f"decimal scale must be at most {MAX_DECIMAL_PRECISION} either way, not {self.scale}"
            raise InvalidInput(problem)

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


class Fixed(msgspec.Struct, frozen=True):
    """``fixed[length]``: byte arrays of one length."""

    length: int

    def __post_init__(self) -> None:
        if not 0 <= self.length <= MAX_FIXED_LENGTH:
            problem = f"the length of a fixed type must be 0 to {MAX_FIXED_LENGTH}, not {self.length}"
            raise InvalidInput(problem)

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


class Geometry(msgspec.Struct, frozen=True):
    """``geometry(crs)``: planar features.

    The default is left out when it is written, as all readers know the short form, and not all the long one.
    """

    crs: str = DEFAULT_CRS

    def __post_init__(self) -> None:
        _check_crs(self.crs, ")")

    def __str__(self) -> str:
        return "geometry" if self.crs == DEFAULT_CRS else f"geometry({self.crs})"


class Geography(msgspec.Struct, frozen=True):
    """``geography(crs, algorithm)``: features on a spheroid, with a rule for edges; see ``Geometry``."""

    crs: str = DEFAULT_CRS
    algorithm: str = DEFAULT_EDGE_ALGORITHM

    def __post_init__(self) -> None:
        _check_crs(self.crs, "),")
        if self.algorithm not in EDGE_ALGORITHMS:
            problem = f"unknown edge algorithm {self.algorithm!r}"
            raise InvalidInput(problem, hint=f"Use one of {', '.join(EDGE_ALGORITHMS)}")

    def __str__(self) -> str:
        return "geography" if self == Geography() else f"geography({self.crs}, {self.algorithm})"


# Tables hold tens of thousands of fields, which cannot form cycles: the collector does not watch them.


class Field(msgspec.Struct, frozen=True, gc=False):
    """A named, numbered field of a struct.

    A default of ``None`` is "no default" (and, for an optional field, null).
    """

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None
    unknown: FrozenDict[str, Any] = EMPTY

    def __str__(self) -> str:
        return f"{self.id}: {self.name}: {'required' if self.required else 'optional'} {self.type}"


class Struct(msgspec.Struct, frozen=True, gc=False):
    """A tuple of fields."""

    fields: tuple[Field, ...]
    unknown: FrozenDict[str, Any] = EMPTY

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


class List(msgspec.Struct, frozen=True, gc=False):
    """A list of elements of one type."""

    element_id: int
    element: Type
    element_required: bool = False
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def element_field(self) -> Field:
        """The element as a field, named as the column of a list is named in paths."""
        return Field(self.element_id, "element", self.element, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element}>"


class Map(msgspec.Struct, frozen=True, gc=False):
    """Pairs of a key, never null, and a value."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def key_field(self) -> Field:
        """The key as a field."""
        return Field(self.key_id, "key", self.key, required=True)

    @property
    def value_field(self) -> Field:
        """The value as a field."""
        return Field(self.value_id, "value", self.value, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Nested: TypeAlias = Struct | List | Map
NESTED: Final = (Struct, List, Map)
Type: TypeAlias = Primitive | Decimal | Fixed | Geometry | Geography | Struct | List | Map


def is_nested(type_: Type) -> bool:
    """Whether values of the type have fields of their own."""
    return isinstance(type_, NESTED)


def is_primitive(type_: Type) -> bool:
    """Whether the spec counts the type among the primitive ones (``variant`` is not)."""
    return not isinstance(type_, NESTED) and type_ is not VARIANT


def children(type_: Type) -> tuple[Field, ...]:
    """The fields directly inside a nested type; none for the others."""
    match type_:
        case Struct():
            return type_.fields
        case List():
            return (type_.element_field,)
        case Map():
            return (type_.key_field, type_.value_field)
        case _:
            return ()


def nesting(type_: Type) -> int:
    """How many levels a nested type has; 0 for the others."""
    return 1 + max((nesting(each.type) for each in children(type_)), default=0) if is_nested(type_) else 0


def walk(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Every field, parents before their children."""
    for field in fields:
        yield field
        if isinstance(field.type, NESTED):
            yield from walk(children(field.type))


def map_fields(type_: Type, change: Callable[[Field], Field]) -> Type:
    """Rebuild a type with ``change`` applied to each field directly inside it."""
    match type_:
        case Struct():
            return msgspec.structs.replace(type_, fields=tuple(map(change, type_.fields)))
        case List():
            element = change(type_.element_field)
            return List(element.id, element.type, element.required, type_.unknown)
        case Map():
            key, value = change(type_.key_field), change(type_.value_field)
            return Map(key.id, key.type, value.id, value.type, value.required, type_.unknown)
        case _:
            return type_


def min_format_version(type_: Type) -> int:
    """The first Iceberg format version whose tables may hold the type (its fields not counted)."""
    match type_:
        case Primitive.UNKNOWN | Primitive.VARIANT | Primitive.TIMESTAMP_NS | Primitive.TIMESTAMPTZ_NS:
            return 3
        case Geometry() | Geography():
            return 3
        case _:
            return 1


def defaults_to_null_only(type_: Type) -> bool:
    """Whether the spec forbids any other default than null."""
    return type_ in (UNKNOWN, VARIANT) or isinstance(type_, Geometry | Geography)


_PLAIN: Final = {member.value: member for member in Primitive}
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)")
_FIXED: Final = re.compile(r"fixed\s*\[\s*([0-9]{1,10})\s*\]")
_GEOMETRY: Final = re.compile(r"geometry\s*(?:\(([^)]*)\))?")
_GEOGRAPHY: Final = re.compile(r"geography\s*(?:\(([^,)]*)(?:,([^,)]*))?\))?")


@functools.lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Read the type string of a type that is not nested; whitespace and case are forgiven."""
    compact = text.strip()
    # CRS names are case-sensitive, the names of types are not.
    if plain := _PLAIN.get(compact.lower()):
        return plain
    compact = re.sub(r"^\w+", lambda word: word[0].lower(), compact)
    if found := _DECIMAL.fullmatch(compact):
        return Decimal(int(found[1]), int(found[2]))
    if found := _FIXED.fullmatch(compact):
        return Fixed(int(found[1]))
    if found := _GEOMETRY.fullmatch(compact):
        return Geometry() if found[1] is None else Geometry(_unquoted(found[1]))
    if found := _GEOGRAPHY.fullmatch(compact):
        crs, algorithm = found.groups()
        return Geography(
            DEFAULT_CRS if crs is None else _unquoted(crs),
            DEFAULT_EDGE_ALGORITHM if algorithm is None else _unquoted(algorithm).lower(),
        )
    problem = f"unknown type {text!r:.80}"
    raise InvalidInput(problem, hint=f"Known types: {', '.join(_PLAIN)}, decimal(P, S), fixed[L], ...")


def _unquoted(text: str) -> str:
    """What a parameter of a type means: PyIceberg writes it in quotes, the spec does not."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].strip() if quoted else text


def _check_crs(crs: str, ends: str) -> None:
    if not crs or crs != crs.strip() or crs.startswith("{"):
        problem = f"not a coordinate reference system: {crs!r}"
        raise InvalidInput(problem, hint="Name it, as in EPSG:4326 or projjson:<table property>")
    if any(mark in crs for mark in ends):
        problem = f"a coordinate reference system cannot hold {' or '.join(map(repr, ends))} here: {crs!r}"
        raise InvalidInput(problem)
