from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg.manifest_list import (
    ManifestFile,
    inline_list,
    list_table,
    manifest_files,
    publish_list,
)
from lakeplane.iceberg.manifest_merge import (
    MergedManifests,
    MergeRules,
    complete,
    merge_manifests,
    merge_rules,
    pack_from_end,
    plan_merges,
)
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    FILE_COLUMNS,
)
from lakeplane.iceberg.manifest_write import Written, write_manifest
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.schema import Schema
from lakeplane.model.types import INT, LONG, Field
from tests.iceberg.manifest_rows import (
    EARLIER,
    SNAPSHOT,
    data_rows,
    delete_rows,
    listed,
    older,
    plain_table,
    table,
    upgraded,
    writing,
)

NUMBERS = ["status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"]
OF = plain_table()


def sized(*lengths: int, **more: Any) -> list[ManifestFile]:
    return [listed(f"m{n}", manifest_length=length, **more) for n, length in enumerate(lengths)]


def lengths(groups: list[tuple[ManifestFile, ...]]) -> list[list[int | None]]:
    return [[each.manifest_length for each in group] for group in groups]


# Which ones


# From Java: TestBinPacking.testReverseBinPackingSingleLookback
@pytest.mark.parametrize(
    ("target", "packed"),
    [
        (3, [[1, 2], [3], [4], [5]]),
        (4, [[1, 2], [3], [4], [5]]),
        (5, [[1], [2, 3], [4], [5]]),
        (6, [[1, 2, 3], [4], [5]]),
        (7, [[1, 2], [3, 4], [5]]),
        (8, [[1, 2], [3, 4], [5]]),
        (9, [[1, 2, 3], [4, 5]]),
        (11, [[1, 2, 3], [4, 5]]),
        (12, [[1, 2], [3, 4, 5]]),
        (14, [[1], [2, 3, 4, 5]]),
        (15, [[1, 2, 3, 4, 5]]),
    ],
)
def test_manifests_are_packed_from_the_oldest_on(target: int, packed: list[list[int]]) -> None:
    assert lengths(pack_from_end(sized(1, 2, 3, 4, 5), target)) == packed


def test_the_newest_wait_until_there_are_enough() -> None:
    few = sized(*[1] * 3)
    assert plan_merges(few, OF, MergeRules(min_count=4)) == [(each,) for each in few]
    assert plan_merges(few, OF, MergeRules(min_count=3)) == [tuple(few)]


def test_older_ones_that_are_packed_without_the_newest_do_not_wait() -> None:
    groups = plan_merges(sized(1, 2, 3, 4, 5), OF, MergeRules(target_bytes=9, min_count=100))
    assert lengths(groups) == [[1], [2], [3], [4, 5]]


def test_a_manifest_of_its_own_stays_as_it_is() -> None:
    assert lengths(plan_merges(sized(9, 1), OF, MergeRules(target_bytes=5, min_count=1))) == [[9], [1]]


def test_data_and_deletes_are_merged_apart_and_specs_too() -> None:
    of = msgspec.structs.replace(
        OF, partition_specs=(OF.partition_spec, msgspec.structs.replace(OF.partition_spec, spec_id=1))
    )
    manifests = [
        listed(f"{content}{spec_id}{n}", partition_spec_id=spec_id, content=content)
        for n in range(2)
        for content in (DELETE_MANIFEST, DATA_MANIFEST)
        for spec_id in (0, 1)
    ]
    groups = plan_merges(manifests, of, MergeRules(min_count=2))
    assert [[each.manifest_path for each in group] for group in groups] == [
        ["010", "011"],
        ["000", "001"],
        ["110", "111"],
        ["100", "101"],
    ]


def test_a_table_may_say_that_nothing_is_merged() -> None:
    manifests = sized(*[1] * 200)
    off = merge_rules({"commit.manifest-merge.enabled": "False"})
    assert plan_merges(manifests, OF, off) == [(each,) for each in manifests]
    assert len(plan_merges(manifests, OF, merge_rules({}))) == 1


def test_rules_are_those_of_the_table() -> None:
    assert merge_rules({}) == MergeRules(8 * 2**20, 100, enabled=True)
    given = {"commit.manifest.target-size-bytes": "1000", "commit.manifest.min-count-to-merge": "3"}
    assert merge_rules(given) == MergeRules(1000, 3, enabled=True)
    broken = {"commit.manifest.target-size-bytes": "-1", "commit.manifest.min-count-to-merge": "many"}
    assert merge_rules(broken) == MergeRules()


