from __future__ import annotations

import decimal
import hashlib
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.paimon.binary_row import decode_row, encode_row
from lakeplane.paimon.deletion_vectors import DELETION_VECTORS
from lakeplane.paimon.manifest_schema import INDEX_COLUMNS, LIST_COLUMNS
from lakeplane.paimon.manifests import entry_rows, parse_manifest, parse_manifest_list
from lakeplane.paimon.new_manifests import (
    NewFile,
    combine_indexes,
    list_row,
    merge_entries,
    next_snapshot,
    plan_merges,
    rows_added,
    stats_row,
    truncated,
    write_manifests,
)
from lakeplane.paimon.options import parse_options
from lakeplane.paimon.plan import plan
from lakeplane.paimon.snapshots import BATCH_COMMIT, parse_snapshot, serialize_snapshot
from lakeplane.paimon.types import parse_type
from tests.paimon.built import Built, make_schema
from tests.paimon.stored import NAMES, stored
from tests.paimon.test_live_files import histories
from tests.paimon.test_manifests import entry

PLAIN = make_schema({"k": "INT"})


@pytest.mark.parametrize("name", NAMES)
def test_lists_tell_of_manifests_what_other_writers_tell(name: str) -> None:
    """Byte by byte, the least and greatest partitions among them."""
    table = stored(name)
    count = 0
    for path, data in table.manifest_lists.items():
        for told in parse_manifest_list(data, path).to_pylist():
            content = table.content[f"manifest/{told['file_name']}"]
            entries = parse_manifest(content, told["file_name"])
            [ours] = list_row(told["file_name"], len(content), entries, table.schema).to_pylist()
            # The number of buckets is told by releases that later ones than 1.3 read.
            known = {
                key: value for key, value in told.items() if value is not None and key != "total_buckets"
            }
            assert {key: ours[key] for key in known} == known
            count += 1
    assert count > 0


@pytest.mark.parametrize("name", NAMES)
def test_snapshots_follow_from_the_one_before_as_other_writers_made_them(name: str) -> None:
    table = stored(name)
    before = None
    for path in sorted(table.starting_with("snapshot/snapshot-")):
        told = parse_snapshot(table.content[path], path)
        lists = [
            NewFile(each, table.content[f"manifest/{each}"])
            for each in (told.base_manifest_list, told.delta_manifest_list)
        ]
        manifests = [
            parse_manifest(table.content[f"manifest/{each}"], each)
            for each in parse_manifest_list(lists[1].data, path)["file_name"].to_pylist()
        ]
        ours = next_snapshot(
            before,
            schema_id=told.schema_id,
            base=lists[0],
            delta=lists[1],
            index_manifest=told.index_manifest,
            commit_user="me",
            commit_identifier=BATCH_COMMIT,
            commit_kind="APPEND",
            time_ms=1,
            delta_rows=sum(map(rows_added, manifests)),
        )
        for field in ("id", "delta_record_count", "total_record_count", "base_manifest_list"):
            assert getattr(ours, field) == getattr(told, field), field
        for size in ("base_manifest_list_size", "delta_manifest_list_size"):
            assert getattr(told, size) in (None, getattr(ours, size))
        assert json.loads(serialize_snapshot(ours))["version"] == 3
        before = told


