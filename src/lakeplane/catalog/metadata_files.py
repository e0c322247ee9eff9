"""Metadata files of tables and views, as catalogs that keep them themselves read and write them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from lakeplane.catalog.catalog import Change, Entry, Kind, Metadata
from lakeplane.catalog.names import Name
from lakeplane.errors import (
    FileExists,
    FileMissing,
    InvalidLocation,
    InvalidMetadata,
    OutcomeUnknown,
    StorageError,
)
from lakeplane.iceberg.apply import apply, record_previous
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.requirements import AssertCreate, check
from lakeplane.iceberg.view import ViewMetadata, apply_to_view, parse_view, serialize_view
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.store import Store

METADATA_PATH: Final = "write.metadata.path"
COMPRESSION: Final = "write.metadata.compression-codec"
DELETE_AFTER_COMMIT: Final = "write.metadata.delete-after-commit.enabled"

_ATTEMPTS: Final = 3


class Surroundings(NamedTuple):
    """What a catalog asks of the world; tests put their own in its place."""

    now_ms: Callable[[], int]
    new_id: Callable[[], str]


def read_entry(kind: Kind, name: Name, store: Store, at: Location) -> Entry:
    """Read the metadata file of a table or view."""
    try:
        data = store.read(at)
    except FileMissing:
        hint = "The catalog names it; restore the file, or register an older one from the same directory"
        raise InvalidMetadata("the metadata file is missing", source=str(at), hint=hint) from None
    parse: Callable[..., Metadata] = parse_metadata if kind == "table" else parse_view
    try:
        return Entry(kind, name, parse(data, source=str(at)), str(at))
    except InvalidMetadata as broken:
        if type(broken) is not InvalidMetadata or broken.hint:
            raise
        hint = "Restore the file; the version before it lies in the same directory"
        raise InvalidMetadata(broken.problem, source=broken.source, field=broken.field, hint=hint) from None


def changed(base: Entry | None, change: Change, now_ms: int) -> Metadata:
    """Check the requirements of a change and apply it; the very same value if nothing changes."""
    metadata = None if base is None else base.metadata
    check(change.requirements, metadata)
    if change.kind == "view":
        assert metadata is None or isinstance(metadata, ViewMetadata)
        return apply_to_view(metadata, change.updates, now_ms=now_ms)  # type: ignore[arg-type]
    assert metadata is None or isinstance(metadata, TableMetadata)
    # A clock that went back must not make the table look older than it was.
    now_ms = now_ms if metadata is None else max(now_ms, metadata.last_updated_ms)
    table = apply(metadata, change.updates, now_ms=now_ms)  # type: ignore[arg-type]
    if base is None or metadata is None or table is metadata:
        return table
    return record_previous(table, metadata, base.metadata_location)


def creates(change: Change) -> bool:
    """Whether a change makes its table or view."""
    return any(isinstance(requirement, AssertCreate) for requirement in change.requirements)


def serialize(metadata: Metadata, *, compress: bool) -> bytes:
    """The bytes of a metadata file."""
    if isinstance(metadata, ViewMetadata):
        return serialize_view(metadata, compress=compress)
    return serialize_metadata(metadata, compress=compress)


def is_compressed(metadata: Metadata) -> bool:
    """Whether the metadata files of a table or view are to be gzipped."""
    return metadata.properties.get(COMPRESSION, "none").strip().lower() == "gzip"


def deletes_old_files(metadata: Metadata) -> bool:
    """Whether metadata files that the log drops are to be deleted."""
    return metadata.properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() == "true"


def metadata_directory(metadata: Metadata) -> Location:
    """Where the metadata files of a table or view go."""
    return place_in(parse_location(metadata.location), metadata.properties.get(METADATA_PATH) or "metadata")


def place_in(home: Location, path: str) -> Location:
    """The place that a property of a table names: some write it from the table on."""
    return parse_location(path) if ":" in path or path.startswith("/") else home / path


def write_unique(store: Store, at: Location, data: bytes) -> str | None:
    """Write a file whose name nobody else can have, and that nothing names yet; gives its etag, if known.

    So it may be sent again, whatever became of it: also where stores send what has a condition only once.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return store.put(at, data, if_absent=store.can_put_if_absent)
        except FileExists:
            if attempt:
                return None
            raise
        except (OutcomeUnknown, StorageError) as error:
            if attempt + 1 < _ATTEMPTS and type(error) in (OutcomeUnknown, StorageError):
                time.sleep(random.uniform(0.01, 0.05) * 2**attempt)  # noqa: S311 - spreads writers, no secret
                continue
            if isinstance(error, StorageError):
                raise
            # Whether it is there or not, nothing names it: so the commit has not happened, for certain.
            raise StorageError("it could not be written for certain", source=str(at)) from None
    return None


def outdated_files(base: Metadata | None, new: Metadata) -> list[Location]:
    """The metadata files that the log of a table has dropped, if the table wants them deleted."""
    if not isinstance(base, TableMetadata) or not isinstance(new, TableMetadata):
        return []
    if not deletes_old_files(new):
        return []
    kept = {entry.metadata_file for entry in new.metadata_log}
    home = metadata_directory(base)
    dropped = [entry.metadata_file for entry in base.metadata_log if entry.metadata_file not in kept]
    # A log that came with a registered or copied table may name files of another one, or odd places.
    return [at for file in dropped if (at := _location(file)) is not None and home.contains(at)]


def _location(file: str) -> Location | None:
    try:
        return parse_location(file)
    except InvalidLocation:
        return None
