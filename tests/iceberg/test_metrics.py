from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.manifest_schema import BOUND_MAPS, COUNT_MAPS, FILE_COLUMNS
from lakeplane.iceberg.metrics import ColumnFacts, metrics_columns
from lakeplane.iceberg.metrics_modes import COUNTS, FULL, NONE, MetricsMode, Truncated
from lakeplane.model import geo
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.model.value_bytes import bound_to_bytes, truncate_lower, truncate_upper
from tests.model.test_values import typed_primitives

INF, NAN = math.inf, math.nan


def one(type_: Type, **facts: Any) -> dict[str, list[Any]]:
    """The metrics of one column with the id 7."""
    return with_mode(FULL, type_, **facts)


def with_mode(mode: MetricsMode, type_: Type, **facts: Any) -> dict[str, list[Any]]:
    schema = Schema((Field(7, "c", type_),))
    found = metrics_columns([ColumnFacts(7, **facts)], schema, {7: mode})
    for name, column in found.items():
        column.validate(full=True)
        assert column.type == FILE_COLUMNS.field(name).type
    return {
        name: [None if each is None else dict(each).get(7) for each in column.to_pylist()]
        for name, column in found.items()
    }


def arrow(type_: Type, values: list[Any]) -> pa.Array:
    """Canonical values as a column of its natural Arrow type."""
    natural = to_arrow(Schema((Field(1, "c", type_),))).field(0).type
    match type_:
        case _ if type_ is UUID:
            return pa.array([None if each is None else each.bytes for each in values], pa.binary(16))
        case _ if type_ in TIMESTAMPS or type_ is TIME:
            return pa.array(values, pa.int64()).cast(natural)
        case _ if type_ is DATE:
            return pa.array(values, pa.int32()).cast(natural)
        case _:
            return pa.array(values, natural)


# Maps


def test_each_file_has_a_map_of_the_columns_that_are_known() -> None:
    schema = Schema((Field(3, "a", LONG), Field(1, "b", STRING), Field(2, "c", DOUBLE)))
    facts = [
        ColumnFacts(
            3,
            sizes=pa.array([10, 20, None]),
            values=pa.array([5, 6, None]),
            nulls=pa.array([0, 6, None], pa.int32()),
            nans=pa.array([0, 0, 0]),
            lower=pa.array([-1, None, None]),
            upper=pa.array([1, None, None]),
        ),
        ColumnFacts(1, sizes=pa.chunked_array([[30], [None, None]]), lower=pa.array(["a", "b", None])),
        ColumnFacts(2, nans=pa.array([None, 2, None])),
    ]
    found = metrics_columns(facts, schema, dict.fromkeys([1, 2, 3], FULL))
    assert {name: column.to_pylist() for name, column in found.items()} == {
        "column_sizes": [[(1, 30), (3, 10)], [(3, 20)], None],
        "value_counts": [[(3, 5)], [(3, 6)], None],
        "null_value_counts": [[(3, 0)], [(3, 6)], None],
        "nan_value_counts": [None, [(2, 2)], None],
        "lower_bounds": [[(1, b"a"), (3, struct.pack("<q", -1))], [(1, b"b")], None],
        "upper_bounds": [[(3, struct.pack("<q", 1))], None, None],
    }
    assert {name: column.type for name, column in found.items()} == {
        name: FILE_COLUMNS.field(name).type for name in (*COUNT_MAPS, *BOUND_MAPS)
    }


def test_modes_say_how_much_is_kept() -> None:
    facts = {
        "sizes": pa.array([9]),
        "values": pa.array([8]),
        "nulls": pa.array([1]),
        "lower": pa.array(["abc"]),
        "upper": pa.array(["abd"]),
    }
    counts = {"column_sizes": [9], "value_counts": [8], "null_value_counts": [1], "nan_value_counts": [None]}
    bounds: list[tuple[MetricsMode, bytes | None, bytes | None]] = [
        (FULL, b"abc", b"abd"),
        (Truncated(3), b"abc", b"abd"),
        (Truncated(2), b"ab", b"ac"),
        (COUNTS, None, None),
    ]
    for mode, lower, upper in bounds:
        assert with_mode(mode, STRING, **facts) == {
            **counts,
            "lower_bounds": [lower],
            "upper_bounds": [upper],
        }
    assert set(map(tuple, with_mode(NONE, STRING, **facts).values())) == {(None,)}


