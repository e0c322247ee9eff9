"""What gives wrong rows in silence when Spark reads files that are older than the schema of their table."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

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
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.spark.read import Access
from tests.spark.made import MadeTable, local_ranges, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

number, moment = decimal.Decimal, dt.datetime
ID = Field(1, "id", LONG)
LOCAL = Access(read_ranges=local_ranges)


def made(folder: Path, *fields: Field) -> MadeTable:
    return MadeTable(folder, Schema((ID, *fields)))


# Filters are pushed down by name


def test_filters_on_swapped_names(spark: SparkSession, tmp_path: Path) -> None:
    """``a = 20`` returned no rows: Spark looked for it in the column that was called ``a`` before."""
    table = made(tmp_path, Field(2, "a", LONG), Field(3, "b", LONG))
    table.append([{"id": n, "a": n, "b": n * 10} for n in range(1, 4)])
    table.evolve(ID, Field(2, "b", LONG), Field(3, "a", LONG))
    table.append([{"id": 4, "b": 4, "a": 40}])
    assert rows(table.read(spark).where("a = 20")) == [(2, 2, 20)]
    assert rows(table.read(spark, ["a"], "b = 3")) == [(30,)]
    assert rows(table.read(spark).where("a > 20 and b < 4")) == [(3, 3, 30)]
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,2)]" in physical(table.read(spark).where("id = 2"))


def test_filters_on_a_column_that_was_dropped_and_added_again(spark: SparkSession, tmp_path: Path) -> None:
    """``x is null`` returned no rows: the files do have another column of this name, without nulls."""
    table = made(tmp_path, Field(2, "x", LONG))
    table.append([{"id": 1, "x": 5}, {"id": 2, "x": 6}])
    table.evolve(ID)
    table.evolve(ID, Field(3, "X", LONG))
    assert rows(table.read(spark).where("x is null")) == [(1, None), (2, None)]
    table.append([{"id": 3, "X": 5}])
    assert rows(table.read(spark).where("X = 5")) == [(3, 5)]
    assert rows(table.read(spark, where="X is null")) == [(1, None), (2, None)]


def test_filters_inside_structs_go_by_name_too(spark: SparkSession, tmp_path: Path) -> None:
    def points(*fields: Field) -> Field:
        return Field(2, "p", Struct(fields))

    table = made(tmp_path, points(Field(3, "x", LONG), Field(4, "y", LONG)))
    table.append([{"id": n, "p": {"x": n, "y": n * 10}} for n in range(1, 4)])
    table.evolve(ID, points(Field(3, "y", LONG), Field(4, "x", LONG)))
    assert [row[0] for row in rows(table.read(spark).where("p.x = 20").select("id"))] == [2]
    assert rows(table.read(spark).where("p.y = 3").select("p.x")) == [(30,)]


def test_names_of_schemas_that_are_gone_may_be_anything(spark: SparkSession, tmp_path: Path) -> None:
    """Schemas that nobody needs are taken away, and the files written under them stay."""
    table = made(tmp_path, Field(2, "a", LONG), Field(3, "b", LONG))
    table.append([{"id": 1, "a": 1, "b": 10}])
    table.evolve(ID, Field(2, "b", LONG), Field(3, "a", LONG))
    table.forget_schemas()
    assert rows(table.read(spark).where("a = 10")) == [(1, 1, 10)]


# Ids get lost inside of structs


def test_renamed_fields_inside_columns(spark: SparkSession, tmp_path: Path) -> None:
    """They read as null as soon as a query needed some of the fields only."""

    def nested(x: str, y: str) -> tuple[Field, ...]:
        pair = (Field(5, x, LONG), Field(6, y, STRING))
        return (
            Field(2, "point", Struct((Field(3, x, LONG), Field(4, y, STRING)))),
            Field(7, "many", List(8, Struct(pair))),
            Field(9, "named", Map(10, STRING, 11, Struct((Field(12, x, LONG), Field(13, y, STRING))))),
        )

    table = made(tmp_path, *nested("x", "y"))
    value = {"x": 1, "y": "one"}
    table.append([{"id": 1, "point": value, "many": [value], "named": [("k", value)]}])
    table.evolve(ID, *nested("u", "v"))
    frame = table.read(spark)
    assert rows(frame.select("point.v")) == [("one",)]
    assert rows(frame.where("point.u = 1").select("point.v")) == [("one",)]
    assert rows(frame.select("many.u", "named.k.v")) == [([1], "one")]
    assert rows(frame.selectExpr("explode(many) as e").select("e.v")) == [("one",)]
    assert rows(frame.selectExpr("map_values(named).u")) == [([1],)]
    assert rows(frame.groupBy("point.v").count()) == [("one", 1)]


def test_a_struct_that_was_renamed_itself(spark: SparkSession, tmp_path: Path) -> None:
    """What is in it read as null: the id of the struct gets lost with those of its fields."""
    inside = Struct((Field(3, "x", LONG), Field(4, "y", STRING)))
    table = made(tmp_path, Field(2, "c", inside))
    table.append([{"id": 1, "c": {"x": 1, "y": "one"}}])
    table.evolve(ID, Field(2, "b", inside))
    assert rows(table.read(spark).select("b.y")) == [("one",)]
    assert rows(table.read(spark).where("b.x is null").select("id")) == []


def test_a_struct_with_a_uuid_inside_is_not_asked_for_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    inside = Struct((Field(3, "x", LONG), Field(4, "k", UUID)))
    table = made(tmp_path, Field(2, "c", inside))
    table.append([{"id": 1, "c": {"x": 1, "k": bytes(16)}}])
    assert rows(table.read(spark).select("c.k", "c.x")) == [(str(uuid.UUID(int=0)), 1)]
    table.evolve(ID, Field(2, "b", Struct((Field(4, "k", UUID), Field(3, "z", LONG)))))
    assert rows(table.read(spark).select("b.k", "b.z")) == [(str(uuid.UUID(int=0)), 1)]
    assert rows(table.read(spark).select("b.z")) == [(1,)]


def test_a_field_inside_that_took_the_name_of_a_dropped_one(spark: SparkSession, tmp_path: Path) -> None:
    """It read the values of the dropped one."""
    old = Field(2, "p", Struct((Field(3, "x", LONG), Field(4, "y", LONG))))
    table = made(tmp_path, old)
    table.append([{"id": 1, "p": {"x": 1, "y": 2}}])
    table.evolve(ID, Field(2, "p", Struct((Field(4, "y", LONG), Field(5, "x", LONG)))))
    assert rows(table.read(spark).select("p.x")) == [(None,)]
    assert rows(table.read(spark).where("p.x is null").select("p.y")) == [(2,)]


def test_a_struct_whose_fields_are_all_new_is_still_there(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, Field(2, "p", Struct((Field(3, "x", LONG),))))
    table.append([{"id": 1, "p": {"x": 1}}, {"id": 2, "p": None}])
    table.evolve(ID, Field(2, "p", Struct((Field(4, "z", LONG),))))
    assert rows(table.read(spark).selectExpr("id", "p is null")) == [(1, False), (2, True)]


def test_names_that_writers_spell_in_another_way(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg's writers make ``a_x2Eb`` of ``a.b``, in Parquet files as well."""
    strange = Field(2, "s", Struct((Field(3, "a.b", LONG), Field(4, "`ü", LONG))))
    table = made(tmp_path, strange, Field(5, "c.d", LONG))
    written = [
        Field(2, "s", Struct((Field(3, "a_x2Eb", LONG), Field(4, "_x60ü", LONG)))),
        Field(5, "c_x2Ed", LONG),
    ]
    table.append(table.rows([{"id": 1, "s": {"a_x2Eb": 7, "_x60ü": 8}, "c_x2Ed": 9}], ID, *written))
    frame = table.read(spark)
    assert rows(frame.select("s.`a.b`", "s.```ü`", "`c.d`")) == [(7, 8, 9)]
    assert rows(frame.where("s.`a.b` = 7 and `c.d` = 9").select("id")) == [(1,)]


