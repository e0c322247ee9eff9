"""Apply updates to table metadata: a pure function from one value to the next.

Everything that must not depend on when or where it runs comes in as an argument, and an update that has
nothing to change changes nothing: applying only such updates gives back the very same value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lakeplane.errors import InvalidChange, InvalidInput, InvalidMetadata, RequirementFailed
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import FORMAT_VERSIONS, ROW_LINEAGE_VERSION, TableMetadata, check_invariants
from lakeplane.iceberg.properties import number
from lakeplane.iceberg.snapshots import (
    MAIN,
    MetadataLogEntry,
    Ref,
    Snapshot,
    SnapshotLogEntry,
    ref_problem,
    without_v3_fields,
)
from lakeplane.iceberg.statistics import EncryptedKey
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import parse_location
from lakeplane.model.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    PartitionField,
    PartitionSpec,
    check_source,
    check_spec,
    column_in_the_way,
)
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.sorting import SortOrder, check_order
from lakeplane.model.transforms import Transform, UnknownTransform, Void

DEFAULT_FORMAT_VERSION: Final = 2
DEFAULT_PREVIOUS_VERSIONS: Final = 100
_CLOCK_SKEW_MS: Final = 60_000

_ANEW: Final = "Somebody else changed the table: reload and try again"


class _Draft:
    """A table in the middle of a change."""

    def __init__(self, base: TableMetadata | None, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.table = _BLANK if base is None else base
        # Kept while the updates run, so that "the last added" can be named and history corrected.
        self.last_added: dict[str, int] = {}
        self.added_snapshots: set[int] = set()
        self.passed_over: set[int] = set()

    def set(self, **changes: Any) -> None:
        self.table = msgspec.structs.replace(self.table, **changes)

    def last_added_id(self, kind: str) -> int:
        if kind in self.last_added:
            return self.last_added[kind]
        problem = f"no {kind} was added in this change"
        raise InvalidChange(problem)

    @property
    def schema(self) -> Schema:
        if self.table.current_schema_id == _MISSING:
            hint = "Add a schema and set it current first"
            raise InvalidChange("the table has no current schema yet", hint=hint)
        return self.table.schema


_MISSING: Final = -1

_BLANK: Final = TableMetadata(
    format_version=DEFAULT_FORMAT_VERSION,
    table_uuid=None,
    location="",
    last_updated_ms=0,
    last_column_id=0,
    schemas=(),
    current_schema_id=_MISSING,
    partition_specs=(),
    default_spec_id=_MISSING,
    last_partition_id=FIRST_PARTITION_FIELD_ID - 1,
    sort_orders=(),
    default_sort_order_id=_MISSING,
)
"""What a table starts from: the invariants hold for it only after the first change."""


def apply(base: TableMetadata | None, updates: Iterable[u.TableUpdate], *, now_ms: int) -> TableMetadata:
    """Apply updates in order; ``base`` is None for a table that is being created."""
    draft = _Draft(base, now_ms)
    for update in updates:
        try:
            _apply_one(draft, update)
        except InvalidChange:
            raise
        except (InvalidInput, InvalidMetadata) as error:
            raise InvalidChange(
                error.problem, source=error.source, field=error.field, hint=error.hint
            ) from None
    _correct_history(draft)
    if base is not None and draft.table == base:
        return base
    _date(draft)
    _require_complete(draft.table)
    _check_writable(draft)
    try:
        check_invariants(draft.table)
    except InvalidMetadata as error:
        raise InvalidChange(error.problem, field=error.field, hint=error.hint) from None
    return draft.table


def record_previous(metadata: TableMetadata, previous: TableMetadata, location: str) -> TableMetadata:
    """Log the metadata file that is about to be replaced; the log's length is a table property."""
    found = number(metadata.properties.get("write.metadata.previous-versions-max"))
    limit = DEFAULT_PREVIOUS_VERSIONS if found is None else max(1, found)
    entry = MetadataLogEntry(timestamp_ms=previous.last_updated_ms, metadata_file=location)
    log = (*metadata.metadata_log, entry)[-limit:]
    return msgspec.structs.replace(metadata, metadata_log=log)


