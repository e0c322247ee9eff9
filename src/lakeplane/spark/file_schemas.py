"""What columns files really have, from their footers: names, ids, and what is inside.

Only some plans need it: tables with a name mapping (files may have no ids), defaults that Spark cannot fill
in by itself, and ORC files, whose columns Spark finds by name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.fetch_windows import ReadRanges
from lakeplane.model.name_mapping import MappedField, NameMapping
from lakeplane.spark.tails import FileEnd, read_tails

_TAIL: Final = 16 << 10
_PARQUET_ID: Final = b"PARQUET:field_id"
_ORC_ID: Final = b"iceberg.id"


class Stored(NamedTuple):
    """A field of a file."""

    name: str
    field_id: int | None
    type: Any
    """The Arrow type."""
    inside: tuple[Stored, ...] = ()
    meaning: str | None = None
    """What an ORC file says of a type that ORC does not have: ``TIME``, ``UUID`` and so on."""

    def find(self, field_id: int) -> Stored | None:
        """The field directly inside with an id."""
        return next((each for each in self.inside if each.field_id == field_id), None)


class FileSchema(NamedTuple):
    """The fields of a file, and whether it names them by ids."""

    fields: tuple[Stored, ...]
    has_ids: bool

    def find(self, field_id: int) -> Stored | None:
        """The field at the top with an id."""
        return next((each for each in self.fields if each.field_id == field_id), None)

    def field_ids(self) -> frozenset[int]:
        """The ids of all fields at every depth."""
        return frozenset(each.field_id for each in _walk(self.fields) if each.field_id is not None)

    def dates(self) -> frozenset[int]:
        """The ids of fields that hold dates."""
        dates = (each for each in _walk(self.fields) if pa.types.is_date(each.type))
        return frozenset(each.field_id for each in dates if each.field_id is not None)


def _walk(fields: tuple[Stored, ...]) -> Iterator[Stored]:
    for field in fields:
        yield field
        yield from _walk(field.inside)


def read_schemas(
    files: Sequence[FileEnd], read_ranges: ReadRanges | None, mapping: NameMapping | None
) -> list[FileSchema]:
    """Read what columns files have; those of files without ids get the ids of a mapping."""
    if files and read_ranges is None:
        problem = "the columns of this file must be looked up in its footer, and no store was given"
        raise NotSupported(problem, source=files[0].path)
    found = [_KEPT.get((each.path, each.size)) for each in files]
    missing = [position for position, fields in enumerate(found) if fields is None]
    if missing and read_ranges is not None:
        wanted = [files[position] for position in missing]
        for position, tail in zip(missing, read_tails(wanted, read_ranges, _TAIL), strict=True):
            file = files[position]
            found[position] = _KEPT[file.path, file.size] = _intern(_fields_of(file, tail))
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.pop(next(iter(_KEPT)), None)
    return [_with_ids(fields or (), mapping) for fields in found]


_KEPT: Final[dict[tuple[str, int], tuple[Stored, ...]]] = {}
"""What footers said: data files never change."""
_MOST_KEPT: Final = 200_000


@functools.lru_cache(maxsize=1024)
def _intern(fields: tuple[Stored, ...]) -> tuple[Stored, ...]:
    """The same value for the same columns: most files of a table have the same."""
    return fields


def _fields_of(file: FileEnd, tail: bytes) -> tuple[Stored, ...]:
    try:
        if file.file_format == "PARQUET":
            schema = pq.read_schema(pa.BufferReader(tail))
        else:
            from pyarrow import orc  # noqa: PLC0415 - not every build has it

            schema = orc.ORCFile(pa.BufferReader(tail)).schema
    except (pa.ArrowException, OSError) as error:
        raise InvalidMetadata(f"its footer is broken: {error}", source=file.path) from None
    return tuple(map(_stored, schema))


def _stored(field: pa.Field) -> Stored:
    metadata = field.metadata or {}
    text = metadata.get(_PARQUET_ID) or metadata.get(_ORC_ID) or b""
    field_id = int(text) if text.isdigit() else None
    said = next((metadata[each] for each in _MEANINGS if each in metadata), None)
    return Stored(
        field.name,
        field_id,
        field.type,
        tuple(map(_stored, _inside(field.type))),
        None if said is None else said.decode("utf-8", "replace").upper(),
    )


_MEANINGS: Final = (b"iceberg.long-type", b"iceberg.binary-type", b"iceberg.timestamp-unit")


def _inside(type_: pa.DataType) -> list[pa.Field]:
    match type_:
        case pa.StructType():
            return list(type_)
        case pa.MapType():
            return [type_.key_field, type_.item_field]
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            return [type_.value_field]
        case _:
            return []


def file_schema(schema: pa.Schema, mapping: NameMapping | None, *, by_names: bool = False) -> FileSchema:
    """The columns of a file that was decoded, with the ids that it has, or a mapping."""
    if by_names:
        fields = tuple(map(_stored, schema))
        return FileSchema(_mapped(fields, () if mapping is None else mapping.fields), has_ids=False)
    return _with_ids(tuple(map(_stored, schema)), mapping)


def _with_ids(fields: tuple[Stored, ...], mapping: NameMapping | None) -> FileSchema:
    if any(each.field_id is not None for each in _walk(fields)):
        return FileSchema(fields, has_ids=True)
    return FileSchema(_mapped(fields, () if mapping is None else mapping.fields), has_ids=False)


@functools.lru_cache(maxsize=1024)
def _mapped(
    fields: tuple[Stored, ...], names: tuple[MappedField, ...], roles: tuple[str, ...] | None = None
) -> tuple[Stored, ...]:
    """Give fields the ids that a mapping has for their names, or for the roles that they have."""
    given = []
    for field, name in zip(fields, roles or tuple(each.name for each in fields), strict=True):
        found = next((each for each in names if name in each.names), None)
        field_id, below = (None, ()) if found is None else (found.field_id, found.fields)
        # Files call the element of a list what they like; mappings call it this.
        called = ("key", "value") if pa.types.is_map(field.type) else ("element",)
        by_role = bool(field.inside) and not pa.types.is_struct(field.type)
        inside = _mapped(field.inside, below, called if by_role else None)
        given.append(field._replace(field_id=field_id, inside=inside))
    return tuple(given)
