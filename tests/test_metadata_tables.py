"""Metadata tables at the front door: of a table in a directory, read through its store."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeplane as lp
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.model.types import LONG, STRING
from tests.iceberg.built import Listed, bounds, build, deletes, entries, with_metadata


@pytest.fixture
def table(tmp_path: Path) -> lp.Table:
    """A table of two commits, written by hand and registered."""
    built = build(("id", LONG), ("region", STRING), by=("identity region",), name="t")
    with_metadata(built, location=f"file://{tmp_path}/t")
    listed = Listed(f"file://{tmp_path}/t/data/a", ("eu",), {1: bounds(LONG, 3, 8)}, rows=10)
    built.commit(entries(built.metadata, [listed]))
    built.commit(deletes(built.metadata, [Listed(f"file://{tmp_path}/t/data/d", ("eu",), rows=2)]))
    place = f"file://{tmp_path}/t/metadata/v1.metadata.json"
    built.files[place] = serialize_metadata(built.metadata)
    for path, data in built.files.items():
        file = Path(path.removeprefix("file://"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    lake = lp.connect("memory:", warehouse=tmp_path)
    lake.create_namespace("shop")
    lake.register_table("shop.orders", place)
    found = lake.table("shop.orders")
    assert isinstance(found, lp.Table)
    return found


def test_a_table_tells_of_its_files_now_and_before(table: lp.Table) -> None:
    files = table.inspect("files")
    assert files["content"].to_pylist() == [1, 0]
    assert files["partition"].to_pylist() == [{"region_0": "eu"}] * 2
    assert files["readable_metrics"][1].as_py()["id"]["upper_bound"] == 8
    assert table.inspect("files", at=1001)["content"].to_pylist() == [0]
    assert table.inspect("files", at="main").equals(files)
    [partition] = table.inspect("partitions").to_pylist()
    assert (partition["record_count"], partition["position_delete_record_count"]) == (10, 2)


def test_the_log_ends_with_the_file_that_the_table_was_loaded_from(table: lp.Table) -> None:
    with table.evolve() as change:
        change.set_properties(a="1")
    files = table.inspect("metadata_log_entries")["file"].to_pylist()
    assert files == [*(each.metadata_file for each in table.metadata.metadata_log), table.metadata_location]
    assert len(files) == 2


def test_a_name_that_is_no_metadata_table_is_refused(table: lp.Table) -> None:
    with pytest.raises(lp.InvalidInput, match="position_deletes, refs, snapshots"):
        table.inspect("file")
