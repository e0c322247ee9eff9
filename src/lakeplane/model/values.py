"""Values of the column types: what they are in Python.

Every other module relies on one canonical Python value for each value of a type:

==============================  =========================================================
boolean                         ``bool``
int, long                       ``int``
float, double                   ``float``; of a ``float`` one that 32 bits hold exactly
decimal(P, S)                   ``decimal.Decimal`` with exactly S digits after the point
date                            ``int``, days since 1970-01-01
time                            ``int``, microseconds since midnight
timestamp, timestamptz          ``int``, microseconds since the epoch
timestamp_ns, timestamptz_ns    ``int``, nanoseconds since the epoch
string                          ``str``
uuid                            ``uuid.UUID``
fixed, binary                   ``bytes``
geometry, geography             ``bytes``, WKB; as a bound ``geo.Point``
variant                         as a bound ``FrozenDict`` from path to ``VariantValue``
struct                          ``FrozenDict`` from field id to value; a missing id is "not given"
list                            ``tuple``
map                             ``tuple`` of (key, value) pairs
null, of any type               ``None``
==============================  =========================================================

``coerce`` makes canonical values of what users write, and ``check_value`` tells whether a value is one.
``value_bytes`` and ``value_json`` read and write canonical values only.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model import geo, temporal
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.types import (
    FLOATS,
    INTEGERS,
    TIMESTAMPS,
    ZONED,
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
    children,
)

_INT_RANGE, _LONG_RANGE = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_RANGES: Final[dict[Type, tuple[int, int]]] = {
    Primitive.INT: _INT_RANGE,
    Primitive.DATE: _INT_RANGE,
    Primitive.LONG: _LONG_RANGE,
    Primitive.TIME: (0, temporal.DAY_MICROS - 1),
    **dict.fromkeys(TIMESTAMPS, _LONG_RANGE),
}

_EXACT_IN_DOUBLE: Final = 2**53
_FLOAT: Final = struct.Struct("<f")
_UUID_BYTES: Final = 16
DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_SURROGATES: Final = (0xD800, 0xDFFF)


def check_value(type_: Type, value: Any) -> None:
    """Raise ``InvalidInput`` unless the value is a canonical value of the type, or ``None``."""
    if value is not None and (fault := fault_of(type_, value)):
        problem = f"{show(value)} is not a value of type {type_}: {fault}"
        raise InvalidInput(problem)


def fault_of(type_: Type, value: Any) -> str | None:
    """What keeps a value, not null, from being canonical."""
    if isinstance(type_, Primitive) and (limits := _RANGES.get(type_)):
        if type(value) is not int:
            return "not an int"
        return None if limits[0] <= value <= limits[1] else f"not from {limits[0]} to {limits[1]}"
    match type_:
        case Decimal():
            return _decimal_fault(type_, value)
        case Fixed():
            fits = type(value) is bytes and len(value) == type_.length
            return None if fits else f"not {type_.length} bytes"
        case Geometry() | Geography():
            return _wkb_fault(value)
        case Struct() | List() | Map():
            return _nested_fault(type_, value)
    if type_ is Primitive.STRING:
        return _string_fault(value)
    if type_ is Primitive.FLOAT:
        return _float_fault(value)
    wanted = {
        Primitive.BOOLEAN: bool,
        Primitive.DOUBLE: float,
        Primitive.UUID: uuid.UUID,
        Primitive.BINARY: bytes,
    }.get(type_)
    if wanted is None:
        return "no value but null can be given here"
    return None if type(value) is wanted else f"not a {wanted.__name__}"


def _string_fault(value: Any) -> str | None:
    if type(value) is not str:
        return "not a str"
    if not value.isascii() and any(_SURROGATES[0] <= ord(char) <= _SURROGATES[1] for char in value):
        return "it holds half of a surrogate pair"
    return None


def _float_fault(value: Any) -> str | None:
    if type(value) is not float:
        return "not a float"
    if (rounded := round_float(value)) is None:
        return "too large for 32 bits"
    return None if rounded == value or math.isnan(value) else f"32 bits hold only {rounded!r}"


def _decimal_fault(type_: Decimal, value: Any) -> str | None:
    if type(value) is not decimal.Decimal or not value.is_finite():
        return "not a finite Decimal"
    _, digits, exponent = value.as_tuple()
    if exponent != -type_.scale:
        return f"it does not have {type_.scale} digits after the point"
    return None if len(digits) <= type_.precision else f"more than {type_.precision} digits"


def _wkb_fault(value: Any) -> str | None:
    if type(value) is not bytes:
        return "not bytes"
    try:
        geo.check_wkb(value)
    except InvalidMetadata as error:
        return error.problem
    return None


def _nested_fault(type_: Struct | List | Map, value: Any) -> str | None:
    """The first fault inside a value of a nested type, with the name of the field that it is in."""
    match type_:
        case Struct():
            if not isinstance(value, FrozenDict):
                return "not a FrozenDict"
            fields = {field.id: field for field in type_.fields}
            if extra := [key for key in value if key not in fields]:
                return f"no field has the id {extra[0]!r}"
            return _first_fault((fields[key], item) for key, item in value.items())
        case List():
            if type(value) is not tuple:
                return "not a tuple"
            return _first_fault((type_.element_field, item) for item in value)
        case Map():
            if type(value) is not tuple or any(type(pair) is not tuple or len(pair) != 2 for pair in value):  # noqa: PLR2004
                return "not a tuple of pairs"
            fault = _first_fault(place for pair in value for place in zip(children(type_), pair, strict=True))
            if fault is None and len({key for key, _ in value}) != len(value):
                return "two entries have the same key"
            return fault


def _first_fault(places: Iterable[tuple[Field, Any]]) -> str | None:
    for field, item in places:
        if item is not None and (fault := fault_of(field.type, item)):
            return f"{field.name}: {fault}"
        if item is None and field.required:
            return f"{field.name} is required and cannot be null"
    return None


def round_float(value: float) -> float | None:
    """The nearest number that 32 bits hold; ``None`` when it is too large for them."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return None
    return rounded


