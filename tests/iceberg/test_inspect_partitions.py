"""The metadata table of partitions, beside the same sums done file by file."""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
)
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import DOUBLE, LONG, STRING, Field
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import FILE_BYTES, Listed, build, deletes, entries, with_metadata

SCHEMA = Schema((Field(1, "region", STRING), Field(2, "share", DOUBLE), Field(3, "id", LONG)))
REGION = PartitionField((1,), 1000, "region", Identity())
SHARE = PartitionField((2,), 1001, "share", Identity())
BUCKET = PartitionField((3,), 1002, "bucket", Bucket(2))
SPECS = (
    PartitionSpec(0, (REGION, SHARE)),
    PartitionSpec(1, (REGION, SHARE, BUCKET)),
    PartitionSpec(2, (REGION,)),
)
NAN, OTHER_NAN = struct.unpack("<2d", bytes.fromhex("000000000000f87f010000000000f8ff"))

VALUES: dict[int, st.SearchStrategy[Any]] = {
    1000: st.sampled_from(("eu", "us", None)),
    1001: st.sampled_from((0.0, -0.0, 1.5, NAN, OTHER_NAN, None)),
    1002: st.sampled_from((0, None)),
}


class Given(NamedTuple):
    """One file, and the manifest it goes into."""

    spec: int
    content: int
    listed: Listed


@st.composite
def files(draw: st.DrawFn) -> Given:
    spec = draw(st.sampled_from(SPECS))
    partition = tuple(draw(VALUES[field.field_id]) for field in spec.fields)
    content = draw(st.sampled_from((DATA, POSITION_DELETES, EQUALITY_DELETES)))
    status = draw(st.sampled_from((ADDED, EXISTING, DELETED)))
    more: dict[str, Any] = {}
    if status != ADDED:
        author = draw(st.sampled_from((1001, 1002, 999)))  # the last one has expired
        more = {"snapshot_id": author, "sequence_number": 1, "file_sequence_number": 1}
    listed = Listed(str(draw(st.integers())), partition, {}, draw(st.integers(0, 9)), status, content, more)
    return Given(spec.spec_id, content, listed)


def key(spec: int, partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """What tells partitions apart: how many fields they have, and their values by field."""
    ids = [field.field_id for field in SPECS[spec].fields]
    values = dict(zip(ids, partition, strict=True))
    # Text tells the two zeros apart, and no NaN from another.
    return (len(ids), *(repr(values.get(field_id)) for field_id in VALUES))


@settings(max_examples=50)
@given(st.lists(st.lists(files(), max_size=6), min_size=1, max_size=3))
def test_sums_of_partitions_are_those_of_their_live_files(commits: list[list[Given]]) -> None:
    built = BuiltTable(SCHEMA, SPECS[0])
    with_metadata(built, partition_specs=SPECS)
    expected: dict[tuple[Any, ...], list[int]] = {}
    updated: dict[tuple[Any, ...], set[int]] = {}
    for number, commit in enumerate(commits):
        manifests = []
        for spec in range(len(SPECS)):
            data = [each.listed for each in commit if (each.spec, each.content) == (spec, DATA)]
            other = [each.listed for each in commit if each.spec == spec and each.content != DATA]
            manifests += [entries(built.metadata, data, spec)] if data else []
            manifests += [deletes(built.metadata, other, spec)] if other else []
        snapshot = built.commit(*manifests)
        assert snapshot.snapshot_id == 1001 + number
        for each in (each for each in commit if each.listed.status != DELETED):
            listed = each.listed
            place = key(each.spec, listed.partition)
            sums = expected.setdefault(place, [0] * 7)
            changes = {
                DATA: (listed.rows, 1, FILE_BYTES, 0, 0, 0, 0),
                POSITION_DELETES: (0, 0, 0, listed.rows, 1, 0, 0),
                EQUALITY_DELETES: (0, 0, 0, 0, 0, listed.rows, 1),
            }[each.content]
            sums[:] = [one + more for one, more in zip(sums, changes, strict=True)]
            author = listed.more.get("snapshot_id", snapshot.snapshot_id)
            updated.setdefault(place, set()).add(author)
    found = inspect(built.metadata, built.reading(), "partitions")
    found.validate(full=True)
    rows = found.to_pylist()
    widths = {0: 2, 1: 3, 2: 1}
    known = {each.snapshot_id: each.timestamp_ms for each in built.metadata.snapshots}
    assert len(rows) == len(expected)
    for row in rows:
        place = (widths[row["spec_id"]], *(repr(each) for each in row["partition"].values()))
        assert [row[name] for name in found.column_names[2:9]] == expected[place]
        last = max((each for each in updated[place] if each in known), default=None)
        assert row["last_updated_snapshot_id"] == last
        time = None if last is None else dt.datetime.fromtimestamp(known[last] / 1000, dt.UTC)
        assert row["last_updated_at"] == time


def test_a_table_without_partitions_has_one_row_and_one_without_files_none() -> None:
    built = build(("id", LONG))
    assert inspect(built.metadata, built.reading(), "partitions").num_rows == 0
    built.commit(entries(built.metadata, [Listed("a", rows=3), Listed("b", rows=4)]))
    snapshot = built.commit(deletes(built.metadata, [Listed("p", rows=2)]))
    assert inspect(built.metadata, built.reading(), "partitions").to_pylist() == [
        {
            "record_count": 7,
            "file_count": 2,
            "total_data_file_size_in_bytes": 2 * FILE_BYTES,
            "position_delete_record_count": 2,
            "position_delete_file_count": 1,
            "equality_delete_record_count": 0,
            "equality_delete_file_count": 0,
            "last_updated_at": dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, dt.UTC),
            "last_updated_snapshot_id": snapshot.snapshot_id,
        }
    ]


def test_a_partition_has_the_spec_of_the_file_that_came_last() -> None:
    built = build(("id", LONG), ("region", STRING), by=("identity region",))
    built.commit(entries(built.metadata, [Listed("a", ("eu",))]))
    again = msgspec.structs.replace(built.metadata.partition_spec, spec_id=1)
    with_metadata(built, partition_specs=(built.metadata.partition_spec, again))
    built.commit(entries(built.metadata, [Listed("b", ("eu",))], spec_id=1))
    [row] = inspect(built.metadata, built.reading(), "partitions").to_pylist()
    assert (row["spec_id"], row["file_count"], row["last_updated_snapshot_id"]) == (1, 2, 1002)


@pytest.mark.parametrize("at", [1001, "main"])
def test_partitions_of_a_state(at: int | str) -> None:
    built = build(("id", LONG), ("region", STRING), by=("identity region",))
    built.commit(entries(built.metadata, [Listed("a", ("eu",))]))
    built.commit(entries(built.metadata, [Listed("b", ("us",))]))
    found = inspect(built.metadata, built.reading(), "partitions", at).to_pylist()
    expected = ["eu"] if at == 1001 else ["eu", "us"]
    assert [row["partition"]["region_0"] for row in found] == expected
