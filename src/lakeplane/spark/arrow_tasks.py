"""Tasks that write data files with Arrow, for what Spark's own writer cannot write as the spec says.

Spark hands the rows of each task to a Python worker, which writes them with the same code that writes frames
of this process, and gives back what it has written. Files of attempts that fail are in no answer: nobody will
ever know them. Workers need lakeplane, and the right to write: a store travels as a recipe without secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import pyarrow as pa

from lakeplane.errors import NotSupported
from lakeplane.files.stored_columns import stored_schema
from lakeplane.files.target import WriteTarget
from lakeplane.files.write import write_rows
from lakeplane.iceberg.new_files import NewFiles
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.location import parse_location
from lakeplane.model.types import UUID, VARIANT, Geography, Geometry, List, Map, Struct, Type
from lakeplane.storage.open import open_recipe
from lakeplane.storage.recipe import Recipe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ANSWER: Final = "spec_id INT, files BINARY"


def write_in_tasks(df: DataFrame, target: WriteTarget, recipe: Recipe) -> list[NewFiles]:
    """Write aligned rows (see ``align_frame``), each partition of the frame by a task of its own."""
    stored = msgspec.structs.replace(target, schema=stored_schema(target.schema))
    try:
        # Columns are told by their places: PySpark does not take all names here.
        df = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
        answers = df.mapInArrow(_task(stored, recipe), ANSWER).toArrow()
    except Exception as failure:
        if "ModuleNotFoundError" in str(failure):
            hint = "Install lakeplane for the Python of the executors"
            raise NotSupported("Spark's workers lack a module that they write with", hint=hint) from failure
        raise
    by_spec: dict[int, list[pa.Table]] = {}
    for spec_id, raw in zip(
        *(answers.column(name).to_pylist() for name in ("spec_id", "files")), strict=True
    ):
        by_spec.setdefault(spec_id, []).append(pa.ipc.open_stream(raw).read_all())
    return [
        NewFiles(spec_id, pa.concat_tables(tables, promote_options="default").combine_chunks())
        for spec_id, tables in by_spec.items()
    ]


def _task(
    target: WriteTarget, recipe: Recipe
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does; it travels there by its name, with the target and the recipe."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None
        yield from write_batches(batches, target, recipe, context.partitionId(), str(context.taskAttemptId()))

    return run


def write_batches(
    batches: Iterable[pa.RecordBatch], target: WriteTarget, recipe: Recipe, partition: int, task: str
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task, and tell what was written."""
    store = open_recipe(recipe)
    schema = to_arrow(target.schema)
    rows = (table_batch(batch, target, schema) for batch in batches)
    reader = pa.RecordBatchReader.from_batches(schema, rows)

    def put(path: str, data: bytes) -> None:
        store.put(parse_location(path), data)

    for made in write_rows(reader, target, put, partition=partition, task=task):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, made.files.schema) as writer:
            writer.write_table(made.files)
        raw = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.record_batch([pa.array([made.spec_id], pa.int32()), raw], names=["spec_id", "files"])


def table_batch(batch: pa.RecordBatch, target: WriteTarget, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Spark hands them over in the Arrow types of the table: stand-ins become what they stand for."""
    columns = [
        table_array(column, field.type, wanted.type)
        for column, field, wanted in zip(batch.columns, target.schema.fields, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_array(column: pa.Array, type_: Type, wanted: pa.DataType) -> pa.Array:
    """One column of ``table_batch``, at any depth."""
    if column.type == wanted:
        return column
    match type_:
        case Struct():
            inner = [
                table_array(column.field(place), field.type, wanted.field(place).type)
                for place, field in enumerate(type_.fields)
            ]
            return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=_nulls(column))
        case List():
            values = table_array(column.values, type_.element, wanted.value_type)
            return pa.ListArray.from_arrays(column.offsets, values, type=wanted, mask=_nulls(column))
        case Map():
            keys = table_array(column.keys, type_.key, wanted.key_type)
            values = table_array(column.items, type_.value, wanted.item_type)
            return _map(column, keys, values, wanted)
        case Geometry() | Geography():
            return _storage(column.field("wkb"), wanted)
        case _ if type_ is VARIANT:
            return _named(column, wanted)
        case _ if type_ is UUID:
            return pa.ExtensionArray.from_storage(wanted, column.cast(wanted.storage_type))
        case _:
            return column.cast(wanted)


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _map(column: pa.MapArray, keys: pa.Array, values: pa.Array, wanted: pa.MapType) -> pa.Array:
    entries = pa.StructArray.from_arrays([keys, values], fields=[wanted.key_field, wanted.item_field])
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(column), buffers, column.null_count, column.offset, children=[entries]
    )


def _named(column: pa.StructArray, wanted: pa.DataType) -> pa.Array:
    """The parts of a variant in the order of the table's type."""
    storage = getattr(wanted, "storage_type", wanted)
    parts = [column.field(each.name).cast(each.type) for each in storage]
    made = pa.StructArray.from_arrays(parts, fields=list(storage), mask=_nulls(column))
    return _storage(made, wanted)


def _storage(made: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, made.cast(wanted.storage_type))
    return made.cast(wanted)
