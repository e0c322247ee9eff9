"""Conditions and values as SQL and as functions in Python: what rows should become, by three-valued logic.

Each expression is made with its meaning, so that nothing of the project is asked what a text of SQL means.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

Env = dict[str, Any]
"""The values of a row, or of a pair of rows, by the SQL of the columns."""

UTC = dt.UTC
_LONG_TEXT: Final = "a" * 20
POOLS: Final[dict[str, list[Any]]] = {
    "BIGINT": [None, -1, 0, 1, 2, 3, 4, 2**40],
    "INT": [None, -5, 0, 1, 2, 3],
    "DOUBLE": [None, math.nan, -0.0, 0.0, 1.5, -2.5, math.inf, -math.inf],
    "STRING": [None, "", "a", "ab", "b", "é", f"{_LONG_TEXT}y", f"{_LONG_TEXT}z", "% x/=?"],
    "DATE": [None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 3)],
    "TIMESTAMP": [
        None,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
    ],
    "DECIMAL(6,2)": [None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.50"), Decimal("9999.99")],
}


class Sql(NamedTuple):
    """SQL, and what it means."""

    text: str
    value: Callable[[Env], Any]


class Column(NamedTuple):
    """A column as expressions name it."""

    text: str
    type: str


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case float() if math.isnan(value):
            return "DOUBLE('NaN')"
        case float() if math.isinf(value):
            return f"DOUBLE('{'-' if value < 0 else ''}Infinity')"
        case float():
            return f"{value!r}D"
        case Decimal():
            return f"{value}BD"
        case dt.datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f} UTC'"
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return str(value)


def key(value: Any) -> Any:
    """What Spark compares by: NaN equals itself and is greater than all, and -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value) if isinstance(value, int | Decimal) else value


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compared(op: str, one: Any, other: Any) -> bool | None:
    if op == "<=>":
        return one is None if other is None else one is not None and key(one) == key(other)
    return None if one is None or other is None else _COMPARE[op](key(one), key(other))


def is_among(one: Any, others: Sequence[Any]) -> bool | None:
    found = [compared("=", one, each) for each in others]
    return True if True in found else None if None in found else False


class Conditions:
    """Random conditions and values over some columns."""

    def __init__(self, chance: random.Random, columns: Sequence[Column], views: dict[str, list[Any]]) -> None:
        self.chance, self.columns, self.views = chance, columns, views

    def of_type(self, type_: str) -> list[Column]:
        return [each for each in self.columns if each.type == type_]

    def condition(self, depth: int = 2) -> Sql:
        kind = self.chance.choice(["leaf", "leaf", "and", "or", "not"]) if depth else "leaf"
        if kind == "leaf":
            return self._leaf()
        if kind == "not":
            inner = self.condition(depth - 1)
            return Sql(f"NOT ({inner.text})", lambda row: _not(inner.value(row)))
        one, other = self.condition(depth - 1), self.condition(depth - 1)
        merge = _and if kind == "and" else _or
        text = f"({one.text}) {kind.upper()} ({other.text})"
        return Sql(text, lambda row: merge(one.value(row), other.value(row)))

    def _leaf(self) -> Sql:
        column = self.chance.choice(self.columns)
        name, pool = column.text, POOLS[column.type]
        here: Callable[[Env], Any] = lambda row: row[name]  # noqa: E731 - beside those that are returned
        kind = self.chance.choice(["compare"] * 4 + ["null", "in", "between", "columns", "query", "opaque"])
        if kind == "null":
            is_null = self.chance.random() < 0.5
            text = f"{name} IS {'' if is_null else 'NOT '}NULL"
            return Sql(text, lambda row: (here(row) is None) == is_null)
        if kind == "in":
            some = self.chance.sample(pool, 3)
            is_in = self.chance.random() < 0.6
            text = f"{name} {'' if is_in else 'NOT '}IN ({', '.join(map(literal, some))})"
            found: Callable[[Env], Any] = lambda row: is_among(here(row), some)  # noqa: E731
            return Sql(text, found if is_in else lambda row: _not(found(row)))
        if kind == "between":
            low, high = (self.chance.choice(pool[1:]) for _ in range(2))
            text = f"{name} BETWEEN {literal(low)} AND {literal(high)}"
            return Sql(
                text, lambda row: _and(compared(">=", here(row), low), compared("<=", here(row), high))
            )
        op = self.chance.choice([*_COMPARE, "<=>"])
        same = [each for each in self.of_type(column.type) if each != column]
        if kind == "columns" and same:
            other = self.chance.choice(same).text
            return Sql(f"{name} {op} {other}", lambda row: compared(op, row[name], row[other]))
        if kind == "query" and column.type == "BIGINT" and self.views:
            view = self.chance.choice(list(self.views))
            text = f"{name} IN (SELECT k FROM {view})"  # noqa: S608 - made here
            return Sql(text, lambda row: is_among(row[name], self.views[view]))
        if kind == "opaque" and column.type == "STRING":
            return Sql(f"length({name}) > 1", lambda row: None if row[name] is None else len(row[name]) > 1)
        value = self.chance.choice(pool[1:] if op != "<=>" else pool)
        return Sql(f"{name} {op} {literal(value)}", lambda row: compared(op, row[name], value))

    def value(self, type_: str, depth: int = 1) -> Sql:
        """A value of a type."""
        columns = self.of_type(type_)
        kind = self.chance.choice(["literal", "column", "made", "case"])
        if kind == "case" and depth:
            test, one, other = self.condition(1), self.value(type_, 0), self.value(type_, 0)
            text = f"CASE WHEN {test.text} THEN {one.text} ELSE {other.text} END"
            return Sql(text, lambda row: (one if test.value(row) else other).value(row))
        if kind == "literal" or not columns:
            value = self.chance.choice(POOLS[type_])
            return Sql(
                f"CAST({literal(value)} AS {type_})" if value is None else literal(value), lambda _: value
            )
        name = self.chance.choice(columns).text
        if kind == "made" and type_ in _MADE:
            text, make = _MADE[type_]
            return Sql(text.format(name), lambda row: None if row[name] is None else make(row[name]))
        return Sql(name, lambda row: row[name])


_MADE: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "BIGINT": ("({} + 1)", lambda value: value + 1),
    "INT": ("({} + 1)", lambda value: value + 1),
    "DOUBLE": ("(-{})", lambda value: -value),
    "STRING": ("concat({}, '!')", lambda value: value + "!"),
    "DATE": ("date_add({}, 1)", lambda value: value + dt.timedelta(days=1)),
}


def _not(value: bool | None) -> bool | None:  # noqa: FBT001
    return None if value is None else not value


def _and(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001
    return False if False in (one, other) else None if None in (one, other) else True


def _or(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001
    return True if True in (one, other) else None if None in (one, other) else False
