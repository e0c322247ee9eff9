"""The versions of a view, and what defines them."""

from __future__ import annotations

from lakeplane.model.records import Int, Long, Record, Strings


class Representation(Record, frozen=True, kw_only=True):
    """One way to say what a view is: today always a SELECT in some dialect."""

    type: str
    sql: str | None = None
    dialect: str | None = None


class ViewVersion(Record, frozen=True, kw_only=True):
    """A definition of a view; it never changes."""

    version_id: Int
    schema_id: Int
    timestamp_ms: Long
    summary: Strings
    representations: tuple[Representation, ...]
    default_catalog: str | None = None
    default_namespace: tuple[str, ...]

    def sql_for(self, dialect: str) -> str | None:
        """The SELECT in a dialect; None when there is none."""
        wanted = dialect.lower()
        found = (each.sql for each in self.representations if (each.dialect or "").lower() == wanted)
        return next(found, None)


class VersionLogEntry(Record, frozen=True, kw_only=True):
    """When a version became the current one."""

    timestamp_ms: Long
    version_id: Int
