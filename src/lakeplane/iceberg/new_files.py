"""Data files that are written and not published yet: what every writer hands to a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class NewFiles(NamedTuple):
    """New files of one partition spec, as columns.

    ``files`` has a row for each file: some of ``FILE_COLUMNS`` (what is missing is null), and ``partition``,
    a struct whose fields are named by the ids of the partition fields.
    """

    spec_id: int
    files: pa.Table
