"""Updates and requirements against the JSON of the OpenAPI description and of Java's parser tests."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.snapshots import Ref, Snapshot
from lakeplane.iceberg.statistics import BlobMetadata, EncryptedKey, PartitionStatisticsFile, StatisticsFile
from lakeplane.iceberg.update_json import (
    read_requirements,
    read_updates,
    write_requirements,
    write_updates,
)
from lakeplane.iceberg.view_versions import Representation, ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Bucket, Identity
from lakeplane.model.types import LONG, STRING, Field
from tests.iceberg.documents import Json, places, put

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "data", STRING, doc="d")), 3, (1,))
SCHEMA_JSON = {
    "type": "struct",
    "schema-id": 3,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "data", "required": False, "type": "string", "doc": "d"},
    ],
}
BUCKETS = (
    PartitionField((1,), 1000, "id_bucket", Bucket(8)),
    PartitionField((2,), 1001, "data_bucket", Bucket(16)),
)
BUCKETS_JSON = [
    {"source-id": 1, "transform": "bucket[8]", "field-id": 1000, "name": "id_bucket"},
    {"source-id": 2, "transform": "bucket[16]", "field-id": 1001, "name": "data_bucket"},
]
SNAPSHOT = Snapshot(
    snapshot_id=2,
    parent_snapshot_id=1,
    timestamp_ms=9,
    manifest_list="s3://b/snap-2.avro",
    summary=FrozenDict({"operation": "replace", "files-added": "4", "files-deleted": "100"}),
    schema_id=3,
)
SNAPSHOT_JSON = {
    "snapshot-id": 2,
    "parent-snapshot-id": 1,
    "timestamp-ms": 9,
    "summary": {"operation": "replace", "files-added": "4", "files-deleted": "100"},
    "manifest-list": "s3://b/snap-2.avro",
    "schema-id": 3,
}
STATISTICS = StatisticsFile(
    snapshot_id=1940541653261589030,
    statistics_path="s3://bucket/warehouse/stats.puffin",
    file_size_in_bytes=124,
    file_footer_size_in_bytes=27,
    blob_metadata=(
        BlobMetadata(
            type="boring-type",
            snapshot_id=1940541653261589030,
            sequence_number=2,
            fields=(1,),
            properties=FrozenDict({"prop-key": "prop-value"}),
        ),
    ),
)
STATISTICS_JSON = {
    "snapshot-id": 1940541653261589030,
    "statistics-path": "s3://bucket/warehouse/stats.puffin",
    "file-size-in-bytes": 124,
    "file-footer-size-in-bytes": 27,
    "blob-metadata": [
        {
            "type": "boring-type",
            "snapshot-id": 1940541653261589030,
            "sequence-number": 2,
            "fields": [1],
            "properties": {"prop-key": "prop-value"},
        }
    ],
}
VERSION = ViewVersion(
    version_id=23,
    timestamp_ms=123456789,
    schema_id=4,
    summary=FrozenDict({"user": "some-user"}),
    representations=(Representation(type="sql", sql="SELECT 1", dialect="spark"),),
    default_namespace=("ns",),
)
VERSION_JSON = {
    "version-id": 23,
    "timestamp-ms": 123456789,
    "schema-id": 4,
    "summary": {"user": "some-user"},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}
UUID = "9510c070-5e6d-4b40-bf40-a8915bb76e5d"

UPDATES: list[tuple[u.Update, Json]] = [
    (u.AssignUuid(UUID), {"action": "assign-uuid", "uuid": UUID}),
    (u.UpgradeFormatVersion(2), {"action": "upgrade-format-version", "format-version": 2}),
    (u.AddSchema(SCHEMA), {"action": "add-schema", "schema": SCHEMA_JSON}),
    (u.AddSchema(SCHEMA, 22), {"action": "add-schema", "schema": SCHEMA_JSON, "last-column-id": 22}),
    (u.SetCurrentSchema(6), {"action": "set-current-schema", "schema-id": 6}),
    (u.SetCurrentSchema(), {"action": "set-current-schema", "schema-id": -1}),
    (u.RemoveSchemas((1, 2, 3)), {"action": "remove-schemas", "schema-ids": [1, 2, 3]}),
    (
        u.AddPartitionSpec(PartitionSpec(1, BUCKETS)),
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": BUCKETS_JSON}},
    ),
    (
        u.AddPartitionSpec(PartitionSpec(0, (PartitionField((1,), u.UNASSIGNED, "id", Identity()),))),
        {
            "action": "add-spec",
            "spec": {"spec-id": 0, "fields": [{"source-id": 1, "transform": "identity", "name": "id"}]},
        },
    ),
    (u.SetDefaultSpec(4), {"action": "set-default-spec", "spec-id": 4}),
    (u.SetDefaultSpec(), {"action": "set-default-spec", "spec-id": -1}),
    (u.RemovePartitionSpecs((1, 2, 3)), {"action": "remove-partition-specs", "spec-ids": [1, 2, 3]}),
    (
        u.AddSortOrder(SortOrder(3, (SortField((1,), Identity(), "asc", "nulls-first"),))),
        {
            "action": "add-sort-order",
            "sort-order": {
                "order-id": 3,
                "fields": [
                    {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                ],
            },
        },
    ),
    (u.SetDefaultSortOrder(2), {"action": "set-default-sort-order", "sort-order-id": 2}),
    (u.SetDefaultSortOrder(), {"action": "set-default-sort-order", "sort-order-id": -1}),
    (u.AddSnapshot(SNAPSHOT), {"action": "add-snapshot", "snapshot": SNAPSHOT_JSON}),
    (
        u.AddSnapshot(
            Snapshot(
                snapshot_id=2,
                sequence_number=5,
                timestamp_ms=9,
                manifest_list="l",
                first_row_id=0,
                added_rows=0,
                key_id="k",
            )
        ),
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": 2,
                "sequence-number": 5,
                "timestamp-ms": 9,
                "manifest-list": "l",
                "first-row-id": 0,
                "added-rows": 0,
                "key-id": "k",
            },
        },
    ),
    (u.RemoveSnapshots((2, 3)), {"action": "remove-snapshots", "snapshot-ids": [2, 3]}),
    (
        u.SetSnapshotRef("hank", Ref(snapshot_id=1, type="tag")),
        {"action": "set-snapshot-ref", "ref-name": "hank", "snapshot-id": 1, "type": "tag"},
    ),
    (
        u.SetSnapshotRef("hank", Ref(snapshot_id=1, type="tag", max_ref_age_ms=1)),
        {
            "action": "set-snapshot-ref",
            "ref-name": "hank",
            "snapshot-id": 1,
            "type": "tag",
            "max-ref-age-ms": 1,
        },
    ),
    (
        u.SetSnapshotRef(
            "hank",
            Ref(
                snapshot_id=1,
                type="branch",
                min_snapshots_to_keep=2,
                max_snapshot_age_ms=3,
                max_ref_age_ms=4,
            ),
        ),
        {
            "action": "set-snapshot-ref",
            "ref-name": "hank",
            "snapshot-id": 1,
            "type": "branch",
            "min-snapshots-to-keep": 2,
            "max-snapshot-age-ms": 3,
            "max-ref-age-ms": 4,
        },
    ),
    (u.RemoveSnapshotRef("hank"), {"action": "remove-snapshot-ref", "ref-name": "hank"}),
    (
        u.SetProperties(FrozenDict({"prop1": "val1", "prop2": "val2"})),
        {"action": "set-properties", "updates": {"prop1": "val1", "prop2": "val2"}},
    ),
    (u.RemoveProperties(("prop1", "prop2")), {"action": "remove-properties", "removals": ["prop1", "prop2"]}),
    (u.SetLocation("s3://bucket/t"), {"action": "set-location", "location": "s3://bucket/t"}),
    (
        u.SetStatistics(STATISTICS),
        {"action": "set-statistics", "snapshot-id": 1940541653261589030, "statistics": STATISTICS_JSON},
    ),
    (
        u.RemoveStatistics(1940541653261589030),
        {"action": "remove-statistics", "snapshot-id": 1940541653261589030},
    ),
    (
        u.SetPartitionStatistics(
            PartitionStatisticsFile(
                snapshot_id=1940541653261589030,
                statistics_path="s3://bucket/warehouse/stats1.parquet",
                file_size_in_bytes=43,
            )
        ),
        {
            "action": "set-partition-statistics",
            "partition-statistics": {
                "snapshot-id": 1940541653261589030,
                "statistics-path": "s3://bucket/warehouse/stats1.parquet",
                "file-size-in-bytes": 43,
            },
        },
    ),
    (
        u.RemovePartitionStatistics(1940541653261589030),
        {"action": "remove-partition-statistics", "snapshot-id": 1940541653261589030},
    ),
    (
        u.AddEncryptionKey(EncryptedKey(key_id="a", encrypted_key_metadata="a2V5", encrypted_by_id="b")),
        {
            "action": "add-encryption-key",
            "encryption-key": {"key-id": "a", "encrypted-key-metadata": "a2V5", "encrypted-by-id": "b"},
        },
    ),
    (u.RemoveEncryptionKey("a"), {"action": "remove-encryption-key", "key-id": "a"}),
    (u.AddViewVersion(VERSION), {"action": "add-view-version", "view-version": VERSION_JSON}),
    (u.SetCurrentViewVersion(23), {"action": "set-current-view-version", "view-version-id": 23}),
    (u.SetCurrentViewVersion(), {"action": "set-current-view-version", "view-version-id": -1}),
]
REQUIREMENTS: list[tuple[q.Requirement, Json]] = [
    (q.AssertCreate(), {"type": "assert-create"}),
    (q.AssertTableUuid(UUID), {"type": "assert-table-uuid", "uuid": UUID}),
    (q.AssertViewUuid(UUID), {"type": "assert-view-uuid", "uuid": UUID}),
    (
        q.AssertRefSnapshotId("snapshot-name", 1),
        {"type": "assert-ref-snapshot-id", "ref": "snapshot-name", "snapshot-id": 1},
    ),
    (
        q.AssertRefSnapshotId("snapshot-name", None),
        {"type": "assert-ref-snapshot-id", "ref": "snapshot-name", "snapshot-id": None},
    ),
    (
        q.AssertLastAssignedFieldId(12),
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 12},
    ),
    (q.AssertCurrentSchemaId(4), {"type": "assert-current-schema-id", "current-schema-id": 4}),
    (
        q.AssertLastAssignedPartitionId(1004),
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1004},
    ),
    (q.AssertDefaultSpecId(5), {"type": "assert-default-spec-id", "default-spec-id": 5}),
    (
        q.AssertDefaultSortOrderId(10),
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 10},
    ),
]


def through_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def test_the_literals_cover_every_update_and_requirement() -> None:
    assert {type(update) for update, _ in UPDATES} == set(typing.get_args(u.Update))
    assert {type(requirement) for requirement, _ in REQUIREMENTS} == set(typing.get_args(q.Requirement))
    assert len({document["action"] for _, document in UPDATES}) == 25
    assert len({document["type"] for _, document in REQUIREMENTS}) == 9


@pytest.mark.parametrize(("update", "document"), UPDATES, ids=lambda each: type(each).__name__)
def test_an_update_is_read_and_written(update: u.Update, document: Json) -> None:
    assert read_updates([document]) == (update,)
    assert through_json(write_updates([update])) == [document]


@pytest.mark.parametrize(("requirement", "document"), REQUIREMENTS, ids=lambda each: type(each).__name__)
def test_a_requirement_is_read_and_written(requirement: q.Requirement, document: Json) -> None:
    assert read_requirements([document]) == (requirement,)
    assert through_json(write_requirements([requirement])) == [document]


def test_lists_keep_their_order() -> None:
    updates = tuple(update for update, _ in UPDATES)
    assert read_updates(through_json(write_updates(updates))) == updates
    requirements = tuple(requirement for requirement, _ in REQUIREMENTS)
    assert read_requirements(through_json(write_requirements(requirements))) == requirements
    assert read_updates([]) == ()
    assert read_requirements([]) == ()


# --- what other clients write differently -------------------------------------------------------------------


def test_the_deprecated_snapshot_id_of_statistics_may_be_missing() -> None:
    document = {"action": "set-statistics", "statistics": STATISTICS_JSON}
    assert read_updates([document]) == (u.SetStatistics(STATISTICS),)


# TestMetadataUpdateParser (Java): the names of clients before 1.0, alone and beside those of today.
@pytest.mark.parametrize(
    ("document", "update"),
    [
        (
            {"action": "set-properties", "updated": {"prop1": "val1"}},
            u.SetProperties(FrozenDict({"prop1": "val1"})),
        ),
        (
            {"action": "set-properties", "updates": {"prop1": "val1"}, "updated": {"propX": "valX"}},
            u.SetProperties(FrozenDict({"prop1": "val1"})),
        ),
        (
            {"action": "remove-properties", "removed": ["prop1", "prop2"]},
            u.RemoveProperties(("prop1", "prop2")),
        ),
        (
            {"action": "remove-properties", "removals": ["prop1"], "removed": ["propX"]},
            u.RemoveProperties(("prop1",)),
        ),
        (
            {"action": "set-snapshot-ref", "ref-name": "hank", "snapshot-id": 1, "type": "bRaNch"},
            u.SetSnapshotRef("hank", Ref(snapshot_id=1, type="branch")),
        ),
        ({"action": "Assign-UUID", "uuid": "u"}, u.AssignUuid("u")),
    ],
)
def test_names_of_older_clients_and_any_case_are_understood(document: Json, update: u.Update) -> None:
    assert read_updates([document]) == (update,)


def test_the_type_of_a_requirement_may_be_in_any_case() -> None:
    assert read_requirements([{"type": "ASSERT-CREATE"}]) == (q.AssertCreate(),)


def test_what_is_written_is_made_of_plain_lists_and_dicts() -> None:
    documents = [*write_updates(update for update, _ in UPDATES)]
    assert documents == through_json(documents)


def test_fields_of_a_ref_may_be_null() -> None:
    document = {
        "action": "set-snapshot-ref",
        "ref-name": "hank",
        "snapshot-id": 1,
        "type": "tag",
        "min-snapshots-to-keep": None,
        "max-snapshot-age-ms": None,
        "max-ref-age-ms": None,
    }
    assert read_updates([document]) == (u.SetSnapshotRef("hank", Ref(snapshot_id=1, type="tag")),)


def test_a_spec_may_have_no_ids_at_all() -> None:
    fields = [{"name": "id_bucket", "transform": "bucket[8]", "source-id": 1}]
    (update,) = read_updates([{"action": "add-spec", "spec": {"fields": fields}}])
    assert isinstance(update, u.AddPartitionSpec)
    assert update.spec.fields[0].field_id == u.UNASSIGNED


def test_some_fields_of_a_spec_may_have_ids_and_others_none() -> None:
    fields = [{key: value for key, value in BUCKETS_JSON[0].items() if key != "field-id"}, BUCKETS_JSON[1]]
    (update,) = read_updates([{"action": "add-spec", "spec": {"fields": fields}}])
    assert isinstance(update, u.AddPartitionSpec)
    assert [field.field_id for field in update.spec.fields] == [u.UNASSIGNED, 1001]
    assert write_updates([update])[0]["spec"]["fields"] == fields


def test_a_snapshot_id_that_is_not_said_means_that_the_ref_must_not_exist() -> None:
    document = {"type": "assert-ref-snapshot-id", "ref": "new"}
    assert read_requirements([document]) == (q.AssertRefSnapshotId("new", None),)
    assert write_requirements([q.AssertRefSnapshotId("new", None)])[0]["snapshot-id"] is None


def test_what_a_record_holds_beside_its_fields_travels_along() -> None:
    for name, key in [("add-snapshot", "snapshot"), ("set-statistics", "statistics")]:
        document = next(document for _, document in UPDATES if document["action"] == name)
        document = put(document, (key, "x-future"), [1, {"a": None}])
        assert through_json(write_updates(read_updates([document]))) == [document]


def test_what_a_ref_holds_beside_its_fields_cannot_become_another_update() -> None:
    # A poisoned metadata file must not make its next committer move the table.
    extra = FrozenDict({"action": "set-location", "location": "s3://evil/t", "ref-name": "main", "x": 1})
    ref = Ref(snapshot_id=1, type="tag", unknown=extra)
    (document,) = write_updates([u.SetSnapshotRef("hank", ref)])
    assert (document["action"], document["ref-name"], document["snapshot-id"]) == (
        "set-snapshot-ref",
        "hank",
        1,
    )
    (again,) = read_updates([document])
    assert isinstance(again, u.SetSnapshotRef)
    assert again.name == "hank"


# --- what is wrong ------------------------------------------------------------------------------------------

STRANGE: list[Any] = [
    *(None, True, -1, 2**63, 2**70, 1.5, "", "x", [], [None], [[]], {}, {"a": None}, [True], [2**70]),
    *([{}], {"type": []}, {"fields": [[]]}, {"fields": [{}]}),
]


@pytest.mark.parametrize("document", [document for _, document in UPDATES], ids=lambda each: each["action"])
def test_a_required_field_of_an_update_that_is_missing_is_refused_by_name(document: Json) -> None:
    for key in document:
        changed = put(document, (key,), ...)
        redundant = document["action"] == "set-statistics" and key == "snapshot-id"
        if redundant or key.startswith(("last-", "min-", "max-")):
            read_updates([changed])
            continue
        with pytest.raises(InvalidMetadata) as refusal:
            read_updates([document, changed])
        assert key in str(refusal.value)
        assert (refusal.value.field or "").startswith("updates[1]")


@pytest.mark.parametrize("document", [each for _, each in REQUIREMENTS], ids=lambda each: each["type"])
def test_a_required_field_of_a_requirement_that_is_missing_is_refused_by_name(document: Json) -> None:
    for key in document:
        if key == "snapshot-id":
            continue
        with pytest.raises(InvalidMetadata) as refusal:
            read_requirements([put(document, (key,), ...)])
        assert key in str(refusal.value)
        assert (refusal.value.field or "").startswith("requirements[0]")


@pytest.mark.parametrize("document", [document for _, document in UPDATES], ids=lambda each: each["action"])
def test_a_wrong_type_in_an_update_is_a_typed_error(document: Json) -> None:
    for path in places(document):
        for value in STRANGE:
            try:
                updates = read_updates([put(document, path, value)])
            except InvalidMetadata as error:
                assert error.field  # noqa: PT017 - it may also be read
            else:
                assert read_updates(through_json(write_updates(updates))) == updates


@pytest.mark.parametrize("document", [each for _, each in REQUIREMENTS], ids=lambda each: each["type"])
def test_a_wrong_type_in_a_requirement_is_a_typed_error(document: Json) -> None:
    for path in places(document):
        for value in STRANGE:
            try:
                requirements = read_requirements([put(document, path, value)])
            except InvalidMetadata as error:
                assert error.field  # noqa: PT017 - it may also be read
            else:
                assert read_requirements(through_json(write_requirements(requirements))) == requirements


@pytest.mark.parametrize(
    "raw",
    [
        *(None, {}, "x", 1, [None], ["set-location"], [[]], [{}], [{"action": None}], [{"type": None}]),
        *([{"action": []}], [{"action": {}}], [{"action": 1}], [{"action": "fly"}], [{"type": "assert-sky"}]),
        *([{"type": []}], [{"type": {}}], [{"format-version": 2}]),
    ],
)
def test_what_is_no_update_or_requirement_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        read_updates(raw)
    assert (refusal.value.field or "").startswith("updates")
    with pytest.raises(InvalidMetadata) as refusal:
        read_requirements(raw, "x.requirements")
    assert (refusal.value.field or "").startswith("x.requirements")


@given(
    st.lists(st.dictionaries(st.sampled_from(["action", "type", "uuid"]), st.text(max_size=3)), min_size=1)
)
def test_any_list_is_refused_with_a_typed_error(raw: list[dict[str, str]]) -> None:
    with pytest.raises(InvalidMetadata):
        read_updates(raw)
    with pytest.raises(InvalidMetadata):
        read_requirements(raw)
