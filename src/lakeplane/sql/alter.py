"""ALTER TABLE: columns at any depth, partition fields, order, properties, names; with ``refs``, branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from lakeplane.errors import InvalidInput
from lakeplane.evolution import Evolution
from lakeplane.model.ddl import parse_ddl_type, to_ddl
from lakeplane.model.schema import Schema
from lakeplane.sql.columns import NewColumn, Place, field_of, new_column, place_in, skip_type
from lakeplane.sql.refs import RefChange, ref_change
from lakeplane.sql.statement import Run, column_name, properties_in, property_keys
from lakeplane.sql.words import Parts, Words

if TYPE_CHECKING:
    from lakeplane.spark.frames import DataFrame
    from lakeplane.table import Table

_COLUMN_ACTIONS: Final = (
    "TYPE type",
    "COMMENT 'text'",
    "FIRST",
    "AFTER column",
    "SET NOT NULL",
    "DROP NOT NULL",
    "SET DEFAULT value",
    "DROP DEFAULT",
)


class AddColumns(NamedTuple):
    """``ADD COLUMNS``."""

    columns: tuple[NewColumn, ...]


class DropColumns(NamedTuple):
    """``DROP COLUMNS``."""

    paths: tuple[Parts, ...]
    if_exists: bool


class RenameColumn(NamedTuple):
    """``RENAME COLUMN``."""

    path: Parts
    name: str


class AlterColumn(NamedTuple):
    """``ALTER COLUMN``, with what follows it."""

    path: Parts
    type: str | None = None
    comment: str | None = None
    place: Place | None = None
    required: bool | None = None
    default: str | None = None
    """``NULL`` takes the default away."""


class AlterColumns(NamedTuple):
    """``ALTER COLUMN a ..., b ...``."""

    columns: tuple[AlterColumn, ...]


class AddField(NamedTuple):
    """``ADD PARTITION FIELD``."""

    rule: str
    name: str | None


class DropField(NamedTuple):
    """``DROP PARTITION FIELD``."""

    field: str


class ReplaceField(NamedTuple):
    """``REPLACE PARTITION FIELD``."""

    field: str
    rule: str
    name: str | None


class WriteOrder(NamedTuple):
    """``WRITE ...``."""

    keys: tuple[str, ...] | None
    mode: str


class Identifiers(NamedTuple):
    """``SET IDENTIFIER FIELDS`` and ``DROP IDENTIFIER FIELDS``."""

    paths: tuple[Parts, ...]
    is_drop: bool


class Properties(NamedTuple):
    """``SET TBLPROPERTIES``."""

    values: dict[str, str]


class NoProperties(NamedTuple):
    """``UNSET TBLPROPERTIES``."""

    names: tuple[str, ...]
    if_exists: bool


class SetLocation(NamedTuple):
    """``SET LOCATION``."""

    location: str


class RenameTo(NamedTuple):
    """``RENAME TO``."""

    name: Parts


T = TypeVar("T")

Action: TypeAlias = (
    AddColumns
    | DropColumns
    | RenameColumn
    | AlterColumns
    | AddField
    | DropField
    | ReplaceField
    | WriteOrder
    | Identifiers
    | Properties
    | NoProperties
    | SetLocation
    | RenameTo
    | RefChange
)


class AlterTable(NamedTuple):
    """``ALTER TABLE``."""

    name: Parts
    action: Action

    def run(self, run: Run) -> DataFrame | None:
        """Do it."""
        if run.scope.find(self.name) is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        table = run.scope.table(self.name, plain=True).table
        match self.action:
            case RenameTo(name):
                run.lake.rename_table(run.scope.full(self.name), run.scope.full(name))
            case RefChange():
                self.action.apply(table)
            case _:
                with table.evolve(case_sensitive=run.case_sensitive) as change:
                    _evolve(change, self.action, table, run)
        return None


def _evolve(change: Evolution, action: Action, table: Table, run: Run) -> None:  # noqa: C901, PLR0912 - one arm per action
    schema = table.schema
    match action:
        case AddColumns(columns):
            for each in columns:
                _add(change, each, run.zone)
        case DropColumns(paths, if_exists):
            for path in paths:
                name = ".".join(path)
                if not if_exists or schema.find_or_none(name, case_sensitive=run.case_sensitive):
                    change.drop_column(path)
        case RenameColumn(path, name):
            change.rename_column(path, name)
        case AlterColumns(columns=altered):
            for column in altered:
                _alter(change, column, schema, run)
        case AddField(rule, name_of_field):
            change.add_partition_field(rule, name_of_field)
        case DropField(field):
            change.drop_partition_field(field)
        case ReplaceField(field, rule, name_of_field):
            change.drop_partition_field(field)
            change.add_partition_field(rule, name_of_field)
        case WriteOrder(keys, mode):
            if keys is not None:
                change.sort_by(*keys)
            change.set_properties({"write.distribution-mode": mode})
        case Identifiers():
            _identify(change, action, schema, run)
        case Properties(values):
            change.set_properties(values)
        case NoProperties(names, if_exists):
            _unset(change, names, table.properties, if_exists=if_exists)
        case SetLocation(location):
            change.set_location(location)


def _add(change: Evolution, column: NewColumn, zone: str) -> None:
    field, place = column.field(zone), column.place
    change.add_column(
        column.path,
        field.type,
        required=field.required,
        doc=field.doc,
        default=field.initial_default,
        first=place is not None and place.after is None,
        after=place.after if place else None,
    )


def _alter(change: Evolution, column: AlterColumn, schema: Schema, run: Run) -> None:
    told: dict[str, Any] = {}
    if column.type is not None:
        told["type"] = parse_ddl_type(column.type, zone=run.zone)
    if column.required is not None:
        told["required"] = column.required
    if column.comment is not None:
        told["doc"] = column.comment
    if column.default is not None:
        # The value is read in the type that the column has in the end.
        known = schema.find(".".join(column.path), case_sensitive=run.case_sensitive)
        type_ = column.type or to_ddl(known.type)
        told["default"] = field_of(f"{type_} DEFAULT {column.default}", run.zone).write_default
    if told:
        change.update_column(column.path, **told)
    if column.place is not None:
        change.move_column(column.path, first=column.place.after is None, after=column.place.after)


def _identify(change: Evolution, action: Identifiers, schema: Schema, run: Run) -> None:
    if not action.is_drop:
        change.set_identifier_fields(*(".".join(path) for path in action.paths))
        return
    now = {schema.name_of(each) for each in schema.identifier_field_ids}
    for path in action.paths:
        field = schema.find(".".join(path), case_sensitive=run.case_sensitive)
        name = schema.name_of(field.id)
        if name not in now:
            hint = f"They are {', '.join(sorted(now)) or 'none'}"
            raise InvalidInput(f"{name} is not an identifier field", source="SQL", hint=hint)
        now.remove(name)
    change.set_identifier_fields(*sorted(now))


def _unset(
    change: Evolution, names: tuple[str, ...], properties: Mapping[str, str], *, if_exists: bool
) -> None:
    for name in names:
        if name not in properties and not if_exists:
            hint = "Write UNSET TBLPROPERTIES IF EXISTS (...) to leave it at that"
            raise InvalidInput(f"the table has no property {name!r}", source="SQL", hint=hint)
    change.remove_properties(*(name for name in names if name in properties))


def alter_table(words: Words) -> AlterTable:
    """Read what follows ``ALTER TABLE``."""
    name = words.parts("the name of a table")
    action = _action(words)
    words.end()
    return AlterTable(name, action)


def _action(words: Words) -> Action:
    for prefix, read in _ACTIONS.items():
        if words.skip(*prefix.split()):
            return read(words)
    found = ref_change(words)
    if found is None:
        words.unknown(SUPPORTED)
    return found


def _list(words: Words, item: Callable[[Words], T]) -> tuple[T, ...]:
    found = [item(words)]
    while words.skip(","):
        found.append(item(words))
    return tuple(found)


def _in_brackets_or_not(words: Words, item: Callable[[Words], T]) -> tuple[T, ...]:
    bracket = words.skip("(")
    found = _list(words, item)
    if bracket:
        words.expect(")", "a comma or ')'")
    return found


def _altered(words: Words) -> AlterColumn:
    column = AlterColumn(column_name(words))
    start = words.at
    while not (words.is_done() or words.sees(",")):
        if words.skip("TYPE"):
            column = column._replace(type=skip_type(words))
        elif words.skip("COMMENT"):
            column = column._replace(comment=words.string())
        elif words.skip("SET", "NOT", "NULL"):
            column = column._replace(required=True)
        elif words.skip("DROP", "NOT", "NULL"):
            column = column._replace(required=False)
        elif words.skip("DROP", "DEFAULT"):
            column = column._replace(default="NULL")
        elif words.skip("SET", "DEFAULT"):
            column = column._replace(default=_until(words, ","))
        elif (place := place_in(words)) is not None:
            column = column._replace(place=place)
        else:
            words.unknown(_COLUMN_ACTIONS)
    if words.at == start:
        words.unknown(_COLUMN_ACTIONS)
    return column


def _until(words: Words, *marks: str) -> str:
    """The text up to a mark outside of brackets, or the end."""
    start = words.at
    while not (words.is_done() or words.sees(*marks)):
        words.at = words.text.partners.get(words.at, words.at) + 1
    if words.at == start:
        words.refuse("expected something")
    return words.text.between(start, words.at)


def _rest(words: Words) -> str:
    return _until(words, "")


def _rule(words: Words) -> tuple[str, str | None]:
    """Read a partition rule, and its name if it has one."""
    rule = _until(words, "AS")
    return rule, words.name() if words.skip("AS") else None


def _write(words: Words) -> WriteOrder:
    """Read ``[DISTRIBUTED BY PARTITION] [[LOCALLY] ORDERED BY keys | UNORDERED]``, in either order."""
    distributed = words.skip("DISTRIBUTED", "BY", "PARTITION")
    if words.skip("UNORDERED"):
        return WriteOrder((), "hash" if distributed else "none")
    locally = words.skip("LOCALLY")
    if not locally and distributed and words.is_done():
        return WriteOrder(None, "hash")
    if not words.skip("ORDERED", "BY"):
        words.unknown(("ORDERED BY", "LOCALLY ORDERED BY", "UNORDERED", "DISTRIBUTED BY PARTITION"))
    bracket = words.sees("(") and words.text.partners[words.at] == len(words.text.tokens) - 2
    keys = (
        words.inside_items() if bracket else list(_list(words, lambda each: _until(each, ",", "DISTRIBUTED")))
    )
    distributed = distributed or words.skip("DISTRIBUTED", "BY", "PARTITION")
    return WriteOrder(tuple(keys), "hash" if distributed else "none" if locally else "range")


def _replaced_field(words: Words) -> ReplaceField:
    field = _until(words, "WITH")
    words.expect("WITH", "WITH and the new rule")
    return ReplaceField(field, *_rule(words))


def _added(words: Words) -> AddColumns:
    return AddColumns(_in_brackets_or_not(words, new_column))


def _dropped(words: Words) -> DropColumns:
    if_exists = words.skip_if_exists()
    return DropColumns(_in_brackets_or_not(words, column_name), if_exists)


def _renamed(words: Words) -> RenameColumn:
    path = column_name(words)
    words.expect("TO", "TO and the new name")
    return RenameColumn(path, words.name())


def _all_altered(words: Words) -> AlterColumns:
    return AlterColumns(_list(words, _altered))


def _unset_names(words: Words) -> NoProperties:
    if_exists = words.skip_if_exists()
    return NoProperties(property_keys(words), if_exists)


_ACTIONS: Final[dict[str, Callable[[Words], Action]]] = {
    "ADD PARTITION FIELD": lambda words: AddField(*_rule(words)),
    "DROP PARTITION FIELD": lambda words: DropField(_rest(words)),
    "REPLACE PARTITION FIELD": _replaced_field,
    "ADD COLUMNS": _added,
    "ADD COLUMN": _added,
    "DROP COLUMNS": _dropped,
    "DROP COLUMN": _dropped,
    "RENAME COLUMN": _renamed,
    "RENAME TO": lambda words: RenameTo(words.parts("the new name")),
    "ALTER COLUMNS": _all_altered,
    "ALTER COLUMN": _all_altered,
    "CHANGE COLUMN": _all_altered,
    "WRITE": _write,
    "SET IDENTIFIER FIELDS": lambda words: Identifiers(_list(words, column_name), is_drop=False),
    "DROP IDENTIFIER FIELDS": lambda words: Identifiers(_list(words, column_name), is_drop=True),
    "SET TBLPROPERTIES": lambda words: Properties(properties_in(words)),
    "UNSET TBLPROPERTIES": _unset_names,
    "SET LOCATION": lambda words: SetLocation(words.string()),
}
"""What can be done to a table, by the first words; more is in ``refs``."""

SUPPORTED: Final = (*_ACTIONS, "CREATE, REPLACE or DROP BRANCH", "CREATE, REPLACE or DROP TAG")
