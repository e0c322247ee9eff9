"""What is special about tables in directories: numbers, hints, listings, holes, and other programs."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.catalog import Change, Committed, Conflict, Outcome, Unknown
from lakeplane.catalog.filesystem import FilesystemCatalog
from lakeplane.catalog.names import Name
from lakeplane.errors import (
    AlreadyExists,
    CommitConflict,
    LakeplaneError,
    NotFound,
    OutcomeUnknown,
)
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.iceberg.requirements import AssertCreate
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.catalog_subject import (
    a_table,
    a_view,
    append,
    appended,
    as_table,
    change,
    changed,
    committed,
    make,
    property_set,
    table_of,
    table_updates,
)
from lakeplane.testing.faults import (
    Crash,
    Die,
    Fail,
    FailAfter,
    Fault,
    FaultStore,
    Operation,
    Script,
    Stale,
    count_steps,
    every_failure,
)
from tests.catalog.test_conformance import REAL

if TYPE_CHECKING:
    from lakeplane.storage.store import Store

SHOP = ("shop",)
ORDERS = Name(SHOP, "orders")
FORGETFUL = {
    "write.metadata.previous-versions-max": "1",
    "write.metadata.delete-after-commit.enabled": "true",
}
ROOT = parse_location("memory://lake")
METADATA = ROOT / "shop/orders/metadata"


def catalog_on(store: Store) -> FilesystemCatalog:
    return FilesystemCatalog(ROOT, store, surroundings=REAL, open_store=lambda _: store)


def a_shop(versions: int = 1, **properties: str) -> tuple[MemoryStore, FilesystemCatalog]:
    """A warehouse with one table of some versions."""
    store = MemoryStore(ROOT)
    catalog = catalog_on(store)
    catalog.create_namespace(SHOP, {})
    a_table(catalog, ORDERS, properties=properties)
    for number in range(2, versions + 1):
        changed(catalog, ORDERS, property_set("version", str(number)))
    return store, catalog


def versions_in(store: Store, under: Location = METADATA) -> list[str]:
    names = [stat.location.name for stat in store.files(under)]
    return sorted(
        (name for name in names if re.match(r"v\d", name)), key=lambda name: int(re.findall(r"\d+", name)[0])
    )


class Meanwhile:
    """A plan in which somebody else does something right before one of our operations."""

    def __init__(
        self, matching: Callable[[Operation], bool], do: Callable[[], object], then: Fault | None = None
    ) -> None:
        self.matching, self.do, self.then, self.done = matching, do, then, False

    def fault_for(self, operation: Operation) -> Fault | None:
        if self.done or not self.matching(operation):
            return None
        self.done = True
        self.do()
        return self.then


def is_put_of(name: str) -> Callable[[Operation], bool]:
    return lambda operation: operation.name == "put" and operation.at.name == name


def is_delete_of(name: str) -> Callable[[Operation], bool]:
    return lambda operation: operation.name == "delete" and operation.at.name == name


# Where the newest version is looked for


@pytest.mark.parametrize(
    "hint",
    [
        b"1",
        b"3",
        b"99",
        b"0",
        b"-1",
        b"",
        b"seven",
        b"5 6",
        b"\xff\xfe",
        b"5" * 500,
        "\uff15".encode(),
        b"5\n",
    ],
)
def test_a_hint_is_only_where_the_search_starts(hint: bytes) -> None:
    store, catalog = a_shop(5)
    store.put(METADATA / "version-hint.text", hint)
    assert table_of(catalog, ORDERS).properties["version"] == "5"
    entry = changed(catalog, ORDERS, property_set("version", "6"))
    assert parse_location(entry.metadata_location).name == "v6.metadata.json"
    assert store.read(METADATA / "version-hint.text") == b"6"


def test_without_a_hint_the_directory_is_listed() -> None:
    store, catalog = a_shop(12)
    store.delete(METADATA / "version-hint.text")
    assert table_of(catalog, ORDERS).properties["version"] == "12", "by number: v9 sorts after v12"
    assert catalog.names("table", SHOP) == [ORDERS]


def test_a_stale_listing_hides_nothing() -> None:
    store, _ = a_shop(2)
    faulty = FaultStore(store)
    catalog = catalog_on(faulty)
    for number in (3, 4, 5):
        changed(catalog, ORDERS, property_set("version", str(number)))
    faulty.delete(METADATA / "version-hint.text")
    for writes in range(1, 7):
        faulty.plan = Script(Stale(writes), name="files", for_ever=True)
        assert table_of(catalog, ORDERS).properties["version"] == "5"


def test_a_listing_that_shows_a_dropped_table_does_not_bring_it_back() -> None:
    store, _ = a_shop(3)
    faulty = FaultStore(store)
    catalog = catalog_on(faulty)
    catalog.drop("table", ORDERS)
    faulty.plan = Script(Stale(3), name="files", for_ever=True)
    with pytest.raises(NotFound):
        catalog.load("table", ORDERS)
    assert catalog.names("table", SHOP) == []


def test_a_drop_finds_versions_that_a_stale_listing_hides() -> None:
    """With a version left behind, a dropped table would be back in an old state."""
    store = MemoryStore(ROOT)
    faulty = FaultStore(store)
    catalog = catalog_on(faulty)
    catalog.create_namespace(SHOP, {})
    a_table(catalog, ORDERS)
    changed(catalog, ORDERS, property_set("version", "2"))
    changed(catalog, ORDERS, property_set("version", "3"))
    faulty.plan = Script(Stale(7), name="files", for_ever=True)
    catalog.drop("table", ORDERS)
    assert versions_in(store) == []


@pytest.mark.parametrize("suffix", ["gz.metadata.json", "metadata.json.gz"])
def test_gzipped_versions_are_found_under_both_names(suffix: str) -> None:
    store, catalog = a_shop(2)
    plain = METADATA / "v2.metadata.json"
    store.put(METADATA / f"v2.{suffix}", gzip.compress(store.read(plain)))
    store.delete(plain)
    entry = catalog.load("table", ORDERS)
    assert parse_location(entry.metadata_location).name == f"v2.{suffix}"
    after = as_table(changed(catalog, ORDERS, property_set("version", "3")))
    assert after.metadata_log[-1].metadata_file == entry.metadata_location
    assert table_of(catalog, ORDERS).properties["version"] == "3"


def test_writers_with_different_compression_race_for_the_same_file() -> None:
    """Under two names both would win, and one commit be lost."""
    store, catalog = a_shop(1)
    gzipped = property_set("write.metadata.compression-codec", "gzip")
    late = catalog_on(
        FaultStore(store, Meanwhile(is_put_of("v2.metadata.json"), lambda: changed(catalog, ORDERS, gzipped)))
    )
    assert isinstance(change(late, ORDERS, property_set("late", "1")), Conflict)
    late = catalog_on(
        FaultStore(
            store,
            Meanwhile(
                is_put_of("v3.gz.metadata.json"),
                lambda: changed(catalog, ORDERS, property_set("write.metadata.compression-codec", "none")),
            ),
        )
    )
    assert isinstance(change(late, ORDERS, property_set("late", "1")), Conflict)
    changed(late, ORDERS, property_set("late", "1"))
    assert versions_in(store) == [
        "v1.metadata.json",
        "v2.metadata.json",
        "v3.gz.metadata.json",
        "v4.metadata.json",
    ]


# Holes: numbers that are free because they were used and deleted


def overtaken(store: MemoryStore, times: int) -> Callable[[], object]:
    def do() -> None:
        for _ in range(times):
            appended(catalog_on(store), ORDERS)

    return do


@pytest.mark.parametrize("times", [1, 2, 3, 4, 7])
def test_a_writer_that_was_overtaken_does_not_win_in_a_hole(times: int) -> None:
    """Iceberg's own HadoopCatalog publishes here, and readers with an old hint see a table of the past."""
    store, catalog = a_shop(3, **FORGETFUL)
    late = catalog_on(FaultStore(store, Meanwhile(is_put_of("v4.metadata.json"), overtaken(store, times))))
    requirements, updates, _ = append(table_of(catalog, ORDERS))
    assert isinstance(change(late, ORDERS, *updates), Conflict), requirements
    assert len(table_of(catalog, ORDERS).snapshots) == times
    newest = 3 + times
    assert versions_in(store) == [f"v{newest - 1}.metadata.json", f"v{newest}.metadata.json"]