def test_a_column_without_a_mode_has_none() -> None:
    found = metrics_columns([ColumnFacts(7, values=pa.array([1]))], Schema((Field(7, "c", INT),)), {})
    assert found["value_counts"].to_pylist() == [None]


def test_no_facts_and_no_files_are_no_rows() -> None:
    assert {len(each) for each in metrics_columns([], Schema(()), {}).values()} == {0}
    found = one(STRING, values=pa.array([], pa.int64()), lower=pa.array([], pa.string()))
    assert found["lower_bounds"] == []
    assert one(Decimal(9, 2), upper=pa.array([], pa.decimal128(9, 2)))["upper_bounds"] == []


def test_fields_in_lists_and_maps_have_counts_and_no_bounds() -> None:
    schema = Schema(
        (
            Field(1, "tags", List(2, STRING)),
            Field(3, "m", Map(4, STRING, 5, Struct((Field(6, "x", INT),)))),
            Field(7, "s", Struct((Field(8, "y", INT),))),
        )
    )
    facts = [
        ColumnFacts(2, values=pa.array([4]), lower=pa.array(["a"]), upper=pa.array(["b"])),
        ColumnFacts(6, values=pa.array([5]), lower=pa.array([1]), upper=pa.array([2])),
        ColumnFacts(8, values=pa.array([6]), lower=pa.array([1]), upper=pa.array([2])),
    ]
    found = metrics_columns(facts, schema, dict.fromkeys([2, 6, 8], FULL))
    assert found["value_counts"].to_pylist() == [[(2, 4), (6, 5), (8, 6)]]
    assert found["lower_bounds"].to_pylist() == [[(8, struct.pack("<i", 1))]]
    assert found["upper_bounds"].to_pylist() == [[(8, struct.pack("<i", 2))]]


def test_structs_and_columns_of_unknown_type_have_no_metrics() -> None:
    schema = Schema((Field(1, "s", Struct((Field(2, "x", INT),))), Field(3, "u", UNKNOWN)))
    facts = [ColumnFacts(1, values=pa.array([4])), ColumnFacts(3, values=pa.array([4]), lower=pa.nulls(1))]
    found = metrics_columns(facts, schema, {1: FULL, 3: FULL})
    assert [column.to_pylist() for column in found.values()] == [[None]] * 6


def test_facts_that_do_not_fit_are_refused() -> None:
    schema = Schema((Field(7, "c", INT),))
    one_file, two_files = pa.array([1]), pa.array([1, 2])
    with pytest.raises(InvalidInput, match=r"different numbers of files: \[1, 2\]"):
        metrics_columns([ColumnFacts(7, values=one_file, nulls=two_files)], schema, {})
    with pytest.raises(InvalidInput, match="c: facts about it are given twice"):
        metrics_columns([ColumnFacts(7, values=one_file), ColumnFacts(7, nulls=one_file)], schema, {})
    with pytest.raises(InvalidInput, match="no field with id 8"):
        metrics_columns([ColumnFacts(8, values=one_file)], schema, {})
    with pytest.raises(InvalidInput, match="c: a count is negative: nulls -1"):
        one(INT, nulls=pa.array([3, -1]))
    with pytest.raises(InvalidInput, match="c: bounds of type int cannot be made of"):
        one(INT, lower=pa.array([2**31]))
    with pytest.raises(InvalidInput, match="c: string is no int64"):
        one(INT, values=pa.array(["x"]))


# Bounds


