"""Checks of catalogs: making, finding, registering, renaming and dropping tables."""

from __future__ import annotations

import uuid
from typing import Final

from lakeplane.catalog.catalog import Catalog, Entry
from lakeplane.catalog.metadata_files import serialize
from lakeplane.catalog.names import Name
from lakeplane.errors import AlreadyExists, CommitConflict, NotFound
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.requirements import AssertTableUuid
from lakeplane.model.location import parse_location
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import LONG, STRING, Field, List, Struct
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
    cannot,
    change,
    changed,
    committed,
    conflicts,
    make,
    property_set,
    raises,
    refused,
    table_of,
    table_updates,
)


def makes_tables(subject: Subject) -> None:
    """A table is there as it was made, for others too."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    raises(NotFound, lambda: catalog.load("table", name))
    assert catalog.names("table", name.namespace) == []
    made = a_table(catalog, name, properties={"owner": "ann", "odd ' ü": "% _"})
    assert (made.kind, made.name) == ("table", name)
    for each in (catalog, other):
        found = each.load("table", name)
        assert found.metadata == made.metadata
        assert found.metadata_location == made.metadata_location
        assert each.names("table", name.namespace) == [name]
    table = as_table(made)
    assert table.schema.same_fields(COLUMNS)
    assert table.properties.get("owner") == "ann"
    assert table.properties.get("odd ' ü") == "% _"
    assert table.snapshots == ()
    assert table.metadata_log == ()


def makes_tables_whole(subject: Subject) -> None:
    """Nested columns, partitioning, order, docs and identifier fields all arrive."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    inner = Struct((Field(5, "city", STRING, doc="where"),))
    schema = Schema(
        (
            Field(1, "id", LONG, required=True, doc="the key"),
            Field(2, "tags", List(3, STRING, element_required=True)),
            Field(4, "place", inner),
        ),
        identifier_field_ids=(1,),
    )
    updates = creation(
        schema,
        uuid=str(uuid.uuid4()),
        location=str(catalog.default_location("table", name)),
        spec=PartitionSpec(0, (PartitionField((1,), 1000, "id_bucket", Bucket(16)),)),
        order=SortOrder(1, (SortField((1,), Identity(), "desc", "nulls-last"),)),
    )
    committed(make(catalog, "table", name, updates))
    table = table_of(catalog, name)
    by_name = {field.name: field for field in table.schema.fields}
    assert by_name["id"].doc == "the key"
    assert by_name["tags"].type == List(by_name["tags"].type.element_id, STRING, element_required=True)  # type: ignore[union-attr]
    assert isinstance(by_name["place"].type, Struct)
    assert table.schema.identifier_field_ids == (by_name["id"].id,)
    [partition] = table.partition_spec.fields
    assert (partition.name, partition.transform) == ("id_bucket", Bucket(16))
    [key] = table.sort_order.fields
    assert (key.direction, key.null_order) == ("desc", "nulls-last")


def makes_a_table_once(subject: Subject) -> None:
    """The second one to make it gets a conflict, and the first one's table stays."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    late = table_updates(other, name, properties={"made": "late"})
    made = a_table(catalog, name, properties={"made": "early"})
    conflicts(make(other, "table", name, late))
    conflicts(make(catalog, "table", name, late))
    assert catalog.load("table", name).metadata == made.metadata


def makes_tables_in_namespaces_only(subject: Subject) -> None:
    """Without its namespace a table is not made, and neither is the namespace."""
    catalog = subject.connect()
    home = a_namespace(catalog)
    location = str(catalog.default_location("table", Name(home, "t")))
    name = Name((f"check{uuid.uuid4().hex}",), "orders")
    updates = table_updates(catalog, name, location=location)
    raises(NotFound, lambda: make(catalog, "table", name, updates))
    assert name.namespace not in catalog.namespaces()


def puts_tables_where_they_are_told(subject: Subject) -> None:
    """A table lies where its creator says, or that is refused; two do not share a default."""
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    defaults = {str(catalog.default_location("table", Name(namespace, each))) for each in ("a", "ab", "b")}
    assert len(defaults) == 3  # noqa: PLR2004
    name = Name(namespace, "elsewhere")
    place = catalog.default_location("table", name).parent / f"own-{uuid.uuid4().hex}"
    if not subject.can(Ability.ANY_LOCATION):
        refused(lambda: a_table(catalog, name, location=str(place)))
        raises(NotFound, lambda: catalog.load("table", name))
        return
    made = a_table(catalog, name, location=str(place))
    assert parse_location(made.metadata.location) == place
    assert parse_location(catalog.load("table", name).metadata.location) == place
    if not made.metadata.properties.get("write.metadata.path"):
        assert place.contains(parse_location(made.metadata_location))


def knows_missing_tables(subject: Subject) -> None:
    """What is asked of a table that does not exist says so, and makes nothing."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "missing")
    raises(NotFound, lambda: catalog.load("table", name))
    raises(NotFound, lambda: catalog.drop("table", name))
    raises(NotFound, lambda: change(catalog, name, property_set("a", "1")))
    raises(NotFound, lambda: _change_with_uuid(catalog, name))
    assert catalog.names("table", name.namespace) == []


