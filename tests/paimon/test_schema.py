from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata, NotSupported, UnsupportedVersion
from lakeplane.model.schema import Schema
from lakeplane.paimon.schema import parse_schema, serialize_schema
from tests.paimon.stored import NAMES, stored

FIELDS = [
    {"id": 0, "name": "dt", "type": "STRING NOT NULL"},
    {"id": 1, "name": "id", "type": "BIGINT NOT NULL"},
    {"id": 4, "name": "v", "type": "STRING", "description": "a value", "defaultValue": "x"},
]
DOCUMENT: dict[str, Any] = {
    "version": 3,
    "id": 2,
    "fields": FIELDS,
    "highestFieldId": 4,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "id"],
    "options": {"bucket": "4"},
    "comment": "orders",
    "timeMillis": 17,
    "later": {"a": [1, {"b": 2}]},
}


def parse(**changes: Any) -> Any:
    document = {key: value for key, value in {**DOCUMENT, **changes}.items() if value is not ...}
    return parse_schema(json.dumps(document).encode(), "schema/schema-2")


@pytest.mark.parametrize("name", NAMES)
def test_schemas_of_other_writers_survive(name: str) -> None:
    table = stored(name)
    for path, data in table.starting_with("schema/schema-").items():
        again = json.loads(serialize_schema(parse_schema(data, path)))
        told = {key: value for key, value in json.loads(data).items() if value is not None}
        assert again == told
        assert list(again) == list(told)


def test_a_schema_tells_its_keys_and_columns() -> None:
    schema = parse()
    assert schema.trimmed_primary_keys == ("id",)
    assert schema.bucket_keys == ("id",)
    assert not schema.cross_partition
    assert parse(primaryKeys=["id"]).cross_partition
    assert isinstance(schema.model, Schema)
    assert schema.model.find("v").id == 4
    assert schema.model.identifier_field_ids == (0, 1)
    assert schema.by_id[4].default_value == "x"


def test_what_is_not_known_survives() -> None:
    assert json.loads(serialize_schema(parse())) == DOCUMENT


def test_old_schemas_mean_what_they_do_not_say() -> None:
    assert parse(version=1, options={}).settings.bucket == 1
    assert parse(version=1, options={}).settings.file_format == "orc"
    assert parse(version=2, options={}).settings.bucket == -1
    assert parse(version=2, options={}).settings.file_format == "orc"
    assert parse(version=2, options={"file.format": "avro"}).settings.file_format == "avro"
    assert parse(version=..., options={}).settings.bucket == 1
    assert parse(options={}).settings.file_format == "parquet"
    assert json.loads(serialize_schema(parse(version=2, options={})))["options"] == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 4}, "newer than this release"),
        ({"fields": None}, "no list of fields"),
        ({"fields": [*FIELDS, FIELDS[0]]}, "two fields have the id 0"),
        ({"fields": [*FIELDS, {**FIELDS[0], "id": 9}]}, "two fields have the name"),
        ({"fields": [{"id": -1, "name": "x", "type": "INT"}]}, "no field with an id"),
        ({"fields": [{"id": 1, "name": "x", "type": "INTT"}]}, "no type of Paimon"),
        ({"partitionKeys": ["nothing"]}, "there is no field 'nothing'"),
        ({"primaryKeys": ["dt", "dt"]}, "named twice"),
        ({"primaryKeys": ["dt"]}, "nothing but partition keys"),
        ({"options": {"bucket": 4}}, "map of strings"),
        ({"options": {"bucket": "four"}}, "not a number"),
        ({"options": {"bucket-key": "nothing"}}, "there is no field"),
        ({"id": "2"}, "Expected `int`"),
    ],
)
def test_schemas_that_nobody_could_read_rows_by_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidMetadata, match=said) as refusal:
        parse(**changes)
    assert refusal.value.source == "schema/schema-2"
    assert isinstance(refusal.value, UnsupportedVersion) == ("version" in changes)


@given(st.data())
def test_broken_schemas_are_errors_that_name_the_file(data: st.DataObject) -> None:
    text = bytearray(json.dumps(DOCUMENT).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(32, 126))
    with contextlib.suppress(NotSupported):
        try:
            parse_schema(bytes(text), "schema/schema-2")
        except InvalidMetadata as error:
            source = error.source
        else:
            source = "schema/schema-2"
        assert source == "schema/schema-2"
