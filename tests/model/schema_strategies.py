"""Random types, defaults and schemas, as hypothesis strategies."""

from __future__ import annotations

import decimal
import itertools
from typing import Any

from hypothesis import strategies as st

from lakeplane.model.frozen import FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import number_fields
from lakeplane.model.types import (
    EDGE_ALGORITHMS,
    UNKNOWN,
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
    min_format_version,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1, max_size=6)
CRS = st.from_regex(r"[A-Za-z]{2,6}:[A-Za-z0-9_]{1,8}", fullmatch=True)
UNKNOWN_KEYS = st.dictionaries(
    st.text(min_size=1, max_size=4).map("x-".__add__), st.integers() | st.text(max_size=3), max_size=2
).map(FrozenDict[str, Any])


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    precision = draw(st.integers(1, 38))
    return Decimal(precision, draw(st.integers(0, precision)))


def flat_types(format_version: int = 3) -> st.SearchStrategy[Type]:
    plain = [each for each in Primitive if min_format_version(each) <= format_version]
    flat: st.SearchStrategy[Type] = st.sampled_from(plain) | decimals() | st.builds(Fixed, st.integers(0, 99))
    if format_version < 3:
        return flat
    geo = st.builds(Geometry, CRS) | st.builds(Geography, CRS, st.sampled_from(EDGE_ALGORITHMS))
    return flat | geo


_DEFAULTS: dict[Type, st.SearchStrategy[Any]] = {
    Primitive.BOOLEAN: st.booleans(),
    Primitive.INT: st.integers(-(2**31), 2**31 - 1),
    Primitive.DATE: st.integers(-(2**31), 2**31 - 1),
    Primitive.LONG: st.integers(-(2**63), 2**63 - 1),
    Primitive.TIME: st.integers(0, 86_400_000_000 - 1),
    Primitive.TIMESTAMP: st.integers(-(2**53), 2**53),
    Primitive.TIMESTAMPTZ: st.integers(-(2**53), 2**53),
    Primitive.TIMESTAMP_NS: st.integers(-(2**63), 2**63 - 1),
    Primitive.FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Primitive.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Primitive.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    Primitive.UUID: st.uuids(),
    Primitive.BINARY: st.binary(max_size=5),
}


def default_of(type_: Type) -> st.SearchStrategy[Any]:
    """Canonical values of a type that can be a default; null where there is no other."""
    match type_:
        case Fixed():
            return st.binary(min_size=type_.length, max_size=type_.length)
        case Decimal():
            limit = 10**type_.precision - 1
            return st.integers(-limit, limit).map(lambda n: decimal.Decimal(f"{n}E-{type_.scale}"))
        case Struct():
            return st.just(FrozenDict())
        case _:
            return _DEFAULTS.get(type_, st.none())


@st.composite
def fields(draw: st.DrawFn, type_: Type, name: str, *, format_version: int = 3) -> Field:
    """A field without a number: ids are given to the whole schema at the end."""
    defaults = st.none() | default_of(type_) if format_version >= 3 else st.none()
    return Field(
        0,
        name,
        type_,
        required=type_ is not UNKNOWN and draw(st.booleans()),
        doc=draw(st.none() | st.text(max_size=4)),
        initial_default=draw(defaults),
        write_default=draw(defaults),
        unknown=draw(UNKNOWN_KEYS),
    )


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[Type], *, format_version: int = 3) -> Struct:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold))
    return Struct(tuple(draw(fields(draw(inner), name, format_version=format_version)) for name in names))


def types(format_version: int = 3) -> st.SearchStrategy[Type]:
    """Types of any depth; the ids inside are all 0."""

    def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
        known = inner.filter(lambda each: each is not UNKNOWN)
        return (
            structs(inner, format_version=format_version)
            | st.builds(List, st.just(0), known, st.booleans(), UNKNOWN_KEYS)
            | st.builds(Map, st.just(0), known, st.just(0), known, st.booleans(), UNKNOWN_KEYS)
        )

    return st.recursive(flat_types(format_version), nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn, *, format_version: int = 3) -> Schema:
    """Valid schemas, numbered from 1 on."""
    struct = draw(structs(types(format_version), format_version=format_version))
    ids = itertools.count(1)
    numbered = number_fields(struct, lambda _name: next(ids))
    assert isinstance(numbered, Struct)
    return Schema(numbered.fields, draw(st.integers(0, 9)), unknown=draw(UNKNOWN_KEYS))
