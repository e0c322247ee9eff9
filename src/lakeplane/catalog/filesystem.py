"""The embedded default: a warehouse directory or bucket, with no server beside it.

::

    warehouse/
      shop/                          a namespace is a directory
        .namespace/v1.json           its properties
        orders/                      a table is a directory with numbered metadata files
          metadata/v3.metadata.json
          metadata/version-hint.text
        totals/                      a view likewise
          metadata/v1.view.json

Tables are those of Iceberg's HadoopCatalog, both ways. A commit creates the next number, and of two writers
one creates it: so the store must be able to put a file only if it is absent. The suffix of the next file
follows from the properties of the *present* metadata, so that all writers race for the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from lakeplane.catalog.catalog import Change, Committed, Conflict, Entry, Kind, Metadata, Outcome, Unknown
from lakeplane.catalog.landed import has_landed
from lakeplane.catalog.metadata_files import (
    METADATA_PATH,
    Surroundings,
    changed,
    creates,
    deletes_old_files,
    is_compressed,
    read_entry,
    serialize,
)
from lakeplane.catalog.names import Name, Namespace, check_new, check_part, show
from lakeplane.catalog.pointers import changed_before_drop
from lakeplane.catalog.versions import HINT, TABLE_SUFFIXES, Series, Version
from lakeplane.errors import (
    AccessDenied,
    AlreadyExists,
    CatalogCannot,
    CommitConflict,
    FileExists,
    FileMissing,
    InvalidChange,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
    OutcomeUnknown,
    RequirementFailed,
    StorageError,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.probe import require_put_if_absent
from lakeplane.storage.store import Store

log = logging.getLogger(__name__)

_VIEW_SUFFIXES: Final = ("view.json",)
_NAMESPACE: Final = ".namespace"
_PAIMON: Final = ".db"
_NAMESPACE_ATTEMPTS: Final = 100
"""Not for ever: where listings stay stale, the number that is tried is taken each time."""
_LEFT_BEHIND: Final = frozenset({"metadata", "data"})
"""The directories of a table; without a version in them, they remain from one that was dropped."""


class FilesystemCatalog:
    """Tables and views in the directories of one store."""

    def __init__(
        self,
        warehouse: Location,
        store: Store,
        *,
        surroundings: Surroundings,
        open_store: Callable[[Location], Store],
    ) -> None:
        if not store.can_put_if_absent:
            problem = "this store cannot put a file only if it is absent, so two writers would lose commits"
            hint = "Keep the tables there, and their names in a sql or rest catalog"
            raise CatalogCannot(problem, source=str(warehouse), hint=hint)
        self._warehouse = warehouse
        self._store = store
        self._open_store = open_store
        self._surroundings = surroundings
        # A disk refuses by itself what it cannot do; some object stores only pretend, so they are tried out.
        self._is_tried = warehouse.scheme == "file"
        # What is loaded and then committed to is read once, if its etag says that it is the same file still.
        self._last: tuple[Version, Entry] | None = None

    def __repr__(self) -> str:
        return f"FilesystemCatalog({str(self._warehouse)!r})"

    @property
    def home(self) -> tuple[Location, Store]:
        """The warehouse, and the store that it is in."""
        return self._warehouse, self._store

    # Namespaces

    def namespaces(self, under: Namespace = ()) -> list[Namespace]:
        """The namespaces directly inside another one, sorted."""
        if under:
            self._require_namespace(under)
        found = [(*under, folder) for folder in self._folders(under)]
        return sorted(each for each in found if self._has_namespace(each))

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        self._require_namespace(namespace)
        return self._state(namespace)[1] or FrozenDict()

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        if not namespace:
            raise InvalidInput("the root needs not be made, it is there", hint="Name the namespace")
        check_new(namespace)
        for part in namespace:
            if part.lower().endswith(_PAIMON):
                raise InvalidInput(
                    f"{part!r} ends in {_PAIMON}, as Paimon's databases do", hint="Choose another name"
                )
        if len(namespace) > 1:
            self._require_namespace(namespace[:-1])
        if self._has_namespace(namespace) or self._taken(namespace):
            raise AlreadyExists(f"the name {show(namespace)} is taken")
        number, _ = self._state(namespace)
        if not self._set_state(namespace, number + 1, properties):
            raise AlreadyExists(f"the namespace {show(namespace)} exists")
        try:
            # A table is another file. Its maker looks too, so of two at once at least one sees the other.
            is_taken = self._taken(namespace) and self._set_state(namespace, number + 2, None)
        except StorageError as trouble:
            raise OutcomeUnknown(trouble.problem, source=show(namespace)) from None
        if is_taken:
            raise AlreadyExists(f"the name {show(namespace)} is taken")

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        for _ in range(_NAMESPACE_ATTEMPTS):
            self._require_namespace(namespace)
            number, properties = self._state(namespace)
            kept = {key: value for key, value in (properties or {}).items() if key not in removals}
            if self._set_state(namespace, number + 1, {**kept, **updates}):
                return
        raise _overtaken(namespace)

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace that is empty; its directory stays, and is told from a live one by its state."""
        for _ in range(_NAMESPACE_ATTEMPTS):
            self._require_namespace(namespace)
            number, _ = self._state(namespace)
            if self._has_content(namespace):
                raise NamespaceNotEmpty(f"the namespace {show(namespace)} is not empty")
            if self._set_state(namespace, number + 1, None):
                return
        raise _overtaken(namespace)

    def _directory(self, parts: tuple[str, ...]) -> Location:
        for part in parts:
            check_part(part)
        return self._warehouse / "/".join(parts) if parts else self._warehouse

    def _folders(self, namespace: Namespace) -> list[str]:
        found = self._store.folders(self._directory(namespace))
        return [each for each in found if not each.startswith((".", "_")) and _is_name(each)]

    def _series_of(self, namespace: Namespace) -> Series:
        return Series(self._store, self._directory(namespace) / _NAMESPACE, ("json",))

    def _state(self, namespace: Namespace) -> tuple[int, FrozenDict[str, str] | None]:
        """The number of changes to a namespace, and its properties: None if dropped, or never made here."""
        newest = self._series_of(namespace).newest()
        if newest is None:
            return 0, None
        try:
            found = msgspec.json.decode(self._store.read(newest.at), type=dict[str, str] | None)
        except msgspec.DecodeError as error:
            raise InvalidMetadata(f"not a map of strings: {error}", source=str(newest.at)) from None
        return newest.number, None if found is None else FrozenDict(found)

    def _set_state(self, namespace: Namespace, number: int, properties: Mapping[str, str] | None) -> bool:
        """Publish the next state of a namespace; False when somebody else was faster."""
        at = self._series_of(namespace).file(number, "json")
        data = msgspec.json.encode(None if properties is None else dict(properties))
        return self._create(at, data)

    def _has_namespace(self, namespace: Namespace) -> bool:
        if self._taken(namespace):
            return False
        number, properties = self._state(namespace)
        if properties is not None:
            return True
        folders = self._folders(namespace)
        if any(folder in _LEFT_BEHIND and not self._taken((*namespace, folder)) for folder in folders):
            return False
        if namespace[-1] in _LEFT_BEHIND:
            return any(self._taken((*namespace, folder)) for folder in folders)
        # HadoopCatalog keeps bare directories; ours, once dropped, is one again while something is inside.
        return namespace[-1] in self._folders(namespace[:-1]) if number == 0 else self._has_content(namespace)

    def _has_content(self, namespace: Namespace) -> bool:
        inside = [(*namespace, folder) for folder in self._folders(namespace)]
        return any(self._taken(each) or self._has_namespace(each) for each in inside)

    def _taken(self, parts: tuple[str, ...]) -> bool:
        name = Name(parts[:-1], parts[-1])
        return self._is_entry("table", name) or self._is_entry("view", name)

    def _require_namespace(self, namespace: Namespace) -> None:
        if not namespace or not self._has_namespace(namespace):
            raise NotFound(f"there is no namespace {show(namespace)}", hint="Create it first")

    # Tables and views

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        self._require_namespace(namespace)
        names = [Name(namespace, folder) for folder in self._folders(namespace)]
        return sorted(name for name in names if self._is_entry(kind, name))

    def load(self, kind: Kind, name: Name) -> Entry:
        """A table or view as it is now."""
        found = self._load(kind, name)
        if found is None:
            raise NotFound(f"there is no {kind} {name}")
        return found[1]

    def _series(self, kind: Kind, name: Name) -> Series:
        suffixes = TABLE_SUFFIXES if kind == "table" else _VIEW_SUFFIXES
        return Series(self._store, self._directory(name.parts) / "metadata", suffixes)

    def _is_entry(self, kind: Kind, name: Name) -> bool:
        return self._series(kind, name).newest() is not None

    def _load(self, kind: Kind, name: Name) -> tuple[Version, Entry] | None:
        series = self._series(kind, name)
        newest = series.newest()
        while newest is not None:
            last = self._last
            if last is not None and newest.etag is not None and last[0] == newest and last[1].kind == kind:
                return last
            try:
                found = newest, read_entry(kind, name, self._store, newest.at)
            except InvalidMetadata:
                # Others may have published and deleted faster than it could be read.
                if (again := series.newest()) == newest:
                    raise
                newest = again
            else:
                self._last = found
                return found
        return None

    def commit(self, changes: Sequence[Change]) -> Outcome:
        """Publish one change; several directories cannot change at once."""
        if len(changes) != 1:
            hint = "Commit them one by one, or keep the tables in a sql or rest catalog"
            raise CatalogCannot(
                "a filesystem catalog commits one table at a time", source=repr(self), hint=hint
            )
        [change] = changes
        if creates(change):
            check_new(change.name.parts)
            self._require_namespace(change.name.namespace)
            if self._has_namespace(change.name.parts):
                return self._refusal(change.name)
        found = self._load(change.kind, change.name)
        if found is None and not creates(change):
            raise NotFound(f"there is no {change.kind} {change.name}")
        base = None if found is None else found[1]
        if base is None and self._is_entry(other := _other(change.kind), change.name):
            return Conflict(f"the name {change.name} is taken by a {other}")
        try:
            metadata = changed(base, change, self._surroundings.now_ms())
        except RequirementFailed as failed:
            return Conflict(f"{change.name}: {failed}")
        if base is not None and metadata is base.metadata:
            return Committed((base,))
        self._check_in_place(change, metadata, base)
        return self._publish(change, found, metadata)

    def _refusal(self, name: Name) -> Conflict:
        """Why no table can be made in the place of a namespace."""
        if self._state(name.parts)[1] is not None or self._has_content(name.parts):
            raise AlreadyExists(f"the name {name} is taken by a namespace")
        # A bare directory is a namespace to HadoopCatalog, or a table that somebody is making just now.
        return Conflict(f"the name {name} is taken by a directory")

    def _check_in_place(self, change: Change, metadata: Metadata, base: Entry | None) -> None:
        path = metadata.properties.get(METADATA_PATH)
        if path and (base is None or base.metadata.properties.get(METADATA_PATH) != path):
            # HadoopCatalog would not write such a table any more.
            hint = "Leave it out, or keep the table in a sql or rest catalog"
            raise InvalidChange("metadata files have one place here", field=METADATA_PATH, hint=hint)
        home = self._directory(change.name.parts)
        if parse_location(metadata.location) != home:
            hint = f"Leave the location out, or make it {home}"
            raise InvalidChange("in a filesystem catalog the name is the place", field="location", hint=hint)

    def _publish(self, change: Change, base: tuple[Version, Entry] | None, metadata: Metadata) -> Outcome:
        series = self._series(change.kind, change.name)
        number = series.first_free() if base is None else base[0].number + 1
        at = series.file(number, _suffix(change.kind, base[1].metadata if base else None))
        data = serialize(metadata, compress=at.name.endswith(".gz.metadata.json"))
        try:
            if not self._create(at, data):
                return Conflict(f"somebody else published version {number}")
        except OutcomeUnknown as lost:
            return Unknown(str(lost))
        try:
            in_a_hole = (
                self._is_buried(change, number, metadata)
                if base is None
                else self._in_a_hole(change, base[0])
            )
        except LakeplaneError as trouble:
            # The version is there; only whether it counts is not known.
            return Unknown(str(trouble))
        if in_a_hole:
            self._delete(at)
            gone = "the name was taken" if base is None else f"version {number - 1} is gone"
            return Conflict(f"{gone}: others have made, changed or dropped {change.name} meanwhile")
        series.hint(number)
        self._delete_outdated(series, metadata, number)
        return Committed((Entry(change.kind, change.name, metadata, str(at)),))

    def _create(self, at: Location, data: bytes) -> bool:
        """Be the first to create a file; False when somebody else was."""
        if not self._is_tried:
            require_put_if_absent(self._store, self._warehouse)
            self._is_tried = True
        try:
            self._store.put(at, data, if_absent=True)
        except (FileExists, OutcomeUnknown) as failure:
            # A request that is delivered twice loses against itself. Two writers write the same bytes only if
            # they make the same change in the same millisecond, and then it is made.
            try:
                return self._store.read(at) == data
            except LakeplaneError:
                raise OutcomeUnknown(failure.problem, source=str(at)) from None
        return True

    def _in_a_hole(self, change: Change, base: Version) -> bool:
        """Whether our number was free only because it had been used and deleted.

        Old versions are deleted from the oldest on, so if ours had been deleted, so had the one before it.
        """
        try:
            now = self._store.stat(base.at)
        except FileMissing:
            newest = self._load(change.kind, change.name)
            is_later = newest is not None and newest[0].number > base.number + 1
            return not (newest is not None and is_later and has_landed(change, newest[1].metadata))
        # Another file in its place belongs to another table of that name.
        return now.etag != base.etag

    def _is_buried(self, change: Change, number: int, created: Metadata) -> bool:
        """Whether others took the name: for another kind, or for a table whose first versions are gone."""
        if self._is_entry(_other(change.kind), change.name) or self._state(change.name.parts)[1] is not None:
            return True
        newest = self._series(change.kind, change.name).newest()
        if newest is None or newest.number <= number:
            return False
        now = self._load(change.kind, change.name)
        return now is not None and _uuid(now[1].metadata) != _uuid(created)

    def _delete_outdated(self, series: Series, metadata: Metadata, number: int) -> None:
        """Delete versions that the table's log does not name any more: from the oldest on, without a gap."""
        if not isinstance(metadata, TableMetadata) or not deletes_old_files(metadata):
            return
        try:
            kept = {parse_location(entry.metadata_file) for entry in metadata.metadata_log}
            for version in series.all():
                if version.number >= number or version.at in kept:
                    return
                self._store.delete(version.at)
        except LakeplaneError as problem:
            log.warning("old metadata files were left behind: %s", problem)

    def _delete(self, at: Location) -> None:
        try:
            self._store.delete(at)
        except LakeplaneError as problem:
            log.warning("an old metadata file was left behind: %s", problem)

    def register(self, kind: Kind, name: Name, metadata_location: str) -> Entry:
        """Give a name to a table whose metadata file exists, which must lie in the place of that name."""
        check_new(name.parts)
        self._require_namespace(name.namespace)
        if self._taken(name.parts):
            raise AlreadyExists(f"the name {name} is taken", hint="Drop it first, or choose another")
        at = parse_location(metadata_location)
        entry = read_entry(kind, name, self._open_store(at), at)
        change = Change(kind, name, (), ())
        self._check_in_place(change, entry.metadata, None)
        outcome = self._publish(change, None, entry.metadata)
        match outcome:
            case Committed(entries=(registered,)):
                return registered
            case Unknown(reason=reason):
                raise OutcomeUnknown(reason, source=str(name))
            case _:
                raise AlreadyExists(f"the name {name} is taken")

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Refuse: the name is the place, and files cannot move in one step."""
        hint = "Keep the table in a sql or rest catalog, where a name is only a name"
        raise CatalogCannot(f"a filesystem catalog cannot rename the {kind} {old} to {new}", hint=hint)

    def drop(self, kind: Kind, name: Name, expected: Entry | None = None) -> None:
        """Take the name of a table or view away; data files stay, and a copy of the last metadata file.

        The oldest version goes first: until the last one is gone, the table is there as it was.
        """
        found = self._load(kind, name)
        if found is None:
            raise NotFound(f"there is no {kind} {name}")
        newest, entry = found
        if expected is not None and entry != expected:
            raise changed_before_drop(kind, name)
        series = self._series(kind, name)
        copy = series.dropped(newest.number, self._surroundings.new_id())
        self._store.put(copy, serialize(entry.metadata, compress=False), if_absent=True)
        for version in series.before(newest.number):
            self._store.delete(version.at)
        again = series.newest()
        if again is not None and again != newest:
            problem = f"{name} was changed while it was being dropped"
            raise CommitConflict(problem, hint="Look at the change, and drop it again if it still should go")
        hint = "Look whether it is still there before dropping it again"
        try:
            self._store.delete(newest.at)
        except AccessDenied:
            raise
        except StorageError as lost:
            raise OutcomeUnknown(lost.problem, source=str(name), hint=hint) from None
        self._delete(series.directory / HINT)
        try:
            later = self._load(kind, name)
        except StorageError as trouble:
            raise OutcomeUnknown(trouble.problem, source=str(name), hint=hint) from None
        if later is not None and _uuid(later[1].metadata) == _uuid(entry.metadata):
            problem = f"{name} was changed while it was being dropped, and is still there"
            raise CommitConflict(problem, hint="Look at the change, and drop it again if it still should go")

    def default_location(self, kind: Kind, name: Name) -> Location:
        """The one place that a table or view of that name can have."""
        del kind
        return self._directory(name.parts)

    def store_for(self, entry: Entry) -> Store:
        """The store that holds the files of a table."""
        return self._open_store(parse_location(entry.metadata.location))


def _is_name(folder: str) -> bool:
    """Whether a directory may hold a namespace, table or view: ``sales.db``, of Paimon, does not."""
    try:
        check_part(folder)
    except InvalidInput:
        return False
    return not folder.lower().endswith(_PAIMON)


def _overtaken(namespace: Namespace) -> CommitConflict:
    problem = f"others changed the namespace {show(namespace)} first, {_NAMESPACE_ATTEMPTS} times"
    return CommitConflict(problem, hint="Try again later")


def _other(kind: Kind) -> Kind:
    return "view" if kind == "table" else "table"


def _uuid(metadata: Metadata) -> str | None:
    return metadata.table_uuid if isinstance(metadata, TableMetadata) else metadata.view_uuid


def _suffix(kind: Kind, base: Metadata | None) -> str:
    if kind == "view":
        return _VIEW_SUFFIXES[0]
    return TABLE_SUFFIXES[1 if isinstance(base, TableMetadata) and is_compressed(base) else 0]
