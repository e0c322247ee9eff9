"""Sort orders: their JSON, and the orders that a table may not get."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortField, SortOrder, check_order, read_order, write_order
from lakeplane.model.transforms import Bucket, Identity, UnknownTransform, parse_transform
from lakeplane.model.types import LONG, STRING, VARIANT, Field, List, Struct

SPEC_EXAMPLE: dict[str, Any] = {
    "order-id": 1,
    "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last"},
    ],
}
GOOD: dict[str, Any] = SPEC_EXAMPLE["fields"][0]
SCHEMA = Schema(
    (
        Field(1, "s", Struct((Field(2, "a", LONG), Field(3, "b", STRING)))),
        Field(4, "l", List(5, LONG)),
        Field(6, "v", VARIANT),
    )
)


def key(source: int, transform: str = "identity") -> SortField:
    return SortField((source,), parse_transform(transform), "asc", "nulls-first")


def test_the_example_of_the_spec() -> None:
    order = read_order(SPEC_EXAMPLE, "order")
    assert order.order_id == 1
    assert order.fields == (
        SortField((2,), Identity(), "asc", "nulls-first"),
        SortField((3,), Bucket(4), "desc", "nulls-last"),
    )
    assert order.fields[1].source_id == 3
    assert write_order(order) == SPEC_EXAMPLE
    assert str(order) == "[identity(2) asc nulls-first, bucket[4](3) desc nulls-last]"
    assert not order.is_unsorted


def test_order_0_is_unsorted() -> None:
    assert SortOrder(0, ()) == UNSORTED
    assert UNSORTED.is_unsorted
    assert write_order(UNSORTED) == {"order-id": 0, "fields": []}
    assert read_order({"order-id": 0, "fields": []}, "order") == UNSORTED


def test_unknown_transforms_several_sources_and_unknown_fields_survive() -> None:
    raw = {
        "order-id": 5,
        "fields": [
            {**GOOD, "transform": "zorder(1)", "x": {"a": [1]}},
            {"transform": "bucket[2]", "source-ids": [1, 2], "direction": "asc", "null-order": "nulls-last"},
        ],
        "y": [1],
    }
    order = read_order(raw, "order")
    assert order.fields[0].transform == UnknownTransform("zorder(1)")
    assert order.fields[1].source_ids == (1, 2)
    assert write_order(order) == raw
    hash(order)


def test_directions_are_read_in_any_case() -> None:
    order = read_order(
        {"order-id": 1, "fields": [{**GOOD, "direction": "DESC", "null-order": "NULLS-LAST"}]}, "order"
    )
    assert (order.fields[0].direction, order.fields[0].null_order) == ("desc", "nulls-last")


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (None, "order"),
        ([], "order"),
        ({"fields": []}, "order"),
        ({"order-id": "1", "fields": []}, "order"),
        ({"order-id": True, "fields": []}, "order"),
        ({"order-id": 1}, "order.fields"),
        ({"order-id": 1, "fields": "asc"}, "order.fields"),
        ({"order-id": 1, "fields": ["asc"]}, "order.fields[0]"),
        ({"order-id": 1, "fields": [GOOD, {**GOOD, "direction": "up"}]}, "order.fields[1].direction"),
        ({"order-id": 1, "fields": [{**GOOD, "direction": None}]}, "order.fields[0].direction"),
        ({"order-id": 1, "fields": [{**GOOD, "direction": ["asc"]}]}, "order.fields[0].direction"),
        ({"order-id": 1, "fields": [{**GOOD, "null-order": "first"}]}, "order.fields[0].null-order"),
        ({"order-id": 1, "fields": [{**GOOD, "null-order": 1}]}, "order.fields[0].null-order"),
        ({"order-id": 1, "fields": [{**GOOD, "source-id": "2"}]}, "order.fields[0]"),
        ({"order-id": 1, "fields": [{**GOOD, "transform": 2}]}, "order.fields[0]"),
    ],
)
def test_malformed_orders_are_refused_with_their_place(raw: object, place: str) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read_order(raw, "order")
    assert caught.value.field == place


FIELDS = st.builds(
    SortField,
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3).map(tuple),
    st.sampled_from(["identity", "bucket[4]", "day", "void", "new[1]"]).map(parse_transform),
    st.sampled_from(["asc", "desc"]),
    st.sampled_from(["nulls-first", "nulls-last"]),
)


@given(st.builds(SortOrder, st.integers(0, 99), st.lists(FIELDS, max_size=4).map(tuple)))
def test_orders_round_trip(order: SortOrder) -> None:
    assert read_order(write_order(order), "order") == order


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)),
    st.data(),
)
def test_damaged_orders_are_read_or_refused(junk: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*GOOD, "source-ids"]))
    with contextlib.suppress(InvalidMetadata):
        read_order({"order-id": 0, "fields": [{**GOOD, name: junk}]}, "order")


@pytest.mark.parametrize(
    "order",
    [UNSORTED, SortOrder(1, (key(2), key(3, "truncate[4]"))), SortOrder(2, (key(2, "bucket[8]"), key(2)))],
)
def test_orders_that_a_table_may_get(order: SortOrder) -> None:
    check_order(order, SCHEMA)


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (SortOrder(0, (key(2),)), "order id 0 means unsorted"),
        (SortOrder(1, ()), "must have the id 0"),
        (SortOrder(1, (key(9),)), "source column 9 does not exist"),
        (SortOrder(1, (key(1),)), "does not take s"),
        (SortOrder(1, (key(4),)), "does not take l"),
        (SortOrder(1, (key(5),)), "inside a list or map"),
        (SortOrder(1, (key(6),)), "does not take v"),
        (SortOrder(1, (key(2), key(3, "day"))), "day does not take s.b"),
        (SortOrder(1, (key(2, "zorder"),)), "unknown transform"),
        (
            SortOrder(1, (SortField((2, 3), Identity(), "asc", "nulls-first"),)),
            "takes one column|unknown transform",
        ),
    ],
)
def test_orders_that_no_table_may_get(order: SortOrder, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        check_order(order, SCHEMA)
