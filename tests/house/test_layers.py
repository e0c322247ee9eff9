"""Each floor knows only the floors under it, and a heavy dependency is imported where it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.house.source import Module, imports, is_within, modules, parse

HEAVY = {"httpx", "numpy", "obstore", "pyarrow", "pyspark", "sqlalchemy", "sqlglot"}

BELOW = {
    "model": {"model"},
    "avro": {"model", "avro"},
    "iceberg": {"model", "avro", "iceberg"},
    "files": {"model", "avro", "iceberg", "files"},
    "paimon": {"model", "avro", "paimon"},
}
"""What a format floor may import of lakeplane, besides its errors. None of these floors does I/O."""

DOING_IO = {
    *("asyncio", "fileinput", "fsspec", "glob", "http", "multiprocessing", "obstore", "os", "pathlib"),
    *("requests", "shutil", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "urllib.request"),
    *("io.FileIO", "io.open", "pyarrow.dataset", "pyarrow.fs"),
}


def floor_of(module: Module) -> str:
    return module.name.removeprefix("lakeplane").lstrip(".").partition(".")[0]


def layer_problems(module: Module) -> list[str]:
    problems = []
    floor, names = floor_of(module), imports(module)
    if floor in BELOW:
        allowed = {f"lakeplane.{below}" for below in BELOW[floor] | {"errors"}}
        ours = {name for name in names if is_within(name, {"lakeplane"})}
        problems += [f"{module.name} imports {name}" for name in ours if not is_within(name, allowed)]
    if floor != "spark":
        problems += [f"{module.name} imports {name}" for name in names if is_within(name, {"pyspark"})]
    return problems


def io_problems(module: Module) -> list[str]:
    if floor_of(module) not in BELOW:
        return []
    problems = [f"{module.name} imports {name}" for name in imports(module) if is_within(name, DOING_IO)]
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                problems.append(f"{module.name}:{node.lineno} opens a file")
    return problems


def imported_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after a statement."""
    report = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_lakeplane_is_cheap() -> None:
    loaded = imported_by("import lakeplane")
    assert "lakeplane" in loaded
    assert not loaded & HEAVY


def test_a_heavy_import_is_noticed() -> None:
    assert "numpy" in imported_by("import numpy")


def test_floors_know_only_the_floors_under_them() -> None:
    assert [problem for module in modules() for problem in layer_problems(module)] == []


def test_a_look_upstairs_is_noticed() -> None:
    for line in (
        "from lakeplane.iceberg import plan",
        "from lakeplane import catalog",
        "from ..iceberg import plan",
        "import lakeplane",
        "def f():\n    import pyspark.sql",
    ):
        assert layer_problems(parse("lakeplane.model.room", line)), line
    for line in ("from lakeplane.errors import InvalidInput", "from . import types", "import re"):
        assert not layer_problems(parse("lakeplane.model.room", line)), line
    assert layer_problems(parse("lakeplane.lake", "from pyspark.sql import DataFrame"))
    assert not layer_problems(parse("lakeplane.spark.read", "from pyspark.sql import DataFrame"))


def test_format_floors_do_no_io() -> None:
    assert [problem for module in modules() for problem in io_problems(module)] == []


def test_io_is_noticed() -> None:
    for line in ("import os.path", "from pathlib import Path", "from urllib import request", "open('x')"):
        assert io_problems(parse("lakeplane.iceberg.room", line)), line
        assert not io_problems(parse("lakeplane.storage.room", line)), line
    assert not io_problems(parse("lakeplane.iceberg.room", "from urllib.parse import urlsplit"))
