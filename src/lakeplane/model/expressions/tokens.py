"""The words of a Spark SQL expression, with their places in the text.

Only the outline of an expression is read here and in ``parse``: what is left over is handed to Spark
as it was written. So a token keeps its place, and not only its meaning.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from lakeplane.errors import InvalidExpression

MAX_LENGTH: Final = 16 * 2**20
"""Characters of a predicate: room for IN lists of more than a hundred thousand values."""

MAX_DEPTH: Final = 100
"""Brackets inside brackets: each level takes some of the stack."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>--(?:\\\n|[^\r\n])*|/\*)
  | (?P<string>[rR](?:'[^']*'|"[^"]*")|'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?!\w))
  | (?P<word>\w+)
  | (?P<op><=>|<=|>=|<>|!=|==|->|=>|::|\|\||>>>|<<|>>|[-=<>+*/%&|^~!().,:\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING: Final = {"(": ")", "[": "]"}


class Token(NamedTuple):
    """A word of the text; ``word`` is its upper-case form when it is unquoted, and empty otherwise."""

    kind: str
    text: str
    word: str
    start: int
    end: int


class Text(NamedTuple):
    """A text, its tokens (the last one is an empty ``end``), and the partner of each bracket."""

    source: str
    tokens: list[Token]
    partners: dict[int, int]
    comments: list[tuple[int, int]]

    def between(self, first: int, after: int) -> str:
        """The source text of the tokens from ``first`` up to ``after``, without comments."""
        start, end = self.tokens[first].start, self.tokens[after - 1].end
        pieces = []
        for comment_start, comment_end in self.comments:
            if start <= comment_start < end:
                pieces.append(self.source[start:comment_start])
                start = comment_end
        return " ".join([*pieces, self.source[start:end]])

    def refuse(self, token: int, problem: str, hint: str | None = None) -> NoReturn:
        """Raise an ``InvalidExpression`` that shows the place of a token."""
        refuse(self.source, self.tokens[token].start, problem, hint)


def refuse(source: str, position: int, problem: str, hint: str | None = None) -> NoReturn:
    """Raise an ``InvalidExpression`` that shows a place in the text."""
    near = source[position : position + 30]
    place = f"at character {position + 1}, near {near!r}" if near else "at the end"
    raise InvalidExpression(f"{problem} {place}", source="predicate", hint=hint)


def read_tokens(source: str) -> Text:
    """Split a text into tokens, and pair its brackets."""
    if len(source) > MAX_LENGTH:
        problem = f"the text has {len(source)} characters, more than {MAX_LENGTH}"
        raise InvalidExpression(problem, source="predicate", hint="Split it, or join with a table of values")
    text = Text(source, [], {}, [])
    stack: list[int] = []
    position = 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            position = _skip_end(source, position)
            continue
        kind, word = str(found.lastgroup), found[0]
        if kind == "comment":
            end = _comment_end(source, found)
            text.comments.append((position, end))
            position = end
            continue
        if kind != "space":
            _add(text, stack, Token(kind, word, word.upper() if kind == "word" else "", position, 0))
        position += len(word)
    text.tokens.append(Token("end", "", "", len(source), len(source)))
    if stack:
        text.refuse(stack[-1], f"{text.tokens[stack[-1]].text!r} is never closed,")
    return text


def _add(text: Text, stack: list[int], token: Token) -> None:
    index = len(text.tokens)
    text.tokens.append(token._replace(end=token.start + len(token.text)))
    if token.kind != "op":
        return
    if token.text in _OPENING:
        stack.append(index)
        if len(stack) > MAX_DEPTH:
            text.refuse(index, f"more than {MAX_DEPTH} brackets inside brackets")
    elif token.text in ")]":
        if not stack or _OPENING[text.tokens[stack[-1]].text] != token.text:
            text.refuse(index, f"{token.text!r} closes nothing,")
        opening = stack.pop()
        text.partners[opening] = index


def _comment_end(source: str, found: re.Match[str]) -> int:
    if not found[0].startswith("/*"):
        return found.end()
    depth, position = 1, found.end()
    # Block comments nest in Spark.
    for mark in re.compile(r"/\*|\*/").finditer(source, position):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    refuse(source, found.start(), "a comment is never closed,")


def _skip_end(source: str, position: int) -> int:
    rest = source[position:]
    if rest.strip(" \t\r\n;") == "":
        return len(source)
    if rest[0] in "'\"`":
        refuse(source, position, "a quote is never closed,")
    if rest[0] == "?":
        refuse(source, position, "a parameter marker cannot be used", "Write the value into the predicate")
    refuse(source, position, "unexpected character")
