"""Random conditions, as SQL text and as functions of one row: what Spark would say, in three-valued logic.

Nothing here knows how ``lakeplane.model.expressions`` works. A condition gives True, False or None.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal as Number
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from lakeplane.model.schema import Schema
from lakeplane.model.temporal import civil_from_days, days_from_civil, format_date, format_timestamp
from lakeplane.model.transforms import Bucket, Truncate, apply
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Field,
    Fixed,
    Struct,
    Type,
)

Row = dict[str, Any]
Truth = bool | None
DAY = 86_400 * 10**6


def single(value: float) -> float:
    narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return narrow


COLUMNS: dict[str, Type] = {
    "i": INT,
    "l": LONG,
    "d": Decimal(9, 2),
    "w": Decimal(20, 3),
    "f": FLOAT,
    "x": DOUBLE,
    "s": STRING,
    "day": DATE,
    "at": TIMESTAMP,
    "tz": TIMESTAMPTZ,
    "ns": TIMESTAMP_NS,
    "ok": BOOLEAN,
    "u": UUID,
    "b": BINARY,
    "fix": Fixed(2),
    "p.q": INT,
}
SCHEMA = Schema(
    (
        *(Field(n, name, type_) for n, (name, type_) in enumerate(COLUMNS.items(), 1) if name != "p.q"),
        Field(100, "p", Struct((Field(16, "q", INT),))),
    )
)
IDS = {name: SCHEMA.find(name).id for name in COLUMNS}
NAMES = {field_id: name for name, field_id in IDS.items()}

MOMENTS = [
    *(
        -(2**63),
        -(2**63) + 1,
        2**63 - 1,
        -1,
        0,
        1,
        -3_600_000_000,
        -3_600_000_001,
        3_599_999_999,
        3_600_000_000,
    ),
    *(
        -DAY,
        -DAY - 1,
        DAY,
        -31 * DAY,
        -32 * DAY,
        365 * DAY,
        -365 * DAY,
        -365 * DAY - 1,
        18262 * DAY,
        18262 * DAY + 5,
    ),
    *(2**31 * 3_600_000_000 - 1, 2**31 * 3_600_000_000, -(2**31) * 3_600_000_000 - 1),
]
POOLS: dict[str, list[Any]] = {
    "i": [
        -(2**31),
        -(2**31) + 5,
        -(2**31) + 8,
        -11,
        -10,
        -9,
        -1,
        0,
        1,
        5,
        8,
        9,
        10,
        11,
        2**31 - 2,
        2**31 - 1,
    ],
    "l": [
        *(-(2**63), -(2**63) + 7, -(2**31) - 1, -(2**31), -(2**31) + 9, -10, -1, 0, 1, 9, 10, 20),
        *(2**31, 2**53, 2**53 + 1, 2**63 - 1),
    ],
    "d": [
        Number(t)
        for t in ("-9999999.99", "-1.01", "-1.00", "-0.01", "0.00", "0.10", "1.00", "2.50", "9999999.99")
    ],
    "w": [
        Number(t)
        for t in ("-99999999999999999.999", "-1.000", "-0.001", "0.000", "0.001", "12345678901234567.891")
    ],
    "f": [math.nan, math.inf, -math.inf, 0.0, -0.0, single(0.1), 1.5, -1.5, 16777216.0, single(3.4e38)],
    "x": [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 1.5, -1.5, 5e-324, 1e300, 2.0**53],
    "s": [
        *(
            "",
            "a",
            "ab",
            "abc",
            "abcd",
            "abd",
            "b",
            "a'b",
            "a\\b",
            "a%",
            "\ud7ff",
            "\ue000",
            "\uffff",
            "\U0001f600",
        ),
        *("\U0001f600x", "ab\U0010ffff", "\U0010ffff", "\U0010ffff\U0010ffff", "a\0"),
    ],
    "day": [-(2**31), -800, -366, -365, -32, -31, -1, 0, 1, 30, 31, 365, 18262, 2**31 - 1],
    "at": MOMENTS,
    "tz": MOMENTS,
    "ns": [
        -(2**63),
        2**63 - 1,
        -1,
        0,
        1,
        999,
        1000,
        -1000,
        3_600_000_000_000,
        -3_600_000_000_001,
        18262 * DAY * 1000,
    ],
    "ok": [True, False],
    "u": [
        uuid.UUID(int=n) for n in (0, 1, 2**63, 2**64 - 1, 2**64, 2**127 - 1, 2**127, 2**127 + 1, 2**128 - 1)
    ],
    "b": [b"", b"\0", b"a", b"ab", b"abc", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\xff\xff\xff"],
    "fix": [b"\0\0", b"aa", b"a\xff", b"\xff\0", b"\xff\xff"],
    "p.q": [-5, 0, 5],
}

Names = tuple[str, ...]

FOCI: st.SearchStrategy[Names] = st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=2).map(
    lambda names: tuple(dict.fromkeys(names))
)
"""The few columns that one example is about, so that rows, conditions and partitions meet."""


@functools.cache
def rows_of(names: Names) -> st.SearchStrategy[Row]:
    empty = {name: st.none() for name in COLUMNS}
    return st.fixed_dictionaries({**empty, **{name: st.sampled_from([None, *POOLS[name]]) for name in names}})


class Condition(NamedTuple):
    """A text of Spark SQL, and its meaning."""

    sql: str
    holds: Callable[[Row], Truth]


class Constant(NamedTuple):
    """A literal: its text, and the value that the column, after ``cast``, is compared with."""

    sql: str
    value: Any
    cast: Callable[[Any], Any] = lambda value: value


def compare(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; NaN is the greatest number, and equals itself."""
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        odd = (isinstance(left, float) and math.isnan(left), isinstance(right, float) and math.isnan(right))
        if any(odd):
            return int(odd[0]) - int(odd[1])
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, uuid.UUID):
        left, right = left.bytes, right.bytes
    if isinstance(left, Number | int) and isinstance(right, Number | int):
        left, right = Fraction(left), Fraction(right)
    return int(left > right) - int(left < right)


OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def double_text(value: float) -> str:
    return f"{value!r}D" if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"


def own_constant(name: str, value: Any) -> Constant:
    """A literal of the column's own type."""
    match COLUMNS[name]:
        case _ if name in ("i", "l", "p.q"):
            return Constant(str(value), value)
        case Decimal():
            return Constant(str(value), value)
        case _ if name in ("f", "x"):
            return Constant(double_text(value), value)
        case _ if name == "s":
            return Constant(quoted(value), value)
        case _ if name == "u":
            return Constant(f"'{value}'", value)
        case _ if name in ("b", "fix"):
            return Constant(f"X'{value.hex()}'", value)
        case _ if name == "ok":
            return Constant(str(value).upper(), value)
        case _ if name == "day":
            return Constant(f"DATE '{format_date(value)}'", value)
    zoned = name == "tz"
    text = format_timestamp(value, nanos=name == "ns", zoned=zoned).replace("T", " ")
    return Constant(f"TIMESTAMP{'' if zoned else '_NTZ'} '{text}'", value)


WHOLE = [*range(-2, 3), 5, 10, 2**31, -(2**31) - 1, 2**53 - 1, 2**63, -(2**63), 10**20]
DECIMALS = [Number(t) for t in ("-10.5", "-1.005", "-0.5", "0.1", "1.00", "2.5", "9.999", "99999999999.5")]
DOUBLES = [math.nan, math.inf, -math.inf, -1.5, -0.5, -0.0, 0.1, 1.0, 2.5, 9e30, -9e30, 2.0**52]


def numbers(name: str) -> st.SearchStrategy[Constant]:
    """Numbers of other types than the column's."""
    exact = st.sampled_from(WHOLE).map(lambda n: Constant(str(n), n))
    decimals = st.sampled_from(DECIMALS).map(lambda n: Constant(str(n), n))
    doubles = st.sampled_from(DOUBLES).map(lambda n: Constant(double_text(n), n, float))
    if name in ("f", "x"):
        # An integer that is no float is left to Spark, for a float column.
        fitting = [n for n in WHOLE if name == "x" or single(n) == n]
        exact = st.sampled_from(fitting).map(lambda n: Constant(str(n), float(n)))
        decimals = decimals.map(lambda each: Constant(each.sql, float(each.value)))
    return st.one_of(exact, decimals, doubles)


def moments(name: str) -> st.SearchStrategy[Constant]:
    """Dates, times and strings to compare a date or timestamp with."""
    unit = {"day": DAY, "at": 1, "tz": 1}[name]
    days = st.sampled_from([-800, -1, 0, 1, 365]).map(
        lambda n: Constant(f"DATE '{format_date(n)}'", n * DAY, lambda value: value * unit)
    )
    texts = st.sampled_from([-DAY - 1, -1, 0, 5, DAY]).map(
        lambda n: Constant(
            f"TIMESTAMP_NTZ '{format_timestamp(n, nanos=False, zoned=False)}'", n, lambda value: value * unit
        )
    )
    strings = st.sampled_from(
        [("1969", -365 * DAY), ("1970-01-02", DAY), ("1969-12-31", -DAY), ("1970-1-1", 0)]
    ).map(lambda pair: Constant(f"'{pair[0]}'", pair[1], lambda value: value * unit))
    return st.one_of(days, texts, strings)


