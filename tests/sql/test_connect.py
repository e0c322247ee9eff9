"""SQL through Spark Connect. A process has one sort of session, so these have their own."""

from __future__ import annotations

from pathlib import Path

from tests.remote import found_by


def test_statements_through_connect(tmp_path: Path) -> None:
    found = found_by("sql.connect_sql", str(tmp_path), seconds=400)
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
