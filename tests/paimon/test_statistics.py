from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeplane.paimon.binary_row import encode_row
from lakeplane.paimon.plan import plan
from lakeplane.paimon.statistics import readable, widens
from lakeplane.paimon.types import parse_fields, parse_type
from tests.paimon.built import Built, make_schema, numbered
from tests.paimon.stored import stored


@pytest.mark.parametrize(
    ("old", "new", "keeps"),
    [
        ("TINYINT", "INT", True),
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("INT", "DOUBLE", False),
        ("INT", "STRING", False),
        ("DECIMAL(9, 2)", "DECIMAL(20, 2)", True),
        ("DECIMAL(9, 2)", "DECIMAL(20, 4)", False),
        ("DECIMAL(20, 2)", "DECIMAL(9, 2)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", False),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", False),
        ("DATE", "TIMESTAMP(6)", False),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("VARCHAR(5)", "CHAR(9)", False),
        ("CHAR(3)", "VARCHAR(3)", True),
        ("BINARY(3)", "BYTES", True),
        ("STRING", "BYTES", False),
        ("BOOLEAN", "BOOLEAN", True),
    ],
)
def test_which_casts_keep_bounds(old: str, new: str, keeps: bool) -> None:  # noqa: FBT001
    assert widens(parse_type(old, "").kind, parse_type(new, "").kind) == keeps


def test_statistics_of_other_writers_leave_out_what_cannot_match() -> None:
    """Java tells all columns, with bounds cut to 16 characters; nested columns and bytes have none."""
    table = stored("java09_a_types")
    rows = table.rows
    for condition, matches in (
        ("id = 3", lambda row: row["id"] == 3),
        ("i8 <= -2", lambda row: row["i8"] is not None and row["i8"] <= -2),
        ("i64 > 2000000000000", lambda row: row["i64"] is not None and row["i64"] > 2 * 10**12),
        (
            "s = 's3-long-string-value-more-than-16-chars'",
            lambda row: row["s"] == "s3-long-string-value-more-than-16-chars",
        ),
        (
            "s LIKE 's3-long-string%'",
            lambda row: row["s"] is not None and row["s"].startswith("s3-long-string"),
        ),
        ("dc9 = 1.25", lambda row: row["dc9"] == "1.25"),
        ("f64 IS NULL", lambda row: row["f64"] is None),
        ("b", lambda row: row["b"]),
        ("dn < 0", lambda row: row["dn"] is not None and row["dn"].startswith("-")),
        (
            "ts6 > TIMESTAMP_NTZ '2024-01-01 00:00:02'",
            lambda row: row["ts6"] is not None and row["ts6"] > "2024-01-01T00:00:02",
        ),
    ):
        found = plan(table.files, condition)
        expected = [row for row in rows if matches(row)]
        # Each file of this table has one row.
        assert len(expected) <= found.counts.rows_kept <= len(expected) + UNKNOWN.get(condition, 0), condition


UNKNOWN = {"b": 6}
"""Files that are kept as they may match."""


def test_null_bounds_are_unknown_and_not_null() -> None:
    table = Built(make_schema({"k": "INT", "v": "INT"}))
    file = table.file([{"k": 1, "v": 2}])
    unknown = make_file(table, file, [None, None], [None, None], [0, 0])
    table.commit([unknown])
    assert plan(table.files, "v = 9").counts.files_kept == 1
    assert plan(table.files, "v IS NULL").counts.files_kept == 0


def make_file(table: Built, file: Any, low: list[Any], high: list[Any], nulls: list[Any]) -> Any:
    types = [each.type for each in table.schema.fields]
    rows = [encode_row(types, each, reserve_null=False) for each in (low, high)]
    return {**file, "value_min": rows[0], "value_max": rows[1], "value_nulls": nulls}


@pytest.mark.parametrize(
    "told",
    [
        {"value_min": bytes(12), "value_max": bytes(12), "value_nulls": []},
        {"value_min": b"", "value_max": b"\xff" * 40, "value_nulls": [5]},
        {"value_nulls": None},
        {"value_stats_cols": ["other", "v"]},
        {"value_stats_cols": ["gone"]},
        {"value_stats_cols": []},
    ],
)
def test_statistics_that_do_not_fit_leave_nothing_out(told: dict[str, Any]) -> None:
    table = Built(make_schema({"k": "INT", "v": "INT"}))
    table.commit([{**table.file([{"k": 1, "v": 2}]), **told}])
    assert plan(table.files, "k = 1 AND v = 2").counts.files_kept == 1


def test_dense_statistics_are_told_apart_by_their_columns() -> None:
    table = Built(make_schema({"k": "INT", "v": "INT"}))
    both = table.file([{"k": 1, "v": 2}])
    none = table.file([{"k": 5, "v": 6}], stats=False)
    every = {**table.file([{"k": 1, "v": 9}]), "value_stats_cols": None}
    table.commit([both, none, every])
    kept = plan(table.files, "v = 9").files["file_name"].to_pylist()
    assert kept == [none["file_name"], every["file_name"]]


def test_a_key_whose_statistics_are_missing_is_known_by_its_first_and_last_value() -> None:
    schema = make_schema(
        {"a": "INT NOT NULL", "b": "INT NOT NULL"}, primary_key=["a", "b"], options={"bucket": "1"}
    )
    table = Built(schema)
    no_stats = {"key_min": bytes(12), "key_max": bytes(12), "key_nulls": None}
    one = {**table.file([{"a": 1, "b": 1}, {"a": 1, "b": 5}]), **no_stats}
    two = {**table.file([{"a": 1, "b": 7}, {"a": 9, "b": 2}]), **no_stats}
    table.commit([one, two])
    for condition, kept in (("a = 9", [two]), ("b = 6", [two]), ("b = 3", [one, two]), ("a = 20", [])):
        names = plan(table.files, condition).files["file_name"].to_pylist()
        assert names == [each["file_name"] for each in kept], condition


def test_a_key_that_was_cast_leaves_nothing_out_and_parts_nothing() -> None:
    schema = make_schema({"a": "INT NOT NULL", "v": "INT"}, primary_key=["a"], options={"bucket": "1"})
    table = Built(schema)
    table.commit([table.file([{"a": 1, "v": 1}])])
    fields = parse_fields(
        [{"id": 0, "name": "a", "type": "BIGINT NOT NULL"}, {"id": 1, "name": "v", "type": "INT"}], ""
    )
    table.evolve(numbered(table.schema, 1, fields=fields))
    table.commit([table.file([{"a": -1, "v": 1}])])
    assert plan(table.files, "a = 5 AND v = 1").counts.files_by_key == 0
    found = plan(table.files, "v = 1")
    assert found.counts.files_kept == 2
    assert found.files["section"].to_pylist() == [0, 0]
    assert found.merges


def test_rows_for_people() -> None:
    columns = [
        ("a", parse_type("INT", "")),
        ("s", parse_type("STRING", "")),
        ("x", parse_type("VARIANT", "")),
    ]
    row = encode_row([type_ for _, type_ in columns], [1, "a", None], reserve_null=False)
    assert readable(columns, pa.array([row, b"broken", None])) == [{"a": 1, "s": "a"}, None, None]