def constants(name: str) -> st.SearchStrategy[Constant]:
    own = st.sampled_from(POOLS[name]).map(lambda value: own_constant(name, value))
    if name in ("i", "l", "d", "f", "x", "p.q"):
        return st.one_of(own, numbers(name))
    return st.one_of(own, moments(name)) if name in ("day", "at", "tz") else own


def start_of(unit: str, moment: int) -> int:
    days = moment // DAY
    year, month, _ = civil_from_days(days)
    match unit:
        case "hour":
            return moment - moment % 3_600_000_000
        case "day":
            return days * DAY
        case "month":
            return days_from_civil(year, month, 1) * DAY
        case "quarter":
            return days_from_civil(year, month - (month - 1) % 3, 1) * DAY
        case _:
            return days_from_civil(year, 1, 1) * DAY


class Side(NamedTuple):
    """The left side of a comparison."""

    sql: str
    name: str
    value: Callable[[Row], Any]
    constants: st.SearchStrategy[Constant]


def of_column(
    sql: str, name: str, function: Callable[[Any], Any], values: st.SearchStrategy[Constant]
) -> Side:
    return Side(sql, name, lambda row: None if row[name] is None else function(row[name]), values)


def whole(*values: int) -> st.SearchStrategy[Constant]:
    return st.sampled_from(values).map(lambda n: Constant(str(n), n))


def date_constants() -> st.SearchStrategy[Constant]:
    return st.sampled_from([-366, -2, -1, 0, 1, 31, 18262]).map(
        lambda n: Constant(f"DATE '{format_date(n)}'", n)
    )


