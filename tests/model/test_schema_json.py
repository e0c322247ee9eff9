"""Schemas as JSON: the table of Appendix C, round trips, and what is refused."""

from __future__ import annotations

import contextlib
import copy
import decimal
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model.evolution import EvolutionRules, RenameColumn, evolve
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.schema_json import read_schema, read_type, write_schema, write_type
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_NESTING,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
    Type,
)
from tests.model.schema_strategies import schemas

UUIDS = [uuid.UUID("0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb"), uuid.UUID("ec5911be-b0a7-458c-8438-c9a3e53cffae")]

SPEC_TYPES: list[tuple[Any, Type]] = [
    (
        {
            "type": "struct",
            "fields": [
                {
                    "id": 1,
                    "name": "id",
                    "required": True,
                    "type": "uuid",
                    "initial-default": "0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb",
                    "write-default": "ec5911be-b0a7-458c-8438-c9a3e53cffae",
                },
                {
                    "id": 2,
                    "name": "data",
                    "required": False,
                    "type": {"type": "list", "element-id": 3, "element": "long", "element-required": False},
                },
            ],
        },
        Struct(
            (
                Field(1, "id", UUID, required=True, initial_default=UUIDS[0], write_default=UUIDS[1]),
                Field(2, "data", List(3, LONG)),
            )
        ),
    ),
    (
        {"type": "list", "element-id": 3, "element-required": True, "element": "string"},
        List(3, STRING, element_required=True),
    ),
    (
        {
            "type": "map",
            "key-id": 4,
            "key": "string",
            "value-id": 5,
            "value-required": False,
            "value": "double",
        },
        Map(4, STRING, 5, DOUBLE),
    ),
    ("variant", read_type("variant")),
]


@pytest.mark.parametrize(("raw", "type_"), SPEC_TYPES)
def test_the_nested_types_of_the_spec(raw: Any, type_: Type) -> None:
    assert read_type(raw) == type_
    assert write_type(type_) == raw


def test_the_extra_fields_of_a_schema() -> None:
    raw = {
        "type": "struct",
        "schema-id": 34,
        "identifier-field-ids": [1, 2],
        "fields": [
            {"id": 1, "name": "id-1", "required": True, "type": "long"},
            {"id": 2, "name": "id-2", "required": True, "type": "long", "doc": "unique"},
            {"id": 3, "name": "data", "required": False, "type": "string"},
        ],
    }
    schema = read_schema(raw)
    fields = (
        Field(1, "id-1", LONG, required=True),
        Field(2, "id-2", LONG, required=True, doc="unique"),
        Field(3, "data", STRING),
    )
    assert schema == Schema(fields, 34, (1, 2))
    assert write_schema(schema) == raw
    without_id = write_schema(schema, with_id=False)
    assert without_id == {key: raw[key] for key in raw if key != "schema-id"}
    assert read_schema(without_id).schema_id == 0


def test_a_schema_without_its_type_is_read() -> None:
    assert read_schema({"fields": []}) == Schema(())
    assert write_schema(Schema(())) == {"type": "struct", "schema-id": 0, "fields": []}


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        (BOOLEAN, False, False),
        (INT, 34, 34),
        (LONG, 4900000000, 4900000000),
        (FLOAT, 12.25, 12.25),
        (DOUBLE, -0.0, -0.0),
        (DATE, "2024-12-17", 20074),
        (TIME, "23:59:59.999999", 86_399_999_999),
        (TIMESTAMP, "2024-12-17T23:59:59.999999", 1734479999999999),
        (TIMESTAMPTZ, "2024-12-17T23:59:59.999999+00:00", 1734479999999999),
        (TIMESTAMP_NS, "2024-12-17T23:59:59.123456789", 1734479999123456789),
        (TIMESTAMPTZ_NS, "2024-12-17T23:59:59.123456789+00:00", 1734479999123456789),
        (STRING, "iceberg", "iceberg"),
        (UUID, "0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb", UUIDS[0]),
        (Fixed(4), "0a0b0c0d", b"\x0a\x0b\x0c\x0d"),
        (BINARY, "0a0b", b"\x0a\x0b"),
        (Decimal(9, 2), "12.34", decimal.Decimal("12.34")),
        (Struct((Field(9, "x", INT, initial_default=3),)), {}, FrozenDict()),
    ],
)
def test_defaults_are_kept_in_the_json_form_of_their_type(type_: Type, raw: Any, value: Any) -> None:
    document = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {
                "id": 1,
                "name": "a",
                "required": True,
                "type": write_type(type_),
                "initial-default": raw,
                "write-default": raw,
            }
        ],
    }
    schema = read_schema(document)
    assert schema.fields[0].initial_default == value
    assert schema.fields[0].write_default == value
    assert write_schema(schema) == document


def test_the_two_defaults_are_told_apart_and_null_is_none() -> None:
    raw = {
        "id": 1,
        "name": "a",
        "required": False,
        "type": "int",
        "initial-default": None,
        "write-default": 2,
    }
    field = read_schema({"fields": [raw]}).fields[0]
    assert (field.initial_default, field.write_default) == (None, 2)
    written = write_schema(Schema((field,)))["fields"][0]
    assert "initial-default" not in written
    assert written["write-default"] == 2


def test_unknown_fields_survive_at_every_level() -> None:
    def field(number: int, type_: Any) -> dict[str, Any]:
        return {"id": number, "name": f"f{number}", "required": False, "type": type_, "x-field": [number]}

    inner = {"type": "struct", "fields": [field(9, "int")], "x-struct": {"a": [1, {"b": None}]}}
    listed = {"type": "list", "element-id": 2, "element": inner, "element-required": False, "x-list": 1}
    mapped = {
        "type": "map",
        "key-id": 3,
        "key": "int",
        "value-id": 4,
        "value": listed,
        "value-required": False,
        "x-map": "m",
    }
    raw = {"type": "struct", "schema-id": 1, "fields": [field(1, mapped)], "x-schema": {"deep": [[1]]}}
    given_before = copy.deepcopy(raw)
    assert write_schema(read_schema(raw)) == raw
    assert raw == given_before
    hash(read_schema(raw))