# Decimals


def test_filters_on_decimals_with_more_digits_than_files_store(spark: SparkSession, tmp_path: Path) -> None:
    """The query failed: the number does not fit the bytes that the file has for it."""
    table = made(tmp_path, Field(2, "d", Decimal(20, 2)))
    table.append([{"id": 1, "d": number("1.25")}, {"id": 2, "d": None}], store_decimal_as_integer=False)
    table.evolve(ID, Field(2, "d", Decimal(38, 2)))
    large = "99999999999999999999999999999999999.99"
    assert rows(table.read(spark).where(f"d < {large}").select("id")) == [(1,)]
    assert rows(table.read(spark).where(f"d > -{large}").select("d")) == [(number("1.25"),)]


@pytest.mark.parametrize(
    ("old", "new", "value", "shown", "condition"),
    [
        (INT, LONG, 2**31 - 1, 2**31 - 1, "v < 3000000000"),
        (FLOAT, DOUBLE, 0.5, 0.5, "v > 0.1 and v < 1e300"),
        (
            Decimal(5, 2),
            Decimal(12, 2),
            number("1.25"),
            number("1.25"),
            "v < 1234567890.12",
        ),
        (Decimal(12, 2), Decimal(25, 2), number("1.25"), number("1.25"), "v != 1"),
        (
            DATE,
            TIMESTAMP,
            dt.date(2020, 1, 2),
            moment(2020, 1, 2),
            "v >= timestamp_ntz'2020-01-01'",
        ),
        (DATE, TIMESTAMP_NS, dt.date(1970, 1, 2), 86_400 * 10**9, "v > 5"),
    ],
)
def test_wider_types(  # noqa: PLR0917
    spark: SparkSession, tmp_path: Path, old: Type, new: Type, value: Any, shown: Any, condition: str
) -> None:
    table = made(tmp_path, Field(2, "v", old))
    table.append([{"id": 1, "v": value}, {"id": 2, "v": None}])
    table.evolve(ID, Field(2, "v", new))
    assert rows(table.read(spark, access=LOCAL)) == [(1, shown), (2, None)]
    assert rows(table.read(spark, access=LOCAL).where(condition)) == [(1, shown)]


