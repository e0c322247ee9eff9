"""JARs that tests need, brought by Maven once, into the cache of test resources."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.fetch_vectors import cache_directory

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class Jar(NamedTuple):
    """An artifact and what it depends on; a version may be a property of the parent, as in ``${name}``."""

    group: str
    name: str
    version: str
    classifier: str = ""
    alone: bool = False
    """Whether what it depends on is left out."""


@functools.cache
def jars(name: str, wanted: Sequence[Jar], parent: Jar | None = None) -> Path:
    """The folder with some JARs; it appears whole or not at all."""
    pom = _pom(name, wanted, parent)
    target = cache_directory() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:12]}"
    if target.exists():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"NOT TESTED with {name}: there is no mvn to bring it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="partial-") as partial:
        Path(partial, "pom.xml").write_text(pom, encoding="utf-8")
        command = [maven, "-q", "-B", "-f", f"{partial}/pom.xml", COPY, f"-DoutputDirectory={partial}/jars"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            pytest.fail(f"Maven could not bring {name}:\n{done.stdout[-2000:]}")
        with contextlib.suppress(OSError):  # another process was faster
            Path(partial, "jars").rename(target)
    return target


def _pom(name: str, wanted: Sequence[Jar], parent: Jar | None) -> str:
    above = "" if parent is None else f"<parent>{_place(parent)}<relativePath/></parent>"
    needs = "".join(map(_dependency, wanted))
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"{above}<groupId>lakeplane</groupId><artifactId>{name}</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{needs}</dependencies></project>"
    )


def _dependency(jar: Jar) -> str:
    classifier = f"<classifier>{jar.classifier}</classifier>" if jar.classifier else ""
    every = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    left_out = f"<exclusions>{every}</exclusions>" if jar.alone else ""
    return f"<dependency>{_place(jar)}{classifier}{left_out}</dependency>"


def _place(jar: Jar) -> str:
    return (
        f"<groupId>{jar.group}</groupId><artifactId>{jar.name}</artifactId><version>{jar.version}</version>"
    )