def _apply_one(draft: _Draft, update: u.TableUpdate) -> None:  # noqa: C901, PLR0912 - one line per update
    match update:
        case u.AssignUuid(uuid):
            _assign_uuid(draft, uuid)
        case u.UpgradeFormatVersion(version):
            _upgrade(draft, version)
        case u.AddSchema(schema, last_column_id):
            _add_schema(draft, schema, last_column_id)
        case u.SetCurrentSchema(schema_id):
            _set_current_schema(draft, schema_id)
        case u.RemoveSchemas(ids):
            _check_unused(draft, ids)
            _remove(draft, "schemas", "schema_id", ids, draft.table.current_schema_id)
        case u.AddPartitionSpec(spec):
            _add_spec(draft, spec)
        case u.SetDefaultSpec(spec_id):
            _set_default(draft, "default_spec_id", "partition_specs", "spec_id", spec_id)
        case u.RemovePartitionSpecs(ids):
            _remove(draft, "partition_specs", "spec_id", ids, draft.table.default_spec_id)
        case u.AddSortOrder(order):
            _add_order(draft, order)
        case u.SetDefaultSortOrder(order_id):
            _set_default(draft, "default_sort_order_id", "sort_orders", "order_id", order_id)
        case u.AddSnapshot(snapshot):
            _add_snapshot(draft, snapshot)
        case u.RemoveSnapshots(ids):
            _remove_snapshots(draft, set(ids))
        case u.SetSnapshotRef(name, ref):
            _set_ref(draft, name, ref)
        case u.RemoveSnapshotRef(name):
            _remove_ref(draft, name)
        case u.SetProperties(changed):
            draft.set(properties=FrozenDict({**draft.table.properties, **changed}))
        case u.RemoveProperties(removed):
            kept = {key: value for key, value in draft.table.properties.items() if key not in removed}
            draft.set(properties=FrozenDict(kept))
        case u.SetLocation(location):
            draft.set(location=_without_slash(str(parse_location(location))))
        case u.SetStatistics(statistics) | u.SetPartitionStatistics(statistics):
            _set_statistics(draft, update, statistics)
        case u.RemoveStatistics(snapshot_id):
            _drop_of_snapshots(draft, "statistics", {snapshot_id})
        case u.RemovePartitionStatistics(snapshot_id):
            _drop_of_snapshots(draft, "partition_statistics", {snapshot_id})
        case u.AddEncryptionKey(key):
            _add_key(draft, key)
        case u.RemoveEncryptionKey(key_id):
            kept_keys = (key for key in draft.table.encryption_keys if key.key_id != key_id)
            draft.set(encryption_keys=tuple(kept_keys))
        case _:
            raise InvalidChange(f"not an update of a table: {type(update).__name__}")


def _without_slash(location: str) -> str:
    """A location is written without a slash at its end: others append their own, and would find two."""
    head = location.rstrip("/")
    return location if head.endswith(":") or not head else head


def _assign_uuid(draft: _Draft, uuid: str) -> None:
    if not uuid:
        raise InvalidChange("a uuid cannot be empty", field="table-uuid")
    if draft.table.table_uuid not in (None, uuid):
        raise InvalidChange("a table keeps its uuid for its life", field="table-uuid")
    draft.set(table_uuid=uuid)


def _upgrade(draft: _Draft, version: int) -> None:
    current = draft.table.format_version
    if version not in FORMAT_VERSIONS:
        hint = f"This release writes versions {FORMAT_VERSIONS[0]} to {FORMAT_VERSIONS[-1]}"
        raise InvalidChange(f"format version {version} is not supported", field="format-version", hint=hint)
    if version < current and (draft.base is not None or draft.table.schemas):
        problem = f"a v{current} table cannot go back to v{version}"
        raise InvalidChange(problem, field="format-version", hint="Copy its rows to a new table")
    draft.set(format_version=version)
    if version >= ROW_LINEAGE_VERSION > current:
        # What an older version carried under these names meant nothing in it.
        unknown = {key: item for key, item in draft.table.unknown.items() if key not in _LINEAGE_FIELDS}
        draft.set(unknown=FrozenDict(unknown))
        draft.set(next_row_id=0)


