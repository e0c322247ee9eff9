"""Publishing changes of files: what is written and what is deleted, whatever the catalog answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lakeplane.catalog.catalog import Change as CatalogChange
from lakeplane.catalog.catalog import Conflict, Outcome, Unknown
from lakeplane.changing import Done, publish_change
from lakeplane.errors import (
    CommitConflict,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.iceberg.changes import Append, Overwrite, OverwritePartitions
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.lake import Lake
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.reading import reading_of
from lakeplane.testing.faults import Fail, FailAfter, FaultStore, Script
from tests.commits.worlds import (
    EVENTS,
    InTheMiddle,
    World,
    change_files,
    filesystem_in_memory,
    live,
    pointers_in_memory,
    rows_of,
    without_waiting,
)


@pytest.fixture(params=[filesystem_in_memory, pointers_in_memory], ids=["filesystem", "pointers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world: World = request.param(None)
    with without_waiting(world.clock):
        lake = world.lake()
        lake.create_namespace("shop")
        lake.create_table("shop.events", "id BIGINT, p STRING", partition_by=["p"])
        add(world, 1, "a", "x")
        yield world


def table_of(world: World) -> TableMetadata:
    return world.lake().table("shop.events").metadata


def add(world: World, snapshot_id: int, name: str, p: str) -> None:
    change_files(
        world.lake(), world, EVENTS, snapshot_id, lambda table, _: Append(files=(rows_of(table, name, p),))
    )


def names(world: World) -> list[str]:
    files = live(table_of(world), reading_of(world.store, ManifestCache()))
    return sorted(path.rpartition("/")[2] for path in files["file_path"].to_pylist())


def manifests(world: World) -> set[str]:
    """The manifests and manifest lists that exist."""
    return {each for each in world.files() if each.endswith(".avro")}


def named(world: World) -> set[str]:
    """The manifests and manifest lists that some snapshot names."""
    listed = world.lake().table("shop.events").inspect("all_manifests")["path"].to_pylist()
    return {*listed, *(each.manifest_list or "" for each in table_of(world).snapshots)}


class Answering:
    """A catalog that answers to commits as the test says; ``None`` lets one through."""

    def __init__(self, world: World, answers: Sequence[Outcome | Exception | None]) -> None:
        self._inner, self._answers = world.catalog(world.store), list(answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, changes: Sequence[CatalogChange]) -> Outcome:
        answer = self._answers.pop(0) if self._answers else None
        match answer:
            case None:
                return self._inner.commit(changes)
            case Exception():
                raise answer
            case _:
                return answer


def publish(world: World, *answers: Outcome | Exception | None) -> Done:
    catalog: Any = Answering(world, answers)
    entry = catalog.load("table", EVENTS)
    return publish_change(
        catalog, entry, ManifestCache(), Append(files=(rows_of(entry.metadata, "new", "x"),))
    )


def test_what_was_written_for_attempts_that_lost_is_deleted(world: World) -> None:
    entry, attempts, _ = publish(world, Conflict("somebody"), Conflict("somebody"))
    assert isinstance(entry.metadata, TableMetadata)
    assert (attempts, names(world)) == (3, ["a", "new"])
    assert manifests(world) == named(world)


@pytest.mark.parametrize(
    "answer",
    [
        StorageError("no"),
        CommitConflict("no"),
        InvalidInput("no"),
        Conflict("somebody"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_certainly_did_not_happen_leaves_nothing(world: World, answer: Any) -> None:
    before = world.files()
    with pytest.raises(LakeplaneError):
        publish(world, *[answer] * 5)
    assert world.files() == before


def test_nothing_is_deleted_while_nobody_knows(world: World) -> None:
    """Iceberg #2317, #13443, #14583: files of a commit that had happened were deleted."""
    before = manifests(world)
    with pytest.raises(OutcomeUnknown):
        publish(world, Unknown("lost"))
    assert len(manifests(world) - before) == 2


def test_an_error_that_does_not_tell_is_one_nobody_knows_about(world: World) -> None:
    before = manifests(world)
    with pytest.raises(OutcomeUnknown, match="no JSON"):
        publish(world, InvalidMetadata("no JSON"))
    assert len(manifests(world) - before) == 2
    with pytest.raises(MemoryError):
        publish(world, MemoryError())
    assert len(manifests(world) - before) == 4


def test_a_conflict_with_ourselves_is_no_second_append(world: World) -> None:
    """Iceberg #5846: the first attempt had landed, its answer was a conflict, and the rows came twice."""
    catalog: Any = Answering(world, [])
    real = catalog._inner.commit

    def lands_and_denies(changes: Sequence[CatalogChange]) -> Outcome:
        catalog.commit = real
        real(changes)
        return Conflict("a proxy sent it twice")

    catalog.commit = lands_and_denies
    entry = catalog.load("table", EVENTS)
    change = Append(files=(rows_of(entry.metadata, "new", "x"),))
    after, attempts, _ = publish_change(catalog, entry, ManifestCache(), change)
    assert isinstance(after.metadata, TableMetadata)
    assert (attempts, names(world), len(after.metadata.snapshots)) == (1, ["a", "new"], 2)
    assert manifests(world) == named(world)


@pytest.mark.parametrize("fault", [Fail("trouble"), Fail("full"), Fail("unknown")], ids=str)
def test_a_manifest_that_cannot_be_written_leaves_nothing(world: World, fault: Fail) -> None:
    before = world.files()
    for nth in (1, 2):
        store = FaultStore(world.store, Script(fault, nth=nth, name="put", for_ever=True), clock=world.clock)
        with pytest.raises(StorageError):
            change_files(
                Lake(world.catalog(store)),
                world,
                EVENTS,
                9,
                lambda table, _: Append(files=(rows_of(table, "new", "x"),)),
            )
        assert world.files() == before


