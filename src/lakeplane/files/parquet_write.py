"""Parquet files as every Iceberg reader accepts them, written with Arrow.

Every field has its id, elements of lists and entries of maps among them; times are INT64 microseconds,
decimals are as short as the spec asks, and uuids are bytes of a fixed length with their logical type.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.footer_ids import mark_types
from lakeplane.files.stored_columns import file_schema, stored_rows, stored_schema
from lakeplane.files.write_settings import SHRED_VARIANTS, BloomFilter, ParquetSettings, parquet_settings
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    VARIANT,
    Field,
    Geography,
    Geometry,
    List,
    Map,
    Type,
    children,
    is_nested,
    walk,
)

_PAGE_ROWS: Final = 20_000
"""What Arrow does by default."""
_HASHES: Final = 8
"""How many bits of a block Parquet's Bloom filters set for a value."""


class ParquetFormat:
    """How the Parquet files of a target are written: what they share."""

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self.schema = schema
        self.stored = stored_schema(schema)
        self.arrow = file_schema(self.stored)
        self.settings = parquet_settings(properties)
        self.group_bytes = self.settings.row_group_bytes
        self.marked = any(_is_marked(field.type) for field in walk(self.stored.fields))
        self.statistics = _columns_with_statistics(self.stored, self.settings.without_statistics)
        self.dictionaries = _columns_with_dictionaries(self.stored, self.settings.without_dictionary)
        self._known = frozenset(inspect.signature(pq.ParquetWriter.__init__).parameters)
        if self.settings.page_rows != _PAGE_ROWS and "max_rows_per_page" not in self._known:
            raise _too_old("write.parquet.page-row-limit")
        if self.settings.bloom_filters and "bloom_filter_options" not in self._known:
            raise _too_old("write.parquet.bloom-filter-enabled")
        if self.settings.shred_variants and any(f.type is VARIANT for f in walk(self.stored.fields)):
            hint = "Leave the other columns out that Spark cannot write, or set it to false"
            problem = "Arrow writes these rows, and cannot shred variants"
            raise NotSupported(problem, field=f"property {SHRED_VARIANTS!r}", hint=hint)

    def open(self) -> ParquetFile:
        """Begin a file."""
        return ParquetFile(self)

    def writer(self, sink: pa.BufferOutputStream, rows: int) -> Any:
        """Arrow's writer of a file whose row groups have so many rows, about."""
        settings = self.settings
        options: dict[str, Any] = {}
        if "max_rows_per_page" in self._known:
            options["max_rows_per_page"] = settings.page_rows
        if settings.bloom_filters:
            options["bloom_filter_options"] = bloom_options(self.stored, settings, rows)
        return pq.ParquetWriter(
            sink,
            self.arrow,
            version="2.6",
            compression=settings.codec,
            compression_level=settings.level,
            write_statistics=self.statistics,
            use_dictionary=self.dictionaries,
            data_page_size=settings.page_bytes,
            data_page_version=settings.data_page_version,
            dictionary_pagesize_limit=settings.dictionary_bytes,
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=True,
            **options,
        )


class ParquetFile:
    """A Parquet file on its way, in memory."""

    def __init__(self, format_: ParquetFormat) -> None:
        self._format = format_
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None

    @property
    def size(self) -> int:
        """How many bytes are written."""
        found: int = self._sink.tell()
        return found

    def write(self, rows: pa.Table) -> None:
        """Write a row group; rows are in the types of the schema."""
        shared = self._format
        if self._writer is None:
            self._writer = shared.writer(self._sink, rows.num_rows)
        stored = stored_rows(rows, shared.schema, shared.stored, shared.arrow)
        self._writer.write_table(stored, row_group_size=max(rows.num_rows, 1))

    def finish(self) -> bytes:
        """The whole file."""
        if self._writer is None:
            self._writer = self._format.writer(self._sink, 0)
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return mark_types(data, self._format.stored) if self._format.marked else data


def _too_old(name: str) -> NotSupported:
    hint = "Install a newer pyarrow, or remove the property"
    return NotSupported(f"pyarrow {pa.__version__} cannot do this", field=f"property {name!r}", hint=hint)


def parquet_paths(schema: Schema) -> dict[int, str]:
    """The path of each column of a file, by field id; variants have two, which are left out."""
    found: dict[int, str] = {}

    def visit(field: Field, path: str) -> None:
        match field.type:
            case List():
                visit(field.type.element_field, f"{path}.list.element")
            case Map():
                visit(field.type.key_field, f"{path}.key_value.key")
                visit(field.type.value_field, f"{path}.key_value.value")
            case _ if is_nested(field.type):
                for inner in children(field.type):
                    visit(inner, f"{path}.{inner.name}")
            case _ if field.type is not VARIANT:
                found[field.id] = path

    for field in schema.fields:
        visit(field, field.name)
    return found


def bloom_options(schema: Schema, settings: ParquetSettings, rows: int) -> dict[str, Mapping[str, Any]]:
    """What Arrow is told of Bloom filters, for row groups of so many rows."""
    options: dict[str, Mapping[str, Any]] = {}
    for path, bloom in bloom_columns(schema, settings):
        most = _most_values(bloom, settings.max_bloom_bytes)
        expected = bloom.distinct if bloom.distinct is not None else max(rows, 1)
        options[path] = {"ndv": min(expected, most), "fpp": bloom.probability}
    return options


def bloom_columns(schema: Schema, settings: ParquetSettings) -> list[tuple[str, BloomFilter]]:
    """The Bloom filters that a table asks for, with the paths of their columns in files."""
    paths = parquet_paths(schema)
    found = []
    for bloom in settings.bloom_filters:
        field = schema.find_or_none(bloom.column)
        if field is None:  # of a column that is gone: it means nothing
            continue
        if field.id not in paths:
            place = f"property 'write.parquet.bloom-filter-enabled.column.{bloom.column}'"
            raise InvalidInput(f"a {field.type} cannot have a Bloom filter", field=place)
        found.append((paths[field.id], bloom))
    return found


def paths_of(schema: Schema, names: tuple[str, ...]) -> list[str]:
    """The paths in files of all columns with some names; those that are gone mean nothing."""
    paths = parquet_paths(schema)
    fields = (field for name in names if (field := schema.find_or_none(name)) is not None)
    return [paths[field.id] for field in fields if field.id in paths]


def _most_values(bloom: BloomFilter, max_bytes: int) -> int:
    """How many values a filter of so many bytes can tell apart."""
    return max(1, int(-max_bytes * math.log(1 - bloom.probability ** (1 / _HASHES))))


def _columns_with_statistics(schema: Schema, without: tuple[str, ...]) -> bool | list[str]:
    """Bytes of shapes and of variants are in no order that would mean anything."""
    unwanted = {found.id for name in without if (found := schema.find_or_none(name)) is not None}
    paths = parquet_paths(schema)
    unwanted |= {field.id for field in walk(schema.fields) if isinstance(field.type, Geometry | Geography)}
    if not unwanted and all(field.type is not VARIANT for field in walk(schema.fields)):
        return True
    return [path for field_id, path in paths.items() if field_id not in unwanted]


def _columns_with_dictionaries(schema: Schema, without: tuple[str, ...]) -> bool | list[str]:
    unwanted = set(paths_of(schema, without))
    return [path for path in parquet_paths(schema).values() if path not in unwanted] if unwanted else True


def _is_marked(type_: Type) -> bool:
    return type_ is VARIANT or isinstance(type_, Geometry | Geography)
