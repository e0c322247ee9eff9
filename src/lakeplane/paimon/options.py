"""The options of a table: what they say about reading and writing it, and those that are refused.

Any text may be an option, and those that only tune other engines are passed over. Some change which rows a
table has, or what its files hold. Of these, the ones that this release does not know are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.records import Strings

MergeEngine: TypeAlias = Literal["deduplicate", "partial-update", "aggregation", "first-row"]
ChangelogProducer: TypeAlias = Literal["none", "input", "full-compaction", "lookup"]
BucketFunction: TypeAlias = Literal["default", "mod", "hive"]
FileFormat: TypeAlias = Literal["parquet", "orc", "avro"]
SortOrder: TypeAlias = Literal["ascending", "descending"]

DYNAMIC: Final = -1
"""The ``bucket`` of tables without buckets, and of those whose buckets grow with their keys."""
POSTPONE: Final = -2
"""The ``bucket`` of tables whose rows get their buckets later."""

AGGREGATIONS: Final = frozenset(
    {
        *("sum", "product", "count", "max", "min", "last_value", "last_non_null_value", "first_value"),
        *("first_non_null_value", "first_not_null_value", "listagg", "bool_and", "bool_or", "collect"),
        *("merge_map", "nested_update", "nested_partial_update", "hll_sketch", "theta_sketch"),
        *(
            "roaring_bitmap_32",
            "roaring_bitmap_64",
            "rbm32",
            "rbm64",
            "primary-key",
            "merge_map_with_keytime",
        ),
    }
)
"""The aggregations that Paimon has. Which of them can be computed is known to whoever computes them."""


class FieldOptions(msgspec.Struct, frozen=True):
    """What options say about one field: ``fields.<name>.<option>``."""

    aggregate_function: str | None = None
    ignore_retract: bool = False
    distinct: bool = False
    list_agg_delimiter: str | None = None
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None
    sequence_group: tuple[str, ...] = ()
    """The fields that this one, as part of a sequence, protects."""


NO_FIELD_OPTIONS: Final = FieldOptions()
_NO_GROUPS: Final[FrozenDict[tuple[str, ...], tuple[str, ...]]] = FrozenDict()


class TableOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of a table mean."""

    bucket: int = DYNAMIC
    bucket_keys: tuple[str, ...] = ()
    bucket_function: BucketFunction = "default"
    merge_engine: MergeEngine = "deduplicate"
    changelog_producer: ChangelogProducer = "none"
    sequence_fields: tuple[str, ...] = ()
    sequence_order: SortOrder = "ascending"
    ignore_delete: bool = False
    ignore_update_before: bool = False
    remove_record_on_delete: bool = False
    remove_record_on_sequence_group: tuple[str, ...] = ()
    rowkind_field: str | None = None
    default_aggregation: str | None = None
    of_fields: FrozenDict[str, FieldOptions] = EMPTY
    sequence_groups: FrozenDict[tuple[str, ...], tuple[str, ...]] = _NO_GROUPS
    """From the fields of a sequence to those that it protects."""
    deletion_vectors: bool = False
    deletion_vectors_bitmap64: bool = False
    deletion_vectors_merge_on_read: bool = False
    deletion_vectors_target_bytes: int = 2 << 20
    file_format: FileFormat = "parquet"
    num_levels: int = 6
    partition_default_name: str = "__DEFAULT_PARTITION__"
    partition_legacy_name: bool = True
    data_file_directory: str | None = None
    index_file_in_data_file_dir: bool = False
    row_tracking: bool = False
    manifest_compression: str = "zstd"
    manifest_target_bytes: int = 8 << 20
    manifest_full_compaction_bytes: int = 16 << 20
    manifest_merge_min_count: int = 30
    stats_mode: str = "truncate(16)"
    stats_dense: bool = True
    tuning: Strings = EMPTY
    """All options as they are given."""

    def of_field(self, name: str) -> FieldOptions:
        """What the options say about a field."""
        return self.of_fields.get(name, NO_FIELD_OPTIONS)


