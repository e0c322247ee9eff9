"""Files that Spark's own readers cannot read, decoded by Arrow on Spark's executors.

Spark fetches each such file as a whole (as a ``binaryFile``, with the access that it has to the store), and
a Python worker makes rows of it. So Avro data files are read, and of ORC files what Spark cannot tell: the
positions of rows, and nanoseconds. The workers need lakeplane, installed as for the driver.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.model.name_mapping import NameMapping
from lakeplane.model.types import (
    NANOS,
    UNKNOWN,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakeplane.spark.file_schemas import FileSchema, Stored, file_schema

NUMBER: Final = "__lakeplane_file"
POSITION: Final = "__lakeplane_pos"

_BATCH: Final = 1 << 16

_ARROW: Final[dict[Type, pa.DataType]] = {
    UNKNOWN: pa.null(),
    Primitive.BOOLEAN: pa.bool_(),
    Primitive.INT: pa.int32(),
    Primitive.LONG: pa.int64(),
    Primitive.FLOAT: pa.float32(),
    Primitive.DOUBLE: pa.float64(),
    Primitive.DATE: pa.date32(),
    Primitive.TIME: pa.time64("ns"),
    Primitive.TIMESTAMP: pa.timestamp("us"),
    Primitive.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Primitive.TIMESTAMP_NS: pa.int64(),
    Primitive.TIMESTAMPTZ_NS: pa.int64(),
    Primitive.STRING: pa.string(),
    Primitive.UUID: pa.string(),
    Primitive.BINARY: pa.binary(),
    Primitive.VARIANT: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
        ]
    ),
}


class Decoding(NamedTuple):
    """What executors must know to make rows of files."""

    fields: tuple[Field, ...]
    file_format: str
    mapping: NameMapping | None
    by_names: bool = False
    """Whether the mapping tells what columns are, whatever ids files give them."""


def decoder(decoding: Decoding) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What workers run: from files, with a number and their bytes, to rows."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield from _rows(decoding, number, memoryview(content.as_buffer()).cast("B"))

    return decode


def _rows(decoding: Decoding, number: Any, content: memoryview) -> Iterator[pa.RecordBatch]:
    table = _decode(decoding.file_format, content, f"data file {number}")
    rows = shown_rows(table, decoding.fields, decoding.mapping, by_names=decoding.by_names)
    positions = pa.array(np.arange(table.num_rows, dtype=np.int64))
    numbers = pa.repeat(pa.scalar(number), table.num_rows)
    whole = pa.table({NUMBER: numbers, POSITION: positions})
    for name, column in rows:
        whole = whole.append_column(name, column)
    yield from whole.to_batches(max_chunksize=_BATCH)


def _decode(file_format: str, content: memoryview, source: str) -> pa.Table:
    if file_format == "AVRO":
        from lakeplane.avro.read import read_avro  # noqa: PLC0415 - brings the engine that decodes

        return read_avro(content, source=source).table
    if file_format == "PARQUET":
        return _decode_parquet(content, source)
    from pyarrow import orc  # noqa: PLC0415 - not every build has it

    try:
        return orc.ORCFile(io.BytesIO(content)).read()
    except (pa.ArrowException, OSError) as error:
        raise InvalidMetadata(f"not an ORC file: {error}", source=source) from None


def _decode_parquet(content: memoryview, source: str) -> pa.Table:
    try:
        return pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise InvalidMetadata(f"not a Parquet file: {error}", source=source) from None


def shown_rows(
    table: pa.Table, fields: tuple[Field, ...], mapping: NameMapping | None, *, by_names: bool = False
) -> list[tuple[pa.Field, pa.Array]]:
    """The columns of a decoded file as users see them."""
    schema: FileSchema = file_schema(table.schema, mapping, by_names=by_names)
    found = []
    for field in fields:
        stored = schema.find(field.id)
        if stored is None:
            column = initial_values(field, table.num_rows)
        else:
            chunks = table.column(table.schema.get_field_index(stored.name)).combine_chunks()
            column = shown_values(chunks, stored, field.type)
        found.append((pa.field(field.name, column.type), column))
    return found


def shown_arrow(type_: Type) -> pa.DataType:
    """The Arrow type in which Spark takes what users see."""
    match type_:
        case Primitive():
            return _ARROW[type_]
        case Decimal():
            return pa.decimal128(type_.precision, type_.scale)
        case Fixed():
            return pa.binary()
        case Struct():
            return pa.struct([pa.field(each.name, shown_arrow(each.type)) for each in type_.fields])
        case List():
            return pa.list_(pa.field("element", shown_arrow(type_.element)))
        case Map():
            return pa.map_(shown_arrow(type_.key), pa.field("value", shown_arrow(type_.value)))
        case Geometry() | Geography():
            raise NotSupported(f"{type_} in files that are no Parquet files", hint="Leave the column out")


def shown_values(values: pa.Array, stored: Stored, type_: Type) -> pa.Array:
    """Values of a file as users see them: fields found by id, and in the column's present type."""
    wanted = shown_arrow(type_)
    match type_:
        case Struct():
            columns = [_inside(values, stored, each) for each in type_.fields]
            return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=values.is_null())
        case List():
            inner = shown_values(values.values, stored.inside[0], type_.element)
            return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=_mask(values))
        case Map():
            keys = shown_values(values.keys, stored.inside[0], type_.key)
            items = shown_values(values.items, stored.inside[1], type_.value)
            return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=_mask(values))
        case Primitive.UUID:
            return uuid_text(values)
        case Primitive.VARIANT:
            parts = [pc.struct_field(values, name).cast(pa.binary()) for name in ("value", "metadata")]
            filled = [pc.fill_null(each, b"") for each in parts]
            return pa.StructArray.from_arrays(filled, fields=list(wanted), mask=values.is_null())
    return _cast(values, wanted, type_)


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _inside(values: pa.StructArray, stored: Stored, field: Field) -> pa.Array:
    found = stored.find(field.id)
    if found is None:
        return initial_values(field, len(values))
    return shown_values(pc.struct_field(values, found.name), found, field.type)


