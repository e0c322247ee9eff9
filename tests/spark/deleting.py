"""Delete files as other writers make them, by the letter of the spec, for tables of real files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakeplane.iceberg.avro_schema import avro_record
from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.manifest_schema import DELETE_MANIFEST, EQUALITY_DELETES, POSITION_DELETES
from lakeplane.model.schema import METADATA_COLUMNS, Schema
from lakeplane.model.types import Field
from lakeplane.testing.tables import Entries
from tests.iceberg.built import Facts, Listed, deletes
from tests.spark.made import MadeTable, stored_arrow

if TYPE_CHECKING:
    from pyroaring import BitMap64

PATH, POS = METADATA_COLUMNS["file_path"], METADATA_COLUMNS["pos"]
_NUMBERS = itertools.count(1)


def write_file(table: MadeTable, fields: Sequence[Field], rows: Sequence[dict[str, Any]], kind: str) -> str:
    """Write rows in a format, with ids."""
    path = table.folder / f"d{next(_NUMBERS)}.{kind.lower()}"
    schema = Schema(tuple(fields))
    match kind:
        case "PARQUET":
            pq.write_table(pa.Table.from_pylist(list(rows), schema=stored_arrow(schema)), path)
        case "ORC":
            orc.write_table(pa.Table.from_pylist(list(rows), schema=_for_orc(stored_arrow(schema))), path)
        case "AVRO":
            with path.open("wb") as file:
                fastavro.writer(file, avro_record("delete", schema.fields), list(rows))
    return str(path)


def _for_orc(schema: pa.Schema) -> pa.Schema:
    """The same with ids as ORC files have them."""
    return pa.schema(
        [
            each.with_metadata({"iceberg.id": (each.metadata or {})[b"PARQUET:field_id"].decode()})
            for each in schema
        ]
    )


def delete_positions(
    table: MadeTable,
    pairs: Sequence[tuple[str, int]],
    kind: str = "PARQUET",
    *,
    partition: tuple[Any, ...] = (),
    spec_id: int = 0,
    row: Field | None = None,
    named: bool = False,
) -> None:
    """Publish a position delete file; with ``row`` it has that column; ``named``: it tells its file."""
    fields = [PATH, POS]
    rows: list[dict[str, Any]] = [{"file_path": path, "pos": pos} for path, pos in sorted(pairs)]
    if row is not None:
        fields.append(row)
        rows = [each | {row.name: {"id": 1}} for each in rows]
    path = write_file(table, [msgspec.structs.replace(each, doc=None) for each in fields], rows, kind)
    names = [each.encode() for each, _ in pairs]
    more: dict[str, Any] = {"file_format": kind}
    if named:
        more["referenced_data_file"] = pairs[0][0]
    facts = {PATH.id: Facts(min(names), max(names))}
    _publish(table, [Listed(path, partition, facts, len(rows), content=POSITION_DELETES, more=more)], spec_id)


def delete_by_vectors(
    table: MadeTable,
    vectors: Mapping[str, BitMap64],
    *,
    partition: tuple[Any, ...] = (),
    spec_id: int = 0,
) -> None:
    """Publish the deletion vectors of files, in one Puffin file."""
    file, told = write_vectors(vectors)
    path = table.folder / f"v{next(_NUMBERS)}.puffin"
    path.write_bytes(file.data)
    listed = [
        Listed(
            str(path),
            partition,
            rows=each.cardinality,
            content=POSITION_DELETES,
            more={
                "file_format": "PUFFIN",
                "referenced_data_file": each.data_file,
                "content_offset": each.offset,
                "content_size_in_bytes": each.size,
            },
        )
        for each in told
    ]
    _publish(table, listed, spec_id)


def delete_equal(
    table: MadeTable,
    rows: Sequence[dict[str, Any]],
    *keys: int,
    kind: str = "PARQUET",
    partition: tuple[Any, ...] = (),
    spec_id: int = 0,
    fields: Sequence[Field] | None = None,
) -> None:
    """Publish an equality delete file, with these columns, or the key columns of the current schema."""
    found = fields or [table.schema.field(each) for each in keys]
    path = write_file(table, found, rows, kind)
    more = {"file_format": kind, "equality_ids": list(keys)}
    _publish(table, [Listed(path, partition, {}, len(rows), content=EQUALITY_DELETES, more=more)], spec_id)


def _publish(table: MadeTable, listed: Sequence[Listed], spec_id: int) -> None:
    made = deletes(table.built.metadata, listed, spec_id)
    sizes = pa.array([Path(each.path).stat().st_size for each in listed], pa.int64())
    place = made.table.schema.get_field_index("file_size_in_bytes")
    entries = made.table.set_column(place, "file_size_in_bytes", sizes)
    table.built.commit(Entries(entries, spec_id, DELETE_MANIFEST), operation="delete")
