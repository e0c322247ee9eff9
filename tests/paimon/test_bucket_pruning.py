from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.paimon.bucket_pruning import bucket_rule
from lakeplane.paimon.buckets import bucket_of
from lakeplane.paimon.schema import TableSchema
from tests.paimon.built import make_schema

SCHEMA = make_schema(
    {"a": "INT NOT NULL", "b": "STRING NOT NULL", "v": "INT"}, primary_key=["a", "b"], options={"bucket": "7"}
)


def buckets(condition: str, schema: TableSchema = SCHEMA) -> frozenset[int] | None:
    rule = bucket_rule(parse_predicate(condition, schema.model), schema)
    return None if rule is None else rule(7)


def of(*keys: tuple[int, str]) -> frozenset[int]:
    types = [SCHEMA.field(name).type for name in ("a", "b")]
    return frozenset(bucket_of(types, key, 7) for key in keys)


def test_conditions_that_tell_all_bucket_keys_tell_buckets() -> None:
    assert buckets("a = 1 AND b = 'x'") == of((1, "x"))
    assert buckets("a IN (1, 2) AND b = 'x' AND v > 3") == of((1, "x"), (2, "x"))
    assert buckets("a = 1 AND (b = 'x' OR b = 'y')") == of((1, "x"), (1, "y"))
    assert buckets("(a = 1 AND b = 'x') OR (a = 2 AND b = 'y')") == of((1, "x"), (2, "y"), (1, "y"), (2, "x"))


@pytest.mark.parametrize(
    "condition",
    [
        "a = 1",
        "a > 1 AND b = 'x'",
        "a = 1 OR b = 'x'",
        "NOT (a = 1) AND b = 'x'",
        "v = 1",
        "a = 1 AND b IS NULL",
    ],
)
def test_other_conditions_tell_nothing(condition: str) -> None:
    assert buckets(condition) is None


def test_columns_that_are_equal_with_different_bytes_tell_nothing() -> None:
    """-0.0 equals 0.0, and lies in another bucket."""
    schema = make_schema({"d": "DOUBLE"}, options={"bucket": "7", "bucket-key": "d"})
    assert buckets("d = 0.0D", schema) is None


def test_values_that_the_column_cannot_have_tell_nothing() -> None:
    schema = make_schema({"t": "TINYINT"}, options={"bucket": "7", "bucket-key": "t"})
    assert buckets("t = 3", schema) is not None
    assert buckets("t = 300", schema) is None


def test_functions_that_are_not_known_and_tables_without_buckets_tell_nothing() -> None:
    hive = make_schema(
        {"t": "INT"}, options={"bucket": "7", "bucket-key": "t", "bucket-function.type": "hive"}
    )
    assert buckets("t = 3", hive) is None
    rule = bucket_rule(parse_predicate("a = 1 AND b = 'x'", SCHEMA.model), SCHEMA)
    assert rule is not None
    assert rule(-1) is None
    assert buckets("t = 3", make_schema({"t": "INT"})) is None


@given(st.integers(-100, 100), st.text(max_size=12))
def test_the_bucket_of_a_row_is_among_those_of_a_condition_on_it(a: int, b: str) -> None:
    text = b.replace("\\", "\\\\").replace("'", "\\'")
    if not text.isprintable():
        return
    found = buckets(f"a = {a} AND b = '{text}'")
    assert found is None or of((a, b)) <= found
