"""Whole tables as JSON documents, one for each format version, with every field that the version knows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import read_metadata
from lakeplane.iceberg.view import ViewMetadata, read_view

Json: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]

UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"
FIRST, SECOND = 3051729675574597004, 3055729675574597004
EARLY, LATE = 1515100955770, 1555100955770

VERSIONS = (1, 2, 3)

_SCHEMAS: list[Json] = [
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "ts", "required": True, "type": "timestamptz"},
        ],
    },
    {
        "type": "struct",
        "schema-id": 1,
        "identifier-field-ids": [1],
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long", "doc": "who"},
            {"id": 2, "name": "ts", "required": True, "type": "timestamptz"},
            {
                "id": 3,
                "name": "place",
                "required": False,
                "type": {
                    "type": "struct",
                    "fields": [{"id": 4, "name": "city", "required": False, "type": "string"}],
                },
            },
            {
                "id": 5,
                "name": "tags",
                "required": False,
                "type": {"type": "list", "element-id": 6, "element": "string", "element-required": True},
            },
            {
                "id": 7,
                "name": "scores",
                "required": False,
                "type": {
                    "type": "map",
                    "key-id": 8,
                    "key": "string",
                    "value-id": 9,
                    "value": "double",
                    "value-required": False,
                },
            },
        ],
    },
]

_DAY: Json = {"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}
_BUCKET: Json = {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"}


def _snapshots(version: int) -> list[Json]:
    snapshots: list[Json] = [
        {
            "snapshot-id": FIRST,
            "sequence-number": 1,
            "timestamp-ms": EARLY,
            "manifest-list": "s3://b/wh/t/metadata/snap-1.avro",
            "summary": {"operation": "append", "added-records": "100"},
            "schema-id": 0,
            "first-row-id": 0,
            "added-rows": 100,
            "key-id": "k2",
        },
        {
            "snapshot-id": SECOND,
            "parent-snapshot-id": FIRST,
            "sequence-number": 2,
            "timestamp-ms": LATE,
            "manifest-list": "s3://b/wh/t/metadata/snap-2.avro",
            "summary": {"operation": "overwrite"},
            "schema-id": 1,
            "first-row-id": 100,
            "added-rows": 50,
            "key-id": "k2",
        },
    ]
    blank = [
        *(["sequence-number"] if version < 2 else []),
        *(["first-row-id", "added-rows", "key-id"] if version < 3 else []),
    ]
    return [{key: value for key, value in each.items() if key not in blank} for each in snapshots]


def table(version: int, **changes: Any) -> Json:
    """A table with all that its version knows; keyword arguments replace or add fields, ``...`` removes."""
    document: Json = {
        "format-version": version,
        "table-uuid": UUID,
        "location": "s3://b/wh/t",
        "last-sequence-number": 2,
        "last-updated-ms": LATE,
        "last-column-id": 9,
        "schema": _SCHEMAS[1],
        "schemas": _SCHEMAS,
        "current-schema-id": 1,
        "partition-spec": [_DAY, _BUCKET],
        "partition-specs": [{"spec-id": 0, "fields": [_DAY]}, {"spec-id": 1, "fields": [_DAY, _BUCKET]}],
        "default-spec-id": 1,
        "last-partition-id": 1001,
        "sort-orders": [
            {"order-id": 0, "fields": []},
            {
                "order-id": 1,
                "fields": [
                    {
                        "transform": "identity",
                        "source-id": 1,
                        "direction": "asc",
                        "null-order": "nulls-first",
                    },
                    {
                        "transform": "bucket[4]",
                        "source-id": 1,
                        "direction": "desc",
                        "null-order": "nulls-last",
                    },
                ],
            },
        ],
        "default-sort-order-id": 1,
        "properties": {"write.format.default": "parquet"},
        "current-snapshot-id": SECOND,
        "snapshots": _snapshots(version),
        "snapshot-log": [
            {"snapshot-id": FIRST, "timestamp-ms": EARLY},
            {"snapshot-id": SECOND, "timestamp-ms": LATE},
        ],
        "metadata-log": [{"metadata-file": "s3://b/wh/t/metadata/v1.json", "timestamp-ms": EARLY}],
        "refs": {
            "main": {"snapshot-id": SECOND, "type": "branch"},
            "audit": {
                "snapshot-id": FIRST,
                "type": "branch",
                "min-snapshots-to-keep": 2,
                "max-snapshot-age-ms": 1000,
                "max-ref-age-ms": 2000,
            },
            "v1.0": {"snapshot-id": FIRST, "type": "tag", "max-ref-age-ms": 3000},
        },
        "statistics": [
            {
                "snapshot-id": FIRST,
                "statistics-path": "s3://b/wh/t/metadata/stats.puffin",
                "file-size-in-bytes": 413,
                "file-footer-size-in-bytes": 42,
                "key-metadata": "YQ==",
                "blob-metadata": [
                    {
                        "type": "apache-datasketches-theta-v1",
                        "snapshot-id": FIRST,
                        "sequence-number": 1,
                        "fields": [1],
                        "properties": {"ndv": "7"},
                    }
                ],
            }
        ],
        "partition-statistics": [
            {
                "snapshot-id": SECOND,
                "statistics-path": "s3://b/wh/t/metadata/partition-stats.parquet",
                "file-size-in-bytes": 99,
            }
        ],
        "next-row-id": 150,
        "encryption-keys": [
            {"key-id": "k1", "encrypted-key-metadata": "aWNlYmVyZwo=", "properties": {"KEY_TIMESTAMP": "1"}},
            {"key-id": "k2", "encrypted-key-metadata": "aWNlYmVyZwo=", "encrypted-by-id": "k1"},
        ],
    }
    blank = [
        *(["schema", "partition-spec"] if version > 1 else ["last-sequence-number"]),
        *(["next-row-id", "encryption-keys"] if version < 3 else []),
    ]
    document = {key: value for key, value in document.items() if key not in blank}
    named = {key.replace("_", "-"): value for key, value in changes.items()}
    whole = {key: value for key, value in {**document, **named}.items() if value is not ...}
    return copy.deepcopy(whole)


def metadata(version: int, **changes: Any) -> TableMetadata:
    return read_metadata(table(version, **changes))


def empty(version: int, **changes: Any) -> TableMetadata:
    """A table without snapshots."""
    none: Json = {
        "snapshots": [],
        "snapshot_log": [],
        "refs": {},
        "statistics": [],
        "partition_statistics": [],
    }
    if version > 1:
        none["last_sequence_number"] = 0
    if version > 2:
        none["next_row_id"] = 0
    return metadata(version, **{"current_snapshot_id": ..., **none, **changes})


def at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def put(document: Json, path: Path, value: Any) -> Json:
    """A copy with one place changed; ``...`` takes it away."""
    changed = copy.deepcopy(document)
    target = at(changed, path[:-1])
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return changed


def objects(document: Any, path: Path = ()) -> Iterator[Path]:
    """Where the objects of a document are."""
    if isinstance(document, Mapping):
        yield path
        for key, value in document.items():
            yield from objects(value, (*path, key))
    elif isinstance(document, list):
        for position, value in enumerate(document):
            yield from objects(value, (*path, position))


def places(document: Any, path: Path = ()) -> Iterator[Path]:
    """Where all values of a document are, itself not counted."""
    items = document.items() if isinstance(document, Mapping) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, Mapping | list):
            yield from places(value, (*path, key))


def view_document(**changes: Any) -> Json:
    """The first example of the view spec; keyword arguments as for ``table``."""
    document: Json = {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "s3://bucket/warehouse/default.db/event_agg",
        "current-version-id": 1,
        "properties": {"comment": "Daily event counts"},
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": 1573518431292,
                "schema-id": 1,
                "default-catalog": "prod",
                "default-namespace": ["default"],
                "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
                "representations": [
                    {
                        "type": "sql",
                        "sql": "SELECT\n    COUNT(1), CAST(event_ts AS DATE)\nFROM events\nGROUP BY 2",
                        "dialect": "spark",
                    }
                ],
            }
        ],
        "schemas": [
            {
                "schema-id": 1,
                "type": "struct",
                "fields": [
                    {
                        "id": 1,
                        "name": "event_count",
                        "required": False,
                        "type": "int",
                        "doc": "Count of events",
                    },
                    {"id": 2, "name": "event_date", "required": False, "type": "date"},
                ],
            }
        ],
        "version-log": [{"timestamp-ms": 1573518431292, "version-id": 1}],
    }
    named = {key.replace("_", "-"): value for key, value in changes.items()}
    whole = {key: value for key, value in {**document, **named}.items() if value is not ...}
    return copy.deepcopy(whole)


def view(**changes: Any) -> ViewMetadata:
    return read_view(view_document(**changes))
