"""Where a query names tables: found in its words, so that the text stays what it is everywhere else.

Of a query, only this is understood: which brackets hold queries, which names are those of WITH, what stands
in FROM and how it is joined, and which WHERE applies to it. All else is left to Spark.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeplane.model.expressions.tokens import Token
from lakeplane.sql.words import QUERY_WORDS, Parts, Words

Span = tuple[int, int]
"""The first of some tokens, and the one after the last."""


class Reference(NamedTuple):
    """A place where a query names a table."""

    parts: Parts
    first: int
    after: int
    """Behind the name, and behind what says which state of the table is meant."""
    version: Span | None = None
    timestamp: Span | None = None
    options: int | None = None
    """Where options of the read begin."""
    alias: str | None = None
    alias_at: int = 0
    """The token behind which an alias belongs, if there is none."""
    where: Span | None = None
    """The condition that rows of the table must satisfy, if it may be looked at before the query is."""
    others: frozenset[str] = frozenset()
    """What the other relations of the same FROM are called, in lower case."""

    @property
    def shown(self) -> str:
        """What columns of the table may be qualified by."""
        return self.alias or self.parts[-1]


_JOIN_WORDS: Final = frozenset(
    {"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "OUTER"}
)
_CLAUSES: Final = frozenset(
    {
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "WINDOW",
        "LIMIT",
        "OFFSET",
        "QUALIFY",
    }
    | {"UNION", "EXCEPT", "MINUS", "INTERSECT", "SELECT", "LATERAL", "INSERT"}
)
_SET_WORDS: Final = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})
_NO_ALIAS: Final = (
    _CLAUSES
    | _JOIN_WORDS
    | {"ON", "USING", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "WHEN", "SET", "THEN", "WITH", "AS"}
)
_OUTSIDE_IN: Final = frozenset({"LEFT", "FULL", "SEMI", "ANTI"})
"""Joins after which a condition on the rows of the right side is not one on the table there."""


class _Block:
    """One SELECT with its FROM: the relations, and to which of them WHERE may be applied before the join."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self.direct: set[int] = set()
        self.names: list[tuple[int | None, str]] = []
        self.where: Span | None = None
        self.is_piped = False


class Relation(NamedTuple):
    """What something in a FROM is called, and the tokens of the query that may use the name.

    A table without an alias is called by all parts of its name.
    """

    name: Parts
    query: Span


class Scan(NamedTuple):
    """What is said of tables in a query, or in an expression that may hold queries."""

    references: list[Reference]
    relations: list[Relation]

    def is_hidden(self, name: Parts, at: int) -> bool:
        """Whether a name that is known outside means something else at a place inside."""
        return any(
            each.query[0] <= at < each.query[1] and _ends_alike(each.name, name) for each in self.relations
        )


def _ends_alike(one: Parts, other: Parts) -> bool:
    shared = min(len(one), len(other))
    return [part.lower() for part in one[-shared:]] == [part.lower() for part in other[-shared:]]


def scan(words: Words, first: int = 0, after: int | None = None) -> Scan:
    """Find the tables that a query, or any expression, names."""
    last = len(words.text.tokens) - 1 if after is None else after
    scanner = _Scanner(words)
    scanner.level(first, last, frozenset())
    return Scan(scanner.found, scanner.relations)


