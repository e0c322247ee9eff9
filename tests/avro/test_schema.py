from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lakeplane.avro.limits import DEFAULT_LIMITS, Limits
from lakeplane.avro.schema import (
    FIELD_ID,
    Array,
    Choice,
    Field,
    Map,
    Node,
    Optional,
    Record,
    Scalar,
    arrow_field,
    arrow_type,
    is_empty,
    is_optional,
    parse_schema,
    record_of,
)
from lakeplane.errors import InvalidMetadata, LimitExceeded


def parse(text: str) -> Node:
    return parse_schema(json.loads(text), DEFAULT_LIMITS)


def scalar(text: str) -> Scalar:
    node = parse(text)
    assert isinstance(node, Scalar)
    return node


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    listed = [{"name": f"f{position}", "type": each} for position, each in enumerate(fields)]
    return {"type": "record", "name": "r", "fields": listed, **more}


def sizes(node: Record) -> list[int]:
    """Of the fixed types among the fields."""
    return [each.type.size for each in node.fields if isinstance(each.type, Scalar)]


@pytest.mark.parametrize(
    ("text", "kind", "arrow"),
    [
        ('"null"', "null", pa.null()),
        ('"boolean"', "boolean", pa.bool_()),
        ('"int"', "int", pa.int32()),
        ('"long"', "long", pa.int64()),
        ('"float"', "float", pa.float32()),
        ('"double"', "double", pa.float64()),
        ('"bytes"', "bytes", pa.binary()),
        ('{"type": "string", "avro.java.string": "String"}', "string", pa.string()),
        ('{"type": {"type": "int"}}', "int", pa.int32()),
        ('{"type": "int", "logicalType": "date"}', "int", pa.date32()),
        ('{"type": "int", "logicalType": "time-millis"}', "int", pa.time32("ms")),
        ('{"type": "long", "logicalType": "time-micros"}', "long", pa.time64("us")),
        ('{"type": "long", "logicalType": "timestamp-millis"}', "long", pa.timestamp("ms", "UTC")),
        ('{"type": "long", "logicalType": "timestamp-micros"}', "long", pa.timestamp("us", "UTC")),
        ('{"type": "long", "logicalType": "timestamp-nanos"}', "long", pa.timestamp("ns", "UTC")),
        ('{"type": "long", "logicalType": "local-timestamp-millis"}', "long", pa.timestamp("ms")),
        ('{"type": "long", "logicalType": "local-timestamp-micros"}', "long", pa.timestamp("us")),
        ('{"type": "long", "logicalType": "local-timestamp-nanos"}', "long", pa.timestamp("ns")),
        (
            '{"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": true}',
            "long",
            pa.timestamp("us", "UTC"),
        ),
        (
            '{"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": false}',
            "long",
            pa.timestamp("us"),
        ),
        (
            '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}',
            "bytes",
            pa.decimal128(9, 2),
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 9}', "bytes", pa.decimal128(9, 0)),
        ('{"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}', "fixed", pa.binary(16)),
        ('{"type": "fixed", "name": "z", "size": 0}', "fixed", pa.binary(0)),
        ('{"type": "enum", "name": "e", "symbols": ["A", "B"]}', "enum", pa.string()),
    ],
)
def test_types_without_parts(text: str, kind: str, arrow: pa.DataType) -> None:
    node = scalar(text)
    assert (node.kind, node.arrow) == (kind, arrow)


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        # The specification: implementations must ignore unknown logical types, and those that are not valid.
        ('{"type": "int", "logicalType": "no-such-thing"}', pa.int32()),
        ('{"type": "int", "logicalType": 7}', pa.int32()),
        ('{"type": "string", "logicalType": "date"}', pa.string()),
        ('{"type": "int", "logicalType": "timestamp-micros"}', pa.int32()),
        ('{"type": "long", "logicalType": "time-millis"}', pa.int64()),
        ('{"type": "long", "logicalType": "timestamp-minutes"}', pa.int64()),
        ('{"type": "bytes", "logicalType": "decimal"}', pa.binary()),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 0}', pa.binary()),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4}', pa.binary()),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": -1}', pa.binary()),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', pa.binary()),
        (
            '{"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": "9"}',
            pa.binary(2),
        ),
    ],
)
def test_logical_types_that_do_not_fit_are_ignored(text: str, arrow: pa.DataType) -> None:
    assert scalar(text).arrow == arrow


