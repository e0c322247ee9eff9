"""Deletes that are written: against sets of pairs of a file and a position, and as plain Arrow reads them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.files.write_deletes import NewDeletes, write_position_deletes
from lakeplane.files.write_equality import write_equality_deletes
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.changes import Append, RowDelta
from lakeplane.iceberg.deletion_vectors import VectorEntry, check_entry
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.puffin import read_footer
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import Bucket
from lakeplane.model.types import DOUBLE, LONG, STRING, Field, Struct, Type
from tests.iceberg.built import Listed
from tests.iceberg.changing import Changing, changing

COLUMNS: tuple[tuple[str, Type], ...] = (("id", LONG), ("p", STRING))
ROWS = 20


class World:
    """A table whose data files exist by name only; what is deleted of them is written for real."""

    def __init__(self, version: int, **properties: str) -> None:
        self.made: Changing = changing(*COLUMNS, by=["identity p"], format_version=version)
        if properties:
            names = {f"write.delete.{name.replace('_', '-')}": text for name, text in properties.items()}
            self.set_properties(names)
        new = self.made.new(
            *(Listed(name, (p,), {}, ROWS) for name, p in (("a", "x"), ("b", "x"), ("c", "y")))
        )
        self.made.commit(Append(files=new))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.made.built.change(u.SetProperties(FrozenDict(dict(properties))))

    def plan(self, where: str | None = None) -> ReadPlan:
        return plan(self.made.table, self.made.built.reading(), where)

    def read_ranges(self, parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        return [self.made.built.files[path][start : start + size] for path, start, size in parts]

    def put(self, path: str, data: bytes) -> None:
        assert path not in self.made.built.files, "a file was written twice"
        self.made.built.files[path] = data

    def write(self, /, **names: set[int]) -> NewDeletes:
        return self.write_for(self.plan(), names)

    def write_for(self, found: ReadPlan, names: Mapping[str, set[int]]) -> NewDeletes:
        at = {path.rpartition("/")[2]: row for row, path in enumerate(found.files["file_path"].to_pylist())}
        positions = {at[name]: BitMap64(given) for name, given in names.items() if name in at}
        return write_position_deletes(found, positions, self.put, self.read_ranges)

    def commit(self, new: NewDeletes) -> Snapshot:
        since = self.made.table.current_snapshot_id
        return self.made.commit(
            RowDelta(**new._asdict(), isolation="serializable", validate_from=since, refuse_new_deletes=False)
        )

    def delete(self, **names: set[int]) -> Snapshot:
        return self.commit(self.write(**names))

    def live(self) -> dict[str, set[int]]:
        found = self.plan()
        gone = deleted_positions(found.files, found.deletes, self.read_ranges)
        return {
            path.rpartition("/")[2]: set(range(ROWS)) - set(gone.get(row, ()))
            for row, path in enumerate(found.files["file_path"].to_pylist())
        }

    def kinds(self) -> list[tuple[str, str]]:
        """The formats of the deletes, and the files that they are about."""
        told = self.plan().deletes.select(["file_format", "referenced_data_file"]).to_pylist()
        return sorted((each["file_format"], (each["referenced_data_file"] or "")[-1:]) for each in told)


def rows_of(new: Sequence[NewFiles]) -> list[dict[str, Any]]:
    return [row for each in new for row in each.files.to_pylist()]


SETS = st.dictionaries(
    st.sampled_from("abc"), st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=ROWS), min_size=1
)


@settings(max_examples=12)
@given(turns=st.lists(SETS, min_size=1, max_size=3), kind=st.sampled_from(["file", "partition", "vectors"]))
def test_whatever_is_deleted_is_gone_and_nothing_else(turns: list[dict[str, set[int]]], kind: str) -> None:
    world = World(3) if kind == "vectors" else World(2, granularity=kind)
    left = {name: set(range(ROWS)) for name in "abc"}
    for turn in turns:
        world.delete(**turn)
        left = {name: rows - turn.get(name, set()) for name, rows in left.items()}
        live = world.live()
        assert {name: rows for name, rows in live.items() if rows} == {n: r for n, r in left.items() if r}
        if kind == "vectors":
            about = [name for _, name in world.kinds()]
            assert len(about) == len(set(about)), "a file has one vector"
        if kind != "partition":
            assert all(live.values()), "files without rows go"


# Vectors


def test_vectors_share_a_file_whatever_partitions_they_are_in() -> None:
    world = World(3)
    new = world.write(a={1}, b={2, 3}, c={4})
    rows = rows_of(new.deletes)
    [path] = {row["file_path"] for row in rows}
    data = world.made.built.files[path]
    footer = read_footer(data, source=path)
    assert len(footer.blobs) == 3
    for row in rows:
        told = (row["content_offset"], row["content_size_in_bytes"], row["record_count"])
        check_entry(footer, VectorEntry(row["referenced_data_file"], *told), source=path)
        assert (row["file_size_in_bytes"], row["content"], row["file_format"]) == (len(data), 1, "PUFFIN")
    assert path.endswith("-deletes.puffin")


def test_files_of_vectors_are_of_the_size_that_is_asked_for() -> None:
    world = World(3, target_file_size_bytes="100")
    assert len({row["file_path"] for row in rows_of(world.write(a={1}, b={2}, c={4}).deletes)}) == 3


def test_what_is_deleted_already_is_not_deleted_again() -> None:
    world = World(3)
    world.delete(a={1, 2, 3})
    new = world.write(a={2, 3})
    assert (new.deletes, new.deletes_from.num_rows, new.remove_deletes.num_rows) == ((), 0, 0)


def test_a_file_without_rows_goes_and_takes_its_vector_along() -> None:
    world = World(3)
    world.delete(a=set(range(10)))
    new = world.write(a=set(range(10, ROWS)))
    assert (len(new.deletes), new.remove.num_rows) == (0, 1)
    done = world.commit(new)
    assert world.kinds() == []
    assert done.summary is not None
    assert (done.operation, done.summary["removed-dvs"]) == ("delete", "1")


def test_deletes_of_many_files_go_when_each_of_the_files_has_a_vector() -> None:
    world = World(2, granularity="partition")
    world.delete(a={1}, b={1}, c={1})
    world.made.built.change(u.UpgradeFormatVersion(3))
    world.delete(a={2})
    assert world.kinds() == [("PARQUET", ""), ("PARQUET", "c"), ("PUFFIN", "a")]
    assert world.live()["a"] == set(range(ROWS)) - {1, 2}
    world.delete(b={2}, c={2})
    assert world.kinds() == [("PUFFIN", "a"), ("PUFFIN", "b"), ("PUFFIN", "c")]


def test_deletes_of_many_files_stay_when_the_plan_does_not_know_all_of_them() -> None:
    """What a plan has left out may need them still."""
    world = World(2, granularity="partition")
    world.delete(a={1}, b={1})
    world.set_properties({"write.delete.granularity": "file"})
    new = world.write_for(world.plan("p = 'x'"), {"a": {2}, "b": {2}})
    assert new.remove_deletes.num_rows == 0
    assert world.write(a={3}, b={3}).remove_deletes.num_rows == 1


# Files


def test_position_delete_files_are_what_the_spec_says() -> None:
    world = World(2)
    [new] = world.write(a={7, 3}).deletes
    [row] = new.files.to_pylist()
    stored = pq.ParquetFile(io.BytesIO(world.made.built.files[row["file_path"]]))
    path = f"{world.made.table.location}/data/a"
    assert stored.read().to_pylist() == [{"file_path": path, "pos": 3}, {"file_path": path, "pos": 7}]
    fields = [stored.schema.column(n) for n in range(2)]
    ids = [each.metadata[b"PARQUET:field_id"] for each in stored.schema_arrow]
    assert ids == [b"2147483546", b"2147483545"]
    assert [each.max_definition_level for each in fields] == [0, 0], "both are required"
    assert (row["content"], row["sort_order_id"], row["referenced_data_file"]) == (1, None, path)
    for which, at in (("lower", 3), ("upper", 7)):
        bounds = {2147483546: path.encode(), 2147483545: at.to_bytes(8, "little")}
        assert dict(row[f"{which}_bounds"]) == bounds
    assert "/p_0=x/" in row["file_path"]


def test_deletes_of_a_partition_are_in_order_of_paths_and_positions() -> None:
    world = World(2, granularity="partition")
    new = world.write(b={5, 1}, a={9, 0}, c={2})
    rows = {tuple(row["partition"].values()): row for row in rows_of(new.deletes)}
    stored = pq.read_table(io.BytesIO(world.made.built.files[rows["x",]["file_path"]]))
    pairs = [(path[-1], at) for path, at in zip(*stored.to_pydict().values(), strict=True)]
    assert pairs == [("a", 0), ("a", 9), ("b", 1), ("b", 5)]
    assert rows["x",]["referenced_data_file"] is None
    assert rows["y",]["referenced_data_file"].endswith("/c")


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_other_formats(file_format: str) -> None:
    world = World(2)
    world.set_properties({"write.delete.format.default": file_format})
    [new] = world.write(a={7, 3}).deletes
    [row] = new.files.to_pylist()
    data = io.BytesIO(world.made.built.files[row["file_path"]])
    path = f"{world.made.table.location}/data/a"
    found = list(fastavro.reader(data)) if file_format == "avro" else orc.read_table(data).to_pylist()
    assert found == [{"file_path": path, "pos": 3}, {"file_path": path, "pos": 7}]
    assert row["file_format"] == file_format.upper()
    assert dict(row["lower_bounds"])[2147483546] == path.encode()
    world.commit(NewDeletes((new,), world.made.files("a"), world.made.files(), world.plan().deletes))
    assert world.live()["a"] == set(range(ROWS)) - {3, 7}


def test_settings_of_deletes_go_before_those_of_data() -> None:
    world = World(2)
    world.set_properties(
        {
            "write.parquet.compression-codec": "gzip",
            "write.delete.parquet.compression-codec": "snappy",
            "write.parquet.bloom-filter-enabled.column.id": "true",
            "write.metadata.metrics.column.id": "none",
        }
    )
    [row] = rows_of(world.write(a={7, 3}).deletes)
    stored = pq.ParquetFile(io.BytesIO(world.made.built.files[row["file_path"]]))
    assert stored.metadata.row_group(0).column(0).compression == "SNAPPY"


def test_files_of_older_specs_get_deletes_of_their_own_spec() -> None:
    world = World(2)
    rule = PartitionSpec(1, (PartitionField((1,), 1001, "id_bucket", Bucket(4)),))
    world.made.built.change(u.AddPartitionSpec(rule), u.SetDefaultSpec(-1))
    world.made.commit(Append(files=world.made.new(Listed("d", (3,), {}, ROWS))))
    for version in (2, 3):
        if version == 3:
            world.made.built.change(u.UpgradeFormatVersion(3))
        new = world.write(a={version}, d={version})
        assert {each.spec_id: each.files["partition"].to_pylist() for each in new.deletes} == {
            0: [{"1000": "x"}],
            1: [{"1001": 3}],
        }
        world.commit(new)
    assert world.live()["d"] == set(range(ROWS)) - {2, 3}


@pytest.mark.parametrize(
    ("version", "positions", "properties", "problem"),
    [
        (1, {1}, {}, "v1 tables have no deletes"),
        (2, {ROWS}, {}, "it has 20 rows, so that none is at 20"),
        (2, {1}, {"granularity": "row"}, "'row' is no granularity"),
    ],
)
def test_what_cannot_be_deleted(
    version: int, positions: set[int], properties: dict[str, str], problem: str
) -> None:
    world = World(version, **properties)
    with pytest.raises(InvalidInput, match=problem):
        world.write(a=positions)


# Values


def _write_values(made: Changing, rows: pa.Table, ids: Sequence[int], **more: Any) -> list[NewFiles]:
    def put(path: str, data: bytes) -> None:
        made.built.files[path] = data

    return write_equality_deletes(rows, ids, made.table, put, **more)


def test_values_that_tell_their_partition_go_there() -> None:
    made = changing(*COLUMNS, by=["identity p"])
    keys = pa.table({"p": ["x", "y", None], "more": [1, 2, 3], "id": pa.array([1, None, 3], pa.int64())})
    rows = rows_of(_write_values(made, keys, [1, 2]))
    assert {row["partition"]["1000"] for row in rows} == {"x", "y", None}
    for row in rows:
        assert (row["content"], row["equality_ids"], row["record_count"]) == (2, [1, 2], 1)
        stored = pq.ParquetFile(io.BytesIO(made.built.files[row["file_path"]]))
        assert [each.metadata[b"PARQUET:field_id"] for each in stored.schema_arrow] == [b"1", b"2"]
        assert stored.read()["p"].to_pylist() == [row["partition"]["1000"]]
    made.commit(RowDelta(deletes=tuple(_write_values(made, keys, [1, 2]))))


def test_values_that_do_not_tell_their_partition_need_a_spec_without_one() -> None:
    """A delete in one partition does not apply in others: rows would stay."""
    made = changing(*COLUMNS, by=["identity p"])
    keys = pa.table({"id": pa.array([1], pa.int64()), "p": ["x"]})
    with pytest.raises(NotSupported, match="do not tell the partition"):
        _write_values(made, keys, [1])
    made.built.change(u.AddPartitionSpec(PartitionSpec(1, ())))
    [new] = _write_values(made, keys, [1])
    assert (new.spec_id, new.files["partition"].to_pylist()) == (1, [{}])
    assert [new.spec_id] == [each.spec_id for each in _write_values(made, keys, [1, 2])]


def test_values_are_written_for_each_spec_that_has_files() -> None:
    """A delete of one spec does not apply to files of others."""
    made = changing(*COLUMNS, by=["identity p"])
    rule = PartitionSpec(1, (PartitionField((1,), 1001, "id_bucket", Bucket(4)),))
    made.built.change(u.AddPartitionSpec(rule), u.SetDefaultSpec(-1))
    keys = pa.table({"id": pa.array([34], pa.int64()), "p": ["x"]})
    found = _write_values(made, keys, [1, 2])
    assert [each.spec_id for each in found] == [0, 1]
    # The hash of 34 is 2017239379, as the spec of Iceberg says.
    assert found[1].files["partition"].to_pylist() == [{"1001": 2017239379 % 4}]
    assert [each.spec_id for each in _write_values(made, keys, [1, 2], spec_ids=[1])] == [1]


def test_values_of_nested_columns_keep_the_structs_around_them() -> None:
    who = Struct((Field(3, "name", STRING), Field(4, "age", LONG)))
    made = changing(("who", who), ("id", LONG))
    keys = pa.table({"who": [{"name": "ann"}]})
    [row] = rows_of(_write_values(made, keys, [3]))
    assert pq.read_table(io.BytesIO(made.built.files[row["file_path"]])).to_pylist() == [
        {"who": {"name": "ann"}}
    ]


def test_a_column_that_is_missing_is_not_taken_for_null() -> None:
    """All rows without an id would have gone."""
    made = changing(("who", Struct((Field(3, "name", STRING), Field(4, "age", LONG)))), ("id", LONG))
    keys = pa.table({"who": [{"name": "ann"}]})
    for ids in ([2], [4], [3, 4]):
        with pytest.raises(InvalidInput, match="the rows do not have it"):
            _write_values(made, keys, ids)


@pytest.mark.parametrize(
    ("version", "ids", "problem"),
    [(1, [1], "v1 tables have no deletes"), (2, [], "by one column at least"), (2, [2], "which is a double")],
)
def test_values_that_cannot_be_compared(version: int, ids: list[int], problem: str) -> None:
    made = changing(("id", LONG), ("ratio", DOUBLE), format_version=version)
    keys = pa.table({"id": pa.array([1], pa.int64()), "ratio": [0.5]})
    with pytest.raises(InvalidInput, match=problem):
        _write_values(made, keys, ids)