def test_a_writer_that_dies_in_a_hole_leaves_nothing_that_counts() -> None:
    store, catalog = a_shop(3, **FORGETFUL)
    plan = Meanwhile(is_put_of("v4.metadata.json"), overtaken(store, 5), Die(after=True))
    with pytest.raises(Crash):
        change(catalog_on(FaultStore(store, plan)), ORDERS, property_set("dead", "1"))
    assert "v4.metadata.json" in versions_in(store)
    for hint in (b"8", b"2", b"", b"99"):
        store.put(METADATA / "version-hint.text", hint)
        assert len(table_of(catalog, ORDERS).snapshots) == 5
    appended(catalog, ORDERS)
    assert versions_in(store) == ["v8.metadata.json", "v9.metadata.json"]


def test_a_lost_answer_is_no_conflict_when_others_went_on_from_there() -> None:
    """Our version landed, others built on it, and deleted it and what was before it."""
    store, catalog = a_shop(3, **FORGETFUL)
    _, updates, snapshot_id = append(table_of(catalog, ORDERS))

    def is_look(operation: Operation) -> bool:
        return operation.name == "stat" and operation.at.name == "v3.metadata.json" and landed()

    def landed() -> bool:
        return "v4.metadata.json" in versions_in(store)

    late = catalog_on(FaultStore(store, Meanwhile(is_look, overtaken(store, 4))))
    committed(change(late, ORDERS, *updates))
    assert snapshot_id in table_of(catalog, ORDERS).snapshots_by_id
    assert len(table_of(catalog, ORDERS).snapshots) == 5