def test_manifests_are_cut_at_the_size_that_the_table_wants() -> None:
    entries = entry_rows(
        [entry(hashlib.sha256(bytes([number % 256, number // 256])).hexdigest()) for number in range(5000)]
    )
    names = iter(f"manifest-{number}" for number in range(100))
    options = parse_options({"manifest.target-file-size": "20 kb"})
    written = write_manifests(entries, PLAIN, lambda: next(names), options)
    assert len(written.files) > 2
    assert max(len(file.data) for file in written.files) < 30_000
    again = pa.concat_tables([parse_manifest(file.data, file.name) for file in written.files])
    assert again.combine_chunks().equals(entries)
    assert written.listed["file_name"].to_pylist() == [file.name for file in written.files]
    assert sum(written.listed["num_added_files"].to_pylist()) == 5000
    assert write_manifests(entries.slice(0, 0), PLAIN, lambda: "x", options).files == ()


def test_partitions_with_nan_and_null() -> None:
    schema = make_schema({"d": "DOUBLE", "k": "INT"}, partition_by=["d"])
    types = schema.types_of(("d",))
    for values, low, high, nulls in (
        ([1.5, None, math.nan], 1.5, math.nan, 1),
        ([None], None, None, 1),
        ([math.nan], math.nan, math.nan, 0),
        ([2.0, -1.0, 2.0], -1.0, 2.0, 0),
    ):
        rows = [
            entry(f"f{n}", partition=encode_row(types, [v], reserve_null=True)) for n, v in enumerate(values)
        ]
        [told] = list_row("m", 1, entry_rows(rows), schema).to_pylist()
        found = [decode_row(types, told[f"partition_{which}"])[0] for which in ("min", "max")]
        assert str(found) == str([low, high])
        assert told["partition_nulls"] == [nulls]


def test_rows_of_bounds() -> None:
    types = [parse_type(text, "") for text in ("INT", "DECIMAL(20, 2)", "VARIANT", "STRING")]
    row = stats_row(types, [pa.scalar(3), decimal.Decimal("1.50"), None, "x"])
    assert decode_row(types, row) == (3, decimal.Decimal("1.50"), None, "x")
    assert stats_row([], []) == bytes(12)


def test_long_texts_are_cut_to_bounds_that_hold() -> None:
    assert truncated("cccccccccccccccccc", 16, top=True) == "c" * 15 + "d"
    assert truncated("cccccccccccccccccc", 16, top=False) == "c" * 16
    assert truncated("short", 16, top=True) == "short"
    assert truncated("\U0010ffff" * 20, 16, top=True) is None


@given(st.text(max_size=30))
def test_bounds_of_texts_hold(text: str) -> None:
    low, high = truncated(text, 4, top=False), truncated(text, 4, top=True)
    assert low is not None
    assert low.encode("utf-8", "surrogatepass") <= text.encode("utf-8", "surrogatepass")
    assert high is None or high.encode("utf-8", "surrogatepass") >= text.encode("utf-8", "surrogatepass")


def listed(*manifests: tuple[int, int]) -> pa.Table:
    rows = [
        {"file_name": f"m{number}", "file_size": size, "num_added_files": 3, "num_deleted_files": deletes}
        for number, (size, deletes) in enumerate(manifests)
    ]
    return pa.Table.from_pylist(rows, LIST_COLUMNS)


def test_which_manifests_are_merged() -> None:
    options = parse_options(
        {
            "manifest.target-file-size": "100",
            "manifest.full-compaction-threshold-size": "1000",
            "manifest.merge-min-count": "3",
        }
    )

    def names(*manifests: tuple[int, int]) -> tuple[list[str], list[list[str]], bool]:
        found = plan_merges(listed(*manifests), options)
        groups = [group["file_name"].to_pylist() for group in found.groups]
        return found.kept["file_name"].to_pylist(), groups, found.full

    assert names((10, 0), (10, 0)) == (["m0", "m1"], [], False)
    assert names((10, 0), (10, 0), (10, 0)) == ([], [["m0", "m1", "m2"]], False)
    assert names((200, 0), (60, 0), (60, 0), (10, 0)) == (["m0", "m3"], [["m1", "m2"]], False)
    assert names((200, 0), (600, 1), (600, 1)) == ([], [["m0", "m1", "m2"]], True)
    assert names((2000, 0), *[(99, 0)] * 11) == (["m0"], [[f"m{number}" for number in range(1, 12)]], True)
    assert names() == ([], [], False)


@given(histories(), st.integers(0, 12))
def test_merged_manifests_hold_the_same_files(entries: list[dict[str, object]], cut: int) -> None:
    whole = entry_rows(entries)
    tables = [whole.slice(0, cut), whole.slice(cut)]
    full = merge_entries(tables, full=True, source="x")
    minor = merge_entries(tables, full=False, source="x")
    assert set(full["kind"].to_pylist()) <= {0}
    assert sorted(full["file_name"].to_pylist()) == sorted(minor["file_name"].to_pylist())


def test_a_table_whose_manifests_were_merged_reads_the_same() -> None:
    table = Built(make_schema({"k": "INT"}, options={"manifest.merge-min-count": "2"}))
    first = [table.file([{"k": number}]) for number in range(4)]
    table.commit(first[:2])
    table.commit(first[2:], first[:1])
    expected = plan(table.files).files["file_name"].to_pylist()
    merging = plan_merges(table.base, table.schema.settings)
    [group] = merging.groups
    contents = [
        parse_manifest(table.content[f"manifest/{name}"], name) for name in group["file_name"].to_pylist()
    ]
    merged = merge_entries(contents, full=merging.full, source="x")
    written = write_manifests(merged, table.schema, lambda: table.name("manifest"), table.schema.settings)
    for file in written.files:
        table.content[f"manifest/{file.name}"] = file.data
    table.base = written.listed
    table.commit()
    assert plan(table.files).files["file_name"].to_pylist() == expected
    assert plan(table.files).counts.manifests == 1


def index(name: str, bucket: int, kind: str, *vectors: str) -> dict[str, object]:
    ranges = [{"f0": each, "f1": 1, "f2": 2, "_CARDINALITY": 1} for each in vectors]
    told = {"kind": 0, "partition": bytes(12), "bucket": bucket, "index_type": kind, "file_name": name}
    return {**told, "file_size": 1, "row_count": 1, "ranges": ranges or None}


def indexes(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), INDEX_COLUMNS)


def test_an_index_manifest_is_the_whole_state() -> None:
    none = indexes()
    before = combine_indexes(
        None, indexes(index("h0", 0, "HASH"), index("h1", 1, "HASH")), none, by_bucket=True
    )
    after = combine_indexes(
        before, indexes(index("h2", 0, "HASH"), index("d", 0, DELETION_VECTORS, "a")), none, by_bucket=True
    )
    assert sorted(after["file_name"].to_pylist()) == ["d", "h1", "h2"]
    gone = combine_indexes(after, none, indexes(index("d", 0, DELETION_VECTORS)), by_bucket=True)
    assert sorted(gone["file_name"].to_pylist()) == ["h1", "h2"]
    with pytest.raises(InvalidInput, match="not there"):
        combine_indexes(gone, none, indexes(index("d", 0, DELETION_VECTORS)), by_bucket=True)


def test_vectors_without_buckets_are_told_apart_by_their_files() -> None:
    none = indexes()
    one, two = index("d1", 0, DELETION_VECTORS, "a"), index("d2", 0, DELETION_VECTORS, "b")
    both = combine_indexes(indexes(one), indexes(two), none, by_bucket=False)
    assert both.num_rows == 2
    with pytest.raises(InvalidInput, match="there already"):
        combine_indexes(both, indexes(one), none, by_bucket=False)
    with pytest.raises(InvalidInput, match="two deletion vectors"):
        combine_indexes(both, indexes(index("d3", 0, DELETION_VECTORS, "a")), none, by_bucket=False)
    replaced = combine_indexes(
        both, indexes(index("d3", 0, DELETION_VECTORS, "a")), indexes(one), by_bucket=False
    )
    assert sorted(replaced["file_name"].to_pylist()) == ["d2", "d3"]
