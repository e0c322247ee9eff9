"""The form in which Spark hands rows to what writes them: every type as Spark stores it, or a stand-in.

==============================  =============================================================================
uuid, fixed                     ``BINARY``
timestamp_ns, timestamptz_ns    ``BIGINT``, nanoseconds since 1970
time                            ``TIME(6)``
unknown                         left out, as nothing of it is stored
all the others                  as users see them, see ``types``
==============================  =============================================================================

Stand-ins say less than the file must: tables that have some are not written by Spark's own writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import types as s

from lakeplane.errors import NotSupported
from lakeplane.model.types import (
    NANOS,
    UNKNOWN,
    UUID,
    VARIANT,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    walk,
)
from lakeplane.spark.literals import sql_literal
from lakeplane.spark.types import FIELD_ID, shown_type


def is_stand_in(type_: Type) -> bool:
    """Whether Spark has no type that it would write as the spec says."""
    return type_ is UUID or type_ in NANOS or isinstance(type_, Fixed)


def has_stand_ins(fields: tuple[Field, ...]) -> bool:
    """Whether Spark's own writer cannot write such columns."""
    return any(is_stand_in(field.type) for field in walk(fields))


def has_inner_ids(fields: tuple[Field, ...]) -> bool:
    """Whether there are lists or maps, of which Spark's own writer leaves the inner ids out."""
    return any(isinstance(field.type, List | Map) for field in walk(fields))


def stored_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields of which something is stored."""
    return tuple(field for field in fields if field.type is not UNKNOWN)


def wire_names(fields: Sequence[Field]) -> list[str]:
    """Names for columns in files: their own, but no two that Spark would take for one."""
    names: list[str] = []
    taken = {field.name.casefold() for field in fields}
    seen: set[str] = set()
    for field in fields:
        name = field.name
        while name.casefold() in seen:
            name = f"{name}_{field.id}"
            if name.casefold() in taken:
                name += "_"
        seen.add(name.casefold())
        names.append(name)
    return names


def wire_type(type_: Type) -> s.DataType:
    """The type that a column has on its way, with the ids of the fields inside."""
    match type_:
        case Struct():
            return wire_struct(type_.fields)
        case List():
            return s.ArrayType(_inner(type_.element), not is_asserted(type_.element_field))
        case Map():
            value = _inner(type_.value)
            return s.MapType(_inner(type_.key), value, not is_asserted(type_.value_field))
        case _ if type_ is UUID or isinstance(type_, Fixed):
            return s.BinaryType()
        case _:
            return shown_type(type_)


def _inner(type_: Type) -> s.DataType:
    if type_ is UNKNOWN:
        raise NotSupported("lists and maps of type unknown cannot be written")
    return wire_type(type_)


def wire_struct(fields: tuple[Field, ...]) -> s.StructType:
    """The columns on their way, with their ids."""
    stored = stored_fields(fields)
    return s.StructType(
        [
            s.StructField(name, wire_type(field.type), not is_asserted(field), {FIELD_ID: field.id})
            for name, field in zip(wire_names(stored), stored, strict=True)
        ]
    )


def is_asserted(field: Field) -> bool:
    """Whether Spark can be told that a column has no nulls, after they have been looked for.

    Spark believes it of ``coalesce`` when the last choice is a constant, which not every type has.
    """
    return field.required and some_value(field.type) is not None


def some_value(type_: Type) -> str | None:
    """Any value but null of a type on its way, as SQL; None if there is no way to write one down."""
    match type_:
        case Struct():
            return _some_struct(type_)
        case List():
            element = some_value(type_.element)
            return element and f"array({element})"
        case Map():
            key, value = some_value(type_.key), some_value(type_.value)
            return f"map({key}, {value})" if key and value else None
        case Geometry() | Geography() | Primitive.VARIANT | Primitive.UNKNOWN:
            return None
        case _:
            return wire_literal(type_, _SOME.get(type_, 0))


def _some_struct(type_: Struct) -> str | None:
    stored = stored_fields(type_.fields)
    parts = []
    for name, field in zip(wire_names(stored), stored, strict=True):
        value = some_value(field.type)
        if value is None:
            return None
        parts.append(f"{text(name)}, {value}")
    return f"named_struct({', '.join(parts)})"


_SOME: Final[dict[Type, Any]] = {
    Primitive.BOOLEAN: False,
    Primitive.FLOAT: 0.0,
    Primitive.DOUBLE: 0.0,
    Primitive.STRING: "",
    Primitive.BINARY: b"",
}


def wire_literal(type_: Type, value: Any) -> str:
    """A value that is not nested as SQL of the type on its way; null is no such value."""
    match type_:
        case Primitive.UUID:
            return f"X'{value.bytes.hex() if value else '00' * 16}'"
        case Fixed():
            return f"X'{value.hex() if value else ''}'"
        case Primitive.INT:
            return f"({value})" if value >= -(2**31) + 1 else "(-2147483647 - 1)"
        case Primitive.LONG | Primitive.TIMESTAMP_NS | Primitive.TIMESTAMPTZ_NS:
            return f"({value}L)" if value > -(2**63) else "(-9223372036854775807L - 1L)"
        case _ if not value and not isinstance(value, bool) and hasattr(type_, "precision"):
            return f"CAST(0 AS {shown_type(type_).simpleString()})"
        case _:
            return sql_literal(type_, value)


def text(value: str) -> str:
    """A string as SQL, whatever the session thinks of backslashes."""
    plain = value.isascii() and value.isprintable() and "\\" not in value and "'" not in value
    return f"'{value}'" if plain else f"CAST(X'{value.encode().hex()}' AS STRING)"


def native_only(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Columns that only Spark's own writer knows how to write."""
    return (f for f in walk(fields) if f.type is VARIANT or isinstance(f.type, Geometry | Geography))
