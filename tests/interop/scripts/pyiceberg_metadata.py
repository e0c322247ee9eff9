"""What PyIceberg reads in metadata files: for each document of the question, the facts it finds."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil


def facts(metadata: TableMetadata) -> dict[str, Any]:
    """Everything of a table that PyIceberg knows, in its own words."""
    return {
        "format-version": metadata.format_version,
        "table-uuid": str(metadata.table_uuid),
        "location": metadata.location,
        "last-column-id": metadata.last_column_id,
        "last-partition-id": metadata.last_partition_id,
        "current-schema-id": metadata.current_schema_id,
        "schemas": {schema.schema_id: fields(schema) for schema in metadata.schemas},
        "identifiers": {schema.schema_id: schema.identifier_field_ids for schema in metadata.schemas},
        "default-spec-id": metadata.default_spec_id,
        "specs": {
            spec.spec_id: [[f.source_id, f.field_id, str(f.transform), f.name] for f in spec.fields]
            for spec in metadata.partition_specs
        },
        "default-sort-order-id": metadata.default_sort_order_id,
        "orders": {
            order.order_id: [
                [f.source_id, str(f.transform), f.direction.value.lower(), f.null_order.value]
                for f in order.fields
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
                "operation": snapshot.summary.operation.value if snapshot.summary else None,
                "schema-id": snapshot.schema_id,
            }
            for snapshot in metadata.snapshots
        ],
        "refs": {
            name: [ref.snapshot_id, str(ref.snapshot_ref_type.value), ref.max_ref_age_ms]
            for name, ref in metadata.refs.items()
        },
        "snapshot-log": [[entry.timestamp_ms, entry.snapshot_id] for entry in metadata.snapshot_log],
        "metadata-log": [[entry.timestamp_ms, entry.metadata_file] for entry in metadata.metadata_log],
        "properties": metadata.properties,
    }


def fields(schema: Any) -> list[list[Any]]:
    """Every field of a schema at every depth."""
    return [
        [field_id, schema.find_column_name(field_id), str(field.field_type), field.required, field.doc]
        for field_id, field in sorted(schema._lazy_id_to_field.items())
        if not field.field_type.is_struct and not hasattr(field.field_type, "element_id")
        if not hasattr(field.field_type, "key_id")
    ]


documents = json.load(sys.stdin)
json.dump([facts(TableMetadataUtil.parse_raw(json.dumps(document))) for document in documents], sys.stdout)