_LINEAGE_FIELDS: Final = ("next-row-id", "encryption-keys")


def _add_schema(draft: _Draft, schema: Schema, last_column_id: int | None) -> None:
    if last_column_id is not None and last_column_id < draft.table.last_column_id:
        problem = f"last column id {last_column_id} is behind {draft.table.last_column_id}"
        raise InvalidChange(problem, field="last-column-id")
    check_compatible(schema, draft.table.format_version)
    draft.set(last_column_id=max(draft.table.last_column_id, last_column_id or 0, schema.highest_field_id))
    same = next((each for each in draft.table.schemas if each.same_fields(schema)), None)
    if same is None:
        # A new table keeps the id that it was given; later ones count up.
        new_id = max((each.schema_id + 1 for each in draft.table.schemas), default=max(schema.schema_id, 0))
        same = msgspec.structs.replace(schema, schema_id=new_id)
        draft.set(schemas=(*draft.table.schemas, same))
    draft.last_added["schema"] = same.schema_id


def _set_current_schema(draft: _Draft, schema_id: int) -> None:
    wanted = draft.last_added_id("schema") if schema_id == u.LAST_ADDED else schema_id
    if all(each.schema_id != wanted for each in draft.table.schemas):
        raise InvalidChange(f"the table has no schema {wanted}", field="current-schema-id")
    draft.set(current_schema_id=wanted)


def _set_default(draft: _Draft, name: str, values: str, id_name: str, wanted: int) -> None:
    wanted = draft.last_added_id(id_name) if wanted == u.LAST_ADDED else wanted
    if all(getattr(each, id_name) != wanted for each in getattr(draft.table, values)):
        raise InvalidChange(f"the table has no {id_name} {wanted}", field=name.replace("_", "-"))
    draft.set(**{name: wanted})


def _check_unused(draft: _Draft, schema_ids: tuple[int, ...]) -> None:
    """Refuse to forget the schema that a snapshot must be read with."""
    for snapshot in draft.table.snapshots:
        if snapshot.schema_id in schema_ids:
            problem = f"schema {snapshot.schema_id} is that of snapshot {snapshot.snapshot_id}"
            raise InvalidChange(problem, field="schemas", hint="Expire the snapshot first")


def _remove(draft: _Draft, values: str, id_name: str, ids: tuple[int, ...], current: int) -> None:
    if current in ids:
        raise InvalidChange(f"{id_name} {current} is in use by the table", field=values.replace("_", "-"))
    draft.set(
        **{values: tuple(each for each in getattr(draft.table, values) if getattr(each, id_name) not in ids)}
    )


def _add_spec(draft: _Draft, spec: PartitionSpec) -> None:
    known: tuple[PartitionSpec, ...] = draft.table.partition_specs
    same = next((each for each in known if each.compatible(spec)), None)
    if same is None:
        fields = _with_field_ids(draft, spec.fields)
        new_id = max((each.spec_id + 1 for each in known), default=max(spec.spec_id, 0))
        same = msgspec.structs.replace(spec, spec_id=new_id, fields=fields)
        check_spec(same, draft.schema)
        if draft.table.format_version == 1:
            _check_sequential(same)
        draft.set(partition_specs=(*known, same))
        draft.set(last_partition_id=max(draft.table.last_partition_id, same.highest_field_id))
    draft.last_added["spec_id"] = same.spec_id


