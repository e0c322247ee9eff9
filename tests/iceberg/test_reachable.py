"""All files that a table names are found, whichever snapshot, branch or log names them."""

from __future__ import annotations

import pytest

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.manifest_schema import DELETED
from lakeplane.iceberg.reachable import reachable
from lakeplane.iceberg.snapshots import MetadataLogEntry
from lakeplane.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from lakeplane.model.types import LONG
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, deletes, entries, with_metadata


def found(built: BuiltTable) -> list[str]:
    return list(reachable(built.metadata, built.reading()))


@pytest.fixture
def built() -> BuiltTable:
    """Files that came, went, and are on a branch only; deletes; statistics; a log."""
    made = build(("id", LONG), format_version=2)
    made.commit(entries(made.metadata, [Listed("a"), Listed("b")]))
    gone = {"snapshot_id": 1001, "sequence_number": 1}
    made.commit(
        entries(made.metadata, [Listed("a", (), status=DELETED, more=gone), Listed("c")]),
        operation="overwrite",
        keep=(),
    )
    made.commit(entries(made.metadata, [Listed("side")]), branch="side")
    vector = {
        "referenced_data_file": "c",
        "file_format": "PUFFIN",
        "content_offset": 4,
        "content_size_in_bytes": 9,
    }
    made.commit(
        deletes(
            made.metadata,
            [
                Listed("p"),
                Listed("e", (), content=2, more={"equality_ids": [1]}),
                Listed("v.puffin", (), more=vector),
            ],
        ),
        operation="delete",
    )
    made.change(
        u.SetStatistics(
            StatisticsFile(
                snapshot_id=1001,
                statistics_path="s.puffin",
                file_size_in_bytes=1,
                file_footer_size_in_bytes=1,
                blob_metadata=(),
            )
        ),
        u.SetPartitionStatistics(
            PartitionStatisticsFile(snapshot_id=1001, statistics_path="ps.parquet", file_size_in_bytes=1)
        ),
    )
    with_metadata(made, metadata_log=(MetadataLogEntry(timestamp_ms=1, metadata_file="v1.metadata.json"),))
    return made


def test_everything_that_is_named_is_found(built: BuiltTable) -> None:
    assert set(found(built)) == {
        *("a", "b", "c", "side", "p", "e", "v.puffin"),
        *("s.puffin", "ps.parquet", "v1.metadata.json"),
        *built.files,
    }


def test_rows_come_before_what_names_them(built: BuiltTable) -> None:
    """If deleting stops half way, what is left can still be found."""
    order = {path: n for n, path in enumerate(found(built))}
    manifests = [order[path] for path in order if "-m" in path]
    assert max(order[path] for path in ("a", "b", "c", "side", "p", "e", "v.puffin")) < min(manifests)
    assert max(manifests) < min(order[path] for path in order if "snap-" in path)


def test_an_empty_table_names_nothing() -> None:
    assert found(build(("id", LONG))) == []


def test_of_a_file_that_cannot_be_read_nothing_is_guessed(built: BuiltTable) -> None:
    for path in list(built.files):
        whole = built.files[path]
        for broken in (b"", whole[: len(whole) // 2], b"nonsense"):
            built.files[path] = broken
            with pytest.raises(InvalidMetadata) as failure:
                found(built)
            assert failure.value.source == path
        built.files[path] = whole


def test_v1_snapshots_that_name_their_manifests_are_followed() -> None:
    built = build(("id", LONG), format_version=1)
    for name in "ab":
        built.commit(entries(built.metadata, [Listed(name)]))
    first, second = built.metadata.snapshots
    paths = [each.manifest_path for each in built.manifests()]
    inline = type(first)(
        snapshot_id=first.snapshot_id, timestamp_ms=first.timestamp_ms, manifests=tuple(paths[1:])
    )
    with_metadata(built, snapshots=(inline, second))
    assert sorted(found(built)) == sorted(["a", "b", *paths, second.manifest_list or ""])
