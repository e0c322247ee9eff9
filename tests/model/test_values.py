from __future__ import annotations

import datetime as dt
import json
import math
import struct
import uuid
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model import geo, temporal, value_bytes, value_json, values
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.geo import Point
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.model.variant import VariantValue

WKB = geo.wkt_to_wkb("POINT (30 10)")
EXAMPLE_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
PAIR = Struct((Field(4, "f1", INT, required=True), Field(5, "f2", STRING)))

# Strategies: a type, and canonical values of it


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PRIMITIVES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: ints(32),
    LONG: ints(64),
    FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    DATE: ints(32),
    TIME: st.integers(0, temporal.DAY_MICROS - 1),
    TIMESTAMP: ints(64),
    TIMESTAMPTZ: ints(64),
    TIMESTAMP_NS: ints(64),
    TIMESTAMPTZ_NS: ints(64),
    STRING: TEXT,
    UUID: st.uuids(),
    BINARY: st.binary(max_size=12),
}


def decimals(type_: Decimal) -> st.SearchStrategy[Exact]:
    limit = 10**type_.precision - 1
    return st.integers(-limit, limit).map(
        lambda number: Exact((number < 0, tuple(map(int, str(abs(number)))), -type_.scale))
    )


@st.composite
def typed_primitives(draw: st.DrawFn) -> tuple[Type, st.SearchStrategy[Any]]:
    precision = draw(st.integers(1, 38))
    parametrised: list[tuple[Type, st.SearchStrategy[Any]]] = [
        *PRIMITIVES.items(),
        (decimal := Decimal(precision, draw(st.integers(0, precision))), decimals(decimal)),
        (Fixed(3), st.binary(min_size=3, max_size=3)),
        (Geometry(), st.just(WKB)),
        (Geography(), st.just(WKB)),
    ]
    found: tuple[Type, st.SearchStrategy[Any]] = draw(st.sampled_from(parametrised))
    return found


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[Type, st.SearchStrategy[Any]]:
    shape = draw(st.sampled_from(["plain", "plain", "struct", "list", "map"] if depth else ["plain"]))
    type_, items = draw(typed_primitives() if shape == "plain" else typed_values(depth - 1))
    if shape == "struct":
        fields = Struct((Field(1, "a", type_, required=True), Field(7, "b", type_), Field(8, "c", STRING)))
        return fields, st.fixed_dictionaries(
            {1: items}, optional={7: st.none() | items, 8: st.none() | TEXT}
        ).map(FrozenDict)
    if shape == "list":
        return List(3, type_), st.lists(st.none() | items, max_size=3).map(tuple)
    if shape == "map":
        key, keys = draw(typed_primitives())
        return Map(4, key, 5, type_), st.lists(
            st.tuples(keys, st.none() | items), max_size=3, unique_by=lambda pair: pair[0]
        ).map(tuple)
    return type_, items


# Binary

# TestConversions.testByteBufferConversions (Java); the uuid is the spec's example in Appendix B.
JAVA_BYTES: list[tuple[Type, Any, str]] = [
    (BOOLEAN, False, "00"),
    (BOOLEAN, True, "01"),
    (INT, 84202, "ea480100"),
    (LONG, 200, "c800000000000000"),
    (FLOAT, -4.5, "000090c0"),
    (DOUBLE, 6.0, "0000000000001840"),
    (DATE, 1000, "e8030000"),
    (TIME, 10000, "1027000000000000"),
    (TIMESTAMP, 400000, "801a060000000000"),
    (TIMESTAMPTZ, 400000, "801a060000000000"),
    (TIMESTAMP_NS, 400000000, "0084d71700000000"),
    (TIMESTAMPTZ_NS, 400000000, "0084d71700000000"),
    (STRING, "ABC", "414243"),
    (UUID, EXAMPLE_UUID, "f79c3e09677c4bbda4793f349cb785e7"),
    (Fixed(2), b"ab", "6162"),
    (BINARY, b"Z", "5a"),
    (Decimal(3, 2), Exact("3.45"), "0159"),
    (Decimal(7, 4), Exact("123.4567"), "12d687"),
    (Decimal(7, 4), Exact("-123.4567"), "ed2979"),
    (Decimal(10, 3), Exact("0.011"), "0b"),
]


