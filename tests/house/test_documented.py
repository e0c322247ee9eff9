"""What is public is documented."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import lakeplane
from tests.house.source import ROOT, Definition, Module, modules, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SAID_ELSEWHERE = {"overload", "override", "setter", "deleter"}


def public_definitions(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    """Public classes and functions, with the public members of public classes."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from public_definitions(node.body, prefix)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield f"{prefix}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, f"{prefix}.{node.name}")


def undocumented(module: Module) -> list[str]:
    names = [] if ast.get_docstring(module.tree) else [module.name]
    for name, node in public_definitions(module.tree.body, module.name):
        marks = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        if not ast.get_docstring(node) and not marks & SAID_ELSEWHERE:
            names.append(name)
    return names


def missing_in(docs: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if not re.search(rf"\b{re.escape(name)}\b", docs)]


def test_public_code_has_docstrings() -> None:
    assert [name for module in modules() for name in undocumented(module)] == []


def test_a_missing_docstring_is_noticed() -> None:
    text = '''
def f(): ...
def _g(): ...
class C:
    """Said."""
    def m(self): ...
    def _n(self): ...
    @property
    def p(self): ...
    @p.setter
    def p(self, value): ...
    @typing.override
    def o(self): ...
class _D:
    def m(self): ...
'''
    assert undocumented(parse("m", text)) == ["m", "m.f", "m.C.m", "m.C.p"]


def test_the_front_door_is_in_the_docs() -> None:
    docs = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md")))
    assert missing_in(docs, lakeplane.__all__) == []


def test_the_tree_of_errors_is_in_the_docs() -> None:
    tree = [
        line.strip()
        for line in (lakeplane.errors.__doc__ or "").splitlines()
        if "├──" in line or "└──" in line
    ]
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert tree
    assert [line for line in tree if line not in page] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def test_a_name_that_is_not_in_the_docs_is_noticed() -> None:
    assert missing_in("`Table` and `connect()`", ["Table", "Tab", "connect"]) == ["Tab"]
