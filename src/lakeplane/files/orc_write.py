"""ORC files as every Iceberg reader accepts them, written with Arrow.

Arrow writes the metadata of fields as attributes of ORC's types, which is where Iceberg has the ids, what is
required, and what a type of ORC stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow.types import is_nested

from lakeplane.errors import NotSupported
from lakeplane.files.nested_arrays import lists_of, maps_of, structs_of
from lakeplane.files.size_guess import SizeGuess
from lakeplane.files.stored_columns import stored_rows, stored_schema
from lakeplane.files.write_settings import orc_settings
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    LONG,
    NANOS,
    TIME,
    TIMESTAMPS,
    UUID,
    VARIANT,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
)

_ID: Final = "iceberg.id"
_REQUIRED: Final = "iceberg.required"


class OrcFormat:
    """How the ORC files of a target are written: what they share."""

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self.schema = schema
        self.stored = stored_schema(schema)
        self.settings = orc_settings(properties)
        self.group_bytes = self.settings.stripe_bytes
        self.arrow = orc_schema(self.stored)
        self.sizes = SizeGuess(self.encode)

    def open(self) -> OrcFile:
        """Begin a file."""
        return OrcFile(self)

    def rows(self, rows: pa.Table) -> pa.Table:
        """Rows, in the types of the schema, as Arrow's ORC writer takes them rightly.

        Of a struct with nulls that is a slice, and of one in a list whose children are not null below its
        nulls, it writes the children of other rows.
        """
        stored = stored_rows(rows, self.schema, self.stored, self.arrow)
        for name, column in zip(stored.column_names, stored.columns, strict=True):
            for chunk in column.chunks:
                _check_times(chunk, name)
        columns = [_compact(column) if is_nested(column.type) else column for column in stored.columns]
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def encode(self, rows: pa.Table) -> bytes:
        """A file of rows, in the types of the schema."""
        sink = pa.BufferOutputStream()
        writer = self.writer(sink)
        writer.write(self.rows(rows))
        writer.close()
        found: bytes = sink.getvalue().to_pybytes()
        return found

    def writer(self, sink: pa.BufferOutputStream) -> Any:
        """Arrow's writer."""
        # Arrow can be built without ORC, and few tables need it.
        import pyarrow.orc as po  # noqa: PLC0415

        settings = self.settings
        return po.ORCWriter(
            sink,
            compression=settings.codec,
            compression_strategy=settings.strategy,
            stripe_size=settings.stripe_bytes,
            compression_block_size=settings.block_bytes,
            bloom_filter_columns=_bloom_columns(self.stored, settings.bloom_columns),
            bloom_filter_fpp=settings.bloom_probability,
        )


def _check_times(array: pa.Array, name: str) -> None:
    """Refuse times that Arrow's ORC writer stores in a way that only Arrow understands.

    It rounds seconds before 1970 up, and is left with a negative fraction, which ORC does not have: Java's
    readers fail on it.
    """
    match array.type:
        case pa.StructType() | pa.ListType() | pa.MapType():
            parts = array.flatten() if isinstance(array, pa.StructArray) else _items(array)
            for part in parts:
                _check_times(part, name)
        case pa.TimestampType(unit=unit):
            ticks = array.drop_null().cast(pa.int64()).to_numpy()
            if ((ticks < 0) & (ticks % _PER_SECOND[unit] != 0)).any():
                problem = "a time before 1970 with a fraction of a second cannot be written to ORC files"
                hint = "Cut it to seconds, or write Parquet: options={'write-format': 'parquet'}"
                raise NotSupported(problem, field=name, hint=hint)


def _items(array: pa.Array) -> list[pa.Array]:
    if isinstance(array, pa.MapArray):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return [each.slice(start, end - start) for each in (array.keys, array.items)]
    return [array.flatten()]