@pytest.mark.parametrize(("type_", "value", "raw"), JAVA_BYTES, ids=str)
def test_bytes_are_those_of_java(type_: Type, value: Any, raw: str) -> None:
    assert value_bytes.to_bytes(type_, value).hex() == raw
    assert value_bytes.bound_to_bytes(type_, value).hex() == raw
    found = value_bytes.from_bytes(type_, bytes.fromhex(raw))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "0080"),
        (-128, "80"),
        (-129, "ff7f"),
        (255, "00ff"),
        (-1, "ff"),
        (-256, "ff00"),
    ],
)
def test_decimals_take_the_fewest_bytes(value: int, raw: str) -> None:
    assert value_bytes.to_bytes(Decimal(9, 0), Exact(value)).hex() == raw
    # Any number of bytes is read: other writers pad.
    for padding in ("", "00" * 20 if value >= 0 else "ff" * 20):
        assert value_bytes.from_bytes(Decimal(9, 0), bytes.fromhex(padding + raw)) == Exact(value)


@given(st.data())
def test_values_survive_their_bytes(data: st.DataObject) -> None:
    type_, strategy = data.draw(typed_primitives())
    value = data.draw(strategy)
    raw = value_bytes.to_bytes(type_, value)
    again = value_bytes.from_bytes(type_, raw)
    assert repr(again) == repr(value)
    values.check_value(type_, again)
    if not isinstance(type_, Geometry | Geography):
        assert repr(value_bytes.bound_from_bytes(type_, value_bytes.bound_to_bytes(type_, value))) == repr(
            value
        )


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0])
def test_special_numbers_survive_their_bytes(type_: Type, value: float) -> None:
    assert repr(value_bytes.from_bytes(type_, value_bytes.to_bytes(type_, value))) == repr(value)


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        # The table of promoted types in the spec, "Schema Evolution"
        (LONG, "feffffff", -2),
        (DOUBLE, "000090c0", -4.5),
        (TIMESTAMP, "01000000", 86_400_000_000),
        (TIMESTAMP, "ffffffff", -86_400_000_000),
        (TIMESTAMP_NS, "01000000", 86_400_000_000_000),
        (BOOLEAN, "02", True),
        (Decimal(20, 2), "0159", Exact("3.45")),
    ],
)
def test_values_from_before_a_promotion_are_read(type_: Type, raw: str, value: Any) -> None:
    found = value_bytes.bound_from_bytes(type_, bytes.fromhex(raw))
    assert repr(found) == repr(value)


@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMP_NS])
def test_a_promoted_date_may_be_out_of_range(type_: Type) -> None:
    with pytest.raises(InvalidMetadata, match="not from"):
        value_bytes.from_bytes(type_, struct.pack("<i", 2**31 - 1))


@pytest.mark.parametrize(
    ("type_", "sizes"),
    [
        (BOOLEAN, {1}),
        (INT, {4}),
        (DATE, {4}),
        (FLOAT, {4}),
        (LONG, {4, 8}),
        (DOUBLE, {4, 8}),
        (TIME, {8}),
        (TIMESTAMP, {4, 8}),
        (TIMESTAMP_NS, {4, 8}),
        # A date cannot be promoted to a type with a zone.
        (TIMESTAMPTZ, {8}),
        (TIMESTAMPTZ_NS, {8}),
        (UUID, {16}),
        (Fixed(5), {5}),
        (Decimal(5, 2), set(range(1, 20))),
        (VARIANT, set()),
        (UNKNOWN, set()),
        (PAIR, set()),
    ],
    ids=str,
)
def test_other_lengths_are_refused(type_: Type, sizes: set[int]) -> None:
    for size in range(20):
        if size in sizes:
            value_bytes.from_bytes(type_, bytes(size))
        else:
            with pytest.raises(InvalidMetadata) as caught:
                value_bytes.from_bytes(type_, bytes(size))
            assert str(size) in str(caught.value)
            assert str(type_) in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        (STRING, "ff"),
        (STRING, "eda080"),  # a surrogate
        (TIME, "0060d71d14000000"),  # 24:00
        (TIME, "ffffffffffffffff"),
        (Decimal(2, 0), "64"),  # 100
        (Decimal(2, 0), "9c"),  # -100
        (Decimal(38, 0), "7f" + "ff" * 10_000),
    ],
)
def test_bytes_out_of_range_are_refused(type_: Type, raw: str) -> None:
    with pytest.raises(InvalidMetadata):
        value_bytes.from_bytes(type_, bytes.fromhex(raw))


