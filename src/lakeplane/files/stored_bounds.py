"""Bounds as Parquet files store them, as values of the types of a table.

A file may store a column in other units, or in more ways, than a table of ours would: each pair of them has a
rule here, or no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lakeplane.files import thrift
from lakeplane.files.parquet_schema import (
    CONVERTED,
    L_DATE,
    L_DECIMAL,
    L_FLOAT16,
    L_INTEGER,
    L_TIME,
    L_TIMESTAMP,
    PRECISION,
    SCALE,
    TYPE,
    Element,
)
from lakeplane.iceberg.manifest_schema import arrow_type
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NANOS,
    STRING,
    TIME,
    TIMESTAMPS,
    UUID,
    Decimal,
    Field,
    Fixed,
    Type,
)

Change: TypeAlias = "Callable[[Any], Any] | None"


class BoundRule(NamedTuple):
    """What becomes of stored bounds: lower ones are rounded down, upper ones up; None changes nothing."""

    lower: Change = None
    upper: Change = None


AS_IT_IS: Final = BoundRule()

_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTES, _FIXED = range(8)
_PHYSICAL: Final[dict[Type, tuple[int, ...]]] = {
    BOOLEAN: (_BOOLEAN,),
    INT: (_INT32,),
    LONG: (_INT32, _INT64),
    FLOAT: (_FLOAT,),
    DOUBLE: (_FLOAT, _DOUBLE),
    DATE: (_INT32,),
    STRING: (_BYTES,),
    BINARY: (_BYTES, _FIXED),
    UUID: (_FIXED, _BYTES),
}
_CONVERTED_DECIMAL, _CONVERTED_DATE = 5, 6
_CONVERTED_UNITS: Final = {7: 1_000_000, 8: 1_000, 9: 1_000_000, 10: 1_000}
"""Nanoseconds in the unit of each converted type of times and timestamps."""
_CONVERTED_UNSIGNED: Final = (11, 12, 13, 14)
_UNITS: Final = {1: 1_000_000, 2: 1_000, 3: 1}
"""Nanoseconds in a unit, by its place in the union of units."""
_NOT_DECIMALS: Final = (L_INTEGER, L_DATE, L_TIME, L_TIMESTAMP)
_SECOND: Final = 2
"""The parameter of a logical type that counts here: signs of integers, units of times."""
_DAY_NANOS: Final = 86_400_000_000_000
_LONG_RANGE: Final = (-(2**63), 2**63 - 1)
_DECIMAL_BYTES: Final = 16


def bound_rule(element: Element, type_: Type) -> BoundRule | None:
    """How the bounds of a column of a file become values of a type; None where they do not."""
    physical = element.number(TYPE)
    logical = element.logical
    if physical is None or (logical is not None and logical.id == L_FLOAT16):
        return None
    if isinstance(type_, Decimal):
        return _decimal_rule(element, type_, physical)
    if type_ is TIME or type_ in TIMESTAMPS:
        return _time_rule(element, type_, physical)
    allowed = (_FIXED, _BYTES) if isinstance(type_, Fixed) else _PHYSICAL.get(type_, ())
    if physical not in allowed:
        return None
    if type_ in (INT, LONG):
        return _integer_rule(element, type_, physical)
    decimal = _is_decimal(element)
    return None if decimal and type_ is not BINARY and not isinstance(type_, Fixed) else AS_IT_IS


def _is_decimal(element: Element) -> bool:
    logical = element.logical
    if logical is not None:
        return logical.id == L_DECIMAL
    return element.number(CONVERTED) == _CONVERTED_DECIMAL


def _integer_rule(element: Element, type_: Type, physical: int) -> BoundRule | None:
    if _is_decimal(element):
        return None
    if not _is_unsigned(element):
        return AS_IT_IS
    bits = 32 if physical == _INT32 else 64
    # What is above the largest number of the type was never readable as one.
    top = 2**31 - 1 if type_ is INT else _LONG_RANGE[1]

    def signed(value: int) -> int | None:
        found = value & (2**bits - 1)
        return found if found <= top else None

    return BoundRule(signed, signed)


def _is_unsigned(element: Element) -> bool:
    logical = element.logical
    if logical is not None and logical.id == L_INTEGER:
        # Its second field says whether there are signs: a boolean is told by its kind.
        return any(
            each.id == _SECOND and each.kind == thrift.FALSE for each in thrift.read_struct(logical.raw, 0)[0]
        )
    return element.number(CONVERTED) in _CONVERTED_UNSIGNED


def _decimal_rule(element: Element, type_: Decimal, physical: int) -> BoundRule | None:
    scale, precision = element.number(SCALE) or 0, element.number(PRECISION) or 0
    if not _is_decimal(element) or scale != type_.scale or precision > type_.precision:
        return None
    if physical in (_INT32, _INT64):
        return AS_IT_IS
    if physical not in (_BYTES, _FIXED):
        return None
    limit = 10**type_.precision

    def unscaled(raw: bytes) -> int | None:
        found = int.from_bytes(raw, "big", signed=True)
        return found if -limit < found < limit else None

    return BoundRule(unscaled, unscaled)


def _time_rule(element: Element, type_: Type, physical: int) -> BoundRule | None:
    found = _nanos_of_unit(element, type_, physical)
    wanted = 1 if type_ in NANOS else 1_000
    if found is None or found == wanted:
        return None if found is None else AS_IT_IS

    def down(value: int) -> int | None:
        return _in_range(value * found // wanted)

    def up(value: int) -> int | None:
        return _in_range(-(-value * found // wanted))

    return BoundRule(down, up)


def _in_range(value: int) -> int | None:
    return value if _LONG_RANGE[0] <= value <= _LONG_RANGE[1] else None


def _nanos_of_unit(element: Element, type_: Type, physical: int) -> int | None:
    """How many nanoseconds one is in the file; None for what is no time at all."""
    logical, converted = element.logical, element.number(CONVERTED)
    is_date = converted == _CONVERTED_DATE if logical is None else logical.id == L_DATE
    if is_date:
        return None if type_ is TIME else _DAY_NANOS
    if physical not in (_INT32, _INT64):
        return None
    if logical is None:
        times = (7, 8) if type_ is TIME else (9, 10)
        return _CONVERTED_UNITS[converted] if converted in times else None
    if logical.id != (L_TIME if type_ is TIME else L_TIMESTAMP):
        return None
    unit = next((each.raw for each in thrift.read_struct(logical.raw, 0)[0] if each.id == _SECOND), None)
    members = thrift.read_struct(unit, 0)[0] if unit is not None else []
    return _UNITS.get(members[0].id) if members else None


def bounds_array(type_: Type, values: Sequence[Any]) -> pa.Array:
    """Values that rules have made as an Arrow array that ``iceberg.metrics`` takes."""
    if isinstance(type_, Decimal):
        return _decimals(type_, values)
    if type_ is STRING:
        # Not checked here: what is no text is left out later, without an error.
        return pa.array(values, pa.binary()).view(pa.string())
    if type_ in (BINARY, UUID) or isinstance(type_, Fixed):
        width = 16 if type_ is UUID else type_.length if isinstance(type_, Fixed) else None
        fitting = [each if each is None or width in (None, len(each)) else None for each in values]
        return pa.array(fitting, pa.binary())
    if type_ is DATE:
        return pa.array(values, pa.int32()).view(pa.date32())
    if type_ is TIME or type_ in TIMESTAMPS:
        return pa.array(values, pa.int64()).view(arrow_type(Field(1, "bound", type_)))
    return pa.array(values, arrow_type(Field(1, "bound", type_)))


def _decimals(type_: Decimal, values: Sequence[int | None]) -> pa.Array:
    stored = b"".join((each or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True) for each in values)
    valid = np.array([each is not None for each in values], bool)
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    arrow = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(stored)])