def test_what_cannot_be_written_again_stays() -> None:
    encrypted = sized(1, 1, key_metadata=b"key")
    assert plan_merges(encrypted, OF, MergeRules(min_count=1)) == [(each,) for each in encrypted]
    of = table()
    other = Schema((Field(100, "other", INT),))
    lost = msgspec.structs.replace(of, schemas=(other,), current_schema_id=other.schema_id)
    assert len(plan_merges(sized(1, 1), of, MergeRules(min_count=1))) == 1
    assert len(plan_merges(sized(1, 1), lost, MergeRules(min_count=1))) == 2


def test_manifests_of_unknown_size_are_refused() -> None:
    with pytest.raises(InvalidInput, match="m: its size and spec are not known"):
        plan_merges(manifest_files(inline_list(["m"])), OF, MergeRules())


# What is written


def made(rows: pa.Table, path: str, of: TableMetadata, content: int = DATA_MANIFEST, **more: Any) -> Written:
    """A manifest that an earlier snapshot has published."""
    written = write_manifest(rows, 0, content, path, writing(of, snapshot_id=EARLIER))
    known = {"sequence_number": 5, "min_sequence_number": written.listed.min_sequence_number or 5, **more}
    return Written(written.data, msgspec.structs.replace(written.listed, **known))


def merge(of: TableMetadata, *manifests: Written) -> Written:
    group = tuple(each.listed for each in manifests)
    return merge_manifests(group, [each.data for each in manifests], "merged", writing(of))


def entries(of: TableMetadata, written: Written, sequence_number: int | None, **more: Any) -> pa.Table:
    published = msgspec.structs.replace(written.listed, sequence_number=sequence_number, **more)
    return read_manifest(written.data, published, of, columns=FILE_COLUMNS.names).entries


def told(found: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in found.select(NUMBERS).to_pylist()]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_merged_entries_keep_all_that_they_tell(version: int) -> None:
    of = table(version)
    first, second = made(data_rows(of, 4), "a", of), made(data_rows(of, 3), "b", of)
    merged = merge(of, first, second)
    then, now = (5, 9) if version > 1 else (0, 0)
    before = pa.concat_tables([entries(of, each, then) for each in (first, second)])
    found = entries(of, merged, now)
    names = [*FILE_COLUMNS.names, "partition", "snapshot_id"]
    assert found.select(names).equals(before.select(names))
    assert found["status"].to_pylist() == [EXISTING] * 7
    assert merged.listed.partitions == first.listed.partitions
    assert (merged.listed.existing_files_count, merged.listed.existing_rows_count) == (7, 46 + 33)
    assert (merged.listed.added_files_count, merged.listed.deleted_files_count) == (0, 0)
    assert merged.listed.added_snapshot_id == SNAPSHOT


def test_entries_keep_their_snapshots_numbers_and_row_ids() -> None:
    of = plain_table(3)
    old = made(
        pa.concat_tables(
            [
                data_rows(of, 1, **{**older(1), "sequence_number": [2], "file_sequence_number": [3]}),
                data_rows(of, 1),
                data_rows(of, 1, **{**older(1, DELETED), "snapshot_id": [EARLIER]}),
            ],
            promote_options="default",
        ),
        "old",
        of,
        first_row_id=1000,
    )
    rewritten = data_rows(of, 1, **{**older(1), "first_row_id": [700]})
    gone = data_rows(of, 1, **older(1, DELETED), first_row_id=[800])
    fresh = data_rows(of, 2, snapshot_id=[None, None], sequence_number=[None, 4])
    new = write_manifest(
        pa.concat_tables([fresh, rewritten, gone], promote_options="default"), 0, 0, "new", writing(of)
    )
    merged = merge(of, new, old)
    assert told(entries(of, merged, None)) == [
        (ADDED, SNAPSHOT, None, None, None),
        (ADDED, SNAPSHOT, 4, None, None),
        (EXISTING, EARLIER, 5, 6, 700),
        (DELETED, SNAPSHOT, 5, 6, 800),
        (EXISTING, EARLIER, 2, 3, 1000),
        (EXISTING, EARLIER, 5, 5, 1010),
    ]
    assert (merged.listed.min_sequence_number, merged.listed.sequence_number) == (2, None)
    published, taken = publish_list(list_table([merged.listed]), 9, 2000)
    assert (published["sequence_number"].to_pylist(), published["first_row_id"].to_pylist()) == ([9], [2000])
    assert taken >= 21
    assert [each[2:] for each in told(entries(of, merged, 9, first_row_id=2000))] == [
        (9, 9, 2000),
        (4, 9, 2010),
        (5, 6, 700),
        (5, 6, 800),
        (2, 3, 1000),
        (5, 5, 1010),
    ]