def show(value: Any) -> str:
    """A value for an error message, which must not grow with what is wrong."""
    try:
        text = repr(value)
    except ValueError:  # an int of thousands of digits has no text
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004


# Values from users


_ACCEPTED: Final[dict[Any, str]] = {
    Primitive.BOOLEAN: "a bool",
    Primitive.INT: "an int of 32 bits",
    Primitive.LONG: "an int of 64 bits",
    **dict.fromkeys(FLOATS, "a float or an int"),
    Primitive.DATE: "a datetime.date, ISO text, or the days since 1970-01-01",
    Primitive.TIME: "a datetime.time without a zone, ISO text, or microseconds since midnight",
    **dict.fromkeys(TIMESTAMPS - ZONED, "a datetime without a time zone, ISO text, or ticks since the epoch"),
    **dict.fromkeys(ZONED, "a datetime with a time zone, ISO text, or ticks since the epoch"),
    Primitive.STRING: "a str",
    Primitive.UUID: "a uuid.UUID, or its text or 16 bytes",
    **dict.fromkeys((Primitive.BINARY, Fixed), "bytes, for fixed as many as the type has"),
    Decimal: "a Decimal, an int, or their text, with no more digits than the type has",
    **dict.fromkeys((Geometry, Geography), "well-known text, or well-known binary as bytes"),
    Struct: "a mapping from field names, or ids, to values",
    List: "a list or a tuple",
    Map: "a mapping, or a list of pairs",
}


def coerce(type_: Type, value: Any) -> Any:
    """Make the canonical value of a type from what is natural in Python, or raise ``InvalidInput``.

    Nothing is lost on the way, except that numbers for ``float`` and ``double`` are rounded to what these
    hold. Times need a zone for the types with one, and must not have one for the others.
    """
    value = _plain(value)
    if value is None:
        return None
    try:
        result = _coerce(type_, value)
    except (TypeError, ValueError, OverflowError):
        result = value
    if fault := fault_of(type_, result):
        accepted = _ACCEPTED.get(type_) or _ACCEPTED.get(type(type_)) or "null only"
        problem = f"{show(value)} is not a value of type {type_}: {fault}"
        raise InvalidInput(problem, hint=f"Accepted: {accepted}")
    return result


