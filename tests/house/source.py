"""The package's modules as syntax trees, for the house rules."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


class Module(NamedTuple):
    name: str
    text: str
    tree: ast.Module
    is_package: bool = False


def parse(name: str, text: str) -> Module:
    return Module(name, text, ast.parse(text))


def modules() -> list[Module]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(parse(name, path.read_text(encoding="utf-8"))._replace(is_package=is_package))
    assert found, "no module found: the house rules would hold for nothing"
    return found


def imports(module: Module) -> set[str]:
    """Absolute names of everything a module imports, at its top, in a function or for the type checker only.

    ``from a import b`` gives ``a.b``, as ``b`` may be a module.
    """
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = module.name.split(".")
            up = node.level - module.is_package
            anchor = ".".join(package[: len(package) - up]) if node.level else ""
            origin = ".".join(filter(None, [anchor, node.module]))
            names |= {f"{origin}.{alias.name}" for alias in node.names}
    return names


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
