"""Programs with a Spark of their own: what a session can be told only when it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANSWER = "ANSWER "


def _command(program: str, arguments: Sequence[object]) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", f"tests.spark.{program}", *map(str, arguments)],
        "env": {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        "text": True,
    }


def answer_of(program: str, *arguments: object, seconds: float = 240) -> Any:
    """What a program in this folder answers."""
    done = subprocess.run(**_command(program, arguments), capture_output=True, timeout=seconds, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith(ANSWER)), None)
    assert line is not None, done.stderr[-3000:]
    return json.loads(line.removeprefix(ANSWER))


def kill_when_there(mark: Path, program: str, *arguments: object, seconds: float = 120) -> None:
    """Start a program in this folder, and kill it with all that it has started as soon as a file is there."""
    doomed = subprocess.Popen(
        **_command(program, arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with doomed:
        ends = time.monotonic() + seconds
        try:
            while not mark.exists():
                assert doomed.poll() is None, doomed.stderr and doomed.stderr.read()[-3000:]
                assert time.monotonic() < ends, "it did not come that far"
                time.sleep(0.05)
        finally:
            os.killpg(doomed.pid, signal.SIGKILL)


def answer(found: Any) -> None:
    """Give the answer of a program."""
    sys.stdout.write(f"\n{ANSWER}{json.dumps(found)}\n")
    sys.stdout.flush()
