"""DuckDB, on a table of its own: it changes no rows of Iceberg tables without a catalog server."""

from __future__ import annotations

import json
import sys

import duckdb

from bench.row_contest.rules import STATEMENTS, chosen, in_turn_from
from bench.spark_contest.arena import AGGREGATE, answer

scratch, rounds, shares = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
QUESTION = ", ".join(AGGREGATE["flat"])
STATEMENT = {
    "delete": "DELETE FROM flat WHERE {hit}",
    "update": "UPDATE flat SET amount = amount + 1 WHERE {hit}",
    "merge": "MERGE INTO flat t USING source s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET k = s.k, amount = s.amount, ratio = s.ratio, name = s.name, city = s.city, "
    "seen = s.seen, day = s.day WHEN NOT MATCHED THEN INSERT VALUES "
    "(s.id, s.k, s.amount, s.ratio, s.name, s.city, s.seen, s.day)",
}
connection = duckdb.connect(f"{scratch}/rows.duckdb", config={"threads": 2})
connection.execute(f"CREATE TABLE flat AS FROM read_parquet('{scratch}/source/flat/*.parquet')")
connection.execute("CHECKPOINT")


def measure(statement: str, share: int) -> dict[str, dict[str, float]]:
    """One cell: changed, read and rolled back."""
    source = f"{scratch}/merge_{share}/*.parquet"
    connection.execute(f"CREATE OR REPLACE VIEW source AS FROM read_parquet('{source}')")
    text = STATEMENT[statement].format(hit=chosen(share))

    def change() -> None:
        connection.execute("BEGIN")
        connection.execute(text)

    def read() -> None:
        connection.execute(f"SELECT {QUESTION} FROM flat").to_arrow_table()  # noqa: S608

    return in_turn_from(rounds, {"DuckDB": (change, read, lambda: connection.execute("ROLLBACK"))})


found: dict[str, dict[str, dict[str, float]]] = {}
for share in shares:
    for statement in STATEMENTS:
        cell = measure(statement, share)
        found |= {f"{statement} {mode} {share / 10:g}%": cell for mode in ("copy-on-write", "merge-on-read")}
answer(found)
