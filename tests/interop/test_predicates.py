"""DuckDB and lakeplane find the same rows for the same conditions.

DuckDB is an oracle here because it treats null, NaN and -0.0 as Spark does. What the two SQL dialects say
differently is left out of the conditions: of null, Spark's ``isnan`` is false and DuckDB's null.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa

from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.tree import Opaque, leaves
from lakeplane.model.schema import Schema
from lakeplane.model.types import BOOLEAN, DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, Decimal, Field, Type
from tests.interop.peers import ask

SEED = 20_260_102
ROWS, CONDITIONS = 300, 1500

COLUMNS: dict[str, tuple[str, Any, list[Any]]] = {
    "i": ("INTEGER", pa.int32(), [0, 1, -1, 7, 2**31 - 1, -(2**31)]),
    "l": ("BIGINT", pa.int64(), [0, 1, -1, 2**53, 2**63 - 1, -(2**63)]),
    "d": (
        "DOUBLE",
        pa.float64(),
        [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 0.1, 1e300],
    ),
    "m": (
        "DECIMAL(9,2)",
        pa.decimal128(9, 2),
        [Number("0.00"), Number("1.50"), Number("-1.25"), Number("99.99")],
    ),
    "s": ("VARCHAR", pa.string(), ["", "a", "ab", "abc", "b", "é", "\U0001f600", "a%"]),
    "b": ("BOOLEAN", pa.bool_(), [True, False]),
    "t": (
        "DATE",
        pa.date32(),
        [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 1, 1), dt.date(1900, 2, 28)],
    ),
    "u": (
        "TIMESTAMP",
        pa.timestamp("us"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 12)],  # noqa: DTZ001
    ),
}
TYPES: tuple[Type, ...] = (INT, LONG, DOUBLE, Decimal(9, 2), STRING, BOOLEAN, DATE, TIMESTAMP)
SCHEMA = Schema(
    tuple(
        Field(number, name, type_) for number, (name, type_) in enumerate(zip(COLUMNS, TYPES, strict=True), 1)
    )
)
NUMBERS = [
    "0",
    "1",
    "-1",
    "7",
    "2.5",
    "1.50",
    "-1.25",
    "99.99",
    "0.1",
    "2147483647",
    "9007199254740992",
    "0.999",
]
LITERALS = {
    **dict.fromkeys(["i", "l", "m"], NUMBERS),
    "d": [*NUMBERS, "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"],
    "s": ["''", "'a'", "'ab'", "'b'", "'é'", "'\U0001f600'"],
    "b": ["TRUE", "FALSE"],
    "t": ["DATE '1970-01-01'", "DATE '1969-12-31'", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00'"],
    "u": ["TIMESTAMP '2026-01-01 12:00:00'", "TIMESTAMP '1970-01-01 00:00:00'", "DATE '2026-01-01'"],
}


def condition(source: random.Random, depth: int = 3) -> str:
    if depth and source.random() < 0.5:
        parts = [condition(source, depth - 1) for _ in range(source.choice([2, 2, 3]))]
        joined = source.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
        return f"NOT ({joined})" if source.random() < 0.3 else joined
    name = source.choice(list(COLUMNS))
    literal = source.choice(LITERALS[name])
    listed = ", ".join(source.choices([*LITERALS[name], "NULL"], k=source.choice([1, 2, 3])))
    negated = source.choice(["", "NOT "])
    shapes = [
        f"{name} {source.choice(['=', '<>', '!=', '<', '<=', '>', '>='])} {literal}",
        f"{literal} {source.choice(['=', '<', '>='])} {name}",
        f"{name} IS {negated}NULL",
        f"{name} {negated}IN ({listed})",
        f"{name} {negated}BETWEEN {literal} AND {source.choice(LITERALS[name])}",
        f"{name} IS {negated}DISTINCT FROM {literal}",
        f"NOT {name} = {literal}",
        f"{name} = NULL",
    ]
    if name == "s":
        shapes += [f"s {negated}LIKE '{pattern}'" for pattern in ("a%", "%", "ab", "a_", "%b")]
    if name == "b":
        shapes += ["b", "NOT b"]
    return source.choice(shapes)


def text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def test_the_same_rows_match() -> None:
    source = random.Random(SEED)
    rows = [
        [None if source.random() < 0.15 else source.choice(values) for _, _, values in COLUMNS.values()]
        for _ in range(ROWS)
    ]
    conditions = [condition(source) for _ in range(CONDITIONS)]
    predicates = [parse_predicate(each, SCHEMA) for each in conditions]
    understood = [
        number
        for number, each in enumerate(predicates)
        if not any(isinstance(leaf, Opaque) for leaf in leaves(each))
    ]
    found = ask(
        "duckdb_rows",
        {
            "columns": "n INTEGER, " + ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items()),
            "rows": [f"({number}, {', '.join(map(text, row))})" for number, row in enumerate(rows)],
            "conditions": [conditions[number] for number in understood],
        },
    )
    arrays = {
        number: pa.array([row[number - 1] for row in rows], type_)
        for number, (_, type_, _) in enumerate(COLUMNS.values(), 1)
    }
    for number, theirs in zip(understood, found, strict=True):
        ours = matches_rows(predicates[number], arrays.__getitem__, ROWS).nonzero()[0].tolist()
        assert ours == theirs, (conditions[number], str(predicates[number]))
    assert len(understood) > CONDITIONS * 2 / 3  # what stays opaque is for Spark to decide
