from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidChange, RequirementFailed
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply, record_previous
from lakeplane.iceberg.metadata import TableMetadata, check_invariants
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.retention import retained
from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.iceberg.statistics import EncryptedKey, PartitionStatisticsFile, StatisticsFile
from lakeplane.iceberg.update_json import read_updates, write_updates
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortField, SortOrder
from lakeplane.model.transforms import Bucket, Day, Hour, Identity, Transform, UnknownTransform, Void
from lakeplane.model.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP_NS, TIMESTAMPTZ, Field, Struct
from tests.iceberg.documents import EARLY, FIRST, LATE, SECOND, UUID, VERSIONS, empty, metadata

NOW = 1_700_000_000_000

ID = Field(1, "id", LONG, required=True)
TS = Field(2, "ts", TIMESTAMPTZ, required=True)


def change(base: TableMetadata | None, *updates: u.TableUpdate, now_ms: int = NOW) -> TableMetadata:
    return apply(base, updates, now_ms=now_ms)


def refused(base: TableMetadata | None, *updates: u.TableUpdate) -> InvalidChange:
    before = None if base is None else serialize_metadata(base)
    with pytest.raises(InvalidChange) as caught:
        change(base, *updates)
    assert base is None or serialize_metadata(base) == before
    return caught.value


def part(source: int, name: str, transform: Transform, field_id: int = u.UNASSIGNED) -> PartitionField:
    return PartitionField((source,), field_id, name, transform)


