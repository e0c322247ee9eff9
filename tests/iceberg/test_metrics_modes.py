from __future__ import annotations

import pytest

from lakeplane.errors import InvalidInput
from lakeplane.iceberg.metrics_modes import (
    COUNTS,
    FULL,
    NONE,
    MetricsMode,
    Truncated,
    column_modes,
    first_columns,
    parse_mode,
)
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Bucket, Identity, Transform
from lakeplane.model.types import BOOLEAN, INT, STRING, VARIANT, Field, List, Map, Struct, Type

IDENTITY = Identity()
PREFIX = "write.metadata.metrics."
DEFAULT, LIMIT = f"{PREFIX}default", f"{PREFIX}max-inferred-column-defaults"


def columns(*types: Type) -> Schema:
    return Schema(tuple(Field(number, f"col{number}", type_) for number, type_ in enumerate(types, 1)))


def sorted_by(*source_ids: int, transform: Transform = IDENTITY) -> SortOrder:
    return SortOrder(1, tuple(SortField((each,), transform, "asc", "nulls-first") for each in source_ids))


# From Java: TestMetricsModes.testMetricsModeParsing
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", NONE),
        ("nOnE", NONE),
        ("counts", COUNTS),
        ("coUntS", COUNTS),
        ("truncate(1)", Truncated(1)),
        ("truNcAte(10)", Truncated(10)),
        ("full", FULL),
        ("FULL", FULL),
        (" full ", FULL),
        ("truncate(2147483647)", Truncated(2**31 - 1)),
    ],
)
def test_modes_are_read_in_any_case(text: str, mode: MetricsMode) -> None:
    assert parse_mode(text) == mode
    assert parse_mode(str(mode)) == mode


@pytest.mark.parametrize(
    "text", ["", "truncate(0)", "truncate(-1)", "truncate()", "truncate(2147483648)", "troncate(5)", "half"]
)
def test_what_is_no_mode_is_refused_with_the_name_of_the_property(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"write.metadata.metrics.default.*no metrics mode.*truncate\(16\)"
    ):
        column_modes({DEFAULT: text}, columns(INT))
    with pytest.raises(InvalidInput, match=r"metrics\.column\.gone'"):
        column_modes({f"{PREFIX}column.gone": text}, columns(INT))


# From Java: TestMetricsConfig.testNestedStruct, testNestedMap, testNestedListOfMaps
STRUCTS = Schema(
    (
        Field(
            11,
            "level1_struct_a",
            Struct(
                (
                    Field(21, "level2_primitive_i", INT),
                    Field(22, "level2_struct_a", Struct((Field(31, "level3_primitive_s", STRING),))),
                    Field(23, "level2_primitive_b", BOOLEAN),
                )
            ),
        ),
        Field(
            12,
            "level1_struct_b",
            Struct(
                (
                    Field(24, "level2_primitive_i", INT),
                    Field(25, "level2_struct_b", Struct((Field(32, "level3_primitive_s", STRING),))),
                )
            ),
        ),
        Field(13, "level1_primitive_i", INT),
    )
)
MAPS = Schema((Field(1, "map", Map(2, INT, 3, INT)), Field(4, "top", INT)))
LIST_OF_MAPS = Schema((Field(1, "array_of_maps", List(2, Map(3, INT, 4, INT))), Field(5, "top", INT)))


@pytest.mark.parametrize(
    ("schema", "order"),
    [(STRUCTS, [13, 21, 23, 31, 24, 32]), (MAPS, [4, 2, 3]), (LIST_OF_MAPS, [5, 3, 4])],
)
def test_columns_at_the_top_of_each_struct_come_first(schema: Schema, order: list[int]) -> None:
    for limit in range(len(order) + 2):
        assert first_columns(schema, limit) == order[:limit]


def test_a_narrow_table_has_bounds_of_all_columns() -> None:
    assert column_modes({}, STRUCTS) == dict.fromkeys([21, 31, 23, 24, 32, 13], Truncated(16))


def test_a_wide_table_has_metrics_of_its_first_hundred_columns() -> None:
    hundred = column_modes({}, columns(*[INT] * 100))
    assert set(hundred.values()) == {Truncated(16)}
    more = column_modes({}, columns(*[INT] * 101))
    assert [number for number, mode in more.items() if mode is NONE] == [101]
    assert set(more.values()) == {Truncated(16), NONE}


# From Java: TestMetricsModes.testMetricsConfigInferredDefaultModeLimit, testMetricsVariantSupported
def test_the_limit_is_that_of_the_table() -> None:
    assert column_modes({LIMIT: "2"}, columns(INT, INT, INT)) == {1: Truncated(16), 2: Truncated(16), 3: NONE}
    assert column_modes({LIMIT: "1"}, columns(VARIANT, INT)) == {1: Truncated(16), 2: NONE}
    assert column_modes({LIMIT: "0"}, columns(INT)) == {1: NONE}


@pytest.mark.parametrize("text", ["-1", "many"])
def test_a_limit_that_is_none_counts_as_not_given(text: str) -> None:
    assert column_modes({LIMIT: text}, columns(INT, INT)) == {1: Truncated(16), 2: Truncated(16)}


def test_keys_of_maps_to_nested_values_do_not_count_for_the_limit_as_in_java() -> None:
    schema = Schema((Field(1, "m", Map(2, INT, 3, Struct((Field(4, "x", INT),)))),))
    assert column_modes({LIMIT: "1"}, schema) == {2: Truncated(16), 4: Truncated(16)}


def test_a_default_that_is_given_is_for_all_columns() -> None:
    modes = column_modes({DEFAULT: "counts", LIMIT: "1"}, columns(INT, INT, INT))
    assert modes == {1: COUNTS, 2: COUNTS, 3: COUNTS}


def test_a_column_with_a_mode_of_its_own_counts_beyond_the_limit() -> None:
    modes = column_modes({LIMIT: "1", f"{PREFIX}column.col3": "full"}, columns(INT, INT, INT))
    assert modes == {1: Truncated(16), 2: NONE, 3: FULL}
    nested = column_modes({DEFAULT: "none", f"{PREFIX}column.map.value": "counts"}, MAPS)
    assert nested == {2: NONE, 3: COUNTS, 4: NONE}


# From Java: TestMetricsModes.testMetricsConfigSortedColsDefault
def test_columns_that_files_are_sorted_by_have_bounds() -> None:
    properties = {DEFAULT: "counts", f"{PREFIX}column.col1": "counts", f"{PREFIX}column.col2": "none"}
    modes = column_modes(properties, columns(INT, INT, INT, INT), sorted_by(2, 3))
    assert modes == {1: COUNTS, 2: NONE, 3: Truncated(16), 4: COUNTS}
    assert column_modes({LIMIT: "1"}, columns(INT, INT), sorted_by(2))[2] == Truncated(16)
    assert column_modes({DEFAULT: "truncate(4)"}, columns(INT), sorted_by(1)) == {1: Truncated(4)}
    assert column_modes({DEFAULT: "full"}, columns(INT), sorted_by(1)) == {1: FULL}


def test_a_bucket_keeps_no_order_so_its_column_is_not_sorted() -> None:
    assert column_modes({DEFAULT: "none"}, columns(INT), sorted_by(1, transform=Bucket(4))) == {1: NONE}
