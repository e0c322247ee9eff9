"""Ask another implementation: run a script in the environment of the oracles.

A script in ``scripts/`` reads one JSON document from standard input and writes one to standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_SECONDS = 120


def ask(script: str, question: object = None, *, timeout: float = TIMEOUT_SECONDS) -> Any:
    """Return the answer of ``scripts/<script>.py`` to a question; the test fails if there is none."""
    python = os.environ.get("LAKEPLANE_ORACLES", "")
    if not python or not Path(python).is_file():
        pytest.fail(f"LAKEPLANE_ORACLES is {python!r}, not a program: run `make test`", pytrace=False)
    command = [python, "-E", "-s", str(SCRIPTS / f"{script}.py")]
    try:
        done = subprocess.run(
            command, input=json.dumps(question), capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as slow:
        pytest.fail(f"{script} gave no answer in {slow.timeout} s; it said: {slow.stderr!r}", pytrace=False)
    if done.returncode != 0:
        pytest.fail(f"{script} failed with status {done.returncode}:\n{done.stderr}", pytrace=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.fail(f"{script} answered no JSON:\n{done.stdout}\n{done.stderr}", pytrace=False)
