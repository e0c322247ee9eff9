"""Merging manifests: which ones a commit rewrites as one, and what it writes then.

Each commit adds a manifest, and a plan reads all of them, so every so often the small ones become one. The
rules are those of Java, so that writers of both kinds leave a table alike: manifests stay in their order, are
packed from the oldest on, and what is newest waits until there is enough of it.

What was merged holds for every attempt of a commit, as long as the table says the same of its manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    FILE_COLUMNS,
)
from lakeplane.iceberg.manifest_write import Writing, Written, write_manifest
from lakeplane.iceberg.manifests import Manifest, count_entries, read_manifest, read_manifests
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.model.types import UNKNOWN

TARGET_BYTES: Final = "commit.manifest.target-size-bytes"
MIN_COUNT: Final = "commit.manifest.min-count-to-merge"
ENABLED: Final = "commit.manifest-merge.enabled"

_DEFAULT_TARGET_BYTES: Final = 8 * 1024 * 1024
_DEFAULT_MIN_COUNT: Final = 100

Group: TypeAlias = tuple[ManifestFile, ...]


class MergeRules(NamedTuple):
    """What a table's properties say of the size of manifests."""

    target_bytes: int = _DEFAULT_TARGET_BYTES
    min_count: int = _DEFAULT_MIN_COUNT
    """The newest manifests are merged when there are so many."""
    enabled: bool = True


def merge_rules(properties: Mapping[str, str]) -> MergeRules:
    """Read the rules; what is no number of at least 1 counts as not given."""
    return MergeRules(
        _at_least_one(properties.get(TARGET_BYTES), _DEFAULT_TARGET_BYTES),
        _at_least_one(properties.get(MIN_COUNT), _DEFAULT_MIN_COUNT),
        properties.get(ENABLED, "true").strip().lower() == "true",
    )


def _at_least_one(text: str | None, default: int) -> int:
    found = number(text)
    return default if found is None or found < 1 else found


# Which ones


def plan_merges(manifests: Sequence[ManifestFile], table: TableMetadata, rules: MergeRules) -> list[Group]:
    """Part the manifests of a new snapshot, newest first, into groups that become one manifest each.

    A group of one stays as it is. Data comes before deletes, and in each the newest partition spec first.
    """
    if not rules.enabled:
        return [(each,) for each in manifests]
    groups: list[Group] = []
    for content in (DATA_MANIFEST, DELETE_MANIFEST):
        of_content = [each for each in manifests if each.content == content]
        by_spec: dict[int, list[ManifestFile]] = {}
        for each in of_content:
            by_spec.setdefault(_spec_id(each), []).append(each)
        for spec_id in sorted(by_spec, reverse=True):
            for packed in pack_from_end(by_spec[spec_id], rules.target_bytes):
                waits = of_content[0] in packed and len(packed) < rules.min_count
                if waits or not _can_be_rewritten(packed, spec_id, table):
                    groups += [(each,) for each in packed]
                else:
                    groups.append(packed)
    return groups


def _spec_id(manifest: ManifestFile) -> int:
    if manifest.partition_spec_id is None or manifest.manifest_length is None:
        hint = "Read it, and complete what the list does not tell"
        raise InvalidInput("its size and spec are not known", source=manifest.manifest_path, hint=hint)
    return manifest.partition_spec_id


def pack_from_end(manifests: Sequence[ManifestFile], target_bytes: int) -> list[Group]:
    """Neighbours that together are not larger than the target; what is left over is at the front."""
    packed: list[list[ManifestFile]] = []
    room = 0
    for each in reversed(manifests):
        length = each.manifest_length or 0
        if packed and length <= room:
            packed[-1].append(each)
        else:
            packed.append([each])
            room = target_bytes
        room -= length
    return [tuple(reversed(group)) for group in reversed(packed)]


def _can_be_rewritten(group: Group, spec_id: int, table: TableMetadata) -> bool:
    """Whether all of a group can be read, and its partitions written."""
    if any(each.key_metadata is not None for each in group):
        return False
    return all(field.type is not UNKNOWN for field in table.partition_type(spec_id).fields)


# What is written