def test_a_manifest_whose_answer_is_lost_is_written_again(world: World) -> None:
    store = FaultStore(world.store, Script(FailAfter(), nth=1, name="put"), clock=world.clock)
    plan: Callable[..., Any] = lambda table, _: Append(files=(rows_of(table, "new", "x"),))  # noqa: E731
    change_files(Lake(world.catalog(store)), world, EVENTS, 9, plan)
    assert names(world) == ["a", "new"]


def test_a_change_that_conflicts_on_the_way_leaves_nothing(world: World) -> None:
    catalog = world.catalog(world.store)
    entry = catalog.load("table", EVENTS)
    assert isinstance(entry.metadata, TableMetadata)
    add(world, 2, "b", "x")
    before = world.files()
    change = Overwrite(
        files=(rows_of(entry.metadata, "new", "x"),),
        where=parse_predicate("p = 'x'", entry.metadata.schema),
        isolation="serializable",
        validate_from=entry.metadata.current_snapshot_id,
    )
    with pytest.raises(CommitConflict, match="has added this file"):
        publish_change(catalog, entry, ManifestCache(), change)
    assert world.files() == before


def test_a_table_that_is_upgraded_on_the_way_gets_what_its_version_needs(world: World) -> None:
    """Iceberg #16146: what was made for v2 must not be published into a v3 table."""
    catalog: Any = Answering(world, [])
    real = catalog._inner.commit

    def somebody_is_faster(changes: Sequence[CatalogChange]) -> Outcome:
        catalog.commit = real
        with world.lake().table("shop.events").evolve() as change:
            change.upgrade(3)
        found: Outcome = real(changes)
        return found

    catalog.commit = somebody_is_faster
    entry = catalog.load("table", EVENTS)
    change = Append(files=(rows_of(entry.metadata, "new", "x"),))
    after, attempts, _ = publish_change(catalog, entry, ManifestCache(), change)
    assert isinstance(after.metadata, TableMetadata)
    assert (attempts, after.metadata.next_row_id, names(world)) == (2, 20, ["a", "new"])
    assert manifests(world) == named(world)


def test_a_table_that_was_made_anew_under_its_name_is_another_one(world: World) -> None:
    catalog = world.catalog(world.store)
    entry = catalog.load("table", EVENTS)
    lake = world.lake()
    lake.drop_table("shop.events")
    lake.create_table("shop.events", "id BIGINT, p STRING", partition_by=["p"])
    with pytest.raises(CommitConflict, match="belongs to another one now"):
        publish_change(catalog, entry, ManifestCache(), Append(files=()))


def _plans() -> dict[str, Callable[[str], Callable[..., Any]]]:
    def append(name: str) -> Callable[..., Any]:
        return lambda table, _: Append(files=(rows_of(table, name, "x"),))

    def overwrite(name: str) -> Callable[..., Any]:
        return lambda table, _: Overwrite(
            files=(rows_of(table, name, "x"),),
            where=parse_predicate("p = 'x'", table.schema),
            isolation="serializable",
            validate_from=table.current_snapshot_id,
        )

    def partitions(name: str) -> Callable[..., Any]:
        return lambda table, _: OverwritePartitions(
            files=(rows_of(table, name, "x"),),
            isolation="serializable",
            validate_from=table.current_snapshot_id,
        )

    def delete(_: str) -> Callable[..., Any]:
        return lambda table, _: Overwrite(where=parse_predicate("p = 'x'", table.schema))

    return {"append": append, "overwrite": overwrite, "partitions": partitions, "delete": delete}


PLANS = _plans()


@pytest.mark.parametrize("other", PLANS)
@pytest.mark.parametrize("one", PLANS)
def test_one_works_in_the_middle_of_the_others_commit(world: World, one: str, other: str) -> None:
    """F7, at every step of one of the two: the files are those of some order, or one is refused."""
    save = world.save()
    for nth in range(1, 40, 3 if world.is_filesystem else 1):
        save()
        done: dict[str, bool] = {}

        def second(done: dict[str, bool] = done) -> None:
            done["other"] = _does(world, world.lake(), 102, PLANS[other]("n2"))

        plan = InTheMiddle("any", nth, second)
        lake = Lake(world.catalog(FaultStore(world.store, plan, clock=world.clock)))
        done["one"] = _does(world, lake, 101, PLANS[one]("n1"))
        if plan.nth:
            break
        found = names(world)
        if done == {"one": True, "other": True}:
            assert found in _orders(one, other), f"at step {nth}"
        else:
            assert done["other"], "who was not disturbed has succeeded"
            assert found == _alone(other, "n2"), f"at step {nth}"
        assert manifests(world) == named(world), f"at step {nth}"
    assert nth > 3


def _does(world: World, lake: Lake, snapshot_id: int, plan: Callable[..., Any]) -> bool:
    try:
        change_files(lake, world, EVENTS, snapshot_id, plan)
    except CommitConflict:
        return False
    return True


def _alone(what: str, name: str, before: tuple[str, ...] = ("a",)) -> list[str]:
    """What one leaves, if it alone works on some files."""
    match what:
        case "append":
            return sorted([*before, name])
        case "delete":
            return []
        case _:
            return [name]


def _orders(one: str, other: str) -> list[list[str]]:
    first = _alone(other, "n2", tuple(_alone(one, "n1")))
    second = _alone(one, "n1", tuple(_alone(other, "n2")))
    return [first, second]
