"""Random Avro schemas, each with values as fastavro reads them, and with what they are in Arrow."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from hypothesis import strategies as st


class Kind(NamedTuple):
    """A type of Avro."""

    schema: Any
    values: st.SearchStrategy[Any]
    """As fastavro reads them."""
    arrow: pa.DataType
    """One of the Arrow types that it can be written from."""
    to_arrow: Callable[[Any], Any] = lambda value: value
    """From what fastavro reads to what pyarrow makes an array of."""


class Rows(NamedTuple):
    """Rows of a random schema."""

    schema: dict[str, Any]
    records: list[dict[str, Any]]
    """As fastavro reads them."""
    table: pa.Table


def read_by_fastavro(data: bytes) -> list[Any]:
    """The rows of a file, by a reader that is not ours."""
    return list(fastavro.reader(io.BytesIO(data)))


_WIDE = Context(prec=60)
EPOCH = dt.date(1970, 1, 1)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-100, 100)
YEARS = (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001  # hypothesis adds the zone
TEXT = st.one_of(st.text(max_size=12), st.text("abc/=-ä€", min_size=6, max_size=40))
BYTES = st.binary(max_size=40)


def _millis(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _naive(value: dt.datetime) -> dt.datetime:
    return value.replace(tzinfo=None)


def _instants() -> st.SearchStrategy[dt.datetime]:
    return st.datetimes(*YEARS, timezones=st.just(dt.UTC))


def _logical(stored: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": stored, "logicalType": logical, **more}


def _plain_kinds() -> list[Kind]:
    floats = st.floats(allow_nan=False, width=32)
    texts = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    return [
        Kind("null", st.none(), pa.null()),
        Kind("boolean", st.booleans(), pa.bool_()),
        *(Kind("int", st.one_of(INT, SMALL), arrow) for arrow in (pa.int32(), pa.int64())),
        Kind("int", st.integers(0, 200), pa.uint8()),
        Kind("long", st.one_of(LONG, SMALL, INT), pa.int64()),
        Kind("long", SMALL, pa.int8()),
        Kind("long", st.integers(0, 2**63 - 1), pa.uint64()),
        Kind("float", floats, pa.float32()),
        Kind("double", st.floats(allow_nan=False), pa.float64()),
        Kind("double", floats, pa.float32()),
        *(Kind("string", TEXT, arrow) for arrow in texts),
        *(Kind("bytes", BYTES, arrow) for arrow in (pa.binary(), pa.large_binary())),
        Kind("bytes", TEXT.map(str.encode), pa.string(), bytes.decode),
    ]


def _time_kinds() -> list[Kind]:
    times = st.times()
    seconds = st.integers(0, 86_399_999_999_999)
    return [
        Kind(_logical("int", "date"), st.dates(), pa.date32()),
        Kind(_logical("int", "date"), st.dates(), pa.int32(), lambda day: (day - EPOCH).days),
        Kind(_logical("int", "time-millis"), times.map(_millis), pa.time32("ms")),
        Kind(_logical("int", "time-millis"), times.map(_millis), pa.time64("us")),
        Kind(_logical("long", "time-micros"), times, pa.time64("us")),
        Kind(_logical("long", "time-nanos"), seconds, pa.time64("ns")),
        Kind(_logical("long", "timestamp-millis"), _instants().map(_millis), pa.timestamp("us", "UTC")),
        Kind(_logical("long", "timestamp-micros"), _instants(), pa.timestamp("us", "Asia/Tokyo")),
        Kind(
            _logical("long", "timestamp-micros", **{"adjust-to-utc": False}),
            _instants(),
            pa.timestamp("us"),
            _naive,
        ),
        Kind(_logical("long", "timestamp-nanos"), LONG, pa.timestamp("ns", "UTC")),
        Kind(
            _logical("long", "local-timestamp-millis"), st.datetimes(*YEARS).map(_millis), pa.timestamp("ms")
        ),
        Kind(_logical("long", "local-timestamp-micros"), st.datetimes(*YEARS), pa.timestamp("us")),
        Kind(_logical("long", "local-timestamp-nanos"), LONG, pa.timestamp("ns")),
    ]


SCALARS = [*_plain_kinds(), *_time_kinds()]


class _Names:
    """Each named type of a schema has a name of its own."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"


@st.composite
def _decimals(draw: st.DrawFn, name: _Names) -> Kind:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    limit = 10**precision - 1
    values = st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-scale, _WIDE))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    arrow = draw(st.sampled_from([pa.decimal128(precision, scale), pa.decimal256(precision, scale)]))
    if draw(st.booleans()):
        return Kind({"type": "bytes", **logical}, values, arrow)
    size = (limit.bit_length() + 1 + 7) // 8 + draw(st.sampled_from([0, 0, 1, 9]))
    return Kind({"type": "fixed", "name": name("decimal"), "size": size, **logical}, values, arrow)