def test_unions_with_null_in_either_order() -> None:
    assert parse('["null", "int"]') == Optional(scalar('"int"'), 0)
    assert parse('["int", "null"]') == Optional(scalar('"int"'), 1)
    assert parse('["int"]') == Choice((scalar('"int"'),))
    assert isinstance(parse('["null", "int", "string"]'), Choice)
    assert not is_optional(parse('["int"]'))
    assert is_optional(parse('[["null", "int"]]'))


def test_names_are_found_in_their_namespace() -> None:
    # The specification's rules: a name without dots is in the namespace of the record around it, or the one
    # it states; a full name says its own, whatever namespace is stated beside it.
    fixed = {"type": "fixed", "name": "f", "size": 1}
    inner = record({**fixed, "size": 2}, "f", "c.f", "a.b.f", name="in", namespace="c")
    node = parse_schema(record(fixed, "f", "a.b.f", inner, "f", namespace="a.b"), DEFAULT_LIMITS)
    assert isinstance(node, Record)
    assert node.name == "a.b.r"
    assert sizes(node) == [1, 1, 1, 1]
    deeper = node.fields[3].type
    assert isinstance(deeper, Record)
    assert deeper.name == "c.in"
    assert sizes(deeper) == [2, 2, 2, 1]


def test_a_name_of_the_inner_namespace_hides_none_of_another() -> None:
    inner = record({"type": "fixed", "name": "f", "size": 2}, "f", "x.f", name="y.in")
    node = parse_schema(record({"type": "fixed", "name": "x.f", "size": 1}, inner), DEFAULT_LIMITS)
    assert isinstance(node, Record)
    found = node.fields[1].type
    assert isinstance(found, Record)
    assert sizes(found) == [2, 2, 1]


def test_ids_of_iceberg() -> None:
    array = parse('{"type": "array", "items": "int", "element-id": 3}')
    assert isinstance(array, Array)
    assert (array.id, array.is_map) == (3, False)
    field = arrow_type(array, "").value_field
    assert (field.metadata, field.nullable) == ({FIELD_ID: b"3"}, False)
    found = parse('{"type": "map", "values": ["null", "int"], "key-id": 4, "value-id": 5}')
    assert isinstance(found, Map)
    kind = arrow_type(found, "")
    assert kind.key_field.metadata == {FIELD_ID: b"4"}
    assert kind.item_field.metadata == {FIELD_ID: b"5"}
    assert kind.item_field.nullable
    assert arrow_field(Field("x", array, 9)).metadata == {FIELD_ID: b"9"}
    # What is no number is no id.
    assert parse('{"type": "array", "items": "int", "element-id": true}') == parse(
        '{"type": "array", "items": "int"}'
    )


def test_an_array_of_key_and_value_stands_for_a_map_if_it_says_so() -> None:
    fields = '[{"name": "key", "type": %s}, {"name": "value", "type": "int"}]'
    entry = f'{{"type": "record", "name": "e", "fields": {fields}}}'
    for key, logical, is_map in (
        ('"long"', "map", True),
        ('"long"', "list", False),
        ('["null", "long"]', "map", False),
    ):
        items = entry % key
        array = parse(f'{{"type": "array", "logicalType": "{logical}", "items": {items}}}')
        assert isinstance(array, Array)
        assert array.is_map == is_map
        assert pa.types.is_map(arrow_type(array, "")) == is_map


