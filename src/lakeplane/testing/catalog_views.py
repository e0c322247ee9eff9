"""Checks of catalogs: views, and how they share names with tables."""

from __future__ import annotations

import uuid
from typing import Final

from lakeplane.catalog.catalog import Catalog, Change, Committed, Kind
from lakeplane.catalog.metadata_files import serialize
from lakeplane.catalog.names import Name
from lakeplane.errors import AlreadyExists, LakeplaneError, NotFound
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.requirements import AssertCreate, AssertTableUuid, AssertViewUuid
from lakeplane.model.location import parse_location
from lakeplane.testing.catalog_subject import (
    COLUMNS,
    Ability,
    Check,
    Subject,
    a_namespace,
    a_table,
    a_view,
    as_view,
    cannot,
    change,
    changed,
    conflicts,
    make,
    property_set,
    raises,
    refused,
    table_updates,
    view_of,
    view_updates,
    view_version,
)


def makes_views(subject: Subject) -> None:
    """A view is there as it was made, for others too; a catalog without views says so."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "totals")
    if not subject.can(Ability.VIEWS):
        updates = view_updates(catalog, name)
        cannot(lambda: make(catalog, "view", name, updates))
        assert catalog.names("table", name.namespace) == []
        return
    raises(NotFound, lambda: catalog.load("view", name))
    sql = 'SELECT count(*) AS id FROM "o\'x" -- ü'
    made = a_view(catalog, name, sql)
    for each in (catalog, other):
        found = each.load("view", name)
        assert found.metadata == made.metadata
        assert found.metadata_location == made.metadata_location
        assert each.names("view", name.namespace) == [name]
        assert each.names("table", name.namespace) == []
    view = as_view(made)
    assert view.current_version.sql_for("spark") == sql
    assert view.current_version.default_namespace == name.namespace
    assert view.schema.same_fields(COLUMNS)


def makes_a_view_once(subject: Subject) -> None:
    """The second one to make it gets a conflict, and the first one's view stays."""
    if not subject.can(Ability.VIEWS):
        return
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "totals")
    late = view_updates(other, name, "SELECT 2")
    made = a_view(catalog, name)
    conflicts(make(other, "view", name, late))
    assert view_of(catalog, name) == made.metadata
    missing = Name((f"check{uuid.uuid4().hex}",), "totals")
    raises(NotFound, lambda: make(catalog, "view", missing, late))
    assert missing.namespace not in catalog.namespaces()


def shares_names_between_tables_and_views(subject: Subject) -> None:
    """A name is a table or a view: neither is made, found, renamed or dropped as the other."""
    if not subject.can(Ability.VIEWS):
        return
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    table, view = Name(namespace, "table"), Name(namespace, "view")
    new_table, new_view = table_updates(catalog, view), view_updates(catalog, table)
    before = (a_table(catalog, table), a_view(catalog, view))
    _is_taken(lambda: make(catalog, "view", table, new_view))
    _is_taken(lambda: make(catalog, "table", view, new_table))
    for kind, name in (("view", table), ("table", view)):
        _is_another_kind(catalog, kind, name)  # type: ignore[arg-type]
    if subject.can(Ability.RENAME):
        raises(AlreadyExists, lambda: catalog.rename("table", table, view))
        raises(AlreadyExists, lambda: catalog.rename("view", view, table))
    if subject.can(Ability.REGISTER):
        refused(lambda: catalog.register("table", view, before[0].metadata_location))
        refused(lambda: catalog.register("view", table, before[1].metadata_location))
    assert (catalog.load("table", table), catalog.load("view", view)) == before
    assert catalog.names("table", namespace) == [table]
    assert catalog.names("view", namespace) == [view]
    catalog.drop("view", view)
    assert catalog.names("table", namespace) == [table]
    a_table(catalog, view)
    catalog.drop("table", table)
    a_view(catalog, table)
    assert catalog.names("table", namespace) == [view]
    assert catalog.names("view", namespace) == [table]


