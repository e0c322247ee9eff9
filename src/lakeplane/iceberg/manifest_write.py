"""Writing manifests: from entries as columns to the bytes of files, and what a list tells of them."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput
from lakeplane.iceberg.avro_schema import avro_name
from lakeplane.iceberg.manifest_list import FieldSummary, ManifestFile
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA_MANIFEST,
    DELETED,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    MANIFEST_CONTENTS,
    data_file_fields,
    entry_avro,
)
from lakeplane.iceberg.manifests import count_entries
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.model.partitioning import PartitionSpec, write_spec_fields
from lakeplane.model.schema import Schema
from lakeplane.model.schema_json import write_schema
from lakeplane.model.types import FLOATS, UNKNOWN, UUID, Field, Struct
from lakeplane.model.value_bytes import to_bytes

CODEC: Final = "write.manifest.compression-codec"
LEVEL: Final = "write.manifest.compression-level"

_CODECS: Final = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
"""What properties call the codecs of Avro."""

_V1_BLOCK_SIZE: Final = 64 * 1024 * 1024
"""What v1 demands and nobody reads."""

_SAMPLE: Final = 4096
"""So many entries tell how large a manifest of all of them would be."""
_SAMPLES: Final = 8


class Writing(NamedTuple):
    """What the manifests of one change have in common."""

    table: TableMetadata
    snapshot_id: int
    codec: str = "deflate"
    level: int | None = None


def writing_of(table: TableMetadata, snapshot_id: int) -> Writing:
    """What the manifests of a new snapshot have in common, packed as the table's properties ask."""
    text = table.properties.get(CODEC, "gzip")
    codec = _CODECS.get(text.strip().lower())
    if codec is None:
        hint = f"There are {', '.join(_CODECS)}"
        raise InvalidInput(f"{text!r:.80} is no codec", field=f"property {CODEC!r}", hint=hint)
    return Writing(table, snapshot_id, codec, number(table.properties.get(LEVEL)))


class Written(NamedTuple):
    """A manifest that is to be stored under its path."""

    data: bytes
    listed: ManifestFile


def write_manifest(entries: pa.Table, spec_id: int, content: int, path: str, writing: Writing) -> Written:
    """Write one manifest. Columns that are missing are null; new files need no numbers, they inherit them."""
    data = _encode(entries, spec_id, content, writing)
    counts = count_entries(entries)
    live = entries.filter(pc.not_equal(entries["status"], DELETED))
    numbers = live["sequence_number"] if "sequence_number" in live.column_names else pa.nulls(0, pa.int64())
    listed = ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=spec_id,
        content=content,
        min_sequence_number=pc.min(numbers).as_py(),
        added_snapshot_id=writing.snapshot_id,
        existing_files_count=counts.files[0],
        added_files_count=counts.files[1],
        deleted_files_count=counts.files[2],
        existing_rows_count=counts.rows[0],
        added_rows_count=counts.rows[1],
        deleted_rows_count=counts.rows[2],
        partitions=summarize(entries["partition"], writing.table.partition_type(spec_id)),
    )
    return Written(data, listed)