@given(st.data(), st.binary(max_size=20))
def test_any_bytes_are_read_or_refused(data: st.DataObject, raw: bytes) -> None:
    type_ = data.draw(typed_primitives())[0]
    for read in (value_bytes.from_bytes, value_bytes.bound_from_bytes):
        try:
            found = read(type_, raw)
        except InvalidMetadata:
            continue
        if not isinstance(type_, Geometry | Geography | Fixed):
            values.check_value(type_, found)


def test_null_has_no_bytes() -> None:
    with pytest.raises(InvalidInput, match="no binary form for None"):
        value_bytes.to_bytes(INT, None)
    with pytest.raises(InvalidInput, match="no binary form"):
        value_bytes.to_bytes(PAIR, FrozenDict({4: 1}))


# Bounds


@pytest.mark.parametrize("type_", [Geometry(), Geography(), Geometry("EPSG:3857")], ids=str)
def test_bounds_of_geometry_are_points(type_: Type) -> None:
    raw = struct.pack("<4d", 10, 13, math.nan, 20)
    assert value_bytes.bound_from_bytes(type_, raw) == Point(10, 13, None, 20)
    assert value_bytes.bound_to_bytes(type_, Point(10, 13, None, 20)) == raw
    with pytest.raises(InvalidInput, match="is a Point"):
        value_bytes.bound_to_bytes(type_, WKB)
    assert value_bytes.to_bytes(type_, WKB) == value_bytes.from_bytes(type_, WKB) == WKB


def test_bounds_of_variant_are_values_by_path() -> None:
    bounds = FrozenDict({"$['a']": VariantValue("int8", 5)})
    raw = value_bytes.bound_to_bytes(VARIANT, bounds)
    assert raw.hex() == "1101" + "0006" + b"$['a']".hex() + "0201" + "00" + "0002" + "0c05"
    assert value_bytes.bound_from_bytes(VARIANT, raw) == bounds
    with pytest.raises(InvalidInput):
        value_bytes.bound_to_bytes(VARIANT, 5)


def test_bounds_of_fixed_may_be_truncated() -> None:
    assert value_bytes.bound_from_bytes(Fixed(4), b"ab") == b"ab"
    assert value_bytes.bound_to_bytes(Fixed(4), b"ab") == b"ab"
    with pytest.raises(InvalidMetadata):
        value_bytes.bound_from_bytes(Fixed(4), b"abcde")
    with pytest.raises(InvalidInput):
        value_bytes.bound_to_bytes(Fixed(4), b"abcde")


# JSON

