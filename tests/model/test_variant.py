from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model import variant
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.temporal import DAY_MICROS, format_date, format_time, format_timestamp
from lakeplane.model.variant import VariantValue, bounds_from_bytes, bounds_to_bytes, from_bytes

EMPTY = bytes.fromhex("010000")  # metadata of no names
A = bytes.fromhex("0101000161")  # metadata of the name a


def primitive(number: int, payload: str) -> bytes:
    return bytes([number << 2]) + bytes.fromhex(payload)


# The values of TestSerializedPrimitives (Java, api/src/test): type id, payload, kind, value.
JAVA_PRIMITIVES: list[tuple[int, str, str, Any]] = [
    (0, "", "null", None),
    (1, "", "boolean", True),
    (2, "", "boolean", False),
    (3, "22", "int8", 34),
    (3, "ff", "int8", -1),
    (4, "d204", "int16", 1234),
    (4, "ffff", "int16", -1),
    (5, "d2029649", "int32", 1234567890),
    (5, "ffffffff", "int32", -1),
    (6, "b11c6cb1f4102211", "int64", 1234567890987654321),
    (6, "ffffffffffffffff", "int64", -1),
    (7, "b11c6cb1f4102211", "double", struct.unpack("<d", struct.pack("<q", 1234567890987654321))[0]),
    (7, "0000000000000080", "double", -0.0),
    (8, "0415cd5b07", "decimal4", Decimal("12345.6789")),
    (8, "04ffffffff", "decimal4", Decimal("-0.0001")),
    (9, "09b1fa52e04b9bb601", "decimal8", Decimal("123456789.987654321")),
    (9, "09ffffffffffffffff", "decimal8", Decimal("-0.000000001")),
    (10, "09157134b0b88710890000000000000000", "decimal16", Decimal("9876543210.123456789")),
    (10, "09eb8ecb4f4778ef76ffffffffffffffff", "decimal16", Decimal("-9876543210.123456789")),
    (11, "f4430000", "date", 17396),
    (11, "ffffffff", "date", -1),
    (12, "18d3b1d607570500", "timestamptz", 1503066061919000),
    (12, "ffffffffffffffff", "timestamptz", -1),
    (13, "18d3b1d607570500", "timestamp", 1503066061919000),
    (14, "d2029649", "float", struct.unpack("<f", struct.pack("<i", 1234567890))[0]),
    (14, "00000080", "float", -0.0),
    (15, "050000006162636465", "binary", b"abcde"),
    (17, "80a84bb702000000", "time", 11665123456),
    (18, "158f35779ef6db14", "timestamptz_ns", 1503066061123456789),
    (19, "158f35779ef6db14", "timestamp_ns", 1503066061123456789),
    (20, "f24f9b6481fa49d1b74e8c09a6e31c56", "uuid", uuid.UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")),
]


@pytest.mark.parametrize(("number", "payload", "kind", "value"), JAVA_PRIMITIVES)
def test_primitives_are_those_of_java(number: int, payload: str, kind: str, value: Any) -> None:
    encoded = primitive(number, payload)
    found = from_bytes(EMPTY + encoded)
    assert found == VariantValue(kind, value)
    assert repr(found.value) == repr(value)
    # As the only bound, it is the end of the encoding.
    assert bounds_to_bytes({"$": (kind, value)}).endswith(encoded)


def test_the_moments_of_the_java_tests() -> None:
    # The same values as text, as TestSerializedPrimitives expects them.
    assert format_date(17396) == "2017-08-18"
    assert format_time(11665123456) == "03:14:25.123456"
    assert format_timestamp(1503066061919000, nanos=False, zoned=False) == "2017-08-18T14:21:01.919000"
    assert format_timestamp(1503066061123456789, nanos=True, zoned=False) == "2017-08-18T14:21:01.123456789"


def test_strings_have_a_short_and_a_long_form() -> None:
    iceberg = VariantValue("string", "iceberg")
    assert from_bytes(EMPTY + bytes([0b11101]) + b"iceberg") == iceberg
    assert from_bytes(EMPTY + primitive(16, "07000000") + b"iceberg") == iceberg
    assert bounds_to_bytes({"$": iceberg}).endswith(b"\x1diceberg")
    # Bytes are counted, not characters: 63 are short, 64 are not.
    for text, header in (("é" * 31 + "x", b"\xfd"), ("é" * 32, b"\x40\x40\x00\x00\x00")):
        raw = bounds_to_bytes({"$": ("string", text)})
        assert raw.endswith(header + text.encode())
        assert bounds_from_bytes(raw)["$"].value == text


def test_the_layout_of_bounds_byte_by_byte() -> None:
    # Header: version 1, sorted, offsets of 1 byte. Two names. Offsets 0, 6, 12. The object: 1-byte ids and
    # offsets, two fields, ids 0 and 1, offsets 0, 2, 8; int8 1 and the short string "abcde".
    raw = (
        bytes.fromhex("1102 00060c") + b"$['a']$['b']" + bytes.fromhex("0202 0001 000208 0c01 15") + b"abcde"
    )
    bounds = FrozenDict({"$['a']": VariantValue("int8", 1), "$['b']": VariantValue("string", "abcde")})
    assert bounds_to_bytes(bounds) == raw
    assert bounds_to_bytes({"$['b']": ("string", "abcde"), "$['a']": ("int8", 1)}) == raw
    assert bounds_from_bytes(raw) == bounds


def test_no_bounds() -> None:
    raw = bounds_to_bytes({})
    assert raw == bytes.fromhex("110000 020000")
    assert bounds_from_bytes(raw) == FrozenDict()
    assert (
        bounds_from_bytes(EMPTY + bytes.fromhex("420000000000")) == FrozenDict()
    )  # Java's large empty object


def test_java_objects_and_metadata_of_every_offset_size() -> None:
    # TestSerializedObject.UNSORTED_VALUES: values in another order than their names.
    names = bytes.fromhex("1103 00010203") + b"abc"
    value = bytes.fromhex("0203 000102 02040006 0c03 0c01 0c02")
    expected = FrozenDict(
        {"a": VariantValue("int8", 1), "b": VariantValue("int8", 2), "c": VariantValue("int8", 3)}
    )
    assert bounds_from_bytes(names + value) == expected
    # TestSerializedMetadata.testHeaderOffsetSize: one empty name, with sizes of 4, 3, 2 and 1 bytes.
    for size in (4, 3, 2, 1):
        metadata = bytes([0b10001 | (size - 1) << 6, 1]) + bytes(size - 1) + bytes(2 * size)
        assert from_bytes(metadata + b"\x02\x01\x00\x00\x01\x00") == (
            "object",
            FrozenDict({"": VariantValue("null", None)}),
        )


def test_nested_values_are_read() -> None:
    inner = bytes.fromhex("0201 00 0002 0c05")
    array = bytes([0b0011, 2, 0, 1, 1 + len(inner), 0x04]) + inner
    value = bytes([0b10, 1, 0, 0, len(array)]) + array
    assert from_bytes(A + value) == VariantValue(
        "object",
        FrozenDict(
            {
                "a": VariantValue(
                    "array",
                    (
                        VariantValue("boolean", value=True),
                        VariantValue("object", FrozenDict({"a": VariantValue("int8", 5)})),
                    ),
                )
            }
        ),
    )


def test_many_bounds_need_large_objects() -> None:
    for count in (255, 256, 300, 70_000):
        bounds = {f"$['{number}']": VariantValue("int32", number) for number in range(count)}
        raw = bounds_to_bytes(bounds)
        assert bounds_from_bytes(raw) == bounds
    assert raw[0] >> 6 == 2  # 3-byte offsets


def test_names_are_ordered_by_their_utf8_bytes() -> None:
    # UTF-16 order, which Java's strings have, puts the second before the first.
    raw = bounds_to_bytes({"\U0001d11e": ("null", None), "\ufffd": ("null", None)})
    assert raw.index("\ufffd".encode()) < raw.index("\U0001d11e".encode())


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        # TestMalformedVariant and TestSerializedMetadata (Java): what they refuse is refused here.
        ("", "too early"),
        ("01", "too early"),
        ("0200", "version 2"),
        ("020000", "version 2"),
        ("01ff", "its 255 elements"),
        ("d1000000", "too early"),
        ("c10000000000ffffffff", "not start at 0"),
        ("c1 00000000 ffffffff", "not start at 0"),
        ("c1 01000000 ffffffff 00000000", "not start at 0"),
        ("c1 00000020", "elements"),
        ("c1 ffffffff", "elements"),
        ("0100ff", "not start at 0"),
        ("0101 00ff 61", "a name of the dictionary"),
        ("0102 000503 4142434445", "a name of the dictionary"),
        ("010000", "too early"),
        ("010000 13 00001000 00", "elements"),
        ("010000 42 00001000 00", "elements"),
        ("010000 42 ffffffff", "elements"),
        ("010000 4e 33333333 ffff3f", "elements"),
        ("010000 1f 00000020 00", "elements"),
        ("010000 7e 00000020 00", "elements"),
        ("010000 02 01 05 00 01 00", "field id 5"),
        ("010000 03 01 ff 01 00", "too early"),
        ("010000 03 01 00 00", "too early"),
        ("010000 03 01 00 06 1300001000 00", "elements"),
        ("010000 40 ffffff7f", "longer than the data"),
        ("010000 40 00", "too early"),
        ("010000 1d", "longer than the data"),
        ("010000 54", "primitive type 21"),
        ("0101000161 02 01 00 32 00 00", "too early"),
        # and more of the kind
        ("010000 00 00", "after the end"),
        ("010000 0c", "longer than the data"),
        ("010000 08 00", "after the end"),
        ("010000 05 ff", "UTF-8"),
        ("010001 00", "not start at 0"),
        ("01010001ff 00", "UTF-8"),
        ("010000 44 ffffffffffffffff", "a time of -1"),
        ("010000 44 0060d71d14000000", "a time of 86400000000"),
        ("010000 20 2700000000", "38 digits"),
        ("010000 28 00 ffffffffffffffffffffffffffffff7f", "38 digits"),
        ("010000 02 00 05", "longer than the data"),
        ("010000 03 00 05", "longer than the data"),
        ("010000 03 02 00 02 01 00 00", "an element of an array"),
        ("0102000102 6161 02 02 0001 000102 0000", "two fields"),
    ],
)
def test_broken_variants_are_refused(raw: str, reason: str) -> None:
    with pytest.raises(InvalidMetadata, match=reason):
        from_bytes(bytes.fromhex(raw))


