"""Values of the column types: what they are in Python, and their binary and JSON forms.

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

``coerce`` makes canonical values of what users write, ``check_value`` tells whether a value is one, and the
other functions take and give canonical values only. What cannot be written raises ``InvalidInput``, what
cannot be read ``InvalidMetadata``.
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
from lakeplane.model import geo, temporal, variant
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
_PACKERS: Final[dict[Type, struct.Struct]] = {
    Primitive.INT: struct.Struct("<i"),
    Primitive.DATE: struct.Struct("<i"),
    Primitive.FLOAT: struct.Struct("<f"),
    Primitive.DOUBLE: struct.Struct("<d"),
    **dict.fromkeys((Primitive.LONG, Primitive.TIME, *TIMESTAMPS), struct.Struct("<q")),
}
_PROMOTED: Final[dict[Type, tuple[struct.Struct, int]]] = {
    Primitive.LONG: (_PACKERS[Primitive.INT], 1),
    Primitive.DOUBLE: (_PACKERS[Primitive.FLOAT], 1),
    Primitive.TIMESTAMP: (_PACKERS[Primitive.DATE], temporal.DAY_MICROS),
    Primitive.TIMESTAMP_NS: (_PACKERS[Primitive.DATE], temporal.DAY_NANOS),
}
"""How a value from before a promotion was written, and the factor to today's unit; none with a zone."""

_UUID_BYTES: Final = 16
_FLOAT_DIGITS: Final = range(6, 10)
_EXACT_IN_DOUBLE: Final = 2**53
_SURROGATES: Final = (0xD800, 0xDFFF)
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)


# Checking


def check_value(type_: Type, value: Any) -> None:
    """Raise ``InvalidInput`` unless the value is a canonical value of the type, or ``None``."""
    if value is not None and (fault := _fault(type_, value)):
        problem = f"{_show(value)} is not a value of type {type_}: {fault}"
        raise InvalidInput(problem)


def _fault(type_: Type, value: Any) -> str | None:
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
    if (rounded := _round_float(value)) is None:
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
        if item is not None and (fault := _fault(field.type, item)):
            return f"{field.name}: {fault}"
        if item is None and field.required:
            return f"{field.name} is required and cannot be null"
    return None


def _round_float(value: float) -> float | None:
    """The nearest number that 32 bits hold; ``None`` when it is too large for them."""
    try:
        rounded: float = _PACKERS[Primitive.FLOAT].unpack(_PACKERS[Primitive.FLOAT].pack(value))[0]
    except OverflowError:
        return None
    return rounded


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an int of thousands of digits has no text
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004


# Binary


def to_bytes(type_: Type, value: Any) -> bytes:
    """The binary single-value form of a value; null has none."""
    check_value(type_, value)
    match type_, value:
        case _, (int() | float()) if packer := _PACKERS.get(type_):
            return packer.pack(value)
        case _, decimal.Decimal():
            unscaled = _unscaled(value)
            # One bit more than the magnitude, for the sign; -128 needs eight bits, 128 nine.
            bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
            return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)
        case _, bool():
            return b"\1" if value else b"\0"
        case _, str():
            return value.encode()
        case _, uuid.UUID():
            return value.bytes
        case _, bytes():
            return value
        case _:
            problem = f"no binary form for {_show(value)} of type {type_}"
            raise InvalidInput(problem)


def from_bytes(type_: Type, raw: bytes) -> Any:
    """Read the binary single-value form; values from before a promotion are known by their length."""
    if packer := _PACKERS.get(type_):
        return _unpack(type_, packer, raw)
    if type_ is Primitive.STRING:  # the most frequent bounds have the short way
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise _misread(type_, raw, "not UTF-8") from None
    match type_:
        case Decimal():
            unscaled = int.from_bytes(raw, "big", signed=True)
            if raw and abs(unscaled) < 10**type_.precision:
                return _from_unscaled(unscaled, type_.scale)
        case Fixed() if len(raw) == type_.length:
            return bytes(raw)
        case Geometry() | Geography() | Primitive.BINARY:
            return bytes(raw)
        case Primitive.BOOLEAN if len(raw) == 1:
            return raw != b"\0"
        case Primitive.UUID if len(raw) == _UUID_BYTES:
            return uuid.UUID(bytes=bytes(raw))
    raise _misread(type_, raw)


