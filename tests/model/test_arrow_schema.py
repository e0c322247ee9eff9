"""Arrow schemas as schemas of tables, and back."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from msgspec.structs import replace

from lakeplane.errors import InvalidInput
from lakeplane.model.arrow_schema import Nanos, from_arrow, to_arrow
from lakeplane.model.evolution import assign_fresh_ids
from lakeplane.model.frozen import EMPTY
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
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    Decimal,
    Field,
    Fixed,
    Geography,
    Geometry,
    List,
    Map,
    Struct,
    Type,
    map_fields,
)
from tests.model.schema_strategies import schemas


def read(type_: pa.DataType, *, nanos: Nanos = "keep", **metadata: str) -> Type:
    marks = {f"ARROW:extension:{key}": value for key, value in metadata.items()}
    return from_arrow(pa.schema([pa.field("c", type_, metadata=marks)]), nanos=nanos).fields[0].type


def numbered(field_id: int, doc: str | None = None) -> dict[str, str]:
    return {"PARQUET:field_id": str(field_id)} | ({} if doc is None else {"doc": doc})


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.null(), UNKNOWN),
        (pa.bool_(), BOOLEAN),
        *((each, INT) for each in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())),
        *((each, LONG) for each in (pa.int64(), pa.uint32())),
        *((each, FLOAT) for each in (pa.float16(), pa.float32())),
        (pa.float64(), DOUBLE),
        (pa.decimal32(9, 2), Decimal(9, 2)),
        (pa.decimal64(18, 0), Decimal(18, 0)),
        (pa.decimal128(38, 38), Decimal(38, 38)),
        (pa.decimal256(38, 10), Decimal(38, 10)),
        *((each, DATE) for each in (pa.date32(), pa.date64())),
        *((each, TIME) for each in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))),
        *((pa.timestamp(unit), TIMESTAMP) for unit in ("s", "ms", "us")),
        *((pa.timestamp(unit, "Europe/Berlin"), TIMESTAMPTZ) for unit in ("s", "ms", "us")),
        (pa.timestamp("ns"), TIMESTAMP_NS),
        (pa.timestamp("ns", "+01:00"), TIMESTAMPTZ_NS),
        *((each, STRING) for each in (pa.string(), pa.large_string(), pa.string_view())),
        *((each, BINARY) for each in (pa.binary(), pa.large_binary(), pa.binary_view())),
        (pa.binary(16), Fixed(16)),
        (pa.uuid(), UUID),
        (pa.json_(), STRING),
        (pa.bool8(), BOOLEAN),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.dictionary(pa.uint64(), pa.list_(pa.timestamp("s"))), List(2, TIMESTAMP)),
        *(
            (make(pa.int16()), List(2, INT))
            for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
        ),
        (pa.list_(pa.int16(), 3), List(2, INT)),
        (pa.map_(pa.string(), pa.large_list(pa.date64())), Map(2, STRING, 3, List(4, DATE))),
        (pa.struct([]), Struct(())),
        (pa.struct({"a": pa.int8(), "b": pa.null()}), Struct((Field(2, "a", INT), Field(3, "b", UNKNOWN)))),
    ],
)
def test_types_that_a_table_can_hold(arrow: pa.DataType, expected: Type) -> None:
    assert read(arrow) == expected


def test_nanoseconds_can_become_microseconds() -> None:
    assert read(pa.timestamp("ns"), nanos="micros") == TIMESTAMP
    assert read(pa.timestamp("ns", "UTC"), nanos="micros") == TIMESTAMPTZ
    assert read(pa.time64("ns"), nanos="micros") == TIME
    assert read(pa.list_(pa.dictionary(pa.int8(), pa.timestamp("ns"))), nanos="micros") == List(2, TIMESTAMP)
    with pytest.raises(InvalidInput, match="nanos must be 'keep' or 'micros', not 'seconds'"):
        read(pa.int8(), nanos="seconds")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arrow", "hint"),
    [
        (pa.uint64(), "decimal128(20, 0)"),
        (pa.time64("ns"), 'nanos="micros"'),
        (pa.duration("us"), "int64"),
        (pa.month_day_nano_interval(), "leave the column out"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run_end_decode"),
        (pa.sparse_union([pa.field("x", pa.int8())]), "struct"),
        (pa.dense_union([pa.field("x", pa.int8())]), "struct"),
        (pa.fixed_shape_tensor(pa.int8(), [2]), "storage type"),
        (pa.opaque(pa.binary(), "money", "vendor"), "storage type"),
        (pa.decimal256(39, 2), "38 digits"),
        (pa.decimal128(5, 7), "scale"),
        (pa.decimal128(5, -2), "scale"),
    ],
)
def test_types_that_no_table_can_hold(arrow: pa.DataType, hint: str) -> None:
    nested = pa.schema({"ok": pa.int8(), "s": pa.struct({"l": pa.list_(arrow)})})
    with pytest.raises(InvalidInput) as caught:
        from_arrow(nested)
    assert caught.value.field == "s.l.element"
    assert hint in (caught.value.hint or "")


def test_field_ids_docs_and_nullability_are_kept() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata=numbered(7, "the key")),
            pa.field(
                "s",
                pa.struct([pa.field("x", pa.string(), nullable=False, metadata=numbered(3, "é"))]),
                metadata=numbered(9, ""),
            ),
            pa.field(
                "l",
                pa.list_(pa.field("item", pa.int32(), nullable=False, metadata=numbered(4))),
                metadata=numbered(5),
            ),
            pa.field(
                "m",
                pa.map_(
                    pa.field("k", pa.string(), nullable=False, metadata=numbered(11)),
                    pa.field("v", pa.int32(), nullable=False, metadata=numbered(12)),
                ),
                nullable=False,
                metadata=numbered(10),
            ),
        ]
    )
    assert from_arrow(schema).fields == (
        Field(7, "id", LONG, required=True, doc="the key"),
        Field(9, "s", Struct((Field(3, "x", STRING, required=True, doc="é"),)), doc=""),
        Field(5, "l", List(4, INT, element_required=True)),
        Field(10, "m", Map(11, STRING, 12, INT, value_required=True), required=True),
    )


@pytest.mark.parametrize("bad", [None, "", "x", "-1", "1", "99999999999", "2147483646"])
def test_ids_that_do_not_tell_all_fields_apart_are_not_used(bad: str | None) -> None:
    other = {} if bad is None else {"PARQUET:field_id": bad}
    inner = pa.struct([pa.field("x", pa.int8(), metadata=other)])
    schema = from_arrow(
        pa.schema(
            [pa.field("a", inner, metadata=numbered(1)), pa.field("b", pa.int8(), metadata=numbered(5))]
        )
    )
    assert schema.field_ids == (1, 2, 3)
    assert schema == assign_fresh_ids(schema)


def test_a_column_of_nulls_cannot_be_required() -> None:
    nulls = pa.dictionary(pa.int8(), pa.null())
    schema = from_arrow(pa.schema([pa.field("x", nulls, nullable=False)]))
    assert schema.fields == (Field(1, "x", UNKNOWN),)
    assert to_arrow(Schema((Field(1, "x", UNKNOWN, required=True),))).field("x").nullable


PROJJSON = {"type": "GeographicCRS", "id": {"authority": "EPSG", "code": 4326}}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("", Geometry()),
        ("{}", Geometry()),
        ('{"crs": null}', Geometry()),
        ('{"crs": "0", "crs_type": "srid"}', Geometry("srid:0")),
        ('{"crs": "OGC:CRS84", "crs_type": "authority_code"}', Geometry()),
        ('{"crs": "EPSG:4326"}', Geometry("EPSG:4326")),
        ('{"crs": "5070", "crs_type": "srid"}', Geometry("srid:5070")),
        (json.dumps({"crs": PROJJSON, "crs_type": "projjson"}), Geometry("EPSG:4326")),
        (json.dumps({"crs": {"id": {"authority": "OGC", "code": "CRS84"}}}), Geometry()),
        ('{"crs": "OGC:CRS84", "edges": "planar"}', Geometry()),
        ('{"crs": "OGC:CRS84", "edges": "spherical"}', Geography()),
        ('{"crs": "EPSG:4979", "edges": "karney"}', Geography("EPSG:4979", "karney")),
    ],
)
def test_geometries_of_geoarrow(metadata: str, expected: Type) -> None:
    class Wkb(pa.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pa.binary(), "geoarrow.wkb")

        def __arrow_ext_serialize__(self) -> bytes:
            return metadata.encode()

    assert read(pa.large_binary(), name="geoarrow.wkb", metadata=metadata) == expected
    assert read(Wkb()) == expected


def test_geometries_mean_in_arrow_what_they_mean_in_its_parquet_files() -> None:
    """Arrow's own writer: an empty ``crs`` of Parquet's GEOMETRY is the default one, OGC:CRS84."""

    class Wkb(pa.ExtensionType):  # type: ignore[misc]
        def __init__(self, metadata: bytes) -> None:
            self.given = metadata
            super().__init__(pa.binary(), "geoarrow.wkb")

        def __arrow_ext_serialize__(self) -> bytes:
            return self.given

        @classmethod
        def __arrow_ext_deserialize__(cls, _storage: pa.DataType, metadata: bytes) -> Wkb:
            return cls(metadata)

    pa.register_extension_type(Wkb(b""))
    try:
        for metadata, crs in (
            (b"{}", ""),
            (b'{"crs":"OGC:CRS84"}', ""),
            (b'{"crs":"srid:5070"}', "srid:5070"),
        ):
            type_, file = Wkb(metadata), io.BytesIO()
            column = pa.ExtensionArray.from_storage(type_, pa.array([], pa.binary()))
            pq.write_table(pa.table({"c": column}), file, store_schema=False)
            assert str(pq.ParquetFile(file).schema.column(0).logical_type) == f"Geometry(crs={crs})"
            expected = Geometry(crs) if crs else Geometry()
            assert read(type_) == expected
            assert read(pq.read_schema(file).field(0).type) == expected
    finally:
        pa.unregister_extension_type("geoarrow.wkb")


@pytest.mark.parametrize(
    ("name", "metadata", "problem"),
    [
        ("geoarrow.point", "{}", "geoarrow.point is not how a table holds geometries"),
        ("geoarrow.wkb", "{", "no JSON object"),
        ("geoarrow.wkb", "[]", "no JSON object"),
        ("geoarrow.wkb", '{"crs": {"type": "GeographicCRS"}}', "no short name"),
        ("geoarrow.wkb", '{"crs": 5}', "no short name"),
        ("geoarrow.wkb", '{"crs": "GEOGCS[(x)]"}', "cannot hold"),
        ("geoarrow.wkb", '{"edges": "bent"}', "unknown edge algorithm 'bent'"),
    ],
)
def test_geometries_that_no_table_can_hold(name: str, metadata: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match="c: ") as caught:
        read(pa.binary(), name=name, metadata=metadata)
    assert problem in caught.value.problem


def test_variants_are_known_by_their_marks() -> None:
    fields = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]
    shredded = [*fields, pa.field("typed_value", pa.int64())]
    assert read(pa.struct(fields), name="arrow.parquet.variant", metadata="") == VARIANT
    assert read(pa.struct(shredded), name="arrow.parquet.variant", metadata="") == VARIANT
    of_spark = [fields[1], fields[0].with_metadata({"variant": "true"})]
    assert read(pa.struct(of_spark)) == VARIANT
    assert isinstance(read(pa.struct(fields)), Struct)


def test_an_unknown_extension_that_is_not_registered_is_what_it_is_stored_as() -> None:
    assert read(pa.int16(), name="vendor.money", metadata="x") == INT
    assert read(pa.binary(16), name="arrow.uuid") == UUID


def test_what_is_written() -> None:
    schema = Schema(
        (
            Field(1, "id", LONG, required=True, doc="key"),
            Field(2, "at", TIMESTAMPTZ),
            Field(3, "n", TIMESTAMP_NS),
            Field(4, "u", UUID),
            Field(5, "l", List(6, Fixed(3), element_required=True)),
            Field(7, "g", Geography("EPSG:4979", "karney")),
            Field(8, "v", VARIANT),
        )
    )
    written = to_arrow(schema)
    assert written.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert written.field("id").metadata == {b"PARQUET:field_id": b"1", b"doc": b"key"}
    assert written.field("at").type == pa.timestamp("us", "UTC")
    assert written.field("n").type == pa.timestamp("ns")
    assert written.field("u").type == pa.uuid()
    assert written.field("l").type.value_field == pa.field("element", pa.binary(3), nullable=False)
    assert written.field("l").type.value_field.metadata == {b"PARQUET:field_id": b"6"}
    geo = written.field("g")
    assert geo.type == pa.binary()
    assert geo.metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
    assert json.loads(geo.metadata[b"ARROW:extension:metadata"]) == {"crs": "EPSG:4979", "edges": "karney"}
    assert written.field("v").metadata[b"ARROW:extension:name"] == b"arrow.parquet.variant"


def test_parquet_files_have_the_ids_that_the_schema_has() -> None:
    schema = Schema(
        (
            Field(4, "a", List(9, LONG)),
            Field(2, "m", Map(5, STRING, 7, DATE)),
            Field(3, "u", UUID),
            Field(1, "t", TIME),
        )
    )
    file = io.BytesIO()
    pq.write_table(to_arrow(schema).empty_table(), file, store_schema=False)
    assert from_arrow(pq.read_schema(file)) == schema


@given(schemas())
def test_schemas_round_trip_but_for_defaults_and_what_is_unknown(schema: Schema) -> None:
    expected = Schema(bare(schema.struct).fields)
    written = to_arrow(schema)
    assert from_arrow(written) == expected
    assert from_arrow(pa.ipc.read_schema(written.serialize())) == expected


def bare(type_: Any) -> Any:
    """A type without defaults and unknown properties."""

    def change(field: Field) -> Field:
        return replace(field, type=bare(field.type), initial_default=None, write_default=None, unknown=EMPTY)

    changed = map_fields(type_, change)
    return replace(changed, unknown=EMPTY) if isinstance(changed, Struct | List | Map) else changed