def test_bounds_are_an_object() -> None:
    with pytest.raises(InvalidMetadata, match="not int8"):
        bounds_from_bytes(EMPTY + b"\x0c\x01")


def test_values_may_share_their_bytes() -> None:
    # TestMalformedVariant.testSharedFieldOffsetsInObjectSucceeds
    raw = bytes.fromhex("0102000102 6162 02 02 0001 000001 00")
    assert bounds_from_bytes(raw) == {"a": ("null", None), "b": ("null", None)}


def test_shared_bytes_cannot_make_the_result_much_larger_than_the_input() -> None:
    # Each level is an object whose 200 fields are all the next level: 200 ** 8 values from 6 KiB.
    value = b"\x00"
    for _ in range(8):
        offsets = bytes(400) + struct.pack("<H", len(value))
        value = b"\x06\xc8" + bytes(range(200)) + offsets + value
    names = b"".join(f"{number:03}".encode() for number in range(200))
    metadata = b"\x41" + struct.pack("<H", 200) + struct.pack("<201H", *range(0, 601, 3)) + names
    with pytest.raises(LimitExceeded, match="share"):
        from_bytes(metadata + value)


def test_nesting_is_limited() -> None:
    def nested(depth: int) -> bytes:
        value = b"\x00"
        for _ in range(depth):
            value = bytes([0b1111, 1]) + struct.pack("<II", 0, len(value)) + value
        return EMPTY + value

    assert from_bytes(nested(variant.MAX_DEPTH)).kind == "array"
    with pytest.raises(LimitExceeded):
        from_bytes(nested(variant.MAX_DEPTH + 1))
    with pytest.raises(LimitExceeded):
        from_bytes(nested(2000))


