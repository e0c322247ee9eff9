"""Nothing read from storage is ever run as code."""

from __future__ import annotations

import ast

from tests.house.source import Module, imports, is_within, modules, parse

UNPICKLING = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
EVALUATING = {"eval", "exec"}


def dangers(module: Module) -> list[str]:
    found = [f"{module.name} imports {name}" for name in imports(module) if is_within(name, UNPICKLING)]
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=name) if name in EVALUATING:
                found.append(f"{module.name}:{node.lineno} uses {name}")
            case ast.Attribute(value=ast.Name(id="yaml"), attr="load" | "unsafe_load" | "full_load"):
                found.append(f"{module.name}:{node.lineno} uses yaml.{node.attr}")
    return found


def test_no_module_runs_data_as_code() -> None:
    assert [danger for module in modules() for danger in dangers(module)] == []


def test_dangers_are_noticed() -> None:
    for line in ("import pickle", "from pickle import loads", "eval('1')", "exec('')", "yaml.load(text)"):
        assert dangers(parse("m", line)), line
    for line in ("expression.eval()", "yaml.safe_load(text)", "def evaluate(): ..."):
        assert not dangers(parse("m", line)), line