@given(st.data())
def test_bounds_of_columns_are_those_of_single_values(data: st.DataObject) -> None:
    type_, values = data.draw(
        typed_primitives().filter(lambda each: not isinstance(each[0], Geometry | Geography))
    )
    given_values = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    column = arrow(type_, given_values)
    start = data.draw(st.integers(0, len(column) - 1))
    found = one(type_, lower=column[start:], upper=pa.chunked_array([column[start:]]))
    for name, zero in (("lower_bounds", -0.0), ("upper_bounds", 0.0)):
        expected = [
            None if each is None else bound_to_bytes(type_, zero if type_ in FLOATS and each == 0 else each)
            for each in given_values[start:]
        ]
        assert found[name] == expected


EDGES = st.sampled_from("\x7e\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\u00ff\u0100")
TEXTS = st.lists(
    st.none() | st.text(st.characters(exclude_categories=["Cs"]) | EDGES, max_size=6), min_size=1
)
BLOBS = st.lists(
    st.none()
    | st.binary(max_size=5)
    | st.text("\xfe\xff\x00", max_size=5).map(lambda s: s.encode("latin-1")),
    min_size=1,
)


@given(TEXTS, st.integers(1, 4))
def test_strings_are_cut_by_code_points_and_rounded_up(values: list[str | None], length: int) -> None:
    column = pa.array(values, pa.string())
    found = with_mode(Truncated(length), STRING, lower=column, upper=column)
    for value, lower, upper in zip(values, found["lower_bounds"], found["upper_bounds"], strict=True):
        if value is None:
            assert lower is upper is None
            continue
        assert lower == truncate_lower(STRING, value, length).encode()
        expected = truncate_upper(STRING, value, length)
        assert upper == (None if expected is None else expected.encode())
        assert lower <= value.encode()
        assert upper is None or value.encode() <= upper


@given(BLOBS, st.integers(1, 4))
def test_binaries_are_cut_by_bytes_and_rounded_up(values: list[bytes | None], length: int) -> None:
    column = pa.array(values, pa.binary())
    found = with_mode(Truncated(length), BINARY, lower=column, upper=column)
    for value, lower, upper in zip(values, found["lower_bounds"], found["upper_bounds"], strict=True):
        if value is None:
            assert lower is upper is None
            continue
        assert lower == truncate_lower(BINARY, value, length)
        assert upper == truncate_upper(BINARY, value, length)


def test_there_is_no_upper_bound_where_nothing_is_larger() -> None:
    highest = "\U0010ffff" * 3
    found = with_mode(Truncated(2), STRING, lower=pa.array([highest, "ab"]), upper=pa.array([highest, "abc"]))
    assert found["lower_bounds"] == [("\U0010ffff" * 2).encode(), b"ab"]
    assert found["upper_bounds"] == [None, b"ac"]
    assert with_mode(Truncated(2), BINARY, upper=pa.array([b"\xff\xff\xff"]))["upper_bounds"] == [None]


def test_only_strings_and_binaries_are_cut() -> None:
    for type_, value in ((Fixed(4), b"abcd"), (UUID, bytes(range(16)))):
        column = pa.array([value], pa.binary(len(value)))
        assert with_mode(Truncated(1), type_, lower=column, upper=column)["upper_bounds"] == [value]


@pytest.mark.parametrize(
    ("type_", "code", "kind"), [(FLOAT, "<f", pa.float32()), (DOUBLE, "<d", pa.float64())]
)
def test_nan_is_no_bound_and_zeros_are_as_wide_as_they_can_be(
    type_: Type, code: str, kind: pa.DataType
) -> None:
    lower = pa.array([0.0, -0.0, NAN, 1.0, -INF, None], kind)
    upper = pa.array([-0.0, 0.0, 2.0, NAN, INF, 3.0], kind)
    found = one(type_, lower=lower, upper=upper)
    low, high = struct.pack(code, -0.0), struct.pack(code, 0.0)
    assert found["lower_bounds"] == [low, low, None, None, struct.pack(code, -INF), None]
    assert found["upper_bounds"] == [high, high, None, None, struct.pack(code, INF), struct.pack(code, 3.0)]


def test_text_that_is_no_utf_8_is_no_bound() -> None:
    raw = pa.array([b"ok", b"\xff\xfe", None, b"b\x80d"])
    texts = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    assert one(STRING, lower=texts)["lower_bounds"] == [b"ok", None, None, None]
    assert with_mode(Truncated(1), STRING, upper=texts)["upper_bounds"] == [b"p", None, None, None]


