"""How large files become whose writers do not tell: guessed from a few of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE_BYTES: Final = 4 << 20
_WORTH_IT: Final = 1 << 20
"""Fewer bytes of rows are nowhere near the size of a file."""
_UNKNOWN: Final = 0.5


class SizeGuess:
    """The bytes of a file for each byte of rows in memory, once enough rows were seen."""

    def __init__(self, encode: Callable[[pa.Table], bytes]) -> None:
        self._encode = encode
        self._ratio: float | None = None

    def learn(self, rows: pa.Table) -> None:
        """Look at rows, the first time that there are many."""
        size = rows.nbytes
        if self._ratio is None and size >= _WORTH_IT:
            sample = rows.slice(0, max(1, rows.num_rows * _SAMPLE_BYTES // size))
            self._ratio = len(self._encode(sample)) / max(sample.nbytes, 1)

    def of(self, size: int) -> int:
        """How large a file becomes of rows of a size."""
        return int((_UNKNOWN if self._ratio is None else self._ratio) * size)
