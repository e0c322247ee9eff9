"""View metadata, version 1: a value, its JSON files, and how updates change it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from lakeplane.errors import InvalidChange, InvalidInput, InvalidMetadata, UnsupportedVersion
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.properties import number
from lakeplane.iceberg.view_versions import VersionLogEntry, ViewVersion
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.json_files import DEFAULT_LIMITS, Limits, decode, encode
from lakeplane.model.location import parse_location
from lakeplane.model.records import read_all, write
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.schema_json import read_schema, write_schema

VIEW_FORMAT_VERSION: Final = 1
HISTORY_SIZE: Final = "version.history.num-entries"
DEFAULT_HISTORY_SIZE: Final = 10
ALLOW_DROPPED_DIALECTS: Final = "replace.drop-dialect.allowed"

_KNOWN: Final = frozenset(
    [
        "view-uuid",
        "format-version",
        "location",
        "schemas",
        "current-version-id",
        "versions",
        "version-log",
        "properties",
    ]
)


class ViewMetadata(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """Everything that is true of a view at one commit."""

    view_uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[VersionLogEntry, ...]
    properties: FrozenDict[str, str] = EMPTY
    format_version: int = VIEW_FORMAT_VERSION
    unknown: FrozenDict[str, Any] = EMPTY

    @functools.cached_property
    def versions_by_id(self) -> dict[int, ViewVersion]:
        """The versions under their ids."""
        return {version.version_id: version for version in self.versions}

    @functools.cached_property
    def schemas_by_id(self) -> dict[int, Schema]:
        """The schemas under their ids."""
        return {schema.schema_id: schema for schema in self.schemas}

    @property
    def current_version(self) -> ViewVersion:
        """The version that readers see."""
        return self.versions_by_id[self.current_version_id]

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return self.schemas_by_id[self.current_version.schema_id]

    def version(self, version_id: int) -> ViewVersion:
        """One of the view's versions."""
        if version_id in self.versions_by_id:
            return self.versions_by_id[version_id]
        problem = f"the view has no version {version_id}"
        raise InvalidInput(problem, hint=f"It has {', '.join(map(str, self.versions_by_id))}")


def parse_view(data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS) -> ViewMetadata:
    """Read a view metadata file; ``source`` names it in errors."""
    return decode(data, read_view, source=source, limits=limits)


def serialize_view(view: ViewMetadata, *, compress: bool = False) -> bytes:
    """Write a view metadata file."""
    return encode(write_view(view), compress=compress)


def read_view(document: Mapping[str, Any]) -> ViewMetadata:
    """Turn the JSON object of a view into metadata, and check it."""
    version = document.get("format-version")
    if type(version) is not int or version != VIEW_FORMAT_VERSION:
        problem = f"view format version {version!r:.80} is not supported"
        raise UnsupportedVersion(problem, field="format-version")
    for key in ("view-uuid", "location"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise InvalidMetadata("missing or not a string", field=key)
    if type(document.get("current-version-id")) is not int:
        raise InvalidMetadata("missing or not an integer", field="current-version-id")
    schemas = document.get("schemas")
    if not isinstance(schemas, list) or not schemas:
        raise InvalidMetadata("missing or empty", field="schemas")
    properties = document.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(each, str) for each in properties.values()):
        raise InvalidMetadata("expected a map of strings", field="properties")
    view = ViewMetadata(
        view_uuid=document["view-uuid"],
        location=document["location"],
        schemas=tuple(read_schema(raw, f"schemas[{position}]") for position, raw in enumerate(schemas)),
        current_version_id=document["current-version-id"],
        versions=read_all(ViewVersion, document.get("versions"), "versions"),
        version_log=read_all(VersionLogEntry, document.get("version-log"), "version-log"),
        properties=FrozenDict(properties),
        unknown=freeze({key: document[key] for key in document if key not in _KNOWN}),
    )
    check_view(view)
    return view


def write_view(view: ViewMetadata) -> dict[str, Any]:
    """Turn view metadata into its JSON object."""
    return {
        **thaw(view.unknown),
        "view-uuid": view.view_uuid,
        "format-version": view.format_version,
        "location": view.location,
        "schemas": list(map(write_schema, view.schemas)),
        "current-version-id": view.current_version_id,
        "versions": list(map(write, view.versions)),
        "version-log": list(map(write, view.version_log)),
        "properties": dict(view.properties),
    }


