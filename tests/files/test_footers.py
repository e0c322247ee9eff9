"""What footers tell becomes metrics that hold, whoever wrote the file."""

from __future__ import annotations

import io
import math
import struct
import time
from collections.abc import Callable
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.files import thrift
from lakeplane.files.align import align_arrow
from lakeplane.files.footer_ids import add_field_ids, missing_field_ids
from lakeplane.files.footers import parquet_metrics
from lakeplane.files.parquet_schema import TAIL, footer_length, footer_of, read_schema, write_footer
from lakeplane.files.write import write_rows
from lakeplane.iceberg.metrics_modes import FULL, column_modes, leaves
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.schema_json import write_schema
from lakeplane.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
    Type,
)
from lakeplane.model.value_bytes import from_bytes
from tests.files.samples import NESTED, PLAIN, sample, target
from tests.interop.peers import ask

MAPS = ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")


def parquet(rows: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out, **options)
    return out.getvalue()


def metrics(data: bytes, schema: Schema) -> dict[str, Any]:
    found = parquet_metrics([data], schema, dict.fromkeys(leaves(schema), FULL)).to_pylist()[0]
    return {
        name: dict(value) if isinstance(value, list) and name in MAPS else value
        for name, value in found.items()
    }


def bounds(data: bytes, type_: Type) -> tuple[Any, Any]:
    """The bounds of the only column of a file, whose field has the id 1."""
    found = metrics(data, Schema((Field(1, "x", type_),)))
    ends = [(found[name] or {}).get(1) for name in ("lower_bounds", "upper_bounds")]
    lower, upper = (None if each is None else from_bytes(type_, each) for each in ends)
    return lower, upper


@pytest.mark.parametrize("group", [PLAIN, NESTED])
def test_metrics_are_those_of_pyiceberg(group: dict[str, tuple[Type, list[Any]]], tmp_path: Path) -> None:
    schema, rows = sample(group)
    files: dict[str, bytes] = {}
    (found,) = write_rows(rows, target(schema), files.__setitem__)
    path = tmp_path / "file.parquet"
    path.write_bytes(*files.values())
    question = {
        "paths": [str(path)],
        "schema": msgspec.json.decode(msgspec.json.encode(write_schema(schema))),
    }
    (answer,) = ask("pyiceberg_data_files", question)
    mine = found.files.to_pylist()[0]
    for name, theirs in answer["metrics"].items():
        if name not in MAPS:
            continue
        # PyIceberg has bounds for columns at the top only.
        kept = {key for key, _ in mine[name] if "bounds" not in name or schema.parent_of(key) is None}
        ours = [
            [key, each.hex() if isinstance(each, bytes) else each] for key, each in mine[name] if key in kept
        ]
        assert ours == theirs, name
    assert mine["record_count"] == answer["record_count"]
    assert mine["split_offsets"] == answer["split_offsets"]


LEAVES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    Decimal(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Number(n).scaleb(-2)),
    Decimal(25, 2): st.integers(-(10**20), 10**20).map(lambda n: Number(n).scaleb(-2)),
    STRING: st.text(max_size=20),
    BINARY: st.binary(max_size=20),
    Fixed(3): st.binary(min_size=3, max_size=3),
}


def order(value: Any) -> Any:
    """The order of the format: NaN is no bound, and -0.0 is below 0.0."""
    if isinstance(value, float):
        return (value, math.copysign(1, value)) if value == 0 else (value, 0)
    return value.encode() if isinstance(value, str) else value


@given(st.data())
def test_bounds_hold(data: st.DataObject) -> None:
    """Whatever values there are, over several row groups: none of them is outside of the bounds."""
    type_ = data.draw(st.sampled_from(list(LEAVES)))
    values = data.draw(st.lists(st.none() | LEAVES[type_], max_size=30))
    schema = Schema((Field(1, "x", type_), Field(2, "s", Struct((Field(3, "x", type_),)))))
    rows = align_arrow(
        schema,
        pa.table({"x": values, "s": [None if each is None else {"x": each} for each in values]})
        if any(each is not None for each in values)
        else pa.table({"x": pa.nulls(len(values)), "s": pa.nulls(len(values))}),
    )
    assert isinstance(rows, pa.Table)
    group = data.draw(st.integers(1, 10))
    mode = data.draw(st.sampled_from(["full", "truncate(2)"]))
    told = parquet_metrics(
        [parquet(rows, row_group_size=group)],
        schema,
        column_modes({"write.metadata.metrics.default": mode}, schema),
    ).to_pylist()[0]
    present = [each for each in values if each is not None and str(each) != "nan"]
    for field_id in (1, 3):
        for name, sign in (("lower_bounds", 1), ("upper_bounds", -1)):
            raw = dict(told[name] or []).get(field_id)
            if raw is None:
                continue
            bound = order(from_bytes(type_, raw))
            assert all((order(each) >= bound) if sign == 1 else (order(each) <= bound) for each in present)
        counts = {name: dict(told[name] or []).get(field_id) for name in MAPS}
        if values:
            assert counts["value_counts"] == len(values)
            assert counts["null_value_counts"] == values.count(None)