@st.composite
def _named(draw: st.DrawFn, name: _Names) -> Kind:
    if draw(st.booleans()):
        symbols = draw(st.lists(st.from_regex("[A-Z]{1,4}", fullmatch=True), min_size=1, unique=True))
        schema = {"type": "enum", "name": name("enum"), "symbols": symbols}
        return Kind(schema, st.sampled_from(symbols), pa.string())
    size = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 16, 19]))
    arrow = draw(st.sampled_from([pa.binary(size), pa.binary()]))
    logical = {"logicalType": "uuid"} if size == 16 else {}
    fixed = {"type": "fixed", "name": name("fixed"), "size": size, **logical}
    return Kind(fixed, st.binary(min_size=size, max_size=size), arrow)


@st.composite
def kinds(draw: st.DrawFn, name: _Names, depth: int) -> Kind:
    """A type of any sort, with others inside it down to a depth."""
    simple: list[st.SearchStrategy[Kind]] = [st.sampled_from(SCALARS), _decimals(name), _named(name)]
    nested = [
        _optionals(name, depth - 1),
        _lists(name, depth - 1),
        _maps(name, depth - 1),
        records(name, depth - 1),
    ]
    found: Kind = draw(st.one_of(*simple, *(nested if depth else [])))
    return found


@st.composite
def _optionals(draw: st.DrawFn, name: _Names, depth: int) -> Kind:
    inner = draw(
        kinds(name, depth).filter(lambda kind: kind.schema != "null" and not isinstance(kind.schema, list))
    )
    schema = [inner.schema, "null"] if draw(st.booleans()) else ["null", inner.schema]
    values = st.one_of(st.none(), inner.values)
    return Kind(schema, values, inner.arrow, lambda value: None if value is None else inner.to_arrow(value))


@st.composite
def _lists(draw: st.DrawFn, name: _Names, depth: int) -> Kind:
    inner = draw(kinds(name, depth))
    arrow = draw(st.sampled_from([pa.list_, pa.large_list]))(inner.arrow)
    values = st.lists(inner.values, max_size=4)
    return Kind(
        {"type": "array", "items": inner.schema},
        values,
        arrow,
        lambda value: list(map(inner.to_arrow, value)),
    )


@st.composite
def _maps(draw: st.DrawFn, name: _Names, depth: int) -> Kind:
    inner = draw(kinds(name, depth))
    if draw(st.booleans()):
        values = st.dictionaries(TEXT, inner.values, max_size=3)
        arrow = pa.map_(pa.string(), inner.arrow)
        schema = {"type": "map", "values": inner.schema}
        return Kind(
            schema, values, arrow, lambda value: [(key, inner.to_arrow(each)) for key, each in value.items()]
        )
    entry = {
        "type": "record",
        "name": name("entry"),
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": inner.schema}],
    }
    entries = st.lists(st.fixed_dictionaries({"key": INT, "value": inner.values}), max_size=3)
    return Kind(
        {"type": "array", "logicalType": "map", "items": entry},
        entries,
        pa.map_(pa.int32(), inner.arrow),
        lambda value: [(each["key"], inner.to_arrow(each["value"])) for each in value],
    )


@st.composite
def records(draw: st.DrawFn, name: _Names, depth: int) -> Kind:
    """A record of up to four fields."""
    listed = draw(st.lists(kinds(name, depth), max_size=4))
    fields = {f"f{position}": kind for position, kind in enumerate(listed)}
    schema = {
        "type": "record",
        "name": name("record"),
        "fields": [{"name": label, "type": kind.schema} for label, kind in fields.items()],
    }
    return Kind(
        schema,
        st.fixed_dictionaries({label: kind.values for label, kind in fields.items()}),
        pa.struct([pa.field(label, kind.arrow) for label, kind in fields.items()]),
        lambda value: {label: kind.to_arrow(value[label]) for label, kind in fields.items()},
    )


@st.composite
def rows(draw: st.DrawFn, depth: int = 3) -> Rows:
    """Some rows of some schema; the table lies in memory in odd ways."""
    kind = draw(records(_Names(), depth))
    found = draw(st.lists(kind.values, max_size=8))
    count = len(found)
    before = draw(st.integers(0, count))
    around = [kind.to_arrow(each) for each in (*found[:before], *found, *found[:1])]
    columns = []
    for field in kind.arrow:
        values = [each[field.name] for each in around]
        whole = pa.array(values, field.type).slice(before, count)
        cut = draw(st.integers(0, count))
        columns.append(pa.chunked_array([whole.slice(0, cut), whole.slice(cut)]))
    names = [field.name for field in kind.arrow]
    table = pa.table(columns, names=names) if names else pa.table({"": pa.nulls(count)}).select([])
    return Rows(kind.schema, found, table)