def test_files_of_upgraded_tables_without_row_ids_get_them_from_the_merged_manifest() -> None:
    before, of = plain_table(2), plain_table(3)
    old = made(data_rows(before, 2), "old", before)
    merged = merge(of, old, made(data_rows(of, 1), "with ids", of, first_row_id=50))
    assert [each[-1] for each in told(entries(of, merged, None))] == [None, None, 50]
    assert [each[-1] for each in told(entries(of, merged, 9, first_row_id=100))] == [100, 110, 50]


@pytest.mark.parametrize(("before", "now"), [(1, 2), (1, 3), (2, 3)])
def test_older_manifests_are_written_in_the_version_of_the_table(before: int, now: int) -> None:
    of = table(before)
    numbers = {"sequence_number": 0, "min_sequence_number": 0} if before == 1 else {}
    old = made(data_rows(of, 2), "old", of, **numbers)
    merged = merge(upgraded(of, now), old, old)
    assert f"format-version{chr(2)}{now}".encode() in merged.data
    number = 0 if before == 1 else 5
    assert told(entries(upgraded(of, now), merged, 9)) == [(EXISTING, EARLIER, number, number, None)] * 4
    assert merged.listed.min_sequence_number == number


def test_deletes_are_merged_alike() -> None:
    of = table()
    first, second = (made(delete_rows(of, 3), path, of, DELETE_MANIFEST) for path in "ab")
    merged = merge(of, first, second)
    found = entries(of, merged, 9)
    assert found["content"].to_pylist() == [1, 1, 2] * 2
    assert found["equality_ids"].to_pylist() == [None, None, [1, 2]] * 2
    assert found["sequence_number"].to_pylist() == [5] * 6
    assert merged.listed.content == DELETE_MANIFEST


def test_what_does_not_belong_together_is_not_merged() -> None:
    of = table()
    data, deletes = made(data_rows(of, 1), "a", of), made(delete_rows(of, 1), "b", of, DELETE_MANIFEST)
    with pytest.raises(InvalidInput, match="merged: manifests of several specs or contents"):
        merge(of, data, deletes)
    encrypted = msgspec.structs.replace(data.listed, key_metadata=b"key")
    with pytest.raises(NotSupported, match="a: the manifest is encrypted"):
        merge(of, Written(data.data, encrypted))


# What early lists do not tell


def test_what_a_v1_snapshot_does_not_tell_of_its_manifests_is_read_from_them() -> None:
    of = plain_table(1)
    rows = pa.concat_tables(
        [data_rows(of, 2), data_rows(of, 1, status=[EXISTING], snapshot_id=[7])], promote_options="default"
    )
    written = made(rows, "m", of, sequence_number=0, min_sequence_number=0)
    [named] = manifest_files(inline_list(["m"]))
    assert complete(named, written.data, of) == msgspec.structs.replace(written.listed, partitions=None)
    uncounted = msgspec.structs.replace(written.listed, added_rows_count=None)
    assert complete(uncounted, written.data, of) == written.listed


# What was written


def test_what_was_merged_is_used_again_and_what_is_not_published_is_given_back() -> None:
    merged, change = MergedManifests(), writing(OF)
    first, second, third = sized(1, 2, 3)
    assert merged.get((first, second), change) is None
    merged.remember((first, second), change, listed("one"))
    merged.remember((second, third), change, listed("two"))
    assert merged.get((first, second), change) == listed("one")
    assert merged.get((second, first), change) is None
    assert merged.unused({"one"}) == ("two",)
    assert merged.unused({"one", "two"}) == ()
    assert merged.unused(()) == ("one", "two")


def test_what_was_merged_does_not_outlive_what_it_was_made_of() -> None:
    """Harm: another commit gave ids to the rows of an upgraded table, and the retry gave them others."""
    merged, change = MergedManifests(), writing(plain_table(3))
    group = tuple(sized(1, 2, first_row_id=None))
    merged.remember(group, change, listed("one"))
    given = tuple(msgspec.structs.replace(each, first_row_id=0) for each in group)
    assert merged.get(given, change) is None
    assert merged.get(group, writing(plain_table(2))) is None
    assert merged.get(group, change) == listed("one")


def test_a_column_of_a_long_has_the_type_of_today() -> None:
    """Partitions of promoted columns are written with the type that the column has now."""
    of = table()
    wider = Schema(
        tuple(
            msgspec.structs.replace(each, type=LONG) if each.type is INT else each
            for each in of.schema.fields
        )
    )
    now = msgspec.structs.replace(of, schemas=(wider,))
    old = made(data_rows(of, 3), "old", of)
    merged = merge(now, old, made(data_rows(now, 3), "new", now))
    values = entries(now, merged, 9)["partition"].combine_chunks().field("1001")
    assert values.type == pa.int64()
    assert values.to_pylist() == [-(2**31), 2**31 - 1, None, -(2**63), 2**63 - 1, None]
