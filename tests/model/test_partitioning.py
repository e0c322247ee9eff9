"""Partition specs: their JSON in all versions, their types, and the specs that a table may not get."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
    check_spec,
    read_spec,
    read_spec_fields,
    write_spec,
    write_spec_fields,
)
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    parse_transform,
)
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    VARIANT,
    Decimal,
    Field,
    Geometry,
    List,
    Map,
    Struct,
)

SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "ts", TIMESTAMP),
        Field(
            3, "place", Struct((Field(4, "city", STRING), Field(5, "deep", Struct((Field(6, "zip", INT),)))))
        ),
        Field(7, "tags", List(8, STRING)),
        Field(9, "points", Map(10, STRING, 11, Struct((Field(12, "x", INT),)))),
        Field(13, "v", VARIANT),
        Field(14, "geo", Geometry()),
        Field(15, "ratio", DOUBLE),
    )
)


def part(source: int, transform: str, name: str = "p", field_id: int = 1000) -> PartitionField:
    return PartitionField((source,), field_id, name, parse_transform(transform))


def spec(*fields: PartitionField) -> PartitionSpec:
    return PartitionSpec(0, fields)


# JSON

SPEC_EXAMPLE: dict[str, Any] = {
    "spec-id": 3,
    "fields": [
        {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
    ],
}


def test_the_example_of_the_spec() -> None:
    found = read_spec(SPEC_EXAMPLE, "spec")
    assert found == PartitionSpec(3, (part(4, "day", "ts_day"), part(1, "bucket[16]", "id_bucket", 1001)))
    assert write_spec(found) == SPEC_EXAMPLE
    assert write_spec_fields(found.fields) == SPEC_EXAMPLE["fields"]
    assert str(found) == "[1000: ts_day: day(4), 1001: id_bucket: bucket[16](1)]"


@pytest.mark.parametrize(
    ("text", "transform"),
    [
        ("identity", Identity()),
        ("bucket[16]", Bucket(16)),
        ("truncate[20]", Truncate(20)),
        ("year", Year()),
        ("month", Month()),
        ("day", Day()),
        ("hour", Hour()),
        ("void", Void()),
        ("zorder[3, 4]", UnknownTransform("zorder[3, 4]")),
    ],
)
def test_every_transform_of_the_spec_is_read_and_written_as_it_stands(
    text: str, transform: Transform
) -> None:
    raw = [{"source-id": 1, "field-id": 1000, "name": "p", "transform": text}]
    fields = read_spec_fields(raw, "fields")
    assert fields[0].transform == transform
    assert write_spec_fields(fields) == raw
    assert fields[0].is_known == (not isinstance(transform, UnknownTransform))


def test_fields_of_v1_have_no_ids_and_count_up_from_1000() -> None:
    raw = [{"source-id": n, "name": f"p{n}", "transform": "identity"} for n in (5, 3, 9)]
    assert [field.field_id for field in read_spec_fields(raw, "fields")] == [1000, 1001, 1002]
    raw[1]["field-id"] = 1000
    with pytest.raises(InvalidMetadata, match="some have none"):
        read_spec_fields(raw, "fields")


def test_transforms_of_several_columns_are_kept_and_not_known() -> None:
    raw = [{"source-ids": [1, 2], "field-id": 1000, "name": "p", "transform": "bucket[4]"}]
    (field,) = read_spec_fields(raw, "fields")
    assert field.source_ids == (1, 2)
    assert not field.is_known
    assert write_spec_fields([field]) == raw
    (single,) = read_spec_fields([{**raw[0], "source-ids": [7]}], "fields")
    assert single.is_known
    assert write_spec_fields([single])[0]["source-id"] == 7
    assert "source-ids" not in write_spec_fields([single])[0]


def test_the_list_of_sources_wins_over_the_single_source() -> None:
    # Read as bucket[4] of column 1 alone, the field would promise values that its files do not have.
    raw = {"source-id": 1, "source-ids": [1, 2], "field-id": 1000, "name": "p", "transform": "bucket[4]"}
    assert not read_spec_fields([raw], "fields")[0].is_known


def test_what_is_not_known_survives() -> None:
    raw = {
        "spec-id": 1,
        "fields": [{"source-id": 1, "transform": "day", "field-id": 1000, "name": "p", "x": {"a": [1]}}],
        "y": [None],
    }
    assert write_spec(read_spec(raw, "spec")) == raw
    hash(read_spec(raw, "spec"))


GOOD: dict[str, Any] = SPEC_EXAMPLE["fields"][0]


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (None, "spec"),
        ([], "spec"),
        ({"fields": []}, "spec"),
        ({"spec-id": "1", "fields": []}, "spec"),
        ({"spec-id": True, "fields": []}, "spec"),
        ({"spec-id": 1}, "spec.fields"),
        ({"spec-id": 1, "fields": {}}, "spec.fields"),
        ({"spec-id": 1, "fields": [1]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [GOOD, {**GOOD, "name": None}]}, "spec.fields[1]"),
        ({"spec-id": 1, "fields": [{**GOOD, "field-id": "1000"}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "field-id": None}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-id": "1"}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-id": None}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-id": True}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-ids": "12"}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-ids": [1, "2"]}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "source-id": None, "source-ids": []}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "transform": None}]}, "spec.fields[0]"),
        ({"spec-id": 1, "fields": [{**GOOD, "transform": {"bucket": 4}}]}, "spec.fields[0]"),
    ],
)
def test_malformed_specs_are_refused_with_their_place(raw: object, place: str) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read_spec(raw, "spec")
    assert caught.value.field == place


FIELDS = st.builds(
    PartitionField,
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3).map(tuple),
    st.integers(1000, 2**31 - 1),
    st.text(max_size=5),
    st.sampled_from(["identity", "bucket[4]", "truncate[9]", "day", "void", "new[1]"]).map(parse_transform),
)


@given(st.builds(PartitionSpec, st.integers(0, 99), st.lists(FIELDS, max_size=4).map(tuple)))
def test_specs_round_trip(found: PartitionSpec) -> None:
    assert read_spec(write_spec(found), "spec") == found


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)),
    st.data(),
)
def test_damaged_specs_are_read_or_refused(junk: Any, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([*GOOD, "source-ids"]))
    with contextlib.suppress(InvalidMetadata):
        read_spec({"spec-id": 0, "fields": [{**GOOD, key: junk}]}, "spec")


# Meaning


def test_ids_and_kinds_of_specs() -> None:
    assert FIRST_PARTITION_FIELD_ID == 1000
    assert UNPARTITIONED.is_unpartitioned
    assert UNPARTITIONED.highest_field_id == 999
    assert spec(part(1, "void")).is_unpartitioned
    assert not spec(part(1, "void"), part(1, "day")).is_unpartitioned
    assert spec(part(1, "day", field_id=1004), part(1, "hour", field_id=1002)).highest_field_id == 1004


def test_equivalent_specs_have_the_same_sources_transforms_and_names_in_order() -> None:
    one, two = part(1, "bucket[4]", "a"), part(2, "day", "b", 1001)
    base = spec(one, two)
    assert base.compatible(PartitionSpec(7, (part(1, "bucket[4]", "a", 1009), part(2, "day", "b", 1008))))
    assert not base.compatible(spec(two, one))
    assert not base.compatible(spec(one))
    assert not base.compatible(spec(one, part(2, "hour", "b", 1001)))
    assert not base.compatible(spec(one, part(3, "day", "b", 1001)))
    assert not base.compatible(spec(one, part(2, "day", "c", 1001)))
    assert one.same_rule(part(1, "bucket[4]", "other", 5))
    assert not one.same_rule(part(1, "bucket[5]", "a"))


@pytest.mark.parametrize(
    ("source", "transform", "type_"),
    [
        (1, "identity", LONG),
        (4, "truncate[3]", STRING),
        (1, "bucket[4]", INT),
        (2, "year", INT),
        (2, "month", INT),
        (2, "day", DATE),
        (2, "hour", INT),
        (4, "void", STRING),
        (1, "new[2]", STRING),
        (99, "identity", UNKNOWN),
    ],
)
def test_the_type_of_a_partition_value(source: int, transform: str, type_: object) -> None:
    found = spec(part(source, transform, "p", 1003)).partition_type(SCHEMA).fields
    assert found == (Field(1003, "p", type_),)  # type: ignore[arg-type]


def test_a_source_that_was_dropped_is_looked_up_in_older_schemas() -> None:
    older, oldest = (
        Schema((Field(50, "d", DATE),)),
        Schema((Field(50, "d", INT), Field(51, "e", Decimal(3, 1)))),
    )
    both = spec(part(50, "identity", "d"), part(51, "identity", "e", 1001))
    types = [field.type for field in both.partition_type(SCHEMA, older, oldest).fields]
    assert types == [DATE, Decimal(3, 1)]
    assert all(not field.required for field in both.partition_type(SCHEMA, older).fields)


# New specs


@pytest.mark.parametrize(
    "found",
    [
        UNPARTITIONED,
        spec(part(1, "identity", "id")),
        spec(part(1, "bucket[4]"), part(2, "day", "q", 1001), part(4, "truncate[2]", "r", 1002)),
        spec(part(6, "identity", "place.deep.zip")),
        spec(part(99, "void")),
        spec(part(7, "void")),
        spec(part(15, "identity")),
        spec(part(2, "day", "d"), part(2, "hour", "h", 1001)),
    ],
)
def test_specs_that_a_table_may_get(found: PartitionSpec) -> None:
    check_spec(found, SCHEMA)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (spec(part(99, "identity")), "source column 99 does not exist"),
        (spec(part(3, "identity")), "does not take place"),
        (spec(part(7, "identity")), "does not take tags"),
        (spec(part(8, "identity")), "tags.element is inside a list or map"),
        (spec(part(10, "identity")), "inside a list or map"),
        (spec(part(12, "bucket[3]")), "points.value.x is inside a list or map"),
        (spec(part(13, "identity")), "does not take v"),
        (spec(part(14, "identity")), "does not take geo"),
        (spec(part(15, "bucket[4]")), "does not take ratio"),
        (spec(part(1, "day")), "day does not take id, a long"),
        (spec(part(4, "hour")), "does not take place.city"),
        (spec(part(1, "new[2]")), "unknown transform"),
        (spec(part(1, "bucket[0]")), "unknown transform"),
        (spec(PartitionField((1, 2), 1000, "p", Bucket(4))), "takes one column"),
        (spec(part(1, "identity", "")), "needs a name"),
        (spec(part(1, "identity"), part(2, "day", "p", 1001)), "name of its own"),
        (spec(part(1, "identity", "a"), part(2, "day", "b")), "the id 1000 is used twice"),
        (spec(part(1, "bucket[4]", "id")), "the name is that of a column"),
        (spec(part(1, "identity", "ts")), "the name is that of a column"),
        (spec(part(1, "identity", "place.city")), "the name is that of a column"),
    ],
)
def test_specs_that_no_table_may_get(found: PartitionSpec, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        check_spec(found, SCHEMA)
