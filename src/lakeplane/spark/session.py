"""Finding the Spark session that reads and writes rows, and what it must be told first."""

from __future__ import annotations

from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeplane.errors import NotSupported

OLDEST: Final = (4, 1)
"""The first version of Spark that everything here is tried with."""

_BY_ID: Final = "spark.sql.parquet.fieldId.read.enabled"
_TIME: Final = "spark.sql.timeType.enabled"


def find_session(given: Any = None) -> SparkSession:
    """The session that a user gave, or the active one, or a new one on this machine."""
    session = given or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    assert isinstance(session, SparkSession) or is_connect(session)
    if version_of(session) < OLDEST:
        problem = f"Spark {session.version} is too old"
        raise NotSupported(problem, hint=f"Use Spark {'.'.join(map(str, OLDEST))} or newer")
    return session


def version_of(session: Any) -> tuple[int, ...]:
    """The release of Spark that a session runs on, as in ``(4, 3)``."""
    return tuple(int(part) for part in session.version.split(".")[:2])


def is_connect(session: Any) -> bool:
    """Whether a session talks to a Spark Connect server, and has no JVM in reach."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def read_by_id(session: SparkSession) -> None:
    """Let a session read Parquet columns by their field ids.

    There is no such option of a single read. Reads of files for which no ids are asked do not change.
    """
    _switch_on(session, _BY_ID)


def allow_time(session: SparkSession) -> bool:
    """Let a session have columns of times of day, and tell whether it can."""
    try:
        _switch_on(session, _TIME)
    except PySparkException:  # a release that has no such type, or a server that does not let us
        return False
    return True


def _switch_on(session: SparkSession, name: str) -> None:
    if session.conf.get(name, "false") != "true":
        session.conf.set(name, "true")


def session_zone(session: SparkSession) -> str:
    """The time zone in which a session understands times without one: what plans must be made with."""
    return str(session.conf.get("spark.sql.session.timeZone"))


def is_case_sensitive(session: SparkSession) -> bool:
    """Whether a session tells columns ``A`` and ``a`` apart."""
    return session.conf.get("spark.sql.caseSensitive", "false") == "true"


def runs_in_utc(session: SparkSession) -> bool:
    """Whether the clock of the machine that runs Spark shows UTC, which some readers depend on."""
    row = session.sql("SELECT java_method('java.lang.System', 'getProperty', 'user.timezone')").first()
    return row is not None and row[0] in (
        "UTC",
        "Etc/UTC",
        "GMT",
        "Etc/GMT",
        "Z",
        "Zulu",
        "Universal",
        "Etc/UCT",
    )
