"""Which parts of a WHERE are about one table alone, so that its files can be planned with them.

The query is filtered by Spark with all of its WHERE in any case. What is found here is applied once more, to
the table alone and before the query: so it holds only conditions that are understood exactly, and that give
the same answer each time.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.parse import leaf_end, parse_predicate
from lakeplane.model.expressions.tree import Opaque, leaves
from lakeplane.model.schema import Schema
from lakeplane.sql.query import Reference, Span
from lakeplane.sql.words import Edit, Parts, Words, edited


def condition_on(
    words: Words,
    reference: Reference,
    schema: Schema,
    qualifiers: frozenset[Parts],
    *,
    zone: str,
    case_sensitive: bool,
) -> str | None:
    """The part of a WHERE that is about one table alone, in the words of the user without qualifiers."""
    if reference.where is None:
        return None
    found = []
    for span in _conjuncts(words, *reference.where):
        text = _unqualified(words, span, reference, qualifiers)
        if text is None:
            continue
        try:
            predicate = parse_predicate(text, schema, zone=zone, case_sensitive=case_sensitive)
        except InvalidExpression:
            continue
        if not any(isinstance(each, Opaque) for each in leaves(predicate)):
            found.append(f"({text}\n)")
    return " AND ".join(found) or None


def _conjuncts(words: Words, first: int, after: int) -> list[Span]:
    """The conditions that a condition joins by AND; all of it, if there is an OR beside them."""
    found, at = [], first
    while at < after:
        end = min(leaf_end(words.text, at), after)
        if end == at:
            return []
        found.append((at, end))
        if end < after and words.text.tokens[end].word == "OR":
            return [(first, after)]
        at = end + 1
    return found


def chains(words: Words, first: int, after: int) -> Iterator[tuple[int, Parts]]:
    """The dotted names in some words, each with its place; the parts may end with ``*``."""
    tokens, at = words.text.tokens, first
    while at < after:
        if tokens[at].kind not in ("word", "quoted"):
            at += 1
            continue
        start, parts = at, [_name(tokens[at].text)]
        while (
            at + 2 < after + 1
            and tokens[at + 1].text == "."
            and _is_part(tokens[at + 2].kind, tokens[at + 2].text)
        ):
            parts.append(_name(tokens[at + 2].text))
            at += 2
        at += 1
        yield start, tuple(parts)


def _is_part(kind: str, text: str) -> bool:
    return kind in ("word", "quoted") or text == "*"


def _name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _unqualified(words: Words, span: Span, reference: Reference, qualifiers: frozenset[Parts]) -> str | None:
    """A condition without the names of the table; None if it names another one."""
    tokens, edits = words.text.tokens, []
    own = {(reference.shown,)} if reference.alias else {(reference.shown,), *qualifiers}
    known = {_folded(each) for each in own}
    for start, parts in chains(words, *span):
        if len(parts) == 1:
            continue
        folded = _folded(parts)
        lengths = [size for size in range(len(parts) - 1, 0, -1) if folded[:size] in known]
        if lengths:
            edits.append(Edit(tokens[start].start, tokens[start + 2 * lengths[0]].start, ""))
        elif folded[0] in reference.others:
            return None
    return edited(words.source, edits, tokens[span[0]].start, tokens[span[1] - 1].end)


def _folded(parts: Parts) -> Parts:
    return tuple(part.lower() for part in parts)
