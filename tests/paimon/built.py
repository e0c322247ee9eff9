"""Tables in memory: metadata as a writer makes it, and beside it the rows of each file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from lakeplane.paimon import layout
from lakeplane.paimon.binary_row import encode_row
from lakeplane.paimon.files import Files
from lakeplane.paimon.manifest_schema import LIST_COLUMNS
from lakeplane.paimon.manifests import entry_rows, serialize_index_manifest, serialize_manifest_list
from lakeplane.paimon.new_manifests import NewFile, next_snapshot, rows_added, write_manifests
from lakeplane.paimon.schema import TableSchema, parse_schema, serialize_schema
from lakeplane.paimon.snapshots import CommitKind, Snapshot, serialize_hint, serialize_snapshot
from lakeplane.paimon.types import DataType
from tests.paimon.stored import reader

Row = dict[str, Any]


def make_schema(
    columns: dict[str, str],
    *,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: dict[str, str] | None = None,
) -> TableSchema:
    """A schema as its file says it."""
    fields = [
        {"id": number, "name": name, "type": type_} for number, (name, type_) in enumerate(columns.items())
    ]
    document = {
        "version": 3,
        "id": 0,
        "fields": fields,
        "highestFieldId": len(fields) - 1,
        "partitionKeys": list(partition_by),
        "primaryKeys": list(primary_key),
        "options": options or {},
        "timeMillis": 0,
    }
    return parse_schema(json.dumps(document).encode(), "schema/schema-0")


class Built:
    """A table that grows commit by commit."""

    def __init__(self, schema: TableSchema) -> None:
        self.content: dict[str, bytes] = {}
        self.rows_of: dict[str, list[Row]] = {}
        self.entries: dict[str, Row] = {}
        self.base = LIST_COLUMNS.empty_table()
        self.snapshot: Snapshot | None = None
        self._count = 0
        self.evolve(schema)

    def evolve(self, schema: TableSchema) -> None:
        """Give the table a schema; files that are made from now on have it."""
        self.schema = schema
        self.content[layout.schema_path(schema.id)] = serialize_schema(schema)

    @property
    def files(self) -> Files:
        """The table as a reader sees it."""
        return reader(self.content)

    def name(self, what: str) -> str:
        """A new name."""
        self._count += 1
        return f"{what}-{self._count}"

    def file(
        self, rows: Sequence[Row], *, bucket: int = 0, level: int = 0, stats: bool = True, **told: Any
    ) -> Row:
        """The entry of a new file with some rows, which are all of one partition and sorted by their key."""
        schema = self.schema
        name = self.name("data") + ".parquet"
        keys = schema.trimmed_primary_keys
        types = schema.types_of(keys)
        ordered = sorted(rows, key=lambda row: [row[key] for key in keys])
        self.rows_of[name] = [dict(row) for row in ordered]
        key_rows = [encode_row(types, [row[key] for key in keys], reserve_null=True) for row in ordered]
        names = [each.name for each in schema.fields] if stats else []
        partition = [ordered[0][key] for key in schema.partition_keys]
        entry = {
            "kind": 0,
            "partition": encode_row(schema.types_of(schema.partition_keys), partition, reserve_null=True),
            "bucket": bucket,
            "total_buckets": schema.settings.bucket,
            "file_name": name,
            "file_size": 1000,
            "row_count": len(ordered),
            "min_key": key_rows[0],
            "max_key": key_rows[-1],
            **_stats("key", keys, types, ordered),
            **_stats("value", names, schema.types_of(tuple(names)), ordered),
            "min_sequence_number": min((row.get("_seq", 0) for row in ordered), default=0),
            "max_sequence_number": max((row.get("_seq", 0) for row in ordered), default=0),
            "schema_id": schema.id,
            "level": level,
            "extra_files": [],
            "creation_time": 0,
            "delete_row_count": sum(row.get("_kind", 0) in (1, 3) for row in ordered),
            "file_source": 0,
            "value_stats_cols": names,
            **told,
        }
        self.entries[name] = entry
        return entry

    def commit(
        self,
        added: Sequence[Row] = (),
        removed: Sequence[Row] = (),
        *,
        kind: CommitKind = "APPEND",
        index: pa.Table | None = None,
        changelog: Sequence[Row] = (),
        time_ms: int | None = None,
    ) -> Snapshot:
        """Add files and remove others."""
        entries = entry_rows([*({**each, "kind": 1} for each in removed), *added])
        delta = self._list(self._manifests(entries))
        base_table = self.base
        base = self._list(base_table)
        changes = self._list(self._manifests(entry_rows(changelog))) if changelog else None
        self.base = pa.concat_tables([base_table, self._listed])
        index_manifest = self._index(index)
        self.snapshot = next_snapshot(
            self.snapshot,
            schema_id=self.schema.id,
            base=base,
            delta=delta,
            changelog=changes,
            index_manifest=index_manifest,
            commit_user="a test",
            commit_identifier=self._count,
            commit_kind=kind,
            time_ms=self._count * 1000 if time_ms is None else time_ms,
            delta_rows=rows_added(entries),
        )
        self.content[layout.snapshot_path(self.snapshot.id)] = serialize_snapshot(self.snapshot)
        self.content["snapshot/LATEST"] = serialize_hint(self.snapshot.id)
        return self.snapshot

    def _manifests(self, entries: pa.Table) -> pa.Table:
        written = write_manifests(entries, self.schema, lambda: self.name("manifest"), self.schema.settings)
        for file in written.files:
            self.content[layout.manifest_path(file.name)] = file.data
        self._listed = written.listed
        return written.listed

    def _list(self, listed: pa.Table) -> NewFile:
        file = NewFile(self.name("manifest-list"), serialize_manifest_list(listed))
        self.content[layout.manifest_path(file.name)] = file.data
        return file

    def _index(self, index: pa.Table | None) -> str | None:
        if index is None:
            return None if self.snapshot is None else self.snapshot.index_manifest
        name = self.name("index-manifest")
        self.content[layout.manifest_path(name)] = serialize_index_manifest(index)
        return name


def _stats(which: str, names: Sequence[str], types: Sequence[DataType], rows: Sequence[Row]) -> Row:
    columns = [[row[name] for row in rows] for name in names]
    present = [[value for value in column if value is not None] for column in columns]
    low = [min(column, default=None) for column in present]
    high = [max(column, default=None) for column in present]
    return {
        f"{which}_min": encode_row(types, low, reserve_null=False),
        f"{which}_max": encode_row(types, high, reserve_null=False),
        f"{which}_nulls": [len(column) - len(some) for column, some in zip(columns, present, strict=True)],
    }


def with_options(schema: TableSchema, **options: str) -> TableSchema:
    """A schema with other options, underscores of whose names are dots."""
    changed = {**schema.options, **{key.replace("_", "."): value for key, value in options.items()}}
    document = json.loads(serialize_schema(schema))
    return parse_schema(json.dumps({**document, "options": changed}).encode(), "schema")


def numbered(schema: TableSchema, schema_id: int, **changes: Any) -> TableSchema:
    """A schema under another id, with some changes."""
    return msgspec.structs.replace(schema, id=schema_id, **changes)
