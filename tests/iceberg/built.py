"""Files as rows of manifests, for tables that are built in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from lakeplane.iceberg.manifest_list import (
    list_table,
    manifest_files,
    parse_manifest_list,
    serialize_manifest_list,
)
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    FILE_COLUMNS,
    POSITION_DELETES,
    arrow_type,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import parse_transform
from lakeplane.model.types import Field, Type
from lakeplane.model.value_bytes import bound_to_bytes
from lakeplane.testing.tables import BuiltTable, Entries
from tests.model.expressions.tables import arrow_array

FILE_BYTES = 1000


class Facts(NamedTuple):
    """What a manifest tells of one column of a file; bounds are bytes."""

    lower: bytes | None = None
    upper: bytes | None = None
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None


class Listed(NamedTuple):
    """One entry of a manifest."""

    path: str
    partition: tuple[Any, ...] = ()
    facts: dict[int, Facts] = {}  # noqa: RUF012 - nobody changes it
    rows: int = 1
    status: int = ADDED
    content: int = DATA
    more: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


_MAPS = {
    "lower_bounds": "lower",
    "upper_bounds": "upper",
    "value_counts": "values",
    "null_value_counts": "nulls",
    "nan_value_counts": "nans",
}


def entries(
    table: TableMetadata, files: Sequence[Listed], spec_id: int = 0, content: int = DATA_MANIFEST
) -> Entries:
    """Entries of one manifest."""
    fields = table.partition_type(spec_id).fields
    partition = [stored_array(field, [file.partition[n] for file in files]) for n, field in enumerate(fields)]
    if fields:
        struct = pa.StructArray.from_arrays(partition, names=[str(field.id) for field in fields])
    else:
        struct = pa.array([{}] * len(files), pa.struct([]))
    columns: dict[str, Any] = {
        "status": pa.array([file.status for file in files], pa.int32()),
        "content": pa.array([file.content for file in files], pa.int32()),
        "file_path": [file.path for file in files],
        "file_format": [file.more.get("file_format", "PARQUET") for file in files],
        "record_count": pa.array([file.rows for file in files], pa.int64()),
        "file_size_in_bytes": pa.array([FILE_BYTES] * len(files), pa.int64()),
        "partition": struct,
    }
    for name, fact in _MAPS.items():
        maps = [
            [
                (field_id, getattr(facts, fact))
                for field_id, facts in file.facts.items()
                if getattr(facts, fact) is not None
            ]
            for file in files
        ]
        columns[name] = pa.array(maps, FILE_COLUMNS.field(name).type)
    for name in {name for file in files for name in file.more} - {"file_format"}:
        type_ = FILE_COLUMNS.field(name).type if name in FILE_COLUMNS.names else pa.int64()
        columns[name] = pa.array([file.more.get(name) for file in files], type_)
    return Entries(pa.table(columns), spec_id, content)


def stored_array(field: Field, values: list[Any]) -> pa.Array:
    """Partition values in the type in which manifests store them."""
    type_ = arrow_type(field)
    return arrow_array(field.type, values).cast(type_)


def deletes(table: TableMetadata, files: Sequence[Listed], spec_id: int = 0) -> Entries:
    """Entries of a manifest of deletes; what names no content deletes positions."""
    given = [each._replace(content=each.content or POSITION_DELETES) for each in files]
    return entries(table, given, spec_id, DELETE_MANIFEST)


def bounds(type_: Type, lower: Any, upper: Any, *, values: int = 10, nulls: int = 0) -> Facts:
    """The facts of a good writer about a column without NaN."""
    return Facts(bound_to_bytes(type_, lower), bound_to_bytes(type_, upper), values, nulls, 0)


def build(
    *columns: tuple[str, Type], by: Sequence[str] = (), format_version: int = 2, name: str = "t"
) -> BuiltTable:
    """A table of optional columns, with the ids 1, 2, …, partitioned ``by`` rules as ``"bucket[4] id"``."""
    schema = Schema(tuple(Field(n, each, type_) for n, (each, type_) in enumerate(columns, 1)))
    return BuiltTable(schema, spec(schema, *by), format_version=format_version, location=f"memory://{name}")


def spec(schema: Schema, *rules: str) -> PartitionSpec:
    fields = []
    for n, rule in enumerate(rules):
        transform, column = rule.split()
        parsed = parse_transform(transform)
        fields.append(PartitionField((schema.find(column).id,), 1000 + n, f"{column}_{n}", parsed))
    return PartitionSpec(0, tuple(fields))


def change_list(built: BuiltTable, snapshot: Snapshot, change: Any) -> None:
    """Write the manifest list of a snapshot anew, with each manifest changed by a function."""
    place = snapshot.manifest_list
    assert place is not None
    changed = [change(each) for each in manifest_files(parse_manifest_list(built.files[place], place))]
    built.files[place] = serialize_manifest_list(
        list_table(changed),
        format_version=built.metadata.format_version,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        first_row_id=snapshot.first_row_id,
    )


def with_metadata(built: BuiltTable, **changes: Any) -> None:
    """Change the metadata as no writer of ours would."""
    built.metadata = msgspec.structs.replace(built.metadata, **changes)


def paths(plan: ReadPlan) -> set[str]:
    """The files of a plan, each of which must be in it once."""
    found = plan.files["file_path"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)
