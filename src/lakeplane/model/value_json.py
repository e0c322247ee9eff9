"""Single values as JSON: the form of Appendix D, which default values are stored in.

What cannot be written raises ``InvalidInput``, what cannot be read ``InvalidMetadata``.
"""

from __future__ import annotations

import decimal
import math
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model import geo, temporal
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.types import (
    FLOATS,
    Decimal,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakeplane.model.values import (
    DECIMAL_TEXT,
    check_value,
    fault_of,
    from_unscaled,
    round_float,
    show,
    unscaled,
)

_FLOAT_DIGITS: Final = range(6, 10)
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def to_json(type_: Type, value: Any) -> Any:
    """The JSON single-value form, as plain Python data; ``None`` for ``None``."""
    check_value(type_, value)
    return None if value is None else _to_json(type_, value)


def _to_json(type_: Type, value: Any) -> Any:
    match type_:
        case Decimal():
            return _decimal_to_json(unscaled(value), type_.scale)
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
        fault = fault_of(type_, value)
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
        case Decimal(), str() if DECIMAL_TEXT.fullmatch(raw):
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
    rounded = round_float(value) if type_ is Primitive.FLOAT else value
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
    return next((number for number in shorter if round_float(number) == value), value)


def _decimal_to_json(digits: int, scale: int) -> str:
    # The exponent of a negative scale is given: str() would write 1.2E+21, where the spec has 12E+20.
    return f"{digits}E+{-scale}" if scale < 0 else format(from_unscaled(digits, scale), "f")


def _unreadable(type_: Type, raw: Any, where: str, reason: str = "") -> InvalidMetadata:
    problem = f"{show(raw)} is not a JSON value of type {type_}{reason and ': '}{reason}"
    return InvalidMetadata(problem, field=where)
