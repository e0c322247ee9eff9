"""The life of a table, as metadata: made, written to, evolved, travelled through, pruned and upgraded.

Nothing is stored and no Spark is started: what is shown are values, and pure functions from one to the next.
"""

from __future__ import annotations

import gzip

import pyarrow as pa

from lakeplane.errors import InvalidChange, RequirementFailed
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.requirements import AssertRefSnapshotId, AssertTableUuid, Requirement, check
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.model import evolution as e
from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.project import project
from lakeplane.model.expressions.sql_text import to_sql
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Bucket, Day
from lakeplane.model.types import INT, LONG, STRING, TIMESTAMP, Decimal, Field
from lakeplane.model.values import coerce

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
HOUR = 3_600_000


def tell(title: str, why: str) -> None:
    """Head a chapter."""
    print(f"\n== {title}\n   {why}")


def make() -> TableMetadata:
    """Create a partitioned table."""
    tell(
        "A table is made",
        "Creating is a list of updates in the REST catalog's words; applying it is a function.",
    )
    orders = Schema(
        (
            Field(1, "id", LONG, required=True),
            Field(2, "at", TIMESTAMP),
            Field(3, "amount", Decimal(10, 2)),
            Field(4, "quantity", INT),
        )
    )
    spec = PartitionSpec(
        0, (PartitionField((2,), 1000, "at_day", Day()), PartitionField((1,), 1001, "id_bucket", Bucket(4)))
    )
    made = creation(
        orders,
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="s3://lake/shop/orders",
        spec=spec,
        properties={"format-version": "2", "owner": "demo"},
    )
    table = apply(None, made, now_ms=NOON)
    print(f"   schema {table.current_schema_id}:", *map(str, table.schema.fields), sep="\n     ")
    print(f"   partitioned by {table.partition_spec}")
    return table


def append(table: TableMetadata, snapshot_id: int, hours: int) -> TableMetadata:
    """Commit a snapshot to main."""
    number = table.last_sequence_number + 1
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=table.current_snapshot_id,
        sequence_number=number,
        timestamp_ms=NOON + hours * HOUR,
        manifest_list=f"{table.location}/metadata/snap-{snapshot_id}.avro",
        summary=FrozenDict({"operation": "append", "added-records": "1000"}),
        schema_id=table.current_schema_id,
        first_row_id=table.next_row_id if table.has_row_lineage else None,
        added_rows=1000 if table.has_row_lineage else None,
    )
    main = Ref(snapshot_id=snapshot_id, type="branch")
    return apply(table, [u.AddSnapshot(snapshot), u.SetSnapshotRef(MAIN, main)], now_ms=snapshot.timestamp_ms)


def evolve(table: TableMetadata) -> TableMetadata:
    """Upgrade to v3 and change columns."""
    tell(
        "It is upgraded to v3 and evolved",
        "Ids make renames free, and a default fills the rows that are there.",
    )
    table = apply(table, [u.UpgradeFormatVersion(3)], now_ms=NOON + 2 * HOUR)
    rules = e.EvolutionRules(
        format_version=table.format_version,
        last_column_id=table.last_column_id,
        specs=table.partition_specs,
        default_spec=table.partition_spec,
        default_order=table.sort_order,
    )
    changes: list[e.SchemaChange] = [
        e.RenameColumn("amount", "total"),
        e.UpdateColumn("quantity", type=LONG),
        e.AddColumn("currency", STRING, required=True, default="EUR", position=e.After("total")),
    ]
    schema, last_column_id = e.evolve(table.schema, changes, rules)
    table = apply(table, [u.AddSchema(schema, last_column_id), u.SetCurrentSchema()], now_ms=NOON + 2 * HOUR)
    print(f"   schema {table.current_schema_id}:", *map(str, table.schema.fields), sep="\n     ")
    try:
        e.evolve(table.schema, [e.DropColumn("at")], rules)
    except InvalidChange as refused:
        print(f"   refused: {refused}")
    return table


def travel(table: TableMetadata) -> None:
    """Look back in time."""
    tell("Time travel", "The snapshot log tells what was current when.")
    for hours in (1, 3):
        snapshot = table.snapshot_at(NOON + hours * HOUR)
        columns = ", ".join(field.name for field in table.schema_of(snapshot).fields)
        print(f"   at {12 + hours}:00 snapshot {snapshot.snapshot_id} was current, with columns {columns}")


def prune(table: TableMetadata) -> None:
    """Find the partitions that a predicate can match."""
    tell(
        "A predicate prunes files",
        "Spark's own SQL; what is not understood exactly prunes nothing, and stays.",
    )
    text = "at >= '2026-01-03' AND at < '2026-01-05' AND id IN (7, 1000) AND upper(currency) = 'EUR'"
    predicate = parse_predicate(text, table.schema)
    on_partitions = project(predicate, table.partition_spec, strict=False)
    partition = Schema(table.partition_type(0).fields)
    day = coerce(partition.fields[0].type, "2026-01-01")
    days, buckets = zip(*[(day + d, b) for d in range(7) for b in range(4)], strict=True)
    columns = {1000: pa.array(days, pa.int32()), 1001: pa.array(buckets, pa.int32())}
    kept = matches_rows(on_partitions, columns.__getitem__, len(days))
    print(f"   where      {text}")
    print(f"   partitions {to_sql(on_partitions, partition)}")
    print(f"   kept       {kept.sum()} of {len(kept)} partitions")


def conflict(table: TableMetadata, stale: TableMetadata) -> None:
    """Fail to commit on a base that is gone."""
    tell(
        "Somebody else was faster",
        "A change carries its requirements: a lost race is an error, never a lost commit.",
    )
    requirements: list[Requirement] = [
        AssertTableUuid(stale.table_uuid or ""),
        AssertRefSnapshotId(MAIN, stale.current_snapshot_id),
    ]
    try:
        check(requirements, table)
    except RequirementFailed as refused:
        print(f"   refused: {refused}")


def main() -> None:
    """Tell the story."""
    table = append(make(), 101, hours=0)
    stale = table
    table = append(evolve(append(table, 102, hours=1)), 103, hours=2)
    travel(table)
    prune(table)
    conflict(table, stale)
    tell("The file", "The same bytes every time, read back to the same value.")
    text, packed = serialize_metadata(table), serialize_metadata(table, compress=True)
    assert parse_metadata(text) == parse_metadata(packed) == table
    assert gzip.decompress(packed) == text
    print(f"   {len(text)} bytes of JSON, {len(packed)} gzipped; next row id {table.next_row_id}")
    print(f"   {text[:106].decode()}...")


if __name__ == "__main__":
    main()
