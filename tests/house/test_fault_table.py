"""Each fault of the table in ``tests/commits/README.md`` is shown by tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.source import ROOT

TABLE = ROOT / "tests" / "commits" / "README.md"
FAULTS = [*range(1, 13), *range(21, 24), *range(25, 29)]


def rows(text: str) -> dict[int, list[str]]:
    """The tests that each fault names."""
    found = re.findall(r"^\| F(\d+) \|(.*)\|$", text, re.MULTILINE)
    return {int(number): re.findall(r"`(tests/[\w/]+\.py::\w+)`", row) for number, row in found}


def named_in(path: Path) -> set[str]:
    """The functions that are tests; machines of hypothesis are tests by assignment."""
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    named = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    return {
        name for name in named | {ast.unparse(each) for each in targets} if name.lower().startswith("test")
    }


def missing(named: dict[int, list[str]]) -> list[str]:
    tests = [test.split("::") for each in named.values() for test in each]
    return [f"{file}::{name}" for file, name in tests if name not in named_in(ROOT / file)]


def test_every_fault_names_a_test() -> None:
    found = rows(TABLE.read_text(encoding="utf-8"))
    assert sorted(found) == FAULTS
    assert [number for number, named in found.items() if not named] == []


def test_every_test_that_is_named_exists() -> None:
    assert missing(rows(TABLE.read_text(encoding="utf-8"))) == []


def test_a_test_that_is_gone_is_noticed() -> None:
    row = "| F3 | Lost. | `tests/house/test_fault_table.py::test_gone`, `tests/no/such.py::test_x` |"
    assert len(missing(rows(row))) == 2
    assert not missing({1: ["tests/house/test_fault_table.py::test_a_test_that_is_gone_is_noticed"]})
