"""What our own reader finds in table metadata, in the words of ``scripts/pyiceberg_metadata.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeplane.model.types import is_nested

if TYPE_CHECKING:
    from lakeplane.iceberg.metadata import TableMetadata
    from lakeplane.model.schema import Schema


def facts(metadata: TableMetadata) -> dict[str, Any]:
    """Everything of a table that PyIceberg knows too; as JSON would give it back."""
    return {
        "format-version": metadata.format_version,
        "table-uuid": metadata.table_uuid,
        "location": metadata.location,
        "last-column-id": metadata.last_column_id,
        "last-partition-id": metadata.last_partition_id,
        "current-schema-id": metadata.current_schema_id,
        "schemas": {str(schema.schema_id): _fields(schema) for schema in metadata.schemas},
        "identifiers": {
            str(schema.schema_id): list(schema.identifier_field_ids) for schema in metadata.schemas
        },
        "default-spec-id": metadata.default_spec_id,
        "specs": {
            str(spec.spec_id): [[f.source_id, f.field_id, str(f.transform), f.name] for f in spec.fields]
            for spec in metadata.partition_specs
        },
        "default-sort-order-id": metadata.default_sort_order_id,
        "orders": {
            str(order.order_id): [
                [f.source_id, str(f.transform), f.direction, f.null_order] for f in order.fields
            ]
            for order in metadata.sort_orders
        },
        "current-snapshot-id": metadata.current_snapshot_id,
        "snapshots": [
            {
                "id": snapshot.snapshot_id,
                "parent": snapshot.parent_snapshot_id,
                "sequence-number": snapshot.sequence_number,
                "timestamp-ms": snapshot.timestamp_ms,
                "manifest-list": snapshot.manifest_list,
                "operation": snapshot.operation,
                "schema-id": snapshot.schema_id,
            }
            for snapshot in metadata.snapshots
        ],
        "refs": {
            name: [ref.snapshot_id, ref.type, ref.max_ref_age_ms] for name, ref in metadata.refs.items()
        },
        "snapshot-log": [[entry.timestamp_ms, entry.snapshot_id] for entry in metadata.snapshot_log],
        "metadata-log": [[entry.timestamp_ms, entry.metadata_file] for entry in metadata.metadata_log],
        "properties": dict(metadata.properties),
    }


def _fields(schema: Schema) -> list[list[Any]]:
    return [
        [field.id, schema.name_of(field.id), str(field.type), field.required, field.doc]
        for field in sorted(schema.all_fields, key=lambda each: each.id)
        if not is_nested(field.type)
    ]
