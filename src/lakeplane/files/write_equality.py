"""Equality deletes: files of values, each of which deletes the rows that have it, wherever they are.

A reader applies a delete file of a partition to data files of the same partition and the same spec only, and
one without a partition to all. So values go to the partitions that they can be in where the columns of the
partition are among those that are compared, once for each spec that the table has files of; otherwise they go
to files without a partition.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.align import align_arrow, arrow_rows
from lakeplane.files.target import delete_target
from lakeplane.files.write import Put, write_rows
from lakeplane.files.write_deletes import as_deletes
from lakeplane.iceberg.incoming_deletes import check_equality_ids
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES, FILE_COLUMNS
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Void
from lakeplane.model.types import Field, Struct

_UNSORTED: Final = 0


def write_equality_deletes(
    rows: Any,
    equality_ids: Sequence[int],
    table: TableMetadata,
    put: Put,
    *,
    spec_ids: Collection[int] | None = None,
    options: Mapping[str, str] | None = None,
    run_id: str | None = None,
) -> list[NewFiles]:
    """Write the deletion of all rows that have some values.

    Args:
        rows: The values: what ``align_arrow`` takes, with at least the columns that are compared.
        equality_ids: The columns that are compared, by their ids. A null deletes rows with null.
        table: The table as it is.
        put: Takes the place and the bytes of each file. After an error, what was put is nobody's.
        spec_ids: The specs of the data files that rows are to be deleted from; those of all by default.
        options: Properties for this write only, as ``write_target`` takes them.
        run_id: What tells the files of this write from all others; a new UUID.
    """
    if table.format_version == 1:
        hint = "Upgrade the table to v2 or later"
        raise InvalidInput("v1 tables have no deletes", source=table.location, hint=hint)
    if not equality_ids:
        raise InvalidInput("rows are named by one column at least", field="equality_ids")
    check_equality_ids(equality_ids, table)
    schema = key_schema(table.schema, equality_ids)
    values = _keys(rows, schema)
    found: list[NewFiles] = []
    task = secrets.token_hex(4)
    specs = _specs(equality_ids, table, spec_ids)
    for part, spec in enumerate(specs):
        target = delete_target(table, schema, spec_id=spec.spec_id, options=options, run_id=run_id)
        found += write_rows(values, target, put, partition=part, task=task)
    ids = list(equality_ids)
    return [_as_equality_deletes(each, ids) for each in found]


def _as_equality_deletes(new: NewFiles, ids: list[int]) -> NewFiles:
    named = pa.array([ids] * new.files.num_rows, FILE_COLUMNS.field("equality_ids").type)
    return as_deletes(new, EQUALITY_DELETES, equality_ids=named, sort_order_id=_UNSORTED)


def _keys(rows: Any, schema: Schema) -> Any:
    """The columns that are compared; each must be there, as what is missing would be taken for null."""
    given = arrow_rows(rows)
    _check_present(schema.fields, list(given.schema), "")
    if isinstance(given, pa.Table):
        given = given.select([field.name for field in schema.fields])
    keys = align_arrow(schema, given)
    return keys if isinstance(keys, pa.Table) else keys.read_all()


def _check_present(wanted: Sequence[Field], given: Sequence[pa.Field], around: str) -> None:
    found = {each.name: each.type for each in given}
    for field in wanted:
        place = f"{around}{field.name}"
        if field.name not in found:
            raise InvalidInput("the rows do not have it", field=place, hint="Give all columns to compare")
        type_ = found[field.name]
        if isinstance(field.type, Struct) and isinstance(type_, pa.StructType):
            _check_present(field.type.fields, list(type_), f"{place}.")


def key_schema(schema: Schema, field_ids: Sequence[int]) -> Schema:
    """Some columns of a schema, with the structs around those that are nested."""
    wanted = set(field_ids)

    def pick(field: Field) -> Field | None:
        if field.id in wanted:
            return field
        if not isinstance(field.type, Struct):
            return None
        inside = tuple(found for each in field.type.fields if (found := pick(each)) is not None)
        return msgspec.structs.replace(field, type=Struct(inside)) if inside else None

    fields = tuple(found for each in schema.fields if (found := pick(each)) is not None)
    return Schema(fields, schema_id=schema.schema_id)


def _specs(
    equality_ids: Sequence[int], table: TableMetadata, spec_ids: Collection[int] | None
) -> list[PartitionSpec]:
    """The specs that the values are written for: one without partitions is for the files of all specs."""
    known = [each for each in table.partition_specs if spec_ids is None or each.spec_id in spec_ids]
    without = (each for each in table.partition_specs if each.is_unpartitioned)
    everywhere = min(without, key=lambda each: len(each.fields), default=None)
    if all(not each.is_unpartitioned and _tells(equality_ids, each) for each in known):
        return known
    if everywhere is None:
        problem = (
            "the compared columns do not tell the partition, and the table has no spec without partitions"
        )
        hint = "Delete the rows by their positions, or compare the columns of the partition, too"
        raise NotSupported(problem, source=table.location, field="equality_ids", hint=hint)
    return [everywhere]


def _tells(equality_ids: Sequence[int], spec: PartitionSpec) -> bool:
    """Whether values of some columns tell which partition of a spec they are in."""
    return all(
        isinstance(field.transform, Void) or (field.is_known and set(field.source_ids) <= set(equality_ids))
        for field in spec.fields
    )
