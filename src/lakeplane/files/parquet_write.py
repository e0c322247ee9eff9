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
from lakeplane.files.write_settings import BloomFilter, ParquetSettings
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


class ParquetFile:
    """A Parquet file on its way, in memory."""

    def __init__(self, schema: Schema, settings: ParquetSettings) -> None:
        self._schema = schema
        self._stored = stored_schema(schema)
        self._arrow = file_schema(self._stored)
        self._settings = settings
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None

    @property
    def size(self) -> int:
        """How many bytes are written."""
        found: int = self._sink.tell()
        return found

    def write(self, rows: pa.Table) -> None:
        """Write a row group; rows are in the types of the schema."""
        if self._writer is None:
            self._writer = self._open(rows.num_rows)
        stored = stored_rows(rows, self._schema, self._stored)
        self._writer.write_table(_as(stored, self._arrow), row_group_size=max(rows.num_rows, 1))

    def finish(self) -> bytes:
        """The whole file."""
        if self._writer is None:
            self._writer = self._open(0)
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return mark_types(data, self._stored) if _has_marks(self._stored) else data

    def _open(self, rows: int) -> Any:
        settings = self._settings
        known = inspect.signature(pq.ParquetWriter.__init__).parameters
        options: dict[str, Any] = {}
        if "max_rows_per_page" in known:
            options["max_rows_per_page"] = settings.page_rows
        elif settings.page_rows != _PAGE_ROWS:
            raise _too_old("write.parquet.page-row-limit")
        if settings.bloom_filters:
            if "bloom_filter_options" not in known:
                raise _too_old("write.parquet.bloom-filter-enabled")
            options["bloom_filter_options"] = bloom_options(self._stored, settings, rows)
        return pq.ParquetWriter(
            self._sink,
            self._arrow,
            version="2.6",
            compression=settings.codec,
            compression_level=settings.level,
            write_statistics=_columns_with_statistics(self._stored, settings.without_statistics),
            data_page_size=settings.page_bytes,
            data_page_version=settings.data_page_version,
            dictionary_pagesize_limit=settings.dictionary_bytes,
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=True,
            **options,
        )


def _too_old(name: str) -> NotSupported:
    hint = "Install a newer pyarrow, or remove the property"
    return NotSupported(f"pyarrow {pa.__version__} cannot do this", field=f"property {name!r}", hint=hint)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows under the fields of a file: the same values, with other metadata."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    return rows.cast(schema)


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
    paths = parquet_paths(schema)
    options: dict[str, Mapping[str, Any]] = {}
    for bloom in settings.bloom_filters:
        field = schema.find_or_none(bloom.column)
        if field is None:  # of a column that is gone: it means nothing
            continue
        if field.id not in paths:
            place = f"property 'write.parquet.bloom-filter-enabled.column.{bloom.column}'"
            raise InvalidInput(f"a {field.type} cannot have a Bloom filter", field=place)
        most = _most_values(bloom, settings.max_bloom_bytes)
        expected = bloom.distinct if bloom.distinct is not None else max(rows, 1)
        options[paths[field.id]] = {"ndv": min(expected, most), "fpp": bloom.probability}
    return options


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


def _has_marks(schema: Schema) -> bool:
    return any(_is_marked(field.type) for field in walk(schema.fields))


def _is_marked(type_: Type) -> bool:
    return type_ is VARIANT or isinstance(type_, Geometry | Geography)
