"""Files that are not Parquet files with ids: of other writers, and of other formats; and files together."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.avro_schema import avro_record
from lakeplane.model.name_mapping import mapping_for, write_name_mapping
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity
from lakeplane.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    Decimal,
    Field,
    List,
    Map,
    Struct,
)
from lakeplane.spark.read import Access
from tests.iceberg.built import Listed
from tests.spark.made import MadeTable, local_ranges, physical, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID, NAME = Field(1, "id", LONG), Field(2, "name", STRING)
LOCAL = Access(read_ranges=local_ranges)


# Parquet files without ids


def without_ids(table: MadeTable, values: pa.Table, name: str) -> str:
    path = table.folder / name
    pq.write_table(values, path)
    return str(path)


def test_files_without_ids_are_read_by_the_name_mapping(spark: SparkSession, tmp_path: Path) -> None:
    inner = Struct((Field(4, "x", LONG), Field(5, "y", STRING, initial_default="new")))
    table = MadeTable(
        tmp_path,
        Schema((ID, NAME, Field(3, "p", inner), Field(6, "many", List(7, Struct((Field(8, "x", LONG),)))))),
    )
    mapping = write_name_mapping(mapping_for(table.schema))
    mapping = mapping.replace('"names":["name"]', '"names":["name","called"]').replace(
        '"names":["x"]', '"names":["x","ecks"]'
    )
    table.set_properties(**{"schema__name-mapping__default": mapping})
    table.append([{"id": 1, "name": "with", "p": {"x": 1, "y": "one"}, "many": [{"x": 1}]}])
    old = pa.table(
        {
            "called": ["a", "b"],
            "id": pa.array([2, 3], pa.int32()),
            "p": [{"ecks": 20}, None],
            "many": [[{"ecks": 5}], []],
        }
    )
    older = pa.table({"id": pa.array([4], pa.int64()), "nobody": [1]})
    table.add(without_ids(table, old, "old.parquet"), without_ids(table, older, "older.parquet"))
    frame = table.read(spark, access=LOCAL)
    assert rows(frame.select("id", "name", "p.x", "p.y", "many.x")) == [
        (1, "with", 1, "one", [1]),
        (2, "a", 20, "new", [5]),
        (3, "b", None, None, []),
        (4, None, None, None, None),
    ]
    assert rows(frame.where("name = 'b'").select("id")) == [(3,)]
    assert rows(table.read(spark, ["id"], "p.x = 20", access=LOCAL)) == [(2,)]
    assert "EqualTo(called,b)" in physical(frame.where("name = 'b'"))


def test_footers_are_read_once_and_only_where_they_decide(spark: SparkSession, tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(ranges: Any) -> list[bytes]:
        asked.extend(path for path, _, _ in ranges)
        return local_ranges(ranges)

    table = MadeTable(tmp_path, Schema((ID, NAME)))
    table.append([{"id": 1, "name": "a"}])
    assert rows(table.read(spark, access=Access(read_ranges=counted))) == [(1, "a")]
    assert asked == []
    table.set_properties(**{"schema__name-mapping__default": write_name_mapping(mapping_for(table.schema))})
    for _ in range(2):
        assert rows(table.read(spark, access=Access(read_ranges=counted))) == [(1, "a")]
    assert len(asked) == 1
    wide = pa.table({f"column {n}": [n] for n in range(2000)} | {"id": [2]})
    table.add(without_ids(table, wide, "wide.parquet"))
    assert rows(table.read(spark, ["id"], access=Access(read_ranges=counted))) == [(1,), (2,)]
    assert len(asked) == 3


def test_a_file_that_is_no_parquet_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID,)))
    table.append([{"id": 1}])
    table.set_properties(**{"schema__name-mapping__default": write_name_mapping(mapping_for(table.schema))})
    (tmp_path / "00001.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(InvalidMetadata, match=r"00001\.parquet"):
        table.read(spark, access=LOCAL)


def test_values_of_partitions_stand_for_columns_that_files_lack(spark: SparkSession, tmp_path: Path) -> None:
    fields = (ID, Field(2, "day", DATE), Field(3, "kind", STRING), Field(4, "n", LONG))
    names = ("day", "kind", "n")
    spec = PartitionSpec(
        0, tuple(PartitionField((n + 2,), 1000 + n, each, Identity()) for n, each in enumerate(names))
    )
    table = MadeTable(tmp_path, Schema(fields), spec)
    table.set_properties(**{"schema__name-mapping__default": write_name_mapping(mapping_for(table.schema))})
    bare = [pa.table({"id": [n]}) for n in range(3)]
    files = [without_ids(table, each, f"{n}.parquet") for n, each in enumerate(bare)]
    table.add(
        Listed(files[0], (18_262, "a/b", 7)),
        Listed(files[1], (None, None, None)),
        Listed(files[2], (0, "", 8)),
    )
    # A file with ids that lacks them, too, and one that has all columns.
    table.add(Listed(table.write(table.rows([{"id": 3}], ID)), (1, "ids", 9)))
    table.add(
        Listed(table.write([{"id": 4, "day": dt.date(1970, 1, 3), "kind": "all", "n": 10}]), (2, "all", 10))
    )
    assert rows(table.read(spark, access=LOCAL)) == [
        (0, dt.date(2020, 1, 1), "a/b", 7),
        (1, None, None, None),
        (2, dt.date(1970, 1, 1), "", 8),
        (3, dt.date(1970, 1, 2), "ids", 9),
        (4, dt.date(1970, 1, 3), "all", 10),
    ]
    assert rows(table.read(spark, ["id"], "kind = 'a/b'", access=LOCAL)) == [(0,)]
    assert rows(table.read(spark, ["id"], "length(kind) = 3", access=LOCAL)) == [(0,), (3,), (4,)]


# ORC and Avro


WIDE = Schema(
    (
        ID,
        NAME,
        Field(3, "amount", Decimal(12, 2)),
        Field(4, "at", TIMESTAMPTZ),
        Field(5, "local", TIMESTAMP),
        Field(6, "day", DATE),
        Field(7, "key", UUID),
        Field(8, "clock", TIME),
        Field(9, "p", Struct((Field(10, "x", LONG), Field(11, "k", UUID)))),
        Field(12, "tags", List(13, STRING)),
        Field(14, "named", Map(15, STRING, 16, DOUBLE)),
    )
)
KEY = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
MOMENT = dt.datetime(2020, 1, 1, 5, 0, 0, 7)  # noqa: DTZ001 - local time
ROW: dict[str, Any] = {
    "id": 1,
    "name": "a",
    "amount": decimal.Decimal("1.25"),
    "at": MOMENT.replace(tzinfo=dt.UTC),
    "local": MOMENT,
    "day": dt.date(1500, 1, 1),
    "key": KEY.bytes,
    "clock": dt.time(1, 2, 3, 4),
    "p": {"x": 5, "k": KEY.bytes},
    "tags": ["t", None],
    "named": [("d", 0.5)],
}
SHOWN = (
    1,
    "a",
    decimal.Decimal("1.25"),
    MOMENT,
    MOMENT,
    dt.date(1500, 1, 1),
    str(KEY),
    dt.time(1, 2, 3, 4),
    (5, str(KEY)),
    ["t", None],
    {"d": 0.5},
)
NOTHING = (2, *[None] * 10)


def write_orc(table: MadeTable, values: list[dict[str, Any]], name: str = "f.orc") -> str:
    """As Iceberg writes it: ids and the types that ORC has not are attributes."""

    def stored(field: pa.Field) -> pa.Field:
        metadata = {b"iceberg.id": (field.metadata or {})[b"PARQUET:field_id"]}
        type_ = field.type
        match type_:
            case pa.StructType():
                type_ = pa.struct([stored(each) for each in type_])
            case pa.ListType():
                type_ = pa.list_(stored(type_.value_field))
            case pa.MapType():
                type_ = pa.map_(stored(type_.key_field), stored(type_.item_field))
            case _ if (field.metadata or {}).get(b"is") == b"uuid":
                type_, metadata = pa.binary(), metadata | {b"iceberg.binary-type": b"UUID"}
            case pa.Time64Type():
                type_, metadata = pa.int64(), metadata | {b"iceberg.long-type": b"TIME"}
        return field.with_type(type_).with_metadata(metadata)

    logical = table.rows(values, *table.schema.fields)
    schema = pa.schema([stored(each) for each in logical.schema])
    columns = [logical.column(n).combine_chunks() for n in range(logical.num_columns)]
    orc.write_table(
        pa.table([_storage(each, want.type) for each, want in zip(columns, schema, strict=True)], schema),
        table.folder / name,
    )
    return str(table.folder / name)


def _storage(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_time64(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_struct(wanted):
        inside = [_storage(values.field(n), each.type) for n, each in enumerate(wanted)]
        return pa.StructArray.from_arrays(inside, fields=list(wanted), mask=values.is_null())
    return values.cast(wanted)


def write_own_avro(table: MadeTable, values: list[dict[str, Any]], name: str = "f.avro") -> str:
    rows_ = table.rows(values, *table.schema.fields)
    (table.folder / name).write_bytes(
        write_avro(rows_, avro_record("table", table.schema.fields), metadata={})
    )
    return str(table.folder / name)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_orc_files(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    table = MadeTable(tmp_path, WIDE)
    table.add(Listed(write_orc(table, [ROW, {"id": 2}]), more={"file_format": "ORC"}))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = table.read(spark, access=LOCAL)
        assert rows(frame.drop("at")) == [
            tuple(v for n, v in enumerate(row) if n != 3) for row in (SHOWN, NOTHING)
        ]
        assert rows(frame.selectExpr("unix_micros(at)").where("at is not null")) == [(1_577_854_800_000_007,)]
        assert rows(frame.where(f"key = '{KEY}' and p.x = 5 and clock < time'02:00:00'").select("id")) == [
            (1,)
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_orc_files_of_several_schemas(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(
        tmp_path,
        Schema((ID, Field(2, "a", INT), Field(3, "p", Struct((Field(4, "x", INT), Field(5, "y", STRING)))))),
    )
    table.add(
        Listed(
            write_orc(table, [{"id": 1, "a": 10, "p": {"x": 1, "y": "one"}}], "1.orc"),
            more={"file_format": "ORC"},
        )
    )
    table.evolve(
        ID,
        Field(3, "a", Struct((Field(5, "x", STRING), Field(4, "z", LONG)))),
        Field(2, "b", LONG),
        Field(6, "c", DOUBLE, initial_default=0.5),
    )
    table.add(
        Listed(
            write_orc(table, [{"id": 2, "a": {"x": "two", "z": 2**40}, "b": 2**40, "c": 1.5}], "2.orc"),
            more={"file_format": "orc"},
        )
    )
    frame = table.read(spark, access=LOCAL)
    assert rows(frame) == [(1, ("one", 1), 10, 0.5), (2, ("two", 2**40), 2**40, 1.5)]
    assert rows(frame.where("b = 10").select("a.x")) == [("one",)]
    assert rows(frame.where("a.z = 1").select("id")) == [(1,)]


def test_positions_and_nanoseconds_of_orc_files_come_by_arrow(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID, Field(2, "ns", TIMESTAMP_NS), Field(3, "at", TIMESTAMP))))
    values = [{"id": n, "ns": 10**18 + n, "at": 10**15 + n} for n in range(5)]
    table.add(Listed(write_orc(table, values), more={"file_format": "ORC"}))
    assert rows(table.read(spark, ["id", "ns", "_pos"], "id > 2", access=LOCAL)) == [
        (n, 10**18 + n, n) for n in (3, 4)
    ]


def test_avro_files(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, WIDE)
    path = write_own_avro(table, [ROW, {"id": 2}])
    with Path(path).open("rb") as file:
        assert len(list(fastavro.reader(file))) == 2
    table.add(Listed(path, more={"file_format": "AVRO"}))
    frame = table.read(spark, access=LOCAL)
    assert rows(frame) == [SHOWN, NOTHING]
    assert rows(table.read(spark, ["name"], "p.x = 5", access=LOCAL)) == [("a",)]


def test_formats_mixed_in_one_table_that_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    old = (ID, Field(2, "a", INT), Field(3, "p", Struct((Field(4, "x", INT),))))
    table = MadeTable(tmp_path, Schema(old))
    value = {"a": 10, "p": {"x": 1}}
    table.append([{"id": 1, **value}])
    table.add(Listed(write_orc(table, [{"id": 2, **value}]), more={"file_format": "ORC"}))
    table.add(
        Listed(
            write_own_avro(table, [{"id": 3, **value}, {"id": 4, "a": None, "p": None}]),
            more={"file_format": "avro"},
        )
    )
    added = Field(6, "new", Struct((Field(7, "u", UUID, initial_default=KEY),)), initial_default=None)
    table.evolve(
        Field(3, "q", Struct((Field(4, "z", LONG), Field(5, "d", DATE, initial_default=1)))),
        Field(2, "id", LONG),
        Field(1, "a", LONG),
        added,
    )
    frame = table.read(spark, ["id", "a", "q", "new", "_pos"], access=LOCAL)
    day = dt.date(1970, 1, 2)
    assert rows(frame) == [
        (10, 1, (1, day), None, 0),
        (10, 2, (1, day), None, 0),
        (10, 3, (1, day), None, 0),
        (None, 4, None, None, 1),
    ]
    assert rows(frame.where("q.z = 1 and a > 1").select("a")) == [(2,), (3,)]


def test_what_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table = MadeTable(tmp_path, Schema((ID,)))
    table.add(Listed(table.write([{"id": 1}]), more={"file_format": "LANCE"}))
    with pytest.raises(InvalidMetadata, match="LANCE"):
        table.read(spark)
    table = MadeTable(tmp_path, Schema((ID,)))
    table.add(Listed(table.write([{"id": 1}], "secret.parquet"), more={"key_metadata": b"k"}))
    with pytest.raises(NotSupported, match=r"secret\.parquet: the file is encrypted"):
        table.read(spark)
