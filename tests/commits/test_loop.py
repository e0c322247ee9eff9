"""The commit loop against a catalog that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from lakeplane.catalog.catalog import Catalog, Change, Committed, Conflict, Entry, Kind, Outcome, Unknown
from lakeplane.catalog.commit_loop import Proposal, Published, Rhythm, Work, publish
from lakeplane.catalog.metadata_files import changed
from lakeplane.catalog.names import Name
from lakeplane.errors import (
    CatalogUnavailable,
    CommitConflict,
    InvalidChange,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, Field
from lakeplane.testing.clock import ManualClock

ONE, TWO = Name(("shop",), "one"), Name(("shop",), "two")
Answer = Callable[["Scripted", Sequence[Change]], Outcome]


class Scripted:
    """A catalog in which each commit goes as the next answer says; after the last one, all goes well."""

    def __init__(self, *answers: Answer, **properties: str) -> None:
        self.answers = list(answers)
        self.entries = {name: _new(name, properties) for name in (ONE, TWO)}
        self.commits: list[list[Change]] = []
        self.before_load: list[Callable[[], None]] = []

    def load(self, _: Kind, name: Name) -> Entry:
        if self.before_load:
            self.before_load.pop(0)()
        return self.entries[name]

    def commit(self, changes: Sequence[Change]) -> Outcome:
        self.commits.append(list(changes))
        return self.answers.pop(0)(self, changes) if self.answers else goes_well(self, changes)

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            base = self.entries[change.name]
            metadata = changed(base, change, 0)
            self.entries[change.name] = Entry("table", change.name, metadata, base.metadata_location + "+")

    def somebody_sets(self, name: Name = ONE, **properties: str) -> None:
        self.apply([Change("table", name, (), (u.SetProperties(FrozenDict(properties)),))])

    def somebody_removes(self, *properties: str, name: Name = ONE) -> None:
        self.apply([Change("table", name, (), (u.RemoveProperties(properties),))])


def _new(name: Name, properties: dict[str, str]) -> Entry:
    made = creation(
        Schema((Field(1, "id", LONG),)), uuid=str(name), location="s3://b/t", properties=properties
    )
    return Entry("table", name, apply(None, cast("Any", made), now_ms=1), "v1")


def goes_well(catalog: Scripted, changes: Sequence[Change]) -> Outcome:
    catalog.apply(changes)
    return Committed(tuple(catalog.entries[change.name] for change in changes))


def somebody_is_faster(catalog: Scripted, _: Sequence[Change]) -> Outcome:
    turn = len(catalog.commits)
    catalog.somebody_sets(ONE, **{f"theirs-{turn}": "1"})
    return Conflict("somebody was faster")


def lands_without_answer(catalog: Scripted, changes: Sequence[Change]) -> Outcome:
    catalog.apply(changes)
    return Unknown("the line went dead")


def is_lost(_: Scripted, __: Sequence[Change]) -> Outcome:
    return Unknown("the line went dead")


def table(entry: Entry) -> TableMetadata:
    assert isinstance(entry.metadata, TableMetadata)
    return entry.metadata


def setting(**properties: str) -> Callable[[Entry], Proposal]:
    return lambda _: ((), (u.SetProperties(FrozenDict(properties)),))


def appending(snapshot_id: int) -> Callable[[Entry], Proposal]:
    def propose(entry: Entry) -> Proposal:
        now = table(entry)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=now.current_snapshot_id,
            sequence_number=now.last_sequence_number + 1,
            timestamp_ms=1,
            manifest_list="s3://b/t/list",
            summary=FrozenDict({"operation": "append"}),
        )
        return (), (
            u.AddSnapshot(snapshot),
            u.SetSnapshotRef("main", Ref(snapshot_id=snapshot_id, type="branch")),
        )

    return propose


class Run:
    """One go of the loop, with a clock of its own."""

    def __init__(self, catalog: Scripted, *, chance: float = 1.0) -> None:
        self.catalog, self.clock, self.pauses = catalog, ManualClock(), list[float]()
        self.rhythm = Rhythm(lambda: self.clock.now_ms() / 1000, self._sleep, lambda: chance)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.sleep(seconds)

    def __call__(self, *work: tuple[Name, Callable[[Entry], Proposal]]) -> Published:
        listed = [Work("table", name, propose) for name, propose in work]
        return publish(cast("Catalog", self.catalog), listed, rhythm=self.rhythm)


def test_a_change_that_nobody_disturbs_is_published_at_once() -> None:
    run = Run(Scripted())
    done = run((ONE, setting(a="1")))
    assert (done.attempts, run.pauses) == (1, [])
    assert table(done.entries[0]).properties["a"] == "1"


def test_after_a_conflict_the_table_is_loaded_and_the_proposal_asked_again() -> None:
    run = Run(Scripted(somebody_is_faster, somebody_is_faster))
    seen = []

    def propose(entry: Entry) -> Proposal:
        seen.append(len(table(entry).properties))
        return (), (u.SetProperties(FrozenDict({"count": str(seen[-1])})),)

    done = run((ONE, propose))
    assert (done.attempts, seen) == (3, [0, 1, 2])
    assert dict(table(done.entries[0]).properties) == {"theirs-1": "1", "theirs-2": "1", "count": "2"}


def test_a_proposal_that_fits_no_more_ends_the_matter() -> None:
    run = Run(Scripted(somebody_is_faster))

    def propose(entry: Entry) -> Proposal:
        if table(entry).properties:
            raise CommitConflict("the column is gone")
        return setting(a="1")(entry)

    with pytest.raises(CommitConflict, match="the column is gone"):
        run((ONE, propose))
    assert len(run.catalog.commits) == 1
    assert "a" not in table(run.catalog.entries[ONE]).properties


def test_a_proposal_that_never_fitted_is_never_sent() -> None:
    run = Run(Scripted())

    def propose(_: Entry) -> Proposal:
        raise InvalidChange("no such column")

    with pytest.raises(InvalidChange):
        run((ONE, propose))
    assert run.catalog.commits == []


@pytest.mark.parametrize(
    ("retries", "attempts"), [("0", 1), ("2", 3), (" 7 ", 8), ("-1", 5), ("lots", 5), ("", 5), ("²", 5)]
)
def test_the_number_of_retries_is_a_property_and_four_without_it(retries: str, attempts: int) -> None:
    run = Run(Scripted(*[somebody_is_faster] * 20, **{"commit.retry.num-retries": retries}))
    with pytest.raises(CommitConflict) as failure:
        run((ONE, setting(a="1")))
    assert len(run.catalog.commits) == attempts
    assert f"others were faster {attempts} times: somebody was faster" in str(failure.value)
    assert "shop.one" in str(failure.value)
    assert "commit.retry.num-retries" in str(failure.value)


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_pauses_double_up_to_a_limit_and_are_spread_by_chance(chance: float, share: float) -> None:
    properties = {
        "commit.retry.num-retries": "6",
        "commit.retry.min-wait-ms": "200",
        "commit.retry.max-wait-ms": "1000",
    }
    run = Run(Scripted(*[somebody_is_faster] * 6, **properties), chance=chance)
    run((ONE, setting(a="1")))
    assert run.pauses == [pytest.approx(each * share) for each in (0.2, 0.4, 0.8, 1.0, 1.0, 1.0)]


def test_a_thousand_retries_do_not_overflow_the_pause() -> None:
    properties = {"commit.retry.num-retries": "1500", "commit.retry.total-timeout-ms": "999999999999"}
    run = Run(Scripted(*[somebody_is_faster] * 1500, **properties))
    assert run((ONE, setting(a="1"))).attempts == 1501
    assert max(run.pauses) == 60


def test_when_the_time_is_up_there_is_no_other_attempt() -> None:
    properties = {
        "commit.retry.num-retries": "100",
        "commit.retry.min-wait-ms": "1000",
        "commit.retry.total-timeout-ms": "5000",
    }
    run = Run(Scripted(*[somebody_is_faster] * 100, **properties))
    with pytest.raises(CommitConflict):
        run((ONE, setting(a="1")))
    assert run.pauses == [1.0, 2.0, 4.0]


def test_a_lost_answer_to_a_change_that_landed_is_no_second_change() -> None:
    run = Run(Scripted(lands_without_answer))
    done = run((ONE, setting(a="1")))
    assert (len(run.catalog.commits), done.attempts, run.pauses) == (1, 1, [])
    assert done.entries[0] == run.catalog.entries[ONE]


def test_a_change_may_land_late() -> None:
    run = Run(Scripted(is_lost))
    catalog = run.catalog
    catalog.before_load = [lambda: None] * 3 + [lambda: catalog.somebody_sets(a="1")]
    assert table(run((ONE, setting(a="1"))).entries[0]).properties["a"] == "1"
    assert run.pauses == [1.0, 2.0]


@pytest.mark.parametrize(
    ("properties", "pauses"),
    [
        ({}, [1, 2, 4]),
        ({"num-retries": "0"}, []),
        ({"num-retries": "2", "min-wait-ms": "10", "max-wait-ms": "15"}, [0.01, 0.015]),
        ({"num-retries": "9", "total-timeout-ms": "3000"}, [1, 2]),
        ({"num-retries": "²", "total-timeout-ms": "0"}, []),
    ],
)
def test_a_change_that_is_not_seen_is_unknown_and_not_made_again(
    properties: dict[str, str], pauses: list[float]
) -> None:
    run = Run(Scripted(is_lost, **{f"commit.status-check.{key}": value for key, value in properties.items()}))
    with pytest.raises(OutcomeUnknown) as failure:
        run((ONE, setting(a="1")))
    assert len(run.catalog.commits) == 1
    assert run.pauses == [pytest.approx(pause) for pause in pauses]
    assert "shop.one: the line went dead. Look at the history" in str(failure.value)


def test_a_change_that_somebody_undid_is_unknown() -> None:
    run = Run(Scripted(lands_without_answer))
    run.catalog.before_load = [lambda: None, lambda: run.catalog.somebody_sets(a="2")]
    with pytest.raises(OutcomeUnknown):
        run((ONE, setting(a="1")))
    assert len(run.catalog.commits) == 1
    assert table(run.catalog.entries[ONE]).properties["a"] == "2"


def test_a_snapshot_that_others_have_built_upon_has_landed() -> None:
    run = Run(Scripted(lands_without_answer))

    def others() -> None:
        requirements, updates = appending(2)(run.catalog.entries[ONE])
        run.catalog.apply([Change("table", ONE, tuple(requirements), tuple(updates))])

    run.catalog.before_load = [lambda: None, others]
    done = run((ONE, appending(1)))
    assert [each.snapshot_id for each in table(done.entries[0]).snapshots] == [1, 2]
    assert len(run.catalog.commits) == 1


@pytest.mark.parametrize(
    "error", [StorageError("503"), CatalogUnavailable("503"), NotFound("gone"), OutcomeUnknown("again")]
)
def test_trouble_while_looking_does_not_make_the_unknown_known(error: Exception) -> None:
    """A StorageError came out of a commit that had landed; it says that nothing has happened."""
    run = Run(Scripted(lands_without_answer))

    def fail() -> None:
        raise error

    run.catalog.before_load = [lambda: None, *[fail] * 4]
    with pytest.raises(OutcomeUnknown, match="the line went dead"):
        run((ONE, setting(a="1")))
    run = Run(Scripted(lands_without_answer))
    run.catalog.before_load = [lambda: None, *[fail] * 3]
    assert run((ONE, setting(a="1"))).attempts == 1


def test_several_tables_are_one_commit_and_all_are_proposed_anew() -> None:
    run = Run(Scripted(somebody_is_faster))
    done = run((ONE, setting(a="1")), (TWO, setting(b="2")))
    assert [len(changes) for changes in run.catalog.commits] == [2, 2]
    assert [entry.name for entry in done.entries] == [ONE, TWO]
    assert table(done.entries[0]).properties["theirs-1"] == "1"


def test_of_several_tables_all_must_show_a_change_whose_answer_was_lost() -> None:
    run = Run(Scripted(lands_without_answer))
    run.catalog.before_load = [lambda: None] * 2 + [lambda: run.catalog.somebody_removes("b", name=TWO)]
    with pytest.raises(OutcomeUnknown, match=r"shop\.one, shop\.two"):
        run((ONE, setting(a="1")), (TWO, setting(b="2")))
    assert len(run.catalog.commits) == 1


def test_the_properties_of_the_first_table_set_the_rhythm() -> None:
    catalog = Scripted(*[somebody_is_faster] * 9)
    catalog.somebody_sets(ONE, **{"commit.retry.num-retries": "1"})
    catalog.somebody_sets(TWO, **{"commit.retry.num-retries": "8"})
    with pytest.raises(CommitConflict, match="2 times"):
        Run(catalog)((ONE, setting(a="1")), (TWO, setting(a="1")))
