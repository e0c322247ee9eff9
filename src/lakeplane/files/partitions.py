"""Rows by partition: which partitions rows are in, and where the rows of each are, all at once."""

from __future__ import annotations

import uuid
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput
from lakeplane.files.places import partition_path
from lakeplane.iceberg.manifest_schema import arrow_type
from lakeplane.model.expressions.physical import plain
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transform_columns import apply_to_column
from lakeplane.model.transforms import Void, result_type, to_human
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT,
    TIME,
    TIMESTAMPS,
    UNKNOWN,
    UUID,
    Field,
    Type,
)

Positions: TypeAlias = npt.NDArray[np.int64]

_CANONICAL_NANS: Final = {FLOAT: 0x7FC00000, DOUBLE: 0x7FF8000000000000}
_LARGEST_CODE: Final = 2**62


class Partition(NamedTuple):
    """One partition: what tells it from others, its path, and its values as columns with one row."""

    key: tuple[Any, ...]
    path: str
    values: tuple[pa.Array, ...]


class Part(NamedTuple):
    """Rows of one partition: some positions, in their order; None for all rows."""

    partition: Partition
    rows: Positions | None


NO_PARTITION: Final = Partition((), "", ())


def partition_columns(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> list[pa.Array]:
    """The partition values of each row, field by field, in the types that manifests hold them in."""
    return [_values(rows, field, schema) for field in spec.fields]


def _values(rows: pa.Table, field: PartitionField, schema: Schema) -> pa.Array:
    source = schema.get(field.source_id)
    if isinstance(field.transform, Void) and source is None:
        # The column is gone: nobody knows its type any more, and all values are null.
        return pa.nulls(rows.num_rows, pa.string())
    if not field.is_known or source is None:
        problem = f"the values of the partition field cannot be computed: {field}"
        raise InvalidInput(problem, field=field.name, hint="Write to another partition spec")
    type_ = result_type(field.transform, source.type)
    if isinstance(field.transform, Void) or type_ is UNKNOWN:
        return pa.nulls(rows.num_rows, pa.string() if type_ is UNKNOWN else _stored(type_))
    found = plain(apply_to_column(field.transform, source.type, column_of(rows, schema, field.source_id)))
    return found if found.type == _stored(type_) else found.cast(_stored(type_))


def _stored(type_: Type) -> pa.DataType:
    found = arrow_type(Field(1, "value", type_))
    assert isinstance(found, pa.DataType)
    return found


def column_of(rows: pa.Table, schema: Schema, field_id: int) -> pa.ChunkedArray:
    """A column at any depth of structs; null where a struct around it is."""
    path = [field_id]
    while (parent := schema.parent_of(path[0])) is not None:
        path.insert(0, parent.id)
    column = rows.column(schema.field(path[0]).name)
    for inner in path[1:]:
        # Unlike the child itself, this is null where its parent is.
        column = pc.struct_field(column, schema.field(inner).name)
    return column


def split(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> list[Part]:
    """Part rows by partition; within each the rows keep their order."""
    if rows.num_rows == 0:
        return []
    columns = partition_columns(rows, spec, schema)
    codes = _codes([_comparable(column) for column in columns], rows.num_rows)
    if codes is None:
        first = np.zeros(1, np.int64)
        return [Part(partition, None) for partition in partitions_at(columns, first, spec, schema)]
    count = int(codes.max()) + 1
    order = np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=count))
    starts = ends - np.diff(ends, prepend=0)
    partitions = partitions_at(columns, order[starts], spec, schema)
    return [
        Part(partition, order[start:end])
        for partition, start, end in zip(partitions, starts.tolist(), ends.tolist(), strict=True)
    ]


def _comparable(column: pa.Array) -> pa.Array:
    """Values that are equal where partitions are: floats by their bits, with one NaN."""
    for type_, number in ((FLOAT, np.uint32), (DOUBLE, np.uint64)):
        if column.type == (pa.float32() if type_ is FLOAT else pa.float64()):
            values = column.fill_null(0).to_numpy()
            bits = np.where(np.isnan(values), number(_CANONICAL_NANS[type_]), values.view(number))
            return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False))
    return column


def _codes(columns: list[pa.Array], count: int) -> npt.NDArray[np.int64] | None:
    """A number for each row that tells its partition, counting up from 0; None if there is only one."""
    codes: npt.NDArray[np.int64] | None = None
    size = 1
    for column in columns:
        if column.null_count == count:
            continue
        coded = column.dictionary_encode(null_encoding="encode")
        kinds = len(coded.dictionary)
        if kinds <= 1:
            continue
        found = coded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes, size = found, kinds
            continue
        if size * kinds >= _LARGEST_CODE:
            codes, size = _dense(codes)
        codes, size = codes * kinds + found, size * kinds
    return None if codes is None else _dense(codes)[0]


def _dense(codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    coded = pa.array(codes).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)


def partitions_at(
    columns: list[pa.Array], firsts: Positions, spec: PartitionSpec, schema: Schema
) -> list[Partition]:
    """The partitions of some rows, by the values of all rows field by field."""
    if not columns:
        return [NO_PARTITION]
    taken = [column.take(pa.array(firsts)) for column in columns]
    keys = zip(*(_comparable(column).to_pylist() for column in taken), strict=True)
    texts = zip(
        *(_texts(field, schema, column) for field, column in zip(spec.fields, taken, strict=True)),
        strict=True,
    )
    names = [field.name for field in spec.fields]
    return [
        Partition(key, partition_path(names, text), tuple(column.slice(place, 1) for column in taken))
        for place, (key, text) in enumerate(zip(keys, texts, strict=True))
    ]


def _texts(field: PartitionField, schema: Schema, column: pa.Array) -> list[str]:
    source = schema.get(field.source_id)
    if source is None or isinstance(field.transform, Void):
        return ["null"] * len(column)
    type_ = result_type(field.transform, source.type)
    return [to_human(field.transform, source.type, each) for each in canonical_values(type_, column)]


def canonical_values(type_: Type, column: pa.Array) -> list[Any]:
    """The values of a column as ``model.values`` has them in Python; not of nested types."""
    if type_ is UUID:
        return [None if each is None else uuid.UUID(bytes=each) for each in plain(column).to_pylist()]
    if type_ in (DATE, INT):
        column = column.cast(pa.int32())
    elif type_ is TIME or type_ in TIMESTAMPS:
        column = column.cast(pa.int64())
    elif type_ in FLOATS:
        column = column.cast(pa.float64())
    found: list[Any] = column.to_pylist()
    return found
