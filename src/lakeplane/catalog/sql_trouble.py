"""What the errors of database drivers mean: which of them say for certain that nothing was changed."""

from __future__ import annotations

import enum
import sqlite3
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError

_CONFLICT: Final = "40"
_UNKNOWN: Final = "40003"
_TAKEN: Final = "23505"
_LOCKED: Final = "55P03"


class Trouble(enum.Enum):
    """Why a statement or a commit failed."""

    CONFLICT = "another transaction was in the way, and this one was rolled back"
    TAKEN = "there is such a row"
    BUSY = "others hold the locks for too long"
    REFUSED = "the data does not fit"
    FAILED = "anything else, a lost connection among it"


# MySQL's numbers; its SQLSTATE for a lock that was not had in time is the one of a deadlock.
_BY_NUMBER: Final = {1062: Trouble.TAKEN, 1205: Trouble.BUSY, 1213: Trouble.CONFLICT}


class Clash(Exception):
    """The transaction was rolled back because of another one: it may work next time."""


class Taken(Exception):
    """The transaction was rolled back because there is such a row."""


def trouble(error: Exception) -> Trouble:
    """Tell what an error means."""
    if not isinstance(error, DBAPIError):
        return Trouble.FAILED
    origin = error.orig
    if isinstance(origin, sqlite3.Error):
        return _sqlite(origin)
    number = origin.args[0] if origin is not None and origin.args else None
    if isinstance(number, int):
        found = _BY_NUMBER.get(number, Trouble.FAILED)
    else:
        found = _by_state(getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None))
    return Trouble.REFUSED if found is Trouble.FAILED and isinstance(error, DataError) else found


def _sqlite(origin: sqlite3.Error) -> Trouble:
    code = getattr(origin, "sqlite_errorcode", None)
    if code is None:
        return Trouble.FAILED
    if code in (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE):
        return Trouble.TAKEN
    return Trouble.BUSY if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else Trouble.FAILED


def _by_state(state: str | None) -> Trouble:
    if state is None:
        return Trouble.FAILED
    if state == _TAKEN:
        return Trouble.TAKEN
    if state == _LOCKED:
        return Trouble.BUSY
    return Trouble.CONFLICT if state.startswith(_CONFLICT) and state != _UNKNOWN else Trouble.FAILED
