"""How much manifests tell of each column: the modes that a table's properties ask for.

What is not asked for costs nothing to leave out: bounds and counts of a thousand columns would be larger
than some of the files that they describe.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.transforms import preserves_order
from lakeplane.model.types import List, Map, Struct, Type, children, is_nested

DEFAULT: Final = "write.metadata.metrics.default"
COLUMN: Final = "write.metadata.metrics.column."
MAX_INFERRED: Final = "write.metadata.metrics.max-inferred-column-defaults"

_DEFAULT_MAX_INFERRED: Final = 100
_TRUNCATE: Final = re.compile(r"truncate\(([0-9]{1,10})\)")
_MAX_LENGTH: Final = 2**31 - 1


class PlainMode(enum.Enum):
    """The modes without a parameter."""

    NONE = "none"
    COUNTS = "counts"
    FULL = "full"

    def __str__(self) -> str:
        return self.value


class Truncated(msgspec.Struct, frozen=True):
    """Counts, and bounds of which strings and binaries are cut to a length."""

    length: int

    def __str__(self) -> str:
        return f"truncate({self.length})"


MetricsMode: TypeAlias = PlainMode | Truncated
"""What is kept of a column: nothing, counts, or counts and bounds."""

NONE, COUNTS, FULL = PlainMode.NONE, PlainMode.COUNTS, PlainMode.FULL
DEFAULT_MODE: Final = Truncated(16)

POSITION_DELETE_MODES: Final[Mapping[int, MetricsMode]] = {
    METADATA_COLUMNS[name].id: FULL for name in ("file_path", "pos")
}
"""For files of position deletes: whole paths, as readers find by them what a file is about."""


def parse_mode(text: str, source: str = DEFAULT) -> MetricsMode:
    """Read a mode; ``source`` names the property in errors."""
    folded = text.strip().lower()
    if folded in {mode.value for mode in PlainMode}:
        return PlainMode(folded)
    found = _TRUNCATE.fullmatch(folded)
    if found is None or not 1 <= int(found[1]) <= _MAX_LENGTH:
        hint = "It is none, counts, full, or truncate(16) with a length of at least 1"
        raise InvalidInput(f"{text!r:.80} is no metrics mode", field=f"property {source!r}", hint=hint)
    return Truncated(int(found[1]))


def modes_of_table(table: TableMetadata) -> dict[int, MetricsMode]:
    """The mode of each column that holds values, at any depth, under a table's properties."""
    return column_modes(table.properties, table.schema, table.sort_order)


def column_modes(
    properties: Mapping[str, str], schema: Schema, order: SortOrder = UNSORTED
) -> dict[int, MetricsMode]:
    """The mode of each column that holds values, by field id.

    A default that the user gives is for all columns. Ours is for all columns of a table with few of them,
    and else for as many as are allowed, those at the top first. Columns that files are sorted by always
    have bounds, and what a property says of one column goes before everything else. A property for a
    column that is gone means nothing.
    """
    default, given = _defaults(properties, schema)
    modes = {field_id: given.get(field_id, default) for field_id in leaves(schema)}
    for field in order.fields:
        if preserves_order(field.transform) and field.source_id in modes:
            modes[field.source_id] = DEFAULT_MODE if default in (NONE, COUNTS) else default
    for name, text in properties.items():
        if name.startswith(COLUMN):
            mode, column = parse_mode(text, name), schema.find_or_none(name.removeprefix(COLUMN))
            if column is not None and column.id in modes:
                modes[column.id] = mode
    return modes


def _defaults(properties: Mapping[str, str], schema: Schema) -> tuple[MetricsMode, dict[int, MetricsMode]]:
    """The mode of columns without one of their own, and the columns that get the default one by one."""
    text = properties.get(DEFAULT)
    if text is not None:
        return parse_mode(text), {}
    limit = number(properties.get(MAX_INFERRED))
    if limit is None or limit < 0:
        limit = _DEFAULT_MAX_INFERRED
    if sum(1 for _ in _counted(schema.struct)) <= limit:
        return DEFAULT_MODE, {}
    return NONE, dict.fromkeys(first_columns(schema, limit), DEFAULT_MODE)


def leaves(schema: Schema) -> Iterator[int]:
    """The ids of the fields that hold values themselves, at any depth."""
    return (field.id for field in schema.all_fields if not is_nested(field.type))


def _counted(type_: Type) -> Iterator[int]:
    """The columns that count for the limit: as Java counts, without the keys of maps to nested values."""
    for field in children(type_):
        if is_nested(field.type):
            yield from _counted(field.type)
        elif not (isinstance(type_, Map) and field.id == type_.key_id and is_nested(type_.value)):
            yield field.id


def first_columns(schema: Schema, limit: int) -> list[int]:
    """The columns that come first: of each struct those right inside it, then those of its nested ones."""
    found: list[int] = []

    def visit(type_: Type) -> None:
        inside = children(type_)
        for field in inside:
            if len(found) < limit and not is_nested(field.type):
                found.append(field.id)
        for field in inside:
            if len(found) < limit and isinstance(field.type, Struct | List | Map):
                visit(field.type)

    visit(schema.struct)
    return found
