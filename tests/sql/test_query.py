"""Where queries name tables, and which of their conditions are about one table alone."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidExpression
from lakeplane.model.ddl import parse_ddl
from lakeplane.sql.pruning import condition_on
from lakeplane.sql.query import Reference, scan
from lakeplane.sql.words import Edit, Words, edited, quoted, text_literal

SCHEMA = parse_ddl("id BIGINT, region STRING, at TIMESTAMP, s STRUCT<x: INT>, b STRUCT<id: BIGINT>")


def found(text: str) -> list[Reference]:
    return scan(Words(text)).references


NAMED = {
    "SELECT 1": [],
    "SELECT * FROM a.t": ["a.t"],
    "SELECT * FROM a.t, b.u AS x, c.v y": ["a.t", "b.u x", "c.v y"],
    "SELECT * FROM a.t JOIN b.u ON t.id = u.id LEFT JOIN c.v USING (id) WHERE x": ["a.t", "b.u", "c.v"],
    "SELECT * FROM `a b`.`t``1` WHERE id IN (SELECT id FROM b.u)": ["a b.t`1", "b.u"],
    "WITH a AS (SELECT * FROM n.t), b AS (SELECT * FROM a) SELECT * FROM b, c": ["n.t", "c"],
    "WITH a AS (SELECT * FROM a) SELECT * FROM a": ["a"],
    "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT * FROM a": [],
    "SELECT (SELECT max(x) FROM n.t) FROM n.u": ["n.t", "n.u"],
    "SELECT EXTRACT(YEAR FROM ts), TRIM(BOTH 'x' FROM y) FROM n.t": ["n.t"],
    "SELECT a IS NOT DISTINCT FROM b FROM n.t": ["n.t"],
    "SELECT * FROM (SELECT * FROM n.t) x JOIN (n.u JOIN n.v ON true) ON x.id = u.id": ["n.t", "n.u", "n.v"],
    "(SELECT * FROM n.t) UNION ALL (SELECT * FROM n.u) ORDER BY 1": ["n.t", "n.u"],
    "SELECT * FROM ((SELECT * FROM n.t) UNION (SELECT * FROM n.u)) x": ["n.t", "n.u"],
    "TABLE n.t": ["n.t t"],
    "SELECT * FROM range(10), explode(TABLE(n.t)), f(TABLE n.u)": ["n.t t", "n.u u"],
    "SELECT * FROM n.t VERSION AS OF 12 x, n.u FOR TIMESTAMP AS OF now() - INTERVAL 1 DAY AS y": [
        "n.t x",
        "n.u y",
    ],
    "SELECT * FROM n.t TIMESTAMP AS OF '2026-01-01' WHERE id = 1": ["n.t"],
    "FROM n.t SELECT id": ["n.t"],
    "FROM n.t |> WHERE id = 1 |> JOIN n.u ON t.id = u.id": ["n.t", "n.u"],
    "SELECT * FROM n.t LATERAL VIEW explode(xs) y AS z, w": ["n.t"],
    "SELECT * FROM n.t TABLESAMPLE (10 PERCENT) x": ["n.t x"],
    "SELECT * FROM n.t PIVOT (sum(x) FOR y IN ('a')) p": ["n.t"],
    "SELECT * FROM VALUES (1, 2), (3, 4) AS v(a, b)": [],
    "SELECT t.from, t.join FROM n.t": ["n.t"],
    "SELECT * FROM lake.a.b.t.snapshots": ["lake.a.b.t.snapshots"],
    "SELECT 'FROM n.x' /* FROM n.y */ FROM n.t -- FROM n.z": ["n.t"],
    "SELECT table FROM n.t": ["n.t"],
}


@pytest.mark.parametrize(("text", "names"), NAMED.items(), ids=NAMED)
def test_the_tables_of_a_query(text: str, names: list[str]) -> None:
    shown = [".".join(each.parts) + (f" {each.alias}" if each.alias else "") for each in found(text)]
    assert sorted(shown) == sorted(names)


PRUNED = {
    "WHERE id = 1": "(id = 1\n)",
    "WHERE t.id = 1 AND region = 'EU'": "(id = 1\n) AND (region = 'EU'\n)",
    "WHERE n.t.id BETWEEN 1 AND 2 AND rand() < 0.5": "(id BETWEEN 1 AND 2\n)",
    "WHERE id = 1 OR region = 'EU'": "(id = 1 OR region = 'EU'\n)",
    "WHERE (id = 1 OR region = 'EU') AND NOT (id > 5) GROUP BY 1": "((id = 1 OR region = 'EU')\n) AND (NOT (id > 5)\n)",
    "WHERE id IN (SELECT id FROM n.u)": None,
    "WHERE s.x = 1 AND t.s.x > 0": "(s.x = 1\n) AND (s.x > 0\n)",
    "WHERE unknown = 1": None,
    "x WHERE x.id = 1": "(id = 1\n)",
    "x WHERE t.id = 1": None,
    "JOIN n.u ON true WHERE t.id = 1 AND u.id = 2": "(id = 1\n)",
    # b is another table here, though there is a column of this name.
    "JOIN n.b ON true WHERE b.id = 2 AND t.b.id = 1": "(b.id = 1\n)",
    "LEFT JOIN n.u ON true WHERE t.id = 1": "(id = 1\n)",
    # Rows that find no partner on the left come with nulls: a condition that nulls satisfy may not go ahead.
    "RIGHT JOIN n.u ON true WHERE t.id IS NULL": None,
    "FULL OUTER JOIN n.u ON true WHERE t.id = 1": None,
    "LEFT ANTI JOIN n.u ON true WHERE id = 1": "(id = 1\n)",
    "TABLESAMPLE (10 ROWS) WHERE id = 1": None,
    "PIVOT (sum(id) FOR region IN ('a')) WHERE id = 1": None,
    "AS t(region, id) WHERE id = 1": None,
    "|> SELECT id + 1 AS id |> WHERE id = 1": None,
    "LATERAL VIEW explode(array(1)) b AS y WHERE b.id = 1": None,
    "WHERE id = 1 UNION ALL SELECT * FROM n.u WHERE region = 'EU'": "(id = 1\n)",
    "GROUP BY id HAVING id = 1": None,
}


@pytest.mark.parametrize(("rest", "expected"), PRUNED.items(), ids=PRUNED)
def test_conditions_on_one_table(rest: str, expected: str | None) -> None:
    words = Words(f"SELECT * FROM n.t {rest}")
    reference = scan(words).references[0]
    qualifiers = frozenset({("n", "t"), ("lake", "n", "t")})
    told = condition_on(words, reference, SCHEMA, qualifiers, zone="UTC", case_sensitive=False)
    assert told == expected


SIDES = {
    "n.u LEFT JOIN n.t ON u.id = t.id": False,
    "n.u RIGHT JOIN n.t ON u.id = t.id": True,
    "n.u CROSS JOIN n.t": True,
    "n.u LEFT SEMI JOIN n.t ON u.id = t.id": False,
    "n.u ANTI JOIN n.t ON u.id = t.id": False,
    "n.u NATURAL LEFT JOIN n.t": False,
    "n.u, n.t": True,
    "n.u LEFT JOIN (n.v JOIN n.t ON true) ON true": False,
    "(n.u JOIN n.t ON true) FULL JOIN n.v ON true": False,
    "(n.u JOIN n.t ON true) AS x": False,
    "n.u FULL JOIN n.v ON true, n.t": True,
}


@pytest.mark.parametrize(("relations", "is_pushed"), SIDES.items(), ids=SIDES)
def test_only_rows_that_a_join_keeps_are_filtered_before_it(relations: str, is_pushed: bool) -> None:  # noqa: FBT001
    words = Words(f"SELECT * FROM {relations} WHERE id = 1")
    [reference] = [each for each in scan(words).references if each.parts == ("n", "t")]
    assert (reference.where is not None) == is_pushed


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


@given(st.lists(NAMES, min_size=1, max_size=4), NAMES, st.text(max_size=8))
def test_any_name_is_read_as_it_was_quoted(parts: list[str], alias: str, comment: str) -> None:
    name = ".".join(map(quoted, parts))
    text = f"SELECT {text_literal(comment)} FROM {name} AS {quoted(alias)} WHERE x"
    [reference] = found(text)
    assert reference.parts == tuple(parts)
    assert reference.alias == alias


@given(
    st.lists(
        st.sampled_from(
            [
                *"(),.[]{}|;",
                "SELECT",
                "FROM",
                "WITH",
                "AS",
                "JOIN",
                "ON",
                "a",
                "`b`",
                "'c'",
                "1",
                "TABLE",
                "LATERAL",
                "VIEW",
                "PIVOT",
                "VERSION",
                "OF",
                "WHERE",
                "UNION",
                "TABLESAMPLE",
            ]
        ),
        max_size=20,
    )
)
def test_nonsense_is_refused_or_left_to_spark(words: list[str]) -> None:
    with contextlib.suppress(InvalidExpression):
        scan(Words(" ".join(words)))


def test_edits_leave_the_rest_alone() -> None:
    assert edited("a {b} c", [Edit(0, 1, "{x}")], braces=True) == "{x} {{b}} c"
    assert edited("abcdef", [Edit(1, 2, "X"), Edit(4, 4, "Y")], 1, 5) == "XcdYe"
