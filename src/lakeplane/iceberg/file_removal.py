"""Taking files out of manifests: which entries go, and what is left of the manifests.

A manifest that loses files is written anew, with what it loses marked as deleted; the others stay. Only
whole files go: a file of which only some rows match is an error that names it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.iceberg.delete_index import PATH_ID, only_data_file, partition_codes
from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST, DELETED, EXISTING, FILE_COLUMNS, POSITION_DELETES
from lakeplane.iceberg.manifest_write import Writing
from lakeplane.iceberg.manifests import read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.pruning import partitions_of, statistics
from lakeplane.model.expressions.bounds import may_match, must_match
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.expressions.tree import FALSE, TRUE, Predicate, references
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema

_NEEDED: Final = ("file_path", "file_format", "record_count", "file_size_in_bytes")


class Removal(NamedTuple):
    """Which files go. What several parts name goes for any of them."""

    where: Predicate = FALSE
    """Files all of whose rows match; a file that matches in part is an error."""
    paths: pa.Array | None = None
    """Data files by name; each of them must be there."""
    places: pa.Table | None = None
    """Where the named files are, if that is known: ``spec_id`` and ``partition``."""
    partitions: pa.Table | None = None
    """All files of some partitions: ``spec_id`` and ``partition``."""
    deletes: pa.Table | None = None
    """Delete files and vectors, as plans have them."""
    deletes_required: bool = False
    """Each of the deletes must be there."""

    @property
    def takes_data(self) -> bool:
        """Whether it names data files."""
        return self.where != FALSE or bool(self.paths) or self.partitions is not None

    @property
    def is_nothing(self) -> bool:
        """Whether it names no file at all."""
        return not self.takes_data and not self.deletes


class DeleteRemoval(NamedTuple):
    """Which delete files go along with data files: those that can apply to nothing any more."""

    removal: Removal
    data_paths: pa.Array
    """The data files that go: their vectors go, too, and deletes of positions in them alone."""
    oldest: int
    """The least data sequence number that is left: what is older than it deletes nothing."""


class Coverage(NamedTuple):
    """How files are covered by a predicate."""

    whole: Mask
    """All rows match."""
    partly: Mask
    """Some rows may match, and some may not."""


def coverage(files: pa.Table, predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Coverage:
    """Tell which files of one spec a predicate covers, by their partitions and statistics."""
    count = files.num_rows
    whole, partly = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    if not count or predicate in (TRUE, FALSE):
        return Coverage(whole | (predicate == TRUE), partly)
    partitions = partitions_of(files)
    codes, distinct = residuals(predicate, spec, partitions.column, len(partitions.distinct))
    codes = codes[partitions.codes]
    for code, residual in enumerate(distinct):
        rows = np.flatnonzero(codes == code)
        if residual == TRUE:
            whole[rows] = True
        elif residual != FALSE and len(rows):
            stats = statistics(files.take(pa.array(rows)), schema)
            must = must_match(residual, stats, len(rows))
            whole[rows] = must
            partly[rows] = may_match(residual, stats, len(rows)) & ~must
    return Coverage(whole, partly)


# Data


class Cut(NamedTuple):
    """What a manifest loses."""

    entries: pa.Table
    """All of its entries that are carried on, with those that go marked as deleted."""
    removed: pa.Table
    """The files that go."""


def cut_data(data: bytes, listed: ManifestFile, removal: Removal, writing: Writing) -> Cut | None:
    """Take data files out of a manifest; None if it has none of them."""
    _check_readable(listed)
    table = writing.table
    statistics_of = references(removal.where)
    found = read_manifest(data, listed, table, columns=_NEEDED, statistics_of=statistics_of)
    goes = _named(found.entries, found.spec_id, removal)
    goes &= found.entries["status"].to_numpy() != DELETED
    if removal.where != FALSE:
        goes |= _covered(found.entries, found.spec_id, goes, removal.where, table)
    if not goes.any():
        return None
    whole = read_manifest(data, listed, table, columns=FILE_COLUMNS.names)
    return _cut(whole.entries, goes, writing.snapshot_id)


def _check_readable(listed: ManifestFile) -> None:
    if listed.key_metadata is not None:
        raise NotSupported("the manifest is encrypted", source=listed.manifest_path)


def _named(entries: pa.Table, spec_id: int, removal: Removal) -> Mask:
    """The entries that are named, by path or by partition."""
    goes = np.zeros(entries.num_rows, np.bool_)
    if removal.paths:
        goes |= to_mask(pc.is_in(plain(entries["file_path"]), value_set=removal.paths))
    if removal.partitions is not None:
        goes |= in_partitions(entries, spec_id, removal.partitions)
    return goes


def in_partitions(entries: pa.Table, spec_id: int, partitions: pa.Table) -> Mask:
    """Which entries of one spec lie in some partitions."""
    if not entries.num_rows or not to_mask(pc.equal(plain(partitions["spec_id"]), spec_id)).any():
        return np.zeros(entries.num_rows, np.bool_)
    same = partitions.filter(pc.equal(partitions["spec_id"], spec_id))
    specs = pa.repeat(pa.scalar(spec_id, pa.int32()), entries.num_rows)
    ours = pa.table({"spec_id": specs, "partition": plain(entries["partition"])})
    codes, wanted = partition_codes(ours, same)
    return np.isin(codes, wanted)


def _covered(entries: pa.Table, spec_id: int, known: Mask, where: Predicate, table: TableMetadata) -> Mask:
    """The live entries all of whose rows match."""
    rows = np.flatnonzero(~known & (entries["status"].to_numpy() != DELETED))
    files = entries.take(pa.array(rows))
    found = coverage(files, where, table.spec_by_id(spec_id), table.schema)
    if found.partly.any():
        path = files["file_path"][int(np.flatnonzero(found.partly)[0])].as_py()
        problem = f"some of its rows may match, and some may not: {where}"
        hint = "Only whole files are removed here: choose a condition on partitions, or delete rows"
        raise InvalidInput(problem, source=path, hint=hint)
    goes = np.zeros(entries.num_rows, np.bool_)
    goes[rows[found.whole]] = True
    return goes


def _cut(entries: pa.Table, goes: Mask, snapshot_id: int) -> Cut:
    live = entries["status"].to_numpy() != DELETED
    entries, goes = entries.filter(pa.array(live)), goes[live]
    status = pa.array(np.where(goes, DELETED, EXISTING), pa.int32())
    ids: Any = pc.if_else(pa.array(goes), pa.scalar(snapshot_id, pa.int64()), entries["snapshot_id"])
    for name, column in (("status", status), ("snapshot_id", ids)):
        entries = entries.set_column(entries.schema.get_field_index(name), name, column)
    return Cut(entries, entries.filter(pa.array(goes)))


# Deletes


def cut_deletes(data: bytes, listed: ManifestFile, removal: DeleteRemoval, writing: Writing) -> Cut | None:
    """Take delete files out of a manifest that apply to no data file any more; None if it has none."""
    _check_readable(listed)
    table = writing.table
    found = read_manifest(data, listed, table, columns=FILE_COLUMNS.names, statistics_of=(PATH_ID,))
    entries = found.entries
    goes = np.zeros(entries.num_rows, np.bool_)
    if removal.removal.partitions is not None:
        goes |= in_partitions(entries, found.spec_id, removal.removal.partitions)
    if removal.removal.where != FALSE:
        goes |= _in_whole_partitions(entries, removal.removal.where, table.spec_by_id(found.spec_id))
    if removal.removal.deletes:
        ours, named = delete_keys(entries, removal.removal.deletes)
        goes |= np.isin(ours, named)
    if len(removal.data_paths):
        referenced = pc.is_in(only_data_file(entries), value_set=removal.data_paths)
        goes |= to_mask(pc.and_(pc.equal(plain(entries["content"]), POSITION_DELETES), referenced))
    numbers = plain(entries["sequence_number"]).fill_null(0).to_numpy()
    goes |= (numbers > 0) & (numbers < removal.oldest)
    goes &= entries["status"].to_numpy() != DELETED
    return _cut(entries, goes, writing.snapshot_id) if goes.any() else None


def delete_keys(*files: pa.Table) -> list[npt.NDArray[np.int64]]:
    """A number for each delete file, the same in all tables; vectors of one file differ by their place."""
    told = [each.select(["file_path", "content_offset"]) for each in files]
    whole = pa.concat_tables(told, promote_options="permissive")
    paths = plain(whole["file_path"]).dictionary_encode().indices.to_numpy().astype(np.int64)
    places = plain(whole["content_offset"]).cast(pa.int64()).dictionary_encode(null_encoding="encode")
    codes = paths * (len(places.dictionary) + 1) + places.indices.to_numpy()
    ends = np.cumsum([each.num_rows for each in files])
    return np.split(codes, ends[:-1])


def _in_whole_partitions(entries: pa.Table, where: Predicate, spec: PartitionSpec) -> Mask:
    """The deletes of partitions all of whose rows match: what they delete from goes as a whole."""
    if not entries.num_rows:
        return np.zeros(0, np.bool_)
    partitions = partitions_of(entries)
    codes, distinct = residuals(where, spec, partitions.column, len(partitions.distinct))
    whole = np.array([each == TRUE for each in distinct], np.bool_)
    found: Mask = whole[codes[partitions.codes]]
    return found


def may_lose_deletes(listed: ManifestFile, removal: DeleteRemoval, *, is_named: bool) -> bool:
    """Whether a manifest of deletes has to be looked at; those that go by name may be in it, or not."""
    if listed.content == DATA_MANIFEST:
        return False
    return is_named or bool(removal.data_paths) or (listed.min_sequence_number or 0) < removal.oldest