# Round trips


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def decimals(draw: st.DrawFn, digits: int) -> Decimal:
    unscaled = draw(st.integers(0, 10**digits - 1))
    return Decimal(
        (
            draw(st.integers(0, 1)) if unscaled else 0,
            tuple(map(int, str(unscaled))),
            -draw(st.integers(0, 38)),
        )
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int8": ints(8),
    "int16": ints(16),
    "int32": ints(32),
    "int64": ints(64),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal4": decimals(9),
    "decimal8": decimals(18),
    "decimal16": decimals(38),
    "date": ints(32),
    "time": st.integers(0, DAY_MICROS - 1),
    "timestamp": ints(64),
    "timestamptz": ints(64),
    "timestamp_ns": ints(64),
    "timestamptz_ns": ints(64),
    "binary": st.binary(max_size=80),
    "string": TEXT,
    "uuid": st.uuids(),
}
PAIRS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: VALUES[kind].map(lambda value: VariantValue(kind, value))
)
BOUNDS = st.dictionaries(TEXT, PAIRS, max_size=6)


@given(BOUNDS)
def test_bounds_survive_their_bytes(bounds: dict[str, VariantValue]) -> None:
    raw = bounds_to_bytes(bounds)
    again = bounds_from_bytes(raw)
    assert again == bounds
    assert {path: repr(pair) for path, pair in again.items()} == {
        path: repr(pair) for path, pair in bounds.items()
    }
    assert bounds_to_bytes(again) == raw


