"""Pointers in a SQL database that Iceberg's JDBC catalog and PyIceberg may share: SQLite, PostgreSQL, MySQL.

One row of ``iceberg_tables`` is one table or view, and a commit is an UPDATE of it that names the metadata
file it expects. Commits to several tables are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NoReturn, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from lakeplane.catalog.catalog import Kind
from lakeplane.catalog.names import Name, Namespace, show
from lakeplane.catalog.pointers import Swap, changed_before_drop
from lakeplane.catalog.sql_database import Database
from lakeplane.catalog.sql_tables import (
    EXISTS,
    NAME_LENGTH,
    PROPERTIES,
    TABLES,
    TEXT_LENGTH,
    Schema,
    decode,
    encode,
    fitting,
    is_kind,
    plain,
    pointer_move,
    pointer_of,
    same,
    type_of,
)
from lakeplane.catalog.sql_trouble import Clash, Taken
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    InvalidInput,
    NamespaceNotEmpty,
    NotFound,
)
from lakeplane.model.frozen import FrozenDict

T = TypeVar("T")

_ATTEMPTS: Final = 10
_MANY: Final = 500
"""So many values are named in one question."""


class SqlPointers:
    """Pointers in the tables of a SQL database.

    - ``catalog_name`` tells the catalogs in one database apart. To share one with Spark, give the name that
      it has there (``spark.sql.catalog.<name>``); with PyIceberg, the name given to ``load_catalog``.
    - ``timeout`` is how many seconds to wait for others: for locks, and for a server to answer.
    - ``create_tables=False`` for a database whose tables somebody else makes.
    """

    def __init__(
        self, url: str, *, catalog_name: str = "lakeplane", timeout: float = 30.0, create_tables: bool = True
    ) -> None:
        self._catalog = fitting(catalog_name, NAME_LENGTH, "the name of the catalog")
        self._database = Database(url, timeout=timeout)
        self._schema = Schema(self._database, self._catalog, create=create_tables)

    def __repr__(self) -> str:
        return f"SqlPointers({self._database.shown!r}, catalog_name={self._catalog!r})"

    def __reduce__(self) -> NoReturn:
        hint = "Make another one there, from the URL"
        raise InvalidInput("connections do not travel to another process", source=repr(self), hint=hint)

    def close(self) -> None:
        """Close the connections that are idle."""
        self._database.close()

    # Transactions

    def _read(self, work: Callable[[Connection], T]) -> T:
        self._schema.prepare()
        try:
            with self._database.reading() as connection:
                return work(connection)
        except Clash:
            raise self._crowded() from None

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, again while others are in the way; ``Taken`` is for the caller."""
        self._schema.prepare()
        for _ in range(_ATTEMPTS):
            try:
                with self._database.writing() as connection:
                    return work(connection)
            except Clash:
                continue
        raise self._crowded()

    def _crowded(self) -> CatalogUnavailable:
        return CatalogUnavailable("other transactions were in the way each time", source=self._database.shown)

    def upgrade(self) -> None:
        """Make room for views in a catalog of the old schema (V0), as ``jdbc.schema-version=V1`` does."""
        self._schema.upgrade()

    # Namespaces

    def namespaces(self) -> list[Namespace]:
        """All namespaces, the implied ones (parents of others, homes of tables) among them, sorted."""
        return sorted(_all_of(self._read(self._written_namespaces)))

    def _written_namespaces(self, connection: Connection) -> set[str]:
        found: set[str] = set()
        for column in (TABLES.c.table_namespace, PROPERTIES.c.namespace):
            catalog = same((column.table.c.catalog_name, self._catalog))
            found.update(connection.scalars(select(plain(column)).where(catalog).distinct()))
        return found

    def _has(self, connection: Connection, namespace: Namespace) -> bool:
        if not namespace:
            return False
        return bool(self._properties(connection, namespace)) or self._is_implied(connection, namespace)

    def _is_implied(self, connection: Connection, namespace: Namespace) -> bool:
        """Whether a namespace is there because of what is in it."""
        if self._holds_tables(connection, namespace):
            return True
        written = {each for each in self._written_namespaces(connection) if each != encode(namespace)}
        return namespace in _all_of(written)

    def _holds_tables(self, connection: Connection, namespace: Namespace) -> bool:
        catalog, column = TABLES.c.catalog_name, TABLES.c.table_namespace
        here = same((catalog, self._catalog), (column, encode(namespace)))
        return connection.scalar(select(1).where(here).limit(1)) is not None

    def _require(self, connection: Connection, namespace: Namespace) -> None:
        if not self._has(connection, namespace):
            raise _no_namespace(namespace)

    def _properties(
        self, connection: Connection, namespace: Namespace, *, lock: Literal["no", "share", "all"] = "no"
    ) -> dict[str, str]:
        wanted = select(PROPERTIES.c.property_key, PROPERTIES.c.property_value)
        wanted = wanted.where(self._in(namespace)).order_by(PROPERTIES.c.property_key)
        if lock != "no":
            wanted = wanted.with_for_update(read=lock == "share")
        return {row[0]: row[1] or "" for row in connection.execute(wanted)}

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""

        def work(connection: Connection) -> FrozenDict[str, str]:
            found = self._properties(connection, namespace)
            if not found:
                self._require(connection, namespace)
            return FrozenDict({key: value for key, value in found.items() if key != EXISTS})

        return self._read(work)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace; ``AlreadyExists`` if there is one."""
        if not namespace:
            raise InvalidInput("a namespace needs a name")
        _check_properties(properties)
        encoded = fitting(encode(namespace), NAME_LENGTH, "the namespace")
        problem = AlreadyExists(f"the namespace {show(namespace)} exists")

        def work(connection: Connection) -> None:
            if self._has(connection, namespace):
                raise problem
            # As Iceberg's JDBC catalog does; and of two that make it at once, one fails here.
            self._insert(connection, encoded, {EXISTS: "true", **properties})

        try:
            self._write(work)
        except Taken:
            raise problem from None

    def _insert(self, connection: Connection, encoded: str, properties: Mapping[str, str]) -> None:
        home = {"catalog_name": self._catalog, "namespace": encoded}
        rows = [{**home, "property_key": key, "property_value": value} for key, value in properties.items()]
        connection.execute(insert(PROPERTIES).values(rows))

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove properties, in one transaction."""
        _check_properties(updates)
        encoded = fitting(encode(namespace), NAME_LENGTH, "the namespace")

        def work(connection: Connection) -> None:
            # What others inserted while their locks were waited for is seen by the second look only.
            self._properties(connection, namespace, lock="all")
            found = self._properties(connection, namespace)
            if not found:
                self._require(connection, namespace)
            wanted = {key: value for key, value in found.items() if key not in removals or key == EXISTS}
            # Without any row the namespace itself would be gone.
            wanted = {EXISTS: "true", **wanted, **updates}
            for key in sorted(found):
                if wanted.get(key) != found[key]:
                    connection.execute(
                        delete(PROPERTIES).where(self._in(namespace), same((PROPERTIES.c.property_key, key)))
                    )
            changed = {key: value for key, value in sorted(wanted.items()) if found.get(key) != value}
            if changed:
                self._insert(connection, encoded, changed)

        for _ in range(_ATTEMPTS):
            try:
                return self._write(work)
            except Taken:
                # Somebody else has set one of the same properties for the first time.
                continue
        raise self._crowded()

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace; ``NamespaceNotEmpty`` if something is in it."""
        encoded = encode(namespace)

        def work(connection: Connection) -> None:
            # First, so that a table that is being made in it is waited for, or waits for this.
            self._properties(connection, namespace, lock="all")
            gone = connection.execute(delete(PROPERTIES).where(self._in(namespace))).rowcount
            inside = f"{encoded}."
            below = any(each.startswith(inside) for each in self._written_namespaces(connection))
            if below or self._holds_tables(connection, namespace):
                raise NamespaceNotEmpty(f"the namespace {show(namespace)} is not empty")
            if not gone:
                raise NotFound(f"there is no namespace {show(namespace)}")

        if not namespace:
            raise NotFound("the root is no namespace that can be dropped")
        self._write(work)

    def _in(self, namespace: Namespace) -> ColumnElement[bool]:
        return same((PROPERTIES.c.catalog_name, self._catalog), (PROPERTIES.c.namespace, encode(namespace)))

    # Tables and views

    def _at(self, name: Name) -> ColumnElement[bool]:
        return same(
            (TABLES.c.catalog_name, self._catalog),
            (TABLES.c.table_namespace, encode(name.namespace)),
            (TABLES.c.table_name, name.name),
        )

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        here = same((TABLES.c.catalog_name, self._catalog), (TABLES.c.table_namespace, encode(namespace)))

        def work(connection: Connection) -> list[str]:
            typed = is_kind(kind, typed=self._schema.typed(connection))
            pointing = TABLES.c.metadata_location.is_not(None)
            found = list(connection.scalars(select(TABLES.c.table_name).where(here, typed, pointing)))
            if not found or not namespace:
                self._require(connection, namespace)
            return found

        return sorted(Name(namespace, each) for each in self._read(work))

    def get(self, kind: Kind, name: Name) -> str | None:
        """The metadata location of a table or view; None when there is none."""
        return self._read(lambda connection: self._get(connection, kind, name))

    def _get(self, connection: Connection, kind: Kind, name: Name) -> str | None:
        wanted = pointer_of(kind, typed=self._schema.typed(connection))
        found: str | None = connection.scalar(wanted, self._place(name))
        return found

    def _place(self, name: Name) -> dict[str, str]:
        return {"home": self._catalog, "space": encode(name.namespace), "label": name.name}

    def named(self, files: Sequence[str]) -> set[str]:
        """Which of these metadata files tables and views name, of whichever catalog in the database."""
        found: set[str] = set()

        def work(connection: Connection) -> None:
            for start in range(0, len(files), _MANY):
                wanted = TABLES.c.metadata_location.in_(files[start : start + _MANY])
                found.update(connection.scalars(select(TABLES.c.metadata_location).where(wanted)))

        self._read(work)
        # Some collations find more than the very same texts.
        return found.intersection(files)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Move all pointers in one transaction, or none; False when one is not what was expected."""
        # In one order, so that two transactions cannot wait for each other.
        ordered = sorted(swaps, key=lambda swap: (swap.name, swap.kind))
        for swap in ordered:
            fitting(swap.new, TEXT_LENGTH, "the metadata location")
        if len({swap.name for swap in ordered}) < len(ordered):
            raise InvalidInput("one table is to be changed twice in one transaction")
        if not ordered:
            return True
        self._schema.prepare()
        for _ in range(_ATTEMPTS):
            try:
                with self._database.writing() as connection:
                    for swap in ordered:
                        self._move(connection, swap)
            except (_Moved, Taken):
                return False
            except Clash:
                continue
            return True
        return False

    def _move(self, connection: Connection, swap: Swap) -> None:
        """Move one pointer, if it is where it was expected."""
        self._require_room(connection, swap.kind, swap.name)
        if swap.expected is None:
            self._require_locked(connection, swap.name.namespace)
            row = {
                "catalog_name": self._catalog,
                "table_namespace": fitting(encode(swap.name.namespace), NAME_LENGTH, "the namespace"),
                "table_name": fitting(swap.name.name, NAME_LENGTH, "the name"),
                "metadata_location": swap.new,
            }
            if self._schema.typed(connection):
                row["iceberg_type"] = type_of(swap.kind)
            connection.execute(insert(TABLES).values(row))
            return
        typed, place = self._schema.typed(connection), self._place(swap.name)
        if swap.new == swap.expected:
            stays = pointer_of(swap.kind, typed=typed).with_for_update(read=True)
            is_done = connection.scalar(stays, place) == swap.expected
        else:
            ends = {"expected": swap.expected, "target": swap.new}
            is_done = connection.execute(pointer_move(swap.kind, typed=typed), place | ends).rowcount == 1
        if not is_done:
            self._require(connection, swap.name.namespace)
            raise _Moved

    def _require_room(self, connection: Connection, kind: Kind, name: Name) -> None:
        if kind == "view" and not self._schema.typed(connection):
            problem = f"{TABLES.name} is of the old schema (V0), which has no views"
            raise CatalogCannot(problem, source=str(name), hint="Upgrade it: SqlPointers.upgrade()")

    def _require_locked(self, connection: Connection, namespace: Namespace) -> None:
        """Require a namespace, and let nobody drop it before the end of the transaction."""
        while not self._properties(connection, namespace, lock="share"):
            if namespace and self._is_implied(connection, namespace):
                return
            if not self._properties(connection, namespace):
                raise _no_namespace(namespace)
            # Dropped while it was waited for, and made again by now.

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Move a pointer to another name; ``AlreadyExists`` if that is taken by a table or a view."""
        taken = AlreadyExists(f"the name {new} is taken")
        values = {
            "table_namespace": fitting(encode(new.namespace), NAME_LENGTH, "the namespace"),
            "table_name": fitting(new.name, NAME_LENGTH, "the name"),
        }

        def work(connection: Connection) -> None:
            self._require_locked(connection, new.namespace)
            typed = is_kind(kind, typed=self._schema.typed(connection))
            moved = connection.execute(update(TABLES).where(self._at(old), typed).values(values)).rowcount
            if not moved:
                raise NotFound(f"there is no {kind} {old}")
            if old == new:
                raise taken

        try:
            self._write(work)
        except Taken:
            raise taken from None

    def drop(self, kind: Kind, name: Name, expected: str | None = None) -> None:
        """Remove a pointer; ``CommitConflict`` if it does not name the expected metadata file."""

        def work(connection: Connection) -> None:
            row = delete(TABLES).where(self._at(name), is_kind(kind, typed=self._schema.typed(connection)))
            if expected is not None:
                row = row.where(same((TABLES.c.metadata_location, expected)))
            if not connection.execute(row).rowcount:
                if self._get(connection, kind, name) is not None:
                    raise changed_before_drop(kind, name)
                raise NotFound(f"there is no {kind} {name}")

        self._write(work)


class _Moved(Exception):
    """A pointer is not where it was expected."""


def _no_namespace(namespace: Namespace) -> NotFound:
    return NotFound(f"there is no namespace {show(namespace)}", hint="Create it first")


def _all_of(written: set[str]) -> set[Namespace]:
    """Namespaces with their parents."""
    known = [namespace for each in written if (namespace := decode(each)) is not None]
    return {namespace[:depth] for namespace in known for depth in range(1, len(namespace) + 1)}


def _check_properties(properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        fitting(key, NAME_LENGTH, f"the property {key!r:.100}")
        fitting(value, TEXT_LENGTH, f"the value of {key!r}")
        if key == EXISTS:
            hint = "Choose another name"
            raise InvalidInput(f"SQL catalogs keep the property {EXISTS!r} for themselves", hint=hint)