def _is_taken(do: object) -> None:
    """Check that making something under a taken name is a conflict, or refused as such."""
    assert callable(do)
    try:
        outcome = do()
    except AlreadyExists:
        return
    conflicts(outcome)


def _is_another_kind(catalog: Catalog, kind: Kind, name: Name) -> None:
    raises(NotFound, lambda: catalog.load(kind, name))
    raises(NotFound, lambda: catalog.drop(kind, name))
    raises(NotFound, lambda: change(catalog, name, property_set("a", "1"), kind=kind))
    free = Name(name.namespace, "free")
    refused(lambda: catalog.rename(kind, name, free))
    raises(NotFound, lambda: catalog.load("table", free))
    raises(NotFound, lambda: catalog.load("view", free))


def replaces_definitions(subject: Subject) -> None:
    """A view gets new versions, keeps the old ones, and goes back to them; the log tells when."""
    if not subject.can(Ability.VIEWS):
        return
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "totals")
    first = as_view(a_view(catalog, name, "SELECT 1"))
    two = u.AddSchema(COLUMNS), u.AddViewVersion(view_version("SELECT 2", name.namespace))
    second = as_view(changed(catalog, name, *two, u.SetCurrentViewVersion(), kind="view"))
    assert second.current_version.sql_for("spark") == "SELECT 2"
    assert second.current_version_id != first.current_version_id
    assert second.view_uuid == first.view_uuid
    changed(catalog, name, u.SetCurrentViewVersion(first.current_version_id), kind="view")
    found = view_of(subject.connect(), name)
    assert found.current_version.sql_for("spark") == "SELECT 1"
    assert set(found.versions_by_id) == {first.current_version_id, second.current_version_id}
    log = [entry.version_id for entry in found.version_log]
    assert log == [first.current_version_id, second.current_version_id, first.current_version_id]


def changes_views_as_required(subject: Subject) -> None:
    """Properties change; what was made for another view, or is unsound, changes nothing."""
    if not subject.can(Ability.VIEWS):
        return
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "totals")
    view = as_view(a_view(catalog, name))
    right = [AssertViewUuid(view.view_uuid)]
    after = changed(catalog, name, property_set("a", "1"), requirements=right, kind="view")
    assert after.metadata.properties["a"] == "1"
    for wrong in (AssertViewUuid(str(uuid.uuid4())), AssertCreate(), AssertTableUuid(view.view_uuid)):
        _does_not_happen(lambda wrong=wrong: _require(catalog, name, wrong))
        assert catalog.load("view", name) == after
    for update in (u.SetCurrentViewVersion(77), u.AssignUuid(str(uuid.uuid4()))):
        refused(lambda update=update: change(catalog, name, property_set("b", "2"), update, kind="view"))  # type: ignore[misc]
        assert catalog.load("view", name) == after
    same = changed(catalog, name, property_set("a", "1"), kind="view")
    assert same.metadata_location == after.metadata_location
    changed(catalog, name, u.RemoveProperties(("a",)), kind="view")
    assert "a" not in view_of(catalog, name).properties


def _require(catalog: Catalog, name: Name, wrong: AssertViewUuid | AssertCreate | AssertTableUuid) -> object:
    return change(catalog, name, property_set("a", "2"), requirements=[wrong], kind="view")


def _does_not_happen(do: object) -> None:
    assert callable(do)
    try:
        outcome = do()
    except LakeplaneError:
        return
    conflicts(outcome)


def lets_one_of_two_replace(subject: Subject) -> None:
    """Two writers of a view: what both did is there, one after the other."""
    if not subject.can(Ability.VIEWS):
        return
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "totals")
    a_view(catalog, name, "SELECT 0")
    for number, each in enumerate((catalog, other, catalog, other), 1):
        version = u.AddViewVersion(view_version(f"SELECT {number}", name.namespace))
        changed(each, name, u.AddSchema(COLUMNS), version, u.SetCurrentViewVersion(), kind="view")
    found = view_of(catalog, name)
    assert [each.sql_for("spark") for each in found.versions] == [f"SELECT {n}" for n in range(5)]
    assert len(found.version_log) == 5  # noqa: PLR2004


