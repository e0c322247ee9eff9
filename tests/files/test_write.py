"""Rows become files: in the right partitions, in order, of the right size, and rightly described."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.align import align_arrow
from lakeplane.files.describe import new_files
from lakeplane.files.footers import parquet_metrics
from lakeplane.files.order import sort_positions
from lakeplane.files.partitions import canonical_values, partition_columns, split
from lakeplane.files.target import FILE_FORMATS, FileFormat
from lakeplane.files.write import RowWriter, write_rows
from lakeplane.iceberg.manifest_schema import FILE_COLUMNS
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    apply,
    result_type,
)
from lakeplane.model.types import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    Decimal,
    Field,
    List,
    Map,
    Struct,
)
from tests.files.samples import NAN, target

SCHEMA = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "name", STRING),
        Field(3, "amount", Decimal(12, 2)),
        Field(4, "at", TIMESTAMPTZ),
        Field(5, "f", DOUBLE),
        Field(6, "s", Struct((Field(7, "u", UUID), Field(8, "n", INT)))),
    )
)


def spec(*rules: tuple[int, Transform]) -> PartitionSpec:
    fields = [
        PartitionField((source,), 1000 + at, f"p{at}", transform)
        for at, (source, transform) in enumerate(rules)
    ]
    return PartitionSpec(3, tuple(fields))


def aligned(rows: list[dict[str, Any]], schema: Schema = SCHEMA) -> pa.Table:
    found = align_arrow(schema, pa.Table.from_pylist(rows, schema=plain_schema(schema)))
    assert isinstance(found, pa.Table)
    return found


def plain_schema(schema: Schema) -> pa.Schema:
    arrow = to_arrow(schema)
    inner = pa.struct([pa.field("u", pa.binary(16)), pa.field("n", pa.int32())])
    return pa.schema([pa.field(each.name, inner if each.name == "s" else each.type) for each in arrow])


class Store(dict[str, bytes]):
    """Where files are put."""

    def put(self, path: str, data: bytes) -> None:
        assert path not in self, "a file was put twice"
        self[path] = data

    def rows(self, path: str) -> list[dict[str, Any]]:
        return list(pq.ParquetFile(io.BytesIO(self[path])).read().to_pylist())


def check(found: list[NewFiles], store: Store) -> pa.Table:
    """The files that were written, which are those that are told of."""
    (new,) = found
    files = new.files
    assert sorted(files["file_path"].to_pylist()) == sorted(store)
    for column in files.schema:
        assert column.name == "partition" or column.type == FILE_COLUMNS.field(column.name).type
    for row in files.to_pylist():
        assert row["file_size_in_bytes"] == len(store[row["file_path"]])
        assert row["record_count"] == pq.read_metadata(io.BytesIO(store[row["file_path"]])).num_rows
    return files


RULES = st.lists(
    st.one_of(
        st.tuples(st.just(1), st.sampled_from([Identity(), Bucket(4), Truncate(10), Void()])),
        st.tuples(st.just(2), st.sampled_from([Identity(), Bucket(4), Truncate(1)])),
        st.tuples(st.just(3), st.sampled_from([Identity(), Bucket(4), Truncate(50)])),
        st.tuples(st.just(4), st.sampled_from([Identity(), Year(), Month(), Day(), Hour(), Bucket(3)])),
        st.tuples(st.just(5), st.just(Identity())),
        st.tuples(st.just(7), st.sampled_from([Identity(), Bucket(4)])),
        st.tuples(st.just(8), st.sampled_from([Identity(), Bucket(4), Truncate(3)])),
    ),
    max_size=3,
)
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-100, 100),
        "name": st.none()
        | st.sampled_from(["", "a", "ab", "__HIVE_DEFAULT_PARTITION__", "null", "/..", "ž"]),
        "amount": st.none() | st.integers(-100, 100).map(lambda n: Number(n).scaleb(-2)),
        "at": st.none() | st.integers(-(10**15), 10**15),
        "f": st.none() | st.sampled_from([0.0, -0.0, 1.5, NAN, -NAN, float("inf")]),
        "s": st.none()
        | st.fixed_dictionaries(
            {
                "u": st.none() | st.sampled_from([b"\0" * 16, b"\xff" * 16]),
                "n": st.none() | st.integers(-5, 5),
            }
        ),
    }
)


@given(RULES, st.lists(ROW, max_size=40))
def test_every_row_is_in_the_file_of_its_partition(rules: list[Any], values: list[dict[str, Any]]) -> None:
    """As with one value after the other."""
    rows = aligned(values)
    partitioning, store = spec(*rules), Store()
    found = write_rows(rows, target(SCHEMA, spec=partitioning), store.put)
    if not values:
        assert found == []
        assert not store
        return
    files = check(found, store)
    assert found[0].spec_id == 3
    expected: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row, key in zip(rows.to_pylist(), brute_force(rows, partitioning), strict=True):
        expected[key].append(row)
    assert files.num_rows == len(expected)
    stored = partition_keys(files, partitioning)
    assert len(set(stored)) == files.num_rows
    for key, path in zip(stored, files["file_path"].to_pylist(), strict=True):
        assert repr(store.rows(path)) == repr(expected[key])


def brute_force(rows: pa.Table, partitioning: PartitionSpec) -> list[tuple[Any, ...]]:
    columns = []
    for field in partitioning.fields:
        source = SCHEMA.field(field.source_id)
        parent = SCHEMA.parent_of(source.id)
        column = (
            rows[source.name] if parent is None else pa.compute.struct_field(rows[parent.name], source.name)
        )
        values = canonical_values(source.type, column.combine_chunks())
        columns.append([comparable(apply(field.transform, source.type, each)) for each in values])
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def partition_keys(files: pa.Table, partitioning: PartitionSpec) -> list[tuple[Any, ...]]:
    partitions = files["partition"].combine_chunks()
    columns = []
    for place, field in enumerate(partitioning.fields):
        assert partitions.type[place].name == str(field.field_id)
        type_ = result_type(field.transform, SCHEMA.field(field.source_id).type)
        columns.append(list(map(comparable, canonical_values(type_, partitions.field(place)))))
    return list(zip(*columns, strict=True)) if columns else [()] * files.num_rows


def comparable(value: Any) -> Any:
    """NaN is one partition; the two zeros are two."""
    return repr(value) if isinstance(value, float) else value


def test_thousands_of_partitions() -> None:
    rows = aligned([{"id": at, "name": f"n{at % 3000}"} for at in range(9000)])
    store = Store()
    files = check(write_rows(rows, target(SCHEMA, spec=spec((2, Identity()))), store.put), store)
    assert files.num_rows == 3000
    assert set(files["record_count"].to_pylist()) == {3}


@given(st.lists(ROW, min_size=1, max_size=40), st.data())
def test_rows_of_a_file_are_sorted(values: list[dict[str, Any]], data: st.DataObject) -> None:
    rows = aligned(values)
    keys: list[Any] = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [(1, Identity()), (2, Truncate(1)), (5, Identity()), (7, Identity()), (4, Day())]
                ),
                st.sampled_from(["asc", "desc"]),
                st.sampled_from(["nulls-first", "nulls-last"]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    order = SortOrder(
        9, tuple(SortField((source,), transform, way, nulls) for (source, transform), way, nulls in keys)
    )
    found = sort_positions(rows, order, SCHEMA).to_pylist()
    assert sorted(found) == list(range(len(values)))
    columns = [sort_keys(rows, source, transform, way, nulls) for (source, transform), way, nulls in keys]
    by_hand = sorted(range(len(values)), key=lambda row: [column[row] for column in columns])
    assert found == by_hand


def sort_keys(rows: pa.Table, source_id: int, transform: Transform, way: str, nulls: str) -> list[Any]:
    source = SCHEMA.field(source_id)
    partitioning = spec((source_id, transform))
    (column,) = partition_columns(rows, partitioning, SCHEMA)
    values = [number(each) for each in canonical_values(result_type(transform, source.type), column)]
    known = sorted({each for each in values if each is not None}, reverse=way == "desc")
    ranks = {each: rank for rank, each in enumerate(known)}
    null_rank = -1 if nulls == "nulls-first" else len(ranks)
    return [null_rank if each is None else ranks[each] for each in values]


def number(value: Any) -> Any:
    if not isinstance(value, float):
        return value.encode() if isinstance(value, str) else getattr(value, "bytes", value)
    return (1, 0.0, 0.0) if value != value else (0, value, np.copysign(1, value))  # noqa: PLR0124


ORDER = SortOrder(4, (SortField((2,), Identity(), "desc", "nulls-last"),))


def test_sorted_files_say_so() -> None:
    rows = aligned([{"id": at, "name": None if at == 5 else f"n{at % 7}"} for at in range(50)])
    store = Store()
    files = check(write_rows(rows, target(SCHEMA, spec=spec((1, Bucket(2))), order=ORDER), store.put), store)
    assert files["sort_order_id"].to_pylist() == [4, 4]
    for path in store:
        names = [row["name"] for row in store.rows(path)]
        known = [name for name in names if name is not None]
        assert known == sorted(known, reverse=True)
        assert names[len(known) :] == [None] * (len(names) - len(known))


def test_an_order_that_cannot_be_made_is_not_claimed() -> None:
    order = SortOrder(4, (SortField((2,), UnknownTransform("zorder"), "asc", "nulls-first"),))
    store = Store()
    files = check(write_rows(aligned([{"id": 1}]), target(SCHEMA, order=order), store.put), store)
    assert files["sort_order_id"].to_pylist() == [0]


def numbers(count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    found = align_arrow(
        Schema((Field(1, "id", LONG, required=True), Field(2, "f", DOUBLE))),
        pa.table({"id": np.arange(count), "f": rng.random(count)}),
    )
    assert isinstance(found, pa.Table)
    return found


NUMBERS = Schema((Field(1, "id", LONG, required=True), Field(2, "f", DOUBLE)))


@pytest.mark.parametrize(
    "order", [SortOrder(), SortOrder(4, (SortField((2,), Identity(), "asc", "nulls-first"),))]
)
@pytest.mark.parametrize("stream", [False, True])
def test_files_have_the_size_that_is_wanted(order: SortOrder, stream: bool) -> None:  # noqa: FBT001
    rows, store = numbers(1_000_000), Store()
    wanted = 2 << 20
    properties = {
        "write.target-file-size-bytes": str(wanted),
        "write.parquet.row-group-size-bytes": str(1 << 19),
    }
    goal = target(NUMBERS, order=order, properties=properties)
    given_rows = rows.to_reader(max_chunksize=10_000) if stream else rows
    files = check(write_rows(given_rows, goal, store.put, buffer_bytes=8 << 20), store)
    sizes = sorted(files["file_size_in_bytes"].to_pylist())
    assert all(size < 1.2 * wanted for size in sizes)
    assert sum(sizes) / len(sizes) > (0.5 if order.fields and stream else 0.8) * wanted
    groups = [pq.read_metadata(io.BytesIO(data)).num_row_groups for data in store.values()]
    assert max(groups) <= 8
    for row in files.to_pylist():
        assert (
            len(row["split_offsets"]) == pq.read_metadata(io.BytesIO(store[row["file_path"]])).num_row_groups
        )
    ids = np.concatenate([pq.read_table(io.BytesIO(data))["id"].to_numpy() for data in store.values()])
    assert np.array_equal(np.sort(ids), np.arange(1_000_000))
    if order.fields:
        for data in store.values():
            values = pq.read_table(io.BytesIO(data))["f"].to_numpy()
            assert bool((np.diff(values) >= 0).all())


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_without_row_groups_have_that_size_too(file_format: FileFormat) -> None:
    """Their writers show what they have written late, or only in the end."""
    store, wanted = Store(), 1 << 20
    properties = {"write.target-file-size-bytes": str(wanted)}
    goal = target(NUMBERS, file_format=file_format, properties=properties)
    (new,) = write_rows(numbers(1_000_000), goal, store.put)
    sizes = new.files["file_size_in_bytes"].to_pylist()
    assert sizes == [len(store[path]) for path in new.files["file_path"].to_pylist()]
    assert max(sizes) < 1.5 * wanted
    assert sum(sizes) / len(sizes) > 0.6 * wanted
    assert sum(new.files["record_count"].to_pylist()) == 1_000_000


def test_streams_take_little_memory() -> None:
    """A stream that is far larger than what may be kept, into more partitions than can be filled."""

    def batches() -> Any:
        for at in range(60):
            yield numbers(50_000).combine_chunks().to_batches()[0].slice(0, 50_000 - at)

    reader = pa.RecordBatchReader.from_batches(to_arrow(NUMBERS), batches())
    store = Store()
    goal = target(NUMBERS, spec=spec((1, Bucket(50))))
    before = pa.total_allocated_bytes()
    pool_peak: list[int] = []

    def put(path: str, data: bytes) -> None:
        pool_peak.append(pa.total_allocated_bytes() - before)
        store.put(path, data)

    files = check(write_rows(reader, goal, put, buffer_bytes=4 << 20), store)
    assert sum(files["record_count"].to_pylist()) == sum(50_000 - at for at in range(60))
    assert len(pool_peak) >= 50
    assert max(pool_peak) < 200 << 20


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_targets_and_answers_travel(file_format: str) -> None:
    """They go to tasks of a cluster, and come back."""
    goal = target(SCHEMA, file_format=file_format, spec=spec((4, Day()), (2, Identity())), order=ORDER)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(goal))  # noqa: S301
    assert again == goal
    rows, store = aligned([{"id": 1, "name": "x", "at": 5}]), Store()
    found = write_rows(rows, again, store.put, partition=7, task="t1")
    back = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert back[0].files.equals(found[0].files)
    (path,) = store
    assert path == f"/lake/t/data/p0=1970-01-01/p1=x/00007-t1-run-00001.{file_format}"


def test_an_error_of_the_store_ends_the_write() -> None:
    def put(_path: str, _data: bytes) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_rows(aligned([{"id": 1}, {"id": 2}]), target(SCHEMA, spec=spec((1, Identity()))), put)


def test_partitions_that_cannot_be_computed_are_refused() -> None:
    with pytest.raises(InvalidInput, match="p0: the values of the partition field cannot be computed"):
        split(aligned([{"id": 1}]), spec((1, UnknownTransform("zorder"))), SCHEMA)
    assert len(split(aligned([{"id": 1}]), spec((99, Void())), SCHEMA)) == 1


def test_nan_is_counted() -> None:
    rows = aligned([{"id": 1, "f": each} for each in (NAN, None, 1.0, NAN)])
    store = Store()
    row = check(write_rows(rows, target(SCHEMA), store.put), store).to_pylist()[0]
    assert row["nan_value_counts"] == [(5, 2)]
    assert dict(row["null_value_counts"])[5] == 1
    assert dict(row["lower_bounds"])[5] == dict(row["upper_bounds"])[5]


def test_settings_reach_the_files() -> None:
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.compression-level": "1",
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.stats-enabled.column.amount": "false",
        "write.parquet.page-row-limit": "10",
        "write.metadata.metrics.column.name": "counts",
    }
    store = Store()
    rows = aligned([{"id": at, "name": f"n{at}"} for at in range(100)])
    row = check(write_rows(rows, target(SCHEMA, properties=properties), store.put), store).to_pylist()[0]
    (data,) = store.values()
    metadata = pq.read_metadata(io.BytesIO(data)).row_group(0)
    columns = {metadata.column(at).path_in_schema: metadata.column(at) for at in range(metadata.num_columns)}
    assert columns["id"].compression == "GZIP"
    assert columns["name"].bloom_filter_offset
    assert not columns["id"].bloom_filter_offset
    assert columns["id"].is_stats_set
    assert not columns["amount"].is_stats_set
    assert columns["id"].has_column_index
    assert 2 not in dict(row["lower_bounds"])
    assert 2 in dict(row["value_counts"])


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("write.parquet.compression-codec", "lzo", NotSupported),
        ("write.parquet.compression-level", "99", InvalidInput),
        ("write.target-file-size-bytes", "0", InvalidInput),
        ("write.parquet.row-group-size-bytes", "many", InvalidInput),
        ("write.parquet.page-version", "v3", NotSupported),
    ],
)
def test_settings_that_cannot_be_followed_are_named(name: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        RowWriter(target(SCHEMA, properties={name: value}), Store().put)


def test_rows_in_other_types_are_aligned_first() -> None:
    store = Store()
    rows = pa.table({"f": pa.array([1.5], pa.float32()), "id": pa.array([7], pa.int8())})
    check(write_rows(rows, target(NUMBERS), store.put), store)
    assert [store.rows(path) for path in store] == [[{"id": 7, "f": 1.5}]]
    with pytest.raises(InvalidInput, match="extra: the table has no such column"):
        write_rows(pa.table({"id": [1], "extra": [1]}), target(NUMBERS), store.put)


def test_no_rows_make_no_files() -> None:
    store = Store()
    assert write_rows(aligned([]), target(SCHEMA, spec=spec((1, Identity()))), store.put) == []
    assert write_rows(to_arrow(NUMBERS).empty_table().to_reader(), target(NUMBERS), store.put) == []
    assert not store


def test_two_writes_of_one_target_do_not_meet() -> None:
    """A second write under the same names would replace the files of the first."""
    goal, store = target(NUMBERS), Store()
    for _ in range(2):
        write_rows(numbers(10), goal, store.put)
    assert len(store) == 2


def test_files_of_other_writers_are_described_alike() -> None:
    """Files that Spark has written, of which the footers were read."""
    store = Store()
    goal = target(NUMBERS)
    (mine,) = write_rows(numbers(10), goal, store.put)
    ((path, data),) = store.items()
    told = parquet_metrics([data], NUMBERS, goal.metrics_modes)
    (theirs,) = new_files(goal, paths=[path], sizes=[len(data)], told=told, order_ids=[0])
    assert theirs.files.drop_columns("nan_value_counts").equals(mine.files.drop_columns("nan_value_counts"))
    assert theirs.spec_id == mine.spec_id
    assert new_files(goal, paths=[], sizes=[], told=told, order_ids=[]) == []


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_tables_of_which_nothing_can_be_stored(file_format: FileFormat) -> None:
    """The rows would be lost, as a file without columns has none."""
    for fields in ((), (Field(1, "x", UNKNOWN),)):
        with pytest.raises(NotSupported, match="no column can be stored"):
            RowWriter(target(Schema(fields), file_format=file_format), Store().put)
    hollow = Struct((Field(2, "y", UNKNOWN),))
    for type_ in (hollow, List(3, UNKNOWN), Map(4, STRING, 5, UNKNOWN)):
        schema = Schema((Field(1, "x", type_), Field(9, "id", LONG)))
        with pytest.raises(NotSupported, match=r"x: a .* of nothing but unknown"):
            RowWriter(target(schema, file_format=file_format), Store().put)


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_unknown_columns_are_left_out_at_any_depth(file_format: FileFormat) -> None:
    inside = Struct((Field(2, "n", UNKNOWN), Field(3, "a", LONG)))
    other = Struct((Field(12, "n", UNKNOWN), Field(13, "a", LONG)))
    schema = Schema(
        (Field(1, "l", List(4, inside)), Field(5, "m", Map(6, STRING, 7, other)), Field(8, "u", UNKNOWN))
    )
    rows = align_arrow(schema, pa.table({"l": [[{"a": 1}, None], None], "m": [None, None]}))
    store = Store()
    (new,) = write_rows(rows, target(schema, file_format=file_format), store.put)
    # Parquet counts a null list, too.
    assert dict(new.files["value_counts"].to_pylist()[0])[3] == (3 if file_format == "parquet" else 2)
    if file_format == "parquet":
        assert [store.rows(path)[0]["l"] for path in store] == [[{"a": 1}, None]]
