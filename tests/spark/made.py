"""Tables of real files: manifests of ours in memory over Parquet files that pyarrow has written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakeplane.iceberg import updates as u
from lakeplane.iceberg.manifest_schema import DATA_MANIFEST
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.types import Field
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
        # Creation numbers columns anew; tests want those that they say.
        own = {"schemas": (schema,), "last_column_id": schema.highest_field_id}
        self.built.metadata = msgspec.structs.replace(self.built.metadata, **own)
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

    def add_spec(self, spec: PartitionSpec) -> None:
        """Partition new files in another way."""
        table = self.built.metadata
        specs = (*table.partition_specs, spec)
        last = max(table.last_partition_id, spec.highest_field_id)
        self.built.metadata = msgspec.structs.replace(
            table, partition_specs=specs, default_spec_id=spec.spec_id, last_partition_id=last
        )

    def forget_schemas(self) -> None:
        """Take away all schemas but the current one, as clean-ups do."""
        table = self.built.metadata
        kept = tuple(each for each in table.schemas if each.schema_id == table.current_schema_id)
        self.built.metadata = msgspec.structs.replace(table, schemas=kept)

    @staticmethod
    def rows(values: Sequence[dict[str, Any]], *fields: Field) -> pa.Table:
        """Rows of another schema than the table's."""
        return pa.Table.from_pylist(list(values), schema=stored_arrow(Schema(fields)))

    def write(self, rows: pa.Table | Sequence[dict[str, Any]], name: str = "", **options: Any) -> str:
        """Write a Parquet file as a good writer does, with the ids of the current schema."""
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist(list(rows), schema=stored_arrow(self.schema))
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


def stored_arrow(schema: Schema) -> pa.Schema:
    """The Arrow types of a schema, with the bytes of uuids: pyarrow makes no uuids of Python values."""
    return pa.schema([_stored(each) for each in to_arrow(schema)])


def _stored(field: pa.Field) -> pa.Field:
    match field.type:
        case pa.StructType():
            return field.with_type(pa.struct([_stored(each) for each in field.type]))
        case pa.ListType():
            return field.with_type(pa.list_(_stored(field.type.value_field)))
        case pa.MapType():
            key, item = field.type.key_field, field.type.item_field
            return field.with_type(pa.map_(_stored(key), _stored(item)))
        case pa.UuidType():
            return field.with_type(pa.binary(16)).with_metadata({**(field.metadata or {}), b"is": b"uuid"})
        case _:
            return field


def local_ranges(ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
    """Parts of files on this machine."""
    found = []
    for path, start, length in ranges:
        with Path(path.removeprefix("file://")).open("rb") as file:
            file.seek(start)
            found.append(file.read(length))
    return found


def rows_in(path: str) -> int:
    name = path.removeprefix("file://")
    return int(pq.ParquetFile(name).metadata.num_rows) if name.endswith("parquet") else 1


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame, in an order that does not depend on how they were read."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def physical(frame: DataFrame) -> str:
    """The physical plan, as a classic session tells it."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
