"""The page on SQL tells of every statement and procedure that there is."""

from __future__ import annotations

import re

import pytest

from lakeplane.errors import InvalidInput
from lakeplane.sql import alter
from lakeplane.sql.front import STATEMENTS, parse
from lakeplane.sql.procedures import PROCEDURES
from lakeplane.sql.words import Words
from tests.house.source import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")


def missing(page: str, names: list[str]) -> list[str]:
    return [each for each in names if each not in page]


def test_every_procedure_is_told_with_its_parameters_and_columns() -> None:
    for name, procedure in PROCEDURES.items():
        parameters = ", ".join(each.name for each in procedure.parameters)
        columns = ", ".join(f"`{each.split()[0]}`" for each in procedure.columns.split(", "))
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}(")]
        assert f"`{name}({parameters})`" in row
        assert row.endswith(f"| {columns} |"), name


def test_every_statement_is_told() -> None:
    kinds = {re.sub(r"DATABASE|SCHEMA", "NAMESPACE", each) for each in STATEMENTS}
    plain = {re.sub(r"(GLOBAL )?TEMP(ORARY)? ", "", each).replace("OR REPLACE ", "") for each in kinds}
    assert missing(PAGE, sorted(plain - {"DESC", "DESC NAMESPACE"})) == []
    words = [each for each in alter._ACTIONS if not each.endswith("S") and each != "CHANGE COLUMN"]
    assert missing(PAGE, words) == []
    assert missing("SHOW", ["SHOW", "HIDE"]) == ["HIDE"]


EXAMPLES = [
    each
    for each in re.findall(r"`([^`\n]+)`", PAGE)
    if re.match(
        r"(SELECT|INSERT|DELETE|UPDATE|MERGE|CREATE|REPLACE TABLE|DROP (T|V|NAME)|ALTER (T|V|N)|TRUNCATE|SHOW|DESCRIBE|USE|CALL|EXPLAIN) ",
        each,
    )
    and "..." not in each
    and not each.endswith((" NAMESPACE EXTENDED", " LIKE"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_statements(example: str) -> None:
    if example in ("TRUNCATE TABLE ... PARTITION", "SHOW TABLE EXTENDED"):
        return
    try:
        parse(Words(example))
    except InvalidInput as refused:
        pytest.fail(f"{example}: {refused}")
