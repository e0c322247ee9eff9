"""The catalog on top of ``Pointers``: writes metadata files, then swaps the pointers to them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lakeplane.catalog.catalog import Change, Committed, Conflict, Entry, Kind, Metadata, Outcome, Unknown
from lakeplane.catalog.metadata_files import (
    Surroundings,
    changed,
    creates,
    is_compressed,
    metadata_directory,
    outdated_files,
    read_entry,
    serialize,
    write_unique,
)
from lakeplane.catalog.names import Name, Namespace, check_new, show
from lakeplane.catalog.pointers import Pointers, Swap
from lakeplane.errors import (
    AlreadyExists,
    FileMissing,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    NotFound,
    OutcomeUnknown,
    RequirementFailed,
    StorageError,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location, parse_location, spellings
from lakeplane.storage.store import Store

log = logging.getLogger(__name__)


class _Step(NamedTuple):
    """One change on its way: from what, to what, and where that is written (nowhere if nothing changed)."""

    change: Change
    base: Entry | None
    metadata: Metadata
    at: Location | None
    etag: str | None = None


class PointerCatalog:
    """A catalog whose tables are metadata files, and pointers to them in one place."""

    def __init__(
        self,
        pointers: Pointers,
        *,
        warehouse: Location,
        open_store: Callable[[Location], Store],
        surroundings: Surroundings,
    ) -> None:
        self._pointers = pointers
        self._warehouse = warehouse
        self._open_store = open_store
        self._surroundings = surroundings
        # What is committed to again and again is not read each time, if its etag says that it is there still.
        self._last: tuple[str, Entry] | None = None

    def __repr__(self) -> str:
        return f"PointerCatalog({self._pointers!r}, warehouse={str(self._warehouse)!r})"

    def namespaces(self, under: Namespace = ()) -> list[Namespace]:
        """The namespaces directly inside another one, sorted."""
        known = self._pointers.namespaces()
        if under and under not in known:
            raise _missing("namespace", show(under))
        depth = len(under)
        return sorted({each[: depth + 1] for each in known if len(each) > depth and each[:depth] == under})

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        return self._pointers.namespace(namespace)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        if not namespace:
            raise InvalidInput("the root needs not be made, it is there", hint="Name the namespace")
        check_new(namespace)
        self._pointers.create_namespace(namespace, properties)

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        self._pointers.change_namespace(namespace, updates, removals)

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace that is empty."""
        self._pointers.drop_namespace(namespace)

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        return self._pointers.names(kind, namespace)

    def load(self, kind: Kind, name: Name) -> Entry:
        """A table or view as it is now."""
        found = self._load(kind, name)
        if found is None:
            raise _missing(kind, str(name))
        return found

    def _load(self, kind: Kind, name: Name) -> Entry | None:
        at = self._pointers.get(kind, name)
        while at is not None:
            if (last := self._recall(kind, name, at)) is not None:
                return last
            location = parse_location(at)
            try:
                return read_entry(kind, name, self._open_store(location), location)
            except InvalidMetadata:
                # Others may have published and deleted faster than it could be read.
                if (again := self._pointers.get(kind, name)) == at:
                    raise
                at = again
        return None

    def _recall(self, kind: Kind, name: Name, at: str) -> Entry | None:
        """What was last written here, if the pointer names it, and the file is as it was written."""
        last = self._last
        if last is None or (last[1].kind, last[1].name, last[1].metadata_location) != (kind, name, at):
            return None
        location = parse_location(at)
        try:
            return last[1] if self._open_store(location).stat(location).etag == last[0] else None
        except StorageError:
            return None

    def commit(self, changes: Sequence[Change]) -> Outcome:
        """Publish changes, all in one transaction of what keeps the pointers."""
        _check_once(changes)
        steps: list[_Step] = []
        try:
            for change in changes:
                steps.append(self._prepare(change))  # noqa: PERF401 - those before a failure must be known
        except RequirementFailed as failed:
            self._delete([step.at for step in steps])
            return Conflict(f"{changes[len(steps)].name}: {failed}")
        except BaseException:
            self._delete([step.at for step in steps])
            raise
        swaps = [
            Swap(
                each.change.kind,
                each.change.name,
                each.base.metadata_location if each.base else None,
                _entry(each).metadata_location,
            )
            for each in sorted(steps, key=lambda each: each.at is None)
        ]
        committed = Committed(tuple(map(_entry, steps)))
        if all(each.at is None for each in steps):
            return committed
        try:
            landed = self._pointers.swap(swaps)
        except OutcomeUnknown as lost:
            if not self._has_landed_for_sure(swaps[0]):
                return Unknown(str(lost))
            landed = True
        except LakeplaneError:
            # The pointers say that nothing was changed, so nothing can name the files.
            self._delete([step.at for step in steps])
            raise
        if not landed:
            self._delete([step.at for step in steps])
            return Conflict("the catalog names another metadata file by now")
        self._follow(steps)
        return committed

    def _follow(self, steps: Sequence[_Step]) -> None:
        """Do what follows from a commit."""
        for step in steps:
            if step.etag is not None:
                self._last = step.etag, _entry(step)
            self._delete_outdated(outdated_files(step.base.metadata if step.base else None, step.metadata))

    def _delete_outdated(self, files: Sequence[Location]) -> None:
        """Delete files that the log of a table has dropped, unless another name stands for one of them."""
        if not files:
            return
        try:
            named = self._pointers.named([each for at in files for each in spellings(at)])
        except LakeplaneError as problem:
            log.warning("old metadata files were left behind, as they may be in use: %s", problem)
            return
        self._delete([at for at in files if named.isdisjoint(spellings(at))])

    def _prepare(self, change: Change) -> _Step:
        if creates(change):
            check_new(change.name.parts)
        # The swap tells whether what the change was proposed on is still the present state.
        base = change.base or self._load(change.kind, change.name)
        if base is None and not creates(change):
            raise _missing(change.kind, str(change.name))
        metadata = changed(base, change, self._surroundings.now_ms())
        if base is not None and metadata is base.metadata:
            return _Step(change, base, metadata, None)
        at = self._new_file(metadata, base.metadata_location if base else None)
        data = serialize(metadata, compress=is_compressed(metadata))
        return _Step(change, base, metadata, at, write_unique(self._open_store(at), at, data))

    def _new_file(self, metadata: Metadata, previous: str | None) -> Location:
        found = re.match(r"(\d+)-", previous.rsplit("/", 1)[-1]) if previous else None
        version = int(found[1]) + 1 if found else 0 if previous is None else 1
        suffix = ".gz.metadata.json" if is_compressed(metadata) else ".metadata.json"
        return metadata_directory(metadata) / f"{version:05d}-{self._surroundings.new_id()}{suffix}"

    def _has_landed_for_sure(self, swap: Swap) -> bool:
        try:
            return self._has_landed(swap)
        except LakeplaneError as problem:
            # Not knowing is no reason to say that nothing happened.
            log.warning("whether a commit has landed could not be found out: %s", problem)
            return False

    def _has_landed(self, swap: Swap) -> bool:
        """Whether a swap is part of the history, though its answer was lost: one tells for all."""
        now = self._pointers.get(swap.kind, swap.name)
        if now is None or now == swap.expected:
            return False
        if now == swap.new:
            return True
        at = parse_location(now)
        metadata = read_entry(swap.kind, swap.name, self._open_store(at), at).metadata
        return isinstance(metadata, TableMetadata) and any(
            entry.metadata_file == swap.new for entry in metadata.metadata_log
        )

    def _delete(self, files: Sequence[Location | None]) -> None:
        for at in files:
            if at is None:
                continue
            try:
                self._open_store(at).delete(at)
            except LakeplaneError as problem:
                log.warning("a metadata file that nothing names was left behind: %s", problem)

    def register(self, kind: Kind, name: Name, metadata_location: str) -> Entry:
        """Give a name to a table or view whose metadata file exists."""
        check_new(name.parts)
        at = parse_location(metadata_location)
        entry = read_entry(kind, name, self._open_store(at), at)
        try:
            landed = self._pointers.swap([Swap(kind, name, None, metadata_location)])
        except OutcomeUnknown:
            if not self._has_landed_for_sure(Swap(kind, name, None, metadata_location)):
                raise
            landed = True
        if not landed:
            raise AlreadyExists(f"the name {name} is taken", hint="Drop it first, or choose another")
        self._require_still_there(entry)
        return entry

    def _require_still_there(self, entry: Entry) -> None:
        """Take a registration back whose file was deleted meanwhile: writers look who names a file before."""
        at = parse_location(entry.metadata_location)
        try:
            self._open_store(at).stat(at)
        except FileMissing:
            self._pointers.drop(entry.kind, entry.name, entry.metadata_location)
            problem = "the metadata file was deleted while it was being registered"
            hint = "Register a newer one of the same table"
            raise InvalidMetadata(problem, source=str(at), hint=hint) from None
        except StorageError as problem:
            log.warning("whether %s is still there could not be seen: %s", at, problem)

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Give a table or view another name."""
        check_new(new.parts)
        self._pointers.rename(kind, old, new)

    def drop(self, kind: Kind, name: Name, expected: Entry | None = None) -> None:
        """Take the name of a table or view away; its files stay."""
        self._pointers.drop(kind, name, None if expected is None else expected.metadata_location)

    def default_location(self, kind: Kind, name: Name) -> Location:
        """Where a new table or view of that name would lie."""
        del kind
        home = self._pointers.namespace(name.namespace).get("location")
        if home:
            return parse_location(home) / name.name
        return self._warehouse / "/".join(name.parts)

    def store_for(self, entry: Entry) -> Store:
        """The store that holds the files of a table."""
        return self._open_store(parse_location(entry.metadata.location))


def _check_once(changes: Sequence[Change]) -> None:
    """Refuse two changes of one name: both would start from what is there now, and one would be lost."""
    if len({change.name for change in changes}) < len(changes):
        hint = "Put all updates of a table into one change"
        raise InvalidInput("two changes of one name in one commit", hint=hint)


def _entry(step: _Step) -> Entry:
    at = str(step.at) if step.at is not None else step.base.metadata_location if step.base else ""
    return Entry(step.change.kind, step.change.name, step.metadata, at)


def _missing(kind: str, name: str) -> NotFound:
    return NotFound(f"there is no {kind} {name}")
