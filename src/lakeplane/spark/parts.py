"""The parts of a plan: files to which deletes apply in the same way; without deletes they are plain scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.frozen import FrozenDict
from lakeplane.spark.constants import ROW
from lakeplane.spark.equality_deletes import Equality, equalities_of, with_scopes


class Part(NamedTuple):
    """Files that are read together."""

    files: pa.Table
    positions: Mapping[int, BitMap64] = FrozenDict()
    """Positions by the rows of the plan: each of the files has some, or none has."""
    keep: bool = False
    """Whether the rows at these positions are all that is read, or are left out."""
    equalities: tuple[Equality, ...] = ()


def numbered(plan: ReadPlan) -> ReadPlan:
    """A plan whose files tell their rows, and, where that may matter for deletes, their partitions."""
    rows = pa.array(np.arange(plan.files.num_rows))
    plan = plan._replace(files=plan.files.append_column(ROW, rows))
    return with_scopes(plan) if plan.deletes.num_rows else plan


def parts_of(
    plan: ReadPlan, deleted: Mapping[int, BitMap64], only: Mapping[int, BitMap64] | None = None
) -> list[Part]:
    """Tell files apart by whether some of their rows are deleted by position, and by which values.

    Of files that ``only`` names, the rows at those positions are read that are not deleted.
    """
    if not plan.deletes.num_rows and not deleted and not only:
        return [Part(plan.files)]
    kept = {row: positions - deleted.get(row, _NONE) for row, positions in (only or {}).items()}
    positions = {**deleted, **kept}
    kinds: dict[tuple[bool, bool, tuple[Equality, ...]], list[int]] = {}
    for row, equalities in enumerate(equalities_of(plan)):
        is_marked, keep = bool(positions.get(row)), row in kept
        if is_marked or not keep:
            kinds.setdefault((is_marked, keep, equalities), []).append(row)
    whole = plan.files.num_rows
    return [
        Part(
            plan.files if len(rows) == whole else plan.files.take(pa.array(rows)),
            {row: positions[row] for row in rows} if is_marked else {},
            keep,
            equalities,
        )
        for (is_marked, keep, equalities), rows in kinds.items()
    ]


_NONE: Final = BitMap64()
