"""Columns and types as DDL: what Spark reads, what Iceberg names, and what is refused."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeplane.errors import InvalidInput
from lakeplane.model.ddl import column_to_ddl, parse_ddl, parse_ddl_type, schema_to_ddl, to_ddl
from lakeplane.model.evolution import assign_fresh_ids
from lakeplane.model.frozen import EMPTY
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import number_fields
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
    map_fields,
    parse_type,
)
from lakeplane.model.values import coerce
from tests.model.schema_strategies import flat_types, schemas, types

# The text of a type, and the name that Spark 4.3's own parser (CatalystSqlParser) gives it in its JSON.
SPARK_TYPES = [
    ("BOOLEAN", "boolean", BOOLEAN),
    ("TINYINT", "byte", INT),
    ("BYTE", "byte", INT),
    ("SMALLINT", "short", INT),
    ("SHORT", "short", INT),
    ("INT", "integer", INT),
    ("INTEGER", "integer", INT),
    ("BIGINT", "long", LONG),
    ("LONG", "long", LONG),
    ("FLOAT", "float", FLOAT),
    ("REAL", "float", FLOAT),
    ("DOUBLE", "double", DOUBLE),
    ("DECIMAL", "decimal(10,0)", Decimal(10, 0)),
    ("DEC(5)", "decimal(5,0)", Decimal(5, 0)),
    ("NUMERIC(7,2)", "decimal(7,2)", Decimal(7, 2)),
    ("DECIMAL(38, 38)", "decimal(38,38)", Decimal(38, 38)),
    ("STRING", "string", STRING),
    ("STRING COLLATE UTF8_BINARY", "string collate UTF8_BINARY", STRING),
    ("CHAR(5)", "char(5)", STRING),
    ("CHARACTER(5)", "char(5)", STRING),
    ("VARCHAR(0)", "varchar(0)", STRING),
    ("BINARY", "binary", BINARY),
    ("DATE", "date", DATE),
    ("TIME", "time(6)", TIME),
    ("TIME(3)", "time(3)", TIME),
    ("TIME WITHOUT TIME ZONE", "time(6)", TIME),
    ("TIMESTAMP", "timestamp", TIMESTAMPTZ),
    ("TIMESTAMP_LTZ", "timestamp", TIMESTAMPTZ),
    ("TIMESTAMP_LTZ(6)", "timestamp", TIMESTAMPTZ),
    ("TIMESTAMP_NTZ", "timestamp_ntz", TIMESTAMP),
    ("TIMESTAMP WITHOUT TIME ZONE", "timestamp_ntz", TIMESTAMP),
    ("VARIANT", "variant", VARIANT),
    ("VOID", "void", UNKNOWN),
    ("GEOMETRY(0)", "geometry(SRID:0)", Geometry("SRID:0")),
    ("GEOMETRY(3857)", "geometry(EPSG:3857)", Geometry("EPSG:3857")),
    ("GEOMETRY(4326)", "geometry(OGC:CRS84)", Geometry()),
    ("GEOMETRY(4267)", "geometry(OGC:CRS27)", Geometry("OGC:CRS27")),
    ("GEOMETRY(4269)", "geometry(OGC:CRS83)", Geometry("OGC:CRS83")),
    ("GEOMETRY(32632)", "geometry(EPSG:32632)", Geometry("EPSG:32632")),
    ("GEOGRAPHY(4326)", "geography(OGC:CRS84, SPHERICAL)", Geography()),
    ("INT /* a note */ -- and another\n", "integer", INT),
]
ICEBERG_TYPES = [
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamptz", "timestamp_ns"),
    *("timestamptz_ns", "string", "uuid", "binary", "variant", "unknown", "decimal(9, 2)", "fixed[16]"),
    *("fixed[0]", "geometry", "geometry(EPSG:4326)", "geometry(projjson:crs_property)", "geography"),
    *("geography(OGC:CRS84, karney)", "geography(EPSG:4979)"),
]


def one(text: str) -> Field:
    (field,) = parse_ddl(text).fields
    return field


@pytest.mark.parametrize(("text", "_spark", "expected"), SPARK_TYPES)
def test_types_as_spark_reads_them(text: str, _spark: str, expected: Type) -> None:
    for spelling in (text, text.lower() if "UTF8" not in text else text, f" \n{text} "):
        assert parse_ddl_type(spelling) == expected
    assert one(f"c {text} NOT NULL") == Field(1, "c", expected, required=True)
    assert parse_ddl_type(f"ARRAY<{text}\n>") == List(1, expected)


@pytest.mark.parametrize("text", ICEBERG_TYPES)
def test_types_as_iceberg_names_them(text: str) -> None:
    assert parse_ddl_type(text) == parse_type(text)
    assert parse_ddl_type(f"MAP<{text.upper() if 'geo' not in text else text}, string>") == Map(
        1, parse_type(text), 2, STRING
    )


def test_the_one_word_that_both_know_means_what_it_means_in_spark() -> None:
    assert parse_type("timestamp") == TIMESTAMP
    assert parse_ddl_type("timestamp") == TIMESTAMPTZ
    assert (to_ddl(TIMESTAMP), to_ddl(TIMESTAMPTZ)) == ("TIMESTAMP_NTZ", "TIMESTAMP")


def test_nanoseconds_as_newer_versions_of_spark_write_them() -> None:
    for digits in (7, 8, 9):
        assert parse_ddl_type(f"TIMESTAMP_NTZ({digits})") == TIMESTAMP_NS
        assert parse_ddl_type(f"TIMESTAMP({digits})") == TIMESTAMPTZ_NS
        assert parse_ddl_type(f"TIMESTAMP_LTZ({digits})") == TIMESTAMPTZ_NS
        assert parse_ddl_type(f"TIMESTAMP({digits}) WITHOUT TIME ZONE") == TIMESTAMP_NS


def test_nested_types_as_spark_reads_them() -> None:
    assert parse_ddl_type("STRUCT<>") == Struct(())
    assert parse_ddl_type("array<array<int>>") == List(1, List(2, INT))
    assert parse_ddl_type("MAP<STRING,ARRAY<MAP<INT,INT>>>") == Map(
        1, STRING, 2, List(3, Map(4, INT, 5, INT))
    )
    assert parse_ddl_type(
        "STRUCT<a INT, b: STRING NOT NULL COMMENT 'x', `c``d` STRUCT<1a: INT, order DATE>>"
    ) == Struct(
        (
            Field(1, "a", INT),
            Field(2, "b", STRING, required=True, doc="x"),
            Field(3, "c`d", Struct((Field(4, "1a", INT), Field(5, "order", DATE)))),
        )
    )
    assert parse_ddl_type("ARRAY<INT NOT NULL>") == List(1, INT, element_required=True)
    assert parse_ddl_type("MAP<INT NOT NULL, INT NOT NULL>") == Map(1, INT, 2, INT, value_required=True)
    assert parse_ddl_type("LIST<INT>") == List(1, INT)


def test_columns_as_spark_reads_them() -> None:
    schema = parse_ddl(
        "time TIME, date DATE, timestamp TIMESTAMP, not INT, comment STRING COMMENT 'c', default INT, "
        "struct STRUCT<struct: INT>"
    )
    assert [str(field) for field in schema.fields] == [
        "1: time: optional time",
        "2: date: optional date",
        "3: timestamp: optional timestamptz",
        "4: not: optional int",
        "5: comment: optional string",
        "6: default: optional int",
        "7: struct: optional struct<8: struct: optional int>",
    ]
    assert schema.find("comment").doc == "c"


@pytest.mark.parametrize(
    ("text", "comment"),  # as Spark 4.3 reads them
    [
        ("'it''s'", "it's"),
        ("'x' 'y'", "xy"),
        ('"dq"', "dq"),
        (r"'a\nb\\c\u00e9'", "a\nb\\cé"),
        (r"r'a\nb'", r"a\nb"),
        ("''", ""),
    ],
)
def test_comments(text: str, comment: str) -> None:
    assert one(f"a INT COMMENT {text}").doc == comment
    assert one(f"a INT COMMENT {text} NOT NULL") == Field(1, "a", INT, required=True, doc=comment)


def test_columns_as_pyspark_reads_them_beside_ddl() -> None:
    expected = Schema((Field(1, "a", INT), Field(2, "b", STRING)))
    assert parse_ddl("a: int, b: string") == expected
    assert parse_ddl("struct<a: int, b: string>") == expected
    assert parse_ddl("STRUCT<>") == Schema(())


def test_provisional_ids_are_those_of_a_new_table() -> None:
    schema = parse_ddl("a STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, b MAP<STRING, INT>, c INT")
    assert schema == assign_fresh_ids(schema)
    names = {
        name: schema.find(name).id for name in ("a", "b", "c", "a.x", "a.y", "a.y.z", "b.key", "b.value")
    }
    assert names == {"a": 1, "b": 2, "c": 3, "a.x": 4, "a.y": 5, "a.y.z": 7, "b.key": 8, "b.value": 9}


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("BOOLEAN DEFAULT true", BOOLEAN, True),
        ("INT DEFAULT -3", INT, -3),
        ("BIGINT DEFAULT -9223372036854775808", LONG, -(2**63)),
        ("BIGINT DEFAULT 5L", LONG, 5),
        ("FLOAT DEFAULT 1.1", FLOAT, coerce(FLOAT, 1.1)),
        ("DOUBLE DEFAULT 1", DOUBLE, 1.0),
        ("DOUBLE DEFAULT 1e300", DOUBLE, 1e300),
        ("DECIMAL(9,2) DEFAULT 5", Decimal(9, 2), decimal.Decimal("5.00")),
        ("DECIMAL(9,2) DEFAULT +5.1", Decimal(9, 2), decimal.Decimal("5.10")),
        ("STRING DEFAULT 'a, b'", STRING, "a, b"),
        ("DATE DEFAULT DATE '1970-01-02'", DATE, 1),
        ("DATE DEFAULT '1970-01-02'", DATE, 1),
        ("DATE DEFAULT CAST('1970-01-02' AS DATE)", DATE, 1),
        ("TIME DEFAULT TIME '00:00:01'", TIME, 1_000_000),
        ("TIMESTAMP DEFAULT TIMESTAMP '1970-01-01 00:00:01+01:00'", TIMESTAMPTZ, -3599_000_000),
        ("TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '1970-01-01 00:00:01'", TIMESTAMP, 1_000_000),
        ("timestamp_ns DEFAULT TIMESTAMP_NTZ '1970-01-01 00:00:00.000000001'", TIMESTAMP_NS, 1),
        ("TIME DEFAULT '00:00:01'", TIME, 1_000_000),
        ("TIMESTAMP DEFAULT '1970-01-01 00:00:01+01:00'", TIMESTAMPTZ, -3599_000_000),
        ("TIMESTAMP DEFAULT '1970-01-02'", TIMESTAMPTZ, 86_400_000_000),
        ("TIMESTAMP_NTZ DEFAULT '1970-01-01 00:00:01'", TIMESTAMP, 1_000_000),
        ("BINARY DEFAULT X'00FF'", BINARY, b"\0\xff"),
        ("fixed[2] DEFAULT X'00FF'", Fixed(2), b"\0\xff"),
        ("uuid DEFAULT '00000000-0000-0000-0000-000000000001'", UUID, uuid.UUID(int=1)),
        ("VARIANT DEFAULT NULL", VARIANT, None),
        ("INT DEFAULT NULL", INT, None),
    ],
)
def test_defaults(text: str, type_: Type, value: object) -> None:
    expected = Field(1, "a", type_, initial_default=value, write_default=value, required=True, doc="x")
    assert one(f"a {text} COMMENT 'x' NOT NULL") == expected
    assert one(f"a {text} NOT NULL COMMENT 'x'") == expected


def test_a_default_without_a_zone_is_a_time_of_the_session() -> None:
    text = "at TIMESTAMP DEFAULT TIMESTAMP '2026-07-01 12:00:00'"
    hour = 3_600_000_000
    berlin = parse_ddl(text, zone="Europe/Berlin").fields[0].write_default
    assert parse_ddl(text).fields[0].write_default - berlin == 2 * hour


@pytest.mark.parametrize(
    ("text", "place", "problem", "hint"),
    [
        ("", None, "expected a name at the end", "id BIGINT NOT NULL"),
        ("a", "a", "expected a type at the end", "DECIMAL(p, s)"),
        ("a INT,", None, "expected a name at the end", "id BIGINT"),
        (
            "a INT b INT",
            "a",
            "expected NOT NULL, COMMENT, DEFAULT or a comma at character 7, near 'b INT'",
            "",
        ),
        ("a INT NULL", "a", "expected NOT NULL", ""),
        ("a INT NOT", "a", "expected NULL after NOT at the end", ""),
        ("a BIGINT(5)", "a", "expected NOT NULL, COMMENT, DEFAULT or a comma at character 9", ""),
        ("a intt", "a", "unknown type 'intt' at character 3, near 'intt'", "Did you mean INT or BIGINT?"),
        ("a `INT`", "a", "expected a type at character 3", ""),
        ("a STRUCT<b: ARRAY<foo>>", "a.b.element", "unknown type 'foo' at character 19, near 'foo>>'", ""),
        ("a MAP<foo, INT>", "a.key", "unknown type 'foo'", "Accepted"),
        ("a MAP<INT>", "a.key", "expected ',' at character 10, near '>'", ""),
        ("a ARRAY<INT", "a.element", "expected '>' at the end", ""),
        ("a ARRAY", "a", "ARRAY without what it is made of", ""),
        ("a fixed", "a", "FIXED without what it is made of", "fixed[n]"),
        ("a STRUCT<b INT,>", "a", "expected a name at character 16, near '>'", ""),
        ("a DECIMAL(39,2)", "a", "decimal precision must be 1 to 38, not 39 at character 3", ""),
        ("a DECIMAL(1,2)", "a", "Spark has no decimal of 1 digits with 2 after the point", ""),
        ("a DECIMAL(1,2,3)", "a", "expected a closing bracket at character 14, near ',3)'", ""),
        ("a DECIMAL(1 2)", "a", "expected a comma at character 13", ""),
        ("a DECIMAL(5", None, "'(' is never closed, at character 10", ""),
        ("a VARCHAR()", "a", "expected a whole number at character 11", ""),
        ("a VARCHAR(99999999999)", "a", "expected a whole number", ""),
        ("a TIME(7)", "a", "TIME cannot have 7 digits of a second at character 7", "Write TIME"),
        ("a TIMESTAMP(10)", "a", "TIMESTAMP cannot have 10 digits", ""),
        ("a STRING COLLATE UTF8_LCASE", "a", "Iceberg has no collations at character 18", "Leave"),
        ("a INTERVAL DAY", "a", "Iceberg has no intervals", "number"),
        ("a GEOMETRY(ANY)", "a", "a column has one reference system at character 12", "EPSG:4326"),
        ("a geometry()", "a", "expected a name at character 12", ""),
        ("a geometry(1, 2)", "a", "expected 1 at most", ""),
        ("a geometry((x))", "a", "cannot hold", ""),
        ("a geography(EPSG:1, flat)", "a", "unknown edge algorithm 'flat'", "karney"),
        ("a.b INT", "a", "a name with a dot at character 2", "`a.b`"),
        ("a INT, a INT", None, "there are two columns 'a', the second at character 8", ""),
        ("a STRUCT<b: INT, b: INT>", "a", "there are two columns 'b'", ""),
        ("1d INT", None, "expected a name at character 1", ""),
        ("a INT COMMENT x", "a", "expected a string at character 15, near 'x'", ""),
        ("a INT COMMENT 'x' COMMENT 'y'", "a", "a second COMMENT at character 19", ""),
        ("a INT COMMENT 'x", None, "a quote is never closed", ""),
        ("a TIMESTAMP DEFAULT current_timestamp()", "a", "expected a literal at character 21", "one value"),
        ("a INT DEFAULT 1 + 1", "a", "expected NOT NULL, COMMENT, DEFAULT or a comma at character 17", ""),
        ("a INT DEFAULT", "a", "expected a literal at the end", ""),
        ("a INT DEFAULT 1.5", "a", "the default of a column of type int cannot be of kind decimal", ""),
        ("a INT DEFAULT 3000000000", "a", "3000000000 is not a value of type int", "32 bits"),
        ("a DATE DEFAULT 'today'", "a", "the default of a column of type date cannot be of kind string", ""),
        ("a TIMESTAMP_NTZ DEFAULT '2020-01-01 00:00:00Z'", "a", "cannot be of kind string", ""),
        ("a VARIANT DEFAULT 1", "a", "of type variant cannot be of kind integer", ""),
        ("a ARRAY<INT> DEFAULT 1", "a", "cannot be of kind integer", ""),
        ("a TIMESTAMP_NTZ DEFAULT TIMESTAMP '2020-01-01'", "a", "cannot be of kind timestamp at", ""),
        ("a TIMESTAMP DEFAULT TIMESTAMP '2020-01-01 00:00:00.1234567'", "a", "finer than microseconds", ""),
        ("a uuid DEFAULT 'x'", "a", "not a UUID", "uuid.UUID"),
        ("struct<a: int>, b int", None, "expected the end at character 15", ""),
        ("(a INT)", None, "expected a name at character 1", ""),
    ],
)
def test_errors_name_the_column_and_the_place(text: str, place: str | None, problem: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_ddl(text)
    assert caught.value.source == "DDL"
    assert caught.value.field == place
    assert problem in caught.value.problem
    assert hint in (caught.value.hint or "")


def test_an_unknown_time_zone_is_an_error_of_the_zone() -> None:
    with pytest.raises(InvalidInput, match="unknown time zone 'Mars'"):
        parse_ddl("a INT", zone="Mars")


def test_a_type_that_is_nested_without_end_is_refused_shortly() -> None:
    with pytest.raises(InvalidInput, match="more than 100 types inside types at character 601") as caught:
        parse_ddl_type("ARRAY<" * 100_000 + "INT" + ">" * 100_000)
    assert len(str(caught.value)) < 400
    parse_ddl_type("ARRAY<" * 99 + "INT" + ">" * 99)


@given(st.text(st.sampled_from("abINTSRUC<>(),:`'[]0123 .-;/*\n") | st.characters(), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_ddl, parse_ddl_type):
        try:
            read(text)
        except InvalidInput as error:
            assert error.source == "DDL"  # noqa: PT017  # most texts are refused


def test_what_is_written() -> None:
    text = (
        "id BIGINT NOT NULL, at TIMESTAMP NOT NULL DEFAULT TIMESTAMP '1970-01-01 00:00:01+00:00' "
        "COMMENT 'it\\'s', `a b` STRUCT<x: DECIMAL(9,2) NOT NULL COMMENT 'c', y: ARRAY<INT NOT NULL>>, "
        "m MAP<STRING, fixed[4]>, v VOID, u uuid, g GEOMETRY(4326), h geometry('4326'), "
        "k geography(EPSG:4979, karney), n timestamptz_ns"
    )
    schema = parse_ddl(text)
    assert schema_to_ddl(schema) == text
    assert column_to_ddl(schema.fields[0]) == "id BIGINT NOT NULL"
    assert schema_to_ddl(Schema(())) == "STRUCT<>"


def test_a_default_without_a_literal_is_left_out() -> None:
    for type_, value in ((List(2, INT), (1,)), (Struct(()), EMPTY)):
        assert "DEFAULT" not in column_to_ddl(Field(1, "a", type_, write_default=value))


@given(flat_types())
@example(Geometry("x#'y"))
@example(Geometry("ANY"))
@example(Geometry("any:1"))
@example(Geometry("4326"))
def test_flat_types_round_trip(type_: Type) -> None:
    assert parse_ddl_type(to_ddl(type_)) == type_


@given(types())
def test_nested_types_round_trip(type_: Type) -> None:
    ids = iter(range(1, 1000))
    plain = bare(number_fields(type_, lambda _name: next(ids)))
    assert parse_ddl_type(to_ddl(plain)) == plain


@given(schemas())
def test_schemas_round_trip_but_for_what_ddl_has_no_word_for(schema: Schema) -> None:
    struct = bare(schema.struct)
    assert isinstance(struct, Struct)
    assert parse_ddl(schema_to_ddl(schema)) == Schema(struct.fields)


def bare(type_: Any) -> Any:
    """A type without unknown properties, and with the write default in both places, if it is a literal."""

    def change(field: Field) -> Field:
        value = None if isinstance(field.type, Struct | List | Map) else field.write_default
        return replace(
            field, type=bare(field.type), initial_default=value, write_default=value, unknown=EMPTY
        )

    changed = map_fields(type_, change)
    return replace(changed, unknown=EMPTY) if isinstance(changed, Struct | List | Map) else changed
