"""Tables of PyIceberg, polars and DuckDB are planned as they plan them, and the rows are those they find.

PyIceberg judges which files are read, DuckDB which rows match: of null and NaN it means what Spark means.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc
import pytest

from lakeplane.iceberg.metadata_json import parse_metadata
from lakeplane.iceberg.plan import ReadPlan, plan
from tests.interop.peers import ask
from tests.interop.plain_rows import attached, ids, local, matching, reading, table_at
from tests.interop.plan_conditions import COPIED, FOUND_ELSEWHERE, MADE, MORE_IS_KEPT, MORE_IS_PRUNED

if TYPE_CHECKING:
    from pathlib import Path

    from lakeplane.iceberg.metadata import TableMetadata

TABLES = {name: tuple(ours for ours, _ in pairs) for name, pairs in MADE.items()}
READING = reading()
CASES = [(name, condition) for name, conditions in TABLES.items() for condition in conditions]


class World(NamedTuple):
    """The tables that were made, and what others say of them."""

    tables: dict[str, TableMetadata]
    files: dict[tuple[str, str], dict[str, list[str]]]
    """How PyIceberg plans a table for a condition: data files with the files of their deletes."""
    read: dict[str, list[int]]
    """What PyIceberg reads without a condition."""
    rows: dict[tuple[str, str], list[int]]
    """What DuckDB finds in a table for a condition."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("theirs")
    conditions = {name: [theirs for _, theirs in pairs] for name, pairs in MADE.items()}
    made = ask("pyiceberg_plans", {"folder": str(folder), "conditions": conditions})
    found = ask(
        "duckdb_scan",
        [[made[name]["metadata"], list(map(in_duckdb, each))] for name, each in TABLES.items()],
    )
    return World(
        {name: table_of(answer["metadata"]) for name, answer in made.items()},
        {
            (name, ours): files
            for name, each in TABLES.items()
            for ours, files in zip(each, made[name]["plans"], strict=True)
        },
        {name: answer["ids"] for name, answer in made.items()},
        {
            (name, ours): rows
            for (name, each), answer in zip(TABLES.items(), found, strict=True)
            for ours, rows in zip(each, answer, strict=True)
        },
    )


def in_duckdb(condition: str) -> str:
    """DuckDB has a word of its own for a time with a zone."""
    return condition.replace("tz >= TIMESTAMP ", "tz >= TIMESTAMPTZ ").replace(
        "tz = TIMESTAMP ", "tz = TIMESTAMPTZ "
    )


def table_of(location: str) -> TableMetadata:
    return parse_metadata(local(location).read_bytes(), source=location)


def key(name: str, condition: str) -> tuple[str, str]:
    """The same rows are in two tables."""
    return name.removesuffix("_v1"), condition


def planned(table: TableMetadata, condition: str) -> ReadPlan:
    return plan(table, READING, condition or None)


@pytest.mark.parametrize(("name", "condition"), CASES)
def test_the_files_are_those_of_pyiceberg(world: World, name: str, condition: str) -> None:
    found = planned(world.tables[name], condition)
    ours, theirs = attached(found), world.files[name, condition]
    less, more = theirs.keys() - ours.keys(), ours.keys() - theirs.keys()
    assert len(less) == MORE_IS_PRUNED.get(key(name, condition), 0)
    assert len(more) == MORE_IS_KEPT.get(key(name, condition), 0)
    assert {path: theirs[path] for path in theirs if path in ours} == {
        path: ours[path] for path in ours if path in theirs
    }
    for path in less:
        assert not matching(table_at(path), found.predicate, found.schema).any()
    assert any(matching(table_at(path), found.predicate, found.schema).any() for path in more) == bool(more)


@pytest.mark.parametrize(("name", "condition"), CASES)
def test_the_rows_are_those_of_duckdb(world: World, name: str, condition: str) -> None:
    found = ids(planned(world.tables[name], condition))
    lost_by_duckdb = FOUND_ELSEWHERE.get(key(name, condition), [])
    assert found == sorted(world.rows[name, condition] + lost_by_duckdb)


def test_all_rows_are_those_of_pyiceberg(world: World) -> None:
    for name, table in world.tables.items():
        assert ids(planned(table, "")) == world.read[name]


def test_the_plan_of_each_state(world: World) -> None:
    """Every snapshot of a table that was changed in all ways; rows are never those of another one."""
    table = world.tables["changed"]
    counts = [
        int(pc.sum(plan(table, READING, at=each.snapshot_id).files["record_count"]).as_py())
        for each in table.snapshots
    ]
    totals = [int(each.summary["total-records"]) for each in table.snapshots if each.summary]
    assert counts == totals
    assert len(set(totals)) > 3


def test_conditions_leave_out_most_files(world: World) -> None:
    """Else the tests above would compare whole tables with whole tables."""
    kept: dict[str, list[float]] = {}
    for (name, condition), files in world.files.items():
        if condition:
            kept.setdefault(name, []).append(len(files) / len(world.files[name, ""]))
    assert all(sum(shares) / len(shares) < 0.65 for shares in kept.values())
    assert {name for name, shares in kept.items() if min(shares) == 0} == set(kept)


def test_a_table_that_duckdb_copied(tmp_path: Path) -> None:
    made: dict[str, Any] = ask("duckdb_copied", str(tmp_path / "t"))
    document = json.loads(local(made["metadata"]).read_bytes())
    # Which the spec wants of v2, and COPY leaves out.
    document.setdefault("last-sequence-number", 0)
    table = parse_metadata(json.dumps(document).encode(), source=made["metadata"])
    [theirs] = ask("duckdb_scan", [[made["metadata"], [in_duckdb(each) for each, _ in COPIED]]])
    for (condition, files), rows in zip(COPIED, theirs, strict=True):
        found = planned(table, condition)
        assert sorted(attached(found)) == sorted(made["files"][:files]), condition
        assert ids(found) == rows, condition
