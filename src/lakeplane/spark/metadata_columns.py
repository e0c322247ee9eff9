"""The columns that every row has beside those of its table: where it lies, and since when it is as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.schema import METADATA_COLUMNS
from lakeplane.model.types import Field
from lakeplane.spark.arrow_rows import POSITION
from lakeplane.spark.constants import FILE, FIRST_ROW, PARTITION, SEQUENCE, SPEC
from lakeplane.spark.scan_columns import Recipe

NAMES: Final = ("_file", "_pos", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number")
"""Those that can be read."""

FILE_NUMBER: Final = "__lakeplane_row_file"
ROW_POSITION: Final = "__lakeplane_row_pos"
"""Where a row lies, for who changes rows: the row of its file in ``plan.files``, and its position there."""

_RESERVED: Final = ("__lakeplane_", "_metadata")

_STORED: Final = ("_row_id", "_last_updated_sequence_number")
_NEEDS: Final = {
    "_file": {FILE},
    "_pos": {POSITION},
    "_partition": {PARTITION},
    "_spec_id": {SPEC},
    "_row_id": {POSITION, FIRST_ROW},
    "_last_updated_sequence_number": {FIRST_ROW, SEQUENCE},
}


def is_reserved(name: str) -> bool:
    """Whether a name begins like those of columns that are added, or is that of Spark's own hidden column."""
    own, hidden = _RESERVED
    return name.casefold().startswith(own) or name.casefold() == hidden


def metadata_field(name: str, table: TableMetadata) -> Field | None:
    """The metadata column with a name."""
    if name not in NAMES:
        return None
    field = METADATA_COLUMNS[name]
    return replace(field, type=table.unified_partition_type) if name == "_partition" else field


def is_metadata(field: Field) -> bool:
    """Whether a field is one of these columns, and not one of a table that has the same name."""
    known = METADATA_COLUMNS.get(field.name)
    return known is not None and known.id == field.id


def stored_fields(fields: Sequence[Field]) -> list[Field]:
    """The columns that must be looked for in files to read some columns."""
    return [each for each in fields if not is_metadata(each) or each.name in _STORED]


def needs_position(fields: Sequence[Field]) -> bool:
    """Whether the positions of rows must be known."""
    return any(is_metadata(each) and POSITION in _NEEDS[each.name] for each in fields)


def metadata_recipe(field: Field, stored: Recipe | None) -> Recipe:
    """Make a metadata column of what is known of a row's file, and of what the file holds itself."""
    needs = frozenset(_NEEDS[field.name])
    match field.name:
        case "_row_id":
            inherited = F.col(FIRST_ROW) + F.col(POSITION)
        case "_last_updated_sequence_number":
            inherited = F.col(SEQUENCE)
        case _:
            (name,) = needs
            return Recipe(field, None, F.col(name), needs)
    if stored is None:
        return Recipe(field, None, F.when(F.col(FIRST_ROW).isNotNull(), inherited), needs)
    found = stored.shown if stored.value is None else stored.value
    # Rows of files from before the table had row ids have none, nor do they tell who wrote them.
    value = F.when(F.col(FIRST_ROW).isNotNull(), F.coalesce(found, inherited))
    return Recipe(field, stored.read, value, needs)
