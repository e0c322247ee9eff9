"""Tables that we have changed, over plain Parquet files: PyIceberg and DuckDB read them and go on."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeplane as lp
from lakeplane.changing import publish_change
from lakeplane.iceberg.changes import Append, Change, DeleteFiles, Overwrite, OverwritePartitions, Rewrite
from lakeplane.iceberg.cherrypick import Cherrypick
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import plan
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.frozen import EMPTY
from lakeplane.model.types import LONG
from lakeplane.model.value_bytes import to_bytes
from tests.interop.peers import ask
from tests.interop.plain_rows import local, reading

NAME = "shop.events"


class Events:
    """A table of ours, in partitions named ``p``, with real files."""

    def __init__(self, lake: lp.Lake, version: int, **properties: str) -> None:
        lake.create_namespace("shop")
        self.lake = lake
        lake.create_table(
            NAME,
            "id BIGINT, p STRING",
            partition_by=["p"],
            properties={"format-version": str(version), **properties},
        )
        self._numbers = itertools.count()

    @property
    def table(self) -> lp.Table:
        found = self.lake.table(NAME)
        assert isinstance(found, lp.Table)
        return found

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    def files(self, p: str, *ids: int) -> tuple[NewFiles, ...]:
        """A file that plain pyarrow has written."""
        path = f"{self.metadata.location}/data/{next(self._numbers)}.parquet"
        local(path).parent.mkdir(exist_ok=True)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids))})
        pq.write_table(rows.cast(to_arrow(self.metadata.schema)), local(path), store_schema=False)
        counts = pa.map_(pa.int32(), pa.int64())
        bounds = pa.map_(pa.int32(), pa.binary())
        columns: dict[str, Any] = {
            "file_path": [path],
            "file_format": ["PARQUET"],
            "record_count": [len(ids)],
            "file_size_in_bytes": [local(path).stat().st_size],
            "partition": pa.array([{"1000": p}], pa.struct({"1000": pa.string()})),
            "value_counts": pa.array([[(1, len(ids))]], counts),
            "null_value_counts": pa.array([[(1, 0)]], counts),
            "lower_bounds": pa.array([[(1, to_bytes(LONG, min(ids)))]], bounds),
            "upper_bounds": pa.array([[(1, to_bytes(LONG, max(ids)))]], bounds),
        }
        return (NewFiles(0, pa.table(columns)),)

    def commit(self, change: Change) -> int | None:
        table = self.table
        return publish_change(table._catalog, table._entry, ManifestCache(), change).snapshot_id

    def named(self, *ids: int) -> pa.Table:
        """The files that hold some rows."""
        files = plan(self.metadata, reading()).files
        keep = [
            bool(set(ids) & set(pq.read_table(local(path))["id"].to_pylist()))
            for path in files["file_path"].to_pylist()
        ]
        return files.filter(pa.array(keep, pa.bool_()))

    def change_in_every_way(self) -> list[int]:
        """Do some of everything, and give the ids that are left."""

        def where(text: str) -> Any:
            return parse_predicate(text, self.metadata.schema)

        self.commit(Append(files=(*self.files("x", 1, 2, 3), *self.files("y", 4, 5))))
        self.commit(Append(files=(*self.files("z", 6), *self.files("x", 7, 8))))
        self.commit(Overwrite(files=self.files("x", 11, 12), where=where("p = 'x' AND id < 7")))
        self.commit(OverwritePartitions(files=self.files("y", 14)))
        read = self.commit(Append(files=self.files("w", 15, 16)))
        assert read is not None
        self.commit(
            Rewrite(remove=self.named(7, 11), files=self.files("x", 7, 8, 11, 12), validate_from=read)
        )
        staged = self.commit(Append(files=self.files("v", 20, 21), stage_only=True))
        self.commit(DeleteFiles(where=where("p = 'z'")))
        self.commit(Cherrypick(snapshot_id=staged))
        self.commit(Append(files=self.files("dev", 99), branch="dev"))
        return [7, 8, 11, 12, 14, 15, 16, 20, 21]


@pytest.mark.parametrize("merges", [{}, {"commit.manifest.min-count-to-merge": "2"}], ids=["few", "merged"])
@pytest.mark.parametrize(
    ("version", "readers"),
    [(1, ["pyiceberg_scan"]), (2, ["pyiceberg_scan", "duckdb_scan"]), (3, ["duckdb_scan"])],
)
def test_others_read_what_was_changed_in_every_way(
    tmp_path: Path, version: int, readers: list[str], merges: dict[str, str]
) -> None:
    events = Events(lp.connect(tmp_path), version, **merges)
    left = events.change_in_every_way()
    conditions = ["", "p = 'x'", "id >= 14"]
    expected = [left, [7, 8, 11, 12], [14, 15, 16, 20, 21]]
    for reader in readers:
        assert ask(reader, [[events.table.metadata_location, conditions]]) == [expected], reader


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_goes_on_with_a_table_of_ours_and_we_with_its(tmp_path: Path, version: int) -> None:
    database = tmp_path / "catalog.db"
    lake = lp.connect(f"sqlite:///{database}", warehouse=tmp_path / "w", catalog_name="shared")
    events = Events(lake, version)
    question = {"file": str(database), "warehouse": str(tmp_path / "w"), "name": "shared", "table": NAME}
    left = events.change_in_every_way()
    theirs = ask("pyiceberg_append", {**question, "ids": [100, 101]})
    assert theirs["ids"] == [*left, 100, 101]
    events.commit(Append(files=events.files("x", 200)))
    events.commit(DeleteFiles(where=parse_predicate("p = 'theirs'", events.metadata.schema)))
    answer = ask("pyiceberg_append", {**question, "ids": []})
    assert answer["ids"] == [*left, 200]
    last = answer["summaries"][-1]
    assert (last["total-records"], last["deleted-records"]) == (str(len(left) + 1), "2")


def test_summaries_are_those_of_pyiceberg_for_the_same_change(tmp_path: Path) -> None:
    """Both append two rows to the same table: but for the bytes of the files, they tell the same."""
    database = tmp_path / "catalog.db"
    lake = lp.connect(f"sqlite:///{database}", warehouse=tmp_path / "w", catalog_name="shared")
    events = Events(lake, 2)
    question = {"file": str(database), "warehouse": str(tmp_path / "w"), "name": "shared", "table": NAME}
    events.commit(Append(files=events.files("ours", 1, 2)))
    ask("pyiceberg_append", {**question, "ids": [3, 4]})
    ours, theirs = (dict(each.summary or EMPTY) for each in events.metadata.snapshots)
    per_table = {"total-data-files": "2", "total-records": "4"}
    assert {name: theirs[name] for name in per_table} == per_table
    left_out = {"added-files-size", "total-files-size", *per_table}
    told = {name: value for name, value in theirs.items() if name not in left_out}
    assert {name: ours.get(name) for name in told} == told
    assert ours["total-records"] == "2"
