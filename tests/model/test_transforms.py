"""Transforms of single values: names, types, results, and how partition values are written."""

from __future__ import annotations

import decimal
import itertools
import math
import uuid
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model import transforms, types
from lakeplane.model.temporal import parse_date, parse_time, parse_timestamp
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    parse_transform,
)

TEMPORAL: set[types.Type] = {types.DATE, *types.TIMESTAMPS}
PRIMITIVES: set[types.Type] = {*types.Primitive, types.Decimal(9, 2), types.Fixed(3)} - {types.VARIANT}
OTHERS: set[types.Type] = {
    types.VARIANT,
    types.Geometry(),
    types.Geography(),
    types.Struct(()),
    types.List(1, types.INT),
    types.Map(1, types.INT, 2, types.INT),
}
# The spec's table of source types.
ACCEPTED: dict[Transform, set[types.Type]] = {
    Identity(): PRIMITIVES,
    Bucket(4): PRIMITIVES - {types.UNKNOWN, types.BOOLEAN, types.FLOAT, types.DOUBLE},
    Truncate(4): {types.INT, types.LONG, types.Decimal(9, 2), types.STRING, types.BINARY},
    Year(): TEMPORAL,
    Month(): TEMPORAL,
    Day(): TEMPORAL,
    Hour(): TEMPORAL - {types.DATE},
    Void(): PRIMITIVES | OTHERS,
    UnknownTransform("zorder"): PRIMITIVES | OTHERS,
}
ALL: list[Transform] = list(ACCEPTED)
CALENDAR: list[Transform] = [Year(), Month(), Day(), Hour()]


def micros(text: str) -> int:
    return parse_timestamp(text, nanos=False, zoned=False)


def nanos(text: str) -> int:
    return parse_timestamp(text, nanos=True, zoned=False)


@pytest.mark.parametrize("transform", ALL, ids=str)
def test_a_name_reads_as_the_transform_that_it_names(transform: Transform) -> None:
    assert parse_transform(str(transform)) == transform


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IDENTITY", Identity()),
        (" Year ", Year()),
        ("bucket[16]", Bucket(16)),
        ("Bucket [ 016 ]", Bucket(16)),
        ("TRUNCATE[4]\n", Truncate(4)),
        ("bucket[2147483647]", Bucket(2**31 - 1)),
    ],
)
def test_case_and_whitespace_are_forgiven(text: str, expected: Transform) -> None:
    assert parse_transform(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  zorder[1, 2] ",
        "bucket",
        "bucket[]",
        "bucket[0]",
        "bucket[-1]",
        "truncate[0]",
        "truncate[2147483648]",
        "bucket[" + "9" * 5000 + "]",
        "bucket[\N{ARABIC-INDIC DIGIT FOUR}]",
        "days",
        "bucket[4][4]",
    ],
)
def test_metadata_with_other_transforms_stays_readable(text: str) -> None:
    unknown = parse_transform(text)
    assert unknown == UnknownTransform(text)
    assert str(unknown) == text
    assert transforms.result_type(unknown, types.INT) is types.STRING
    with pytest.raises(InvalidInput, match="not known"):
        transforms.apply(unknown, types.INT, 1)


@pytest.mark.parametrize("number", [0, -1, 2**31])
@pytest.mark.parametrize("kind", [Bucket, Truncate])
def test_an_impossible_parameter_cannot_be_constructed(kind: type[Bucket | Truncate], number: int) -> None:
    with pytest.raises(InvalidInput, match="must be 1 to 2147483647"):
        kind(number)


def test_transforms_are_values() -> None:
    assert len({Bucket(4), Bucket(4), Bucket(5), Truncate(4), Year(), Year(), Month()}) == 5
    with pytest.raises(AttributeError):
        Bucket(4).n = 5  # type: ignore[misc]
    assert msgspec.structs.asdict(Truncate(7)) == {"width": 7}


@pytest.mark.parametrize("transform", ALL, ids=str)
def test_source_types_are_those_of_the_spec(transform: Transform) -> None:
    for type_ in PRIMITIVES | OTHERS:
        assert transforms.accepts(transform, type_) == (type_ in ACCEPTED[transform]), type_
        if type_ not in ACCEPTED[transform]:
            with pytest.raises(InvalidInput, match="does not apply to"):
                transforms.apply(transform, type_, None)


