"""The union of two schemas by name, as appending with ``merge_schema`` needs it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidChange
from lakeplane.model.evolution import assign_fresh_ids, evolve
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.schema_union import union_by_name
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    UUID,
    Decimal,
    Field,
    List,
    Map,
    Struct,
    Type,
)
from tests.model.schema_strategies import schemas
from tests.model.test_evolution import (
    ADDRESS,
    BASE,
    FLAT_TYPES,
    LAST,
    SCHEMA,
    any_change,
    lines,
    opt,
    req,
    rules,
    spec,
)


def union(schema: Schema, incoming: Schema, **more: Any) -> Schema:
    relax = more.pop("relax_required", False)
    more.setdefault("last", schema.highest_field_id)
    return union_by_name(schema, incoming, rules(**more), relax_required=relax)[0]


@pytest.mark.parametrize("type_", FLAT_TYPES, ids=str)
def test_missing_columns_of_every_type_are_added_at_every_depth(type_: Type) -> None:
    within: list[Type] = [type_, List(2, type_), Struct((opt(2, "a", type_),))]
    if type_ is not UNKNOWN:
        within.append(Map(2, type_, 3, type_))
    for each in within:
        incoming = Schema((opt(1, "col", each),))
        assert union(Schema(()), incoming) == incoming
    hollow, full = Struct(()), Struct((opt(2, "a", type_),))
    assert union(Schema((opt(1, "s", hollow),)), Schema((opt(1, "s", full),))) == Schema((opt(1, "s", full),))


def test_nested_columns_are_added_before_those_around_them() -> None:
    incoming = Schema(
        (
            opt(1, "new", Struct((opt(2, "a", INT),))),
            opt(3, "points", List(4, Struct((opt(5, "x", LONG), opt(6, "z", LONG))))),
            opt(7, "locations", Map(8, ADDRESS, 9, Struct((opt(10, "alt", FLOAT),)))),
        )
    )
    added = [line for line in lines(union(SCHEMA, incoming)) if line not in BASE]
    assert added == [
        "25 locations.value.alt: optional float",
        "24 points.element.z: optional long",
        "26 new: optional struct",
        "27 new.a: optional int",
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "version", "outcome"),
    [
        (INT, LONG, 1, LONG),
        (FLOAT, DOUBLE, 1, DOUBLE),
        (Decimal(20, 1), Decimal(22, 1), 1, Decimal(22, 1)),
        (DATE, TIMESTAMP, 3, TIMESTAMP),
        (UNKNOWN, STRING, 3, STRING),
        (LONG, INT, 1, LONG),
        (DOUBLE, FLOAT, 1, DOUBLE),
        (Decimal(20, 1), Decimal(10, 1), 1, Decimal(20, 1)),
        (TIMESTAMP, DATE, 3, TIMESTAMP),
        (STRING, UNKNOWN, 1, STRING),
        (List(2, INT), UNKNOWN, 1, List(2, INT)),
        (STRING, LONG, 3, None),
        (STRING, UUID, 3, None),
        (LONG, DOUBLE, 3, None),
        (DATE, TIMESTAMP, 2, None),
        (TIMESTAMP, DATE, 2, None),
        (Decimal(20, 1), Decimal(22, 2), 3, None),
        (List(2, STRING), STRING, 3, None),
        (STRING, List(2, STRING), 3, None),
        (Struct((opt(2, "a", INT),)), INT, 3, None),
        (List(2, INT), Map(2, INT, 3, INT), 3, None),
    ],
)
def test_types_become_wider_and_never_narrower(
    mine: Type, theirs: Type, version: int, outcome: Type | None
) -> None:
    pairs: list[tuple[Type, Type, Type | None]] = [
        (mine, theirs, outcome),
        (List(9, mine), List(1, theirs), outcome and List(9, outcome)),
        (Map(8, STRING, 9, mine), Map(1, STRING, 4, theirs), outcome and Map(8, STRING, 9, outcome)),
        (
            Struct((opt(9, "a", mine),)),
            Struct((opt(4, "a", theirs),)),
            outcome and Struct((opt(9, "a", outcome),)),
        ),
    ]
    for ours, others, expected in pairs:
        schema, incoming = Schema((opt(1, "col", ours),)), Schema((opt(5, "col", others),))
        if expected is None:
            with pytest.raises(InvalidChange, match="cannot become"):
                union(schema, incoming, version=version)
        else:
            assert union(schema, incoming, version=version) == Schema((opt(1, "col", expected),))


def test_map_keys_are_not_widened() -> None:
    def keyed(key: Type) -> Schema:
        return Schema((opt(1, "m", Map(2, key, 3, INT)),))

    assert union(keyed(LONG), keyed(INT)) == keyed(LONG)
    with pytest.raises(InvalidChange, match="keys of a map"):
        union(keyed(INT), keyed(LONG))
    with pytest.raises(InvalidChange, match="cannot become uuid"):
        union(keyed(STRING), keyed(UUID))
    with pytest.raises(InvalidChange, match="keys of a map"):
        union(keyed(Struct((req(4, "a", INT),))), keyed(Struct((req(4, "a", INT), opt(5, "b", INT)))))


def test_the_order_and_ids_of_the_incoming_schema_do_not_matter() -> None:
    mirrored = assign_fresh_ids(Schema(SCHEMA.fields[::-1]))
    assert union_by_name(SCHEMA, mirrored, rules()) == (SCHEMA, LAST)


def test_required_columns_stay_required_unless_relaxed() -> None:
    schema, incoming = Schema((req(1, "a", INT),)), Schema((opt(1, "a", INT), req(2, "b", INT)))
    assert union(schema, incoming) == Schema((req(1, "a", INT), opt(2, "b", INT)))
    assert union(schema, incoming, relax_required=True) == Schema((opt(1, "a", INT), opt(2, "b", INT)))


def test_docs_and_defaults_come_with_new_columns_only() -> None:
    described = Field(1, "a", INT, doc="d", initial_default=34, write_default=35)
    assert union(Schema(()), Schema((described,))) == Schema((described,))
    assert union(Schema((opt(1, "a", INT),)), Schema((described,))) == Schema((opt(1, "a", INT),))


def test_names_in_another_case_are_the_same_column_when_told() -> None:
    schema, incoming = Schema((opt(1, "Id", INT),)), Schema((opt(1, "ID", LONG),))
    assert lines(union(schema, incoming)) == ["1 Id: optional int", "2 ID: optional long"]
    assert lines(union(schema, incoming, case_sensitive=False)) == ["1 Id: optional long"]
    both = Schema((opt(1, "Id", INT), opt(2, "ID", INT)))
    assert union(both, incoming, case_sensitive=False).field(2).type is LONG
    with pytest.raises(InvalidChange, match="more than one"):
        union(both, Schema((opt(1, "id", INT),)), case_sensitive=False)


def test_a_union_heeds_partition_specs() -> None:
    schema, incoming = Schema((opt(1, "d", DATE),)), Schema((opt(1, "d", TIMESTAMP),))
    with pytest.raises(InvalidChange, match="'part' of spec 0"):
        union(schema, incoming, specs=(spec("bucket[4]"),))


@settings(max_examples=60)
@given(schemas(), schemas())
def test_a_union_holds_both_schemas(mine: Schema, theirs: Schema) -> None:
    with contextlib.suppress(InvalidChange):
        check_union(mine, theirs)


@settings(max_examples=60)
@given(schemas(), st.data())
def test_a_union_holds_a_schema_and_what_became_of_it(mine: Schema, data: st.DataObject) -> None:
    theirs, last = mine, mine.highest_field_id
    for _ in range(data.draw(st.integers(1, 4))):
        with contextlib.suppress(InvalidChange):
            theirs, last = evolve(theirs, [data.draw(any_change(theirs))], rules(last=last))
    with contextlib.suppress(InvalidChange):
        check_union(mine, assign_fresh_ids(theirs))


def check_union(mine: Schema, theirs: Schema) -> None:
    new, last = union_by_name(mine, theirs, rules(last=mine.highest_field_id))
    check_compatible(new, 3)
    assert all(new.name_of(field.id) == mine.name_of(field.id) for field in mine.all_fields)
    assert all(new.find_or_none(theirs.name_of(field.id)) for field in theirs.all_fields)
    assert union_by_name(new, theirs, rules(last=last)) == (new, last)
