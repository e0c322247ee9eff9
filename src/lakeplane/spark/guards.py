"""What a table's history makes dangerous for Spark's Parquet reader, column by column.

Spark reads a column by its id, yet two parts of it still go by names:

- Filters are pushed down to the column of a file that has the *name*. If that name has ever meant another
  column, rows are lost. Such a column is read under a name that no file has, which costs its pushdown.
- A query that needs some fields of a struct asks for them by *name*, as their ids get lost on the way. If a
  field inside has ever had another name, it would read as null. A barrier above the scan makes Spark read
  such a column as a whole. The same goes for a struct that is itself read under another name.

And a filter on a decimal throws if the file stores fewer digits than the number in the filter has: a column
that was given more digits is read under another name, too.

Tables that were never changed in these ways get none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakeplane.iceberg.avro_schema import avro_name
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.schema import Schema
from lakeplane.model.types import DATE, Decimal, Field, children, walk

Path = tuple[str, ...]


class Guards(NamedTuple):
    """How a column must be read."""

    opaque: bool = False
    """Under a name that no file has."""
    whole: bool = False
    """With all fields inside, whatever a query needs of it."""


class History:
    """Which names and types the columns of a table have had."""

    def __init__(self, schemas: Iterable[Schema], *, complete: bool) -> None:
        self.complete = complete
        self._paths: dict[int, set[Path]] = {}
        self._ids: dict[Path, set[int]] = {}
        self._digits: dict[int, set[int]] = {}
        self._dates: set[int] = set()
        self._always_required: set[int] | None = None
        for schema in schemas:
            for path, field in _paths(schema.fields, ()):
                self._learn(path, field)
            required = {field.id for field in schema.fields if field.required}
            self._always_required = required & (
                required if self._always_required is None else self._always_required
            )

    def _learn(self, path: Path, field: Field) -> None:
        self._paths.setdefault(field.id, set()).add(path)
        # Writers change what Avro does not accept in names, in Parquet files as well.
        for spelling in {path, tuple(map(_written, path))}:
            self._ids.setdefault(tuple(part.lower() for part in spelling), set()).add(field.id)
        if isinstance(field.type, Decimal):
            self._digits.setdefault(field.id, set()).add(field.type.precision)
        if field.type is DATE:
            self._dates.add(field.id)

    def guards(self, field: Field) -> Guards:
        """How a column at the top of a schema must be read."""
        inside = tuple(walk(children(field.type)))
        if not self.complete:
            return Guards(opaque=True, whole=bool(inside))
        everything = (field, *inside)
        opaque = self._name_is_shared(field) or any(map(self._has_grown, everything))
        # What Spark asks of a struct by name, it asks from the top of the file on.
        whole = bool(inside) and (opaque or any(map(self._has_changed, everything)))
        return Guards(opaque or whole, whole)

    def may_miss(self, field: Field) -> bool:
        """Whether older files may lack a column that must have values."""
        if not field.required or field.initial_default is not None:
            return False
        return field.id not in (self._always_required or ())

    def was_date(self, field_id: int) -> bool:
        """Whether a column, of another type now, may be one of dates in older files."""
        return field_id in self._dates or not self.complete

    def _name_is_shared(self, field: Field) -> bool:
        names = {(field.name.lower(),), (_written(field.name).lower(),)}
        return any(self._ids.get(name, {field.id}) != {field.id} for name in names)

    def _has_changed(self, field: Field) -> bool:
        """Whether a field had another name, or another field its name, or files spell it otherwise."""
        paths = self._paths.get(field.id, set())
        if len(paths) > 1 or any(_written(path[-1]) != path[-1] for path in paths):
            return True
        # Another column may have had the same name, with other fields inside: those are not these.
        return any(self._ids[tuple(part.lower() for part in path)] != {field.id} for path in paths)

    def _has_grown(self, field: Field) -> bool:
        return len(self._digits.get(field.id, ())) > 1


def _written(name: str) -> str:
    return avro_name(name) if name else name


def _paths(fields: tuple[Field, ...], around: Path) -> Iterator[tuple[Path, Field]]:
    for field in fields:
        path = (*around, field.name)
        yield path, field
        yield from _paths(children(field.type), path)


def history_of(table: TableMetadata) -> History:
    """What is known of the past of a table's columns."""
    ids = {schema.schema_id for schema in table.schemas}
    complete = ids == set(range(len(ids)))
    if table.format_version == 1 and len(ids) == 1:
        # Early v1 tables kept their current schema only: numbers that nobody has were columns once.
        complete = complete and len(table.schema.field_ids) >= table.last_column_id
    return History(table.schemas, complete=complete)
