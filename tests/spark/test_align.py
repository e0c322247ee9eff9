"""Frames of Spark matched to tables: what is stored, what is refused, and when."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakeplane.errors import InvalidInput
from lakeplane.model.evolution import EvolutionRules
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.spark.align import align_frame, merged_schema, row_refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.fixture(params=["true", "false"], ids=["ansi", "lenient"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", str(before))


def one(session: SparkSession, sql: str, type_: Type, **field: Any) -> Any:
    """What a value becomes in a column of a type."""
    df = session.range(1).selectExpr(f"{sql} AS c")
    try:
        return align_frame(df, Schema((Field(1, "c", type_, **field),))).collect()[0][0]
    except PySparkException as failure:
        raise row_refused(failure) or failure from None


@pytest.mark.parametrize(
    ("sql", "type_", "expected"),
    [
        ("1Y", INT, 1),
        ("1S", LONG, 1),
        ("-2147483648L", INT, -(2**31)),
        ("5BD", INT, 5),
        ("9223372036854775807BD", LONG, 2**63 - 1),
        ("12", Decimal(4, 2), decimal.Decimal("12.00")),
        ("CAST(1.5 AS DECIMAL(38,18))", Decimal(4, 2), decimal.Decimal("1.50")),
        ("16777216", FLOAT, 16777216.0),
        ("0.1BD", DOUBLE, 0.1),
        ("double('NaN')", FLOAT, "nan"),
        ("double('-Infinity')", FLOAT, float("-inf")),
        ("float(0.5)", DOUBLE, 0.5),
        ("DATE'2020-01-02'", TIMESTAMP, dt.datetime(2020, 1, 2)),  # noqa: DTZ001
        ("TIMESTAMP_NTZ'2020-01-02 03:04:05'", TIMESTAMP_NS, 1577934245000000000),
        ("DATE'1969-12-31'", TIMESTAMP_NS, -86_400_000_000_000),
        ("7L", TIMESTAMP_NS, 7),
        ("12", STRING, "12"),
        ("true", STRING, "true"),
        (f"'{str(ID).upper()}'", UUID, ID.bytes),
        (f"X'{ID.hex}'", UUID, ID.bytes),
        ("X'0102'", Fixed(2), b"\1\2"),
        ("X''", BINARY, b""),
        ("NULL", Map(2, STRING, 3, INT), None),
        ("NULL", DATE, None),
        ("array(1Y, NULL)", List(2, LONG), [1, None]),
        ("map('a', 1)", Map(2, STRING, 3, DOUBLE), {"a": 1.0}),
        ("map(1, X'0102')", Map(2, LONG, 3, Fixed(2), value_required=True), {1: b"\1\2"}),
    ],
)
def test_values_are_stored_as_they_are(spark: SparkSession, sql: str, type_: Type, expected: Any) -> None:
    found = one(spark, sql, type_)
    found = bytes(found) if isinstance(found, bytearray) else found
    if isinstance(found, dict):
        found = {key: bytes(each) if isinstance(each, bytearray) else each for key, each in found.items()}
    assert found == expected or str(found) == expected


@pytest.mark.parametrize(
    ("sql", "type_", "problem"),
    [
        ("2147483648L", INT, "out of the range of int"),
        ("-2147483649L", INT, "out of the range of int"),
        ("9223372036854775808BD", LONG, "out of the range of long"),
        ("100", Decimal(4, 2), "out of the range"),
        ("CAST(1.005 AS DECIMAL(38,18))", Decimal(4, 2), "without rounding"),
        ("CAST(99.995 AS DECIMAL(10,3))", Decimal(4, 2), "without rounding"),
        ("16777217", FLOAT, "more digits"),
        ("9223372036854775807L", DOUBLE, "more digits"),
        ("1e300D", FLOAT, "out of the range of float"),
        ("TIMESTAMP_NTZ'9999-01-01 00:00:00'", TIMESTAMP_NS, "out of the range"),
        ("'f79c3e09677c4bbda4793f349cb785e7'", UUID, "no uuid"),
        (f"' {ID}'", UUID, "no uuid"),
        ("X'01'", UUID, "does not have 16 bytes"),
        ("X'010203'", Fixed(2), "does not have 2 bytes"),
        ("array(1L, 3000000000L)", List(2, INT), r"c.element: a value is out"),
        ("map(1, X'01')", Map(2, INT, 3, Fixed(2)), r"c.value: a value"),
        ("named_struct('x', 3000000000L)", Struct((Field(2, "x", INT),)), "c.x: a value is out"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_write(
    session: SparkSession, sql: str, type_: Type, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        one(session, f"IF(id = 0, {sql}, NULL)", type_)


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        *(("1.5D", INT), ("1.5D", Decimal(4, 2)), ("1.5BD", LONG), ("'1'", INT), ("'2020-01-01'", DATE)),
        *(("1", BOOLEAN), ("true", INT), ("X'01'", STRING), ("'a'", BINARY), ("current_timestamp()", DATE)),
        *(("INTERVAL 1 DAY", STRING), ("array(1)", INT), ("1", List(2, INT)), ("1", UNKNOWN)),
        *(("named_struct('y', 1)", Struct((Field(2, "x", INT),))), ("array(1)", List(2, BOOLEAN))),
    ],
)
def test_types_that_do_not_fit_are_refused_before_anything_runs(
    spark: SparkSession, sql: str, type_: Type
) -> None:
    df = spark.range(1).selectExpr(f"{sql} AS c")
    with pytest.raises(InvalidInput, match=r"^c"):
        align_frame(df, Schema((Field(1, "c", type_),)))


@pytest.mark.parametrize(
    ("sql", "type_", "place"),
    [
        ("NULL", LONG, "c"),
        ("CAST(NULL AS BIGINT)", INT, "c"),
        ("IF(id = 0, NULL, X'01')", Fixed(1), "c"),
        ("IF(id = 0, NULL, named_struct('x', 1))", Struct((Field(2, "x", INT),)), "c"),
        ("named_struct('x', IF(id = 0, NULL, 1))", Struct((Field(2, "x", INT, required=True),)), "c.x"),
        ("array(1, NULL)", List(2, INT, element_required=True), "c.element"),
        ("map('a', IF(id = 0, NULL, 1))", Map(2, STRING, 3, INT, value_required=True), "c.value"),
        (
            "array(named_struct('x', IF(id = 0, NULL, 1)))",
            List(2, Struct((Field(3, "x", INT, required=True),))),
            "c.element.x",
        ),
    ],
)
def test_nulls_in_required_columns_are_refused_by_name(
    session: SparkSession, sql: str, type_: Type, place: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^{place}: it is required, and a value is null"):
        one(session, sql, type_, required=True)


def test_a_null_struct_may_have_required_fields(session: SparkSession) -> None:
    struct = Struct((Field(2, "x", INT, required=True), Field(3, "y", STRING, required=True)))
    df = session.range(2).selectExpr("IF(id = 0, NULL, named_struct('x', id, 'y', 'a')) AS c")
    rows = align_frame(df, Schema((Field(1, "c", struct),))).orderBy("c").collect()
    assert [row[0] and tuple(row[0]) for row in rows] == [None, (1, "a")]


def test_columns_are_matched_by_name_at_every_depth(spark: SparkSession) -> None:
    inner = Struct((Field(5, "x", INT), Field(6, "y.z", STRING), Field(7, "new", LONG)))
    schema = Schema((Field(1, "a", LONG), Field(2, "b`c", List(3, inner)), Field(4, "gone", STRING)))
    df = spark.sql("SELECT array(named_struct('y.z', 'q', 'X', 1)) AS `b``c`, 5 AS A")
    row = align_frame(df, schema).collect()[0]
    assert row.asDict(recursive=True) == {"a": 5, "b`c": [{"x": 1, "y.z": "q", "new": None}], "gone": None}


def test_missing_columns_take_their_write_default(spark: SparkSession) -> None:
    inner = Struct((Field(3, "x", INT, write_default=-(2**31)), Field(4, "y", STRING)))
    fields = (
        Field(1, "id", LONG),
        Field(2, "s", inner, write_default=FrozenDict({})),
        Field(5, "text", STRING, required=True, write_default="it's \\ 漢"),
        Field(6, "l", List(7, Decimal(4, 2)), write_default=(decimal.Decimal("1.50"), None)),
        Field(8, "m", Map(9, STRING, 10, LONG), write_default=(("a", -(2**63)),)),
        Field(11, "u", UUID, write_default=ID),
        Field(12, "d", DATE, write_default=-1),
        Field(13, "t", TIMESTAMPTZ, write_default=1_000_001),
        Field(14, "n", TIMESTAMP_NS, write_default=5),
        Field(15, "dec", Decimal(38, 10), write_default=decimal.Decimal("0.0000000001")),
        Field(16, "f", DOUBLE, write_default=float("inf")),
        Field(17, "b", BOOLEAN, write_default=False),
    )
    made = align_frame(spark.range(1), Schema(fields))
    row = made.selectExpr("*", "unix_micros(t) AS micros").collect()[0].asDict(recursive=True)
    assert row["s"] == {"x": -(2**31), "y": None}
    assert row["text"] == "it's \\ 漢"
    assert row["l"] == [decimal.Decimal("1.50"), None]
    assert row["m"] == {"a": -(2**63)}
    assert bytes(row["u"]) == ID.bytes
    assert row["d"] == dt.date(1969, 12, 31)
    assert row["micros"] == 1_000_001
    assert (row["n"], row["f"], row["b"]) == (5, float("inf"), False)
    assert row["dec"] == decimal.Decimal("0.0000000001")
    # A field that is missing within a struct that is given takes its default, too.
    given = spark.range(1).selectExpr("id", "named_struct('y', 'z') AS s")
    assert tuple(align_frame(given, Schema(fields)).collect()[0]["s"]) == (-(2**31), "z")


def test_a_missing_required_column_is_named(spark: SparkSession) -> None:
    schema = Schema((Field(1, "id", LONG), Field(2, "must", STRING, required=True)))
    with pytest.raises(InvalidInput, match="must: the frame lacks this column"):
        align_frame(spark.range(1), schema)


def test_columns_that_the_table_lacks_are_refused(spark: SparkSession) -> None:
    schema = Schema((Field(1, "s", Struct((Field(2, "x", INT),))),))
    df = spark.range(1).selectExpr("named_struct('x', 1, 'y', 2) AS s")
    with pytest.raises(InvalidInput, match=r"no such column as s\.y.*merge_schema"):
        align_frame(df, schema)
    with pytest.raises(InvalidInput, match="no such column as id"):
        align_frame(spark.range(1), schema)


def test_two_columns_of_one_name_are_refused(spark: SparkSession) -> None:
    df = spark.range(1).selectExpr("id", "id AS ID")
    with pytest.raises(InvalidInput, match="two columns"):
        align_frame(df, Schema((Field(1, "id", LONG),)))


def test_an_aligned_frame_stays_as_it_is(spark: SparkSession) -> None:
    schema = Schema((Field(1, "id", LONG, required=True), Field(2, "u", UUID), Field(3, "l", List(4, INT))))
    once = align_frame(spark.range(1).selectExpr("id", f"'{ID}' AS u", "array(1) AS l"), schema)
    twice = align_frame(once, schema)
    assert twice.schema == once.schema
    assert twice.collect() == once.collect()


RULES = EvolutionRules(format_version=2, last_column_id=10)


def test_merging_adds_columns_and_widens_where_values_would_not_fit(spark: SparkSession) -> None:
    inner = Struct((Field(4, "x", INT), Field(5, "u", UUID)))
    schema = Schema(
        (Field(1, "id", LONG), Field(2, "n", INT), Field(3, "s", inner), Field(6, "d", Decimal(9, 2)))
    )
    df = spark.range(1).selectExpr(
        "CAST(id AS INT) AS ID",
        "id AS n",
        "named_struct('x', 1, 'u', 'a', 'more', 1.5D) AS s",
        "CAST(1 AS DECIMAL(12,2)) AS d",
        "array(id) AS extra",
    )
    merged, last = merged_schema(df, schema, RULES)
    assert [str(field.type) for field in merged.fields[:2]] == ["long", "long"]
    assert merged.find("s.u").type is UUID
    assert merged.find("s.more").type is DOUBLE
    assert merged.find("d").type == Decimal(12, 2)
    assert merged.find("extra").type == List(merged.find("extra.element").id, LONG)
    assert not merged.find("extra").required
    assert last == merged.highest_field_id > 10
    align_frame(df, merged)


def test_merging_refuses_what_cannot_be_stored(spark: SparkSession) -> None:
    schema = Schema((Field(1, "id", INT),))
    with pytest.raises(InvalidInput, match="string cannot be stored as int"):
        merged_schema(spark.range(1).selectExpr("'a' AS id"), schema, RULES)
