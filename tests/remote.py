"""Programs with a session of Spark Connect: a process has one sort of session, so these have their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]


def found_by(program: str, *arguments: str, seconds: float = 300) -> Any:
    """What a program, a module of the tests, has found through Spark Connect."""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.{program}", *arguments]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout[done.stdout.index('{"connect"') :])
    assert found["connect"]
    return found


def remote_session(folder: Path) -> SparkSession:
    """A session of Spark Connect, with a server of this process that works in a folder."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only the program itself needs it

    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tell(found: dict[str, Any]) -> NoReturn:
    """Print what a program has found, and end it."""
    json.dump(found, sys.stdout, default=str)
    sys.stdout.flush()
    # The server of this process is not waited for.
    os._exit(0)
