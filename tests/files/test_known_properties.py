"""What becomes of the properties and options that Iceberg's own writers know: followed, no effect, refused.

The names are those of Iceberg's documentation; the page about properties must tell of each.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files import known_properties
from lakeplane.files.parquet_write import ParquetFormat
from lakeplane.files.target import write_target
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, VARIANT, Field
from tests.files.test_places import table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "properties.md"

TABLE = """
read: split.target-size split.metadata-target-size split.planning-lookback split.open-file-cost
read: split.adaptive-size.enabled parquet.vectorization.enabled parquet.vectorization.batch-size
read: orc.vectorization.enabled orc.vectorization.batch-size data-planning-mode delete-planning-mode
schema: name-mapping.default
identifier-fields: rely
write: format.default delete.format.default parquet.row-group-size-bytes parquet.page-size-bytes
write: parquet.page-row-limit parquet.page-version parquet.dict-size-bytes parquet.compression-codec
write: parquet.compression-level parquet.bloom-filter-enabled.column.* parquet.bloom-filter-fpp.column.*
write: parquet.bloom-filter-ndv.column.* parquet.bloom-filter-max-bytes parquet.bloom-filter-adaptive-enabled
write: parquet.stats-enabled.column.* parquet.dict-encoding-enabled.column.* parquet.shred-variants
write: parquet.variant-inference-buffer-size avro.compression-codec manifest.compression-codec
write: avro.compression-level parquet.row-group-check-min-record-count
write: parquet.row-group-check-max-record-count manifest.compression-level orc.vectorized.batch-size
write: orc.stripe-size-bytes orc.block-size-bytes orc.compression-codec orc.compression-strategy
write: orc.bloom.filter.columns orc.bloom.filter.fpp delete.* location-provider.impl
write: metadata.compression-codec metadata.metrics.default metadata.metrics.column.*
write: metadata.metrics.max-inferred-column-defaults target-file-size-bytes
write: distribution-mode update.* merge.* wap.enabled summary.partition-limit
write: metadata.delete-after-commit.enabled metadata.previous-versions-max spark.fanout.enabled
write: spark.accept-any-schema spark.auto-schema-evolution.enabled spark.advisory-partition-size-bytes
write: object-storage.enabled object-storage.partitioned-paths data.path metadata.path upsert.enabled
write: folder-storage.path object-storage.path
commit: retry.num-retries retry.min-wait-ms retry.max-wait-ms retry.total-timeout-ms status-check.num-retries
commit: status-check.min-wait-ms status-check.max-wait-ms status-check.total-timeout-ms
commit: manifest.target-size-bytes manifest.min-count-to-merge manifest-merge.enabled
history: expire.max-snapshot-age-ms expire.min-snapshots-to-keep expire.max-ref-age-ms
gc: enabled
encryption: key-id data-key-length
compatibility: snapshot-id-inheritance.enabled
"""
NAMES = [
    f"{group}.{name}"
    for line in TABLE.split("\n")
    if line
    for group, names in [line.split(":")]
    for name in names.split()
]
OPTIONS = (
    *("write-format", "target-file-size-bytes", "check-nullability", "check-ordering", "fanout-enabled"),
    *("snapshot-property.*", "isolation-level", "validate-from-snapshot-id", "compression-codec"),
    *("compression-level", "compression-strategy", "distribution-mode", "merge-schema", "mergeSchema"),
    *("output-spec-id", "overwrite-mode", "branch", "delete-granularity"),
)
VERDICTS = ("followed", "no effect", "refused", "maintenance")


def told() -> dict[str, str]:
    """What the page says of each name: names in the first column of tables, verdicts in the second."""
    found: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 2:
            for name in re.findall("`([^`]+)`", cells[0]):
                assert name not in found, name
                found[name] = cells[1]
    return found


def test_the_page_tells_of_each_and_of_no_others() -> None:
    found = told()
    assert set(found) == {*NAMES, *OPTIONS}
    assert set(found.values()) <= set(VERDICTS)


def test_what_is_followed_for_files_is_what_the_page_says() -> None:
    found = told()
    for name in known_properties.FOLLOWED:
        assert found[name] == "followed", name
    for name in known_properties.WITHOUT_EFFECT:
        assert found[name] == "no effect", name


def test_what_the_page_calls_followed_is_in_the_code() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name, verdict in told().items():
        if name in NAMES and verdict == "followed":
            # Some are put together of a prefix and what follows.
            parts = name.removesuffix("*").rstrip(".").split(".")
            ends = [".".join(parts[start:]) for start in range(len(parts))]
            assert any(end in code for end in ends), name


def test_what_cannot_be_done_is_refused_by_name() -> None:
    provider = {"write.location-provider.impl": "com.example.Provider"}
    with pytest.raises(NotSupported, match=r"write\.location-provider\.impl"):
        write_target(table(**provider))
    shredded = {"write.parquet.shred-variants": "true"}
    ParquetFormat(Schema((Field(1, "id", LONG),)), shredded)
    with pytest.raises(NotSupported, match=r"write\.parquet\.shred-variants"):
        ParquetFormat(Schema((Field(1, "v", VARIANT),)), shredded)


@pytest.mark.parametrize(
    "name", [each for each, verdict in told().items() if each in OPTIONS and verdict == "refused"]
)
def test_options_of_others_are_refused_with_what_stands_for_them(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        write_target(table(), options={name.replace("*", "x"): "true"})
    assert "Known:" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "write.parqet.compression-codec",
        "write.wap.enabled",
        "write.spark.fanout.enabled",
    ],
)
def test_what_shapes_no_file_is_no_option_of_a_write(name: str) -> None:
    """A misspelt option was taken, and the files were other than asked for."""
    with pytest.raises(InvalidInput, match="is no option"):
        write_target(table(), options={name: "true"})


@pytest.mark.parametrize("name", [each.replace("*", "id") for each in known_properties.FOLLOWED])
def test_what_is_followed_may_be_said_for_one_write(name: str) -> None:
    found = write_target(table(), options={name: "parquet" if name.endswith("format.default") else "1"})
    assert name in found.properties