def _change_with_uuid(catalog: Catalog, name: Name) -> None:
    change(catalog, name, property_set("a", "1"), requirements=[AssertTableUuid(str(uuid.uuid4()))])


def lists_tables(subject: Subject) -> None:
    """All tables of one namespace, sorted, more than fit on a page; none of another."""
    catalog = subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    made = [Name(one, f"t{number:02}") for number in range(25)]
    for name in reversed(made):
        a_table(catalog, name)
    a_table(catalog, Name(two, "t05"))
    assert catalog.names("table", one) == made
    assert catalog.names("table", two) == [Name(two, "t05")]
    catalog.drop("table", made[5])
    assert catalog.names("table", one) == [each for each in made if each != made[5]]
    assert catalog.names("table", two) == [Name(two, "t05")]


def drops_names_not_files(subject: Subject) -> None:
    """After a drop the name is gone, and free; files of the table stay."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    made = a_table(catalog, name)
    store = catalog.store_for(made)
    data = parse_location(made.metadata.location) / "data/part-0.parquet"
    store.put(data, b"rows")
    catalog.drop("table", name)
    for each in (catalog, other):
        raises(NotFound, lambda each=each: each.load("table", name))  # type: ignore[misc]
        raises(NotFound, lambda each=each: each.drop("table", name))  # type: ignore[misc]
        assert each.names("table", name.namespace) == []
    assert store.read(data) == b"rows"
    again = as_table(a_table(catalog, name))
    assert again.table_uuid != as_table(made).table_uuid
    assert table_of(other, name) == again
    appended(other, name)
    assert store.read(data) == b"rows"


def drops_by_whole_names(subject: Subject) -> None:
    """Dropping ``a`` leaves ``ab``, ``a_b`` and the ``a`` of another namespace."""
    catalog = subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    kept = [Name(one, "ab"), Name(one, "a_b"), Name(one, "axb"), Name(two, "a")]
    for name in (Name(one, "a"), *kept):
        a_table(catalog, name)
    catalog.drop("table", Name(one, "a"))
    catalog.drop("table", Name(one, "a_b"))
    kept.remove(Name(one, "a_b"))
    assert catalog.names("table", one) == [Name(one, "ab"), Name(one, "axb")]
    for name in kept:
        assert catalog.load("table", name).name == name


def drops_what_was_expected_only(subject: Subject) -> None:
    """Whoever deletes files after a drop must have dropped the table that they belong to."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    seen = a_table(catalog, name)
    appended(other, name)
    raises(CommitConflict, lambda: catalog.drop("table", name, seen))
    changed_since = catalog.load("table", name)
    other.drop("table", name)
    raises(NotFound, lambda: catalog.drop("table", name, changed_since))
    a_table(other, name)
    raises(CommitConflict, lambda: catalog.drop("table", name, changed_since))
    catalog.drop("table", name, catalog.load("table", name))
    assert catalog.names("table", name.namespace) == []


def does_not_take_a_new_table_for_the_old(subject: Subject) -> None:
    """A change that was made for a table that is gone does not reach its successor."""
    catalog, stale = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    a_table(catalog, name)
    requirements, updates, snapshot_id = append(table_of(stale, name))
    catalog.drop("table", name)
    raises(NotFound, lambda: change(stale, name, *updates, requirements=requirements))
    new = as_table(a_table(catalog, name))
    conflicts(change(stale, name, *updates, requirements=requirements))
    assert table_of(catalog, name) == new
    assert snapshot_id not in new.snapshots_by_id


def registers_tables(subject: Subject) -> None:
    """A metadata file gets a name, with all of its history; a name that is taken is refused."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    a_table(catalog, name)
    snapshot_id = appended(catalog, name)
    before = catalog.load("table", name)
    file = _copy_metadata(catalog, before)
    if not subject.can(Ability.REGISTER):
        catalog.drop("table", name)
        cannot(lambda: catalog.register("table", name, file))
        return
    raises(AlreadyExists, lambda: catalog.register("table", name, file))
    assert catalog.load("table", name) == before
    catalog.drop("table", name)
    registered = as_table(catalog.register("table", name, file))
    found = table_of(catalog, name)
    assert found == registered
    assert (found.table_uuid, found.current_snapshot_id) == (as_table(before).table_uuid, snapshot_id)
    appended(catalog, name)
    assert snapshot_id in table_of(catalog, name).snapshots_by_id


def _copy_metadata(catalog: Catalog, entry: Entry) -> str:
    """Put a copy of an entry's metadata beside it, as a file that nothing names."""
    file = parse_location(entry.metadata.location) / f"metadata/00007-{uuid.uuid4()}.metadata.json"
    catalog.store_for(entry).put(file, serialize(entry.metadata, compress=False))
    return str(file)


