from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.paimon.binary_row import EMPTY_ROW, decode_row, encode_row
from lakeplane.paimon.manifests import parse_manifest, parse_manifest_list
from lakeplane.paimon.time_travel import read_schema
from lakeplane.paimon.types import DataType, parse_type
from tests.paimon.naive_rows import naive_row
from tests.paimon.row_strategies import rows
from tests.paimon.stored import NAMES, Stored, stored


def types_of(*texts: str) -> list[DataType]:
    return [parse_type(text, "") for text in texts]


def test_rows_that_were_described_byte_by_byte() -> None:
    for types, values, expected in (
        (types_of("STRING"), ["p1"], "00000001 0000000000000000 7031000000000082"),
        (types_of("BIGINT"), [3], "00000001 0000000000000000 0300000000000000"),
        (types_of("INT", "STRING"), [2, "u2"], "00000002 0000000000000000 0200000000000000 7532000000000082"),
        ([], [], "00000000 0000000000000000"),
    ):
        row = encode_row(types, values, reserve_null=True)
        assert row.hex() == expected.replace(" ", "")
        assert decode_row(types, row) == tuple(values)
    assert encode_row([], [], reserve_null=False) == EMPTY_ROW


@given(rows(), st.booleans())
def test_rows_are_what_the_description_says(case: Any, reserve_null: bool) -> None:  # noqa: FBT001
    texts, types, canonical, plain = case
    row = encode_row(types, canonical, reserve_null=reserve_null)
    assert row == naive_row(list(zip(texts, plain, strict=True)), reserve_null=reserve_null)
    assert list(decode_row(types, row)) == canonical


def test_the_partition_of_null_times_is_another_one_where_nulls_have_no_place() -> None:
    """Java and Python give the null partition of a TIMESTAMP(6) different bytes: files looked lost."""
    [type_] = types_of("TIMESTAMP(6)")
    java = encode_row([type_], [None], reserve_null=True)
    python = encode_row([type_], [None], reserve_null=False)
    assert java.hex() == "00000001" + "0001000000000000" + "0000000010000000" + "00" * 8
    assert python.hex() == "00000001" + "0001000000000000" + "00" * 8
    assert decode_row([type_], java) == decode_row([type_], python) == (None,)


def stored_rows(table: Stored) -> Iterator[tuple[str, list[DataType], bytes, bool]]:
    """Every row in the manifests of a table: what it is, its types, its bytes, whether nulls have a place."""
    schema = table.schema
    partition, key = (
        list(schema.types_of(names)) for names in (schema.partition_keys, schema.trimmed_primary_keys)
    )
    for path, data in table.manifest_lists.items():
        for row in parse_manifest_list(data, path).to_pylist():
            yield "partition stats", partition, row["partition_min"], False
            yield "partition stats", partition, row["partition_max"], False
    for path, data in table.manifests.items():
        for row in parse_manifest(data, path).to_pylist():
            yield "partition", partition, row["partition"], True
            for name in ("min_key", "max_key"):
                yield "key", key, row[name], True
            names = row["value_stats_cols"]
            then = read_schema(table.files, row["schema_id"])
            fields = then.fields if names is None else tuple(then.field(name) for name in names)
            value = [each.type for each in fields]
            for which in ("min", "max"):
                yield "key stats", key, row[f"key_{which}"], False
                yield "value stats", value, row[f"value_{which}"], False


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_other_writers_is_written_again_byte_by_byte(name: str) -> None:
    count = 0
    for what, types, data, reserve_null in stored_rows(stored(name)):
        values = decode_row(types, data)
        assert encode_row(types, values, reserve_null=reserve_null) == data, what
        count += 1
    assert count > 0


def test_nan_and_negative_zero_keep_their_bytes() -> None:
    types = types_of("FLOAT", "DOUBLE", "DOUBLE")
    row = encode_row(types, [math.nan, math.nan, -0.0], reserve_null=True)
    again = decode_row(types, row)
    assert encode_row(types, again, reserve_null=True) == row
    assert math.copysign(1, again[2]) == -1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TINYINT", 128),
        ("INT", "1"),
        ("INT", None.__class__),
        ("STRING", b"x"),
        ("DECIMAL(3, 1)", 1),
        ("TIME(3)", 1),
        ("TIMESTAMP(3)", 1001),
        ("VARIANT", {}),
    ],
)
def test_what_is_no_value_of_its_type_is_refused(text: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        encode_row(types_of(text), [value], reserve_null=True)


@given(rows(most=5), st.data())
def test_broken_rows_are_refused_or_read_but_nothing_else(case: Any, data: st.DataObject) -> None:
    _, types, canonical, _ = case
    row = bytearray(encode_row(types, canonical, reserve_null=True))
    for _ in range(data.draw(st.integers(1, 3))):
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    del row[data.draw(st.integers(0, len(row))) :]
    with contextlib.suppress(InvalidMetadata):
        decode_row(types, bytes(row))
