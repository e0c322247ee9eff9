"""Rows as bytes once more, one value at a time and from the description alone, to compare with.

Types are the texts of schema files, and values are plain: decimals as unscaled integers, times as
milliseconds, timestamps as milliseconds and nanoseconds in them.
"""

from __future__ import annotations

import re
import struct
from typing import Any

FIXED = {
    "BOOLEAN": "<?7x",
    "TINYINT": "<b7x",
    "SMALLINT": "<h6x",
    "INT": "<i4x",
    "DATE": "<i4x",
    "TIME": "<i4x",
    "BIGINT": "<q",
    "FLOAT": "<f4x",
    "DOUBLE": "<d",
}


def naive_row(columns: list[tuple[str, Any]], *, reserve_null: bool) -> bytes:
    arity = len(columns)
    nulls = [0] * (((arity + 63 + 8) // 64) * 8)
    slots, variable = b"", b""
    for index, (text, value) in enumerate(columns):
        place = len(nulls) + 8 * arity + len(variable)
        if value is None:
            nulls[(index + 8) // 8] |= 1 << ((index + 8) % 8)
            room = always_outside(text) if reserve_null else 0
            slot, part = struct.pack("<II", 0, place if room else 0), b"\0" * room
        else:
            slot, part = naive_value(text, value, place)
        slots += slot
        variable += part
    return struct.pack(">I", arity) + bytes(nulls) + slots + variable


def split(text: str) -> tuple[str, list[int]]:
    return re.split(r"[( ]", text, maxsplit=1)[0], [int(each) for each in re.findall(r"\d+", text)]


def always_outside(text: str) -> int:
    name, numbers = split(text)
    if name == "DECIMAL" and numbers[0] > 18:
        return 16
    return 8 if name == "TIMESTAMP" and numbers[0] > 3 else 0


def naive_value(text: str, value: Any, place: int) -> tuple[bytes, bytes]:
    name, _ = split(text)
    outside = always_outside(text)
    if name in FIXED:
        return struct.pack(FIXED[name], value), b""
    if name == "DECIMAL":
        if not outside:
            return struct.pack("<q", value), b""
        size = 1
        while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            size += 1
        return struct.pack("<II", size, place), value.to_bytes(size, "big", signed=True) + b"\0" * (16 - size)
    if name == "TIMESTAMP":
        millis, nanos = value
        if not outside:
            return struct.pack("<q", millis), b""
        return struct.pack("<II", nanos, place), struct.pack("<q", millis)
    data = value.encode() if isinstance(value, str) else value
    if len(data) < 8:
        return data + b"\0" * (7 - len(data)) + bytes([0x80 | len(data)]), b""
    return struct.pack("<II", len(data), place), data + b"\0" * (-len(data) % 8)
