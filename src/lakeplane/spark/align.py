"""Frames of Spark matched to a table: columns by name, at every depth, with all that a table demands of them.

What is missing takes its ``write-default``, or null where it may be null. What cannot be stored is refused
before anything is written if the types tell, and else by the task that meets the row: then the write fails,
and nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as s

from lakeplane.errors import InvalidInput
from lakeplane.model.evolution import EvolutionRules
from lakeplane.model.promotion import can_promote
from lakeplane.model.schema import Schema
from lakeplane.model.schema_union import union_by_name
from lakeplane.model.types import UNKNOWN, Field, List, Map, Struct, Type, map_fields
from lakeplane.spark.assign import END, MARK, assigned, refusal
from lakeplane.spark.session import is_case_sensitive
from lakeplane.spark.transforms import quoted
from lakeplane.spark.types import from_spark
from lakeplane.spark.wire import (
    is_asserted,
    some_value,
    stored_fields,
    text,
    wire_literal,
    wire_names,
    wire_struct,
    wire_type,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def align_frame(df: DataFrame, schema: Schema) -> DataFrame:
    """A frame with exactly the columns of a table that are stored, in their order and form (see ``wire``).

    Columns of the result know their field ids, and whether they may hold nulls.

    Raises:
        InvalidInput: a column is not in the table, one that the table needs is not in the frame, or the
            values of one cannot be stored in the type of the table.
    """
    matching = _Matching(case_sensitive=is_case_sensitive(df.sparkSession))
    fields = stored_fields(schema.fields)
    names = wire_names(fields)
    columns = matching.columns(schema.fields, df.schema.fields, quoted, "")
    made = df.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in zip(names, columns, strict=True)))
    return with_ids(made, fields)


def aligned_sql(
    schema: Schema,
    given: Sequence[s.StructField],
    access: Callable[[str], str],
    *,
    case_sensitive: bool,
) -> dict[str, str]:
    """The stored columns of a table as SQL, by their names on the way, from fields that are given.

    ``access`` tells the SQL of a given field. What is not given takes its default.
    """
    columns = _Matching(case_sensitive).columns(schema.fields, given, access, "")
    return dict(zip(wire_names(stored_fields(schema.fields)), columns, strict=True))


def with_ids(df: DataFrame, fields: Sequence[Field]) -> DataFrame:
    """The same columns, each with its field id, and with those of what is inside.

    It is a cast that puts ids into types, since Spark's optimiser takes other ways to say them away.
    """
    wanted = wire_struct(tuple(fields))
    columns = []
    for found, field in zip(df.columns, wanted.fields, strict=True):
        column = df[quoted(found)].cast(field.dataType)
        columns.append(column.alias(field.name, metadata=field.metadata))
    return df.select(*columns)


def merged_schema(df: DataFrame, schema: Schema, rules: EvolutionRules) -> tuple[Schema, int]:
    """The schema of a table, widened for a frame, and its new last column id; see ``union_by_name``.

    Columns that the table lacks are added; types become wider only where the values would not fit.
    """
    matching = _Matching(case_sensitive=is_case_sensitive(df.sparkSession))
    incoming = from_spark(df.schema)
    fields = matching.needed(incoming.fields, df.schema.fields, schema.fields, rules, "")
    return union_by_name(schema, Schema(fields), rules)


def row_refused(failure: BaseException) -> InvalidInput | None:
    """The error for a row that a task has refused, found in what Spark says about it."""
    said = str(failure)
    begin = said.find(f"{MARK}: ")
    end = said.find(END, begin)
    if begin < 0 or end < 0:
        return None
    place, _, problem = said[begin + len(MARK) + 2 : end].rpartition(": ")
    return InvalidInput(problem, field=place, hint="Nothing was written to the table")


class _Given(NamedTuple):
    """A value of a frame: SQL, its type, and whether it may be null."""

    source: str
    type: s.DataType
    nullable: bool


class _Matching(NamedTuple):
    """How fields of frames are found, and made the table's."""

    case_sensitive: bool

    def columns(
        self, fields: Sequence[Field], given: Sequence[s.StructField], access: Any, around: str
    ) -> list[str]:
        """The stored fields of a struct as SQL, from those that are given."""
        pairs = self.pairs(fields, given, around)
        made = []
        for field in stored_fields(tuple(fields)):
            place = around + field.name
            found = pairs.get(field.id)
            if found is None:
                made.append(default_sql(field, place))
            else:
                # Inside of a struct that may be null, everything may be.
                value = _Given(access(found.name), found.dataType, found.nullable or bool(around))
                made.append(self.column(field, value, place))
        return made

    def pairs(
        self, fields: Sequence[Field], given: Sequence[s.StructField], around: str
    ) -> dict[int, s.StructField]:
        """Which given field each field of the table is, by id; all that are given must be some."""
        pairs: dict[int, s.StructField] = {}
        extra = []
        for each in given:
            field = self.called(each.name, fields)
            if field is None:
                extra.append(around + each.name)
            elif field.id in pairs:
                raise InvalidInput("two columns of the frame have this name", field=around + field.name)
            else:
                pairs[field.id] = each
                if field.type is UNKNOWN and not isinstance(each.dataType, s.NullType):
                    raise InvalidInput("a column of type unknown holds nulls only", field=around + field.name)
        if extra:
            hint = "Leave it out, or let the table have it: merge_schema=True"
            names = ", ".join(extra[:20])
            raise InvalidInput(f"the table has no such column as {names}", field=extra[0], hint=hint)
        return pairs

    def called(self, name: str, fields: Sequence[Field]) -> Field | None:
        """The field of a name; in another case if nothing else can be meant."""
        exact = next((field for field in fields if field.name == name), None)
        if exact is not None or self.case_sensitive:
            return exact
        alike = [field for field in fields if field.name.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None

    def column(self, field: Field, given: _Given, place: str, depth: int = 0) -> str:
        """A field of the table from a value that is given, without nulls if it must not have some."""
        sql = self.value(field.type, given.type, given.source, place, depth)
        if not field.required or (not given.nullable and sql == given.source):
            return sql
        failing = refusal(place, "it is required, and a value is null")
        last = some_value(field.type) if is_asserted(field) else None
        return f"coalesce({', '.join(filter(None, (sql, failing, last)))})"

    def value(self, type_: Type, given: s.DataType, source: str, place: str, depth: int) -> str:
        """A value of a type of the table from one that is given."""
        match type_, given:
            case ((Struct() | List() | Map()), _) if given == plain_type(wire_type(type_)):
                # As it is to be, but for the ids, which a cast will give it.
                return source
            case Struct(), s.StructType():
                return self._struct(type_, given, source, place)
            case List(), s.ArrayType():
                name = f"x{depth}"
                element = _Given(name, given.elementType, given.containsNull)
                inner = self.column(type_.element_field, element, f"{place}.element", depth + 1)
                return f"transform({source}, {name} -> {inner})"
            case Map(), s.MapType():
                return self._map(type_, given, source, place, depth)
            case ((Struct() | List() | Map()), _):
                if isinstance(given, s.NullType):
                    return f"CAST(NULL AS {plain_type(wire_type(type_)).simpleString()})"
                raise InvalidInput(f"{given.simpleString()} cannot be stored as {type_}", field=place)
            case _:
                return assigned(source, given, type_, place)

    def _struct(self, type_: Struct, given: s.StructType, source: str, place: str) -> str:
        stored = stored_fields(type_.fields)
        columns = self.columns(
            type_.fields, given.fields, lambda name: f"{source}.{quoted(name)}", f"{place}."
        )
        parts = (f"{text(name)}, {sql}" for name, sql in zip(wire_names(stored), columns, strict=True))
        return f"IF({source} IS NULL, NULL, named_struct({', '.join(parts)}))"

    def _map(self, type_: Map, given: s.MapType, source: str, place: str, depth: int) -> str:
        key, value = f"k{depth}", f"v{depth}"
        old_value = _Given(value, given.valueType, given.valueContainsNull)
        new_value = self.column(type_.value_field, old_value, f"{place}.value", depth + 1)
        if new_value != value:
            source = f"transform_values({source}, ({key}, {value}) -> {new_value})"
        old_key = _Given(key, given.keyType, nullable=False)
        new_key = self.column(type_.key_field, old_key, f"{place}.key", depth + 1)
        return source if new_key == key else f"transform_keys({source}, ({key}, {value}) -> {new_key})"

    def needed(
        self,
        incoming: Sequence[Field],
        given: Sequence[s.StructField],
        fields: Sequence[Field],
        rules: EvolutionRules,
        around: str,
    ) -> tuple[Field, ...]:
        """The incoming fields with the types that the table must have to hold their values."""
        made = []
        for field, each in zip(incoming, given, strict=True):
            known = self.called(field.name, fields)
            if known is None:
                made.append(_optional(field))
                continue
            wanted = self.needed_type(field.type, each.dataType, known.type, rules, around + known.name)
            made.append(Field(field.id, known.name, wanted, required=known.required))
        return tuple(made)

    def needed_type(
        self, incoming: Type, given: s.DataType, known: Type, rules: EvolutionRules, place: str
    ) -> Type:
        """The type that a column must have: its own, unless only a wider one holds all values."""
        match incoming, given, known:
            case Struct(), s.StructType(), Struct():
                return Struct(self.needed(incoming.fields, given.fields, known.fields, rules, f"{place}."))
            case List(), s.ArrayType(), List():
                inner = self.needed_type(incoming.element, given.elementType, known.element, rules, place)
                return List(incoming.element_id, inner, known.element_required)
            case Map(), s.MapType(), Map():
                key = self.needed_type(incoming.key, given.keyType, known.key, rules, place)
                value = self.needed_type(incoming.value, given.valueType, known.value, rules, place)
                return Map(incoming.key_id, key, incoming.value_id, value, known.value_required)
            case _ if incoming != known and can_promote(known, incoming, rules.format_version):
                return incoming
            case _:
                # It raises where the values cannot be stored at all.
                self.value(known, given, "x", place, 0)
                return known


def _optional(field: Field) -> Field:
    """A new column, without demands: nulls that one frame does not have may be in the next one."""
    type_ = map_fields(field.type, _optional)
    if isinstance(type_, Map) and isinstance(field.type, Map):
        # Keys are never null, and what is in them does not become so.
        type_ = Map(type_.key_id, field.type.key, type_.value_id, type_.value)
    return Field(field.id, field.name, type_, required=False, doc=field.doc)


def default_sql(field: Field, place: str) -> str:
    """What a column that is not given holds."""
    if field.write_default is not None:
        if isinstance(field.type, Struct):
            stored = stored_fields(field.type.fields)
            names = wire_names(stored)
            inner = [default_sql(each, f"{place}.{each.name}") for each in stored]
            parts = (f"{text(name)}, {sql}" for name, sql in zip(names, inner, strict=True))
            return f"named_struct({', '.join(parts)})"
        if not isinstance(field.type, List | Map):
            return wire_literal(field.type, field.write_default)
        return _nested_default(field.type, field.write_default)
    if field.required:
        hint = "Give it, or set a default: it is required, and has none"
        raise InvalidInput("the frame lacks this column", field=place, hint=hint)
    return f"CAST(NULL AS {plain_type(wire_type(field.type)).simpleString()})"


def _nested_default(type_: List | Map, value: Any) -> str:
    target = plain_type(wire_type(type_)).simpleString()
    match type_:
        case List():
            return f"CAST(array({', '.join(_constant(type_.element, each) for each in value)}) AS {target})"
        case _:
            pairs = (f"{_constant(type_.key, k)}, {_constant(type_.value, v)}" for k, v in value)
            return f"CAST(map({', '.join(pairs)}) AS {target})"


def _constant(type_: Type, value: Any) -> str:
    if value is None:
        return "NULL"
    match type_:
        case List() | Map():
            return _nested_default(type_, value)
        case Struct():
            stored = stored_fields(type_.fields)
            parts = (
                f"{text(name)}, {_constant(each.type, value.get(each.id))}"
                for name, each in zip(wire_names(stored), stored, strict=True)
            )
            return f"named_struct({', '.join(parts)})"
        case _:
            return wire_literal(type_, value)


def plain_type(type_: s.DataType) -> s.DataType:
    """A type without what is said about its fields beside name, type and nulls."""
    match type_:
        case s.StructType():
            return s.StructType(
                [s.StructField(f.name, plain_type(f.dataType), f.nullable) for f in type_.fields]
            )
        case s.ArrayType():
            return s.ArrayType(plain_type(type_.elementType), type_.containsNull)
        case s.MapType():
            return s.MapType(plain_type(type_.keyType), plain_type(type_.valueType), type_.valueContainsNull)
        case _:
            return type_
