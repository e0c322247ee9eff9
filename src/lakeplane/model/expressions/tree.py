"""Predicates as values: a tree of ``And`` and ``Or`` over leaves that are bound to columns.

The meaning is that of Spark SQL, seen from a filter, which keeps the rows for which a predicate is true.
Binding has moved every NOT down to the leaves, under three-valued logic. From then on null may count as
false: ``And`` and ``Or`` cannot tell the two apart where only "true" matters. So a leaf of this module is
true or false for a row, and every comparison is false for null.

Floating point numbers compare as Spark compares them: NaN equals itself and is greater than every other
number, and -0.0 equals 0.0. The values of the leaves are never NaN (binding turns comparisons with NaN into
``IsNan``) and never -0.0. Strings compare by code points; binary, fixed and uuid by unsigned bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from lakeplane.errors import InvalidExpression
from lakeplane.model.transforms import Bucket, Identity, Transform, Truncate, check_accepts, result_type
from lakeplane.model.types import Type

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]

NEGATED: Final[dict[Operator, Operator]] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator that holds for exactly the other non-null values."""

MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator with its two sides swapped."""

IDENTITY: Final = Identity()


class Term(msgspec.Struct, frozen=True):
    """What a leaf looks at: a column, or its ``bucket`` or ``truncate``.

    The other transforms have no terms, as binding turns a comparison of a day into one of timestamps.
    In a projected predicate, the id is that of a partition field, and the type that of its values.
    """

    field_id: int
    type: Type
    transform: Transform = IDENTITY

    def __post_init__(self) -> None:
        if not isinstance(self.transform, Identity | Bucket | Truncate):
            problem = f"a predicate cannot look at {self.transform} of a column"
            raise InvalidExpression(problem, hint="Compare the column itself, with a range")
        if not isinstance(self.transform, Identity):
            check_accepts(self.transform, self.type)

    @property
    def value_type(self) -> Type:
        """The type of the values that the leaf compares."""
        return result_type(self.transform, self.type)

    @property
    def is_plain(self) -> bool:
        """Whether the term is the column itself."""
        return isinstance(self.transform, Identity)

    def __str__(self) -> str:
        match self.transform:
            case Bucket(n=n):
                return f"bucket({n}, #{self.field_id})"
            case Truncate(width=width):
                return f"truncate({width}, #{self.field_id})"
            case _:
                return f"#{self.field_id}"


class Constant(msgspec.Struct, frozen=True):
    """True or false for every row: ``TRUE`` and ``FALSE``."""

    value: bool

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


TRUE: Final = Constant(True)  # noqa: FBT003
FALSE: Final = Constant(False)  # noqa: FBT003


class Compare(msgspec.Struct, frozen=True):
    """``term op value``; false for null."""

    term: Term
    op: Operator
    value: Any

    def __str__(self) -> str:
        return f"{self.term} {self.op} {self.value!r}"


class In(msgspec.Struct, frozen=True):
    """``term [NOT] IN (values)``, the values sorted and without duplicates; false for null."""

    term: Term
    values: tuple[Any, ...]
    negated: bool = False

    def __str__(self) -> str:
        listed = ", ".join(map(repr, self.values))
        return f"{self.term} {'NOT ' if self.negated else ''}IN ({listed})"


class IsNull(msgspec.Struct, frozen=True):
    """``term IS [NOT] NULL``."""

    term: Term
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.term} IS {'NOT ' if self.negated else ''}NULL"


class IsNan(msgspec.Struct, frozen=True):
    """``[NOT] isnan(term)``. Null is not NaN, so the negated leaf is true for null, as in Spark."""

    term: Term
    negated: bool = False

    def __str__(self) -> str:
        return f"{'NOT ' if self.negated else ''}isnan({self.term})"


class StartsWith(msgspec.Struct, frozen=True):
    """``[NOT] startswith(term, prefix)``; false for null."""

    term: Term
    prefix: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{'NOT ' if self.negated else ''}startswith({self.term}, {self.prefix!r})"


class Opaque(msgspec.Struct, frozen=True):
    """A condition that only Spark understands: it prunes nothing, and stays in every residual.

    The text is the one that was given, without its comments: it is not written anew, so that Spark sees
    what the user meant.
    """

    sql: str
    field_ids: tuple[int, ...] = ()
    negated: bool = False

    def __str__(self) -> str:
        return f"{'NOT ' if self.negated else ''}({self.sql})"


class And(msgspec.Struct, frozen=True):
    """True when all parts are; made by ``all_of``."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


