"""How a schema becomes the next one: changes as values, and the rules that they must keep.

``evolve`` applies changes one after another, each to the outcome of those before it: after ``a`` has been
renamed to ``b``, the column is called ``b``; a column that was added can be moved, changed or dropped. Ids
are given in the order of Iceberg's reference implementation and never given twice. What the format forbids
raises ``InvalidChange``, and nothing has changed.

A path is dotted text (``points.element.x``, or ``points.x`` for short) or a tuple of names; only a tuple can
name a new column with a dot in its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from lakeplane.errors import InvalidChange, InvalidInput, LakeplaneError
from lakeplane.model.partitioning import UNPARTITIONED, PartitionSpec, column_in_the_way
from lakeplane.model.promotion import can_promote, promote_default, ways_out
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.schema_paths import (
    Path,
    called,
    find_field,
    is_in_key,
    is_named,
    number_fields,
    path_text,
    siblings_in,
    with_field,
    with_fields,
    with_siblings,
)
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.transforms import Void, accepts, same_after_promotion
from lakeplane.model.types import (
    Field,
    List,
    Map,
    Struct,
    Type,
    children,
    defaults_to_null_only,
    walk,
)
from lakeplane.model.values import check_value, coerce


class First(msgspec.Struct, frozen=True):
    """Before all other fields of the struct."""


class Before(msgspec.Struct, frozen=True):
    """Right before another field of the same struct."""

    name: Path


class After(msgspec.Struct, frozen=True):
    """Right after another field of the same struct."""

    name: Path


Position: TypeAlias = First | Before | After


class AddColumn(msgspec.Struct, frozen=True):
    """A new column, or a new field of a struct; the ids inside ``type`` are given anew.

    ``default`` is what rows written before have in the column, and at first what later rows get.
    """

    path: Path
    type: Type
    required: bool = False
    doc: str | None = None
    default: Any = None
    position: Position | None = None


class DropColumn(msgspec.Struct, frozen=True):
    """A column that is taken away, with everything inside it."""

    path: Path


class RenameColumn(msgspec.Struct, frozen=True):
    """A column that gets another name, in the same place."""

    path: Path
    name: str


class MoveColumn(msgspec.Struct, frozen=True):
    """A column that gets another position, in the same struct."""

    path: Path
    position: Position


class UpdateColumn(msgspec.Struct, frozen=True):
    """A column with a wider type, another nullability, doc or write default; what is unset stays."""

    path: Path
    type: Type | UnsetType = UNSET
    required: bool | UnsetType = UNSET
    doc: str | UnsetType | None = UNSET
    write_default: Any = UNSET


class SetIdentifierFields(msgspec.Struct, frozen=True):
    """The columns that identify a row from now on; without paths, none."""

    paths: tuple[Path, ...] = ()


SchemaChange: TypeAlias = (
    AddColumn | DropColumn | RenameColumn | MoveColumn | UpdateColumn | SetIdentifierFields
)


class EvolutionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the state of a table, and its user, ask of the next schema.

    Attributes:
        format_version: The format version of the table.
        last_column_id: The highest id that the table ever gave to a field.
        specs: All partition specs of the table: none may be broken by a type or a name.
        default_spec: The partition spec of new files: its source columns cannot be dropped.
        default_order: The sort order of new files: its source columns cannot be dropped.
        allow_incompatible: Permit what old rows may contradict: required columns without a default.
        case_sensitive: Whether ``ID`` and ``id`` are two names.
    """

    format_version: int
    last_column_id: int
    specs: tuple[PartitionSpec, ...] = ()
    default_spec: PartitionSpec = UNPARTITIONED
    default_order: SortOrder = UNSORTED
    allow_incompatible: bool = False
    case_sensitive: bool = True

    @property
    def all_specs(self) -> tuple[PartitionSpec, ...]:
        """The specs of the table, the default one among them."""
        return self.specs if self.default_spec in self.specs else (*self.specs, self.default_spec)


class _State(NamedTuple):
    """A schema on its way, the last id that was given, and the columns added on the way."""

    schema: Schema
    last_id: int
    added: frozenset[int] = frozenset()

    def find(self, path: Path, rules: EvolutionRules) -> Field:
        return find_field(self.schema, path, case_sensitive=rules.case_sensitive)