def spec(*fields: PartitionField, spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(spec_id, fields)


def order(*sources: int, transform: Transform = Identity()) -> SortOrder:  # noqa: B008 - a value
    return SortOrder(1, tuple(SortField((each,), transform, "asc", "nulls-first") for each in sources))


def snapshot(snapshot_id: int, table: TableMetadata, rows: int = 10, **changes: Any) -> Snapshot:
    """A snapshot that fits on top of the table."""
    lineage = {"first_row_id": table.next_row_id, "added_rows": rows} if table.has_row_lineage else {}
    whole: dict[str, Any] = {
        "snapshot_id": snapshot_id,
        "parent_snapshot_id": table.current_snapshot_id,
        "sequence_number": table.last_sequence_number + 1,
        "timestamp_ms": NOW + snapshot_id,
        "manifest_list": f"s3://b/wh/t/metadata/snap-{snapshot_id}.avro",
        "summary": FrozenDict({"operation": "append"}),
        **lineage,
        **changes,
    }
    return Snapshot(**whole)


def branch(snapshot_id: int, **policy: Any) -> Ref:
    return Ref(snapshot_id=snapshot_id, type="branch", **policy)


def tag(snapshot_id: int, **policy: Any) -> Ref:
    return Ref(snapshot_id=snapshot_id, type="tag", **policy)


def commit(table: TableMetadata, snapshot_id: int, name: str = "main", **changes: Any) -> TableMetadata:
    new = snapshot(snapshot_id, table, **changes)
    return change(table, u.AddSnapshot(new), u.SetSnapshotRef(name, branch(snapshot_id)))


def log_of(table: TableMetadata) -> list[int]:
    return [entry.snapshot_id for entry in table.snapshot_log]


CREATION: tuple[u.TableUpdate, ...] = (
    u.AssignUuid(UUID),
    u.AddSchema(Schema((ID, TS))),
    u.SetCurrentSchema(),
    u.AddPartitionSpec(spec(part(2, "ts_day", Day()))),
    u.SetDefaultSpec(),
    u.AddSortOrder(order(1)),
    u.SetDefaultSortOrder(),
    u.SetLocation("s3://b/wh/t"),
)

# For each update: a table, an update that changes it, and one that has nothing to do.
STATISTICS = metadata(3).statistics[0]
PARTITION_STATISTICS = metadata(3).partition_statistics[0]
NO_OPS: dict[type, tuple[u.TableUpdate, ...]] = {
    u.AssignUuid: (u.AssignUuid(UUID),),
    u.UpgradeFormatVersion: (u.UpgradeFormatVersion(3),),
    u.AddSchema: (u.AddSchema(metadata(3).schema), u.AddSchema(metadata(3).schemas[0])),
    u.SetCurrentSchema: (u.SetCurrentSchema(1),),
    u.RemoveSchemas: (u.RemoveSchemas(()), u.RemoveSchemas((77,))),
    u.AddPartitionSpec: (
        u.AddPartitionSpec(spec(part(2, "ts_day", Day()), part(1, "id_bucket", Bucket(16)))),
        u.AddPartitionSpec(metadata(3).partition_specs[0]),
    ),
    u.SetDefaultSpec: (u.SetDefaultSpec(1),),
    u.RemovePartitionSpecs: (u.RemovePartitionSpecs(()), u.RemovePartitionSpecs((77,))),
    u.AddSortOrder: (u.AddSortOrder(metadata(3).sort_order), u.AddSortOrder(UNSORTED)),
    u.SetDefaultSortOrder: (u.SetDefaultSortOrder(1),),
    u.RemoveSnapshots: (u.RemoveSnapshots(()), u.RemoveSnapshots((77,))),
    u.SetSnapshotRef: (u.SetSnapshotRef("main", branch(SECOND)),),
    u.RemoveSnapshotRef: (u.RemoveSnapshotRef("nobody"),),
    u.SetProperties: (
        u.SetProperties(FrozenDict()),
        u.SetProperties(FrozenDict({"write.format.default": "parquet"})),
    ),
    u.RemoveProperties: (u.RemoveProperties(()), u.RemoveProperties(("nothing",))),
    u.SetLocation: (u.SetLocation("s3://b/wh/t"),),
    u.SetStatistics: (u.SetStatistics(STATISTICS),),
    u.RemoveStatistics: (u.RemoveStatistics(77),),
    u.SetPartitionStatistics: (u.SetPartitionStatistics(PARTITION_STATISTICS),),
    u.RemovePartitionStatistics: (u.RemovePartitionStatistics(77),),
    u.AddEncryptionKey: (u.AddEncryptionKey(metadata(3).encryption_keys[0]),),
    u.RemoveEncryptionKey: (u.RemoveEncryptionKey("nobody"),),
}


def test_the_table_of_no_ops_knows_every_update_but_the_one_that_always_changes() -> None:
    assert set(typing.get_args(u.TableUpdate)) - set(NO_OPS) == {u.AddSnapshot}


def test_the_updates_are_those_of_the_rest_catalog() -> None:
    assert len(typing.get_args(u.Update)) == 25


@pytest.mark.parametrize("kind", NO_OPS, ids=lambda kind: kind.__name__)
def test_an_update_with_nothing_to_do_gives_back_the_same_value(kind: type) -> None:
    base = metadata(3)
    for update in NO_OPS[kind]:
        assert change(base, update) is base
    assert change(base, *NO_OPS[kind]) is base


def test_no_updates_give_back_the_same_value() -> None:
    base = metadata(2)
    assert change(base) is base


def test_a_change_that_is_taken_back_is_none() -> None:
    base = metadata(2)
    assert change(base, u.SetProperties(FrozenDict({"a": "b"})), u.RemoveProperties(("a",))) is base
    assert change(base, u.SetSnapshotRef("x", branch(FIRST)), u.RemoveSnapshotRef("x")) is base


def test_a_change_is_dated() -> None:
    changed = change(metadata(2), u.SetProperties(FrozenDict({"a": "b"})))
    assert changed.last_updated_ms == NOW


# --- creation -----------------------------------------------------------------------------------------------


def test_a_table_is_made_of_updates() -> None:
    made = change(None, *CREATION)
    assert (made.format_version, made.table_uuid, made.location) == (2, UUID, "s3://b/wh/t")
    assert (made.last_column_id, made.last_partition_id, made.last_sequence_number) == (2, 1000, 0)
    assert (made.current_schema_id, made.default_spec_id, made.default_sort_order_id) == (0, 0, 1)
    assert made.partition_spec.fields[0].field_id == 1000
    assert (made.current_snapshot, made.snapshot_log, made.metadata_log) == (None, (), ())
    assert made.last_updated_ms == NOW
    assert parse_metadata(serialize_metadata(made)) == made


@pytest.mark.parametrize("left_out", range(len(CREATION)))
def test_a_new_table_needs_each_part(left_out: int) -> None:
    updates = [update for position, update in enumerate(CREATION) if position != left_out]
    assert refused(None, *updates).problem


def test_a_v1_table_needs_no_uuid() -> None:
    made = change(None, u.UpgradeFormatVersion(1), *CREATION[1:])
    assert (made.format_version, made.table_uuid) == (1, None)
    assert parse_metadata(serialize_metadata(made)) == made


def test_a_new_table_keeps_the_ids_that_it_is_given() -> None:
    updates = list(CREATION)
    updates[1] = u.AddSchema(Schema((ID, TS), schema_id=4))
    updates[3] = u.AddPartitionSpec(spec(part(2, "ts_day", Day(), 1005), spec_id=3))
    made = change(None, *updates)
    assert (made.current_schema_id, made.default_spec_id, made.last_partition_id) == (4, 3, 1005)


def test_a_table_is_not_created_with_types_of_a_later_version() -> None:
    later = u.AddSchema(Schema((ID, TS, Field(3, "ns", TIMESTAMP_NS))))
    assert "format version 3" in str(refused(None, CREATION[0], later, *CREATION[2:]))
    up = u.UpgradeFormatVersion(3)
    assert change(None, CREATION[0], up, later, *CREATION[2:]).format_version == 3
    down = u.UpgradeFormatVersion(2)
    assert refused(None, CREATION[0], up, later, *CREATION[2:], down).field == "format-version"


@pytest.mark.parametrize("base", [None, metadata(1, table_uuid=...)])
def test_an_empty_uuid_is_none(base: TableMetadata | None) -> None:
    rest = CREATION[1:] if base is None else ()
    assert refused(base, u.AssignUuid(""), u.UpgradeFormatVersion(1), *rest).field == "table-uuid"


def test_a_uuid_is_for_life() -> None:
    assert refused(metadata(2), u.AssignUuid("9c12d441-03fe-4693-9a96-a0705ddf69c1")).field == "table-uuid"
    assert change(metadata(1, table_uuid=...), u.AssignUuid(UUID)).table_uuid == UUID


def test_an_update_of_views_is_refused() -> None:
    update: Any = u.SetCurrentViewVersion(1)
    assert "SetCurrentViewVersion" in refused(metadata(2), update).problem


# --- last added ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", [u.SetCurrentSchema(), u.SetDefaultSpec(), u.SetDefaultSortOrder()])
def test_the_last_added_must_have_been_added_in_the_same_change(update: u.TableUpdate) -> None:
    assert "added" in refused(metadata(2), update).problem


def test_the_last_added_is_also_one_that_was_known_before() -> None:
    base = metadata(2)
    back = change(base, u.AddSchema(base.schemas[0]), u.SetCurrentSchema())
    assert (back.current_schema_id, len(back.schemas)) == (0, 2)
    back = change(base, u.AddPartitionSpec(base.partition_specs[0]), u.SetDefaultSpec())
    assert (back.default_spec_id, len(back.partition_specs)) == (0, 2)
    back = change(base, u.AddSortOrder(UNSORTED), u.SetDefaultSortOrder())
    assert (back.default_sort_order_id, len(back.sort_orders)) == (0, 2)


def test_the_last_added_is_the_last_of_several() -> None:
    base = change(None, *CREATION)
    schemas = [Schema((ID, TS, Field(3, name, INT))) for name in "abc"]
    changed = change(base, *map(u.AddSchema, schemas), u.SetCurrentSchema())
    assert changed.schema.find("c").id == 3
    assert [schema.schema_id for schema in changed.schemas] == [0, 1, 2, 3]


# --- schemas ------------------------------------------------------------------------------------------------


def test_a_schema_gets_the_next_id_and_moves_the_counter() -> None:
    base = metadata(2)
    wide = Schema((*base.schema.fields, Field(20, "x", INT)), schema_id=77)
    changed = change(base, u.AddSchema(wide))
    assert [schema.schema_id for schema in changed.schemas] == [0, 1, 2]
    assert (changed.current_schema_id, changed.last_column_id) == (1, 20)
    assert change(changed, u.SetCurrentSchema(2)).schema.find("x").id == 20


def test_the_column_counter_never_goes_back() -> None:
    base = metadata(2)
    narrow = change(base, u.AddSchema(Schema((ID, TS, Field(3, "z", INT)))))
    assert narrow.last_column_id == 9
    assert change(base, u.AddSchema(base.schema, last_column_id=30)).last_column_id == 30
    assert refused(base, u.AddSchema(base.schema, last_column_id=8)).field == "last-column-id"


def test_schemas_are_the_same_only_with_the_same_identifier_fields() -> None:
    base = metadata(2)
    other = msgspec.structs.replace(base.schema, identifier_field_ids=())
    assert len(change(base, u.AddSchema(other)).schemas) == 3


@pytest.mark.parametrize(
    "schema",
    [
        Schema((ID, Field(1, "again", INT))),
        Schema((ID, Field(2, "id", INT))),
        Schema((Field(1, "", LONG),)),
        Schema((Field(2147483546, "file_path", STRING),)),
        Schema((Field(-1, "negative", STRING),)),
        Schema((Field(1, "x", DOUBLE, required=True),), identifier_field_ids=(1,)),
        Schema((ID,), identifier_field_ids=(9,)),
        Schema((ID, Field(2, "ns", TIMESTAMP_NS))),
        Schema((ID, Field(2, "d", INT, initial_default=1, write_default=1))),
    ],
)
def test_a_schema_that_the_version_cannot_have_is_refused(schema: Schema) -> None:
    refused(metadata(2), u.AddSchema(schema))


def test_an_unknown_schema_cannot_be_current() -> None:
    assert refused(metadata(2), u.SetCurrentSchema(9)).field == "current-schema-id"


def test_schemas_are_removed_but_not_the_current_one() -> None:
    base = empty(2)
    assert [schema.schema_id for schema in change(base, u.RemoveSchemas((0,))).schemas] == [1]
    assert "1" in refused(base, u.RemoveSchemas((0, 1))).problem


# --- partition specs ----------------------------------------------------------------------------------------


def test_a_spec_gets_the_next_id_and_its_fields_unused_ids() -> None:
    base = metadata(2)
    changed = change(base, u.AddPartitionSpec(spec(part(1, "id", Identity()))), u.SetDefaultSpec())
    assert (changed.partition_spec.spec_id, changed.default_spec_id) == (2, 2)
    assert [field.field_id for field in changed.partition_spec.fields] == [1002]
    assert changed.last_partition_id == 1002


def test_a_rule_that_was_used_before_keeps_its_field_id() -> None:
    base = metadata(2)
    new = spec(part(1, "id_bucket", Bucket(16)), part(1, "id", Identity()), part(2, "ts_day", Day()))
    changed = change(base, u.AddPartitionSpec(new), u.SetDefaultSpec())
    assert [field.field_id for field in changed.partition_spec.fields] == [1001, 1002, 1000]


def test_a_field_id_is_never_given_twice_even_when_its_spec_is_gone() -> None:
    base = metadata(2, default_spec_id=0)
    fewer = change(base, u.RemovePartitionSpecs((1,)))
    assert fewer.last_partition_id == 1001
    changed = change(fewer, u.AddPartitionSpec(spec(part(1, "id", Identity()))), u.SetDefaultSpec())
    assert changed.partition_spec.fields[0].field_id == 1002


def test_given_and_assigned_field_ids_do_not_clash() -> None:
    new = spec(part(1, "a", Bucket(4)), part(1, "b", Bucket(5), 1005), part(1, "c", Bucket(6)))
    changed = change(metadata(2), u.AddPartitionSpec(new), u.SetDefaultSpec())
    ids = [field.field_id for field in changed.partition_spec.fields]
    assert len(set(ids)) == 3
    assert ids[1] == 1005
    assert not {1000, 1001} & set(ids)
    assert changed.last_partition_id == max(ids)


def test_the_same_rule_twice_in_a_spec_is_two_fields() -> None:
    new = spec(part(2, "one", Day()), part(2, "two", Day()))
    changed = change(metadata(2), u.AddPartitionSpec(new), u.SetDefaultSpec())
    assert [field.field_id for field in changed.partition_spec.fields] == [1000, 1002]


def test_specs_are_equivalent_by_sources_transforms_and_names() -> None:
    base = metadata(2)
    renamed = spec(part(2, "the_day", Day()), part(1, "id_bucket", Bucket(16)))
    assert len(change(base, u.AddPartitionSpec(renamed)).partition_specs) == 3
    turned = spec(part(1, "id_bucket", Bucket(16)), part(2, "ts_day", Day()))
    assert len(change(base, u.AddPartitionSpec(turned)).partition_specs) == 3


@pytest.mark.parametrize("transform", [Hour(), Identity()])
def test_a_field_id_does_not_change_its_meaning(transform: Transform) -> None:
    # Tuples of old files are read by these ids: the values would be taken for those of the new transform.
    base = metadata(2)
    assert "1000" in refused(base, u.AddPartitionSpec(spec(part(2, "x", transform, 1000)))).problem
    assert "1000" in refused(base, u.AddPartitionSpec(spec(part(1, "x", Bucket(3), 1000)))).problem


def test_void_may_stand_for_a_field_that_was_dropped() -> None:
    base = metadata(2)
    changed = change(base, u.AddPartitionSpec(spec(part(2, "ts_day", Void(), 1000))), u.SetDefaultSpec())
    assert changed.partition_spec.is_unpartitioned
    assert str(changed.unified_partition_type.fields[0].type) == "date"


@pytest.mark.parametrize(
    "fields",
    [
        (part(77, "gone", Identity()),),
        (part(2, "x", Bucket(4)), part(1, "x", Bucket(4))),
        (part(1, "", Bucket(4)),),
        (part(1, "x", Bucket(4), 1001), part(1, "y", Bucket(5), 1001)),
        (part(1, "x", Day()),),
        (part(1, "x", UnknownTransform("geohash")),),
        (PartitionField((1, 2), u.UNASSIGNED, "x", Bucket(4)),),
        (part(2, "id", Identity()),),
        (part(1, "id", Bucket(4)),),
        (part(6, "element", Identity()),),
        (part(8, "key", Identity()),),
        (part(3, "place_x", Identity()),),
    ],
)
def test_a_spec_that_cannot_be_is_refused(fields: tuple[PartitionField, ...]) -> None:
    refused(metadata(2), u.AddPartitionSpec(spec(*fields)))


def test_a_column_inside_a_struct_may_be_a_source() -> None:
    changed = change(metadata(2), u.AddPartitionSpec(spec(part(4, "place.city", Identity()))))
    assert changed.partition_specs[-1].fields[0].field_id == 1002


def test_specs_are_removed_but_not_the_default_one() -> None:
    assert len(change(metadata(2), u.RemovePartitionSpecs((0,))).partition_specs) == 1
    assert "1" in refused(metadata(2), u.RemovePartitionSpecs((1,))).problem
    assert refused(metadata(2), u.SetDefaultSpec(9)).field == "default-spec-id"


def test_field_ids_of_a_v1_table_count_up_from_1000() -> None:
    base = metadata(1)
    longer = spec(part(2, "ts_day", Day()), part(1, "id_bucket", Bucket(16)), part(1, "id", Identity()))
    changed = change(base, u.AddPartitionSpec(longer), u.SetDefaultSpec())
    assert [field.field_id for field in changed.partition_spec.fields] == [1000, 1001, 1002]
    void = spec(part(2, "ts_day", Void(), 1000), part(1, "id_bucket", Bucket(16), 1001))
    changed = change(base, u.AddPartitionSpec(void), u.SetDefaultSpec())
    assert [field.field_id for field in changed.partition_spec.fields] == [1000, 1001]
    for wrong in [
        spec(part(1, "id_bucket", Bucket(16))),
        spec(part(1, "id", Identity(), 1002)),
        spec(part(1, "id_bucket", Bucket(16)), part(2, "ts_day", Day())),
    ]:
        assert "count up from 1000" in refused(base, u.AddPartitionSpec(wrong)).problem


def test_an_unpartitioned_spec_is_a_spec() -> None:
    changed = change(metadata(1), u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec())
    assert (changed.default_spec_id, changed.last_partition_id) == (2, 1001)


# --- sort orders --------------------------------------------------------------------------------------------


def test_a_sort_order_gets_the_next_id() -> None:
    changed = change(metadata(2), u.AddSortOrder(order(2)), u.SetDefaultSortOrder())
    assert (changed.default_sort_order_id, changed.sort_order.fields[0].source_id) == (2, 2)


def test_only_the_unsorted_order_has_the_id_0() -> None:
    base = metadata(2, sort_orders=[{"order-id": 3, "fields": []}], default_sort_order_id=3)
    changed = change(
        base, u.AddSortOrder(msgspec.structs.replace(order(1), order_id=0)), u.SetDefaultSortOrder()
    )
    assert changed.default_sort_order_id == 4
    unsorted = change(change(None, *CREATION), u.AddSortOrder(SortOrder(9, ())), u.SetDefaultSortOrder())
    assert unsorted.default_sort_order_id == 0


@pytest.mark.parametrize("wrong", [order(77), order(3), order(6), order(1, transform=UnknownTransform("z"))])
def test_a_sort_order_that_cannot_be_is_refused(wrong: SortOrder) -> None:
    refused(metadata(2), u.AddSortOrder(wrong))


def test_an_unknown_order_cannot_be_the_default() -> None:
    assert refused(metadata(2), u.SetDefaultSortOrder(9)).field == "default-sort-order-id"


# --- dropping columns ---------------------------------------------------------------------------------------


def dropped(table: TableMetadata, field_id: int) -> tuple[u.TableUpdate, ...]:
    kept = tuple(field for field in table.schema.fields if field.id != field_id)
    identifiers = tuple(each for each in table.schema.identifier_field_ids if each != field_id)
    return (u.AddSchema(Schema(kept, identifier_field_ids=identifiers)), u.SetCurrentSchema())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_column_of_an_old_spec_and_order_can_be_dropped(version: int) -> None:
    # Other implementations could not open such a table any more: their readers bound old specs to the
    # current schema.
    base = change(
        metadata(version),
        u.AddPartitionSpec(UNPARTITIONED),
        u.SetDefaultSpec(),
        u.AddSortOrder(UNSORTED),
        u.SetDefaultSortOrder(),
    )
    changed = base
    for field_id in (1, 2):
        changed = change(changed, *dropped(changed, field_id))
    assert not changed.schema.has(1)
    assert (
        str(changed.partition_type(1)) == "struct<1000: ts_day: optional date, 1001: id_bucket: optional int>"
    )
    assert [field.id for field in changed.unified_partition_type.fields] == [1000, 1001]
    again = parse_metadata(serialize_metadata(changed))
    assert again == changed
    assert again.partition_type(1) == changed.partition_type(1)
    assert change(again, u.SetProperties(FrozenDict({"a": "b"}))).properties["a"] == "b"


def test_a_source_whose_last_schema_is_gone_has_no_type_but_the_table_opens() -> None:
    base = change(empty(2), u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec(), u.SetDefaultSortOrder(0))
    slim = change(base, *dropped(base, 2), u.RemoveSchemas((0, 1)))
    assert [str(field.type) for field in slim.partition_type(1).fields] == ["unknown", "int"]
    assert parse_metadata(serialize_metadata(slim)) == slim


@pytest.mark.parametrize(("field_id", "place"), [(2, "ts_day"), (1, "id_bucket")])
def test_a_column_of_the_default_spec_cannot_be_dropped(field_id: int, place: str) -> None:
    base = change(metadata(2), u.SetDefaultSortOrder(0))
    error = refused(base, *dropped(base, field_id))
    assert place in str(error)
    assert error.hint


def test_a_column_of_the_default_order_cannot_be_dropped() -> None:
    base = change(metadata(2), u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec())
    assert "sort order 1" in str(refused(base, *dropped(base, 1)))
    free = change(base, *dropped(base, 1), u.SetDefaultSortOrder(0))
    assert not free.schema.has(1)


def test_a_column_is_not_called_like_a_partition_field() -> None:
    # A column that came with a REST commit had the name of a partition field of an old spec: Java, which
    # binds every spec to the current columns by name, could not open the table any more.
    base = change(None, *CREATION, u.AddPartitionSpec(spec()), u.SetDefaultSpec())
    for order_of_changes in ((), (u.SetProperties(FrozenDict({"a": "b"})),)):
        new = Schema((ID, TS, Field(9, "ts_day", DATE)))
        problem = refused(base, u.AddSchema(new), u.SetCurrentSchema(), *order_of_changes)
        assert (problem.field, "cannot both" in problem.problem) == ("ts_day", True)
    # Where the source goes, the old spec is history, and its name is free.
    freed = change(base, u.AddSchema(Schema((ID, Field(9, "ts_day", DATE)))), u.SetCurrentSchema())
    assert freed.schema.find("ts_day").id == 9
    refused(freed, u.AddSchema(Schema((ID, TS, Field(9, "ts_day", DATE)))), u.SetCurrentSchema())


def test_a_column_of_the_default_spec_can_be_dropped_together_with_it() -> None:
    base = metadata(2)
    changed = change(
        base,
        *dropped(base, 2),
        u.AddPartitionSpec(spec(part(1, "id_bucket", Bucket(16)))),
        u.SetDefaultSpec(),
    )
    assert changed.partition_spec.fields[0].field_id == 1001
    assert not changed.schema.has(2)


def test_a_void_field_needs_no_source() -> None:
    base = change(
        metadata(1),
        u.AddPartitionSpec(spec(part(2, "ts_day", Void(), 1000))),
        u.SetDefaultSpec(),
        u.SetDefaultSortOrder(0),
    )
    assert not change(base, *dropped(base, 2)).schema.has(2)


def test_an_old_spec_without_its_source_cannot_become_the_default_again() -> None:
    base = change(
        metadata(2), u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec(), u.SetDefaultSortOrder(0)
    )
    slim = change(base, *dropped(base, 2))
    assert "2" in refused(slim, u.SetDefaultSpec(0)).problem
    assert "1" in refused(change(base, *dropped(base, 1)), u.SetDefaultSortOrder(1)).problem


def test_a_table_that_others_left_without_a_source_can_be_read_and_mended() -> None:
    gone = {
        "spec-id": 1,
        "fields": [{"source-id": 404, "field-id": 1002, "name": "g", "transform": "identity"}],
    }
    broken = metadata(2, partition_specs=[gone], last_partition_id=1002)
    assert change(broken, u.SetProperties(FrozenDict({"a": "b"}))).properties["a"] == "b"
    mended = change(broken, u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec())
    assert mended.partition_spec.is_unpartitioned


# --- format versions ----------------------------------------------------------------------------------------


def test_a_v1_table_with_a_snapshot_that_names_no_manifests_is_not_upgraded() -> None:
    """From v2 on nobody could open the table: a snapshot must have a manifest list."""
    bare, *others = metadata(1).snapshots
    bare = msgspec.structs.replace(bare, manifest_list=None)
    old = msgspec.structs.replace(metadata(1), snapshots=(bare, *others))
    assert refused(old, u.UpgradeFormatVersion(2)).field == "snapshots[0]"
    assert change(old, u.RemoveSnapshots((bare.snapshot_id,)), u.UpgradeFormatVersion(2)).format_version == 2


def test_upgrades_lead_from_v1_to_v3_and_not_back() -> None:
    one = metadata(1)
    two = change(one, u.UpgradeFormatVersion(2))
    assert (two.format_version, two.last_sequence_number) == (2, 0)
    assert {each.sequence_number for each in two.snapshots} == {0}
    three = change(two, u.UpgradeFormatVersion(3))
    assert (three.format_version, three.next_row_id) == (3, 0)
    assert three == change(one, u.UpgradeFormatVersion(3))
    assert {each.first_row_id for each in three.snapshots} == {None}
    for table in (one, two, three):
        assert parse_metadata(serialize_metadata(table)) == table
        assert (table.snapshots, table.refs, table.schemas) == (one.snapshots, one.refs, one.schemas)
    document = msgspec.json.decode(serialize_metadata(three))
    required = ["table-uuid", "last-sequence-number", "schemas", "current-schema-id", "partition-specs"]
    required += [
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "next-row-id",
    ]
    assert set(required) <= document.keys()
    assert not {"schema", "partition-spec"} & document.keys()
    for down in ((two, 1), (three, 2), (three, 1)):
        assert refused(down[0], u.UpgradeFormatVersion(down[1])).field == "format-version"


@pytest.mark.parametrize("version", [0, -1, 4, 99])
def test_versions_that_are_none_are_refused(version: int) -> None:
    assert refused(metadata(2), u.UpgradeFormatVersion(version)).field == "format-version"


def test_an_upgrade_needs_a_uuid() -> None:
    old = metadata(1, table_uuid=...)
    assert "uuid" in refused(old, u.UpgradeFormatVersion(2)).problem
    assert change(old, u.UpgradeFormatVersion(2), u.AssignUuid(UUID)).table_uuid == UUID


def test_what_an_older_version_carried_under_the_names_of_v3_does_not_come_alive() -> None:
    key = {"key-id": "old", "encrypted-key-metadata": "AA=="}
    base = metadata(2, next_row_id=1000, encryption_keys=[key], other=7)
    lineage = {"first-row-id": 3, "added-rows": 4}
    first = {"snapshot-id": 5, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "l", **lineage}
    base = metadata(
        2,
        next_row_id=1000,
        encryption_keys=[key],
        other=7,
        snapshots=[first],
        current_snapshot_id=5,
        refs=...,
    )
    upgraded = change(base, u.UpgradeFormatVersion(3))
    assert (upgraded.next_row_id, upgraded.encryption_keys) == (0, ())
    assert (upgraded.snapshot(5).first_row_id, upgraded.snapshot(5).added_rows) == (None, None)
    assert dict(upgraded.unknown) == {"other": 7}
    assert parse_metadata(serialize_metadata(upgraded)) == upgraded


def test_snapshots_of_an_upgraded_v1_table_may_lack_what_v1_did_not_write() -> None:
    old = {"snapshot-id": 5, "timestamp-ms": 9, "manifests": ["/t/m1.avro"]}
    base = metadata(1, snapshots=[old], current_snapshot_id=5, refs=..., snapshot_log=[])
    upgraded = change(base, u.UpgradeFormatVersion(3))
    assert upgraded.snapshot(5).manifests == ("/t/m1.avro",)
    assert parse_metadata(serialize_metadata(upgraded)) == upgraded
    assert commit(upgraded, 6).snapshot(6).sequence_number == 1


# --- snapshots ----------------------------------------------------------------------------------------------


def test_a_snapshot_alone_is_not_current() -> None:
    base = empty(2)
    added = change(base, u.AddSnapshot(snapshot(7, base)))
    assert (added.current_snapshot, dict(added.refs), added.snapshot_log) == (None, {}, ())
    assert (added.last_sequence_number, added.last_updated_ms) == (1, NOW + 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_commits_move_main_and_are_logged(version: int) -> None:
    table = empty(version)
    for each in (7, 8, 9):
        table = commit(table, each)
        assert table.current_snapshot_id == table.refs["main"].snapshot_id == each
    assert log_of(table) == [7, 8, 9]
    assert [entry.timestamp_ms for entry in table.snapshot_log] == [NOW + 7, NOW + 8, NOW + 9]
    assert table.last_updated_ms == NOW + 9
    assert table.last_sequence_number == (0 if version == 1 else 3)
    assert {each.sequence_number for each in table.snapshots} == ({0} if version == 1 else {1, 2, 3})
    assert [each.snapshot_id for each in table.ancestors(9)] == [9, 8, 7]
    assert table.next_row_id == (30 if version == 3 else 0)
    assert parse_metadata(serialize_metadata(table)) == table


def test_a_sequence_number_must_be_above_the_last_one() -> None:
    base = metadata(2)
    for number in (-1, 0, 1, 2):
        stale = snapshot(7, base, sequence_number=number)
        with pytest.raises(RequirementFailed, match="sequence number"):
            change(base, u.AddSnapshot(stale))
    ahead = change(base, u.AddSnapshot(snapshot(7, base, sequence_number=9)))
    assert ahead.last_sequence_number == 9


def test_two_first_snapshots_do_not_share_a_number() -> None:
    """Written to two branches at once, both had the number 1: each requires only that its branch is new."""
    base = commit(empty(2), 7, "audit")
    with pytest.raises(RequirementFailed, match="not above 1"):
        change(base, u.AddSnapshot(snapshot(8, empty(2))))


@pytest.mark.parametrize("first_row_id", [149, -1])
def test_row_ids_that_others_took_meanwhile_are_a_reason_to_look_again(first_row_id: int) -> None:
    base = metadata(3)
    stale = snapshot(7, base, first_row_id=first_row_id)
    with pytest.raises(RequirementFailed, match=f"first-row-id {first_row_id} is behind"):
        change(base, u.AddSnapshot(stale))


def test_sequence_numbers_also_grow_on_branches() -> None:
    base = commit(metadata(2), 7, "audit", parent_snapshot_id=FIRST)
    assert base.last_sequence_number == 3
    stale = snapshot(8, base, sequence_number=3)
    with pytest.raises(RequirementFailed, match="not above 3"):
        change(base, u.AddSnapshot(stale))
    assert log_of(base) == [FIRST, SECOND]
    assert base.current_snapshot_id == SECOND


@pytest.mark.parametrize(
    ("version", "changes", "problem"),
    [
        (1, {"snapshot_id": SECOND}, "taken"),
        (2, {"snapshot_id": SECOND}, "taken"),
        (2, {"manifest_list": None, "manifests": ("m.avro",)}, "manifest-list"),
        (2, {"summary": None}, "operation"),
        (2, {"summary": FrozenDict({"added-records": "1"})}, "operation"),
        (3, {"first_row_id": None}, "first-row-id"),
        (3, {"added_rows": None}, "added-rows"),
        (3, {"added_rows": -1}, "added-rows"),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(version: int, changes: dict[str, Any], problem: str) -> None:
    base = metadata(version)
    fine = snapshot(7, base)
    assert change(base, u.AddSnapshot(fine)).snapshot(7).timestamp_ms == fine.timestamp_ms
    assert problem in refused(base, u.AddSnapshot(msgspec.structs.replace(fine, **changes))).problem


def test_a_v1_snapshot_may_name_its_manifests() -> None:
    old = Snapshot(snapshot_id=7, timestamp_ms=NOW, manifests=("m.avro",))
    table = change(metadata(1), u.AddSnapshot(old))
    assert parse_metadata(serialize_metadata(table)).snapshot(7).manifests == ("m.avro",)


@pytest.mark.parametrize("version", [1, 2])
def test_row_ids_mean_nothing_before_v3(version: int) -> None:
    base = metadata(version)
    table = change(base, u.AddSnapshot(snapshot(7, base, first_row_id=5, added_rows=6, key_id="k")))
    assert table.next_row_id == 0
    assert parse_metadata(serialize_metadata(table)) == table


def test_a_table_without_its_parts_takes_no_snapshot() -> None:
    early = Snapshot(
        snapshot_id=1, timestamp_ms=1, manifest_list="l", summary=FrozenDict({"operation": "append"})
    )
    refused(None, u.AssignUuid(UUID), u.AddSnapshot(early))


def test_the_worked_example_of_row_lineage() -> None:
    # "This starts with a table with a next-row-id of 1000"; three manifests of 125, 100 and 150 rows follow.
    base = metadata(3, next_row_id=1000)
    appended = change(base, u.AddSnapshot(snapshot(7, base, first_row_id=1000, added_rows=125 + 100 + 150)))
    assert appended.next_row_id == 1375
    assert appended.snapshot(7).first_row_id == 1000


def test_row_ids_count_on_branches_and_for_commits_without_rows() -> None:
    base = metadata(3)
    on_branch = commit(base, 7, "audit", parent_snapshot_id=FIRST, rows=25)
    assert on_branch.next_row_id == 175
    empty_commit = commit(on_branch, 8, rows=0)
    assert (empty_commit.snapshot(8).first_row_id, empty_commit.next_row_id) == (175, 175)
    with pytest.raises(RequirementFailed):
        change(empty_commit, u.AddSnapshot(snapshot(9, base)))


def test_a_gap_of_row_ids_is_not_handed_out_again() -> None:
    base = metadata(3)
    ahead = change(base, u.AddSnapshot(snapshot(7, base, first_row_id=500, added_rows=10)))
    assert ahead.next_row_id == 510


def test_two_snapshots_in_one_change_get_disjoint_row_ids() -> None:
    base = metadata(3)
    one = snapshot(7, base)
    two = snapshot(8, base, sequence_number=4, first_row_id=160)
    both = change(base, u.AddSnapshot(one), u.AddSnapshot(two))
    assert (both.next_row_id, both.last_sequence_number) == (170, 4)
    overlapping = msgspec.structs.replace(two, first_row_id=159)
    with pytest.raises(RequirementFailed, match="behind the table's 160"):
        change(base, u.AddSnapshot(one), u.AddSnapshot(overlapping))


def test_a_snapshot_that_was_current_only_during_the_change_is_not_logged() -> None:
    base = metadata(2)
    one, two = snapshot(7, base), snapshot(8, base, sequence_number=4, parent_snapshot_id=7)
    table = change(
        base,
        *(u.AddSnapshot(one), u.SetSnapshotRef("main", branch(7))),
        *(u.AddSnapshot(two), u.SetSnapshotRef("main", branch(8))),
    )
    assert log_of(table) == [FIRST, SECOND, 8]
    assert table.snapshot_at(NOW + 7).snapshot_id == SECOND


# --- refs ---------------------------------------------------------------------------------------------------


def test_a_rollback_is_logged_when_it_happens() -> None:
    back = change(metadata(2), u.SetSnapshotRef("main", branch(FIRST)))
    assert back.current_snapshot_id == FIRST
    assert log_of(back) == [FIRST, SECOND, FIRST]
    assert back.snapshot_log[-1].timestamp_ms == NOW
    assert back.last_updated_ms == NOW
    assert back.snapshot_at(NOW - 1).snapshot_id == SECOND
    assert back.snapshot_at(NOW).snapshot_id == FIRST


def test_times_of_a_table_never_run_backwards() -> None:
    # A writer whose clock was an hour behind left a table that Java could not open any more: it refuses a
    # snapshot log, and a time of the last update, that go back by more than a minute.
    base = commit(metadata(2), 7)
    late = commit(base, 8, timestamp_ms=NOW - 3_600_000)
    assert log_of(late)[-2:] == [7, 8]
    assert late.snapshot_log[-1].timestamp_ms == late.last_updated_ms == NOW + 7
    assert late.snapshot(8).timestamp_ms == NOW - 3_600_000
    assert late.snapshot_at(NOW + 7).snapshot_id == 8
    back = change(late, u.SetSnapshotRef("main", branch(7)), now_ms=NOW - 60_001)
    assert back.snapshot_log[-1].timestamp_ms == back.last_updated_ms == NOW + 7
    # A minute is tolerated everywhere: what was said is kept.
    close = commit(base, 8, timestamp_ms=NOW + 7 - 60_000)
    assert close.snapshot_log[-1].timestamp_ms == close.last_updated_ms == NOW + 7 - 60_000
    renamed = change(base, u.SetProperties(FrozenDict({"a": "b"})), now_ms=NOW - 60_001)
    assert renamed.last_updated_ms == NOW + 7


def test_branches_and_tags_come_and_go_without_a_log() -> None:
    base = metadata(2)
    table = change(base, u.SetSnapshotRef("b", branch(FIRST)), u.SetSnapshotRef("t", tag(FIRST)))
    assert set(table.refs) == {"main", "audit", "v1.0", "b", "t"}
    assert table.snapshot_log == base.snapshot_log
    assert change(table, u.RemoveSnapshotRef("b"), u.RemoveSnapshotRef("t")).refs == base.refs


def test_removing_main_leaves_the_table_without_a_current_snapshot() -> None:
    gone = change(metadata(2), u.RemoveSnapshotRef("main"))
    assert (gone.current_snapshot_id, gone.current_snapshot) == (None, None)
    assert len(gone.snapshots) == 2
    assert log_of(gone) == [FIRST, SECOND]
    assert parse_metadata(serialize_metadata(gone)) == gone
    back = change(gone, u.SetSnapshotRef("main", branch(SECOND)))
    assert back.current_snapshot_id == SECOND


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("main", tag(FIRST)),
        ("", branch(FIRST)),
        ("x", branch(77)),
        ("x", tag(FIRST, min_snapshots_to_keep=1)),
        ("x", tag(FIRST, max_snapshot_age_ms=1)),
        ("x", branch(FIRST, min_snapshots_to_keep=0)),
        ("x", branch(FIRST, max_snapshot_age_ms=-1)),
        ("x", branch(FIRST, max_ref_age_ms=0)),
    ],
)
def test_a_ref_that_cannot_be_is_refused(name: str, ref: Ref) -> None:
    assert "ref" in (refused(metadata(2), u.SetSnapshotRef(name, ref)).field or "")


def test_main_may_have_a_maximal_age_which_means_nothing() -> None:
    # PyIceberg's test_update_metadata_set_snapshot_ref: a client says it, and no catalog refuses it.
    ref = branch(FIRST, max_ref_age_ms=123123123, max_snapshot_age_ms=12312312312, min_snapshots_to_keep=1)
    changed = change(metadata(2), u.SetSnapshotRef("main", ref))
    assert changed.refs["main"] == ref
    assert "main" in retained(changed, NOW + 10**12).refs


def test_a_snapshot_may_name_a_schema_that_the_table_has_not() -> None:
    # Neither Java nor PyIceberg (test_update_metadata_add_snapshot) refuse it; it is read by the current one.
    base = metadata(2)
    table = change(base, u.AddSnapshot(snapshot(7, base, schema_id=9)))
    assert table.schema_of(table.snapshot(7)) == table.schema
    assert parse_metadata(serialize_metadata(table)) == table


# --- expiry -------------------------------------------------------------------------------------------------


def test_a_removed_snapshot_takes_its_refs_statistics_and_the_log_before_it_along() -> None:
    base = metadata(3)
    table = change(base, u.RemoveSnapshots((FIRST,)))
    assert [each.snapshot_id for each in table.snapshots] == [SECOND]
    assert set(table.refs) == {"main"}
    assert table.statistics == ()
    assert table.partition_statistics == base.partition_statistics
    assert log_of(table) == [SECOND]
    assert (table.last_sequence_number, table.next_row_id) == (2, 150)
    assert parse_metadata(serialize_metadata(table)) == table


def test_the_log_is_cut_after_the_last_entry_of_a_removed_snapshot() -> None:
    table = metadata(2)
    for each in (7, 8, 9):
        table = commit(table, each)
    table = change(table, u.SetSnapshotRef("main", branch(7)))
    table = change(table, u.SetSnapshotRef("main", branch(9)))
    assert log_of(table) == [FIRST, SECOND, 7, 8, 9, 7, 9]
    assert log_of(change(table, u.RemoveSnapshots((8,)))) == [9, 7, 9]
    assert log_of(change(table, u.RemoveSnapshots((7, 8)))) == [9]


def test_a_removed_snapshot_that_never_was_current_leaves_the_log_alone() -> None:
    table = commit(metadata(2), 7, "audit", parent_snapshot_id=FIRST)
    assert log_of(change(table, u.RemoveSnapshots((7,)))) == [FIRST, SECOND]


def test_removing_the_current_snapshot_leaves_none() -> None:
    table = change(metadata(2), u.RemoveSnapshots((FIRST, SECOND)))
    assert (table.current_snapshot_id, table.snapshots, table.snapshot_log, dict(table.refs)) == (
        None,
        (),
        (),
        {},
    )


def test_a_snapshot_that_came_and_went_in_one_change_leaves_no_trace_in_the_log() -> None:
    base = metadata(2)
    table = change(
        base,
        *(u.AddSnapshot(snapshot(7, base)), u.SetSnapshotRef("main", branch(7)), u.RemoveSnapshots((7,))),
        u.SetSnapshotRef("main", branch(SECOND)),
    )
    assert 7 not in log_of(table)
    assert table.current_snapshot_id == SECOND
    assert parse_metadata(serialize_metadata(table)) == table
    assert table.snapshot_at(NOW + 10**9).snapshot_id == SECOND


# --- the rest -----------------------------------------------------------------------------------------------


def test_properties_are_set_and_removed() -> None:
    table = change(
        metadata(2),
        u.SetProperties(FrozenDict({"a": "1", "write.format.default": "orc"})),
        u.RemoveProperties(("a", "nothing")),
        u.SetProperties(FrozenDict({"b": "2"})),
    )
    assert dict(table.properties) == {"write.format.default": "orc", "b": "2"}


def test_the_location_is_changed_but_not_to_nonsense() -> None:
    assert change(metadata(2), u.SetLocation("s3://other/t")).location == "s3://other/t"
    for wrong in ("", "s3://b/../x", "relative/%2e%2e/x", "s3://b/x\0"):
        refused(metadata(2), u.SetLocation(wrong))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        # testNoTrailingLocationSlash of Java's TestTableMetadata
        ("/with_trailing_slash/", "/with_trailing_slash"),
        ("s3://bucket/t//", "s3://bucket/t"),
        ("s3://bucket/", "s3://bucket"),
        ("file:///", "file:///"),
        ("/", "/"),
    ],
)
def test_a_location_has_no_slash_at_its_end(given: str, kept: str) -> None:
    base = metadata(2)
    moved = change(base, u.SetLocation(given))
    assert moved.location == kept
    assert change(moved, u.SetLocation(given)) is moved