def parts_of(
    entries: pa.Table, spec_id: int, content: int, writing: Writing, target_bytes: int
) -> Iterator[pa.Table]:
    """Part entries so that each part makes a manifest of about the target size, or a smaller one."""
    rows = entries.num_rows
    if entries.nbytes <= target_bytes:  # in files, they only become smaller
        yield entries
        return
    sample = _sample(entries)
    size = len(_encode(sample, spec_id, content, writing)) * rows / max(sample.num_rows, 1)
    parts = min(rows, math.ceil(size / max(target_bytes, 1)))
    edges = [rows * part // parts for part in range(parts + 1)]
    for start, end in itertools.pairwise(edges):
        yield entries.slice(start, end - start)


def _sample(entries: pa.Table) -> pa.Table:
    """Some entries from everywhere, neighbours with neighbours, as they pack better than strangers."""
    rows, length = entries.num_rows, _SAMPLE // _SAMPLES
    if rows <= _SAMPLE:
        return entries
    starts = [(rows - length) * place // (_SAMPLES - 1) for place in range(_SAMPLES)]
    return pa.concat_tables([entries.slice(start, length) for start in starts])


def _encode(entries: pa.Table, spec_id: int, content: int, writing: Writing) -> bytes:
    table, spec = writing.table, writing.table.spec_by_id(spec_id)
    partition = table.partition_type(spec_id)
    if any(field.type is UNKNOWN for field in partition.fields):
        problem = f"a column of partition spec {spec_id} is gone, so its partitions cannot be written"
        raise InvalidInput(problem, source=table.location)
    if table.format_version == 1 and content != DATA_MANIFEST:
        raise InvalidInput("v1 tables have no deletes", source=table.location, hint="Upgrade the table to v2")
    schema = _schema_of(spec, table)
    metadata: dict[str, str | bytes] = {
        "schema": msgspec.json.encode(write_schema(schema)),
        "schema-id": str(schema.schema_id),
        "partition-spec": msgspec.json.encode(write_spec_fields(spec.fields)),
        "partition-spec-id": str(spec_id),
        "format-version": str(table.format_version),
    }
    if table.format_version > 1:
        metadata["content"] = MANIFEST_CONTENTS[content]
    if table.format_version > 1:
        _check_numbers(entries, writing)
    rows = _rows(entries, table.format_version, partition, writing.snapshot_id)
    avro = entry_avro(table.format_version, partition)
    return write_avro(rows, avro, metadata=metadata, codec=writing.codec, level=writing.level)


def _check_numbers(entries: pa.Table, writing: Writing) -> None:
    """Only what the change itself adds gets its sequence number from the commit."""
    heirs = pc.equal(entries["status"], ADDED)
    if "snapshot_id" in entries.column_names:
        ours = pc.equal(entries["snapshot_id"], writing.snapshot_id)
        heirs = pc.and_(heirs, pc.fill_null(ours, True))  # noqa: FBT003
    if "sequence_number" in entries.column_names:
        heirs = pc.or_(heirs, pc.is_valid(entries["sequence_number"]))
    if not pc.all(heirs, min_count=0).as_py():
        problem = "an entry that is not new has no sequence number, and would be taken for new"
        raise InvalidInput(problem, source=writing.table.location, field="sequence_number")


def _schema_of(spec: PartitionSpec, table: TableMetadata) -> Schema:
    """The newest schema that has all columns which a spec is made from."""
    sources = {source for field in spec.fields for source in field.source_ids}
    fitting = (each for each in table.schemas_newest_first if all(map(each.has, sources)))
    return next(fitting, table.schema)


def _rows(entries: pa.Table, format_version: int, partition: Struct, snapshot_id: int) -> pa.Table:
    count = entries.num_rows

    def column(name: str, type_: pa.DataType) -> Any:
        if name in entries.column_names:
            return entries[name].combine_chunks()
        return pa.nulls(count, type_)

    names, columns = [], []
    for field in data_file_fields(format_version, partition):
        names.append(field.name)
        if field.name == "partition":
            columns.append(_partition(entries["partition"].combine_chunks(), partition))
        elif field.name == "block_size_in_bytes":
            columns.append(pa.repeat(pa.scalar(_V1_BLOCK_SIZE, pa.int64()), count))
        else:
            columns.append(column(field.name, FILE_COLUMNS.field(field.name).type))
    head = {each.name: column(each.name, each.type) for each in ENTRY_COLUMNS}
    head["snapshot_id"] = pc.fill_null(head["snapshot_id"], snapshot_id)
    if format_version == 1:
        del head["sequence_number"], head["file_sequence_number"]
    return pa.table({**head, "data_file": pa.StructArray.from_arrays(columns, names=names)})


def _partition(column: pa.StructArray, partition: Struct) -> pa.StructArray:
    """Partitions with the names of their fields instead of the ids."""
    if not partition.fields:
        return pa.array([{}] * len(column), pa.struct([]))
    values = [column.field(str(field.id)) for field in partition.fields]
    return pa.StructArray.from_arrays(values, names=[avro_name(field.name) for field in partition.fields])


# Summaries


def summarize(column: pa.ChunkedArray, partition: Struct) -> tuple[FieldSummary, ...]:
    """What is known of each partition field over all entries."""
    whole = column.combine_chunks()
    return tuple(_summary(whole.field(str(field.id)), field) for field in partition.fields)


def _summary(values: pa.Array, field: Field) -> FieldSummary:
    contains_nan = False
    present = values.drop_null()
    if field.type in FLOATS:
        is_nan = pc.is_nan(present)
        contains_nan = bool(pc.any(is_nan).as_py())
        present = present.filter(pc.invert(is_nan))
    if not len(present) or field.type is UNKNOWN:
        return FieldSummary(bool(values.null_count), contains_nan)
    ordered = present.cast(pa.binary()) if pa.types.is_fixed_size_binary(present.type) else present
    ends = pc.min_max(_countable(ordered)).as_py()
    low, high = ends["min"], ends["max"]
    if field.type in FLOATS:
        # Of the two zeros, -0.0 is the smaller one.
        low, high = low or -0.0, high or 0.0
    return FieldSummary(bool(values.null_count), contains_nan, _bytes(field, low), _bytes(field, high))


def _countable(values: pa.Array) -> pa.Array:
    """Times as the numbers that they are stored as."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    if pa.types.is_time(values.type) or pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values


def _bytes(field: Field, value: Any) -> bytes:
    return to_bytes(field.type, uuid.UUID(bytes=value) if field.type is UUID else value)