def _with_field_ids(draft: _Draft, fields: tuple[PartitionField, ...]) -> tuple[PartitionField, ...]:
    """Assign ids: a rule that the table has used keeps its id, so that partitions stay comparable."""
    used = [field for spec in draft.table.partition_specs for field in spec.fields]
    taken = {field.field_id for field in fields}
    next_id = max(draft.table.last_partition_id, *taken) if taken else draft.table.last_partition_id
    result = []
    for field in fields:
        if field.field_id == u.UNASSIGNED:
            same = (each.field_id for each in used if each.same_rule(field) and each.field_id not in taken)
            field_id = next(same, None)
            if field_id is None:
                next_id += 1
                field_id = next_id
            taken.add(field_id)
            result.append(msgspec.structs.replace(field, field_id=field_id))
            continue
        same_id = (each for each in used if each.field_id == field.field_id)
        clash = next((each for each in same_id if not _interchangeable(each, field)), None)
        if clash is not None and draft.table.format_version > 1:
            problem = f"the id {field.field_id} belongs to {clash.name!r}, which has other values"
            raise InvalidChange(problem, field=f"partition field {field.name!r}")
        result.append(field)
    return tuple(result)


def _interchangeable(one: PartitionField, other: PartitionField) -> bool:
    """Whether two fields may share an id: their values are the same, or void stands for a dropped one."""
    dropped = isinstance(one.transform, Void) or isinstance(other.transform, Void)
    return one.source_ids == other.source_ids and (dropped or one.transform == other.transform)


def _check_sequential(spec: PartitionSpec) -> None:
    expected = range(FIRST_PARTITION_FIELD_ID, FIRST_PARTITION_FIELD_ID + len(spec.fields))
    if [field.field_id for field in spec.fields] != list(expected):
        hint = (
            "Keep the old fields in place (as void when unused) and add new ones at the end, or upgrade to v2"
        )
        raise InvalidChange("partition field ids of a v1 table must count up from 1000", hint=hint)


def _add_order(draft: _Draft, order: SortOrder) -> None:
    known: tuple[SortOrder, ...] = draft.table.sort_orders
    same = next((each for each in known if each.fields == order.fields), None)
    if same is None:
        new_id = 0 if order.is_unsorted else max((each.order_id + 1 for each in known), default=1)
        same = msgspec.structs.replace(order, order_id=max(new_id, 0 if order.is_unsorted else 1))
        check_order(same, draft.schema)
        draft.set(sort_orders=(*known, same))
    draft.last_added["order_id"] = same.order_id


def _add_snapshot(draft: _Draft, snapshot: Snapshot) -> None:
    place = f"snapshot {snapshot.snapshot_id}"
    if (
        draft.table.current_schema_id == _MISSING
        or not draft.table.partition_specs
        or not draft.table.sort_orders
    ):
        raise InvalidChange("a table needs a schema, a spec and a sort order before a snapshot", field=place)
    if any(each.snapshot_id == snapshot.snapshot_id for each in draft.table.snapshots):
        raise InvalidChange("the id is taken", field=place)
    version, last = draft.table.format_version, draft.table.last_sequence_number
    if version < ROW_LINEAGE_VERSION:
        snapshot = without_v3_fields(snapshot)
    if version == 1:
        snapshot = msgspec.structs.replace(snapshot, sequence_number=0)
    elif snapshot.sequence_number <= last and not _is_first_of_its_number(draft.table, snapshot):
        # A writer on another branch was faster; his branch's requirement does not tell that.
        problem = f"sequence number {snapshot.sequence_number} is not above {last}"
        raise RequirementFailed(problem, field=place, hint=_ANEW)
    if version > 1 and snapshot.manifest_list is None:
        raise InvalidChange("manifest-list is missing", field=place)
    if version > 1 and "operation" not in (snapshot.summary or {}):
        raise InvalidChange("summary.operation is missing", field=place)
    if version >= ROW_LINEAGE_VERSION:
        _assign_rows(draft, snapshot, place)
    draft.set(last_sequence_number=max(last, snapshot.sequence_number))
    draft.set(snapshots=(*draft.table.snapshots, snapshot))
    draft.added_snapshots.add(snapshot.snapshot_id)


