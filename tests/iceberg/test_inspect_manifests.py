"""Metadata tables of manifests, of tables that are built manifest by manifest."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_list import FieldSummary
from lakeplane.iceberg.manifest_schema import DELETED, EXISTING
from lakeplane.model.types import BINARY, DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, UUID
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, change_list, deletes, entries, with_metadata


def look(built: BuiltTable, name: str = "manifests", at: Any = None) -> list[dict[str, Any]]:
    found = inspect(built.metadata, built.reading(), name, at)
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def counts(row: dict[str, Any]) -> list[int]:
    return [value for name, value in row.items() if name.endswith("_files_count")]


def test_manifests_count_data_and_deletes_apart() -> None:
    built = build(("id", LONG), ("region", STRING), by=("identity region",))
    old = {"sequence_number": 1, "file_sequence_number": 1}
    data = [
        *(Listed("a", ("eu",)), Listed("b", ("us",)), Listed("c", (None,))),
        *(Listed("d", ("eu",), status=EXISTING, more=old), Listed("e", ("eu",), status=EXISTING, more=old)),
        Listed("f", ("eu",), status=DELETED, more=old),
    ]
    built.commit(entries(built.metadata, data), deletes(built.metadata, [Listed("p", ("eu",))]))
    later, first = look(built)
    assert (later["content"], counts(later)) == (1, [0, 0, 0, 1, 0, 0])
    assert (first["content"], counts(first)) == (0, [3, 2, 1, 0, 0, 0])
    assert first["path"] == "memory://t/metadata/00001-m0.avro"
    assert first["length"] == len(built.files[first["path"]])
    assert (first["partition_spec_id"], first["added_snapshot_id"]) == (0, 1001)
    assert first["partition_summaries"] == [
        {"contains_null": True, "contains_nan": False, "lower_bound": "eu", "upper_bound": "us"}
    ]


def test_bounds_of_partitions_are_texts_as_in_the_paths_of_files() -> None:
    rules = (
        *("year day", "month day", "day at", "hour at", "bucket[8] id", "truncate[3] name"),
        *("identity share", "identity key", "identity raw", "identity day", "identity at", "void id"),
    )
    columns = [
        *(("day", DATE), ("at", TIMESTAMP), ("id", INT), ("name", STRING)),
        *(("share", DOUBLE), ("key", UUID), ("raw", BINARY)),
    ]
    built = build(*columns, by=rules)
    built.commit(entries(built.metadata, [Listed("a", (None,) * len(rules))]))
    key = bytes(range(16))
    bounds = [
        struct.pack("<i", 54),
        struct.pack("<i", -1),
        struct.pack("<i", -1),
        struct.pack("<i", 25),
        struct.pack("<i", 3),
        "añ/".encode(),
        struct.pack("<d", -1.5),
        key,
        b"\xfb\xef",
        struct.pack("<i", 19_000),
        struct.pack("<q", -1),
        None,
    ]
    summaries = tuple(
        FieldSummary(contains_null=True, contains_nan=None, lower_bound=each, upper_bound=None)
        for each in bounds
    )
    snapshot = built.metadata.snapshots[0]
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, partitions=summaries))
    [row] = look(built)
    assert [each["lower_bound"] for each in row["partition_summaries"]] == [
        *("2024", "1969-12", "1969-12-31", "1970-01-02-01", "3", "añ/", "-1.5"),
        *("00010203-0405-0607-0809-0a0b0c0d0e0f", "++8=", "2022-01-08", "1969-12-31T23:59:59.999999", None),
    ]
    assert {each["upper_bound"] for each in row["partition_summaries"]} == {None}
    assert {each["contains_nan"] for each in row["partition_summaries"]} == {None}


def test_bounds_that_are_no_values_and_those_of_columns_that_are_gone_are_unknown() -> None:
    built = build(("id", LONG), ("n", INT), by=("identity id", "identity n"))
    built.commit(entries(built.metadata, [Listed("a", (7, 3))]))
    short = FieldSummary(contains_null=False, lower_bound=b"\1\2", upper_bound=struct.pack("<q", 7))
    known = FieldSummary(contains_null=False, lower_bound=struct.pack("<i", 3))
    snapshot = built.metadata.snapshots[0]
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, partitions=(short, known)))
    gone = msgspec.structs.replace(built.metadata.schema, fields=built.metadata.schema.fields[:1])
    with_metadata(built, schemas=(gone,))
    [row] = look(built)
    found = [(each["lower_bound"], each["upper_bound"]) for each in row["partition_summaries"]]
    assert found == [(None, "7"), (None, None)]


def test_a_list_without_summaries_has_empty_ones() -> None:
    built = build(("id", LONG), by=("identity id",))
    built.commit(entries(built.metadata, [Listed("a", (7,))]))
    change_list(
        built, built.metadata.snapshots[0], lambda each: msgspec.structs.replace(each, partitions=None)
    )
    built.commit(entries(built.metadata, [Listed("b", (8,))]))
    found = [[each["upper_bound"] for each in row["partition_summaries"]] for row in look(built)]
    assert found == [["8"], []]


def test_all_manifests_are_listed_for_every_snapshot_that_has_them() -> None:
    built = build(("id", LONG))
    built.commit(entries(built.metadata, [Listed("a")]))
    built.commit(entries(built.metadata, [Listed("b")]))
    built.commit(entries(built.metadata, [Listed("c")]), branch="aside")
    found = [(row["reference_snapshot_id"], row["path"][-13:]) for row in look(built, "all_manifests")]
    assert found == [
        (1001, "00001-m0.avro"),
        (1002, "00002-m0.avro"),
        (1002, "00001-m0.avro"),
        (1003, "00003-m0.avro"),
    ]
    assert [row["path"][-13:] for row in look(built, at="aside")] == ["00003-m0.avro"]


def test_encrypted_manifests_are_listed_with_their_key() -> None:
    built = build(("id", LONG))
    built.commit(entries(built.metadata, [Listed("a")]))
    change_list(
        built, built.metadata.snapshots[0], lambda each: msgspec.structs.replace(each, key_metadata=b"k")
    )
    [row] = look(built, "all_manifests")
    assert row["key_metadata"] == b"k"


def test_what_a_v1_list_does_not_tell_is_told_by_the_manifests() -> None:
    built = build(("id", LONG), by=("identity id",), format_version=1)
    old = [Listed("a", (1,)), Listed("b", (2,)), Listed("c", (2,), status=DELETED)]
    built.commit(entries(built.metadata, old))
    snapshot = built.metadata.snapshots[0]
    names = [
        f"{each}_{what}_count" for each in ("added", "existing", "deleted") for what in ("files", "rows")
    ]
    silent = dict.fromkeys(names)
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, **silent))
    [listed] = look(built)
    assert counts(listed) == [2, 0, 1, 0, 0, 0]
    assert listed["partition_summaries"][0]["upper_bound"] == "2"


def test_manifests_that_a_v1_snapshot_names_itself() -> None:
    built = build(("id", LONG), by=("identity id",), format_version=1)
    built.commit(entries(built.metadata, [Listed("a", (1,)), Listed("b", (2,))]))
    path = "memory://t/metadata/00001-m0.avro"
    inline = msgspec.structs.replace(
        built.metadata.snapshots[0], manifest_list=None, manifests=(path,), summary=None
    )
    with_metadata(built, snapshots=(inline,))
    [row] = look(built)
    assert row == {
        "content": 0,
        "path": path,
        "length": len(built.files[path]),
        "partition_spec_id": 0,
        "added_snapshot_id": 1001,
        "added_data_files_count": 2,
        "existing_data_files_count": 0,
        "deleted_data_files_count": 0,
        "added_delete_files_count": 0,
        "existing_delete_files_count": 0,
        "deleted_delete_files_count": 0,
        "partition_summaries": [],
    }
    [again] = look(built, "all_manifests")
    assert {**row, "reference_snapshot_id": 1001, "key_metadata": None} == again


def test_a_list_of_a_spec_that_the_table_does_not_have_is_broken() -> None:
    built = build(("id", LONG), by=("identity id",))
    built.commit(entries(built.metadata, [Listed("a", (7,))]))
    change_list(
        built, built.metadata.snapshots[0], lambda each: msgspec.structs.replace(each, partition_spec_id=9)
    )
    with pytest.raises(InvalidMetadata, match="spec 9"):
        look(built)


def test_counts_of_an_encrypted_manifest_that_nobody_tells_cannot_be_had() -> None:
    built = build(("id", LONG), format_version=1)
    built.commit(entries(built.metadata, [Listed("a")]))
    change_list(
        built,
        built.metadata.snapshots[0],
        lambda each: msgspec.structs.replace(each, key_metadata=b"k", added_files_count=None),
    )
    with pytest.raises(NotSupported, match="encrypted"):
        look(built)