_FIELD: Final = re.compile(r"fields\.(?P<field>.+)\.(?P<option>[a-z0-9-]+)")
_BYTES: Final = re.compile(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS: Final = {"": 0, "b": 0, "bytes": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}
_WORDS: Final = {"true": True, "false": False}
_REMOVE: Final = ("partial-update.remove-record-on-delete", "aggregation.remove-record-on-delete")
_IGNORE: Final = (
    "ignore-delete",
    *(f"{each}.ignore-delete" for each in ("first-row", "deduplicate", "partial-update")),
)


class _Reader:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def flag(self, *keys: str, default: bool = False) -> bool:
        for key in keys:
            if key in self.options:
                text = self.options[key].strip().lower()
                if text not in _WORDS:
                    raise self.wrong(key, "true or false")
                return _WORDS[text]
        return default

    def number(self, key: str, default: int) -> int:
        text = self.options.get(key, str(default)).strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.wrong(key, "a number")
        return int(text)

    def size(self, key: str, default: int) -> int:
        if key not in self.options:
            return default
        found = _BYTES.fullmatch(self.options[key])
        if not found or found[2].lower() not in _UNITS:
            raise self.wrong(key, "a size such as 8 mb")
        return int(found[1]) << _UNITS[found[2].lower()]

    def names(self, key: str) -> tuple[str, ...]:
        return _names(self.options.get(key, ""))

    def choice(self, key: str, kind: object, default: str) -> str:
        known = get_args(kind)
        text = self.options.get(key, default).strip().lower()
        if text not in known:
            hint = f"This release knows {', '.join(known)}"
            raise NotSupported(f"{key} = {text!r:.80}", field=f"options.{key}", hint=hint)
        return text

    def wrong(self, key: str, wanted: str) -> InvalidMetadata:
        return InvalidMetadata(f"{self.options[key]!r:.80} is not {wanted}", field=f"options.{key}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


T = TypeVar("T")


def parse_options(options: Mapping[str, str]) -> TableOptions:
    """Read the options of a table; values that mean nothing are refused by the name of the option."""
    read = _Reader(options)
    of_fields, groups = _of_fields(read)
    default = options.get("fields.default-aggregate-function")
    return TableOptions(
        bucket=read.number("bucket", DYNAMIC),
        bucket_keys=read.names("bucket-key"),
        bucket_function=cast(
            "BucketFunction", read.choice("bucket-function.type", BucketFunction, "default")
        ),
        merge_engine=cast("MergeEngine", read.choice("merge-engine", MergeEngine, "deduplicate")),
        changelog_producer=cast(
            "ChangelogProducer", read.choice("changelog-producer", ChangelogProducer, "none")
        ),
        sequence_fields=read.names("sequence.field"),
        sequence_order=cast("SortOrder", read.choice("sequence.field.sort-order", SortOrder, "ascending")),
        ignore_delete=read.flag(*_IGNORE),
        ignore_update_before=read.flag("ignore-update-before"),
        remove_record_on_delete=any(read.flag(each) for each in _REMOVE),
        remove_record_on_sequence_group=read.names("partial-update.remove-record-on-sequence-group"),
        rowkind_field=options.get("rowkind.field"),
        default_aggregation=None
        if default is None
        else _aggregation("fields.default-aggregate-function", default),
        of_fields=of_fields,
        sequence_groups=groups,
        deletion_vectors=read.flag("deletion-vectors.enabled"),
        deletion_vectors_bitmap64=read.flag("deletion-vectors.bitmap64"),
        deletion_vectors_merge_on_read=read.flag("deletion-vectors.merge-on-read"),
        deletion_vectors_target_bytes=read.size("deletion-vector.index-file.target-size", 2 << 20),
        file_format=cast("FileFormat", read.choice("file.format", FileFormat, "parquet")),
        num_levels=_num_levels(read),
        partition_default_name=options.get("partition.default-name", "__DEFAULT_PARTITION__"),
        partition_legacy_name=read.flag("partition.legacy-name", default=True),
        data_file_directory=options.get("data-file.path-directory"),
        index_file_in_data_file_dir=read.flag("index-file-in-data-file-dir"),
        row_tracking=read.flag("row-tracking.enabled"),
        manifest_compression=options.get("manifest.compression", "zstd").strip().lower(),
        manifest_target_bytes=read.size("manifest.target-file-size", 8 << 20),
        manifest_full_compaction_bytes=read.size("manifest.full-compaction-threshold-size", 16 << 20),
        manifest_merge_min_count=read.number("manifest.merge-min-count", 30),
        stats_mode=options.get("metadata.stats-mode", "truncate(16)").strip().lower(),
        stats_dense=read.flag("metadata.stats-dense-store", default=True),
        tuning=FrozenDict(options),
    )


def _num_levels(read: _Reader) -> int:
    """The highest level of a table is the one below this number."""
    if "num-levels" in read.options:
        return read.number("num-levels", 6)
    return read.number("num-sorted-run.compaction-trigger", 5) + 1


def _of_fields(
    read: _Reader,
) -> tuple[FrozenDict[str, FieldOptions], FrozenDict[tuple[str, ...], tuple[str, ...]]]:
    found: dict[str, dict[str, object]] = {}
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, value in read.options.items():
        match = _FIELD.fullmatch(key)
        if not match:
            continue
        name, option = match["field"], match["option"]
        mine = found.setdefault(name, {})
        match option:
            case "aggregate-function":
                mine["aggregate_function"] = _aggregation(key, value)
            case "ignore-retract":
                mine["ignore_retract"] = read.flag(key)
            case "distinct":
                mine["distinct"] = read.flag(key)
            case "list-agg-delimiter":
                mine["list_agg_delimiter"] = value
            case "nested-key":
                mine["nested_key"] = _names(value)
            case "count-limit":
                mine["count_limit"] = read.number(key, 0)
            case "sequence-group":
                groups[_names(name)] = _names(value)
            case _:
                hint = "Remove the option, or read the table with Paimon's own readers"
                raise NotSupported(f"{key} = {value!r:.80}", field=f"options.{key}", hint=hint)
    options = {name: FieldOptions(**values) for name, values in found.items() if values}  # type: ignore[arg-type]
    return FrozenDict(options), FrozenDict(groups)


def _aggregation(key: str, value: str) -> str:
    name = value.strip().lower()
    if name not in AGGREGATIONS:
        raise NotSupported(
            f"{key} = {value!r:.80}", field=f"options.{key}", hint="No such aggregation is known"
        )
    return name


_REFUSED_FLAGS: Final = (
    *("sequence.snapshot-ordering", "chain-table.enabled", "query-auth.enabled", "pk-clustering-override"),
    *("postpone.merge-on-read", "primary-key.nullable"),
)
_REFUSED_AT_ALL: Final = (
    *("record-level.expire-time", "scan.fallback-branch", "scan.primary-branch"),
    *("scan.fallback-snapshot-branch", "scan.fallback-delta-branch", "blob-field", "vector-field"),
)
_KNOWN_TYPES: Final = frozenset({"", "table"})
_REFUSED_FOR_WRITING: Final = (
    *("data-file.external-paths", "data-evolution.enabled", "row-tracking.enabled", "clustering.columns"),
    *(
        "clustering.incremental",
        "pk-btree.index.columns",
        "pk-bitmap.index.columns",
        "pk-vector.index.columns",
    ),
    *("pk-full-text.index.columns", "pk-multivalue.index.columns", "global-index.external-path"),
)


def check_readable(options: TableOptions) -> None:
    """Refuse what would make readers of this release see other rows than the table has."""
    given = options.tuning
    if options.bucket <= POSTPONE:
        raise _refusal("bucket", given["bucket"])
    for key in _REFUSED_FLAGS:
        if _is_on(given, key):
            raise _refusal(key, given[key])
    for key in _REFUSED_AT_ALL:
        if key in given:
            raise _refusal(key, given[key])
    if given.get("type", "").strip().lower() not in _KNOWN_TYPES:
        raise _refusal("type", given["type"])


def check_writable(options: TableOptions) -> None:
    """Refuse what writers of this release would not keep to, and what already readers refuse."""
    check_readable(options)
    given = options.tuning
    for key in _REFUSED_FOR_WRITING:
        if key in given and given[key].strip().lower() != "false":
            raise _refusal(key, given[key])
    for key in given:
        if key.startswith("file-index.") and key.endswith(".columns"):
            raise _refusal(key, given[key])
    if options.bucket_function == "hive":
        raise _refusal("bucket-function.type", "hive")


def _is_on(given: Mapping[str, str], key: str) -> bool:
    return given.get(key, "false").strip().lower() not in ("false", "")


def _refusal(key: str, value: str) -> NotSupported:
    hint = "Remove the option, or use Paimon's own readers and writers"
    return NotSupported(f"{key} = {value!r:.80}", field=f"options.{key}", hint=hint)
