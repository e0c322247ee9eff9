"""Rows of users matched to the schema of a table: by name, checked, in the types of the table.

What a frame lacks becomes the write default of its column, or null. What does not fit is an error that names
the column, before anything is written. Where a column is already what the table wants, it is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from lakeplane.errors import InvalidInput
from lakeplane.files.align_values import Convert, converter
from lakeplane.files.nested_arrays import all_null, lists_of, maps_of, structs_of, visible_nulls
from lakeplane.model.arrow_schema import from_arrow, to_arrow
from lakeplane.model.evolution import EvolutionRules
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.promotion import can_promote
from lakeplane.model.schema import Schema
from lakeplane.model.schema_union import union_by_name
from lakeplane.model.types import VARIANT, Field, List, Map, Struct, Type, children, is_nested

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader"

_BATCH_BYTES: Final = 256 << 20
_NANOS_VERSION: Final = 3
_VARIANT_PARTS: Final = frozenset({"metadata", "value"})


def arrow_rows(frame: Any) -> Rows:
    """The rows of a frame in Arrow, without copying what need not be: a table, or a stream of batches.

    Taken are tables, batches, readers and datasets' scanners of pyarrow, frames of pandas (without their
    index; NaN is null, as pandas means it) and of polars, and whatever has an Arrow stream.
    """
    match frame:
        case pa.Table() | pa.RecordBatchReader():
            return frame
        case pa.RecordBatch():
            return pa.Table.from_batches([frame])
    module = type(frame).__module__.partition(".")[0]
    if module == "pandas" and hasattr(frame, "columns"):
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            problem = f"the frame cannot become an Arrow table: {str(error).splitlines()[0]}"
            raise InvalidInput(problem, hint="Give each column values of one type") from None
    if module == "polars" and type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    if module == "polars" and hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
        return frame.to_arrow()
    if hasattr(frame, "to_reader") and module == "pyarrow":
        return frame.to_reader()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame)
    problem = f"rows cannot be taken from a {type(frame).__module__}.{type(frame).__name__}"
    hint = "Give an Arrow table or reader, or a frame of pandas, polars or Spark"
    raise InvalidInput(problem, hint=hint)


def align_arrow(schema: Schema, rows: Any, *, case_sensitive: bool = True) -> Rows:
    """Rows in the columns and types of a schema: of a table a table, of a stream a stream.

    The types are those of ``arrow_schema.to_arrow``, with field ids. Types and names are checked at once;
    values are, too, but those of a stream only as its batches are read.

    Args:
        schema: The schema of the table.
        rows: What ``arrow_rows`` takes.
        case_sensitive: Whether ``ID`` is another column than ``id``.
    """
    given = arrow_rows(rows)
    wanted = to_arrow(schema)
    align = _Plan(case_sensitive).columns(schema.fields, list(given.schema), list(wanted), "")

    def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(align(batch.columns, batch.num_rows), schema=wanted)

    if isinstance(given, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(wanted, map(aligned, _small(given)))
    return pa.Table.from_batches(map(aligned, _small(given.to_batches())), schema=wanted)


def union_schema(schema: Schema, rows: pa.Schema, rules: EvolutionRules) -> tuple[Schema, int]:
    """A schema with the columns that rows bring along, and types that hold what they hold; and the last id.

    Where the type of a column cannot grow to that of the rows, it stays, and the values have to fit.
    """
    incoming = from_arrow(rows, nanos="keep" if rules.format_version >= _NANOS_VERSION else "micros")
    kept = Schema(_kept(schema.fields, incoming.fields, rules))
    return union_by_name(schema, kept, rules)


def _kept(mine: tuple[Field, ...], theirs: tuple[Field, ...], rules: EvolutionRules) -> tuple[Field, ...]:
    names = {_folded(field.name, rules.case_sensitive): field for field in mine}
    found = []
    for field in theirs:
        own = names.get(_folded(field.name, rules.case_sensitive))
        type_ = field.type if own is None else _kept_type(own.type, field.type, rules)
        found.append(msgspec.structs.replace(field, type=type_))
    return tuple(found)


def _kept_type(mine: Type, theirs: Type, rules: EvolutionRules) -> Type:
    match mine, theirs:
        case Struct(), Struct():
            fields = _kept(mine.fields, theirs.fields, rules)
            return msgspec.structs.replace(theirs, fields=fields)
        case List(), List():
            return msgspec.structs.replace(theirs, element=_kept_type(mine.element, theirs.element, rules))
        case Map(), Map():
            key, value = (
                _kept_type(ours.type, other.type, rules)
                for ours, other in zip(children(mine), children(theirs), strict=True)
            )
            return msgspec.structs.replace(theirs, key=key, value=value)
        case _:
            return theirs if can_promote(mine, theirs, rules.format_version) else mine


def _folded(name: str, case_sensitive: bool) -> str:  # noqa: FBT001
    return name if case_sensitive else name.casefold()


def _small(batches: Any) -> Iterator[pa.RecordBatch]:
    """Batches that are not too large for arrays with offsets of 32 bits."""
    for batch in batches:
        count = max(1, -(-batch.nbytes // _BATCH_BYTES))
        step = max(1, -(-batch.num_rows // count))
        for start in range(0, max(batch.num_rows, 1), step):
            yield batch.slice(start, step)


Columns: TypeAlias = Callable[[list[pa.Array], int], list[pa.Array]]


class _Plan:
    """What is done with each column, decided by the types alone."""

    def __init__(self, case_sensitive: bool) -> None:  # noqa: FBT001
        self._case_sensitive = case_sensitive

    def columns(
        self, fields: tuple[Field, ...], given: list[pa.Field], wanted: list[pa.Field], place: str
    ) -> Columns:
        """What makes the columns of a schema, or of a struct, from those that are given."""
        places = self._places(fields, [each.name for each in given], place)
        makers = [
            _default(field, arrow, _within(place, field.name))
            if at is None
            else self.field(field, given[at], arrow.type, _within(place, field.name))
            for field, at, arrow in zip(fields, places, wanted, strict=True)
        ]

        def make(arrays: list[pa.Array], count: int) -> list[pa.Array]:
            return [
                maker(pa.nulls(count)) if at is None else maker(arrays[at])
                for maker, at in zip(makers, places, strict=True)
            ]

        return make

    def _places(self, fields: tuple[Field, ...], names: list[str], place: str) -> list[int | None]:
        """Where each field is among the columns that are given; None where it is not."""
        at: dict[str, int] = {}
        for position, name in enumerate(names):
            if at.setdefault(_folded(name, self._case_sensitive), position) != position:
                raise InvalidInput("is given twice", field=_within(place, name), hint="Rename one of them")
        wanted = [_folded(field.name, self._case_sensitive) for field in fields]
        if len(set(wanted)) < len(wanted):
            hint = "Match the names with their case"
            raise InvalidInput("names differ in nothing but their case", field=place or None, hint=hint)
        extra = [names[position] for name, position in at.items() if name not in set(wanted)]
        if extra:
            known = ", ".join(field.name for field in fields[:20])
            hint = f"Leave it out, or write with merge_schema=True. The table has {known}"
            problem = "the table has no such column" if len(extra) == 1 else f"so are {len(extra) - 1} others"
            if len(extra) > 1:
                problem = f"the table has no such column, nor {', '.join(extra[1:6])}"
            raise InvalidInput(problem, field=_within(place, extra[0]), hint=hint)
        return [at.get(name) for name in wanted]

    def field(self, field: Field, given: pa.Field, wanted: pa.DataType, place: str) -> Convert:
        """What makes the column of a field; the nulls of required ones are refused where they are."""
        convert = self._type(field.type, given, wanted, place)
        if not field.required:
            return convert

        def check(array: pa.Array) -> pa.Array:
            found = convert(array)
            if found.null_count:
                hint = "Fill the nulls, or make the column optional"
                problem = f"is required, and holds {found.null_count} nulls"
                raise InvalidInput(problem, field=place, hint=hint)
            return found

        return check

    def _type(self, type_: Type, given: pa.Field, wanted: pa.DataType, place: str) -> Convert:
        if not is_nested(type_) and type_ is not VARIANT:
            return converter(type_, given, wanted, place)
        found = given.type
        while isinstance(found, pa.BaseExtensionType):
            found = found.storage_type
        if kinds.is_null(found):
            return lambda array: all_null(wanted, len(array))
        match type_:
            case Struct() if kinds.is_struct(found):
                return self._struct(type_.fields, found, wanted, place)
            case List() if _is_list(found):
                return self._list(type_, found, wanted, place)
            case Map() if kinds.is_map(found) or _is_list_of_entries(found):
                return self._map(type_, found, wanted, place)
            case _ if type_ is VARIANT and kinds.is_struct(found):
                return _variant(found, wanted, place)
            case _:
                hint = "Change the type of the column, or leave it out"
                raise InvalidInput(f"{given.type} cannot become {type_}", field=place, hint=hint)

    def _struct(
        self, fields: tuple[Field, ...], found: pa.StructType, wanted: pa.StructType, place: str
    ) -> Convert:
        # Required fields are checked where the struct is not null, which they cannot see themselves.
        loose = tuple(msgspec.structs.replace(field, required=False) for field in fields)
        required = [
            (position, _within(place, field.name)) for position, field in enumerate(fields) if field.required
        ]
        given = list(found)
        missing = self._places(fields, [each.name for each in given], place)
        for field, at, arrow in zip(fields, missing, wanted, strict=True):
            if at is None:
                _default(field, arrow, _within(place, field.name))
        make = self.columns(loose, given, list(wanted), place)

        def convert(array: pa.Array) -> pa.Array:
            array = _storage(array)
            parts = make(array.flatten(), len(array))
            for position, name in required:
                if nulls := visible_nulls(array, parts[position]):
                    hint = "Fill the nulls, or make the column optional"
                    raise InvalidInput(f"is required, and holds {nulls} nulls", field=name, hint=hint)
            return structs_of(array, parts, wanted)

        return convert

    def _list(self, type_: List, found: pa.DataType, wanted: pa.ListType, place: str) -> Convert:
        inside = f"{place}.element"
        make = self.field(type_.element_field, found.value_field, wanted.value_type, inside)
        return lambda array: lists_of(_storage(array), make, wanted)

    def _map(self, type_: Map, found: pa.DataType, wanted: pa.MapType, place: str) -> Convert:
        if kinds.is_map(found):
            key, value = found.key_field, found.item_field
        else:
            key, value = found.value_type.field("key"), found.value_type.field("value")
        make_key = self.field(type_.key_field, key, wanted.key_type, f"{place}.key")
        make_value = self.field(type_.value_field, value, wanted.item_type, f"{place}.value")
        return lambda array: maps_of(_storage(array), make_key, make_value, wanted)


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _is_list(found: pa.DataType) -> bool:
    return bool(
        kinds.is_list(found)
        or kinds.is_large_list(found)
        or kinds.is_fixed_size_list(found)
        or kinds.is_list_view(found)
        or kinds.is_large_list_view(found)
    )


def _is_list_of_entries(found: pa.DataType) -> bool:
    """Whether a type is how those write a map who have none, as polars."""
    if not _is_list(found) or not kinds.is_struct(found.value_type):
        return False
    return {each.name for each in found.value_type} == {"key", "value"}


def _variant(found: pa.StructType, wanted: pa.StructType, place: str) -> Convert:
    names = {each.name for each in found}
    if names != _VARIANT_PARTS:
        hint = "Give a struct of metadata and value, both binary, which is not shredded"
        raise InvalidInput(f"{found} is no variant", field=place, hint=hint)
    parts = [found.get_field_index(each.name) for each in wanted]

    def convert(array: pa.Array) -> pa.Array:
        array = _storage(array)
        flat = array.flatten()
        found = [flat[at].cast(pa.binary()) for at in parts]
        if nulls := visible_nulls(array, found[0]):
            raise InvalidInput(f"{nulls} variants have no metadata", field=place)
        return structs_of(array, found, wanted)

    return convert


def _default(field: Field, arrow: pa.Field, place: str) -> Convert:
    """What makes a column that is not given: its write default, or null."""
    value = field.write_default
    if value is None and field.required:
        hint = "Add the column to the rows, give it a write default, or make it optional"
        raise InvalidInput("is required, and the rows do not have it", field=place, hint=hint)
    if value is None:
        return lambda array: all_null(arrow.type, len(array))
    one = _constant(field.type, value, arrow.type)
    return lambda array: one.take(pa.array(np.zeros(len(array), np.int64)))


def _constant(type_: Type, value: Any, arrow: pa.DataType) -> pa.Array:
    """A canonical value as an array of one row."""
    if isinstance(arrow, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow, _constant(type_, value, arrow.storage_type))
    if value is None:
        return all_null(arrow, 1)
    match type_:
        case Struct():
            assert isinstance(value, FrozenDict)
            parts = [
                _constant(field.type, value.get(field.id, field.write_default), inner.type)
                for field, inner in zip(type_.fields, arrow, strict=True)
            ]
            return pa.StructArray.from_arrays(parts, fields=list(arrow))
        case List():
            items = [_constant(type_.element, item, arrow.value_type) for item in value]
            whole = pa.concat_arrays(items) if items else pa.nulls(0, arrow.value_type)
            return pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), whole, arrow)
        case Map():
            keys = [_constant(type_.key, key, arrow.key_type) for key, _ in value]
            items = [_constant(type_.value, item, arrow.item_type) for _, item in value]
            offsets = pa.array([0, len(keys)], pa.int32())
            joined = (
                pa.concat_arrays(each) if each else pa.nulls(0, kind)
                for each, kind in ((keys, arrow.key_type), (items, arrow.item_type))
            )
            return pa.MapArray.from_arrays(offsets, *joined, arrow)
        case _:
            raw = getattr(value, "bytes", value)
            return pa.array([raw], arrow)
