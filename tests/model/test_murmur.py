"""The hash of single values, against the spec's test values and those that Java's tests name."""

from __future__ import annotations

import decimal
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model import types
from lakeplane.model.murmur import hash_value, murmur3, unscaled

MOMENT = 1_510_871_468_000_000  # 2017-11-16T22:31:08
TEST_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

APPENDIX_B: list[tuple[types.Type, Any, int]] = [
    (types.INT, 34, 2017239379),
    (types.LONG, 34, 2017239379),
    (types.Decimal(9, 2), Decimal("14.20"), -500754589),
    (types.DATE, 17486, -653330422),
    (types.TIME, 81_068_000_000, -662762989),
    (types.TIMESTAMP, MOMENT, -2047944441),
    (types.TIMESTAMP, MOMENT + 1, -1207196810),
    (types.TIMESTAMPTZ, MOMENT, -2047944441),
    (types.TIMESTAMPTZ, MOMENT + 1, -1207196810),
    (types.TIMESTAMP_NS, MOMENT * 1000, -2047944441),
    (types.TIMESTAMP_NS, MOMENT * 1000 + 1001, -1207196810),
    (types.TIMESTAMPTZ_NS, MOMENT * 1000, -2047944441),
    (types.TIMESTAMPTZ_NS, MOMENT * 1000 + 1001, -1207196810),
    (types.STRING, "iceberg", 1210000089),
    (types.UUID, TEST_UUID, 1488055340),
    (types.Fixed(4), b"\x00\x01\x02\x03", -188683207),
    (types.BINARY, b"\x00\x01\x02\x03", -188683207),
    (types.BOOLEAN, True, 1392991556),
    (types.FLOAT, 1.0, -142385009),
    (types.FLOAT, 0.0, 1669671676),
    (types.FLOAT, -0.0, 1669671676),
    (types.DOUBLE, 1.0, -142385009),
    (types.DOUBLE, 0.0, 1669671676),
    (types.DOUBLE, -0.0, 1669671676),
]
# The spec compares the hash of a number with that of its text.
MORE: list[tuple[types.Type, Any, int]] = [(types.STRING, "34", -427558391)]


@pytest.mark.parametrize(("type_", "value", "expected"), APPENDIX_B + MORE)
def test_hashes_of_the_spec(type_: types.Type, value: Any, expected: int) -> None:
    assert hash_value(type_, value) == expected


# Known answers of MurmurHash3_x86_32 with seed 0, one for each length of the tail.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"\x21", 0x72661CF4),
        (b"\x21\x43", 0xA0F7B07A),
        (b"\x21\x43\x65", 0x7E4A8634),
        (b"\x21\x43\x65\x87", 0xF55B516B),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"\x00\x00\x00\x00", 0x2362F9DE),
        (b"\x00", 0x514E28B7),
    ],
)
def test_known_answers_of_murmur3(data: bytes, expected: int) -> None:
    assert murmur3(data) & 0xFFFFFFFF == expected


@pytest.mark.parametrize("bits", [0x7FF0000000000001, 0x7FF8000000000000, 0xFFFFFFFFFFFFFFFF])
def test_all_nans_have_one_hash(bits: int) -> None:
    (nan,) = struct.unpack("<d", struct.pack("<Q", bits))
    assert hash_value(types.DOUBLE, nan) == hash_value(types.FLOAT, math.nan)
    assert hash_value(types.DOUBLE, nan) == murmur3(struct.pack("<Q", 0x7FF8000000000000))


@given(st.integers(-(2**31), 2**31 - 1))
def test_promoting_a_number_keeps_its_hash(number: int) -> None:
    assert hash_value(types.INT, number) == hash_value(types.LONG, number)
    assert hash_value(types.LONG, number) == murmur3(number.to_bytes(8, "little", signed=True))
    assert hash_value(types.TIMESTAMP_NS, number * 1000 + 999) == hash_value(types.TIMESTAMP, number)


@given(st.floats(width=32))
def test_promoting_a_float_keeps_its_hash(number: float) -> None:
    assert hash_value(types.FLOAT, number) == hash_value(types.DOUBLE, number)


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x00\x80"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
        (-1, b"\xff"),
        (10**38 - 1, (10**38 - 1).to_bytes(16, "big")),
    ],
)
def test_decimals_hash_the_fewest_bytes(number: int, data: bytes) -> None:
    assert hash_value(types.Decimal(38, 0), Decimal(number)) == murmur3(data)


def test_a_decimal_does_not_depend_on_the_context() -> None:
    value = Decimal("12345678901234567890123456789012345.678")
    with decimal.localcontext(prec=5):
        assert unscaled(value, 3) == 12345678901234567890123456789012345678
    assert unscaled(Decimal("-1.5E3"), 2) == -150000
    assert unscaled(Decimal("0E+999999"), 2) == 0


def test_text_beyond_the_basic_plane_hashes_as_utf8() -> None:
    text = "string with a surrogate pair: \N{MONEY BAG}"
    assert hash_value(types.STRING, text) == murmur3(text.encode())


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (types.VARIANT, 1),
        (types.UNKNOWN, 1),
        (types.Geometry(), b""),
        (types.Geography(), b""),
        (types.List(1, types.INT), []),
        (types.INT, "34"),
        (types.INT, None),
        (types.LONG, 2**63),
        (types.STRING, "\ud800"),
        (types.STRING, b"iceberg"),
        (types.UUID, str(TEST_UUID)),
        (types.BINARY, 4),
        (types.Decimal(9, 2), Decimal("1.001")),
        (types.Decimal(9, 2), Decimal("NaN")),
        (types.Decimal(9, 2), Decimal("Infinity")),
        (types.Decimal(9, 2), Decimal("1E+1000000000")),
        (types.Decimal(9, 2), Decimal("1E-1000000000")),
        (types.DOUBLE, "1"),
    ],
)
def test_what_has_no_hash_is_refused(type_: types.Type, value: Any) -> None:
    with pytest.raises(InvalidInput):
        hash_value(type_, value)
