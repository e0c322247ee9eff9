"""Names: what is read, what is refused, and that each means one place only."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeplane.catalog.names import (
    Name,
    check_new,
    check_part,
    parse_name,
    parse_namespace,
    parse_parts,
    show,
)
from lakeplane.errors import InvalidInput, LakeplaneError
from lakeplane.model.location import parse_location
from lakeplane.testing.catalog_names import ODD_NAMES, PLAIN_NAMES, REFUSED_NAMES

WAREHOUSE = parse_location("s3://bucket/warehouse")

TRICKY = st.text(
    st.one_of(
        st.sampled_from(list("ab./\\%*?'\"`:|<> \t\n\0\x7f_-~#&=;,$")),
        st.sampled_from(
            list("\u00a0\u00ad\u200b\u200d\u2024\u2028\u202e\u2060\uff0e\uff0f\uff05\ufb01\ufeffé\u0301")
        ),
        st.characters(),
    ),
    min_size=1,
    max_size=12,
)

TAKEN = st.text(st.sampled_from("aB9`'~#&=;,$ -_é日\u0301\u200b"), min_size=1, max_size=6).filter(
    lambda text: text.strip() == text
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("shop.orders", ("shop", "orders")),
        ("a.b.c.d", ("a", "b", "c", "d")),
        ("shop.`o'brien`", ("shop", "o'brien")),
        ("`my shop`.`my orders`", ("my shop", "my orders")),
        ("shop.back``tick", None),
        ("shop.`back``tick`", ("shop", "back`tick")),
        ("shop.größe", ("shop", "größe")),
        ("shop.with-dash", ("shop", "with-dash")),
        ("orders", None),
        ("", None),
        (".", None),
        ("shop.", None),
        (".orders", None),
        ("shop..orders", None),
        ("shop.`orders", None),
        ("shop.orders`", None),
        ("shop.`or`ders", None),
        ("shop.``", None),
        ("shop.`a.b`", None),
        ("shop.`..`", None),
        ("shop.`../x`", None),
        (" shop.orders", None),
        ("shop. orders", None),
        ("shop.orders\n", None),
    ],
)
def test_text_is_read_as_a_name(text: str, parts: tuple[str, ...] | None) -> None:
    if parts is None:
        with pytest.raises(InvalidInput):
            parse_name(text)
    else:
        assert parse_name(text) == Name(parts[:-1], parts[-1])


@pytest.mark.parametrize("text", REFUSED_NAMES, ids=ascii)
def test_bad_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_new((text,))
    with pytest.raises(InvalidInput):
        check_new(("shop", text))


@pytest.mark.parametrize("text", [*PLAIN_NAMES, *ODD_NAMES], ids=ascii)
def test_good_names_are_taken_and_survive_being_shown(text: str) -> None:
    check_new(("shop", text))
    name = Name(("shop", text), text)
    assert parse_name(str(name)) == name
    assert parse_namespace(show(name.namespace)) == name.namespace


@given(st.lists(TAKEN, min_size=2, max_size=4).map(tuple))
@example(("`", "``"))
@example(("a`b", "`a"))
def test_what_is_shown_is_read_back(parts: tuple[str, ...]) -> None:
    assert parse_parts(show(parts)) == parts


@given(TRICKY)
def test_reading_never_fails_in_another_way(text: str) -> None:
    for read in (parse_name, parse_namespace, parse_parts):
        with contextlib.suppress(InvalidInput):
            read(text)


@given(TRICKY, TRICKY)
def test_a_new_name_is_one_place_below_the_warehouse(one: str, two: str) -> None:
    """Each accepted name is one segment of a path: it neither climbs, nor nests, nor meets another one."""
    places = []
    for text in (one, two):
        try:
            check_new((text,))
        except InvalidInput:
            continue
        try:
            place = WAREHOUSE / f"shop/{text}"
        except LakeplaneError as error:
            raise AssertionError(f"{text!a} is a name, and no place: {error}") from error
        assert place.segments == ("warehouse", "shop", text)
        assert parse_location(str(place)) == place
        places.append(place)
    assert len(set(places)) == (len({one, two}) if len(places) == 2 else len(places))


@given(TRICKY)
def test_an_old_name_is_never_a_path(text: str) -> None:
    try:
        check_part(text)
    except InvalidInput:
        return
    try:
        place = WAREHOUSE / text
    except InvalidInput:
        return
    assert place.segments == ("warehouse", text)


def test_names_are_ordered_by_their_parts() -> None:
    names = [Name(("a",), "z"), Name(("a", "b"), "a"), Name(("b",), "a")]
    assert sorted([names[2], names[0], names[1]]) == names


def test_values_pass_through() -> None:
    name = Name(("a",), "b")
    assert parse_name(name) is name
    assert parse_namespace(("a", "b")) == ("a", "b")
    assert parse_namespace(None) == parse_namespace("") == ()
