"""Table metadata files: JSON, gzipped or not, of format versions 1 to 3, both ways.

Writing follows the spec's table to the letter; reading is as permissive as the spec's read rules, and
keeps what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakeplane.errors import InvalidMetadata, UnsupportedVersion
from lakeplane.iceberg.metadata import (
    FORMAT_VERSIONS,
    ROW_LINEAGE_VERSION,
    TableMetadata,
    check_invariants,
)
from lakeplane.iceberg.snapshots import (
    MAIN,
    MetadataLogEntry,
    Ref,
    Snapshot,
    SnapshotLogEntry,
    read_ref,
    without_v3_fields,
)
from lakeplane.iceberg.statistics import (
    PartitionStatisticsFile,
    StatisticsFile,
    read_keys,
)
from lakeplane.model.frozen import FrozenDict, freeze, thaw
from lakeplane.model.json_files import DEFAULT_LIMITS, Limits, decode, encode
from lakeplane.model.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    PartitionSpec,
    read_spec,
    read_spec_fields,
    write_spec,
    write_spec_fields,
)
from lakeplane.model.records import read_all, write, write_all
from lakeplane.model.schema import Schema
from lakeplane.model.schema_json import read_schema, write_schema
from lakeplane.model.sorting import UNSORTED, SortOrder, read_order, write_order

if TYPE_CHECKING:
    import msgspec

T = TypeVar("T")

_NO_SNAPSHOT: Final = -1
"""What Java writes in v1 and v2 for "no current snapshot"."""

_KNOWN: Final = frozenset(
    [
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "sort-orders",
        "default-sort-order-id",
        "refs",
        "statistics",
        "partition-statistics",
    ]
)
_KNOWN_SINCE_V3: Final = frozenset({"next-row-id", "encryption-keys"})


def parse_metadata(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> TableMetadata:
    """Read a metadata file; ``source`` names it in errors."""
    return decode(data, read_metadata, source=source, limits=limits)


def serialize_metadata(metadata: TableMetadata, *, compress: bool = False) -> bytes:
    """Write a metadata file."""
    return encode(_write(metadata), compress=compress)


def read_metadata(document: Mapping[str, Any]) -> TableMetadata:
    """Turn the JSON object of a table into metadata, and check it."""
    version = _read_version(document)
    known = _KNOWN | _KNOWN_SINCE_V3 if version >= 3 else _KNOWN  # noqa: PLR2004
    schemas, current_schema_id = _read_schemas(document, version)
    specs, default_spec_id = _read_specs(document, version)
    orders, default_order_id = _read_orders(document, version)
    snapshots = _each(document, "snapshots", lambda raw, at: read_all(Snapshot, raw, at))
    if version < ROW_LINEAGE_VERSION:
        # What an older version carries under the names of v3 means nothing in it.
        snapshots = tuple(map(without_v3_fields, snapshots))
    current = document.get("current-snapshot-id")
    current = None if current is None else _integer(document, "current-snapshot-id")
    if current == _NO_SNAPSHOT:
        current = None
    metadata = TableMetadata(
        format_version=version,
        table_uuid=_text(document, "table-uuid", required=version > 1),
        location=_text(document, "location", required=True) or "",
        last_sequence_number=0 if version == 1 else _integer(document, "last-sequence-number"),
        last_updated_ms=_integer(document, "last-updated-ms"),
        # A counter behind the ids in use would hand them out twice.
        last_column_id=max(
            _integer(document, "last-column-id", bits=32), *(schema.highest_field_id for schema in schemas)
        ),
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=_last_partition_id(document, version, specs),
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        properties=_properties(document),
        current_snapshot_id=current,
        snapshots=snapshots,
        snapshot_log=_each(document, "snapshot-log", lambda raw, at: read_all(SnapshotLogEntry, raw, at)),
        metadata_log=_each(document, "metadata-log", lambda raw, at: read_all(MetadataLogEntry, raw, at)),
        refs=_read_refs(document, current),
        statistics=_each(document, "statistics", lambda raw, at: read_all(StatisticsFile, raw, at)),
        partition_statistics=_each(
            document, "partition-statistics", lambda raw, at: read_all(PartitionStatisticsFile, raw, at)
        ),
        next_row_id=_next_row_id(document, snapshots) if version >= 3 else 0,  # noqa: PLR2004
        encryption_keys=_each(document, "encryption-keys", read_keys) if version >= 3 else (),  # noqa: PLR2004
        unknown=freeze({key: document[key] for key in document if key not in known}),
    )
    if metadata.last_column_id >= 2**31:
        raise InvalidMetadata(f"the column id {metadata.last_column_id} is no int", field="schemas")
    check_invariants(metadata)
    return metadata


def _read_version(document: Mapping[str, Any]) -> int:
    version = document.get("format-version")
    if type(version) is not int or version < 1:
        raise UnsupportedVersion(f"not a format version: {version!r}", field="format-version")
    if version not in FORMAT_VERSIONS:
        hint = f"This release of lakeplane reads versions {FORMAT_VERSIONS[0]} to {FORMAT_VERSIONS[-1]}"
        state = "is still a draft" if version == FORMAT_VERSIONS[-1] + 1 else "is not known"
        problem = f"format version {version} {state}"
        raise UnsupportedVersion(problem, field="format-version", hint=hint)
    return version


def _read_schemas(document: Mapping[str, Any], version: int) -> tuple[tuple[Schema, ...], int]:
    listed, current = document.get("schemas"), document.get("current-schema-id")
    # A v1 writer may know only the one schema; when it wrote both forms, the list counts if it is complete.
    if version == 1 and (not listed or current is None):
        if document.get("schema") is None:
            raise InvalidMetadata(
                "neither schemas with current-schema-id nor schema is there", field="schema"
            )
        schema = read_schema(document["schema"], "schema")
        return (schema,), schema.schema_id
    schemas = _required_list(document, "schemas", read_schema)
    return schemas, _integer(document, "current-schema-id", bits=32)


def _read_specs(document: Mapping[str, Any], version: int) -> tuple[tuple[PartitionSpec, ...], int]:
    if version == 1 and not document.get("partition-specs"):
        fields = read_spec_fields(document.get("partition-spec", []), "partition-spec")
        return (PartitionSpec(0, fields),), 0
    specs = _required_list(document, "partition-specs", read_spec)
    if version == 1 and document.get("default-spec-id") is None:
        return specs, max(spec.spec_id for spec in specs)
    return specs, _integer(document, "default-spec-id", bits=32)


def _read_orders(document: Mapping[str, Any], version: int) -> tuple[tuple[SortOrder, ...], int]:
    listed = document.get("sort-orders")
    if (version == 1 and not listed) or (listed == [] and document.get("default-sort-order-id") == 0):
        # Some writers leave the order that sorts nothing out of the list.
        return (UNSORTED,), UNSORTED.order_id
    orders = _required_list(document, "sort-orders", read_order)
    if any(order.fields and order.order_id == UNSORTED.order_id for order in orders):
        # Files that say 0 are not sorted: which of the two is meant cannot be known.
        raise InvalidMetadata("the sort order 0 means unsorted, it has no fields", field="sort-orders")
    implied = version == 1 and document.get("default-sort-order-id") is None
    default = UNSORTED.order_id if implied else _integer(document, "default-sort-order-id", bits=32)
    if default == UNSORTED.order_id and all(order.order_id != default for order in orders):
        orders = (*orders, UNSORTED)
    return orders, default


def _last_partition_id(document: Mapping[str, Any], version: int, specs: tuple[PartitionSpec, ...]) -> int:
    highest = max((spec.highest_field_id for spec in specs), default=FIRST_PARTITION_FIELD_ID - 1)
    if version == 1 and document.get("last-partition-id") is None:
        return highest
    return max(_integer(document, "last-partition-id", bits=32), highest)


def _next_row_id(document: Mapping[str, Any], snapshots: tuple[Snapshot, ...]) -> int:
    """The table's counter of row ids; writers of early v3 left it out, and then the snapshots tell."""
    if document.get("next-row-id") is not None:
        return _integer(document, "next-row-id")
    return max(((each.first_row_id or 0) + (each.added_rows or 0) for each in snapshots), default=0)


