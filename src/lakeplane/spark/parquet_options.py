"""``write.parquet.*`` as the options of Spark's own Parquet writer."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from lakeplane.files.parquet_write import bloom_columns, paths_of
from lakeplane.files.target import WriteTarget
from lakeplane.files.write_settings import ParquetSettings, parquet_settings
from lakeplane.model.location import Location
from lakeplane.model.schema import Schema
from lakeplane.model.types import VARIANT, Struct, Type, walk
from lakeplane.spark.wire import stored_fields, wire_names

_CODECS: Final = {"NONE": "uncompressed", "LZ4": "lz4_raw"}
_GZIP_LEVELS: Final = (
    *(
        "BEST_SPEED",
        "TWO",
        "THREE",
        "FOUR",
        "DEFAULT_COMPRESSION",
        "SIX",
        "SEVEN",
        "EIGHT",
        "BEST_COMPRESSION",
    ),
)

_SESSION: Final = {
    # Ids are what readers find columns by.
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # INT96 is what readers of old files expect, and nobody else.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Lists of three levels, decimals in their right widths, dates of one calendar.
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_SHREDDING: Final = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")


def parquet_session(target: WriteTarget) -> dict[str, str]:
    """Settings of sessions that no option of a single write stands for in all releases of Spark."""
    if not any(field.type is VARIANT for field in walk(target.schema.fields)):
        return _SESSION
    shredded = "true" if parquet_settings(target.properties).shred_variants else "false"
    return {**_SESSION, **dict.fromkeys(_SHREDDING, shredded)}


_COMMITTER: Final = {
    # Version 2 would leave files of failed jobs among the good ones.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ON_DISKS: Final = {
    # Hadoop would put a file with checksums beside each one, which nobody would ever delete.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def committer_options(directory: Location) -> dict[str, str]:
    """How files come to their place, and nothing else."""
    # Clients of object stores keep parts of files on disks, and fail with any other file system there.
    return {**_COMMITTER, **_ON_DISKS} if directory.scheme == "file" else _COMMITTER


def can_write_codec(target: WriteTarget) -> bool:
    """Whether Spark has the codec that the table asks for."""
    return parquet_settings(target.properties).codec != "BROTLI"


def parquet_options(target: WriteTarget) -> dict[str, str]:
    """The options of a write."""
    settings = parquet_settings(target.properties)
    options = {
        "compression": _CODECS.get(settings.codec, settings.codec.lower()),
        "parquet.block.size": str(settings.row_group_bytes),
        "parquet.page.size": str(settings.page_bytes),
        "parquet.page.row.count.limit": str(settings.page_rows),
        "parquet.dictionary.page.size": str(settings.dictionary_bytes),
        "parquet.writer.version": f"PARQUET_{settings.data_page_version.replace('.', '_')}",
        "parquet.bloom.filter.max.bytes": str(settings.max_bloom_bytes),
        "maxRecordsPerFile": str(max(1, target.target_bytes // row_bytes(target.schema))),
    }
    options.update(_level(settings))
    stored = _as_written(target.schema)
    for column, filter_ in bloom_columns(stored, settings):
        options[f"parquet.bloom.filter.enabled#{column}"] = "true"
        options[f"parquet.bloom.filter.fpp#{column}"] = str(filter_.probability)
        if filter_.distinct is not None:
            options[f"parquet.bloom.filter.expected.ndv#{column}"] = str(filter_.distinct)
        elif settings.adaptive_bloom:
            options[f"parquet.bloom.filter.adaptive.enabled#{column}"] = "true"
    for column in paths_of(stored, settings.without_statistics):
        options[f"parquet.column.statistics.enabled#{column}"] = "false"
    for column in paths_of(stored, settings.without_dictionary):
        options[f"parquet.enable.dictionary#{column}"] = "false"
    return options


def _as_written(schema: Schema) -> Schema:
    """The columns that are stored, as they are called on their way."""
    stored = stored_fields(schema.fields)
    named = zip(stored, wire_names(stored), strict=True)
    return Schema(tuple(replace(field, name=name) for field, name in named))


def _level(settings: ParquetSettings) -> dict[str, str]:
    if settings.level is None:
        return {}
    if settings.codec == "ZSTD":
        return {"parquet.compression.codec.zstd.level": str(settings.level)}
    if settings.codec == "GZIP":
        return {"zlib.compress.level": _GZIP_LEVELS[settings.level - 1]}
    return {}


def row_bytes(schema: Schema) -> int:
    """How many bytes a row takes in a file, about: a few for each value."""
    return max(1, sum(_value_bytes(field.type) for field in schema.fields))


def _value_bytes(type_: Type) -> int:
    match type_:
        case Struct():
            return sum(_value_bytes(field.type) for field in type_.fields)
        case _:
            return _BYTES.get(str(type_), 16)


_BYTES: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "long": 8, "double": 8, "unknown": 0}