@pytest.mark.parametrize("type_", [Geometry(), Geography()])
def test_bounds_of_shapes_are_packed_points(type_: Type) -> None:
    points = [
        geo.Point(1.5, -2.0),
        geo.Point(1.0, 2.0, 3.0),
        geo.Point(1.0, 2.0, None, 4.0),
        geo.Point(1.0, 2.0, 3.0, 4.0),
    ]
    given_points = [{"x": each.x, "y": each.y, "z": each.z, "m": each.m} for each in points]
    column = pa.array([*given_points, None, {"x": NAN, "y": 1.0}, {"x": None, "y": 1.0}])
    packed = [geo.point_to_bytes(each) for each in points]
    found = with_mode(Truncated(1), type_, lower=column, upper=pa.array([*packed, None, None, None]))
    assert found["lower_bounds"] == [*packed, None, None, None]
    assert found["upper_bounds"] == [*packed, None, None, None]
    flat = one(type_, lower=pa.array([{"x": 1.5, "y": -2.0}]))
    assert flat["lower_bounds"] == packed[:1]


def test_shapes_themselves_are_no_bounds() -> None:
    with pytest.raises(InvalidInput, match="packed points have 16, 24 or 32 bytes"):
        one(Geometry(), lower=pa.array([geo.wkt_to_wkb("POINT (30 10)")]))
    with pytest.raises(InvalidInput, match="corners cannot be made of"):
        one(Geometry(), lower=pa.array([1.0]))


def test_variants_have_the_bounds_that_are_given() -> None:
    assert one(VARIANT, values=pa.array([3]))["lower_bounds"] == [None]
    assert one(VARIANT, lower=pa.array([b"stored"]))["lower_bounds"] == [b"stored"]


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (LONG, pa.array([5, 5], pa.int16())),
        (DOUBLE, pa.array([5.0, 5.0], pa.float32())),
        (STRING, pa.array(["5", "5"]).dictionary_encode()),
        (STRING, pa.array(["5", "5"], pa.large_string())),
        (STRING, pa.array(["5", "5"], pa.string_view())),
        (BINARY, pa.array([b"5", b"5"], pa.large_binary())),
        (BOOLEAN, pa.array([True, True])),
        (TIMESTAMP, pa.array([5, 5], pa.timestamp("ms"))),
        (TIMESTAMPTZ, pa.array([5, 5], pa.timestamp("us", "Europe/Berlin"))),
        (TIMESTAMP_NS, pa.array([5, 5], pa.timestamp("us"))),
        (TIMESTAMPTZ_NS, pa.array([5, 5], pa.timestamp("ns", "+01:00"))),
        (Decimal(9, 2), pa.array([5, 5], pa.int32()).cast(pa.decimal128(12, 2))),
    ],
)
def test_any_arrow_type_that_holds_the_values_will_do(type_: Type, column: pa.Array) -> None:
    natural = column.cast(to_arrow(Schema((Field(1, "c", type_),))).field(0).type)
    assert one(type_, lower=column)["lower_bounds"] == one(type_, lower=natural)["lower_bounds"]
    assert None not in one(type_, lower=column)["lower_bounds"]


def test_many_files_take_no_step_for_each() -> None:
    count = 100_000
    source = np.random.default_rng(1)
    texts = pa.array(
        [f"Stra\xdfe {number:020}" for number in source.integers(0, 10**9, 1000)] * (count // 1000)
    )
    schema = Schema((Field(1, "a", STRING), Field(2, "b", LONG)))
    numbers = pa.array(source.integers(0, 10**9, count))
    facts = [ColumnFacts(1, numbers, lower=texts, upper=texts), ColumnFacts(2, numbers, lower=numbers)]
    found = metrics_columns(facts, schema, {1: Truncated(16), 2: FULL})
    assert {len(column) for column in found.values()} == {count}
    assert found["upper_bounds"][5].as_py() == [(1, truncate_upper(STRING, texts[5].as_py(), 16).encode())]
