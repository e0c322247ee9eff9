"""The tables of Iceberg's SQL catalogs, as its JDBC catalog and PyIceberg make them, and names in them."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Select,
    String,
    Table,
    Update,
    and_,
    bindparam,
    false,
    inspect,
    literal,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.mysql import VARCHAR
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Boolean

from lakeplane.catalog.catalog import Kind
from lakeplane.catalog.names import Namespace, show
from lakeplane.catalog.sql_database import Database
from lakeplane.catalog.sql_trouble import Clash, Taken
from lakeplane.errors import CatalogUnavailable, InvalidInput

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

log = logging.getLogger(__name__)

EXISTS: Final = "exists"
"""The property that stands for a namespace without any."""

NAME_LENGTH: Final = 255
TEXT_LENGTH: Final = 1000

_KINDS: Final[dict[Kind, str]] = {"table": "TABLE", "view": "VIEW"}


def _text(length: int) -> String:
    # What MySQL takes for equal by default would make one name of `Orders` and `orders`.
    exact = VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


_metadata: Final = MetaData()

TABLES: Final = Table(
    "iceberg_tables",
    _metadata,
    Column("catalog_name", _text(NAME_LENGTH), primary_key=True),
    Column("table_namespace", _text(NAME_LENGTH), primary_key=True),
    Column("table_name", _text(NAME_LENGTH), primary_key=True),
    Column("metadata_location", _text(TEXT_LENGTH)),
    Column("previous_metadata_location", _text(TEXT_LENGTH)),
    Column("iceberg_type", _text(5)),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)
PROPERTIES: Final = Table(
    "iceberg_namespace_properties",
    _metadata,
    Column("catalog_name", _text(NAME_LENGTH), primary_key=True),
    Column("namespace", _text(NAME_LENGTH), primary_key=True),
    Column("property_key", _text(NAME_LENGTH), primary_key=True),
    Column("property_value", _text(TEXT_LENGTH)),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


class Schema:
    """The tables as they are in one database: made where they are absent, and of which version."""

    def __init__(self, database: Database, catalog: str, *, create: bool) -> None:
        self._database = database
        self._catalog = catalog
        self._create = create
        self._ready = False
        self._typed = False

    def prepare(self) -> None:
        """Make the tables if they are absent; once."""
        if self._ready:
            return
        if missing := self._missing():
            try:
                with self._database.writing() as connection:
                    for table in missing:
                        connection.execute(CreateTable(table, if_not_exists=True))
            except (Clash, Taken, CatalogUnavailable) as problem:
                # PostgreSQL takes it for an error when somebody else makes them at the same moment.
                if self._missing():
                    raise self._failure("making the tables", problem) from None
        self._warn_of_others()
        self._ready = True

    def _missing(self) -> list[Table]:
        with self._database.reading() as connection:
            found = inspect(connection)
            missing = [table for table in (TABLES, PROPERTIES) if not found.has_table(table.name)]
        if missing and not self._create:
            names = " and ".join(table.name for table in missing)
            hint = "Create them, or open the catalog with create_tables=True"
            raise CatalogUnavailable(f"the database has no {names}", source=self._database.shown, hint=hint)
        return missing

    def _warn_of_others(self) -> None:
        found: set[str] = set()
        with self._database.reading() as connection:
            for table in (TABLES, PROPERTIES):
                found.update(connection.scalars(select(plain(table.c.catalog_name)).distinct()))
        if found and self._catalog not in found:
            known = ", ".join(map(repr, sorted(found)))
            log.warning("%s has no catalog %r yet, but %s", self._database.shown, self._catalog, known)

    def typed(self, connection: Connection) -> bool:
        """Whether tables and views are told apart (V1); catalogs of long ago hold tables only (V0)."""
        if not self._typed:
            # Asked again each time: when another program upgrades, what was only tables may hold views.
            columns = inspect(connection).get_columns(TABLES.name)
            self._typed = any(column["name"] == "iceberg_type" for column in columns)
        return self._typed

    def upgrade(self) -> None:
        """Make V1 of V0."""
        self.prepare()
        try:
            with self._database.writing() as connection:
                if not self.typed(connection):
                    connection.execute(text(f"ALTER TABLE {TABLES.name} ADD COLUMN iceberg_type VARCHAR(5)"))
        except (Clash, CatalogUnavailable) as problem:
            with self._database.reading() as connection:
                if not self.typed(connection):
                    raise self._failure("upgrading the tables", problem) from None

    def _failure(self, what: str, problem: Exception) -> CatalogUnavailable:
        why = problem.problem if isinstance(problem, CatalogUnavailable) else "others do the same"
        return CatalogUnavailable(f"{what} failed: {why}", source=self._database.shown)


def type_of(kind: Kind) -> str:
    """What stands in ``iceberg_type``."""
    return _KINDS[kind]


def is_kind(kind: Kind, *, typed: bool) -> ColumnElement[bool]:
    """The rows of one kind; rows from before there were views have no type."""
    if not typed:
        return true() if kind == "table" else false()
    found = TABLES.c.iceberg_type == _KINDS[kind]
    return or_(found, TABLES.c.iceberg_type.is_(None)) if kind == "table" else found


def encode(namespace: Namespace) -> str:
    """How a namespace stands in the database: parts with dots between them."""
    for part in namespace:
        if not part or "." in part:
            # ("a.b",) and ("a", "b") would be one.
            problem = f"{part!r:.100} cannot be a part of a namespace in a SQL catalog"
            raise InvalidInput(problem, source=show(namespace), hint="Use a name without dots")
    return ".".join(namespace)


def decode(text: str) -> Namespace | None:
    """Read a namespace; None for what no namespace is called."""
    parts = tuple(text.split("."))
    return parts if all(parts) else None


def fitting(text: str, length: int, what: str) -> str:
    """Refuse text that some database would cut off, or not take."""
    if len(text) > length:
        # Not left to the database: SQLite takes any length, and MySQL may cut off what is too long.
        raise InvalidInput(f"{what} has {len(text)} characters, more than the {length} of a SQL catalog")
    if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
        raise InvalidInput(f"{what} holds characters that no database keeps")
    return text


class _Same(FunctionElement[bool]):
    """Equal character by character, whatever the collation of the column says."""

    name = "same"
    type = Boolean()
    inherit_cache = True


class _Plain(FunctionElement[str]):
    """A column whose twins in case or accent are distinct, whatever its collation says."""

    name = "plain"
    type = String()
    inherit_cache = True


def same(*pairs: tuple[ColumnElement[Any], str | BindParameter[str]]) -> ColumnElement[bool]:
    """The rows where each column is exactly that text."""
    return and_(*(_Same(column, _literal(text)) for column, text in pairs))


def _literal(text: str | BindParameter[str]) -> BindParameter[str]:
    return literal(text, String()) if isinstance(text, str) else text


# Every commit runs these two: to build them anew takes longer than to run them.


@functools.cache
def pointer_of(kind: Kind, *, typed: bool) -> Select[Any]:
    """The metadata location of the table or view ``:home``, ``:space``, ``:label``."""
    return select(TABLES.c.metadata_location).where(_bound(), is_kind(kind, typed=typed))


@functools.cache
def pointer_move(kind: Kind, *, typed: bool) -> Update:
    """Moves that pointer from ``:expected`` to ``:target``."""
    expected = same((TABLES.c.metadata_location, bindparam("expected", type_=String())))
    values: dict[Any, Any] = {
        TABLES.c.metadata_location: bindparam("target"),
        TABLES.c.previous_metadata_location: bindparam("expected"),
    }
    return update(TABLES).where(_bound(), is_kind(kind, typed=typed), expected).values(values)


def _bound() -> ColumnElement[bool]:
    columns = {"home": TABLES.c.catalog_name, "space": TABLES.c.table_namespace, "label": TABLES.c.table_name}
    return same(*((column, bindparam(name, type_=String())) for name, column in columns.items()))


def plain(column: ColumnElement[Any]) -> ColumnElement[str]:
    """A column, for ``SELECT DISTINCT``."""
    return _Plain(column)


def _sides(element: FunctionElement[Any], compiler: SQLCompiler, options: dict[str, Any]) -> list[str]:
    return [compiler.process(side, **options) for side in element.clauses]


@compiles(_Same)
def _same(element: _Same, compiler: SQLCompiler, **options: Any) -> str:
    left, right = _sides(element, compiler, options)
    return f"{left} = {right}"


@compiles(_Same, "sqlite")
def _same_sqlite(element: _Same, compiler: SQLCompiler, **options: Any) -> str:
    left, right = _sides(element, compiler, options)
    return f"{left} COLLATE BINARY = {right}"


@compiles(_Same, "mysql", "mariadb")
def _same_mysql(element: _Same, compiler: SQLCompiler, **options: Any) -> str:
    left, right = _sides(element, compiler, options)
    # The first comparison is there for the index.
    return f"({left} = {right} AND {_bytes(left)} = {_bytes(right)})"


def _bytes(side: str) -> str:
    return f"CAST(CAST({side} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"


@compiles(_Plain)
def _plain(element: _Plain, compiler: SQLCompiler, **options: Any) -> str:
    [column] = _sides(element, compiler, options)
    return column


@compiles(_Plain, "sqlite")
def _plain_sqlite(element: _Plain, compiler: SQLCompiler, **options: Any) -> str:
    [column] = _sides(element, compiler, options)
    return f"{column} COLLATE BINARY"


@compiles(_Plain, "mysql", "mariadb")
def _plain_mysql(element: _Plain, compiler: SQLCompiler, **options: Any) -> str:
    [column] = _sides(element, compiler, options)
    return f"CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin"
