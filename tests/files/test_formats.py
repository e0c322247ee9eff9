"""Files of every format hold what was given, as other readers see them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from lakeplane.files.align import align_arrow
from lakeplane.files.target import FILE_FORMATS, FileFormat
from lakeplane.files.write import write_rows
from lakeplane.model.schema import Schema
from lakeplane.model.schema_json import write_schema
from lakeplane.model.types import UNKNOWN, walk
from tests.files.samples import NESTED, NEW, PLAIN, UTC, sample, target
from tests.interop.peers import ask

NANOS = {name: NEW[name] for name in ("timestamp_ns", "timestamptz_ns", "unknown")}
GROUPS = {"plain": PLAIN, "nested": NESTED, "new": NEW, "nanos": NANOS}
NOT_READ: dict[tuple[str, str, str], set[str]] = {
    # A null list of structs with maps comes as an empty one: pyarrow and DuckDB read null in the same file.
    ("pyiceberg", "nested", "parquet"): {"deep"},
    # Of ORC, PyIceberg knows the ids in attributes, not what they say of types, and no timestamps.
    ("pyiceberg", "plain", "orc"): {"time", "uuid", "fixed", "timestamp", "timestamptz"},
}
"""What a reader cannot read, or reads as something else."""


def written(group: str, file_format: FileFormat) -> tuple[Schema, pa.Table, bytes]:
    schema, rows = sample(GROUPS[group])
    files: dict[str, bytes] = {}
    found = write_rows(rows, target(schema, file_format=file_format), files.__setitem__)
    assert [each.files["record_count"].to_pylist() for each in found] == [[3]]
    (data,) = files.values()
    return schema, rows, data


def schema_for_pyiceberg(schema: Schema) -> Any:
    return msgspec.json.decode(msgspec.json.encode(write_schema(schema)))


def without(schema: Schema, rows: pa.Table, names: set[str]) -> tuple[Schema, pa.Table]:
    fields = tuple(field for field in schema.fields if field.name not in names)
    return Schema(fields), rows.select([field.name for field in fields])


READS = [
    ("pyiceberg", "plain", "parquet"),
    ("pyiceberg", "nested", "parquet"),
    ("pyiceberg", "plain", "orc"),
    ("duckdb", "plain", "parquet"),
    ("duckdb", "nested", "parquet"),
    ("duckdb", "new", "parquet"),
    ("polars", "plain", "parquet"),
    ("polars", "nested", "parquet"),
    # Polars refuses files with logical types that it does not know.
    ("polars", "nanos", "parquet"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Path]:
    folder = tmp_path_factory.mktemp("reads")
    reads, found = [], {}
    for reader, group, file_format in READS:
        schema, rows, data = written(group, file_format)  # type: ignore[arg-type]
        schema, _ = without(schema, rows, NOT_READ.get((reader, group, file_format), set()))
        path, out = folder / f"{group}.{file_format}", folder / f"{reader}-{group}-{file_format}.arrow"
        path.write_bytes(data)
        reads.append([reader, str(path), file_format, str(out), schema_for_pyiceberg(schema)])
        found[reader, group, file_format] = out
    ask("read_data_files", {"reads": reads})
    return found


@pytest.mark.parametrize(("reader", "group", "file_format"), READS)
def test_other_readers_find_the_rows(
    answers: dict[tuple[str, str, str], Path], reader: str, group: str, file_format: str
) -> None:
    schema, rows = sample(GROUPS[group])
    found = pa.ipc.open_file(answers[reader, group, file_format]).read_all()
    if (reader, group) == ("duckdb", "new"):
        # The script makes texts of variants; a 1 is in them. DuckDB rounds instants to microseconds.
        assert found["variant"].to_pylist() == ["1", None, "1"]
        known, wanted = without(schema, rows, {"variant", "unknown", "timestamptz_ns"})
        assert aligned(known, found).to_pylist() == wanted.to_pylist()
        return
    known, wanted = without(schema, rows, {"unknown", *NOT_READ.get((reader, group, file_format), set())})
    assert aligned(known, found).to_pylist() == wanted.to_pylist()


def known_names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


@pytest.mark.parametrize("group", GROUPS)
def test_avro_files_hold_the_rows(group: str) -> None:
    schema, rows, data = written(group, "avro")
    found: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    assert len(found) == rows.num_rows
    for field in schema.fields:
        if field.type is UNKNOWN:
            assert field.name not in found[0]
            continue
        expected = [as_avro(field.name, each) for each in plain(rows[field.name])]
        assert [row[field.name] for row in found] == expected, field.name
    assert avro_ids(msgspec.json.decode(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])) == {
        field.id for field in walk(schema.fields) if field.type is not UNKNOWN
    }


def plain(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.BaseExtensionType):
        return [None if each is None else each.bytes for each in column.to_pylist()]
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def as_avro(name: str, value: Any) -> Any:
    """A value as fastavro gives it."""
    match name, value:
        case _, None:
            return None
        case "timestamp", _:
            return value.replace(tzinfo=UTC)
        case "struct", {"b": b}:
            return {**value, "b": getattr(b, "bytes", b)}
        case "map", _:
            return dict(value)
        case "map_of_ints", _:
            return [{"key": key, "value": item} for key, item in value]
        case "deep", _:
            return [each and {"m": None if each["m"] is None else dict(each["m"])} for each in value]
        case _:
            return value


def avro_ids(schema: Any) -> set[int]:
    match schema:
        case dict():
            keys = ("field-id", "element-id", "key-id", "value-id")
            mine = {schema[key] for key in keys if key in schema}
            return mine.union(*map(avro_ids, schema.values()))
        case list():
            return set[int]().union(*map(avro_ids, schema))
        case _:
            return set()


@pytest.mark.parametrize("group", GROUPS)
def test_orc_files_hold_the_rows_and_say_what_they_are(group: str) -> None:
    schema, rows, data = written(group, "orc")
    found = po.ORCFile(io.BytesIO(data))
    ids: dict[int, dict[str, str]] = {}
    collect_orc(list(found.schema), ids)
    wanted = [field for field in walk(schema.fields) if field.type is not UNKNOWN]
    assert set(ids) == {field.id for field in wanted}
    for field in wanted:
        assert ids[field.id]["iceberg.required"] == ("true" if field.required else "false")
        for mark, kind in (("FIXED", "fixed"), ("UUID", "uuid"), ("GEOMETRY", "geometry"), ("TIME", "time")):
            said = kind if kind != "time" else None
            if str(field.type).startswith(kind) and (said or str(field.type) == "time"):
                assert mark in ids[field.id].values()
    known, expected = without(schema, rows, {"unknown", "time"})
    assert aligned(known, found.read()).to_pylist() == expected.to_pylist()
    if schema.find_or_none("time") is not None:
        assert found.read()["time"].cast(pa.time64("us")).to_pylist() == rows["time"].to_pylist()


def aligned(schema: Schema, rows: pa.Table) -> pa.Table:
    found = align_arrow(schema, rows.select(known_names(schema)))
    assert isinstance(found, pa.Table)
    return found


def collect_orc(fields: list[pa.Field], ids: dict[int, dict[str, str]]) -> None:
    for field in fields:
        attributes = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        if "iceberg.id" in attributes:
            ids[int(attributes["iceberg.id"])] = attributes
        match field.type:
            case pa.StructType():
                collect_orc(list(field.type), ids)
            case pa.ListType():
                collect_orc([field.type.value_field], ids)
            case pa.MapType():
                collect_orc([field.type.key_field, field.type.item_field], ids)


def test_pyiceberg_sees_the_schema_in_a_file(tmp_path: Path) -> None:
    for group in ("plain", "nested"):
        schema, _, data = written(group, "parquet")
        path = tmp_path / f"{group}.parquet"
        path.write_bytes(data)
        (answer,) = ask("pyiceberg_data_files", {"paths": [str(path)]})
        spaced = json.dumps(schema_for_pyiceberg(schema)["fields"]).replace(",", ", ").replace(",  ", ", ")
        assert answer["schema"]["fields"] == json.loads(spaced)


def test_parquet_files_name_the_logical_types_of_version_3() -> None:
    _, _, data = written("new", "parquet")
    text = str(pq.ParquetFile(io.BytesIO(data)).schema)
    assert "timestamp_ns (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds" in text
    assert "variant (Variant(1))" in text
    assert "geometry (Geometry(crs=EPSG:3857))" in text
    assert "geography (Geography(crs=, algorithm=karney))" in text
    assert "unknown" not in text


def test_decimals_are_as_short_as_the_spec_asks() -> None:
    _, _, data = written("plain", "parquet")
    schema = pq.ParquetFile(io.BytesIO(data)).schema
    found = {schema.column(at).name: schema.column(at) for at in range(len(schema.names))}
    assert found["decimal_9_2"].physical_type == "INT32"
    assert found["decimal_18_3"].physical_type == "INT64"
    assert (found["decimal_20_20"].physical_type, found["decimal_20_20"].length) == (
        "FIXED_LEN_BYTE_ARRAY",
        9,
    )
    assert (found["decimal_38_0"].physical_type, found["decimal_38_0"].length) == ("FIXED_LEN_BYTE_ARRAY", 16)
    assert (found["uuid"].physical_type, found["uuid"].length) == ("FIXED_LEN_BYTE_ARRAY", 16)
    assert found["time"].physical_type == found["timestamptz"].physical_type == "INT64"


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_metrics_do_not_depend_on_the_format(file_format: FileFormat) -> None:
    types = {**PLAIN, **{name: NEW[name] for name in ("timestamp_ns", "variant", "geometry")}}
    schema, rows = sample(types)
    found = write_rows(rows, target(schema, file_format=file_format), dict[str, bytes]().__setitem__)
    parquet = write_rows(rows, target(schema), dict[str, bytes]().__setitem__)
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        told = found[0].files[name].to_pylist()
        assert told == parquet[0].files[name].to_pylist(), name
        assert told[0]
    assert found[0].files["file_format"].to_pylist() == [file_format.upper()]
