"""A table in memory that changes are committed to, as catalogs commit them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.changes import Change, propose_change
from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.plan import plan
from lakeplane.iceberg.requirements import check
from lakeplane.iceberg.snapshot_maker import Outside, Proposal, SnapshotMaker
from lakeplane.iceberg.snapshots import MAIN, Snapshot
from lakeplane.iceberg.time_travel import At
from lakeplane.iceberg.updates import SetProperties
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.tree import Predicate
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.types import Type
from lakeplane.testing.clock import ManualClock
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, entries

FIRST_ID = 1_000

_NAMES = {
    "min_count": "commit.manifest.min-count-to-merge",
    "merges": "commit.manifest-merge.enabled",
    "target_bytes": "commit.manifest.target-size-bytes",
    "partition_limit": "write.summary.partition-limit",
    "wap": "write.wap.enabled",
    "codec": "write.manifest.compression-codec",
    "level": "write.manifest.compression-level",
    "encryption": "encryption.key-id",
}


class Attempt(NamedTuple):
    """What a change has proposed, and what was written for it."""

    maker: SnapshotMaker
    proposal: Proposal


class Changing:
    """A table, and what writers need."""

    def __init__(self, built: BuiltTable) -> None:
        self.built = built
        self.clock = ManualClock(built.metadata.last_updated_ms, step_ms=1000)
        self._ids, self._names = itertools.count(FIRST_ID), itertools.count(1)

    @property
    def table(self) -> TableMetadata:
        return self.built.metadata

    def outside(self) -> Outside:
        return Outside(
            Reading(self.built.read_many, ManifestCache()),
            self._put,
            lambda table, name: f"{table.location}/metadata/{name}",
            lambda: f"u{next(self._names)}",
            lambda: next(self._ids),
            self.clock.now_ms,
        )

    def _put(self, path: str, data: bytes) -> None:
        assert path not in self.built.files, "a file was written twice"
        self.built.files[path] = data

    def propose(self, change: Change, maker: SnapshotMaker | None = None) -> Attempt:
        """Make a proposal on the table as it is."""
        maker = maker or SnapshotMaker(self.outside())
        return Attempt(maker, propose_change(change, self.table, maker))

    def publish(self, attempt: Attempt) -> Snapshot:
        """Do what was proposed, if what it requires still holds."""
        requirements, updates = attempt.proposal
        check(requirements, self.table)
        self.built.metadata = apply(self.table, updates, now_ms=self.clock.now_ms())
        return self.table.snapshots_by_id.get(attempt.maker.snapshot_id) or self.table.snapshots[-1]

    def commit(self, change: Change) -> Snapshot:
        return self.publish(self.propose(change))

    # What is there

    def live(self, at: At = None) -> list[str]:
        """The names of the data files, in order."""
        files = plan(self.table, self.built.reading(), at=at).files
        return sorted(path.rpartition("/")[2] for path in files["file_path"].to_pylist())

    def files(self, *names: str, at: At = None) -> pa.Table:
        """Some data files as a plan has them."""
        found = plan(self.table, self.built.reading(), at=at).files
        keep = [path.rpartition("/")[2] in names for path in found["file_path"].to_pylist()]
        assert sum(keep) == len(names)
        return found.filter(pa.array(keep, pa.bool_()))

    def manifests(self, branch: str = MAIN) -> tuple[ManifestFile, ...]:
        return self.built.manifests(branch)

    def where(self, text: str) -> Predicate:
        return parse_predicate(text, self.table.schema)

    # What comes

    def new(self, *files: Listed | str, spec_id: int | None = None) -> tuple[NewFiles, ...]:
        """New files; those that are only named are not partitioned."""
        spec_id = self.table.default_spec_id if spec_id is None else spec_id
        listed = [each if isinstance(each, Listed) else Listed(each) for each in files]
        placed = [each._replace(path=f"{self.table.location}/data/{each.path}") for each in listed]
        found = entries(self.table, placed, spec_id).table
        return (NewFiles(spec_id, found.drop_columns(["status"])),)


def changing(
    *columns: tuple[str, Type],
    by: Sequence[str] = (),
    format_version: int = 2,
    **properties: str,
) -> Changing:
    """A table without files."""
    built = build(*columns, by=by, format_version=format_version)
    if properties:
        built.change(SetProperties(FrozenDict({_NAMES[key]: value for key, value in properties.items()})))
    return Changing(built)