def bound_to_bytes(type_: Type, value: Any) -> bytes:
    """The form of a lower or upper bound: that of ``to_bytes``, except for these types.

    Geometry and geography have a ``geo.Point``, variant has values by path, and a bound of ``fixed`` may
    have been truncated.
    """
    match type_, value:
        case ((Geometry() | Geography()), geo.Point()):
            return geo.point_to_bytes(value)
        case Fixed(), bytes() if len(value) <= type_.length:
            return value
        case Primitive.VARIANT, Mapping():
            return variant.bounds_to_bytes(value)
        case ((Geometry() | Geography()), _):
            problem = f"a bound of type {type_} is a Point, not {_show(value)}"
            raise InvalidInput(problem)
        case _:
            return to_bytes(type_, value)


def bound_from_bytes(type_: Type, raw: bytes) -> Any:
    """Read a lower or upper bound; see ``bound_to_bytes``."""
    match type_:
        case Geometry() | Geography():
            return geo.point_from_bytes(raw)
        case Fixed() if len(raw) <= type_.length:
            return bytes(raw)
        case Primitive.VARIANT:
            return variant.bounds_from_bytes(raw)
        case _:
            return from_bytes(type_, raw)


def _unpack(type_: Type, packer: struct.Struct, raw: bytes) -> Any:
    if len(raw) == packer.size:
        value = packer.unpack(raw)[0]
    else:
        old, factor = _PROMOTED.get(type_, (packer, 1))
        if len(raw) != old.size:
            raise _misread(type_, raw)
        value = old.unpack(raw)[0] * factor
    # All bits are in range, except for a time of day, and for a date far from today in a shorter unit.
    if type_ in temporal.TYPES and (fault := _fault(type_, value)):
        raise _misread(type_, raw, fault)
    return value


def _misread(type_: Type, raw: bytes, reason: str = "") -> InvalidMetadata:
    return InvalidMetadata(f"{len(raw)} bytes are not a value of type {type_}{reason and ': '}{reason}")


# JSON


def to_json(type_: Type, value: Any) -> Any:
    """The JSON single-value form, as plain Python data; ``None`` for ``None``."""
    check_value(type_, value)
    return None if value is None else _to_json(type_, value)


def _to_json(type_: Type, value: Any) -> Any:
    match type_:
        case Decimal():
            return format(_from_unscaled(_unscaled(value), type_.scale), "f")
        case Geometry() | Geography():
            return geo.wkb_to_wkt(value)
        case Struct():
            given = [field for field in type_.fields if field.id in value]
            return {str(field.id): to_json(field.type, value[field.id]) for field in given}
        case List():
            return [to_json(type_.element, item) for item in value]
        case Map():
            keys = [to_json(type_.key, key) for key, _ in value]
            return {"keys": keys, "values": [to_json(type_.value, item) for _, item in value]}
    match value:
        case int() if type_ in temporal.TYPES:
            return temporal.to_text(type_, value)
        case float():
            return _float_to_json(type_, value)
        case uuid.UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            return value


def from_json(type_: Type, raw: Any, where: str) -> Any:
    """Read the JSON single-value form from plain Python data; ``where`` names the place in errors."""
    if raw is None:
        return None
    try:
        value = _from_json(type_, raw, where)
        fault = _fault(type_, value)
    except InvalidInput as error:
        raise InvalidMetadata(error.problem, field=where, hint=error.hint) from None
    if fault:
        raise _unreadable(type_, raw, where, fault)
    return value


def _from_json(type_: Type, raw: Any, where: str) -> Any:  # noqa: C901
    match type_, raw:
        case Struct(), dict():
            return _struct_from_json(type_, raw, where)
        case List(), list() | tuple():
            return tuple(from_json(type_.element, item, f"{where}[{at}]") for at, item in enumerate(raw))
        case Map(), {"keys": list() as keys, "values": list() as items} if len(keys) == len(items):
            read_keys = [from_json(type_.key, key, f"{where}.keys") for key in keys]
            read_items = [from_json(type_.value, item, f"{where}.values") for item in items]
            return tuple(zip(read_keys, read_items, strict=True))
        case Decimal(), str() if _DECIMAL_TEXT.fullmatch(raw):
            return decimal.Decimal(raw)
        case ((Geometry() | Geography()), str()):
            return geo.wkt_to_wkb(raw)
        case _, str() if type_ in temporal.TYPES:
            return temporal.from_text(type_, raw)
        case Primitive.UUID, str() if _UUID_TEXT.fullmatch(raw):
            return uuid.UUID(raw)
        case ((Fixed() | Primitive.BINARY), str()) if _HEX.fullmatch(raw):
            return bytes.fromhex(raw)
        case _, (int() | float()) if type_ in FLOATS and type(raw) is not bool:
            return _float_from_json(type_, raw, where)
        case _, _ if type_ in (Primitive.BOOLEAN, Primitive.INT, Primitive.LONG, Primitive.STRING):
            return raw
        case _:
            raise _unreadable(type_, raw, where)


