"""PyIceberg and lakeplane read the same in the same metadata, whoever wrote it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Bucket, Day, Identity, Truncate
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Struct,
    parse_type,
)
from tests.interop.metadata_facts import facts
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

    from lakeplane.iceberg.metadata import TableMetadata


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Facts without what is said differently and means the same."""
    schemas = {
        schema_id: [
            [field_id, name, str(parse_type(text)), required, doc]
            for field_id, name, text, required, doc in rows
        ]
        for schema_id, rows in found["schemas"].items()
    }
    snapshots = [
        {**snapshot, "sequence-number": snapshot["sequence-number"] or 0} for snapshot in found["snapshots"]
    ]
    # One of the outside files counts its columns wrong; we mend the counter, so that no id is used twice.
    highest = max(row[0] for rows in schemas.values() for row in rows)
    last_column_id = max(found["last-column-id"], highest)
    return {**found, "schemas": schemas, "snapshots": snapshots, "last-column-id": last_column_id}


COLUMNS = Schema(
    (
        Field(1, "id", LONG, required=True, doc="the key"),
        Field(2, "at", TIMESTAMPTZ),
        Field(3, "amount", Decimal(12, 2)),
        Field(4, "tags", List(5, STRING, element_required=True)),
        Field(6, "places", Map(7, STRING, 8, Struct((Field(9, "x", DOUBLE), Field(10, "y", DOUBLE))))),
        Field(11, "hash", Fixed(16)),
        Field(12, "key", UUID),
        Field(13, "day", DATE),
        Field(14, "name", STRING),
        Field(15, "small", INT),
    ),
    identifier_field_ids=(1,),
)
SPEC = PartitionSpec(
    0,
    (
        PartitionField((2,), 1000, "at_day", Day()),
        PartitionField((1,), 1001, "id_bucket", Bucket(16)),
        PartitionField((14,), 1002, "name_trunc", Truncate(4)),
    ),
)
ORDER = SortOrder(
    1, (SortField((14,), Identity(), "desc", "nulls-last"), SortField((2,), Day(), "asc", "nulls-first"))
)


def snapshot(number: int, version: int, parent: int | None) -> Snapshot:
    return Snapshot(
        snapshot_id=5_000_000_000 + number,
        parent_snapshot_id=parent,
        sequence_number=number,
        timestamp_ms=1_700_000_000_000 + number,
        manifest_list=f"s3://bucket/table/metadata/snap-{number}.avro",
        summary=FrozenDict({"operation": "append", "added-records": "10"}),
        schema_id=0,
        first_row_id=10 * (number - 1) if version == 3 else None,
        added_rows=10 if version == 3 else None,
    )


def a_table(version: int) -> TableMetadata:
    """A table with a history, made by our own updates."""
    extra = (Field(20, "precise", TIMESTAMP_NS),) if version == 3 else ()
    schema = Schema((*COLUMNS.fields, *extra), identifier_field_ids=(1,))
    table = apply(
        None,
        creation(
            schema,
            uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            location="s3://bucket/table",
            spec=SPEC,
            order=ORDER,
            properties={"format-version": str(version), "owner": "us", "ü": "é"},
        ),
        now_ms=1_700_000_000_000,
    )
    parent = None
    for number in (1, 2, 3):
        new = snapshot(number, version, parent)
        parent = new.snapshot_id
        main = Ref(snapshot_id=parent, type="branch")
        table = apply(table, [u.AddSnapshot(new), u.SetSnapshotRef("main", main)], now_ms=new.timestamp_ms)
    tag = Ref(snapshot_id=5_000_000_001, type="tag", max_ref_age_ms=10)
    renamed = tuple(
        Field(f.id, "title", f.type, f.required) if f.name == "name" else f for f in table.schema.fields
    )
    return apply(
        table,
        [
            u.SetSnapshotRef("first", tag),
            u.AddSchema(Schema((*renamed, Field(99, "note", STRING, doc="later")), 0, (1,))),
            u.SetCurrentSchema(),
            u.AddPartitionSpec(PartitionSpec(0, (SPEC.fields[0],))),
            u.SetDefaultSpec(),
        ],
        now_ms=1_700_000_001_000,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_in_our_metadata_what_we_wrote(version: int) -> None:
    ours = a_table(version)
    [theirs] = ask("pyiceberg_metadata", [json.loads(serialize_metadata(ours))])
    assert comparable(theirs) == comparable(facts(ours))


def test_we_read_in_tables_of_pyiceberg_what_it_wrote_and_write_it_back_for_it(tmp_path: Path) -> None:
    documents = ask("pyiceberg_tables", str(tmp_path))
    ours = [parse_metadata(json.dumps(document).encode()) for document in documents]
    rewritten = [json.loads(serialize_metadata(table)) for table in ours]
    theirs = ask("pyiceberg_metadata", documents + rewritten)
    assert len(documents) == 6
    assert [comparable(each) for each in theirs[:6]] == [comparable(facts(table)) for table in ours]
    assert [comparable(each) for each in theirs[6:]] == [comparable(facts(table)) for table in ours]


def test_metadata_of_other_writers_reads_the_same_after_our_rewrite(vectors: Path) -> None:
    folder = vectors / "iceberg-rust"
    # (PyIceberg itself refuses V1Compat, which lacks the required `schema`.)
    names = ["V1Valid", "V2Valid", "V2ValidMinimal", "V3ValidMinimal"]
    files = [next(folder.rglob(f"TableMetadata{name}.json")) for name in names]
    files += [
        next(folder.rglob(f"example_table_metadata_v2{suffix}.json"))
        for suffix in ("", "_deep_history", "_partition_evolution")
    ]
    originals = [json.loads(file.read_text()) for file in files]
    ours = [parse_metadata(file.read_bytes(), source=str(file)) for file in files]
    rewritten = [json.loads(serialize_metadata(table)) for table in ours]
    before, after = [
        list(map(comparable, part))
        for part in (
            ask("pyiceberg_metadata", originals),
            ask("pyiceberg_metadata", rewritten),
        )
    ]
    assert before == after
    assert after == [comparable(facts(table)) for table in ours]


def test_pyiceberg_and_we_open_tables_that_leave_out_the_order_that_sorts_nothing(vectors: Path) -> None:
    """We refused tables that have sort orders but do not use them by default, which all others open."""
    [file] = (vectors / "iceberg-rust").rglob("TableMetadataV2Valid.json")
    document = {**json.loads(file.read_text()), "default-sort-order-id": 0}
    [theirs] = ask("pyiceberg_metadata", [document])
    ours = parse_metadata(json.dumps(document).encode())
    assert ours.sort_order.is_unsorted
    assert theirs["default-sort-order-id"] == ours.default_sort_order_id == 0
    [again] = ask("pyiceberg_metadata", [json.loads(serialize_metadata(ours))])
    assert comparable(again) == comparable(facts(ours)) == {**comparable(theirs), "orders": again["orders"]}
    assert again["orders"] == {**theirs["orders"], "0": []}