def test_the_statistics_of_a_snapshot_are_replaced() -> None:
    base = metadata(2)
    new = StatisticsFile(
        snapshot_id=FIRST,
        statistics_path="new.puffin",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=(),
    )
    table = change(base, u.SetStatistics(new))
    assert table.statistics == (new,)
    both = change(table, u.SetStatistics(msgspec.structs.replace(new, snapshot_id=SECOND)))
    assert len(both.statistics) == 2
    assert change(both, u.RemoveStatistics(FIRST)).statistics[0].snapshot_id == SECOND
    assert both.partition_statistics == base.partition_statistics


def test_the_partition_statistics_of_a_snapshot_are_replaced() -> None:
    base = metadata(2)
    new = PartitionStatisticsFile(snapshot_id=SECOND, statistics_path="new.parquet", file_size_in_bytes=1)
    table = change(base, u.SetPartitionStatistics(new))
    assert table.partition_statistics == (new,)
    assert table.statistics == base.statistics
    assert change(table, u.RemovePartitionStatistics(SECOND)).partition_statistics == ()
    assert change(table, u.RemoveStatistics(SECOND)) is table


def test_encryption_keys_are_added_once_and_removed() -> None:
    key = EncryptedKey(key_id="k3", encrypted_key_metadata="AA==")
    table = change(metadata(3), u.AddEncryptionKey(key))
    assert [each.key_id for each in table.encryption_keys] == ["k1", "k2", "k3"]
    other = msgspec.structs.replace(key, encrypted_key_metadata="BB==")
    assert change(table, u.AddEncryptionKey(other)) is table
    assert change(table, u.RemoveEncryptionKey("k3")).encryption_keys == metadata(3).encryption_keys


