"""Which types a column can be widened to, and what becomes of its default."""

from __future__ import annotations

from typing import Any, Final

from lakeplane.errors import InvalidChange, InvalidInput
from lakeplane.model import temporal
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    Decimal,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakeplane.model.values import check_value

_EXTENDED: Final = 3
"""The first format version that widens ``unknown`` and ``date``."""


def can_promote(old: Type, new: Type, format_version: int) -> bool:
    """Whether the format lets a column of one type take on another, wider one."""
    match old, new:
        case (Primitive.INT, Primitive.LONG) | (Primitive.FLOAT, Primitive.DOUBLE):
            return True
        case Decimal(), Decimal():
            return old.scale == new.scale and old.precision < new.precision
        case Primitive.DATE, (Primitive.TIMESTAMP | Primitive.TIMESTAMP_NS):
            return format_version >= _EXTENDED
        case Primitive.UNKNOWN, _:
            return format_version >= _EXTENDED and new is not UNKNOWN
        case _:
            return False


def ways_out(type_: Type, format_version: int) -> str:
    """Say what a column of a type can become, for the hint of a refusal."""
    match type_:
        case Primitive.UNKNOWN | Primitive.DATE if format_version < _EXTENDED:
            return f"A column of type {type_} can be widened from format version {_EXTENDED} on"
        case Primitive.INT:
            wider = str(LONG)
        case Primitive.FLOAT:
            wider = str(DOUBLE)
        case Primitive.DATE:
            wider = f"{TIMESTAMP} or {TIMESTAMP_NS}"
        case Decimal():
            wider = f"a decimal with more digits and the scale {type_.scale}"
        case Struct() | List() | Map():
            return "Change the fields inside it one by one"
        case _:
            return f"A column of type {type_} keeps it: add another column"
    return f"It can only become {wider}"


def promote_default(old: Type, new: Type, value: Any, place: str) -> Any:
    """Give a column's default as a value of its wider type."""
    if value is None or old is not DATE:
        return value
    units = value * (temporal.DAY_MICROS if new is TIMESTAMP else temporal.DAY_NANOS)
    try:
        check_value(new, units)
    except InvalidInput:
        problem = f"its default is a date outside the range of {new}"
        raise InvalidChange(problem, field=place) from None
    return units
