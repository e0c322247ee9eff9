"""Tables made by PyIceberg itself: created, evolved and appended to through its SQL catalog.

The question is the directory to work in; the answer the metadata files, and what PyIceberg reads in them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

directory = Path(json.load(sys.stdin))
catalog = SqlCatalog("peer", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
catalog.create_namespace("ns")

columns = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "amount", DecimalType(9, 2)),
    NestedField(5, "tags", ListType(6, StringType(), element_required=False)),
    NestedField(7, "places", MapType(8, StringType(), 9, StructType(NestedField(10, "x", FloatType())))),
    NestedField(11, "hash", FixedType(16)),
    NestedField(12, "key", UUIDType()),
    NestedField(13, "local", TimestampType()),
    NestedField(14, "small", IntegerType()),
    NestedField(15, "day", DateType()),
    identifier_field_ids=[1],
)
rows = pa.table(
    {"id": pa.array([1, 2], pa.int64())}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])
)
made = []
for version in ("1", "2"):
    table = catalog.create_table(
        f"ns.evolved_v{version}",
        columns,
        partition_spec=PartitionSpec(
            PartitionField(2, 1000, DayTransform(), "at_day"),
            PartitionField(1, 1001, BucketTransform(16), "id_bucket"),
        ),
        sort_order=SortOrder(
            SortField(3, TruncateTransform(4), SortDirection.DESC, NullOrder.NULLS_LAST),
            SortField(1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
        ),
        properties={"format-version": version, "owner": "peer", "ü": "é"},
    )
    made.append(table.metadata_location)
    with table.update_schema() as update:
        update.add_column("note", StringType(), doc="added later")
        update.rename_column("name", "title")
        update.update_column("small", field_type=LongType())
        update.update_column("amount", field_type=DecimalType(12, 2))
        update.move_first("name")
        update.add_column(("places", "value", "y"), FloatType())
        update.delete_column("hash")
    with table.update_spec() as update_spec:
        update_spec.add_field("title", TruncateTransform(3), "title_trunc")
        if version == "2":
            update_spec.remove_field("id_bucket")
    made.append(table.metadata_location)

    plain = catalog.create_table(
        f"ns.appended_v{version}",
        Schema(NestedField(1, "id", LongType(), required=True)),
        properties={"format-version": version},
    )
    plain.append(rows)
    plain.append(rows, snapshot_properties={"who": "peer"})
    first = plain.metadata.snapshots[0].snapshot_id
    plain.manage_snapshots().create_branch(
        first, "audit", max_ref_age_ms=1000, min_snapshots_to_keep=2
    ).commit()
    plain.manage_snapshots().create_tag(first, "first").commit()
    plain.delete("id = 1")
    with plain.transaction() as transaction:
        transaction.set_properties(comment="changed")
    made.append(plain.metadata_location)

json.dump([json.loads(Path(location.removeprefix("file://")).read_text()) for location in made], sys.stdout)