def evolve(schema: Schema, changes: Iterable[SchemaChange], rules: EvolutionRules) -> tuple[Schema, int]:
    """Apply changes in order; give the next schema, still with the old schema id, and the last column id."""
    steps = tuple(changes)
    choices = [number for number, step in enumerate(steps) if isinstance(step, SetIdentifierFields)]
    last_choice = max(choices, default=-1)
    state = _State(schema, max(rules.last_column_id, schema.highest_field_id))
    for number, step in enumerate(steps):
        match step:
            case AddColumn():
                state = _add(state, step, rules)
            case DropColumn():
                state = _drop(state, step, rules, keeps_identifiers=number > last_choice)
            case RenameColumn():
                state = _rename(state, step, rules)
            case MoveColumn():
                state = _move(state, step, rules)
            case UpdateColumn():
                state = _update(state, step, rules)
            case SetIdentifierFields():
                ids = tuple(dict.fromkeys(state.find(path, rules).id for path in step.paths))
                state = state._replace(schema=with_fields(state.schema, state.schema.fields, ids))
    _check_result(schema, state.schema, rules)
    return (schema if state.schema == schema else state.schema), state.last_id


def assign_fresh_ids(schema: Schema, *, base: Schema | None = None, last_column_id: int = 0) -> Schema:
    """Number the fields of a new table's schema from 1 on: the fields of a struct first, then what is inside.

    For a schema that replaces another one, ``base``, columns of the same name keep the id they have there,
    and the others are numbered after the table's ``last_column_id``.
    """
    known = {} if base is None else {base.name_of(field.id): field.id for field in base.all_fields}
    fresh = itertools.count(last_column_id + 1)
    numbered = number_fields(schema.struct, lambda name: known[name] if name in known else next(fresh))
    fields = children(numbered)
    pairs = zip(walk(schema.fields), walk(fields), strict=True)
    moved = {old.id: new.id for old, new in pairs}
    return with_fields(schema, fields, tuple(moved[each] for each in schema.identifier_field_ids))


def _add(state: _State, change: AddColumn, rules: EvolutionRules) -> _State:
    parent, name = _place_of_new(state.schema, change.path, rules)
    place = name if parent is None else f"{state.schema.name_of(parent.id)}.{name}"
    siblings = state.schema.fields if parent is None else children(parent.type)
    _check_free(name, siblings, place, rules)
    ids = itertools.count(state.last_id + 1)
    field_id = next(ids)
    type_ = number_fields(change.type, lambda _name: next(ids))
    default = _checked_default(type_, change.default, place)
    field = Field(field_id, name, type_, change.required, change.doc, default, default)
    if not rules.allow_incompatible:
        _check_old_rows_fit(field, place)
    schema = with_siblings(state.schema, parent, (*siblings, field))
    state = _State(schema, next(ids) - 1, state.added | {each.id for each in walk((field,))})
    if change.position is None:
        return state
    return _put(state, field, change.position, place, rules)


def _drop(state: _State, change: DropColumn, rules: EvolutionRules, *, keeps_identifiers: bool) -> _State:
    schema = state.schema
    field = state.find(change.path, rules)
    place = schema.name_of(field.id)
    parent = _struct_around(schema, field, place)
    gone = {each.id for each in walk((field,))}
    identifiers = [each for each in schema.identifier_field_ids if each in gone]
    if identifiers and keeps_identifiers:
        names = ", ".join(map(schema.name_of, identifiers))
        _refuse(
            f"cannot drop it, rows are identified by {names}",
            place,
            "Choose other identifier fields in the same change",
        )
    for key in rules.default_spec.fields:
        if gone.intersection(key.source_ids) and not isinstance(key.transform, Void):
            problem = f"cannot drop it, the partition field {key.name!r} is made from it"
            _refuse(problem, place, f"Remove {key.name!r} from the partition spec first")
    for sort_key in rules.default_order.fields:
        if gone.intersection(sort_key.source_ids):
            hint = "Replace the sort order first"
            _refuse(f"cannot drop it, the table is sorted by it ({sort_key})", place, hint)
    rest = tuple(each for each in siblings_in(schema, parent) if each.id != field.id)
    remaining = tuple(each for each in schema.identifier_field_ids if each not in gone)
    fields = with_siblings(schema, parent, rest).fields
    return state._replace(schema=with_fields(schema, fields, remaining))


