"""Checks of catalogs: changes, what they require, and what becomes of many at once."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable
from typing import Final

from lakeplane.catalog.catalog import Catalog, Change, Committed, Conflict
from lakeplane.catalog.names import Name
from lakeplane.errors import CatalogCannot, NotFound
from lakeplane.iceberg import requirements as r
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.snapshots import MAIN, Ref
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import LONG, STRING, Field
from lakeplane.testing.catalog_subject import (
    COLUMNS,
    Ability,
    Check,
    Subject,
    a_namespace,
    a_table,
    append,
    appended,
    as_table,
    change,
    changed,
    conflicts,
    property_set,
    refused,
    table_of,
    table_updates,
)

_WRITERS: Final = 4
_COMMITS: Final = 5
_WIDER: Final = Schema((*COLUMNS.fields, Field(3, "added", LONG)))


def _orders(subject: Subject) -> tuple[Catalog, Name]:
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    a_table(catalog, name)
    return catalog, name


def applies_every_update(subject: Subject) -> None:
    """Schema, spec, order, properties, snapshots and refs change together, in one commit."""
    catalog, name = _orders(subject)
    _, snapshot, snapshot_id = append(table_of(catalog, name))
    entry = changed(
        catalog,
        name,
        *snapshot,
        u.AddSchema(_WIDER),
        u.SetCurrentSchema(),
        u.AddPartitionSpec(PartitionSpec(0, (PartitionField((1,), u.UNASSIGNED, "b", Bucket(4)),))),
        u.SetDefaultSpec(),
        u.AddSortOrder(SortOrder(1, (SortField((2,), Identity(), "asc", "nulls-first"),))),
        u.SetDefaultSortOrder(),
        u.SetSnapshotRef("v1", Ref(snapshot_id=snapshot_id, type="tag")),
        property_set("a", "1"),
    )
    table = table_of(subject.connect(), name)
    assert table == entry.metadata
    assert table.schema.same_fields(_WIDER)
    assert len(table.schemas) == len(table.partition_specs) == 2  # noqa: PLR2004
    assert [field.name for field in table.partition_spec.fields] == ["b"]
    assert not table.sort_order.is_unsorted
    assert set(table.refs) == {MAIN, "v1"}
    assert table.current_snapshot_id == snapshot_id
    assert table.properties["a"] == "1"
    changed(catalog, name, u.RemoveProperties(("a", "never set")), u.RemoveSnapshotRef("v1"))
    table = table_of(catalog, name)
    assert "a" not in table.properties
    assert set(table.refs) == {MAIN}


def goes_back_to_old_definitions(subject: Subject) -> None:
    """An old schema, spec or order is taken up again under its old id."""
    catalog, name = _orders(subject)
    first = table_of(catalog, name)
    spec = PartitionSpec(0, (PartitionField((1,), u.UNASSIGNED, "b", Bucket(4)),))
    order = SortOrder(1, (SortField((2,), Identity(), "asc", "nulls-first"),))
    changed(catalog, name, u.AddSchema(_WIDER), u.SetCurrentSchema(), u.AddPartitionSpec(spec))
    changed(catalog, name, u.SetDefaultSpec(1), u.AddSortOrder(order), u.SetDefaultSortOrder())
    changed(catalog, name, u.AddSchema(first.schema), u.SetCurrentSchema())
    changed(catalog, name, u.AddPartitionSpec(first.partition_spec), u.SetDefaultSpec())
    changed(catalog, name, u.AddSortOrder(first.sort_order), u.SetDefaultSortOrder())
    now = table_of(catalog, name)
    assert now.current_schema_id == first.current_schema_id
    assert now.default_spec_id == first.default_spec_id
    assert now.default_sort_order_id == first.default_sort_order_id
    assert len(now.schemas) == len(now.partition_specs) == len(now.sort_orders) == 2  # noqa: PLR2004
    assert now.last_column_id == _WIDER.highest_field_id, "ids of columns are never used again"


def removes_unused_definitions(subject: Subject) -> None:
    """Specs and schemas that nothing uses are removed; the current ones are not."""
    catalog, name = _orders(subject)
    spec = PartitionSpec(0, (PartitionField((1,), u.UNASSIGNED, "b", Bucket(4)),))
    changed(catalog, name, u.AddSchema(_WIDER), u.SetCurrentSchema())
    changed(catalog, name, u.AddPartitionSpec(spec), u.SetDefaultSpec())
    changed(catalog, name, u.RemovePartitionSpecs((0,)), u.RemoveSchemas((0,)))
    now = table_of(catalog, name)
    assert [each.spec_id for each in now.partition_specs] == [now.default_spec_id]
    assert [each.schema_id for each in now.schemas] == [now.current_schema_id]
    _changes_nothing(
        catalog, name, lambda: change(catalog, name, u.RemovePartitionSpecs((now.default_spec_id,)))
    )


def _changes_nothing(catalog: Catalog, name: Name, do: Callable[[], object]) -> None:
    before = catalog.load("table", name)
    refused(do)
    assert catalog.load("table", name) == before


def refuses_changes_that_the_format_forbids(subject: Subject) -> None:
    """An unsound change is refused, and nothing of its commit is there."""
    catalog, name = _orders(subject)
    appended(catalog, name)
    table = table_of(catalog, name)
    [snapshot] = table.snapshots
    no_such = Ref(snapshot_id=snapshot.snapshot_id + 1, type="branch")
    for update in (
        u.SetCurrentSchema(77),
        u.SetDefaultSpec(77),
        u.SetDefaultSortOrder(77),
        u.SetSnapshotRef("broken", no_such),
        u.AddSnapshot(snapshot),
        u.UpgradeFormatVersion(1),
        u.UpgradeFormatVersion(99),
        u.AssignUuid(str(uuid.uuid4())),
    ):
        updates = (property_set("half", "done"), update)
        _changes_nothing(catalog, name, lambda updates=updates: change(catalog, name, *updates))  # type: ignore[misc]


def keeps_every_requirement(subject: Subject) -> None:
    """Each requirement lets a commit through when it holds; when it does not, nothing of it happens."""
    catalog, name = _orders(subject)
    snapshot_id = appended(catalog, name)
    table = table_of(catalog, name)
    assert table.table_uuid
    holding: list[r.Requirement] = [
        r.AssertTableUuid(table.table_uuid),
        r.AssertRefSnapshotId(MAIN, snapshot_id),
        r.AssertRefSnapshotId("no such branch", None),
        r.AssertLastAssignedFieldId(table.last_column_id),
        r.AssertCurrentSchemaId(table.current_schema_id),
        r.AssertLastAssignedPartitionId(table.last_partition_id),
        r.AssertDefaultSpecId(table.default_spec_id),
        r.AssertDefaultSortOrderId(table.default_sort_order_id),
    ]
    failing: list[r.Requirement] = [
        r.AssertCreate(),
        r.AssertTableUuid(str(uuid.uuid4())),
        r.AssertRefSnapshotId(MAIN, snapshot_id + 1),
        r.AssertRefSnapshotId(MAIN, None),
        r.AssertRefSnapshotId("no such branch", snapshot_id),
        r.AssertLastAssignedFieldId(table.last_column_id + 1),
        r.AssertCurrentSchemaId(table.current_schema_id + 1),
        r.AssertLastAssignedPartitionId(table.last_partition_id + 1),
        r.AssertDefaultSpecId(table.default_spec_id + 1),
        r.AssertDefaultSortOrderId(table.default_sort_order_id + 1),
    ]
    before = catalog.load("table", name)
    for wrong in failing:
        requirements = [*holding, wrong] if not isinstance(wrong, r.AssertCreate) else [wrong]
        conflicts(change(catalog, name, property_set("by", repr(wrong)), requirements=requirements))
        assert catalog.load("table", name) == before, wrong
    for right in holding:
        entry = changed(catalog, name, property_set("by", repr(right)), requirements=[right])
        assert entry.metadata.properties["by"] == repr(right)
    changed(catalog, name, property_set("by", "all"), requirements=holding)


def publishes_nothing_for_no_change(subject: Subject) -> None:
    """A commit that changes nothing gives the table as it is, without a new version of it."""
    catalog, name = _orders(subject)
    before = changed(catalog, name, property_set("a", "1"))
    for updates in (
        (property_set("a", "1"),),
        (u.RemoveProperties(("never set",)),),
        (u.SetCurrentSchema(as_table(before).current_schema_id),),
    ):
        same = changed(catalog, name, *updates)
        assert same.metadata == before.metadata
        assert same.metadata_location == before.metadata_location
    assert catalog.load("table", name) == before


def lets_one_of_two_win(subject: Subject) -> None:
    """Of two changes that were made for the same state, the second conflicts, and fits after a look."""
    catalog, name = _orders(subject)
    other = subject.connect()
    mine = append(table_of(catalog, name))
    theirs = append(table_of(other, name))
    changed(catalog, name, *mine[1], requirements=mine[0])
    conflicts(change(other, name, *theirs[1], requirements=theirs[0]))
    assert [each.snapshot_id for each in table_of(other, name).snapshots] == [mine[2]]
    again = appended(other, name)
    found = table_of(catalog, name)
    assert [each.snapshot_id for each in found.ancestors(again)] == [again, mine[2]]


def lets_unrelated_changes_both_happen(subject: Subject) -> None:
    """A change that requires nothing of what another one changed is not lost, nor is the other."""
    catalog, name = _orders(subject)
    other = subject.connect()
    table = table_of(other, name)
    changed(catalog, name, u.AddSchema(_WIDER), u.SetCurrentSchema())
    changed(other, name, property_set("a", "1"), requirements=[r.AssertTableUuid(table.table_uuid or "")])
    narrow = [r.AssertLastAssignedFieldId(table.last_column_id)]
    wider = Schema((*COLUMNS.fields, Field(3, "clash", STRING)))
    conflicts(change(other, name, u.AddSchema(wider), u.SetCurrentSchema(), requirements=narrow))
    found = table_of(catalog, name)
    assert found.properties["a"] == "1"
    assert found.schema.same_fields(_WIDER)


def replaces_tables(subject: Subject) -> None:
    """A replacement keeps the uuid and the history, also if the columns are all new."""
    catalog, name = _orders(subject)
    snapshot_id = appended(catalog, name)
    before = table_of(catalog, name)
    fresh = Schema((Field(11, "other", STRING),))
    changed(
        catalog,
        name,
        u.AddSchema(fresh),
        u.SetCurrentSchema(),
        u.RemoveSnapshotRef(MAIN),
        requirements=[r.AssertTableUuid(before.table_uuid or "")],
    )
    now = table_of(catalog, name)
    assert now.table_uuid == before.table_uuid
    assert now.current_snapshot_id is None
    assert snapshot_id in now.snapshots_by_id
    assert [field.name for field in now.schema.fields] == ["other"]
    assert now.last_column_id == 11  # noqa: PLR2004


def moves_refs(subject: Subject) -> None:
    """Branches and tags are made, moved and dropped; a rollback is a move of main."""
    catalog, name = _orders(subject)
    first, second = appended(catalog, name), appended(catalog, name)
    branch = Ref(snapshot_id=first, type="branch", min_snapshots_to_keep=3, max_snapshot_age_ms=1000)
    tag = Ref(snapshot_id=second, type="tag", max_ref_age_ms=5)
    changed(catalog, name, u.SetSnapshotRef("branch", branch), u.SetSnapshotRef("tag ü '", tag))
    found = table_of(catalog, name)
    assert (found.refs["branch"], found.refs["tag ü '"]) == (branch, tag)
    on_main = [r.AssertRefSnapshotId(MAIN, second)]
    back = u.SetSnapshotRef(MAIN, Ref(snapshot_id=first, type="branch"))
    changed(catalog, name, back, requirements=on_main)
    conflicts(change(catalog, name, back, property_set("late", "yes"), requirements=on_main))
    found = table_of(catalog, name)
    assert found.current_snapshot_id == first
    assert [entry.snapshot_id for entry in found.snapshot_log] == [first, second, first]
    changed(catalog, name, u.RemoveSnapshotRef("tag ü '"), u.RemoveSnapshots((second,)))
    found = table_of(catalog, name)
    assert set(found.refs) == {MAIN, "branch"}
    assert set(found.snapshots_by_id) == {first}


def keeps_every_acknowledged_commit(subject: Subject) -> None:
    """Writers race; every commit that was acknowledged is in the history exactly once, and no other."""
    catalog, name = _orders(subject)
    acknowledged: list[int] = []

    def write(start: threading.Barrier) -> None:
        writer = subject.connect()
        for _ in range(_COMMITS):
            # All of them from the same state: one wins, and the others must notice.
            requirements, updates, snapshot_id = append(table_of(writer, name))
            start.wait()
            outcome = change(writer, name, *updates, requirements=requirements)
            assert isinstance(outcome, Committed | Conflict), outcome
            if isinstance(outcome, Conflict):
                snapshot_id = _append_until_committed(writer, name)
            acknowledged.append(snapshot_id)

    _race(write)
    table = table_of(catalog, name)
    assert table.current_snapshot_id is not None
    history = [each.snapshot_id for each in table.ancestors(table.current_snapshot_id)]
    assert len(acknowledged) == _WRITERS * _COMMITS
    assert sorted(history) == sorted(acknowledged)
    assert {each.snapshot_id for each in table.snapshots} == set(history)
    numbers = [each.sequence_number for each in table.ancestors(table.current_snapshot_id)]
    assert numbers == sorted(set(numbers), reverse=True)


def keeps_changes_that_require_nothing(subject: Subject) -> None:
    """Writers race without requirements: then the catalog alone sees to it that none is lost."""
    catalog, name = _orders(subject)
    acknowledged: list[str] = []

    def write(start: threading.Barrier) -> None:
        writer, me = subject.connect(), uuid.uuid4().hex
        start.wait()
        for number in range(_COMMITS):
            key = f"{me}-{number}"
            while isinstance(outcome := change(writer, name, property_set(key, "1")), Conflict):
                continue
            assert isinstance(outcome, Committed), outcome
            acknowledged.append(key)

    _race(write)
    found = table_of(catalog, name)
    assert len(acknowledged) == _WRITERS * _COMMITS
    assert set(acknowledged) <= set(found.properties)
    files = [entry.metadata_file for entry in found.metadata_log]
    assert len(files) == len(set(files)) == _WRITERS * _COMMITS


def lets_one_creator_win(subject: Subject) -> None:
    """Of many who make the same table at once, one does, and what it made is there."""
    catalog = subject.connect()
    for number in range(_COMMITS):
        name = Name(a_namespace(catalog), f"orders{number}")
        won: list[object] = []

        def create(start: threading.Barrier, name: Name = name, won: list[object] = won) -> None:
            writer = subject.connect()
            updates = table_updates(writer, name)
            start.wait()
            outcome = writer.commit([Change("table", name, (r.AssertCreate(),), updates)])
            assert isinstance(outcome, Committed | Conflict), outcome
            if isinstance(outcome, Committed):
                won.append(outcome.entries[0].metadata)

        _race(create)
        assert won == [table_of(catalog, name)]


def _append_until_committed(catalog: Catalog, name: Name) -> int:
    for _ in range(1000):
        requirements, updates, snapshot_id = append(table_of(catalog, name))
        match change(catalog, name, *updates, requirements=requirements):
            case Committed():
                return snapshot_id
            case Conflict():
                continue
            case unknown:
                raise AssertionError(unknown)
    raise AssertionError("a writer never got its turn")


def _race(run: Callable[[threading.Barrier], None]) -> None:
    """Let threads run the same at once, and change places as often as they can; raise what one raised."""
    start = threading.Barrier(_WRITERS)
    failures: list[BaseException] = []

    def racer() -> None:
        try:
            run(start)
        except BaseException as failure:  # noqa: BLE001  # raised below, in the thread of the check
            start.abort()
            failures.append(failure)

    threads = [threading.Thread(target=racer) for _ in range(_WRITERS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if failures:
        raise failures[0]


def commits_to_several_tables_at_once(subject: Subject) -> None:
    """All changes are published together, or none: because of one that does not fit, or cannot be."""
    catalog, one = _orders(subject)
    two = Name(one.namespace, "lines")
    a_table(catalog, two)
    before = [catalog.load("table", each) for each in (one, two)]
    both = [Change("table", each, (), (property_set("a", "1"),)) for each in (one, two)]
    if not subject.can(Ability.SEVERAL):
        _refuses_several(catalog, both)
        assert [catalog.load("table", each) for each in (one, two)] == before
        return
    done = catalog.commit(both)
    assert isinstance(done, Committed), done
    assert [entry.name for entry in done.entries] == [one, two]
    after = [catalog.load("table", each) for each in (one, two)]
    assert [entry.metadata for entry in done.entries] == [entry.metadata for entry in after]
    assert all(entry.metadata.properties["a"] == "1" for entry in after)
    stale = (r.AssertTableUuid(str(uuid.uuid4())),)
    for broken in (0, 1):
        changes = [
            Change("table", each, stale if number == broken else (), (property_set("a", "2"),))
            for number, each in enumerate((one, two))
        ]
        conflicts(catalog.commit(changes))
        assert [catalog.load("table", each) for each in (one, two)] == after
    missing = Change("table", Name(one.namespace, "missing"), (), (property_set("a", "2"),))
    refused(lambda: catalog.commit([both[0], missing]))
    unsound = Change("table", two, (), (u.SetCurrentSchema(77),))
    refused(lambda: catalog.commit([Change("table", one, (), (property_set("a", "2"),)), unsound]))
    assert [catalog.load("table", each) for each in (one, two)] == after


def _refuses_several(catalog: Catalog, changes: list[Change]) -> None:
    try:
        done = catalog.commit(changes)
    except CatalogCannot:
        return
    raise AssertionError(f"CatalogCannot was expected, but it gave {done!r}")


def makes_and_changes_at_once(subject: Subject) -> None:
    """A new table and a change of an old one are published together; so is a change of nothing."""
    catalog, old = _orders(subject)
    if not subject.can(Ability.SEVERAL):
        return
    new = Name(old.namespace, "new")
    create = Change("table", new, (r.AssertCreate(),), table_updates(catalog, new))
    idle = Change("table", old, (), (u.RemoveProperties(("never set",)),))
    before = catalog.load("table", old)
    done = catalog.commit([create, idle])
    assert isinstance(done, Committed), done
    assert table_of(catalog, new) == done.entries[0].metadata
    assert catalog.load("table", old).metadata_location == before.metadata_location
    conflicts(catalog.commit([Change("table", old, (), (property_set("a", "1"),)), create]))
    assert catalog.load("table", old) == before


def changes_each_table_once(subject: Subject) -> None:
    """Two changes of one table in one commit are refused, or both happen: none is lost in silence."""
    catalog, name = _orders(subject)
    if not subject.can(Ability.SEVERAL):
        return
    twice = [Change("table", name, (), (property_set(key, "1"),)) for key in ("a", "b")]
    before = catalog.load("table", name)
    try:
        done = catalog.commit(twice)
    except Exception:  # noqa: BLE001  # whichever way it is refused
        done = None
    found = table_of(catalog, name)
    if isinstance(done, Committed):
        assert found.properties.get("a") == found.properties.get("b") == "1"
    else:
        assert catalog.load("table", name) == before


def versions_count_up(subject: Subject) -> None:
    """Tables of each format version are made and written; versions go up, and never down."""
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    for version in (1, 2, 3):
        name = Name(namespace, f"v{version}")
        if version == 3 and not subject.can(Ability.V3):  # noqa: PLR2004
            refused(lambda name=name: a_table(catalog, name, properties={"format-version": "3"}))  # type: ignore[misc]
            continue
        a_table(catalog, name, properties={"format-version": str(version)})
        appended(catalog, name)
        appended(catalog, name)
        table = table_of(catalog, name)
        assert table.format_version == version
        assert "format-version" not in table.properties
        assert table.last_sequence_number == (0 if version == 1 else 2)
        if version == 3:  # noqa: PLR2004
            assert table.next_row_id == 10  # noqa: PLR2004
    _upgrades(subject, catalog, Name(namespace, "v1"))


def _upgrades(subject: Subject, catalog: Catalog, name: Name) -> None:
    before = table_of(catalog, name)
    for version in (2, 3) if subject.can(Ability.V3) else (2,):
        changed(catalog, name, u.UpgradeFormatVersion(version))
        appended(catalog, name)
        table: TableMetadata = table_of(catalog, name)
        assert table.format_version == version
        assert set(before.snapshots_by_id) < set(table.snapshots_by_id)
        _changes_nothing(
            catalog,
            name,
            lambda version=version: change(catalog, name, u.UpgradeFormatVersion(version - 1)),  # type: ignore[misc]
        )


def changes_nothing_that_is_gone(subject: Subject) -> None:
    """A change that was ready when its table was dropped is refused, and does not bring it back."""
    catalog, name = _orders(subject)
    stale = subject.connect()
    requirements, updates, _ = append(table_of(stale, name))
    catalog.drop("table", name)
    try:
        outcome = change(stale, name, *updates, requirements=requirements)
    except NotFound:
        pass
    else:
        conflicts(outcome)
    assert catalog.names("table", name.namespace) == []


COMMIT_CHECKS: Final[tuple[Check, ...]] = (
    applies_every_update,
    goes_back_to_old_definitions,
    removes_unused_definitions,
    refuses_changes_that_the_format_forbids,
    keeps_every_requirement,
    publishes_nothing_for_no_change,
    lets_one_of_two_win,
    lets_unrelated_changes_both_happen,
    replaces_tables,
    moves_refs,
    keeps_every_acknowledged_commit,
    keeps_changes_that_require_nothing,
    lets_one_creator_win,
    commits_to_several_tables_at_once,
    makes_and_changes_at_once,
    changes_each_table_once,
    versions_count_up,
    changes_nothing_that_is_gone,
)
