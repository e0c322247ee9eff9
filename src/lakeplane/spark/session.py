"""Finding the Spark session that reads and writes rows."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from lakeplane.errors import NotSupported

OLDEST: Final = (4, 1)
"""The first version of Spark that everything here is tried with."""


def find_session(given: Any = None) -> SparkSession:
    """The session that a user gave, or the active one, or a new one on this machine."""
    session = given or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    assert isinstance(session, SparkSession) or is_connect(session)
    version = tuple(int(part) for part in session.version.split(".")[:2])
    if version < OLDEST:
        problem = f"Spark {session.version} is too old"
        raise NotSupported(problem, hint=f"Use Spark {'.'.join(map(str, OLDEST))} or newer")
    return session


def is_connect(session: Any) -> bool:
    """Whether a session talks to a Spark Connect server, and has no JVM in reach."""
    return type(session).__module__.startswith("pyspark.sql.connect")
