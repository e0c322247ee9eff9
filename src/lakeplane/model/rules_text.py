"""The text of partition fields and sort keys: ``days(at)``, ``bucket(16, id)``, ``amount DESC NULLS LAST``.

::

    partition field  := term [AS name]
    sort key         := term [ASC | DESC] [NULLS (FIRST | LAST)]
    term             := column | function "(" column ")" | function "(" number, column ")", in either order
    column           := name ("." name)*

Functions are those of Spark's ``PARTITIONED BY``, in any case. Without ``NULLS``, nulls come first in
ascending order and last in descending order, as in Iceberg.
"""

from __future__ import annotations

import difflib
from typing import Final

from lakeplane.errors import InvalidInput
from lakeplane.model.ddl_words import Cursor, quote_name, reading
from lakeplane.model.expressions.opaque import Names
from lakeplane.model.partitioning import PartitionField, check_source
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import Direction, NullOrder, SortField
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    Void,
    Year,
)
from lakeplane.model.types import Field

UNASSIGNED: Final = -1
"""The id of a partition field that has none yet."""

_OF_COLUMN: Final[dict[str, Transform]] = {
    "identity": Identity(),
    **dict.fromkeys(("years", "year"), Year()),
    **dict.fromkeys(("months", "month"), Month()),
    **dict.fromkeys(("days", "day", "date"), Day()),
    **dict.fromkeys(("hours", "hour", "date_hour"), Hour()),
    "void": Void(),
}
_WITH_NUMBER: Final[dict[str, type[Bucket | Truncate]]] = {"bucket": Bucket, "truncate": Truncate}
_KNOWN: Final = (
    "bucket(n, x), truncate(width, x), years(x), months(x), days(x), hours(x), identity(x), void(x)"
)
_FUNCTION_OF: Final = {Year(): "years", Month(): "months", Day(): "days", Hour(): "hours"}


def parse_partition_field(
    text: str, schema: Schema, *, case_sensitive: bool = False, evolving: bool = False
) -> PartitionField:
    """Read a partition field, with the id ``UNASSIGNED``; for ``evolving`` see ``default_name``."""
    with reading(f"partition field {text[:60]!r}"):
        cursor = Cursor(text)
        transform, source = _term(cursor, Names(schema, case_sensitive=case_sensitive))
        name = cursor.name() if cursor.skip("AS") else None
        if cursor.token.kind != "end":
            cursor.refuse("expected the end" if name else "expected AS or the end", "Write days(at) AS day")
        if name is None:
            name = default_name(transform, schema.name_of(source.id), evolving=evolving)
    return PartitionField((source.id,), UNASSIGNED, name, transform)


def parse_sort_key(text: str, schema: Schema, *, case_sensitive: bool = False) -> SortField:
    """Read a sort key."""
    with reading(f"sort key {text[:60]!r}"):
        cursor = Cursor(text)
        transform, source = _term(cursor, Names(schema, case_sensitive=case_sensitive))
        direction: Direction = "desc" if cursor.skip("DESC") else "asc"
        if direction == "asc":
            cursor.skip("ASC")
        null_order: NullOrder = "nulls-first" if direction == "asc" else "nulls-last"
        if cursor.skip("NULLS"):
            null_order = "nulls-first" if cursor.skip("FIRST") else "nulls-last"
            if null_order == "nulls-last":
                cursor.expect("LAST", "FIRST or LAST")
        if cursor.token.kind != "end":
            cursor.refuse("expected ASC, DESC, NULLS FIRST, NULLS LAST or the end")
    return SortField((source.id,), transform, direction, null_order)


def default_name(transform: Transform, column: str, *, evolving: bool = False) -> str:
    """The name of a partition field that was given none, as Iceberg's Java library would name it.

    ``evolving`` is for a field added to an existing table: its name holds the number, ``id_bucket_16``, that
    the name in a new table does not, ``id_bucket``. ``column`` is the dotted name of the source.
    """
    match transform:
        case Identity():
            return column
        case Bucket(n=number):
            ending = "bucket"
        case Truncate(width=number):
            ending = "trunc"
        case Void():
            return f"{column}_null"
        case _:
            return f"{column}_{transform}"
    return f"{column}_{ending}_{number}" if evolving else f"{column}_{ending}"