# The values of testValidDefaults in TestSingleValueParser (Java), and what it writes of them.
JAVA_JSON: list[tuple[Type, str, str]] = [
    (BOOLEAN, "null", "null"),
    (BOOLEAN, "true", "true"),
    (INT, "1", "1"),
    (LONG, "9999999", "9999999"),
    (FLOAT, "1.23", "1.23"),
    (DOUBLE, "123.456", "123.456"),
    (DATE, '"2007-12-03"', '"2007-12-03"'),
    (TIME, '"10:15:30"', '"10:15:30"'),
    (TIMESTAMP, '"2007-12-03T10:15:30"', '"2007-12-03T10:15:30"'),
    (TIMESTAMPTZ, '"2007-12-03T10:15:30+00:00"', '"2007-12-03T10:15:30+00:00"'),
    (TIMESTAMP_NS, '"2007-12-03T10:15:30.123456789"', '"2007-12-03T10:15:30.123456789"'),
    (TIMESTAMPTZ_NS, '"2007-12-03T10:15:30.123456789+00:00"', '"2007-12-03T10:15:30.123456789+00:00"'),
    (STRING, '"foo"', '"foo"'),
    (UUID, '"eb26bdb1-a1d8-4aa6-990e-da940875492c"', '"eb26bdb1-a1d8-4aa6-990e-da940875492c"'),
    (Fixed(2), '"111f"', '"111f"'),
    (BINARY, '"0000ff"', '"0000ff"'),
    (Decimal(9, 4), '"123.4500"', '"123.4500"'),
    (Decimal(9, 0), '"2"', '"2"'),
    (Decimal(9, -20), '"2E+20"', '"2E+20"'),
    (Decimal(9, -20), '"12E20"', '"12E+20"'),
    (Decimal(2, 5), '"0.00012"', '"0.00012"'),
    (List(1, INT), "[1, 2, 3]", "[1, 2, 3]"),
    (
        Map(2, INT, 3, STRING),
        '{"keys": [1, 2], "values": ["foo", "bar"]}',
        '{"keys": [1, 2], "values": ["foo", "bar"]}',
    ),
    (PAIR, '{"4": 1, "5": "bar"}', '{"4": 1, "5": "bar"}'),
    (
        List(6, PAIR),
        '[{"4": 1, "5": "bar"}, {"4": 2, "5": "foo"}]',
        '[{"4": 1, "5": "bar"}, {"4": 2, "5": "foo"}]',
    ),
    (
        Map(9, INT, 10, PAIR),
        '{"keys": [1, 2], "values": [{"4": 1, "5": "bar"}, {"4": 2, "5": "foo"}]}',
        '{"keys": [1, 2], "values": [{"4": 1, "5": "bar"}, {"4": 2, "5": "foo"}]}',
    ),
    (
        Struct((Field(13, "f1", PAIR, required=True), Field(16, "f2", Struct((Field(17, "x", STRING),))))),
        '{"13": {"4": 1, "5": "bar"}, "16": {"17": "bar"}}',
        '{"13": {"4": 1, "5": "bar"}, "16": {"17": "bar"}}',
    ),
    # The table of the spec
    (INT, "34", "34"),
    (DOUBLE, "1.0", "1.0"),
    (Decimal(4, 2), '"14.20"', '"14.20"'),
    (TIME, '"22:31:08.123456"', '"22:31:08.123456"'),
    (UUID, '"F79C3E09-677C-4BBD-A479-3F349CB785E7"', '"f79c3e09-677c-4bbd-a479-3f349cb785e7"'),
    (Fixed(4), '"000102FF"', '"000102ff"'),
    (BINARY, '"000102ff"', '"000102ff"'),
    (Geometry(), '"POINT (30 10)"', '"POINT (30 10)"'),
    (Geography(), '"POINT(30 10)"', '"POINT (30 10)"'),
    # The default of a struct: its fields are not given, and have defaults of their own
    (PAIR, "{}", "{}"),
    (DOUBLE, "3", "3.0"),
    (TIMESTAMPTZ, '"2007-12-03T10:15:30Z"', '"2007-12-03T10:15:30+00:00"'),
    (
        Decimal(38, 0),
        '"-99999999999999999999999999999999999999"',
        '"-99999999999999999999999999999999999999"',
    ),
    (
        Decimal(38, 38),
        '"0.00000000000000000000000000000000000001"',
        '"0.00000000000000000000000000000000000001"',
    ),
]


@pytest.mark.parametrize(("type_", "text", "written"), JAVA_JSON, ids=str)
def test_json_is_that_of_java(type_: Type, text: str, written: str) -> None:
    value = value_json.from_json(type_, json.loads(text), "default")
    values.check_value(type_, value)
    assert json.dumps(value_json.to_json(type_, value)) == written


def test_json_values_are_canonical() -> None:
    read = value_json.from_json
    assert read(FLOAT, 1.23, "") == struct.unpack("<f", struct.pack("<f", 1.23))[0]
    assert repr(read(Decimal(9, 4), "123.4500", "")) == "Decimal('123.4500')"
    assert read(TIMESTAMP, "1970-01-02T00:00:00", "") == temporal.DAY_MICROS
    assert read(PAIR, {"5": "x"}, "") == FrozenDict({5: "x"})
    assert isinstance(read(PAIR, {}, ""), FrozenDict)
    assert read(Map(1, INT, 2, INT), {"keys": [1], "values": [None]}, "") == ((1, None),)
    assert read(List(1, INT), [1, None], "") == (1, None)
    assert read(Geometry(), "POINT (30 10)", "") == WKB


@given(st.data())
def test_values_survive_json(data: st.DataObject) -> None:
    type_, strategy = data.draw(typed_values())
    value = data.draw(strategy)
    values.check_value(type_, value)
    text = json.dumps(value_json.to_json(type_, value), allow_nan=False)
    again = value_json.from_json(type_, json.loads(text), "x")
    assert again == value
    assert hash(again) == hash(value)
    assert json.dumps(value_json.to_json(type_, again)) == text  # -0.0 is still not 0.0


@pytest.mark.parametrize(
    "type_", [*PRIMITIVES, Decimal(5, 2), Fixed(1), PAIR, List(1, INT), UNKNOWN, VARIANT], ids=str
)
def test_null_is_null(type_: Type) -> None:
    assert value_json.from_json(type_, None, "x") is None
    assert value_json.to_json(type_, None) is None
    assert values.coerce(type_, None) is None
    values.check_value(type_, None)


def each(type_: Type, raws: list[Any]) -> list[tuple[Type, Any]]:
    return [(type_, raw) for raw in raws]


