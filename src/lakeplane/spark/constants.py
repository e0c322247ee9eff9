"""What is the same in all rows of a file: its path, its partition, what its rows inherit.

A small table with a row for each file is joined to the scan, on the number of the file (or on its path in
Spark's spelling, where numbers are not handed over).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity
from lakeplane.model.types import NANOS, UNKNOWN, Field, Primitive, Struct, Type
from lakeplane.spark.arrow_rows import NUMBER, shown_arrow, uuid_text
from lakeplane.spark.types import shown_type, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE: Final = "__lakeplane_path"
SPEC: Final = "__lakeplane_spec"
PARTITION: Final = "__lakeplane_partition"
FIRST_ROW: Final = "__lakeplane_first_row"
SEQUENCE: Final = "__lakeplane_sequence"
ROW: Final = "__lakeplane_row"
"""The row of the file in its plan; a column of this name is there in the files of plans that are read."""
SCOPE: Final = "__lakeplane_scope"
"""A number of the partition, among those that deletes apply to; likewise."""


def identity_name(field_id: int) -> str:
    """The column that holds a column's value as partitions tell it."""
    return f"__lakeplane_p{field_id}"


class Constant(NamedTuple):
    """A column of the small table."""

    type: s.DataType
    values: pa.Array


def constants_of(
    files: pa.Table, table: TableMetadata, names: Sequence[str], identities: Mapping[int, Field]
) -> dict[str, Constant]:
    """What files say of their rows, for the columns that are asked for."""
    found: dict[str, Constant] = {}
    for name in names:
        match name:
            case "__lakeplane_path":
                found[name] = Constant(s.StringType(), _plain(files["file_path"]))
            case "__lakeplane_spec":
                found[name] = Constant(s.IntegerType(), _plain(files["spec_id"]).cast(pa.int32()))
            case "__lakeplane_first_row":
                found[name] = Constant(s.LongType(), _plain(files["first_row_id"]).cast(pa.int64()))
            case "__lakeplane_sequence":
                found[name] = Constant(s.LongType(), _plain(files["sequence_number"]).cast(pa.int64()))
            case "__lakeplane_row" | "__lakeplane_scope":
                found[name] = Constant(s.LongType(), _plain(files[name]))
            case "__lakeplane_partition":
                found[name] = partitions(files, table)
    for column_id, field in identities.items():
        found[identity_name(column_id)] = Constant(
            shown_type(field.type), _identity(files, table, column_id, field)
        )
    return found


def partitions(files: pa.Table, table: TableMetadata) -> Constant:
    """The partitions of files, with the fields that any spec of the table has."""
    fields = table.unified_partition_type.fields
    stored = _plain(files["partition"])
    columns = [_partition_values(stored, each) for each in fields]
    if not fields:
        return Constant(s.StructType([]), pa.array([{}] * files.num_rows, pa.struct([])))
    struct = pa.StructArray.from_arrays(columns, fields=list(shown_arrow(Struct(fields))))
    return Constant(to_spark(Schema(fields)), struct)


def identity_source(table: TableMetadata, spec_id: int, column_id: int) -> int | None:
    """The partition field that holds a column's very values in a spec."""
    spec = table.spec_by_id(spec_id)
    return next(
        (
            each.field_id
            for each in spec.fields
            if isinstance(each.transform, Identity) and each.source_id == column_id
        ),
        None,
    )


def _identity(files: pa.Table, table: TableMetadata, column_id: int, field: Field) -> pa.Array:
    stored, specs = _plain(files["partition"]), files["spec_id"].to_numpy()
    result = pa.nulls(files.num_rows, shown_arrow(field.type))
    for spec_id in np.unique(specs):
        source = identity_source(table, int(spec_id), column_id)
        if source is not None:
            values = _partition_values(stored, Field(source, "", field.type))
            result = pc.if_else(pa.array(specs == spec_id), values, result)
    return result


def _partition_values(stored: pa.StructArray, field: Field) -> pa.Array:
    wanted = shown_arrow(field.type)
    if stored.type.get_field_index(str(field.id)) < 0:
        return pa.nulls(len(stored), wanted)
    return shown_constants(pc.struct_field(stored, str(field.id)), field.type, wanted)


def shown_constants(values: pa.Array, type_: Type, wanted: pa.DataType) -> pa.Array:
    """Values that metadata tells, as users see them."""
    if pa.types.is_null(values.type) or type_ is UNKNOWN:
        return pa.nulls(len(values), wanted)
    if type_ is Primitive.UUID:
        return uuid_text(values)
    if type_ in NANOS and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("ns", values.type.tz)).cast(pa.int64())
    return values.cast(wanted)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def join_constants(
    session: SparkSession,
    frame: DataFrame,
    keys: Sequence[int] | Sequence[str],
    constants: Mapping[str, Constant],
) -> DataFrame:
    """Put what files say beside their rows."""
    is_number = not keys or isinstance(keys[0], int)
    key_type: s.DataType = s.LongType() if is_number else s.StringType()
    columns = {NUMBER: pa.array(keys, pa.int64() if is_number else pa.string())}
    columns |= {name: each.values for name, each in constants.items()}
    schema = s.StructType(
        [s.StructField(NUMBER, key_type), *[s.StructField(n, c.type) for n, c in constants.items()]]
    )
    small = session.createDataFrame(pa.table(columns), schema)
    return frame.join(F.broadcast(small), NUMBER, "left")