def lists_and_drops_views(subject: Subject) -> None:
    """All views of one namespace, sorted; a dropped one is gone, once, and its name free."""
    if not subject.can(Ability.VIEWS):
        return
    catalog = subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    names = [Name(one, each) for each in ("v", "va", "vb")]
    for name in (*reversed(names), Name(two, "v")):
        a_view(catalog, name)
    assert catalog.names("view", one) == names
    catalog.drop("view", names[0])
    raises(NotFound, lambda: catalog.load("view", names[0]))
    raises(NotFound, lambda: catalog.drop("view", names[0]))
    raises(NotFound, lambda: change(catalog, names[0], property_set("a", "1"), kind="view"))
    assert catalog.names("view", one) == names[1:]
    assert catalog.names("view", two) == [Name(two, "v")]
    a_view(catalog, names[0], "SELECT 9")
    assert view_of(catalog, names[0]).current_version.sql_for("spark") == "SELECT 9"


def renames_views(subject: Subject) -> None:
    """A view moves to another namespace whole; not onto another one, nor into a missing namespace."""
    if not subject.can(Ability.VIEWS):
        return
    catalog = subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    old, new, taken = Name(one, "old"), Name(two, "new"), Name(one, "taken")
    before = a_view(catalog, old)
    if not subject.can(Ability.RENAME):
        cannot(lambda: catalog.rename("view", old, new))
        return
    a_view(catalog, taken)
    raises(AlreadyExists, lambda: catalog.rename("view", old, taken))
    raises(NotFound, lambda: catalog.rename("view", old, Name((f"check{uuid.uuid4().hex}",), "v")))
    raises(NotFound, lambda: catalog.rename("view", Name(one, "missing"), new))
    catalog.rename("view", old, new)
    raises(NotFound, lambda: catalog.load("view", old))
    assert view_of(subject.connect(), new) == before.metadata
    assert catalog.names("view", one) == [taken]
    changed(catalog, new, property_set("a", "1"), kind="view")


def registers_views(subject: Subject) -> None:
    """A metadata file of a view gets a name; a name that is taken is refused."""
    if not (subject.can(Ability.VIEWS) and subject.can(Ability.REGISTER)):
        return
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "totals")
    made = a_view(catalog, name)
    file = parse_location(made.metadata.location) / f"metadata/00003-{uuid.uuid4()}.metadata.json"
    catalog.store_for(made).put(file, serialize(made.metadata, compress=False))
    raises(AlreadyExists, lambda: catalog.register("view", name, str(file)))
    catalog.drop("view", name)
    assert catalog.register("view", name, str(file)).metadata == made.metadata
    assert view_of(catalog, name) == made.metadata


def commits_tables_and_views_at_once(subject: Subject) -> None:
    """A table and the view on it change together, or neither does."""
    if not (subject.can(Ability.VIEWS) and subject.can(Ability.SEVERAL)):
        return
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    table, view = Name(namespace, "orders"), Name(namespace, "totals")
    create = (AssertCreate(),)
    new = [
        Change("table", table, create, table_updates(catalog, table)),
        Change("view", view, create, view_updates(catalog, view)),
    ]
    assert isinstance(catalog.commit(new), Committed)
    before = catalog.load("table", table), catalog.load("view", view)
    stale = (AssertViewUuid(str(uuid.uuid4())),)
    changes = [
        Change("table", table, (), (property_set("a", "1"),)),
        Change("view", view, stale, (property_set("a", "1"),)),
    ]
    conflicts(catalog.commit(changes))
    assert (catalog.load("table", table), catalog.load("view", view)) == before


VIEW_CHECKS: Final[tuple[Check, ...]] = (
    makes_views,
    makes_a_view_once,
    shares_names_between_tables_and_views,
    replaces_definitions,
    changes_views_as_required,
    lets_one_of_two_replace,
    lists_and_drops_views,
    renames_views,
    registers_views,
    commits_tables_and_views_at_once,
)