# Defaults of files that are older than a column


LARGE = number("123456789012345678901234567890.12")
DEFAULTS: list[tuple[Type, Any, Any]] = [
    (BOOLEAN, True, True),
    (INT, -(2**31), -(2**31)),
    (LONG, -(2**63), -(2**63)),
    (FLOAT, 1.5, 1.5),
    (DOUBLE, 1e300, 1e300),
    (DATE, -1, dt.date(1969, 12, 31)),
    (TIME, 3_723_000_004, dt.time(1, 2, 3, 4)),
    (TIMESTAMP, 1, moment(1970, 1, 1, 0, 0, 0, 1)),
    (TIMESTAMPTZ, 1_577_854_800_000_000, moment(2020, 1, 1, 5)),
    (TIMESTAMP_NS, 123_456_789, 123_456_789),
    (STRING, 'it\'s \\n "quoted" ü', 'it\'s \\n "quoted" ü'),
    (UUID, uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (BINARY, b"\xff\x00", bytearray(b"\xff\x00")),
    (Fixed(2), b"\xff\x00", bytearray(b"\xff\x00")),
    (Decimal(9, 2), number("-1.25"), number("-1.25")),
    (
        Decimal(38, 2),
        LARGE,
        LARGE,
    ),
    (List(3, INT), (1, None), [1, None]),
    (Map(3, STRING, 4, INT), (("a", 1),), {"a": 1}),
    (Struct((Field(3, "x", INT, initial_default=5), Field(4, "y", STRING))), FrozenDict({}), (5, None)),
]


@pytest.mark.parametrize(("type_", "default", "shown"), DEFAULTS, ids=lambda each: str(each)[:20])
def test_defaults(spark: SparkSession, tmp_path: Path, type_: Type, default: Any, shown: Any) -> None:
    """Some defaults broke the reader, and some filled the first row only."""
    table = made(tmp_path)
    table.append([{"id": 1}, {"id": 2}])
    table.evolve(ID, Field(2, "v", type_, initial_default=default))
    table.append([{"id": 3, "v": None}])
    found = [
        (row[0], tuple(row[1]) if isinstance(type_, Struct) and row[1] else row[1])
        for row in rows(table.read(spark, access=LOCAL))
    ]
    assert found == [(1, shown), (2, shown), (3, None)]
    assert rows(table.read(spark, access=LOCAL).where("v is null").select("id")) == [(3,)]
    assert rows(table.read(spark, ["id"], "v is not null", access=LOCAL)) == [(1,), (2,)]


def test_defaults_inside_structs(spark: SparkSession, tmp_path: Path) -> None:
    """They read as null; and a null that was written must stay one."""

    def nested(*more: Field) -> tuple[Field, ...]:
        return (
            Field(2, "p", Struct((Field(3, "x", LONG), *more))),
            Field(
                5,
                "many",
                List(
                    6,
                    Struct(
                        (Field(7, "x", LONG), *(Field(8, e.name, e.type, initial_default="d") for e in more))
                    ),
                ),
            ),
        )

    table = made(tmp_path, *nested())
    table.append([{"id": 1, "p": {"x": 1}, "many": [{"x": 1}, None]}, {"id": 2, "p": None, "many": None}])
    table.evolve(ID, *nested(Field(4, "z", STRING, initial_default="d")))
    table.append([{"id": 3, "p": {"x": 3, "z": None}, "many": [{"x": 3, "z": "w"}]}])
    frame = table.read(spark, access=LOCAL)
    assert rows(frame.select("id", "p.z")) == [(1, "d"), (2, None), (3, None)]
    assert rows(frame.selectExpr("id", "p is null").where("id = 2")) == [(2, True)]
    assert rows(frame.select("many.z")) == [(None,), (["d", None],), (["w"],)]
    assert rows(frame.where("p.z = 'd'").select("id")) == [(1,)]


def test_a_required_column_that_a_file_lacks(spark: SparkSession, tmp_path: Path) -> None:
    """It read as null, which the column cannot be."""
    table = made(tmp_path)
    table.append([{"id": 1}])
    table.evolve(ID, Field(2, "must", LONG, required=True))
    table.append([{"id": 2, "must": 5}])
    with pytest.raises(PySparkException, match="the column must is required"):
        rows(table.read(spark))
    assert rows(table.read(spark, ["id"])) == [(1,), (2,)]
    assert rows(table.read(spark, ["must"], "must = 5 and id = 2")) == [(5,)]


def test_a_column_that_is_required_from_the_beginning_costs_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, Field(2, "must", LONG, required=True))
    table.append([{"id": 2, "must": 5}])
    assert "PushedFilters: [IsNotNull(must), EqualTo(must,5)]" in physical(
        table.read(spark).where("must = 5")
    )
    assert "Project" not in physical(table.read(spark))