def check_view(view: ViewMetadata) -> None:
    """Refuse view metadata that contradicts itself."""
    if len(view.versions_by_id) != len(view.versions):
        raise InvalidMetadata("two versions have the same id", field="versions")
    if len(view.schemas_by_id) != len(view.schemas):
        raise InvalidMetadata("two schemas have the same id", field="schemas")
    if view.current_version_id not in view.versions_by_id:
        raise InvalidMetadata(f"there is no version {view.current_version_id}", field="current-version-id")
    for version in view.versions:
        place = f"version {version.version_id}"
        if version.schema_id not in view.schemas_by_id:
            raise InvalidMetadata(f"there is no schema {version.schema_id}", field=place)
        if problem := _representation_problem(version):
            raise InvalidMetadata(problem, field=place)


def _representation_problem(version: ViewVersion) -> str | None:
    if any(each.type == "sql" and not (each.sql and each.dialect) for each in version.representations):
        return "a sql representation needs its sql and its dialect"
    return None


def _double_dialects(version: ViewVersion) -> str | None:
    """Why a new version is refused; old writers made such versions, and they must stay readable."""
    dialects = [(each.dialect or "").lower() for each in version.representations if each.type == "sql"]
    doubles = sorted({dialect for dialect in dialects if dialects.count(dialect) > 1})
    return f"two representations for the dialect {', '.join(doubles)}" if doubles else None


class _Draft:
    """A view in the middle of a change."""

    def __init__(self, base: ViewMetadata | None, now_ms: int) -> None:
        self.now_ms = now_ms
        self.view = _BLANK if base is None else base
        self.last_schema_id: int | None = None
        # The ids that schemas of this change came with, and those that they got.
        self.given_schemas: dict[int, int] = {}
        self.known_schemas = frozenset(self.view.schemas_by_id)
        self.last_version_id: int | None = None
        self.added_versions: set[int] = set()

    def set(self, **changes: Any) -> None:
        self.view = msgspec.structs.replace(self.view, **changes)


_BLANK: Final = ViewMetadata(
    view_uuid="", location="", schemas=(), current_version_id=-1, versions=(), version_log=()
)


def apply_to_view(base: ViewMetadata | None, updates: Iterable[u.ViewUpdate], *, now_ms: int) -> ViewMetadata:
    """Apply updates in order; ``base`` is None for a view that is being created."""
    draft = _Draft(base, now_ms)
    for update in updates:
        try:
            _apply_one(draft, update)
        except InvalidChange:
            raise
        except (InvalidInput, InvalidMetadata) as error:
            raise InvalidChange(error.problem, field=error.field, hint=error.hint) from None
    _log_current(draft, _BLANK.current_version_id if base is None else base.current_version_id)
    if base is not None and draft.view == base:
        return base
    for name, value in (("view-uuid", draft.view.view_uuid), ("location", draft.view.location)):
        if not value:
            raise InvalidChange(
                f"{name} is missing", hint="A new view needs a uuid, a location and a version"
            )
    if base is not None:
        _check_dialects(base, draft.view)
    view = _expire_versions(draft)
    try:
        check_view(view)
    except InvalidMetadata as error:
        raise InvalidChange(error.problem, field=error.field, hint=error.hint) from None
    return view


def _apply_one(draft: _Draft, update: u.ViewUpdate) -> None:  # noqa: C901 - one arm per update
    match update:
        case u.AssignUuid(uuid):
            if draft.view.view_uuid not in ("", uuid):
                raise InvalidChange("a view keeps its uuid for its life", field="view-uuid")
            draft.set(view_uuid=uuid)
        case u.UpgradeFormatVersion(version):
            if version != VIEW_FORMAT_VERSION:
                raise InvalidChange(f"view format version {version} is not supported", field="format-version")
        case u.AddSchema(schema):
            _add_schema(draft, schema)
        case u.AddViewVersion(version):
            _add_version(draft, version)
        case u.SetCurrentViewVersion(version_id):
            _set_current(draft, version_id)
        case u.SetProperties(changed):
            draft.set(properties=FrozenDict({**draft.view.properties, **changed}))
        case u.RemoveProperties(removed):
            kept = {key: value for key, value in draft.view.properties.items() if key not in removed}
            draft.set(properties=FrozenDict(kept))
        case u.SetLocation(location):
            draft.set(location=str(parse_location(location)))
        case _:
            raise InvalidChange(f"not an update of a view: {type(update).__name__}")


def _add_schema(draft: _Draft, schema: Schema) -> None:
    # A view's columns may have any type that a table of the newest version may have.
    check_compatible(schema, 3)
    known = draft.view.schemas
    same = next((each for each in known if each.same_fields(schema)), None)
    if same is None:
        new_id = max((each.schema_id + 1 for each in known), default=0)
        same = msgspec.structs.replace(schema, schema_id=new_id)
        draft.set(schemas=(*known, same))
    draft.last_schema_id = same.schema_id
    draft.given_schemas[schema.schema_id] = same.schema_id


