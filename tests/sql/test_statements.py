"""What statements are taken for, and how others are refused: by the word that was not expected."""

from __future__ import annotations

import pytest

from lakeplane.errors import InvalidInput, LakeplaneError
from lakeplane.model.ddl_words import reading
from lakeplane.sql import alter, call, create, describe, insert, namespaces, refs, rows, show, views
from lakeplane.sql.columns import NewColumn, Place
from lakeplane.sql.front import STATEMENTS, parse
from lakeplane.sql.statement import Statement
from lakeplane.sql.words import Words

DAY, HOUR = 86_400_000, 3_600_000


def read(text: str) -> Statement | None:
    with reading("SQL"):
        return parse(Words(text))


def altered(action: alter.Action) -> alter.AlterTable:
    return alter.AlterTable(("a", "t"), action)


ALTERED: dict[str, alter.Action] = {
    "ADD COLUMN x INT": alter.AddColumns((NewColumn(("x",), "INT"),)),
    "ADD COLUMNS (p.x INT NOT NULL COMMENT 'a, b' FIRST, y MAP<STRING, ARRAY<INT>> DEFAULT NULL AFTER `a b`)": (
        alter.AddColumns(
            (
                NewColumn(("p", "x"), "INT NOT NULL COMMENT 'a, b'", Place()),
                NewColumn(("y",), "MAP<STRING, ARRAY<INT>> DEFAULT NULL", Place("a b")),
            )
        )
    ),
    "ADD COLUMN d DECIMAL(10, 2) DEFAULT -1.50": alter.AddColumns(
        (NewColumn(("d",), "DECIMAL(10, 2) DEFAULT -1.50"),)
    ),
    "DROP COLUMN a.b": alter.DropColumns((("a", "b"),), if_exists=False),
    "DROP COLUMNS IF EXISTS (a, `b.c`)": alter.DropColumns((("a",), ("b.c",)), if_exists=True),
    "RENAME COLUMN a.b TO `c d`": alter.RenameColumn(("a", "b"), "c d"),
    "RENAME TO b.u": alter.RenameTo(("b", "u")),
    "ALTER COLUMN a TYPE DECIMAL(12, 2)": alter.AlterColumns(
        (alter.AlterColumn(("a",), type="DECIMAL(12, 2)"),)
    ),
    "ALTER COLUMN a.element COMMENT 'it''s' AFTER b": alter.AlterColumns(
        (alter.AlterColumn(("a", "element"), comment="it's", place=Place("b")),)
    ),
    "ALTER COLUMN a SET NOT NULL, b DROP NOT NULL, c FIRST": alter.AlterColumns(
        (
            alter.AlterColumn(("a",), required=True),
            alter.AlterColumn(("b",), required=False),
            alter.AlterColumn(("c",), place=Place()),
        )
    ),
    "ALTER COLUMN a SET DEFAULT (1 , 2)": alter.AlterColumns((alter.AlterColumn(("a",), default="(1 , 2)"),)),
    "ALTER COLUMN a DROP DEFAULT": alter.AlterColumns((alter.AlterColumn(("a",), default="NULL"),)),
    "ADD PARTITION FIELD bucket(16, id) AS shard": alter.AddField("bucket(16, id)", "shard"),
    "ADD PARTITION FIELD region": alter.AddField("region", None),
    "DROP PARTITION FIELD days(at)": alter.DropField("days(at)"),
    "REPLACE PARTITION FIELD at_day WITH hours(at) AS h": alter.ReplaceField("at_day", "hours(at)", "h"),
    "WRITE ORDERED BY a DESC NULLS FIRST, bucket(4, b)": alter.WriteOrder(
        ("a DESC NULLS FIRST", "bucket(4, b)"), "range"
    ),
    "WRITE LOCALLY ORDERED BY a": alter.WriteOrder(("a",), "none"),
    "WRITE DISTRIBUTED BY PARTITION": alter.WriteOrder(None, "hash"),
    "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY a": alter.WriteOrder(("a",), "hash"),
    "WRITE LOCALLY ORDERED BY a, b DISTRIBUTED BY PARTITION": alter.WriteOrder(("a", "b"), "hash"),
    "WRITE UNORDERED": alter.WriteOrder((), "none"),
    "SET IDENTIFIER FIELDS a, b.c": alter.Identifiers((("a",), ("b", "c")), is_drop=False),
    "DROP IDENTIFIER FIELDS a": alter.Identifiers((("a",),), is_drop=True),
    "SET TBLPROPERTIES ('a;b' = 'c''d', x.y = 3, z=true, n = -1)": alter.Properties(
        {"a;b": "c'd", "x.y": "3", "z": "true", "n": "-1"}
    ),
    "UNSET TBLPROPERTIES IF EXISTS ('a', b.c)": alter.NoProperties(("a", "b.c"), if_exists=True),
    "SET LOCATION 's3://x/y'": alter.SetLocation("s3://x/y"),
    "CREATE BRANCH IF NOT EXISTS `b-1` AS OF VERSION 12 RETAIN 7 DAYS "
    "WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 HOURS": refs.RefChange(
        "branch",
        "b-1",
        "create",
        if_not_exists=True,
        at=12,
        retention=(
            ("max_ref_age_ms", 7 * DAY),
            ("min_snapshots_to_keep", 2),
            ("max_snapshot_age_ms", 3 * HOUR),
        ),
    ),
    "CREATE OR REPLACE BRANCH b WITH SNAPSHOT RETENTION 3 DAYS": refs.RefChange(
        "branch", "b", "create or replace", retention=(("max_snapshot_age_ms", 3 * DAY),)
    ),
    "REPLACE BRANCH b WITH SNAPSHOT RETENTION 5 SNAPSHOTS": refs.RefChange(
        "branch", "b", "replace", retention=(("min_snapshots_to_keep", 5),)
    ),
    "CREATE TAG eoy AS OF VERSION 9223372036854775807 RETAIN 1 HOUR": refs.RefChange(
        "tag", "eoy", "create", at=2**63 - 1, retention=(("max_ref_age_ms", HOUR),)
    ),
    "DROP TAG IF EXISTS eoy": refs.RefChange("tag", "eoy", "drop", if_exists=True),
    "DROP BRANCH b": refs.RefChange("branch", "b", "drop"),
}


