"""What the condition of a join says about one of its sides: enough to leave out files that cannot match.

Only the outermost AND is taken apart, and only what is certain is kept: equalities between a column of the
table and one of the other side, and conditions on columns of the table alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.tree import TRUE, Opaque, Predicate, all_of, leaves
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field

if TYPE_CHECKING:
    from sqlglot import exp


class JoinKeys(NamedTuple):
    """What is known of the rows of a table that a condition can hold for."""

    equal: tuple[tuple[Field, str], ...] = ()
    """Columns of the table, with the column of the other side that they equal."""
    own: Predicate = TRUE
    """What the condition says of the table alone."""


class Sides(NamedTuple):
    """The two sides of a join: what they are called, and which columns they have."""

    table: str
    schema: Schema
    other: str
    columns: Collection[str]
    """Of the other side."""
    zone: str = "UTC"
    case_sensitive: bool = False


def join_keys(text: str, sides: Sides) -> JoinKeys:
    """Look for what a join condition, in Spark's SQL, says of a table: nothing where it is not clear."""
    import sqlglot  # noqa: PLC0415 - slow to import
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError):
        return JoinKeys()
    equal: list[tuple[Field, str]] = []
    own: list[Predicate] = []
    for part in map(_unnested, tree.flatten() if tree.key == "and" else [tree]):
        if (pair := _equality(part, sides)) is not None:
            equal.append(pair)
        elif (predicate := _own(part, sides)) is not None:
            own.append(predicate)
    return JoinKeys(tuple(equal), all_of(own))


def _unnested(part: Any) -> exp.Expression:
    found: exp.Expression = part.unnest()
    return found


def _equality(part: exp.Expression, sides: Sides) -> tuple[Field, str] | None:
    from sqlglot import exp  # noqa: PLC0415

    if not isinstance(part, exp.EQ):
        return None
    for mine, theirs in ((part.left, part.right), (part.right, part.left)):
        field, name = _field(mine, sides), _other(theirs, sides)
        if field is not None and name is not None:
            return field, name
    return None


def _field(node: Any, sides: Sides) -> Field | None:
    parts = _parts(node)
    if parts is None or not _is(parts[0], sides.table, sides) or len(parts) != 2:  # noqa: PLR2004 - alias.column
        return None
    found = [each for each in sides.schema.fields if _is(parts[1], each.name, sides)]
    return found[0] if len(found) == 1 else None


def _other(node: Any, sides: Sides) -> str | None:
    parts = _parts(node)
    if parts is None or not _is(parts[0], sides.other, sides) or len(parts) != 2:  # noqa: PLR2004
        return None
    found = [each for each in sides.columns if _is(parts[1], each, sides)]
    return found[0] if len(found) == 1 else None


def _parts(node: exp.Expression) -> list[str] | None:
    from sqlglot import exp  # noqa: PLC0415

    return [each.name for each in node.parts] if isinstance(node, exp.Column) else None


def _is(name: str, known: str, sides: Sides) -> bool:
    return name == known or (not sides.case_sensitive and name.casefold() == known.casefold())


def _own(part: exp.Expression, sides: Sides) -> Predicate | None:
    """A condition on the table alone, if it is one that can leave out files."""
    from sqlglot import exp  # noqa: PLC0415

    columns = list(part.find_all(exp.Column))
    if not columns or part.find(exp.Query) is not None:
        return None
    for each in columns:
        parts = _parts(each) or [""]
        if len(parts) < 2 or not _is(parts[0], sides.table, sides):  # noqa: PLR2004
            return None
    bare = part.copy()
    for each in list(bare.find_all(exp.Column)):
        inner = [exp.to_identifier(name, quoted=True) for name in (_parts(each) or [])[1:]]
        each.replace(
            exp.column(inner[0]) if len(inner) == 1 else exp.Dot.build([exp.column(inner[0]), *inner[1:]])
        )
    try:
        predicate = parse_predicate(
            bare.sql("spark"), sides.schema, zone=sides.zone, case_sensitive=sides.case_sensitive
        )
    except InvalidExpression:
        return None
    return None if any(isinstance(each, Opaque) for each in leaves(predicate)) else predicate
