"""Checks of catalogs: names that are refused, and names that must not be mixed up."""

from __future__ import annotations

import uuid
from typing import Final

from lakeplane.catalog.catalog import Change
from lakeplane.catalog.names import Name
from lakeplane.errors import InvalidInput
from lakeplane.iceberg.requirements import AssertCreate
from lakeplane.testing.catalog_subject import (
    Ability,
    Check,
    Subject,
    a_namespace,
    a_table,
    a_view,
    changed,
    property_set,
    raises,
    refused,
    table_of,
    table_updates,
)

REFUSED_NAMES: Final = (
    "",
    " ",
    ".",
    "..",
    "...",
    "a.b",
    "../a",
    "a/b",
    "/a",
    "a/",
    "a\\b",
    "..\\a",
    "a%2Fb",
    "%2e%2e",
    "%00",
    "100%",
    "a*",
    "*",
    "a?b",
    "<a>",
    "a|b",
    'a"b',
    "a:b",
    "a\0b",
    "a\nb",
    "a\tb",
    "\x7f",
    "\ud800",
    " a",
    "a ",
    "\u00a0a",
    "a\u2028b",
    "a\u200bb",  # a blank of no width
    "a\u202eb",  # turns the direction
    "\ufeffa",
    "a\u00adb",  # a hyphen that hides
    "\uff41",  # a wide a
    "\ufb01le",  # the ligature of fi
    "\u2024\u2024",  # dots, one each
    "\uff0e\uff0e\uff0fa",  # ../ in wide letters
    "u\u0308",  # as two characters
    "\u2160",  # the Roman numeral, not the letter
    "\u1d43",  # a raised a
    "_hidden",
    ".hidden",
    "a" * 256,
    "é" * 128,
)
"""Names that no new table or namespace may have: they reach elsewhere, hide, or look like another name."""

PLAIN_NAMES: Final = (
    "a",
    "z9",
    "snake_case",
    "with-dash",
    "2fast",
    "select",
    "table",
    "null",
    "data",
    "metadata",
)
"""Names that every catalog takes; words of SQL and names of our own directories among them."""

ODD_NAMES: Final = (
    "o'brien",
    "'; DROP TABLE iceberg_tables; --",
    "with blank",
    "a__b",
    "back`tick",
    "$dollar",
    "#hash",
    "a=b",
    "a+b&c",
    "{curly}[square](round)",
    "~tilde!",
    "semi;colon,comma",
    "größe",
    "ñandú",
    "日本語",
    "имя",
    "اسم",
    "😀",
    "a" * 200,
)
"""Names that get mixed up where somebody quotes, encodes, normalises or folds them."""


def _check_names(subject: Subject, names: tuple[str, ...]) -> None:
    """Make tables and namespaces of those names, and see that each is the one that it was made as."""
    catalog, other = subject.connect(), subject.connect()
    home = a_namespace(catalog)
    for number, text in enumerate(names):
        a_table(catalog, Name(home, text), properties={"is": str(number)})
    assert catalog.names("table", home) == sorted(Name(home, text) for text in names)
    places = set()
    for number, text in enumerate(names):
        changed(other, Name(home, text), property_set("also", str(number)))
        found = catalog.load("table", Name(home, text))
        assert (found.metadata.properties["is"], found.metadata.properties["also"]) == (str(number),) * 2
        places.add(found.metadata.location)
    assert len(places) == len(names)
    if subject.can(Ability.NESTED):
        outer = a_namespace(catalog)
        for text in names:
            catalog.create_namespace((*outer, text), {})
            a_table(catalog, Name((*outer, text), text))
        assert catalog.namespaces(outer) == sorted((*outer, text) for text in names)
        for text in names:
            assert catalog.names("table", (*outer, text)) == [Name((*outer, text), text)]
    for text in names[::2]:
        catalog.drop("table", Name(home, text))
    assert catalog.names("table", home) == sorted(Name(home, text) for text in names[1::2])


def takes_plain_names(subject: Subject) -> None:
    """Ordinary names name what they say, words of SQL among them."""
    _check_names(subject, PLAIN_NAMES)


def takes_odd_names(subject: Subject) -> None:
    """Quotes, blanks, signs and letters of any language are names like others."""
    if subject.can(Ability.ODD_NAMES):
        _check_names(subject, ODD_NAMES)


def refuses_bad_names(subject: Subject) -> None:
    """Names that reach elsewhere or look like others are refused as input, before anything is done."""
    catalog = subject.connect()
    home = a_namespace(catalog)
    place = catalog.default_location("table", Name(home, "t"))
    entry = a_table(catalog, Name(home, "t"))
    updates = table_updates(catalog, Name(home, "t"), location=str(place))
    nested = subject.can(Ability.NESTED)
    for text in REFUSED_NAMES:
        for name in (Name(home, text), Name((*home, text) if nested else (text,), "t")):
            new = Change("table", name, (AssertCreate(),), updates)
            _names_itself_refused(text, lambda new=new: catalog.commit([new]))
        for namespace in ((text,), (*home, text)) if nested else ((text,),):
            _names_itself_refused(
                text,
                lambda namespace=namespace: catalog.create_namespace(namespace, {}),
            )
        refused(lambda text=text: catalog.register("table", Name(home, text), entry.metadata_location))  # type: ignore[misc]
        refused(lambda text=text: catalog.rename("table", Name(home, "t"), Name(home, text)))  # type: ignore[misc]
        refused(lambda text=text: catalog.load("table", Name(home, text)))  # type: ignore[misc]
        refused(lambda text=text: catalog.drop("table", Name(home, text)))  # type: ignore[misc]
    assert catalog.names("table", home) == [Name(home, "t")]
    if nested:
        assert catalog.namespaces(home) == []


def _names_itself_refused(text: str, do: object) -> None:
    assert callable(do)
    try:
        raises(InvalidInput, do)
    except AssertionError as error:
        raise AssertionError(f"the name {text!r}: {error}") from None


def tells_case_twins_apart(subject: Subject) -> None:
    """``Orders`` and ``orders`` are two tables; a catalog that cannot tell them makes only one."""
    catalog = subject.connect()
    home = a_namespace(catalog)
    names = [Name(home, each) for each in ("ORDERS", "Orders", "orders")]
    if not subject.can(Ability.CASE_SENSITIVE):
        a_table(catalog, names[0])
        twin = names[1]
        try:
            a_table(catalog, twin)
        except Exception:  # noqa: BLE001  # whichever way it is refused
            return
        raise AssertionError("a twin was made in a catalog that is said not to tell them apart")
    for name in names:
        a_table(catalog, name, properties={"is": name.name})
    assert catalog.names("table", home) == names
    catalog.drop("table", names[1])
    assert catalog.names("table", home) == [names[0], names[2]]
    assert [table_of(catalog, each).properties["is"] for each in (names[0], names[2])] == ["ORDERS", "orders"]
    if subject.can(Ability.VIEWS):
        a_view(catalog, names[1])
        assert catalog.names("view", home) == [names[1]]
    upper = (f"CHECK{uuid.uuid4().hex}".upper(),)
    catalog.create_namespace(upper, {})
    assert (upper[0].lower(),) not in catalog.namespaces()
    catalog.create_namespace((upper[0].lower(),), {})
    a_table(catalog, Name(upper, "t"))
    assert catalog.names("table", (upper[0].lower(),)) == []


NAME_CHECKS: Final[tuple[Check, ...]] = (
    takes_plain_names,
    takes_odd_names,
    refuses_bad_names,
    tells_case_twins_apart,
)