def test_nan_of_parquet_mr_is_no_bound() -> None:
    """parquet-mr counts NaN as the largest number: a bound made of it would hide all others."""
    data = parquet(pa.table({"x": [1.0, 2.0]}))
    nan = struct.pack("<d", math.nan)
    poisoned = data.replace(struct.pack("<d", 2.0), nan)
    assert bounds(data, DOUBLE) == (1.0, 2.0)
    assert bounds(poisoned, DOUBLE) == (None, None)


def test_a_row_group_without_statistics_leaves_no_bound() -> None:
    """Half of a file says nothing of the other half."""
    out = io.BytesIO()
    rows = pa.table({"x": pa.array(["a", "b" * 5000])})  # Arrow stores no statistics of long values
    pq.write_table(rows, out, row_group_size=1)
    assert bounds(out.getvalue(), STRING) == (None, None)
    out = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array(["a", None])}), out, row_group_size=1)
    assert bounds(out.getvalue(), STRING) == ("a", "a")


def column(values: Any, type_: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(values, type_)})


INT96, AS_INTEGER = {"use_deprecated_int96_timestamps": True}, {"store_decimal_as_integer": True}
LOW, HIGH = Number("-1.5"), Number("2.5")


@pytest.mark.parametrize(
    ("rows", "options", "type_", "expected"),
    [
        (column([1, 2**32 - 1], pa.uint32()), {}, LONG, (1, 2**32 - 1)),
        (column([1, 2**63], pa.uint64()), {}, LONG, (1, None)),
        (column([-1, 5], pa.int32()), {}, LONG, (-1, 5)),
        (column([1.5, 2.5], pa.float32()), {}, DOUBLE, (1.5, 2.5)),
        (column([-1, 1], pa.timestamp("ms")), {}, TIMESTAMP, (-1000, 1000)),
        (column([-1, 1], pa.timestamp("ns")), {}, TIMESTAMP, (-1, 1)),
        (column([-1, 1], pa.timestamp("us")), {}, TIMESTAMP_NS, (-1000, 1000)),
        (column([-1, 1], pa.timestamp("us")), INT96, TIMESTAMP, (None, None)),
        (column([-1, 1], pa.date32()), {}, TIMESTAMP, (-86_400_000_000, 86_400_000_000)),
        (column([-1, 1], pa.date32()), {}, DATE, (-1, 1)),
        (column([1, 2], pa.time32("ms")), {}, TIME, (1000, 2000)),
        (column([LOW, HIGH], pa.decimal128(30, 1)), {}, Decimal(38, 1), (LOW, HIGH)),
        (column([LOW, HIGH], pa.decimal128(9, 1)), AS_INTEGER, Decimal(9, 1), (LOW, HIGH)),
        (column([Number("1.50")], pa.decimal128(9, 2)), {}, Decimal(9, 1), (None, None)),
        (column(["a"], pa.string()), {}, LONG, (None, None)),
        (column([1], pa.int64()), {}, STRING, (None, None)),
    ],
)  # fmt: skip
def test_bounds_in_other_types_than_the_tables(
    rows: pa.Table, options: dict[str, Any], type_: Type, expected: tuple[Any, Any]
) -> None:
    assert bounds(parquet(rows, **options), type_) == expected


def test_columns_are_found_by_id_and_not_by_name() -> None:
    """After columns swapped their names, a bound under the wrong one loses rows."""
    fields = [
        pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "2"}),
        pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "1"}),
    ]
    data = parquet(pa.table({"a": [1], "b": [2]}).cast(pa.schema(fields)))
    schema = Schema((Field(1, "a", LONG), Field(2, "b", LONG)))
    assert metrics(data, schema)["lower_bounds"] == {1: struct.pack("<q", 2), 2: struct.pack("<q", 1)}


