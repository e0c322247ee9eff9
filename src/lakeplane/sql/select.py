"""Queries: tables of the lake in them become frames, and Spark gets the text otherwise as it was written."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeplane.errors import InvalidInput, NotFound, NotSupported
from lakeplane.sql.names import About, Branch, Moment, OfTable, OfView, Scope, Selector, Snapshot, Tag
from lakeplane.sql.pruning import chains, condition_on
from lakeplane.sql.query import Reference, Scan, Span, scan
from lakeplane.sql.words import Edit, Parts, Words, edited, quoted

if TYPE_CHECKING:
    from lakeplane.iceberg.time_travel import At
    from lakeplane.spark.frames import DataFrame, SparkSession
    from lakeplane.table import Table, View

_MOST_VIEWS: Final = 50
"""Views inside of views."""

_ROW_COLUMNS: Final = frozenset(
    {"_file", "_pos", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Rewritten(NamedTuple):
    """A text with places for frames, ``{f0}``, and the frames; without frames, it is the text itself."""

    template: str
    frames: Mapping[str, DataFrame]


class Query:
    """Makes frames of what queries name."""

    def __init__(self, session: SparkSession, scope: Scope, depth: int = 0) -> None:
        self.session = session
        self.scope = scope
        self.depth = depth

    def run(self, words: Words, first: int = 0, after: int | None = None) -> DataFrame:
        """The rows of a query."""
        from lakeplane.spark.statements import run  # noqa: PLC0415 - brings pyspark

        span = (first, len(words.text.tokens) - 1 if after is None else after)
        rewritten = self.rewrite(words, *span)
        try:
            return run(self.session, rewritten.template, rewritten.frames, words.between(*span))
        except NotFound as missing:
            names = [
                each.parts for each in scan(words, *span).references if self.scope.find(each.parts) is None
            ]
            raise NotFound(missing.problem, hint=self.scope.advice(names) or missing.hint) from missing

    def rewrite(
        self, words: Words, first: int, after: int, more: Callable[[Scan], Sequence[Edit]] | None = None
    ) -> Rewritten:
        """Put places for frames where tables of the lake are named.

        Braces of the text are doubled. ``more`` makes other edits, given what was found.
        """
        scanned = scan(words, first, after)
        found = []
        for reference in scanned.references:
            meant = self.scope.find(reference.parts)
            if meant is not None:
                found.append((reference, meant))
            elif self.scope.without_catalog(reference.parts) != reference.parts:
                self.scope.missing("table", self.scope.full(reference.parts))
        shown = _names_in_query(found)
        edits: list[Edit] = [] if more is None else list(more(scanned))
        frames: dict[str, DataFrame] = {}
        for number, (reference, meant) in enumerate(found):
            key = f"f{number}"
            frames[key] = self._frame(words, reference, meant, (first, after))
            edits += _placed(words, reference, key, shown[number])
        edits += self._qualified(words, found, shown, (first, after))
        tokens = words.text.tokens
        edits = list({edit.start: edit for edit in reversed(edits)}.values())
        template = edited(words.source, edits, tokens[first].start, tokens[after - 1].end, braces=True)
        return Rewritten(template, frames)

    def _frame(self, words: Words, reference: Reference, meant: OfTable | OfView, span: Span) -> DataFrame:
        if reference.options is not None:
            words.refuse("options of a read are not supported here", at=reference.options)
        if isinstance(meant, OfView):
            if reference.version or reference.timestamp:
                words.refuse("views have no history", at=reference.first)
            return self._view(meant.view)
        table, at = meant.table, self._at(words, reference, meant)
        if meant.selector == About("changes"):
            return table.changes(None, at)
        if isinstance(meant.selector, About):
            from lakeplane.spark.statements import arrow_frame  # noqa: PLC0415 - brings pyspark

            return arrow_frame(self.session, table.inspect(meant.selector.name, at))
        where = self._where(words, reference, table, at)
        return table.read(_columns(words, span, table), where, at)

    def _where(self, words: Words, reference: Reference, table: Table, at: At) -> str | None:
        from lakeplane.iceberg.time_travel import state_at  # noqa: PLC0415
        from lakeplane.spark.session import is_case_sensitive, session_zone  # noqa: PLC0415 - brings pyspark

        zone = session_zone(self.session)
        return condition_on(
            words,
            reference,
            state_at(table.metadata, at, zone).schema,
            self.scope.qualified(reference.parts),
            zone=zone,
            case_sensitive=is_case_sensitive(self.session),
        )

    def _at(self, words: Words, reference: Reference, meant: OfTable) -> At:
        """Which state of a table is meant, by its name or by what follows it."""
        if reference.version is None and reference.timestamp is None:
            audited = audited_branch(self.session, meant.table) if meant.selector is None else None
            return audited if audited in meant.table.refs else at_of(meant.table, meant.selector)
        if meant.selector is not None and not isinstance(meant.selector, About):
            words.refuse("two states of a table are named", "Leave one out", at=reference.after - 1)
        if reference.version is not None:
            return _version(words, reference.version, meant.table)
        assert reference.timestamp is not None
        return self._time(words, reference.timestamp)

    def _time(self, words: Words, span: Span) -> At:
        from lakeplane.spark.statements import evaluate_time  # noqa: PLC0415 - brings pyspark

        micros = evaluate_time(self.session, words.between(*span), "TIMESTAMP AS OF")
        if micros is None:
            words.refuse("expected a time", "Write TIMESTAMP AS OF '2026-01-31 12:00:00'", at=span[0])
        return _EPOCH + dt.timedelta(microseconds=micros)

    def _view(self, view: View) -> DataFrame:
        """The rows of a view: its query, in its own namespace, with the columns called as the view says."""
        if self.depth >= _MOST_VIEWS:
            raise InvalidInput("views inside of views without an end", source=view.name)
        version = view.metadata.current_version
        inner = Query(self.session, self.scope.within(version.default_namespace), self.depth + 1)
        frame = inner.run(Words(view.sql()))
        names = [field.name for field in view.schema.fields]
        asked = view.properties.get(QUERY_COLUMNS)
        if asked is not None:
            frame = frame.select(*[quoted(each) for each in asked.split(",")])
        elif len(frame.columns) != len(names):
            # The query was SELECT *, and a table below it has columns that are newer than the view.
            frame = frame.select(*map(quoted, names))
        return frame.toDF(*names)

    def _qualified(
        self, words: Words, found: Sequence[tuple[Reference, Any]], shown: Sequence[str], span: Span
    ) -> list[Edit]:
        """Columns that are written with the namespace of their table: the frame has only a short name."""
        names: dict[Parts, str] = {}
        taken: set[int] = set()
        for (reference, _), name in zip(found, shown, strict=True):
            taken.update(range(reference.first, reference.after))
            if reference.alias is None:
                for parts in self.scope.qualified(reference.parts):
                    if len(parts) > 1:
                        names[tuple(part.lower() for part in parts)] = name
        edits, tokens = [], words.text.tokens
        for start, parts in chains(words, *span):
            folded = tuple(part.lower() for part in parts)
            if start in taken or len(parts) < 3:  # noqa: PLR2004 - a namespace, a table and a column
                continue
            for size in range(len(parts) - 1, 1, -1):
                if folded[:size] in names:
                    end = tokens[start + 2 * size - 2].end
                    edits.append(Edit(tokens[start].start, end, quoted(names[folded[:size]])))
                    break
        return edits


QUERY_COLUMNS: Final = "spark.query-column-names"
"""The property in which Iceberg's Spark keeps which columns of its query a view shows."""