NESTED = Map(1, INT, 2, List(3, INT, element_required=True))


@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        *each(BOOLEAN, [0, 1, "true", 1.0, []]),
        *each(INT, [True, 1.0, 2**31, -(2**31) - 1, "1", [1], 10**5000]),
        *each(LONG, [True, 1.0, 2**63, -(2**63) - 1, "1"]),
        *each(FLOAT, [True, "1.0", math.nan, math.inf, 1e39, 10**40, 10**400]),
        *each(DOUBLE, [False, "1.0", math.nan, -math.inf, 10**400]),
        *each(DATE, [1, "2007-13-01", "+5881580-07-12", "x"]),
        *each(TIME, [1, "24:00:00", "10:15:30Z"]),
        *each(TIMESTAMP, [1, "2007-12-03T10:15:30+00:00", "+294247-01-10T04:00:54.775808"]),
        *each(TIMESTAMPTZ, ["2007-12-03T10:15:30+01:00", "2007-12-03T10:15:30"]),
        *each(TIMESTAMPTZ_NS, ["2007-12-03T10:15:30+01:00", "2262-04-11T23:47:16.854775808Z"]),
        *each(STRING, [1, b"x", "\ud800", ["x"]]),
        *each(UUID, ["eb26bdb1-a1d8-4aa6-990e-da940875492c-abcde", "f" * 32, 1, "{" + "f" * 35]),
        *each(Fixed(2), ["111ff", "11", "111f11", "zz11", "11 f", 1]),
        *each(BINARY, ["0", "0x00", "00 00", 1]),
        *each(Decimal(5, 2), [123.456, 1, "123.456", "1.2", "1", "1234.56", "x", "NaN", "1_0.00", ""]),
        *each(Decimal(5, 2), [" 1.00", "1.00\n", "٣.00", "Infinity", "1E999999999", "1" * 10_000]),
        *each(UNKNOWN, [1, "x", {}]),
        *each(VARIANT, [1, "x", {}]),
        *each(Geometry(), [1, "x", "POINT (1)", {}]),
        *each(List(1, INT), [1, {}, ["x"], "12"]),
        *each(List(1, INT, element_required=True), [[None], [1, None]]),
        *each(NESTED, [[], {}, {"keys": [1]}, {"keys": [1], "values": []}, {"keys": 1, "values": []}]),
        *[(NESTED, {"keys": [None], "values": [[]]}), (NESTED, {"keys": [1, 1], "values": [[], []]})],
        (NESTED, {"keys": [1], "values": [[None]]}),
        *each(PAIR, [[], {"f1": 1}, {"9": 1}, {"4": "x"}, {"4": None}, {4: 1}]),
    ],
    ids=lambda item: str(item)[:30] if not isinstance(item, int) else "int",
)
def test_other_json_is_refused_and_the_place_named(type_: Type, raw: Any) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        value_json.from_json(type_, raw, "fields[3].initial-default")
    assert caught.value.field is not None
    assert caught.value.field.startswith("fields[3].initial-default")