@pytest.mark.parametrize("version", [1, 2])
def test_encryption_keys_are_of_v3(version: int) -> None:
    # A v2 reader takes the field for an unknown one: the next key would have replaced the first.
    key = EncryptedKey(key_id="k", encrypted_key_metadata="AA==")
    assert refused(metadata(version), u.AddEncryptionKey(key)).field == "encryption-keys"


def test_the_replaced_metadata_file_is_logged() -> None:
    base = metadata(2)
    table = change(base, u.SetProperties(FrozenDict({"a": "b"})))
    logged = record_previous(table, base, "s3://b/wh/t/metadata/v2.json")
    assert [entry.metadata_file for entry in logged.metadata_log][-1] == "s3://b/wh/t/metadata/v2.json"
    assert [entry.timestamp_ms for entry in logged.metadata_log] == [EARLY, LATE]
    assert table.metadata_log == base.metadata_log


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        *((None, 100), ("3", 3), ("1", 1), ("0", 1), ("-7", 1), (" 5 ", 5), ("x", 100), ("", 100)),
        *(("--5", 100), ("²", 100), ("1.5", 100), ("9" * 5000, 100)),
    ],
)
def test_the_log_of_metadata_files_is_bounded(limit: str | None, kept: int) -> None:
    properties = {} if limit is None else {"write.metadata.previous-versions-max": limit}
    table = metadata(2, properties=properties, metadata_log=[])
    for number in range(kept + 3):
        table = record_previous(table, table, f"v{number}.json")
    assert len(table.metadata_log) == kept
    assert table.metadata_log[-1].metadata_file == f"v{kept + 2}.json"


