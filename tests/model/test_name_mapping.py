"""Name mappings: the rules of the spec, following evolution as the reference does, and hostile texts."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidChange, InvalidMetadata, LimitExceeded
from lakeplane.model.evolution import (
    AddColumn,
    DropColumn,
    EvolutionRules,
    RenameColumn,
    SchemaChange,
    UpdateColumn,
    evolve,
)
from lakeplane.model.name_mapping import (
    MAX_DEPTH,
    MappedField,
    NameMapping,
    find,
    mapping_for,
    read_name_mapping,
    updated,
    write_name_mapping,
)
from lakeplane.model.schema import Schema
from lakeplane.model.types import DOUBLE, FLOAT, LONG, STRING, UNKNOWN, VARIANT, Field, List, Map, Struct
from tests.model.schema_strategies import schemas
from tests.model.test_evolution import any_change

SPEC_EXAMPLE = """[ { "field-id": 1, "names": ["id", "record_id"] },
   { "field-id": 2, "names": ["data"] },
   { "field-id": 3, "names": ["location"], "fields": [
       { "field-id": 4, "names": ["latitude", "lat"] },
       { "field-id": 5, "names": ["longitude", "long"] }
     ] } ]"""

POINT = Struct((Field(6, "x", DOUBLE), Field(7, "y", DOUBLE)))
SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "data", VARIANT),
        Field(3, "map", Map(4, DOUBLE, 5, POINT)),
        Field(8, "list", List(9, STRING)),
        Field(10, "location", Struct((Field(11, "latitude", FLOAT), Field(12, "longitude", FLOAT)))),
    )
)


def leaf(field_id: int | None, *names: str) -> MappedField:
    return MappedField(field_id, names)


def node(field_id: int | None, *names_and_fields: str | MappedField) -> MappedField:
    names = tuple(each for each in names_and_fields if isinstance(each, str))
    return MappedField(
        field_id, names, tuple(each for each in names_and_fields if isinstance(each, MappedField))
    )


def follow(mapping: NameMapping, schema: Schema, *changes: SchemaChange) -> NameMapping:
    rules = EvolutionRules(format_version=3, last_column_id=schema.highest_field_id)
    return updated(mapping, schema, evolve(schema, changes, rules)[0])


def test_the_example_of_the_spec() -> None:
    mapping = read_name_mapping(SPEC_EXAMPLE)
    location = node(3, "location", leaf(4, "latitude", "lat"), leaf(5, "longitude", "long"))
    assert mapping == NameMapping((leaf(1, "id", "record_id"), leaf(2, "data"), location))
    assert json.loads(write_name_mapping(mapping)) == json.loads(SPEC_EXAMPLE)
    for path, field_id in {
        ("id",): 1,
        ("record_id",): 1,
        ("data",): 2,
        ("location",): 3,
        ("location", "latitude"): 4,
        ("location", "lat"): 4,
        ("location", "long"): 5,
        ("lat",): None,
        ("location", "data"): None,
        ("data", "id"): None,
        ("LOCATION",): None,
        (): None,
    }.items():
        assert find(mapping, path) == field_id, path


def test_a_schema_is_mapped_by_the_names_it_has() -> None:
    mapping = mapping_for(SCHEMA)
    assert mapping.fields == (
        leaf(1, "id"),
        leaf(2, "data"),
        node(3, "map", leaf(4, "key"), node(5, "value", leaf(6, "x"), leaf(7, "y"))),
        node(8, "list", leaf(9, "element")),
        node(10, "location", leaf(11, "latitude"), leaf(12, "longitude")),
    )
    assert find(mapping, ("map", "value", "x")) == 6
    assert find(mapping, ("list", "element")) == 9
    assert all(find(mapping, (name,)) is None for name in ("element", "key", "value", "x", "map.value.x"))


def test_keys_of_maps_can_be_structs() -> None:
    mapping = mapping_for(Schema((Field(3, "m", Map(4, POINT, 5, DOUBLE)),)))
    assert mapping.fields == (node(3, "m", node(4, "key", leaf(6, "x"), leaf(7, "y")), leaf(5, "value")),)


@given(schemas())
def test_every_field_is_found_by_its_path_and_mappings_round_trip(schema: Schema) -> None:
    mapping = mapping_for(schema)
    for field in schema.all_fields:
        path, parent = [field.name], schema.parent_of(field.id)
        while parent is not None:
            path.insert(0, parent.name)
            parent = schema.parent_of(parent.id)
        assert find(mapping, path) == field.id
    assert read_name_mapping(write_name_mapping(mapping)) == mapping


def test_a_dot_in_a_name_is_a_dot() -> None:
    mapping = read_name_mapping(
        '[{"field-id": 1, "names": ["a.b"]}, {"names": ["a"], "fields": [{"field-id": 2, "names": ["b"]}]}]'
    )
    assert find(mapping, ("a.b",)) == 1
    assert find(mapping, ("a", "b")) == 2


def test_fields_of_files_only_have_no_id_and_fields_of_the_schema_only_no_name() -> None:
    extra = '{"names":["extra"],"fields":[{"field-id":3,"names":["x"]}]}'
    text = f'[{extra},{{"field-id":1,"names":[]}},{{"names":["more"]}}]'
    mapping = read_name_mapping(text)
    assert mapping.fields == (node(None, "extra", leaf(3, "x")), leaf(1), leaf(None, "more"))
    assert find(mapping, ("extra",)) is None
    assert find(mapping, ("extra", "x")) == 3
    assert write_name_mapping(mapping) == text


def test_what_is_not_known_survives_and_lax_writers_are_read() -> None:
    raw = [{"field-id": 1, "names": ["a"], "x": {"y": [1]}}]
    assert json.loads(write_name_mapping(read_name_mapping(raw))) == raw
    lax = [{"field-id": 1}, {"field-id": None, "names": ["b", "b"], "fields": None}]
    assert read_name_mapping(lax).fields == (leaf(1), leaf(None, "b"))
    assert read_name_mapping(b"[]") == NameMapping()


def test_the_same_name_may_be_used_in_separate_structs() -> None:
    read_name_mapping(
        [
            {"field-id": 1, "names": ["x"], "fields": [{"field-id": 3, "names": ["x"]}]},
            {"field-id": 2, "names": ["y"], "fields": [{"field-id": 4, "names": ["x"]}]},
        ]
    )


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("", "not JSON"),
        ("[", "not JSON"),
        (b"\xff", "not JSON"),
        ('["\ud800"]', "not JSON"),
        ("{}", "expected a list"),
        ("null", "expected a list"),
        (None, "expected a list"),
        (["a"], "expected an object"),
        ([{"names": "ab"}], "expected a list of strings"),
        ([{"names": [1]}], "expected a list of strings"),
        ([{"names": None}], "expected a list of strings"),
        ([{"field-id": "1", "names": []}], "expected an integer"),
        ([{"field-id": True, "names": []}], "expected an integer"),
        ([{"field-id": 1.5, "names": []}], "expected an integer"),
        ([{"names": [], "fields": {}}], "expected a list"),
        ([{"field-id": 1, "names": ["x"]}, {"field-id": 2, "names": ["x"]}], "two fields have the name 'x'"),
        ([{"names": ["x"]}, {"names": ["y", "x"]}], "two fields have the name 'x'"),
        ([{"field-id": 1, "names": ["x"]}, {"field-id": 1, "names": ["y"]}], "1 is mapped twice"),
        ([{"field-id": 1, "names": ["x"], "fields": [{"field-id": 1, "names": []}]}], "1 is mapped twice"),
    ],
)
def test_malformed_mappings_are_refused(raw: object, problem: str) -> None:
    with pytest.raises(InvalidMetadata, match=problem):
        read_name_mapping(raw)


def test_errors_name_the_place() -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read_name_mapping([{"names": []}, {"names": ["a"], "fields": [{"names": 3}]}])
    assert caught.value.field == "schema.name-mapping.default[1].fields[0].names"


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_a_mapping_that_is_nested_too_deep_is_refused(depth: int) -> None:
    text = '[{"names":["a"],"fields":' * depth + "[]" + "}]" * depth
    with pytest.raises(LimitExceeded):
        read_name_mapping(text)


def test_the_deepest_mapping_that_is_accepted() -> None:
    depth = MAX_DEPTH - 1
    mapping = read_name_mapping('[{"names":["a"],"fields":' * depth + "[]" + "}]" * depth)
    assert find(mapping, ["a"] * depth) is None


# Following a schema


def test_added_fields_are_mapped_by_their_names() -> None:
    mapping = follow(
        mapping_for(SCHEMA), SCHEMA, AddColumn("ts", LONG), AddColumn("location.alt", Struct(POINT.fields))
    )
    assert mapping.fields[-2:] == (
        node(
            10,
            "location",
            leaf(11, "latitude"),
            leaf(12, "longitude"),
            node(14, "alt", leaf(15, "x"), leaf(16, "y")),
        ),
        leaf(13, "ts"),
    )
    mapping = follow(mapping_for(SCHEMA), SCHEMA, AddColumn("map.z", DOUBLE))
    assert find(mapping, ("map", "value", "z")) == 13
    schema = Schema((Field(1, "u", UNKNOWN),))
    mapping = follow(mapping_for(schema), schema, UpdateColumn("u", type=List(0, LONG)))
    assert mapping.fields == (node(1, "u", leaf(2, "element")),)


def test_renamed_fields_keep_the_names_of_older_files() -> None:
    mapping = follow(
        mapping_for(SCHEMA),
        SCHEMA,
        RenameColumn("id", "object_id"),
        RenameColumn("location", "place"),
        RenameColumn("place.latitude", "lat"),
    )
    assert mapping.fields[0] == leaf(1, "id", "object_id")
    assert mapping.fields[-1] == node(
        10, "location", "place", leaf(11, "latitude", "lat"), leaf(12, "longitude")
    )
    assert find(mapping, ("place", "latitude")) == find(mapping, ("location", "lat")) == 11


def test_dropped_fields_keep_their_names_until_another_field_takes_them() -> None:
    before = mapping_for(SCHEMA)
    assert follow(before, SCHEMA, DropColumn("id")) == before
    again = follow(before, SCHEMA, DropColumn("id"), AddColumn("id", STRING))
    assert again.fields[0] == leaf(1)
    assert find(again, ("id",)) == 13
    inside = follow(
        before, SCHEMA, DropColumn("location.latitude"), RenameColumn("location.longitude", "latitude")
    )
    assert inside.fields[-1] == node(10, "location", leaf(11), leaf(12, "longitude", "latitude"))
    assert find(inside, ("location", "latitude")) == 12


def test_a_rename_takes_a_name_that_an_alias_had() -> None:
    mapping = NameMapping((leaf(1, "id", "key"), leaf(2, "data", "key2")))
    schema = Schema((Field(1, "id", LONG), Field(2, "data", LONG)))
    assert follow(mapping, schema, RenameColumn("data", "key")).fields == (
        leaf(1, "id"),
        leaf(2, "data", "key2", "key"),
    )
    added = follow(mapping, schema, AddColumn("key", LONG), AddColumn("key2", LONG))
    assert added.fields == (leaf(1, "id"), leaf(2, "data"), leaf(3, "key"), leaf(4, "key2"))


def test_fields_that_the_mapping_leaves_out_stay_out() -> None:
    mapping = NameMapping((leaf(None, "extra"), leaf(1, "id")))
    assert follow(mapping, SCHEMA, RenameColumn("data", "d"), AddColumn("location.z", LONG)) == mapping
    taken = follow(mapping, SCHEMA, AddColumn("extra", LONG))
    assert taken.fields == (leaf(None), leaf(1, "id"), leaf(13, "extra"))


def test_a_schema_that_stays_keeps_its_mapping() -> None:
    mapping = read_name_mapping(SPEC_EXAMPLE)
    assert updated(mapping, SCHEMA, SCHEMA) == mapping


@settings(max_examples=60)
@given(schemas(), st.data())
def test_a_followed_mapping_is_valid_and_finds_every_field(schema: Schema, data: st.DataObject) -> None:
    mapping, last = mapping_for(schema), schema.highest_field_id
    for _ in range(data.draw(st.integers(1, 5))):
        with contextlib.suppress(InvalidChange):
            rules = EvolutionRules(format_version=3, last_column_id=last)
            new, last = evolve(schema, [data.draw(any_change(schema))], rules)
            mapping, schema = updated(mapping, schema, new), new
    assert read_name_mapping(write_name_mapping(mapping)) == mapping
    now = mapping_for(schema)

    def check(fields: tuple[MappedField, ...], path: tuple[str, ...]) -> None:
        for field in fields:
            assert find(mapping, (*path, *field.names)) == field.field_id
            check(field.fields, (*path, *field.names))

    check(now.fields, ())


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["names", "fields", "field-id", "x"]), inner, max_size=4)
    ),
)


@given(
    JSON
    | st.lists(st.fixed_dictionaries({"names": st.lists(st.text(max_size=2))}, optional={"fields": JSON}))
)
def test_any_json_is_a_mapping_or_refused(raw: Any) -> None:
    with contextlib.suppress(InvalidMetadata):
        mapping = read_name_mapping(raw)
        assert read_name_mapping(write_name_mapping(mapping)) == mapping
