from __future__ import annotations

import pytest

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.paimon.options import check_readable, check_writable, parse_options
from tests.paimon.stored import everyone


def test_what_options_mean() -> None:
    options = parse_options(
        {
            "bucket": "4",
            "bucket-key": "a, b",
            "merge-engine": "PARTIAL-UPDATE",
            "sequence.field": "s1,s2",
            "sequence.field.sort-order": "descending",
            "fields.total.aggregate-function": "sum",
            "fields.total.ignore-retract": "true",
            "fields.list.list-agg-delimiter": ";",
            "fields.g1,g2.sequence-group": "x,y",
            "fields.default-aggregate-function": "last_non_null_value",
            "manifest.target-file-size": "4 mb",
            "partial-update.ignore-delete": "true",
            "someone's own option": "kept",
        }
    )
    assert (options.bucket, options.bucket_keys, options.merge_engine) == (4, ("a", "b"), "partial-update")
    assert (options.sequence_fields, options.sequence_order) == (("s1", "s2"), "descending")
    assert options.of_field("total").aggregate_function == "sum"
    assert options.of_field("total").ignore_retract
    assert options.of_field("list").list_agg_delimiter == ";"
    assert options.of_field("other").aggregate_function is None
    assert options.sequence_groups == {("g1", "g2"): ("x", "y")}
    assert options.default_aggregation == "last_non_null_value"
    assert options.manifest_target_bytes == 4 << 20
    assert options.ignore_delete
    assert options.tuning["someone's own option"] == "kept"


def test_the_highest_level_follows_from_the_trigger_of_compaction() -> None:
    assert parse_options({}).num_levels == 6
    assert parse_options({"num-sorted-run.compaction-trigger": "100"}).num_levels == 101
    assert parse_options({"num-sorted-run.compaction-trigger": "100", "num-levels": "3"}).num_levels == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "four"),
        ("deletion-vectors.enabled", "yes"),
        ("manifest.target-file-size", "8 potatoes"),
        ("manifest.merge-min-count", "1e3"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_the_name_of_the_option(key: str, value: str) -> None:
    with pytest.raises(InvalidMetadata, match=key):
        parse_options({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("merge-engine", "newest-wins"),
        ("file.format", "lance"),
        ("bucket-function.type", "random"),
        ("changelog-producer", "guess"),
        ("fields.x.aggregate-function", "median"),
        ("fields.x.default-value", "7"),
        ("fields.x.other-option", "7"),
    ],
)
def test_options_that_change_what_rows_there_are_and_are_not_known_are_refused(key: str, value: str) -> None:
    with pytest.raises(NotSupported, match=key):
        parse_options({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "-2"),
        ("sequence.snapshot-ordering", "true"),
        ("chain-table.enabled", "true"),
        ("query-auth.enabled", "true"),
        ("record-level.expire-time", "1 d"),
        ("scan.fallback-branch", "b"),
        ("type", "format-table"),
        ("blob-field", "picture"),
    ],
)
def test_tables_that_readers_would_see_other_rows_of_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(NotSupported, match=key) as refusal:
        check_readable(parse_options({key: value}))
    assert refusal.value.hint is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-evolution.enabled", "true"),
        ("row-tracking.enabled", "true"),
        ("data-file.external-paths", "s3://b/x"),
        ("file-index.bloom-filter.columns", "a"),
        ("bucket-function.type", "hive"),
    ],
)
def test_what_only_writers_must_keep_to_is_read(key: str, value: str) -> None:
    options = parse_options({key: value})
    check_readable(options)
    with pytest.raises(NotSupported, match=key):
        check_writable(options)


def test_options_that_are_off_are_not_refused() -> None:
    off = {"sequence.snapshot-ordering": "false", "data-evolution.enabled": "false", "type": "table"}
    check_writable(parse_options(off))


def test_tables_of_other_writers_are_readable() -> None:
    for table in everyone():
        check_readable(table.schema.settings)