@given(schemas())
def test_schemas_round_trip_through_json_text(schema: Schema) -> None:
    text = msgspec.json.encode(write_schema(schema))
    again = read_schema(msgspec.json.decode(text))
    assert again == schema
    assert msgspec.json.encode(write_schema(again)) == text


GOOD: dict[str, Any] = {"id": 1, "name": "a", "required": True, "type": "int"}
LIST: dict[str, Any] = {"type": "list", "element-id": 2, "element": "int", "element-required": True}


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (None, "schema"),
        ("struct", "schema"),
        ([], "schema"),
        ({}, "schema.fields"),
        ({"type": "list", "fields": []}, "schema"),
        ({"fields": {}}, "schema.fields"),
        ({"fields": "ab"}, "schema.fields"),
        ({"fields": [], "schema-id": "1"}, "schema.schema-id"),
        ({"fields": [], "schema-id": True}, "schema.schema-id"),
        ({"fields": [], "identifier-field-ids": 1}, "schema.identifier-field-ids"),
        ({"fields": [], "identifier-field-ids": ["1"]}, "schema.identifier-field-ids"),
        ({"fields": [GOOD], "identifier-field-ids": [7]}, "identifier-field-ids"),
        ({"fields": [GOOD, GOOD]}, "schema 0"),
        ({"fields": [1]}, "schema.fields[0]"),
        ({"fields": [None]}, "schema.fields[0]"),
        ({"fields": [GOOD, {"id": 2}]}, "schema.fields[1]"),
        ({"fields": [{**GOOD, "id": "1"}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "id": True}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "id": 1.0}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "name": None}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "required": "true"}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "required": 1}]}, "schema.fields[0]"),
        ({"fields": [{**GOOD, "doc": 1}]}, "schema.fields[0].doc"),
        ({"fields": [{**GOOD, "type": "int32"}]}, "schema.fields[0].type"),
        ({"fields": [{**GOOD, "type": None}]}, "schema.fields[0].type"),
        ({"fields": [{**GOOD, "type": ["int"]}]}, "schema.fields[0].type"),
        ({"fields": [{**GOOD, "type": {"type": "set"}}]}, "schema.fields[0].type"),
        ({"fields": [{**GOOD, "type": {"type": ["list"]}}]}, "schema.fields[0].type"),
        ({"fields": [{**GOOD, "type": {**LIST, "element-id": "2"}}]}, "schema.fields[0].type.element-id"),
        ({"fields": [{**GOOD, "type": {**LIST, "element": "set"}}]}, "schema.fields[0].type.element"),
        (
            {"fields": [{**GOOD, "type": {**LIST, "element-required": 0}}]},
            "schema.fields[0].type.element-required",
        ),
        ({"fields": [{**GOOD, "type": {"type": "map", "key-id": 2}}]}, "schema.fields[0].type.key"),
        ({"fields": [{**GOOD, "type": {"type": "struct"}}]}, "schema.fields[0].type.fields"),
        ({"fields": [{**GOOD, "initial-default": "1"}]}, "schema.fields[0].initial-default"),
        ({"fields": [{**GOOD, "write-default": 2**31}]}, "schema.fields[0].write-default"),
    ],
)
def test_malformed_schemas_are_refused_with_their_place(raw: object, place: str) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read_schema(raw)
    assert place in (caught.value.field or "")


def mutated(document: Any, data: st.DataObject, junk: st.SearchStrategy[Any]) -> Any:
    """The document with one value inside replaced, or one key removed."""
    if isinstance(document, dict) and document:
        key = data.draw(st.sampled_from(sorted(document)))
        if data.draw(st.booleans()):
            return {name: value for name, value in document.items() if name != key}
        return {**document, key: mutated(document[key], data, junk)}
    if isinstance(document, list) and document:
        position = data.draw(st.integers(0, len(document) - 1))
        return [*document[:position], mutated(document[position], data, junk), *document[position + 1 :]]
    return data.draw(junk)


@given(schemas(), st.data())
def test_damaged_schemas_are_read_or_refused(schema: Schema, data: st.DataObject) -> None:
    junk: st.SearchStrategy[Any] = (
        st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.floats()
    )
    document = mutated(write_schema(schema), data, junk)
    with contextlib.suppress(InvalidMetadata):
        read_schema(document)


def nested(levels: int) -> Schema:
    type_: Type = INT
    for level in range(levels):
        type_ = List(2 + level, type_)
    return Schema((Field(1, "deep", type_),))


def test_types_are_read_as_deep_as_the_rest_of_the_program_can_go() -> None:
    """A column of 500 lists could be opened: changing or printing it ended in a RecursionError."""
    deepest = nested(MAX_NESTING)
    assert read_schema(write_schema(deepest)) == deepest
    check_compatible(deepest, 1)
    change = RenameColumn("deep", "deeper")
    assert str(evolve(deepest, [change], EvolutionRules(format_version=1, last_column_id=999))[0])
    too_deep = nested(MAX_NESTING + 1)
    with pytest.raises(LimitExceeded, match="100 levels") as caught:
        read_schema(write_schema(too_deep))
    assert (caught.value.field or "").startswith("schema.fields[0].type.element")
    with pytest.raises(InvalidInput, match="100 levels"):
        check_compatible(too_deep, 1)
