"""Files that Spark has written, as columns of manifests: found, their footers read, their partitions told."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakeplane.files.footers import parquet_metrics
from lakeplane.files.partitions import partition_columns
from lakeplane.files.target import WriteTarget
from lakeplane.iceberg.manifest_schema import DATA, FILE_COLUMNS
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.location import Location
from lakeplane.spark.arrange import partition_types
from lakeplane.spark.partition_names import partition_array, values_of
from lakeplane.spark.tails import FileEnd, read_tails
from lakeplane.spark.wire import stored_fields
from lakeplane.storage.store import Range, Stat, Store

_AT_FIRST: Final = 64 << 10
"""How much of the end of each file is read at first: nearly all footers are shorter."""

_PART: Final = "part-"


def written_files(store: Store, under: Location) -> list[Stat]:
    """The data files in the directory of a write that has ended well: what Spark has committed."""
    depth = len(under.segments)
    found, checksums = [], []
    for each in store.files(under):
        inner = each.location.segments[depth:]
        name = inner[-1]
        if name.startswith(".") and name.endswith(".crc"):
            checksums.append(each.location)
        elif name.startswith(_PART) and not any(part.startswith(("_", ".")) for part in inner):
            found.append(each)
    if checksums:
        # They would be wrong as soon as a footer changes, and nobody else would ever delete them.
        store.delete(*checksums)
    return found


def tails_of(store: Store, files: Sequence[Stat]) -> list[bytes]:
    """The ends of Parquet files, each with its whole footer."""
    places = {each.location.text: each.location for each in files}

    def read_ranges(parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        return store.read_many([Range(places[path], start, length) for path, start, length in parts])

    return read_tails([FileEnd(each.location.text, each.size) for each in files], read_ranges, _AT_FIRST)


def metrics_of_tails(files: Sequence[Stat], tails: Sequence[bytes], target: WriteTarget) -> pa.Table:
    """What footers tell of files."""
    names = [each.location.text for each in files]
    return parquet_metrics(tails, target.schema, target.metrics_modes, sources=names)


def describe_parquet(
    store: Store,
    files: Sequence[Stat],
    told: pa.Table,
    target: WriteTarget,
    *,
    partition: str | None,
    order_id: int,
) -> list[NewFiles]:
    """Parquet files as a change wants them; those without rows are deleted and left out.

    Args:
        store: Where they are.
        files: The files.
        told: What their footers tell (``parquet_metrics``).
        target: What they were written for.
        partition: The name of the column by which Spark has parted them.
        order_id: The sort order that their rows have.
    """
    rows = told.column("record_count").to_pylist()
    empty = [file.location for file, count in zip(files, rows, strict=True) if not count]
    if empty:
        store.delete(*empty)
        full = [place for place, count in enumerate(rows) if count]
        files = [files[place] for place in full]
        told = told.take(pa.array(full, pa.int64()))
    if not files:
        return []
    count = len(files)
    columns = {
        "content": pa.array([DATA] * count, FILE_COLUMNS.field("content").type),
        "file_path": pa.array([each.location.text for each in files], pa.string()),
        "file_format": pa.array(["PARQUET"] * count, pa.string()),
        "partition": _partitions(store, files, target, partition),
        "file_size_in_bytes": pa.array([each.size for each in files], pa.int64()),
        "sort_order_id": pa.array([order_id] * count, pa.int32()),
        **{name: told.column(name) for name in told.column_names},
    }
    return [NewFiles(target.spec.spec_id, pa.table(columns))]


def _partitions(
    store: Store, files: Sequence[Stat], target: WriteTarget, partition: str | None
) -> pa.StructArray:
    if not target.spec.fields:
        return pa.array([{}] * len(files), pa.struct([]))
    types = partition_types(target)
    if partition is None:
        # All fields are void.
        columns = [partition_array([None] * len(files), type_) for type_ in types]
    else:
        directories = [each.location.segments[-2].removeprefix(f"{partition}=") for each in files]
        representative = dict(zip(directories, files, strict=True))
        order = {name: place for place, name in enumerate(representative)}
        known = [values_of(name, types) for name in representative]
        distinct = [
            partition_array([None if row is None else row[place] for row in known], type_)
            for place, type_ in enumerate(types)
        ]
        unknown = {
            order[name]: _values_in(store, representative[name], target)
            for name, row in zip(representative, known, strict=True)
            if row is None
        }
        places = pa.array([order[name] for name in directories], pa.int64())
        columns = [
            _replaced(column, {at: row[place] for at, row in unknown.items()}).take(places)
            for place, column in enumerate(distinct)
        ]
    names = [str(field.field_id) for field in target.spec.fields]
    return pa.StructArray.from_arrays(columns, names=names)


def _replaced(column: pa.Array, values: dict[int, pa.Array]) -> pa.Array:
    """A column with some of its values replaced, each by the only value of another column."""
    if not values:
        return column
    places = list(range(len(column)))
    for extra, at in enumerate(values):
        places[at] = len(column) + extra
    extras = (each.cast(column.type) for each in values.values())
    return pa.concat_arrays([column, *extras]).take(pa.array(places))


def _values_in(store: Store, file: Stat, target: WriteTarget) -> list[pa.Array]:
    """The partition values of the first row of a file, which are those of all its rows."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    stored = stored_fields(target.schema.fields)
    reader = pq.ParquetFile(pa.PythonFile(_StoredFile(store, file), mode="r"))
    wanted = {_top(target, field.source_id) for field in target.spec.fields}
    places = [place for place, field in enumerate(stored) if field.id in wanted]
    names = [reader.schema_arrow.names[place] for place in places]
    row = next(iter(reader.iter_batches(batch_size=1, columns=names)))
    rows = pa.Table.from_batches([row]).select(names)
    rows = rows.rename_columns([stored[place].name for place in places])
    return partition_columns(rows, target.spec, target.schema)


def _top(target: WriteTarget, field_id: int) -> int:
    """The column around a field; the field itself if it is one."""
    while target.schema.has(field_id) and (parent := target.schema.parent_of(field_id)) is not None:
        field_id = parent.id
    return field_id


class _StoredFile(io.RawIOBase):
    """A file in a store, as Arrow reads one."""

    def __init__(self, store: Store, file: Stat) -> None:
        self._store, self._file, self._at = store, file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        length = None if size is None or size < 0 else size
        data = self._store.read(self._file.location, start=self._at, length=length)
        self._at += len(data)
        return data