def _cast(values: pa.Array, wanted: pa.DataType, type_: Type) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if type_ in NANOS:
        zone = values.type.tz if pa.types.is_timestamp(values.type) else None
        return values.cast(pa.timestamp("ns", zone)).cast(pa.int64())
    if type_ is Primitive.TIME and pa.types.is_int32(values.type):
        values = values.cast(pa.time32("ms"))
    if type_ is Primitive.TIME and pa.types.is_integer(values.type):
        values = values.cast(pa.time64("us"))
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(wanted):
        # What is finer than the column's type was not written by a writer of Iceberg.
        return values.cast(pa.timestamp(wanted.unit, values.type.tz), safe=False).cast(wanted)
    return values.cast(wanted)


def uuid_text(values: pa.Array) -> pa.Array:
    """Sixteen bytes each as the texts of uuids."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_string(values.type):
        return values
    texts = [None if each is None else each.hex() for each in values.to_pylist()]
    return pa.array(
        [None if t is None else f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts],
        pa.string(),
    )


def initial_values(field: Field, count: int) -> pa.Array:
    """What rows read that are older than a field."""
    wanted = shown_arrow(field.type)
    if isinstance(field.type, Struct) and field.initial_default is not None:
        columns = [initial_values(each, count) for each in field.type.fields]
        return pa.StructArray.from_arrays(columns, fields=list(wanted))
    if field.initial_default is None:
        return pa.nulls(count, wanted)
    value = _natural(field.type, field.initial_default)
    if isinstance(value, int) and not isinstance(value, bool):
        units = pa.int32() if field.type in (Primitive.INT, Primitive.DATE) else pa.int64()
        scalar = pa.array([value], units)
        if field.type is Primitive.TIME:
            scalar = scalar.cast(pa.time64("us"))
        return pa.repeat(scalar.cast(wanted)[0], count)
    return pa.repeat(pa.array([value], wanted)[0], count)


def _natural(type_: Type, value: Any) -> Any:
    """A canonical value as Arrow takes it."""
    match type_:
        case _ if value is None:
            return None
        case Primitive.UUID:
            return str(value)
        case List():
            return [_natural(type_.element, each) for each in value]
        case Map():
            return [
                (_natural(type_.key, key), None if each is None else _natural(type_.value, each))
                for key, each in value
            ]
        case _:
            return value
