"""Manifests and their lists: ours as PyIceberg and DuckDB read them, and PyIceberg's as we read them."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.avro_schema import avro_name
from lakeplane.iceberg.manifest_list import ManifestFile, manifest_files, parse_manifest_list
from lakeplane.iceberg.manifest_merge import merge_manifests
from lakeplane.iceberg.manifest_schema import (
    BOUND_MAPS,
    COUNT_MAPS,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    data_file_fields,
)
from lakeplane.iceberg.manifest_write import Writing
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.iceberg.new_table import creation
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import LONG, STRING, UUID, Decimal, Field, Struct
from lakeplane.testing.tables import BuiltTable, Entries
from tests.iceberg.manifest_rows import data_rows, delete_rows, older, table
from tests.interop.peers import ask

# What PyIceberg tells of a manifest, and of an entry.
LISTED = [
    *("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number"),
    *("min_sequence_number", "added_snapshot_id", "added_files_count", "existing_files_count"),
    *("deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count"),
    "key_metadata",
]
NOT_TOLD = {"first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"}
MAPS = {*COUNT_MAPS, *BOUND_MAPS}
TOLD = [*ENTRY_COLUMNS.names, *(name for name in FILE_COLUMNS.names if name not in NOT_TOLD)]


def plain(value: Any) -> Any:
    """A value as JSON, in the words of the script."""
    match value:
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case list() if value and isinstance(value[0], tuple):
            return {str(key): plain(each) for key, each in value}
        case list():
            return [plain(each) for each in value]
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case _:
            return value


def partitions(column: pa.StructArray, type_: Struct) -> list[list[Any]]:
    """The values of partitions, times as numbers."""
    columns = []
    for field in type_.fields:
        values = column.field(str(field.id))
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
        found = values.to_pylist()
        if field.type is UUID:
            found = [None if each is None else uuid.UUID(bytes=each) for each in found]
        if isinstance(field.type, Decimal):
            found = [None if each is None else f"{each:f}" for each in found]
        columns.append([plain(each) for each in found])
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * len(column)


def as_we_read(place: Path, of: TableMetadata) -> list[dict[str, Any]]:
    """Every manifest of a list, in the words of the script."""
    told = []
    for listed in manifest_files(parse_manifest_list(place.read_bytes(), str(place))):
        data = Path(listed.manifest_path.removeprefix("file://")).read_bytes()
        found = read_manifest(data, listed, of, columns=FILE_COLUMNS.names)
        keys = partitions(found.entries["partition"].combine_chunks(), found.partition)
        summaries = [
            [each.contains_null, each.contains_nan, plain(each.lower_bound), plain(each.upper_bound)]
            for each in listed.partitions or ()
        ]
        rows = zip(found.entries.select(TOLD).to_pylist(), keys, strict=True)
        entries = [
            {**{name: as_map(name, row[name]) for name in TOLD}, "partition": key} for row, key in rows
        ]
        facts = {name: plain(getattr(listed, name)) for name in LISTED}
        told.append({**facts, "partitions": summaries, "entries": entries})
    return told


def as_map(name: str, value: Any) -> Any:
    is_map = pa.types.is_map(
        dict(zip(FILE_COLUMNS.names, FILE_COLUMNS.types, strict=True)).get(name, pa.null())
    )
    return {} if is_map and value == [] else plain(value)


def build(folder: Path, version: int, codec: str = "deflate") -> BuiltTable:
    """A table of two snapshots with partitions of all types; the second one has deletes and a merge."""
    like = table(version)
    built = BuiltTable(like.schema, like.partition_spec, format_version=version, location=str(folder))
    built.codec = codec
    of = built.metadata
    built.commit(Entries(data_rows(of, 4)), Entries(data_rows(of, 3)))
    group = built.manifests()
    path = f"{folder}/metadata/merged.avro"
    change = Writing(built.metadata, 1002, codec)
    merged = merge_manifests(group, [built.files[each.manifest_path] for each in group], path, change)
    built.files[path] = merged.data
    gone = {**older(2, DELETED), "snapshot_id": [1002] * 2}
    added = [
        Entries(pa.concat_tables([data_rows(of, 2), data_rows(of, 2, **gone)], promote_options="default"))
    ]
    if version > 1:
        added.append(Entries(delete_rows(of, 3), content=DELETE_MANIFEST))
    built.commit(*added, operation="overwrite", keep=[merged.listed])
    for place, data in built.files.items():
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).write_bytes(data)
    return built


def list_of(built: BuiltTable) -> Path:
    snapshot = built.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return Path(snapshot.manifest_list)


@pytest.mark.parametrize(
    ("version", "codec"), [(1, "deflate"), (2, "zstandard"), (2, "null"), (3, "deflate")]
)
def test_pyiceberg_reads_what_we_wrote(tmp_path: Path, version: int, codec: str) -> None:
    built = build(tmp_path, version, codec)
    theirs = ask("pyiceberg_manifests", {"read": str(list_of(built))})
    assert [len(each["entries"]) for each in theirs] == ([3] if version > 1 else []) + [4, 7]
    assert theirs == as_we_read(list_of(built), built.metadata)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_duckdb_reads_what_we_wrote(tmp_path: Path, version: int) -> None:
    built = build(tmp_path, version)
    metadata = tmp_path / "metadata/v1.metadata.json"
    metadata.write_bytes(serialize_metadata(built.metadata))
    manifests = [each.manifest_path for each in built.manifests()]
    theirs = ask("duckdb_manifests", {"metadata": str(metadata), "manifests": manifests})
    # DuckDB calls the content of data files "EXISTING".
    status, content = ["EXISTING", "ADDED", "DELETED"], ["EXISTING", "POSITION_DELETES", "EQUALITY_DELETES"]
    ours = [
        {
            "manifest_path": manifest["manifest_path"],
            "manifest_sequence_number": manifest["sequence_number"],
            "manifest_content": "DATA" if manifest["content"] == DATA_MANIFEST else "DELETE",
            "status": status[entry["status"]],
            "content": content[entry["content"]],
            "file_path": entry["file_path"],
            "file_format": entry["file_format"],
            "record_count": entry["record_count"],
        }
        for manifest in as_we_read(list_of(built), built.metadata)
        for entry in manifest["entries"]
    ]
    assert sorted(theirs["listed"], key=str) == sorted(ours, key=str)
    assert theirs["files"] == [
        each for manifest in built.manifests() for each in as_duckdb_says(manifest, built)
    ]


def as_duckdb_says(listed: ManifestFile, built: BuiltTable) -> Iterator[dict[str, Any]]:
    """What a manifest tells of its files, in the JSON of DuckDB."""
    data = built.files[listed.manifest_path]
    raw = msgspec.structs.replace(listed, sequence_number=None)  # DuckDB reads what is there, and no more
    found = read_manifest(data, raw, built.metadata, columns=FILE_COLUMNS.names)
    keys = found.entries["partition"].combine_chunks()
    columns = [
        [in_text(each) for each in keys.field(str(field.id)).to_pylist()] for field in found.partition.fields
    ]
    stored = {field.name for field in data_file_fields(built.metadata.format_version, found.partition)}
    names = [avro_name(field.name) for field in found.partition.fields]
    for row, key in zip(found.entries.to_pylist(), zip(*columns, strict=True), strict=True):
        file = {name: in_text(as_dict(name, row[name])) for name in FILE_COLUMNS.names if name in stored}
        block = {"block_size_in_bytes": 64 * 2**20} if built.metadata.format_version == 1 else {}
        yield {**file, **block, "partition": dict(zip(names, key, strict=True))}


def as_dict(name: str, value: Any) -> Any:
    return dict(value) if name in MAPS and value is not None else value


def in_text(value: Any) -> Any:
    """A value as DuckDB has it in JSON."""
    match value:
        case bytes() if len(value) == 16:
            return str(uuid.UUID(bytes=value))
        case bytes():
            return "".join(chr(each) if 32 <= each < 127 else f"\\x{each:02X}" for each in value)
        case dict():
            return {str(key): in_text(each) for key, each in value.items()}
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
            return text if value.tzinfo is None else f"{text}+00"
        case dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal():
            return float(value)
        case _:
            return value


def their_table(version: int) -> TableMetadata:
    """The table that the script writes for."""
    schema = Schema((Field(1, "id", LONG), Field(2, "name", STRING)))
    spec = PartitionSpec(
        0,
        (
            PartitionField((1,), 1000, "id_bucket", Bucket(4)),
            PartitionField((2,), 1001, "name", Identity()),
        ),
    )
    properties = {"format-version": str(version)}
    made = creation(
        schema, uuid=str(uuid.UUID(int=1)), location="s3://lake", spec=spec, properties=properties
    )
    return apply(None, made, now_ms=0)


@pytest.mark.parametrize("version", [1, 2])
def test_we_read_what_pyiceberg_wrote(tmp_path: Path, version: int) -> None:
    theirs = ask("pyiceberg_manifests", {"write": str(tmp_path), "version": version})
    assert [len(each["entries"]) for each in theirs] == [2, 6]
    for now in range(version, 4):
        assert as_we_read(tmp_path / "list.avro", their_table(now)) == theirs
