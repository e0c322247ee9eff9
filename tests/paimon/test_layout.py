from __future__ import annotations

import decimal
from typing import Any

import pytest

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.paimon import layout
from lakeplane.paimon.options import parse_options
from lakeplane.paimon.plan import plan
from lakeplane.paimon.types import parse_type
from tests.paimon.stored import NAMES, stored

DAY = 86_400_000_000


@pytest.mark.parametrize("name", NAMES)
def test_data_files_of_other_writers_lie_where_their_places_say(name: str) -> None:
    table = stored(name)
    found = plan(table.files).files
    assert found.num_rows > 0
    assert set(found["path"].to_pylist()) <= set(table.content)


@pytest.mark.parametrize(
    ("type_", "value", "legacy", "plain"),
    [
        ("DATE", 19724, "19724", "2024-01-02"),
        ("TIME(3)", 3_600_000_000, "3600000", "01:00:00.0"),
        ("TIME(3)", 3_600_120_000, "3600120", "01:00:00.12"),
        ("TIME(0)", 61_000_000, "61000", "00:01:01"),
        ("TIMESTAMP(6)", 19723 * DAY, "2024-01-01T00:00", "2024-01-01 00:00:00.000000"),
        ("TIMESTAMP(6)", 19723 * DAY + 123456, "2024-01-01T00:00:00.123456", "2024-01-01 00:00:00.123456"),
        ("TIMESTAMP(3)", 19723 * DAY + 5_000_000, "2024-01-01T00:00:05", "2024-01-01 00:00:05.000"),
        ("TIMESTAMP(3)", 19723 * DAY + 120_000, "2024-01-01T00:00:00.120", "2024-01-01 00:00:00.120"),
        (
            "TIMESTAMP(9)",
            19723 * DAY * 1000 + 1,
            "2024-01-01T00:00:00.000000001",
            "2024-01-01 00:00:00.000000001",
        ),
        ("TIMESTAMP(0)", -1_000_000, "1969-12-31T23:59:59", "1969-12-31 23:59:59"),
        ("DECIMAL(10, 2)", decimal.Decimal("1.50"), "1.50", "1.50"),
        ("DECIMAL(20, 10)", decimal.Decimal("1E-10"), "0.0000000001", "0.0000000001"),
        ("BOOLEAN", True, "true", "true"),
        ("BIGINT", -7, "-7", "-7"),
        ("STRING", "a b", "a b", "a b"),
        ("STRING", "", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", " \t\u3000", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", None, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("DOUBLE", 1.5, "1.5", "1.5"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", 0.001, "0.001", "0.001"),
        ("DOUBLE", 0.00012, "1.2E-4", "1.2E-4"),
        ("DOUBLE", -0.0, "-0.0", "-0.0"),
        ("DOUBLE", float("nan"), "NaN", "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity", "-Infinity"),
        ("FLOAT", 0.1, "0.1", "0.1"),
        ("FLOAT", 16777216.0, "1.6777216E7", "1.6777216E7"),
    ],
)
def test_partition_values_as_texts(type_: str, value: Any, legacy: str, plain: str) -> None:
    for name, expected in (("true", legacy), ("false", plain)):
        options = parse_options({"partition.legacy-name": name})
        assert layout.partition_text(parse_type(type_, ""), value, options) == expected


def test_what_no_directory_can_be_named_after_is_refused() -> None:
    zoned, bytes_ = parse_type("TIMESTAMP_LTZ(3)", ""), parse_type("BYTES", "")
    with pytest.raises(NotSupported):
        layout.partition_text(bytes_, b"x", parse_options({}))
    with pytest.raises(NotSupported):
        layout.partition_text(zoned, 0, parse_options({"partition.legacy-name": "false"}))
    with pytest.raises(InvalidInput):
        layout.partition_text(parse_type("TIMESTAMP(3)", ""), 10**18, parse_options({}))


def test_names_are_escaped_as_java_does() -> None:
    assert layout.escaped("a b/c=d:é,;~|<") == "a b%2Fc%3Dd%3Aé,;~|<"
    assert layout.escaped("\x01\x1f\x7f\"#%'*?\\{}[]^") == "%01%1F%7F%22%23%25%27%2A%3F%5C%7B%7D%5B%5D%5E"
    folder = layout.bucket_folder(parse_options({}), ["d", "e"], ["a/b", "c"], 3)
    assert folder == "d=a%2Fb/e=c/bucket-3"
    other = parse_options({"data-file.path-directory": "data"})
    assert layout.bucket_folder(other, [], [], -2) == "data/bucket-postpone"


def test_places_of_branches() -> None:
    assert layout.snapshot_path(3) == "snapshot/snapshot-3"
    assert layout.snapshot_path(3, "dev") == "branch/branch-dev/snapshot/snapshot-3"
    assert layout.tag_path("t", "dev") == "branch/branch-dev/tag/tag-t"
    assert layout.schema_ids(["schema-2", "schema-10", "schema-x", "schema-2.tmp"]) == [2, 10]
    with pytest.raises(InvalidInput):
        layout.schema_path(1, "../x")