def _rename(state: _State, change: RenameColumn, rules: EvolutionRules) -> _State:
    field = state.find(change.path, rules)
    place = state.schema.name_of(field.id)
    parent = _struct_around(state.schema, field, place)
    others = [each for each in siblings_in(state.schema, parent) if each.id != field.id]
    _check_free(change.name, others, place, rules)
    return state._replace(schema=with_field(state.schema, replace(field, name=change.name)))


def _move(state: _State, change: MoveColumn, rules: EvolutionRules) -> _State:
    field = state.find(change.path, rules)
    return _put(state, field, change.position, state.schema.name_of(field.id), rules)


def _put(state: _State, field: Field, position: Position, place: str, rules: EvolutionRules) -> _State:
    parent = _struct_around(state.schema, field, place)
    siblings = siblings_in(state.schema, parent)
    rest = [each for each in siblings if each.id != field.id]
    match position:
        case First():
            index = 0
        case Before(name) | After(name):
            beside = _sibling(state, siblings, name, rules)
            if beside.id == field.id:
                _refuse("a column cannot be moved beside itself", place)
            if beside not in rest:
                beside_name = state.schema.name_of(beside.id)
                hint = "A column can only be moved among the fields of its own struct"
                _refuse(f"{beside_name} is not in the same struct", place, hint)
            index = rest.index(beside) + isinstance(position, After)
    rest.insert(index, field)
    return state._replace(schema=with_siblings(state.schema, parent, tuple(rest)))


def _sibling(state: _State, siblings: tuple[Field, ...], name: Path, rules: EvolutionRules) -> Field:
    """The field a position speaks of: a name inside the struct, or a path from the top."""
    if isinstance(name, str):
        found = called(name, siblings, case_sensitive=rules.case_sensitive)
        if len(found) == 1:
            return found[0]
    return state.find(name, rules)


def _update(state: _State, change: UpdateColumn, rules: EvolutionRules) -> _State:
    old = state.find(change.path, rules)
    place = state.schema.name_of(old.id)
    new, last_id = old, state.last_id
    if change.type is not UNSET and change.type != old.type:
        new, last_id = _widen(state, old, change.type, rules)
    if change.required is not UNSET and change.required != old.required:
        is_new_with_default = old.id in state.added and old.initial_default is not None
        if change.required and not (rules.allow_incompatible or is_new_with_default):
            hint = "Rows may hold nulls in it: if you know that none does, pass allow_incompatible=True"
            _refuse("an optional column cannot become required", place, hint)
        new = replace(new, required=change.required)
    if change.doc is not UNSET:
        new = replace(new, doc=change.doc)
    if change.write_default is not UNSET:
        new = replace(new, write_default=_checked_default(new.type, change.write_default, place))
    lost = new.initial_default is not None and new.write_default is None
    if lost and new.required and old.id in state.added:
        _refuse("a required column is added with both defaults", place, "Keep the write default")
    if new == old:
        return state
    _check_not_in_key(state.schema, old, place)
    if (new.doc, new.write_default) != (old.doc, old.write_default) and not is_named(state.schema, old):
        _refuse("only a column, or the field of a struct, has a doc and a default", place)
    return state._replace(schema=with_field(state.schema, new), last_id=last_id)


def _widen(state: _State, field: Field, type_: Type, rules: EvolutionRules) -> tuple[Field, int]:
    """Give a field its wider type, with its defaults, and the last id that was needed for it."""
    place = state.schema.name_of(field.id)
    if not can_promote(field.type, type_, rules.format_version):
        _refuse(f"{field.type} cannot become {type_}", place, ways_out(field.type, rules.format_version))
    for spec in rules.all_specs:
        for key in spec.fields:
            unsafe = not same_after_promotion(key.transform, field.type, type_)
            if field.id in key.source_ids and unsafe:
                problem = f"{field.type} cannot become {type_}: {key.transform}, the partition field "
                problem += f"{key.name!r} of spec {spec.spec_id}, would have other values"
                _refuse(problem, place, "Add a column of the new type instead")
    for sort_key in rules.default_order.fields:
        if field.id in sort_key.source_ids and not accepts(sort_key.transform, type_):
            _refuse(f"the table is sorted by it ({sort_key})", place, "Replace the sort order first")
    ids = itertools.count(state.last_id + 1)
    numbered = number_fields(type_, lambda _name: next(ids))
    initial, write = (
        promote_default(field.type, type_, value, place)
        for value in (field.initial_default, field.write_default)
    )
    return replace(field, type=numbered, initial_default=initial, write_default=write), next(ids) - 1


