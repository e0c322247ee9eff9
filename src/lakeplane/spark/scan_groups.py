"""Which files of a plan can be read in the same way, and which way that is.

Parquet files with ids are read together, by ids. What their footers say is looked at only where that decides
something: see ``looks_at_footers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg.fetch_windows import ReadRanges
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.name_mapping import PROPERTY, NameMapping, read_name_mapping
from lakeplane.model.types import Field
from lakeplane.spark.constants import identity_source
from lakeplane.spark.file_schemas import FileSchema, Stored, read_schemas
from lakeplane.spark.guards import History, history_of
from lakeplane.spark.scan_columns import fields_to_look_for, reads_nanos
from lakeplane.spark.tails import FileEnd


class ByIds(NamedTuple):
    """Parquet files, by ids; ``lacking`` are fields that they do not have, where Spark must be told."""

    lacking: frozenset[int] = frozenset()
    dates: frozenset[int] = frozenset()
    """Columns of nanoseconds that they have as dates."""
    partitions: tuple[int, ...] = ()
    """Columns that they do not have either: their values are those of the partition."""


class ByNames(NamedTuple):
    """Parquet files without ids, and ORC files: each wanted column by the name that it has there."""

    file_format: str
    columns: tuple[Stored | None, ...]
    partitions: tuple[int, ...] = ()


class ByArrow(NamedTuple):
    """Files that only Arrow can decode."""

    file_format: str
    mapping: NameMapping | None
    partitions: tuple[int, ...] = ()


Way: TypeAlias = ByIds | ByNames | ByArrow


class Group(NamedTuple):
    """Files that are read in one way."""

    way: Way
    files: pa.Table


def group_files(
    plan: ReadPlan, fields: Sequence[Field], read_ranges: ReadRanges | None, *, orc_by_arrow: bool
) -> list[Group]:
    """Put the files of a plan together that are read in the same way, for some columns."""
    mapping = name_mapping(plan.table)
    formats = pc.utf8_upper(plan.files["file_format"])
    groups: list[Group] = []
    for file_format in pc.unique(formats).to_pylist():
        files = plan.files.filter(pc.equal(formats, file_format))
        match file_format:
            case "PARQUET":
                groups += _parquet(plan, files, fields, mapping, read_ranges)
            case "ORC" if orc_by_arrow or any(map(reads_nanos, fields)):
                groups.append(_by_arrow(plan, files, fields, file_format, mapping))
            case "ORC":
                schemas = read_schemas(_footers(files), read_ranges, mapping)
                ways = [
                    _by_names(plan.table, fields, file_format, *each) for each in _with_specs(files, schemas)
                ]
                groups += _grouped(files, ways)
            case "AVRO":
                groups.append(_by_arrow(plan, files, fields, file_format, mapping))
            case _:
                problem = f"not a format of data files: {file_format!r}"
                raise InvalidMetadata(problem, source=files["file_path"][0].as_py())
    return groups


def name_mapping(table: TableMetadata) -> NameMapping | None:
    """The names by which files without ids are read, if the table has any."""
    text = table.properties.get(PROPERTY)
    return None if text is None else read_name_mapping(text)


def looks_at_footers(fields: Sequence[Field], mapping: NameMapping | None, history: History) -> bool:
    """Whether Parquet files must be looked into before they can be read.

    Either they may have no ids, which a table with a name mapping says of them; or a column has a default
    that Spark cannot fill in, so that one must know which files have the column; or dates became nanoseconds.
    """
    return mapping is not None or any(fields_to_look_for(each, history) for each in fields)


def _parquet(
    plan: ReadPlan,
    files: pa.Table,
    fields: Sequence[Field],
    mapping: NameMapping | None,
    read_ranges: ReadRanges | None,
) -> list[Group]:
    history = history_of(plan.table)
    if not looks_at_footers(fields, mapping, history):
        unsure = may_lack_columns(plan.table, files, fields)
        if not unsure.any():
            return [Group(ByIds(), files)]
        if not unsure.all():
            sure = Group(ByIds(), files.filter(pa.array(~unsure)))
            return [sure, *_by_footers(plan, files.filter(pa.array(unsure)), fields, mapping, read_ranges)]
    return _by_footers(plan, files, fields, mapping, read_ranges)


def may_lack_columns(table: TableMetadata, files: pa.Table, fields: Sequence[Field]) -> npt.NDArray[np.bool_]:
    """Which files may lack a column, as other writers leave out those that they part files by.

    A file that tells how many values it has in a column has that column.
    """
    specs, found = files["spec_id"].to_numpy(), np.zeros(files.num_rows, bool)
    for field in fields:
        counts = f"value_counts.{field.id}"
        if counts not in files.column_names:
            continue
        unknown = pc.is_null(files[counts]).to_numpy()
        for spec_id in np.unique(specs):
            if identity_source(table, int(spec_id), field.id) is not None:
                found |= unknown & (specs == spec_id)
    return found


def _by_footers(
    plan: ReadPlan,
    files: pa.Table,
    fields: Sequence[Field],
    mapping: NameMapping | None,
    read_ranges: ReadRanges | None,
) -> list[Group]:
    """Parquet files by what their footers say of their columns."""
    history = history_of(plan.table)
    wanted = frozenset[int]().union(*(fields_to_look_for(each, history) for each in fields))
    schemas = read_schemas(_footers(files), read_ranges, mapping)
    ways: list[Way] = []
    for schema, spec_id in _with_specs(files, schemas):
        if schema.has_ids:
            missing = _from_partitions(plan.table, fields, schema, spec_id)
            ways.append(ByIds(wanted - schema.field_ids(), wanted & schema.dates(), missing))
        else:
            ways.append(_by_names(plan.table, fields, "PARQUET", schema, spec_id))
    return _grouped(files, ways)


def _with_specs(files: pa.Table, schemas: list[FileSchema]) -> list[tuple[FileSchema, int]]:
    return list(zip(schemas, files["spec_id"].to_pylist(), strict=True))


def _by_names(
    table: TableMetadata, fields: Sequence[Field], file_format: str, schema: FileSchema, spec_id: int
) -> ByNames:
    columns = tuple(schema.find(each.id) for each in fields)
    return ByNames(file_format, columns, _from_partitions(table, fields, schema, spec_id))


def _by_arrow(
    plan: ReadPlan, files: pa.Table, fields: Sequence[Field], file_format: str, mapping: NameMapping | None
) -> Group:
    # Whether these files hold the columns of their partitions is seen by who decodes them.
    specs = {int(each) for each in np.unique(files["spec_id"].to_numpy())}
    may_lack = [
        each.id
        for each in fields
        if any(identity_source(plan.table, spec, each.id) is not None for spec in specs)
    ]
    return Group(ByArrow(file_format, mapping, tuple(may_lack) if mapping is not None else ()), files)


def _from_partitions(
    table: TableMetadata, fields: Sequence[Field], schema: FileSchema, spec_id: int
) -> tuple[int, ...]:
    """The columns that files do not have because all their rows have the value of the partition."""
    missing = (each.id for each in fields if schema.find(each.id) is None)
    return tuple(each for each in missing if identity_source(table, spec_id, each) is not None)


def _footers(files: pa.Table) -> list[FileEnd]:
    columns = (files[name].to_pylist() for name in ("file_path", "file_size_in_bytes", "file_format"))
    return [FileEnd(path, size, kind.upper()) for path, size, kind in zip(*columns, strict=True)]


def _grouped(files: pa.Table, ways: Sequence[Way]) -> list[Group]:
    numbers: dict[Way, int] = {}
    codes: npt.NDArray[np.int64] = np.array([numbers.setdefault(way, len(numbers)) for way in ways], np.int64)
    if len(numbers) == 1:
        return [Group(way, files) for way in numbers]
    return [Group(way, files.filter(pa.array(codes == number))) for way, number in numbers.items()]
