"""What a table's history is made of: snapshots, the refs that name them, and the logs."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from lakeplane.model.records import Int, Long, Record, Strings, read

MAIN: Final = "main"
"""The branch that readers see when they name none."""


class Snapshot(Record, frozen=True, kw_only=True):
    """The state of a table after one commit."""

    snapshot_id: Long
    parent_snapshot_id: Long | None = None
    sequence_number: Long = msgspec.field(default_factory=int)
    timestamp_ms: Long
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: Strings | None = None
    schema_id: Int | None = None
    first_row_id: Long | None = None
    added_rows: Long | None = None
    key_id: str | None = None

    @property
    def operation(self) -> str | None:
        """What the commit did: append, replace, overwrite or delete; None in old v1 snapshots.

        A summary that does not tell counts as an overwrite, which promises the least: so do other readers.
        """
        return self.summary.get("operation", "overwrite") if self.summary else None


def without_v3_fields(snapshot: Snapshot) -> Snapshot:
    """A snapshot as an older format version knows it."""
    if snapshot.first_row_id is None and snapshot.added_rows is None and snapshot.key_id is None:
        return snapshot
    return msgspec.structs.replace(snapshot, first_row_id=None, added_rows=None, key_id=None)


class Ref(Record, frozen=True, kw_only=True):
    """A named snapshot: a branch, which moves, or a tag, which stays."""

    snapshot_id: Long
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Int | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None

    @property
    def is_branch(self) -> bool:
        """Whether commits can move the ref."""
        return self.type == "branch"


def read_ref(raw: Any, where: str) -> Ref:
    """Read a ref; its type may be in any case."""
    if isinstance(raw, dict) and isinstance(kind := raw.get("type"), str):
        raw = {**raw, "type": kind.lower()}
    return read(Ref, raw, where)


class SnapshotLogEntry(Record, frozen=True, kw_only=True):
    """When a snapshot became the current one."""

    timestamp_ms: Long
    snapshot_id: Long


class MetadataLogEntry(Record, frozen=True, kw_only=True):
    """When a metadata file, by now replaced, was the table."""

    timestamp_ms: Long
    metadata_file: str


def ref_problem(name: str, ref: Ref) -> str | None:
    """Why a ref cannot be; None when it can."""
    if not name:
        return "a ref needs a name"
    if name == MAIN and not ref.is_branch:
        return "main must be a branch"
    if not ref.is_branch and (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms) != (None, None):
        return "a tag keeps one snapshot, it cannot have snapshot retention"
    limits = (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
    if any(limit is not None and limit <= 0 for limit in limits):
        return "retention limits must be positive"
    return None