def test_columns_that_differ_in_case_only(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, Field(2, "a", LONG), Field(3, "A", LONG))
    table.append([{"id": 1, "a": 5, "A": 6}])
    assert rows(table.read(spark)) == [(1, 5, 6)]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert rows(table.read(spark, ["A"], "A = 6 and a = 5")) == [(6,)]
        assert rows(table.read(spark, where="A = 5")) == []
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_elements_without_ids_are_found_by_their_place(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own writer gives no ids to elements of lists and entries of maps."""
    table = made(
        tmp_path,
        Field(2, "l", List(3, Struct((Field(4, "x", LONG),)))),
        Field(5, "m", Map(6, STRING, 7, LONG)),
    )
    good = table.rows([{"id": 1, "l": [{"x": 1}], "m": [("k", 2)]}], *table.schema.fields)
    table.append(_without_element_ids(good))
    assert rows(table.read(spark).select("l.x", "m.k")) == [([1], 2)]


def _without_element_ids(table: pa.Table) -> pa.Table:
    def strip(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_list(type_):
            return pa.list_(pa.field("element", type_.value_type))
        if pa.types.is_map(type_):
            return pa.map_(type_.key_type, pa.field("value", type_.item_type))
        return type_

    return table.cast(pa.schema([each.with_type(strip(each.type)) for each in table.schema]))


def test_a_field_that_was_dropped_does_not_stand_in_the_way_of_its_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads some field of a struct of which a file has none, and failed as its type is another one."""
    table = MadeTable(tmp_path, Schema((ID, Field(2, "p", Struct((Field(3, "y", LONG),))))))
    table.append([{"id": 1, "p": {"y": 20}}, {"id": 2, "p": None}])
    for type_ in (LONG, STRING):
        table.evolve(ID, Field(2, "p", Struct((Field(table.built.metadata.last_column_id + 1, "y", type_),))))
        found = table.read(spark)
        assert rows(found) == [(1, (None,)), (2, None)]
        assert [tuple(row) for row in found.select("p.y").where("id = 1").collect()] == [(None,)]
