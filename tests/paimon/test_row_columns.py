from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.types import Decimal
from lakeplane.paimon.binary_row import decode_row, encode_row
from lakeplane.paimon.row_columns import RowColumn, arrow_type, read_values, write_rows
from lakeplane.paimon.types import DataType, Time, Timestamp, is_text, parse_type
from tests.paimon.row_strategies import columns
from tests.paimon.stored import NAMES, stored
from tests.paimon.test_binary_row import stored_rows


def canonical(column: pa.Array, type_: DataType) -> list[Any]:
    """A column as values of ``model.values``."""
    match type_.kind:
        case Time():
            return [None if each is None else each * 1000 for each in column.view(pa.int32()).to_pylist()]
        case Timestamp():
            return list(column.view(pa.int64()).to_pylist())
        case _ if pa.types.is_date32(column.type):
            return list(column.view(pa.int32()).to_pylist())
        case _ if is_text(type_.kind):
            return [None if each is None else each.decode() for each in column.to_pylist()]
        case _:
            return list(column.to_pylist())


def to_arrow(type_: DataType, values: list[Any]) -> pa.Array:
    wanted = arrow_type(type_.kind)
    assert wanted is not None
    match type_.kind:
        case Time():
            millis = [None if each is None else each // 1000 for each in values]
            return pa.array(millis, pa.int32()).view(wanted)
        case Timestamp():
            return pa.array(values, pa.int64()).view(wanted)
        case _ if pa.types.is_date32(wanted):
            return pa.array(values, pa.int32()).view(wanted)
        case _:
            return pa.array(values, wanted)


@given(columns(), st.booleans())
def test_many_rows_are_read_and_written_as_one_by_one(case: Any, reserve_null: bool) -> None:  # noqa: FBT001
    _, types, rows, _ = case
    encoded = [encode_row(types, row, reserve_null=reserve_null) for row in rows]
    found = RowColumn(pa.array([b"", *encoded, None], pa.binary()).slice(1, len(encoded)), types)
    parts = [found.column(position) for position in range(len(types))]
    for position, (type_, part) in enumerate(zip(types, parts, strict=True)):
        assert part is not None
        assert canonical(part, type_) == [row[position] for row in rows], type_
    arrays = [to_arrow(type_, [row[position] for row in rows]) for position, type_ in enumerate(types)]
    assert write_rows(types, arrays, reserve_null=reserve_null).to_pylist() == encoded
    if rows:
        whole = [part for part in parts if part is not None]
        assert write_rows(types, whole, reserve_null=reserve_null).to_pylist() == encoded


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_other_writers_are_read_in_columns_as_one_by_one(name: str) -> None:
    groups: dict[tuple[DataType, ...], list[bytes]] = {}
    for _, types, data, _ in stored_rows(stored(name)):
        groups.setdefault(tuple(types), []).append(data)
    for key, rows in groups.items():
        types = list(key)
        found = RowColumn(pa.array(rows, pa.binary()), types).require(name, "row")
        for position, type_ in enumerate(types):
            column = found.column(position)
            expected = [decode_row(types, row)[position] for row in rows]
            assert (expected if column is None else canonical(column, type_)) == expected


@given(columns(), st.data())
def test_broken_rows_read_as_null_or_as_something(case: Any, data: st.DataObject) -> None:
    _, types, rows, _ = case
    encoded = [bytearray(encode_row(types, row, reserve_null=True)) for row in rows]
    for row in encoded:
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
        del row[data.draw(st.integers(0, len(row))) :]
    found = RowColumn(pa.array(map(bytes, encoded), pa.large_binary()), types)
    for position, type_ in enumerate(types):
        column = found.column(position)
        assert column is not None
        column.validate(full=not isinstance(type_.kind, Decimal))
        assert len(column) == len(rows)


def test_rows_of_another_arity_are_not_usable_and_refused_where_they_must_be_right() -> None:
    one, two = parse_type("INT", ""), parse_type("STRING", "")
    rows = pa.array(
        [encode_row([one], [1], reserve_null=True), encode_row([one, two], [1, "x"], reserve_null=True)]
    )
    found = RowColumn(rows, [one])
    assert found.usable.tolist() == [True, False]
    column = found.column(0)
    assert column is not None
    assert column.to_pylist() == [1, None]
    with pytest.raises(InvalidMetadata, match="row 1 is broken"):
        read_values(rows, [one], "manifest-1")


def test_a_value_that_points_out_of_its_row_is_refused_where_it_must_be_right() -> None:
    text = parse_type("STRING", "")
    row = bytearray(encode_row([text], ["a text of some length"], reserve_null=True))
    row[12] = 200
    with pytest.raises(InvalidMetadata, match="manifest-1"):
        read_values(pa.array([bytes(row)]), [text], "manifest-1")


def test_moments_that_no_column_can_hold_are_unknown_and_refused_where_they_must_be_right() -> None:
    """Nanoseconds in 64 bits end in the year 2262."""
    type_ = parse_type("TIMESTAMP(9)", "")
    rows = pa.array([encode_row([type_], [value], reserve_null=True) for value in (10**20, 7)])
    column = RowColumn(rows, [type_]).column(0)
    assert column is not None
    assert column.view(pa.int64()).to_pylist() == [None, 7]
    with pytest.raises(InvalidMetadata, match="is broken"):
        read_values(rows, [type_], "manifest-1")


def test_columns_that_do_not_fit_are_refused() -> None:
    for text, column in (
        ("TINYINT", pa.array([300])),
        ("DECIMAL(3, 1)", pa.array(["x"])),
        ("TIMESTAMP(0)", pa.array([1], pa.int64()).view(pa.timestamp("us"))),
        ("VARIANT", pa.array([b"x"])),
    ):
        with pytest.raises(InvalidInput):
            write_rows([parse_type(text, "")], [column], reserve_null=True)
