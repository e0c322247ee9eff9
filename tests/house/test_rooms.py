"""A module is a room: one subject, a name that says it, and not too large."""

from __future__ import annotations

import ast

from tests.house.source import Function, Module, modules, parse

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70
SAYING_NOTHING = {"base", "common", "helper", "helpers", "misc", "util", "utils"}


def room_problems(module: Module) -> list[str]:
    problems = []
    if SAYING_NOTHING & {part.strip("_") for part in module.name.split(".")}:
        problems.append(f"{module.name}: the name does not say the subject")
    if (lines := len(module.text.splitlines())) > MAX_MODULE_LINES:
        problems.append(f"{module.name}: {lines} lines, more than {MAX_MODULE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                problems.append(f"{module.name}.{node.name}: {lines} lines, more than {MAX_FUNCTION_LINES}")
    return problems


def test_rooms() -> None:
    assert [problem for module in modules() for problem in room_problems(module)] == []


def test_bad_rooms_are_noticed() -> None:
    function = "def f():\n" + "    1\n" * MAX_FUNCTION_LINES
    assert len(room_problems(parse("lakeplane.utils", ""))) == 1
    assert len(room_problems(parse("lakeplane._common.room", ""))) == 1
    assert len(room_problems(parse("lakeplane.room", "\n" * (MAX_MODULE_LINES + 1)))) == 1
    assert len(room_problems(parse("lakeplane.room", function))) == 1
    assert room_problems(parse("lakeplane.room", function.replace("    1\n", "", 1))) == []
