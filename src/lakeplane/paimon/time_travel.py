"""Which state of a table a reader means: the last one, a snapshot, a tag, a branch, or a time.

Snapshots are numbered files without gaps. The hints beside them say where the first and the last one are,
and may be old or missing, so they are believed only if the files agree.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple, TypeAlias

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.expressions.literals import instant_ms
from lakeplane.paimon import layout
from lakeplane.paimon.files import Files
from lakeplane.paimon.layout import MAIN
from lakeplane.paimon.schema import TableSchema, parse_schema
from lakeplane.paimon.snapshots import Snapshot, Tag, parse_hint, parse_snapshot, parse_tag

At: TypeAlias = "int | str | dt.datetime | None"
"""A snapshot id, the name of a tag or branch, a time (ISO text or a datetime); None is now."""


class State(NamedTuple):
    """A snapshot, if there is one, the schema that readers of it see, and the branch it is of."""

    snapshot: Snapshot | None
    schema: TableSchema
    branch: str = MAIN


def latest_snapshot_id(files: Files, branch: str = MAIN) -> int | None:
    """The last snapshot of a branch; None before the first commit.

    A hint that was not renewed for long points at a snapshot that has expired, with none after it: it would
    look like the last one to who only asks for the next.
    """
    hint = _hint(files, f"{layout.snapshot_folder(branch)}/{layout.LATEST}")
    if hint is not None and _has(files, hint, branch) and not _has(files, hint + 1, branch):
        return hint
    return max(_ids(files, branch), default=None)


def earliest_snapshot_id(files: Files, branch: str = MAIN) -> int | None:
    """The first snapshot of a branch that has not expired."""
    hint = _hint(files, f"{layout.snapshot_folder(branch)}/{layout.EARLIEST}")
    if hint is not None and _has(files, hint, branch) and not (hint > 1 and _has(files, hint - 1, branch)):
        return hint
    return min(_ids(files, branch), default=None)


def _hint(files: Files, path: str) -> int | None:
    data = files.read_if_there(path)
    return None if data is None else parse_hint(data)


def _has(files: Files, snapshot_id: int, branch: str) -> bool:
    return files.read_if_there(layout.snapshot_path(snapshot_id, branch)) is not None


def _ids(files: Files, branch: str) -> list[int]:
    return layout.snapshot_ids(files.names(layout.snapshot_folder(branch)))


def read_snapshot(files: Files, snapshot_id: int, branch: str = MAIN) -> Snapshot:
    """A snapshot by its number."""
    path = layout.snapshot_path(snapshot_id, branch)
    data = files.read_if_there(path)
    if data is None:
        hint = "It has expired, or there never was one"
        raise InvalidInput(f"there is no snapshot {snapshot_id}", source=path, field="at", hint=hint)
    snapshot = parse_snapshot(data, path)
    if snapshot.id != snapshot_id:
        raise InvalidMetadata(f"the file holds snapshot {snapshot.id}", source=path)
    return snapshot


def snapshots(files: Files, branch: str = MAIN) -> list[Snapshot]:
    """All snapshots of a branch, the first one first."""
    return [read_snapshot(files, each, branch) for each in _ids(files, branch)]


def read_tag(files: Files, name: str, branch: str = MAIN) -> Tag | None:
    """A tag by its name; None if there is none."""
    path = layout.tag_path(name, branch)
    data = files.read_if_there(path)
    return None if data is None else parse_tag(data, path)


def read_schema(files: Files, schema_id: int, branch: str = MAIN) -> TableSchema:
    """A schema by its id. Branches have those that were there when they began in the main directory, too."""
    for place in dict.fromkeys((branch, MAIN)):
        path = layout.schema_path(schema_id, place)
        data = files.read_if_there(path)
        if data is not None:
            schema = parse_schema(data, path)
            if schema.id != schema_id:
                raise InvalidMetadata(f"the file holds schema {schema.id}", source=path)
            return schema
    raise InvalidMetadata(f"schema {schema_id} is not there", source=layout.schema_path(schema_id, branch))


def latest_schema(files: Files, branch: str = MAIN) -> TableSchema:
    """The schema that a branch has now."""
    folder = layout.schema_folder(branch)
    ids = layout.schema_ids(files.names(folder))
    if not ids:
        raise InvalidMetadata("there is no schema, so that this is no table of Paimon", source=folder)
    return read_schema(files, ids[-1], branch)


def snapshot_at(files: Files, time_ms: int, branch: str = MAIN) -> Snapshot | None:
    """The last snapshot that was committed at a time or before; None if all that are left are younger."""
    ids = _ids(files, branch)
    low, high, found = 0, len(ids) - 1, None
    while low <= high:
        middle = (low + high) // 2
        snapshot = read_snapshot(files, ids[middle], branch)
        if snapshot.time_millis > time_ms:
            high = middle - 1
        else:
            found, low = snapshot, middle + 1
    return found


def state_at(files: Files, at: At = None, *, branch: str = MAIN, zone: str = "UTC") -> State:
    """Find a state: branches have their own last schema, everything in the past has the schema of its time.

    ``zone`` is the time zone of times that name none.
    """
    match at:
        case None:
            return _now(files, branch)
        case bool():
            raise InvalidInput(f"not a snapshot, tag, branch or time: {at!r}", field="at")
        case int():
            return _past(files, read_snapshot(files, at, branch), branch)
        case str() if _is_name(at) and (tag := read_tag(files, at, branch)) is not None:
            return _past(files, tag.snapshot, branch)
        case str() if at == MAIN or (_is_name(at) and files.names(layout.schema_folder(at))):
            return _now(files, at)
        case str():
            return _at_time(files, _read_time(files, at, branch), branch, zone)
        case dt.datetime():
            return _at_time(files, at, branch, zone)
        case _:
            raise InvalidInput(f"not a snapshot, tag, branch or time: {at!r:.80}", field="at")


def _now(files: Files, branch: str) -> State:
    latest = latest_snapshot_id(files, branch)
    snapshot = None if latest is None else read_snapshot(files, latest, branch)
    return State(snapshot, latest_schema(files, branch), branch)


def _past(files: Files, snapshot: Snapshot, branch: str) -> State:
    return State(snapshot, read_schema(files, snapshot.schema_id, branch), branch)


def _is_name(text: str) -> bool:
    return "/" not in text and "\\" not in text and text.isprintable() and text == text.strip() != ""


def _at_time(files: Files, time: dt.datetime, branch: str, zone: str) -> State:
    instant = instant_ms(time, zone)
    if instant is None:
        raise InvalidInput(f"no time that {zone} knows: {time}", field="at")
    found = snapshot_at(files, instant, branch)
    if found is None:
        hint = "The snapshots from before that have expired, or the table is younger"
        raise InvalidInput(f"there is no snapshot of {time} or before", field="at", hint=hint)
    return _past(files, found, branch)


def _read_time(files: Files, text: str, branch: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        known = [*layout.tag_names(files.names(layout.tag_folder(branch))), *branches(files)]
        hint = (
            f"Give one of its tags and branches ({', '.join(known) or 'none'}), a snapshot id, "
            "or a time as 2026-01-31T12:00:00Z"
        )
        raise InvalidInput(f"no tag, branch or time: {text!r:.80}", field="at", hint=hint) from None


def branches(files: Files) -> list[str]:
    """The branches of a table, besides its main one."""
    return layout.branch_names(files.names("branch"))
