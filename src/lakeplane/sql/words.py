"""The words of a statement, with the places where a parser stands in them.

Statements are taken apart by the tokens of predicates, and what Spark shall understand is handed to it as it
was written: a text that is parsed and written anew may mean something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

from lakeplane.errors import InvalidInput
from lakeplane.model.ddl_words import Cursor, quote_name
from lakeplane.model.expressions.literals import unquote
from lakeplane.model.expressions.tokens import Token

Parts = tuple[str, ...]
"""A name of one or more parts, without quotes."""

QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
"""What a query begins with."""


class Words(Cursor):
    """A place in a statement."""

    @property
    def source(self) -> str:
        """The whole text."""
        return self.text.source

    def peek(self, ahead: int = 1) -> Token:
        """A token further on."""
        return self.text.tokens[min(self.at + ahead, len(self.text.tokens) - 1)]

    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self.token.kind == "end"

    def parts(self, what: str = "a name") -> Parts:
        """Take a name of one or more parts."""
        if self.token.kind not in ("word", "quoted"):
            self.refuse(f"expected {what}")
        found = [self.name()]
        while self.skip("."):
            found.append(self.name())
        return tuple(found)

    def string(self, what: str = "a string") -> str:
        """Take a string literal."""
        found = unquote(self.token.text) if self.token.kind == "string" else None
        if found is None:
            self.refuse(f"expected {what}", "Write it between single quotes")
        self.at += 1
        return found

    def one_of(self, what: str, *words: str) -> str:
        """Take one of some words."""
        found = next((each for each in words if self.skip(each)), None)
        if found is None:
            self.refuse(f"expected {what or ' or '.join(words)}")
        return found

    def require(self, *words: str) -> None:
        """Take words that must be there."""
        for each in words:
            self.expect(each, each)

    def skip_if_exists(self) -> bool:
        """Take IF EXISTS, if it is there."""
        if not self.skip("IF"):
            return False
        self.require("EXISTS")
        return True

    def skip_if_not_exists(self) -> bool:
        """Take IF NOT EXISTS, if it is there."""
        if not self.skip("IF"):
            return False
        self.require("NOT", "EXISTS")
        return True

    def inside(self) -> str:
        """Take a pair of brackets, and give the text in them."""
        if not self.sees("("):
            self.refuse("expected '('")
        first, after = self.at + 1, self.text.partners[self.at]
        self.at = after + 1
        return self.text.between(first, after) if after > first else ""

    def inside_items(self) -> list[str]:
        """Take a pair of brackets, and give the texts between its commas."""
        if not self.sees("("):
            self.refuse("expected '('")
        first, after = self.at + 1, self.text.partners[self.at]
        self.at = after + 1
        return [self.text.between(*span) for span in self.split(first, after)]

    def split(self, first: int, after: int, *marks: str) -> list[tuple[int, int]]:
        """The spans of tokens between commas, or other marks, that are not in brackets."""
        spans: list[tuple[int, int]] = []
        wanted = marks or (",",)
        start = at = first
        # What stands between < and > belongs to a type, as in STRUCT<a: INT, b: INT>.
        while at < after:
            token = self.text.tokens[at]
            if (token.word or token.text) in wanted and token.kind in ("op", "word"):
                spans.append(self._span(start, at))
                start = at + 1
            at = self.text.partners.get(at, at) + 1
        if start < after or spans:
            spans.append(self._span(start, after))
        return spans

    def _span(self, first: int, after: int) -> tuple[int, int]:
        if first >= after:
            self.refuse("expected something", at=after)
        return first, after

    def expression(self, *stops: str) -> tuple[int, int]:
        """Take an expression, up to one of some marks or words outside of brackets and of CASE."""
        start, cases = self.at, 0
        while not self.is_done():
            word = "" if self.at and self.text.tokens[self.at - 1].text == "." else self.token.word
            if not cases and (word in stops or (self.token.kind == "op" and self.token.text in stops)):
                break
            cases += (word == "CASE") - (word == "END" and cases > 0)
            self.at = self.text.partners.get(self.at, self.at) + 1
        if self.at == start:
            self.refuse("expected an expression")
        return start, self.at

    def rest(self) -> str:
        """What is left, as it was written."""
        return self.source[self.token.start :]

    def between(self, first: int, after: int) -> str:
        """The text of some tokens, as it was written."""
        if after <= first:
            return ""
        return self.source[self.text.tokens[first].start : self.text.tokens[after - 1].end]

    def end(self, hint: str | None = None) -> None:
        """Refuse whatever is left."""
        if not self.is_done():
            self.refuse("expected the end of the statement", hint)

    def unknown(self, supported: Iterable[str]) -> NoReturn:
        """Refuse the word at the place, and say what is supported there."""
        self.refuse(f"{self.token.text!r} is not expected", f"Supported: {', '.join(supported)}")


class Edit(NamedTuple):
    """What is put in the place of some of a text."""

    start: int
    end: int
    text: str


def edited(
    source: str, edits: Iterable[Edit], start: int = 0, end: int | None = None, *, braces: bool = False
) -> str:
    """A part of a text with edits made; ``braces`` doubles those of the text, so that they stay there."""
    end = len(source) if end is None else end
    pieces: list[str] = []

    def keep(text: str) -> None:
        pieces.append(text.replace("{", "{{").replace("}", "}}") if braces else text)

    for edit in sorted(edits):
        if edit.start < start or edit.end > end:
            continue
        keep(source[start : edit.start])
        pieces.append(edit.text)
        start = edit.end
    keep(source[start:end])
    return "".join(pieces)


def written(parts: Parts) -> str:
    """A name as users type it."""
    return ".".join(map(quote_name, parts))


def quoted(name: str) -> str:
    """A name between backquotes, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def wrong(problem: str, hint: str | None = None) -> NoReturn:
    """Refuse a statement that is well-formed and yet cannot be."""
    raise InvalidInput(problem, source="SQL", hint=hint)
