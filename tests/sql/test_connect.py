"""SQL through Spark Connect. A process has one sort of session, so these have their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_statements_through_connect(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.sql.connect_sql", str(tmp_path)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=400, check=False, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout[done.stdout.index('{"connect"') :])
    assert found.pop("connect")
    assert all(found.pop("empty"))
    assert "Did you mean orders" in found.pop("missing")
    [[ancestor, _]] = found.pop("CALL system.ancestors_of('copy')")
    assert ancestor > 0
    rows = [[0, "EU", 0], [1, "US", 1], [2, "EU", 20], [3, "US", 3], [5, "US", -1], [6, "EU", None]]
    rows += [[7, "EU", None], [9, "EU", None]]
    assert list(found.values()) == [
        rows,
        [[0], [2], [6], [7], [9]],
        [[4]],
        [[8]],
        [["shop", "copy", False], ["shop", "orders", False]],
        [["lake", "shop"]],
        [
            *(["id", "bigint", None], ["region", "string", None], ["n", "int", None]),
            *(["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]),
            ["region", "string", None],
        ],
        [["{x}"]],
        [[7]],
        [],
    ]
