"""Sort orders: how the rows of a file are, or should be, sorted."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw
from lakeplane.model.partitioning import check_source, is_int, read_rule, write_rule
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Transform, UnknownTransform

Direction: TypeAlias = Literal["asc", "desc"]
NullOrder: TypeAlias = Literal["nulls-first", "nulls-last"]

T = TypeVar("T")

_DIRECTIONS: Final[dict[str, Direction]] = {"asc": "asc", "desc": "desc"}
_NULL_ORDERS: Final[dict[str, NullOrder]] = {"nulls-first": "nulls-first", "nulls-last": "nulls-last"}
_FIELD_KEYS: Final = frozenset({"source-id", "source-ids", "transform", "direction", "null-order"})


class SortField(msgspec.Struct, frozen=True):
    """One key of a sort order."""

    source_ids: tuple[int, ...]
    transform: Transform
    direction: Direction
    null_order: NullOrder
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def source_id(self) -> int:
        """The only source column; transforms of several columns are not known to this release."""
        return self.source_ids[0]

    def __str__(self) -> str:
        sources = ", ".join(map(str, self.source_ids))
        return f"{self.transform}({sources}) {self.direction} {self.null_order}"


class SortOrder(msgspec.Struct, frozen=True):
    """The sort keys of a table at one point of its history; order 0 is "unsorted"."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()
    unknown: FrozenDict[str, Any] = EMPTY

    @property
    def is_unsorted(self) -> bool:
        """Whether there is nothing to sort by."""
        return not self.fields

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"


UNSORTED: Final = SortOrder()


def check_order(order: SortOrder, schema: Schema) -> None:
    """Refuse a new sort order that no table with the schema may use."""
    if order.fields and order.order_id == 0:
        raise InvalidInput("order id 0 means unsorted, it has no fields", field="sort order 0")
    if not order.fields and order.order_id != 0:
        raise InvalidInput("an order without fields must have the id 0", field=f"sort order {order.order_id}")
    for position, field in enumerate(order.fields):
        place = f"sort order {order.order_id}: fields[{position}]"
        if isinstance(field.transform, UnknownTransform) or len(field.source_ids) != 1:
            raise InvalidInput(f"unknown transform {field.transform}", field=place)
        check_source(schema, field.source_id, field.transform, place)


def read_order(raw: object, where: str) -> SortOrder:
    """Read a sort order object."""
    if not isinstance(raw, dict) or not is_int(raw.get("order-id")):
        raise InvalidMetadata("expected an object with an integer order-id", field=where)
    fields = raw.get("fields")
    if not isinstance(fields, list | tuple):
        raise InvalidMetadata("expected a list of sort fields", field=f"{where}.fields")
    rest = {key: raw[key] for key in raw if key not in ("order-id", "fields")}
    keys = tuple(_read_field(each, f"{where}.fields[{position}]") for position, each in enumerate(fields))
    return SortOrder(raw["order-id"], keys, freeze(rest) if rest else EMPTY)


def _read_field(raw: object, where: str) -> SortField:
    if not isinstance(raw, dict):
        raise InvalidMetadata("expected an object", field=where)
    direction = _one_of(_DIRECTIONS, raw, "direction", where)
    null_order = _one_of(_NULL_ORDERS, raw, "null-order", where)
    sources, transform = read_rule(raw, where)
    rest = {key: raw[key] for key in raw if key not in _FIELD_KEYS}
    return SortField(sources, transform, direction, null_order, freeze(rest) if rest else EMPTY)


def _one_of(choices: dict[str, T], raw: dict[str, Any], key: str, where: str) -> T:
    value = raw.get(key)
    found = choices.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise InvalidMetadata(f"must be {' or '.join(choices)}, not {value!r:.80}", field=f"{where}.{key}")
    return found


def write_order(order: SortOrder) -> dict[str, Any]:
    """Write a sort order object."""
    fields = [
        {
            **write_rule(field.source_ids, field.transform),
            "direction": field.direction,
            "null-order": field.null_order,
            **thaw(field.unknown),
        }
        for field in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields, **thaw(order.unknown)}
