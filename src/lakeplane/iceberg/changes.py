"""Changes of the files of a table, as values: what to add, what to remove, and on which conditions.

``propose_change`` makes a proposal of a change for a table as it is; it is asked again whenever somebody
else was faster. What it needs of the world, and what it has written already, is in a ``SnapshotMaker``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.iceberg.snapshot_maker import Added, Edit, Proposal, SnapshotMaker, Target
from lakeplane.iceberg.snapshots import MAIN
from lakeplane.model.frozen import EMPTY


class Write(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all changes of files can say."""

    branch: str = MAIN
    """A branch that does not exist is made, from where main is."""
    properties: Mapping[str, str] = EMPTY
    """Said by the summary of the snapshot, beside what it says itself."""
    stage_only: bool = False
    """Make a snapshot that nobody sees before it is published."""
    wap_id: str | None = None
    """Stage the snapshot under this id, to be audited and published by it."""


class Append(Write, frozen=True, kw_only=True, eq=False):
    """Add files. It never conflicts."""

    files: tuple[NewFiles, ...]
    refuse_known: bool = False
    """Refuse a file that is in the table already."""


Change: TypeAlias = Append


def propose_change(change: Change, table: TableMetadata, maker: SnapshotMaker) -> Proposal:
    """What must hold, and what is to happen, for a change of a table as it is."""
    match change:
        case Append():
            edit = Edit("append", tuple(map(Added, change.files)))
    return maker.make(table, edit, Target(change.branch, change.stage_only or change.wap_id is not None))
