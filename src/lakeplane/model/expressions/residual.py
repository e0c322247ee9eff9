"""What remains to be checked on the rows of a file, given its partition."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lakeplane.model.expressions.columns import ColumnOf, matches_rows
from lakeplane.model.expressions.project import project_leaf
from lakeplane.model.expressions.tree import FALSE, TRUE, Constant, Leaf, Predicate, leaves, map_leaves
from lakeplane.model.partitioning import PartitionSpec

Codes: TypeAlias = npt.NDArray[np.int64]

_OPEN: Final = 0
_HOLDS: Final = 1
_FAILS: Final = 2
_STATES: Final = 3

_LEAVES_PER_WORD: Final = 39
"""So many states fit into 63 bits."""


def residuals(
    predicate: Predicate, spec: PartitionSpec, partition_of: ColumnOf, count: int
) -> tuple[Codes, list[Predicate]]:
    """The distinct residuals of ``count`` files of one spec, and which of them each file has.

    ``partition_of`` gives the partition values by partition field id. A leaf that its strict projection
    proves becomes true, one that its inclusive projection disproves becomes false, and the rest stays.
    """
    distinct = list(dict.fromkeys(leaves(predicate)))
    states = [(leaf, _states(leaf, spec, partition_of, count)) for leaf in distinct]
    decided = [(leaf, state) for leaf, state in states if state is not None]
    codes, firsts = _group([state for _, state in decided], count)
    found: dict[Predicate, int] = {}
    numbers = np.empty(len(firsts), np.int64)
    for group, row in enumerate(firsts):
        known = {leaf: _CONSTANTS[int(state[row])] for leaf, state in decided if state[row] != _OPEN}
        residual = map_leaves(predicate, lambda leaf, known=known: known.get(leaf, leaf))  # type: ignore[misc]
        numbers[group] = found.setdefault(residual, len(found))
    return numbers[codes], list(found)


_CONSTANTS: Final[dict[int, Constant]] = {_HOLDS: TRUE, _FAILS: FALSE}


def _states(leaf: Leaf, spec: PartitionSpec, partition_of: ColumnOf, count: int) -> npt.NDArray[Any] | None:
    strict, inclusive = (project_leaf(leaf, spec, strict=each) for each in (True, False))
    if strict == FALSE and inclusive == TRUE:
        return None
    states = np.where(matches_rows(strict, partition_of, count), _HOLDS, _OPEN)
    states[~matches_rows(inclusive, partition_of, count)] = _FAILS
    return states.astype(np.int8)


def _group(states: list[npt.NDArray[Any]], count: int) -> tuple[Codes, npt.NDArray[Any]]:
    """Number the distinct combinations of states, and give the first row of each."""
    codes = np.zeros(count, np.int64)
    firsts: npt.NDArray[Any] = np.zeros(min(count, 1), np.int64)
    for start in range(0, len(states), _LEAVES_PER_WORD):
        word = np.zeros(count, np.int64)
        for state in states[start : start + _LEAVES_PER_WORD]:
            word = word * _STATES + state
        _, part = np.unique(word, return_inverse=True)
        combined = codes * (int(part.max(initial=0)) + 1) + part
        _, firsts, codes = np.unique(combined, return_index=True, return_inverse=True)
    return codes, firsts
