from __future__ import annotations

import json

import pytest

from lakeplane.errors import InvalidInput
from lakeplane.paimon.inspect import NAMES, inspect
from lakeplane.paimon.snapshots import Consumer, Tag, serialize_consumer, serialize_tag
from lakeplane.paimon.time_travel import state_at
from tests.paimon.built import Built, make_schema
from tests.paimon.stored import NAMES as TABLES
from tests.paimon.stored import stored


@pytest.mark.parametrize("name", TABLES)
def test_every_system_table_of_every_table(name: str) -> None:
    table = stored(name)
    found = {each: inspect(table.files, each) for each in NAMES}
    snapshot = state_at(table.files).snapshot
    assert snapshot is not None
    assert found["snapshots"]["snapshot_id"].to_pylist() == list(range(1, snapshot.id + 1))
    assert sum(found["files"]["record_count"].to_pylist()) == snapshot.total_record_count
    for summed in ("partitions", "buckets"):
        assert sum(found[summed]["record_count"].to_pylist()) == snapshot.total_record_count
        assert sum(found[summed]["file_count"].to_pylist()) == found["files"].num_rows
    assert set(found["files"]["file_path"].to_pylist()) <= set(table.content)
    assert dict(found["options"].rename_columns(["key", "value"]).to_pandas().values.tolist()) == dict(
        table.schema.options
    )
    assert f"manifest/{found['manifests']['file_name'][0].as_py()}" in table.content


def test_files_tell_what_is_in_them() -> None:
    [row] = [
        each
        for each in inspect(stored("rust04_a1").files, "files").to_pylist()
        if each["partition"] == "{p1}"
    ]
    assert row["min_value_stats"] == "{id=1, v=a, amt=1.25, ts=2024-01-01T00:00:00.123000, dt=p1}"
    assert row["null_value_counts"] == "{id=0, v=0, amt=0, ts=0, dt=0}"
    assert (row["file_format"], row["file_source"], row["level"]) == ("parquet", "APPEND", 0)
    assert row["min_key"] is None
    keyed = inspect(stored("pp21_p_dedup").files, "files").to_pylist()[0]
    assert keyed["min_key"].startswith("{")


def test_system_tables_of_a_state() -> None:
    files = stored("java09_p_dedup").files
    assert [inspect(files, "manifests", at).num_rows for at in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert inspect(files, "files", 1).num_rows == 6
    with pytest.raises(InvalidInput, match="at no time"):
        inspect(files, "options", 1)
    with pytest.raises(InvalidInput, match="no system table"):
        inspect(files, "audit_log")


def test_tags_branches_and_consumers() -> None:
    table = Built(make_schema({"k": "INT"}))
    snapshot = table.commit([table.file([{"k": 1}])])
    tag = Tag(snapshot=snapshot, create_time=(2024, 1, 2, 3, 4, 5), time_retained=60.0)
    table.content["tag/tag-v1"] = serialize_tag(tag)
    table.content["branch/branch-dev/schema/schema-0"] = table.content["schema/schema-0"]
    table.content["consumer/consumer-c"] = serialize_consumer(Consumer(next_snapshot=2))
    [row] = inspect(table.files, "tags").to_pylist()
    assert (row["tag_name"], row["snapshot_id"], row["record_count"], row["time_retained"]) == (
        "v1",
        1,
        1,
        "60.0",
    )
    assert row["create_time"].isoformat() == "2024-01-02T03:04:05"
    assert inspect(table.files, "branches")["branch_name"].to_pylist() == ["dev"]
    assert inspect(table.files, "consumers").to_pylist() == [{"consumer_id": "c", "next_snapshot_id": 2}]
    [schema] = inspect(table.files, "schemas").to_pylist()
    assert json.loads(schema["fields"]) == [{"id": 0, "name": "k", "type": "INT"}]


def test_a_table_without_snapshots() -> None:
    table = Built(make_schema({"k": "INT"}))
    for name in NAMES:
        assert inspect(table.files, name).num_rows == (1 if name == "schemas" else 0)
