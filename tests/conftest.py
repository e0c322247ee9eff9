"""Settings and fixtures of the whole suite."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Replaces hypothesis's own "ci" profile, which would try the same examples on every run.
settings.register_profile("ci", derandomize=False, print_blob=True, deadline=None, max_examples=100)
settings.load_profile("ci")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"to repeat this run's examples: --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The public test resources of other implementations, see ``tools/fetch_vectors.py``."""
    folder = os.environ.get("LAKEPLANE_VECTORS", "")
    if not folder or not Path(folder).is_dir():
        pytest.fail(f"LAKEPLANE_VECTORS is {folder!r}, not a directory: run `make test`", pytrace=False)
    return Path(folder)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests that need one: starting it takes seconds."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - most tests need none

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": "2g",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
