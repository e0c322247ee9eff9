"""What is written here speaks about the project: not about one machine, nor one package registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.house.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_OURS = re.compile(r"\.git|\.venv.*|\..*_cache|__pycache__|\.hypothesis|build|dist|.*\.egg-info")

REGISTRIES = [  # written in pieces, or this file would break its own rule
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("crates", "io"),
    )
]

MACHINE_PATH = re.compile(r"(?<![\w./:~-])/(?:home|private|root|tmp|Users|var|work)/[\w.]")
"""A path that starts there; not the middle of a path or of a URL."""


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Relative path and content of every text file that is, or is going to be, under version control."""
    for path in sorted(folder.iterdir()):
        if NOT_OURS.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from texts(path)
        elif b"\0" not in (raw := path.read_bytes()):
            yield path.relative_to(ROOT).as_posix(), raw.decode(errors="replace")


def is_document(name: str) -> bool:
    return name.endswith(".md") or name.startswith("docs/")


def text_problems(name: str, text: str) -> list[str]:
    problems = [f"{name} names {host}" for host in REGISTRIES if host in text.lower()]
    if is_document(name) and (path := MACHINE_PATH.search(text)):
        problems.append(f"{name} holds a path of a machine: {path[0]}")
    return problems


def test_texts_speak_about_the_project() -> None:
    problems = {name: text_problems(name, text) for name, text in texts(ROOT)}
    assert {"Makefile", "pyproject.toml", "docs/README.md", "requirements/dev.lock"} <= set(problems)
    assert [problem for found in problems.values() for problem in found] == []


def test_registries_and_machine_paths_are_noticed() -> None:
    for host in REGISTRIES:
        assert text_problems("requirements/dev.lock", f"--index-url https://{host}/simple"), host
    for line in ("see /work/notes", "`/tmp/warehouse`", "(/home/me/lake)"):
        assert text_problems("docs/page.md", line), line
    for line in ("s3://lake/work/orders", "https://host/home/page", "tests/tmp/x", "a work/life balance"):
        assert not text_problems("docs/page.md", line), line
