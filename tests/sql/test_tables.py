"""CREATE, ALTER, DROP, SHOW and DESCRIBE of tables, views and namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeplane.catalog.names import check_new
from lakeplane.errors import (
    AlreadyExists,
    InvalidChange,
    InvalidInput,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
    NotSupported,
)
from lakeplane.model.ddl import schema_to_ddl
from lakeplane.model.rules_text import partition_text, sort_text
from lakeplane.sql.words import quoted, text_literal
from tests.iceberg_tables import iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeplane.lake import Lake
    from lakeplane.table import Table


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


def rules(table: Table) -> list[str]:
    return [
        partition_text(each, table.schema, evolving=True) for each in table.metadata.partition_spec.fields
    ]


def test_create_table(lake: Lake) -> None:
    assert rows(lake, "CREATE NAMESPACE lake.inner COMMENT 'x'") == []
    answer = lake.sql(
        """CREATE TABLE lake.shop.orders (
             id BIGINT NOT NULL COMMENT 'it''s; -- the id',
             at TIMESTAMP, amount DECIMAL(10,2) DEFAULT 1.5,
             tags ARRAY<STRUCT<k: STRING NOT NULL, v: MAP<STRING, INT>>>)
           USING iceberg PARTITIONED BY (days(at), bucket(16, id), truncate(2, amount))
           COMMENT 'all; "orders"' LOCATION '{}'
           TBLPROPERTIES ('format-version'='3', 'a;b'='c''d', 'x' = 3)""".replace(
            "{}", place(lake, "elsewhere")
        )
    )
    assert answer.columns == []
    assert answer.collect() == []
    table = iceberg(lake, "shop.orders")
    assert schema_to_ddl(table.schema) == (
        "id BIGINT NOT NULL COMMENT 'it\\'s; -- the id', at TIMESTAMP, amount DECIMAL(10,2) DEFAULT 1.50, "
        "tags ARRAY<STRUCT<k: STRING NOT NULL, v: MAP<STRING, INT>>>"
    )
    assert table.metadata.format_version == 3
    assert table.location == place(lake, "elsewhere")
    assert dict(table.properties) == {"comment": 'all; "orders"', "a;b": "c'd", "x": "3"}
    assert [str(each.transform) for each in table.metadata.partition_spec.fields] == [
        "day",
        "bucket[16]",
        "truncate[2]",
    ]
    lake.sql("CREATE TABLE IF NOT EXISTS shop.orders (other INT)")
    assert len(iceberg(lake, "shop.orders").schema.fields) == 4
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE"):
        lake.sql("CREATE TABLE shop.orders (other INT)")


def place(lake: Lake, name: str) -> str:
    """A location within the lake."""
    return str(lake._catalog.default_location("table", lake_name(f"shop.{name}")))


def lake_name(text: str) -> Any:
    from lakeplane.catalog.names import parse_name  # noqa: PLC0415

    return parse_name(text)


def test_partition_columns_may_come_with_their_types(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t (id INT) PARTITIONED BY (day DATE, `a b` STRING COMMENT 'x')")
    table = iceberg(lake, "shop.t")
    assert [each.name for each in table.schema.fields] == ["id", "day", "a b"]
    assert rules(table) == ["day", "`a b`"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE TABLE shop.t (id INT) USING paimon", NotSupported, "USING iceberg"),
        ("CREATE TABLE lake.shop.t (id INT) USING parquet", InvalidInput, "Write USING iceberg"),
        ("CREATE TABLE shop.t", InvalidInput, "without columns"),
        ("CREATE TABLE t (id INT)", InvalidInput, "has no namespace"),
        ("CREATE TABLE nowhere.t (id INT)", NotFound, "nowhere"),
        ("CREATE TABLE shop.t (id BIGNT)", InvalidInput, "Did you mean BIGINT"),
        ("CREATE TABLE shop.t (id INT) PARTITIONED BY (dayz(id))", InvalidInput, "Did you mean day"),
        ("CREATE TABLE shop.t (id INT) AS SELECT 1", InvalidInput, "Leave the columns out"),
        ("CREATE TABLE shop.t AS SELECT 1 AS a, 2 AS a", LakeplaneError, "a"),
        ("REPLACE TABLE shop.t (id INT)", NotFound, "there is no table shop.t"),
        ("CREATE TABLE `shop`.`../up` (id INT)", InvalidInput, "up"),
    ],
)
def test_tables_that_cannot_be_made(lake: Lake, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lake.sql(text)
    assert lake.tables() == []


def test_show_create_table_makes_the_same_table(lake: Lake) -> None:
    lake.sql(
        """CREATE TABLE shop.`t-1` (`a b` INT NOT NULL DEFAULT -3 COMMENT 'x\\\\y''z', u uuid, f fixed[4],
           n timestamp_ns, s STRUCT<`c,d`: ARRAY<DOUBLE>>, g STRING DEFAULT 'it''s')
           PARTITIONED BY (bucket(4, `a b`), g) TBLPROPERTIES ('format-version' = '3', 'k;''`' = 'v\\n')"""
    )
    first = iceberg(lake, "shop.`t-1`")
    [(text,)] = rows(lake, "SHOW CREATE TABLE shop.`t-1`")
    lake.drop_table("shop.`t-1`")
    lake.sql(text)
    second = iceberg(lake, "shop.`t-1`")
    assert second.schema == first.schema
    assert second.metadata.partition_spec == first.metadata.partition_spec
    assert (second.properties, second.location) == (first.properties, first.location)


def test_a_table_of_a_query(lake: Lake, spark: SparkSession) -> None:
    views = spark.catalog.listTables()
    lake.sql("CREATE TABLE shop.a PARTITIONED BY (b) AS SELECT id AS a, id % 2 AS b FROM range(4)")
    lake.sql(
        "CREATE TABLE shop.b TBLPROPERTIES ('k'='v') AS WITH x AS (SELECT * FROM shop.a) SELECT * FROM x"
    )
    assert rows(lake, "SELECT a, b FROM shop.b ORDER BY a") == [(0, 0), (1, 1), (2, 0), (3, 1)]
    # As in Spark, nothing is required of columns that a query has made.
    assert schema_to_ddl(iceberg(lake, "shop.a").schema) == "a BIGINT, b BIGINT"
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.sql("CREATE TABLE shop.c AS SELECT 1 / (id - id) AS x FROM range(3)")
    assert lake.tables() == ["shop.a", "shop.b"]
    assert spark.catalog.listTables() == views


def test_replacing_keeps_the_history_and_reads_what_was_there(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t (id BIGINT, name STRING) TBLPROPERTIES ('k'='v')")
    lake.sql("INSERT INTO shop.t VALUES (1, 'a'), (2, 'b')")
    lake.sql("ALTER TABLE shop.t CREATE TAG old")
    before = iceberg(lake, "shop.t")
    lake.sql(
        "CREATE OR REPLACE TABLE shop.t PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('l'='w') "
        "AS SELECT name AS title, id * 10 AS id FROM shop.t"
    )
    table = iceberg(lake, "shop.t")
    assert rows(lake, "SELECT * FROM shop.t ORDER BY id") == [("a", 10), ("b", 20)]
    assert rows(lake, "SELECT * FROM shop.t VERSION AS OF 'old' ORDER BY id") == [(1, "a"), (2, "b")]
    assert table.metadata.table_uuid == before.metadata.table_uuid
    assert dict(table.properties) == {"k": "v", "l": "w"}
    # A column of the same name is the same column; another one gets an id that was never used.
    assert {each.name: each.id for each in table.schema.fields} == {"id": 1, "title": 3}
    assert rules(table) == ["bucket(2, id) AS id_bucket"]
    assert [each.parent_snapshot_id for each in table.snapshots] == [None, None]
    assert table.metadata.last_sequence_number == 2
    lake.sql("REPLACE TABLE shop.t (x INT)")
    assert rows(lake, "SELECT * FROM shop.t") == []
    assert iceberg(lake, "shop.t").metadata.current_snapshot_id is None
    lake.sql("INSERT INTO shop.t VALUES (1)")
    assert rows(lake, "SELECT * FROM shop.t") == [(1,)]


def test_a_replacement_that_fails_leaves_the_table_and_no_files(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS x")
    before = iceberg(lake, "shop.t")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.sql("CREATE OR REPLACE TABLE shop.t AS SELECT 1 / (id - id) AS x FROM range(3)")
    assert iceberg(lake, "shop.t").metadata == before.metadata


# ALTER TABLE


def test_alter_table(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE shop.t (id INT, at TIMESTAMP, s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: FLOAT>>, "
        "m MAP<STRING, STRUCT<d: DECIMAL(4, 2)>>) TBLPROPERTIES ('format-version'='3', 'old'='1')"
    )
    lake.sql("INSERT INTO shop.t (id) VALUES (1)")
    for action in (
        "ADD COLUMN first STRING DEFAULT 'it''s' COMMENT 'a;b' FIRST",
        "ADD COLUMNS (s.z DOUBLE AFTER x, l.element.y STRING, m.value.e DATE DEFAULT DATE '2026-01-01')",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN l.element.x TYPE DOUBLE",
        "ALTER COLUMN m.value.d TYPE DECIMAL(8, 2)",
        "ALTER COLUMN s.y COMMENT 'why' FIRST",
        "ALTER COLUMN at SET DEFAULT TIMESTAMP '2026-01-02 03:04:05'",
        "ALTER COLUMN first DROP DEFAULT, id AFTER at",
        "RENAME COLUMN s.x TO `ex y`",
        "DROP COLUMN l.element.y",
        "DROP COLUMNS IF EXISTS (nope, l.element.z)",
        "ADD PARTITION FIELD days(at) AS day",
        "ADD PARTITION FIELD bucket(4, id)",
        "REPLACE PARTITION FIELD day WITH hours(at)",
        "DROP PARTITION FIELD bucket(4, id)",
        "WRITE DISTRIBUTED BY PARTITION ORDERED BY id DESC, truncate(3, first) NULLS LAST",
        "SET TBLPROPERTIES ('new'='2')",
        "UNSET TBLPROPERTIES ('old')",
    ):
        assert rows(lake, f"ALTER TABLE shop.t {action}") == [], action
    table = iceberg(lake, "shop.t")
    assert schema_to_ddl(table.schema) == (
        "first STRING COMMENT 'a;b', at TIMESTAMP DEFAULT TIMESTAMP '2026-01-02 03:04:05+00:00', id BIGINT, "
        "s STRUCT<y: INT COMMENT 'why', `ex y`: INT, z: DOUBLE>, l ARRAY<STRUCT<x: DOUBLE>>, "
        "m MAP<STRING, STRUCT<d: DECIMAL(8,2), e: DATE DEFAULT DATE '2026-01-01'>>"
    )
    assert rules(table) == ["hours(at)"]
    assert [sort_text(each, table.schema) for each in table.metadata.sort_order.fields] == [
        "id DESC NULLS LAST",
        "truncate(3, first) ASC NULLS LAST",
    ]
    assert dict(table.properties) == {"new": "2", "write.distribution-mode": "hash"}
    assert rows(lake, "SELECT id, first FROM shop.t") == [(1, "it's")]
    lake.sql("ALTER TABLE shop.t WRITE UNORDERED")
    assert iceberg(lake, "shop.t").metadata.sort_order.is_unsorted
    lake.sql("ALTER TABLE shop.t RENAME TO shop.u")
    assert lake.tables() == ["shop.u"]


def test_identifier_fields_and_nullability(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t (a INT NOT NULL, b STRING NOT NULL, c INT)")
    lake.sql("ALTER TABLE shop.t SET IDENTIFIER FIELDS a, b")
    lake.sql("ALTER TABLE shop.t DROP IDENTIFIER FIELDS a")
    assert iceberg(lake, "shop.t").schema.identifier_field_ids == (2,)
    with pytest.raises(InvalidInput, match=r"c is not an identifier field. They are b"):
        lake.sql("ALTER TABLE shop.t DROP IDENTIFIER FIELDS c")
    lake.sql("ALTER TABLE shop.t ALTER COLUMN a DROP NOT NULL")
    assert not iceberg(lake, "shop.t").schema.find("a").required
    with pytest.raises(InvalidChange):
        lake.sql("ALTER TABLE shop.t ALTER COLUMN c SET NOT NULL")
    with pytest.raises(InvalidInput, match="no property 'x'"):
        lake.sql("ALTER TABLE shop.t UNSET TBLPROPERTIES ('x')")
    lake.sql("ALTER TABLE shop.t UNSET TBLPROPERTIES IF EXISTS ('x')")


def test_branches_and_tags(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id")
    [first] = iceberg(lake, "shop.t").snapshots
    lake.sql("INSERT INTO shop.t VALUES (2)")
    lake.sql(f"ALTER TABLE shop.t CREATE BRANCH b AS OF VERSION {first.snapshot_id} RETAIN 2 DAYS")
    lake.sql("ALTER TABLE shop.t CREATE BRANCH IF NOT EXISTS b")
    ref = iceberg(lake, "shop.t").refs["b"]
    assert (ref.snapshot_id, ref.max_ref_age_ms) == (first.snapshot_id, 172_800_000)
    lake.sql("ALTER TABLE shop.t CREATE OR REPLACE BRANCH b WITH SNAPSHOT RETENTION 3 SNAPSHOTS 1 HOUR")
    ref = iceberg(lake, "shop.t").refs["b"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms) == (3, 3_600_000)
    assert ref.snapshot_id == iceberg(lake, "shop.t").metadata.current_snapshot_id
    lake.sql("ALTER TABLE shop.t CREATE TAG v")
    with pytest.raises(InvalidChange, match="is a tag"):
        lake.sql("ALTER TABLE shop.t DROP BRANCH v")
    with pytest.raises(InvalidChange, match="exists"):
        lake.sql("ALTER TABLE shop.t CREATE TAG v")
    lake.sql(f"ALTER TABLE shop.t REPLACE TAG v AS OF VERSION {first.snapshot_id} RETAIN 5 MINUTES")
    assert iceberg(lake, "shop.t").refs["v"].max_ref_age_ms == 300_000
    lake.sql("ALTER TABLE shop.t DROP TAG v")
    lake.sql("ALTER TABLE shop.t DROP TAG IF EXISTS v")
    lake.sql("ALTER TABLE shop.t DROP BRANCH b")
    assert set(iceberg(lake, "shop.t").refs) == {"main"}


def test_drop_and_truncate(lake: Lake) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT 1 AS id")
    location = iceberg(lake, "shop.t").location
    assert rows(lake, "TRUNCATE TABLE shop.t")[0][1:4:2] == ("delete", 1)
    assert rows(lake, "SELECT * FROM shop.t") == []
    with pytest.raises(InvalidInput, match="only a part of a table"):
        lake.sql("DROP TABLE shop.t.snapshots")
    with pytest.raises(NotFound, match=r"Did you mean shop\.t"):
        lake.sql("DROP TABLE shop.tt")
    lake.sql("DROP TABLE shop.t PURGE")
    assert lake.tables() == []
    assert not [each for each in folder(location).rglob("*") if each.is_file() and each.suffix == ".parquet"]
    lake.sql("DROP TABLE IF EXISTS shop.t")
    lake.sql("DROP TABLE IF EXISTS lake.shop.t")
    with pytest.raises(NotFound):
        lake.sql("DROP TABLE lake.shop.t")


def folder(location: str) -> Any:
    from pathlib import Path  # noqa: PLC0415

    return Path(location)


# SHOW and DESCRIBE


def test_show_and_describe_have_the_columns_of_spark(lake: Lake, spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE default.same (id BIGINT COMMENT 'the id', s STRUCT<x: INT>, r STRING) "
        "USING parquet PARTITIONED BY (r)"
    )
    try:
        lake.sql(
            "CREATE TABLE shop.same (id BIGINT COMMENT 'the id', s STRUCT<x: INT>, r STRING) "
            "PARTITIONED BY (r)"
        )
        for text in (
            "DESCRIBE {}",
            "DESCRIBE TABLE {} id",
            "SHOW COLUMNS IN {}",
        ):
            ours, theirs = lake.sql(text.format("shop.same")), spark.sql(text.format("default.same"))
            assert ours.columns == theirs.columns, text
            assert ours.collect() == theirs.collect(), text
        spark.sql("INSERT INTO default.same VALUES (1, NULL, 'EU'), (2, NULL, 'US')")
        lake.sql("INSERT INTO shop.same VALUES (1, NULL, 'EU'), (2, NULL, 'US')")
        for text in (
            "SHOW PARTITIONS {}",
            "SHOW TBLPROPERTIES {}",
            "SHOW CREATE TABLE {}",
            "DESCRIBE EXTENDED {}",
        ):
            ours, theirs = lake.sql(text.format("shop.same")), spark.sql(text.format("default.same"))
            assert ours.columns == theirs.columns, text
        assert rows(lake, "SHOW PARTITIONS shop.same") == [("r=EU",), ("r=US",)]
        for text in ("SHOW TABLES IN {}", "SHOW VIEWS IN {}"):
            assert lake.sql(text.format("shop")).columns == spark.sql(text.format("default")).columns, text
        for text in ("SHOW NAMESPACES", "SHOW DATABASES LIKE 'sh*'", "DESCRIBE DATABASE {}"):
            ours, theirs = lake.sql(text.format("shop")), spark.sql(text.format("default"))
            assert ours.columns == theirs.columns, text
    finally:
        spark.sql("DROP TABLE default.same")


def test_show(lake: Lake) -> None:
    lake.sql("CREATE NAMESPACE shop.inner")
    lake.sql("CREATE TABLE shop.orders (id INT)")
    lake.sql("CREATE TABLE shop.inner.items (id INT) TBLPROPERTIES ('a'='b')")
    assert rows(lake, "SHOW TABLES") == [("shop", "orders", False), ("shop.inner", "items", False)]
    assert rows(lake, "SHOW TABLES IN lake.shop.inner") == [("shop.inner", "items", False)]
    assert rows(lake, "SHOW TABLES IN shop LIKE 'x|ORD*'") == [("shop", "orders", False)]
    assert rows(lake, "SHOW TABLES IN shop 'ord'") == []
    assert rows(lake, "SHOW NAMESPACES") == [("shop",)]
    assert rows(lake, "SHOW NAMESPACES IN shop") == [("shop.inner",)]
    assert rows(lake, "SHOW TBLPROPERTIES shop.inner.items ('a')") == [("a", "b")]
    assert "does not have property: c" in rows(lake, "SHOW TBLPROPERTIES shop.inner.items ('c')")[0][1]
    lake.sql("USE shop.inner")
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("lake", "shop.inner")]
    assert rows(lake, "SHOW TABLES") == [("shop.inner", "items", False)]
    assert rows(lake, "SHOW COLUMNS FROM items") == [("id",)]
    with pytest.raises(NotFound, match="There is shop"):
        lake.sql("SHOW TABLES IN shp")
    with pytest.raises(NotFound, match="There is shop"):
        lake.sql("USE shp")
    lake.sql("USE default")
    with pytest.raises(NotFound):
        lake.sql("SHOW COLUMNS FROM items")
    with pytest.raises(NotSupported, match="not partitioned"):
        lake.sql("SHOW PARTITIONS shop.orders")


# Namespaces


def test_namespaces(lake: Lake) -> None:
    lake.sql("CREATE SCHEMA IF NOT EXISTS n COMMENT 'it''s' WITH PROPERTIES ('a;'='b')")
    lake.sql("CREATE NAMESPACE IF NOT EXISTS n")
    with pytest.raises(AlreadyExists):
        lake.sql("CREATE NAMESPACE n")
    lake.sql("ALTER DATABASE n SET DBPROPERTIES ('c'='d', 'e'='f')")
    lake.sql("ALTER NAMESPACE n UNSET PROPERTIES ('e')")
    assert dict(lake.namespace("n")) == {"comment": "it's", "a;": "b", "c": "d"}
    told = rows(lake, "DESCRIBE NAMESPACE EXTENDED n")
    assert told == [
        ("Catalog Name", "lake"),
        ("Namespace Name", "n"),
        ("Comment", "it's"),
        ("Properties", "((a;,b), (c,d))"),
    ]
    lake.sql("CREATE NAMESPACE n.m")
    lake.sql("CREATE TABLE n.m.t (id INT)")
    lake.sql("CREATE VIEW n.v AS SELECT 1 AS one")
    lake.sql("USE n.m")
    with pytest.raises(NamespaceNotEmpty, match="CASCADE"):
        lake.sql("DROP NAMESPACE n")
    lake.sql("DROP NAMESPACE lake.n CASCADE")
    assert lake.namespaces() == ["shop"]
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("lake", "")]
    lake.sql("DROP NAMESPACE IF EXISTS n")
    with pytest.raises(NotFound, match="There is shop"):
        lake.sql("DROP NAMESPACE n")


# Views


def test_views(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT id, id * 2 AS x FROM range(5)")
    lake.sql("USE shop")
    lake.sql(
        "CREATE VIEW v (a COMMENT 'it''s', `b c`) COMMENT 'd' AS SELECT x, id FROM t WHERE id > 1 -- end"
    )
    assert rows(lake, "SELECT * FROM v ORDER BY a") == [(4, 2), (6, 3), (8, 4)]
    lake.sql("USE lake")
    assert rows(lake, "SELECT w.a FROM shop.v w JOIN shop.t ON w.`b c` = t.id WHERE w.a > 4 ORDER BY 1") == [
        (6,),
        (8,),
    ]
    assert rows(lake, "DESCRIBE shop.v") == [("a", "bigint", "it's"), ("b c", "bigint", None)]
    assert rows(lake, "SHOW VIEWS IN shop") == [("shop", "v", False)]
    [(text,)] = rows(lake, "SHOW CREATE TABLE shop.v")
    lake.sql("USE shop")
    lake.sql("DROP VIEW v")
    lake.sql(text)
    assert rows(lake, "SELECT `b c` FROM v ORDER BY 1") == [(2,), (3,), (4,)]
    lake.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM t")
    lake.sql("ALTER TABLE t ADD COLUMN later INT FIRST")
    assert lake.sql("SELECT * FROM v").columns == ["id", "x"]
    lake.sql("ALTER VIEW v AS SELECT max(id) AS m FROM shop.t")
    lake.sql("CREATE VIEW w AS SELECT m + 1 AS n FROM v")
    assert rows(lake, "SELECT * FROM w") == [(5,)]
    lake.sql("ALTER VIEW w SET TBLPROPERTIES ('k'='v')")
    lake.sql("ALTER VIEW w UNSET TBLPROPERTIES ('k')")
    lake.sql("ALTER VIEW w RENAME TO shop.u")
    assert lake.views() == ["shop.u", "shop.v"]
    spark.range(1).createOrReplaceTempView("passing")
    try:
        with pytest.raises(InvalidInput, match="passing, which is a temporary view"):
            lake.sql("CREATE VIEW x AS SELECT * FROM passing")
    finally:
        spark.catalog.dropTempView("passing")
    for text, error in (
        ("CREATE VIEW v AS SELECT 1 AS a", AlreadyExists),
        ("CREATE VIEW t AS SELECT 1 AS a", AlreadyExists),
        ("CREATE VIEW x (a) AS SELECT 1, 2", InvalidInput),
        ("CREATE VIEW x AS SELECT 1 AS a, 2 AS a", InvalidInput),
        ("ALTER VIEW lake.shop.x RENAME TO shop.y", NotFound),
        ("DROP VIEW lake.shop.x", NotFound),
        ("INSERT INTO v VALUES (1)", InvalidInput),
        ("SELECT * FROM v VERSION AS OF 1", InvalidInput),
    ):
        with pytest.raises(error):
            lake.sql(text)
    lake.sql("DROP VIEW IF EXISTS lake.shop.x")


def test_views_of_others_are_expanded(lake: Lake) -> None:
    """As its property tells, Iceberg's Spark has made the view: columns are taken from its query by name."""
    lake.sql("CREATE TABLE shop.t AS SELECT id, id * 2 AS x FROM range(3)")
    lake.create_view(
        "shop.v",
        "SELECT * FROM t",
        "b BIGINT, a BIGINT",
        default_namespace="shop",
        properties={"spark.query-column-names": "x,id"},
    )
    assert rows(lake, "SELECT a, b FROM shop.v WHERE a = 2") == [(2, 4)]
    lake.create_view("shop.loop", "SELECT * FROM shop.loop", "a BIGINT")
    with pytest.raises(InvalidInput, match="without an end"):
        lake.sql("SELECT * FROM shop.loop")


