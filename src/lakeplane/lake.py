"""The lake: the noun through which users find, make and drop everything else."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from lakeplane.catalog.catalog import Catalog, Change, Committed, Conflict, Entry, Unknown
from lakeplane.catalog.commit_loop import Proposal, Work, publish
from lakeplane.catalog.landed import has_landed
from lakeplane.catalog.names import Name, Namespace, parse_name, parse_namespace, show
from lakeplane.catalog.paimon_warehouse import PaimonWarehouse
from lakeplane.errors import (
    AlreadyExists,
    InvalidInput,
    LakeplaneError,
    NotFound,
    NotSupported,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.evolution import Evolution
from lakeplane.given_schema import as_schema
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.evolve import propose_evolution
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.replacement import Wanted
from lakeplane.iceberg.requirements import AssertCreate, AssertViewUuid
from lakeplane.iceberg.view import ViewMetadata
from lakeplane.iceberg.view_versions import Representation, ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.rules_text import parse_partition_field, parse_sort_key
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortOrder
from lakeplane.paimon_table import PaimonTable
from lakeplane.purging import check_only_name, own_files
from lakeplane.resources import Resources
from lakeplane.table import Table, View

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeplane.spark.frames import DataFrame
    from lakeplane.sql.front import Front

_NO_PROPERTIES: Final[Mapping[str, str]] = FrozenDict()


class Lake:
    """A catalog, with everything in it."""

    def __init__(
        self, catalog: Catalog, resources: Resources | None = None, paimon: PaimonWarehouse | None = None
    ) -> None:
        self._catalog = catalog
        self._paimon = paimon
        self._resources = resources or Resources(ManifestCache())
        self._front: Front | None = None

    def __repr__(self) -> str:
        return f"Lake({self._catalog!r})"

    @property
    def name(self) -> str:
        """What the lake is called in SQL: ``lake.shop.orders`` is the same as ``shop.orders``."""
        return self._resources.name

    def sql(self, text: str) -> DataFrame:
        """Run a statement of SQL; the answer is an ordinary DataFrame of Spark.

        ``SELECT`` and all other statements that Spark's users know for Iceberg tables work on the tables and
        views of the lake, together with everything that the session knows; statements that touch no table of
        the lake go to Spark as they are.
        """
        from lakeplane.sql.front import Front  # noqa: PLC0415 - rows bring pyspark

        if self._front is None:
            self._front = Front(self, self._resources.spark)
        return self._front.run(text)

    def namespaces(self, under: str | Namespace | None = None) -> list[str]:
        """The namespaces directly inside another one, or at the top."""
        return [show(each) for each in self._namespaces(parse_namespace(under))]

    def _namespaces(self, under: Namespace) -> list[Namespace]:
        """Those of the catalog, and at the top the databases of Paimon."""
        if self._paimon is None or (under and not self._paimon.has(under)):
            return self._catalog.namespaces(under)
        if not under:
            return sorted({*self._catalog.namespaces(), *self._paimon.databases()})
        return self._catalog.namespaces(under) if under in self._catalog.namespaces() else []

    def namespace(self, namespace: str | Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        return self._catalog.namespace(parse_namespace(namespace))

    def create_namespace(
        self, namespace: str | Namespace, properties: Mapping[str, str] = _NO_PROPERTIES
    ) -> None:
        """Make a namespace."""
        self._catalog.create_namespace(parse_namespace(namespace), properties)

    def change_namespace(
        self,
        namespace: str | Namespace,
        updates: Mapping[str, str] = _NO_PROPERTIES,
        removals: Sequence[str] = (),
    ) -> None:
        """Set and remove properties of a namespace."""
        self._catalog.change_namespace(parse_namespace(namespace), updates, removals)

    def drop_namespace(self, namespace: str | Namespace) -> None:
        """Remove a namespace that is empty."""
        self._catalog.drop_namespace(parse_namespace(namespace))

    def tables(self, namespace: str | Namespace | None = None) -> list[str]:
        """The names of the tables in a namespace; without one, in all of them."""
        return [str(name) for each in self._within(namespace) for name in self._tables(each)]

    def _tables(self, namespace: Namespace) -> list[Name]:
        if self._paimon is None or not self._paimon.has(namespace):
            return self._catalog.names("table", namespace)
        known = namespace in self._catalog.namespaces()
        others = self._catalog.names("table", namespace) if known else []
        return sorted({*others, *self._paimon.names(namespace)})

    def views(self, namespace: str | Namespace | None = None) -> list[str]:
        """The names of the views in a namespace; without one, in all of them."""
        return [str(name) for each in self._within(namespace) for name in self._views(each)]

    def _views(self, namespace: Namespace) -> list[Name]:
        is_other = self._paimon is not None and self._paimon.has(namespace)
        if is_other and namespace not in self._catalog.namespaces():
            return []
        return self._catalog.names("view", namespace)

    def _within(self, namespace: str | Namespace | None) -> list[Namespace]:
        if namespace:
            return [parse_namespace(namespace)]
        found: list[Namespace] = []
        waiting: list[Namespace] = self._namespaces(())
        while waiting:
            each = waiting.pop(0)
            found.append(each)
            waiting += self._namespaces(each)
        return sorted(found)

    def table(self, name: str | Name) -> Table | PaimonTable:
        """A table as it is now. In a directory, one of Iceberg comes before one of Paimon with its name."""
        full = parse_name(name)
        try:
            return self._table(self._catalog.load("table", full))
        except NotFound:
            home = None if self._paimon is None else self._paimon.find(full)
            if self._paimon is None or home is None:
                raise
        return PaimonTable(str(full), home, self._paimon.store(), self._resources)

    def _table(self, entry: Entry) -> Table:
        return Table(self._catalog, entry, self._resources)

    def view(self, name: str | Name) -> View:
        """A view as it is now."""
        return View(self._catalog.load("view", parse_name(name)))

    def create_table(
        self,
        name: str | Name,
        schema: Schema | pa.Schema | str,
        *,
        using: str = "iceberg",
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] = _NO_PROPERTIES,
        location: str | None = None,
    ) -> Table:
        """Make a table.

        ``schema`` is DDL text (``"id BIGINT NOT NULL, at TIMESTAMP"``), a Spark or Arrow schema, or ours;
        ``partition_by`` and ``sort_by`` are texts such as ``"days(at)"`` and ``"amount DESC NULLS LAST"``.
        The
        property ``format-version`` chooses 1, 2 (the default) or 3.
        """
        if using.lower() != "iceberg":
            raise InvalidInput(f"tables using {using} cannot be made yet", hint="Use iceberg")
        full, columns = parse_name(name), as_schema(schema)
        self._check_free(full)
        place = location or str(self._catalog.default_location("table", full))
        fields = tuple(parse_partition_field(rule, columns) for rule in partition_by)
        keys = tuple(parse_sort_key(key, columns) for key in sort_by)
        updates = creation(
            columns,
            uuid=str(uuid.uuid4()),
            location=place,
            spec=PartitionSpec(0, fields),
            order=SortOrder(1 if keys else 0, keys),
            properties=properties,
        )
        return self._table(self._create(Change("table", full, (AssertCreate(),), updates)))

    def replace_table(
        self,
        name: str | Name,
        schema: Schema | pa.Schema | str,
        *,
        rows: Any = None,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] = _NO_PROPERTIES,
        location: str | None = None,
    ) -> Table:
        """Give an existing table other columns and rows, in one commit; its history and branches stay.

        Columns of the same name keep their ids, properties are added to those that are there, and without
        ``rows`` the table is empty afterwards. What others do to the table meanwhile is a ``CommitConflict``.
        """
        table, columns = self.table(name), as_schema(schema)
        if not isinstance(table, Table):
            raise NotSupported("tables of Paimon cannot be replaced", source=table.name)
        wanted = Wanted(
            schema=columns,
            spec=PartitionSpec(0, tuple(parse_partition_field(rule, columns) for rule in partition_by)),
            order=tuple(parse_sort_key(key, columns) for key in sort_by),
            properties=FrozenDict(properties),
            location=location,
        )
        table._replace(wanted, rows)
        return table

    def change_view(
        self,
        name: str | Name,
        updates: Mapping[str, str] = _NO_PROPERTIES,
        removals: Sequence[str] = (),
    ) -> View:
        """Set and remove properties of a view."""
        changes: list[u.ViewUpdate] = [u.SetProperties(FrozenDict(updates))] if updates else []
        changes += [u.RemoveProperties(tuple(removals))] if removals else []
        work = Work("view", parse_name(name), lambda entry: _same_view(entry, changes))
        return View(publish(self._catalog, [work]).entries[0])

    def create_view(
        self,
        name: str | Name,
        sql: str,
        schema: Schema | pa.Schema | str,
        *,
        dialect: str = "spark",
        default_namespace: str | Namespace | None = None,
        properties: Mapping[str, str] = _NO_PROPERTIES,
        replace: bool = False,
    ) -> View:
        """Make a view, or with ``replace`` give an existing one a new definition."""
        full = parse_name(name)
        home = parse_namespace(default_namespace) or full.namespace
        version = ViewVersion(
            version_id=1,
            schema_id=u.LAST_ADDED,
            timestamp_ms=time.time_ns() // 1_000_000,
            summary=FrozenDict({"engine-name": "lakeplane"}),
            representations=(Representation(type="sql", sql=sql, dialect=dialect),),
            default_namespace=home,
        )
        define = (u.AddSchema(as_schema(schema)), u.AddViewVersion(version), u.SetCurrentViewVersion())
        extra = (u.SetProperties(FrozenDict(properties)),) if properties else ()
        if replace and full in self._catalog.names("view", full.namespace):
            done = publish(
                self._catalog, [Work("view", full, lambda entry: _same_view(entry, (*define, *extra)))]
            )
            return View(done.entries[0])
        place = str(self._catalog.default_location("view", full))
        made = (u.AssignUuid(str(uuid.uuid4())), u.SetLocation(place), *define, *extra)
        return View(self._create(Change("view", full, (AssertCreate(),), made)))

    def _create(self, change: Change) -> Entry:
        match self._catalog.commit([change]):
            case Committed(entries=(entry,)):
                return entry
            case Conflict():
                raise AlreadyExists(
                    f"the name {change.name} is taken", hint="Drop it first, or choose another"
                )
            case Unknown(reason=reason):
                return self._look(change, reason)
            case other:
                raise AssertionError(other)

    def _look(self, change: Change, reason: str) -> Entry:
        with contextlib.suppress(LakeplaneError):
            entry = self._catalog.load(change.kind, change.name)
            if has_landed(change, entry.metadata):
                return entry
        raise OutcomeUnknown(
            reason, source=str(change.name), hint="Look whether it exists before trying again"
        )

    def register_table(self, name: str | Name, metadata_location: str) -> Table:
        """Give a name to a table whose metadata file exists."""
        full = parse_name(name)
        self._check_free(full)
        return self._table(self._catalog.register("table", full, metadata_location))

    def rename_table(self, old: str | Name, new: str | Name) -> None:
        """Give a table another name."""
        full = parse_name(new)
        self._check_free(full)
        self._catalog.rename("table", parse_name(old), full)

    def _check_free(self, name: Name) -> None:
        """Refuse a name behind which a table of Paimon would not be found any more."""
        if self._paimon is not None and self._paimon.find(name) is not None:
            raise AlreadyExists(f"the name {name} is taken by a table of Paimon", hint="Choose another name")

    def rename_view(self, old: str | Name, new: str | Name) -> None:
        """Give a view another name."""
        self._catalog.rename("view", parse_name(old), parse_name(new))

    def drop_view(self, name: str | Name) -> None:
        """Take the name of a view away."""
        self._catalog.drop("view", parse_name(name))

    def drop_table(self, name: str | Name, *, purge: bool = False) -> None:
        """Take the name of a table away; its files stay, unless they are purged.

        Purging deletes exactly the files that the table names and that lie in its own places, never a folder.
        What they are is read first: a table that cannot be read whole, or that others change or replace
        meanwhile, is not dropped. Nor is one that has another name in the catalog, too: all tables are looked
        at for that.
        """
        full = parse_name(name)
        if not purge:
            self._catalog.drop("table", full)
            return
        entry = self._catalog.load("table", full)
        store = self._catalog.store_for(entry)
        files = own_files(entry, store, self._resources.cache)
        check_only_name(self._catalog, entry)
        self._catalog.drop("table", full, entry)
        try:
            store.delete(*files)
        except StorageError as left:
            problem = f"the table is dropped, but not all of its files could be deleted: {left.problem}"
            hint = f"What is left of them is in {entry.metadata.location}"
            raise StorageError(problem, source=str(full), hint=hint) from None

    def transaction(self) -> Transaction:
        """Change several tables at once: all changes are published together, or none.

        ::

            with lake.transaction() as work:
                work.evolve("shop.orders").add_column("note", "STRING")
                work.evolve("shop.items").add_column("note", "STRING")
        """
        return Transaction(self._catalog)


class Transaction:
    """Changes of several tables, published when the ``with`` block ends, and forgotten when it fails."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._evolutions: dict[Name, Evolution] = {}

    def __enter__(self) -> Self:
        return self

    def evolve(self, name: str | Name) -> Evolution:
        """Collect changes of a table."""
        return self._evolutions.setdefault(parse_name(name), Evolution())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        work = [
            Work("table", name, _proposer(evolution))
            for name, evolution in sorted(self._evolutions.items())
            if evolution.steps
        ]
        if work:
            publish(self._catalog, work)


def _proposer(evolution: Evolution) -> Any:
    def propose(entry: Entry) -> Proposal:
        assert isinstance(entry.metadata, TableMetadata)
        return propose_evolution(entry.metadata, evolution.steps)

    return propose


def _same_view(entry: Entry, updates: Sequence[u.ViewUpdate]) -> Proposal:
    assert isinstance(entry.metadata, ViewMetadata)
    return (AssertViewUuid(entry.metadata.view_uuid),), updates