def others_make(store: MemoryStore, commits: int) -> Callable[[], object]:
    def do() -> None:
        catalog = catalog_on(store)
        a_table(catalog, ORDERS, properties=FORGETFUL)
        for _ in range(commits):
            appended(catalog, ORDERS)

    return do


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_late_creation_does_not_bury_the_table_that_others_made(commits: int, *, dropped: bool) -> None:
    """The number of a first version was free again, and with it a table took the place of one with rows."""
    store, catalog = a_shop(2)
    catalog.drop("table", ORDERS)
    if dropped:
        a_table(catalog, ORDERS)
        catalog.drop("table", ORDERS)
    first = "v4.metadata.json" if dropped else "v3.metadata.json"
    late = catalog_on(FaultStore(store, Meanwhile(is_put_of(first), others_make(store, commits))))
    assert isinstance(make(late, "table", ORDERS, table_updates(late, ORDERS)), Conflict)
    assert len(table_of(catalog, ORDERS).snapshots) == commits
    appended(catalog, ORDERS)
    assert len(table_of(catalog, ORDERS).snapshots) == commits + 1


KINDS: dict[str, tuple[Callable[[Operation], bool], Callable[[FilesystemCatalog], object]]] = {
    "table": (is_put_of("v1.metadata.json"), lambda catalog: a_table(catalog, ORDERS)),
    "view": (is_put_of("v1.view.json"), lambda catalog: a_view(catalog, ORDERS)),
    "namespace": (is_put_of("v1.json"), lambda catalog: catalog.create_namespace(ORDERS.parts, {"a": "b"})),
}


