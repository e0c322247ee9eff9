"""Rows of any nesting come back from files as they were given."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.files.align import align_arrow
from lakeplane.files.target import FileFormat
from lakeplane.files.write import write_rows
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import number_fields
from lakeplane.model.types import DATE, DOUBLE, INT, STRING, UUID, Field, Fixed, List, Map, Struct, Type
from tests.files.samples import build, target

LEAVES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**31), 2**31 - 1),
    DOUBLE: st.floats(allow_nan=False),
    STRING: st.text(max_size=3),
    DATE: st.dates(dt.date(1600, 1, 1)),
    UUID: st.uuids().map(lambda value: value.bytes),
    Fixed(2): st.binary(min_size=2, max_size=2),
}


def types(depth: int) -> st.SearchStrategy[Type]:
    leaf = st.sampled_from(list(LEAVES))
    if depth == 0:
        return leaf
    inner = types(depth - 1)
    required = st.booleans()
    fields = st.lists(st.tuples(inner, required), min_size=1, max_size=3).map(
        lambda each: Struct(
            tuple(Field(0, f"f{at}", type_, required=must) for at, (type_, must) in enumerate(each))
        )
    )
    keys = st.sampled_from([INT, STRING])
    return st.one_of(
        leaf,
        fields,
        st.builds(List, st.just(0), inner, required),
        st.builds(Map, st.just(0), keys, st.just(0), inner, required),
    )


def values(type_: Type, *, required: bool) -> st.SearchStrategy[Any]:
    match type_:
        case Struct():
            found: st.SearchStrategy[Any] = st.fixed_dictionaries(
                {field.name: values(field.type, required=field.required) for field in type_.fields}
            )
        case List():
            found = st.lists(values(type_.element, required=type_.element_required), max_size=3)
        case Map():
            found = st.dictionaries(
                LEAVES[type_.key], values(type_.value, required=type_.value_required), max_size=3
            ).map(lambda each: list(each.items()))
        case _:
            found = LEAVES[type_]
    return found if required else st.none() | found


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, pa.Table]:
    numbers = itertools.count(1)
    whole = number_fields(
        Struct((Field(0, "x", draw(types(3)), required=draw(st.booleans())),)), lambda _: next(numbers)
    )
    assert isinstance(whole, Struct)
    (field,) = whole.fields
    rows = draw(st.lists(values(field.type, required=field.required), min_size=1, max_size=6))
    schema = Schema((field,))
    aligned = align_arrow(schema, pa.table({"x": build(as_given(field.type), rows)}))
    assert isinstance(aligned, pa.Table)
    return schema, aligned


def as_given(type_: Type) -> pa.DataType:
    """How users have values in Arrow: all fields nullable, uuids as bytes."""
    match type_:
        case Struct():
            return pa.struct([pa.field(each.name, as_given(each.type)) for each in type_.fields])
        case List():
            return pa.list_(as_given(type_.element))
        case Map():
            return pa.map_(as_given(type_.key), as_given(type_.value))
        case Fixed():
            return pa.binary()
        case _:
            plain: dict[Type, pa.DataType] = {
                INT: pa.int32(),
                DOUBLE: pa.float64(),
                DATE: pa.date32(),
                UUID: pa.binary(16),
            }
            return plain.get(type_, pa.string())


def read(file_format: FileFormat, data: bytes) -> pa.Table:
    match file_format:
        case "parquet":
            return pq.read_table(io.BytesIO(data))
        case "orc":
            return po.read_table(io.BytesIO(data))
        case _:
            raise NotImplementedError


@given(tables(), st.sampled_from(["parquet", "orc"]))
def test_rows_come_back(made: tuple[Schema, pa.Table], file_format: FileFormat) -> None:
    schema, rows = made
    rows.validate(full=True)
    store: dict[str, bytes] = {}
    # In two row groups, the second of which begins within arrays.
    halves = pa.concat_tables([rows, rows.slice(rows.num_rows // 2)])
    write_rows(halves, target(schema, file_format=file_format), store.__setitem__)
    (data,) = store.values()
    found = align_arrow(schema, read(file_format, data))
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == halves.to_pylist()


def test_slices_of_structs_keep_their_values_in_orc() -> None:
    """Arrow's ORC writer made null of the 7: it read the children of another row."""
    schema = Schema((Field(1, "x", Struct((Field(2, "y", Struct((Field(3, "z", INT),))),))),))
    rows = align_arrow(schema, pa.table({"x": [None, None, {"y": {"z": 7}}]}))
    store: dict[str, bytes] = {}
    write_rows(rows.slice(1), target(schema, file_format="orc"), store.__setitem__)
    (data,) = store.values()
    assert po.read_table(io.BytesIO(data))["x"].to_pylist() == [None, {"y": {"z": 7}}]


def test_structs_in_lists_keep_their_values_in_orc() -> None:
    """Arrow's ORC writer gave the 7 to nobody: below a null struct lay something that is not null."""
    items = List(2, Struct((Field(3, "a", UUID, required=True),)))
    outside = Struct((Field(4, "items", items, required=True), Field(5, "n", INT)))
    schema = Schema((Field(1, "x", outside, required=True),))
    given_rows = [{"items": [None, {"a": uuid.UUID(int=7).bytes}], "n": None}]
    rows = align_arrow(schema, pa.table({"x": build(as_given(outside), given_rows)}))
    assert isinstance(rows, pa.Table)
    store: dict[str, bytes] = {}
    twice = pa.concat_tables([rows, rows])
    write_rows(twice, target(schema, file_format="orc"), store.__setitem__)
    (data,) = store.values()
    assert po.read_table(io.BytesIO(data))["x"].to_pylist() == given_rows * 2


def test_uuids_are_uuids() -> None:
    schema = Schema((Field(1, "x", UUID),))
    value = uuid.UUID(int=7)
    found = align_arrow(schema, pa.table({"x": [value.bytes]}))
    assert isinstance(found, pa.Table)
    assert found["x"].to_pylist() == [value]