_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose arrays begin where their memory does, and are null below null, at every depth."""
    # One array alone would stay what it is.
    chunks = [_masked(chunk) for chunk in column.chunks]
    chunks = [pa.concat_arrays([chunk, chunk.slice(0, 0)]) for chunk in chunks]
    return pa.chunked_array(chunks, column.type)


def _masked(array: pa.Array) -> pa.Array:
    match array.type:
        case pa.StructType():
            return structs_of(array, [_masked(part) for part in array.flatten()], array.type)
        case pa.ListType():
            return lists_of(array, _masked, array.type)
        case pa.MapType():
            return maps_of(array, _masked, _masked, array.type)
        case _:
            return array


class OrcFile:
    """An ORC file on its way, in memory."""

    def __init__(self, format_: OrcFormat) -> None:
        self._format = format_
        self._sink = pa.BufferOutputStream()
        self._writer = format_.writer(self._sink)
        self._empty = True
        self._taken = 0

    @property
    def size(self) -> int:
        """How many bytes there will be, about: of a stripe that is not full, nothing is written."""
        return max(int(self._sink.tell()), self._format.sizes.of(self._taken))

    def write(self, rows: pa.Table) -> None:
        """Write rows, in the types of the schema."""
        shared = self._format
        shared.sizes.learn(rows)
        self._empty = False
        self._taken += rows.nbytes
        self._writer.write(shared.rows(rows))

    def finish(self) -> bytes:
        """The whole file."""
        if self._empty:
            self.write(to_arrow(self._format.schema).empty_table())
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data


def orc_schema(stored: Schema) -> pa.Schema:
    """The Arrow schema of a file, with Iceberg's attributes."""
    return pa.schema([_field(field) for field in stored.fields])


def _field(field: Field) -> pa.Field:
    attributes = {
        _ID: str(field.id),
        _REQUIRED: "true" if field.required else "false",
        **_attributes(field.type),
    }
    # Arrow's ORC knows no columns without nulls: that a field is required is said by the attribute.
    return pa.field(field.name, _type(field.type), nullable=True, metadata=attributes)


def _attributes(type_: Type) -> dict[str, str]:
    match type_:
        case _ if type_ is TIME:
            return {"iceberg.long-type": "TIME"}
        case _ if type_ is LONG:
            return {"iceberg.long-type": "LONG"}
        case _ if type_ is UUID:
            return {"iceberg.binary-type": "UUID"}
        case _ if type_ is BINARY:
            return {"iceberg.binary-type": "BINARY"}
        case Fixed(length=length):
            return {"iceberg.binary-type": "FIXED", "iceberg.length": str(length)}
        case Geometry(crs=crs):
            return {"iceberg.binary-type": "GEOMETRY", "iceberg.crs": crs}
        case Geography(crs=crs, algorithm=algorithm):
            return {"iceberg.binary-type": "GEOGRAPHY", "iceberg.crs": crs, "iceberg.algorithm": algorithm}
        case _ if type_ is VARIANT:
            return {"iceberg.struct-type": "VARIANT"}
        case _ if type_ in TIMESTAMPS:
            return {"iceberg.timestamp-unit": "NANOS" if type_ in NANOS else "MICROS"}
        case _:
            return {}


def _type(type_: Type) -> pa.DataType:
    match type_:
        case Struct():
            return pa.struct([_field(each) for each in type_.fields])
        case List():
            return pa.list_(_field(type_.element_field))
        case Map():
            key = _field(type_.key_field)
            return pa.map_(key.with_nullable(False), _field(type_.value_field))  # noqa: FBT003
        case Fixed() | Geometry() | Geography():
            return pa.binary()
        case _ if type_ is UUID:
            return pa.binary()
        case _ if type_ is TIME:
            return pa.int64()
        case _ if type_ is VARIANT:
            return pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
        case _:
            return to_arrow(Schema((Field(1, "x", type_),))).field(0).type


def _bloom_columns(stored: Schema, names: tuple[str, ...]) -> list[int] | None:
    """The numbers that ORC gives to columns: depth first, the whole row being 0."""
    numbers: dict[int, int] = {}
    count = 1

    def visit(field: Field) -> None:
        nonlocal count
        numbers[field.id] = count
        count += 1
        match field.type:
            case Struct():
                inside: tuple[Field, ...] = field.type.fields
            case List():
                inside = (field.type.element_field,)
            case Map():
                inside = (field.type.key_field, field.type.value_field)
            case _:
                inside = ()
                count += 2 if field.type is VARIANT else 0
        for inner in inside:
            visit(inner)

    for field in stored.fields:
        visit(field)
    found = [stored.find_or_none(name) for name in names]
    return [numbers[each.id] for each in found if each is not None] or None
