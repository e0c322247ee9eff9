"""Reading tables: what plans read manifests with, and how a plan becomes a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.iceberg.plan_changes import commits_between, schema_of_changes, steps
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.iceberg.time_travel import At
from lakeplane.model.location import parse_location
from lakeplane.model.transforms import Identity
from lakeplane.resources import Resources
from lakeplane.storage.store import Range, Store

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from lakeplane.model.expressions.tree import Predicate
    from lakeplane.spark.frames import DataFrame, SparkSession
    from lakeplane.spark.read import Access


def reading_of(store: Store, cache: ManifestCache) -> Reading:
    """How the files that metadata names are read from a store."""

    def read_many(paths: Sequence[str]) -> list[bytes]:
        return store.read_many([Range(parse_location(path)) for path in paths])

    return Reading(read_many, cache, os.cpu_count() or 1)


def read_rows(
    table: TableMetadata,
    store: Store,
    resources: Resources,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    at: At = None,
) -> DataFrame:
    """The rows of a table as a DataFrame of Spark, which has read none of them yet."""
    reader = Reader.of(store, resources)
    return reader.frame(reader.plan(table, where, at), columns, where)


def read_changes(
    table: TableMetadata,
    store: Store,
    resources: Resources,
    since: At,
    until: At,
    *,
    net: bool = False,
    columns: Sequence[str] | None = None,
    identifier_columns: Sequence[str] | None = None,
) -> DataFrame:
    """What happened to the rows of a table between two states, as a DataFrame of Spark."""
    from lakeplane.spark.change_feed import change_feed, wanted_columns  # noqa: PLC0415 - brings pyspark
    from lakeplane.spark.session import session_zone  # noqa: PLC0415

    reader = Reader.of(store, resources)
    wanted = wanted_columns(reader.session, table, columns, identifier_columns)
    commits = commits_between(table, since, until, net=net, zone=session_zone(reader.session))

    schema = schema_of_changes(table)

    def plan_of(snapshot: Snapshot) -> ReadPlan:
        return reader.plan(table, at=snapshot.snapshot_id)._replace(schema=schema)

    return change_feed(reader.session, steps(commits, plan_of), wanted, reader.access())


class Reader(NamedTuple):
    """A session of Spark that reads tables from a store."""

    session: SparkSession
    store: Store
    resources: Resources

    @staticmethod
    def of(store: Store, resources: Resources) -> Reader:
        """With the session that a user gave, or the active one, or a new one."""
        from lakeplane.spark.session import find_session  # noqa: PLC0415 - brings pyspark

        return Reader(find_session(resources.spark), store, resources)

    def plan(
        self,
        table: TableMetadata,
        where: str | Predicate | None = None,
        at: At = None,
        *,
        covered: bool = False,
    ) -> ReadPlan:
        """Plan a read as the session understands its condition: Spark checks what the plan leaves open."""
        from lakeplane.spark.session import is_case_sensitive, session_zone  # noqa: PLC0415 - brings pyspark

        return plan(
            table,
            reading_of(self.store, self.resources.cache),
            where,
            at,
            zone=session_zone(self.session),
            case_sensitive=is_case_sensitive(self.session),
            counts_of=_identity_sources(table),
            covered=covered,
        )

    def frame(
        self,
        found: ReadPlan,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        placed: bool = False,
        without: Mapping[int, BitMap64] | None = None,
    ) -> DataFrame:
        """The rows of a plan; see ``read_plan``."""
        from lakeplane.spark.read import read_plan  # noqa: PLC0415 - brings pyspark

        return read_plan(
            self.session, found, columns, where, access=self.access(), placed=placed, without=without
        )

    def read_ranges(self, parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Parts of files of the table, each from a position on and of a length."""
        return self.store.read_many([Range(parse_location(path), *at) for path, *at in parts])

    def access(self) -> Access:
        """How files come to the session."""
        from lakeplane.spark.file_list import Scratch  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.read import Access  # noqa: PLC0415

        scratch, schemes = self.resources.scratch, self.resources.spark_schemes
        place = None if scratch is None else Scratch.at(scratch)
        return Access(read_ranges=self.read_ranges, scratch=place, schemes=schemes)


def _identity_sources(table: TableMetadata) -> set[int]:
    """The columns that files may lack since all of their rows have the value of their partition."""
    fields = (field for spec in table.partition_specs for field in spec.fields)
    return {each.source_id for each in fields if isinstance(each.transform, Identity)}
