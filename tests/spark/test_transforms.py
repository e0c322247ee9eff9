"""Partition transforms that Spark computes, held against the model and against PyIceberg."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    Void,
    Year,
    accepts,
    apply,
)
from lakeplane.model.types import Type, parse_type
from lakeplane.spark.transforms import Derived, with_transforms
from tests.interop import peers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INT_EDGES = [0, 1, -1, 9, 10, -10, -11, 2**31 - 1, -(2**31), -(2**31) + 1]
LONG_EDGES = [*INT_EDGES, 2**63 - 1, -(2**63), -(2**63) + 1, 2**62]
TEXTS = [
    "",
    "a",
    "iceberg",
    "é",
    "漢字",
    "😀😀😀😀😀",
    "null",
    "a\0b",
    "%/=",
    "x" * 1000,
    "__HIVE_DEFAULT_PARTITION__",
]
MICROS = [0, 1, -1, 999_999, -1_000_000, 3_599_999_999, -3_600_000_000, -3_600_000_001, 86_400_000_000]
FAR = [-62_135_596_800_000_000, 253_402_300_799_999_999, 1_268_539_200_123_456, 1_743_296_400_000_000]
NANOS = [
    2**63 - 1,
    -(2**63),
    -(2**63) + 999,
    1,
    -1,
    -1000,
    -1001,
    999,
    86_400_000_000_000,
    -86_400_000_000_001,
]
TRANSFORMS: list[Transform] = [
    *(Identity(), Bucket(1), Bucket(16), Bucket(2**31 - 1), Truncate(1), Truncate(7), Truncate(2**31 - 1)),
    *(Year(), Month(), Day(), Hour(), Void()),
]


def digits(precision: int, scale: int) -> list[decimal.Decimal]:
    chance = random.Random(precision)
    top = 10**precision - 1
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 32767, 32768, -32768, -32769, top, -top + top % 7]
    numbers += [chance.randrange(-top, top + 1) // 10 ** chance.randrange(precision) for _ in range(300)]
    return [decimal.Decimal(f"{number}E{-scale}") for number in numbers if abs(number) <= top]


def values_of(name: str) -> tuple[list[Any], pa.DataType]:  # noqa: C901, PLR0912 - a table
    """Values in the canonical forms of the model, and the Arrow type in which Spark gets them."""
    chance = random.Random(name)
    match name:
        case "boolean":
            return [True, False], pa.bool_()
        case "int":
            return INT_EDGES + [chance.randrange(-(2**31), 2**31) for _ in range(200)], pa.int32()
        case "long":
            return LONG_EDGES + [chance.randrange(-(2**63), 2**63) for _ in range(200)], pa.int64()
        case "float" | "double":
            numbers = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 2.0**-126]
            return numbers, pa.float32() if name == "float" else pa.float64()
        case "date":
            days = [0, 1, -1, 364, 365, -365, -366, -719_162, 2_932_896]
            return days + [chance.randrange(-700_000, 2_900_000) for _ in range(200)], pa.date32()
        case "time":
            return [0, 1, 86_399_999_999], pa.int64()
        case "timestamp" | "timestamptz":
            zone = "UTC" if name == "timestamptz" else None
            drawn = [chance.randrange(-(2**55), 2**55) for _ in range(200)]
            return MICROS + FAR + drawn, pa.timestamp("us", zone)
        case "timestamp_ns" | "timestamptz_ns":
            return NANOS + [chance.randrange(-(2**63), 2**63) for _ in range(200)], pa.int64()
        case "string":
            letters = ["".join(chance.choices("abcXY0 é漢😀\0", k=chance.randrange(30))) for _ in range(300)]
            return TEXTS + letters, pa.string()
        case "uuid":
            return [uuid.UUID(int=chance.getrandbits(128)) for _ in range(50)] + [
                uuid.UUID(int=0)
            ], pa.binary()
        case "binary":
            return [b"", b"\0", b"\xff" * 5] + [chance.randbytes(n % 21) for n in range(300)], pa.binary()
        case _ if name.startswith("fixed"):
            length = int(name[6:-1])
            return [b"\0" * length, *(chance.randbytes(length) for _ in range(50))], pa.binary()
        case _:
            precision, scale = map(int, name[8:-1].split(","))
            drawn_digits = digits(precision, scale)
            if precision == 38:
                # Rounded down, the lowest ones would need more digits than any type has.
                drawn_digits = [each for each in drawn_digits if each > -(10**27)]
            return drawn_digits, pa.decimal128(precision, scale)


@pytest.fixture(params=[("true", "Europe/Berlin"), ("false", "America/St_Johns")], ids=["ansi", "lenient"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    settings = dict(zip(names, request.param, strict=True))
    settings["spark.sql.timestampType"] = "TIMESTAMP_NTZ"
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        assert old is not None
        spark.conf.set(name, old)


def computed(
    session: SparkSession, type_: Type, column: pa.Array, transforms: list[Transform], source: str = "s.`c.d`"
) -> dict[Transform, list[Any]]:
    nested = pa.StructArray.from_arrays([column], ["c.d"])
    table = pa.table({"n": pa.array(range(len(column))), "s": nested})
    wanted = [Derived(f"t {place}`", each, type_, source) for place, each in enumerate(transforms)]
    got = with_transforms(session.createDataFrame(table).repartition(1).sortWithinPartitions("n"), wanted)
    assert got.columns == ["n", "s", *(each.name for each in wanted)]
    answer = got.toArrow()
    return {each: plain(answer[f"t {place}`"]) for place, each in enumerate(transforms)}


def plain(column: pa.ChunkedArray) -> list[Any]:
    match column.type:
        case pa.TimestampType():
            return list(column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist())
        case type_ if pa.types.is_date(type_):
            return list(column.cast(pa.int32()).to_pylist())
        case _:
            return list(column.to_pylist())


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other) or one == other


@pytest.mark.parametrize(
    "name",
    [
        *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz"),
        *("timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "fixed[3]", "fixed[8]"),
        *(
            "decimal(4,2)",
            "decimal(9,0)",
            "decimal(18,18)",
            "decimal(18,2)",
            "decimal(19,3)",
            "decimal(38,10)",
        ),
    ],
)
def test_transforms_give_the_values_of_the_model(session: SparkSession, name: str) -> None:
    type_ = parse_type(name)
    values, arrow = values_of(name)
    values = [None, *values]
    stored = [each.bytes if isinstance(each, uuid.UUID) else each for each in values]
    transforms = [each for each in TRANSFORMS if accepts(each, type_)]
    got = computed(session, type_, pa.array(stored, arrow), transforms)
    for transform in transforms:
        expected = [apply(transform, type_, each) for each in values]
        if isinstance(transform, Identity | Void):
            expected = [each.bytes if isinstance(each, uuid.UUID) else each for each in expected]
        wrong = [
            (value, mine, right)
            for value, mine, right in zip(values, got[transform], expected, strict=True)
            if not same(mine, right)
        ]
        assert not wrong, (str(transform), wrong[:5])


def test_transforms_give_the_values_of_pyiceberg(spark: SparkSession) -> None:
    questions, answers = [], []
    for name in (
        "int",
        "long",
        "date",
        "timestamp",
        "string",
        "binary",
        "uuid",
        "decimal(9,2)",
        "decimal(38,10)",
    ):
        type_ = parse_type(name)
        values, arrow = values_of(name)
        values = values[:60] if name != "timestamp" else [each for each in values if abs(each) < 2**52]
        stored = [each.bytes if isinstance(each, uuid.UUID) else each for each in values]
        texts = [each.hex() if isinstance(each, bytes) else str(each) for each in values]
        transforms: list[Transform] = [
            each
            for each in (Bucket(16), Bucket(101), Truncate(7), Year(), Month(), Day(), Hour())
            # PyIceberg does not let a truncated number wrap around.
            if accepts(each, type_) and (name not in ("int", "long") or not isinstance(each, Truncate))
        ]
        got = computed(spark, type_, pa.array(stored, arrow), transforms)
        questions += [{"type": name, "transform": str(each), "values": texts} for each in transforms]
        answers += [
            [each.hex() if isinstance(each, bytes) else str(each) for each in got[transform]]
            for transform in transforms
        ]
    expected = peers.ask("pyiceberg_transforms", questions)
    for question, mine, right in zip(questions, answers, expected, strict=True):
        assert mine == right, (question["type"], question["transform"])


def test_a_frame_may_have_columns_with_any_names(spark: SparkSession) -> None:
    df = spark.createDataFrame(pa.table({"_step": ["a"], "_step0_0": ["b"], "a`b": ["iceberg"], "Üx": [1]}))
    wanted = [Derived("p", Bucket(2**31 - 1), parse_type("string"), "`a``b`")]
    row = with_transforms(df, wanted).collect()[0]
    assert row.asDict() == {"_step": "a", "_step0_0": "b", "a`b": "iceberg", "Üx": 1, "p": 1210000089}


def test_nothing_wanted_changes_nothing(spark: SparkSession) -> None:
    df = spark.range(1)
    assert with_transforms(df, []) is df


def test_dates_are_what_they_are_in_the_calendar_of_python(spark: SparkSession) -> None:
    days = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]
    got = computed(spark, parse_type("date"), pa.array(days), [Year(), Month()])
    assert got[Year()] == [day.year - 1970 for day in days]
    assert got[Month()] == [(day.year - 1970) * 12 + day.month - 1 for day in days]
