"""The small files of a table: snapshots, tags, consumers, and the hints at the ends of its history."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, UnsupportedVersion
from lakeplane.model import json_files, records
from lakeplane.model.records import Int, Long, Record, Strings

SNAPSHOT_VERSION: Final = 3
BATCH_COMMIT: Final = 2**63 - 1
"""The commit identifier of writers that commit once."""

SMALL_FILE: Final = json_files.Limits(size=64 << 20, items=1_000_000)

CommitKind: TypeAlias = Literal["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]


class Snapshot(Record, frozen=True, kw_only=True, rename="camel"):
    """A state of a table: the manifest lists with what it was made of, and what the last commit did."""

    version: Int | None = None
    uuid: str | None = None
    id: Long
    schema_id: Long
    base_manifest_list: str
    base_manifest_list_size: Long | None = None
    delta_manifest_list: str
    delta_manifest_list_size: Long | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: Long | None = None
    index_manifest: str | None = None
    commit_user: str | None = None
    writer_version: str | None = None
    commit_identifier: Long | None = None
    commit_kind: str
    """A ``CommitKind``, or one of a later release."""
    time_millis: Long
    total_record_count: Long | None = None
    delta_record_count: Long | None = None
    changelog_record_count: Long | None = None
    watermark: Long | None = None
    statistics: str | None = None
    properties: Strings | None = None
    next_row_id: Long | None = None
    operation: str | None = None


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with a name, which is kept until it is deleted, or its time is over.

    Java writes the time as a list of numbers, others as text.
    """

    snapshot: Snapshot
    create_time: tuple[int, ...] | str | None = None
    time_retained: float | str | None = None


class Consumer(Record, frozen=True, kw_only=True, rename="camel"):
    """A reader that wants all snapshots from one on to be kept."""

    next_snapshot: Long


def parse_snapshot(data: bytes, source: str) -> Snapshot:
    """Read a snapshot or changelog file; ``source`` names it in errors."""
    return json_files.decode(data, _read_snapshot, source=source, limits=SMALL_FILE)


def parse_tag(data: bytes, source: str) -> Tag:
    """Read a tag file."""
    return json_files.decode(data, _read_tag, source=source, limits=SMALL_FILE)


def parse_consumer(data: bytes, source: str) -> Consumer:
    """Read a consumer file."""
    return json_files.decode(
        data, lambda raw: records.read(Consumer, raw, ""), source=source, limits=SMALL_FILE
    )


_CREATED: Final = "tagCreateTime"
_RETAINED: Final = "tagTimeRetained"


class _OfTag(Record, frozen=True, kw_only=True, rename="camel"):
    tag_create_time: tuple[int, ...] | str | None = None
    tag_time_retained: float | str | None = None


def _read_tag(raw: Mapping[str, Any]) -> Tag:
    mine = {key: raw[key] for key in (_CREATED, _RETAINED) if key in raw}
    told = records.read(_OfTag, mine, "")
    snapshot = _read_snapshot({key: value for key, value in raw.items() if key not in mine})
    return Tag(snapshot=snapshot, create_time=told.tag_create_time, time_retained=told.tag_time_retained)


def _read_snapshot(raw: Mapping[str, Any]) -> Snapshot:
    snapshot = records.read(Snapshot, raw, "")
    if snapshot.version is not None and snapshot.version > SNAPSHOT_VERSION:
        problem = f"snapshots of version {snapshot.version} are newer than this release"
        raise UnsupportedVersion(problem, field="version", hint="Upgrade lakeplane")
    if snapshot.id < 1:
        raise InvalidMetadata(f"the ids of snapshots begin at 1, not at {snapshot.id}", field="id")
    lists = {
        "baseManifestList": snapshot.base_manifest_list,
        "deltaManifestList": snapshot.delta_manifest_list,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "indexManifest": snapshot.index_manifest,
    }
    for field, name in lists.items():
        if name is not None:
            check_file_name(name, field)
    return snapshot


def serialize_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot or changelog file: indented, as the other writers do."""
    return _indented(records.write(snapshot))


def serialize_tag(tag: Tag) -> bytes:
    """Write a tag file."""
    mine = _OfTag(tag_create_time=tag.create_time, tag_time_retained=tag.time_retained)
    return _indented({**records.write(tag.snapshot), **records.write(mine)})


def serialize_consumer(consumer: Consumer) -> bytes:
    """Write a consumer file."""
    return _indented(records.write(consumer))


def _indented(document: dict[str, Any]) -> bytes:
    return msgspec.json.format(json_files.encode(document), indent=2)


_HINT: Final = re.compile(rb"\s*([0-9]{1,19})\s*")


def parse_hint(data: bytes) -> int | None:
    """The number in a hint file; None for anything else, as hints may be wrong, and are only hints."""
    found = _HINT.fullmatch(data)
    return int(found[1]) if found and int(found[1]) < 2**63 else None


def serialize_hint(snapshot_id: int) -> bytes:
    """Write a hint file."""
    return str(snapshot_id).encode()


_REF: Final = re.compile(r"[^/\\\x00-\x1f\x7f]{1,200}")


def check_file_name(name: str, field: str) -> str:
    """Refuse the name of a file that would lie somewhere else than in its directory."""
    if not _REF.fullmatch(name) or name in (".", ".."):
        raise InvalidMetadata(f"no name of a file: {name!r:.80}", field=field)
    return name


def check_ref_name(name: str, what: str) -> str:
    """Refuse a name that no tag, branch or consumer can have."""
    if not _REF.fullmatch(name) or name != name.strip() or name in (".", ".."):
        raise InvalidInput(f"no name of a {what}: {name!r:.80}", hint="Use letters, digits, '-' and '_'")
    return name


_LEAST_PARTS: Final = 5
_MOST_PARTS: Final = 7


def tag_created(tag: Tag) -> dt.datetime | None:
    """When a tag was made, on the clock of its writer; None if it does not tell."""
    made = tag.create_time
    try:
        match made:
            case None:
                return None
            case str():
                return dt.datetime.fromisoformat(made).replace(tzinfo=None)
            case _ if _LEAST_PARTS <= len(made) <= _MOST_PARTS:
                # Trailing zeros are left out; the last part counts nanoseconds.
                year, month, day, hour, minute, second, nanos = (*made, *(0,) * (_MOST_PARTS - len(made)))
                return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001
    except (ValueError, OverflowError):
        pass
    raise InvalidMetadata(f"no time: {made!r:.80}", field=f"tag of snapshot {tag.snapshot.id}: tagCreateTime")
