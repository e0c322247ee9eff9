"""What changed between two snapshots: the files that commits have added, or changelogs they have written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.expressions.tree import Predicate
from lakeplane.paimon import layout
from lakeplane.paimon.files import Files
from lakeplane.paimon.layout import MAIN
from lakeplane.paimon.live_files import live
from lakeplane.paimon.manifest_schema import ADD
from lakeplane.paimon.plan import ReadPlan, Shape, finish, make_request, scan
from lakeplane.paimon.snapshots import Snapshot, parse_snapshot
from lakeplane.paimon.time_travel import (
    State,
    earliest_snapshot_id,
    latest_schema,
    latest_snapshot_id,
    read_snapshot,
)

ChangeMode: TypeAlias = Literal["auto", "delta", "changelog"]
"""The files that commits have added, the changelog files, or these if the table has any."""

_NONE: Final = "none"


def plan_changes(
    files: Files,
    since: int,
    until: int | None = None,
    where: str | Predicate | None = None,
    *,
    mode: ChangeMode = "auto",
    branch: str = MAIN,
    zone: str = "UTC",
    case_sensitive: bool = False,
) -> ReadPlan:
    """Plan a read of what was changed after one snapshot, up to and with another one, or the last one.

    Of the files that commits have added, only appended ones count: compaction adds rows that were there, and
    what an overwrite has replaced would be missing. In tables with a primary key, they are parted into
    sections as those of a state are, so that the last change of each key can be found; who wants all changes
    reads them one by one. A changelog holds every change as a row of its own.
    """
    latest = latest_snapshot_id(files, branch)
    last = latest if until is None else until
    schema = latest_schema(files, branch)
    changelog = mode == "changelog" or (mode == "auto" and schema.settings.changelog_producer != _NONE)
    found = [] if last is None else list(_between(files, since, last, branch, changelog=changelog))
    state = State(found[-1] if found else None, schema, branch)
    request = make_request(files, state, where, zone=zone, case_sensitive=case_sensitive)
    lists = list(_lists(found, changelog=changelog))
    merged = schema.has_primary_key and not changelog
    return finish(request, scan(request, lists, _additions), Shape(merged=merged, picks=False, deletes=False))


def _between(files: Files, since: int, until: int, branch: str, *, changelog: bool) -> Iterator[Snapshot]:
    latest, earliest = latest_snapshot_id(files, branch), earliest_snapshot_id(files, branch)
    if since < 0 or since > until:
        raise InvalidInput(f"there is nothing from {since} to {until}", field="since")
    if latest is None or until > latest:
        raise InvalidInput(f"there is no snapshot {until} yet", field="until")
    for number in range(since + 1, until + 1):
        if changelog and earliest is not None and number < earliest:
            yield _expired(files, number, branch)
        else:
            yield read_snapshot(files, number, branch)


def _expired(files: Files, number: int, branch: str) -> Snapshot:
    """What is left of a snapshot whose changelog is kept for longer."""
    path = layout.changelog_path(number, branch)
    data = files.read_if_there(path)
    if data is None:
        hint = "Read changes from a later snapshot on"
        raise InvalidInput(f"snapshot {number} has expired with its changes", field="since", hint=hint)
    return parse_snapshot(data, path)


def _lists(snapshots: list[Snapshot], *, changelog: bool) -> Iterator[str]:
    for snapshot in snapshots:
        if changelog:
            if snapshot.commit_kind != "OVERWRITE" and snapshot.changelog_manifest_list is not None:
                yield snapshot.changelog_manifest_list
        elif snapshot.commit_kind == "APPEND":
            yield snapshot.delta_manifest_list


def _additions(entries: pa.Table, source: str) -> pa.Table:
    if pc.any(pc.not_equal(entries["kind"], ADD)).as_py():
        raise InvalidMetadata("what was appended deletes a file", source=source, field="_KIND")
    return live(entries, source)