@pytest.mark.parametrize(("text", "action"), ALTERED.items(), ids=ALTERED)
def test_alter_table(text: str, action: alter.Action) -> None:
    assert read(f"alter TABLE a.t {text} -- to the end") == altered(action)
    assert read(f"ALTER /* in */ TABLE a . t {text};") == altered(action)


OTHERS: dict[str, object] = {
    "CREATE TABLE IF NOT EXISTS a.t (id BIGINT NOT NULL DEFAULT 3, b STRUCT<c: INT>) USING Iceberg "
    "PARTITIONED BY (days(at), bucket(16, id)) COMMENT 'x' TBLPROPERTIES ('k'='v') LOCATION '/x'": (
        create.CreateTable(
            ("a", "t"),
            "id BIGINT NOT NULL DEFAULT 3, b STRUCT<c: INT>",
            "Iceberg",
            ("days(at)", "bucket(16, id)"),
            {"comment": "x", "k": "v"},
            "/x",
            None,
            if_not_exists=True,
        )
    ),
    "REPLACE TABLE a.t (id INT)": create.CreateTable(
        ("a", "t"), "id INT", None, (), {}, None, None, replace=True, must_exist=True
    ),
    "CREATE OR REPLACE TABLE a.t AS SELECT 1": create.CreateTable(
        ("a", "t"), None, None, (), {}, None, (8, 10), replace=True
    ),
    "DROP TABLE IF EXISTS a.t PURGE": create.DropTable(("a", "t"), if_exists=True, purge=True),
    "TRUNCATE TABLE a.t": create.Truncate(("a", "t")),
    "INSERT INTO TABLE a.t (x, `y z`) VALUES (1, 2)": insert.Insert(
        ("a", "t"), (11, 17), columns=("x", "y z")
    ),
    "INSERT INTO a.t BY NAME SELECT 1 AS x": insert.Insert(("a", "t"), (7, 11), by_name=True),
    "INSERT INTO a.t (SELECT 1)": insert.Insert(("a", "t"), (5, 9)),
    "INSERT INTO a.t REPLACE WHERE x > 1 SELECT 1": insert.Insert(
        ("a", "t"), (10, 12), replace_where=(7, 10)
    ),
    "INSERT OVERWRITE a.t PARTITION (p = 'x', q) TABLE s": insert.Insert(
        ("a", "t"), (13, 15), overwrite=True, partition=(("p", "'x'"), ("q", None))
    ),
    "DELETE FROM a.t": rows.Delete(("a", "t"), None, None),
    "DELETE FROM a.t AS x WHERE x.a = 1": rows.Delete(("a", "t"), "x", (8, 13)),
    "UPDATE a.t x SET x.a.b = CASE WHEN c THEN 1 ELSE 2 END, d = DEFAULT WHERE e": rows.Update(
        ("a", "t"), "x", ((("x", "a", "b"), (12, 20)), (("d",), (23, 24))), (25, 26)
    ),
    "CREATE NAMESPACE a.b COMMENT 'c' WITH DBPROPERTIES ('k'='v')": namespaces.CreateNamespace(
        ("a", "b"), {"comment": "c", "k": "v"}, if_not_exists=False
    ),
    "CREATE DATABASE IF NOT EXISTS a": namespaces.CreateNamespace(("a",), {}, if_not_exists=True),
    "ALTER SCHEMA a SET PROPERTIES ('k'='v')": namespaces.AlterNamespace(("a",), {"k": "v"}, ()),
    "ALTER DATABASE a UNSET DBPROPERTIES ('k')": namespaces.AlterNamespace(("a",), {}, ("k",)),
    "DROP NAMESPACE IF EXISTS a CASCADE": namespaces.DropNamespace(("a",), if_exists=True, cascade=True),
    "DESCRIBE NAMESPACE EXTENDED a": namespaces.DescribeNamespace(("a",), extended=True),
    "USE NAMESPACE a": namespaces.Use(("a",)),
    "USE lake.a": namespaces.Use(("lake", "a")),
    "SHOW DATABASES LIKE 'a*'": show.ShowNames("namespace", None, "a*"),
    "SHOW TABLES FROM a 'x|y'": show.ShowNames("table", ("a",), "x|y"),
    "SHOW VIEWS IN a": show.ShowNames("view", ("a",), None),
    "SHOW COLUMNS IN t FROM a": show.ShowTable("columns", ("a", "t")),
    "SHOW TBLPROPERTIES a.t ('k')": show.ShowTable("properties", ("a", "t"), "k"),
    "SHOW CREATE TABLE a.t": show.ShowTable("create", ("a", "t")),
    "SHOW PARTITIONS a.t": show.ShowTable("partitions", ("a", "t")),
    "DESC FORMATTED a.t": describe.Describe(("a", "t"), extended=True, column=None),
    "DESCRIBE TABLE a.t b.c": describe.Describe(("a", "t"), extended=False, column=("b", "c")),
    "CREATE OR REPLACE VIEW a.v (x COMMENT 'c', y) COMMENT 'd' TBLPROPERTIES (k='v') AS SELECT 1, 2": (
        views.CreateView(
            ("a", "v"),
            (23, 27),
            (views.ShownColumn("x", "c"), views.ShownColumn("y")),
            (("comment", "d"), ("k", "v")),
            replace=True,
        )
    ),
    "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1": views.TemporaryView(
        ("v",), (6, 8), (), replace=False, is_global=True
    ),
    "ALTER VIEW a.v RENAME TO a.w": views.AlterView(("a", "v"), rename=("a", "w")),
    "ALTER VIEW a.v AS SELECT 1": views.AlterView(("a", "v"), query=(6, 8)),
    "DROP VIEW IF EXISTS a.v": views.DropView(("a", "v"), if_exists=True),
    "CALL lake.system.p('x', 1)": call.Call(
        ("lake", "system", "p"), (call.Argument(None, (7, 8)), call.Argument(None, (9, 10)))
    ),
    "CALL system.p(a => map('k', 1), b => -2)": call.Call(
        ("system", "p"), (call.Argument("a", (7, 13)), call.Argument("b", (16, 18)))
    ),
}