def year_of(moment: int) -> int:
    return civil_from_days(moment // DAY)[0]


def month_of(moment: int) -> int:
    year, month, _ = civil_from_days(moment // DAY)
    return year * 12 + month - 1 - 1970 * 12


VIEWS = [
    of_column("year(at)", "at", year_of, whole(1968, 1969, 1970, 2020)),
    of_column("YEAR(day)", "day", lambda day: civil_from_days(day)[0], whole(1967, 1969, 1970, 2020)),
    of_column("CAST(at AS DATE)", "at", lambda at: at // DAY, date_constants()),
    of_column("to_date(tz)", "tz", lambda tz: tz // DAY, date_constants()),
    of_column(
        "date(at)",
        "at",
        lambda at: at // DAY,
        moments("at").map(lambda c: c._replace(cast=lambda v: v * DAY)),
    ),
    of_column("years(tz)", "tz", lambda tz: year_of(tz) - 1970, whole(-2, -1, 0, 1, 50)),
    of_column("cat.system.months(at)", "at", month_of, whole(-13, -2, -1, 0, 1, 12, 600)),
    of_column("system.days(tz)", "tz", lambda tz: tz // DAY, date_constants()),
    of_column("hours(at)", "at", lambda at: at // 3_600_000_000, whole(-25, -2, -1, 0, 1, 24)),
    of_column("bucket(4, l)", "l", lambda v: apply(Bucket(4), LONG, v), whole(-1, 0, 1, 3, 4)),
    of_column("bucket(4, s)", "s", lambda v: apply(Bucket(4), STRING, v), whole(0, 1, 2, 3)),
    of_column(
        "truncate(10, i)", "i", lambda v: apply(Truncate(10), INT, v), whole(-20, -10, 0, 10, 2**31 - 4)
    ),
    of_column("truncate(10, l)", "l", lambda v: apply(Truncate(10), LONG, v), whole(-10, 0, 5, -(2**31) - 2)),
    of_column("truncate(s, 2)", "s", lambda v: v[:2], constants("s")),
    *(
        of_column(f"date_trunc('{unit}', at)", "at", lambda at, unit=unit: start_of(unit, at), moments("at"))  # type: ignore[misc]
        for unit in ("hour", "day", "month", "quarter", "year")
    ),
]


def path_sql(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def plain_side(name: str) -> Side:
    return Side(path_sql(name), name, lambda row: row[name], constants(name))


@functools.cache
def sides(names: Names) -> st.SearchStrategy[Side]:
    plain = st.sampled_from([plain_side(name) for name in names])
    views = [view for view in VIEWS if view.name in names]
    return st.one_of(plain, plain, st.sampled_from(views)) if views else plain


NULL = Constant("NULL", None)


def against(side: Side, op: str, constant: Constant) -> Callable[[Row], Truth]:
    def holds(row: Row) -> Truth:
        value = side.value(row)
        order = compare(None if value is None else constant.cast(value), constant.value)
        return None if order is None else OPERATORS[op](order, 0)

    return holds


@st.composite
def comparisons(draw: st.DrawFn, names: Names) -> Condition:
    side = draw(sides(names))
    constant = draw(st.one_of(side.constants, side.constants, side.constants, st.just(NULL)))
    op = draw(st.sampled_from([*OPERATORS, "<=>"]))
    if op == "<=>":
        equal = against(side, "=", constant)
        if constant.value is None:
            return Condition(f"{side.sql} <=> NULL", lambda row: side.value(row) is None)
        return Condition(f"{side.sql} <=> {constant.sql}", lambda row: equal(row) is True)
    if draw(st.booleans()):
        return Condition(f"{constant.sql} {op} ({side.sql})", against(side, SWAPPED.get(op, op), constant))
    return Condition(f"{side.sql} {op} {constant.sql}", against(side, op, constant))


def negation(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def disjunction(truths: list[Truth]) -> Truth:
    return negation(conjunction([negation(truth) for truth in truths]))


@st.composite
def lists(draw: st.DrawFn, names: Names) -> Condition:
    side = draw(sides(names).filter(lambda side: not side.sql.startswith("date")))
    own = side.constants
    if side.sql == path_sql(side.name):
        own = st.sampled_from(POOLS[side.name]).map(lambda value: own_constant(side.name, value))
    members = draw(st.lists(st.one_of(own, own, own, own, st.just(NULL)), min_size=1, max_size=5))
    each = [against(side, "=", member) for member in members]
    negated = draw(st.booleans())

    def holds(row: Row) -> Truth:
        found = disjunction([one(row) for one in each])
        return negation(found) if negated else found

    return Condition(f"{side.sql} {'NOT ' * negated}IN ({', '.join(m.sql for m in members)})", holds)


@st.composite
def ranges(draw: st.DrawFn, names: Names) -> Condition:
    side = draw(sides(names))
    low, high = draw(side.constants), draw(side.constants)
    above, below = against(side, ">=", low), against(side, "<=", high)
    return Condition(
        f"{side.sql} BETWEEN {low.sql} AND {high.sql}", lambda row: conjunction([above(row), below(row)])
    )


@st.composite
def checks(draw: st.DrawFn, names: Names) -> Condition:
    name = draw(st.sampled_from(names))
    path = path_sql(name)
    kinds = [
        "null",
        "present",
        *{"f": ["nan"], "x": ["nan"], "ok": ["flag"], "s": ["prefix", "like"]}.get(name, []),
    ]
    match draw(st.sampled_from(kinds)):
        case "null":
            return Condition(f"{path} IS NULL", lambda row: row[name] is None)
        case "present":
            return Condition(f"isnotnull({path})", lambda row: row[name] is not None)
        case "nan":
            # isnan(NULL) is false in Spark.
            return Condition(f"isnan({name})", lambda row: row[name] is not None and math.isnan(row[name]))
        case "flag":
            return Condition("ok", lambda row: row["ok"])
        case kind:
            start = draw(st.sampled_from([each for each in POOLS["s"] if not {"\\", "%"} & set(each)]))
            sql = f"s LIKE {quoted(start + '%')}" if kind == "like" else f"startswith(s, {quoted(start)})"
            return Condition(sql, lambda row: None if row["s"] is None else row["s"].startswith(start))


def negated(condition: Condition) -> Condition:
    return Condition(f"NOT ({condition.sql})", lambda row: negation(condition.holds(row)))


def joined(word: str, parts: list[Condition]) -> Condition:
    combine = conjunction if word == "AND" else disjunction
    sql = f" {word} ".join(f"({part.sql})" for part in parts)
    return Condition(sql, lambda row: combine([part.holds(row) for part in parts]))


@functools.cache
def conditions(names: Names) -> st.SearchStrategy[Condition]:
    """Conditions on some columns, all of which can be understood."""
    leaves = st.one_of(comparisons(names), comparisons(names), lists(names), ranges(names), checks(names))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(negated),
            st.builds(joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
        ),
        max_leaves=4,
    )


OPAQUE = st.sampled_from(
    [
        Condition("length(s) > 2", lambda row: None if row["s"] is None else len(row["s"]) > 2),
        Condition("p.q = -p.q", lambda row: None if row["p.q"] is None else row["p.q"] == 0),
    ]
)


@functools.cache
def any_conditions(names: Names) -> st.SearchStrategy[Condition]:
    """Conditions on some columns, perhaps with parts that only Spark understands."""
    known = conditions(names)
    return st.one_of(
        known,
        known,
        st.builds(joined, st.sampled_from(["AND", "OR"]), st.tuples(known, OPAQUE).map(list)),
        st.tuples(known, OPAQUE.map(negated)).map(lambda parts: joined("AND", list(parts))),
    )
