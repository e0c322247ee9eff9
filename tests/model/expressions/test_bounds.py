"""Statistics exclude files, as in Java's metrics evaluators where those agree with Spark's rows.

They do not always. For Spark NaN is greater than every number, so that a file whose NaN are not counted may
match ``x > 5``, whatever its bounds are. And null never matches a NOT.
"""

from __future__ import annotations

import math
import uuid
from typing import Any

import pyarrow as pa
import pytest

from lakeplane.model.expressions.bounds import (
    ColumnStats,
    after_prefix,
    constant_stats,
    may_match,
    must_match,
    summary_stats,
)
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.schema import Schema
from lakeplane.model.types import DOUBLE, FLOAT, INT, LONG, STRING, UUID, Decimal, Field, List

NAN = math.nan
SCHEMA = Schema(
    (
        Field(1, "id", INT),
        Field(2, "no_stats", INT),
        Field(4, "all_nulls", STRING),
        Field(5, "some_nulls", STRING),
        Field(6, "no_nulls", STRING),
        Field(7, "all_nans", DOUBLE),
        Field(8, "some_nans", FLOAT),
        Field(9, "no_nans", FLOAT),
        Field(10, "all_nulls_double", DOUBLE),
        Field(11, "all_nans_v1", FLOAT),
        Field(12, "nan_and_null_only", DOUBLE),
        Field(13, "no_nan_stats", DOUBLE),
        Field(14, "inverted", INT),
        Field(15, "five", INT),
        Field(16, "five_or_null", INT),
        Field(17, "five_or_nan", FLOAT),
        Field(18, "zeros", FLOAT),
        Field(19, "cut", STRING),
        Field(20, "u", UUID),
        Field(21, "tags", List(22, STRING)),
        Field(23, "zero_counts", INT),
        Field(24, "more_nulls_than_values", INT),
        Field(25, "wide", Decimal(38, 2)),
        Field(26, "least", LONG),
        Field(27, "nans_without_null_count", DOUBLE),
    )
)


def one(type_: pa.DataType, low: Any, high: Any, *counts: int | None) -> ColumnStats:
    """The statistics of one file; the counts are of values, nulls and NaN."""
    known = (pa.array([count], pa.int64()) for count in (*counts, None, None, None)[:3])
    return ColumnStats(pa.array([low], type_), pa.array([high], type_), *known)


TEXT, FLOATING, DOUBLING, WHOLE = pa.string(), pa.float32(), pa.float64(), pa.int32()
STATS = {
    1: one(WHOLE, 30, 79, 50, 0),
    4: one(TEXT, None, None, 50, 50),
    5: one(TEXT, "a", "z", 50, 10),
    6: one(TEXT, "a", "dC", 50, 0),
    7: one(DOUBLING, None, None, 50, 0, 50),
    8: one(FLOATING, 1.0, 2.0, 50, 0, 10),
    9: one(FLOATING, 1.0, 2.0, 50, 0, 0),
    10: one(DOUBLING, None, None, 50, 50, 0),
    11: one(FLOATING, NAN, NAN, 50, 0),
    12: one(DOUBLING, NAN, NAN, 50, 1, 49),
    13: one(DOUBLING, 1.0, 2.0, 50, 0),
    14: one(WHOLE, 9, 3, 50, 0),
    15: one(WHOLE, 5, 5, 50, 0),
    16: one(WHOLE, 5, 5, 50, 2),
    17: one(FLOATING, 5.0, 5.0, 50, 0, 2),
    18: one(FLOATING, -0.0, 0.0, 50, 0, 0),
    19: one(TEXT, "ab", "ac", 50, 0),
    20: one(pa.binary(16), uuid.UUID(int=5).bytes, uuid.UUID(int=3).bytes, 50, 0),
    21: one(pa.list_(TEXT), None, None, 50, 0),
    23: one(WHOLE, None, None, 0, 0),
    24: one(WHOLE, None, None, 5, 6),
    25: one(pa.decimal128(38, 2), -(10**30), 10**30, 50, 0),
    26: one(pa.int64(), -(2**63), 0, 50, 0),
    27: ColumnStats(value_count=pa.array([50]), nan_count=pa.array([50])),
}


