"""Projections to partitions, and what they leave to check; the property is in ``test_pruning``."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.project import project
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.expressions.tree import Compare, Term, references
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Day, apply, parse_transform
from lakeplane.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Type,
)

COLUMNS: dict[str, Type] = {
    "i": INT,
    "l": LONG,
    "price": Decimal(9, 2),
    "s": STRING,
    "b": BINARY,
    "day": DATE,
    "at": TIMESTAMP,
    "x": DOUBLE,
    "hour": INT,
}
SCHEMA = Schema(tuple(Field(n, name, type_) for n, (name, type_) in enumerate(COLUMNS.items(), 1)))
IDS = {name: SCHEMA.find(name).id for name in COLUMNS}
NAMES = {field_id: name for name, field_id in IDS.items()}


def spec_of(*rules: tuple[str, str]) -> PartitionSpec:
    fields = (
        PartitionField((IDS[name],), 1000 + n, f"p{n}", parse_transform(transform))
        for n, (transform, name) in enumerate(rules)
    )
    return PartitionSpec(0, tuple(fields))


@pytest.mark.parametrize(
    ("transform", "text", "inclusive", "strict"),
    [
        ("identity", "i > 5", "#1000 > 5", "#1000 > 5"),
        (
            "identity",
            "x IS NULL OR isnan(x)",
            "#1000 IS NULL OR isnan(#1000)",
            "#1000 IS NULL OR isnan(#1000)",
        ),
        ("identity", "truncate(2, s) = 'ab'", "truncate(2, #1000) = 'ab'", "truncate(2, #1000) = 'ab'"),
        ("truncate[10]", "i < 10", "#1000 <= 0 OR #1000 = 2147483646", "#1000 < 10"),
        ("truncate[10]", "i <= 10", "#1000 <= 10 OR #1000 = 2147483646", "#1000 < 10"),
        ("truncate[10]", "i <= 8", "#1000 <= 0 OR #1000 = 2147483646", "#1000 < 0"),
        ("truncate[10]", "i >= 11", "#1000 >= 10", "#1000 > 10 AND #1000 != 2147483646"),
        ("truncate[10]", "i > 9", "#1000 >= 10", "#1000 > 0 AND #1000 != 2147483646"),
        ("truncate[16]", "i > 15", "#1000 >= 16", "#1000 > 0"),
        ("truncate[10]", "i = -1", "#1000 = -10", "FALSE"),
        ("truncate[10]", "i != -1", "#1000 IS NOT NULL", "#1000 != -10"),
        ("truncate[10]", "i IN (1, 2, 11)", "#1000 IN (0, 10)", "FALSE"),
        ("truncate[10]", "i NOT IN (1, 2, 11)", "#1000 IS NOT NULL", "#1000 NOT IN (0, 10)"),
        ("truncate[1]", "i = 5", "#1000 = 5", "#1000 = 5"),
        # The int that a long has been may have wrapped around as an int.
        ("truncate[10]", "l = -2147483648", "#1000 IN (-2147483650, 2147483646)", "FALSE"),
        ("truncate[10]", "price < 1.00", "#1000 <= Decimal('0.90')", "#1000 < Decimal('1.00')"),
        ("truncate[2]", "s = 'abc'", "#1000 = 'ab'", "FALSE"),
        ("truncate[2]", "s = 'a'", "#1000 = 'a'", "#1000 = 'a'"),
        ("truncate[2]", "s < 'ab'", "#1000 < 'ab'", "#1000 < 'ab'"),
        ("truncate[2]", "s < 'abc'", "#1000 <= 'ab'", "#1000 < 'ab'"),
        ("truncate[2]", "s >= 'ab'", "#1000 >= 'ab'", "#1000 >= 'ab'"),
        ("truncate[2]", "s LIKE 'a%'", "startswith(#1000, 'a')", "startswith(#1000, 'a')"),
        ("truncate[2]", "s LIKE 'abc%'", "#1000 = 'ab'", "FALSE"),
        ("truncate[2]", "s NOT LIKE 'abc%'", "#1000 IS NOT NULL", "#1000 != 'ab'"),
        ("truncate[2]", "b > X'FFFF'", "#1000 >= b'\\xff\\xff'", "#1000 > b'\\xff\\xff'"),
        ("truncate[2]", "truncate(2, s) IN ('ab', 'c')", "#1000 IN ('ab', 'c')", "#1000 IN ('ab', 'c')"),
        ("truncate[2]", "truncate(3, s) = 'abc'", "#1000 IS NOT NULL", "FALSE"),
        ("bucket[16]", "l = 34", "#1000 = 3", "FALSE"),
        ("bucket[16]", "l != 34", "#1000 IS NOT NULL", "#1000 != 3"),
        ("bucket[16]", "l > 34", "#1000 IS NOT NULL", "FALSE"),
        ("bucket[16]", "l IS NULL", "#1000 IS NULL", "#1000 IS NULL"),
        ("bucket[16]", "bucket(16, l) IN (1, 2)", "#1000 IN (1, 2)", "#1000 IN (1, 2)"),
        ("bucket[16]", "bucket(8, l) = 1", "#1000 IS NOT NULL", "FALSE"),
        ("month", "day > '1970-01-01'", "#1000 >= 0", "#1000 > 0"),
        ("month", "day < '1970-01-01'", "#1000 <= 0", "#1000 < 0"),
        ("month", "day = '1969-12-31'", "#1000 IN (-1, 0)", "FALSE"),
        ("month", "day != '1969-12-31'", "#1000 IS NOT NULL", "#1000 NOT IN (-1, 0)"),
        ("month", "day >= '1969-12-01'", "#1000 >= -1", "#1000 > -1"),
        ("day", "day = '1969-12-31'", "#1000 = -1", "#1000 = -1"),
        ("year", "at < '2021-01-01'", "#1000 <= 50", "#1000 < 51"),
        (
            "day",
            "CAST(at AS DATE) = '2021-01-01'",
            "#1000 >= 18628 AND #1000 <= 18628",
            "#1000 > 18627 AND #1000 < 18629",
        ),
        ("void", "i = 5", "TRUE", "FALSE"),
        ("zorder[2]", "i = 5", "TRUE", "FALSE"),
        ("identity", "i = hour", "TRUE", "FALSE"),
    ],
)
def test_projections(transform: str, text: str, inclusive: str, strict: str) -> None:
    predicate = parse_predicate(text, SCHEMA)
    column = NAMES[min(references(predicate))]
    spec = spec_of((transform, column))
    assert str(project(predicate, spec, strict=False)) == inclusive
    assert str(project(predicate, spec, strict=True)) == strict


def test_several_fields_of_one_column_work_together() -> None:
    predicate = parse_predicate("l = 34 AND s = 'a'", SCHEMA)
    spec = spec_of(("bucket[16]", "l"), ("truncate[10]", "l"), ("identity", "i"))
    assert str(project(predicate, spec, strict=False)) == "#1000 = 3 AND #1001 = 30"
    predicate = parse_predicate("l != 34", SCHEMA)
    assert str(project(predicate, spec, strict=True)) == "#1000 != 3 OR #1001 != 30"


def test_hours_far_from_1970_wrap_around() -> None:
    spec = spec_of(("hour", "at"))
    for at in (2**63 - 1, -(2**63), 2**31 * 3_600_000_000, 0, -1):
        stored = {1000: pa.array([apply(parse_transform("hour"), TIMESTAMP, at)], pa.int32())}
        for op in ("<=", ">=", "="):
            predicate = Compare(Term(IDS["at"], TIMESTAMP), op, at)
            inclusive = project(predicate, spec, strict=False)
            assert matches_rows(inclusive, stored.__getitem__, 1).tolist() == [True], (op, at)


def test_predicates_look_at_columns_not_at_days() -> None:
    with pytest.raises(InvalidExpression, match="cannot look at day"):
        Term(1, TIMESTAMP, Day())


def residual_texts(text: str, rule: tuple[str, str], type_: pa.DataType, *values: Any) -> list[str]:
    predicate, column = parse_predicate(text, SCHEMA), pa.array(values, type_)
    codes, distinct = residuals(predicate, spec_of(rule), {1000: column}.__getitem__, len(values))
    return [str(distinct[code]) for code in codes]


def test_residuals_of_identity_partitions() -> None:
    text = "(i < 20170815 AND i > 20170801) OR (i = 20170815 AND hour < 12) OR (i = 20170801 AND hour > 11)"
    found = residual_texts(
        text, ("identity", "i"), pa.int32(), 20170815, 20170801, 20170812, 20170817, 20170812
    )
    assert found == ["#9 < 12", "#9 > 11", "TRUE", "FALSE", "TRUE"]


def test_residuals_of_lists() -> None:
    values = (20170815, 20180815, None)
    assert residual_texts("i IN (20170815, 20170816)", ("identity", "i"), pa.int32(), *values) == [
        "TRUE",
        "FALSE",
        "FALSE",
    ]
    # For Java null is not in a list, for Spark that is unknown.
    assert residual_texts("i NOT IN (20170815, 20170816)", ("identity", "i"), pa.int32(), *values) == [
        "FALSE",
        "TRUE",
        "FALSE",
    ]


def test_residuals_of_nan() -> None:
    rule, values = ("identity", "x"), (math.nan, 2.0, None)
    assert residual_texts("isnan(x)", rule, pa.float64(), *values) == ["TRUE", "FALSE", "FALSE"]
    assert residual_texts("NOT isnan(x)", rule, pa.float64(), *values) == ["FALSE", "TRUE", "TRUE"]


def test_residuals_of_days() -> None:
    text = "at IN ('2019-12-01', '2019-12-02')"
    whole = "#7 IN (1575158400000000, 1575244800000000)"
    assert residual_texts(text, ("day", "at"), pa.date32(), 18231, 18234) == [whole, "FALSE"]
    day = "CAST(at AS DATE) = '2019-12-01' AND lower(s) = 'x'"
    assert residual_texts(day, ("day", "at"), pa.int32(), 18231, 18234) == ["(lower(s) = 'x')", "FALSE"]


def test_residuals_without_partitions_or_files() -> None:
    for text in ("i < 5", "TRUE", "FALSE", "lower(s) = 'x' OR i IS NULL"):
        predicate = parse_predicate(text, SCHEMA)
        codes, distinct = residuals(predicate, PartitionSpec(), lambda _: pa.nulls(3), 3)
        assert [distinct[code] for code in codes] == [predicate] * 3
        codes, distinct = residuals(
            predicate, spec_of(("identity", "i")), lambda _: pa.array([], pa.int32()), 0
        )
        assert len(codes) == 0


def test_residuals_of_many_leaves_and_files_are_few() -> None:
    text = " OR ".join(f"(i = {n} AND l > {n})" for n in range(100))
    values = list(range(200)) * 50
    codes, distinct = residuals(
        parse_predicate(text, SCHEMA),
        spec_of(("identity", "i")),
        {1000: pa.array(values, pa.int32())}.__getitem__,
        len(values),
    )
    assert len(distinct) == 101
    assert [str(distinct[codes[n]]) for n in (0, 7, 150, 207)] == ["#2 > 0", "#2 > 7", "FALSE", "#2 > 7"]
