"""Manifests and their lists, as PyIceberg reads and writes them.

The question has either a ``read``, the place of a manifest list, or a ``write``, a directory, and a version.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

IO = PyArrowFileIO()
LISTED = [
    *("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number"),
    *("min_sequence_number", "added_snapshot_id", "added_files_count", "existing_files_count"),
    *("deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count"),
    "key_metadata",
]
FILE = [
    *("content", "file_path", "file_format", "record_count", "file_size_in_bytes", "column_sizes"),
    *(
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
        "key_metadata",
    ),
    *("split_offsets", "equality_ids", "sort_order_id"),
]
ENTRY = ["status", "snapshot_id", "sequence_number", "file_sequence_number"]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
SPEC = PartitionSpec(
    PartitionField(1, 1000, BucketTransform(4), "id_bucket"),
    PartitionField(2, 1001, IdentityTransform(), "name"),
)


def plain(value: Any) -> Any:
    """A value as JSON."""
    match value:
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def facts(value: Any, names: list[str]) -> dict[str, Any]:
    """Some attributes; of what is not there, nothing."""
    return {name: plain(getattr(value, name)) for name in names}


def partition(record: Record) -> list[Any]:
    """The values of a partition."""
    return [plain(record[position]) for position in range(len(record))]


def read(place: str) -> list[dict[str, Any]]:
    """Every manifest of a list, with its entries."""
    found = []
    for manifest in read_manifest_list(IO.new_input(place)):
        summaries = [
            [each.contains_null, each.contains_nan, plain(each.lower_bound), plain(each.upper_bound)]
            for each in manifest.partitions or ()
        ]
        entries = [
            {
                **facts(entry, ENTRY),
                **facts(entry.data_file, FILE),
                "partition": partition(entry.data_file.partition),
            }
            for entry in manifest.fetch_manifest_entry(IO, discard_deleted=False)
        ]
        found.append({**facts(manifest, LISTED), "partitions": summaries, "entries": entries})
    return found


def data_file(number: int, content: DataFileContent) -> DataFile:
    """A file with everything that may be told of it."""
    return DataFile.from_args(
        content=content,
        file_path=f"s3://lake/{content.name}-{number}-é.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(number, None if number == 2 else f"p{number}"),
        record_count=10 + number,
        file_size_in_bytes=1000 + number,
        column_sizes={1: 5, 2: number},
        value_counts={1: 10 + number},
        null_value_counts={1: 0, 2: number},
        nan_value_counts={},
        lower_bounds={1: number.to_bytes(8, "little"), 2: b"a"},
        upper_bounds={1: number.to_bytes(8, "little"), 2: "ö".encode()},
        key_metadata=None,
        split_offsets=[4, 40],
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        sort_order_id=0,
        spec_id=0,
    )


def write(directory: str, version: int) -> str:
    """A list of two manifests: one of new files, one of older ones."""
    statuses = [ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED]
    manifests: list[ManifestFile] = []
    for number, kinds in enumerate([statuses[:1], statuses]):
        place = f"{directory}/{number}.avro"
        with write_manifest(
            version,
            SPEC,
            SCHEMA,
            IO.new_output(place),
            77,
            "deflate" if number else "zstandard",
        ) as writer:
            for position, status in enumerate(kinds * 2):
                numbers = (
                    {}
                    if status is ManifestEntryStatus.ADDED
                    else {"sequence_number": 3, "file_sequence_number": 3}
                )
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=status,
                        snapshot_id=77,
                        data_file=data_file(position, DataFileContent.DATA),
                        **numbers,
                    )
                )
        manifests.append(writer.to_manifest_file())
    place = f"{directory}/list.avro"
    with write_manifest_list(version, IO.new_output(place), 77, None, 9, "deflate") as out:
        out.add_manifests(manifests)
    return place


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    place = write(question["write"], question["version"]) if "write" in question else question["read"]
    json.dump(read(place), sys.stdout)


main()
