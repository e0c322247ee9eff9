"""INSERT, DELETE, UPDATE and MERGE leave the rows that the words say: told by queries of plain Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.errors import CommitConflict, InvalidInput, LakeplaneError, NotFound
from tests.iceberg_tables import iceberg
from tests.sql.conftest import ORDERS, orders_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeplane.lake import Lake


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=repr)


@pytest.fixture
def orders(lake: Lake, spark: SparkSession) -> Iterator[Lake]:
    """A lake with orders to be changed; the view ``orders_`` keeps what they were, ``chosen`` names some."""
    frame = orders_of(spark).cache()
    frame.createOrReplaceTempView("orders_")
    lake.create_table("shop.orders", ORDERS, partition_by=["region"]).append(frame)
    lake.create_namespace("other")
    lake.sql("CREATE TABLE other.orders AS SELECT id, id % 2 AS n FROM range(4, 10)")
    spark.range(4, 10).selectExpr("id", "id % 2 AS n").createOrReplaceTempView("others_")
    lake.sql("CREATE TABLE shop.chosen AS SELECT id, id * 100 AS worth FROM range(3, 9)")
    spark.range(3, 9).selectExpr("id", "id * 100 AS worth").createOrReplaceTempView("chosen_")
    yield lake
    for name in ("orders_", "chosen_", "others_"):
        spark.catalog.dropTempView(name)
    frame.unpersist()


DELETES = [
    ("", "region = 'EU'"),
    ("", "amount > 5 AND place.x = 1"),
    ("AS o", "o.place.x IS NULL OR o.id = 3"),
    ("", "shop.orders.id < 5 AND lake.shop.orders.region <=> NULL"),
    ("o", "o.id IN (SELECT id FROM shop.chosen WHERE worth > 400)"),
    ("", "id < (SELECT min(id) FROM shop.chosen)"),
    # The row is looked at from inside of a sub-query that has columns of the same names.
    ("AS o", "EXISTS (SELECT id FROM shop.chosen c WHERE o.id = c.id AND c.worth > 500)"),
    ("AS o", "NOT EXISTS (SELECT id FROM shop.chosen WHERE o.id = id)"),
    ("", "EXISTS (SELECT 1 FROM shop.chosen WHERE orders.id = chosen.id)"),
    ("", "EXISTS (SELECT 1 FROM other.orders WHERE shop.orders.id = other.orders.id AND orders.n = 1)"),
    ("", "id IN (SELECT orders.id + 1 FROM shop.orders WHERE orders.region = 'US')"),
    ("", "CASE WHEN region = 'EU' THEN id > 10 ELSE false END"),
]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(("alias", "where"), DELETES, ids=[each[1] for each in DELETES])
def test_delete(orders: Lake, spark: SparkSession, alias: str, where: str, mode: str) -> None:
    orders.sql(f"ALTER TABLE shop.orders SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
    name = alias.rsplit(maxsplit=1)[-1] if alias else "orders"
    condition = (
        where.replace("other.orders.", "u.")
        .replace("other.orders", "others_ AS u")
        .replace("AND orders.n", "AND u.n")
    )
    condition = condition.replace("lake.shop.orders.", f"{name}.").replace("shop.orders.", f"{name}.")
    condition = condition.replace("FROM shop.orders", "FROM orders_ AS orders").replace(
        "shop.chosen", "chosen_ AS chosen" if "chosen.id" in where else "chosen_"
    )
    left = spark.sql(f"SELECT * FROM orders_ AS {name} WHERE NOT coalesce({condition}, false)")
    expected = sorted((tuple(row) for row in left.collect()), key=repr)
    [receipt] = orders.sql(f"DELETE FROM shop.orders {alias} WHERE {where}").collect()
    assert rows(orders, "SELECT * FROM shop.orders") == expected
    if mode == "copy-on-write":
        assert receipt.removed_rows - receipt.added_rows == 24 - len(expected)
    assert [
        each.name for each in spark.catalog.listTables() if each.name.startswith(("lakeplane", "_py"))
    ] == []


UPDATES = [
    ("SET amount = amount * 2 WHERE region = 'EU'", {"amount": "IF(region = 'EU', amount * 2, amount)"}),
    (
        "AS o SET o.region = upper(o.place.y), place.x = o.id WHERE o.id > 20",
        {
            "region": "IF(id > 20, upper(place.y), region)",
            "place": "IF(id > 20, named_struct('x', CAST(id AS INT), 'y', place.y), place)",
        },
    ),
    ("SET region = 'x''y', amount = DEFAULT", {"region": "'x''y'", "amount": "NULL"}),
    (
        "o SET amount = (SELECT max(worth) FROM shop.chosen c WHERE c.id = o.id) WHERE o.id IN (SELECT id FROM shop.chosen)",
        {"amount": "IF(id BETWEEN 3 AND 8, id * 100, amount)"},
    ),
    (
        "AS o SET region = 'returned' WHERE EXISTS (SELECT id FROM shop.chosen WHERE o.id = id)",
        {"region": "IF(id BETWEEN 3 AND 8, 'returned', region)"},
    ),
]


@pytest.mark.parametrize(("statement", "values"), UPDATES, ids=[each[0] for each in UPDATES])
def test_update(orders: Lake, spark: SparkSession, statement: str, values: dict[str, str]) -> None:
    shown = (
        f"CAST({values.get(field.name, field.name)} AS {field.dataType.simpleString()})"
        for field in orders.sql("SELECT * FROM shop.orders").schema
    )
    expected = sorted(
        (tuple(row) for row in spark.sql(f"SELECT {', '.join(shown)} FROM orders_").collect()), key=repr
    )
    orders.sql(f"UPDATE shop.orders {statement}")
    assert rows(orders, "SELECT * FROM shop.orders") == expected


def test_merge(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t (id BIGINT, n INT, s STRUCT<x: INT>) TBLPROPERTIES ('format-version'='3')")
    lake.sql("ALTER TABLE shop.t ALTER COLUMN n SET DEFAULT 7")
    lake.sql("INSERT INTO shop.t SELECT id, id, named_struct('x', 0) FROM range(6)")
    lake.sql("CREATE TABLE shop.s AS SELECT id, CAST(id * 10 AS INT) AS n FROM range(3, 9)")
    lake.sql(
        """MERGE INTO shop.t AS target USING (SELECT * FROM shop.s WHERE id <> 8) AS source
           ON target.id = source.id
           WHEN MATCHED AND source.n IN (SELECT max(n) - 50 FROM shop.s) THEN DELETE
           WHEN MATCHED THEN UPDATE SET target.n = source.n + 1, target.s.x = CASE WHEN true THEN 5 END
           WHEN NOT MATCHED AND source.id = 6 THEN INSERT *
           WHEN NOT MATCHED THEN INSERT (id, n) VALUES (source.id, DEFAULT)
           WHEN NOT MATCHED BY SOURCE AND target.id = 0 THEN UPDATE SET n = -1
           WHEN NOT MATCHED BY SOURCE AND target.id = 1 THEN DELETE"""
    )
    assert rows(lake, "SELECT id, n, s.x FROM shop.t") == [
        (0, -1, 0),
        (2, 2, 0),
        (4, 41, 5),
        (5, 51, 5),
        (6, 60, None),
        (7, 7, None),
    ]


@pytest.mark.parametrize(
    ("target", "source", "on"),
    [
        ("shop.t", "other.t", "shop.t.id = other.t.id"),
        ("shop.t `a b`", "other.t `c.d`", "`a b`.id = `c.d`.id"),
        ("shop.t AS x", "view_of_session", "x.id = view_of_session.id"),
        ("shop.t", "(VALUES (1, 10), (2, 20) AS v(id, n)) AS v", "t.id = v.id"),
        ("lake.shop.t", "other.t VERSION AS OF 'old' AS o", "lake.shop.t.id = o.id"),
    ],
)
def test_merge_with_any_names(lake: Lake, spark: SparkSession, target: str, source: str, on: str) -> None:
    lake.sql("CREATE NAMESPACE other")
    lake.sql("CREATE TABLE shop.t AS SELECT * FROM VALUES (1, 0), (3, 0) AS v(id, n)")
    lake.sql("CREATE TABLE other.t AS SELECT * FROM VALUES (1, 10), (2, 20) AS v(id, n)")
    lake.sql("ALTER TABLE other.t CREATE TAG old")
    spark.sql("SELECT * FROM VALUES (1, 10), (2, 20) AS v(id, n)").createOrReplaceTempView("view_of_session")
    name = on.split(" = ")[1].removesuffix(".id")
    lake.sql(
        f"MERGE INTO {target} USING {source} ON {on} WHEN MATCHED AND {name}.n = 10 THEN UPDATE SET n = {name}.n "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    spark.catalog.dropTempView("view_of_session")
    assert rows(lake, "SELECT * FROM shop.t") == [(1, 10), (2, 20), (3, 0)]


def test_merge_with_schema_evolution(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id, 'a' AS name")
    lake.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO shop.t t USING (SELECT 1 AS id, 'b' AS name, 2.5D AS extra) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(lake, "SELECT id, name, extra FROM shop.t") == [(1, "b", 2.5)]


# INSERT


def test_insert_by_position_and_name(lake: Lake, spark: SparkSession) -> None:
    lake.sql(
        "CREATE TABLE shop.t (a INT, b STRING DEFAULT 'none', c DATE DEFAULT DATE '2026-01-01') TBLPROPERTIES ('format-version'='3')"
    )
    for text in (
        "INSERT INTO shop.t VALUES (1, 'x', NULL), (2, DEFAULT, DEFAULT)",
        "INSERT INTO lake.shop.t (c, a) VALUES (DATE '2026-02-02', 3)",
        "INSERT INTO TABLE shop.t BY NAME SELECT 'y' AS b, 4 AS a",
        "INSERT INTO shop.t SELECT id, 'q', current_date() FROM range(5, 6)",
        "WITH w AS (SELECT 6 AS a) INSERT INTO shop.t (a) SELECT a FROM w",
        "INSERT INTO shop.t TABLE shop.t",
    ):
        [receipt] = lake.sql(text).collect()
        assert receipt.operation == "append"
    today = spark.sql("SELECT current_date()").collect()[0][0]
    first, second = (
        spark.sql(f"SELECT DATE '{each}'").collect()[0][0] for each in ("2026-01-01", "2026-02-02")
    )
    once = [
        (1, "x", None),
        (2, "none", first),
        (3, "none", second),
        (4, "y", first),
        (5, "q", today),
        (6, "none", first),
    ]
    assert rows(lake, "SELECT * FROM shop.t") == sorted(once * 2, key=repr)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT INTO shop.t VALUES (1)", InvalidInput, "1 columns, and 2 are to be filled. They are a, b"),
        ("INSERT INTO shop.t (a, x) VALUES (1, 2)", InvalidInput, "there is no column x. There is a, b"),
        ("INSERT INTO shop.t (a, A) VALUES (1, 2)", InvalidInput, "filled twice"),
        ("INSERT INTO shop.t BY NAME SELECT 1 AS x", InvalidInput, "x"),
        ("INSERT INTO shop.t VALUES ('x', 'y')", InvalidInput, "a"),
        ("INSERT INTO shop.t PARTITION (a = 1) SELECT 'x'", InvalidInput, "not partitioned by a"),
        ("INSERT INTO shop.t.snapshots SELECT 1, 'x'", InvalidInput, "only a table or a branch"),
        ("INSERT INTO lake.shop.nope SELECT 1", NotFound, "Did you mean|There is shop.t"),
        ("UPDATE shop.t SET nope = 1", InvalidInput, "nope"),
        ("UPDATE shop.t SET a = 1, shop.t.a = 2", InvalidInput, "twice"),
        ("UPDATE shop.t.tag_x SET a = 1", InvalidInput, "only a table or a branch"),
        ("DELETE FROM shop.t WHERE nope = 1", InvalidInput, "nope"),
        ("DELETE FROM shop.t.files", InvalidInput, "Name the table: shop.t"),
        ("MERGE INTO shop.t USING shop.t s ON s.nope = t.a WHEN MATCHED THEN DELETE", Exception, "nope"),
        ("MERGE INTO lake.shop.nope t USING shop.t s ON s.a = t.a WHEN MATCHED THEN DELETE", NotFound, "shop.t"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_written(lake: Lake, text: str, error: type[Exception], message: str) -> None:
    lake.sql("CREATE TABLE shop.t (a INT, b STRING)")
    lake.sql("INSERT INTO shop.t VALUES (0, 'zero')")
    with pytest.raises(error, match=message):
        lake.sql(text)
    assert rows(lake, "SELECT * FROM shop.t") == [(0, "zero")]


def test_overwrite(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE shop.t (id INT, p STRING, q DATE) PARTITIONED BY (p, q)")
    start = (
        "VALUES (1, 'a', DATE '2026-01-01'), (2, 'a', DATE '2026-01-02'), (3, NULL, NULL), (4, 'it''s', NULL)"
    )

    def left(text: str) -> list[Any]:
        lake.sql(f"INSERT OVERWRITE shop.t {start}")
        lake.sql(text)
        return [row[0] for row in lake.sql("SELECT id FROM shop.t ORDER BY id").collect()]

    assert left("INSERT OVERWRITE shop.t VALUES (9, 'a', NULL)") == [9]
    assert left("INSERT OVERWRITE shop.t PARTITION (p = 'a') SELECT 9, DATE '2026-01-05'") == [3, 4, 9]
    assert left("INSERT OVERWRITE shop.t PARTITION (p = 'a', q = '2026-01-02') SELECT 9") == [1, 3, 4, 9]
    assert left("INSERT OVERWRITE shop.t PARTITION (q = DATE '2026-01-02', p) (id, p) SELECT 9, 'z'") == [
        1,
        3,
        4,
        9,
    ]
    assert left("INSERT OVERWRITE shop.t PARTITION (p = NULL) SELECT 9, NULL") == [1, 2, 4, 9]
    assert left("INSERT OVERWRITE shop.t PARTITION (p = 'it''s') BY NAME SELECT 9 AS id") == [1, 2, 3, 9]
    assert left("INSERT INTO shop.t PARTITION (p = 'a') SELECT 9, NULL") == [1, 2, 3, 4, 9]
    assert left("INSERT INTO shop.t REPLACE WHERE p = 'a' AND q > '2026-01-01' SELECT 9, 'z', NULL") == [
        1,
        3,
        4,
        9,
    ]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("TRUNCATE TABLE shop.t")
        lake.sql(f"INSERT INTO shop.t {start}")
        lake.sql("INSERT OVERWRITE shop.t VALUES (9, 'a', DATE '2026-01-02'), (8, NULL, NULL)")
        assert [row[0] for row in lake.sql("SELECT id FROM shop.t ORDER BY id").collect()] == [1, 4, 8, 9]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_branches_are_written_to(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT id FROM range(3)")
    lake.sql("INSERT INTO shop.t.branch_dev VALUES (7)")
    lake.sql("UPDATE shop.t.branch_dev SET id = 8 WHERE id = 7")
    lake.sql("DELETE FROM lake.shop.t.branch_dev AS x WHERE x.id = 0")
    lake.sql(
        "MERGE INTO shop.t.branch_dev t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(lake, "SELECT * FROM shop.t.branch_dev") == [(1,), (2,), (8,), (9,)]
    lake.sql("INSERT OVERWRITE shop.t.branch_dev VALUES (5)")
    lake.sql("TRUNCATE TABLE shop.t.branch_dev")
    assert rows(lake, "SELECT * FROM shop.t.branch_dev") == []
    assert rows(lake, "SELECT * FROM shop.t") == [(0,), (1,), (2,)]


def test_write_audit_publish(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE shop.t TBLPROPERTIES ('write.wap.enabled'='true') AS SELECT 1 AS id")
    lake.sql("SET spark.wap.id = load-1")
    try:
        lake.sql("INSERT INTO shop.t VALUES (2)")
        assert rows(lake, "SELECT * FROM shop.t") == [(1,)]
    finally:
        spark.conf.unset("spark.wap.id")
    [(source, current)] = rows(lake, "CALL system.publish_changes('shop.t', 'load-1')")
    assert source == current
    lake.sql("ALTER TABLE shop.t CREATE BRANCH audit")
    lake.sql("SET spark.wap.branch = audit")
    try:
        lake.sql("INSERT INTO shop.t VALUES (3)")
        assert rows(lake, "SELECT * FROM shop.t") == [(1,), (2,), (3,)]
    finally:
        spark.conf.unset("spark.wap.branch")
    assert rows(lake, "SELECT * FROM shop.t") == [(1,), (2,)]
    lake.sql("CALL lake.system.fast_forward('shop.t', 'main', 'audit')")
    assert rows(lake, "SELECT * FROM shop.t") == [(1,), (2,), (3,)]


def test_a_replacement_is_refused_when_others_changed_the_table(lake: Lake) -> None:
    """A table that was replaced while rows came in from elsewhere lost them without a word."""
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id")
    other = iceberg(lake, "shop.t")
    table = iceberg(lake, "shop.t")

    from lakeplane.iceberg.changes import Replace  # noqa: PLC0415
    from lakeplane.iceberg.replacement import Wanted  # noqa: PLC0415
    from lakeplane.model.ddl import parse_ddl  # noqa: PLC0415

    stale = Replace(wanted=Wanted(schema=parse_ddl("x INT")), base=table.metadata)
    other.append(lake.sql("SELECT 2 AS id"))
    with pytest.raises(CommitConflict, match="while it was being replaced"):
        table._change(stale)
    assert rows(lake, "SELECT * FROM shop.t") == [(1,), (2,)]


# Procedures


def test_procedures(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id")
    lake.sql("INSERT INTO shop.t VALUES (2)")
    lake.sql("ALTER TABLE shop.t CREATE BRANCH b")
    table = iceberg(lake, "shop.t")
    first, second = (each.snapshot_id for each in table.snapshots)
    lake.sql("USE shop")
    assert rows(lake, f"CALL system.rollback_to_snapshot('t', {first})") == [(second, first)]
    assert rows(lake, "CALL lake.system.set_current_snapshot(ref => 'b', table => 'shop.t')") == [
        (first, second)
    ]
    assert rows(lake, f"CALL system.set_current_snapshot('t', {first})") == [(second, first)]
    assert rows(lake, f"CALL system.cherrypick_snapshot('lake.shop.t', {second})") == [(second, second)]
    moment = table.snapshots[1].timestamp_ms
    back = f"CALL system.rollback_to_timestamp(table => 't', timestamp => timestamp_millis({moment}))"
    assert rows(lake, back) == [(second, first)]
    lake.sql("INSERT INTO t.branch_b VALUES (3)")
    third = iceberg(lake, "shop.t").refs["b"].snapshot_id
    lake.sql(f"CALL system.set_current_snapshot('t', {second})")
    assert rows(lake, "CALL system.fast_forward('t', 'main', 'b')") == [("main", second, third)]
    ancestors = rows(lake, "CALL system.ancestors_of('t')")
    assert sorted(each[0] for each in ancestors) == sorted([first, second, third])
    assert [each[0] for each in rows(lake, f"CALL system.ancestors_of('t', {first})")] == [first]
    assert rows(lake, "CALL system.convert_equality_deletes('t')") == [(None,)]
    at = iceberg(lake, "shop.t").metadata_location
    lake.sql("DROP TABLE t")
    assert rows(lake, f"CALL system.register_table('shop.u', '{at}')") == [(third, 3, 3)]


def test_changes_of_rows(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id, 'a' AS name")
    lake.sql("INSERT INTO shop.t VALUES (2, 'b')")
    lake.sql("DELETE FROM shop.t WHERE id = 1")
    told = "SELECT id, _change_type, _change_ordinal FROM {} ORDER BY 3"
    every = [(1, "insert", 0), (2, "insert", 1), (1, "delete", 2)]
    assert [tuple(row) for row in lake.sql(told.format("shop.t.changes")).collect()] == every
    first, second, _ = (each.snapshot_id for each in iceberg(lake, "shop.t").snapshots)
    [(name,)] = rows(
        lake, f"CALL system.create_changelog_view('shop.t', options => map('start-snapshot-id', '{first}'))"
    )
    try:
        assert [row[:2] for row in rows(lake, told.format(name))] == [(1, "delete"), (2, "insert")]
        call = f"CALL system.create_changelog_view('shop.t', '{name}', map('end-snapshot-id', '{second}'), net_changes => true)"
        assert rows(lake, call) == [(name,)]
        assert [row[:2] for row in rows(lake, told.format(name))] == [(1, "insert"), (2, "insert")]
    finally:
        spark.catalog.dropTempView(name)
    for options, message in (
        ("map('start', '1')", "no option 'start'"),
        ("map('end-timestamp', 'x')", "whole numbers"),
    ):
        with pytest.raises(InvalidInput, match=message):
            lake.sql(f"CALL system.create_changelog_view('shop.t', options => {options})")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("system.expire_snapshot('shop.t')", "there is no procedure expire_snapshot"),
        ("system.ancestors('shop.t')", "Did you mean ancestors_of"),
        ("prod.system.ancestors_of('shop.t')", "This lake is called lake"),
        ("system.ancestors_of()", "table must be given. It has table, snapshot_id"),
        ("system.ancestors_of('shop.t', 1, 2)", "3 values are too many"),
        ("system.ancestors_of(tabel => 'shop.t')", "no parameter 'tabel'"),
        ("system.ancestors_of('shop.t', table => 'x')", "table is given twice"),
        ("system.ancestors_of('shop.t', 'x')", "is no BIGINT"),
        ("system.ancestors_of('shop.u')", "there is no table shop.u"),
        ("system.set_current_snapshot('shop.t')", "one of snapshot_id and ref"),
        ("system.fast_forward('shop.t', 'main', 'x')", "no branch or tag 'x'"),
        ("system.rollback_to_snapshot('shop.t', 5)", "snapshot 5"),
        ("system.publish_changes('shop.t', 'x')", "x"),
        ("system.publish_changes('shop.t.files', 'x')", "only a part of a table"),
    ],
)
def test_calls_that_are_refused(lake: Lake, call: str, message: str) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id")
    with pytest.raises(LakeplaneError, match=message):
        lake.sql(f"CALL {call}")
