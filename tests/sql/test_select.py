"""SELECT on tables of a lake gives what Spark gives on the same rows in plain files, and reads few files."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.errors import InvalidInput, NotFound, NotSupported
from lakeplane.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeplane.lake import Lake

QUERIES = [
    "SELECT * FROM shop.orders",
    "SELECT id, region FROM lake.shop.orders WHERE region = 'EU' AND at >= '2026-01-03'",
    "SELECT shop.orders.id, lake.shop.orders.region, orders.place.x FROM shop.orders WHERE shop.orders.id > 3",
    "SELECT o.id, i.sku FROM shop.orders o JOIN shop.items AS i ON o.id = i.order_id WHERE o.region = 'US' AND i.n > 1",
    "SELECT shop.orders.id, items.* FROM shop.orders, shop.items WHERE orders.id = order_id AND region IS NULL",
    "SELECT o.id, i.id FROM shop.orders o LEFT JOIN shop.items i ON o.id = i.order_id AND i.n = 1 WHERE i.id IS NULL",
    "SELECT o.id, i.id FROM shop.items i RIGHT JOIN shop.orders o ON o.id = i.order_id WHERE i.sku <=> NULL",
    "SELECT o.id, i.id FROM shop.orders o FULL JOIN shop.items i ON o.id = i.order_id WHERE coalesce(i.n, 0) = 0",
    "SELECT id FROM shop.orders LEFT ANTI JOIN shop.items ON orders.id = order_id WHERE id > 2",
    "SELECT id, n FROM shop.orders o JOIN shop.items i USING (id) WHERE id < 9 AND region <> 'EU'",
    "SELECT * FROM shop.orders a JOIN shop.orders b ON a.id = b.id + 1 WHERE a.region = 'EU' AND b.amount > 3",
    "WITH eu AS (SELECT * FROM shop.orders WHERE region = 'EU'), big AS (SELECT * FROM eu WHERE amount > 4) SELECT count(*), sum(amount) FROM big",
    "SELECT id FROM shop.orders o WHERE EXISTS (SELECT 1 FROM shop.items WHERE order_id = o.id AND n = 3)",
    "SELECT id, (SELECT max(n) FROM shop.items i WHERE i.order_id = o.id) AS m FROM shop.orders o",
    "SELECT id FROM shop.orders WHERE id IN (SELECT order_id FROM shop.items WHERE sku LIKE 'sku1%') OR id = 0",
    "SELECT region, count(*), sum(amount) FROM shop.orders GROUP BY ALL HAVING count(*) > 1 ORDER BY 1 LIMIT 2",
    "SELECT id, row_number() OVER (PARTITION BY region ORDER BY id DESC) AS n FROM shop.orders",
    "(SELECT id FROM shop.orders WHERE id < 3) UNION ALL (SELECT id FROM shop.items WHERE id > 36)",
    "SELECT id FROM shop.orders EXCEPT SELECT order_id FROM shop.items WHERE n = 1",
    "SELECT x.id FROM (SELECT * FROM shop.orders WHERE amount BETWEEN 2 AND 9) x WHERE x.place.x = 1",
    "SELECT id, y FROM shop.orders LATERAL VIEW explode(array(id, id * 2)) z AS y WHERE id = 3 AND z.y > 3",
    "SELECT * FROM (SELECT region, id FROM shop.orders) PIVOT (sum(id) FOR region IN ('EU', 'US'))",
    "SELECT o.id FROM shop.orders TABLESAMPLE (100 PERCENT) o WHERE o.id = 3",
    "SELECT orders.id FROM shop.orders TABLESAMPLE (100 PERCENT) WHERE orders.id = 3",
    "SELECT a, b FROM shop.items AS t(a, b, c, d) WHERE b = 3",
    "SELECT '{id}' AS braces, '}}' AS more, id FROM shop.orders WHERE id = 1 -- {x}",
    "SELECT /*+ BROADCAST(i) */ count(*) FROM shop.orders o JOIN shop.items i ON o.id = i.order_id",
    "FROM shop.orders SELECT id WHERE id = 1",
    "TABLE shop.items",
    "SELECT count(*) FROM shop.orders WHERE NOT (region = 'EU' OR amount > 5) AND rand() < 2",
    "SELECT id FROM shop.orders WHERE CASE WHEN id > 5 AND id < 9 THEN region = 'EU' ELSE id = 2 END",
    "SELECT id AS `from`, region AS `a.b` FROM shop.orders WHERE region LIKE 'E%' AND id NOT IN (0, 4)",
    "SELECT * FROM shop.orders CROSS JOIN (SELECT max(n) AS n FROM shop.items) WHERE id = n",
    "SELECT t.id FROM shop.orders t LEFT JOIN (shop.items i JOIN shop.orders p ON i.order_id = p.id) ON t.id = i.id WHERE p.region IS NULL",
    "FROM shop.orders |> WHERE id > 3 |> AGGREGATE count(*) AS id GROUP BY region |> WHERE id = 5",
]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def in_spark(query: str) -> str:
    """The same query on the plain files."""
    named = re.sub(r"\b(?:lake\.)?shop\.(orders|items)\.(?=\w|\*)", r"\1.", query)
    named = re.sub(
        r"\b(?:lake\.)?shop\.(orders|items)\b(?=( TABLESAMPLE \(100 PERCENT\))?( (?:AS )?(\w+)\b)?)",
        lambda found: f"{found[1]}_" + ("" if is_alias(found[4]) or found[2] else f" AS {found[1]}"),
        named,
    )
    named = named.replace("(100 PERCENT) WHERE", "(100 PERCENT) AS orders WHERE")
    return named.replace("TABLE items_ AS items", "TABLE items_")


def is_alias(word: str | None) -> bool:
    return word is not None and word.upper() not in (
        *("WHERE", "JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "GROUP", "EXCEPT", "SELECT", "LATERAL", "ON"),
        *("TABLESAMPLE", "ORDER", "UNION", "LIMIT", "PIVOT"),
    )


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_what_spark_gives(shop: Lake, spark: SparkSession, query: str) -> None:
    found, expected = shop.sql(query), spark.sql(in_spark(query))
    assert found.columns == expected.columns
    assert found.dtypes == expected.dtypes
    assert rows(found) == rows(expected)


def test_nothing_is_left_behind_in_the_session(shop: Lake, spark: SparkSession) -> None:
    before = {each.name for each in spark.catalog.listTables()}
    frame = shop.sql("SELECT id FROM shop.orders WHERE id IN (SELECT id FROM shop.items)")
    assert {each.name for each in spark.catalog.listTables()} == before
    assert frame.count() == 24
    with pytest.raises(Exception, match="nope"):
        shop.sql("SELECT nope FROM shop.orders")
    assert {each.name for each in spark.catalog.listTables()} == before


def files(frame: DataFrame) -> int:
    return len(frame.inputFiles())


@pytest.mark.parametrize(
    ("query", "wheres"),
    [
        ("SELECT * FROM shop.orders WHERE region = 'EU'", ["region = 'EU'"]),
        ("SELECT * FROM shop.orders o WHERE o.region = 'EU' AND o.at < '2026-01-02'", ["region = 'EU' AND at < '2026-01-02'"]),
        ("SELECT * FROM shop.orders WHERE shop.orders.region IS NULL OR shop.orders.region = 'US'", ["region IS NULL OR region = 'US'"]),
        ("SELECT * FROM shop.orders o JOIN shop.items i ON o.id = i.order_id WHERE o.region = 'EU' AND i.n = 1", ["region = 'EU'"]),
        ("WITH a AS (SELECT * FROM shop.orders WHERE region = 'US') SELECT * FROM a", ["region = 'US'"]),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM shop.orders WHERE region = 'US')", ["region = 'US'"]),
    ],
)  # fmt: skip
def test_conditions_reach_the_plan(shop: Lake, query: str, wheres: list[str]) -> None:
    kept, everything = (
        sum(each.rstrip(":") is not None for each in shop.table("shop.orders").read(where=where).inputFiles())
        for where in (wheres[0], "true")
    )
    assert kept < everything
    found = [each for each in shop.sql(query).inputFiles() if "/orders/" in each]
    if "EXISTS" not in query:  # files of sub-queries are not told
        assert len(found) == kept


def test_temporary_views_come_first_as_in_spark(shop: Lake, spark: SparkSession) -> None:
    spark.range(1).selectExpr("'temporary' AS what").createOrReplaceTempView("orders")
    try:
        shop.sql("USE shop")
        assert rows(shop.sql("SELECT * FROM orders")) == [("temporary",)]
        assert shop.sql("SELECT * FROM shop.orders").count() == 24
        assert shop.sql("SELECT * FROM items").count() == 40
    finally:
        spark.catalog.dropTempView("orders")
    assert shop.sql("SELECT * FROM orders").count() == 24
    assert shop.sql("SELECT * FROM orders.snapshots").count() == 1
    shop.sql("USE lake")
    with pytest.raises(NotFound, match="orders"):
        shop.sql("SELECT * FROM orders")


def test_a_typo_is_told_with_what_was_meant(shop: Lake) -> None:
    for name in ("shop.ordres", "lake.shop.ordres"):
        with pytest.raises(NotFound, match=r"Did you mean .*shop\.orders"):
            shop.sql(f"SELECT * FROM {name}")
    with pytest.raises(NotFound, match=r"Did you mean .*shop\.orders"):
        shop.sql("DESCRIBE lake.shop.order")


def test_what_is_not_of_the_lake_goes_to_spark(shop: Lake, spark: SparkSession) -> None:
    assert rows(shop.sql("SELECT id FROM range(2)")) == [(0,), (1,)]
    assert shop.sql("SET spark.sql.shuffle.partitions").collect()[0][1] == "2"
    assert shop.sql("SHOW FUNCTIONS LIKE 'abs'").count() == 1
    assert shop.sql("SELECT * FROM items_ WHERE n = 1").count() == 10
    assert shop.sql("SELECT i.id FROM items_ i JOIN shop.items s ON i.id = s.id").count() == 40
    assert shop.sql("DESCRIBE QUERY SELECT id FROM shop.orders").collect()[0][0] == "id"
    assert "FileScan parquet" in shop.sql("EXPLAIN SELECT id FROM shop.orders").collect()[0][0]
    for text in (
        "ANALYZE TABLE shop.orders COMPUTE STATISTICS",
        "REFRESH TABLE shop.orders",
        "CACHE TABLE shop.orders",
    ):
        with pytest.raises(NotSupported, match=r"is not supported for tables of a lake. Supported: SELECT"):
            shop.sql(text)
    with pytest.raises(NotSupported, match="CREATE TEMPORARY VIEW"):
        shop.sql("CACHE TABLE kept AS SELECT * FROM shop.orders")
    assert not spark.catalog.tableExists("kept")


def test_queries_into_tables_of_spark(shop: Lake, spark: SparkSession) -> None:
    shop.sql("CREATE TABLE default.kept USING parquet AS SELECT id FROM shop.orders WHERE id < 3")
    try:
        shop.sql("INSERT INTO default.kept SELECT id FROM shop.items WHERE id = 39")
        assert rows(spark.table("default.kept")) == [(0,), (1,), (2,), (39,)]
        shop.sql("DESCRIBE default.kept")
        shop.sql("TRUNCATE TABLE default.kept")
        assert shop.sql("SELECT * FROM default.kept").count() == 0
    finally:
        shop.sql("DROP TABLE default.kept")
    assert not spark.catalog.tableExists("default.kept")


# Time travel and metadata


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Table:
    import lakeplane as lp  # noqa: PLC0415

    made = lp.connect(tmp_path_factory.mktemp("history"), spark=spark, name="prod")
    made.create_namespace("a")
    made.create_namespace("a.b")
    table = made.create_table("a.b.t", "id BIGINT")
    table.append(spark.range(1))
    table.create_tag("first")
    table.create_branch("dev-1")
    table.append(spark.range(1, 3))
    table.append(spark.range(9, 10), branch="dev-1")
    with table.evolve() as change:
        change.rename_column("id", "key")
    table.sql = made.sql  # type: ignore[attr-defined]
    return table


def test_time_travel(history: Table) -> None:
    sql = history.sql  # type: ignore[attr-defined]
    first, second = history.snapshots[0], history.snapshots[1]
    moment = dt.datetime.fromtimestamp(first.timestamp_ms / 1000 + 0.0004, dt.UTC).strftime(
        "%Y-%m-%d %H:%M:%S.%f"
    )
    expected = {
        "": ["key", 3],
        f"VERSION AS OF {first.snapshot_id}": ["id", 1],
        f"FOR VERSION AS OF '{first.snapshot_id}'": ["id", 1],
        "VERSION AS OF 'first'": ["id", 1],
        "FOR SYSTEM_VERSION AS OF 'dev-1'": ["key", 2],
        f"TIMESTAMP AS OF '{moment}'": ["id", 1],
        f"TIMESTAMP AS OF timestamp_millis({second.timestamp_ms})": ["id", 3],
        f"FOR SYSTEM_TIME AS OF timestamp_seconds({second.timestamp_ms / 1000 + 1}) + INTERVAL 10 MINUTES": [
            "id",
            3,
        ],
    }
    for clause, (column, count) in expected.items():
        frame = sql(f"SELECT * FROM a.b.t {clause}")
        assert [frame.columns, frame.count()] == [[column], count], clause
        assert sql(f"SELECT x.{column} FROM prod.a.b.t {clause} AS x").count() == count
    suffixes = {
        f"snapshot_id_{first.snapshot_id}": ["id", 1],
        f"at_timestamp_{first.timestamp_ms}": ["id", 1],
        "tag_first": ["id", 1],
        "`branch_dev-1`": ["key", 2],
    }
    for suffix, (column, count) in suffixes.items():
        frame = sql(f"SELECT * FROM a.b.t.{suffix}")
        assert [frame.columns, frame.count()] == [[column], count], suffix
    both = sql("SELECT o.id, n.key FROM a.b.t.tag_first o FULL JOIN a.b.t n ON o.id = n.key")
    assert rows(both) == [(0, 0), (None, 1), (None, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM a.b.t VERSION AS OF 'fist'", "There is dev-1, first, main"),
        ("SELECT * FROM a.b.t VERSION AS OF 12", "has no snapshot 12"),
        ("SELECT * FROM a.b.t.branch_first", "no branch 'first'. There is dev-1, main"),
        ("SELECT * FROM a.b.t.tag_first VERSION AS OF 'first'", "two states of a table are named"),
        ("SELECT * FROM a.b.t TIMESTAMP AS OF 'someday'", "is no time"),
        ("SELECT * FROM a.b.t TIMESTAMP AS OF NULL", "expected a time"),
        ("SELECT * FROM a.b.t VERSION AS OF now()", "expected a snapshot id"),
        ("SELECT * FROM a.b.t WITH ('split-size' = '5')", "options of a read are not supported"),
        ("SELECT *, _file FROM a.b.t", "would show it twice"),
    ],
)
def test_time_travel_to_nowhere(history: Table, text: str, message: str) -> None:
    with pytest.raises((InvalidInput, NotSupported), match=re.escape(message)):
        history.sql(text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [
        *("entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots"),
        *("refs", "manifests", "partitions", "all_data_files", "all_delete_files", "all_files"),
        *("all_manifests", "all_entries", "position_deletes"),
    ],
)
def test_metadata_tables(history: Table, name: str) -> None:
    frame = history.sql(f"SELECT * FROM prod.a.b.t.{name}")  # type: ignore[attr-defined]
    told = history.inspect(name)
    assert frame.columns == told.column_names
    assert frame.count() == told.num_rows


def test_metadata_tables_of_the_past_and_rows_that_tell_of_themselves(history: Table) -> None:
    sql = history.sql  # type: ignore[attr-defined]
    assert sql("SELECT file_path FROM a.b.t.files VERSION AS OF 'first'").count() == 1
    assert sql("SELECT file_path FROM a.b.t.files").count() == 3
    told = rows(sql("SELECT key, _pos, _file FROM a.b.t WHERE key > 0"))
    known = {each[0] for each in rows(sql("SELECT file_path FROM a.b.t.files"))}
    assert [each[0] for each in told] == [1, 2]
    assert {each[2] for each in told} <= known
