"""Catalogs that keep pointers: what becomes of the files when a swap is lost, or its answer is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.catalog import Change, Committed, Conflict, Outcome, Unknown
from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.names import Name
from lakeplane.catalog.pointer_catalog import PointerCatalog
from lakeplane.catalog.pointers import Swap
from lakeplane.errors import (
    AlreadyExists,
    CatalogUnavailable,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.requirements import AssertCreate, AssertRefSnapshotId
from lakeplane.model.location import parse_location
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.catalog_subject import (
    a_table,
    a_view,
    append,
    appended,
    change,
    changed,
    committed,
    make,
    metadata_files,
    property_set,
    table_of,
    table_updates,
    view_of,
    view_updates,
)
from lakeplane.testing.faults import (
    Crash,
    Fail,
    FailAfter,
    FaultStore,
    Operation,
    Script,
    count_steps,
    every_failure,
)
from tests.catalog.test_conformance import REAL

if TYPE_CHECKING:
    from lakeplane.catalog.pointers import Pointers
    from lakeplane.storage.store import Store

SHOP = ("shop",)
ORDERS, LINES, TOTALS = Name(SHOP, "orders"), Name(SHOP, "lines"), Name(SHOP, "totals")
DELETING = {
    "write.metadata.previous-versions-max": "1",
    "write.metadata.delete-after-commit.enabled": "true",
}
Do = Callable[[], object]


class Troubled(MemoryPointers):
    """Pointers whose next swap goes wrong: before, instead of or after it, and with what others do then."""

    def __init__(self) -> None:
        super().__init__()
        self.before_swap: Do | None = None
        self.after_swap: Do | None = None
        self.instead: LakeplaneError | None = None
        self.lost: LakeplaneError | None = None
        self.unreachable = False
        self.last_swaps: Sequence[Swap] = ()

    def swap(self, swaps: Sequence[Swap]) -> bool:
        before, after, instead, lost = self.before_swap, self.after_swap, self.instead, self.lost
        self.before_swap = self.after_swap = self.instead = self.lost = None
        self.last_swaps = swaps
        if before is not None:
            before()
        if instead is not None:
            raise instead
        done = super().swap(swaps)
        if after is not None:
            after()
        if lost is not None:
            raise lost
        return done

    def get(self, kind: object, name: Name) -> str | None:
        if self.unreachable:
            raise CatalogUnavailable("the database is gone")
        return super().get(kind, name)  # type: ignore[arg-type]


def catalog_on(pointers: Pointers, store: Store) -> PointerCatalog:
    warehouse = parse_location("memory://lake/wh")
    return PointerCatalog(pointers, warehouse=warehouse, open_store=lambda _: store, surroundings=REAL)


def a_shop(
    versions: int = 1, properties: dict[str, str] | None = None
) -> tuple[Troubled, MemoryStore, PointerCatalog]:
    pointers, store = Troubled(), MemoryStore()
    catalog = catalog_on(pointers, store)
    catalog.create_namespace(SHOP, {})
    for name in (ORDERS, LINES):
        a_table(catalog, name, properties=properties)
        for number in range(2, versions + 1):
            changed(catalog, name, property_set("version", str(number)))
    return pointers, store, catalog


def files(store: MemoryStore) -> set[str]:
    return metadata_files(store, store.root)


def both(value: str = "1") -> list[Change]:
    return [Change("table", name, (), (property_set("a", value),)) for name in (ORDERS, LINES)]


LOST = OutcomeUnknown("the connection broke during COMMIT")


# The answer of the swap was lost


def test_a_swap_that_landed_is_a_commit_though_its_answer_was_lost() -> None:
    pointers, _, catalog = a_shop()
    pointers.lost = LOST
    entry = changed(catalog, ORDERS, property_set("a", "1"))
    assert catalog.load("table", ORDERS) == entry


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_swap_that_landed_is_a_commit_though_others_went_on_from_there(times: int) -> None:
    pointers, _, catalog = a_shop()

    def others() -> None:
        for _ in range(times):
            appended(catalog, ORDERS)

    pointers.lost, pointers.after_swap = LOST, others
    committed(change(catalog, ORDERS, property_set("a", "1")))
    assert len(table_of(catalog, ORDERS).snapshots) == times
    assert table_of(catalog, ORDERS).properties["a"] == "1"


@pytest.mark.parametrize("what", ["nothing", "others"])
def test_a_swap_that_may_yet_land_is_unknown_and_its_files_stay(what: str) -> None:
    """Iceberg deleted them, the commit landed, and the table was lost (apache/iceberg#2317)."""
    pointers, store, catalog = a_shop()
    before = files(store)
    pointers.instead = LOST
    if what == "others":
        pointers.before_swap = lambda: appended(catalog, LINES)
    outcome = catalog.commit(both())
    assert isinstance(outcome, Unknown)
    assert len(files(store) - before) == (2 if what == "nothing" else 3)
    table_of(catalog, ORDERS)


def test_a_swap_that_lands_late_finds_its_files() -> None:
    pointers, _, catalog = a_shop()
    pointers.instead = LOST
    assert isinstance(catalog.commit(both()), Unknown)
    assert pointers.swap(pointers.last_swaps)
    assert [table_of(catalog, name).properties["a"] for name in (ORDERS, LINES)] == ["1", "1"]


def test_a_swap_whose_log_was_cut_is_unknown() -> None:
    """It landed, but so many others did since that the table does not tell: nothing may be deleted."""
    pointers, store, catalog = a_shop(properties={"write.metadata.previous-versions-max": "2"})

    def others() -> None:
        for _ in range(4):
            appended(catalog, ORDERS)

    pointers.lost, pointers.after_swap = LOST, others
    before = files(store)
    assert isinstance(change(catalog, ORDERS, property_set("a", "1")), Unknown)
    assert len(files(store) - before) == 5


@pytest.mark.parametrize("how", ["unreachable", "torn metadata", "dropped"])
def test_a_swap_that_cannot_be_looked_into_is_unknown_and_no_failure(how: str) -> None:
    """An error would say that nothing was changed, and the data files of the commit would be deleted."""
    pointers, store, catalog = a_shop()

    def trouble() -> None:
        if how == "unreachable":
            pointers.unreachable = True
        elif how == "dropped":
            catalog.drop("table", ORDERS)
        else:
            appended(catalog, ORDERS)
            store.put(parse_location(catalog.load("table", ORDERS).metadata_location), b"{ torn")

    pointers.lost, pointers.after_swap = LOST, trouble
    before = files(store)
    assert isinstance(change(catalog, ORDERS, property_set("a", "1")), Unknown)
    assert before < files(store)


def test_a_creation_whose_answer_was_lost() -> None:
    pointers, _, catalog = a_shop()
    new = Name(SHOP, "new")
    pointers.lost = LOST
    made = a_table(catalog, new)
    assert catalog.load("table", new) == made
    catalog.drop("table", new)
    pointers.instead = LOST
    assert isinstance(make(catalog, "table", new, table_updates(catalog, new)), Unknown)
    with pytest.raises(NotFound):
        catalog.load("table", new)


def test_a_view_whose_answer_was_lost() -> None:
    pointers, store, catalog = a_shop()
    a_view(catalog, TOTALS)
    pointers.lost = LOST
    changed(catalog, TOTALS, property_set("a", "1"), kind="view")
    pointers.lost = LOST
    pointers.after_swap = lambda: changed(catalog, TOTALS, property_set("b", "1"), kind="view")
    before = files(store)
    # A view has no log of its metadata files.
    assert isinstance(change(catalog, TOTALS, property_set("c", "1"), kind="view"), Unknown)
    assert len(files(store) - before) == 2
    assert set(view_of(catalog, TOTALS).properties) == {"a", "b", "c"}


def test_a_registration_whose_answer_was_lost() -> None:
    pointers, _, catalog = a_shop()
    file = catalog.load("table", ORDERS).metadata_location
    catalog.drop("table", ORDERS)
    pointers.lost = LOST
    catalog.register("table", ORDERS, file)
    assert catalog.load("table", ORDERS).metadata_location == file
    catalog.drop("table", ORDERS)
    pointers.instead = LOST
    with pytest.raises(OutcomeUnknown):
        catalog.register("table", ORDERS, file)
    pointers.lost = LOST
    pointers.after_swap = lambda: setattr(pointers, "unreachable", True)
    with pytest.raises(OutcomeUnknown):
        catalog.register("table", ORDERS, file)


# The swap was lost, or failed for certain


def test_files_of_a_lost_race_are_deleted() -> None:
    pointers, store, catalog = a_shop()
    pointers.before_swap = lambda: appended(catalog, LINES)
    before = files(store)
    outcome = catalog.commit(both())
    assert isinstance(outcome, Conflict)
    assert len(files(store) - before) == 1, "that of the winner"
    assert "a" not in table_of(catalog, ORDERS).properties
    assert len(table_of(catalog, LINES).snapshots) == 1


@pytest.mark.parametrize("error", [CatalogUnavailable("busy"), NotFound("the namespace is gone")])
def test_files_of_a_refused_swap_are_deleted(error: LakeplaneError) -> None:
    pointers, store, catalog = a_shop()
    before = files(store)
    pointers.instead = error
    with pytest.raises(type(error)):
        catalog.commit(both())
    assert files(store) == before


def test_files_of_changes_before_one_that_does_not_fit_are_deleted() -> None:
    _, store, catalog = a_shop()
    before = files(store)
    first = both()[0]
    assert isinstance(catalog.commit([first, Change("table", LINES, (AssertCreate(),), ())]), Conflict)
    with pytest.raises(NotFound):
        catalog.commit([first, Change("table", Name(SHOP, "missing"), (), ())])
    with pytest.raises(LakeplaneError):
        catalog.commit([first, Change("table", LINES, (), (u.SetCurrentSchema(9),))])
    assert files(store) == before


def test_a_creation_that_lost_its_name_to_another_kind_is_a_conflict() -> None:
    pointers, store, catalog = a_shop()
    updates = table_updates(catalog, TOTALS)
    pointers.before_swap = lambda: a_view(catalog, TOTALS)
    before = files(store)
    assert isinstance(make(catalog, "table", TOTALS, updates), Conflict)
    assert len(files(store) - before) == 1
    assert catalog.names("view", SHOP) == [TOTALS]


def test_a_deletion_that_fails_only_warns(caplog: pytest.LogCaptureFixture) -> None:
    pointers, store, _ = a_shop()
    faulty = FaultStore(store, Script(Fail("denied"), name="delete", for_ever=True))
    catalog = catalog_on(pointers, faulty)
    pointers.before_swap = lambda: appended(catalog, LINES)
    assert isinstance(catalog.commit(both()), Conflict)
    assert len(caplog.records) == 2
    assert all("left behind" in record.message for record in caplog.records)


def test_old_files_that_cannot_be_deleted_are_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    pointers, store, _ = a_shop(4, DELETING)
    faulty = FaultStore(store, Script(Fail("trouble"), name="delete", for_ever=True))
    changed(catalog_on(pointers, faulty), ORDERS, property_set("a", "1"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_log_with_odd_places_does_not_turn_a_commit_into_a_failure() -> None:
    """After the swap nothing may fail; and files of another table are not ours to delete."""
    _, store, catalog = a_shop(3, DELETING)
    foreign = catalog.load("table", LINES).metadata_location
    entry = catalog.load("table", ORDERS)
    at = parse_location(entry.metadata_location)
    document = json.loads(store.read(at))
    log = [{"timestamp-ms": 1, "metadata-file": file} for file in ("a/../b", "", "file://host/x", foreign)]
    document["metadata-log"] = log
    store.put(at, json.dumps(document).encode())
    changed(catalog, ORDERS, property_set("a", "1"))
    assert table_of(catalog, LINES).properties["version"] == "3"


# Writing the metadata files


def test_a_file_whose_answer_was_lost_is_written_once() -> None:
    pointers, store, _ = a_shop()
    catalog = catalog_on(pointers, FaultStore(store, Script(FailAfter(), name="put")))
    before = files(store)
    changed(catalog, ORDERS, property_set("a", "1"))
    assert len(files(store) - before) == 1


def test_a_file_that_is_never_written_is_a_failure_and_not_unknown() -> None:
    """Nothing names it, whether it is there or not: the commit has not happened, and never will."""
    pointers, store, whole = a_shop()
    for fault in (Fail("unknown"), FailAfter(), Fail("full")):
        catalog = catalog_on(pointers, FaultStore(store, Script(fault, name="put", for_ever=True)))
        outcome: object = None
        try:
            outcome = change(catalog, ORDERS, property_set("a", "1"))
        except StorageError:
            assert "a" not in table_of(whole, ORDERS).properties
        else:
            assert isinstance(outcome, Committed)
            changed(whole, ORDERS, u.RemoveProperties(("a",)))


def test_a_store_without_put_if_absent_is_enough() -> None:
    """The pointers decide; the files have names that nobody else has."""
    store = MemoryStore(can_put_if_absent=False, can_put_if_match=False)
    catalog = catalog_on(MemoryPointers(), store)
    catalog.create_namespace(SHOP, {})
    a_table(catalog, ORDERS)
    appended(catalog, ORDERS)
    assert len(files(store)) == 2


def test_files_count_up() -> None:
    _, _, catalog = a_shop(3)
    names = [each.metadata_file.rsplit("/", 1)[-1] for each in table_of(catalog, ORDERS).metadata_log]
    names.append(catalog.load("table", ORDERS).metadata_location.rsplit("/", 1)[-1])
    assert [name.partition("-")[0] for name in names] == ["00000", "00001", "00002"]


@pytest.mark.parametrize("properties", [{}, DELETING], ids=["keeping", "deleting"])
def test_a_commit_tells_the_truth_whichever_step_fails(properties: dict[str, str]) -> None:
    def run(pointers: Pointers, store: Store) -> Outcome:
        return catalog_on(pointers, store).commit(both())

    fresh = a_shop(3, properties)
    steps = count_steps(lambda store: run(fresh[0], store), fresh[1])
    for script in every_failure(steps):
        pointers, store, whole = a_shop(3, properties)
        said: object = None
        try:
            said = run(pointers, FaultStore(store, script))
        except (OutcomeUnknown, Crash):
            pass
        except LakeplaneError as error:
            said = error
        there = {table_of(whole, name).properties.get("a") for name in (ORDERS, LINES)}
        assert len(there) == 1, "both or none"
        if isinstance(said, Committed):
            assert there == {"1"}, script
        elif isinstance(said, Conflict | LakeplaneError):
            assert there == {None}, script
        appended(whole, ORDERS)


# Other rules


def test_two_changes_of_one_name_are_refused() -> None:
    _, store, catalog = a_shop()
    before = files(store)
    change_of_view = Change("view", ORDERS, (AssertCreate(),), view_updates(catalog, ORDERS))
    for second in (both("2")[0], change_of_view):
        with pytest.raises(InvalidInput):
            catalog.commit([both()[0], second])
    assert files(store) == before


def test_a_commit_of_nothing_is_done() -> None:
    pointers, store, catalog = a_shop()
    pointers.instead = CatalogUnavailable("must not be asked")
    before = files(store)
    assert catalog.commit([]) == Committed(())
    changed(catalog, ORDERS, u.RemoveProperties(("never set",)))
    assert files(store) == before


def test_a_namespace_says_where_its_tables_go() -> None:
    _, _, catalog = a_shop()
    catalog.create_namespace(("far",), {"location": "memory://lake/far/away/"})
    assert str(catalog.default_location("table", Name(("far",), "t"))) == "memory://lake/far/away/t"
    assert str(catalog.default_location("view", ORDERS)) == "memory://lake/wh/shop/orders"


def test_renaming_does_not_reach_the_files_of_the_other_name() -> None:
    """A dropped table must not take along what a renamed one has in the directory of its old name."""
    _, store, catalog = a_shop(3, DELETING)
    new = Name(SHOP, "renamed")
    catalog.rename("table", ORDERS, new)
    a_table(catalog, ORDERS, properties=DELETING)
    for _ in range(3):
        appended(catalog, ORDERS)
    catalog.drop("table", ORDERS)
    assert table_of(catalog, new).properties["version"] == "3"
    appended(catalog, new)
    with pytest.raises(AlreadyExists):
        catalog.rename("table", new, LINES)
    assert files(store)


def test_what_a_change_without_effect_requires_holds_when_the_others_are_made() -> None:
    """A transaction was committed though somebody else had changed a table that it had only looked at."""
    pointers, _, catalog = a_shop()
    unmoved = AssertRefSnapshotId("main", None)
    looked_at = Change("table", ORDERS, (unmoved,), (), catalog.load("table", ORDERS))
    for overtaken in (False, True):
        if overtaken:
            pointers.before_swap = lambda: appended(catalog, ORDERS)
        moved = Change("table", LINES, (), (property_set("overtaken", str(overtaken)),))
        assert isinstance(catalog.commit([looked_at, moved]), Conflict if overtaken else Committed)
    assert table_of(catalog, LINES).properties["overtaken"] == "False"


def test_a_plan_sees_only_whole_writes() -> None:
    """The metadata file is there before the pointer names it."""
    pointers, store, _ = a_shop()
    seen: list[Operation] = []

    class Watch:
        def fault_for(self, operation: Operation) -> None:
            seen.append(operation)

    catalog = catalog_on(pointers, FaultStore(store, Watch()))
    pointers.before_swap = lambda: seen.append(Operation("stat", store.root))
    requirements, updates, _ = append(table_of(catalog, ORDERS))
    seen.clear()
    changed(catalog, ORDERS, *updates, requirements=requirements)
    assert [operation.name for operation in seen] == ["read", "put", "stat"]


def test_a_table_that_changes_faster_than_it_is_read_is_not_broken() -> None:
    """Readers were told to restore a metadata file that was deleted as its table wished."""
    pointers, store, whole = a_shop(3, DELETING)
    meanwhile: list[Do] = []

    class Meanwhile:
        def fault_for(self, operation: Operation) -> None:
            if operation.name == "read" and meanwhile:
                meanwhile.pop()()

    slow = catalog_on(pointers, FaultStore(store, Meanwhile()))
    meanwhile.append(lambda: [appended(whole, ORDERS) for _ in range(4)])
    assert len(table_of(slow, ORDERS).snapshots) == 4

    def purge() -> None:
        at = parse_location(whole.load("table", ORDERS).metadata_location)
        whole.drop("table", ORDERS)
        store.delete(at)

    meanwhile.append(purge)
    with pytest.raises(NotFound):
        slow.load("table", ORDERS)


def test_a_file_that_another_name_stands_for_is_not_deleted_as_an_old_version() -> None:
    """One table was registered under two names, and a commit to one deleted the metadata of the other."""
    _, _, catalog = a_shop(1, DELETING)
    twin = Name(SHOP, "twin")
    catalog.register("table", twin, catalog.load("table", ORDERS).metadata_location)
    before = table_of(catalog, twin)
    for _ in range(3):
        appended(catalog, ORDERS)
    assert table_of(catalog, twin) == before


def test_a_table_whose_file_is_deleted_while_it_is_registered_is_not_registered() -> None:
    pointers, store, catalog = a_shop(1)
    at, before = parse_location(catalog.load("table", ORDERS).metadata_location), catalog.names("table", SHOP)
    pointers.before_swap = lambda: store.delete(at)
    with pytest.raises(InvalidMetadata, match="deleted while it was being registered"):
        catalog.register("table", Name(SHOP, "twin"), str(at))
    assert catalog.names("table", SHOP) == before
