"""The parts of a predicate that only Spark understands: are they SQL, and which columns do they read?"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from lakeplane.errors import InvalidExpression
from lakeplane.model.expressions.tokens import Text
from lakeplane.model.expressions.tree import Opaque
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field, Struct

if TYPE_CHECKING:
    from sqlglot import exp

_UNIT_WORDS: Final = frozenset(
    {
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND"),
        *("MILLISECOND", "MICROSECOND"),
    }
)
_SELECT: Final = "SELECT "


class Names:
    """The columns of a schema, to be found by the parts of their names."""

    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive

    def find(self, parts: list[str]) -> Field | None:
        """The column with a name, inside structs only; None when there is none."""
        found, rest = self.find_start(parts)
        return None if rest else found

    def find_start(self, parts: list[str]) -> tuple[Field | None, list[str]]:
        """The column that a name begins with, and the parts that come after it."""
        fields, found = self.schema.fields, None
        for position, part in enumerate(parts):
            matching = [field for field in fields if self._same(field.name, part)]
            if not matching:
                return found, parts[position:]
            if len(matching) > 1:
                problem = f"the name {part!r} fits more than one column"
                raise InvalidExpression(problem, source="predicate", hint="Bind it with case_sensitive=True")
            found = matching[0]
            fields = found.type.fields if isinstance(found.type, Struct) else ()
        return found, []

    def _same(self, name: str, part: str) -> bool:
        return name == part or (not self.case_sensitive and name.lower() == part.lower())

    def missing(self, parts: list[str]) -> InvalidExpression:
        """The error for a name that no column has."""
        name = ".".join(parts)
        known = {self.schema.name_of(field.id) for field in self.schema.all_fields}
        folded = {each.lower(): each for each in known}
        close = [folded[each] for each in difflib.get_close_matches(name.lower(), folded, n=3)]
        top = ", ".join(field.name for field in self.schema.fields[:20]) or "none"
        hint = f"Did you mean {' or '.join(close)}?" if close else f"Columns: {top}"
        return InvalidExpression(f"no column {name!r}", source="predicate", hint=hint)


def read_opaque(text: Text, first: int, after: int, names: Names, *, negated: bool) -> Opaque:
    """Make a leaf of the tokens from ``first`` up to ``after``."""
    from sqlglot import exp  # noqa: PLC0415  # slow to import, and seldom needed

    sql = text.between(first, after)
    tree = _parse(text, first, sql)
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.AggFunc | exp.Window):
            problem = (
                f"an aggregate or window function cannot be used in a predicate: {node.sql('spark')[:60]!r}"
            )
            raise InvalidExpression(problem, source="predicate", hint="Compute it first, and write its value")
    ids: set[int] = set()
    for column in tree.find_all(exp.Column):
        parts = [part.name for part in column.parts]
        found, rest = names.find_start(parts)
        inside_query = column.find_ancestor(exp.Query) is not None
        # A sub-query has columns of its own; those of the table may appear in it all the same.
        if found is None and not inside_query and not (len(parts) == 1 and parts[0].upper() in _UNIT_WORDS):
            raise names.missing(parts)
        if found is not None and rest and isinstance(found.type, Struct) and not inside_query:
            raise names.missing(parts)
        if found is not None:
            ids.add(found.id)
    ids.update(_bare_names(text, first, after, names))
    return Opaque(sql, tuple(sorted(ids)), negated)


def _bare_names(text: Text, first: int, after: int, names: Names) -> set[int]:
    """Columns whose names sqlglot takes for something else, as in ``current_date > 5``."""
    ids: set[int] = set()
    for index in range(first, after):
        token = text.tokens[index]
        if (
            token.word
            and text.tokens[index - 1].text != "."
            and text.tokens[index + 1].text not in ("(", ".")
        ):
            found = names.find([token.text])
            ids.update(() if found is None else (found.id,))
    return ids


def _parse(text: Text, first: int, sql: str) -> exp.Expression:
    import sqlglot  # noqa: PLC0415
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    try:
        found = sqlglot.parse_one(_SELECT + sql, dialect="spark")
    except RecursionError:
        text.refuse(first, "too many levels of expressions inside expressions")
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        reason = str(details[0].get("description") or error).partition("\n")[0].partition(" <class")[0]
        text.refuse(first, f"this is not a condition of Spark SQL ({reason})")
    used = {name for name, value in found.args.items() if value}
    alone = isinstance(found, exp.Select) and used == {"expressions"} and len(found.expressions) == 1
    tree = found.expressions[0] if alone else None
    if tree is None or isinstance(tree, exp.Alias | exp.Aliases | exp.Star):
        text.refuse(first, "this is not a condition of Spark SQL")
    if tree.find(exp.Placeholder, exp.Parameter):
        text.refuse(first, "a parameter marker cannot be used", "Write the value into the predicate")
    result: exp.Expression = tree.pop()
    return result
