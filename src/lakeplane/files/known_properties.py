"""The properties of tables that say how data files are written, and what becomes of each.

A property is followed, or it cannot change what is written here, or it is refused by its name. What a single
write may be given as an option is what is followed for each write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeplane.errors import InvalidInput, NotSupported

FOLLOWED: Final = (
    "write.format.default",
    "write.target-file-size-bytes",
    "write.distribution-mode",
    "write.spark.advisory-partition-size-bytes",
    "write.data.path",
    "write.folder-storage.path",
    "write.object-storage.path",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.metadata.metrics.default",
    "write.metadata.metrics.column.*",
    "write.metadata.metrics.max-inferred-column-defaults",
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.page-version",
    "write.parquet.dict-size-bytes",
    "write.parquet.dict-encoding-enabled.column.*",
    "write.parquet.stats-enabled.column.*",
    "write.parquet.bloom-filter-enabled.column.*",
    "write.parquet.bloom-filter-fpp.column.*",
    "write.parquet.bloom-filter-ndv.column.*",
    "write.parquet.bloom-filter-max-bytes",
    "write.parquet.bloom-filter-adaptive-enabled",
    "write.parquet.shred-variants",
    "write.orc.compression-codec",
    "write.orc.compression-strategy",
    "write.orc.stripe-size-bytes",
    "write.orc.bloom.filter.columns",
    "write.orc.bloom.filter.fpp",
    "write.avro.compression-codec",
    "write.avro.compression-level",
)
"""Properties that shape the files of a write, whether the table has them or the write is given them."""

WITHOUT_EFFECT: Final = (
    "write.orc.block-size-bytes",
    "write.orc.vectorized.batch-size",
    "write.parquet.row-group-check-max-record-count",
    "write.parquet.row-group-check-min-record-count",
    "write.parquet.variant-inference-buffer-size",
    "write.spark.accept-any-schema",
    "write.spark.fanout.enabled",
)
"""Properties that say how a writer of Java works, and not what it writes: see the page about properties."""

_ROW_CHANGES: Final = ("write.delete.*", "write.update.*", "write.merge.*")
"""What only changes of rows look at; they too may be told it for once."""

_REFUSED: Final = {
    "write.location-provider.impl": "No class of Java runs here. Remove it: write.data.path and"
    " write.object-storage.enabled say where files go",
    "encryption.key-id": "Its rows would lie there for everybody to read",
}

_ELSEWHERE: Final = {
    "branch": "Say branch=... to the write",
    "check-nullability": "Nulls in required columns are always refused",
    "check-ordering": "Columns are matched by name, in any order",
    "delete-granularity": "It is the property write.delete.granularity of the table",
    "fanout-enabled": "Spark sorts rows by partition, and keeps one file open at a time",
    "isolation-level": "Say isolation=... to the overwrite",
    "merge-schema": "Say merge_schema=True to the write",
    "mergeSchema": "Say merge_schema=True to the write",
    "output-spec-id": "New files have the current partition spec of the table",
    "overwrite-mode": "Choose overwrite or overwrite_partitions",
    "snapshot-property.": "Say properties={...} to the write",
    "validate-from-snapshot-id": "Overwrites are held against the snapshot that the table was loaded with",
}
"""Options of Iceberg's Spark that are not options here, and what stands for them."""


def is_followed(name: str) -> bool:
    """Whether a property can be another one for a single write."""
    known = (*FOLLOWED, *_ROW_CHANGES)
    return any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in known)


def check_table(properties: Mapping[str, str]) -> None:
    """Refuse to write to a table that asks for what nobody can do here."""
    for name, hint in _REFUSED.items():
        if properties.get(name):
            problem = "files of such a table cannot be written"
            raise NotSupported(problem, field=f"property {name!r}", hint=hint)


def unknown_option(name: str, known: tuple[str, ...]) -> InvalidInput:
    """The error for an option of a write that is none."""
    hint = next((hint for each, hint in _ELSEWHERE.items() if name == each or _begins(name, each)), None)
    if hint is None:
        hint = f"Known: {', '.join(known)}, and the write.* properties that shape files"
    return InvalidInput("is no option of a write", field=f"option {name!r}", hint=hint)


def _begins(name: str, with_: str) -> bool:
    return with_.endswith(".") and name.startswith(with_)
