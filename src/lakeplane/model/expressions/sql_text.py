"""Predicates as Spark SQL: for Spark to filter with, for people, and to be parsed again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.tree import (
    And,
    Compare,
    Constant,
    In,
    IsNan,
    IsNull,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
)
from lakeplane.model.schema import Schema
from lakeplane.model.temporal import format_date, format_time, format_timestamp
from lakeplane.model.transforms import Bucket, Truncate
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NANOS,
    STRING,
    TIME,
    TIMESTAMPS,
    UUID,
    ZONED,
    Decimal,
    Fixed,
    Type,
)

TermWriter = Callable[[Term, str], str]
"""Writes a ``bucket`` or ``truncate``, given the quoted name of its column."""


def to_sql(predicate: Predicate, schema: Schema, *, write_term: TermWriter | None = None) -> str:
    """Write a predicate as a condition of Spark SQL, which parses to the same predicate.

    Literals with a time zone name it, so that only ``Opaque`` parts depend on the session. Spark itself
    knows ``bucket`` and ``truncate`` of columns only through a catalog: ``write_term`` can put other
    expressions in their place. The literals beside them have the types of the transforms' results.
    """
    writer = write_term or _write_term

    def name(term: Term) -> str:
        column = quoted_name(term.field_id, schema)
        return column if term.is_plain else writer(term, column)

    return _write(predicate, name)


def quoted_name(field_id: int, schema: Schema) -> str:
    """The name of a column in backticks, part by part."""
    parts = []
    field = schema.get(field_id)
    if field is None:
        problem = f"schema {schema.schema_id} has no column with id {field_id}"
        raise InvalidExpression(problem, source="predicate", hint="Bind the predicate to this schema")
    while field is not None:
        parts.append("`" + field.name.replace("`", "``") + "`")
        field = schema.parent_of(field.id)
    return ".".join(reversed(parts))


def literal_sql(type_: Type, value: Any) -> str:
    """A canonical value as a literal of Spark SQL."""
    match type_:
        case _ if type_ is BOOLEAN:
            return "TRUE" if value else "FALSE"
        case _ if type_ in (INT, LONG):
            return str(value)
        case Decimal():
            return format(value, "f")
        case _ if type_ in (FLOAT, DOUBLE):
            text = "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else str(value)
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{text}' AS DOUBLE)"
        case _ if type_ in (STRING, UUID):
            return _quoted(str(value))
        case Fixed() | _ if isinstance(type_, Fixed) or type_ is BINARY:
            return f"X'{value.hex().upper()}'"
        case _ if type_ is DATE:
            return f"DATE '{format_date(value)}'"
        case _ if type_ is TIME:
            return f"TIME '{format_time(value)}'"
        case _ if type_ in TIMESTAMPS:
            text = format_timestamp(value, nanos=type_ in NANOS, zoned=type_ in ZONED).replace("T", " ")
            return f"TIMESTAMP{'' if type_ in ZONED else '_NTZ'} '{text}'"
        case _:
            problem = f"a value of type {type_} cannot be written in a predicate"
            raise InvalidExpression(problem)


def _quoted(text: str) -> str:
    # Spark would keep the backslash of \% and \_, so each backslash is doubled.
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _write_term(term: Term, name: str) -> str:
    match term.transform:
        case Bucket(n=count) | Truncate(width=count):
            return f"{'bucket' if isinstance(term.transform, Bucket) else 'truncate'}({count}, {name})"
        case _:
            return name


def _write(predicate: Predicate, name: Callable[[Term], str]) -> str:
    match predicate:
        case Constant():
            return str(predicate)
        case And(parts=parts):
            return " AND ".join(
                f"({_write(p, name)})" if isinstance(p, Or) else _write(p, name) for p in parts
            )
        case Or(parts=parts):
            return " OR ".join(
                f"({_write(p, name)})" if isinstance(p, And) else _write(p, name) for p in parts
            )
        case Opaque(sql=sql, negated=negated):
            return f"{'NOT ' if negated else ''}({sql})"
        case Compare(term=term, op=op, value=value):
            return f"{name(term)} {op} {literal_sql(term.value_type, value)}"
        case In(term=term, values=values, negated=negated):
            listed = ", ".join(literal_sql(term.value_type, value) for value in values)
            return f"{name(term)} {'NOT ' if negated else ''}IN ({listed})"
        case IsNull(term=term, negated=negated):
            return f"{name(term)} IS {'NOT ' if negated else ''}NULL"
        case IsNan(term=term, negated=negated):
            return f"{'NOT ' if negated else ''}isnan({name(term)})"
        case StartsWith(term=term, prefix=prefix, negated=negated):
            return f"{'NOT ' if negated else ''}startswith({name(term)}, {_quoted(prefix)})"
