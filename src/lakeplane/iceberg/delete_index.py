"""Which deletes apply to which data files: the scope rules of the spec, on columns.

- A **deletion vector** applies to the one file that it names, unless that is newer; a file has at most one.
- A **position delete** file applies to files of its partition that are not newer: to the one that it names,
  or to any whose path its bounds allow. Where there is a deletion vector, it holds these positions already.
- An **equality delete** file applies to files of its partition that are strictly older; to those of all
  partitions if it is not partitioned itself.

"Newer" is told by data sequence numbers. Partitions are the same if their specs are, and all their values;
any NaN is the same as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES, POSITION_DELETES
from lakeplane.model.expressions.physical import plain, to_mask
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import METADATA_COLUMNS

PATH_ID: Final = METADATA_COLUMNS["file_path"].id
"""The field whose bounds tell which files a position delete file is about."""

Numbers: TypeAlias = npt.NDArray[np.int64]


class Attached(NamedTuple):
    """For each data file, the rows of the deletes that apply to it."""

    vector: pa.Array
    """The deletion vector, or null."""
    position: pa.Array
    """Position delete files: a list, empty for most."""
    equality: pa.Array
    """Equality delete files."""


class _Pairs(NamedTuple):
    """Rows of data files, in order, each with a row of a delete that applies."""

    data: Numbers
    deletes: Numbers


_NO_PAIRS: Final = _Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))


def attach_deletes(data: pa.Table, deletes: pa.Table, specs: Mapping[int, PartitionSpec]) -> Attached:
    """Find the deletes of each data file.

    Both have the columns ``file_path``, ``spec_id``, ``partition`` and ``sequence_number``; deletes have
    also ``content``, ``file_format``, ``referenced_data_file`` and the bounds of the paths they delete from.
    """
    if not deletes.num_rows:
        none = _lists(_NO_PAIRS, data.num_rows)
        return Attached(pa.nulls(data.num_rows, pa.int32()), none, none)
    index = _Index(data, deletes, specs)
    vectors = index.vectors()
    positions = index.positions(~(vectors >= 0))
    return Attached(
        pa.array(vectors, pa.int32(), mask=vectors < 0),
        _lists(positions, data.num_rows),
        _lists(index.equalities(), data.num_rows),
    )


def _lists(pairs: _Pairs, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = np.cumsum(np.bincount(pairs.data, minlength=count)) if count else 0
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(pairs.deletes, pa.int32()))


class _Index:
    def __init__(self, data: pa.Table, deletes: pa.Table, specs: Mapping[int, PartitionSpec]) -> None:
        self.paths = plain(data["file_path"])
        self.delete_paths = plain(deletes["file_path"])
        self.numbers, self.delete_numbers = _ranks(data["sequence_number"], deletes["sequence_number"])
        self.partitions, self.delete_partitions = partition_codes(data, deletes)
        content = deletes["content"].to_numpy()
        puffin = to_mask(pc.equal(pc.utf8_upper(plain(deletes["file_format"])), "PUFFIN"))
        named = only_data_file(deletes)
        self.named = named
        is_position = content == POSITION_DELETES
        has_name = to_mask(pc.is_valid(named))
        self._vectors = np.flatnonzero(is_position & puffin)
        self._by_path = np.flatnonzero(is_position & ~puffin & has_name)
        self._by_partition = np.flatnonzero(is_position & ~puffin & ~has_name)
        spec_ids = deletes["spec_id"].to_numpy()
        everywhere = [spec_id for spec_id in np.unique(spec_ids).tolist() if specs[spec_id].is_unpartitioned]
        is_global = np.isin(spec_ids, everywhere)
        self._global = np.flatnonzero((content == EQUALITY_DELETES) & is_global)
        self._local = np.flatnonzero((content == EQUALITY_DELETES) & ~is_global)
        self._bounds = [_text(deletes, f"{which}_bounds.{PATH_ID}") for which in ("lower", "upper")]

    def vectors(self) -> Numbers:
        """The deletion vector of each data file, or -1."""
        rows = self._vectors
        names = self.named.take(pa.array(rows))
        if names.null_count:
            at = self.delete_paths[int(rows[np.flatnonzero(names.is_null())[0]])].as_py()
            raise InvalidMetadata(
                "a deletion vector names no data file", source=at, field="referenced_data_file"
            )
        self._check_single(names)
        found = np.full(len(self.paths), -1, np.int64)
        if len(rows):
            hits = pc.fill_null(pc.index_in(self.paths, value_set=names), -1).to_numpy()
            data = np.flatnonzero(hits >= 0)
            pairs = self._not_newer(_Pairs(data, rows[hits[data]]))
            self._check_partitions(pairs)
            found[pairs.data] = pairs.deletes
        return found

    def _check_single(self, names: pa.Array) -> None:
        counts = pc.value_counts(names)
        double = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(double):
            path = double[0]["values"].as_py()
            rows = self._vectors[to_mask(pc.equal(names, path))]
            files = ", ".join(sorted(set(self.delete_paths.take(pa.array(rows)).to_pylist())))
            hint = "Only one of them can be right; rewrite the data file, or roll the table back"
            problem = f"a data file has {len(rows)} deletion vectors, in {files}"
            raise InvalidMetadata(problem, source=path, hint=hint)

    def positions(self, without_vector: npt.NDArray[np.bool_]) -> _Pairs:
        """The position delete files of each data file that has no deletion vector."""
        named = self._named_pairs()
        self._check_partitions(named)
        rows = self._by_partition
        around = _matches(
            self.partitions,
            self.numbers,
            self.delete_partitions[rows],
            self.delete_numbers[rows],
            strict=False,
        )
        around = self._within_bounds(_Pairs(around.data, rows[around.deletes]))
        pairs = _merge(named, around)
        keep = without_vector[pairs.data]
        return _Pairs(pairs.data[keep], pairs.deletes[keep])

    def _named_pairs(self) -> _Pairs:
        rows = self._by_path
        if not len(rows):
            return _NO_PAIRS
        names = self.named.take(pa.array(rows)).dictionary_encode()
        codes = names.indices.to_numpy().astype(np.int64)
        hits = pc.fill_null(pc.index_in(self.paths, value_set=names.dictionary), -1).to_numpy()
        found = _matches(hits.astype(np.int64), self.numbers, codes, self.delete_numbers[rows], strict=False)
        pairs = _Pairs(found.data, rows[found.deletes])
        self._check_partitions(pairs)
        return pairs

    def _within_bounds(self, pairs: _Pairs) -> _Pairs:
        keep = np.ones(len(pairs.data), np.bool_)
        paths = self.paths.cast(pa.binary()).take(pa.array(pairs.data))
        for bound, outside in zip(self._bounds, (pc.less, pc.greater), strict=True):
            if bound is not None:
                keep &= ~to_mask(outside(paths, bound.take(pa.array(pairs.deletes))))
        return _Pairs(pairs.data[keep], pairs.deletes[keep])

    def equalities(self) -> _Pairs:
        """The equality delete files of each data file."""
        local, everywhere = self._local, self._global
        near = _matches(
            self.partitions,
            self.numbers,
            self.delete_partitions[local],
            self.delete_numbers[local],
            strict=True,
        )
        all_ = np.zeros(len(self.paths), np.int64)
        far = _matches(
            all_,
            self.numbers,
            np.zeros(len(everywhere), np.int64),
            self.delete_numbers[everywhere],
            strict=True,
        )
        return _merge(_Pairs(near.data, local[near.deletes]), _Pairs(far.data, everywhere[far.deletes]))

    def _not_newer(self, pairs: _Pairs) -> _Pairs:
        keep = self.numbers[pairs.data] <= self.delete_numbers[pairs.deletes]
        return _Pairs(pairs.data[keep], pairs.deletes[keep])

    def _check_partitions(self, pairs: _Pairs) -> None:
        """A delete that names a file of another partition: whether it applies, readers do not agree."""
        wrong = np.flatnonzero(self.partitions[pairs.data] != self.delete_partitions[pairs.deletes])
        if len(wrong):
            path = self.paths[int(pairs.data[wrong[0]])].as_py()
            at = self.delete_paths[int(pairs.deletes[wrong[0]])].as_py()
            problem = f"it deletes rows of {path}, which is in another partition or of another spec"
            raise InvalidMetadata(problem, source=at, field="partition")


def only_data_file(deletes: pa.Table) -> pa.Array:
    """The only data file that a position delete file is about, where it tells."""
    given = plain(deletes["referenced_data_file"])
    lower, upper = (_text(deletes, f"{which}_bounds.{PATH_ID}") for which in ("lower", "upper"))
    if lower is None or upper is None:
        return given
    only = pc.if_else(pc.fill_null(pc.equal(lower, upper), False), lower, pa.scalar(None, lower.type))  # noqa: FBT003
    return pc.coalesce(given.cast(pa.binary()), only).cast(pa.string())


def _text(deletes: pa.Table, name: str) -> pa.Array | None:
    return plain(deletes[name]) if name in deletes.column_names else None


def _matches(
    data_groups: Numbers, data_numbers: Numbers, groups: Numbers, numbers: Numbers, *, strict: bool
) -> _Pairs:
    """Pairs within a group (below 0: none) in which the delete is newer, or not older."""
    if not len(groups) or not len(data_groups):
        return _NO_PAIRS
    width = int(max(data_numbers.max(), numbers.max())) + 2
    keys = groups * width + numbers
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.searchsorted(keys, data_groups * width + data_numbers, side="right" if strict else "left")
    counts = np.where(data_groups < 0, 0, np.searchsorted(keys, (data_groups + 1) * width) - first)
    data = np.repeat(np.arange(len(data_groups)), counts)
    within = np.arange(len(data)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _Pairs(data, order[np.repeat(first, counts) + within])


def _merge(one: _Pairs, other: _Pairs) -> _Pairs:
    if not len(one.data) or not len(other.data):
        return one if len(one.data) else other
    data, deletes = np.concatenate([one.data, other.data]), np.concatenate([one.deletes, other.deletes])
    order = np.argsort(data, kind="stable")
    return _Pairs(data[order], deletes[order])


def _ranks(data: pa.ChunkedArray, deletes: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
    """Sequence numbers as small numbers of the same order."""
    both = np.concatenate([data.to_numpy(), deletes.to_numpy()])
    _, ranks = np.unique(both, return_inverse=True)
    return ranks[: len(data)].astype(np.int64), ranks[len(data) :].astype(np.int64)


def partition_codes(data: pa.Table, deletes: pa.Table) -> tuple[Numbers, Numbers]:
    """A number for each partition that has deletes; -1 for data files of other specs."""
    tables = (data.select(["spec_id", "partition"]), deletes.select(["spec_id", "partition"]))
    codes = pa.concat_arrays([plain(each["spec_id"]) for each in tables]).to_numpy().astype(np.int64)
    relevant = np.isin(codes, np.unique(codes[data.num_rows :]))
    rows = np.flatnonzero(relevant)
    taken = pa.concat_tables(tables, promote_options="permissive").take(pa.array(rows))
    partition = plain(taken["partition"])
    found = codes[rows]
    for position in range(partition.type.num_fields):
        found = _combine(found, partition.field(position))
    full = np.full(len(codes), -1, np.int64)
    full[rows] = found
    return full[: data.num_rows], full[data.num_rows :]


def _combine(codes: Numbers, values: pa.Array) -> Numbers:
    """Number the distinct pairs of a code and a value."""
    if pa.types.is_null(values.type):
        return codes
    if pa.types.is_floating(values.type):
        values = _bits(values)
    encoded = values.dictionary_encode()
    part = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy().astype(np.int64)
    _, combined = np.unique(codes * (len(encoded.dictionary) + 1) + part, return_inverse=True)
    return combined.astype(np.int64)


def _bits(values: pa.Array) -> Any:
    """Numbers by their bits, with one NaN."""
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))