@given(BOUNDS, st.data())
def test_damaged_bounds_are_read_or_refused(bounds: dict[str, VariantValue], data: st.DataObject) -> None:
    raw = bytearray(bounds_to_bytes(bounds))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for cut in (bytes(raw), bytes(raw[: data.draw(st.integers(0, len(raw)))])):
        try:
            bounds_from_bytes(cut)
        except InvalidMetadata:
            continue


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for start in (b"", EMPTY, A):
        try:
            from_bytes(start + raw)
        except InvalidMetadata:
            continue


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *[("int8", 128), ("int16", 2**15), ("int32", 2**31), ("int64", 2**63), ("int8", True), ("int8", 1.0)],
        *[("float", 1), ("float", 1e300), ("double", 1), ("date", 2**31), ("time", DAY_MICROS), ("time", -1)],
        *[("decimal4", Decimal(10**9)), ("decimal8", Decimal(10**18)), ("decimal16", Decimal(10**38))],
        *[
            ("decimal4", 1),
            ("decimal4", Decimal("NaN")),
            ("decimal4", Decimal("1E+2")),
            ("decimal4", Decimal("1E-39")),
        ],
        *[
            ("string", b"x"),
            ("string", "\ud800"),
            ("binary", "x"),
            ("uuid", "x"),
            ("null", 0),
            ("boolean", 1),
        ],
        *[("boolean", None), ("object", FrozenDict()), ("array", ()), ("int", 1), ("true", True), ("", None)],
        pytest.param("int64", 10**5000, id="an int without a text"),
    ],
)
def test_what_is_no_primitive_variant_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="not a primitive variant"):
        bounds_to_bytes({"$": (kind, value)})


@pytest.mark.parametrize("bounds", [{1: ("null", None)}, {"$": 1}, {"$": ("null",)}, {"$": ["null", None]}])
def test_bounds_are_pairs_by_path(bounds: dict[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="pairs"):
        bounds_to_bytes(bounds)


def test_a_path_is_unicode() -> None:
    with pytest.raises(InvalidInput, match="string"):
        bounds_to_bytes({"\ud800": ("null", None)})


@pytest.mark.parametrize(
    ("names", "path"),
    [
        # The spec, "Bounds for Variant"; TestPathUtil (Java) and RFC 9535, 2.7
        ([], "$"),
        (["event_type"], "$['event_type']"),
        (["user.name"], "$['user.name']"),
        (["location", "latitude"], "$['location']['latitude']"),
        (["a", "☃", "c"], "$['a']['☃']['c']"),
        (["a\U0001d11eb", "c"], "$['a\U0001d11eb']['c']"),
        (["a'b\n", "\x0cc"], "$['a\\'b\\n']['\\fc']"),
        (["a'b\x0b\n"], "$['a\\'b\\u000b\\n']"),
        (['\b\t\r\\"'], "$['\\b\\t\\r\\\\\"']"),
        (["\x00\x1f\x7f"], "$['\\u0000\\u001f\x7f']"),
    ],
)
def test_paths_are_normalized(names: list[str], path: str) -> None:
    assert variant.normalized_path(names) == path


def test_half_of_a_surrogate_pair_has_no_path() -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        variant.normalized_path(["a\ud834"])