def _is_first_of_its_number(table: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether a snapshot may have an old number: one without a parent, if nobody else has it."""
    number = snapshot.sequence_number
    taken = number and any(each.sequence_number == number for each in table.snapshots)
    return snapshot.parent_snapshot_id is None and not taken


def _assign_rows(draft: _Draft, snapshot: Snapshot, place: str) -> None:
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        raise InvalidChange("a v3 snapshot needs first-row-id and added-rows", field=place)
    if snapshot.added_rows < 0:
        raise InvalidChange("added-rows cannot be negative", field=place)
    if snapshot.first_row_id < draft.table.next_row_id:
        problem = f"first-row-id {snapshot.first_row_id} is behind the table's {draft.table.next_row_id}"
        raise RequirementFailed(problem, field=place, hint=_ANEW)
    # From the snapshot's own first id: a gap before it must not be handed out again.
    draft.set(next_row_id=snapshot.first_row_id + snapshot.added_rows)


def _remove_snapshots(draft: _Draft, ids: set[int]) -> None:
    draft.set(snapshots=tuple(each for each in draft.table.snapshots if each.snapshot_id not in ids))
    _drop_of_snapshots(draft, "statistics", ids)
    _drop_of_snapshots(draft, "partition_statistics", ids)
    for name in [name for name, ref in draft.table.refs.items() if ref.snapshot_id in ids]:
        _remove_ref(draft, name)


def _drop_of_snapshots(draft: _Draft, values: str, ids: set[int]) -> None:
    draft.set(**{values: tuple(each for each in getattr(draft.table, values) if each.snapshot_id not in ids)})


def _set_statistics(draft: _Draft, update: u.TableUpdate, statistics: Any) -> None:
    values = "statistics" if isinstance(update, u.SetStatistics) else "partition_statistics"
    if any(each == statistics for each in getattr(draft.table, values)):
        return
    _drop_of_snapshots(draft, values, {statistics.snapshot_id})
    draft.set(**{values: (*getattr(draft.table, values), statistics)})


def _add_key(draft: _Draft, key: EncryptedKey) -> None:
    if draft.table.format_version < ROW_LINEAGE_VERSION:
        hint = "Upgrade the table to format version 3"
        raise InvalidChange("encryption keys need format version 3", field="encryption-keys", hint=hint)
    if all(known.key_id != key.key_id for known in draft.table.encryption_keys):
        draft.set(encryption_keys=(*draft.table.encryption_keys, key))


def _set_ref(draft: _Draft, name: str, ref: Ref) -> None:
    if problem := ref_problem(name, ref):
        raise InvalidChange(problem, field=f"ref {name!r}")
    snapshot = next((each for each in draft.table.snapshots if each.snapshot_id == ref.snapshot_id), None)
    if snapshot is None:
        raise InvalidChange(f"there is no snapshot {ref.snapshot_id}", field=f"ref {name!r}")
    draft.set(refs=FrozenDict({**draft.table.refs, name: ref}))
    if name != MAIN or draft.table.current_snapshot_id == ref.snapshot_id:
        return
    if draft.table.current_snapshot_id in draft.added_snapshots:
        draft.passed_over.add(draft.table.current_snapshot_id)
    draft.set(current_snapshot_id=ref.snapshot_id)
    # A rollback makes an old snapshot current, and does so now.
    is_new = ref.snapshot_id in draft.added_snapshots
    log = draft.table.snapshot_log
    when = _after(snapshot.timestamp_ms if is_new else draft.now_ms, log[-1:])
    draft.set(snapshot_log=(*log, SnapshotLogEntry(timestamp_ms=when, snapshot_id=ref.snapshot_id)))


def _remove_ref(draft: _Draft, name: str) -> None:
    draft.set(refs=FrozenDict({key: ref for key, ref in draft.table.refs.items() if key != name}))
    if name == MAIN:
        draft.set(current_snapshot_id=None)


def _correct_history(draft: _Draft) -> None:
    """Keep the snapshot log true after snapshots were passed over or removed.

    A snapshot that was added and replaced within one change was never seen by a reader. One that was removed
    takes the log before it along: with a gap, time travel would name a snapshot that was not current then.
    """
    present = {snapshot.snapshot_id for snapshot in draft.table.snapshots}
    before = set() if draft.base is None else {snapshot.snapshot_id for snapshot in draft.base.snapshots}
    removed = bool((before | draft.added_snapshots) - present)
    passed_over = draft.passed_over - {draft.table.current_snapshot_id}
    if not removed and not passed_over:
        return
    log: list[SnapshotLogEntry] = []
    for entry in draft.table.snapshot_log:
        if entry.snapshot_id in present:
            if entry.snapshot_id not in passed_over:
                log.append(entry)
        elif removed:
            log.clear()
    draft.set(snapshot_log=tuple(log))


def _date(draft: _Draft) -> None:
    """Date the change: other implementations cannot open a table whose times run backwards."""
    table, base = draft.table, draft.base
    new = [each.timestamp_ms for each in table.snapshots if each.snapshot_id in draft.added_snapshots]
    when = _after(draft.now_ms if not new else new[-1], table.snapshot_log[-1:])
    if base is not None and when < base.last_updated_ms - _CLOCK_SKEW_MS:
        when = base.last_updated_ms
    draft.set(last_updated_ms=when)


def _after(when: int, log: tuple[SnapshotLogEntry, ...]) -> int:
    """A time for what comes after the entries of a log: clocks differ, and others mind more than a minute."""
    last = max((entry.timestamp_ms for entry in log), default=when)
    return last if when < last - _CLOCK_SKEW_MS else when


def _require_complete(table: TableMetadata) -> None:
    needed = {
        "location": bool(table.location),
        "current-schema-id": table.current_schema_id != _MISSING,
        "default-spec-id": table.default_spec_id != _MISSING,
        "default-sort-order-id": table.default_sort_order_id != _MISSING,
    }
    for name, there in needed.items():
        if not there:
            hint = "A new table needs a location, a schema, a spec and a sort order"
            raise InvalidChange(f"{name} is missing", hint=hint)
    if table.table_uuid is None and table.format_version > 1:
        raise InvalidChange("table-uuid is missing", hint="Assign a uuid together with the upgrade")


def _check_writable(draft: _Draft) -> None:
    """Refuse a change after which nobody could write: the defaults must fit the current schema.

    Only a change of theirs is looked at: a table that others left in such a state can be read and mended.
    """
    table, base = draft.table, draft.base
    _check_names(table, base)
    if base is not None and (table.schema, table.partition_spec, table.sort_order) == (
        base.schema,
        base.partition_spec,
        base.sort_order,
    ):
        return
    for field in table.partition_spec.fields:
        if field.is_known and not isinstance(field.transform, Void):
            place = f"partition field {field.name!r}"
            _check_source(table, field.source_id, field.transform, place)
    for key in table.sort_order.fields:
        if len(key.source_ids) == 1 and not isinstance(key.transform, UnknownTransform):
            _check_source(table, key.source_id, key.transform, f"sort order {table.default_sort_order_id}")


def _check_names(table: TableMetadata, base: TableMetadata | None) -> None:
    """Refuse new columns and partition fields that stand in each other's way."""
    if base is not None and (table.schema, table.partition_specs) == (base.schema, base.partition_specs):
        return
    fields = (field for spec in table.partition_specs for field in spec.fields)
    old_fields = (field for spec in base.partition_specs for field in spec.fields) if base else ()
    known = {field for field in old_fields if base is not None and column_in_the_way(field, base.schema)}
    for field in fields:
        if field not in known and column_in_the_way(field, table.schema) is not None:
            problem = f"a column and the partition field {field.field_id} cannot both have this name"
            raise InvalidChange(problem, field=field.name, hint="Give one of them another name")


def _check_source(table: TableMetadata, source_id: int, transform: Transform, place: str) -> None:
    try:
        check_source(table.schema, source_id, transform, place)
    except InvalidInput as error:
        hint = "Change the default partition spec or sort order first"
        raise InvalidChange(error.problem, field=place, hint=hint) from None
