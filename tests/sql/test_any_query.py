"""Any join with any conditions gives the rows that Spark gives: a condition that went ahead took none away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeplane.lake import Lake

JOINS = [
    "JOIN",
    "LEFT JOIN",
    "RIGHT OUTER JOIN",
    "FULL JOIN",
    "CROSS JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
]

LEAVES = {
    "a": [
        "{}region = 'EU'",
        "{}region IS NULL",
        "{}region <=> NULL",
        "{}amount > 6.5",
        "NOT ({}amount BETWEEN 3 AND 12)",
        "{}at < TIMESTAMP '2026-01-04 00:00:00'",
        "{}place.x = 1",
        "{}place IS NULL",
        "{}region NOT IN ('EU', 'US')",
        "coalesce({}region, 'none') = 'none'",
        "{}region LIKE 'A%'",
    ],
    "b": [
        "{}n = 1",
        "{}sku IS NULL",
        "{}order_id > 20",
        "{}sku <=> NULL",
        "{}n IN (2, 3)",
        "coalesce({}n, 0) = 0",
    ],
}


@st.composite
def conditions(draw: st.DrawFn, sides: str, depth: int = 2) -> str:
    """A condition; columns come with the name of their table, or without."""
    if not depth or draw(st.booleans()):
        side = draw(st.sampled_from(sides))
        qualifier = draw(st.sampled_from([f"{side}.", ""]))
        return draw(st.sampled_from(LEAVES[side])).format(qualifier)
    parts = draw(st.lists(conditions(sides, depth - 1), min_size=2, max_size=3))
    joined = draw(st.sampled_from([" AND ", " OR "])).join(parts)
    return f"{draw(st.sampled_from(['', 'NOT ']))}({joined})"


@st.composite
def queries(draw: st.DrawFn) -> str:
    join = draw(st.sampled_from(JOINS))
    shows_both = "SEMI" not in join and "ANTI" not in join
    on = "" if join == "CROSS JOIN" else " ON a.id = b.order_id"
    if on and draw(st.booleans()):
        on += f" AND {draw(conditions('ab', 1))}"
    first, second = ("shop.orders a", "shop.items b")
    if draw(st.booleans()):
        second = f"(shop.items b {draw(st.sampled_from(['', 'JOIN shop.orders c ON b.id = c.id']))})"
        second = second.replace(" )", ")") if "JOIN" in second else "shop.items b"
    where = " AND ".join(draw(st.lists(conditions("ab" if shows_both else "a"), min_size=1, max_size=2)))
    # With a third table, columns without a name in front would be anybody's.
    if "JOIN" in second:
        where, on = (_qualified(each) for each in (where, on))
    shown = "a.id AS x, b.id AS y" if shows_both else "a.id AS x, NULL AS y"
    return f"SELECT {shown} FROM {first} {join} {second}{on} WHERE {where}"


def _qualified(text: str) -> str:
    for column in ("region", "amount", "at ", "place"):
        text = text.replace(f"a.{column}", column).replace(column, f"a.{column}")
    return text


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.lists(queries(), min_size=6, max_size=6))
def test_any_query(shop: Lake, spark: SparkSession, found: list[str]) -> None:
    together = " UNION ALL ".join(f"(SELECT {n} AS n, * FROM ({each}))" for n, each in enumerate(found))
    plain = together.replace("shop.orders", "orders_").replace("shop.items", "items_")
    assert rows(shop.sql(together)) == rows(spark.sql(plain))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)
