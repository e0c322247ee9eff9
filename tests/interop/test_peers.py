from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop import peers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a script and give its name."""
    monkeypatch.setattr(peers, "SCRIPTS", tmp_path)

    def write(text: str) -> str:
        (tmp_path / "it.py").write_text(text)
        return "it"

    return write


def test_the_oracles_are_the_locked_ones() -> None:
    assert peers.ask("versions") == {
        "pyiceberg": "0.12.0",
        "duckdb": "1.5.5",
        "extensions": ["avro", "iceberg"],
    }


def test_a_document_goes_there_and_back(script: Callable[[str], str]) -> None:
    name = script("import json, sys; json.dump([json.load(sys.stdin)], sys.stdout)")
    assert peers.ask(name, {"ü": [1, None]}) == [{"ü": [1, None]}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise SystemExit('the reason')", "(?s)failed with status 1.*the reason"),
        ("print('no document')", "(?s)answered no JSON.*no document"),
        ("import time; time.sleep(60)", "gave no answer in 0.2 s"),
    ],
)
def test_a_script_without_an_answer_fails_the_test(
    script: Callable[[str], str], text: str, problem: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=problem):
        peers.ask(script(text), timeout=0.2 if "sleep" in text else 60)


@pytest.mark.parametrize("setting", ["", "/nowhere/python"])
def test_missing_oracles_fail_the_test(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("LAKEPLANE_ORACLES", setting)
    with pytest.raises(pytest.fail.Exception, match="run `make test`"):
        peers.ask("versions")
