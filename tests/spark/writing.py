"""Writes to folders: targets without a table around them, and what was written, read by Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.files.partitions import partition_columns
from lakeplane.files.target import FileFormat, WriteTarget
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import parse_location
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortOrder
from lakeplane.model.transforms import parse_transform
from lakeplane.model.types import Field
from lakeplane.spark.write import write_frame
from lakeplane.storage.open import open_store
from lakeplane.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def spec_of(*rules: tuple[int, str]) -> PartitionSpec:
    """A spec of source ids and transforms."""
    return PartitionSpec(
        3,
        tuple(
            PartitionField((source,), 1000 + place, f"part {place}", parse_transform(text))
            for place, (source, text) in enumerate(rules)
        ),
    )


def target_in(
    folder: Path,
    fields: Sequence[Field],
    spec: PartitionSpec | None = None,
    *,
    order: SortOrder = UNSORTED,
    file_format: FileFormat = "parquet",
    run_id: str = "run-1",
    **properties: str,
) -> WriteTarget:
    """What is written to a table in a folder; ``__`` in properties stands for a dot, ``_`` for a dash."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in properties.items()}
    return WriteTarget(
        schema=Schema(tuple(fields)),
        spec=spec or PartitionSpec(0, ()),
        sort_order=order,
        properties=FrozenDict(named),
        format_version=3,
        location=str(folder / "table"),
        file_format=file_format,
        run_id=run_id,
    )


def store_of(target: WriteTarget) -> Store:
    Path(target.location).mkdir(parents=True, exist_ok=True)
    return open_store(parse_location(target.location))


def written(df: DataFrame, target: WriteTarget, **options: Any) -> pa.Table:
    """Write a frame, and give the columns of the files."""
    made = write_frame(df, target, store_of(target), **options)
    return files_of(made, target)


def files_of(made: Sequence[NewFiles], target: WriteTarget) -> pa.Table:
    assert len(made) == 1
    assert made[0].spec_id == target.spec.spec_id
    return made[0].files


def rows_of(files: pa.Table) -> pa.Table:
    """All rows of the files, after a look at whether they are what the columns tell."""
    tables = []
    for path, size, count in zip(
        *(files.column(name).to_pylist() for name in ("file_path", "file_size_in_bytes", "record_count")),
        strict=True,
    ):
        assert Path(path).stat().st_size == size
        table = pq.read_table(path, partitioning=None)
        assert table.num_rows == count > 0
        tables.append(table)
    return pa.concat_tables(tables)


def assert_parted(files: pa.Table, target: WriteTarget) -> None:
    """Every row lies in a file of its partition, by the transforms of the project on Arrow columns."""
    told = files.column("partition").combine_chunks()
    assert [each.name for each in told.type] == [str(field.field_id) for field in target.spec.fields]
    names = [field.name for field in target.schema.fields]
    for place, path in enumerate(files.column("file_path").to_pylist()):
        table = pq.read_table(path, partitioning=None)
        rows = table.rename_columns(names[: table.num_columns])
        for column, field in zip(
            partition_columns(rows, target.spec, target.schema), target.spec.fields, strict=True
        ):
            value = told.field(str(field.field_id)).slice(place, 1)
            assert value.type == column.type, field
            found = column.unique()
            assert len(found) == 1, (path, found)
            assert repr(found.to_pylist()) == repr(value.to_pylist())