@pytest.mark.parametrize("transform", ALL[:-1], ids=str)
def test_null_becomes_null(transform: Transform) -> None:
    for type_ in ACCEPTED[transform]:
        assert transforms.apply(transform, type_, None) is None
        assert transforms.to_human(transform, type_, None) == "null"


def test_result_types() -> None:
    for transform, sources in ACCEPTED.items():
        for source in sources:
            result = transforms.result_type(transform, source)
            match transform:
                case Identity() | Truncate() | Void():
                    assert result == source
                case Day():
                    assert result is types.DATE
                case UnknownTransform():
                    assert result is types.STRING
                case _:
                    assert result is types.INT


def test_which_transforms_preserve_order() -> None:
    ordered = {Identity(), Truncate(4), Year(), Month(), Day(), Hour()}
    assert {transform for transform in ALL if transforms.preserves_order(transform)} == ordered


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        (types.DATE, parse_date("2017-12-01"), [47, 575, 17501]),
        (types.DATE, 0, [0, 0, 0]),
        (types.DATE, -1, [-1, -1, -1]),
        (types.DATE, parse_date("1969-01-01"), [-1, -12, -365]),
        (types.DATE, parse_date("1968-12-31"), [-2, -13, -366]),
        (types.DATE, 2**31 - 1, [5879610, 70555326, 2**31 - 1]),
        (types.DATE, -(2**31), [-5879611, -70555327, -(2**31)]),
        (types.TIMESTAMP, micros("2017-12-01T10:12:55.038194"), [47, 575, 17501, 420034]),
        (types.TIMESTAMP, micros("1970-01-01T00:00:01.000001"), [0, 0, 0, 0]),
        (types.TIMESTAMPTZ, micros("1969-12-31T23:59:59.999999"), [-1, -1, -1, -1]),
        (types.TIMESTAMP, -3_600_000_000, [-1, -1, -1, -1]),
        (types.TIMESTAMP, -3_600_000_001, [-1, -1, -1, -2]),
        (types.TIMESTAMP_NS, nanos("2017-12-01T10:12:55.038194789"), [47, 575, 17501, 420034]),
        (types.TIMESTAMPTZ_NS, nanos("1970-01-01T00:00:01.000000001"), [0, 0, 0, 0]),
        (types.TIMESTAMP_NS, nanos("1969-12-31T23:59:59.999999999"), [-1, -1, -1, -1]),
    ],
)
def test_calendar(source: types.Type, value: int, expected: list[int]) -> None:
    for transform, result in zip(CALENDAR, expected, strict=False):
        assert transforms.apply(transform, source, value) == result


def test_hours_beyond_an_int_wrap_around() -> None:
    last = 2**31 * 3_600_000_000 - 1
    assert transforms.apply(Hour(), types.TIMESTAMP, last) == 2**31 - 1
    assert transforms.apply(Hour(), types.TIMESTAMP, last + 1) == -(2**31)


@pytest.mark.parametrize("source", [types.INT, types.LONG])
@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (1, 0), (5, 0), (9, 0), (10, 10), (11, 10), (-1, -10), (-5, -10), (-10, -10), (-11, -20)],
)
def test_truncated_numbers(source: types.Type, value: int, expected: int) -> None:
    assert transforms.apply(Truncate(10), source, value) == expected


def test_truncated_numbers_wrap_around_at_the_lower_end() -> None:
    assert transforms.apply(Truncate(10), types.INT, -(2**31)) == 2**31 - 2
    assert transforms.apply(Truncate(10), types.LONG, -(2**31)) == -(2**31) - 2
    assert transforms.apply(Truncate(10), types.LONG, -(2**63)) == 2**63 - 2
    # A sum within an int overflows here; the remainder must not.
    assert transforms.apply(Truncate(2**31 - 1), types.INT, 5) == 0


@pytest.mark.parametrize(
    ("width", "value", "expected"),
    [
        (10, "12.34", "12.30"),
        (10, "12.30", "12.30"),
        (10, "12.29", "12.20"),
        (10, "0.05", "0.00"),
        (10, "-0.05", "-0.10"),
        (50, "10.65", "10.50"),
        (10, "7", "7.00"),
    ],
)
def test_truncated_decimals(width: int, value: str, expected: str) -> None:
    result = transforms.apply(Truncate(width), types.Decimal(9, 2), Decimal(value))
    assert str(result) == expected


