"""Frozen dictionaries, and records that read and write JSON objects without losing anything."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.records import Int, Long, Record, Strings, read, read_all, write, write_all

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


# Frozen dictionaries


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.__setitem__("a", 2),
        lambda it: it.__delitem__("a"),
        lambda it: it.update(a=2),
        lambda it: it.setdefault("b", 2),
        lambda it: it.pop("a"),
        lambda it: it.popitem(),
        lambda it: it.clear(),
        lambda it: it.__ior__({"b": 2}),
    ],
)
def test_a_frozen_dict_cannot_be_changed(change: Callable[[Any], object]) -> None:
    frozen = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match="make a new dict"):
        change(frozen)
    assert frozen == {"a": 1}


def test_a_frozen_dict_has_no_attributes_to_hide_things_in() -> None:
    with pytest.raises(AttributeError):
        FrozenDict().note = 1  # type: ignore[attr-defined]


def test_a_frozen_dict_is_a_value() -> None:
    one, two = FrozenDict({"a": 1, "b": 2}), FrozenDict({"b": 2, "a": 1})
    assert one == two == {"a": 1, "b": 2}
    assert hash(one) == hash(two)
    assert len({one, two, FrozenDict({"a": 1})}) == 2
    assert {**one, "a": 3} == {"a": 3, "b": 2}
    assert EMPTY == {}
    for twin in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301
        assert twin == one
        assert type(twin) is FrozenDict
    assert msgspec.json.encode(one) == b'{"a":1,"b":2}'


@given(JSON)
def test_freezing_goes_all_the_way_down_and_thawing_back(value: Any) -> None:
    frozen = freeze(value)
    hash(frozen)
    assert thaw(frozen) == value
    assert freeze(frozen) == frozen
    assert freeze(thaw(frozen)) == frozen
    assert msgspec.json.encode(frozen) == msgspec.json.encode(value)


def test_thawing_gives_plain_containers() -> None:
    plain = thaw(freeze({"a": [{"b": []}]}))
    assert [type(each) for each in (plain, plain["a"], plain["a"][0], plain["a"][0]["b"])] == [
        dict,
        list,
        dict,
        list,
    ]


# Records


class Leaf(Record, frozen=True, kw_only=True):
    """A record inside others."""

    leaf_name: str
    big_number: Long | None = None


class Tree(Record, frozen=True, kw_only=True):
    """A record with every kind of field."""

    tree_id: Int
    main_leaf: Leaf
    spare_leaf: Leaf | None = None
    more_leaves: tuple[Leaf, ...] = ()
    groups: tuple[tuple[Leaf, ...], ...] | None = None
    plain_ids: tuple[int, ...] | None = None
    summary: Strings | None = None


RAW: dict[str, Any] = {
    "tree-id": 1,
    "main-leaf": {"leaf-name": "m", "big-number": 2**63 - 1, "x": [1]},
    "spare-leaf": {"leaf-name": "s"},
    "more-leaves": [{"leaf-name": "a"}, {"leaf-name": "b", "y": {"z": None}}],
    "groups": [[{"leaf-name": "g", "q": 1}], []],
    "plain-ids": [3, 4],
    "summary": {"operation": "append"},
    "future": {"deep": [{"er": 1}]},
}


def test_a_record_is_read_and_written_without_loss() -> None:
    before = copy.deepcopy(RAW)
    tree = read(Tree, RAW, "tree")
    assert tree.tree_id == 1
    assert tree.main_leaf == Leaf(leaf_name="m", big_number=2**63 - 1, unknown=FrozenDict({"x": (1,)}))
    assert tree.more_leaves[1].unknown == {"y": {"z": None}}
    assert tree.groups == ((Leaf(leaf_name="g", unknown=FrozenDict({"q": 1})),), ())
    assert tree.summary == {"operation": "append"}
    assert type(tree.summary) is FrozenDict
    assert tree.unknown == {"future": {"deep": ({"er": 1},)}}
    assert thaw(write(tree)) == RAW == before
    hash(tree)


def test_absent_fields_are_left_out() -> None:
    raw = {"tree-id": 1, "main-leaf": {"leaf-name": "m"}}
    tree = read(Tree, raw, "tree")
    assert (tree.spare_leaf, tree.groups, tree.summary, tree.unknown) == (None, None, None, EMPTY)
    assert write(tree) == raw
    assert read(Tree, {**raw, "spare-leaf": None, "summary": None}, "tree") == tree


class Count(Record, frozen=True, kw_only=True):
    much: int = msgspec.field(default_factory=int)
    little: int | None = None


@given(st.lists(st.tuples(st.integers(-9, 9), st.none() | st.integers(-9, 9), st.booleans()), max_size=4))
def test_records_are_written_at_once_as_they_are_one_by_one(
    drawn: list[tuple[int, int | None, bool]],
) -> None:
    counts = [
        Count(much=much, little=little, unknown=FrozenDict({"x": 1} if more else {}))
        for much, little, more in drawn
    ]
    assert json.loads(msgspec.json.encode(write_all(counts))) == list(map(write, counts))
    assert all("much" in write(each) for each in counts)


def test_lists_of_records() -> None:
    leaves = read_all(Leaf, RAW["more-leaves"], "leaves")
    assert [leaf.leaf_name for leaf in leaves] == ["a", "b"]
    assert [write(leaf) for leaf in leaves] == RAW["more-leaves"]
    assert read_all(Leaf, [], "leaves") == ()
    assert [thaw(write(tree)) for tree in read_all(Tree, [RAW, RAW], "trees")] == [RAW, RAW]
    assert read_all(Leaf, ({"leaf-name": "t"},), "leaves") == (Leaf(leaf_name="t"),)


@pytest.mark.parametrize(
    ("change", "place", "problem"),
    [
        ({"tree-id": "1"}, "tree.tree-id", "int"),
        ({"tree-id": 2**31}, "tree.tree-id", "<= 2147483647"),
        ({"tree-id": -(2**31) - 1}, "tree.tree-id", ">= -2147483648"),
        ({"tree-id": True}, "tree.tree-id", "int"),
        ({"tree-id": 1.5}, "tree.tree-id", "int"),
        ({"tree-id": None}, "tree.tree-id", "int"),
        ({"main-leaf": []}, "tree.main-leaf", "object"),
        ({"main-leaf": {}}, "tree.main-leaf", "leaf-name"),
        ({"main-leaf": {"leaf-name": "a", "big-number": 2**63}}, "tree.main-leaf.big-number", "int"),
        ({"more-leaves": {}}, "tree.more-leaves", "array"),
        ({"more-leaves": [{"leaf-name": "a"}, 1]}, "tree.more-leaves[", "object"),
        ({"groups": [[{"leaf-name": 1}]]}, "tree.groups[", "str"),
        ({"plain-ids": ["3"]}, "tree.plain-ids[", "int"),
        ({"summary": {"a": 1}}, "tree.summary", "map of strings"),
        ({"summary": {"a": None}}, "tree.summary", "map of strings"),
        ({"summary": [["a", "b"]]}, "tree.summary", "object"),
    ],
)
def test_malformed_records_are_refused_with_their_place(
    change: dict[str, Any], place: str, problem: str
) -> None:
    with pytest.raises(InvalidMetadata, match=problem) as caught:
        read(Tree, {**RAW, **change}, "tree")
    assert (caught.value.field or "").startswith(place)


@pytest.mark.parametrize("raw", [None, 1, "a", [], [RAW]])
def test_what_is_no_object_is_refused(raw: object) -> None:
    with pytest.raises(InvalidMetadata):
        read(Tree, raw, "tree")


@pytest.mark.parametrize("raw", [None, 1, {}, [1], [None], [[]]])
def test_what_is_no_list_of_objects_is_refused(raw: object) -> None:
    with pytest.raises(InvalidMetadata):
        read_all(Leaf, raw, "leaves")


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InvalidMetadata, match="tree-id"):
        read(Tree, {"main-leaf": {"leaf-name": "a"}}, "tree")


def test_records_do_not_change() -> None:
    tree = read(Tree, RAW, "tree")
    with pytest.raises(AttributeError):
        tree.tree_id = 2  # type: ignore[misc]


@given(st.dictionaries(st.text(max_size=4).map("x".__add__), JSON, max_size=3), JSON)
def test_any_unknown_fields_survive(unknown: dict[str, Any], value: Any) -> None:
    raw = {**RAW, **unknown, "main-leaf": {"leaf-name": "m", "x": value}}
    assert thaw(write(read(Tree, raw, "tree"))) == raw


@given(st.sampled_from([*RAW, "(unknown)"]), JSON)
def test_any_value_in_any_field_is_read_or_refused(key: str, value: Any) -> None:
    try:
        tree = read(Tree, {**RAW, key: value}, "tree")
    except InvalidMetadata:
        return
    assert read(Tree, write(tree), "tree") == tree