def _checked_default(type_: Type, value: Any, place: str) -> Any:
    if value is None:
        return None
    if defaults_to_null_only(type_):
        _refuse(f"a column of type {type_} can only default to null", place)
    if isinstance(type_, Struct) and value != {}:
        hint = "Give the default {} here, and a default to each field inside"
        _refuse("the default of a struct holds no field values", place, hint)
    try:
        canonical = coerce(type_, value)
        check_value(type_, canonical)
    except InvalidInput as error:
        problem = f"the default does not fit {type_}: {error.problem}"
        raise InvalidChange(problem, field=place, hint=error.hint) from None
    return canonical


def _check_old_rows_fit(field: Field, place: str) -> None:
    """Refuse a required field that rows written before it have no value for."""
    if field.required and field.initial_default is None:
        hint = "Give it a default (format version 3), make it optional, or pass allow_incompatible=True"
        _refuse("a required column needs a default for the rows that are there", place, hint)
    if field.initial_default is not None and isinstance(field.type, Struct):
        # A default of {} takes the values of its fields from their own defaults.
        for child in field.type.fields:
            _check_old_rows_fit(child, f"{place}.{child.name}")


def _check_result(old: Schema, new: Schema, rules: EvolutionRules) -> None:
    try:
        check_compatible(new, rules.format_version)
    except LakeplaneError as error:
        raise InvalidChange(error.problem, field=error.field, hint=error.hint) from None
    for spec in rules.all_specs:
        for key in spec.fields:
            column, before = column_in_the_way(key, new), old.find_or_none(key.name)
            if column is not None and (before is None or before.id != column.id):
                problem = f"a partition field of spec {spec.spec_id} has this name already"
                _refuse(problem, key.name, "Choose another name for the column")


def _place_of_new(schema: Schema, path: Path, rules: EvolutionRules) -> tuple[Field | None, str]:
    """The struct that a new column goes into, None for the top, and the column's name."""
    if isinstance(path, str):
        head, _, name = path.rpartition(".")
        outer: Path = head
    else:
        outer, name = path[:-1], path[-1] if path else ""
    if not outer:
        return None, name
    try:
        parent = find_field(schema, outer, case_sensitive=rules.case_sensitive)
    except InvalidChange as error:
        hint = f"{error.hint}. A column with a dot in its name: give its path as a tuple"
        raise InvalidChange(error.problem, field=path_text(path), hint=hint) from None
    match parent.type:
        case List():
            parent = schema.field(parent.type.element_id)
        case Map():
            parent = schema.field(parent.type.value_id)
    if not isinstance(parent.type, Struct):
        problem = f"{schema.name_of(parent.id)} is no struct but {parent.type}"
        _refuse(problem, path_text(path), "Only structs have fields")
    _check_not_in_key(schema, parent, path_text(path))
    return parent, name


def _check_free(name: str, others: Iterable[Field], place: str, rules: EvolutionRules) -> None:
    if not name:
        _refuse("a column needs a name", place)
    if taken := called(name, others, case_sensitive=rules.case_sensitive):
        _refuse(
            f"there is a column {taken[0].name!r} already", place, "Choose another name, or drop it first"
        )


def _check_not_in_key(schema: Schema, field: Field, place: str) -> None:
    if is_in_key(schema, field):
        _refuse("the keys of a map cannot be changed", place, "Add another map column")


def _struct_around(schema: Schema, field: Field, place: str) -> Field | None:
    """The struct that a field belongs to, None for the top; a field of a list or map has none."""
    _check_not_in_key(schema, field, place)
    if not is_named(schema, field):
        hint = "Drop, rename or move the whole column instead"
        _refuse("the element of a list and the value of a map are part of its type", place, hint)
    return schema.parent_of(field.id)


def _refuse(problem: str, place: str, hint: str | None = None) -> NoReturn:
    raise InvalidChange(problem, field=place, hint=hint)
