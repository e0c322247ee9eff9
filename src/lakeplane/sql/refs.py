"""Branches and tags in ALTER TABLE: made, replaced and dropped, and how long they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from lakeplane.errors import InvalidChange
from lakeplane.sql.words import Words

if TYPE_CHECKING:
    from lakeplane.table import Table

Kind: TypeAlias = Literal["branch", "tag"]
Does: TypeAlias = Literal["create", "create or replace", "replace", "drop"]

_VERBS: Final[dict[str, Does]] = {
    "CREATE OR REPLACE": "create or replace",
    "CREATE": "create",
    "REPLACE": "replace",
    "DROP": "drop",
}
_UNITS: Final = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}


class RefChange(NamedTuple):
    """A change of a branch or tag."""

    kind: Kind
    name: str
    does: Does
    if_exists: bool = False
    if_not_exists: bool = False
    at: int | None = None
    retention: tuple[tuple[str, int], ...] = ()

    def apply(self, table: Table) -> None:
        """Change the table."""
        exists = self.name in table.refs
        if self.does == "drop":
            if not (self.if_exists and not exists):
                if exists and table.refs[self.name].type != self.kind:
                    other = table.refs[self.name].type
                    raise InvalidChange(
                        f"{self.name!r} is a {other}", source=table.name, hint=f"DROP {other.upper()}"
                    )
                table.drop_ref(self.name)
            return
        if self.if_not_exists and exists:
            return
        replace = self.does == "replace" or (self.does == "create or replace" and exists)
        kept: dict[str, Any] = dict(self.retention)
        make = table.create_branch if self.kind == "branch" else table.create_tag
        make(self.name, self.at, replace=replace, **kept)


def ref_change(words: Words) -> RefChange | None:
    """Read ``CREATE BRANCH ...`` and its kin; None if the words are others."""
    for prefix, does in _VERBS.items():
        for kind in get_args(Kind):
            if words.skip(*prefix.split(), kind.upper()):
                return _named(words, RefChange(kind, "", does))
    return None


def _named(words: Words, change: RefChange) -> RefChange:
    if change.does == "drop":
        change = change._replace(if_exists=words.skip_if_exists())
    elif change.does == "create":
        change = change._replace(if_not_exists=words.skip_if_not_exists())
    change = change._replace(name=words.name())
    if change.does == "drop":
        return change
    if words.skip("AS", "OF", "VERSION"):
        change = change._replace(at=_snapshot_id(words))
    kept: list[tuple[str, int]] = []
    if words.skip("RETAIN"):
        kept.append(("max_ref_age_ms", _time(words)))
    if change.kind == "branch" and words.skip("WITH", "SNAPSHOT", "RETENTION"):
        if words.peek().word == "SNAPSHOTS":
            kept.append(("min_snapshots_to_keep", words.whole_number()))
            words.at += 1
            if not words.is_done():
                kept.append(("max_snapshot_age_ms", _time(words)))
        else:
            kept.append(("max_snapshot_age_ms", _time(words)))
    if not words.is_done():
        words.unknown(
            (
                "AS OF VERSION n",
                "RETAIN n DAYS",
                *(["WITH SNAPSHOT RETENTION n SNAPSHOTS n DAYS"] * (change.kind == "branch")),
            )
        )
    return change._replace(retention=tuple(kept))


def _snapshot_id(words: Words) -> int:
    token = words.token
    if token.kind != "number" or not token.text.isdigit():
        words.refuse("expected the id of a snapshot")
    words.at += 1
    return int(token.text)


def _time(words: Words) -> int:
    number = words.whole_number()
    found = (ms for unit, ms in _UNITS.items() if words.skip(unit) or words.skip(unit[:-1]))
    ms = next(found, None)
    if ms is None:
        words.unknown(_UNITS)
    return number * ms
