"""Evolving a table: steps as values, and the pure function that turns them into a proposal.

All steps of one evolution are published together. They are applied to the table as it is at that moment,
so that two people who add two columns at once both succeed, and two who rename the same one do not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from lakeplane.errors import InvalidChange, InvalidInput
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import FORMAT_VERSION, check_names, number
from lakeplane.iceberg.refs import Proposal
from lakeplane.model.evolution import EvolutionRules, SchemaChange, evolve
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from lakeplane.model.rules_text import parse_partition_field, parse_sort_key
from lakeplane.model.schema import Schema
from lakeplane.model.schema_union import union_by_name
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.transforms import Void


class AddPartitionField(msgspec.Struct, frozen=True):
    """Partition new files also by a rule such as ``days(at)``."""

    rule: str
    name: str | None = None


class RemovePartitionField(msgspec.Struct, frozen=True):
    """Partition new files no more by a field, given by its name or its rule."""

    field: str


class RenamePartitionField(msgspec.Struct, frozen=True):
    """Give a partition field another name."""

    field: str
    name: str


class UnionByName(msgspec.Struct, frozen=True):
    """Widen the schema until rows of another one fit, matched by name after all other steps."""

    schema: Schema


class SetSortOrder(msgspec.Struct, frozen=True):
    """Sort new files by these keys; by none, leave them as they come."""

    keys: tuple[str, ...]


class SetProperties(msgspec.Struct, frozen=True):
    """Set properties."""

    updates: FrozenDict[str, str]


class RemoveProperties(msgspec.Struct, frozen=True):
    """Remove properties."""

    names: tuple[str, ...]


class SetLocation(msgspec.Struct, frozen=True):
    """Put new files elsewhere; old ones stay."""

    location: str


class Upgrade(msgspec.Struct, frozen=True):
    """Raise the format version."""

    format_version: int


PartitionStep: TypeAlias = AddPartitionField | RemovePartitionField | RenamePartitionField
Step: TypeAlias = (
    SchemaChange
    | UnionByName
    | PartitionStep
    | SetSortOrder
    | SetProperties
    | RemoveProperties
    | SetLocation
    | Upgrade
)

_PARTITION_STEPS = (AddPartitionField, RemovePartitionField, RenamePartitionField)


def propose_evolution(
    table: TableMetadata,
    steps: Sequence[Step],
    *,
    allow_incompatible: bool = False,
    case_sensitive: bool = True,
) -> Proposal:
    """Turn steps into what must hold and what is to happen."""
    requirements: list[q.Requirement] = [q.AssertTableUuid(table.table_uuid)] if table.table_uuid else []
    steps = [each for step in steps for each in _as_upgrade(step)]
    updates = [update for step in steps if (update := _plain_update(step)) is not None]
    version = max([table.format_version, *(s.format_version for s in steps if isinstance(s, Upgrade))])
    partition_steps = [step for step in steps if isinstance(step, _PARTITION_STEPS)]
    order = next((step for step in reversed(steps) if isinstance(step, SetSortOrder)), None)
    fields = _follow(table.partition_spec.fields, partition_steps, table.schema, version)
    rules = EvolutionRules(
        format_version=version,
        last_column_id=table.last_column_id,
        specs=table.partition_specs,
        # A column may go together with the partition field or sort key that is made from it.
        default_spec=PartitionSpec(0, tuple(each for each in fields if isinstance(each, PartitionField))),
        default_order=table.sort_order if order is None else UNSORTED,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
    )
    schema_steps = [step for step in steps if isinstance(step, get_args(SchemaChange))]
    schema, last_column_id = evolve(table.schema, schema_steps, rules)
    for step in steps:
        if isinstance(step, UnionByName):
            known = replace(rules, last_column_id=last_column_id)
            schema, last_column_id = union_by_name(schema, step.schema, known)
    if schema is not table.schema:
        requirements.append(q.AssertCurrentSchemaId(table.current_schema_id))
        requirements.append(q.AssertLastAssignedFieldId(table.last_column_id))
        updates += [u.AddSchema(schema, last_column_id), u.SetCurrentSchema()]
    if partition_steps:
        requirements.append(q.AssertDefaultSpecId(table.default_spec_id))
        requirements.append(q.AssertLastAssignedPartitionId(table.last_partition_id))
        updates += [u.AddPartitionSpec(_resolve(fields, schema, version)), u.SetDefaultSpec()]
    if order is not None:
        keys = tuple(parse_sort_key(text, schema) for text in order.keys)
        requirements.append(q.AssertDefaultSortOrderId(table.default_sort_order_id))
        updates += [u.AddSortOrder(SortOrder(1 if keys else 0, keys)), u.SetDefaultSortOrder()]
    return tuple(requirements), tuple(updates)


def _as_upgrade(step: Step) -> list[Step]:
    """Users know the format version as a property: setting it upgrades the table."""
    if not isinstance(step, SetProperties):
        return [step]
    check_names(step.updates)
    text = step.updates.get(FORMAT_VERSION)
    if text is None:
        return [step]
    version = number(text)
    if version is None:
        raise InvalidChange(f"not a format version: {text!r}", field=FORMAT_VERSION)
    rest = {key: value for key, value in step.updates.items() if key != FORMAT_VERSION}
    return [Upgrade(version), *([SetProperties(FrozenDict(rest))] if rest else [])]


def _plain_update(step: Step) -> u.TableUpdate | None:
    """The update of a step that needs nothing of the table."""
    match step:
        case Upgrade(format_version):
            return u.UpgradeFormatVersion(format_version)
        case SetProperties(changed):
            return u.SetProperties(changed)
        case RemoveProperties(names):
            return u.RemoveProperties(names)
        case SetLocation(location):
            return u.SetLocation(location)
        case _:
            return None


_Field: TypeAlias = PartitionField | AddPartitionField


def _follow(
    fields: Sequence[PartitionField], steps: Sequence[PartitionStep], schema: Schema, version: int
) -> list[_Field]:
    """Apply partition steps in order; what is added stays text until the new schema is known."""
    result: list[_Field] = list(fields)
    for step in steps:
        match step:
            case AddPartitionField():
                result.append(step)
            case RemovePartitionField(field):
                position = _find(result, field, schema)
                found = result[position]
                if version == 1 and isinstance(found, PartitionField):
                    # v1 counts the fields of a spec: one that goes must leave a void in its place.
                    result[position] = replace(found, transform=Void())
                else:
                    del result[position]
            case RenamePartitionField(field, name):
                position = _find(result, field, schema)
                result[position] = replace(result[position], name=name)
    return result


def _find(fields: Sequence[_Field], wanted: str, schema: Schema) -> int:
    """The position of a field, given by its name or its rule."""
    for position, field in enumerate(fields):
        if field.name == wanted or (isinstance(field, AddPartitionField) and field.rule == wanted):
            return position
    with contextlib.suppress(InvalidInput):
        rule = parse_partition_field(wanted, schema)
        for position, field in enumerate(fields):
            if isinstance(field, PartitionField) and field.same_rule(rule):
                return position
    known = ", ".join(str(field.name) for field in fields) or "none"
    raise InvalidChange(f"no partition field {wanted!r}", hint=f"There is {known}")


def _resolve(fields: Sequence[_Field], schema: Schema, version: int) -> PartitionSpec:
    resolved: list[PartitionField] = []
    for field in fields:
        if isinstance(field, PartitionField):
            resolved.append(field)
            continue
        parsed = parse_partition_field(field.rule, schema, evolving=True)
        if field.name is not None:
            parsed = replace(parsed, name=field.name)
        if any(each.same_rule(parsed) for each in resolved):
            raise InvalidChange(f"the table is partitioned by {field.rule} already")
        if version == 1:
            parsed = replace(parsed, field_id=FIRST_PARTITION_FIELD_ID + len(resolved))
        resolved.append(parsed)
    return PartitionSpec(0, tuple(resolved))
