"""A program: write tables in a cluster of two executors, where workers and executors die and tasks run twice.

It tells what is in the tables then. Faults strike the first attempt of a task, when it has given all rows.
Spark runs no copy of a task on the same host, so that the two machines of the cluster have two names.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession

import lakeplane as lp
from tests.spark.programs import answer

if TYPE_CHECKING:
    import pyarrow as pa

Task = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

ROWS, TASKS = 2000, 4
COLUMNS = {"native": (), "arrow": ("uuid() AS u",)}
TYPES = {"native": "id BIGINT", "arrow": "id BIGINT, u UUID"}


def striking(faults: dict[int, Callable[[], None]], marks: str) -> Task:
    """Give the rows, and then meet the fault of a task; ``marks`` is a folder that keeps what happened."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        task = context.partitionId()
        if context.attemptNumber() > 0:
            Path(marks, f"{task} again").touch()
        elif task in faults:
            Path(marks, f"{task} struck").touch()
            faults[task]()

    return run


def worker_dies() -> None:
    os._exit(7)


def executor_dies() -> None:
    """Kill the executor: the parent of the daemon that is the parent of this worker."""
    status = Path(f"/proc/{os.getppid()}/status").read_text(encoding="ascii")
    parent = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
    os.kill(int(parent), signal.SIGKILL)
    time.sleep(60)


def task_is_slow() -> None:
    """Wait for long enough that a copy of this task is started and ends before it."""
    time.sleep(30)


FAULTS = {"deaths": {1: worker_dies, 2: executor_dies}, "copies": {1: task_is_slow}}


def main(folder: str) -> None:
    """Write in all ways under all faults."""
    with running_cluster(Path(folder)) as master:
        session = session_of(master, folder)
        answer(answers_of(session, Path(folder)))
        session.stop()


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """The address of a cluster of two machines, which are both this one."""
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    worker = ("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
    parts = [
        ("master.Master", "--host", "127.0.0.1", "--port", str(port)),
        (*worker, "--host", "127.0.0.1", master),
        (*worker, "--host", "localhost", master),
    ]
    # The shell waits for the end of its input, which comes when this process ends, however it ends.
    script = '"$0" "$@" & part=$!; cat >/dev/null; kill -9 $part'
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m"}
    with ExitStack() as running:
        for name, *arguments in parts:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", script, str(launcher), f"org.apache.spark.deploy.{name}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            running.enter_context(shell)
            assert shell.stdin is not None
            running.callback(shell.stdin.close)
        yield master


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def session_of(master: str, folder: str) -> SparkSession:
    """A session with two executors."""
    settings = {
        "spark.cores.max": "2",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.speculation.quantile": "0.5",
        "spark.local.dir": f"{folder}/local",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def answers_of(session: SparkSession, folder: Path) -> dict[str, dict[str, object]]:
    """What is in the tables when each has been appended to under each set of faults."""
    lake = lp.connect(folder / "lake", spark=session)
    lake.create_namespace("n")
    answers: dict[str, dict[str, object]] = {}
    for fault, strikes in FAULTS.items():
        for way, columns in COLUMNS.items():
            name = f"{fault}, {way}"
            table = lake.create_table(
                f"n.{fault}_{way}",
                TYPES[way],
                partition_by=["bucket(2, id)"],
                properties={"write.distribution-mode": "none"},
            )
            marks = folder / name
            marks.mkdir()
            rows = session.range(0, ROWS, 1, TASKS).mapInArrow(striking(strikes, str(marks)), "id BIGINT")
            table.append(rows.selectExpr("id", *columns))
            answers[name] = {"marks": sorted(each.name for each in marks.iterdir()), **found_in(table)}
    return answers


def found_in(table: lp.Table) -> dict[str, object]:
    """How many rows are read, and which files are there that nobody knows of."""
    ids = [row[0] for row in table.read(["id"]).collect()]
    told = set(table.inspect("files")["file_path"].to_pylist())
    there = {str(path) for path in Path(table.location, "data").rglob("*") if path.is_file()}
    return {
        "rows": len(ids),
        "sum": sum(set(ids)),
        "lost": sorted(told - there),
        "unknown": sorted(path.removeprefix(table.location) for path in there - told),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
