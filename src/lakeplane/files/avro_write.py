"""Avro files of rows, as the spec lays them out: ids on all fields, maps of other keys than text as lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import pyarrow as pa

from lakeplane.avro.write import write_avro
from lakeplane.files.size_guess import SizeGuess
from lakeplane.files.stored_columns import file_schema, stored_rows, stored_schema
from lakeplane.files.write_settings import avro_settings
from lakeplane.iceberg.avro_schema import avro_name, avro_record
from lakeplane.iceberg.manifest_schema import storage
from lakeplane.model.schema import Schema
from lakeplane.model.schema_json import write_schema
from lakeplane.model.types import Field, List, Map, Struct, Type, map_fields

_GROUP_BYTES: Final = 64 << 20


class AvroFormat:
    """How the Avro files of a target are written: what they share."""

    group_bytes = _GROUP_BYTES

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self.schema = schema
        self.stored = stored_schema(schema)
        self.settings = avro_settings(properties)
        # Arrow cannot filter structs with extension types inside, which leaving out nulls is.
        stored = storage(file_schema(Schema(tuple(_renamed(field) for field in self.stored.fields))))
        self.arrow = pa.schema(list(stored))
        self.avro = avro_record("table", self.stored.fields)
        self.sizes = SizeGuess(self.encode)
        self.metadata = {"iceberg.schema": msgspec.json.encode(write_schema(schema))}

    def open(self) -> AvroFile:
        """Begin a file."""
        return AvroFile(self)

    def encode(self, rows: pa.Table) -> bytes:
        """A file of rows, in the types of the schema."""
        return write_avro(
            stored_rows(rows, self.schema, self.stored, self.arrow),
            self.avro,
            metadata=self.metadata,
            codec=self.settings.codec,
            level=self.settings.level,
        )


class AvroFile:
    """An Avro file on its way: its rows, which are written together in the end."""

    def __init__(self, format_: AvroFormat) -> None:
        self._format = format_
        self._pieces: list[pa.Table] = []
        self._taken = 0

    @property
    def size(self) -> int:
        """How many bytes there will be, about."""
        return self._format.sizes.of(self._taken)

    def write(self, rows: pa.Table) -> None:
        """Take rows, in the types of the schema."""
        self._format.sizes.learn(rows)
        self._pieces.append(rows)
        self._taken += rows.nbytes

    def finish(self) -> bytes:
        """The whole file."""
        return self._format.encode(pa.concat_tables(self._pieces))


def _renamed(field: Field) -> Field:
    """A field under the name that it has in Avro."""
    return msgspec.structs.replace(field, name=avro_name(field.name), type=_renamed_type(field.type))


def _renamed_type(type_: Type) -> Type:
    match type_:
        case Struct() | List() | Map():
            return map_fields(type_, _renamed)
        case _:
            return type_
