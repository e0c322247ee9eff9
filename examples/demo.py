"""The life of a table: made, filled, evolved, travelled through, and corrected, by Spark as it comes.

``python examples/demo.py [warehouse]``: without a directory, the warehouse is thrown away at the end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

import lakeplane as lp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 200_000
DAY_MICROS = 86_400_000_000
FIRST_DAY = 1_767_225_600_000_000  # 2026-01-01 UTC


def tell(title: str, why: str) -> None:
    """Head a chapter."""
    print(f"\n== {title}\n   {why}", flush=True)


def show(frame: DataFrame, rows: int = 5) -> None:
    """Print a few rows."""
    for row in frame.limit(rows).collect():
        print("  ", ", ".join(f"{name}={value}" for name, value in row.asDict().items()))


def start() -> SparkSession:
    """Start a Spark of this machine, with nothing installed in it."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = (
        builder.config("spark.driver.memory", "1g")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def sales(spark: SparkSession, days: int) -> DataFrame:
    """Make up some sales."""
    return spark.range(ROWS).selectExpr(
        "id",
        f"timestamp_micros({FIRST_DAY} + id * {days * DAY_MICROS // ROWS}) AS at",
        "CAST(id % 9973 / 100 AS DECIMAL(10, 2)) AS amount",
        "element_at(array('EU', 'US', 'JP'), CAST(id % 3 AS INT) + 1) AS region",
    )


def fill(lake: lp.Lake, spark: SparkSession) -> lp.Table:
    """Make a partitioned table, and append to it twice."""
    tell("A table is made and filled", "Spark writes plain Parquet files; one atomic commit makes them rows.")
    lake.create_namespace("shop")
    orders = lake.create_table(
        "shop.orders",
        "id BIGINT NOT NULL, at TIMESTAMP, amount DECIMAL(10, 2), region STRING",
        partition_by=["days(at)", "region"],
        properties={"format-version": "3"},
    )
    done = orders.append(sales(spark, days=10))
    print(f"   {done}: {done.added_rows:,} rows in {done.added_files} files")
    moment = orders.read(["at"], where="id = 7").first()
    assert moment is not None
    few = pa.table(
        {"id": [900_001], "at": pa.array([moment["at"]], pa.timestamp("us", "UTC")), "region": ["EU"]}
    )
    done = orders.append(few)
    print(f"   {done}: {done.added_rows} row of an Arrow table, without a Spark job")
    return orders


def prune(orders: lp.Table) -> None:
    """Show which files a read looks at, and that Spark scans plain files."""
    tell("A predicate prunes files", "The planner reads no rows; Spark sees an ordinary file scan.")
    where = "at >= '2026-01-03' AND at < '2026-01-05' AND region = 'EU' AND amount > 99"
    print(f"   {str(orders.explain(where)).replace(chr(10), chr(10) + '   ')}")
    frame = orders.read(where=where)
    plan = str(frame._jdf.queryExecution().executedPlan())  # noqa: SLF001 - to show it
    print("   Spark:", next(line.strip() for line in plan.splitlines() if "FileScan" in line)[:100])
    show(frame.orderBy("id"))


def evolve(orders: lp.Table) -> None:
    """Change columns and partitions, and read old rows with them."""
    tell(
        "It is evolved",
        "Nothing is rewritten: ids make renames free, and a default fills the rows there are.",
    )
    with orders.evolve() as change:
        change.rename_column("amount", "total")
        change.add_column("currency", "STRING", required=True, default="EUR")
        change.add_partition_field("bucket(4, id)")
    show(orders.read(where="id < 3").orderBy("id"))
    try:
        with orders.evolve() as change:
            change.drop_column("at")
    except lp.InvalidChange as refused:
        print(f"   refused: {refused}")


def travel(orders: lp.Table) -> None:
    """Look back."""
    tell("Time travel", "By snapshot, branch, tag or time, with the columns of then.")
    first = orders.snapshots[0]
    orders.create_tag("opening", first.snapshot_id)
    print(f"   now {orders.read().count():,} rows; at tag 'opening' {orders.read(at='opening').count():,}")


def change(lake: lp.Lake, orders: lp.Table) -> None:
    """Change single rows, and tell what happened to them."""
    tell("Rows are changed", "Files stay: bits say which of their rows are gone. Rows keep their identity.")
    before = orders.metadata.current_snapshot_id
    assert before is not None
    updates = pa.table({"id": [1, 2, 900_002], "currency": ["USD", "USD", "CHF"]})
    merge = orders.merge(updates, on="t.id = s.id", mode="merge-on-read")
    done = merge.when_matched_update({"currency": "s.currency"}).when_not_matched_insert().execute()
    print(f"   {done}: {done.added_rows} rows written")
    lake.sql("DELETE FROM shop.orders WHERE id = 3")
    changes = orders.refresh().changes(before).drop("at", "_commit_snapshot_id")
    show(changes.orderBy("_change_ordinal", "id", "_change_type"), rows=7)


def correct(lake: lp.Lake, orders: lp.Table, spark: SparkSession) -> None:
    """Replace a partition, audited on a branch; and lose a race without losing a row."""
    tell("A day is corrected on a branch", "Nobody sees it before it is published.")
    fixed = (
        sales(spark, days=10)
        .where("at < '2026-01-02' AND region = 'EU'")
        .withColumnRenamed("amount", "total")
    )
    done = orders.overwrite(fixed, "at < '2026-01-02' AND region = 'EU'", branch="audit")
    print(f"   {done}: {done.removed_rows:,} rows out, {done.added_rows:,} in")
    stale = lake.table("shop.orders")
    orders.fast_forward("main", "audit")
    tell("Somebody else was faster", "A change that fits no more is an error, never a lost commit.")
    try:
        stale.overwrite(fixed, "at < '2026-01-02' AND region = 'EU'")
    except lp.CommitConflict as refused:
        print(f"   refused: {refused}")
    kinds = orders.inspect("snapshots").select(["operation"]).to_pydict()["operation"]
    print(f"   history: {', '.join(kinds)}")


def main(*arguments: str) -> None:
    """Tell the story."""
    spark = start()
    with tempfile.TemporaryDirectory(prefix="lakeplane-demo-") as folder:
        place = Path(*arguments) if arguments else Path(folder, "warehouse")
        lake = lp.connect(place, spark=spark)
        orders = fill(lake, spark)
        prune(orders)
        evolve(orders)
        travel(orders)
        change(lake, orders)
        correct(lake, orders, spark)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