def _read_refs(document: Mapping[str, Any], current: int | None) -> FrozenDict[str, Ref]:
    raw = document.get("refs") or {}
    if not isinstance(raw, dict):
        raise InvalidMetadata("expected an object", field="refs")
    refs = {name: read_ref(each, f"refs.{name}") for name, each in raw.items()}
    if current is not None and MAIN not in refs:
        refs = {MAIN: Ref(snapshot_id=current, type="branch"), **refs}
    return FrozenDict(refs)


def _properties(document: Mapping[str, Any]) -> FrozenDict[str, str]:
    raw = document.get("properties") or {}
    if not isinstance(raw, dict):
        raise InvalidMetadata("expected an object", field="properties")
    for key, value in raw.items():
        # A null property is no property: Java's reader drops it too.
        if value is not None and not isinstance(value, str):
            raise InvalidMetadata(f"expected a string, got {value!r:.80}", field=f"properties.{key}")
    return FrozenDict({key: value for key, value in raw.items() if value is not None})


def _each(
    document: Mapping[str, Any], key: str, convert: Callable[[Any, str], tuple[T, ...]]
) -> tuple[T, ...]:
    raw = document.get(key)
    return () if raw is None else convert(raw, key)


def _required_list(
    document: Mapping[str, Any], key: str, convert: Callable[[object, str], T]
) -> tuple[T, ...]:
    raw = document.get(key)
    if not isinstance(raw, list) or not raw:
        problem = "missing" if raw is None else "expected a list that is not empty"
        raise InvalidMetadata(problem, field=key)
    return tuple([convert(each, f"{key}[{position}]") for position, each in enumerate(raw)])


