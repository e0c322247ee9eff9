"""Programs with a Spark of their own: what a session can be told only when it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

ANSWER = "ANSWER "


def answer_of(program: str, *arguments: object, seconds: float = 240) -> Any:
    """What a program in this folder answers."""
    command = [sys.executable, "-m", f"tests.spark.{program}", *map(str, arguments)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith(ANSWER)), None)
    assert line is not None, done.stderr[-3000:]
    return json.loads(line.removeprefix(ANSWER))


def answer(found: Any) -> None:
    """Give the answer of a program."""
    sys.stdout.write(f"\n{ANSWER}{json.dumps(found)}\n")
    sys.stdout.flush()
