"""A program: statements through Spark Connect, in a process without a classic session.

Its argument is a folder to work in. It prints what the statements have answered, as JSON.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lakeplane as lp
from lakeplane.spark.session import is_connect
from tests.remote import remote_session, tell

STATEMENTS = (
    "CREATE NAMESPACE shop",
    "USE shop",
    "CREATE TABLE orders (id BIGINT, region STRING, n INT) PARTITIONED BY (region)",
    "INSERT INTO orders SELECT id, IF(id % 2 = 0, 'EU', 'US'), CAST(id AS INT) FROM range(6)",
    "CREATE VIEW eu AS SELECT id, n FROM orders WHERE region = 'EU'",
    "DELETE FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id + 1 AND o.n = 4)",
    "UPDATE orders SET n = n * 10 WHERE id IN (SELECT id FROM eu)",
    "MERGE INTO orders t USING (SELECT id + 4 AS id FROM orders WHERE id > 0) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = -1 WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.id, 'EU')",
    "CREATE TEMPORARY VIEW kept AS SELECT * FROM orders",
    "CREATE OR REPLACE TABLE copy AS SELECT id FROM orders",
)
QUERIES = (
    "SELECT id, region, n FROM orders ORDER BY id",
    "SELECT o.id FROM shop.orders o JOIN eu ON o.id = eu.id JOIN kept k ON k.id = o.id WHERE o.region = 'EU' ORDER BY 1",
    "SELECT count(*) FROM orders.snapshots",
    "SELECT count(*) FROM kept",
    "SHOW TABLES",
    "SHOW CURRENT NAMESPACE",
    "DESCRIBE orders",
    "CALL system.ancestors_of('copy')",
    "SELECT '{x}' AS x",
)


def main(folder: Path) -> None:
    """Run the statements."""
    session = remote_session(folder)
    lake = lp.connect(folder / "lake", spark=session)
    found: dict[str, Any] = {"connect": is_connect(session)}
    empty = [lake.sql(text).columns for text in STATEMENTS]
    found["empty"] = [columns == [] or columns[0] == "snapshot_id" for columns in empty]
    frame = lake.sql("SELECT count(*) FROM orders WHERE id > 0")
    for text in QUERIES:
        found[text] = [list(row) for row in lake.sql(text).collect()]
    found["kept frame"] = [list(row) for row in frame.collect()]
    try:
        lake.sql("SELECT * FROM ordres").collect()
    except lp.NotFound as missing:
        found["missing"] = str(missing)
    lake.sql("DROP VIEW kept")
    found["views"] = [each.name for each in session.catalog.listTables()]
    tell(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
