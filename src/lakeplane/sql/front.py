"""The front door of SQL: which statement a text is, and who runs it.

A statement is known by its first words. What nobody here knows is Spark's, unless it names a table of the
lake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeplane.errors import NotSupported
from lakeplane.model.ddl_words import reading
from lakeplane.sql import alter, call, create, describe, insert, namespaces, rows, show, views
from lakeplane.sql.names import Scope
from lakeplane.sql.pruning import chains
from lakeplane.sql.statement import Run, Statement
from lakeplane.sql.words import QUERY_WORDS, Words

if TYPE_CHECKING:
    from lakeplane.catalog.names import Namespace
    from lakeplane.lake import Lake
    from lakeplane.spark.frames import DataFrame

Parse: TypeAlias = Callable[[Words], "Statement | None"]


def _described(words: Words) -> Statement | None:
    if (
        words.token.word in ("FUNCTION", "QUERY", "CATALOG", *QUERY_WORDS - {"TABLE"})
        and words.peek().kind != "end"
    ):
        return None
    words.skip("TABLE")
    return describe.describe(words)


_TEMPORARY: Final[dict[str, dict[str, bool]]] = {
    "": {},
    "TEMPORARY ": {"temporary": True},
    "TEMP ": {"temporary": True},
    "GLOBAL TEMPORARY ": {"temporary": True, "is_global": True},
    "GLOBAL TEMP ": {"temporary": True, "is_global": True},
}


def _view_parsers() -> dict[str, Parse]:
    found: dict[str, Parse] = {}
    for words, how in _TEMPORARY.items():
        found[f"CREATE {words}VIEW"] = lambda each, how=how: views.create_view(each, **how)  # type: ignore[misc]
        found[f"CREATE OR REPLACE {words}VIEW"] = (
            lambda each, how=how: views.create_view(each, may_replace=True, **how)  # type: ignore[misc]
        )
    return found


STATEMENTS: Final[dict[str, Parse]] = {
    "CREATE TABLE": create.create_table,
    "CREATE OR REPLACE TABLE": lambda words: create.create_table(words, replace=True),
    "REPLACE TABLE": lambda words: create.create_table(words, replace=True, must_exist=True),
    "DROP TABLE": create.drop_table,
    "TRUNCATE TABLE": create.truncate_table,
    "ALTER TABLE": alter.alter_table,
    "INSERT INTO": insert.insert,
    "INSERT OVERWRITE": lambda words: insert.insert(words, overwrite=True),
    "DELETE FROM": rows.delete,
    "UPDATE": rows.update,
    "MERGE": rows.merge,
    **_view_parsers(),
    "ALTER VIEW": views.alter_view,
    "DROP VIEW": views.drop_view,
    **{f"CREATE {kind}": namespaces.create_namespace for kind in namespaces.KINDS},
    **{f"ALTER {kind}": namespaces.alter_namespace for kind in namespaces.KINDS},
    **{f"DROP {kind}": namespaces.drop_namespace for kind in namespaces.KINDS},
    **{
        f"{word} {kind}": namespaces.describe_namespace
        for kind in namespaces.KINDS
        for word in ("DESCRIBE", "DESC")
    },
    "USE": namespaces.use,
    "SHOW": show.show_statement,
    "DESCRIBE": _described,
    "DESC": _described,
    "CALL": call.call,
}
"""How a statement is read, by its first words; what comes first of two that fit is the longer one."""

_LONGEST_FIRST: Final = sorted(STATEMENTS, key=len, reverse=True)

SUPPORTED: Final = (
    "SELECT, INSERT, DELETE, UPDATE, MERGE, CREATE, REPLACE, ALTER, DROP and TRUNCATE TABLE, "
    "CREATE, ALTER and DROP VIEW, CREATE, ALTER, DROP, DESCRIBE and USE NAMESPACE, SHOW, DESCRIBE, "
    "EXPLAIN, CALL"
)

_SPARKS: Final = re.compile(
    r"\s*(SET|RESET|ADD|LIST|CLEAR|DECLARE|EXECUTE|BEGIN|RELOAD|SHOW\s+(FUNCTIONS|CATALOGS))\b", re.IGNORECASE
)
"""Statements about the session. Their texts need not be made of words."""

_BARE_TABLE: Final = ("TABLE",)
"""What begins a query only if it is the first word: ``TABLE name``."""

_NAMES_TABLE: Final = frozenset({"TABLE", "INTO", "FROM", "JOIN", "VIEW"})
_MOST_LOOKUPS: Final = 100


class Front:
    """Runs statements on a lake, and knows the namespace that is in use."""

    def __init__(self, lake: Lake, spark: Any) -> None:
        self.lake = lake
        self.spark = spark
        self.namespace: Namespace = ()

    def run(self, text: str) -> DataFrame:
        """Run one statement."""
        from lakeplane.spark.session import find_session  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.statements import is_temporary_view, run  # noqa: PLC0415

        session = find_session(self.spark)
        if _SPARKS.match(text):
            return run(session, text, {}, text)
        with reading("SQL"):
            words = _rearranged(Words(text))
            scope = Scope(self.lake, self.namespace, lambda name: is_temporary_view(session, name))
            context = Run(self, session, scope, words)
            statement = parse(words)
            if statement is None:
                return self.pass_on(context)
            answer = statement.run(context)
            return context.answer() if answer is None else answer

    def pass_on(self, run: Run) -> DataFrame:
        """Hand a statement to Spark: the tables of the lake that it reads become frames.

        Raises:
            NotSupported: it names a table of the lake in another way than to read it.
        """
        words = run.words
        end = len(words.text.tokens) - 1
        start = _query_start(words)
        head = words.text.tokens[0].word
        _check_head(run, 0, start)
        if start == end or head in ("CACHE", "UNCACHE", "REFRESH", "ANALYZE"):
            return run.query.run(words, 0, end) if start == end else _refuse_reading(run, start, end)
        return run.query.run(words, 0, end)


def parse(words: Words) -> Statement | None:
    """What a statement says; None if it is a query, or one for Spark."""
    for each in _LONGEST_FIRST:
        if words.skip(*each.split()):
            return STATEMENTS[each](words)
    return None


def _query_start(words: Words) -> int:
    """Where a query begins: outside of brackets, as in ``CREATE TABLE x AS SELECT``."""
    tokens, at, end = words.text.tokens, 0, len(words.text.tokens) - 1
    while at < end:
        token = tokens[at]
        is_name = at > 0 and tokens[at - 1].text == "."
        if token.word in ("SELECT", "WITH", "FROM", "VALUES", *_BARE_TABLE[at:]) and not is_name:
            return at
        if token.text == "(" and tokens[at + 1].word in QUERY_WORDS:
            return at
        at = words.text.partners.get(at, at) + 1
    return end


def _check_head(run: Run, first: int, after: int) -> None:
    """Refuse a statement that does something to a table of the lake which is not known here."""
    tokens, looked_up = run.words.text.tokens, 0
    for start, parts in chains(run.words, first, after):
        if len(parts) == 1 and (not start or tokens[start - 1].word not in _NAMES_TABLE):
            continue
        looked_up += 1
        if looked_up > _MOST_LOOKUPS:
            return
        if run.scope.find(parts) is not None:
            name = " ".join(token.text for token in tokens[: min(start, 3)])
            problem = f"{name} is not supported for tables of a lake"
            raise NotSupported(problem, source="SQL", hint=f"Supported: {SUPPORTED}")


def _refuse_reading(run: Run, first: int, after: int) -> DataFrame:
    rewritten = run.query.rewrite(run.words, first, after)
    if rewritten.frames:
        hint = "Write CREATE TEMPORARY VIEW ... AS, then CACHE TABLE of that view"
        raise NotSupported("the rows of a lake cannot be kept in this way", source="SQL", hint=hint)
    return run.query.run(run.words, 0, after)


def _rearranged(words: Words) -> Words:
    """``WITH ... INSERT INTO t SELECT`` as ``INSERT INTO t WITH ... SELECT``."""
    tokens, end = words.text.tokens, len(words.text.tokens) - 1
    if tokens[0].word != "WITH":
        return words
    at = next((each for each in _outside(words, end) if tokens[each].word == "INSERT"), None)
    if at is None:
        return words
    inner = Words(words.between(at, end))
    inner.at = 1
    inner.one_of("INTO or OVERWRITE", "INTO", "OVERWRITE")
    begins = insert.insert(inner).query[0]
    head = inner.between(0, begins)
    return Words(f"{head} {words.between(0, at)} {inner.between(begins, len(inner.text.tokens) - 1)}")


def _outside(words: Words, end: int) -> list[int]:
    """The places that are not in brackets."""
    found, at = [], 0
    while at < end:
        found.append(at)
        at = words.text.partners.get(at, at) + 1
    return found
