"""Types that have a place in rows, and values of them: canonical ones, and as ``naive_rows`` has them."""

from __future__ import annotations

import decimal
from typing import Any

from hypothesis import strategies as st

from lakeplane.paimon.types import DataType, parse_type
from tests.paimon.naive_rows import split


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DATE": 32}
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    **{name: _integers(bits) for name, bits in _INTEGERS.items()},
    "BOOLEAN": st.booleans(),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    **dict.fromkeys(("STRING", "CHAR", "VARCHAR"), st.text(max_size=20)),
    **dict.fromkeys(("BYTES", "BINARY", "VARBINARY"), st.binary(max_size=20)),
}
_TYPES = (
    *_INTEGERS,
    *("BOOLEAN", "FLOAT", "DOUBLE", "STRING", "CHAR(3)", "VARCHAR(20)", "BYTES", "BINARY(4)", "VARBINARY(9)"),
    *("TIME(0)", "TIME(3)", "DECIMAL(1, 0)", "DECIMAL(9, 2)", "DECIMAL(18, 18)", "DECIMAL(19, 0)"),
    *("DECIMAL(38, 10)", "DECIMAL(38, 38)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)"),
    *("TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
)


def _decimal(whole: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale))


@st.composite
def values(draw: st.DrawFn, text: str) -> tuple[Any, Any]:
    """A value of a type, in both forms."""
    if draw(st.integers(0, 4)) == 0:
        return None, None
    kind, numbers = split(text)
    if kind in _PLAIN:
        value = draw(_PLAIN[kind])
        return value, value
    match kind:
        case "TIME":
            millis = draw(st.integers(0, 86_399_999))
            return millis * 1000, millis
        case "DECIMAL":
            most = 10 ** numbers[0] - 1
            whole = draw(st.integers(-most, most))
            return _decimal(whole, numbers[1]), whole
        case _:
            millis = draw(st.integers(-(10**12), 9 * 10**12))  # what 64 bits of nanoseconds hold
            if numbers[0] <= 3:
                return millis * 1000, (millis, 0)
            if numbers[0] <= 6:
                micros = draw(st.integers(0, 999))
                return millis * 1000 + micros, (millis, micros * 1000)
            nanos = draw(st.integers(0, 999_999))
            return millis * 1_000_000 + nanos, (millis, nanos)


@st.composite
def rows(draw: st.DrawFn, *, most: int = 70) -> tuple[list[str], list[DataType], list[Any], list[Any]]:
    """Types as texts, types, canonical values, and plain ones."""
    texts = draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=most))
    pairs = [draw(values(text)) for text in texts]
    return texts, [parse_type(text, "") for text in texts], [a for a, _ in pairs], [b for _, b in pairs]


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[str], list[DataType], list[list[Any]], list[list[Any]]]:
    """The same for several rows of the same types."""
    texts = draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=6))
    count = draw(st.integers(0, 6))
    pairs = [[draw(values(text)) for text in texts] for _ in range(count)]
    canonical = [[a for a, _ in row] for row in pairs]
    plain = [[b for _, b in row] for row in pairs]
    return texts, [parse_type(text, "") for text in texts], canonical, plain