def partition_text(field: PartitionField, schema: Schema, *, evolving: bool = False) -> str:
    """Write a partition field; ``AS`` is left out where the name is the default one.

    The text of a field of an unknown transform, or of a column that the schema does not have any more, is for
    people only.
    """
    text = _term_text(field.transform, field.source_ids, schema)
    source = schema.get(field.source_ids[0])
    name = source and default_name(field.transform, schema.name_of(source.id), evolving=evolving)
    return text if field.name == name else f"{text} AS {quote_name(field.name)}"


def sort_text(key: SortField, schema: Schema) -> str:
    """Write a sort key; of an unknown transform or a column that is gone, the text is for people only."""
    term = _term_text(key.transform, key.source_ids, schema)
    return f"{term} {key.direction.upper()} {key.null_order.replace('-', ' ').upper()}"


def _term(cursor: Cursor, names: Names) -> tuple[Transform, Field]:
    start = cursor.at
    if cursor.token.word and cursor.text.tokens[start + 1].text == "(":
        transform, source = _call(cursor, names)
    else:
        transform, source = Identity(), _column(cursor, names)
    if not isinstance(transform, Void):
        try:
            check_source(names.schema, source.id, transform, "")
        except InvalidInput as error:
            cursor.refuse(error.problem, error.hint, at=start)
    return transform, source


def _call(cursor: Cursor, names: Names) -> tuple[Transform, Field]:
    start, word = cursor.at, cursor.token.text
    function = word.lower()
    if function not in _OF_COLUMN and function not in _WITH_NUMBER:
        close = difflib.get_close_matches(function, [*_OF_COLUMN, *_WITH_NUMBER], n=2)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        cursor.refuse(f"unknown function {word!r}", f"{hint}Known: {_KNOWN}")
    cursor.at += 2
    if transform := _OF_COLUMN.get(function):
        source = _column(cursor, names)
        cursor.expect(")", "')' after one column")
        return transform, source
    first = cursor.whole_number() if cursor.token.kind == "number" else None
    if first is not None:
        cursor.expect(",", "a comma and a column")
    source = _column(cursor, names)
    if first is None:
        cursor.expect(",", "a comma and a whole number")
    number = cursor.whole_number() if first is None else first
    cursor.expect(")", "')'")
    try:
        return _WITH_NUMBER[function](number), source
    except InvalidInput as error:
        cursor.refuse(error.problem, error.hint, at=start)


def _column(cursor: Cursor, names: Names) -> Field:
    start = cursor.at
    parts = [cursor.name()]
    while cursor.skip("."):
        parts.append(cursor.name())
    # A name in its own case is meant before one that differs in case only.
    exact = Names(names.schema, case_sensitive=True).find(parts)
    found = exact or names.find(parts) or names.schema.find_or_none(".".join(parts))
    if found is None:
        missing = names.missing(parts)
        cursor.refuse(missing.problem, missing.hint, at=start)
    return found


def _term_text(transform: Transform, source_ids: tuple[int, ...], schema: Schema) -> str:
    columns = ", ".join(_column_text(each, schema) for each in source_ids)
    match transform:
        case Identity():
            return columns
        case Bucket(n=number):
            return f"bucket({number}, {columns})"
        case Truncate(width=number):
            return f"truncate({number}, {columns})"
        case _:
            return f"{_FUNCTION_OF.get(transform, str(transform))}({columns})"


def _column_text(field_id: int, schema: Schema) -> str:
    field = schema.get(field_id)
    if field is None:
        return f"<dropped column {field_id}>"
    parts = []
    while field is not None:
        parts.append(quote_name(field.name))
        field = schema.parent_of(field.id)
    return ".".join(reversed(parts))
