"""Reading tables: what plans read manifests with, and how a plan becomes a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import plan
from lakeplane.iceberg.time_travel import At
from lakeplane.model.location import parse_location
from lakeplane.model.transforms import Identity
from lakeplane.resources import Resources
from lakeplane.storage.store import Range, Store

if TYPE_CHECKING:
    from lakeplane.spark.frames import DataFrame


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
    from lakeplane.spark.file_list import Scratch  # noqa: PLC0415 - brings pyspark
    from lakeplane.spark.read import Access, read_plan  # noqa: PLC0415
    from lakeplane.spark.session import find_session, is_case_sensitive, session_zone  # noqa: PLC0415

    session = find_session(resources.spark)
    found = plan(
        table,
        reading_of(store, resources.cache),
        where,
        at,
        # Spark checks what the plan leaves open: both must understand the condition in the same way.
        zone=session_zone(session),
        case_sensitive=is_case_sensitive(session),
        counts_of=_identity_sources(table),
    )
    scratch = None if resources.scratch is None else Scratch.at(resources.scratch)
    access = Access(
        read_ranges=lambda parts: store.read_many([Range(parse_location(path), *at) for path, *at in parts]),
        scratch=scratch,
        schemes=resources.spark_schemes,
    )
    return read_plan(session, found, columns, where, access=access)


def _identity_sources(table: TableMetadata) -> set[int]:
    """The columns that files may lack since all of their rows have the value of their partition."""
    fields = (field for spec in table.partition_specs for field in spec.fields)
    return {each.source_id for each in fields if isinstance(each.transform, Identity)}
