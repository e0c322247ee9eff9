"""The system tables: what a table knows of itself, as Arrow tables with the columns of Paimon's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.model import json_files
from lakeplane.model.expressions.physical import plain
from lakeplane.paimon import layout
from lakeplane.paimon.files import Files
from lakeplane.paimon.live_files import joined, live
from lakeplane.paimon.manifest_schema import ENTRY_COLUMNS
from lakeplane.paimon.plan import bucket_folders, distinct_partitions, list_manifests, snapshot_lists
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.snapshots import parse_consumer, tag_created
from lakeplane.paimon.statistics import Alike, alike, readable
from lakeplane.paimon.time_travel import (
    At,
    State,
    branches,
    latest_schema,
    read_schema,
    read_tag,
    snapshots,
    state_at,
)
from lakeplane.paimon.types import DataType, Simple, fields_json

_TIME: Final = pa.timestamp("ms")


class _Asked(NamedTuple):
    """What a system table is made of."""

    files: Files
    state: State

    @property
    def schema(self) -> TableSchema:
        return self.state.schema

    @property
    def branch(self) -> str:
        return self.state.branch


def _table(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


_SNAPSHOTS: Final = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_user", pa.string()),
        ("commit_identifier", pa.int64()),
        ("commit_kind", pa.string()),
        ("commit_time", _TIME),
        ("base_manifest_list", pa.string()),
        ("delta_manifest_list", pa.string()),
        ("changelog_manifest_list", pa.string()),
        ("total_record_count", pa.int64()),
        ("delta_record_count", pa.int64()),
        ("changelog_record_count", pa.int64()),
        ("watermark", pa.int64()),
        ("next_row_id", pa.int64()),
        ("operation", pa.string()),
        ("writer_version", pa.string()),
    ]
)


def _snapshots(asked: _Asked) -> pa.Table:
    rows = []
    for each in snapshots(asked.files, asked.branch):
        row = {name: getattr(each, name, None) for name in _SNAPSHOTS.names}
        rows.append({**row, "snapshot_id": each.id, "commit_time": each.time_millis})
    return _table(_SNAPSHOTS, rows)


_SCHEMAS: Final = pa.schema(
    [
        ("schema_id", pa.int64()),
        ("fields", pa.string()),
        ("partition_keys", pa.string()),
        ("primary_keys", pa.string()),
        ("options", pa.string()),
        ("comment", pa.string()),
        ("update_time", _TIME),
    ]
)


def _schemas(asked: _Asked) -> pa.Table:
    ids = layout.schema_ids(asked.files.names(layout.schema_folder(asked.branch)))
    found = [read_schema(asked.files, each, asked.branch) for each in ids]
    return _table(
        _SCHEMAS,
        [
            {
                "schema_id": each.id,
                "fields": json_files.encode({"": fields_json(each.fields)}).decode()[4:-1],
                "partition_keys": _json(each.partition_keys),
                "primary_keys": _json(each.primary_keys),
                "options": _json(dict(each.options)),
                "comment": each.comment,
                "update_time": each.time_millis,
            }
            for each in found
        ],
    )


_OPTIONS: Final = pa.schema([("key", pa.string()), ("value", pa.string())])


def _options(asked: _Asked) -> pa.Table:
    return _table(_OPTIONS, [{"key": key, "value": value} for key, value in asked.schema.options.items()])


_TAGS: Final = pa.schema(
    [
        ("tag_name", pa.string()),
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_time", _TIME),
        ("record_count", pa.int64()),
        ("create_time", _TIME),
        ("time_retained", pa.string()),
    ]
)


def _tags(asked: _Asked) -> pa.Table:
    rows = []
    for name in layout.tag_names(asked.files.names(layout.tag_folder(asked.branch))):
        tag = read_tag(asked.files, name, asked.branch)
        if tag is None:  # it was deleted a moment ago
            continue
        rows.append(
            {
                "tag_name": name,
                "snapshot_id": tag.snapshot.id,
                "schema_id": tag.snapshot.schema_id,
                "commit_time": tag.snapshot.time_millis,
                "record_count": tag.snapshot.total_record_count,
                "create_time": tag_created(tag),
                "time_retained": None if tag.time_retained is None else str(tag.time_retained),
            }
        )
    return _table(_TAGS, rows)


_BRANCHES: Final = pa.schema([("branch_name", pa.string()), ("create_time", _TIME)])


def _branches(asked: _Asked) -> pa.Table:
    """When a branch was made is when its schema was: its directory has no time that every store tells."""
    made = {name: latest_schema(asked.files, name).time_millis for name in branches(asked.files)}
    rows = [{"branch_name": name, "create_time": time} for name, time in made.items()]
    return _table(_BRANCHES, rows)


_CONSUMERS: Final = pa.schema([("consumer_id", pa.string()), ("next_snapshot_id", pa.int64())])


def _consumers(asked: _Asked) -> pa.Table:
    rows = []
    for name in layout.consumer_names(asked.files.names(layout.consumer_folder(asked.branch))):
        path = layout.consumer_path(name, asked.branch)
        data = asked.files.read_if_there(path)
        if data is not None:
            next_id = parse_consumer(data, path).next_snapshot
            rows.append({"consumer_id": name, "next_snapshot_id": next_id})
    return _table(_CONSUMERS, rows)


_MANIFESTS: Final = pa.schema(
    [
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("num_added_files", pa.int64()),
        ("num_deleted_files", pa.int64()),
        ("schema_id", pa.int64()),
        ("min_partition_stats", pa.string()),
        ("max_partition_stats", pa.string()),
        ("min_row_id", pa.int64()),
        ("max_row_id", pa.int64()),
    ]
)


def _manifests(asked: _Asked) -> pa.Table:
    listed = list_manifests(asked.files, snapshot_lists(asked.state.snapshot))
    keys = [(name, asked.schema.field(name).type) for name in asked.schema.partition_keys]
    columns = {name: listed[name] for name in _MANIFESTS.names if name in listed.column_names}
    for which in ("min", "max"):
        rows = readable(keys, listed[f"partition_{which}"])
        columns[f"{which}_partition_stats"] = pa.array(_rows(rows), pa.string())
    return pa.table([columns[name] for name in _MANIFESTS.names], schema=_MANIFESTS)


def _rows(rows: Sequence[dict[str, Any] | None]) -> list[str | None]:
    """Values of fields in brackets, as Paimon shows rows."""
    return [None if row is None else f"{{{', '.join(map(_shown, row.values()))}}}" for row in rows]


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return str(value)


class _Live(NamedTuple):
    """The live files of a state."""

    entries: pa.Table
    partitions: pa.Table
    codes: Any
    texts: pa.Array
    """The partition of each file, as people write it."""


def _live(asked: _Asked) -> _Live:
    lists = snapshot_lists(asked.state.snapshot)
    names = list_manifests(asked.files, lists)["file_name"].to_pylist()
    found = joined(asked.files.manifests(names, [tuple(ENTRY_COLUMNS.names)]), ENTRY_COLUMNS.names)
    entries = live(found, ", ".join(lists))
    partitions, codes = distinct_partitions(entries, asked.schema, ", ".join(lists))
    keys = [(name, asked.schema.field(name).type) for name in asked.schema.partition_keys]
    texts = pa.array(
        _rows(readable(keys, partitions[""])) if keys else [None] * partitions.num_rows, pa.string()
    )
    return _Live(entries, partitions, codes, texts.take(pa.array(codes)))


_FILES: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("schema_id", pa.int64()),
        ("level", pa.int32()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("null_value_counts", pa.string()),
        ("min_value_stats", pa.string()),
        ("max_value_stats", pa.string()),
        ("min_sequence_number", pa.int64()),
        ("max_sequence_number", pa.int64()),
        ("creation_time", _TIME),
        ("deleteRowCount", pa.int64()),
        ("file_source", pa.string()),
        ("first_row_id", pa.int64()),
        ("write_cols", pa.list_(pa.string())),
    ]
)
_SOURCES: Final = ("APPEND", "COMPACT")


def _files(asked: _Asked) -> pa.Table:
    found = _live(asked)
    entries = found.entries
    buckets = entries["bucket"].to_numpy()
    folders = bucket_folders(found.codes, buckets, found.partitions, asked.schema)
    path = pc.binary_join_element_wise(folders, plain(entries["file_name"]), "/")
    columns: dict[str, Any] = {
        **{name: entries[name] for name in _FILES.names if name in entries.column_names},
        "partition": found.texts,
        "file_path": pc.coalesce(plain(entries["external_path"]), path),
        "file_format": pc.replace_substring_regex(plain(entries["file_name"]), r"^.*\.", ""),
        "record_count": entries["row_count"],
        "file_size_in_bytes": entries["file_size"],
        "deleteRowCount": entries["delete_row_count"],
        "file_source": pa.array(_SOURCES, pa.string()).take(plain(entries["file_source"])),
        **_readable_keys(entries, asked.schema),
        **_readable_stats(entries, asked),
    }
    return pa.table([columns[name] for name in _FILES.names], schema=_FILES)


def _readable_keys(entries: pa.Table, schema: TableSchema) -> dict[str, pa.Array]:
    keys = [(name, schema.field(name).type) for name in schema.trimmed_primary_keys]
    if not keys:
        return {name: pa.nulls(entries.num_rows, pa.string()) for name in ("min_key", "max_key")}
    return {
        name: pa.array(_rows(readable(keys, entries[name])), pa.string()) for name in ("min_key", "max_key")
    }


_STATS: Final = ("null_value_counts", "min_value_stats", "max_value_stats")


def _readable_stats(entries: pa.Table, asked: _Asked) -> dict[str, pa.Array]:
    """Statistics by the names that the columns had when the file was written."""
    known: dict[int, TableSchema] = {}

    def schema_of(schema_id: int) -> TableSchema:
        if schema_id not in known:
            known[schema_id] = read_schema(asked.files, schema_id, asked.branch)
        return known[schema_id]

    shown = {name: [""] * entries.num_rows for name in _STATS}
    for group in alike(entries, schema_of):
        columns = _stats_of(entries.take(pa.array(group.rows)), group)
        for name, texts in zip(_STATS, columns, strict=True):
            for row, text in zip(group.rows.tolist(), texts, strict=True):
                shown[name][row] = text
    return {name: pa.array(values, pa.string()) for name, values in shown.items()}


def _stats_of(part: pa.Table, group: Alike) -> Iterator[list[str]]:
    schema, names = group.schema, group.names
    types = [
        (name, schema.field(name).type if schema.has(name) else DataType(Simple.VARIANT)) for name in names
    ]
    counts = [each if each and len(each) == len(names) else None for each in part["value_nulls"].to_pylist()]
    yield [_pairs(dict(zip(names, each, strict=True)) if each else {}) for each in counts]
    for which in ("min", "max"):
        yield [_pairs(row or {}) for row in readable(types, part[f"value_{which}"])]


def _pairs(values: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{name}={_shown(value)}' for name, value in values.items())}}}"


_PARTITIONS: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("file_count", pa.int64()),
        ("last_update_time", _TIME),
        ("total_buckets", pa.int32()),
        ("deleted_record_count", pa.int64()),
    ]
)
_BUCKETS: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("file_count", pa.int64()),
        ("last_update_time", _TIME),
    ]
)


def _summed(asked: _Asked, keys: Sequence[str], wanted: pa.Schema) -> pa.Table:
    found = _live(asked)
    entries = found.entries
    facts = pa.table(
        {
            "code": pa.array(np.asarray(found.codes, np.int64)),
            "partition": found.texts,
            "bucket": entries["bucket"],
            "record_count": entries["row_count"],
            "file_size_in_bytes": entries["file_size"],
            "last_update_time": entries["creation_time"],
            "total_buckets": entries["total_buckets"],
            "deleted_record_count": pc.fill_null(entries["delete_row_count"], 0),
        }
    )
    how = [
        ("partition", "min"),
        ("record_count", "sum"),
        ("file_size_in_bytes", "sum"),
        ("last_update_time", "max"),
        ("total_buckets", "max"),
        ("deleted_record_count", "sum"),
        ("code", "count"),
    ]
    summed = facts.group_by(list(keys), use_threads=False).aggregate(how)
    names = {**{f"{name}_{each}": name for name, each in how[:-1]}, "code_count": "file_count"}
    summed = summed.rename_columns([names.get(name, name) for name in summed.column_names])
    return summed.select(wanted.names).cast(wanted)


_OF_A_STATE: Final[dict[str, Callable[[_Asked], pa.Table]]] = {
    "files": _files,
    "manifests": _manifests,
    "partitions": lambda asked: _summed(asked, ["code"], _PARTITIONS),
    "buckets": lambda asked: _summed(asked, ["code", "bucket"], _BUCKETS),
}
_OF_THE_TABLE: Final[dict[str, Callable[[_Asked], pa.Table]]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "options": _options,
    "tags": _tags,
    "branches": _branches,
    "consumers": _consumers,
}

NAMES: Final = tuple(sorted({*_OF_A_STATE, *_OF_THE_TABLE}))
"""The system tables that there are."""


def inspect(
    files: Files, name: str, at: At = None, *, branch: str = layout.MAIN, zone: str = "UTC"
) -> pa.Table:
    """One of a table's system tables, now or (for those of a state) at another state of the table."""
    make = _OF_A_STATE.get(name) or _OF_THE_TABLE.get(name)
    if make is None:
        hint = f"There is {', '.join(NAMES)}"
        raise InvalidInput(f"no system table {name!r:.80}", field="name", hint=hint)
    if at is not None and name in _OF_THE_TABLE:
        hint = f"Those of one snapshot are {', '.join(sorted(_OF_A_STATE))}"
        raise InvalidInput(f"{name} is about the whole table, at no time", field="at", hint=hint)
    return make(_Asked(files, state_at(files, at, branch=branch, zone=zone)))