@pytest.mark.parametrize(
    ("text", "may", "must"),
    [
        ("id < 30", False, False),
        ("id < 31", True, False),
        ("id < 80", True, True),
        ("id <= 29", False, False),
        ("id <= 30", True, False),
        ("id <= 79", True, True),
        ("id > 79", False, False),
        ("id > 78", True, False),
        ("id > 29", True, True),
        ("id >= 80", False, False),
        ("id >= 79", True, False),
        ("id >= 30", True, True),
        ("id = 29", False, False),
        ("id = 30", True, False),
        ("id = 80", False, False),
        ("id != 29", True, True),
        ("id != 30", True, False),
        ("id IN (27, 28, 29, 80, 81)", False, False),
        ("id IN (29, 79)", True, False),
        ("id NOT IN (27, 28, 80)", True, True),
        ("id NOT IN (27, 30)", True, False),
        ("id < 25 AND id >= 30", False, False),
        ("id < 25 OR id >= 30", True, True),
        ("NOT (id < 25)", True, True),
        ("id IS NULL", False, False),
        ("id IS NOT NULL", True, True),
        ("no_stats = 5 OR no_stats IS NULL", True, False),
        ("all_nulls IS NOT NULL", False, False),
        ("all_nulls IS NULL", True, True),
        ("all_nulls < 'a'", False, False),
        ("all_nulls != 'a'", False, False),
        ("all_nulls IN ('a', 'b')", False, False),
        ("startswith(all_nulls, 'a')", False, False),
        # Java reads this one.
        ("NOT startswith(all_nulls, 'a')", False, False),
        ("some_nulls IS NULL", True, False),
        ("some_nulls IS NOT NULL", True, False),
        ("some_nulls < 'zz'", True, False),
        ("no_nulls IS NULL", False, False),
        ("no_nulls <= 'dC'", True, True),
        ("isnan(all_nans)", True, True),
        ("NOT isnan(all_nans)", False, False),
        ("isnan(some_nans)", True, False),
        ("NOT isnan(some_nans)", True, False),
        ("isnan(no_nans)", False, False),
        ("NOT isnan(no_nans)", True, True),
        ("isnan(all_nulls_double)", False, False),
        ("NOT isnan(all_nulls_double)", True, True),
        ("isnan(no_nan_stats)", True, False),
        ("isnan(all_nans_v1)", True, False),
        ("NOT isnan(nan_and_null_only)", True, False),
        # NaN is greater than every number, which Java does not reckon with.
        ("all_nans > 5", True, True),
        ("all_nans = 5", False, False),
        # TestInclusiveMetricsEvaluator (Java): its column of nothing but NaN has no count of nulls.
        ("nans_without_null_count < 1", False, False),
        ("nans_without_null_count > 1", True, False),
        ("nans_without_null_count IS NULL", True, False),
        ("nan_and_null_only < 5", False, False),
        ("nan_and_null_only IN (5, 6)", False, False),
        ("nan_and_null_only > 5", True, False),
        ("some_nans > 5", True, False),
        ("some_nans < 1", False, False),
        ("some_nans <= 2", True, False),
        ("some_nans >= 1", True, True),
        ("no_nan_stats > 5", True, False),
        ("no_nan_stats != 7", True, True),
        ("no_nans > 5", False, False),
        ("no_nans < 5", True, True),
        ("all_nans_v1 < 5", True, False),
        ("all_nans_v1 IN (5, 6)", True, False),
        # Bounds in the wrong order are unknown.
        ("inverted = 100", True, False),
        ("inverted IN (100, 101)", True, False),
        ("inverted IS NULL", False, False),
        # One value only.
        ("five = 5", True, True),
        ("five != 5", False, False),
        ("five NOT IN (5, 6)", False, False),
        ("five IN (5, 6)", True, True),
        ("five_or_null != 5", False, False),
        ("five_or_null = 5", True, False),
        ("five_or_nan != 5", True, False),
        ("five_or_nan NOT IN (5, 6)", True, False),
        ("five_or_nan = 5", True, False),
        ("five_or_nan >= 5", True, True),
        ("zeros = 0", True, True),
        ("zeros < 0", False, False),
        ("zeros = -0.0D", True, True),
        # Prefixes; bounds may have been cut.
        ("startswith(no_nulls, 'e')", False, False),
        ("startswith(no_nulls, 'dD')", False, False),
        ("startswith(no_nulls, 'dC')", True, False),
        ("startswith(cut, 'a')", True, True),
        ("NOT startswith(cut, 'a')", False, False),
        ("startswith(cut, 'abc')", True, False),
        ("NOT startswith(cut, 'b')", True, True),
        ("cut = 'ab'", True, False),
        ("truncate(1, cut) = 'a'", True, True),
        ("truncate(1, cut) > 'a'", False, False),
        # Both bounds have the same first half, all that a signed comparison leaves sure.
        ("u = '00000000-0000-0000-0000-000000000009'", True, False),
        ("u = '00000000-0000-0001-0000-000000000000'", False, False),
        ("u < '00000000-0000-0001-0000-000000000000'", True, True),
        ("tags IS NULL", False, False),
        ("size(tags) > 3 OR id = 5", True, False),
        ("size(tags) > 3 AND id = 5", False, False),
        # Counts that say nothing.
        ("zero_counts = 5", True, False),
        ("zero_counts IS NOT NULL", True, True),
        ("more_nulls_than_values = 5", True, False),
        ("wide > 999999999999999999999999999999", True, False),
        ("wide IN (1e29BD, 2e30BD)", True, False),
        ("wide > 1000000000000000000000000000000", False, False),
        # Around the least long, truncation wraps.
        ("truncate(10, least) > 5", True, False),
    ],
)
def test_statistics(text: str, may: bool, must: bool) -> None:  # noqa: FBT001
    predicate = parse_predicate(text, SCHEMA)
    assert may_match(predicate, STATS.get, 1).tolist() == [may]
    assert must_match(predicate, STATS.get, 1).tolist() == [must]


