"""Settings of sessions for the time of a write, with several writers in one session."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from lakeplane.spark.settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

import pytest

NAME = "spark.sql.parquet.outputTimestampType"


@pytest.fixture(autouse=True)
def _as_it_was(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(NAME)
    spark.conf.set(NAME, "INT96")
    yield
    spark.conf.set(NAME, str(before))


def test_the_first_of_two_writers_takes_no_settings_from_the_second(spark: SparkSession) -> None:
    """A thread that was done gave the session its INT96 back, and another one wrote its files with it."""
    same = SparkSession.getActiveSession()
    assert same is not None
    first, second = ExitStack(), ExitStack()
    first.enter_context(settings(spark, {NAME: "TIMESTAMP_MICROS"}))
    second.enter_context(settings(same, {NAME: "TIMESTAMP_MICROS"}))
    first.close()
    assert spark.conf.get(NAME) == "TIMESTAMP_MICROS"
    second.close()
    assert spark.conf.get(NAME) == "INT96"


def test_who_needs_another_setting_waits(spark: SparkSession) -> None:
    seen: list[str | None] = []

    def other() -> None:
        with settings(spark, {NAME: "TIMESTAMP_MILLIS"}):
            seen.append(spark.conf.get(NAME))

    with settings(spark, {NAME: "TIMESTAMP_MICROS"}):
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert spark.conf.get(NAME) == "TIMESTAMP_MICROS"
    waiting.join(30)
    assert seen == ["TIMESTAMP_MILLIS"]
    assert spark.conf.get(NAME) == "INT96"


def test_a_setting_that_spark_refuses_leaves_the_others_as_they_were(spark: SparkSession) -> None:
    with (
        pytest.raises(Exception, match="broadcastTimeout"),
        settings(spark, {NAME: "TIMESTAMP_MICROS", "spark.sql.broadcastTimeout": "soon"}),
    ):
        pass
    assert spark.conf.get(NAME) == "INT96"


def test_what_was_not_set_is_not_set_afterwards(spark: SparkSession) -> None:
    with settings(spark, {"lakeplane.test": "x"}):
        assert spark.conf.get("lakeplane.test") == "x"
    assert spark.conf.get("lakeplane.test", None) is None