def test_files_laid_out_differently_are_told_apart() -> None:
    schema = Schema((Field(1, "a", LONG), Field(2, "s", Struct((Field(3, "b", LONG),)))))
    first = parquet(pa.table({"a": [1], "s": [{"b": 2}]}))
    second = parquet(pa.table({"s": [{"b": 3}], "a": [4]}))
    third = parquet(pa.table({"s": [{"b": 5}]}))
    found = parquet_metrics([first, second, third, first], schema, dict.fromkeys(leaves(schema), FULL))
    ends = [
        {key: struct.unpack("<q", value)[0] for key, value in each}
        for each in found["lower_bounds"].to_pylist()
    ]
    assert ends == [{1: 1, 3: 2}, {1: 4, 3: 3}, {3: 5}, {1: 1, 3: 2}]


# Broken footers


@pytest.mark.parametrize("cut", [0, 4, 8, 9, 40])
def test_what_is_no_whole_footer_is_refused(cut: int) -> None:
    data = parquet(pa.table({"x": [1]}))
    tail = data[len(data) - cut :]
    with pytest.raises(InvalidMetadata, match=r"^s3://b/f: "):
        parquet_metrics([tail], Schema((Field(1, "x", LONG),)), {1: FULL}, sources=["s3://b/f"])


@given(st.data())
def test_broken_footers_are_errors_and_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(parquet(pa.table({"x": [1], "l": [[1]]})))
    length = footer_length(bytes(whole[-TAIL:]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(len(whole) - TAIL - length, len(whole) - TAIL - 1))
        whole[at] = data.draw(st.integers(0, 255))
    try:
        read_schema(footer_of(bytes(whole)))
    except InvalidMetadata:
        return


# Field ids


def spark_like() -> tuple[Schema, pa.Table]:
    """A file as Spark writes it: ids on columns and fields of structs, none inside of lists and maps."""
    schema = Schema(
        (
            Field(1, "l", List(2, Struct((Field(3, "a", LONG),)))),
            Field(4, "m", Map(5, STRING, 6, List(7, DOUBLE))),
            Field(8, "s", Struct((Field(9, "b", LONG),))),
        )
    )

    def marked(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})

    arrow = pa.schema(
        [
            marked("l", pa.list_(pa.struct([marked("a", pa.int64(), 3)])), 1),
            marked("m", pa.map_(pa.string(), pa.list_(pa.float64())), 4),
            marked("s", pa.struct([marked("b", pa.int64(), 9)]), 8),
        ]
    )
    row = {"l": [{"a": 1}], "m": [("k", [1.5])], "s": {"b": 2}}
    return schema, pa.Table.from_pylist([row], arrow)


def test_missing_ids_are_added_and_nothing_else_changes() -> None:
    """Iceberg drops lists, and PyIceberg whole files, whose elements have no ids."""
    schema, rows = spark_like()
    data = parquet(rows)
    assert missing_field_ids(data, schema) == ["l.element", "m.key", "m.value", "m.value.element"]
    found = add_field_ids(data, schema)
    assert found is not None
    assert missing_field_ids(found, schema) == []
    assert add_field_ids(found, schema) is None
    front = len(data) - TAIL - footer_length(data)
    assert found[:front] == data[:front]
    assert pq.read_table(io.BytesIO(found)).to_pylist() == rows.to_pylist()
    old, new = pq.read_metadata(io.BytesIO(data)), pq.read_metadata(io.BytesIO(found))
    assert old.row_group(0).to_dict() == new.row_group(0).to_dict()
    assert old.metadata == new.metadata
    assert old.created_by == new.created_by


def test_pyiceberg_reads_files_with_added_ids(tmp_path: Path) -> None:
    schema, rows = spark_like()
    found = add_field_ids(parquet(rows), schema)
    assert found is not None
    (tmp_path / "f.parquet").write_bytes(found)
    (answer,) = ask("pyiceberg_data_files", {"paths": [str(tmp_path / "f.parquet")]})
    assert (
        answer["schema"]["fields"] == msgspec.json.decode(msgspec.json.encode(write_schema(schema)))["fields"]
    )


