"""The aggregations of columns that Paimon has, as Spark's: null is passed over, rows may be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import NotSupported
from lakeplane.model.types import Decimal, Field, List, Map, Primitive, Type
from lakeplane.paimon.options import FieldOptions
from lakeplane.spark.types import shown_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_NUMBERS: Final = (Primitive.INT, Primitive.LONG, Primitive.FLOAT, Primitive.DOUBLE)
_FLOATS: Final = (Primitive.FLOAT, Primitive.DOUBLE)
_RETRACTING: Final = frozenset({"sum", "last_value", "last_non_null_value", "primary-key"})
_COMMUTING: Final = frozenset({"sum", "max", "min", "bool_and", "bool_or"})
_KNOWN: Final = (
    _RETRACTING
    | _COMMUTING
    | {
        *("product", "first_value", "first_non_null_value", "first_not_null_value"),
        *("listagg", "collect", "merge_map"),
    }
)


class Rule(NamedTuple):
    """How the values of a column become one."""

    function: str
    type: Type
    delimiter: str = ","
    distinct: bool = False
    ignores_retracts: bool = False

    @property
    def retracts(self) -> bool:
        """Whether a value can be taken back."""
        return self.function in _RETRACTING


def commutes(function: str) -> bool:
    """Whether the order of values does not matter."""
    return function in _COMMUTING


def rule_of(function: str, field: Field, options: FieldOptions) -> Rule:
    """How a column is aggregated; what cannot be computed is refused by the name of its option."""
    key = f"options.fields.{field.name}.aggregate-function"
    hint = "Read the table with Paimon's own readers"
    if function not in _KNOWN or not _fits(function, field.type):
        raise NotSupported(f"{function} of {field.type}", field=key, hint=hint)
    if function == "listagg" and options.distinct:
        raise NotSupported(
            "listagg of distinct parts", field=f"options.fields.{field.name}.distinct", hint=hint
        )
    delimiter = "," if options.list_agg_delimiter is None else options.list_agg_delimiter
    return Rule(function, field.type, delimiter, options.distinct, options.ignore_retract)


def _fits(function: str, type_: Type) -> bool:
    match function:
        case "sum":
            return type_ in _NUMBERS or isinstance(type_, Decimal)
        case "product":
            return type_ in _NUMBERS
        case "bool_and" | "bool_or":
            return type_ is Primitive.BOOLEAN
        case "listagg":
            return type_ is Primitive.STRING
        case "collect":
            return isinstance(type_, List)
        case "merge_map":
            return isinstance(type_, Map)
        case "max" | "min":
            return not isinstance(type_, List | Map)
        case _:
            return True


def fold(rule: Rule, value: Column, adds: Column, order: Column) -> Column:
    """Aggregate the values of a key in an order; rows without a place in it are passed over.

    ``adds`` tells rows that add a value from those that take one back.
    """
    counts = adds if rule.ignores_retracts else F.lit(True)  # noqa: FBT003
    place = F.when(counts, order)
    there = F.when(counts & value.isNotNull(), order)
    match rule.function:
        case "last_value" | "primary-key":
            return F.max_by(F.when(adds, value), place)
        case "last_non_null_value":
            return F.max_by(F.when(adds, value), there)
        case "first_value":
            return F.min_by(value, place)
        case "first_non_null_value" | "first_not_null_value":
            return F.min_by(value, there)
        case "sum" if rule.type not in _FLOATS:
            signed = F.when(there.isNotNull(), F.when(adds, value).otherwise(-value))
            return F.sum(signed).cast(shown_type(rule.type))
        case "max":
            return F.max(F.when(there.isNotNull(), value))
        case "min":
            return F.min(F.when(there.isNotNull(), value))
        case "bool_and":
            return F.bool_and(F.when(there.isNotNull(), value))
        case "bool_or":
            return F.bool_or(F.when(there.isNotNull(), value))
        case _:
            return _one_by_one(rule, value, adds, there)


def _one_by_one(rule: Rule, value: Column, adds: Column, there: Column) -> Column:
    """Aggregations whose result depends on the order: the values are brought into it first."""
    if rule.function == "sum":
        value = F.when(adds, value).otherwise(-value)
    entry = F.when(there.isNotNull(), F.struct(there.alias("o"), value.alias("v")))
    if rule.function == "merge_map":
        # Maps have no order, so that they cannot be sorted as parts of structs.
        entry = F.when(there.isNotNull(), F.struct(there.alias("o"), F.map_entries(value).alias("v")))
    sorted_ = F.array_sort(F.collect_list(entry), lambda one, other: one["o"] - other["o"])
    values = F.transform(sorted_, lambda each: each["v"])
    # Spark 4.1 gives nothing for a length with which the end would be beyond the range of an int.
    first, rest = F.get(values, F.lit(0)), F.slice(values, 2, F.size(values))
    found = F.when(F.count(F.lit(1)) == 1, first).otherwise(_in_order(rule, values, first, rest))
    return F.map_from_entries(found) if rule.function == "merge_map" else found


def _in_order(rule: Rule, values: Column, first: Column, rest: Column) -> Column:
    type_ = shown_type(rule.type)
    match rule.function:
        case "sum":
            return F.aggregate(rest, first, lambda one, other: (one + other).cast(type_))
        case "product":
            return F.aggregate(rest, first, lambda one, other: (one * other).cast(type_))
        case "listagg":
            # As Paimon has it, what is blank adds nothing.
            parts = F.filter(values, lambda each: each.rlike(r"\S"))
            return F.when(F.size(parts) > 0, F.array_join(parts, rule.delimiter))
        case "collect":
            flat = F.flatten(values)
            found = F.array_distinct(flat) if rule.distinct else flat
            return F.when(F.size(values) > 0, found)
        case _:
            return F.aggregate(rest, first, _put)


def _put(entries: Column, others: Column) -> Column:
    """The entries of a map, and those of another one, which count where both have a key."""

    def is_old(entry: Column) -> Column:
        return ~F.exists(others, lambda other: other["key"].eqNullSafe(entry["key"]))

    return F.concat(F.filter(entries, is_old), others)