def audited_branch(session: SparkSession, table: Table) -> str | None:
    """The branch that the session writes to in the place of main, and therefore reads."""
    return session.conf.get("spark.wap.branch", None) if takes_audits(table) else None


def takes_audits(table: Table) -> bool:
    """Whether writes to a table may be staged, to be audited before they are published."""
    return table.properties.get("write.wap.enabled", "false").strip().lower() == "true"


def at_of(table: Table, selector: Selector | None) -> At:
    """The state of a table that the last part of a name means."""
    match selector:
        case None | About():
            return None
        case Branch(name):
            return ref_of(table, name, "branch")
        case Tag(name):
            return ref_of(table, name, "tag")
        case Snapshot(snapshot_id):
            return snapshot_id
        case Moment(ms):
            return _EPOCH + dt.timedelta(milliseconds=ms)


def ref_of(table: Table, name: str, kind: str | None = None) -> str:
    """A branch or tag that a table has."""
    ref = table.refs.get(name)
    if ref is None or (kind is not None and ref.type != kind):
        known = ", ".join(key for key, each in sorted(table.refs.items()) if kind in (None, each.type))
        problem = f"there is no {kind or 'branch or tag'} {name!r}"
        raise InvalidInput(problem, source=table.name, hint=f"There is {known or 'none'}")
    return name


def _version(words: Words, span: Span, table: Table) -> At:
    token = words.text.tokens[span[0]]
    if token.kind == "number" and token.text.isdigit():
        return int(token.text)
    words.at = span[0]
    name = words.string("a snapshot id, or a branch or tag between quotes")
    return int(name) if name.isdigit() and name not in table.refs else ref_of(table, name)


def _names_in_query(found: Sequence[tuple[Reference, Any]]) -> list[str]:
    """What tables are called in the query: two of one name get others, so that none is mixed up."""
    bare = Counter(
        reference.parts[-1].lower()
        for reference in {each.parts: each for each, _ in found if each.alias is None}.values()
    )
    return [
        f"{reference.parts[-1]}__{number}"
        if reference.alias is None and bare[reference.parts[-1].lower()] > 1
        else reference.shown
        for number, (reference, _) in enumerate(found)
    ]


def _placed(words: Words, reference: Reference, key: str, shown: str) -> list[Edit]:
    tokens = words.text.tokens
    start, end = tokens[reference.first].start, tokens[reference.after - 1].end
    if reference.alias is not None:
        return [Edit(start, end, f"{{{key}}}")]
    if reference.alias_at < reference.after:
        return [Edit(start, end, f"{{{key}}} AS {quoted(shown)}")]
    behind = tokens[reference.alias_at].end
    return [Edit(start, end, f"{{{key}}}"), Edit(behind, behind, f" AS {quoted(shown)}")]


def _columns(words: Words, span: Span, table: Table) -> list[str] | None:
    """All columns, and what Iceberg tells of rows if the query asks for it."""
    named = [parts[-1].lower() for _, parts in chains(words, *span)]
    asked = [each for each in sorted(_ROW_COLUMNS) if each in named and each not in _own(table)]
    if not asked:
        return None
    for at in range(span[0] + 1, span[1]):
        token, before = words.text.tokens[at], words.text.tokens[at - 1]
        if token.text == "*" and (before.word in ("SELECT", "DISTINCT", "ALL") or before.text in (",", ".")):
            hint = f"Name the columns, as in SELECT id, {asked[0]}"
            raise NotSupported(f"* beside {asked[0]} would show it twice", source="SQL", hint=hint)
    return [*(field.name for field in table.schema.fields), *asked]


def _own(table: Table) -> set[str]:
    return {field.name.lower() for field in table.schema.fields}
