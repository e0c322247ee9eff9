"""What the checks of catalogs work on: a catalog, what it says it can do, and small tables to put in it."""

from __future__ import annotations

import enum
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from lakeplane.catalog.catalog import Catalog, Change, Committed, Conflict, Entry, Kind, Outcome
from lakeplane.catalog.names import Name, Namespace
from lakeplane.errors import CatalogCannot, LakeplaneError, OutcomeUnknown
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.requirements import AssertCreate, AssertRefSnapshotId, AssertTableUuid, Requirement
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.iceberg.view import ViewMetadata
from lakeplane.iceberg.view_versions import Representation, ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, Field
from lakeplane.storage.store import Store

E = TypeVar("E", bound=LakeplaneError)

COLUMNS: Final = Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING)))
"""The columns of every table and view of these checks."""


class Ability(enum.Enum):
    """What a catalog may lack without breaking the contract: then it must refuse it, and that is checked."""

    VIEWS = "holds views"
    RENAME = "gives a table or view another name"
    REGISTER = "takes in a metadata file from anywhere in its store"
    SEVERAL = "commits to several tables and views at once"
    NESTED = "has namespaces in namespaces"
    NAMESPACE_PROPERTIES = "keeps properties of namespaces"
    ANY_LOCATION = "lets a table lie where its creator says"
    METADATA_PATH = "puts metadata files where write.metadata.path says"
    GZIP = "writes gzipped metadata files"
    DELETES_OLD_METADATA = "deletes old metadata files when the table asks for it"
    KEEPS_UNKNOWN = "keeps fields of metadata that it does not know"
    V3 = "holds tables of format version 3"
    CASE_SENSITIVE = "tells names apart that differ in upper and lower case"
    ODD_NAMES = "takes quotes, blanks and letters of any language in names"


ALL: Final = frozenset(Ability)
"""All that there is to be able to."""


class Subject(NamedTuple):
    """A catalog to be checked.

    Each call of ``connect`` opens it once more, as another program would. The catalog need not be empty:
    each check works in namespaces of its own, and leaves them behind.
    """

    connect: Callable[[], Catalog]
    abilities: frozenset[Ability] = ALL

    def can(self, ability: Ability) -> bool:
        """Whether the catalog is said to be able to do something."""
        return ability in self.abilities


Check: TypeAlias = Callable[[Subject], None]


def raises(kind: type[E], do: Callable[[], object]) -> E:
    """Check that something is refused with an error of a kind, and give it."""
    try:
        done = do()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, but it gave {done!r}")


def refused(do: Callable[[], object]) -> None:
    """Check that something is refused with any error of ours that says that nothing was done."""
    error = raises(LakeplaneError, do)
    assert not isinstance(error, OutcomeUnknown), f"the answer was lost: {error}"


def cannot(do: Callable[[], object]) -> None:
    """Check that a catalog says openly that it is not able to do something."""
    raises(CatalogCannot, do)


def a_namespace(catalog: Catalog, *parents: str, prefix: str = "check") -> Namespace:
    """Make a namespace that nobody else has."""
    namespace = (*parents, f"{prefix}{uuid.uuid4().hex}")
    catalog.create_namespace(namespace, {})
    return namespace