def _struct_from_json(type_: Struct, raw: Mapping[str, Any], where: str) -> FrozenDict[int, Any]:
    fields = {str(field.id): field for field in type_.fields}
    if unknown := [key for key in raw if key not in fields]:
        raise _unreadable(type_, raw, where, f"no field has the id {unknown[0]!r}")
    items = ((fields[key], item, f"{where}.{key}") for key, item in raw.items())
    return FrozenDict({field.id: from_json(field.type, item, place) for field, item, place in items})


def _float_from_json(type_: Type, raw: float, where: str) -> float:
    try:
        value = float(raw)
    except OverflowError:
        value = math.inf
    rounded = _round_float(value) if type_ is Primitive.FLOAT else value
    if rounded is None or not math.isfinite(rounded):
        raise _unreadable(type_, raw, where, "not a finite number of this type")
    return rounded


def _float_to_json(type_: Type, value: float) -> float:
    if not math.isfinite(value):
        problem = f"JSON has no form for {value} of type {type_}"
        raise InvalidInput(problem)
    if type_ is Primitive.DOUBLE:
        return value
    # The fewest digits that stand for the 32 bits: 1.23, where the exact number is 1.2300000190734863.
    shorter = (float(f"{value:.{digits}g}") for digits in _FLOAT_DIGITS)
    return next((number for number in shorter if _round_float(number) == value), value)


def _unreadable(type_: Type, raw: Any, where: str, reason: str = "") -> InvalidMetadata:
    problem = f"{_show(raw)} is not a JSON value of type {type_}{reason and ': '}{reason}"
    return InvalidMetadata(problem, field=where)


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
    if fault := _fault(type_, result):
        accepted = _ACCEPTED.get(type_) or _ACCEPTED.get(type(type_)) or "null only"
        problem = f"{_show(value)} is not a value of type {type_}: {fault}"
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
        rounded = _round_float(float(value)) if type_ is Primitive.FLOAT else float(value)
        return value if rounded is None else rounded
    # Columns of ints come as floats from whatever knows no null ints.
    if type_ in INTEGERS and isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT_IN_DOUBLE else value
    return value


def _coerce_struct(type_: Struct, value: Mapping[Any, Any]) -> FrozenDict[int, Any]:
    fields: dict[Any, Field] = {field.id: field for field in type_.fields}
    fields |= {field.name: field for field in type_.fields}
    if unknown := [key for key in value if key not in fields]:
        problem = f"no field {_show(unknown[0])} in {type_}"
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


def _unscaled(value: decimal.Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return (-1 if sign else 1) * int("".join(map(str, digits)))


def _from_unscaled(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _coerce_decimal(type_: Decimal, value: decimal.Decimal | int | str) -> Any:
    """The same number with the type's scale; the value as it is when it is none, or has too many digits."""
    if type(value) is bool or (isinstance(value, str) and not _DECIMAL_TEXT.fullmatch(value)):
        return value
    sign, digits, exponent = decimal.Decimal(value).as_tuple()
    if not isinstance(exponent, int):  # infinite, or not a number
        return value
    if not any(digits):
        return _from_unscaled(0, type_.scale)
    shift = exponent + type_.scale
    if len(digits) + shift > type_.precision or any(digits[shift:] if shift < 0 else ()):
        return value
    return decimal.Decimal((sign, (*digits, *[0] * shift)[: len(digits) + shift], -type_.scale))


# Truncated bounds


def truncate_lower(type_: Type, value: Any, length: int) -> Any:
    """A lower bound of at most ``length`` code points or bytes that is not above the value."""
    _check_truncation(type_, value, length)
    return value[:length]


def truncate_upper(type_: Type, value: Any, length: int) -> Any:
    """An upper bound of at most ``length`` code points or bytes that is not below the value.

    ``None`` when there is none: nothing of that length is above a value of the highest code points.
    """
    _check_truncation(type_, value, length)
    if len(value) <= length:
        return value
    if isinstance(value, str):
        prefix = value[:length].rstrip("\U0010ffff")
        if not prefix:
            return None
        last = ord(prefix[-1]) + 1
        # The surrogates are not characters: the one after U+D7FF is U+E000.
        return prefix[:-1] + chr(_SURROGATES[1] + 1 if last == _SURROGATES[0] else last)
    head = value[:length].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _check_truncation(type_: Type, value: Any, length: int) -> None:
    text, raw = type_ is Primitive.STRING, type_ is Primitive.BINARY or isinstance(type_, Fixed)
    if length < 1 or not ((text and type(value) is str) or (raw and type(value) is bytes)):
        problem = f"cannot truncate {_show(value)}, of type {type_}, to {length}"
        raise InvalidInput(problem, hint="Only strings and bytes can be truncated, to 1 or more")
