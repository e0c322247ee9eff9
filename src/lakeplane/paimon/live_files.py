"""From the entries of manifests to the files that are part of a table.

An entry adds a file or deletes one. What tells files apart is more than their names: compaction may move a
file to a higher level by deleting and adding it, under one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata
from lakeplane.model.expressions.physical import plain, to_mask
from lakeplane.paimon.manifest_schema import ADD, DELETE, ENTRY_COLUMNS
from lakeplane.paimon.snapshots import check_file_name

Codes = npt.NDArray[np.int64]

IDENTITY: Final = (
    *("partition", "bucket", "level", "file_name", "extra_files", "embedded_file_index", "external_path"),
)
"""The columns that together tell files apart."""


def joined(tables: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    """Entries of several manifests, one below the other."""
    if not tables:
        return pa.schema([ENTRY_COLUMNS.field(name) for name in columns]).empty_table()
    return pa.concat_tables(tables).combine_chunks()


def live(entries: pa.Table, source: str) -> pa.Table:
    """The files that are added and not deleted, in the order of their entries."""
    kinds = entries["kind"].to_numpy()
    _check_names(entries["file_name"], source)
    if not (kinds == DELETE).any() and pc.count_distinct(entries["file_name"]).as_py() == len(kinds):
        return entries
    codes = identities(entries)
    count = int(codes.max(initial=-1)) + 1
    balance = np.zeros(count, np.int64)
    np.add.at(balance, codes, np.where(kinds == ADD, 1, -1))
    if (balance > 1).any():
        row = int(np.flatnonzero(balance[codes] > 1)[0])
        name = entries["file_name"][row].as_py()
        raise InvalidMetadata(f"the file {name} is added twice", source=source)
    # Which of several additions counts does not matter: their identity is all that was ever compared.
    last = np.full(count, -1, np.int64)
    added = np.flatnonzero(kinds == ADD)
    last[codes[added]] = added
    rows = np.sort(last[(balance == 1) & (last >= 0)])
    return entries.take(pa.array(rows))


def settled(entries: pa.Table, source: str) -> pa.Table:
    """Entries without pairs that cancel each other; what deletes files of other manifests stays."""
    kinds = entries["kind"].to_numpy()
    codes = identities(entries)
    count = int(codes.max(initial=-1)) + 1
    balance = np.zeros(count, np.int64)
    np.add.at(balance, codes, np.where(kinds == ADD, 1, -1))
    if (np.abs(balance) > 1).any():
        row = int(np.flatnonzero(np.abs(balance[codes]) > 1)[0])
        name = entries["file_name"][row].as_py()
        raise InvalidMetadata(f"the file {name} is added or deleted twice", source=source)
    wanted = np.where(kinds == ADD, 1, -1) == balance[codes]
    last = np.full(count, -1, np.int64)
    rows = np.flatnonzero(wanted)
    last[codes[rows]] = rows
    return entries.take(pa.array(np.sort(last[last >= 0])))


def identities(entries: pa.Table) -> Codes:
    """A number for each file, the same for entries of the same one."""
    codes: Codes = np.zeros(entries.num_rows, np.int64)
    for name in IDENTITY:
        column = plain(entries[name])
        if pa.types.is_list(column.type):
            if not len(column.values):
                continue
            column = pc.binary_join(column, "/")
        elif column.null_count == len(column):
            continue
        part = codes_of(column)
        codes = codes_of(pa.array(codes * (int(part.max(initial=0)) + 1) + part))
    return codes


def codes_of(column: pa.Array) -> Codes:
    """A number for each value, in the order in which values appear first; null is a value."""
    encoded = column.dictionary_encode(null_encoding="encode")
    codes: Codes = encoded.indices.to_numpy().astype(np.int64)
    return codes


def _check_names(names: pa.ChunkedArray, source: str) -> None:
    """Refuse names that lead out of the directory of a bucket."""
    strange = to_mask(plain(pc.match_substring_regex(names, r"[/\\\x00-\x1f\x7f]|^\.{0,2}$")))
    if strange.any():
        try:
            check_file_name(names[int(np.flatnonzero(strange)[0])].as_py(), "_FILE_NAME")
        except InvalidMetadata as error:
            raise InvalidMetadata(error.problem, source=source, field=error.field) from None
