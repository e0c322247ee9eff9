"""Types and their type strings: the table of the spec, Java's spellings, and what must be refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_FIELD_ID,
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
    Primitive,
    Struct,
    Type,
    children,
    defaults_to_null_only,
    is_nested,
    is_primitive,
    map_fields,
    min_format_version,
    parse_type,
    walk,
)
from tests.model.schema_strategies import flat_types, types

# Every row of the table in Appendix C that is a string.
SPEC_STRINGS: dict[str, Type] = {
    "unknown": UNKNOWN,
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "timestamp_ns": TIMESTAMP_NS,
    "timestamptz_ns": TIMESTAMPTZ_NS,
    "string": STRING,
    "uuid": UUID,
    "fixed[16]": Fixed(16),
    "binary": BINARY,
    "decimal(9,2)": Decimal(9, 2),
    "variant": VARIANT,
    "geometry(srid:4326)": Geometry("srid:4326"),
    "geography(srid:4326, spherical)": Geography("srid:4326", "spherical"),
}

OTHER_SPELLINGS: dict[str, Type] = {
    "decimal(9, 2)": Decimal(9, 2),
    "Decimal( 5 , 3 )": Decimal(5, 3),
    "decimal(2, 5)": Decimal(2, 5),
    "BooLean": BOOLEAN,
    "Variant": VARIANT,
    " int\n": INT,
    "Fixed[ 3 ]": Fixed(3),
    "fixed [3]": Fixed(3),
    "geometry": Geometry(),
    "Geometry": Geometry(),
    "geometry(OGC:CRS84)": Geometry(),
    "geometry ( srid:3857 )": Geometry("srid:3857"),
    "geometry( srid: 3857 )": Geometry("srid: 3857"),
    "Geometry( projjson:TestIdentifier )": Geometry("projjson:TestIdentifier"),
    "geography": Geography(),
    "geography(OGC:CRS84, spherical)": Geography(),
    "geography(srid:4269)": Geography("srid:4269"),
    "geography(srid:4269,vincenty)": Geography("srid:4269", "vincenty"),
    "geography ( srid:4269  ,  KARNEY  )": Geography("srid:4269", "karney"),
    "geography(srid:4269, thomas)": Geography("srid:4269", "thomas"),
    "geography(srid:4269, andoyer)": Geography("srid:4269", "andoyer"),
    "Geography(projjson: TestIdentifier, karney)": Geography("projjson: TestIdentifier", "karney"),
    # Java's, since the spec lets a system be named by any text: well-known text, too.
    'geometry(GEOGCS["WGS 84",DATUM["WGS_1984"]])': Geometry('GEOGCS["WGS 84",DATUM["WGS_1984"]]'),
    "geometry(a, (b)": Geometry("a, (b"),
    "geography(Pulkovo (1942, karney)": Geography("Pulkovo (1942", "karney"),
    # PyIceberg's spelling
    "geometry('EPSG:4326')": Geometry("EPSG:4326"),
    "geography('EPSG:4326', 'karney')": Geography("EPSG:4326", "karney"),
}

NOT_TYPES = [
    *(
        "",
        " ",
        "abcdefghij",
        "int32",
        "i nt",
        "timestamp_tz",
        "struct",
        "list",
        "map",
        "integer",
        "\u017ftring",
    ),
    *(
        "decimal",
        "decimal()",
        "decimal(9)",
        "decimal(9,2,1)",
        "decimal(9 2)",
        "decimal(-9,2)",
        "decimal(9,2)x",
    ),
    *(
        "decimal(0,0)",
        "decimal(39,2)",
        "decimal(9,39)",
        "decimal(9,-1)",
        "decimal(٣,٢)",
        f"decimal({'9' * 5000},2)",
    ),
    *("fixed", "fixed[]", "fixed[-1]", "fixed(3)", "fixed[3", "fixed[2147483648]", f"fixed[{'9' * 5000}]"),
    *("geometry()", "geometry( )", "geometry(a", "geometry(a)b", "geometry((a))"),
    *("geography()", "geography( , spherical)", "geography(a, BadAlgorithm)", "geography(a, )"),
    *("geography(a, karney, b)", 'geometry({"type": "GeographicCRS"})'),
]


@pytest.mark.parametrize("text", SPEC_STRINGS)
def test_every_type_string_of_the_spec_is_read_and_written_as_it_stands(text: str) -> None:
    assert parse_type(text) == SPEC_STRINGS[text]
    assert str(SPEC_STRINGS[text]) == text


def test_the_table_of_the_spec_is_complete() -> None:
    assert {each for each in SPEC_STRINGS.values() if isinstance(each, Primitive)} == set(Primitive)


@pytest.mark.parametrize("text", OTHER_SPELLINGS)
def test_readers_forgive_case_and_whitespace(text: str) -> None:
    assert parse_type(text) == OTHER_SPELLINGS[text]


@pytest.mark.parametrize("text", NOT_TYPES, ids=lambda text: text[:20] or "empty")
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_type(text)
    assert len(str(caught.value)) < 500


def test_a_crs_keeps_its_case_and_a_default_one_needs_no_name() -> None:
    assert parse_type("GEOMETRY(Ogc:Crs84)") == Geometry("Ogc:Crs84")
    assert str(Geometry()) == "geometry"
    assert str(Geography()) == "geography"
    assert str(Geography(algorithm="karney")) == "geography(OGC:CRS84, karney)"


@given(flat_types())
def test_type_strings_round_trip(type_: Type) -> None:
    assert parse_type(str(type_)) == type_


@given(flat_types(), st.data())
def test_type_strings_round_trip_with_any_whitespace_around_their_parts(
    type_: Type, data: st.DataObject
) -> None:
    blank = st.sampled_from(["", " ", "  ", "\t", "\n", " \t "])
    text = "".join(
        f"{data.draw(blank)}{mark}{data.draw(blank)}" if mark in "()[]," else mark for mark in str(type_)
    )
    assert parse_type(data.draw(blank) + text + data.draw(blank)) == type_


@given(st.text())
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        type_ = parse_type(text)
    except InvalidInput:
        return
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize("head", ["geometry(", "geography(", "decimal(", "fixed[", "geography(a,"])
def test_a_hostile_type_string_does_not_hold_up_the_reader(head: str) -> None:
    # A pattern that tries each way to part the blanks takes seconds for 2,000 of them, hours for these.
    started = time.process_time()
    with pytest.raises(InvalidInput):
        parse_type(head + " " * 50_000)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Decimal(0, 0),
        lambda: Decimal(39, 0),
        lambda: Decimal(5, 39),
        lambda: Decimal(5, -39),
        lambda: Fixed(-1),
        lambda: Fixed(2**31),
        lambda: Geometry(""),
        lambda: Geometry(" a"),
        lambda: Geography("a,b"),
        lambda: Geography("a)"),
        lambda: Geometry("a)"),
        lambda: Geometry('{"$schema": 1}'),
        lambda: Geography("a", "euclidean"),
    ],
)
def test_impossible_parameters_are_refused(make: type) -> None:
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize(
    ("type_", "version"),
    [
        *((each, 3) for each in (UNKNOWN, VARIANT, TIMESTAMP_NS, TIMESTAMPTZ_NS, Geometry(), Geography())),
        *((each, 1) for each in (BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ)),
        *((each, 1) for each in (STRING, UUID, BINARY, Fixed(1), Decimal(1, 0))),
        *((each, 1) for each in (Struct(()), List(1, INT), Map(1, INT, 2, INT))),
    ],
)
def test_the_format_version_that_brought_each_type(type_: Type, version: int) -> None:
    assert min_format_version(type_) == version


def test_which_types_default_to_null_only() -> None:
    flat = (*SPEC_STRINGS.values(), Struct(()), List(1, INT), Map(1, INT, 2, INT))
    null_only = [each for each in flat if defaults_to_null_only(each)]
    assert null_only == [UNKNOWN, VARIANT, Geometry("srid:4326"), Geography("srid:4326")]


def test_kinds_of_types() -> None:
    nested: list[Type] = [Struct(()), List(1, INT), Map(1, INT, 2, INT)]
    assert all(map(is_nested, nested))
    assert not any(map(is_primitive, nested))
    assert not is_nested(VARIANT)
    assert not is_primitive(VARIANT)
    assert all(is_primitive(each) for each in SPEC_STRINGS.values() if each is not VARIANT)
    assert not any(is_nested(each) for each in SPEC_STRINGS.values())


def test_the_fields_inside_a_type_have_the_names_of_paths() -> None:
    assert children(INT) == ()
    assert children(List(1, INT, element_required=True)) == (Field(1, "element", INT, required=True),)
    pair = Map(1, INT, 2, STRING)
    assert children(pair) == (Field(1, "key", INT, required=True), Field(2, "value", STRING))
    assert str(pair) == "map<int, string>"
    assert str(Struct((Field(1, "a", List(2, INT)),))) == "struct<1: a: optional list<int>>"


def test_walking_gives_parents_before_their_fields() -> None:
    point = Struct((Field(3, "x", INT), Field(4, "y", INT)))
    fields = (Field(1, "points", List(2, point)), Field(5, "tags", Map(6, STRING, 7, STRING)))
    assert [field.id for field in walk(fields)] == [1, 2, 3, 4, 5, 6, 7]


@given(types())
def test_rebuilding_a_type_from_its_own_fields_loses_nothing(type_: Type) -> None:
    assert map_fields(type_, lambda field: field) == type_


def test_the_highest_field_id_leaves_room_for_the_metadata_columns() -> None:
    assert MAX_FIELD_ID == 2147483447
