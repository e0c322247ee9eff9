"""Columns in statements: types, defaults and comments, handed to the DDL parser as they were written."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeplane.errors import InvalidInput
from lakeplane.model.ddl import parse_ddl
from lakeplane.model.types import Field
from lakeplane.sql.words import Parts, Words

_AFTER_TYPE: Final = frozenset({"NOT", "COMMENT", "DEFAULT", "FIRST", "AFTER", "TYPE", "SET", "DROP"})


class Place(NamedTuple):
    """Where in its struct a column goes: after another one, or first."""

    after: str | None = None


class NewColumn(NamedTuple):
    """A column that is to be added."""

    path: Parts
    definition: str
    """Its type, and what follows it."""
    place: Place | None = None

    def field(self, zone: str) -> Field:
        """The column as a field."""
        return field_of(self.definition, zone)


def field_of(definition: str, zone: str) -> Field:
    """The field of a type with what follows it: ``INT NOT NULL DEFAULT 3``."""
    try:
        return parse_ddl(f"c {definition}", zone=zone).fields[0]
    except InvalidInput as error:
        raise InvalidInput(error.problem, source="SQL", hint=error.hint) from None


def new_column(words: Words) -> NewColumn:
    """Read ``a.b INT NOT NULL DEFAULT 3 COMMENT 'x' AFTER c``."""
    path = words.parts("a column")
    if words.is_done() or words.sees(",", ")"):
        words.refuse("expected a type", f"Write {path[-1]} BIGINT")
    start = words.at
    skip_type(words)
    place, pieces = None, [words.between(start, words.at)]
    while words.token.word in _AFTER_TYPE:
        if (found := place_in(words)) is not None:
            place = found
            continue
        begin = words.at
        words.at += 1
        while not (words.is_done() or words.sees(",", ")") or words.token.word in _AFTER_TYPE):
            words.at = words.text.partners.get(words.at, words.at) + 1
        pieces.append(words.between(begin, words.at))
    if not (words.is_done() or words.sees(",", ")")):
        words.refuse("expected NOT NULL, COMMENT, DEFAULT, FIRST, AFTER or a comma")
    return NewColumn(path, " ".join(pieces), place)


def place_in(words: Words) -> Place | None:
    """Read ``FIRST`` or ``AFTER column``."""
    if words.skip("FIRST"):
        return Place()
    if words.skip("AFTER"):
        return Place(words.name("Name the column that it goes behind"))
    return None


def skip_type(words: Words) -> str:
    """Take a type, and give its text."""
    start = words.at
    if words.token.kind != "word":
        words.refuse("expected a type")
    words.at += 1
    if words.sees("<"):
        depth = 0
        while not words.is_done():
            depth += words.sees("<") - words.sees(">")
            words.at += 1
            if not depth:
                break
    elif words.sees("(", "["):
        words.at = words.text.partners[words.at] + 1
    words.skip("WITHOUT", "TIME", "ZONE")
    return words.between(start, words.at)