def _coerce(type_: Type, value: Any) -> Any:  # noqa: C901
    """The value in its canonical form if there is a rule for it, else as it is."""
    match type_, value:
        case Struct(), Mapping():
            return _coerce_struct(type_, value)
        case List(), list() | tuple():
            return tuple(coerce(type_.element, item) for item in value)
        case Map(), Mapping() | list() | tuple():
            pairs = value.items() if isinstance(value, Mapping) else value
            return tuple((coerce(type_.key, key), coerce(type_.value, item)) for key, item in pairs)
        case Decimal(), (decimal.Decimal() | int() | str()):
            return _coerce_decimal(type_, value)
        case ((Geometry() | Geography()), str()):
            return geo.wkt_to_wkb(value)
        case _, bytearray() | memoryview():
            return bytes(value)
        case Primitive.UUID, str():
            return uuid.UUID(value)
        case Primitive.UUID, bytes() if len(value) == _UUID_BYTES:
            return uuid.UUID(bytes=value)
        case _, (int() | float()) if type(value) is not bool:
            return _coerce_number(type_, value)
        case _, str() if type_ in temporal.TYPES:
            return temporal.from_text(type_, value, any_offset=True)
        case _, (dt.date() | dt.time()) if type_ in temporal.TYPES:
            found = temporal.from_python(type_, value)
            return value if found is None else found
        case _:
            return value


def _coerce_number(type_: Type, value: float) -> Any:
    if type_ in FLOATS:
        rounded = round_float(float(value)) if type_ is Primitive.FLOAT else float(value)
        return value if rounded is None else rounded
    # Columns of ints come as floats from whatever knows no null ints.
    if type_ in INTEGERS and isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT_IN_DOUBLE else value
    return value


def _coerce_struct(type_: Struct, value: Mapping[Any, Any]) -> FrozenDict[int, Any]:
    fields: dict[Any, Field] = {field.id: field for field in type_.fields}
    fields |= {field.name: field for field in type_.fields}
    if unknown := [key for key in value if key not in fields]:
        problem = f"no field {show(unknown[0])} in {type_}"
        raise InvalidInput(problem)
    return FrozenDict({fields[key].id: coerce(fields[key].type, item) for key, item in value.items()})


def _plain(value: Any) -> Any:
    """The Python value of a numpy scalar, known by its module as numpy is not imported here."""
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return value
    # As nanoseconds, and far from today, item() gives an int without its unit; text says it all.
    if type(value).__name__ == "datetime64":
        return re.sub(r"\.?0+$", "", str(value)) if "." in str(value) else str(value)
    return value.item()


# Decimals, by their digits: arithmetic would round to the context's precision


def unscaled(value: decimal.Decimal) -> int:
    """The digits of a decimal as an integer."""
    sign, digits, _ = value.as_tuple()
    return (-1 if sign else 1) * int("".join(map(str, digits)))


def from_unscaled(digits: int, scale: int) -> decimal.Decimal:
    """The decimal with these digits, ``scale`` of them after the point."""
    return decimal.Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -scale))


def _coerce_decimal(type_: Decimal, value: decimal.Decimal | int | str) -> Any:
    """The same number with the type's scale; the value as it is when it is none, or has too many digits."""
    if type(value) is bool or (isinstance(value, str) and not DECIMAL_TEXT.fullmatch(value)):
        return value
    sign, digits, exponent = decimal.Decimal(value).as_tuple()
    if not isinstance(exponent, int):  # infinite, or not a number
        return value
    if not any(digits):
        return from_unscaled(0, type_.scale)
    shift = exponent + type_.scale
    if len(digits) + shift > type_.precision or any(digits[shift:] if shift < 0 else ()):
        return value
    return decimal.Decimal((sign, (*digits, *[0] * shift)[: len(digits) + shift], -type_.scale))
