from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from lakeplane.errors import InvalidInput, InvalidMetadata, NotSupported
from lakeplane.paimon.binary_row import encode_row
from lakeplane.paimon.buckets import (
    bucket_of,
    buckets_of,
    hash_row,
    hash_rows,
    parse_hash_index,
    serialize_hash_index,
)
from lakeplane.paimon.manifests import parse_index_manifest
from lakeplane.paimon.row_columns import write_rows
from lakeplane.paimon.types import parse_type
from tests.paimon.row_strategies import columns
from tests.paimon.stored import everyone, stored

BIGINT, INT, TEXT = (parse_type(text, "") for text in ("BIGINT", "INT", "STRING"))


def parquet_files(table: Any) -> list[tuple[int, pa.Table]]:
    return [
        (int(found[1]), pq.ParquetFile(io.BytesIO(data)).read())
        for path, data in table.content.items()
        if path.endswith(".parquet") and (found := re.search(r"bucket-(\d+)/data-", path))
    ]


def test_rows_of_other_writers_are_in_the_buckets_that_they_hash_to() -> None:
    checked = 0
    for table in everyone():
        schema = table.schema
        count = schema.settings.bucket
        if count < 2:
            continue
        types = schema.types_of(schema.bucket_keys)
        for bucket, rows in parquet_files(table):
            keys = [rows[name] for name in schema.bucket_keys]
            assert (buckets_of(types, keys, count) == bucket).all()
            one_by_one = [
                bucket_of(types, key, count) for key in zip(*(each.to_pylist() for each in keys), strict=True)
            ]
            assert one_by_one == [bucket] * rows.num_rows
            checked += rows.num_rows
    assert checked >= 60


def test_the_hash_indexes_that_java_wrote_hold_the_hashes_of_their_keys() -> None:
    table = stored("java09_p_dyn")
    [(path, data)] = table.index_manifests.items()
    rows = dict(parquet_files(table))
    for entry in parse_index_manifest(data, path).to_pylist():
        content = table.content[f"index/{entry['file_name']}"]
        hashes = parse_hash_index(content, path, expected=entry["row_count"])
        keys = write_rows([INT], [rows[entry["bucket"]]["id"]], reserve_null=True)
        assert sorted(hashes.tolist()) == sorted(hash_rows(keys).tolist())
        assert serialize_hash_index(hashes) == content


@given(columns())
def test_many_rows_hash_as_one_by_one(case: Any) -> None:
    _, types, rows, _ = case
    encoded = [encode_row(types, row, reserve_null=True) for row in rows]
    assert hash_rows(pa.array(encoded, pa.binary())).tolist() == [hash_row(each) for each in encoded]


def test_hashes_are_those_of_sparks_own_function() -> None:
    """What ``hash(unhex(...))`` of Spark 4.3 gives for the bytes of rows behind their arity."""
    for row, expected in SPARK_HASHES.items():
        assert hash_row(bytes.fromhex("00000001" + row)) == expected


SPARK_HASHES = {
    "00000000000000000100000000000000": 1465514398,
    "00010000000000000000000000000000": -1748325344,
    "00000000000000007031000000000082": 908928518,
    "00000000000000001600000010000000612d6d7563682d6c6f6e6765722d6b65792d3078797a0000": -59964348,
}


def test_the_function_mod() -> None:
    assert [bucket_of([INT], [value], 3, "mod") for value in (-4, -1, 0, 7)] == [2, 2, 0, 1]
    assert buckets_of([BIGINT], [pa.array([-4, 7])], 3, "mod").tolist() == [2, 1]
    for types, values in (([TEXT], ["x"]), ([INT, INT], [1, 2]), ([INT], [None])):
        with pytest.raises(InvalidInput):
            bucket_of(types, values, 3, "mod")
    with pytest.raises(InvalidInput):
        buckets_of([INT], [pa.array([None], pa.int32())], 3, "mod")


def test_other_functions_are_refused_by_name() -> None:
    with pytest.raises(NotSupported, match="hive"):
        bucket_of([INT], [1], 3, "hive")
    with pytest.raises(NotSupported, match="hive"):
        buckets_of([INT], [pa.array([1])], 3, "hive")
    with pytest.raises(InvalidInput):
        bucket_of([INT], [1], 0)


def test_broken_hash_indexes_are_refused() -> None:
    with pytest.raises(InvalidMetadata, match="index-1"):
        parse_hash_index(b"abc", "index-1")
    with pytest.raises(InvalidMetadata, match="should have 2"):
        parse_hash_index(bytes(4), "index-1", expected=2)
    assert serialize_hash_index(np.array([-1, 1])) == bytes.fromhex("ffffffff00000001")
    with pytest.raises(InvalidInput):
        hash_rows(pa.array([b"abc"]))
