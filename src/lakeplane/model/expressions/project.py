"""What a predicate on rows says about partition values.

An *inclusive* projection holds for the partition value of every row that matches: a partition for which it
fails can be skipped. A *strict* projection holds only for partition values all of whose rows match.

A stored partition value is not always the transform of the row:

- Writers before Iceberg 0.9 rounded years, months, days and hours before 1970 towards zero (iceberg #1680):
  the value may be one too high where the right one is negative.
- Truncated ints and longs below the least multiple of the width wrap around to the top of their type, and
  an int column may have become a long since. Hours of timestamps some 245,000 years away wrap, too.

Projections allow for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from lakeplane.model.expressions.bind import compare_units, from_unit, limits, to_unit
from lakeplane.model.expressions.tree import (
    FALSE,
    TRUE,
    Compare,
    Constant,
    In,
    IsNan,
    IsNull,
    Leaf,
    Opaque,
    Operator,
    Predicate,
    StartsWith,
    Term,
    all_of,
    any_of,
    is_absent,
    is_in,
    is_present,
    map_leaves,
    negate,
)
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    accepts,
    apply,
    result_type,
)
from lakeplane.model.types import DATE, INT, LONG, MICROS, NANOS, STRING, Decimal, Type