def merge_manifests(group: Group, contents: Sequence[bytes], path: str, writing: Writing) -> Written:
    """Write one manifest of the live entries of some, in their order.

    Entries keep what they inherited, so that the merged manifest means the same: the snapshot and the
    sequence numbers that added a file, and the ids of its rows. What the snapshot at hand has added or
    deleted stays so; other deletions were told by their own snapshots, and end here.

    Args:
        group: Manifests of one spec and one content.
        contents: Their bytes.
        path: Where the merged manifest will be.
        writing: The change that merges them.
    """
    first = group[0]
    if len({(_spec_id(each), each.content) for each in group}) > 1:
        raise InvalidInput("manifests of several specs or contents cannot become one", source=path)
    for listed in group:
        if listed.key_metadata is not None:
            raise NotSupported("the manifest is encrypted", source=listed.manifest_path)
    read = read_manifests(contents, group, _spec_id(first), writing.table, columns=FILE_COLUMNS.names)
    entries = _carried_over(pa.concat_tables([each.entries for each in read]), writing.snapshot_id)
    return write_manifest(entries, _spec_id(first), first.content, path, writing)


def _carried_over(entries: pa.Table, snapshot_id: int) -> pa.Table:
    ours = pc.fill_null(pc.equal(entries["snapshot_id"], snapshot_id), True)  # noqa: FBT003
    entries = entries.filter(pc.or_(ours, pc.not_equal(entries["status"], DELETED)))
    ours = pc.fill_null(pc.equal(entries["snapshot_id"], snapshot_id), True)  # noqa: FBT003
    older = pc.and_(pc.equal(entries["status"], ADDED), pc.invert(ours))
    status: Any = pc.if_else(older, pa.scalar(EXISTING, pa.int32()), entries["status"])
    return entries.set_column(entries.schema.get_field_index("status"), "status", status)


def complete(listed: ManifestFile, data: bytes, table: TableMetadata) -> ManifestFile:
    """Fill in what early lists do not tell of a manifest: its size, its spec, its snapshot, its counts."""
    found = read_manifest(data, listed, table, columns=())
    known: dict[str, Any] = {
        "manifest_length": len(data),
        "partition_spec_id": found.spec_id,
        "added_snapshot_id": _added_in(found),
        **_counts(found),
    }
    missing = {name: value for name, value in known.items() if getattr(listed, name) is None}
    return msgspec.structs.replace(listed, **missing)


def _added_in(manifest: Manifest) -> int | None:
    """The snapshot that wrote a manifest: that of its changes, which have to be of one snapshot."""
    entries = manifest.entries
    changed = entries.filter(pc.not_equal(entries["status"], EXISTING))
    ids = pc.unique((changed if changed.num_rows else entries)["snapshot_id"]).to_pylist()
    return max((each for each in ids if each is not None), default=None)


def _counts(manifest: Manifest) -> dict[str, int]:
    counts = count_entries(manifest.entries)
    kinds = {"existing": EXISTING, "added": ADDED, "deleted": DELETED}
    files = {f"{kind}_files_count": counts.files[status] for kind, status in kinds.items()}
    return files | {f"{kind}_rows_count": counts.rows[status] for kind, status in kinds.items()}


# What was written


class MergedManifests:
    """The manifests that a commit has merged so far, for its next attempt and for cleaning up."""

    def __init__(self) -> None:
        """Nothing is merged yet."""
        self._merged: dict[object, ManifestFile] = {}

    def get(self, group: Group, writing: Writing) -> ManifestFile | None:
        """What a group was merged to, if that still holds."""
        return self._merged.get(_key(group, writing))

    def remember(self, group: Group, writing: Writing, merged: ManifestFile) -> None:
        """Keep what a group was merged to."""
        self._merged[_key(group, writing)] = merged

    def unused(self, published: Collection[str]) -> tuple[str, ...]:
        """The paths of merged manifests that are not among those which were published."""
        paths = dict.fromkeys(each.manifest_path for each in self._merged.values())
        return tuple(path for path in paths if path not in published)


def _key(group: Group, writing: Writing) -> object:
    # Another commit may have given row ids to a manifest of an upgraded table in the meantime: entries
    # that were merged without them would get others.
    inherited = tuple(
        (each.manifest_path, each.sequence_number, each.added_snapshot_id, each.first_row_id)
        for each in group
    )
    return writing.table.format_version, writing.snapshot_id, inherited