def test_temporary_views_over_tables_of_the_lake(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE shop.t AS SELECT id FROM range(3)")
    lake.sql("CREATE TEMP VIEW tv (a) AS SELECT id + 1 FROM shop.t")
    try:
        assert [row[0] for row in spark.sql("SELECT a FROM tv ORDER BY a").collect()] == [1, 2, 3]
        lake.sql("CREATE OR REPLACE TEMPORARY VIEW tv AS SELECT max(id) AS m FROM shop.t")
        assert rows(lake, "SELECT * FROM tv") == [(2,)]
    finally:
        lake.sql("DROP VIEW tv")
    assert not spark.catalog.tableExists("tv")


# Names and texts that could mean something else


PARTS = st.one_of(
    st.sampled_from(
        [
            "select",
            "table",
            "from",
            "order by",
            "a;b",
            "x'y",
            "--",
            "{f0}",
            "ünï",
            "ß",
            "日本",
            "1a",
            "a-b",
            "`",
            "{}",
            "$",
            "t t",
        ]
    ),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Cf")), min_size=1, max_size=6),
)


def is_usable(name: str) -> bool:
    try:
        check_new((name,))
    except InvalidInput:
        return False
    return True


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    PARTS.filter(is_usable),
    st.lists(PARTS, min_size=1, max_size=3, unique_by=str.lower),
    st.text(max_size=12),
)
def test_names_and_texts_survive(lake: Lake, table: str, columns: list[str], text: str) -> None:
    """Statements are put together by people: what is between quotes is what is stored."""
    name = f"lake.shop.{quoted(table)}"
    told = ", ".join(f"{quoted(each)} STRING COMMENT {text_literal(text)}" for each in columns)
    lake.sql(
        f"CREATE TABLE {name} ({told}) TBLPROPERTIES ({text_literal('k' + text)} = {text_literal(text)})"
    )
    try:
        found = iceberg(lake, name.removeprefix("lake."))
        assert [each.name for each in found.schema.fields] == columns
        assert {each.doc for each in found.schema.fields} == {text}
        assert found.properties[f"k{text}"] == text
        assert [row[0] for row in lake.sql(f"SHOW COLUMNS IN {name}").collect()] == columns
        shown = lake.sql(
            f"SELECT {text_literal(text)} AS x, * FROM {name} AS {quoted(table)} "
            f"WHERE {quoted(columns[0])} = 'x'"
        )
        assert shown.columns == ["x", *columns]
        lake.sql(f"ALTER TABLE {name} RENAME COLUMN {quoted(columns[0])} TO {quoted('x' + columns[0])}")
    finally:
        lake.sql(f"DROP TABLE {name}")
