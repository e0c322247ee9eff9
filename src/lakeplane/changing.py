"""Changes of the files of tables, published by the commit loop, with what is written for it.

Only what certainly never landed is deleted, and only manifests and manifest lists that were written here:
data files belong to whoever wrote them. After an answer that was lost for good, nothing is deleted.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, NamedTuple

from lakeplane.catalog.catalog import Catalog, Entry, same_table, table_of
from lakeplane.catalog.commit_loop import Work, publish
from lakeplane.catalog.metadata_files import metadata_directory, write_unique
from lakeplane.errors import (
    CatalogError,
    InvalidChange,
    InvalidInput,
    LakeplaneError,
    NotSupported,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.iceberg.changes import Change, prepare_change, propose_change
from lakeplane.iceberg.snapshot_maker import AlreadyMade, Outside, Proposal, SnapshotMaker
from lakeplane.iceberg.updates import AddSnapshot
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import parse_location
from lakeplane.model.parallel import in_parallel
from lakeplane.reading import reading_of
from lakeplane.storage.store import Store

if TYPE_CHECKING:
    from lakeplane.iceberg.manifest_cache import ManifestCache

log = logging.getLogger(__name__)


def _new_snapshot_id() -> int:
    """A random number of 63 bits, never 0: both halves of a random UUID."""
    bits = uuid.uuid4().int
    return ((bits >> 64) ^ bits) & (2**63 - 1) or 1


class Around(NamedTuple):
    """Time and chance; tests put their own in its place."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_snapshot_id: Callable[[], int] = _new_snapshot_id


_REAL: Final = Around()

_MOST_WAITING: Final = 16 << 20
"""So many bytes of manifests are gathered before they are written."""


class Done(NamedTuple):
    """A change that was published."""

    entry: Entry
    """The table afterwards."""
    attempts: int
    snapshot_id: int | None
    """The snapshot that was made; None if the change only moved a branch."""


def publish_change(
    catalog: Catalog, entry: Entry, cache: ManifestCache, change: Change, *, around: Around = _REAL
) -> Done:
    """Publish a change of the files of a table.

    After any error but ``OutcomeUnknown``, it is certain that the change has not happened and will not, and
    the manifests that were written for it are deleted. The data files are left to the caller, who knows
    whether they are needed for another try: ``changes.new_paths`` names them.

    Raises:
        CommitConflict: the change fits the table no more.
        OutcomeUnknown: it may have happened. Nothing was deleted, and nothing of it may be.
    """
    return _Commit(catalog, entry, cache, change, around).publish()


class _Commit:
    """One change on its way."""

    def __init__(
        self, catalog: Catalog, entry: Entry, cache: ManifestCache, change: Change, around: Around
    ) -> None:
        self.catalog, self.entry, self.change = catalog, entry, change
        self.store: Store = catalog.store_for(entry)
        self.reading = reading_of(self.store, cache)
        self.waiting: list[tuple[str, bytes]] = []
        outside = Outside(
            self.reading._replace(read_many=self._read_many),
            self._put,
            lambda table, name: str(metadata_directory(table) / name),
            around.new_id,
            around.new_snapshot_id,
            around.now_ms,
            _engine(),
        )
        self.maker = SnapshotMaker(outside)
        self.is_sent = False
        self.makes_snapshot = False
        self.attempts = 0
        self.format_version = 0

    def publish(self) -> Done:
        name = self.entry.name
        try:
            self._prepare()
            entry, attempts = self._publish()
        except AlreadyMade:
            entry, attempts = self.catalog.load("table", name), self.attempts - 1
        except OutcomeUnknown:
            raise
        except LakeplaneError as error:
            if not self._never_landed(error):
                hint = "Look at the history before trying again"
                raise OutcomeUnknown(str(error), source=str(name), hint=hint) from error
            self._delete(self.maker.written)
            raise
        self._clean_up_after(entry)
        return Done(entry, attempts, self.maker.snapshot_id if self.makes_snapshot else None)

    def _prepare(self) -> None:
        """Make what can be made before it is our turn, so that others wait for less."""
        # The table may be another one by now: what does not fit it is said by the proposal.
        with contextlib.suppress(InvalidInput, NotSupported):
            prepare_change(self.change, table_of(self.entry), self.maker)

    def _publish(self) -> tuple[Entry, int]:
        while True:
            try:
                done = publish(self.catalog, [Work("table", self.entry.name, self._propose)])
            except InvalidChange:
                if not self.is_sent or not self._was_upgraded():
                    raise
                # What was proposed for the older version is refused; nothing of it was published.
                continue
            [entry] = done.entries
            return entry, self.attempts

    def _was_upgraded(self) -> bool:
        """Whether somebody has raised the format version since the last proposal: that happens rarely."""
        return table_of(self.catalog.load("table", self.entry.name)).format_version != self.format_version

    def _propose(self, entry: Entry) -> Proposal:
        # Who is asked again knows that the attempt before has not happened.
        self.is_sent = False
        self.attempts += 1
        table = same_table(self.entry, entry)
        proposal = propose_change(self.change, table, self.maker)
        self._write()
        self.makes_snapshot = any(isinstance(update, AddSnapshot) for update in proposal[1])
        self.format_version = table.format_version
        self.is_sent = True
        return proposal

    def _put(self, path: str, data: bytes) -> None:
        """Take a file that is written before the proposal is sent: all wait for the disk at once."""
        self.waiting.append((path, data))
        if sum(len(data) for _, data in self.waiting) > _MOST_WAITING:
            self._write()

    def _write(self) -> None:
        waiting, self.waiting = self.waiting, []
        in_parallel(lambda file: write_unique(self.store, parse_location(file[0]), file[1]), waiting)

    def _read_many(self, paths: Sequence[str]) -> list[bytes]:
        self._write()
        return self.reading.read_many(paths)

    def _never_landed(self, error: LakeplaneError) -> bool:
        """Whether an error is the proof that nothing was published, and that nothing will be.

        What a catalog says so is certain, and so is what it refuses before it publishes.
        """
        return not self.is_sent or isinstance(error, CatalogError | StorageError | InvalidInput)

    def _clean_up_after(self, entry: Entry) -> None:
        """Delete what earlier attempts have written and the one that landed does not name."""
        table = table_of(entry)
        if not self.makes_snapshot:
            self._delete(self.maker.written)
            return
        snapshot = table.snapshots_by_id.get(self.maker.snapshot_id)
        landed = None if snapshot is None else snapshot.manifest_list
        if landed is None or landed not in self.maker.named:
            return
        used = {landed, *self.maker.named[landed]}
        self._delete(path for path in self.maker.written if path not in used)

    def _delete(self, paths: Iterable[str]) -> None:
        delete_unpublished(self.store, paths)


def delete_unpublished(store: Store, paths: Iterable[str]) -> None:
    """Delete files that nothing names, and that certainly nothing will; what is left of them are orphans."""
    try:
        store.delete(*map(parse_location, paths))
    except LakeplaneError as error:
        log.warning("files that were not published could not be deleted, they are orphans: %s", error)


@functools.cache
def _engine() -> FrozenDict[str, str]:
    """What summaries say of the writer."""
    try:
        return FrozenDict({"engine-name": "lakeplane", "engine-version": version("lakeplane")})
    except PackageNotFoundError:
        return FrozenDict({"engine-name": "lakeplane"})
