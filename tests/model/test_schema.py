"""Schemas: finding fields by id and name, identifier fields, and what a new schema must not be."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import (
    METADATA_COLUMNS,
    Schema,
    check_compatible,
    check_structure,
    identifier_problem,
)
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_FIELD_ID,
    STRING,
    TIMESTAMP_NS,
    UNKNOWN,
    VARIANT,
    Decimal,
    Field,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)
from tests.model.schema_strategies import schemas

ADDRESS = Struct((Field(20, "street", STRING), Field(21, "zip", INT, required=True)))
POINT = Struct((Field(15, "x", LONG, required=True), Field(16, "y", LONG, required=True)))
WIDE = Schema(
    (
        Field(1, "id", INT, required=True),
        Field(2, "Data", STRING),
        Field(3, "inner", Struct((Field(8, "a", BOOLEAN, required=True), Field(9, "element", INT)))),
        Field(4, "places", Map(10, ADDRESS, 11, POINT)),
        Field(5, "grid", List(12, List(13, Struct((Field(14, "v", DOUBLE),))))),
        Field(6, "tags", List(17, STRING)),
        Field(7, "dotted.name", STRING),
    ),
    schema_id=3,
)


@pytest.mark.parametrize(
    ("name", "field_id"),
    [
        ("id", 1),
        ("inner", 3),
        ("inner.a", 8),
        ("inner.element", 9),
        ("places.key", 10),
        ("places.key.zip", 21),
        ("places.value", 11),
        ("places.value.x", 15),
        ("places.x", 15),
        ("grid.element", 12),
        ("grid.element.element", 13),
        ("grid.element.element.v", 14),
        ("grid.element.v", 14),
        ("tags.element", 17),
        ("dotted.name", 7),
    ],
)
def test_fields_are_found_by_their_name_and_by_the_short_one(name: str, field_id: int) -> None:
    assert WIDE.find(name).id == field_id
    assert WIDE.find(name.upper(), case_sensitive=False).id == field_id
    found = WIDE.find_or_none(name)
    assert found is not None
    assert found.id == field_id


@pytest.mark.parametrize("name", ["ID", "data", "element", "places.zip", "grid.v", "inner.b", "", ".", "id."])
def test_other_names_find_nothing(name: str) -> None:
    assert WIDE.find_or_none(name) is None
    with pytest.raises(InvalidInput, match="no column"):
        WIDE.find(name)


def test_a_misspelt_name_gets_a_hint() -> None:
    with pytest.raises(InvalidInput, match=r"Did you mean inner\.a"):
        WIDE.find("inner.aa")


def test_the_full_name_wins_over_the_short_name_of_another_field() -> None:
    value = Struct((Field(3, "x", INT),))
    schema = Schema(
        (Field(1, "m", Map(2, STRING, 4, value)), Field(5, "n", Struct((Field(6, "value", value),))))
    )
    schema = Schema((*schema.fields[:1], Field(5, "m.x", LONG)))
    assert schema.find("m.x").id == 5
    assert schema.find("m.value.x").id == 3


def test_a_name_that_fits_two_columns_is_not_guessed() -> None:
    schema = Schema((Field(1, "a", Struct((Field(2, "b", INT),))), Field(3, "a.b", INT), Field(4, "A", INT)))
    assert schema.find_or_none("a.b") is None
    with pytest.raises(InvalidInput, match="more than one"):
        schema.find("a.b")
    with pytest.raises(InvalidInput, match="more than one"):
        schema.find("a", case_sensitive=False)
    assert schema.find("A").id == 4


def test_names_parents_and_ids() -> None:
    assert WIDE.name_of(14) == "grid.element.element.v"
    assert WIDE.name_of(20) == "places.key.street"
    parents = {field.id: parent.id for field in WIDE.all_fields if (parent := WIDE.parent_of(field.id))}
    assert parents == {8: 3, 9: 3, 10: 4, 11: 4, 20: 10, 21: 10, 15: 11, 16: 11, 12: 5, 13: 12, 14: 13, 17: 6}
    assert WIDE.highest_field_id == 21
    assert WIDE.has(21)
    assert not WIDE.has(22)
    assert WIDE.get(22) is None
    assert WIDE.field(2).name == "Data"
    for ask in (WIDE.field, WIDE.name_of, WIDE.parent_of):
        with pytest.raises(InvalidInput, match="schema 3 has no field with id 22"):
            ask(22)


def test_an_empty_schema_has_no_fields() -> None:
    assert Schema(()).highest_field_id == 0
    assert list(Schema(()).all_fields) == []
    with pytest.raises(InvalidInput, match="Columns: none"):
        Schema(()).find("a")


def test_a_changed_copy_does_not_answer_from_the_index_of_the_original() -> None:
    assert WIDE.find("id").id == 1
    changed = msgspec.structs.replace(WIDE, fields=(Field(9, "other", INT),))
    assert changed.find_or_none("id") is None
    assert changed.find("other").id == 9
    assert changed.struct == Struct((Field(9, "other", INT),))


def test_the_same_fields_in_another_schema() -> None:
    other = Schema(WIDE.fields, 7)
    assert WIDE.same_fields(other)
    assert other != WIDE
    assert not WIDE.same_fields(Schema(WIDE.fields, 3, (1,)))
    assert Schema(WIDE.fields, 3, (1, 8)).same_fields(Schema(WIDE.fields, 3, (8, 1)))
    assert not WIDE.same_fields(Schema(WIDE.fields[:-1], 3))


def test_the_reserved_columns_of_the_spec() -> None:
    assert {name: field.id for name, field in METADATA_COLUMNS.items()} == {
        "_file": 2147483646,
        "_pos": 2147483645,
        "_deleted": 2147483644,
        "_spec_id": 2147483643,
        "_partition": 2147483642,
        "file_path": 2147483546,
        "pos": 2147483545,
        "row": 2147483544,
        "_change_type": 2147483543,
        "_change_ordinal": 2147483542,
        "_commit_snapshot_id": 2147483541,
        "_row_id": 2147483540,
        "_last_updated_sequence_number": 2147483539,
    }
    assert all(field.id > MAX_FIELD_ID for field in METADATA_COLUMNS.values())
    types = [str(field.type) for name, field in METADATA_COLUMNS.items() if name not in ("_partition", "row")]
    assert types == ["string", "long", "boolean", "int", "string", "long", "string", "int", *["long"] * 3]


def nested(type_: Type, *, required: bool = True) -> Schema:
    return Schema((Field(1, "outer", type_, required=required),))


KEY = Field(5, "k", STRING, required=True)


@pytest.mark.parametrize(
    ("schema", "field_id", "why"),
    [
        (nested(STRING), 999, "no field has the id 999"),
        (nested(STRING, required=False), 1, "outer is not required"),
        (nested(FLOAT), 1, "outer is a floating point number"),
        (nested(DOUBLE), 1, "outer is a floating point number"),
        (nested(VARIANT), 1, "outer is not of a primitive type"),
        (nested(Struct((KEY,))), 1, "outer is not of a primitive type"),
        (nested(List(2, STRING)), 1, "outer is not of a primitive type"),
        (nested(List(2, Struct((KEY,)), element_required=True)), 5, "inside a list or map"),
        (nested(Map(2, Struct((KEY,)), 3, INT, value_required=True)), 5, "inside a list or map"),
        (nested(Map(2, INT, 3, Struct((KEY,)), value_required=True)), 5, "inside a list or map"),
        (nested(List(2, STRING, element_required=True)), 2, "inside a list or map"),
        (nested(Struct((KEY,)), required=False), 5, "inside the optional struct outer"),
        (nested(Struct((Field(2, "s", Struct((KEY,))),))), 5, "inside the optional struct outer.s"),
    ],
)
def test_fields_that_cannot_identify_rows(schema: Schema, field_id: int, why: str) -> None:
    assert why in (identifier_problem(schema, field_id) or "")
    with pytest.raises(InvalidMetadata, match=why):
        check_structure(Schema(schema.fields, 0, (field_id,)))


def test_fields_that_can_identify_rows() -> None:
    schema = Schema(
        (Field(1, "outer", Struct((KEY,)), required=True), Field(2, "id", INT, required=True)), 0, (5, 2)
    )
    check_structure(schema)
    check_compatible(schema, 1)


@pytest.mark.parametrize(
    ("fields", "version", "problem"),
    [
        ((Field(1, "a", INT), Field(1, "b", INT)), 3, "field id 1 is used twice"),
        ((Field(1, "a", List(1, INT)),), 3, "field id 1 is used twice"),
        ((Field(1, "a", INT), Field(2, "a", INT)), 3, "two columns are called 'a'"),
        ((Field(1, "s", Struct((Field(2, "a", INT), Field(3, "a", INT)))),), 3, "two columns are called 'a'"),
        ((Field(1, "l", List(2, Struct((Field(3, "", INT),)))),), 3, "needs a name"),
        ((Field(1, "", INT),), 3, "needs a name"),
        ((Field(1, "a", Struct((Field(2, "b", INT),))), Field(3, "a.b", INT)), 3, "full name 'a.b'"),
        ((Field(MAX_FIELD_ID + 1, "a", INT),), 3, "reserved"),
        ((Field(-1, "a", INT),), 3, "reserved or negative"),
        ((Field(1, "a", TIMESTAMP_NS),), 2, "timestamp_ns needs format version 3, the table has 2"),
        ((Field(1, "a", VARIANT),), 1, "needs format version 3"),
        ((Field(1, "a", List(2, Geometry())),), 2, "needs format version 3"),
        ((Field(1, "a", Map(2, STRING, 3, UNKNOWN)),), 2, "needs format version 3"),
        ((Field(1, "a", Decimal(9, -2)),), 3, "negative scale"),
        ((Field(1, "a", UNKNOWN, required=True),), 3, "unknown cannot be required"),
        ((Field(1, "a", Map(2, UNKNOWN, 3, INT)),), 3, "unknown cannot be required"),
        ((Field(1, "a", INT, initial_default=1),), 2, "default values need format version 3"),
        ((Field(1, "a", INT, write_default=1),), 1, "default values need format version 3"),
        ((Field(1, "a", UNKNOWN, write_default=1),), 3, "can only default to null"),
        ((Field(1, "a", VARIANT, write_default=1),), 3, "can only default to null"),
        ((Field(1, "a", Geometry(), initial_default=b""),), 3, "can only default to null"),
        (
            (Field(1, "a", Struct((Field(2, "b", INT),)), write_default=FrozenDict({2: 1})),),
            3,
            "no field values",
        ),
        ((Field(1, "a", INT, initial_default="1"),), 3, "not a value of type int"),
        ((Field(1, "a", INT, write_default=2**31),), 3, "not a value of type int"),
    ],
)
def test_schemas_that_no_table_may_get(fields: tuple[Field, ...], version: int, problem: str) -> None:
    with pytest.raises((InvalidInput, InvalidMetadata), match=problem):
        check_compatible(Schema(fields), version)


def test_what_tables_may_get() -> None:
    check_compatible(Schema((Field(MAX_FIELD_ID, "a", INT), Field(0, "A", BINARY))), 1)
    point = Struct((Field(2, "x", INT, initial_default=0, write_default=5),))
    check_compatible(Schema((Field(1, "p", point, initial_default=FrozenDict()),)), 3)
    check_compatible(Schema((Field(1, "t", TIMESTAMP_NS), Field(2, "u", UNKNOWN), Field(3, "v", VARIANT))), 3)
    check_compatible(Schema((Field(1, "a", Struct((Field(2, "x", INT),))), Field(3, "b.x", INT))), 2)


def test_the_same_name_may_be_used_in_separate_structs() -> None:
    left, right = Struct((Field(3, "x", INT),)), Struct((Field(4, "x", INT),))
    check_compatible(Schema((Field(1, "x", left), Field(2, "y", right))), 1)


@given(schemas())
def test_random_schemas_index_every_field(schema: Schema) -> None:
    check_compatible(schema, 3)
    for field in schema.all_fields:
        assert schema.find(schema.name_of(field.id)) == field
        parent = schema.parent_of(field.id)
        prefix = "" if parent is None else schema.name_of(parent.id) + "."
        assert schema.name_of(field.id) == prefix + field.name
