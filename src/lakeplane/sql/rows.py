"""DELETE, UPDATE and MERGE, handed to ``Table``: conditions with its names, and sub-queries on the lake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from lakeplane.sql.names import Branch, OfTable
from lakeplane.sql.pruning import chains
from lakeplane.sql.query import Scan, Span
from lakeplane.sql.select import audited_branch, takes_audits
from lakeplane.sql.statement import Run
from lakeplane.sql.words import QUERY_WORDS, Edit, Parts, Words, quoted, wrong

if TYPE_CHECKING:
    from lakeplane.spark.frames import DataFrame

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UPDATED: Final = "t"
"""What ``Table.update`` calls the row that it changes."""

_TESTED: Final = "lakeplane_row"
"""What ``spark.read`` calls the row that a condition is about."""


def how_of(run: Run, found: OfTable) -> dict[str, Any]:
    """Where a write goes: to a branch, or to be audited, as the name and the session say."""
    match found.selector:
        case Branch(name):
            return {"branch": name}
        case None:
            pass
        case _:
            wrong("only a table or a branch can be written to", f"Name the table: {found.table.name}")
    if (branch := audited_branch(run.session, found.table)) is not None:
        return {"wap_branch": branch}
    wap_id = run.session.conf.get("spark.wap.id", None) if takes_audits(found.table) else None
    return {"wap_id": wap_id} if wap_id else {}


class Delete(NamedTuple):
    """``DELETE FROM``."""

    name: Parts
    alias: str | None
    where: Span | None

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        found = run.scope.table(self.name)
        how = how_of(run, found)
        if self.where is None:
            return run.receipt(found.table.delete("true", **how))
        renamed = _Renamed(run, {_own(run, self.name, self.alias): None})
        with _texts(run, {"where": self.where}, renamed) as texts:
            return run.receipt(found.table.delete(texts["where"], **how))


class Update(NamedTuple):
    """``UPDATE``."""

    name: Parts
    alias: str | None
    values: tuple[tuple[Parts, Span], ...]
    where: Span | None

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        found = run.scope.table(self.name)
        how, own = how_of(run, found), _own(run, self.name, self.alias)
        conditions = {} if self.where is None else {"where": self.where}
        values = {str(number): span for number, (_, span) in enumerate(self.values)}
        with (
            _texts(run, conditions, _Renamed(run, {own: None})) as where,
            _texts(run, values, _Renamed(run, {own: _UPDATED})) as texts,
        ):
            paths = [".".join(_without(own, path)) for path, _ in self.values]
            assigned = {path: texts[str(number)] for number, path in enumerate(paths)}
            if len(assigned) < len(paths):
                wrong("a column is assigned twice")
            return run.receipt(found.table.update(assigned, where.get("where"), **how))


class When(NamedTuple):
    """A clause of MERGE."""

    when: Literal["matched", "not matched", "not matched by source"]
    does: Literal["update", "delete", "insert"]
    condition: Span | None = None
    values: tuple[tuple[Parts, Span], ...] | None = None
    """None: ``*``."""


class Merge(NamedTuple):
    """``MERGE INTO``."""

    name: Parts
    alias: str | None
    source: str
    source_name: Parts | None
    source_alias: str | None
    on: Span
    clauses: tuple[When, ...]
    evolves: bool = False

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        found = run.scope.table(self.name)
        how = how_of(run, found)
        own = _own(run, self.name, self.alias)
        theirs = _own(run, self.source_name or ("",), self.source_alias)
        target, source = _plain_names(
            self.alias or self.name[-1], self.source_alias or (self.source_name or ("",))[-1]
        )
        renamed = _Renamed(run, {own: target, theirs: source})
        spans = {"on": self.on}
        for number, clause in enumerate(self.clauses):
            if clause.condition is not None:
                spans[f"c{number}"] = clause.condition
            for place, (_, span) in enumerate(clause.values or ()):
                spans[f"v{number}.{place}"] = span
        rows = run.query.run(Words(f"SELECT * FROM {self.source}"))  # noqa: S608 - it is SQL that was typed
        with _texts(run, spans, renamed) as texts:
            merge = found.table.merge(rows, texts["on"], target_name=target, source_name=source, **how)
            for number, clause in enumerate(self.clauses):
                condition = texts.get(f"c{number}")
                values = (
                    None
                    if clause.values is None
                    else {
                        ".".join(_without(own, path)): texts[f"v{number}.{place}"]
                        for place, (path, _) in enumerate(clause.values)
                    }
                )
                merge = _with_clause(merge, clause, values, condition)
            if self.evolves:
                merge = merge.with_schema_evolution()
            return run.receipt(merge.execute())


def _with_clause(merge: Any, clause: When, values: Mapping[str, str] | None, condition: str | None) -> Any:
    match clause.when, clause.does:
        case "matched", "update":
            return merge.when_matched_update(values, condition)
        case "matched", "delete":
            return merge.when_matched_delete(condition)
        case "not matched", _:
            return merge.when_not_matched_insert(values, condition)
        case _, "update":
            return merge.when_not_matched_by_source_update(values, condition)
        case _:
            return merge.when_not_matched_by_source_delete(condition)


Own = frozenset[Parts]
"""All ways to name a table in front of its columns, in lower case."""


def _own(run: Run, name: Parts, alias: str | None) -> Own:
    if alias is not None:
        return frozenset({(alias.lower(),)})
    if name == ("",):
        return frozenset()
    ways = {name[-1:], *run.scope.qualified(name)}
    return frozenset(tuple(part.lower() for part in each) for each in ways)


def _without(own: Own, path: Parts) -> Parts:
    """The path of a column without the name of its table."""
    folded = tuple(part.lower() for part in path)
    for size in range(len(path) - 1, 0, -1):
        if folded[:size] in own:
            return path[size:]
    return path


def _plain_names(target: str, source: str) -> tuple[str, str]:
    """Names that need no quotes, and are not the same."""
    plain = [each if _PLAIN.fullmatch(each) else "" for each in (target, source)]
    if plain[0].lower() == plain[1].lower():
        plain = ["", ""]
    return plain[0] or "lakeplane_target", plain[1] or "lakeplane_source"


class _Renamed:
    """Writes the columns of tables with other names in front, or with none."""

    def __init__(self, run: Run, names: Mapping[Own, str | None]) -> None:
        self.words = run.words
        self.names = names

    def edits(self, scanned: Scan, span: Span) -> list[Edit]:
        """What has to be changed in an expression."""
        found: list[Edit] = []
        taken = {at for each in scanned.references for at in range(each.first, each.after)}
        tokens = self.words.text.tokens
        for start, parts in chains(self.words, *span):
            folded = tuple(part.lower() for part in parts)
            if start in taken:
                continue
            for own, name in self.names.items():
                size = next((size for size in range(len(parts) - 1, 0, -1) if folded[:size] in own), 0)
                if not size or scanned.is_hidden(parts[:size], start):
                    continue
                if name is None and not self._is_inside(start, span):
                    found.append(Edit(tokens[start].start, tokens[start + 2 * size].start, ""))
                else:
                    name = name or _TESTED  # noqa: PLW2901
                    if scanned.is_hidden((name,), start):
                        self.words.refuse(
                            f"the name {name} stands for something else here", "Choose another", at=start
                        )
                    found.append(Edit(tokens[start].start, tokens[start + 2 * size - 2].end, quoted(name)))
                break
        return found

    def _is_inside(self, at: int, span: Span) -> bool:
        """Whether a place is in a sub-query, where a bare name might mean a column of another table."""
        text = self.words.text
        return any(
            span[0] <= opening < at < closing <= span[1] and text.tokens[opening + 1].word in QUERY_WORDS
            for opening, closing in text.partners.items()
        )


@contextmanager
def _texts(run: Run, spans: Mapping[str, Span], renamed: _Renamed) -> Iterator[dict[str, str]]:
    """Expressions as ``Table`` takes them; the tables in their sub-queries have names until the end."""
    from lakeplane.spark.statements import named_frames  # noqa: PLC0415 - brings pyspark

    rewritten = {
        key: run.query.rewrite(
            run.words,
            *span,
            lambda scanned, span=span: renamed.edits(scanned, span),  # type: ignore[misc]
        )
        for key, span in spans.items()
    }
    frames = {
        f"{key}/{place}": frame for key, each in rewritten.items() for place, frame in each.frames.items()
    }
    with named_frames(run.session, frames) as names:
        yield {
            key: each.template.format_map({place: names[f"{key}/{place}"] for place in each.frames})
            for key, each in rewritten.items()
        }


def delete(words: Words) -> Delete:
    """Read what follows ``DELETE FROM``."""
    name = words.parts("the name of a table")
    alias = _alias(words, "WHERE")
    where = words.expression() if words.skip("WHERE") else None
    words.end("Write DELETE FROM name [AS alias] [WHERE condition]")
    return Delete(name, alias, where)


def update(words: Words) -> Update:
    """Read what follows ``UPDATE``."""
    name = words.parts("the name of a table")
    alias = _alias(words, "SET")
    words.expect("SET", "SET")
    values = _assignments(words, "WHERE")
    where = words.expression() if words.skip("WHERE") else None
    words.end("Write UPDATE name [AS alias] SET column = value, ... [WHERE condition]")
    return Update(name, alias, values, where)


def merge(words: Words) -> Merge:
    """Read what follows ``MERGE``."""
    evolves = words.skip("WITH", "SCHEMA", "EVOLUTION")
    words.expect("INTO", "INTO, or WITH SCHEMA EVOLUTION INTO")
    name = words.parts("the name of a table")
    alias = _alias(words, "USING")
    words.expect("USING", "USING")
    start, source_name = words.at, None
    if words.sees("("):
        words.at = words.text.partners[words.at] + 1
    else:
        source_name = words.parts("the source")
        words.skip("FOR")
        if words.skip("VERSION", "AS", "OF"):
            words.at += 1
        elif words.skip("TIMESTAMP", "AS", "OF"):
            words.expression("ON", "AS")
    source_alias = _alias(words, "ON")
    source = words.between(start, words.at)
    words.expect("ON", "ON")
    on = words.expression("WHEN")
    clauses: list[When] = []
    while words.skip("WHEN"):
        clauses.append(_when(words))
    words.end("Clauses: WHEN MATCHED, WHEN NOT MATCHED, WHEN NOT MATCHED BY SOURCE")
    if not clauses:
        words.refuse("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(name, alias, source, source_name, source_alias, on, tuple(clauses), evolves)


def _when(words: Words) -> When:
    when: Literal["matched", "not matched", "not matched by source"] = "matched"
    if not words.skip("MATCHED"):
        words.require("NOT", "MATCHED")
        when = "not matched by source" if words.skip("BY", "SOURCE") else "not matched"
        words.skip("BY", "TARGET")
    condition = words.expression("THEN") if words.skip("AND") else None
    words.expect("THEN", "THEN")
    if when == "not matched":
        if not words.skip("INSERT"):
            words.unknown(("INSERT *", "INSERT (columns) VALUES (values)"))
        return When(when, "insert", condition, _insertion(words))
    if words.skip("DELETE"):
        return When(when, "delete", condition, ())
    if not words.skip("UPDATE", "SET"):
        words.unknown(("UPDATE SET *", "UPDATE SET column = value, ...", "DELETE"))
    if words.sees("*") and when == "matched":
        words.at += 1
        return When(when, "update", condition)
    return When(when, "update", condition, _assignments(words, "WHEN"))


def _insertion(words: Words) -> tuple[tuple[Parts, Span], ...] | None:
    if words.skip("*"):
        return None
    if not words.sees("("):
        words.refuse("expected * or (columns)")
    first, after = words.at + 1, words.text.partners[words.at]
    columns = []
    for span in words.split(first, after):
        words.at = span[0]
        columns.append(words.parts("a column"))
    words.at = after + 1
    words.expect("VALUES", "VALUES")
    if not words.sees("("):
        words.refuse("expected (values)")
    closing = words.text.partners[words.at]
    values = words.split(words.at + 1, closing)
    if len(values) != len(columns):
        words.refuse(f"{len(columns)} columns and {len(values)} values")
    words.at = closing + 1
    return tuple(zip(columns, values, strict=True))


def _assignments(words: Words, *stops: str) -> tuple[tuple[Parts, Span], ...]:
    found: list[tuple[Parts, Span]] = []
    while True:
        path = words.parts("a column")
        if not words.skip("="):
            words.expect("==", "'='")
        found.append((path, words.expression(",", *stops)))
        if not words.skip(","):
            return tuple(found)


def _alias(words: Words, *stops: str) -> str | None:
    if words.skip("AS"):
        return words.name()
    if words.token.kind == "quoted" or (words.token.kind == "word" and words.token.word not in stops):
        return words.name()
    return None
