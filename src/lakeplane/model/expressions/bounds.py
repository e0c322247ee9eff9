"""Predicates on what is known about the columns of files: bounds, and counts of nulls and NaN.

Statistics only ever exclude. What is missing is unknown, never zero and never "all null"; bounds in the
wrong order or of NaN, and counts that contradict each other, are as good as missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.model.expressions.columns import fold
from lakeplane.model.expressions.physical import (
    Column,
    Comparable,
    Mask,
    can_compare,
    first_not_below,
    is_any_of,
    pairwise,
    physical,
    plain,
    read_column,
    test,
)
from lakeplane.model.expressions.steps import limits
from lakeplane.model.expressions.tree import (
    Compare,
    In,
    IsNan,
    IsNull,
    Leaf,
    Opaque,
    Predicate,
    StartsWith,
    Term,
)
from lakeplane.model.transforms import Bucket, Truncate
from lakeplane.model.types import FLOATS, STRING, UUID, Decimal, Type

HALF_UUID: Final = 8

_BEFORE_SURROGATES: Final = 0xD7FF
_AFTER_SURROGATES: Final = 0xE000


class ColumnStats(NamedTuple):
    """What is known about one column of many files: an Arrow array for each fact, a row for each file.

    A fact that is not known for any file is None, one that is not known for a file is null. Bounds are of
    the column's natural Arrow type or, for dates and times, plain integers. ``value_count`` counts nulls
    and NaN, too. Bounds need not be values of the column, as those of long texts are cut short.
    """

    lower: pa.Array | pa.ChunkedArray | None = None
    upper: pa.Array | pa.ChunkedArray | None = None
    value_count: pa.Array | pa.ChunkedArray | None = None
    null_count: pa.Array | pa.ChunkedArray | None = None
    nan_count: pa.Array | pa.ChunkedArray | None = None


StatsOf: TypeAlias = Callable[[int], ColumnStats | None]
"""Gives the statistics of a field id; None where nothing is known."""

Recall: TypeAlias = "Callable[[Term, Callable[[], Known]], Known]"
"""Gives what is known about a term, and makes it when it was not known before."""


def may_match(predicate: Predicate, stats_of: StatsOf, count: int, recall: Recall | None = None) -> Mask:
    """Which of ``count`` files may hold a row that matches.

    With ``recall``, what statistics tell about a term is made once for many predicates on the same files.
    """
    facts = _FactsOf(stats_of, count, recall)
    return fold(predicate, lambda leaf: _may(leaf, facts), count)


def must_match(predicate: Predicate, stats_of: StatsOf, count: int) -> Mask:
    """Which of ``count`` files hold only rows that match."""
    facts = _FactsOf(stats_of, count)
    return fold(predicate, lambda leaf: _must(leaf, facts), count)


def constant_stats(type_: Type, value: Any, count: int) -> ColumnStats:
    """The statistics of a column that has one value in all rows of all files.

    So is a column in the files that are older than it: it has its initial default there, perhaps null.
    """
    ones, zeros = pa.repeat(pa.scalar(1, pa.int64()), count), pa.repeat(pa.scalar(0, pa.int64()), count)
    if value is None:
        return ColumnStats(value_count=ones, null_count=ones, nan_count=zeros)
    if value != value:  # noqa: PLR0124  # NaN
        return ColumnStats(value_count=ones, null_count=zeros, nan_count=ones)
    if isinstance(type_, Decimal):
        scalar = pa.scalar(value, pa.decimal128(type_.precision, type_.scale))
    else:
        scalar = pa.scalar(value.bytes if type_ is UUID else value)
    column = pa.repeat(scalar, count)
    return ColumnStats(column, column, ones, zeros, zeros)


def summary_stats(
    lower: pa.Array | None,
    upper: pa.Array | None,
    contains_null: pa.Array | None,
    contains_nan: pa.Array | None,
) -> ColumnStats:
    """The statistics of a partition field over all files of a manifest, from its field summaries."""
    return ColumnStats(lower, upper, None, _zero_unless(contains_null), _zero_unless(contains_nan))


def _zero_unless(contains: pa.Array | None) -> pa.Array | None:
    if contains is None:
        return None
    absent = pc.equal(contains, pa.scalar(False))  # noqa: FBT003
    return pc.if_else(absent, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))


class Known(NamedTuple):
    """What is known about a term, as masks over files; values where a mask is false have no meaning."""

    lower: Comparable
    upper: Comparable
    has_lower: Mask
    has_upper: Mask
    all_null: Mask
    no_null: Mask
    all_nan: Mask
    no_nan: Mask
    no_number: Mask
    """Nothing but nulls and NaN."""

    @property
    def is_constant(self) -> Mask:
        """Where all values that are neither null nor NaN are the lower bound."""
        return self.has_lower & self.has_upper & pairwise(self.lower, "=", self.upper)


class _FactsOf:
    """Reads the statistics of each term once."""

    def __init__(self, stats_of: StatsOf, count: int, recall: Recall | None = None) -> None:
        self.count = count
        self._stats_of = stats_of
        self._recall = recall or _at_once
        self._known: dict[Term, Known] = {}

    def of(self, term: Term) -> Known:
        if term not in self._known:
            self._known[term] = self._recall(term, lambda: self._read(term))
        return self._known[term]

    def _read(self, term: Term) -> Known:
        return _read(term, self._stats_of(term.field_id) or ColumnStats(), self.count)

    def everywhere(self, value: bool) -> Mask:  # noqa: FBT001
        return np.full(self.count, value)


def _at_once(_: Term, make: Callable[[], Known]) -> Known:
    return make()


def _read(term: Term, stats: ColumnStats, count: int) -> Known:
    values, has_values = _count(stats.value_count, count)
    nulls, has_nulls = _count(stats.null_count, count)
    nans, has_nans = _count(stats.nan_count, count)
    is_float = term.value_type in FLOATS
    # All counts are 0 where a writer did not count. Counts that contradict each other are never equal.
    some = has_values & (values > 0)
    lower, upper = _bounds(term, stats, count)
    all_nan = some & has_nans & (nans == values) & is_float
    return Known(
        lower.values,
        upper.values,
        lower.valid,
        upper.valid,
        all_null=some & has_nulls & (nulls == values),
        no_null=has_nulls & (nulls == 0),
        all_nan=all_nan,
        no_nan=has_nans & (nans == 0) if is_float else np.ones(count, np.bool_),
        no_number=all_nan | (some & has_nulls & has_nans & (nulls + nans == values) & is_float),
    )


def _count(array: pa.Array | pa.ChunkedArray | None, count: int) -> tuple[Any, Mask]:
    if array is None:
        return np.zeros(count, np.int64), np.zeros(count, np.bool_)
    numbers = plain(array).cast(pa.int64()).fill_null(-1).to_numpy()
    return numbers, numbers >= 0


def _bounds(term: Term, stats: ColumnStats, count: int) -> tuple[Column, Column]:
    type_ = term.type
    if isinstance(term.transform, Bucket) or not can_compare(type_):
        unknown = Column(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        return unknown, unknown
    lower, upper = (
        read_column(type_, pa.nulls(count) if each is None else each) for each in (stats.lower, stats.upper)
    )
    if type_ in FLOATS:
        lower, upper = (Column(each.values, each.valid & ~np.isnan(each.values)) for each in (lower, upper))
    if type_ is UUID:
        lower, upper = _widen(lower, upper)
    ordered = ~(lower.valid & upper.valid & pairwise(lower.values, ">", upper.values))
    lower, upper = Column(lower.values, lower.valid & ordered), Column(upper.values, upper.valid & ordered)
    if isinstance(term.transform, Truncate):
        return _truncate(type_, term.transform.width, lower, upper)
    return lower, upper


def _widen(lower: Column, upper: Column) -> tuple[Column, Column]:
    """Bounds of uuids that hold whatever order the writer had.

    Java once compared uuids as two signed longs. Of bounds made so, the first halves are right, unless
    their signs differ, but then the bounds look inverted; and that takes both of them to see.
    """
    both = lower.valid & upper.valid
    return _pad(lower, b"\x00", both), _pad(upper, b"\xff", both)


def _pad(bound: Column, filler: bytes, valid: Mask) -> Column:
    text = pa.large_binary()
    rest, separator = pa.scalar(filler * HALF_UUID, text), pa.scalar(b"", text)
    start = pc.binary_slice(bound.values, 0, HALF_UUID)
    return Column(pc.binary_join_element_wise(start, rest, separator), valid)


def _truncate(type_: Type, width: int, lower: Column, upper: Column) -> tuple[Column, Column]:
    if isinstance(lower.values, np.ndarray):
        # Below the least multiple of the width, ints wrap around: those files are left unknown.
        low, _ = limits(type_) or (0, 0)
        safe = lower.valid if isinstance(type_, Decimal) else lower.valid & (lower.values >= low + width)
        lower, upper = Column(lower.values, safe), Column(upper.values, upper.valid & safe)
        return (
            Column(lower.values - lower.values % width, lower.valid),
            Column(upper.values - upper.values % width, upper.valid),
        )
    return Column(_start(type_, lower.values, width), lower.valid), Column(
        _start(type_, upper.values, width), upper.valid
    )


def _start(type_: Type, values: Comparable, width: int) -> Comparable:
    if type_ is not STRING:
        return pc.binary_slice(values, 0, width)
    # What Arrow calls code units are code points.
    return pc.utf8_slice_codeunits(values.cast(pa.large_string()), 0, width).cast(pa.large_binary())


def _may(leaf: Leaf, facts: _FactsOf) -> Mask:
    if isinstance(leaf, Opaque):
        return facts.everywhere(True)  # noqa: FBT003
    known, type_ = facts.of(leaf.term), leaf.term.value_type
    match leaf:
        case IsNull(negated=negated):
            return ~known.all_null if negated else ~known.no_null
        case IsNan(negated=negated):
            found = known.all_nan if negated else _never_nan(known)
            return ~found
        case Compare(op=op, value=value):
            return _may_compare(known, op, physical(type_, value))
        case In(values=values, negated=negated):
            members = [physical(type_, value) for value in values]
            if negated:
                impossible = known.is_constant & known.no_nan & is_any_of(known.lower, members)
            else:
                impossible = known.no_number | ~_range_hits(known, members)
            return ~known.all_null & ~impossible
        case StartsWith(prefix=prefix, negated=negated):
            outside, inside = _prefix_range(known, prefix)
            return ~known.all_null & ~(inside if negated else outside)


def _never_nan(known: Known) -> Mask:
    return known.no_nan | known.all_null


def _may_compare(known: Known, op: str, value: Any) -> Mask:
    below = known.has_upper & test(known.upper, "<", value)
    above = known.has_lower & test(known.lower, ">", value)
    match op:
        case "=":
            impossible = below | above | known.no_number
        case "<":
            impossible = (known.has_lower & test(known.lower, ">=", value)) | known.no_number
        case "<=":
            impossible = above | known.no_number
        # NaN is greater than every bound, and it is in none.
        case ">":
            impossible = known.has_upper & test(known.upper, "<=", value) & known.no_nan
        case ">=":
            impossible = below & known.no_nan
        case _:
            impossible = known.is_constant & test(known.lower, "=", value) & known.no_nan
    return ~known.all_null & ~impossible


def _range_hits(known: Known, members: list[Any]) -> Mask:
    """Where one of the sorted members may lie between the bounds."""
    first = np.where(known.has_lower, first_not_below(known.lower, members), 0)
    after = np.where(known.has_upper, first_not_below(known.upper, members, after_equal=True), len(members))
    found: Mask = first < after
    return found


def _prefix_range(known: Known, prefix: str) -> tuple[Mask, Mask]:
    """Where no value can start with the prefix, and where all of them must."""
    start, after = prefix.encode(), after_prefix(prefix)
    below = known.has_upper & test(known.upper, "<", start)
    from_start = known.has_lower & test(known.lower, ">=", start)
    if after is None:
        return below, from_start
    above = known.has_lower & test(known.lower, ">=", after.encode())
    return below | above, from_start & known.has_upper & test(known.upper, "<", after.encode())


def after_prefix(prefix: str) -> str | None:
    """The least text above all those that start with a prefix; None when there is none."""
    while prefix:
        prefix, last = prefix[:-1], ord(prefix[-1])
        if last < sys.maxunicode:
            # The code points of surrogates are no characters.
            return prefix + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)
    return None


def _must(leaf: Leaf, facts: _FactsOf) -> Mask:
    if isinstance(leaf, Opaque):
        return facts.everywhere(False)  # noqa: FBT003
    known, type_ = facts.of(leaf.term), leaf.term.value_type
    match leaf:
        case IsNull(negated=negated):
            return known.no_null if negated else known.all_null
        case IsNan(negated=negated):
            return _never_nan(known) if negated else known.all_nan
        case Compare(op=op, value=value):
            return _must_compare(known, op, physical(type_, value))
        case In(values=values, negated=negated):
            members = [physical(type_, value) for value in values]
            if negated:
                return known.no_null & known.has_lower & known.has_upper & ~_range_hits(known, members)
            return known.no_null & known.no_nan & known.is_constant & is_any_of(known.lower, members)
        case StartsWith(prefix=prefix, negated=negated):
            outside, inside = _prefix_range(known, prefix)
            return known.no_null & (outside if negated else inside)


def _must_compare(known: Known, op: str, value: Any) -> Mask:
    # NaN satisfies the comparisons upwards, and those only.
    below = known.has_upper & test(known.upper, "<", value)
    above = known.has_lower & test(known.lower, ">", value)
    match op:
        case "=":
            certain = known.is_constant & test(known.lower, "=", value) & known.no_nan
        case "<":
            certain = below & known.no_nan
        case "<=":
            certain = known.has_upper & test(known.upper, "<=", value) & known.no_nan
        case ">":
            certain = above | known.all_nan
        case ">=":
            certain = (known.has_lower & test(known.lower, ">=", value)) | known.all_nan
        case _:
            certain = below | above | known.all_nan
    return known.no_null & certain
