"""What all contestants do: which rows are changed, how, and how often it is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.spark_contest.arena import timed

OF = 1000
"""A share is told in thousandths: rows are changed whose id, modulo this, is less than it. So they are
scattered over all files."""

STATEMENTS = ("delete", "update", "merge")
MODES = ("copy-on-write", "merge-on-read")

COLUMNS = ("id", "k", "amount", "ratio", "name", "city", "seen", "day")


def chosen(share: int) -> str:
    """The condition on the rows that are changed."""
    return f"id % {OF} < {share}"


def source_sql(share: int, rows: int) -> str:
    """The source of a MERGE: nine rows of ten are in the table, with another amount; one is new."""
    columns = [each for each in COLUMNS if each not in ("id", "amount")]
    new = f"if((id div {OF}) % 10 = 9, id + {rows}, id)"
    amount = "cast(amount + 1 as decimal(12, 2))"
    return f"SELECT {new} id, {amount} amount, {', '.join(columns)} FROM flat WHERE {chosen(share)}"  # noqa: S608


def in_turn_from(
    rounds: int, runs: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]]
) -> dict[str, dict[str, float]]:
    """The best times of each: of its change, and of a read afterwards; then it goes back to the start."""
    found: dict[str, dict[str, list[float]]] = {name: {"change": [], "read": []} for name in runs}
    for _ in range(rounds):
        for name, (change, read, undo) in runs.items():
            found[name]["change"].append(timed(change))
            found[name]["read"].append(timed(read))
            undo()
    return {name: {what: min(times) for what, times in each.items()} for name, each in found.items()}