@pytest.mark.parametrize(("text", "expected"), OTHERS.items(), ids=OTHERS)
def test_statements(text: str, expected: object) -> None:
    assert read(text) == expected
    assert read(f"/* first */ {text} ;") == expected


def test_merge() -> None:
    text = (
        "MERGE WITH SCHEMA EVOLUTION INTO a.t AS t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN MATCHED AND CASE WHEN s.x THEN true ELSE false END THEN UPDATE SET * "
        "WHEN MATCHED THEN UPDATE SET t.x = s.x + 1, y = CASE WHEN true THEN 1 END "
        "WHEN NOT MATCHED BY TARGET AND s.x > 1 THEN INSERT (id, x) VALUES (s.id, DEFAULT) "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.x = 1 THEN UPDATE SET x = 0 "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    found = read(text)
    assert isinstance(found, rows.Merge)
    assert (found.name, found.alias, found.source, found.source_alias, found.evolves) == (
        ("a", "t"),
        "t",
        "(SELECT 1 AS id) s",
        "s",
        True,
    )
    told = [
        (
            each.when,
            each.does,
            each.condition is not None,
            None if each.values is None else [path for path, _ in each.values],
        )
        for each in found.clauses
    ]
    assert told == [
        ("matched", "update", True, None),
        ("matched", "update", False, [("t", "x"), ("y",)]),
        ("not matched", "insert", True, [("id",), ("x",)]),
        ("not matched", "insert", False, None),
        ("not matched by source", "update", True, [("x",)]),
        ("not matched by source", "delete", False, []),
    ]


REFUSED = {
    "ALTER TABLE a.t FROBNICATE": ["'FROBNICATE' is not expected", "ADD COLUMNS", "WRITE"],
    "ALTER TABLE a.t ADD COLUMN x": ["expected a type"],
    "ALTER TABLE a.t ADD COLUMN x INT BEFORE y": ["expected NOT NULL, COMMENT", "near 'BEFORE y'"],
    "ALTER TABLE a.t ALTER COLUMN x": ["Supported: TYPE type"],
    "ALTER TABLE a.t ALTER COLUMN x INT": ["'INT' is not expected", "TYPE type"],
    "ALTER TABLE a.t WRITE SORTED BY x": ["'SORTED' is not expected", "ORDERED BY"],
    "ALTER TABLE a.t CREATE BRANCH b RETAIN 3 WEEKS": ["'WEEKS' is not expected", "DAYS, HOURS, MINUTES"],
    "ALTER TABLE a.t CREATE TAG b WITH SNAPSHOT RETENTION 3 DAYS": [
        "'WITH' is not expected",
        "RETAIN n DAYS",
    ],
    "ALTER TABLE a.t SET TBLPROPERTIES (a-b = 1)": ["between single quotes"],
    "ALTER TABLE a.t SET TBLPROPERTIES ('a' = b)": ["expected a value"],
    "ALTER TABLE a.t RENAME COLUMN x y": ["expected TO and the new name", "near 'y'"],
    "ALTER TABLE a.t DROP PARTITION FIELD": ["expected something at the end"],
    "ALTER TABLE": ["expected the name of a table at the end"],
    "CREATE TABLE a.t (id INT) SORTED BY (id)": ["'SORTED' is not expected", "PARTITIONED BY"],
    "CREATE TABLE a.t (id INT) COMMENT 'a' COMMENT 'b'": ["a second COMMENT"],
    "CREATE TABLE a.t AS 3": ["expected a query"],
    "DROP TABLE a.t CASCADE": ["expected the end of the statement", "PURGE"],
    "TRUNCATE TABLE a.t PARTITION (x = 1)": ["DELETE FROM"],
    "INSERT INTO a.t": ["expected a query or VALUES"],
    "INSERT OVERWRITE a.t IF NOT EXISTS SELECT 1": ["IF NOT EXISTS is not supported"],
    "DELETE FROM a.t WHERE": ["expected an expression at the end"],
    "DELETE FROM a.t t u": ["expected the end"],
    "UPDATE a.t SET x": ["expected '='"],
    "UPDATE a.t x = 1": ["expected SET"],
    "MERGE INTO a.t USING s ON t.id = s.id": ["expected WHEN MATCHED or WHEN NOT MATCHED"],
    "MERGE INTO a.t USING s ON x WHEN MATCHED THEN INSERT *": ["'INSERT' is not expected", "UPDATE SET *"],
    "MERGE INTO a.t USING s ON x WHEN NOT MATCHED THEN DELETE": ["'DELETE' is not expected", "INSERT *"],
    "MERGE INTO a.t USING s ON x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)": ["2 columns and 1 values"],
    "CREATE VIEW a.v USING x AS SELECT 1": ["'USING' is not expected", "TBLPROPERTIES"],
    "ALTER VIEW a.v ADD COLUMN x INT": ["'ADD' is not expected", "RENAME TO"],
    "CREATE NAMESPACE a OWNER x": ["'OWNER' is not expected", "LOCATION"],
    "SHOW TABLES IN a LIKE b": ["expected a pattern", "near 'b'"],
    "SHOW PARTITIONS a.t PARTITION (x = 1)": ["Filter the metadata table name.partitions"],
    "CALL p": ["expected '('"],
    "CALL system.p(a => 1, 2)": ["a value without a name"],
    "CALL system.p(a => )": ["expected a value"],
    "CALL system.p(,)": ["expected something"],
    "SELECT 'x": ["a quote is never closed"],
    "SELECT (1": ["'(' is never closed"],
    "SELECT 1; DROP TABLE a.t": ["unexpected character", "near '; DROP TABLE a.t'"],
}


@pytest.mark.parametrize(("text", "parts"), REFUSED.items(), ids=REFUSED)
def test_refused(text: str, parts: list[str]) -> None:
    with pytest.raises(LakeplaneError) as refused:
        read(text)
    assert isinstance(refused.value, InvalidInput)
    message = str(refused.value)
    assert message.startswith("SQL: ")
    assert [part for part in parts if part not in message] == []


def test_queries_are_nobodys_statements() -> None:
    for text in ("SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1)", "VALUES (1)", "TABLE a.t"):
        assert read(text) is None, text


def test_the_longest_beginning_counts() -> None:
    assert isinstance(read("CREATE OR REPLACE TEMP VIEW v AS SELECT 1"), views.TemporaryView)
    assert isinstance(read("DESCRIBE DATABASE a"), namespaces.DescribeNamespace)
    assert read("DESCRIBE SELECT 1") is None
    assert isinstance(read("DESCRIBE selected"), describe.Describe)
    assert len(STATEMENTS) > 30
