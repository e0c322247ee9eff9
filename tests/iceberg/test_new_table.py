from __future__ import annotations

import pytest

from lakeplane.errors import InvalidChange, InvalidInput
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.update_json import read_updates, write_updates
from lakeplane.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortField, SortOrder
from lakeplane.model.transforms import Bucket, Day, Identity
from lakeplane.model.types import LONG, STRING, TIMESTAMP_NS, TIMESTAMPTZ, Field, List, Map, Struct
from tests.iceberg.documents import UUID

NOW = 1_700_000_000_000
LOCATION = "s3://b/wh/t"

# As an engine gives it: ids that are unique, but not the table's.
SCHEMA = Schema(
    (
        Field(30, "id", LONG, required=True),
        Field(31, "place", Struct((Field(32, "city", STRING), Field(33, "zip", STRING)))),
        Field(34, "tags", List(35, STRING)),
        Field(36, "scores", Map(37, STRING, 38, LONG)),
        Field(39, "ts", TIMESTAMPTZ, required=True),
    ),
    schema_id=7,
    identifier_field_ids=(30,),
)
SPEC = PartitionSpec(
    4,
    (
        PartitionField((39,), 77, "ts_day", Day()),
        PartitionField((32,), 78, "city_bucket", Bucket(8)),
        PartitionField((30,), 79, "id", Identity()),
    ),
)
ORDER = SortOrder(9, (SortField((32,), Identity(), "asc", "nulls-first"),))


def made(
    schema: Schema = SCHEMA,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    **properties: str,
) -> TableMetadata:
    named = {key.replace("_", "-"): value for key, value in properties.items()}
    updates = creation(schema, uuid=UUID, location=LOCATION, spec=spec, order=order, properties=named)
    return apply(None, updates, now_ms=NOW)


def test_columns_get_ids_from_1_and_specs_and_orders_follow() -> None:
    table = made(SCHEMA, SPEC, ORDER)
    ids = {name: table.schema.find(name).id for name in ("id", "place", "tags", "scores", "ts")}
    # The columns at the top first, then what is inside them: as Java numbers them.
    assert ids == {"id": 1, "place": 2, "tags": 3, "scores": 4, "ts": 5}
    inside = ("place.city", "place.zip", "tags.element", "scores.key", "scores.value")
    assert [table.schema.find(name).id for name in inside] == [6, 7, 8, 9, 10]
    assert table.last_column_id == 10
    assert table.schema.identifier_field_ids == (1,)
    assert [field.source_id for field in table.partition_spec.fields] == [5, 6, 1]
    assert [field.field_id for field in table.partition_spec.fields] == [1000, 1001, 1002]
    assert table.last_partition_id == 1002
    assert [field.source_id for field in table.sort_order.fields] == [6]
    assert (table.current_schema_id, table.default_spec_id, table.default_sort_order_id) == (0, 0, 1)


def test_a_plain_table_is_unpartitioned_unsorted_and_of_version_2() -> None:
    table = made()
    assert (table.format_version, table.table_uuid, table.location) == (2, UUID, LOCATION)
    assert table.partition_spec.is_unpartitioned
    assert (table.sort_order, table.last_partition_id) == (UNSORTED, 999)
    assert (table.last_updated_ms, table.last_sequence_number) == (NOW, 0)
    assert parse_metadata(serialize_metadata(table)) == table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_format_version_comes_as_a_property_and_is_not_stored(version: int) -> None:
    table = made(SCHEMA, SPEC, ORDER, format_version=str(version), comment="hi")
    assert table.format_version == version
    assert dict(table.properties) == {"comment": "hi"}
    assert table.next_row_id == 0
    assert parse_metadata(serialize_metadata(table)) == table


@pytest.mark.parametrize("version", ["", "two", "2.0", "²", "--2", "9" * 5000])
def test_what_is_no_number_is_no_format_version(version: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        made(format_version=version)
    assert refusal.value.field == "format-version"


@pytest.mark.parametrize("version", ["0", "-1", "4", "99"])
def test_other_format_versions_are_refused(version: str) -> None:
    with pytest.raises(InvalidChange) as refusal:
        made(format_version=version)
    assert refusal.value.field == "format-version"


def test_types_of_v3_need_v3() -> None:
    schema = Schema((Field(1, "ns", TIMESTAMP_NS),))
    with pytest.raises(InvalidChange, match="format version 3"):
        made(schema)
    assert made(schema, format_version="3").schema.find("ns").type is TIMESTAMP_NS


def test_a_spec_or_order_of_columns_that_are_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="404"):
        made(SCHEMA, PartitionSpec(0, (PartitionField((404,), 1000, "x", Identity()),)))
    with pytest.raises(InvalidInput, match="404"):
        made(SCHEMA, order=SortOrder(1, (SortField((404,), Identity(), "asc", "nulls-first"),)))


def test_a_location_that_leads_astray_is_refused() -> None:
    with pytest.raises(InvalidChange):
        apply(None, creation(SCHEMA, uuid=UUID, location="s3://b/wh/../other"), now_ms=NOW)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_the_creation_travels_to_a_catalog(version: str) -> None:
    updates = creation(
        SCHEMA, uuid=UUID, location=LOCATION, spec=SPEC, order=ORDER, properties={"format-version": version}
    )
    sent = write_updates(updates)
    assert [update["action"] for update in sent] == [
        "assign-uuid",
        "upgrade-format-version",
        "add-schema",
        "set-current-schema",
        "add-spec",
        "set-default-spec",
        "add-sort-order",
        "set-default-sort-order",
        "set-location",
        "set-properties",
    ]
    assert read_updates(sent) == updates


def test_creating_does_not_change_what_it_was_given() -> None:
    properties = {"format-version": "3"}
    creation(SCHEMA, uuid=UUID, location=LOCATION, properties=properties)
    assert properties == {"format-version": "3"}
