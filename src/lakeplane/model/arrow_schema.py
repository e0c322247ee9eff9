"""Arrow schemas as schemas of tables, and back.

Every Arrow type that Iceberg has a place for is read, whatever its layout: ``large_string`` and
``string_view`` are strings, a dictionary is what it holds, ``fixed_size_list`` is a list. What would lose
values is refused, with the cast that helps. Extension types are known by their names, registered or not:
``arrow.uuid``, ``arrow.json`` (a string), ``arrow.bool8``, ``arrow.parquet.variant`` and ``geoarrow.wkb``
(without a reference system it has the default one, as where Arrow writes it to Parquet).

Field ids are kept in the metadata key ``PARQUET:field_id``, where Arrow's Parquet reader puts them, and docs
in ``doc``. Defaults, schema ids and identifier fields have no place in an Arrow schema.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from lakeplane.errors import InvalidInput
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import number_fields
from lakeplane.model.types import (
    DEFAULT_CRS,
    MAX_DECIMAL_PRECISION,
    MAX_FIELD_ID,
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
    Primitive,
    Struct,
    Type,
    walk,
)

Nanos: TypeAlias = Literal["keep", "micros"]
"""What becomes of nanoseconds: a type of nanoseconds (format version 3), or one of microseconds."""

FIELD_ID: Final = b"PARQUET:field_id"
DOC: Final = b"doc"
EXTENSION_NAME: Final = b"ARROW:extension:name"
EXTENSION_METADATA: Final = b"ARROW:extension:metadata"

_NO_ID: Final = -1
_FLAT: Final[dict[pa.DataType, Type]] = {
    pa.null(): UNKNOWN,
    pa.bool_(): Primitive.BOOLEAN,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), Primitive.INT),
    **dict.fromkeys((pa.int64(), pa.uint32()), Primitive.LONG),
    **dict.fromkeys((pa.float16(), pa.float32()), Primitive.FLOAT),
    pa.float64(): Primitive.DOUBLE,
    **dict.fromkeys((pa.date32(), pa.date64()), Primitive.DATE),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us")), Primitive.TIME),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), Primitive.STRING),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), Primitive.BINARY),
}
_TO_ARROW: Final[dict[Type, pa.DataType]] = {
    UNKNOWN: pa.null(),
    Primitive.BOOLEAN: pa.bool_(),
    Primitive.INT: pa.int32(),
    Primitive.LONG: pa.int64(),
    Primitive.FLOAT: pa.float32(),
    Primitive.DOUBLE: pa.float64(),
    Primitive.DATE: pa.date32(),
    Primitive.TIME: pa.time64("us"),
    Primitive.TIMESTAMP: pa.timestamp("us"),
    Primitive.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    Primitive.TIMESTAMP_NS: pa.timestamp("ns"),
    Primitive.TIMESTAMPTZ_NS: pa.timestamp("ns", tz="UTC"),
    Primitive.STRING: pa.string(),
    UUID: pa.uuid(),
    Primitive.BINARY: pa.binary(),
    VARIANT: pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]),
}
_LISTS: Final = (
    *(pa.ListType, pa.LargeListType, pa.FixedSizeListType),
    *(pa.ListViewType, pa.LargeListViewType),
)
_DECIMALS: Final = (pa.Decimal32Type, pa.Decimal64Type, pa.Decimal128Type, pa.Decimal256Type)
_HINTS: Final = {
    pa.uint64(): "Cast it to int64, or to decimal128(20, 0)",
    pa.time64("ns"): 'Cast it to time64("us"), or pass nanos="micros"',
}
_WAYS_OUT: Final = (
    (pa.DurationType, "Cast it to int64"),
    (pa.RunEndEncodedType, "Decode it: pyarrow.compute.run_end_decode"),
    (pa.UnionType, "Make it a struct with one field for each kind"),
    (pa.BaseExtensionType, "Cast it to its storage type"),
)


def from_arrow(schema: pa.Schema, *, nanos: Nanos = "keep") -> Schema:
    """Make a schema of an Arrow schema.

    The field ids are those in the metadata if every field has one of its own, otherwise provisional. A
    timestamp with any time zone is an instant; the name of the zone is not kept.
    """
    reader = _Reader(nanos)
    fields = tuple(reader.field(each, each.name) for each in schema)
    ids = [field.id for field in walk(fields)]
    if len(set(ids)) < len(ids) or not all(0 <= each <= MAX_FIELD_ID for each in ids):
        fresh = itertools.count(1)
        numbered = number_fields(Struct(fields), lambda _name: next(fresh))
        assert isinstance(numbered, Struct)
        fields = numbered.fields
    return Schema(fields)


def to_arrow(schema: Schema) -> pa.Schema:
    """Make an Arrow schema of a schema, with the field ids in its metadata."""
    return pa.schema([_to_field(field) for field in schema.fields])


class _Reader:
    """Reads Arrow fields; a field without a usable id gets ``_NO_ID``."""

    def __init__(self, nanos: Nanos) -> None:
        if nanos not in ("keep", "micros"):
            raise InvalidInput(f"nanos must be 'keep' or 'micros', not {nanos!r}")
        self.nanos = nanos

    def field(self, field: pa.Field, place: str) -> Field:
        metadata = field.metadata or {}
        type_ = self.type(field.type, metadata, place)
        text = metadata.get(DOC)
        doc = None if text is None else text.decode("utf-8", "replace")
        # Nothing but null is in a column of nulls.
        required = not field.nullable and type_ is not UNKNOWN
        return Field(_field_id(metadata), field.name, type_, required, doc)

    def type(self, type_: pa.DataType, metadata: Mapping[bytes, bytes], place: str) -> Type:
        extension, parameters = _extension(type_, metadata)
        if extension and (found := _from_extension(extension, parameters, place)):
            return found
        found = _FLAT.get(type_) or self._parametrised(type_, place) or self._nested(type_, place)
        if found is None:
            raise _refusal(type_, place)
        return found

    def _parametrised(self, type_: pa.DataType, place: str) -> Type | None:
        match type_:
            case pa.TimestampType():
                return self._timestamp(type_)
            case pa.Time64Type() if self.nanos == "micros":
                return Primitive.TIME
            case _ if isinstance(type_, _DECIMALS):
                return _decimal(type_, place)
            case pa.FixedSizeBinaryType():
                return Fixed(type_.byte_width)
            case pa.DictionaryType():
                return self.type(type_.value_type, {}, place)
            case _:
                return None

    def _nested(self, type_: pa.DataType, place: str) -> Type | None:
        match type_:
            case pa.StructType() if _is_variant_of_spark(type_):
                return VARIANT
            case pa.StructType():
                return Struct(tuple(self.field(each, f"{place}.{each.name}") for each in type_))
            case pa.MapType():
                key = self.field(type_.key_field, f"{place}.key")
                value = self.field(type_.item_field, f"{place}.value")
                return Map(key.id, key.type, value.id, value.type, value.required)
            case _ if isinstance(type_, _LISTS):
                element = self.field(type_.value_field, f"{place}.element")
                return List(element.id, element.type, element.required)
            case _:
                return None

    def _timestamp(self, type_: pa.TimestampType) -> Type:
        if type_.unit == "ns" and self.nanos == "keep":
            return Primitive.TIMESTAMP_NS if type_.tz is None else Primitive.TIMESTAMPTZ_NS
        return Primitive.TIMESTAMP if type_.tz is None else Primitive.TIMESTAMPTZ


def _field_id(metadata: Mapping[bytes, bytes]) -> int:
    text = metadata.get(FIELD_ID, b"")
    return int(text) if re.fullmatch(rb"[0-9]{1,10}", text) else _NO_ID


def _decimal(type_: pa.DataType, place: str) -> Decimal:
    # The spec would allow a larger scale, but Spark could not read the column.
    if 0 <= type_.scale <= type_.precision <= MAX_DECIMAL_PRECISION:
        return Decimal(type_.precision, type_.scale)
    problem = f"the precision {type_.precision} and the scale {type_.scale} do not fit a decimal"
    hint = "Cast it to a decimal128 of at most 38 digits, with a scale from 0 to the precision"
    raise InvalidInput(problem, field=place, hint=hint)


def _refusal(type_: pa.DataType, place: str) -> InvalidInput:
    ways = (hint for kind, hint in _WAYS_OUT if isinstance(type_, kind))
    hint = _HINTS.get(type_) or next(ways, "Cast it, or leave the column out")
    return InvalidInput(f"a table cannot hold the Arrow type {type_}", field=place, hint=hint)


# Extension types


def _extension(type_: pa.DataType, metadata: Mapping[bytes, bytes]) -> tuple[str, bytes]:
    """The name and the parameters of an extension type, which is not always registered."""
    if isinstance(type_, pa.BaseExtensionType):
        serialize = getattr(type_, "__arrow_ext_serialize__", None)
        return type_.extension_name, bytes(serialize()) if serialize else b""
    name = metadata.get(EXTENSION_NAME, b"").decode("utf-8", "replace")
    return name, metadata.get(EXTENSION_METADATA, b"")


def _from_extension(name: str, parameters: bytes, place: str) -> Type | None:
    match name:
        case "arrow.uuid":
            return UUID
        case "arrow.json":
            return Primitive.STRING
        case "arrow.bool8":
            return Primitive.BOOLEAN
        case "arrow.parquet.variant" | "parquet.variant":
            return VARIANT
        case "geoarrow.wkb" | "ogc.wkb":
            return _geo(parameters, place)
        case _ if name.startswith("geoarrow."):
            hint = "Convert it to well-known binary, geoarrow.wkb"
            raise InvalidInput(f"{name} is not how a table holds geometries", field=place, hint=hint)
        case _:
            return None


def _is_variant_of_spark(type_: pa.StructType) -> bool:
    """Whether a struct has the mark that Spark gives to a variant in Arrow."""
    marks = {each.name: (each.metadata or {}).get(b"variant") for each in type_}
    return set(marks) == {"value", "metadata"} and marks["metadata"] == b"true"


def _geo(parameters: bytes, place: str) -> Type:
    try:
        given = json.loads(parameters or b"{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InvalidInput("the metadata of geoarrow.wkb is no JSON object", field=place)
    edges = given.get("edges") or "planar"
    try:
        crs = _crs(given.get("crs"), given.get("crs_type"))
        return Geometry(crs) if edges == "planar" else Geography(crs, edges)
    except InvalidInput as error:
        raise InvalidInput(error.problem, field=place, hint=error.hint) from None


def _crs(given: object, kind: object) -> str:
    match given:
        case None:
            return DEFAULT_CRS
        case {"id": {"authority": str(authority), "code": (int() | str()) as code}}:
            return f"{authority}:{code}"
        case str():
            return f"srid:{given}" if kind == "srid" else given
        case _:
            hint = "Give it an authority and a code, as EPSG:4326"
            raise InvalidInput("the reference system has no short name", hint=hint)


# To Arrow


def _to_field(field: Field) -> pa.Field:
    metadata: dict[bytes, bytes] = {FIELD_ID: str(field.id).encode(), **_to_extension(field.type)}
    if field.doc is not None:
        metadata[DOC] = field.doc.encode()
    nullable = not field.required or field.type is UNKNOWN
    return pa.field(field.name, _to_type(field.type), nullable, metadata)


def _to_type(type_: Type) -> pa.DataType:
    match type_:
        case Struct():
            return pa.struct([_to_field(each) for each in type_.fields])
        case List():
            return pa.list_(_to_field(type_.element_field))
        case Map():
            return pa.map_(_to_field(type_.key_field), _to_field(type_.value_field))
        case Decimal():
            return pa.decimal128(type_.precision, type_.scale)
        case Fixed():
            return pa.binary(type_.length)
        case Geometry() | Geography():
            return pa.binary()
        case _:
            return _TO_ARROW[type_]


def _to_extension(type_: Type) -> dict[bytes, bytes]:
    """The metadata that makes a field one of an extension type which pyarrow has no class for."""
    match type_:
        case Primitive.VARIANT:
            return {EXTENSION_NAME: b"arrow.parquet.variant", EXTENSION_METADATA: b""}
        case Geometry(crs=crs):
            parameters = {"crs": crs}
        case Geography():
            parameters = {"crs": type_.crs, "edges": type_.algorithm}
        case _:
            return {}
    return {EXTENSION_NAME: b"geoarrow.wkb", EXTENSION_METADATA: json.dumps(parameters).encode()}