def _integer(document: Mapping[str, Any], key: str, *, bits: int = 64) -> int:
    value = document.get(key)
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        problem = "missing" if value is None else f"expected an integer of {bits} bits, got {value!r:.80}"
        raise InvalidMetadata(problem, field=key)
    return value


def _text(document: Mapping[str, Any], key: str, *, required: bool) -> str | None:
    value = document.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidMetadata(
            "missing" if value is None else f"expected a string, got {value!r:.80}", field=key
        )
    return value


def _write(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object of a table, by the rules of its own format version; long lists may be text already."""
    version = metadata.format_version
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": metadata.table_uuid,
        "location": metadata.location,
        "last-sequence-number": metadata.last_sequence_number if version > 1 else None,
        "last-updated-ms": metadata.last_updated_ms,
        "last-column-id": metadata.last_column_id,
        "schema": write_schema(metadata.schema) if version == 1 else None,
        "current-schema-id": metadata.current_schema_id,
        "schemas": list(map(write_schema, metadata.schemas)),
        "partition-spec": write_spec_fields(metadata.partition_spec.fields) if version == 1 else None,
        "default-spec-id": metadata.default_spec_id,
        "partition-specs": list(map(write_spec, metadata.partition_specs)),
        "last-partition-id": metadata.last_partition_id,
        "default-sort-order-id": metadata.default_sort_order_id,
        "sort-orders": list(map(write_order, metadata.sort_orders)),
        "properties": dict(metadata.properties),
        "current-snapshot-id": metadata.current_snapshot_id,
        "next-row-id": metadata.next_row_id if metadata.has_row_lineage else None,
        "encryption-keys": list(map(write, metadata.encryption_keys)) or None if version >= 3 else None,  # noqa: PLR2004
        "refs": _write_refs(metadata),
        "snapshots": _write_snapshots(metadata),
        "statistics": write_all(metadata.statistics),
        "partition-statistics": write_all(metadata.partition_statistics),
        "snapshot-log": write_all(metadata.snapshot_log),
        "metadata-log": write_all(metadata.metadata_log),
    }
    document = {key: value for key, value in document.items() if value is not None}
    return {**thaw(metadata.unknown), **document}


def _write_refs(metadata: TableMetadata) -> dict[str, Any] | None:
    """Write the refs; v1 has no place for them, but a branch must not be lost to a v1 table."""
    plain = {MAIN: Ref(snapshot_id=metadata.current_snapshot_id or 0, type="branch")}
    if metadata.format_version == 1 and (not metadata.refs or metadata.refs == plain):
        return None
    return {name: write(ref) for name, ref in metadata.refs.items()}


def _write_snapshots(metadata: TableMetadata) -> list[dict[str, Any]] | msgspec.Raw:
    version = metadata.format_version
    if version == 1 or any(each.manifests is not None for each in metadata.snapshots):
        return [write_snapshot(snapshot, version) for snapshot in metadata.snapshots]
    if version < ROW_LINEAGE_VERSION:
        return write_all(tuple(map(without_v3_fields, metadata.snapshots)))
    return write_all(metadata.snapshots)


def write_snapshot(snapshot: Snapshot, format_version: int) -> dict[str, Any]:
    """Write one snapshot by the rules of a format version."""
    document = write(snapshot if format_version >= ROW_LINEAGE_VERSION else without_v3_fields(snapshot))
    if format_version == 1:
        del document["sequence-number"]
    if snapshot.manifest_list is not None and format_version > 1:
        document.pop("manifests", None)
    return document
