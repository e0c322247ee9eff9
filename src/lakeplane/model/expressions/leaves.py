"""The conditions that are understood: their shapes, and what they are bound to.

A reader returns None for tokens of any other shape.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from lakeplane.model.expressions.bind import compare, in_list
from lakeplane.model.expressions.literals import (
    Literal,
    Zone,
)
from lakeplane.model.expressions.opaque import Names
from lakeplane.model.expressions.operands import CONSTANTS, Operand, OperandReader, is_word
from lakeplane.model.expressions.steps import Source
from lakeplane.model.expressions.tokens import Text
from lakeplane.model.expressions.tree import (
    FALSE,
    MIRRORED,
    NEGATED,
    TRUE,
    Compare,
    IsNan,
    Operator,
    Predicate,
    StartsWith,
    Term,
    all_of,
    any_of,
    is_absent,
    is_present,
)
from lakeplane.model.types import BOOLEAN, FLOATS, STRING

_OPERATORS: Final[dict[str, Operator]] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_WILDCARD: Final = re.compile(r"[%_]")


class LeafReader:
    """Reads conditions of one text, for one schema and session time zone."""

    def __init__(self, text: Text, names: Names, zone: Zone) -> None:
        self.text = text
        self.names = names
        self.zone = zone
        self.operands = OperandReader(text, names, zone)

    def read(self, first: int, after: int, *, negated: bool) -> Predicate | None:
        """The leaf that the tokens from ``first`` up to ``after`` make; None if it is not understood."""
        if (called := self._function_test(first, after, negated=negated)) is not None:
            return called
        found = self.operands.read(first, after)
        if found is None:
            return None
        left, position = found
        if position == after:
            return self._bare(left, negated=negated)
        token = self.text.tokens[position]
        if token.kind == "op":
            right = self.operands.read(position + 1, after)
            if right is None or right.after != after:
                return None
            return self._comparison(left, token.text, right.operand, negated=negated)
        if token.word == "IS":
            return self._is(left, position + 1, after, negated=negated)
        return self._predicate(left, position, after, negated=negated)

    def _predicate(self, left: Operand, position: int, after: int, *, negated: bool) -> Predicate | None:
        if self.text.tokens[position].word == "NOT":
            negated, position = not negated, position + 1
        if not isinstance(left, Source):
            return None
        match self.text.tokens[position].word:
            case "IN":
                return self._in(left, position + 1, after, negated=negated)
            case "BETWEEN":
                return self._between(left, position + 1, after, negated=negated)
            case "LIKE":
                return self._like(left, position + 1, after, negated=negated)
            case _:
                return None

    def _bare(self, operand: Operand, *, negated: bool) -> Predicate | None:
        if isinstance(operand, Source):
            return self._compare(operand, "!=" if negated else "=", CONSTANTS["TRUE"])
        match operand.kind:
            case "boolean":
                return TRUE if operand.value != negated else FALSE
            case "null":
                return FALSE
            case _:
                return None

    def _compare(self, source: Source, op: Operator, literal: Literal) -> Predicate | None:
        return compare(source, op, literal, self.zone)

    def _comparison(self, left: Operand, op: str, right: Operand, *, negated: bool) -> Predicate | None:
        if op == "<=>":
            return self._same(left, right, negated=negated)
        if op not in _OPERATORS:
            return None
        operator = NEGATED[_OPERATORS[op]] if negated else _OPERATORS[op]
        match left, right:
            case Source(), Literal():
                return self._compare(left, operator, right)
            case Literal(), Source():
                return self._compare(right, MIRRORED[operator], left)
            case Literal(), Literal() if left.kind == right.kind and left.kind in ("integer", "string"):
                return TRUE if _holds(left.value, operator, right.value) else FALSE
            case _:
                return None

    def _same(self, left: Operand, right: Operand, *, negated: bool) -> Predicate | None:
        """``<=>``: an equality for which null equals null."""
        if isinstance(left, Literal):
            left, right = right, left
        if not isinstance(left, Source) or not isinstance(right, Literal):
            return None
        if right.kind == "null":
            return is_present(left.term) if negated else is_absent(left.term)
        found = self._compare(left, "!=" if negated else "=", right)
        return any_of((found, is_absent(left.term))) if found is not None and negated else found

    def _is(self, left: Operand, position: int, after: int, *, negated: bool) -> Predicate | None:
        tokens = self.text.tokens
        if tokens[position].word == "NOT":
            negated, position = not negated, position + 1
        word = tokens[position].word
        if word == "DISTINCT" and tokens[position + 1].word == "FROM":
            right = self.operands.read(position + 2, after)
            if right is None or right.after != after:
                return None
            return self._same(left, right.operand, negated=not negated)
        if position + 1 != after or not isinstance(left, Source):
            return None
        if word == "NULL" or (word == "UNKNOWN" and left.term.value_type is BOOLEAN):
            return is_present(left.term) if negated else is_absent(left.term)
        if word in ("TRUE", "FALSE") and left.term.value_type is BOOLEAN:
            return self._same(left, CONSTANTS[word], negated=negated)
        return None

    def _in(self, left: Source, position: int, after: int, *, negated: bool) -> Predicate | None:
        if self.text.partners.get(position) != after - 1:
            return None
        literals: list[Literal] = []
        position += 1
        while position < after:
            found = self.operands.read(position, after - 1)
            if found is None or not isinstance(found.operand, Literal):
                return None
            literals.append(found.operand)
            if found.after != after - 1 and self.text.tokens[found.after].text != ",":
                return None
            position = found.after + 1
        return in_list(left, literals, self.zone, negated=negated)

    def _between(self, left: Source, position: int, after: int, *, negated: bool) -> Predicate | None:
        low = self.operands.read(position, after)
        if low is None or not is_word(self.text, low.after, "AND"):
            return None
        high = self.operands.read(low.after + 1, after)
        if high is None or high.after != after:
            return None
        parts = (
            self._comparison(left, ">=", low.operand, negated=negated),
            self._comparison(left, "<=", high.operand, negated=negated),
        )
        if parts[0] is None or parts[1] is None:
            return None
        known = cast("tuple[Predicate, Predicate]", parts)
        return any_of(known) if negated else all_of(known)

    def _like(self, left: Source, position: int, after: int, *, negated: bool) -> Predicate | None:
        found = self.operands.read(position, after)
        if found is None or found.after != after or not _is_text(left.term):
            return None
        if not isinstance(found.operand, Literal) or found.operand.kind != "string":
            return None
        pattern = str(found.operand.value)
        if "\\" in pattern:
            return None
        start = _WILDCARD.split(pattern, maxsplit=1)[0]
        if start == pattern:
            return Compare(left.term, "!=" if negated else "=", pattern)
        if pattern == start + "%":
            return _starts_with(left.term, start, negated=negated)
        return None

    def _function_test(self, first: int, after: int, *, negated: bool) -> Predicate | None:
        """``isnull``, ``isnotnull``, ``isnan`` and ``startswith`` as whole conditions."""
        name = self.text.tokens[first].word
        if name not in ("ISNULL", "ISNOTNULL", "ISNAN", "STARTSWITH"):
            return None
        if self.text.partners.get(first + 1) != after - 1:
            return None
        arguments = self.operands.arguments(first + 1)
        match name, arguments:
            case "ISNULL" | "ISNOTNULL", [Source(term=term)]:
                return is_present(term) if negated == (name == "ISNULL") else is_absent(term)
            case "ISNAN", [Source(term=term, view="")] if term.type in FLOATS:
                return IsNan(term, negated)
            case "STARTSWITH", [Source(term=term, view=""), Literal(kind="string", value=prefix)]:
                return _starts_with(term, prefix, negated=negated) if _is_text(term) else None
            case _:
                return None


def _starts_with(term: Term, prefix: str, *, negated: bool) -> Predicate:
    if not prefix:
        return FALSE if negated else is_present(term)
    return StartsWith(term, prefix, negated)


def _is_text(term: Term) -> bool:
    return term.value_type is STRING


def _holds(left: Any, op: Operator, right: Any) -> bool:
    order = (left > right) - (left < right)
    return order in _ORDERS[op]


_ORDERS: Final[dict[Operator, tuple[int, ...]]] = {
    "=": (0,),
    "!=": (-1, 1),
    "<": (-1,),
    "<=": (-1, 0),
    ">": (1,),
    ">=": (0, 1),
}