@pytest.mark.parametrize(("early", "late"), list(itertools.permutations(KINDS, 2)))
def test_a_name_is_given_once_also_to_different_kinds_at_once(early: str, late: str) -> None:
    """Each is another file: both were acknowledged, and a namespace was hidden by a table."""
    store = MemoryStore(ROOT)
    catalog = catalog_on(store)
    catalog.create_namespace(SHOP, {})
    moment, make_late = KINDS[late]
    slow = catalog_on(FaultStore(store, Meanwhile(moment, lambda: KINDS[early][1](catalog))))
    with pytest.raises((AssertionError, AlreadyExists)):
        make_late(slow)
    found = {"table": catalog.names("table", SHOP), "view": catalog.names("view", SHOP)}
    assert [kind for kind, names in found.items() if names] == ([early] if early in found else [])
    assert (ORDERS.parts in catalog.namespaces(SHOP)) == (early == "namespace")
    with pytest.raises((AssertionError, AlreadyExists)):
        make_late(catalog)


def test_a_creation_that_others_went_on_from_is_there() -> None:
    store, catalog = a_shop(2)
    catalog.drop("table", ORDERS)

    def is_look(operation: Operation) -> bool:
        return operation.name == "stat" and versions_in(store) == ["v3.metadata.json"]

    late = catalog_on(FaultStore(store, Meanwhile(is_look, overtaken(store, 4))))
    a_table(late, ORDERS, properties=FORGETFUL)
    assert len(table_of(catalog, ORDERS).snapshots) == 4


def test_a_table_that_changes_faster_than_it_is_read_is_not_broken() -> None:
    """Readers were told to restore a metadata file that was deleted as its table wished."""
    store, catalog = a_shop(3, **FORGETFUL)

    def is_read(operation: Operation) -> bool:
        return operation.name == "read" and operation.at.name == "v3.metadata.json"

    slow = catalog_on(FaultStore(store, Meanwhile(is_read, overtaken(store, 4))))
    assert len(table_of(slow, ORDERS).snapshots) == 4
    changed(catalog, ORDERS, property_set("write.metadata.delete-after-commit.enabled", "false"))
    newest = versions_in(store)[-1]
    drop = Meanwhile(
        lambda operation: operation.name == "read" and operation.at.name == newest,
        lambda: catalog.drop("table", ORDERS),
    )
    with pytest.raises(NotFound):
        catalog_on(FaultStore(store, drop)).load("table", ORDERS)


# Drops, and what others do meanwhile


def test_a_drop_does_not_take_a_commit_along_that_landed_during_it() -> None:
    store, catalog = a_shop(3)
    at_first = Meanwhile(is_delete_of("v1.metadata.json"), overtaken(store, 1))
    with pytest.raises(CommitConflict):
        catalog_on(FaultStore(store, at_first)).drop("table", ORDERS)
    assert len(table_of(catalog, ORDERS).snapshots) == 1
    at_last = Meanwhile(is_delete_of("v4.metadata.json"), overtaken(store, 1))
    with pytest.raises(CommitConflict):
        catalog_on(FaultStore(store, at_last)).drop("table", ORDERS)
    assert len(table_of(catalog, ORDERS).snapshots) == 2
    catalog.drop("table", ORDERS)
    assert versions_in(store) == []


def test_a_commit_does_not_bring_back_what_was_dropped_meanwhile() -> None:
    store, catalog = a_shop(3)
    plan = Meanwhile(is_put_of("v4.metadata.json"), lambda: catalog.drop("table", ORDERS))
    assert isinstance(change(catalog_on(FaultStore(store, plan)), ORDERS, property_set("a", "1")), Conflict)
    with pytest.raises(NotFound):
        catalog.load("table", ORDERS)
    assert versions_in(store) == []


@pytest.mark.parametrize("versions", [1, 2, 3, 4, 6])
def test_a_commit_to_a_dropped_table_does_not_replace_the_new_one_of_that_name(versions: int) -> None:
    """The number after the old version was free in the new table, and the old table was there again."""
    store, catalog = a_shop(3)

    def drop_and_make() -> None:
        catalog.drop("table", ORDERS)
        a_table(catalog, ORDERS)
        for number in range(1, versions):
            changed(catalog, ORDERS, property_set("new", str(number)))

    for plan in (Meanwhile(is_put_of("v4.metadata.json"), drop_and_make),):
        outcome = change(catalog_on(FaultStore(store, plan)), ORDERS, property_set("old", "1"))
        assert isinstance(outcome, Conflict)
    new = table_of(catalog, ORDERS)
    assert len(new.metadata_log) == versions - 1
    assert "old" not in new.properties


