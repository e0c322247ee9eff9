"""Walking through the words of what users type: names, marks and whole numbers, with the place of each error.

The tokens are those of predicates, so that quotes, escapes and comments are the same everywhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from lakeplane.errors import InvalidExpression, InvalidInput
from lakeplane.model.expressions.tokens import Text, Token, read_tokens

MAX_SHOWN: Final = 20
"""Parts of a name that an error shows."""

_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE: Final = re.compile(r"[0-9]{1,10}")


class Cursor:
    """A place in a text; what is there can be looked at, taken or refused."""

    def __init__(self, source: str) -> None:
        self.text = _split_brackets(read_tokens(source))
        self.at = 0

    @property
    def token(self) -> Token:
        """The token at the place."""
        return self.text.tokens[self.at]

    def sees(self, *marks: str) -> bool:
        """Whether one of the marks, or unquoted words in upper case, is at the place."""
        return (self.token.text if self.token.kind == "op" else self.token.word or None) in marks

    def skip(self, *marks: str) -> bool:
        """Take the marks, or words, if all of them are next."""
        following = (each.word or each.text for each in self.text.tokens[self.at : self.at + len(marks)])
        found = self.sees(marks[0]) and tuple(following) == marks
        self.at += len(marks) * found
        return found

    def expect(self, mark: str, what: str) -> None:
        """Take a mark or word that must be there."""
        if not self.skip(mark):
            self.refuse(f"expected {what}")

    def finish(self) -> None:
        """Refuse whatever is left."""
        if self.token.kind != "end":
            self.refuse("expected the end")

    def name(self, hint: str | None = None) -> str:
        """Take one name, bare or between backquotes."""
        token = self.token
        if token.kind not in ("word", "quoted"):
            self.refuse("expected a name", hint)
        self.at += 1
        return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")

    def whole_number(self) -> int:
        """Take a whole number."""
        token = self.token
        if not _WHOLE.fullmatch(token.text):
            self.refuse("expected a whole number")
        self.at += 1
        return int(token.text)

    def refuse(self, problem: str, hint: str | None = None, *, at: int | None = None) -> NoReturn:
        """Raise an error that shows the place, or another one."""
        self.text.refuse(self.at if at is None else at, problem, hint)


@contextlib.contextmanager
def reading(source: str, path: Sequence[str] = ()) -> Iterator[None]:
    """Turn the errors about a text into those of its reader; ``path`` is looked at when there is one."""
    try:
        yield
    except InvalidExpression as error:
        place = ".".join(path[:MAX_SHOWN]) or None
        raise InvalidInput(error.problem, source=source, field=place, hint=error.hint) from None


def quote_name(name: str) -> str:
    """Write a name, between backquotes if it needs them."""
    return name if _BARE_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _split_brackets(text: Text) -> Text:
    """Take ``>>``, which is one sign in a predicate, for two closing brackets; ``<>`` for an empty pair."""
    tokens: list[Token] = []
    moved: dict[int, int] = {}
    for index, token in enumerate(text.tokens):
        moved[index] = len(tokens)
        if token.text in (">>", ">>>", "<>"):
            places = enumerate(token.text, token.start)
            tokens += [Token("op", mark, "", start, start + 1) for start, mark in places]
        else:
            tokens.append(token)
    partners = {moved[opening]: moved[closing] for opening, closing in text.partners.items()}
    return Text(text.source, tokens, partners, text.comments)
