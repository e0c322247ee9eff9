"""The database of a SQL catalog: its connections, transactions that tell how they ended, and forks.

A transaction ends in one of three ways: it is committed; it raises ``Clash``, ``Taken`` or a ``CatalogError``
and nothing was changed; or it raises ``OutcomeUnknown``, which only an error of COMMIT itself can do.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from lakeplane.catalog.sql_trouble import Clash, Taken, Trouble, trouble
from lakeplane.errors import CatalogUnavailable, InvalidInput, OutcomeUnknown
from lakeplane.storage.secret import Secret, mask

log = logging.getLogger(__name__)

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_SYNCHRONOUS: Final = {"pysqlite", "psycopg", "psycopg2", "pymysql", "mysqldb"}
_WRITING: Final = "lakeplane_writing"
_FORK_PATIENCE_SECONDS: Final = 5.0
_WAL_PATIENCE_SECONDS: Final = 1.0


class Database:
    """Connections to one database: safe between threads, and a fork leaves none of them in two processes."""

    def __init__(self, url: str, *, timeout: float) -> None:
        parsed = _parse(url)
        self._url = Secret(parsed.render_as_string(hide_password=False))
        hidden = [parsed.password, *parsed.normalized_query.values()]
        self._secrets = [
            Secret(value) for each in hidden for value in ([each] if isinstance(each, str) else each or ())
        ]
        self.shown = URL.create(
            parsed.drivername, parsed.username, None, parsed.host, parsed.port, parsed.database
        ).render_as_string()
        self._timeout = timeout
        self._turn = threading.Condition()
        self._engine: Engine | None = None
        self._inside = 0
        self._forking = False
        _LIVE.add(self)

    def engine(self) -> Engine:
        """The engine of this process."""
        with self._turn:
            if self._engine is None:
                try:
                    self._engine = _open(make_url(self._url.reveal()), self._timeout)
                except ImportError as missing:
                    hint = "Install lakeplane[postgres] or lakeplane[mysql]"
                    problem = f"the driver {missing.name} is not installed"
                    raise InvalidInput(problem, source=self.shown, hint=hint) from None
                except (SQLAlchemyError, TypeError, ValueError) as wrong:
                    raise InvalidInput(self._told(wrong), source=self.shown) from None
            return self._engine

    def close(self) -> None:
        """Close the connections that are idle; the next use opens new ones."""
        with self._turn:
            if self._engine is not None:
                self._engine.dispose()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing."""
        with self._entered(), self._connected(writing=False) as connection, self._translated():
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed at the end, unless something is raised before."""
        with self._entered(), self._connected(writing=True) as connection:
            with self._translated():
                self._limit_waits(connection)
                yield connection
            self._commit(connection)

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(lambda: not self._forking)
            self._inside += 1
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                self._turn.notify_all()

    @contextlib.contextmanager
    def _connected(self, *, writing: bool) -> Iterator[Connection]:
        engine = self.engine()
        with self._translated():
            connection = engine.connect().execution_options(**{_WRITING: writing})
        try:
            yield connection
        finally:
            try:
                connection.close()
            except Exception as broken:  # noqa: BLE001 - how the transaction ended is known by now
                log.debug("a connection could not be given back: %s", self._told(broken))
                with contextlib.suppress(Exception):
                    connection.invalidate()

    def _limit_waits(self, connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            limit = text("SELECT set_config('lock_timeout', :milliseconds, true)")
            connection.execute(limit, {"milliseconds": str(round(self._timeout * 1000))})

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Before COMMIT every error means that nothing is changed: what is not committed is rolled back."""
        try:
            yield
        except UnicodeError:
            raise InvalidInput("a text holds characters that no database keeps") from None
        except SQLAlchemyError as error:
            self._raise(error)

    def _raise(self, error: SQLAlchemyError) -> NoReturn:
        match trouble(error):
            case Trouble.CONFLICT:
                raise Clash from None
            case Trouble.TAKEN:
                raise Taken from None
            case Trouble.REFUSED:
                raise InvalidInput(self._told(error), source=self.shown) from None
            case Trouble.BUSY:
                raise self._locked() from None
            case Trouble.FAILED:
                raise CatalogUnavailable(self._told(error), source=self.shown) from None

    def _locked(self) -> CatalogUnavailable:
        problem = f"the database was locked by others for {self._timeout:g} s"
        return CatalogUnavailable(problem, source=self.shown, hint="Try again later")

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except Exception as error:  # noqa: BLE001 - whatever it is, it may have come after the fact
            # Not used again: SQLite's transaction is still open after some errors, and closing ends it.
            with contextlib.suppress(Exception):
                connection.invalidate()
            found = trouble(error)
            if found in (Trouble.CONFLICT, Trouble.TAKEN):
                raise Clash from None
            origin = error.orig if isinstance(error, DBAPIError) else None
            if found is Trouble.BUSY and isinstance(origin, sqlite3.Error):
                raise self._locked() from None
            raise OutcomeUnknown(self._told(error), source=self.shown) from None

    def _told(self, error: BaseException) -> str:
        """The first line of what a driver says, without what it must not say."""
        origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        lines = str(origin).strip().splitlines() or [type(origin).__name__]
        return mask(lines[0], self._secrets)

    # A connection of a parent must neither be used nor closed by its child: SQLite's locks would break, and a
    # server would end the session of the parent. So at the moment of a fork there is none.

    def _hold(self) -> None:
        self._turn.acquire()
        self._forking = True
        self._turn.wait_for(lambda: self._inside == 0, timeout=_FORK_PATIENCE_SECONDS)
        if self._inside == 0 and self._engine is not None:
            with contextlib.suppress(Exception):
                self._engine.dispose()

    def _resume(self, *, child: bool) -> None:
        if child:
            if self._inside:
                _ABANDONED.append(self._engine)
            self._engine, self._inside = None, 0
        self._forking = False
        self._turn.notify_all()
        self._turn.release()