def test_truncated_decimals_are_exact() -> None:
    source = types.Decimal(38, 2)
    with decimal.localcontext(prec=3):
        result = transforms.apply(Truncate(7), source, Decimal((1, (9,) * 38, -2)))
    lowest = -(10**38) + 1
    assert result.as_tuple() == Decimal(f"{lowest - lowest % 7}E-2").as_tuple()


@pytest.mark.parametrize(
    ("source", "width", "value", "expected"),
    [
        (types.STRING, 5, "abcdefg", "abcde"),
        (types.STRING, 5, "abc", "abc"),
        (types.STRING, 5, "abcde", "abcde"),
        (types.STRING, 3, "iceberg", "ice"),
        (types.STRING, 2, "\N{MONEY BAG}\N{SNOWMAN}e\N{COMBINING ACUTE ACCENT}", "\N{MONEY BAG}\N{SNOWMAN}"),
        (types.BINARY, 4, b"abcdefg", b"abcd"),
        (types.BINARY, 4, b"abc", b"abc"),
        (types.BINARY, 3, b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
    ],
)
def test_truncated_text(source: types.Type, width: int, value: Any, expected: Any) -> None:
    assert transforms.apply(Truncate(width), source, value) == expected


def test_buckets_discard_the_sign_of_the_hash() -> None:
    # From Appendix B: hash("iceberg") is 1210000089, and hash(14.20) is -500754589.
    assert transforms.apply(Bucket(100), types.STRING, "iceberg") == 89
    assert transforms.apply(Bucket(2**31 - 1), types.Decimal(9, 2), Decimal("14.20")) == 2**31 - 500754589


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_a_bucket_is_one_of_the_buckets(value: int, count: int) -> None:
    assert 0 <= transforms.apply(Bucket(count), types.LONG, value) < count


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62), st.integers(1, 2**31 - 1))
def test_order_is_preserved(one: int, other: int, width: int) -> None:
    low, high = sorted((one, other))
    on_longs: list[tuple[Transform, types.Type]] = [(Truncate(width), types.LONG), (Identity(), types.LONG)]
    on_times = [(transform, types.TIMESTAMP_NS) for transform in CALENDAR]
    for transform, type_ in [*on_longs, *on_times]:
        results = [transforms.apply(transform, type_, each) for each in (low, high)]
        assert results == sorted(results)


@pytest.mark.parametrize(
    ("source", "value", "texts"),
    [
        (types.DATE, parse_date("2017-12-01"), "2017 2017-12 2017-12-01"),
        (types.DATE, parse_date("1969-12-30"), "1969 1969-12 1969-12-30"),
        (types.DATE, parse_date("1969-01-01"), "1969 1969-01 1969-01-01"),
        (types.DATE, parse_date("0044-03-15"), "0044 0044-03 0044-03-15"),
        (types.DATE, parse_date("+12017-12-01"), "12017 12017-12 12017-12-01"),
        (types.TIMESTAMP, micros("2017-11-16T22:31:08"), "2017 2017-11 2017-11-16 2017-11-16-22"),
        (types.TIMESTAMP, micros("1969-12-31T23:59:59.999999"), "1969 1969-12 1969-12-31 1969-12-31-23"),
        (types.TIMESTAMPTZ, micros("1969-12-30T00:00:00"), "1969 1969-12 1969-12-30 1969-12-30-00"),
        (types.TIMESTAMP_NS, nanos("1969-12-30T10:12:55.038194789"), "1969 1969-12 1969-12-30 1969-12-30-10"),
    ],
)
def test_calendar_for_people(source: types.Type, value: int, texts: str) -> None:
    for transform, text in zip(CALENDAR, texts.split(), strict=False):
        result = transforms.apply(transform, source, value)
        assert transforms.to_human(transform, source, result) == text


