"""The types without fields inside, as Spark's DDL names them, and as Iceberg does; see ``ddl``."""

from __future__ import annotations

import difflib
import re
from typing import Final, NoReturn

from lakeplane.model.ddl_words import Cursor
from lakeplane.model.expressions.literals import unquote
from lakeplane.model.expressions.sql_text import literal_sql
from lakeplane.model.types import STRING, ZONED, Decimal, Fixed, Geography, Geometry, Primitive, Type

_SAME_NAME: Final = ("boolean", "int", "float", "double", "string", "binary", "date", "time", "variant")
_SPARK: Final[dict[Type, str]] = {
    **{each: each.value.upper() for each in map(Primitive, _SAME_NAME)},
    Primitive.LONG: "BIGINT",
    Primitive.TIMESTAMP: "TIMESTAMP_NTZ",
    Primitive.TIMESTAMPTZ: "TIMESTAMP",
    Primitive.UNKNOWN: "VOID",
}
_PLAIN: Final[dict[str, Type]] = {
    **{each.value.upper(): each for each in Primitive},
    **{name: type_ for type_, name in _SPARK.items()},
    **dict.fromkeys(("INTEGER", "SMALLINT", "SHORT", "TINYINT", "BYTE"), Primitive.INT),
    "REAL": Primitive.FLOAT,
    "TIMESTAMP_LTZ": Primitive.TIMESTAMPTZ,
}
_DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
_TEXTS: Final = ("VARCHAR", "CHAR", "CHARACTER")
_CLOCKS: Final = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_SHAPES: Final = ("ARRAY", "LIST", "MAP", "STRUCT", "FIXED", "GEOMETRY", "GEOGRAPHY")
_ACCEPTED: Final = (
    "Accepted: BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE, TIME, TIMESTAMP, "
    "TIMESTAMP_NTZ, VARIANT, VOID, ARRAY<t>, MAP<k, v>, STRUCT<name: t, ...>, and Iceberg's uuid, fixed[n], "
    "timestamptz, timestamp_ns, timestamptz_ns, geometry(crs), geography(crs, algorithm)"
)
_MICROS_OR_NANOS: Final = {
    False: (Primitive.TIMESTAMP, Primitive.TIMESTAMP_NS),
    True: (Primitive.TIMESTAMPTZ, Primitive.TIMESTAMPTZ_NS),
}
_MICRO_DIGITS, _NANO_DIGITS = 6, 9
_SRIDS: Final = {0: "SRID:0", 4267: "OGC:CRS27", 4269: "OGC:CRS83", 4326: "OGC:CRS84"}
_SPARK_SRIDS: Final = {"SRID:0": 0, "EPSG:3857": 3857, "OGC:CRS84": 4326}
"""How Spark names reference systems by number (any other is EPSG's), and the ones known since Spark 4.1."""

_BARE_CRS: Final = re.compile(r"(?!(?i:any|[0-9]*)$)[A-Za-z0-9_:.]+")


def read_flat(cursor: Cursor, word: str) -> Type | None:
    """Read what follows the first word of a type; None if there is no such type."""
    if word in _CLOCKS:
        return _clock(cursor, word)
    if word in _DECIMALS:
        precision, scale = (*_numbers(cursor, 2), 0)[:2] if cursor.sees("(") else (10, 0)
        if scale > precision:
            cursor.refuse(f"Spark has no decimal of {precision} digits with {scale} after the point")
        return Decimal(precision, scale)
    if word in _TEXTS:
        _numbers(cursor, 1)
        return STRING
    match word:
        case "STRING" if cursor.skip("COLLATE") and not cursor.skip("UTF8_BINARY"):
            cursor.refuse("Iceberg has no collations", "Leave COLLATE out")
        case "FIXED" if cursor.sees("[", "("):
            return Fixed(*_numbers(cursor, 1))
        case "GEOMETRY":
            return Geometry(*_arguments(cursor, 1))
        case "GEOGRAPHY":
            crs, *algorithm = _arguments(cursor, 2) or [Geography().crs]
            return Geography(crs, *map(str.lower, algorithm))
    return _PLAIN.get(word)


