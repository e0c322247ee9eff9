from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata, UnsupportedVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.paimon.snapshots import (
    Consumer,
    Tag,
    check_ref_name,
    parse_consumer,
    parse_hint,
    parse_snapshot,
    parse_tag,
    serialize_consumer,
    serialize_hint,
    serialize_snapshot,
    serialize_tag,
    tag_created,
)
from tests.paimon.stored import NAMES, stored

DOCUMENT: dict[str, Any] = {
    "version": 3,
    "id": 4,
    "schemaId": 0,
    "baseManifestList": "manifest-list-1-0",
    "deltaManifestList": "manifest-list-1-1",
    "commitUser": "me",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 17,
    "totalRecordCount": 3,
    "deltaRecordCount": 1,
    "properties": {"a": "b"},
    "logOffsets": {},
    "later": [{"x": None}],
}


def encoded(**changes: Any) -> bytes:
    return json.dumps({**DOCUMENT, **changes}).encode()


@pytest.mark.parametrize("name", NAMES)
def test_snapshots_and_tags_of_other_writers_survive(name: str) -> None:
    table = stored(name)
    files = {**table.starting_with("snapshot/snapshot-"), **table.starting_with("tag/")}
    assert files
    for path, data in files.items():
        again = json.loads(serialize_tag(parse_tag(data, path)))
        assert again == {key: value for key, value in json.loads(data).items() if value is not None}
    for path, data in table.starting_with("snapshot/snapshot-").items():
        assert parse_snapshot(data, path).id == int(path.rpartition("-")[2])
    latest = max(
        parse_snapshot(data, path).id for path, data in table.starting_with("snapshot/snapshot-").items()
    )
    assert parse_hint(table.content["snapshot/LATEST"]) == latest
    assert serialize_hint(latest) == table.content["snapshot/LATEST"]


def test_what_is_not_known_survives_a_change() -> None:
    snapshot = parse_snapshot(encoded(), "snapshot-4")
    assert snapshot.unknown == FrozenDict({"logOffsets": FrozenDict(), "later": (FrozenDict({"x": None}),)})
    changed = json.loads(serialize_snapshot(msgspec.structs.replace(snapshot, id=5)))
    assert changed == {**DOCUMENT, "id": 5}


def test_a_tag_is_a_snapshot_with_a_time_that_java_and_others_write_in_their_ways() -> None:
    for made, expected in (
        ([2024, 1, 2, 3, 4], dt.datetime(2024, 1, 2, 3, 4)),  # noqa: DTZ001
        ([2024, 1, 2, 3, 4, 5, 6_000_000], dt.datetime(2024, 1, 2, 3, 4, 5, 6000)),  # noqa: DTZ001
        ("2024-01-02T03:04:05.006", dt.datetime(2024, 1, 2, 3, 4, 5, 6000)),  # noqa: DTZ001
    ):
        tag = parse_tag(encoded(tagCreateTime=made, tagTimeRetained=3600.0), "tag-x")
        assert tag_created(tag) == expected
        assert json.loads(serialize_tag(tag)) == {
            **DOCUMENT,
            "tagCreateTime": made,
            "tagTimeRetained": 3600.0,
        }
    assert tag_created(parse_tag(encoded(), "tag-x")) is None
    for wrong in ([1, 2], "yesterday", [2024, 13, 1, 0, 0]):
        with pytest.raises(InvalidMetadata):
            tag_created(parse_tag(encoded(tagCreateTime=wrong), "tag-x"))
    assert isinstance(tag, Tag)


def test_consumers() -> None:
    consumer = parse_consumer(b'{"nextSnapshot": 7, "mode": "exactly-once"}', "consumer-a")
    assert consumer.next_snapshot == 7
    assert json.loads(serialize_consumer(consumer)) == {"nextSnapshot": 7, "mode": "exactly-once"}
    assert serialize_consumer(Consumer(next_snapshot=1)) == b'{\n  "nextSnapshot": 1\n}'


def test_hints_are_only_hints() -> None:
    assert parse_hint(b" 12\n") == 12
    for wrong in (b"", b"x", b"-1", b"1.0", b"9" * 30, b"\xff"):
        assert parse_hint(wrong) is None


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"version": 4}, UnsupportedVersion),
        ({"id": 0}, InvalidMetadata),
        ({"id": "1"}, InvalidMetadata),
        ({"baseManifestList": "../../other/manifest"}, InvalidMetadata),
        ({"indexManifest": "a/b"}, InvalidMetadata),
        ({"deltaManifestList": None}, InvalidMetadata),
        ({"totalRecordCount": 2**63}, InvalidMetadata),
    ],
)
def test_broken_snapshots_are_errors_that_name_the_file(
    changes: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="snapshot/snapshot-4"):
        parse_snapshot(encoded(**changes), "snapshot/snapshot-4")


@given(st.binary(max_size=60))
def test_bytes_that_are_no_snapshot_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMetadata, match="snapshot-1"):
        parse_snapshot(data, "snapshot-1")


def test_names_of_refs_cannot_lead_elsewhere() -> None:
    for name in ("", ".", "..", "a/b", "a\\b", " a", "a\n", "x" * 300):
        with pytest.raises(InvalidInput):
            check_ref_name(name, "tag")
    assert check_ref_name("2024-01-01", "tag") == "2024-01-01"
