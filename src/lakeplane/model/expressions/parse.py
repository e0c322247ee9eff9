"""From the text of a Spark SQL condition to a bound predicate.

Only the outline is parsed here: AND, OR, NOT, brackets, and conditions of the shapes that can prune files.
Every other condition becomes an ``Opaque`` leaf with the text as it was written, after sqlglot has found it
well-formed and told its columns.

::

    either     := both (OR both)*
    both       := condition (AND condition)*
    condition  := (NOT | !)* ( "(" either ")" | leaf )
    leaf       := operand
                | operand (= | == | <=> | != | <> | < | <= | > | >=) operand
                | operand IS [NOT] (NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM operand)
                | operand [NOT] (IN "(" literal, ... ")" | BETWEEN operand AND operand | LIKE string)
                | isnull(operand) | isnotnull(operand) | isnan(operand) | startswith(operand, string)
                | anything else, up to the next AND, OR, bracket or end
"""

from __future__ import annotations

from typing import Final

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.leaves import LeafReader
from lakeplane.model.expressions.literals import read_zone
from lakeplane.model.expressions.opaque import Names, read_opaque
from lakeplane.model.expressions.operands import is_word
from lakeplane.model.expressions.tokens import Text, read_tokens
from lakeplane.model.expressions.tree import Predicate, all_of, any_of
from lakeplane.model.schema import Schema

_QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})


def parse_predicate(
    text: str, schema: Schema, *, zone: str = "UTC", case_sensitive: bool = False
) -> Predicate:
    """Parse a condition of Spark SQL, and bind it to the columns of a schema.

    ``zone`` is the time zone of the Spark session that will filter the rows. The metadata columns are
    known only if the schema has them.
    """
    tokens = read_tokens(text)
    reader = LeafReader(tokens, Names(schema, case_sensitive=case_sensitive), read_zone(zone))
    try:
        predicate, after = _either(reader, 0, negated=False)
    except RecursionError:
        problem = "too many conditions inside conditions"
        raise InvalidExpression(problem, source="predicate", hint="Leave brackets out") from None
    if tokens.tokens[after].kind != "end":
        tokens.refuse(after, "expected AND, OR or the end")
    return predicate


def _either(reader: LeafReader, position: int, *, negated: bool) -> tuple[Predicate, int]:
    """Read conditions joined by OR and AND; negated, the two swap their meaning."""
    alternatives, together = [], []
    while True:
        part, position = _condition(reader, position, negated=negated)
        together.append(part)
        word = reader.text.tokens[position].word
        if word == "AND":
            position += 1
            continue
        alternatives.append(any_of(together) if negated else all_of(together))
        if word != "OR":
            return (all_of(alternatives) if negated else any_of(alternatives)), position
        together = []
        position += 1


def _condition(reader: LeafReader, position: int, *, negated: bool) -> tuple[Predicate, int]:
    text = reader.text
    while is_word(text, position, "NOT") or text.tokens[position].text == "!":
        negated = not negated
        position += 1
    if text.tokens[position].text == "(" and _is_group(text, position):
        inner, after = _either(reader, position + 1, negated=negated)
        if text.partners[position] != after:
            text.refuse(after, "expected AND, OR or a closing bracket")
        return inner, after + 1
    after = leaf_end(text, position)
    if after == position:
        text.refuse(position, "expected a condition")
    found = reader.read(position, after, negated=negated)
    if found is None:
        found = read_opaque(text, position, after, reader.names, negated=negated)
    return found, after


def _is_group(text: Text, opening: int) -> bool:
    """Whether a bracket holds a condition, rather than a value, a row or a query."""
    closing = text.partners[opening]
    following = text.tokens[closing + 1]
    if not (following.word in ("AND", "OR") or following.kind == "end" or following.text == ")"):
        return False
    first, second = text.tokens[opening + 1], text.tokens[opening + 2]
    if first.word in _QUERY_WORDS and (second.kind != "op" or second.text in ("(", "*")):
        return False
    position = opening + 1
    while position < closing:
        if text.tokens[position].text == ",":
            return False
        position = text.partners.get(position, position) + 1
    return True


def leaf_end(text: Text, position: int) -> int:
    """The first token after a leaf."""
    start, cases, between = position, 0, False
    while True:
        token = text.tokens[position]
        word = token.word if position == start or text.tokens[position - 1].text != "." else ""
        if token.kind == "end" or token.text in (")", "]", ","):
            if cases:
                text.refuse(start, "CASE without END")
            return position
        if word == "CASE":
            cases += 1
        elif word == "END" and cases:
            cases -= 1
        elif not cases and word == "BETWEEN":
            between = True
        elif not cases and (word == "OR" or (word == "AND" and not between)):
            return position
        elif not cases and word == "AND":
            between = False
        position = text.partners.get(position, position) + 1