# --- any sequence of updates --------------------------------------------------------------------------------

names = st.sampled_from(["main", "audit", "v1.0", "b", "t"])
columns = st.sampled_from(
    [
        ID,
        TS,
        Field(3, "place", Struct((Field(4, "city", STRING),))),
        Field(10, "d", DATE),
        Field(11, "n", INT),
    ]
)
transforms = st.sampled_from([Identity(), Day(), Bucket(16), Bucket(4), Void()])
fields = st.builds(
    part,
    st.sampled_from([1, 2, 4, 10, 11]),
    st.sampled_from(["a", "b", "c"]),
    transforms,
    st.sampled_from([u.UNASSIGNED, u.UNASSIGNED, 1000, 1001, 1002]),
)
schemas = st.lists(columns, min_size=1, unique_by=lambda field: field.id).map(
    lambda found: Schema(tuple(found))
)
ids = st.sampled_from([FIRST, SECOND, 7, 8, 9, 10])
keys = st.sampled_from(["a", "b", "history.expire.min-snapshots-to-keep"])


@st.composite
def some_update(draw: st.DrawFn, table: TableMetadata) -> u.TableUpdate:
    """An update that may fit the table; snapshots do fit."""
    new = snapshot(
        draw(st.integers(7, 40)),
        table,
        draw(st.integers(0, 9)),
        schema_id=draw(st.none() | st.sampled_from([each.schema_id for each in table.schemas])),
    )
    policies: list[dict[str, Any]] = [{}, {"max_ref_age_ms": 5}, {"min_snapshots_to_keep": 2}]
    policy = draw(st.sampled_from(policies))
    ref = Ref(snapshot_id=draw(ids), type=draw(st.sampled_from(["branch", "tag"])), **policy)
    known = st.integers(-1, 4)
    choice: u.TableUpdate = draw(
        st.one_of(
            st.just(u.AddSnapshot(new)),
            st.builds(u.SetSnapshotRef, names, st.just(ref)),
            st.builds(u.RemoveSnapshotRef, names),
            st.builds(u.RemoveSnapshots, st.lists(ids, max_size=2).map(tuple)),
            st.builds(u.AddSchema, schemas),
            st.builds(u.SetCurrentSchema, known),
            st.builds(u.RemoveSchemas, st.tuples(known)),
            st.builds(u.AddPartitionSpec, st.lists(fields, max_size=2).map(lambda found: spec(*found))),
            st.builds(u.SetDefaultSpec, known),
            st.builds(u.RemovePartitionSpecs, st.tuples(known)),
            st.builds(u.AddSortOrder, st.lists(st.sampled_from([1, 2, 4])).map(lambda found: order(*found))),
            st.builds(u.SetDefaultSortOrder, known),
            st.builds(u.UpgradeFormatVersion, st.integers(1, 4)),
            st.builds(u.SetProperties, st.dictionaries(keys, st.text(max_size=3)).map(FrozenDict)),
            st.builds(u.RemoveProperties, st.lists(keys).map(tuple)),
            st.builds(u.SetLocation, st.sampled_from(["s3://b/wh/t", "s3://b/wh/other", "/tmp/t"])),  # noqa: S108
            st.sampled_from(
                [
                    u.SetStatistics(STATISTICS),
                    u.RemoveStatistics(FIRST),
                    u.SetPartitionStatistics(PARTITION_STATISTICS),
                    u.RemovePartitionStatistics(SECOND),
                    u.AddEncryptionKey(EncryptedKey(key_id="x", encrypted_key_metadata="AA==")),
                    u.RemoveEncryptionKey("k1"),
                ]
            ),
        )
    )
    return choice