def table_updates(
    catalog: Catalog,
    name: Name,
    *,
    schema: Schema = COLUMNS,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> tuple[u.TableUpdate, ...]:
    """The updates that make a table."""
    place = str(catalog.default_location("table", name)) if location is None else location
    return creation(schema, uuid=str(uuid.uuid4()), location=place, properties=properties)


def view_updates(catalog: Catalog, name: Name, sql: str = "SELECT 1") -> tuple[u.ViewUpdate, ...]:
    """The updates that make a view."""
    return (
        u.AssignUuid(str(uuid.uuid4())),
        u.UpgradeFormatVersion(1),
        u.SetLocation(str(catalog.default_location("view", name))),
        u.AddSchema(COLUMNS),
        u.AddViewVersion(view_version(sql, name.namespace)),
        u.SetCurrentViewVersion(),
    )


def view_version(sql: str, namespace: Namespace, *, dialect: str = "spark") -> ViewVersion:
    """A definition of a view."""
    return ViewVersion(
        version_id=1,
        schema_id=u.LAST_ADDED,
        timestamp_ms=now_ms(),
        summary=FrozenDict({"engine-name": "check"}),
        representations=(Representation(type="sql", sql=sql, dialect=dialect),),
        default_namespace=namespace,
    )


def now_ms() -> int:
    """The time."""
    return time.time_ns() // 1_000_000


def make(catalog: Catalog, kind: Kind, name: Name, updates: Sequence[u.Update]) -> Outcome:
    """Try to make a table or view."""
    return catalog.commit([Change(kind, name, (AssertCreate(),), tuple(updates))])


def a_table(
    catalog: Catalog,
    name: Name,
    *,
    schema: Schema = COLUMNS,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> Entry:
    """Make a table."""
    updates = table_updates(catalog, name, schema=schema, properties=properties, location=location)
    return committed(make(catalog, "table", name, updates))


def a_view(catalog: Catalog, name: Name, sql: str = "SELECT 1") -> Entry:
    """Make a view."""
    return committed(make(catalog, "view", name, view_updates(catalog, name, sql)))


def change(
    catalog: Catalog,
    name: Name,
    *updates: u.Update,
    requirements: Sequence[Requirement] = (),
    kind: Kind = "table",
) -> Outcome:
    """Try to change a table or view."""
    return catalog.commit([Change(kind, name, tuple(requirements), updates)])


def changed(
    catalog: Catalog,
    name: Name,
    *updates: u.Update,
    requirements: Sequence[Requirement] = (),
    kind: Kind = "table",
) -> Entry:
    """Change a table or view."""
    return committed(change(catalog, name, *updates, requirements=requirements, kind=kind))


def committed(outcome: Outcome) -> Entry:
    """Check that one change was published, and give what it led to."""
    assert isinstance(outcome, Committed), outcome
    [entry] = outcome.entries
    return entry


def conflicts(outcome: Outcome) -> None:
    """Check that nothing was published, and nothing will be."""
    assert isinstance(outcome, Conflict), outcome
    assert outcome.reason, "a conflict says why"


def property_set(key: str, value: str) -> u.SetProperties:
    """The update that sets one property."""
    return u.SetProperties(FrozenDict({key: value}))


def append(metadata: TableMetadata) -> tuple[tuple[Requirement, ...], tuple[u.TableUpdate, ...], int]:
    """What adds a snapshot to what ``main`` is in some metadata: requirements, updates, and the id."""
    v3 = metadata.has_row_lineage
    snapshot = Snapshot(
        snapshot_id=uuid.uuid4().int >> 65 or 1,
        parent_snapshot_id=metadata.current_snapshot_id,
        sequence_number=metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0,
        timestamp_ms=max(now_ms(), metadata.last_updated_ms),
        manifest_list=f"{metadata.location}/metadata/snap-{uuid.uuid4()}.avro",
        summary=FrozenDict({"operation": "append"}),
        schema_id=metadata.current_schema_id,
        first_row_id=metadata.next_row_id if v3 else None,
        added_rows=5 if v3 else None,
    )
    requirements = (
        AssertTableUuid(metadata.table_uuid or ""),
        AssertRefSnapshotId(MAIN, metadata.current_snapshot_id),
    )
    main = Ref(snapshot_id=snapshot.snapshot_id, type="branch")
    return requirements, (u.AddSnapshot(snapshot), u.SetSnapshotRef(MAIN, main)), snapshot.snapshot_id


def appended(catalog: Catalog, name: Name) -> int:
    """Add a snapshot to a table, and give its id."""
    requirements, updates, snapshot_id = append(table_of(catalog, name))
    changed(catalog, name, *updates, requirements=requirements)
    return snapshot_id


def table_of(catalog: Catalog, name: Name) -> TableMetadata:
    """The metadata of a table as it is now."""
    return as_table(catalog.load("table", name))


def as_table(entry: Entry) -> TableMetadata:
    """The metadata of an entry that is a table."""
    assert isinstance(entry.metadata, TableMetadata), entry
    return entry.metadata


def view_of(catalog: Catalog, name: Name) -> ViewMetadata:
    """The metadata of a view as it is now."""
    return as_view(catalog.load("view", name))


def as_view(entry: Entry) -> ViewMetadata:
    """The metadata of an entry that is a view."""
    assert isinstance(entry.metadata, ViewMetadata), entry
    return entry.metadata


def metadata_files(store: Store, under: Location) -> set[str]:
    """The names of the metadata files below a place, whatever their numbers."""
    return {
        stat.location.name
        for stat in store.files(under)
        if ".metadata.json" in stat.location.name and not stat.location.name.startswith(".")
    }
