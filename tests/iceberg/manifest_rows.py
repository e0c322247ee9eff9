"""A table with partitions of every type, and files with every field, as rows of manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    FILE_COLUMNS,
    POSITION_DELETES,
    arrow_type,
)
from lakeplane.iceberg.manifest_write import Writing
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Void, parse_transform
from lakeplane.model.types import Field, parse_type

UUID = "6f1a7b5e-1111-4222-8333-444455556666"
SNAPSHOT, EARLIER = 3_051_729_675_574_597_004, 42
NOW_MS = 1_700_000_000_000

COLUMNS = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(4,2)",
    "decimal(18,3)",
    "decimal(38,10)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "fixed[3]",
    "binary",
]
RULES = [
    *(("identity", type_) for type_ in COLUMNS),
    ("bucket[16]", "string"),
    ("truncate[4]", "string"),
    ("year", "date"),
    ("month", "timestamp"),
    ("day", "timestamptz"),
    ("hour", "timestamp"),
    ("void", "int"),
]
NANOS = ["timestamp_ns", "timestamptz_ns"]


def table(format_version: int = 2, *, nanos: bool = False) -> TableMetadata:
    """A table that is partitioned by all rules; with nanoseconds, of v3 only."""
    names = [*COLUMNS, *(NANOS if nanos else ())]
    fields = tuple(Field(n, f"c {each}", parse_type(each)) for n, each in enumerate(names, 1))
    rules = [*RULES, *(("identity", each) for each in NANOS if nanos)]
    keys = tuple(
        PartitionField((1 + names.index(column),), 1000 + n, f"{rule}-{column}", parse_transform(rule))
        for n, (rule, column) in enumerate(rules)
    )
    made = creation(
        Schema(fields),
        uuid=UUID,
        location="s3://lake/t",
        spec=PartitionSpec(0, keys),
        properties={"format-version": str(format_version)},
    )
    return apply(None, made, now_ms=NOW_MS)


def plain_table(format_version: int = 2) -> TableMetadata:
    """A table without partitions."""
    made = creation(
        Schema((Field(1, "id", parse_type("long")),)),
        uuid=UUID,
        location="s3://lake/t",
        spec=PartitionSpec(0, ()),
        properties={"format-version": str(format_version)},
    )
    return apply(None, made, now_ms=NOW_MS)


def upgraded(before: TableMetadata, format_version: int) -> TableMetadata:
    """The same table in a later version."""
    return msgspec.structs.replace(before, format_version=format_version)


VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [1.5, -0.0],
    "double": [-2.25, 2.0**100],
    "decimal(4,2)": [-129, 9999],
    "decimal(18,3)": [10**17, -1],
    "decimal(38,10)": [10**37, -(10**37)],
    "date": [-1, 19_000],
    "time": [0, 86_399_999_999],
    "timestamp": [-1, 1_700_000_000_000_001],
    "timestamptz": [1, 1_700_000_000_000_001],
    "timestamp_ns": [-1, 1_700_000_000_000_000_001],
    "timestamptz_ns": [1, 1_700_000_000_000_000_001],
    "string": ["", "größe/ä"],
    "uuid": [bytes(16), bytes(range(16))],
    "fixed[3]": [b"abc", b"\x00\xff\x00"],
    "binary": [b"", b"\xff"],
}


def partition_column(field: Field, count: int) -> pa.Array:
    """Values of a partition field, the third of each three null."""
    type_ = arrow_type(field)
    known = VALUES[str(field.type)]
    values = [None if row % 3 == 2 else known[row % 3] for row in range(count)]
    if pa.types.is_decimal(type_):
        whole = pa.array(
            [None if each is None else each.to_bytes(16, "little", signed=True) for each in values]
        )
        data = b"".join(each or bytes(16) for each in whole.to_pylist())
        validity = pa.array([each is not None for each in values]).buffers()[1]
        return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(data)])
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def partitions(of: TableMetadata, count: int) -> pa.StructArray:
    """A column of partitions of the default spec."""
    fields = of.partition_type(of.default_spec_id).fields
    if not fields:
        return pa.array([{}] * count, pa.struct([]))
    void = {each.field_id for each in of.partition_spec.fields if isinstance(each.transform, Void)}
    columns = [
        pa.nulls(count, arrow_type(field)) if field.id in void else partition_column(field, count)
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, names=[str(field.id) for field in fields])


def data_rows(of: TableMetadata, count: int, **columns: Sequence[Any]) -> pa.Table:
    """Entries of new data files, with all that is not inherited."""
    numbers = range(count)
    full: dict[str, Sequence[Any]] = {
        "status": [ADDED] * count,
        "content": [DATA] * count,
        "file_path": [f"s3://lake/t/data/{n:05}-é.parquet" for n in numbers],
        "file_format": ["PARQUET"] * count,
        "record_count": [10 + n for n in numbers],
        "file_size_in_bytes": [1000 + n for n in numbers],
        "column_sizes": [[(1, 5), (3, n)] for n in numbers],
        "value_counts": [[(1, 10 + n)] for n in numbers],
        "null_value_counts": [[(1, n)] for n in numbers],
        "nan_value_counts": [[(4, 0)] if n % 2 else [] for n in numbers],
        "lower_bounds": [[(1, b"\x00"), (13, "é".encode())] for n in numbers],
        "upper_bounds": [None if n % 2 else [(1, b"\x01")] for n in numbers],
        "key_metadata": [b"key" if n % 2 else None for n in numbers],
        "split_offsets": [[4, 4 + n] for n in numbers],
        "sort_order_id": [None if n % 2 else 0 for n in numbers],
        **columns,
    }
    return as_rows(of, full, count)


def delete_rows(of: TableMetadata, count: int, **columns: Sequence[Any]) -> pa.Table:
    """Entries of new delete files: of positions, one of them about one file, and of equal values."""
    kinds = [POSITION_DELETES, POSITION_DELETES, EQUALITY_DELETES]
    content = [kinds[n % 3] for n in range(count)]
    full: dict[str, Sequence[Any]] = {
        "status": [ADDED] * count,
        "content": content,
        "file_path": [f"s3://lake/t/data/{n:05}-deletes.parquet" for n in range(count)],
        "file_format": ["PARQUET"] * count,
        "record_count": [3] * count,
        "file_size_in_bytes": [300] * count,
        "lower_bounds": [[(2_147_483_546, b"s3://a")]] * count,
        "upper_bounds": [[(2_147_483_546, b"s3://b")]] * count,
        "equality_ids": [[1, 2] if each == EQUALITY_DELETES else None for each in content],
        "referenced_data_file": [
            "s3://lake/t/data/00000-é.parquet" if n % 3 == 1 else None for n in range(count)
        ],
        **columns,
    }
    return as_rows(of, full, count)


def as_rows(of: TableMetadata, columns: dict[str, Sequence[Any]], count: int) -> pa.Table:
    """Python values as entries."""
    ints = {"status": pa.int32(), "snapshot_id": pa.int64()}
    ints |= {"sequence_number": pa.int64(), "file_sequence_number": pa.int64()}
    typed = {
        name: pa.array(values, ints[name] if name in ints else FILE_COLUMNS.field(name).type)
        for name, values in columns.items()
    }
    return pa.table({**typed, "partition": partitions(of, count)})


def older(count: int, status: int = EXISTING) -> dict[str, Sequence[Any]]:
    """What entries have that an earlier snapshot added."""
    numbers = {"sequence_number": [5] * count, "file_sequence_number": [6] * count}
    snapshot = SNAPSHOT if status == DELETED else EARLIER
    return {"status": [status] * count, "snapshot_id": [snapshot] * count, **numbers}


def writing(of: TableMetadata, codec: str = "deflate", snapshot_id: int = SNAPSHOT) -> Writing:
    """The change that writes."""
    return Writing(of, snapshot_id, codec)


def listed(path: str = "s3://lake/t/metadata/m.avro", **more: Any) -> ManifestFile:
    """A manifest with all that a list tells of it."""
    known: dict[str, Any] = {
        "manifest_path": path,
        "manifest_length": 100,
        "partition_spec_id": 0,
        "added_snapshot_id": SNAPSHOT,
        "sequence_number": 7,
        "min_sequence_number": 3,
        **{f"{kind}_files_count": n for n, kind in enumerate(("added", "existing", "deleted"), 1)},
        **{f"{kind}_rows_count": 10 * n for n, kind in enumerate(("added", "existing", "deleted"), 1)},
        **more,
    }
    return ManifestFile(**known)