def _add_version(draft: _Draft, version: ViewVersion) -> None:
    place = f"version {version.version_id}"
    if problem := _representation_problem(version) or _double_dialects(version):
        raise InvalidChange(problem, field=place)
    if not version.representations:
        raise InvalidChange("a version needs a representation", field=place)
    schema_id = version.schema_id
    if schema_id == u.LAST_ADDED:
        if draft.last_schema_id is None:
            raise InvalidChange("no schema was added in this change", field=place)
        schema_id = draft.last_schema_id
    elif schema_id not in draft.known_schemas:
        schema_id = draft.given_schemas.get(schema_id, schema_id)
    version = msgspec.structs.replace(version, schema_id=schema_id)
    if all(each.schema_id != version.schema_id for each in draft.view.schemas):
        raise InvalidChange(f"the view has no schema {version.schema_id}", field=place)
    same = next((each for each in draft.view.versions if _same_definition(each, version)), None)
    if same is None:
        # An id that no version has had yet is kept, so that a change may name it.
        new_id = max([version.version_id, 1, *(each.version_id + 1 for each in draft.view.versions)])
        same = msgspec.structs.replace(version, version_id=new_id)
        draft.set(versions=(*draft.view.versions, same))
        draft.added_versions.add(new_id)
    draft.last_version_id = same.version_id


def _same_definition(one: ViewVersion, other: ViewVersion) -> bool:
    """Whether two versions differ in nothing but their id and when they were made."""
    aligned = msgspec.structs.replace(other, version_id=one.version_id, timestamp_ms=one.timestamp_ms)
    return one == aligned


def _set_current(draft: _Draft, version_id: int) -> None:
    if version_id == u.LAST_ADDED:
        if draft.last_version_id is None:
            raise InvalidChange("no version was added in this change", field="current-version-id")
        version_id = draft.last_version_id
    if all(each.version_id != version_id for each in draft.view.versions):
        raise InvalidChange(f"the view has no version {version_id}", field="current-version-id")
    draft.set(current_version_id=version_id)


def _log_current(draft: _Draft, before: int) -> None:
    """Log the version that readers see from now on; what was current only during the change, none saw."""
    current = draft.view.current_version_id
    found = next((each for each in draft.view.versions if each.version_id == current), None)
    if found is None or current == before:
        return
    # Going back to an old version happens now, not when that version was made.
    when = found.timestamp_ms if current in draft.added_versions else draft.now_ms
    entry = VersionLogEntry(timestamp_ms=when, version_id=current)
    draft.set(version_log=(*draft.view.version_log, entry))


def _check_dialects(base: ViewMetadata, changed: ViewMetadata) -> None:
    """Refuse a replacement that takes a dialect away: its readers would see the old definition no more."""
    allowed = changed.properties.get(ALLOW_DROPPED_DIALECTS, "false").lower() == "true"
    if allowed or changed.current_version_id not in changed.versions_by_id:
        return
    lost = _dialects(base.current_version) - _dialects(changed.current_version)
    if lost:
        hint = f"Give a definition for each, or set {ALLOW_DROPPED_DIALECTS}=true"
        raise InvalidChange(f"the new version drops the dialect {', '.join(sorted(lost))}", hint=hint)


def _dialects(version: ViewVersion) -> set[str]:
    return {(each.dialect or "").lower() for each in version.representations if each.type == "sql"}


def _expire_versions(draft: _Draft) -> ViewMetadata:
    """Keep the newest versions, as many as the view wants, and the current one."""
    view = draft.view
    text = view.properties.get(HISTORY_SIZE, str(DEFAULT_HISTORY_SIZE))
    size = number(text)
    if size is None or size < 1:
        raise InvalidChange(f"must be a positive number, not {text!r}", field=HISTORY_SIZE)
    limit = max(size, len(draft.added_versions | {view.current_version_id}))
    if len(view.versions) <= limit:
        return view
    newest = sorted((version.version_id for version in view.versions), reverse=True)
    others = [version_id for version_id in newest if version_id != view.current_version_id]
    kept = {view.current_version_id, *others[: limit - 1]}
    log: list[VersionLogEntry] = []
    for entry in view.version_log:
        # With a gap the log would name the wrong version for the time before it.
        log = [*log, entry] if entry.version_id in kept else []
    versions = tuple(version for version in view.versions if version.version_id in kept)
    return msgspec.structs.replace(view, versions=versions, version_log=tuple(log))