def test_a_commit_notices_another_table_in_the_place_of_its_base() -> None:
    """As above, made by a program that counts from one again."""
    store, catalog = a_shop(1)
    other = serialize_metadata(as_table(a_table(catalog, Name(SHOP, "other"))))
    at = METADATA / "v1.metadata.json"
    plan = Meanwhile(is_put_of("v2.metadata.json"), lambda: store.put(at, other))
    assert isinstance(change(catalog_on(FaultStore(store, plan)), ORDERS, property_set("a", "1")), Conflict)
    assert versions_in(store) == ["v1.metadata.json"]


def test_a_slow_drop_does_not_hit_the_next_table_of_that_name() -> None:
    store, catalog = a_shop(3)

    def drop_and_make() -> None:
        catalog.drop("table", ORDERS)
        a_table(catalog, ORDERS, properties={"is": "new"})
        changed(catalog, ORDERS, property_set("b", "2"))

    plan = Meanwhile(is_delete_of("v1.metadata.json"), drop_and_make)
    with pytest.raises(CommitConflict):
        catalog_on(FaultStore(store, plan)).drop("table", ORDERS)
    assert table_of(catalog, ORDERS).properties["is"] == "new"
    plan = Meanwhile(is_delete_of("v5.metadata.json"), drop_and_make)
    catalog_on(FaultStore(store, plan)).drop("table", ORDERS)
    assert table_of(catalog, ORDERS).properties["is"] == "new"


def test_slow_cleaning_does_not_hit_the_next_table_of_that_name() -> None:
    store, catalog = a_shop(4, **FORGETFUL)

    def drop_and_make() -> None:
        catalog.drop("table", ORDERS)
        for _ in range(3):
            a_table(catalog, ORDERS, properties={"is": "new"})
            catalog.drop("table", ORDERS)
        a_table(catalog, ORDERS, properties={"is": "new"})

    plan = Meanwhile(is_delete_of("v3.metadata.json"), drop_and_make)
    committed(change(catalog_on(FaultStore(store, plan)), ORDERS, property_set("a", "1")))
    assert table_of(catalog, ORDERS).properties["is"] == "new"


def test_a_dropped_table_can_be_registered_again_from_its_copy() -> None:
    store, catalog = a_shop(3)
    before = table_of(catalog, ORDERS)
    catalog.drop("table", ORDERS)
    [copy] = [str(stat.location) for stat in store.files(METADATA)]
    catalog.register("table", ORDERS, copy)
    assert table_of(catalog, ORDERS) == before
    changed(catalog, ORDERS, property_set("again", "1"))
    catalog.drop("table", ORDERS)
    assert versions_in(store) == []


# Lost answers and failures at every step


def test_a_lost_answer_is_looked_into() -> None:
    store, catalog = a_shop(1)
    landed = catalog_on(FaultStore(store, Script(FailAfter(), matching=is_put_of("v2.metadata.json"))))
    committed(change(landed, ORDERS, property_set("a", "1")))
    lost = FaultStore(store, Script(Fail("unknown"), matching=is_put_of("v3.metadata.json")))
    assert isinstance(change(catalog_on(lost), ORDERS, property_set("b", "1")), Unknown)
    assert versions_in(store) == ["v1.metadata.json", "v2.metadata.json"]
    both = Meanwhile(is_put_of("v3.metadata.json"), overtaken(store, 1), Fail("unknown"))
    assert isinstance(change(catalog_on(FaultStore(store, both)), ORDERS, property_set("c", "1")), Conflict)
    assert "c" not in table_of(catalog, ORDERS).properties


