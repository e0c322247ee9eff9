"""Which state of a table a reader means: a snapshot, a branch or tag, or a time."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple, TypeAlias

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.literals import instant_ms
from lakeplane.model.schema import Schema

At: TypeAlias = "int | str | dt.datetime | None"
"""A snapshot id, the name of a branch or tag, a time (ISO text or a datetime); None is now."""


class State(NamedTuple):
    """A snapshot, if the table has one, and the columns that readers of it see."""

    snapshot: Snapshot | None
    schema: Schema


def state_at(table: TableMetadata, at: At = None, zone: str = "UTC") -> State:
    """Find a state: branches have the table's schema, everything in the past has its own.

    ``zone`` is the time zone of times that name none.
    """
    match at:
        case None:
            return State(table.current_snapshot, table.schema)
        case bool():
            raise InvalidInput(f"not a snapshot, ref or time: {at!r}", field="at")
        case int():
            found = table.snapshot(at)
        case str() if at in table.refs:
            found = table.snapshot_of(at)
            if table.refs[at].is_branch:
                return State(found, table.schema)
        case str():
            found = table.snapshot_at(_read_time(table, at, zone))
        case dt.datetime():
            found = table.snapshot_at(_to_ms(at, zone))
        case _:
            raise InvalidInput(f"not a snapshot, ref or time: {at!r:.80}", field="at")
    return State(found, table.schema_of(found))


def _read_time(table: TableMetadata, text: str, zone: str) -> int:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        known = ", ".join(sorted(table.refs)) or "none"
        hint = (
            f"Give one of its branches and tags ({known}), a snapshot id, or a time as 2026-01-31T12:00:00Z"
        )
        raise InvalidInput(f"no branch, tag or time: {text!r:.80}", field="at", hint=hint) from None
    return _to_ms(time, zone)


def _to_ms(time: dt.datetime, zone: str) -> int:
    instant = instant_ms(time, zone)
    if instant is None:
        raise InvalidInput(f"no time that {zone} knows: {time}", field="at")
    return instant
