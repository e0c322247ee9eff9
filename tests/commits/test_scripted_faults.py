"""Faults that need a script of their own: nothing left to do, mad clocks, broken files, two branches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeplane.catalog.versions import HINT
from lakeplane.errors import InvalidMetadata, LakeplaneError
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.lake import Lake
from lakeplane.model.location import parse_location
from lakeplane.testing.faults import FaultStore
from tests.commits.worlds import (
    HEAD,
    ORDERS,
    WORLDS,
    InTheMiddle,
    World,
    append,
    filesystem_in_memory,
    populate,
    state,
    without_waiting,
)


@pytest.fixture(params=WORLDS, ids=lambda each: each.__name__)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = request.param(tmp_path)
    with without_waiting(made.clock):
        populate(made)
        yield made
    getattr(made.pointers, "close", lambda: None)()


def set_property(lake: Lake, **properties: str) -> None:
    with lake.table("shop.orders").evolve() as change:
        change.set_properties(properties)


@pytest.mark.parametrize("nth", range(1, 16))
def test_a_retry_that_finds_nothing_left_to_do_deletes_nothing(world: World, nth: int) -> None:
    """F5: a retry found its change made by somebody else, and what it cleaned up were the live files."""
    store = FaultStore(
        world.store, InTheMiddle("any", nth, lambda: set_property(world.lake(), same="1")), clock=world.clock
    )
    set_property(Lake(world.catalog(store)), same="1")
    orders = world.lake().table("shop.orders")
    assert orders.properties["same"] == "1"
    before = world.files()
    set_property(world.lake(), same="1")
    assert world.files() == before, "and what changes nothing writes nothing"
    state(world)


def test_commits_to_two_branches_at_once_both_succeed(world: World) -> None:
    """Who was overtaken by a commit to another branch was refused, for a sequence number of the past."""
    for nth in range(1, 16):
        snapshot_id = 1000 + 2 * nth

        def other(snapshot_id: int = snapshot_id) -> None:
            append(world.catalog(world.store), ORDERS, snapshot_id, branch="audit")

        plan = InTheMiddle("any", nth, other)
        append(world.catalog(FaultStore(world.store, plan, clock=world.clock)), ORDERS, snapshot_id + 1)
        table = world.lake().table("shop.orders").metadata
        assert plan.nth or table.refs["audit"].snapshot_id == snapshot_id
        assert table.current_snapshot_id == snapshot_id + 1
        numbers = [each.sequence_number for each in table.snapshots]
        assert numbers == sorted(set(numbers))


def test_a_clock_that_goes_back_does_not_take_the_table_along(world: World) -> None:
    """F12: ten minutes back, ten ahead, and standing still: times in the metadata never decrease."""
    for number, minutes in enumerate((-10, -10, 0, 10, -5, 0)):
        world.clock.step_ms = 0
        world.clock.set(world.clock.now_ms() + minutes * 60_000)
        set_property(world.lake(), number=str(number))
        append(world.catalog(world.store), ORDERS, 2000 + number)
    table = world.lake().table("shop.orders").metadata
    for times in (
        [entry.timestamp_ms for entry in table.metadata_log] + [table.last_updated_ms],
        [entry.timestamp_ms for entry in table.snapshot_log],
        [snapshot.timestamp_ms for snapshot in table.ancestors(2005)][::-1],
    ):
        assert times == sorted(times)
    assert parse_metadata(serialize_metadata(table)) == table
    world.lake().table("shop.orders").rollback(HEAD)


def test_a_broken_metadata_file_is_named_and_can_be_put_back(world: World) -> None:
    """F10: cut off, or with a bit flipped, anywhere: what is noticed is an error that names the file."""
    catalog = world.catalog(world.store)
    entry = catalog.load("table", ORDERS)
    at = parse_location(entry.metadata_location)
    whole = world.store.read(at)
    for part in range(64):
        place = part * len(whole) // 64
        world.store.put(at, whole[:place])
        with pytest.raises(InvalidMetadata) as refused:
            world.catalog(world.store).load("table", ORDERS)
        assert at.name in str(refused.value)
        assert "the version before it" in str(refused.value)
        with pytest.raises(InvalidMetadata):
            set_property(world.lake(), a="1")
        flipped = bytearray(whole)
        flipped[place] ^= 1
        world.store.put(at, bytes(flipped))
        problem = ""
        try:
            world.catalog(world.store).load("table", ORDERS)
        except LakeplaneError as error:
            problem = str(error)
        assert not problem or at.name in problem
    world.store.put(at, whole)
    assert world.catalog(world.store).load("table", ORDERS).metadata == entry.metadata


@pytest.mark.parametrize("hint", [b"", b"\0", b"-1", b"1", b"99", b"9" * 400, b"v2", b"\xff\xfe", b" 2\n\n"])
def test_a_broken_hint_is_only_a_hint(hint: bytes, tmp_path: Path) -> None:
    """F10, F11."""
    world = filesystem_in_memory(tmp_path)
    with without_waiting(world.clock):
        populate(world)
        before = world.lake().table("shop.orders").metadata
        world.store.put(world.root / "shop/orders/metadata" / HINT, hint)
        assert world.lake().table("shop.orders").metadata == before
        set_property(world.lake(), a="1")
        found = world.lake().table("shop.orders").metadata
        assert len(json.loads(serialize_metadata(found))["metadata-log"]) == len(before.metadata_log) + 1