def registers_only_what_can_be_read(subject: Subject) -> None:
    """A file that is missing or is no metadata does not get a name; nor is a namespace made for it."""
    catalog = subject.connect()
    if not subject.can(Ability.REGISTER):
        return
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name)
    garbage = parse_location(entry.metadata.location) / "metadata/00001-garbage.metadata.json"
    catalog.store_for(entry).put(garbage, b'{"format-version": 2}')
    catalog.drop("table", name)
    refused(lambda: catalog.register("table", name, f"{garbage}.missing.metadata.json"))
    refused(lambda: catalog.register("table", name, str(garbage)))
    missing = Name((f"check{uuid.uuid4().hex}",), "orders")
    refused(lambda: catalog.register("table", missing, entry.metadata_location))
    raises(NotFound, lambda: catalog.load("table", name))
    assert missing.namespace not in catalog.namespaces()


def renames_tables(subject: Subject) -> None:
    """The new name has all that the old one had, and the old one is free."""
    catalog, other = subject.connect(), subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    old, new = Name(one, "old"), Name(two, "new")
    a_table(catalog, old, properties={"owner": "ann"})
    appended(catalog, old)
    before = catalog.load("table", old)
    if not subject.can(Ability.RENAME):
        cannot(lambda: catalog.rename("table", old, new))
        assert catalog.load("table", old) == before
        return
    catalog.rename("table", old, new)
    for each in (catalog, other):
        raises(NotFound, lambda each=each: each.load("table", old))  # type: ignore[misc]
        assert each.names("table", one) == []
        assert each.names("table", two) == [new]
        assert each.load("table", new).metadata == before.metadata
    appended(other, new)
    made = a_table(catalog, old, location=f"{before.metadata.location}-{uuid.uuid4().hex}")
    catalog.drop("table", old)
    assert len(table_of(catalog, new).snapshots) == 2  # noqa: PLR2004
    assert as_table(made).table_uuid != table_of(catalog, new).table_uuid


def renames_nothing_onto_something(subject: Subject) -> None:
    """A rename to a taken name, into a missing namespace, or of what is missing changes nothing."""
    catalog = subject.connect()
    if not subject.can(Ability.RENAME):
        return
    namespace = a_namespace(catalog)
    one, two, missing = (Name(namespace, each) for each in ("one", "two", "missing"))
    nowhere = Name((f"check{uuid.uuid4().hex}",), "one")
    a_table(catalog, one, properties={"is": "one"})
    a_table(catalog, two, properties={"is": "two"})
    raises(AlreadyExists, lambda: catalog.rename("table", one, two))
    raises(NotFound, lambda: catalog.rename("table", one, nowhere))
    raises(NotFound, lambda: catalog.rename("table", missing, Name(namespace, "free")))
    refused(lambda: catalog.rename("table", missing, one))
    assert catalog.names("table", namespace) == [one, two]
    assert [table_of(catalog, each).properties["is"] for each in (one, two)] == ["one", "two"]
    assert nowhere.namespace not in catalog.namespaces()


def keeps_its_store_close(subject: Subject) -> None:
    """The store of an entry reads its metadata file, and writes where its data goes."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name)
    store = catalog.store_for(entry)
    assert store.read(parse_location(entry.metadata_location))
    at = parse_location(entry.metadata.location) / "data/file with blank=ü.parquet"
    store.put(at, b"rows", if_absent=store.can_put_if_absent)
    assert catalog.store_for(changed(catalog, name, property_set("a", "1"))).read(at) == b"rows"


TABLE_CHECKS: Final[tuple[Check, ...]] = (
    makes_tables,
    makes_tables_whole,
    makes_a_table_once,
    makes_tables_in_namespaces_only,
    puts_tables_where_they_are_told,
    knows_missing_tables,
    lists_tables,
    drops_names_not_files,
    drops_by_whole_names,
    drops_what_was_expected_only,
    does_not_take_a_new_table_for_the_old,
    registers_tables,
    registers_only_what_can_be_read,
    renames_tables,
    renames_nothing_onto_something,
    keeps_its_store_close,
)
