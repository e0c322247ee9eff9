"""Writing rows: frames of any kind become data files, which nobody knows of before they are published.

Frames of Spark are written by Spark. Frames that are in this process already (Arrow, pandas, polars) are
written right here: a small append needs no cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

from lakeplane.catalog.metadata_files import write_unique
from lakeplane.changing import delete_unpublished
from lakeplane.files.align import align_arrow, arrow_rows, union_schema
from lakeplane.files.target import WriteTarget, write_target
from lakeplane.files.write import write_rows
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.evolution import EvolutionRules
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.tree import TRUE, Predicate
from lakeplane.model.location import parse_location
from lakeplane.model.schema import Schema
from lakeplane.storage.store import Store

if TYPE_CHECKING:
    from lakeplane.iceberg.new_files import NewFiles


class Also(TypedDict, total=False):
    """What a write can say besides its rows and its branch."""

    merge_schema: bool
    """Add the columns that the table lacks, and widen types until the rows fit."""
    properties: Mapping[str, str]
    """Said by the summary of the snapshot."""
    options: Mapping[str, str]
    """Properties of the table (``write.…``) that are others for this write."""
    wap_id: str
    """Stage the rows under this id, to be audited, and published with ``publish_changes``."""
    wap_branch: str
    """Write to this branch in the place of main, to be audited there."""


class How(Also, total=False):
    """What a write can say besides its rows."""

    branch: str
    """Where the rows go; a branch that does not exist is made, from where main is."""


class Written:
    """Files that are written for a change; if they cannot all be written, they are deleted again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.paths: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            delete_unpublished(self.store, self.paths)

    def put(self, path: str, data: bytes) -> None:
        """Write a file under a name that nobody else has."""
        self.paths.append(path)
        write_unique(self.store, parse_location(path), data)

    def add(self, files: Iterable[NewFiles]) -> tuple[NewFiles, ...]:
        """Know of files that somebody else has written."""
        found = tuple(files)
        self.paths += [path for each in found for path in each.files["file_path"].to_pylist()]
        return found


def is_spark_frame(rows: object) -> bool:
    """Whether rows are held by Spark."""
    return type(rows).__module__.partition(".")[0] == "pyspark"


def given_rows(rows: Any) -> Any:
    """Rows as they are written: a frame of Spark stays what it is, all others become Arrow."""
    if type(rows).__module__.startswith("pyspark.pandas"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it loses the index, which is no column here either
            return rows.to_spark()
    if is_spark_frame(rows):
        return rows
    return arrow_rows(rows)


def widened_schema(rows: Any, table: TableMetadata) -> Schema:
    """The schema of a table with what rows have more."""
    rules = EvolutionRules(
        format_version=table.format_version,
        last_column_id=table.last_column_id,
        specs=table.partition_specs,
        default_spec=table.partition_spec,
        default_order=table.sort_order,
    )
    if is_spark_frame(rows):
        from lakeplane.spark.align import merged_schema  # noqa: PLC0415 - brings pyspark

        return merged_schema(rows, table.schema, rules)[0]
    return union_schema(table.schema, rows.schema, rules)[0]


def understand(where: str | None, schema: Schema, rows: Any) -> Predicate:
    """A condition as the session understands it that holds the rows; nothing is said of all rows."""
    if where is None:
        return TRUE
    if not is_spark_frame(rows):
        return parse_predicate(where, schema)
    from lakeplane.spark.session import is_case_sensitive, session_zone  # noqa: PLC0415 - brings pyspark

    session = rows.sparkSession
    return parse_predicate(
        where, schema, zone=session_zone(session), case_sensitive=is_case_sensitive(session)
    )


def write_files(
    rows: Any,
    table: TableMetadata,
    store: Store,
    options: Mapping[str, str],
    schemes: Mapping[str, str],
) -> tuple[NewFiles, ...]:
    """Write rows as data files of a table. After an error, what was written is deleted, or orphaned."""
    target = write_target(table, options=options)
    if is_spark_frame(rows):
        from lakeplane.spark.write import write_frame  # noqa: PLC0415 - brings pyspark

        return tuple(write_frame(rows, target, store, schemes=schemes))
    return _write_here(rows, target, store)


def _write_here(rows: Any, target: WriteTarget, store: Store) -> tuple[NewFiles, ...]:
    with Written(store) as written:
        return tuple(write_rows(align_arrow(target.schema, rows), target, written.put))
