"""Readable metrics: maps by field id, taken apart by columns, beside the same done one value at a time."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import inspect_schemas as schemas
from lakeplane.iceberg.manifest_schema import BOUND_MAPS, COUNT_MAPS, FILE_COLUMNS
from lakeplane.iceberg.readable_metrics import readable_metrics
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.model.value_bytes import from_bytes

FLAT: tuple[Type, ...] = (
    *(BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS),
    *(STRING, UUID, BINARY, UNKNOWN, Fixed(5), Geometry(), Decimal(4, 2), Decimal(18, 0), Decimal(38, 10)),
)
SCHEMA = Schema(tuple(Field(number, f"c{number}", type_) for number, type_ in enumerate(FLAT, 1)))
NESTED = Schema(
    (
        Field(9, "late", INT),
        Field(1, "place", Struct((Field(2, "x", INT), Field(3, "in", Struct((Field(4, "y", STRING),)))))),
        Field(5, "tags", List(6, STRING)),
        Field(7, "odd.name", LONG),
        Field(8, "any", VARIANT),
        Field(10, "counts", Map(11, STRING, 12, Struct((Field(13, "n", LONG),)))),
    )
)

Maps = list[dict[int, Any] | None]


def metrics(schema: Schema, **maps: Maps) -> pa.StructArray:
    """The readable metrics of files with some maps; the others are missing in all files."""
    count = len(next(iter(maps.values())))
    columns = {}
    for name in (*COUNT_MAPS, *BOUND_MAPS):
        given = maps.get(name, [None] * count)
        rows = [None if each is None else list(each.items()) for each in given]
        columns[name] = pa.array(rows, FILE_COLUMNS.field(name).type)
    type_ = schemas.arrow([schemas.readable_metrics(schema, (Field(145, "x", INT),))]).field(0).type
    found = readable_metrics(pa.table(columns), schema, type_)
    found.validate(full=True)
    assert found.type == type_
    return found


def bound(type_: Type, raw: bytes | None) -> Any:
    """What a bound says, read by itself; None if it says nothing."""
    if raw is None or type_ is UNKNOWN:
        return None
    if type_ is STRING:
        return raw.decode("utf-8", "replace")
    if isinstance(type_, Fixed | Geometry):
        return raw
    try:
        value = from_bytes(type_, raw)
    except InvalidMetadata:
        return None
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def shown(type_: Type, column: pa.Array) -> list[Any]:
    """A column of bounds as the values that the model has for its type."""
    if type_ is DATE:
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    return ["NaN" if isinstance(each, float) and math.isnan(each) else each for each in column.to_pylist()]


sizes = st.sampled_from((0, 1, 2, 3, 4, 5, 7, 8, 15, 16))
raw_bounds = st.one_of(
    sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    st.text(max_size=5).map(str.encode),
    st.sampled_from(
        (b"\0" * 4, b"\0" * 8, b"\x01", b"\xff\xff\xff\x7f", (86_400_000_000 - 1).to_bytes(8, "little"))
    ),
)
ids = st.integers(1, len(FLAT) + 3)
count_maps = st.lists(
    st.none() | st.dictionaries(ids, st.integers(-(2**63), 2**63 - 1)), min_size=6, max_size=6
)
bound_maps = st.lists(st.none() | st.dictionaries(ids, raw_bounds), min_size=6, max_size=6)


@settings(max_examples=50)
@given(sizes=count_maps, nans=count_maps, lower=bound_maps, upper=bound_maps)
def test_every_metric_is_found_in_its_column_and_every_bound_means_what_it_means_by_itself(
    sizes: Maps, nans: Maps, lower: Maps, upper: Maps
) -> None:
    found = metrics(SCHEMA, column_sizes=sizes, nan_value_counts=nans, lower_bounds=lower, upper_bounds=upper)
    for number, type_ in enumerate(FLAT, 1):
        column = found.field(f"c{number}")
        for name, maps in (("column_size", sizes), ("nan_value_count", nans)):
            assert column.field(name).to_pylist() == [(each or {}).get(number) for each in maps]
        for name, maps in (("lower_bound", lower), ("upper_bound", upper)):
            expected = [bound(type_, (each or {}).get(number)) for each in maps]
            assert shown(type_, column.field(name)) == expected, type_
        assert column.field("value_count").null_count == column.field("null_value_count").null_count == 6


def test_columns_inside_of_others_have_their_full_names_and_those_around_them_no_metrics() -> None:
    found = metrics(NESTED, value_counts=[{1: 1, 2: 2, 4: 4, 6: 6, 7: 7, 8: 8, 9: 9, 11: 11, 13: 13}])
    assert {name: each["value_count"] for name, each in found.to_pylist()[0].items()} == {
        "late": 9,
        "place.x": 2,
        "place.in.y": 4,
        "tags.element": 6,
        "odd.name": 7,
        "counts.key": 11,
        "counts.value.n": 13,
    }
    assert [each.name for each in found.type][:2] == ["late", "place.x"]


def test_bounds_have_the_arrow_types_of_their_columns_but_those_that_may_be_a_part_of_a_value() -> None:
    found = metrics(SCHEMA, value_counts=[{}]).type
    types = [found.field(number).type.field("lower_bound").type for number in range(len(FLAT))]
    assert types == [
        *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.time64("us")),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")),
        *(pa.string(), pa.uuid(), pa.binary(), pa.null(), pa.binary(), pa.binary()),
        *(pa.decimal128(4, 2), pa.decimal128(18), pa.decimal128(38, 10)),
    ]


def test_a_slice_of_files_has_the_metrics_of_its_own_rows() -> None:
    maps = [[(1, n), (2, -n)] for n in range(10)]
    columns = {
        name: pa.array([None] * 10, FILE_COLUMNS.field(name).type) for name in (*COUNT_MAPS, *BOUND_MAPS)
    }
    columns["column_sizes"] = pa.array(maps, FILE_COLUMNS.field("column_sizes").type)
    schema = Schema((Field(2, "b", INT), Field(1, "a", INT)))
    type_ = schemas.arrow([schemas.readable_metrics(schema, (Field(145, "x", INT),))]).field(0).type
    found = readable_metrics(pa.table(columns).slice(3, 4), schema, type_)
    assert found.field("b").field("column_size").to_pylist() == [-3, -4, -5, -6]
    assert found.field("a").field("column_size").to_pylist() == [3, 4, 5, 6]


@pytest.mark.parametrize("count", [0, 3])
def test_a_table_without_columns_has_metrics_without_fields(count: int) -> None:
    found = metrics(Schema(()), value_counts=[{1: 1}] * count)
    assert found.to_pylist() == [{}] * count


def test_a_bound_cut_within_a_character_is_shown_as_far_as_it_goes() -> None:
    schema = Schema((Field(1, "name", STRING),))
    found = metrics(schema, lower_bounds=[{1: "né".encode()}, {1: "né".encode()[:2]}, None])
    assert found.field("name").field("lower_bound").to_pylist() == ["né", "n\ufffd", None]
