"""How tables and views are made over REST: what a creation's updates are as the body of a create request."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lakeplane.catalog.catalog import Change
from lakeplane.errors import CatalogCannot
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.update_json import write_updates

_OF_A_TABLE: Final = (
    u.AssignUuid,
    u.UpgradeFormatVersion,
    u.AddSchema,
    u.SetCurrentSchema,
    u.AddPartitionSpec,
    u.SetDefaultSpec,
    u.AddSortOrder,
    u.SetDefaultSortOrder,
    u.SetLocation,
    u.SetProperties,
)
_OF_A_VIEW: Final = (
    u.AssignUuid,
    u.UpgradeFormatVersion,
    u.AddSchema,
    u.AddViewVersion,
    u.SetCurrentViewVersion,
    u.SetLocation,
    u.SetProperties,
)
_PROBE_SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "probe", "required": False, "type": "int"}],
}


def is_plain(change: Change) -> bool:
    """Whether a create request can say all of it: one schema, one spec, one order, and no snapshot."""
    kinds = [type(update) for update in change.updates]
    return all(kind in _OF_A_TABLE for kind in kinds) and _are_single(kinds)


def table_request(change: Change, *, stage: bool) -> dict[str, Any]:
    """The body of a create request for a table; to stage one, it need not say everything."""
    body: dict[str, Any] = {"name": change.name.name, "stage-create": stage}
    properties: dict[str, str] = {}
    for update in change.updates:
        match update:
            case u.AddSchema():
                body.setdefault("schema", _field(update, "schema"))
            case u.AddPartitionSpec():
                body.setdefault("partition-spec", _field(update, "spec"))
            case u.AddSortOrder():
                body.setdefault("write-order", _field(update, "sort-order"))
            case u.SetLocation(location):
                body["location"] = location
            case u.UpgradeFormatVersion(version):
                properties["format-version"] = str(version)
            case u.SetProperties(updates):
                properties |= updates
            case _:
                pass
    return {**body, "properties": properties}


def probe_request(name: str) -> dict[str, Any]:
    """The body of a create request that stages a table only to learn where it would lie."""
    return {"name": name, "stage-create": True, "schema": _PROBE_SCHEMA, "properties": {}}


def view_request(change: Change) -> dict[str, Any]:
    """The body of a create request for a view."""
    kinds = [type(update) for update in change.updates]
    if not all(kind in _OF_A_VIEW for kind in kinds) or not _are_single(kinds) or u.AddSchema not in kinds:
        hint = "Create it with one schema and one version, and change it then"
        raise CatalogCannot(
            "a view cannot be created like that over REST", source=str(change.name), hint=hint
        )
    body: dict[str, Any] = {"name": change.name.name, "properties": {}}
    for update in change.updates:
        match update:
            case u.AddSchema():
                body["schema"] = _field(update, "schema")
            case u.AddViewVersion():
                version = _field(update, "view-version")
                # The server puts its own there; the parsers of some want a number that can be one.
                body["view-version"] = {**version, "schema-id": max(0, version["schema-id"])}
            case u.SetLocation(location):
                body["location"] = location
            case u.SetProperties(updates):
                body["properties"] |= updates
            case _:
                pass
    if "view-version" not in body:
        raise CatalogCannot("a view needs a version", source=str(change.name))
    return body


def with_uuid(change: Change, uuid: str) -> Change:
    """The same creation, under the identity that the server has staged for it."""
    others = (update for update in change.updates if not isinstance(update, u.AssignUuid))
    return msgspec.structs.replace(change, updates=(u.AssignUuid(uuid), *others))


def without_uuid(change: Change) -> Change:
    """The same creation, where the identity is the server's to give."""
    others = (update for update in change.updates if not isinstance(update, u.AssignUuid))
    return msgspec.structs.replace(change, updates=tuple(others))


def _are_single(kinds: list[type]) -> bool:
    once = (u.AddSchema, u.AddPartitionSpec, u.AddSortOrder, u.AddViewVersion)
    return all(kinds.count(kind) <= 1 for kind in once)


def _field(update: u.Update, key: str) -> Any:
    return write_updates([update])[0][key]
