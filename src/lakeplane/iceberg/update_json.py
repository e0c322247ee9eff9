"""Updates and requirements as the JSON of the REST catalog, both ways.

Two tables say it all: for each action (and each requirement) the class, and for each of its attributes the
JSON key and how the value is read and written. Names that older clients used are understood, and what older
servers look for is written too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.snapshots import Ref, Snapshot, read_ref
from lakeplane.iceberg.statistics import EncryptedKey, PartitionStatisticsFile, StatisticsFile
from lakeplane.iceberg.view_versions import ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec, read_spec, write_spec
from lakeplane.model.records import Record, read, write
from lakeplane.model.schema_json import read_schema, write_schema
from lakeplane.model.sorting import read_order, write_order

_Read = Callable[[Any, str], Any]
_Write = Callable[[Any], Any]


class _Part(NamedTuple):
    """One attribute of an update: its JSON key ("" when its fields lie flat in the update itself)."""

    name: str
    key: str
    read: _Read
    write: _Write
    required: bool = True
    old_key: str | None = None


def _plain(kind: type) -> tuple[_Read, _Write]:
    def read_plain(raw: Any, where: str) -> Any:
        # Nothing in a table is a larger integer than a long.
        if type(raw) is not kind or (type(raw) is int and not -(2**63) <= raw < 2**63):
            raise InvalidMetadata(f"expected {kind.__name__}, got {raw!r:.80}", field=where)
        return raw

    return read_plain, lambda value: value


def _list_of(kind: type) -> tuple[_Read, _Write]:
    def read_list(raw: Any, where: str) -> Any:
        if not isinstance(raw, list) or any(type(each) is not kind for each in raw):
            raise InvalidMetadata(f"expected a list of {kind.__name__}, got {raw!r:.80}", field=where)
        return tuple(raw)

    return read_list, list


def _record(kind: type[Record]) -> tuple[_Read, _Write]:
    return lambda raw, where: read(kind, raw, where), write


def _read_strings(raw: Any, where: str) -> FrozenDict[str, str]:
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise InvalidMetadata(f"expected a map of strings, got {raw!r:.80}", field=where)
    return FrozenDict(raw)


def _read_unbound_spec(raw: Any, where: str) -> PartitionSpec:
    """Read a spec whose ids are the catalog's to assign."""
    if not isinstance(raw, dict) or not isinstance(raw.get("fields"), list):
        raise InvalidMetadata("expected a partition spec", field=where)
    unassigned = {"field-id": u.UNASSIGNED}
    fields = [{**unassigned, **each} if isinstance(each, dict) else each for each in raw["fields"]]
    return read_spec({"spec-id": 0, **raw, "fields": fields}, where)


def _write_unbound_spec(spec: PartitionSpec) -> dict[str, Any]:
    document = write_spec(spec)
    for field in document["fields"]:
        if field["field-id"] == u.UNASSIGNED:
            del field["field-id"]
    return document


def _write_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    document = write(snapshot)
    if snapshot.sequence_number == 0:
        del document["sequence-number"]
    return document


def _read_flat_ref(raw: Any, where: str) -> Ref:
    return read_ref({key: raw[key] for key in raw if key not in ("action", "ref-name")}, where)


_INT, _STR = _plain(int), _plain(str)
_INTS, _STRS = _list_of(int), _list_of(str)

_UPDATES: Final[dict[str, tuple[type, tuple[_Part, ...]]]] = {
    "assign-uuid": (u.AssignUuid, (_Part("uuid", "uuid", *_STR),)),
    "upgrade-format-version": (
        u.UpgradeFormatVersion,
        (_Part("format_version", "format-version", *_INT),),
    ),
    "add-schema": (
        u.AddSchema,
        (
            _Part("schema", "schema", read_schema, write_schema),
            _Part("last_column_id", "last-column-id", *_INT, required=False),
        ),
    ),
    "set-current-schema": (u.SetCurrentSchema, (_Part("schema_id", "schema-id", *_INT),)),
    "remove-schemas": (u.RemoveSchemas, (_Part("schema_ids", "schema-ids", *_INTS),)),
    "add-spec": (u.AddPartitionSpec, (_Part("spec", "spec", _read_unbound_spec, _write_unbound_spec),)),
    "set-default-spec": (u.SetDefaultSpec, (_Part("spec_id", "spec-id", *_INT),)),
    "remove-partition-specs": (u.RemovePartitionSpecs, (_Part("spec_ids", "spec-ids", *_INTS),)),
    "add-sort-order": (u.AddSortOrder, (_Part("order", "sort-order", read_order, write_order),)),
    "set-default-sort-order": (u.SetDefaultSortOrder, (_Part("order_id", "sort-order-id", *_INT),)),
    "add-snapshot": (
        u.AddSnapshot,
        (_Part("snapshot", "snapshot", lambda raw, where: read(Snapshot, raw, where), _write_snapshot),),
    ),
    "remove-snapshots": (u.RemoveSnapshots, (_Part("snapshot_ids", "snapshot-ids", *_INTS),)),
    "set-snapshot-ref": (
        u.SetSnapshotRef,
        (_Part("name", "ref-name", *_STR), _Part("ref", "", _read_flat_ref, write)),
    ),
    "remove-snapshot-ref": (u.RemoveSnapshotRef, (_Part("name", "ref-name", *_STR),)),
    "set-properties": (
        u.SetProperties,
        (_Part("updates", "updates", _read_strings, dict, old_key="updated"),),
    ),
    "remove-properties": (
        u.RemoveProperties,
        (_Part("removals", "removals", *_STRS, old_key="removed"),),
    ),
    "set-location": (u.SetLocation, (_Part("location", "location", *_STR),)),
    "set-statistics": (
        u.SetStatistics,
        (_Part("statistics", "statistics", *_record(StatisticsFile)),),
    ),
    "remove-statistics": (u.RemoveStatistics, (_Part("snapshot_id", "snapshot-id", *_INT),)),
    "set-partition-statistics": (
        u.SetPartitionStatistics,
        (_Part("statistics", "partition-statistics", *_record(PartitionStatisticsFile)),),
    ),
    "remove-partition-statistics": (
        u.RemovePartitionStatistics,
        (_Part("snapshot_id", "snapshot-id", *_INT),),
    ),
    "add-encryption-key": (
        u.AddEncryptionKey,
        (_Part("key", "encryption-key", *_record(EncryptedKey)),),
    ),
    "remove-encryption-key": (u.RemoveEncryptionKey, (_Part("key_id", "key-id", *_STR),)),
    "add-view-version": (u.AddViewVersion, (_Part("version", "view-version", *_record(ViewVersion)),)),
    "set-current-view-version": (
        u.SetCurrentViewVersion,
        (_Part("version_id", "view-version-id", *_INT),),
    ),
}

