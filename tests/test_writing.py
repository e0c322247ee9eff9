"""Rows that are written here, without Spark: all of them are there, or none, and no file is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeplane.errors import LakeplaneError, OutcomeUnknown
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.plan import plan
from lakeplane.model.location import parse_location
from lakeplane.reading import reading_of
from lakeplane.testing.clock import ManualClock
from lakeplane.testing.faults import Fail, FailAfter, Fault, Script
from tests.commits.worlds import World, filesystem_in_memory, pointers_in_memory, without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAULTS: tuple[Fault, ...] = (Fail("trouble"), Fail("full"), Fail("unknown"), FailAfter())
MOST_STEPS = 200


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": [f"p{number % 2}" for number in ids]})


def ids_in(world: World) -> list[int]:
    """The rows of the table, as whoever looks at its files finds them."""
    table = world.lake().table("shop.rows").metadata
    files = plan(table, reading_of(world.store, ManifestCache())).files["file_path"].to_pylist()
    found = [pq.read_table(pa.BufferReader(world.store.read(parse_location(each)))) for each in files]
    return sorted(number for each in found for number in each["id"].to_pylist())


@pytest.fixture(autouse=True)
def _without_waiting() -> Iterator[None]:
    with without_waiting(ManualClock(step_ms=1)):
        yield


def prepared(make: Callable[[Path], World], folder: Path) -> World:
    world = make(folder)
    lake = world.lake()
    lake.create_namespace("shop")
    table = lake.create_table("shop.rows", "id BIGINT, part STRING", partition_by=["part"])
    table.append(rows(1, 2))
    return world


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("make", [filesystem_in_memory, pointers_in_memory])
def test_whatever_step_of_an_append_fails_all_rows_are_there_or_none(
    make: Callable[[Path], World], fault: Fault, tmp_path: Path
) -> None:
    world = prepared(make, tmp_path)
    restore, before, failures = world.save(), world.files(), 0
    for step in range(1, MOST_STEPS):
        restore()
        lake, store = world.faulty(None)
        table = lake.table("shop.rows")
        store.plan = Script(fault, nth=step)
        try:
            table.append(rows(3, 4))
        except OutcomeUnknown:
            failures += 1
            assert ids_in(world) in ([1, 2], [1, 2, 3, 4])
        except LakeplaneError:
            failures += 1
            assert ids_in(world) == [1, 2]
            left = {each for each in world.files() - before if "/data/" in each}
            assert left == set(), "what was not published is deleted"
        else:
            assert ids_in(world) == [1, 2, 3, 4]
        if store.plan.seen < step:
            break
    else:
        pytest.fail("an append has no end")
    # What was certainly put, or put again, is no failure.
    assert failures or isinstance(fault, FailAfter)


def test_rows_that_cannot_be_published_leave_no_files(tmp_path: Path) -> None:
    world = prepared(filesystem_in_memory, tmp_path)
    lake, store = world.faulty(None)
    table = lake.table("shop.rows")
    before = world.files()
    store.plan = Script(
        Fail("full"), for_ever=True, name="put", matching=lambda each: "metadata" in str(each.at)
    )
    with pytest.raises(LakeplaneError):
        table.append(rows(5, 6))
    assert world.files() == before
    assert ids_in(world) == [1, 2]


def test_rows_of_a_failing_store_are_taken_away_again(tmp_path: Path) -> None:
    world = prepared(filesystem_in_memory, tmp_path)
    lake, store = world.faulty(None)
    table = lake.table("shop.rows")
    before = world.files()
    store.plan = Script(Fail("full"), nth=2, name="put")
    with pytest.raises(LakeplaneError):
        table.append(rows(5, 6))
    assert world.files() == before, "the file of the first partition was there already"


def test_a_misspelt_argument_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    world = prepared(filesystem_in_memory, tmp_path)
    before = world.files()
    with pytest.raises(TypeError, match="brnach"):
        world.lake().table("shop.rows").append(rows(5), brnach="x")  # type: ignore[call-arg]
    assert world.files() == before