REFUSED = (InvalidChange, RequirementFailed)
"""Two new snapshots in one change may have drawn the same sequence number: that is somebody else's, too."""


@settings(max_examples=60)
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_any_sequence_of_updates_keeps_the_invariants(data: st.DataObject, version: int) -> None:
    base = data.draw(st.sampled_from([metadata(version), empty(version)]))
    for _ in range(data.draw(st.integers(1, 12))):
        updates = [data.draw(some_update(base)) for _ in range(data.draw(st.integers(1, 3)))]
        before = serialize_metadata(base)
        try:
            after = change(base, *updates)
        except REFUSED:
            after = base
        else:
            again = read_updates(msgspec.json.decode(msgspec.json.encode(write_updates(updates))))
            assert change(base, *typing.cast("Any", again)) == after
        assert serialize_metadata(base) == before
        _is_sound(base, after)
        base = after


def _is_sound(before: TableMetadata, after: TableMetadata) -> None:
    check_invariants(after)
    assert parse_metadata(serialize_metadata(after)) == after
    assert (after == before) == (after is before)
    for counter in (
        "format_version",
        "last_column_id",
        "last_partition_id",
        "last_sequence_number",
        "next_row_id",
    ):
        assert getattr(after, counter) >= getattr(before, counter), counter
    assert after.last_column_id >= max(schema.highest_field_id for schema in after.schemas)
    assert after.last_partition_id >= max(each.highest_field_id for each in after.partition_specs)
    assert set(log_of(after)) <= {each.snapshot_id for each in after.snapshots}
    if after.current_snapshot_id is not None:
        assert log_of(after)[-1] == after.current_snapshot_id
    for old in after.partition_specs:
        assert len(after.partition_type(old.spec_id).fields) == len(old.fields)
    if before.format_version > 1:  # a v1 table may have used an id for two columns
        assert _ids_of_several_columns(after) <= _ids_of_several_columns(before)


def _ids_of_several_columns(table: TableMetadata) -> set[int]:
    columns: dict[int, set[tuple[int, ...]]] = {}
    for field in (field for each in table.partition_specs for field in each.fields):
        columns.setdefault(field.field_id, set()).add(field.source_ids)
    return {field_id for field_id, sources in columns.items() if len(sources) > 1}


@settings(max_examples=30)
@given(st.data())
def test_a_wrong_update_refuses_the_whole_change(data: st.DataObject) -> None:
    base = metadata(3)
    good = data.draw(st.lists(some_update(base), max_size=3))
    taken = u.AddSnapshot(base.snapshots[0])
    choices: list[u.TableUpdate] = [u.SetCurrentSchema(99), taken, u.UpgradeFormatVersion(9)]
    wrong = data.draw(st.sampled_from(choices))
    assume(not any(isinstance(each, u.RemoveSnapshots) for each in good))
    with pytest.raises(REFUSED):
        change(base, *good, wrong)
    assert base == metadata(3)
