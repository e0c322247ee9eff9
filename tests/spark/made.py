"""Tables of real files: manifests of ours in memory over Parquet files that pyarrow has written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.iceberg import updates as u
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.spark.read import read_plan
from lakeplane.spark.session import is_case_sensitive, session_zone
from lakeplane.testing.tables import BuiltTable, Entries
from tests.iceberg.built import Listed, entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNPARTITIONED = PartitionSpec(0, ())


class MadeTable:
    """A table whose data files are in a folder."""

    def __init__(
        self, folder: Path, schema: Schema, spec: PartitionSpec = UNPARTITIONED, *, format_version: int = 3
    ) -> None:
        self.folder = folder
        self.built = BuiltTable(
            schema, spec, format_version=format_version, location=f"memory://{folder.name}"
        )
        self._numbers = itertools.count(1)

    @property
    def schema(self) -> Schema:
        return self.built.metadata.schema

    def evolve(self, *fields: Any) -> Schema:
        """Give the table another schema."""
        last = max(self.built.metadata.last_column_id, Schema(tuple(fields)).highest_field_id)
        schema = Schema(tuple(fields), schema_id=-1)
        self.built.change(u.AddSchema(schema, last), u.SetCurrentSchema(-1))
        return self.schema

    def set_properties(self, **properties: str) -> None:
        self.built.change(
            u.SetProperties(
                FrozenDict({name.replace("__", "."): value for name, value in properties.items()})
            )
        )

    def write(self, rows: pa.Table | Sequence[dict[str, Any]], name: str = "", **options: Any) -> str:
        """Write a Parquet file as a good writer does, with the ids of the current schema."""
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist(list(rows), schema=to_arrow(self.schema))
        path = self.folder / (name or f"{next(self._numbers):05}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, **options)
        return str(path)

    def add(self, *files: Listed | str, spec_id: int = 0) -> None:
        """Publish files in one snapshot."""
        listed = [each if isinstance(each, Listed) else Listed(each) for each in files]
        sized = [each._replace(rows=rows_in(each.path)) for each in listed]
        made = entries(self.built.metadata, sized, spec_id)
        sizes = pa.array(
            [Path(each.path.removeprefix("file://")).stat().st_size for each in sized], pa.int64()
        )
        place = made.table.schema.get_field_index("file_size_in_bytes")
        table = made.table.set_column(place, "file_size_in_bytes", sizes)
        self.built.commit(Entries(table, spec_id, DATA_MANIFEST))

    def append(self, rows: pa.Table | Sequence[dict[str, Any]], **options: Any) -> None:
        self.add(self.write(rows, **options))

    def plan(self, session: SparkSession, where: str | None = None, at: Any = None) -> ReadPlan:
        zone, cased = session_zone(session), is_case_sensitive(session)
        return plan(self.built.metadata, self.built.reading(), where, at, zone=zone, case_sensitive=cased)

    def read(
        self,
        session: SparkSession,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: Any = None,
        **more: Any,
    ) -> DataFrame:
        return read_plan(session, self.plan(session, where, at), columns, where, **more)


def rows_in(path: str) -> int:
    name = path.removeprefix("file://")
    return int(pq.ParquetFile(name).metadata.num_rows) if name.endswith("parquet") else 1


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame, in an order that does not depend on how they were read."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def physical(frame: DataFrame) -> str:
    """The physical plan, as a classic session tells it."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
