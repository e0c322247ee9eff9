from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as s

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
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
from lakeplane.spark.read import Access
from lakeplane.spark.types import from_spark, to_spark
from tests.spark.made import MadeTable, local_ranges, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = Field(1, "id", LONG)


def test_what_users_see() -> None:
    inner = Struct((Field(4, "u", UUID, doc="inside"), Field(5, "ns", TIMESTAMPTZ_NS)))
    schema = Schema(
        (
            ID,
            Field(2, "f", Fixed(4), doc="four"),
            Field(3, "l", List(6, inner)),
            Field(7, "d", Decimal(38, 38)),
        )
    )
    shown = to_spark(schema)
    text = "struct<id:bigint,f:binary,l:array<struct<u:string,ns:bigint>>,d:decimal(38,38)>"
    assert shown.simpleString() == text
    assert shown["f"].metadata == {"comment": "four"}
    listed = shown["l"].dataType
    assert isinstance(listed, s.ArrayType)
    assert isinstance(listed.elementType, s.StructType)
    assert listed.elementType["u"].metadata == {"comment": "inside"}


@pytest.mark.parametrize(
    "ddl",
    [
        "a BOOLEAN, b INT, c BIGINT, d FLOAT, e DOUBLE, f DATE, g TIMESTAMP, h TIMESTAMP_NTZ",
        "a DECIMAL(38,0), b ARRAY<INT>, c MAP<STRING, ARRAY<BIGINT>>, d STRUCT<x: INT, `y.z`: VARIANT>",
        "i STRING, j BINARY, e VOID",
        "t TIME(6), g GEOMETRY(4326), h GEOGRAPHY(4326)",
    ],
)
def test_spark_types_there_and_back(spark: SparkSession, ddl: str) -> None:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    given = spark.createDataFrame([], ddl).schema
    again = to_spark(from_spark(given))
    assert again.simpleString() == given.simpleString()


def test_details_of_spark_schemas() -> None:
    given = s.StructType(
        [
            s.StructField("a", s.ByteType(), nullable=False, metadata={"comment": "small"}),
            s.StructField("b", s.VarcharType(5)),
            s.StructField("c", s.ArrayType(s.CharType(2), containsNull=False)),
            s.StructField("d", s.MapType(s.StringType(), s.ShortType(), valueContainsNull=False)),
        ]
    )
    fields = from_spark(given).fields
    assert [str(each) for each in fields] == [
        "1: a: required int",
        "2: b: optional string",
        "3: c: optional list<string>",
        "4: d: optional map<string, int>",
    ]
    assert fields[0].doc == "small"
    assert isinstance(fields[2].type, List)
    assert fields[2].type.element_required
    assert isinstance(fields[3].type, Map)
    assert fields[3].type.value_required


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        (s.DayTimeIntervalType(), "Cast it to BIGINT"),
        (s.YearMonthIntervalType(), "Cast it to INT"),
        (s.CalendarIntervalType(), "columns of their own"),
        (s.StringType("UTF8_LCASE"), "UTF8_BINARY"),
    ],
)
def test_what_a_table_cannot_hold_is_named(type_: s.DataType, hint: str) -> None:
    struct = s.StructType([s.StructField("o", s.StructType([s.StructField("i", type_)]))])
    with pytest.raises(InvalidInput, match=rf"o\.i: .*{hint}"):
        from_spark(struct)


@pytest.mark.parametrize(
    "type_",
    [Decimal(3, 5), Geometry("EPSG:9999999"), Geography("OGC:CRS84", "karney"), Geography("EPSG:3857")],
)
def test_what_spark_lacks_is_said(type_: Type) -> None:
    schema = Schema((Field(1, "o", Struct((Field(2, "i", type_),))),))
    with pytest.raises(NotSupported, match=r"o\.i: .*Leave the column out"):
        to_spark(schema)


def test_types_beyond_the_usual_ones(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(
        tmp_path,
        Schema(
            (
                ID,
                Field(2, "nothing", UNKNOWN),
                Field(3, "clock", TIME),
                Field(4, "ns", TIMESTAMP_NS),
                Field(5, "u", UUID),
                Field(6, "us", Map(7, UUID, 8, List(9, UUID))),
                Field(10, "f", Fixed(3)),
                Field(11, "b", BINARY),
            )
        ),
    )
    key = bytes(range(16))
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    row = {
        "id": 1,
        "clock": dt.time(1, 2),
        "ns": 123_456_789,
        "u": key,
        "us": [(key, [key, None])],
        "f": b"abc",
        "b": b"",
    }
    table.append(table.rows([row], *(each for each in table.schema.fields if each.type is not UNKNOWN)))
    shown = (
        1,
        None,
        dt.time(1, 2),
        123_456_789,
        text,
        {text: [text, None]},
        bytearray(b"abc"),
        bytearray(b""),
    )
    assert rows(table.read(spark)) == [shown]
    assert rows(table.read(spark, ["id"], f"u = '{text}' and nothing is null and ns > 5")) == [(1,)]
    assert "PushedFilters: [IsNotNull(ns), EqualTo(ns,5)]" in physical(table.read(spark).where("ns = 5"))


def test_variants(spark: SparkSession, tmp_path: Path) -> None:
    written = tmp_path / "by-spark"
    spark.range(2).selectExpr("id", "parse_json('{\"a\":' || id || '}') as v").coalesce(1).write.parquet(
        str(written)
    )
    table = MadeTable(tmp_path, Schema((ID, Field(2, "v", VARIANT), Field(3, "w", VARIANT))))
    file = next(written.glob("*.parquet"))
    table.set_properties(
        **{
            "schema__name-mapping__default": json.dumps(
                [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]
            )
        }
    )
    table.add(str(file))
    frame = table.read(spark, access=Access(local_ranges)).selectExpr(
        "id", "variant_get(v, '$.a', 'int')", "w"
    )
    assert rows(frame) == [(0, 0, None), (1, 1, None)]


def test_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", "`tick", "ü 名", "sp ace;,", "_metadata", 'x"y']
    fields = [Field(n, name, STRING) for n, name in enumerate(names, 1)]
    table = MadeTable(tmp_path, Schema(tuple(fields)))
    table.append([{name: name.upper() for name in names}])
    frame = table.read(spark)
    assert frame.columns == names
    assert rows(frame) == [tuple(name.upper() for name in names)]
    assert rows(table.read(spark, ["ü 名"], "`a.b` = 'A.B' and ```tick` is not null")) == [("Ü 名",)]