def test_only_the_tail_is_needed() -> None:
    schema, rows = spark_like()
    data = parquet(rows)
    length = footer_length(data[-TAIL:]) + TAIL
    found = add_field_ids(data[-length:], schema)
    assert found is not None
    assert add_field_ids(data, schema) == data[:-length] + found


@given(st.integers(1, 40), st.integers(0, 3))
def test_a_footer_that_is_written_again_is_the_same(columns: int, depth: int) -> None:
    values: Any = 1
    for _ in range(depth):
        values = [{"x": values}]
    footer = footer_of(parquet(pa.table({f"c{at}": [values] for at in range(columns)})))
    assert write_footer(footer, read_schema(footer), {}) == footer


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive_thrift(number: int) -> None:
    assert thrift.read_int(thrift.write_int(number)) == number


# Speed


def test_a_thousand_footers_are_read_quickly() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"c{at}": rng.random(100) for at in range(20)}
    columns |= {f"t{at}": [f"text {n}" for n in range(100)] for at in range(10)}
    schema = Schema(
        tuple(Field(at, name, STRING if name[0] == "t" else DOUBLE) for at, name in enumerate(columns, 1))
    )
    tails = [parquet(pa.table(columns))] * 1000
    modes = column_modes({}, schema)
    best = min(timed(lambda: parquet_metrics(tails, schema, modes)) for _ in range(3))
    assert best < 2.5  # 0.4 s where nothing else runs


def timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


# Other writers

OF_OTHERS: dict[str, tuple[Type, list[Any]]] = {
    "i": (INT, [5, None, -3]),
    "l": (LONG, [-(2**63), 2**63 - 1, None]),
    "d9": (Decimal(9, 2), [Number("-1.25"), Number("300.00"), None]),
    "d30": (Decimal(30, 2), [Number("-1.25"), Number("300.00"), None]),
    "f": (DOUBLE, [-1.5, 2.5, None]),
    "nan": (DOUBLE, [-1.5, math.nan, None]),
    "s": (STRING, ["ž", "", None]),
    "b": (BINARY, [b"\xff\x00", b"a", None]),
    "day": (DATE, [-1, 1, None]),
    "at": (TIMESTAMP, [-1, 10**15, None]),
    "nothing": (INT, [None, None, None]),
    "st": (Struct((Field(50, "x", LONG),)), [{"x": 1}, None, {"x": 9}]),
    "li": (List(60, LONG), [[1, 2], None, []]),
}


def others() -> tuple[Schema, pa.Table]:
    schema = Schema(
        tuple(Field(at, name, type_) for at, (name, (type_, _)) in enumerate(OF_OTHERS.items(), 1))
    )
    arrow = to_arrow(schema)
    columns = [pa.array(values, arrow.field(name).type) for name, (_, values) in OF_OTHERS.items()]
    return schema, pa.Table.from_arrays(columns, names=list(OF_OTHERS))


def check_others(data: bytes, schema: Schema) -> None:
    found = metrics(data, schema)
    assert found["record_count"] == 3
    for field_id, (name, (type_, values)) in enumerate(OF_OTHERS.items(), 1):
        if name == "li":
            assert found["column_sizes"][60] > 0
            assert 60 not in found["lower_bounds"]
            continue
        leaf, kind = (50, LONG) if name == "st" else (field_id, type_)
        present = [each["x"] if name == "st" else each for each in values if each is not None]
        assert found["value_counts"][leaf] == 3, name
        assert found["null_value_counts"][leaf] == values.count(None), name
        ends = [(found[side] or {}).get(leaf) for side in ("lower_bounds", "upper_bounds")]
        known = [from_bytes(kind, each) for each in ends if each is not None]
        if name == "nan":
            # What a writer makes of NaN is its own affair; a bound must hold for numbers.
            assert all(not math.isnan(each) for each in known)
            assert ends[1] is None or known[-1] >= -1.5
        else:
            assert known == ([min(present, key=order), max(present, key=order)] if present else []), name


def test_files_of_duckdb_and_polars(tmp_path: Path) -> None:
    schema, rows = others()
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), rows.schema) as sink:
        sink.write_table(rows)
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("duckdb", "polars")}
    ask("write_parquet", {"rows": str(tmp_path / "rows.arrow"), **paths})
    for path in paths.values():
        check_others(Path(path).read_bytes(), schema)
    check_others(parquet(rows), schema)