def test_errors_name_the_place_inside_a_nested_value() -> None:
    with pytest.raises(InvalidMetadata, match=r"^default\[1\]\.4: 'x' is not a JSON value of type int"):
        value_json.from_json(List(1, PAIR), [{}, {"4": "x"}], "default")


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_cannot_hold_every_float(type_: Type, value: float) -> None:
    with pytest.raises(InvalidInput, match="JSON has no form"):
        value_json.to_json(type_, value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["00", "1.00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["1", "7", "8", "keys", "values"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(typed_values(), JSON)
def test_any_json_is_read_or_refused(typed: tuple[Type, Any], raw: Any) -> None:
    try:
        found = value_json.from_json(typed[0], raw, "x")
    except InvalidMetadata:
        return
    values.check_value(typed[0], found)


# Checking


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *[
            (BOOLEAN, 1),
            (INT, True),
            (INT, 2**31),
            (INT, 1.0),
            (INT, np.int32(1)),
            (LONG, -(2**63) - 1),
            (DATE, "x"),
        ],
        *[
            (TIME, -1),
            (TIME, temporal.DAY_MICROS),
            (TIMESTAMP, 2**63),
            (FLOAT, 1),
            (FLOAT, 1.1),
            (FLOAT, 1e300),
        ],
        *[(DOUBLE, 1), (STRING, b"x"), (STRING, "\udfff"), (UUID, str(EXAMPLE_UUID)), (BINARY, "x")],
        *[(BINARY, bytearray(b"x")), (Fixed(2), b"x"), (Fixed(2), b"xyz"), (VARIANT, 1), (UNKNOWN, 1)],
        *each(
            Decimal(3, 1),
            [
                Exact(1),
                Exact("1.00"),
                Exact("100.0"),
                1.0,
                1,
                Exact("NaN"),
                Exact("Infinity"),
                Exact("sNaN"),
            ],
        ),
        *[(Geometry(), "POINT (1 2)"), (Geometry(), b"x"), (PAIR, {4: 1}), (PAIR, FrozenDict({6: 1}))],
        *[(PAIR, FrozenDict({4: None})), (PAIR, FrozenDict({"4": 1})), (PAIR, FrozenDict({4: "x"}))],
        *[(List(1, INT), [1]), (List(1, INT), ("x",)), (List(1, INT, element_required=True), (None,))],
        *each(Map(1, INT, 2, INT), [{1: 1}, ((1,),), ([1, 1],), ((None, 1),), ((1, 1), (1, 2))]),
        pytest.param(INT, 10**5000, id="an int without a text"),
    ],
    ids=str,
)
def test_what_is_not_canonical_is_refused(type_: Type, value: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a value of type"):
        values.check_value(type_, value)
    with pytest.raises(InvalidInput):
        value_bytes.to_bytes(type_, value)
    with pytest.raises(InvalidInput):
        value_json.to_json(type_, value)


def test_a_fault_says_where_it_is() -> None:
    with pytest.raises(InvalidInput, match="element: f1: not from -2147483648 to 2147483647"):
        values.check_value(List(1, PAIR), (FrozenDict({4: 2**31}),))


# Values from users


UTC = dt.UTC
NAIVE = dt.datetime(2017, 11, 16, 22, 31, 8, 123456)  # noqa: DTZ001
MICROS = 1510871468123456


@pytest.mark.parametrize(
    ("type_", "given_value", "value"),
    [
        *[(BOOLEAN, np.bool(1), True), (INT, np.int64(5), 5), (INT, 5.0, 5), (LONG, np.float64(-7), -7)],
        *[(FLOAT, 1.1, 1.100000023841858), (FLOAT, 1, 1.0), (FLOAT, np.float32(1.1), 1.100000023841858)],
        *[
            (DOUBLE, 3, 3.0),
            (DOUBLE, np.float64(1.1), 1.1),
            (DOUBLE, math.inf, math.inf),
            (FLOAT, -math.inf, -math.inf),
        ],
        *[
            (Decimal(5, 2), 1, Exact("1.00")),
            (Decimal(5, 2), "1.5", Exact("1.50")),
            (Decimal(5, 2), Exact("1.5000"), Exact("1.50")),
        ],
        *[
            (Decimal(5, 2), "1E2", Exact("100.00")),
            (Decimal(5, 2), Exact("-0"), Exact("0.00")),
            (Decimal(5, 2), "-1", Exact("-1.00")),
        ],
        *[
            (Decimal(2, 2), ".5", Exact("0.50")),
            (Decimal(38, 0), 10**37, Exact(10**37)),
            (Decimal(5, 2), np.int8(3), Exact("3.00")),
        ],
        *[
            (DATE, dt.date(1970, 1, 2), 1),
            (DATE, "1970-01-02", 1),
            (DATE, 1, 1),
            (DATE, np.datetime64("1970-01-02"), 1),
        ],
        *[(TIME, dt.time(0, 0, 1), 10**6), (TIME, "00:00:01", 10**6), (TIME, 7, 7)],
        *[(TIMESTAMP, NAIVE, MICROS), (TIMESTAMP, NAIVE.isoformat(), MICROS), (TIMESTAMP, MICROS, MICROS)],
        *[(TIMESTAMP, np.datetime64(NAIVE), MICROS), (TIMESTAMP, np.datetime64(NAIVE, "ns"), MICROS)],
        *[(TIMESTAMP, np.datetime64("1970-01-01T00:00:10", "ns"), 10**7)],
        *[
            (TIMESTAMP_NS, np.datetime64("1970-01-01T00:00:00.000000001"), 1),
            (TIMESTAMP_NS, NAIVE, MICROS * 1000),
        ],
        *[
            (TIMESTAMPTZ, NAIVE.replace(tzinfo=UTC), MICROS),
            (TIMESTAMPTZ_NS, NAIVE.replace(tzinfo=UTC), MICROS * 1000),
        ],
        (TIMESTAMPTZ, NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), MICROS - 7200 * 10**6),
        (TIMESTAMPTZ, "2017-11-16T22:31:08.123456+02:00", MICROS - 7200 * 10**6),
        *[(STRING, "x", "x"), (STRING, np.str_("x"), "x"), (UUID, EXAMPLE_UUID, EXAMPLE_UUID)],
        *[(UUID, str(EXAMPLE_UUID).upper(), EXAMPLE_UUID), (UUID, EXAMPLE_UUID.bytes, EXAMPLE_UUID)],
        *[
            (BINARY, bytearray(b"x"), b"x"),
            (BINARY, memoryview(b"x"), b"x"),
            (Fixed(1), bytearray(b"x"), b"x"),
        ],
        *[(Geometry(), "POINT (30 10)", WKB), (Geography(), bytearray(WKB), WKB), (Geometry(), WKB, WKB)],
        *[(List(1, LONG), [1, None, 2.0], (1, None, 2)), (List(1, DATE), ["1970-01-02"], (1,))],
        *[
            (Map(1, STRING, 2, DATE), {"a": "1970-01-02"}, (("a", 1),)),
            (Map(1, INT, 2, INT), [[1, 2]], ((1, 2),)),
        ],
        *[(PAIR, {"f1": 1.0, 5: "x"}, FrozenDict({4: 1, 5: "x"})), (PAIR, {}, FrozenDict())],
    ],
    ids=str,
)
def test_natural_values_are_accepted(type_: Type, given_value: Any, value: Any) -> None:
    found = values.coerce(type_, given_value)
    assert repr(found) == repr(value)
    assert type(found) is type(value)
    values.check_value(type_, found)


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (BOOLEAN, 1, "a bool"),
        (INT, True, "32 bits"),
        (INT, 1.5, "32 bits"),
        (INT, "1", "32 bits"),
        (INT, 2**31, "32 bits"),
        (LONG, 2.0**60, "64 bits"),
        (LONG, math.nan, "64 bits"),
        (FLOAT, 1e300, "too large"),
        (FLOAT, 10**400, "a float or an int"),
        (DOUBLE, True, "a float or an int"),
        (DOUBLE, 10**400, "a float or an int"),
        (DOUBLE, "1", "a float or an int"),
        (Decimal(5, 2), 1.5, "a Decimal"),
        (Decimal(5, 2), True, "a Decimal"),
        (Decimal(5, 2), "1.234", "a Decimal"),
        (Decimal(5, 2), 1000, "no more digits"),
        (Decimal(5, 2), "1E999999999", "no more digits"),
        (Decimal(5, 2), "1E-999999999", "no more digits"),
        (Decimal(5, 2), Exact("NaN"), "a Decimal"),
        (Decimal(5, 2), "x", "a Decimal"),
        (DATE, NAIVE, "datetime.date"),
        (DATE, 2**31, "datetime.date"),
        (DATE, "x", "Write it as"),
        (TIMESTAMP, dt.date(2020, 1, 1), "without a time zone"),
        (TIMESTAMP, NAIVE.replace(tzinfo=UTC), "Remove the time zone"),
        (TIMESTAMPTZ, NAIVE, "Give it a time zone"),
        (TIMESTAMPTZ, 1.5, "with a time zone"),
        (TIMESTAMP_NS, dt.datetime(9999, 1, 1), "without a time zone"),  # noqa: DTZ001
        (TIMESTAMP, np.datetime64("NaT"), "Write it as"),
        (TIMESTAMP, np.datetime64("1970-01-01T00:00:00.000000001"), "6 digits"),
        (TIME, dt.timedelta(1), "datetime.time"),
        (TIME, NAIVE, "datetime.time"),
        (STRING, 1, "a str"),
        (STRING, b"x", "a str"),
        (STRING, "\ud800", "surrogate"),
        (UUID, "x", "uuid.UUID"),
        (UUID, b"x", "uuid.UUID"),
        (BINARY, "x", "bytes"),
        (Fixed(2), b"x", "as many"),
        (Geometry(), "x", "well-known text"),
        (Geometry(), b"x", "well-known"),
        (List(1, INT), 1, "a list"),
        (List(1, INT), "12", "a list"),
        (List(1, INT), np.array([1]), "a list"),
        (List(1, INT), ["x"], "32 bits"),
        (Map(1, INT, 2, INT), [1], "a mapping"),
        (Map(1, INT, 2, INT), [(1, 2, 3)], "a mapping"),
        (Map(1, INT, 2, INT), {None: 1}, "required"),
        (PAIR, {"f3": 1}, "no field 'f3'"),
        (PAIR, [1], "a mapping"),
        (PAIR, {"f1": None}, "required"),
        (UNKNOWN, 1, "null only"),
        (VARIANT, {"a": 1}, "null only"),
    ],
    ids=lambda item: str(item)[:30] if not isinstance(item, int) else "int",
)
def test_what_is_accepted_is_said(type_: Type, value: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        values.coerce(type_, value)


@given(st.data())
def test_canonical_values_are_accepted_as_they_are(data: st.DataObject) -> None:
    type_, strategy = data.draw(typed_values())
    value = data.draw(strategy)
    assert repr(values.coerce(type_, value)) == repr(value)


@given(typed_values(), JSON | st.decimals() | st.datetimes() | st.binary(max_size=4) | st.dates())
def test_whatever_is_accepted_is_canonical(typed: tuple[Type, Any], value: Any) -> None:
    try:
        found = values.coerce(typed[0], value)
    except InvalidInput:
        return
    values.check_value(typed[0], found)


# Truncated bounds


@pytest.mark.parametrize(
    ("value", "length", "lower", "upper"),
    [
        ("iceberg", 3, "ice", "icf"),
        ("iceberg", 7, "iceberg", "iceberg"),
        ("", 1, "", ""),
        ("ab\U0010ffffx", 3, "ab\U0010ffff", "ac"),
        ("\U0010ffff\U0010ffffx", 2, "\U0010ffff\U0010ffff", None),
        ("a\ud7ffx", 2, "a\ud7ff", "a\ue000"),
        # Code points are counted, not UTF-16 units
        ("\U0001d11e\U0001d11ex", 2, "\U0001d11e\U0001d11e", "\U0001d11e\U0001d11f"),
        (b"\x01\x02\x03", 2, b"\x01\x02", b"\x01\x03"),
        (b"\x01\xff\x03", 2, b"\x01\xff", b"\x02"),
        (b"\xff\xff\x03", 2, b"\xff\xff", None),
        (b"\xff\xff", 2, b"\xff\xff", b"\xff\xff"),
    ],
)
def test_bounds_are_truncated(value: Any, length: int, lower: Any, upper: Any) -> None:
    type_ = STRING if isinstance(value, str) else BINARY
    assert value_bytes.truncate_lower(type_, value, length) == lower
    assert value_bytes.truncate_upper(type_, value, length) == upper


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 5))
@example("\U0010ffff\U0010ffff", 1)
@example("\ud7ff\ud7ff", 1)
def test_a_truncated_string_still_bounds_the_value(value: str, length: int) -> None:
    lower, upper = (
        value_bytes.truncate_lower(STRING, value, length),
        value_bytes.truncate_upper(STRING, value, length),
    )
    raw = value.encode()
    assert lower.encode() <= raw
    assert len(lower) <= length
    if upper is None:
        assert set(value[:length]) == {"\U0010ffff"}
        return
    assert upper.encode() >= raw
    assert len(upper) <= length
    # As tight as can be: there is no room between the prefix and the bound.
    assume(len(value) > length)
    assert value_bytes.truncate_lower(STRING, value, length).encode() < upper.encode()


@given(st.binary(), st.integers(1, 5))
@example(b"\xff\xff", 1)
def test_truncated_bytes_still_bound_the_value(value: bytes, length: int) -> None:
    for type_ in (BINARY, Fixed(len(value))):
        assert value_bytes.truncate_lower(type_, value, length) <= value
        upper = value_bytes.truncate_upper(type_, value, length)
        if upper is None:
            assert set(value[:length]) == {255}
        else:
            assert upper >= value
            assert len(upper) <= length
            assert value_bytes.bound_from_bytes(type_, value_bytes.bound_to_bytes(type_, upper)) == upper


@pytest.mark.parametrize(
    ("type_", "value", "length"),
    [
        (STRING, "x", 0),
        (BINARY, b"x", -1),
        (INT, 1, 1),
        (STRING, b"x", 1),
        (BINARY, "x", 1),
        (STRING, None, 1),
    ],
)
def test_nothing_else_is_truncated(type_: Type, value: Any, length: int) -> None:
    for truncate in (value_bytes.truncate_lower, value_bytes.truncate_upper):
        with pytest.raises(InvalidInput, match="cannot truncate"):
            truncate(type_, value, length)
