"""What is understood of a condition, what is left to Spark, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.sql_text import to_sql
from lakeplane.model.expressions.tokens import MAX_DEPTH, MAX_LENGTH
from lakeplane.model.expressions.tree import FALSE, TRUE, And, In, Opaque, Or, leaves, references
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Field,
    List,
    Map,
    Struct,
)

SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "n", INT),
        Field(3, "price", Decimal(9, 2)),
        Field(4, "x", DOUBLE),
        Field(5, "f", FLOAT),
        Field(6, "name", STRING),
        Field(7, "day", DATE),
        Field(8, "at", TIMESTAMP),
        Field(9, "tz", TIMESTAMPTZ),
        Field(10, "flag", BOOLEAN),
        Field(11, "u", UUID),
        Field(12, "data", BINARY),
        Field(13, "s", Struct((Field(14, "a", INT), Field(15, "b.c", STRING), Field(16, "end", INT)))),
        Field(17, "tags", List(18, STRING)),
        Field(19, "m", Map(20, STRING, 21, INT)),
        Field(22, "clock", TIME),
        Field(23, "ns", TIMESTAMP_NS),
        Field(24, "wide", Decimal(38, 10)),
        Field(25, "we`ird", INT),
    )
)


def bound(text: str, zone: str = "UTC") -> str:
    return str(parse_predicate(text, SCHEMA, zone=zone))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Integers against other numbers: exact.
        ("id > 2.5", "#1 >= 3"),
        ("id >= -2.5", "#1 >= -2"),
        ("id = 2.5", "FALSE"),
        ("id != 2.5", "#1 IS NOT NULL"),
        ("NOT id != 2.5", "FALSE"),
        ("id = 2.00", "#1 = 2"),
        ("id < 9e30", "#1 IS NOT NULL"),
        ("NOT id < 9e30", "FALSE"),
        ("id < CAST('NaN' AS DOUBLE)", "#1 IS NOT NULL"),
        ("n < 2147483648", "#2 IS NOT NULL"),
        ("n <= 2147483647", "#2 IS NOT NULL"),
        ("n < -2147483648", "FALSE"),
        ("n >= -2147483648", "#2 IS NOT NULL"),
        ("id = -9223372036854775808L", "#1 = -9223372036854775808"),
        ("id > 1e3", "#1 > 1000"),
        ("id = ' 12 '", "#1 = 12"),
        ("5 < id", "#1 > 5"),
        ("id = - -5", "#1 = 5"),
        ("id = CAST(5 AS BIGINT)", "#1 = 5"),
        # Decimals.
        ("price < 1.005", "#3 < Decimal('1.01')"),
        ("price = 1.005", "FALSE"),
        ("price = 1", "#3 = Decimal('1.00')"),
        ("price = 0.1D", "#3 = Decimal('0.10')"),
        ("price > 1e300", "FALSE"),
        # Floats compare as doubles; NaN is the greatest.
        ("f = 0.1", "#5 = 0.1"),
        ("f = 0.5F", "#5 = 0.5"),
        ("x = -0.0D", "#4 = 0.0"),
        ("x >= 'NaN'", "isnan(#4)"),
        ("x > 'NaN'", "FALSE"),
        ("x < double('nan')", "#4 IS NOT NULL AND NOT isnan(#4)"),
        ("x IN (1, CAST('NaN' AS DOUBLE))", "#4 = 1.0 OR isnan(#4)"),
        ("x = CAST('-Infinity' AS DOUBLE)", "#4 = -inf"),
        # Dates and times.
        ("day = '2020-02-29'", "#7 = 18321"),
        ("day > DATE '+10000-01-01'", "#7 > 2932897"),
        ("day = TIMESTAMP '2020-01-01 10:00:00'", "FALSE"),
        ("day > TIMESTAMP_NTZ '1970-01-02 00:00:01'", "#7 >= 2"),
        ("at = '1970-01-01T00:00:01.5'", "#8 = 1500000"),
        ("at = '1970-01-01 00:00:00.1234567'", "#8 = 123456"),
        ("at < DATE '1970-01-02'", "#8 < 86400000000"),
        ("tz > '1970-01-01 00:00:00+01:00'", "#9 > -3600000000"),
        ("tz > '1970-01-01 00:00:00Z'", "#9 > 0"),
        ("ns = '1970-01-01 00:00:00.000000001'", "#23 = 1"),
        ("clock < '00:00:01'", "#22 < 1000000"),
        ("clock < TIME '00:00'", "FALSE"),
        # Functions that keep the order are ranges of their column.
        ("year(at) = 1970", "#8 >= 0 AND #8 < 31536000000000"),
        ("CAST(at AS DATE) <= '1970-01-01'", "#8 < 86400000000"),
        ("at::date IN ('1970-01-01', '1970-01-02')", "(at::date IN ('1970-01-01', '1970-01-02'))"),
        ("date(at) IN ('1970-01-01', '1970-01-02')", "#8 >= 0 AND #8 < 172800000000"),
        ("date_trunc('MONTH', at) > '1970-01-02'", "#8 >= 2678400000000"),
        ("days(tz) != DATE '1970-01-01'", "#9 < 0 OR #9 >= 86400000000"),
        ("days(day) = DATE '1970-01-02'", "#7 = 1"),
        ("bucket(16, id) = 3", "bucket(16, #1) = 3"),
        ("lake.system.truncate(4, name) = 'abcd'", "truncate(4, #6) = 'abcd'"),
        # Strings, bytes, uuids.
        ("name = 'it''s'", '#6 = "it\'s"'),
        (r"name = 'it\'s\ta\u0062\103'", '#6 = "it\'s\\tabC"'),
        (r"name = '\uD83D\uDE00'", "#6 = '😀'"),
        (r"name = r'a\n'", r"#6 = 'a\\n'"),
        ('name = "x"', "#6 = 'x'"),
        ("name LIKE 'a%'", "startswith(#6, 'a')"),
        ("name NOT LIKE 'a%'", "NOT startswith(#6, 'a')"),
        ("name LIKE 'abc'", "#6 = 'abc'"),
        ("name LIKE '%'", "#6 IS NOT NULL"),
        ("data = X'0F1'", "#12 = b'\\x00\\xf1'"),
        ("u > '00000000-0000-0000-0000-000000000001'", "#11 > UUID('00000000-0000-0000-0000-000000000001')"),
        # Nulls.
        ("id = NULL", "FALSE"),
        ("NOT (id = NULL)", "FALSE"),
        ("id <=> NULL", "#1 IS NULL"),
        ("NOT id <=> 5", "#1 != 5 OR #1 IS NULL"),
        ("id IS DISTINCT FROM 5", "#1 != 5 OR #1 IS NULL"),
        ("id IN (1, NULL)", "#1 = 1"),
        ("id NOT IN (1, NULL)", "FALSE"),
        ("id BETWEEN NULL AND 3 OR n = 1", "#2 = 1"),
        ("NOT id BETWEEN NULL AND 3", "#1 > 3"),
        ("flag IS NOT TRUE", "#10 != True OR #10 IS NULL"),
        ("flag IS UNKNOWN", "#10 IS NULL"),
        ("NOT flag", "#10 != True"),
        ("NULL AND id = 1", "FALSE"),
        ("tags IS NULL", "#17 IS NULL"),
        # Structure.
        ("NOT (id = 1 OR n IN (1, 2) AND flag)", "#1 != 1 AND (#2 NOT IN (1, 2) OR #10 != True)"),
        ("! id = 5 AND NOT ! n = 1", "#1 != 5 AND #2 = 1"),
        ("((id)) = (5)", "#1 = 5"),
        ("id = 1 -- one\n AND /* a /* nested */ comment */ n = 2;", "#1 = 1 AND #2 = 2"),
        ("id = 1 AND (id = 1)", "#1 = 1"),
        ("TRUE OR lower(name) = 'x'", "TRUE"),
        ("1 = 1 AND 'a' > 'b'", "FALSE"),
        ("s.a = 1 AND s.`b.c` = 'x' AND S.END > 2", "#14 = 1 AND #15 = 'x' AND #16 > 2"),
        ("`we``ird` = 1", "#25 = 1"),
        # Left to Spark, as they were written.
        ("id = 9007199254740993D", "(id = 9007199254740993D)"),
        ("f = 16777217", "(f = 16777217)"),
        ("wide = 0.1D", "(wide = 0.1D)"),
        ("name = 5", "(name = 5)"),
        ("id = '5.0'", "(id = '5.0')"),
        ("id IN (1, '2')", "(id IN (1, '2'))"),
        ("day = '2021-02-29'", "(day = '2021-02-29')"),
        ("at = '2020-01-01 00:00:00Z'", "(at = '2020-01-01 00:00:00Z')"),
        ("u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'", "(u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7')"),
        ("name LIKE 'a_'", "(name LIKE 'a_')"),
        ("name = 'a' 'b'", "(name = 'a' 'b')"),
        ("NOT lower(name) /* c */ = 'x'", "NOT (lower(name)   = 'x')"),
        ("id = 5 - 3", "(id = 5 - 3)"),
        ("(id + 1) * 2 > 5 AND id > 5", "((id + 1) * 2 > 5) AND #1 > 5"),
        ("id = n", "(id = n)"),
        (
            "CASE WHEN flag AND id > 3 THEN TRUE END AND n = 1",
            "(CASE WHEN flag AND id > 3 THEN TRUE END) AND #2 = 1",
        ),
        ("m['k'] = 1", "(m['k'] = 1)"),
        ("id IN (SELECT k FROM t) AND n = 1", "(id IN (SELECT k FROM t)) AND #2 = 1"),
        ("month(at) = 2", "(month(at) = 2)"),
    ],
)
def test_conditions_are_bound(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("tz = '1970-07-01'", "Europe/Berlin", "#9 = 15634800000000"),
        ("tz = TIMESTAMP '2024-07-01 02:00:00'", "Europe/Berlin", "#9 = 1719792000000000"),
        ("tz = '2024-01-01'", "+05:30", "#9 = 1704047400000000"),
        # Skipped by the clock: moved on by an hour. Occurs twice: the earlier one.
        ("tz = '2024-03-31 02:30:00'", "Europe/Berlin", "#9 = 1711848600000000"),
        ("tz = '2024-10-27 02:30:00'", "Europe/Berlin", "#9 = 1729989000000000"),
        # A local time compares with an instant through the zone, unless the clock changes nearby.
        ("at > TIMESTAMP '2024-07-01 02:00:00'", "Europe/Berlin", "#8 > 1719799200000000"),
        ("at > TIMESTAMP '2024-03-31 12:00:00'", "Europe/Berlin", "(at > TIMESTAMP '2024-03-31 12:00:00')"),
        ("at > '2024-03-31 02:30:00'", "Europe/Berlin", "#8 > 1711852200000000"),
        ("day = TIMESTAMP '2024-07-01 00:00:00'", "Europe/Berlin", "#7 = 19905"),
        ("day > TIMESTAMP '2024-07-01 00:00:00Z'", "America/New_York", "#7 >= 19905"),
        ("CAST(tz AS DATE) = '2024-07-01'", "Europe/Berlin", "(CAST(tz AS DATE) = '2024-07-01')"),
        ("days(tz) = DATE '1970-01-01'", "Europe/Berlin", "#9 >= 0 AND #9 < 86400000000"),
        ("date_trunc('day', at) = '1970-01-01'", "Europe/Berlin", "(date_trunc('day', at) = '1970-01-01')"),
    ],
)
def test_the_session_time_zone_counts(text: str, zone: str, expected: str) -> None:
    assert bound(text, zone) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idd = 5", "no column 'idd'. Did you mean id?"),
        ("lower(NAM) = 'x'", "no column 'NAM'. Did you mean name?"),
        ("s.x = 1", "no column 's.x'"),
        (
            "id = 1 AND n =",
            "(Required keyword: 'expression' missing for) at character 12",
        ),
        ("id = 1)", "')' closes nothing, at character 7"),
        ("(id = 1", "'(' is never closed, at character 1"),
        ("id = 'x", "a quote is never closed, at character 6"),
        ("id = 1 /* x", "a comment is never closed, at character 8"),
        ("", "expected a condition at the end"),
        ("id = 1 AND", "expected a condition at the end"),
        ("id = 1; DROP TABLE t", "unexpected character at character 7"),
        ("id = 1 FROM t", "not a condition of Spark SQL"),
        ("id AS x", "not a condition of Spark SQL"),
        ("id = 1, n = 2", "expected AND, OR or the end at character 7"),
        ("id = ?", "a parameter marker cannot be used at character 6"),
        ("id = :p", "a parameter marker cannot be used"),
        ("sum(id) > 1", "an aggregate or window function cannot be used"),
        ("row_number() OVER (ORDER BY id) = 1", "an aggregate or window function cannot be used"),
        ("CASE WHEN flag THEN TRUE", "CASE without END"),
    ],
)
def test_what_cannot_be_a_condition_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        bound(text)
    assert message in str(caught.value)


def test_an_unknown_zone_is_refused() -> None:
    for zone in ("Mars/Base", "+19:00", "../../etc/passwd", ""):
        with pytest.raises(InvalidExpression, match="unknown time zone"):
            bound("id = 1", zone)


def test_case_matters_when_asked_for() -> None:
    with pytest.raises(InvalidExpression, match="no column 'ID'"):
        parse_predicate("ID = 1", SCHEMA, case_sensitive=True)
    twice = Schema((Field(1, "a", INT), Field(2, "A", INT)))
    assert str(parse_predicate("A = 1", twice, case_sensitive=True)) == "#2 = 1"
    with pytest.raises(InvalidExpression, match="more than one column"):
        parse_predicate("A = 1", twice)


def test_opaque_parts_know_their_columns() -> None:
    predicate = parse_predicate(
        "lower(name) = 'x' AND exists(tags, t -> t > name)"
        " OR m['k'] > s.a AND id IN (SELECT z FROM t WHERE t.y = n)",
        SCHEMA,
    )
    assert references(predicate) == {6, 17, 19, 14, 1, 2}
    assert all(isinstance(leaf, Opaque) for leaf in leaves(predicate))


def test_long_conditions_are_read() -> None:
    either = parse_predicate(" OR ".join(f"id = {n} AND n > {n}" for n in range(5000)), SCHEMA)
    assert isinstance(either, Or)
    assert len(either.parts) == 5000
    listed = parse_predicate(f"id IN ({', '.join(map(str, range(100_000)))})", SCHEMA)
    assert isinstance(listed, In)
    assert len(listed.values) == 100_000


def test_deep_conditions_are_read_or_refused() -> None:
    for deep in ("(" * 10_000 + "id = 1" + ")" * 10_000, "lower(" * 99 + "name" + ")" * 99 + " = 'x'"):
        with pytest.raises(InvalidExpression):
            bound(deep)
    assert bound("(" * MAX_DEPTH + "id = 1" + ")" * MAX_DEPTH) == "#1 = 1"
    assert bound("NOT " * 10_001 + "id = 1") == "#1 != 1"
    assert bound("id = " + "- " * 10_001 + "1") == "#1 = -1"
    with pytest.raises(InvalidExpression, match="characters, more than"):
        bound("id = 1" + " " * MAX_LENGTH)


def test_the_text_holds_what_the_session_could_change() -> None:
    predicate = parse_predicate(
        "tz > '2024-01-01' AND name = 'a\\\\%\\'' AND x < 1e300", SCHEMA, zone="+01:00"
    )
    text = to_sql(predicate, SCHEMA)
    assert text == ("`tz` > TIMESTAMP '2023-12-31 23:00:00+00:00' AND `name` = 'a\\\\%\\'' AND `x` < 1e+300D")
    assert parse_predicate(text, SCHEMA, zone="Asia/Tokyo") == predicate


def test_transforms_can_be_written_otherwise() -> None:
    predicate = parse_predicate("bucket(4, id) = 1 AND id > 2", SCHEMA)
    text = to_sql(predicate, SCHEMA, write_term=lambda term, name: f"pmod({name}, {term.transform})")
    assert text == "pmod(`id`, bucket[4]) = 1 AND `id` > 2"


def test_constants_fold() -> None:
    assert parse_predicate("FALSE OR NOT FALSE", SCHEMA) == TRUE
    assert parse_predicate("id = 1 AND (FALSE OR NULL)", SCHEMA) == FALSE
    flat = parse_predicate("id = 1 AND (n = 2 AND (flag AND id = 1))", SCHEMA)
    assert isinstance(flat, And)
    assert len(flat.parts) == 3


def test_sqlglot_is_imported_only_for_what_is_left_to_spark() -> None:
    program = (
        "import sys; from lakeplane.model.expressions import parse;"
        "from lakeplane.model.schema import Schema;"
        "parse.parse_predicate('1 = 1', Schema(())); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"sqlglot", "numpy", "pyarrow"} & set(done.stdout.split())