_REQUIREMENTS: Final[dict[str, tuple[type, tuple[_Part, ...]]]] = {
    "assert-create": (q.AssertCreate, ()),
    "assert-table-uuid": (q.AssertTableUuid, (_Part("uuid", "uuid", *_STR),)),
    "assert-view-uuid": (q.AssertViewUuid, (_Part("uuid", "uuid", *_STR),)),
    "assert-ref-snapshot-id": (
        q.AssertRefSnapshotId,
        (
            _Part("ref", "ref", *_STR),
            _Part("snapshot_id", "snapshot-id", *_INT, required=False),
        ),
    ),
    "assert-last-assigned-field-id": (
        q.AssertLastAssignedFieldId,
        (_Part("last_assigned_field_id", "last-assigned-field-id", *_INT),),
    ),
    "assert-current-schema-id": (
        q.AssertCurrentSchemaId,
        (_Part("current_schema_id", "current-schema-id", *_INT),),
    ),
    "assert-last-assigned-partition-id": (
        q.AssertLastAssignedPartitionId,
        (_Part("last_assigned_partition_id", "last-assigned-partition-id", *_INT),),
    ),
    "assert-default-spec-id": (
        q.AssertDefaultSpecId,
        (_Part("default_spec_id", "default-spec-id", *_INT),),
    ),
    "assert-default-sort-order-id": (
        q.AssertDefaultSortOrderId,
        (_Part("default_sort_order_id", "default-sort-order-id", *_INT),),
    ),
}

_ACTIONS: Final = {kind: action for action, (kind, _) in _UPDATES.items()}
_ASSERTIONS: Final = {kind: name for name, (kind, _) in _REQUIREMENTS.items()}


def read_updates(raw: object, where: str = "updates") -> tuple[u.Update, ...]:
    """Read a list of updates."""
    updates: tuple[u.Update, ...] = _read_list(raw, where, "action", _UPDATES)
    return updates


def read_requirements(raw: object, where: str = "requirements") -> tuple[q.Requirement, ...]:
    """Read a list of requirements."""
    requirements: tuple[q.Requirement, ...] = _read_list(raw, where, "type", _REQUIREMENTS)
    return requirements


def write_updates(updates: Iterable[u.Update]) -> list[dict[str, Any]]:
    """Write a list of updates."""
    return [_write(each, "action", _ACTIONS[type(each)], _UPDATES) for each in updates]


def write_requirements(requirements: Iterable[q.Requirement]) -> list[dict[str, Any]]:
    """Write a list of requirements; a ref that must not exist is asserted with a null."""
    return [_write(each, "type", _ASSERTIONS[type(each)], _REQUIREMENTS) for each in requirements]


def _read_list(raw: object, where: str, tag: str, table: Mapping[str, tuple[type, tuple[_Part, ...]]]) -> Any:
    if not isinstance(raw, list):
        raise InvalidMetadata("expected a list", field=where)
    return tuple(_read(each, f"{where}[{position}]", tag, table) for position, each in enumerate(raw))


def _read(raw: object, where: str, tag: str, table: Mapping[str, tuple[type, tuple[_Part, ...]]]) -> Any:
    name = raw.get(tag) if isinstance(raw, dict) else raw
    if not isinstance(raw, dict) or not isinstance(name, str) or name.lower() not in table:
        raise InvalidMetadata(f"unknown {tag} {name!r:.80}", field=where, hint="A newer client may know it")
    kind, parts = table[name.lower()]
    values: dict[str, Any] = {}
    for part in parts:
        found = raw if part.key == "" else raw.get(part.key)
        if found is None and part.old_key is not None:
            found = raw.get(part.old_key)
        if found is None and part.required:
            raise InvalidMetadata(f"{part.key} is missing", field=where)
        values[part.name] = None if found is None else part.read(found, f"{where}.{part.key}")
    return kind(**values)


def _write(
    value: Any, tag: str, name: str, table: Mapping[str, tuple[type, tuple[_Part, ...]]]
) -> dict[str, Any]:
    document: dict[str, Any] = {tag: name}
    for part in table[name][1]:
        item = getattr(value, part.name)
        if part.key == "":
            # What a ref holds beside its own fields must not become another update.
            document = {**part.write(item), **document}
        elif item is not None:
            document[part.key] = part.write(item)
        elif tag == "type":
            document[part.key] = None
    if isinstance(value, u.SetStatistics):
        # Redundant and deprecated, but older servers refuse the update without it.
        document["snapshot-id"] = value.statistics.snapshot_id
    return document
