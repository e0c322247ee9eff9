"""Tables in memory, built manifest by manifest: what plans and metadata tables are tried on.

Nothing checks what is put in, so that tables of careless writers can be built, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_list import (
    ManifestFile,
    list_table,
    manifest_files,
    parse_manifest_list,
    publish_list,
    serialize_manifest_list,
)
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST
from lakeplane.iceberg.manifest_write import Writing, write_manifest
from lakeplane.iceberg.metadata import ROW_LINEAGE_VERSION, TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_START_MS = 1_700_000_000_000


class Entries(NamedTuple):
    """What becomes one manifest: columns of entries, and what they are."""

    table: pa.Table
    spec_id: int = 0
    content: int = DATA_MANIFEST


class BuiltTable:
    """A table whose files are in a dictionary."""

    def __init__(
        self, schema: Schema, spec: PartitionSpec, *, format_version: int = 2, location: str = "memory://t"
    ) -> None:
        made = creation(
            schema,
            uuid="6f1a7b5e-1111-4222-8333-444455556666",
            location=location,
            spec=spec,
            properties={"format-version": str(format_version)},
        )
        self.metadata = apply(None, made, now_ms=_START_MS)
        self.files: dict[str, bytes] = {}
        self.codec = "deflate"

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """The bytes of files."""
        return [self.files[path] for path in paths]

    def reading(self) -> Reading:
        """How plans read the table, with nothing in the cache."""
        return Reading(self.read_many, ManifestCache())

    def change(self, *updates: u.TableUpdate) -> TableMetadata:
        """Change the metadata."""
        self.metadata = apply(self.metadata, updates, now_ms=self.metadata.last_updated_ms + 1000)
        return self.metadata

    def commit(
        self,
        *added: Entries,
        operation: str = "append",
        keep: Sequence[ManifestFile] | None = None,
        branch: str = MAIN,
    ) -> Snapshot:
        """Add manifests to those of the last snapshot, or to some that are kept, and publish."""
        table = self.metadata
        number = len(table.snapshots) + 1
        snapshot_id = 1000 + number
        sequence_number = table.last_sequence_number + 1 if table.format_version > 1 else 0
        lineage = table.format_version >= ROW_LINEAGE_VERSION
        first_row_id = table.next_row_id if lineage else None
        writing = Writing(table, snapshot_id, self.codec)
        written = []
        for position, each in enumerate(added):
            path = f"{table.location}/metadata/{number:05}-m{position}.avro"
            manifest = write_manifest(each.table, each.spec_id, each.content, path, writing)
            self.files[path] = manifest.data
            written.append(manifest.listed)
        before = self.manifests(branch) if keep is None else keep
        listed = list_table([*reversed(written), *before])
        published, rows = publish_list(listed, sequence_number, first_row_id)
        place = f"{table.location}/metadata/snap-{snapshot_id}.avro"
        parent = table.refs.get(branch)
        parent_id = None if parent is None else parent.snapshot_id
        self.files[place] = serialize_manifest_list(
            published,
            format_version=table.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            codec=self.codec,
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            timestamp_ms=table.last_updated_ms + 1000,
            manifest_list=place,
            summary=FrozenDict({"operation": operation}),
            schema_id=table.current_schema_id,
            first_row_id=first_row_id,
            added_rows=rows if lineage else None,
        )
        self.change(
            u.AddSnapshot(snapshot), u.SetSnapshotRef(branch, Ref(snapshot_id=snapshot_id, type="branch"))
        )
        return snapshot

    def manifests(self, branch: str = MAIN) -> tuple[ManifestFile, ...]:
        """The manifests of the last snapshot of a branch."""
        ref = self.metadata.refs.get(branch)
        if ref is None:
            return ()
        place = self.metadata.snapshots_by_id[ref.snapshot_id].manifest_list
        assert place is not None
        return manifest_files(parse_manifest_list(self.files[place], place))
