"""The parts of a plan: files to which deletes apply in the same way; without deletes they are plain scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lakeplane.iceberg.plan import ReadPlan
from lakeplane.spark.constants import ROW
from lakeplane.spark.equality_deletes import Equality, equalities_of, with_scopes

if TYPE_CHECKING:
    from pyroaring import BitMap64


class Part(NamedTuple):
    """Files that are read together."""

    files: pa.Table
    deleted: Mapping[int, BitMap64]
    """Their deleted positions, by the rows of the plan: each of the files has some, or none has."""
    equalities: tuple[Equality, ...]


def numbered(plan: ReadPlan) -> ReadPlan:
    """A plan whose files tell their rows, and, where that may matter for deletes, their partitions."""
    rows = pa.array(np.arange(plan.files.num_rows))
    plan = plan._replace(files=plan.files.append_column(ROW, rows))
    return with_scopes(plan) if plan.deletes.num_rows else plan


def parts_of(plan: ReadPlan, deleted: Mapping[int, BitMap64]) -> list[Part]:
    """Tell files apart by whether some of their rows are deleted by position, and by which values."""
    if not plan.deletes.num_rows and not deleted:
        return [Part(plan.files, {}, ())]
    marked = np.zeros(plan.files.num_rows, bool)
    marked[[row for row, positions in deleted.items() if positions]] = True
    kinds: dict[tuple[bool, tuple[Equality, ...]], list[int]] = {}
    for row, kind in enumerate(zip(marked.tolist(), equalities_of(plan), strict=True)):
        kinds.setdefault(kind, []).append(row)
    return [
        Part(
            plan.files if len(kinds) == 1 else plan.files.take(pa.array(rows)),
            {row: deleted[row] for row in rows} if is_marked else {},
            equalities,
        )
        for (is_marked, equalities), rows in kinds.items()
    ]