@pytest.mark.parametrize(
    ("source", "value", "text"),
    [
        (types.BOOLEAN, True, "true"),
        (types.LONG, -1234567890000, "-1234567890000"),
        (types.FLOAT, 0.10000000149011612, "0.1"),
        (types.FLOAT, 16777216.0, "16777216.0"),
        (types.FLOAT, 3.4028234663852886e38, "3.4028235e+38"),
        (types.FLOAT, 1.401298464324817e-45, "1e-45"),
        (types.FLOAT, 1e300, "1e+300"),
        (types.FLOAT, math.nan, "NaN"),
        (types.DOUBLE, 0.1, "0.1"),
        (types.DOUBLE, -math.inf, "-Infinity"),
        (types.Decimal(9, 2), Decimal("-1.50"), "-1.50"),
        (types.Decimal(38, 10), Decimal("0E-10"), "0.0000000000"),
        (types.DATE, parse_date("2017-12-01"), "2017-12-01"),
        (types.TIME, parse_time("10:12:55.038194"), "10:12:55.038194"),
        (types.TIMESTAMP, micros("2017-12-01T10:12:55.038194"), "2017-12-01T10:12:55.038194"),
        (types.TIMESTAMPTZ, micros("2017-12-01T18:12:55.038194"), "2017-12-01T18:12:55.038194+00:00"),
        (types.TIMESTAMP_NS, nanos("2017-12-01T10:12:55.038194789"), "2017-12-01T10:12:55.038194789"),
        (types.STRING, "a/b/c=d", "a/b/c=d"),
        (types.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (types.Fixed(3), b"\x01\x02\x03", "AQID"),
        (types.BINARY, b"\x01\x02\x03", "AQID"),
    ],
)
def test_values_for_people(source: types.Type, value: Any, text: str) -> None:
    assert transforms.to_human(Identity(), source, value) == text


def test_other_results_for_people() -> None:
    assert transforms.to_human(Bucket(16), types.STRING, 7) == "7"
    assert transforms.to_human(Truncate(4), types.BINARY, b"\x01\x02\x03") == "AQID"
    assert transforms.to_human(Void(), types.STRING, "left over") == "null"
    assert transforms.to_human(UnknownTransform("zorder"), types.INT, "a") == "a"


PROMOTIONS: list[tuple[types.Type, types.Type]] = [
    (types.INT, types.LONG),
    (types.FLOAT, types.DOUBLE),
    (types.Decimal(9, 2), types.Decimal(12, 2)),
    (types.DATE, types.TIMESTAMP),
    (types.DATE, types.TIMESTAMP_NS),
    (types.UNKNOWN, types.INT),
    (types.UNKNOWN, types.STRING),
]
SAMPLES: dict[types.Type, list[Any]] = {
    types.INT: [-11, 0, 7, 2**31 - 1],
    types.FLOAT: [-1.5, 0.0, 3.25],
    types.Decimal(9, 2): [Decimal("-10.55"), Decimal("0.00"), Decimal("14.20")],
    types.DATE: [-1, 0, 17486],
    types.UNKNOWN: [None],
}


@pytest.mark.parametrize(("old", "new"), PROMOTIONS, ids=str)
@pytest.mark.parametrize("transform", ALL[:-1], ids=str)
def test_promotion_is_safe_exactly_where_no_value_changes(
    transform: Transform, old: types.Type, new: types.Type
) -> None:
    if not (transforms.accepts(transform, old) and transforms.accepts(transform, new)):
        return
    ticks = {types.TIMESTAMP: 86_400 * 10**6, types.TIMESTAMP_NS: 86_400 * 10**9}
    factor = ticks[new] if old is types.DATE and isinstance(new, types.Primitive) else None
    before = [transforms.apply(transform, old, value) for value in SAMPLES[old]]
    promoted = [value * factor if factor else value for value in SAMPLES[old]]
    after = [transforms.apply(transform, new, value) for value in promoted]
    assert transforms.same_after_promotion(transform, old, new) == (before == after)


def test_promotion_of_what_is_not_known_is_not_safe() -> None:
    for old, new in PROMOTIONS:
        assert not transforms.same_after_promotion(UnknownTransform("zorder"), old, new)
        assert transforms.same_after_promotion(Void(), old, new)
    assert transforms.same_after_promotion(UnknownTransform("zorder"), types.INT, types.INT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (types.LONG, types.INT),
        (types.INT, types.STRING),
        (types.DATE, types.TIMESTAMPTZ),
        (types.TIMESTAMP, types.TIMESTAMP_NS),
        (types.Decimal(9, 2), types.Decimal(9, 3)),
        (types.Decimal(9, 2), types.Decimal(8, 2)),
        (types.UNKNOWN, types.Geometry()),
    ],
)
def test_what_is_no_promotion_is_not_safe(old: types.Type, new: types.Type) -> None:
    for transform, source in itertools.product(ALL, (old, new)):
        if not isinstance(transform, Void) and transforms.accepts(transform, source):
            assert not transforms.same_after_promotion(transform, old, new)
