"""How long a fresh interpreter needs for ``import lakeplane``, besides its own start."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 15


def main() -> None:
    """Print the median of some runs."""
    bare, ours = median_seconds("pass"), median_seconds("import lakeplane")
    print(f"import lakeplane: {1000 * (ours - bare):.0f} ms on top of the interpreter's {1000 * bare:.0f} ms")


def median_seconds(statement: str) -> float:
    """Time a statement in fresh interpreters; the first run only warms the file cache."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
