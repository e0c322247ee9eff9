"""Every type in every format and version: written by Spark and by Arrow, read by us and by others."""

from __future__ import annotations

import base64
import datetime as dt
import typing
import uuid
from decimal import Decimal as Exact
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeplane as lp
from lakeplane.model.arrow_schema import to_arrow
from lakeplane.model.schema import Schema
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
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
    Fixed,
    List,
    Map,
    Struct,
)
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOON = dt.datetime(1969, 7, 20, 12, 17, 40, 123456)  # noqa: DTZ001 - a local time
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "id": (LONG, [1, 2, 3]),
    "flag": (BOOLEAN, [True, None, False]),
    "small": (INT, [-(2**31), None, 2**31 - 1]),
    "large": (LONG, [-(2**63), None, 2**63 - 1]),
    "real": (FLOAT, [0.5, None, -1.25]),
    "precise": (DOUBLE, [1e300, None, -0.1]),
    "d9": (Decimal(9, 2), [Exact("-1234567.89"), None, Exact("0.01")]),
    "d18": (Decimal(18, 3), [Exact("-123456789012345.678"), None, Exact("1.000")]),
    "d38": (
        Decimal(38, 10),
        [Exact("-1234567890123456789012345678.0123456789"), None, Exact("0.0000000001")],
    ),
    "day": (DATE, [dt.date(1582, 10, 15), None, dt.date(9999, 12, 31)]),
    "clock": (TIME, [dt.time(0, 0), None, dt.time(23, 59, 59, 999999)]),
    "local": (TIMESTAMP, [NOON, None, dt.datetime(2026, 1, 1)]),  # noqa: DTZ001
    "instant": (TIMESTAMPTZ, [NOON.replace(tzinfo=dt.UTC), None, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    "text": (STRING, ["", None, "äöü 😀"]),
    "key": (UUID, [uuid.UUID(int=0), None, uuid.UUID(int=2**128 - 1)]),
    "four": (Fixed(4), [b"\0\1\2\3", None, b"\xff" * 4]),
    "raw": (BINARY, [b"", None, b"\xff\0"]),
    "place": (
        Struct((Field(101, "x", DOUBLE), Field(102, "name", STRING))),
        [{"x": 0.5, "name": None}, None, {"x": None, "name": "b"}],
    ),
    "tags": (List(103, STRING), [["a", None], None, []]),
    "scores": (Map(104, STRING, 105, LONG), [[("k", 1)], None, []]),
    "deep": (
        List(106, Struct((Field(107, "ids", Map(108, INT, 109, List(110, DATE))),))),
        [[{"ids": [(1, [dt.date(2026, 1, 1)])]}, None], None, [{"ids": None}]],
    ),
}
NANOS = {"nano": (TIMESTAMP_NS, [1_767_225_600_123_456_789, None, -1])}
READERS = {("parquet", 2): ["pyiceberg", "duckdb"], ("parquet", 3): ["duckdb"]}


def fields(version: int) -> dict[str, tuple[Any, list[Any]]]:
    return {**VALUES, **(NANOS if version > 2 else {})}


def fields_of(version: int, file_format: str) -> dict[str, tuple[Any, list[Any]]]:
    found = fields(version)
    if file_format == "orc":
        # What Arrow writes of other times before 1970 only Arrow understands, so it is refused.
        for name, (type_, values) in found.items():
            if type_ in (TIMESTAMP, TIMESTAMPTZ):
                found[name] = type_, [each and each.replace(microsecond=0) for each in values]
            elif type_ is TIMESTAMP_NS:
                found[name] = type_, [values[0], None, -(10**9)]
    return found


def frame(columns: dict[str, tuple[Any, list[Any]]]) -> pa.Table:
    schema = to_arrow(
        Schema(tuple(Field(n, name, each[0]) for n, (name, each) in enumerate(columns.items(), 1)))
    )
    arrays = []
    for name, (_, values) in columns.items():
        wanted = schema.field(name).type
        if isinstance(wanted, pa.BaseExtensionType):
            stored = [None if each is None else each.bytes for each in values]
            arrays.append(wanted.wrap_array(pa.array(stored, wanted.storage_type)))
        else:
            arrays.append(pa.array(values, wanted))
    return pa.table(arrays, schema=schema)


def schema_of(columns: dict[str, tuple[Any, list[Any]]]) -> Schema:
    return Schema(tuple(Field(n, name, each[0]) for n, (name, each) in enumerate(columns.items(), 1)))


def shown(name: str, value: Any) -> Any:
    """A value as Spark shows it."""
    return str(value) if name == "key" and value is not None else value


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> lp.Lake:
    made = lp.connect(tmp_path / "warehouse", spark=spark)
    made.create_namespace("shop")
    return made


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_type_comes_back(lake: lp.Lake, file_format: str, version: int) -> None:
    columns = fields_of(version, file_format)
    properties = {"format-version": str(version), "write.format.default": file_format}
    table = lake.create_table("shop.types", schema_of(columns), properties=properties)
    table.append(frame(columns))
    read = table.read()
    assert read.columns == list(columns)
    expected = {name: [shown(name, each) for each in values] for name, (_, values) in columns.items()}
    found = read.orderBy("id").toArrow().to_pydict()
    assert {name: values for name, values in found.items() if values != expected[name]} == {}
    # What Spark has read, Spark writes.
    again = lake.create_table("shop.again", schema_of(columns), properties=properties)
    again.append(read)
    once_more = again.read().orderBy("id").toArrow().to_pydict()
    assert {name: values for name, values in once_more.items() if values != expected[name]} == {}
    for written in (table, again):
        for engine in READERS.get((file_format, version), []):
            _check_reader(engine, written, columns)


def _check_reader(engine: str, table: lp.Table, columns: dict[str, tuple[Any, list[Any]]]) -> None:
    [answer] = ask("table_rows", [[engine, table.metadata_location]])
    found = pa.ipc.open_stream(base64.b64decode(answer)).read_all().sort_by("id")
    for name, (_, values) in columns.items():
        if (engine, name) == ("pyiceberg", "deep"):
            continue  # it takes a list that is null for an empty one
        assert [_plain(each) for each in found[name].to_pylist()] == [_plain(each) for each in values], (
            engine,
            name,
        )


def _plain(value: Any) -> Any:
    """A value as all engines give it: uuids as text, maps as lists of pairs, nanoseconds as numbers."""
    match value:
        case uuid.UUID():
            return str(value)
        case bytes() if len(value) == 16:
            return str(uuid.UUID(bytes=value))
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case dt.datetime() if hasattr(value, "nanosecond"):
            return typing.cast("Any", value).value
        case _:
            return value


def test_times_that_others_could_not_read_in_orc_are_refused(lake: lp.Lake) -> None:
    """Arrow writes them with negative fractions of seconds, on which Java's readers fail."""
    for version, type_, value in (
        (2, TIMESTAMPTZ, NOON.replace(tzinfo=dt.UTC)),
        (3, List(9, TIMESTAMP_NS), [-1]),
    ):
        schema = Schema((Field(1, "at", type_),))
        properties = {"format-version": str(version), "write.format.default": "orc"}
        table = lake.create_table(f"shop.v{version}", schema, properties=properties)
        rows = pa.table({"at": pa.array([value], to_arrow(schema).field(0).type)})
        with pytest.raises(lp.NotSupported, match=r"at: a time before 1970.*write Parquet"):
            table.append(rows)
        table.append(rows, options={"write-format": "parquet"})
        assert table.read().count() == 1