def write_flat(type_: Type) -> str:
    """Write a type in Spark's name for it; where there is none, in Iceberg's."""
    match type_:
        case Geometry(crs=crs):
            return f"GEOMETRY({_SPARK_SRIDS[crs]})" if crs in _SPARK_SRIDS else f"geometry({_crs_text(crs)})"
        case Geography() if type_ != Geography():
            return f"geography({_crs_text(type_.crs)}, {type_.algorithm})"
        case Geography():
            return f"GEOGRAPHY({_SPARK_SRIDS[type_.crs]})"
        case Decimal():
            return str(type_).upper()
        case _:
            return _SPARK.get(type_, str(type_))


def refuse_type(cursor: Cursor, start: int, word: str) -> NoReturn:
    """Raise what is wrong with the first word of a type."""
    if not word:
        cursor.refuse("expected a type", _ACCEPTED, at=start)
    if word in _SHAPES:
        cursor.refuse(f"{word} without what it is made of", _ACCEPTED, at=start)
    if word == "INTERVAL":
        cursor.refuse("Iceberg has no intervals", "Store a number, or two timestamps", at=start)
    close = difflib.get_close_matches(word, {*_PLAIN, *_DECIMALS, *_TEXTS, *_SHAPES}, n=2)
    hint = f"Did you mean {' or '.join(close)}? {_ACCEPTED}" if close else _ACCEPTED
    cursor.refuse(f"unknown type {cursor.text.tokens[start].text!r}", hint, at=start)


def _clock(cursor: Cursor, word: str) -> Type:
    """A time or timestamp, perhaps with digits: Spark's of more than six are Iceberg's nanoseconds."""
    start, zoned = cursor.at, _PLAIN[word] in ZONED
    digits = (_numbers(cursor, 1) or [_MICRO_DIGITS])[0]
    if digits > (_MICRO_DIGITS if word == "TIME" else _NANO_DIGITS):
        cursor.refuse(f"{word} cannot have {digits} digits of a second", f"Write {word}", at=start)
    if word in ("TIME", "TIMESTAMP") and cursor.skip("WITHOUT", "TIME", "ZONE"):
        zoned = False
    return Primitive.TIME if word == "TIME" else _MICROS_OR_NANOS[zoned][digits > _MICRO_DIGITS]


def _arguments(cursor: Cursor, most: int) -> list[str]:
    """What stands between brackets, as it is written, or as strings; a number is one of Spark's."""
    if not cursor.sees("("):
        return []
    opening, closing = cursor.at, cursor.text.partners[cursor.at]
    given: list[str] = []
    while cursor.at < closing:
        cursor.at = start = cursor.at + 1
        while cursor.at < closing and not cursor.sees(","):
            cursor.at += 1
        if start == cursor.at:
            cursor.refuse("expected a name")
        written = cursor.text.between(start, cursor.at)
        if written.upper() == "ANY":
            cursor.refuse("a column has one reference system", "Name it, as in EPSG:4326", at=start)
        srid = int(written) if re.fullmatch("[0-9]{1,9}", written) else None
        if cursor.text.tokens[start].kind == "string":
            written = unquote(written) or ""
        given.append(written if srid is None else _SRIDS.get(srid, f"EPSG:{srid}"))
    if len(given) > most:
        cursor.refuse(f"expected {most} at most", at=opening)
    cursor.at = closing + 1
    return given


def _numbers(cursor: Cursor, most: int) -> list[int]:
    """Whole numbers between brackets; none without brackets."""
    numbers: list[int] = []
    if cursor.sees("(", "["):
        closing = cursor.text.partners[cursor.at]
        while cursor.at < closing:
            cursor.at += 1
            numbers.append(cursor.whole_number())
            if cursor.at < closing and (len(numbers) == most or not cursor.sees(",")):
                cursor.refuse("expected a closing bracket" if len(numbers) == most else "expected a comma")
        cursor.at += 1
    return numbers


def _crs_text(crs: str) -> str:
    return crs if _BARE_CRS.fullmatch(crs) else literal_sql(STRING, crs)
