"""What statements have in common: what they run with, and how they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from lakeplane.sql.select import Query
from lakeplane.sql.words import Words

if TYPE_CHECKING:
    from lakeplane.lake import Lake
    from lakeplane.receipt import Commit
    from lakeplane.spark.frames import DataFrame, SparkSession
    from lakeplane.sql.front import Front
    from lakeplane.sql.names import Scope
    from lakeplane.sql.words import Parts


class Run(NamedTuple):
    """What a statement runs with."""

    front: Front
    session: SparkSession
    scope: Scope
    words: Words

    @property
    def lake(self) -> Lake:
        """The lake."""
        return self.front.lake

    @property
    def query(self) -> Query:
        """Runs queries."""
        return Query(self.session, self.scope)

    @property
    def zone(self) -> str:
        """The time zone in which the session understands times without one."""
        from lakeplane.spark.session import session_zone  # noqa: PLC0415 - brings pyspark

        return session_zone(self.session)

    @property
    def case_sensitive(self) -> bool:
        """Whether the session tells ``A`` and ``a`` apart."""
        from lakeplane.spark.session import is_case_sensitive  # noqa: PLC0415 - brings pyspark

        return is_case_sensitive(self.session)

    def answer(self, ddl: str = "", rows: Sequence[Sequence[Any]] = ()) -> DataFrame:
        """A frame of a few rows; of DDL, as in Spark, it is empty."""
        from lakeplane.spark.statements import answer  # noqa: PLC0415 - brings pyspark

        return answer(self.session, ddl, rows)

    def receipt(self, done: Commit | None) -> DataFrame:
        """One row that tells what a change of rows did; no row if there was nothing to do."""
        rows = (
            [] if done is None or done.snapshot_id is None else [[getattr(done, each) for each in _RECEIPT]]
        )
        types = {"operation": "STRING"}
        return self.answer(", ".join(f"{each} {types.get(each, 'BIGINT')}" for each in _RECEIPT), rows)

    def to_spark(self) -> DataFrame:
        """Hand the statement to Spark: what it reads of the lake becomes frames, all else stays as it is."""
        return self.front.pass_on(self)


_RECEIPT: Final = ("snapshot_id", "operation", "added_files", "removed_files", "added_rows", "removed_rows")


class Statement(Protocol):
    """A statement that was understood."""

    def run(self, run: Run) -> DataFrame | None:
        """Do what it says; None is an empty answer."""
        ...


def properties_in(words: Words) -> dict[str, str]:
    """Read ``('key' = 'value', ...)``."""
    words.expect("(", "'('")
    found: dict[str, str] = {}
    while True:
        key = property_key(words)
        words.skip("=") or words.skip("==")
        found[key] = property_value(words)
        if not words.skip(","):
            words.expect(")", "a comma or ')'")
            return found


def property_keys(words: Words) -> tuple[str, ...]:
    """Read ``('key', ...)``."""
    words.expect("(", "'('")
    found = [property_key(words)]
    while words.skip(","):
        found.append(property_key(words))
    words.expect(")", "a comma or ')'")
    return tuple(found)


def property_key(words: Words) -> str:
    """Read the name of a property."""
    if words.token.kind == "string":
        return words.string()
    found = ".".join(words.parts("the name of a property"))
    if words.sees("-"):
        words.refuse("a name with '-'", "Write names of properties between single quotes")
    return found


def property_value(words: Words) -> str:
    """Read the value of a property, as text."""
    token = words.token
    if token.kind == "string":
        return words.string()
    sign = "-" if words.skip("-") else ""
    token = words.token
    if token.kind != "number" and token.word not in ("TRUE", "FALSE"):
        words.refuse("expected a value", "Write values between single quotes")
    words.at += 1
    return sign + (token.text if token.kind == "number" else token.text.lower())


def column_name(words: Words) -> Parts:
    """The path of a column."""
    return words.parts("a column")
