"""The table properties that shape data files, read: sizes, codecs, dictionaries, Bloom filters.

A property that cannot be followed is an error that names it, never a file that is other than was asked for:
but for those that only say how much work a writer of Java does between two looks at its buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg.properties import number

TARGET_SIZE: Final = "write.target-file-size-bytes"
SHRED_VARIANTS: Final = "write.parquet.shred-variants"

_PARQUET: Final = "write.parquet."
_ORC: Final = "write.orc."
_AVRO: Final = "write.avro."
_BLOOM: Final = "write.parquet.bloom-filter-"

_PARQUET_CODECS: Final = {
    "uncompressed": "NONE",
    "none": "NONE",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "brotli": "BROTLI",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
    "zstd": "ZSTD",
}
_PARQUET_LEVELS: Final = {"GZIP": (1, 9), "BROTLI": (0, 11), "ZSTD": (-7, 22)}
_ORC_CODECS: Final = {each: each.upper() for each in ("none", "zlib", "snappy", "lz4", "zstd")}
_ORC_CODECS["none"] = "UNCOMPRESSED"
_AVRO_CODECS: Final = {
    "uncompressed": "null",
    "gzip": "deflate",
    "snappy": "snappy",
    "zstd": "zstandard",
}
_MAX_DICTIONARY: Final = 2**31 - 1


class BloomFilter(NamedTuple):
    """A Bloom filter that a column shall have."""

    column: str
    probability: float
    """How often the filter may be wrong."""
    distinct: int | None
    """How many distinct values are expected; None when nobody has said."""


class ParquetSettings(NamedTuple):
    """How Parquet files are written."""

    codec: str
    level: int | None
    row_group_bytes: int
    page_bytes: int
    page_rows: int
    dictionary_bytes: int
    data_page_version: str
    bloom_filters: tuple[BloomFilter, ...]
    max_bloom_bytes: int
    adaptive_bloom: bool
    """Whether filters become only as large as their values need."""
    without_statistics: tuple[str, ...]
    """Columns of which no statistics are stored."""
    without_dictionary: tuple[str, ...]
    """Columns whose values are never put into dictionaries."""
    shred_variants: bool


class OrcSettings(NamedTuple):
    """How ORC files are written."""

    codec: str
    strategy: str
    stripe_bytes: int
    block_bytes: int
    bloom_columns: tuple[str, ...]
    bloom_probability: float


class AvroSettings(NamedTuple):
    """How Avro files are written."""

    codec: str
    level: int | None


def parquet_settings(properties: Mapping[str, str]) -> ParquetSettings:
    """The settings that the properties of a table ask for."""
    codec = _choice(properties, f"{_PARQUET}compression-codec", "zstd", _PARQUET_CODECS)
    version = _choice(properties, f"{_PARQUET}page-version", "v1", {"v1": "1.0", "v2": "2.0"})
    return ParquetSettings(
        codec,
        _level(properties, f"{_PARQUET}compression-level", _PARQUET_LEVELS.get(codec)),
        whole_number(properties, f"{_PARQUET}row-group-size-bytes", 128 << 20),
        whole_number(properties, f"{_PARQUET}page-size-bytes", 1 << 20),
        whole_number(properties, f"{_PARQUET}page-row-limit", 20_000),
        min(whole_number(properties, f"{_PARQUET}dict-size-bytes", 2 << 20), _MAX_DICTIONARY),
        version,
        tuple(_bloom_filters(properties)),
        whole_number(properties, f"{_BLOOM}max-bytes", 1 << 20),
        _is_true(properties, f"{_BLOOM}adaptive-enabled"),
        _columns_without(properties, f"{_PARQUET}stats-enabled.column."),
        _columns_without(properties, f"{_PARQUET}dict-encoding-enabled.column."),
        _is_true(properties, SHRED_VARIANTS),
    )


def _columns_without(properties: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """The columns of which a table says that they shall not have something."""
    return tuple(
        name.removeprefix(prefix)
        for name in sorted(properties)
        if name.startswith(prefix) and not _is_true(properties, name)
    )


def _bloom_filters(properties: Mapping[str, str]) -> list[BloomFilter]:
    enabled = f"{_BLOOM}enabled.column."
    found = []
    for name in sorted(properties):
        if not name.startswith(enabled) or not _is_true(properties, name):
            continue
        column = name.removeprefix(enabled)
        probability = _fraction(properties, f"{_BLOOM}fpp.column.{column}", 0.01)
        place = f"{_BLOOM}ndv.column.{column}"
        distinct = whole_number(properties, place, 0) if place in properties else None
        found.append(BloomFilter(column, probability, distinct))
    return found


def orc_settings(properties: Mapping[str, str]) -> OrcSettings:
    """The settings that the properties of a table ask for."""
    columns = properties.get(f"{_ORC}bloom.filter.columns", "")
    strategies = {"speed": "speed", "compression": "compression"}
    return OrcSettings(
        _choice(properties, f"{_ORC}compression-codec", "zlib", _ORC_CODECS),
        _choice(properties, f"{_ORC}compression-strategy", "speed", strategies),
        whole_number(properties, f"{_ORC}stripe-size-bytes", 64 << 20),
        256 << 10,
        tuple(name.strip() for name in columns.split(",") if name.strip()),
        _fraction(properties, f"{_ORC}bloom.filter.fpp", 0.05),
    )


def avro_settings(properties: Mapping[str, str]) -> AvroSettings:
    """The settings that the properties of a table ask for."""
    codec = _choice(properties, f"{_AVRO}compression-codec", "gzip", _AVRO_CODECS)
    levels = {"deflate": (0, 12), "zstandard": (-7, 22)}
    return AvroSettings(codec, _level(properties, f"{_AVRO}compression-level", levels.get(codec)))


def whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A size or a count above zero."""
    text = properties.get(name)
    if text is None:
        return default
    found = number(text)
    if found is None or found < 1:
        hint = "Give a whole number above zero"
        raise InvalidInput(f"{text!r:.80} is no size", field=f"property {name!r}", hint=hint)
    return found


def _level(properties: Mapping[str, str], name: str, limits: tuple[int, int] | None) -> int | None:
    """A level, for codecs that have some; others have always ignored it."""
    text = properties.get(name)
    if text is None or limits is None or text.strip().lower() in ("", "null"):
        return None
    found = number(text)
    if found is None or not limits[0] <= found <= limits[1]:
        hint = f"Give a whole number from {limits[0]} to {limits[1]}"
        raise InvalidInput(f"{text!r:.80} is no level of the codec", field=f"property {name!r}", hint=hint)
    return found


def _fraction(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        raise InvalidInput(f"{text!r:.80} is not between 0 and 1", field=f"property {name!r}")
    return found


def _choice(properties: Mapping[str, str], name: str, default: str, choices: Mapping[str, str]) -> str:
    text = properties.get(name, default)
    found = choices.get(text.strip().lower())
    if found is None:
        hint = f"It is one of {', '.join(choices)}"
        raise NotSupported(f"{text!r:.80} cannot be written", field=f"property {name!r}", hint=hint)
    return found


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