_LIVE: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
_ABANDONED: Final[list[Engine | None]] = []
_HELD: Final[list[Database]] = []
_FORK: Final = threading.Lock()


def _before_fork() -> None:
    _FORK.acquire()
    _HELD.extend(sorted(_LIVE, key=id))
    for database in _HELD:
        database._hold()  # noqa: SLF001 - a hook of the process, part of this class in all but place


def _after_fork(*, child: bool) -> None:
    for database in _HELD:
        database._resume(child=child)  # noqa: SLF001
    _HELD.clear()
    _FORK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )


def _parse(url: str) -> URL:
    """Read a URL; what cannot be read is not shown, for it may hold a password."""
    try:
        parsed = make_url(url)
        backend, _, driver = parsed.drivername.partition("+")
    except (SQLAlchemyError, TypeError, ValueError):
        hint = "Write sqlite:///path, postgresql://user@host/database or mysql://user@host/database"
        raise InvalidInput("not the URL of a database", hint=hint) from None
    if backend not in _DRIVERS or (driver and driver not in _SYNCHRONOUS):
        hint = "Use sqlite, postgresql or mysql"
        raise InvalidInput(f"{parsed.drivername!r:.40} is no database that catalogs are kept in", hint=hint)
    if not driver:
        parsed = parsed.set(drivername=_DRIVERS[backend])
    if backend != "sqlite":
        return parsed
    if parsed.database in (None, "", ":memory:") or "mode=memory" in url:
        hint = "Use the memory catalog, or a file: sqlite:///catalog.db"
        raise InvalidInput("each connection to a SQLite database in memory would see another one", hint=hint)
    if parsed.database.startswith("file:"):
        return parsed
    return parsed.set(database=str(Path(parsed.database).absolute()))


def _open(url: URL, timeout: float) -> Engine:
    backend, driver = url.get_backend_name(), url.get_driver_name()
    options: dict[str, Any] = {}
    if backend == "sqlite":
        options["connect_args"] = {"timeout": timeout}
    else:
        seconds = max(1, round(timeout))
        # A server that is gone without a word must not hold a writer for ever.
        wishes: dict[str, Any] = {"connect_timeout": seconds}
        if driver == "psycopg":
            wishes |= {"tcp_user_timeout": seconds * 1000, "keepalives_idle": seconds}
        elif driver == "pymysql":
            wishes |= {"read_timeout": 2 * seconds, "write_timeout": 2 * seconds}
            wishes |= {"init_command": f"SET SESSION innodb_lock_wait_timeout = {seconds}"}
        options["connect_args"] = {key: value for key, value in wishes.items() if key not in url.query}
        options |= {"isolation_level": "READ COMMITTED", "pool_pre_ping": True, "pool_recycle": 1800}
    engine = create_engine(url, hide_parameters=True, max_overflow=20, pool_timeout=timeout, **options)
    if backend == "sqlite":
        _prepare_sqlite(engine, timeout)
    return engine


def _prepare_sqlite(engine: Engine, timeout: float) -> None:
    @event.listens_for(engine, "connect")
    def connect(raw: Any, _record: object) -> None:
        # The driver would begin transactions on its own, and too late.
        raw.isolation_level = None
        _use_wal(raw, timeout)
        raw.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _use_wal(raw: sqlite3.Connection, timeout: float) -> None:
    """Let readers and a writer work side by side; where it cannot be, they take turns.

    The first to come switches the file, and SQLite does not wait for others then.
    """
    until = time.monotonic() + min(timeout, _WAL_PATIENCE_SECONDS)
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & 0xFF
            if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY):
                raise
            if code == sqlite3.SQLITE_READONLY or time.monotonic() > until:
                return
            time.sleep(0.01)
        else:
            return
