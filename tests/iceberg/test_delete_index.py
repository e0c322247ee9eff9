"""Deletes find their files: against the scope rules of the spec, read one by one in plain Python."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal as Number
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg.delete_index import PATH_ID, attach_deletes
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import Bucket, Identity, UnknownTransform, Void

POSITION, EQUALITY = 1, 2


class File(NamedTuple):
    """A data file or a delete."""

    path: str
    spec_id: int
    partition: tuple[Any, ...]
    number: int
    content: int = 0
    is_vector: bool = False
    named: str | None = None
    lower: str | None = None
    upper: str | None = None


class Found(NamedTuple):
    """The deletes of one data file."""

    vector: int | None
    position: list[int]
    equality: list[int]


# The rules of the spec


def normal(value: Any) -> Any:
    """Floating point numbers are equal if their bits are, with all NaN made one."""
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else struct.pack(">d", value)


def same_partition(one: File, other: File) -> bool:
    values = [tuple(map(normal, each.partition)) for each in (one, other)]
    return one.spec_id == other.spec_id and values[0] == values[1]


def only_path(delete: File) -> str | None:
    """A delete file with equal bounds of its paths is about one file, as one is that names it."""
    if delete.named is None and delete.lower is not None and delete.lower == delete.upper:
        return delete.lower
    return delete.named


def by_the_spec(data: File, deletes: list[File], unpartitioned: set[int]) -> Found:
    vector = [
        n
        for n, each in enumerate(deletes)
        if each.is_vector
        and each.named == data.path
        and data.number <= each.number
        and same_partition(data, each)
    ]
    position = [
        n
        for n, each in enumerate(deletes)
        if each.content == POSITION
        and not each.is_vector
        and only_path(each) in (None, data.path)
        and data.number <= each.number
        and same_partition(data, each)
        and not vector
        # Bounds tell that a delete file has no rows for a data file: it may be left out.
        and (each.lower is None or each.lower.encode() <= data.path.encode())
        and (each.upper is None or each.upper.encode() >= data.path.encode())
    ]
    equality = [
        n
        for n, each in enumerate(deletes)
        if each.content == EQUALITY
        and data.number < each.number
        and (same_partition(data, each) or each.spec_id in unpartitioned)
    ]
    return Found(vector[0] if vector else None, position, equality)


# Files as columns


def columns(files: list[File], types: Mapping[int, pa.DataType], *, deletes: bool) -> pa.Table:
    """Files with partitions of any spec below each other, as plans have them; fields have the ids 1000, …"""
    partition = [
        {str(field): value for field, value in zip(FIELDS[each.spec_id], each.partition, strict=True)}
        for each in files
    ]
    struct = pa.struct([pa.field(str(field), type_) for field, type_ in types.items()])
    table = {
        "file_path": pa.array([each.path for each in files], pa.string()),
        "spec_id": pa.array([each.spec_id for each in files], pa.int32()),
        "partition": pa.array(partition, struct),
        "sequence_number": pa.array([each.number for each in files], pa.int64()),
    }
    if deletes:
        bounds = {
            f"{which}_bounds.{PATH_ID}": pa.array(
                [None if (text := getattr(each, which)) is None else text.encode() for each in files],
                pa.binary(),
            )
            for which in ("lower", "upper")
        }
        table |= {
            "content": pa.array([each.content for each in files], pa.int32()),
            "file_format": pa.array(
                [
                    ("puffin", "PUFFIN")[n % 2] if each.is_vector else "PARQUET"
                    for n, each in enumerate(files)
                ],
                pa.string(),
            ),
            "referenced_data_file": pa.array([each.named for each in files], pa.string()),
            **bounds,
        }
    return pa.table(table)


FIELDS = {0: (), 1: (1000,), 2: (1001, 1002), 3: (1000,), 4: (1000, 1001)}
SPECS = {
    0: PartitionSpec(0),
    1: PartitionSpec(1, (PartitionField((1,), 1000, "a", Identity()),)),
    2: PartitionSpec(
        2,
        (PartitionField((2,), 1001, "b", Bucket(4)), PartitionField((3,), 1002, "c", UnknownTransform("z"))),
    ),
    3: PartitionSpec(3, (PartitionField((1,), 1000, "a", Void()),)),
    4: PartitionSpec(
        4, (PartitionField((1,), 1000, "a", Identity()), PartitionField((2,), 1001, "b", Bucket(4)))
    ),
}
UNPARTITIONED = {0, 3}

NAN, ODD_NAN = math.nan, struct.unpack(">d", b"\xff\xf8\0\0\0\0\0\1")[0]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.float64(): [None, NAN, ODD_NAN, 0.0, -0.0, 1.5],
    pa.float32(): [None, NAN, 0.0, -0.0, 1.5],
    pa.int32(): [None, 0, -1, 5],
    pa.int64(): [None, 0, -1, 2**63 - 1],
    pa.bool_(): [None, True, False],
    pa.string(): [None, "", "a", "ä"],
    pa.binary(): [None, b"", b"\0"],
    pa.binary(2): [None, b"ab", b"\0\0"],
    pa.date32(): [None, dt.date(1970, 1, 1), dt.date(1969, 12, 31)],
    pa.timestamp("us"): [None, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31)],  # noqa: DTZ001
    pa.time64("us"): [None, dt.time(0), dt.time(1)],
    pa.decimal128(9, 2): [None, Number("0.00"), Number("-1.50")],
}
PATHS = ["p/a", "p/b", "p/ä", "p/\U0001f600", "q"]


@st.composite
def partitions(draw: st.DrawFn, spec_id: int, type_: pa.DataType) -> tuple[Any, ...]:
    pools = {1000: [None] if spec_id == 3 else VALUES[type_], 1001: [None, 0, 3], 1002: [None, "x", "y"]}
    return tuple(draw(st.sampled_from(pools[field])) for field in FIELDS[spec_id])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[File], list[File], pa.DataType]:
    """Data files and deletes; deletes of one file are of its partition, and a file has one vector at most."""
    type_ = draw(st.sampled_from(list(VALUES)))
    spec_ids = st.sampled_from(draw(st.lists(st.sampled_from(list(SPECS)), min_size=1, max_size=3)))
    numbers = st.integers(0, 4)
    data, deletes = [], []
    for path in draw(st.lists(st.sampled_from(PATHS), max_size=5, unique=True)):
        spec_id = draw(spec_ids)
        data.append(File(path, spec_id, draw(partitions(spec_id, type_)), draw(numbers)))
    with_vector: set[str] = set()
    for n in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["vector", "named", "bounded", "bounds", "any", "equality"]))
        spec_id = draw(spec_ids)
        partition, number, content = draw(partitions(spec_id, type_)), draw(numbers), POSITION
        named = lower = upper = None
        if kind in ("vector", "named", "bounded"):
            about = draw(st.sampled_from([*data, File("elsewhere", spec_id, partition, 0)]))
            if kind == "vector" and about.path in with_vector:
                continue
            with_vector |= {about.path} if kind == "vector" else set()
            spec_id, partition = about.spec_id, about.partition
            named = None if kind == "bounded" else about.path
            lower = upper = about.path if kind == "bounded" else None
        if kind == "bounds":
            lower, upper = (draw(st.sampled_from([None, "p", *PATHS])) for _ in range(2))
            if lower is not None and lower == upper:
                lower = None
        if kind == "equality":
            content = EQUALITY
        deletes.append(
            File(f"d{n}", spec_id, partition, number, content, kind == "vector", named, lower, upper)
        )
    return data, deletes, type_


def attached(data: list[File], deletes: list[File], type_: pa.DataType) -> list[Found]:
    types = {1000: type_, 1001: pa.int32(), 1002: pa.string()}
    got = attach_deletes(columns(data, types, deletes=False), columns(deletes, types, deletes=True), SPECS)
    each = zip(got.vector.to_pylist(), got.position.to_pylist(), got.equality.to_pylist(), strict=True)
    return [Found(vector, sorted(position), sorted(equality)) for vector, position, equality in each]


@given(worlds())
def test_each_delete_applies_to_the_files_that_the_spec_says(
    world: tuple[list[File], list[File], pa.DataType],
) -> None:
    data, deletes, type_ = world
    assert attached(data, deletes, type_) == [by_the_spec(each, deletes, UNPARTITIONED) for each in data]


# One by one

A = File("p/a", 1, ("x",), 5)
B = File("p/b", 1, ("x",), 5)
OTHER = File("p/c", 1, ("y",), 5)


def about(number: int, **more: Any) -> File:
    return File("d", 1, ("x",), number, **{"content": POSITION, **more})


def found(data: File, *deletes: File) -> Found:
    [first] = attached([data], list(deletes), pa.string())
    return first


def test_age_is_told_by_sequence_numbers() -> None:
    equality = [about(number, content=EQUALITY) for number in (4, 5, 6)]
    assert found(A, *equality).equality == [2]
    assert found(A, *(about(number) for number in (4, 5, 6))).position == [1, 2]
    for number, vector in ((4, None), (5, 0), (6, 0)):
        assert found(A, about(number, is_vector=True, named="p/a")).vector == vector


def test_a_deletion_vector_stands_for_the_position_deletes_of_its_file_alone() -> None:
    deletes = [
        about(6),
        about(6, is_vector=True, named="p/a"),
        about(7, named="p/a"),
        about(7, content=EQUALITY),
    ]
    first, second = attached([A, B], deletes, pa.string())
    assert first == Found(1, [], [3])
    assert second == Found(None, [0], [3])


def test_position_deletes_are_still_used_where_the_vector_is_older_than_the_file() -> None:
    assert found(A, about(4, is_vector=True, named="p/a"), about(6)) == Found(None, [1], [])


def test_two_vectors_of_one_file_are_refused_by_name() -> None:
    one = about(6, is_vector=True, named="p/a")
    deletes = [one._replace(path="v1.puffin"), one._replace(path="v2.puffin", number=7)]
    with pytest.raises(InvalidMetadata, match=r"p/a.*2 deletion vectors.*v1\.puffin, v2\.puffin"):
        found(A, *deletes)
    # Of two in one Puffin file, too, and when the data file itself is not part of the plan.
    with pytest.raises(InvalidMetadata, match=r"p/a.*2 deletion vectors, in v1\.puffin"):
        found(B, deletes[0], deletes[0])


def test_a_vector_that_names_no_file_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match=r"v\.puffin.*names no data file"):
        found(A, about(6, is_vector=True)._replace(path="v.puffin"))


@pytest.mark.parametrize(
    "delete",
    [
        about(6, is_vector=True, named="p/a"),
        about(6, named="p/a"),
        about(6, lower="p/a", upper="p/a"),
    ],
)
def test_a_delete_of_a_file_of_another_partition_is_refused_by_name(delete: File) -> None:
    for wrong in (
        delete._replace(partition=("y",), path="bad"),
        delete._replace(partition=(None,), path="bad"),
        delete._replace(spec_id=0, partition=(), path="bad"),
        delete._replace(spec_id=3, partition=(None,), path="bad"),
    ):
        with pytest.raises(InvalidMetadata, match=r"bad.*p/a.*another partition"):
            found(A, wrong)
        assert found(B, wrong) == Found(None, [], [])
        # One that is too old would not apply in its own partition either.
        assert found(A, wrong._replace(number=4)) == Found(None, [], [])


def test_deletes_by_partition_leave_other_partitions_and_specs_alone() -> None:
    for content in (POSITION, EQUALITY):
        deletes = [about(6, content=content)]
        assert [
            len(each.position + each.equality) for each in attached([A, OTHER, B], deletes, pa.string())
        ] == [1, 0, 1]
    same_value = File("p/a", 4, ("x", None), 5)
    assert found(same_value, about(6), about(6, content=EQUALITY)) == Found(None, [], [])


def test_only_deletes_by_equality_are_global_when_unpartitioned() -> None:
    for spec_id, partition in ((0, ()), (3, (None,))):
        everywhere = about(6)._replace(spec_id=spec_id, partition=partition)
        assert found(A, everywhere) == Found(None, [], [])
        assert found(A, everywhere._replace(content=EQUALITY)) == Found(None, [], [0])
    assert found(File("p/a", 0, (), 5), about(6)._replace(spec_id=0, partition=())) == Found(None, [0], [])


def test_what_a_table_has_none_of_is_no_trouble() -> None:
    kinds = [about(6), about(6, content=EQUALITY), about(6, named="x"), about(6, is_vector=True, named="x")]
    assert attached([], kinds, pa.string()) == []
    assert attached([A], [], pa.string()) == [Found(None, [], [])]
    assert attached([], [], pa.string()) == []


def test_of_deletes_without_bounds_of_paths_nothing_is_assumed() -> None:
    types = {1000: pa.string(), 1001: pa.int32(), 1002: pa.string()}
    deletes = columns([about(6), about(6, named="p/a"), about(6, named="p/b")], types, deletes=True)
    bare = deletes.drop_columns([f"{which}_bounds.{PATH_ID}" for which in ("lower", "upper")])
    got = attach_deletes(columns([A], types, deletes=False), bare, SPECS)
    assert sorted(got.position.to_pylist()[0]) == [0, 1]