def test_a_lone_bound_of_a_uuid_says_nothing() -> None:
    predicate = parse_predicate("u = '00000000-0000-0000-0000-000000000009'", SCHEMA)
    high = pa.array([uuid.UUID(int=2**127).bytes], pa.binary(16))
    assert may_match(predicate, {20: ColumnStats(lower=high)}.get, 1).tolist() == [True]


@pytest.mark.parametrize(
    ("value", "text", "may", "must"),
    [
        (5, "id = 5", True, True),
        (5, "id > 5", False, False),
        (5, "id IS NULL", False, False),
        (None, "id = 5", False, False),
        (None, "id IS NULL", True, True),
    ],
)
def test_a_column_that_is_younger_than_its_file_has_its_default(
    value: int | None, text: str, may: bool, must: bool  # noqa: FBT001
) -> None:  # fmt: skip
    predicate = parse_predicate(text, SCHEMA)
    stats = {1: constant_stats(INT, value, 2)}
    assert may_match(predicate, stats.get, 2).tolist() == [may] * 2
    assert must_match(predicate, stats.get, 2).tolist() == [must] * 2


def test_defaults_of_other_types() -> None:
    for type_, value, text in (
        (DOUBLE, NAN, "isnan(all_nans) AND all_nans > 1e300"),
        (STRING, "x", "no_nulls = 'x'"),
        (UUID, uuid.UUID(int=1), "u < '00000000-0000-0001-0000-000000000000'"),
    ):
        field = next(f for f in SCHEMA.fields if f.type == type_ and f.name in text)
        stats = {field.id: constant_stats(type_, value, 1)}
        assert must_match(parse_predicate(text, SCHEMA), stats.get, 1).tolist() == [True]


def test_summaries_of_manifests() -> None:
    flags = pa.array([False, True, None])
    bounds = pa.array([1.0, 1.0, 1.0], pa.float64())
    stats = {13: summary_stats(bounds, bounds, flags, flags)}
    for text, expected in (
        ("no_nan_stats IS NULL", [False, True, True]),
        ("isnan(no_nan_stats)", [False, True, True]),
        ("no_nan_stats > 1", [False, True, True]),
        ("no_nan_stats < 1", [False, False, False]),
        ("no_nan_stats IS NOT NULL", [True, True, True]),
    ):
        assert may_match(parse_predicate(text, SCHEMA), stats.get, 3).tolist() == expected, text
    without_flags = {13: summary_stats(bounds, bounds, None, None)}
    assert may_match(parse_predicate("no_nan_stats IS NULL", SCHEMA), without_flags.get, 3).all()


def test_the_text_after_a_prefix() -> None:
    assert after_prefix("ab") == "ac"
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"
    assert after_prefix("\U0010ffff") is None


def test_long_lists_and_short_ones_find_the_same_files() -> None:
    lower = pa.array(["a", "c", None, "zz", "b"])
    upper = pa.array(["b", "d", "a", None, None])
    stats = {6: ColumnStats(lower, upper)}
    short = parse_predicate("no_nulls IN ('bb', 'e')", SCHEMA)
    filler = ", ".join(f"'be{n}'" for n in range(100))
    long = parse_predicate(f"no_nulls IN ('bb', 'e', {filler})", SCHEMA)
    assert may_match(short, stats.get, 5).tolist() == [False, False, False, False, True]
    assert may_match(long, stats.get, 5).tolist() == [False, False, False, False, True]


def test_no_files() -> None:
    for field in SCHEMA.fields:
        predicate = parse_predicate(f"{field.name} IS NOT NULL", SCHEMA)
        stats = {field.id: constant_stats(field.type, None, 0)}
        assert may_match(predicate, stats.get, 0).tolist() == []
    wide = {25: ColumnStats(*[pa.array([], pa.decimal128(38, 2))] * 2)}
    assert must_match(parse_predicate("wide IN (1, 2)", SCHEMA), wide.get, 0).tolist() == []
