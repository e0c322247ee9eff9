"""A program: tables in a bucket of a server that speaks S3's protocol, through Spark's own client for it.

A Spark needs that client from its start, and some tasks must fail at first: this needs a process of its own.
Credentials are where they run: in the environment, for Spark, its workers and this process alike.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lakeplane as lp
from lakeplane.model.location import parse_location
from lakeplane.storage.open import open_store
from lakeplane.storage.store import Store
from tests.spark.flaky_write import fails_at_first
from tests.spark.programs import answer


def main(url: str, jars: str, bucket: str) -> None:
    """Write in all ways, read, overwrite, with tasks that fail once; then tell what is there."""
    session = session_with(url, jars)
    options: dict[str, Any] = {
        "s3.endpoint": url,
        "s3.region": "eu-central-1",
        "s3.path-style-access": "true",
    }
    lake = lp.connect(f"s3://{bucket}/lake", spark=session, **options)
    lake.create_namespace("n")
    store = open_store(parse_location(f"s3://{bucket}/lake"), options)
    # Without a shuffle in between, the failing tasks are those that write.
    flaky = session.range(0, 1000, 1, 3).mapInArrow(fails_at_first, "id BIGINT")
    answers: dict[str, Any] = {}
    for name, (columns, *more) in TABLES.items():
        table = lake.create_table(
            f"n.{name}", f"id BIGINT{columns}", partition_by=["bucket(2, id)"], properties=LAYOUTS[name]
        )
        rows = flaky.selectExpr("id", *more)
        table.append(rows)
        answers[name] = what_is_there(table, store)
        table.append(rows)
        answers[f"{name}, more"] = what_is_there(table, store)
        table.overwrite(rows.where("id < 100"))
        answers[f"{name}, overwritten"] = what_is_there(table, store)
        answers[f"{name}, filtered"] = table.read(where="id BETWEEN 10 AND 19").count()
    session.stop()
    answer(answers)


TABLES = {
    "native": ("",),
    "hashed": ("",),
    "lists": (", l ARRAY<BIGINT>, m MAP<STRING, BIGINT>", "array(id) AS l", "map('k', id) AS m"),
    "uuids": (", u UUID", "uuid() AS u"),
}
"""What Spark's own writer can write, what it leaves ids out of, and what it cannot write."""
_PLAIN = {"write.distribution-mode": "none"}
LAYOUTS = dict.fromkeys(TABLES, _PLAIN) | {"hashed": {**_PLAIN, "write.object-storage.enabled": "true"}}


def what_is_there(table: lp.Table, store: Store) -> dict[str, Any]:
    """The rows of a table, and the files of its folder beside those that it has told of."""
    rows = [row[0] for row in table.read(["id"]).collect()]
    data = f"{table.location}/data/"
    found = {each.location.text for each in store.files(parse_location(data.rstrip("/")))}
    told = set(table.inspect("all_data_files")["file_path"].to_pylist())
    return {
        "rows": len(rows),
        "distinct": len(set(rows)),
        "unknown": sorted(found - told),
        "lost": sorted(told - found),
        "metadata": table.metadata_location,
    }


def session_with(url: str, jars: str) -> SparkSession:
    """A session that finds S3 at an address."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, Path(jars).iterdir())),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    main(*sys.argv[1:])