def test_what_takes_no_bytes() -> None:
    assert is_empty(parse_schema(record("null", {"type": "fixed", "name": "f", "size": 0}), DEFAULT_LIMITS))
    assert not is_empty(parse_schema(record("null", "int"), DEFAULT_LIMITS))
    assert not is_empty(parse('["null"]'))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3", "is no Avro type"),
        ("null", "is no Avro type"),
        ("{}", "is no Avro type"),
        ("[]", "a union of nothing"),
        ('"strnig"', "there is no type 'strnig'"),
        ('{"type": "array"}', "is no Avro type"),
        ('{"type": "map", "values": 3}', "is no Avro type"),
        ('{"type": "record", "name": "r"}', "a record without fields"),
        ('{"type": "record", "fields": []}', "a type without a name"),
        ('{"type": "record", "name": "r", "fields": [3]}', "a field without a name"),
        ('{"type": "record", "name": "r", "namespace": 3, "fields": []}', "a namespace that is no text"),
        ('{"type": "enum", "name": "e"}', "an enum without symbols"),
        ('{"type": "enum", "name": "e", "symbols": [1]}', "an enum without symbols"),
        ('{"type": "fixed", "name": "f"}', "a fixed type without a size"),
        ('{"type": "fixed", "name": "f", "size": -1}', "a fixed type without a size"),
        ('{"type": "fixed", "name": "f", "size": 4000000000}', "a fixed type without a size"),
        ('{"type": "fixed", "name": "f", "size": true}', "a fixed type without a size"),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "a"}]}',
            "two fields of this name",
        ),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}',
            "r holds itself",
        ),
        (
            '[{"type": "fixed", "name": "f", "size": 1}, {"type": "fixed", "name": "f", "size": 1}]',
            "there are two types 'f'",
        ),
    ],
)
def test_broken_schemas(text: str, problem: str) -> None:
    with pytest.raises(InvalidMetadata, match=problem):
        parse(text)


def test_rows_have_to_be_records() -> None:
    row = record("int")
    for schema, null_at in ((row, None), (["null", row], 0), ([row, "null"], 1)):
        found, place = record_of(parse_schema(schema, DEFAULT_LIMITS))
        assert (found.name, place) == ("r", null_at)
    for text in ('"int"', '["null", "int"]', '{"type": "array", "items": "int"}'):
        with pytest.raises(InvalidMetadata, match="no records"):
            record_of(parse(text))


def test_a_union_of_many_types_has_no_column() -> None:
    node = parse_schema(record(["null", "int", "string"]), DEFAULT_LIMITS)
    with pytest.raises(InvalidMetadata, match="a union of null, int, string") as caught:
        arrow_type(node, "")
    assert caught.value.field == "f0"


def test_the_place_of_an_error_is_named() -> None:
    deep = record(record({"type": "array", "items": {"type": "map", "values": "nothing"}}, name="inner"))
    with pytest.raises(InvalidMetadata) as caught:
        parse_schema(deep, DEFAULT_LIMITS)
    assert caught.value.field == "f0.f0.element.value"


# Schemas that are made to hurt


def test_types_nested_too_deep() -> None:
    schema: Any = "int"
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(LimitExceeded, match="deeper than 64"):
        parse_schema(schema, DEFAULT_LIMITS)
    schema = "int"
    for _ in range(100):
        schema = {"type": schema}
    with pytest.raises(LimitExceeded, match="deeper than 64"):
        parse_schema(schema, DEFAULT_LIMITS)


def test_names_that_double_at_each_step() -> None:
    """Thirty records that each use the one before twice would be a tree of a billion types."""
    schema: Any = record("int", name="r0")
    steps = [schema, *({**record(f"r{step}", f"r{step}"), "name": f"r{step + 1}"} for step in range(30))]
    with pytest.raises(LimitExceeded, match="more than 20000 types"):
        parse_schema(record(*steps, name="whole"), DEFAULT_LIMITS)


def test_a_limit_is_the_callers() -> None:
    schema = record(*["int"] * 20)
    parse_schema(schema, Limits(schema_nodes=21))
    with pytest.raises(LimitExceeded):
        parse_schema(schema, Limits(schema_nodes=20))
