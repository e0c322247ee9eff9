"""The procedures that CALL knows: one entry each, with its parameters, its columns, and what runs it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lakeplane.catalog.names import parse_parts
from lakeplane.errors import InvalidInput
from lakeplane.iceberg.snapshots import MAIN
from lakeplane.model.frozen import EMPTY
from lakeplane.sql.select import ref_of

if TYPE_CHECKING:
    from lakeplane.sql.statement import Run
    from lakeplane.table import Table

Row: TypeAlias = Sequence[Any]
Arguments: TypeAlias = Mapping[str, Any]
"""Those that were given and are not null."""


class Parameter(NamedTuple):
    """A parameter: values are cast to its type. ``TIMESTAMP`` comes in microseconds since 1970."""

    name: str
    type: str
    required: bool = True


class Procedure(NamedTuple):
    """Something that CALL can do."""

    parameters: tuple[Parameter, ...]
    columns: str
    """What its rows are, as DDL."""
    run: Callable[[Run, Arguments], list[Row]]


def _table(run: Run, given: Arguments) -> Table:
    return run.scope.table(parse_parts(given["table"]), plain=True).table


def _moved(change: Callable[[Table, Arguments], Any]) -> Callable[[Run, Arguments], list[Row]]:
    """What tells which snapshot was the current one, and which is now."""

    def run_change(run: Run, given: Arguments) -> list[Row]:
        table = _table(run, given).refresh()
        before = table.metadata.current_snapshot_id
        change(table, given)
        return [(before, table.metadata.current_snapshot_id)]

    return run_change


def _set_current(table: Table, given: Arguments) -> None:
    if ("snapshot_id" in given) == ("ref" in given):
        raise InvalidInput("one of snapshot_id and ref is needed", source="CALL set_current_snapshot")
    table.set_current_snapshot(
        given["snapshot_id"] if "snapshot_id" in given else ref_of(table, given["ref"])
    )


def _rollback_to_time(table: Table, given: Arguments) -> None:
    # A snapshot of that very moment is not before it.
    table.rollback(before_ms=-(-int(given["timestamp"]) // 1000))


def _cherrypick(run: Run, given: Arguments) -> list[Row]:
    table = _table(run, given)
    table.cherrypick(given["snapshot_id"])
    return [(given["snapshot_id"], table.metadata.current_snapshot_id)]


def _publish(run: Run, given: Arguments) -> list[Row]:
    table = _table(run, given).refresh()
    staged = [
        each.snapshot_id
        for each in table.snapshots
        if (each.summary or EMPTY).get("wap.id") == given["wap_id"]
    ]
    table.publish_changes(given["wap_id"])
    return [(staged[0], table.metadata.current_snapshot_id)]


def _fast_forward(run: Run, given: Arguments) -> list[Row]:
    table = _table(run, given).refresh()
    name = given["branch"]
    before = table.refs[name].snapshot_id if name in table.refs else None
    table.fast_forward(name, ref_of(table, given["to"]))
    return [(name, before, table.refs[name].snapshot_id)]


def _register(run: Run, given: Arguments) -> list[Row]:
    name = run.scope.full(parse_parts(given["table"]))
    table = run.lake.register_table(name, given["metadata_file"])
    snapshot = table.metadata.current_snapshot
    summary = EMPTY if snapshot is None else snapshot.summary or EMPTY
    counts = (summary.get(each) for each in ("total-records", "total-data-files"))
    return [(table.metadata.current_snapshot_id, *(None if each is None else int(each) for each in counts))]


def _ancestors(run: Run, given: Arguments) -> list[Row]:
    table = _table(run, given).refresh()
    start = given.get("snapshot_id", table.metadata.current_snapshot_id)
    if start is None:
        return []
    return [(each.snapshot_id, each.timestamp_ms) for each in table.metadata.ancestors(start)]


def _convert(run: Run, given: Arguments) -> list[Row]:
    done = _table(run, given).convert_equality_deletes(given.get("branch", MAIN))
    return [(done.snapshot_id,)]


def _changelog_view(run: Run, given: Arguments) -> list[Row]:
    table = _table(run, given).refresh()
    options = given.get("options", {})
    if unknown := sorted(set(options) - set(_RANGE)):
        hint = f"It has {', '.join(_RANGE)}"
        raise InvalidInput(
            f"there is no option {unknown[0]!r}", source="CALL create_changelog_view", hint=hint
        )
    since, until = (_state(options, side) for side in ("start", "end"))
    keys = given.get("identifier_columns")
    if keys is None and not given.get("compute_updates", False):
        keys = []
    frame = table.changes(since, until, net=given.get("net_changes", False), identifier_columns=keys)
    name = given.get("changelog_view", f"{table.name.rpartition('.')[2].strip('`')}_changes")
    frame.createOrReplaceTempView(name)
    return [(name,)]


_WHOLE: Final = re.compile("[0-9]{1,19}")
_RANGE: Final = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")


def _state(options: Mapping[str, str], side: str) -> int | dt.datetime | None:
    """A state that is named by its snapshot, or by a time in milliseconds."""
    texts = [options.get(f"{side}-{each}") for each in ("snapshot-id", "timestamp")]
    if any(text is not None and not _WHOLE.fullmatch(text) for text in texts):
        raise InvalidInput("snapshot ids and times in milliseconds are whole numbers", source="options")
    snapshot_id, ms = (None if text is None else int(text) for text in texts)
    return snapshot_id if ms is None else dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


_TABLE: Final = Parameter("table", "STRING")
_MOVED: Final = "previous_snapshot_id BIGINT, current_snapshot_id BIGINT"
_PICKED: Final = "source_snapshot_id BIGINT, current_snapshot_id BIGINT"

PROCEDURES: Final[dict[str, Procedure]] = {
    "rollback_to_snapshot": Procedure(
        (_TABLE, Parameter("snapshot_id", "BIGINT")),
        _MOVED,
        _moved(lambda table, given: table.rollback(given["snapshot_id"])),
    ),
    "rollback_to_timestamp": Procedure(
        (_TABLE, Parameter("timestamp", "TIMESTAMP")), _MOVED, _moved(_rollback_to_time)
    ),
    "set_current_snapshot": Procedure(
        (
            _TABLE,
            Parameter("snapshot_id", "BIGINT", required=False),
            Parameter("ref", "STRING", required=False),
        ),
        _MOVED,
        _moved(_set_current),
    ),
    "cherrypick_snapshot": Procedure((_TABLE, Parameter("snapshot_id", "BIGINT")), _PICKED, _cherrypick),
    "publish_changes": Procedure((_TABLE, Parameter("wap_id", "STRING")), _PICKED, _publish),
    "fast_forward": Procedure(
        (_TABLE, Parameter("branch", "STRING"), Parameter("to", "STRING")),
        "branch_updated STRING, previous_ref BIGINT, updated_ref BIGINT",
        _fast_forward,
    ),
    "register_table": Procedure(
        (_TABLE, Parameter("metadata_file", "STRING")),
        "current_snapshot_id BIGINT, total_records_count BIGINT, total_data_files_count BIGINT",
        _register,
    ),
    "ancestors_of": Procedure(
        (_TABLE, Parameter("snapshot_id", "BIGINT", required=False)),
        "snapshot_id BIGINT, timestamp BIGINT",
        _ancestors,
    ),
    "create_changelog_view": Procedure(
        (
            _TABLE,
            Parameter("changelog_view", "STRING", required=False),
            Parameter("options", "MAP<STRING, STRING>", required=False),
            Parameter("compute_updates", "BOOLEAN", required=False),
            Parameter("identifier_columns", "ARRAY<STRING>", required=False),
            Parameter("net_changes", "BOOLEAN", required=False),
        ),
        "changelog_view STRING",
        _changelog_view,
    ),
    "convert_equality_deletes": Procedure(
        (_TABLE, Parameter("branch", "STRING", required=False)), "snapshot_id BIGINT", _convert
    ),
}
"""By their names; in the order of their parameters, values may be given without a name."""