def test_a_commit_that_landed_is_no_failure_because_something_after_it_failed() -> None:
    """Whoever is told that a commit failed deletes the data files that were written for it."""
    store, catalog = a_shop(3, **FORGETFUL)

    for fault in (Fail("trouble"), Fail("denied"), FailAfter(), Fail("unknown")):
        for nth in range(1, 12):
            before = versions_in(store)[-1]
            faulty = FaultStore(
                store,
                Script(fault, nth, matching=lambda _, before=before: versions_in(store)[-1] != before),  # type: ignore[misc]
            )
            _, updates, snapshot_id = append(table_of(catalog, ORDERS))
            outcome = change(catalog_on(faulty), ORDERS, *updates)
            assert isinstance(outcome, Committed | Unknown)
            assert snapshot_id in table_of(catalog, ORDERS).snapshots_by_id


def test_a_log_with_odd_places_does_not_turn_a_commit_into_a_failure() -> None:
    store, catalog = a_shop(2, **FORGETFUL)
    document = json.loads(store.read(METADATA / "v2.metadata.json"))
    document["metadata-log"][0]["metadata-file"] = "relative/../path"
    document["properties"]["write.metadata.previous-versions-max"] = "9"
    store.put(METADATA / "v2.metadata.json", json.dumps(document).encode())
    changed(catalog, ORDERS, property_set("a", "1"))
    assert versions_in(store) == [f"v{number}.metadata.json" for number in (1, 2, 3)]


def _fails_at_every_step(properties: dict[str, str], run: Callable[[FilesystemCatalog], object]) -> int:
    """Fail a task at each step; what it says about itself must be true, and the table must load."""

    def fresh() -> MemoryStore:
        return a_shop(3, **properties)[0]

    count = 0
    for script in every_failure(count_steps(lambda store: run(catalog_on(store)), fresh())):
        store = fresh()
        before = _state(store)
        said: object
        try:
            said = run(catalog_on(FaultStore(store, script)))
        except (LakeplaneError, Crash) as error:
            said = error
        after = _state(store)
        if isinstance(said, Conflict | LakeplaneError) and not isinstance(said, OutcomeUnknown):
            assert after == before, (script, said)
        elif isinstance(said, Committed):
            assert after != before, script
        count += 1
    return count


def _state(store: MemoryStore) -> object:
    """What the warehouse holds, without the order of writing."""
    catalog = catalog_on(store)
    if catalog.names("table", SHOP) == []:
        return None
    table = table_of(catalog, ORDERS)
    return table.properties, sorted(table.snapshots_by_id)


@pytest.mark.parametrize("properties", [{}, FORGETFUL], ids=["keeping", "forgetful"])
def test_a_commit_tells_the_truth_whichever_step_fails(properties: dict[str, str]) -> None:
    def run(catalog: FilesystemCatalog) -> Outcome:
        return change(catalog, ORDERS, property_set("a", "1"))

    assert _fails_at_every_step(properties, run) > 50


def test_a_creation_tells_the_truth_whichever_step_fails() -> None:
    name = Name(SHOP, "new")

    def run(store: Store) -> Outcome:
        catalog = catalog_on(store)
        updates = table_updates(catalog, name)
        return catalog.commit([Change("table", name, (AssertCreate(),), updates)])

    for script in every_failure(count_steps(run, a_shop()[0])):
        store, catalog = a_shop()
        try:
            said: object = run(FaultStore(store, script))
        except (OutcomeUnknown, Crash):
            said = None
        except LakeplaneError as error:
            said = error
        there = name in catalog.names("table", SHOP)
        if isinstance(said, Committed):
            assert there, script
        elif said is not None and not isinstance(said, Unknown):
            assert not there, (script, said)


def test_a_drop_that_fails_leaves_the_table_whole_or_gone() -> None:
    for script in every_failure(
        count_steps(lambda store: catalog_on(store).drop("table", ORDERS), a_shop(4)[0])
    ):
        store, catalog = a_shop(4)
        said: BaseException | None = None
        try:
            catalog_on(FaultStore(store, script)).drop("table", ORDERS)
        except (LakeplaneError, Crash) as error:
            said = error
        if catalog.names("table", SHOP):
            assert said is not None, script
            assert table_of(catalog, ORDERS).properties["version"] == "4"
            changed(catalog, ORDERS, property_set("on", "it goes"))
            catalog.drop("table", ORDERS)
        assert versions_in(store) == []