class Or(msgspec.Struct, frozen=True):
    """True when any part is; made by ``any_of``."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


Leaf: TypeAlias = Compare | In | IsNull | IsNan | StartsWith | Opaque
Predicate: TypeAlias = Constant | Leaf | And | Or


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """The conjunction of predicates: flat, without duplicates, and simple where a part is constant."""
    kept = _distinct(parts, And)
    if FALSE in kept:
        return FALSE
    kept.pop(TRUE, None)
    return TRUE if not kept else next(iter(kept)) if len(kept) == 1 else And(tuple(kept))


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """The disjunction of predicates: flat, without duplicates, and simple where a part is constant."""
    kept = _distinct(parts, Or)
    if TRUE in kept:
        return TRUE
    kept.pop(FALSE, None)
    return FALSE if not kept else next(iter(kept)) if len(kept) == 1 else Or(tuple(kept))


def _distinct(parts: Iterable[Predicate], kind: type[And | Or]) -> dict[Predicate, None]:
    kept: dict[Predicate, None] = {}
    for part in parts:
        # Parts were made by these functions too, so one level is all there is to flatten.
        kept.update(dict.fromkeys(part.parts) if isinstance(part, kind) else {part: None})
    return kept


def is_absent(term: Term) -> IsNull:
    """``term IS NULL``: a term is null exactly where its column is."""
    return IsNull(Term(term.field_id, term.type))


def is_present(term: Term) -> IsNull:
    """``term IS NOT NULL``."""
    return IsNull(Term(term.field_id, term.type), negated=True)


def is_in(term: Term, values: Iterable[Any], *, negated: bool = False) -> Predicate:
    """``term [NOT] IN (values)`` in its simplest form; the values are neither null nor NaN."""
    ordered = tuple(sorted(set(values)))
    if not ordered:
        return is_present(term) if negated else FALSE
    if len(ordered) == 1:
        return Compare(term, "!=" if negated else "=", ordered[0])
    return In(term, ordered, negated)


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Every leaf, from left to right; equal leaves each time."""
    match predicate:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from leaves(part)
        case Constant():
            return
        case _:
            yield predicate


def references(predicate: Predicate) -> frozenset[int]:
    """The ids of all fields that a predicate looks at."""
    found: set[int] = set()
    for leaf in leaves(predicate):
        found.update(leaf.field_ids if isinstance(leaf, Opaque) else (leaf.term.field_id,))
    return frozenset(found)


def map_leaves(predicate: Predicate, change: Callable[[Leaf], Predicate]) -> Predicate:
    """Replace every leaf, and simplify."""
    match predicate:
        case And(parts=parts):
            return all_of(map_leaves(part, change) for part in parts)
        case Or(parts=parts):
            return any_of(map_leaves(part, change) for part in parts)
        case Constant():
            return predicate
        case _:
            return change(predicate)


def negate(predicate: Predicate) -> Predicate:
    """Move a NOT down to the leaves.

    As in SQL, a row whose comparisons are null matches neither a predicate nor its negation. (A leaf that
    binding has folded away is beyond this: of ``a = NULL`` only ``FALSE`` is left, so negate the text of a
    predicate, not its tree, when it may hold such leaves.)
    """
    match predicate:
        case Constant(value=value):
            return FALSE if value else TRUE
        case And(parts=parts):
            return any_of(map(negate, parts))
        case Or(parts=parts):
            return all_of(map(negate, parts))
        case Compare(term=term, op=op, value=value):
            return Compare(term, NEGATED[op], value)
        case _:
            return msgspec.structs.replace(predicate, negated=not predicate.negated)