class _Scanner:
    """Walks over the words of a query."""

    def __init__(self, words: Words) -> None:
        self.words = words
        # A look at what follows the last word finds the end.
        self.tokens = words.text.tokens + 4 * words.text.tokens[-1:]
        self.partners = words.text.partners
        self.found: list[Reference] = []
        self.relations: list[Relation] = []

    def word(self, at: int) -> str:
        """The word at a place, unless it is a part of a name."""
        return "" if at and self.tokens[at - 1].text == "." else self.tokens[at].word

    def level(self, first: int, after: int, names: frozenset[str]) -> None:
        """A query or expression, with nothing of what is around it."""
        at = first
        if self.word(at) == "WITH":
            at, names = self._with(at + 1, after, names)
        block, selects = _Block(), self.word(at) == "FROM"
        while at < after:
            word, token = self.word(at), self.tokens[at]
            if token.text in ("(", "[") and at in self.partners:
                self.level(at + 1, self.partners[at], names)
                at = self.partners[at] + 1
            elif word == "SELECT":
                selects, at = True, at + 1
            elif word in _SET_WORDS:
                self._finish(block, (first, after))
                block, selects, at = _Block(), False, at + 1
            elif word == "FROM" and selects and self.word(at - 1 if at else 0) != "DISTINCT":
                at = self._relations(at + 1, after, names, block)
            elif word == "WHERE":
                block.where = (at + 1, self._clause_end(at + 1, after))
                at += 1
            elif word == "TABLE" and self._may_be_table(at, first):
                at = self._table_word(at, after, names)
            elif word == "JOIN" or (word == "LATERAL" and self.word(at + 1) == "VIEW"):
                at = self._loose(at, after, names, block)
            else:
                block.is_piped |= token.text == "|" and self.tokens[at + 1].text == ">"
                at += 1
        self._finish(block, (first, after))

    def _finish(self, block: _Block, query: Span) -> None:
        """Say of the tables of a block which condition their rows must satisfy."""
        for number, name in block.names:
            bare = number is not None and self.found[number].alias is None
            parts = self.found[number].parts if number is not None and bare else (name,)
            self.relations.append(Relation(parts, query))
        for number in block.found:
            others = frozenset(name.lower() for each, name in block.names if each != number)
            where = block.where if number in block.direct and not block.is_piped else None
            self.found[number] = self.found[number]._replace(where=where, others=others)

    def _with(self, at: int, after: int, names: frozenset[str]) -> tuple[int, frozenset[str]]:
        """The queries that have names: each knows those before it, and itself only if it is recursive."""
        recursive = self.word(at) == "RECURSIVE" and self.tokens[at + 1].kind in ("word", "quoted")
        at += recursive
        while at < after:
            name = _name(self.tokens[at])
            at += 1
            if self.tokens[at].text == "(":
                at = self.partners[at] + 1
            while at < after and self.tokens[at].text != "(":  # AS, MAX RECURSION LEVEL
                at += 1
            if at >= after:
                break
            inner = names | {name.lower()} if recursive else names
            self.level(at + 1, self.partners[at], inner)
            names |= {name.lower()}
            at = self.partners[at] + 1
            if self.tokens[at].text != ",":
                break
            at += 1
        return at, names

    def _relations(self, at: int, after: int, names: frozenset[str], block: _Block) -> int:
        while True:
            at = self._joined(at, after, names, block)
            if at >= after or self.tokens[at].text != ",":
                return at
            at += 1

    def _joined(self, at: int, after: int, names: frozenset[str], block: _Block) -> int:
        """A relation, and what is joined to it."""
        before = len(self.found)
        at = self._primary(at, after, names, block)
        while at < after and (self.word(at) in _JOIN_WORDS):
            kinds = set()
            while at < after and self.word(at) in _JOIN_WORDS:
                kinds.add(self.word(at))
                at += 1
            left_end = len(self.found)
            at = self._primary(at, after, names, block)
            if kinds & _OUTSIDE_IN:
                block.direct -= set(range(left_end, len(self.found)))
            if kinds & {"RIGHT", "FULL"}:
                block.direct -= set(range(before, left_end))
            at = self._criteria(at, after, names)
        return at

    def _criteria(self, at: int, after: int, names: frozenset[str]) -> int:
        """What follows a join, up to the next one."""
        while at < after:
            word = self.word(at)
            if self.tokens[at].text == "," or word in _CLAUSES:
                break
            if word in _JOIN_WORDS and self.tokens[at + 1].text != "(":
                break
            if self.tokens[at].text == "|" and self.tokens[at + 1].text == ">":
                break
            if at in self.partners:
                self.level(at + 1, self.partners[at], names)
            at = self.partners.get(at, at) + 1
        return at

    def _primary(self, at: int, after: int, names: frozenset[str], block: _Block) -> int:  # noqa: C901 - one branch per kind of relation
        while at < after and self.word(at) == "LATERAL" and self.word(at + 1) != "VIEW":
            at += 1
        token = self.tokens[at]
        if at >= after:
            return at
        if token.text == "(":
            return self._bracket(at, after, names, block)
        if self.word(at) == "VALUES":
            return self._criteria(at, after, names)
        if self.word(at) == "TABLE" and self.tokens[at + 1].text == "(":
            return self._alias(self._table_word(at, after, names), after, block, None)[0]
        if token.kind not in ("word", "quoted"):
            return at
        start, parts = at, [_name(token)]
        at += 1
        while (
            at + 1 < after and self.tokens[at].text == "." and self.tokens[at + 1].kind in ("word", "quoted")
        ):
            parts.append(_name(self.tokens[at + 1]))
            at += 2
        if at < after and self.tokens[at].text == "(":
            self.level(at + 1, self.partners[at], names)
            return self._alias(self.partners[at] + 1, after, block, None)[0]
        if len(parts) == 1 and parts[0].lower() in names:
            at, alias, _, _ = self._alias(at, after, block, None)
            if alias is None:
                block.names.append((None, parts[0]))
            return at
        return self._reference(Reference(tuple(parts), start, at), after, block)

    def _reference(self, found: Reference, after: int, block: _Block) -> int:
        number, at = len(self.found), found.after
        found, at = self._state(found, at, after)
        options = None
        if self.word(at) == "WITH" and self.tokens[at + 1].text == "(":
            options, at = at, self.partners[at + 1] + 1
        found = found._replace(after=at, options=options)
        behind = self._sample_end(at, after)
        at, alias, has_columns, pivots = self._alias(at, after, block, number)
        if alias is None:
            block.names.append((number, found.parts[-1]))
        self.found.append(found._replace(alias=alias, alias_at=behind - 1))
        block.found.append(number)
        if not has_columns and not pivots:
            block.direct.add(number)
        return at

    def _state(self, found: Reference, at: int, after: int) -> tuple[Reference, int]:
        """Read ``[FOR] VERSION AS OF n`` and ``[FOR] TIMESTAMP AS OF expression``."""
        start = at + (self.word(at) == "FOR")
        word = self.word(start)
        if (self.word(start + 1), self.word(start + 2)) != ("AS", "OF"):
            return found, at
        at = start + 3
        if word in ("VERSION", "SYSTEM_VERSION"):
            return found._replace(version=(at, at + 1)), at + 1
        if word in ("TIMESTAMP", "SYSTEM_TIME"):
            end = self._operand_end(at, after)
            return found._replace(timestamp=(at, end)), end
        return found, found.after

    def _operand_end(self, at: int, after: int) -> int:
        """The end of a value: literals, calls and brackets, with arithmetic between them."""
        while at < after:
            while self.tokens[at].text in ("-", "+"):
                at += 1
            if self.word(at) == "INTERVAL":
                at += 1
                while self.tokens[at].kind in ("number", "string") and self.tokens[at + 1].kind == "word":
                    at += 2
            elif self.word(at) in ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and (
                self.tokens[at + 1].kind == "string"
            ):
                at += 2
            elif at in self.partners:
                at = self.partners[at] + 1
            else:
                at += 1
                if self.tokens[at].text == "(" and at < after:
                    at = self.partners[at] + 1
            if at >= after or self.tokens[at].text not in ("-", "+", "*", "/"):
                return at
            at += 1
        return at

    def _sample_end(self, at: int, after: int) -> int:
        if self.word(at) != "TABLESAMPLE" or at >= after:
            return at
        at += 1
        if self.word(at) in ("SYSTEM", "BERNOULLI"):
            at += 1
        at = self.partners.get(at, at) + 1
        if self.word(at) == "REPEATABLE":
            at = self.partners.get(at + 1, at + 1) + 1
        return at

    def _alias(
        self, at: int, after: int, block: _Block, number: int | None
    ) -> tuple[int, str | None, bool, bool]:
        """Read what may follow a relation: where that ends, its name, and what keeps WHERE from its rows."""
        sampled = self._sample_end(at, after)
        changes, at = sampled != at, sampled
        alias, has_columns = None, False
        if at < after:
            explicit = self.word(at) == "AS"
            token = self.tokens[at + explicit]
            is_name = token.kind == "quoted" or (
                token.kind == "word" and (explicit or token.word not in _NO_ALIAS)
            )
            if is_name and at + explicit < after:
                alias, at = _name(token), at + explicit + 1
                block.names.append((number, alias))
                if at < after and self.tokens[at].text == "(":
                    has_columns, at = True, self.partners[at] + 1
        while at < after and self.word(at) in ("PIVOT", "UNPIVOT"):
            changes = True
            while at < after and self.tokens[at].text != "(":
                at += 1
            at = self.partners.get(at, at) + 1
            at, _, _, _ = self._alias(at, after, block, number)
        return at, alias, has_columns, changes

    def _bracket(self, at: int, after: int, names: frozenset[str], block: _Block) -> int:
        """A query or a relation between brackets."""
        closing, inner = self.partners[at], at + 1
        if self.word(inner) in QUERY_WORDS:
            self.level(inner, closing, names)
            return self._alias(closing + 1, after, block, None)[0]
        before = len(self.found)
        left = self._relations(inner, closing, names, block)
        if left < closing:
            # Queries in brackets that are united: nothing of them is a relation of this block.
            block.found = [each for each in block.found if each < before]
            del self.found[before:]
            self.level(inner, closing, names)
        at, alias, has_columns, changes = self._alias(closing + 1, after, block, None)
        if left < closing or has_columns or changes or alias is not None:
            block.direct -= set(range(before, len(self.found)))
        return at

    def _may_be_table(self, at: int, first: int) -> bool:
        """Whether the word TABLE, which may be a column as well, begins a query or an argument."""
        begins = at == first or self.tokens[at - 1].text in ("(", ",", "=>")
        begins = begins or self.word(at - 1) in _SET_WORDS | {"ALL", "DISTINCT"}
        following = self.tokens[at + 1]
        return begins and following.word not in _CLAUSES | {"FROM", "AS"}

    def _table_word(self, at: int, after: int, names: frozenset[str]) -> int:
        """``TABLE name`` as a query or an argument, or ``TABLE(...)``."""
        at += 1
        if self.tokens[at].text == "(" and at < after:
            inner, closing = at + 1, self.partners[at]
            if self.word(inner) in QUERY_WORDS or self._name_end(inner, closing) != closing:
                self.level(inner, closing, names)
            else:
                self._lone(inner, closing, names)
            return closing + 1
        end = self._name_end(at, after)
        if end > at:
            self._lone(at, end, names)
        return max(end, at)

    def _lone(self, first: int, end: int, names: frozenset[str]) -> None:
        parts = tuple(_name(self.tokens[each]) for each in range(first, end, 2))
        if len(parts) > 1 or parts[0].lower() not in names:
            self.found.append(Reference(parts, first, end, alias=parts[-1]))

    def _name_end(self, at: int, after: int) -> int:
        if at >= after or self.tokens[at].kind not in ("word", "quoted"):
            return at
        at += 1
        while (
            at + 1 < after and self.tokens[at].text == "." and self.tokens[at + 1].kind in ("word", "quoted")
        ):
            at += 2
        return at

    def _loose(self, at: int, after: int, names: frozenset[str], block: _Block) -> int:
        """A join outside of FROM, as behind ``|>``; or LATERAL VIEW, which brings a name of its own."""
        if self.word(at) == "JOIN":
            before = len(self.found)
            at = self._primary(at + 1, after, names, block)
            block.direct -= set(range(before, len(self.found)))
            return at
        at += 2
        while at < after and self.tokens[at].text != "(":
            at += 1
        if at in self.partners:
            self.level(at + 1, self.partners[at], names)
            at = self.partners[at] + 1
            if at < after and self.tokens[at].kind in ("word", "quoted"):
                block.names.append((None, _name(self.tokens[at])))
        return at

    def _clause_end(self, at: int, after: int) -> int:
        while at < after:
            if self.word(at) in _CLAUSES or (self.tokens[at].text == "|" and self.tokens[at + 1].text == ">"):
                return at
            at = self.partners.get(at, at) + 1
        return after


def _name(token: Token) -> str:
    return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")
