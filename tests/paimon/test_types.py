from __future__ import annotations

from typing import Any

import pytest

from lakeplane.errors import InvalidMetadata, LimitExceeded, NotSupported
from lakeplane.model import types as model
from lakeplane.model.frozen import FrozenDict
from lakeplane.paimon.types import (
    Array,
    DataType,
    Simple,
    Sized,
    Timestamp,
    Vector,
    check_readable,
    model_fields,
    parse_fields,
    parse_type,
    type_json,
)
from tests.paimon.stored import everyone


@pytest.mark.parametrize(
    ("text", "shown", "kind"),
    [
        ("INT", "INT", model.INT),
        ("integer not null", "INT NOT NULL", model.INT),
        ("TINYINT", "TINYINT", model.INT),
        ("SMALLINT", "SMALLINT", model.INT),
        ("BIGINT", "BIGINT", model.LONG),
        ("DOUBLE PRECISION", "DOUBLE", model.DOUBLE),
        ("CHAR", "CHAR(1)", model.STRING),
        ("VARCHAR(20)", "VARCHAR(20)", model.STRING),
        ("BINARY(4) NOT NULL", "BINARY(4) NOT NULL", model.BINARY),
        ("VARBINARY( 9 )", "VARBINARY(9)", model.BINARY),
        ("NUMERIC", "DECIMAL(10, 0)", model.Decimal(10, 0)),
        ("DECIMAL(9,2)", "DECIMAL(9, 2)", model.Decimal(9, 2)),
        ("TIME", "TIME(0)", model.TIME),
        ("TIMESTAMP", "TIMESTAMP(6)", model.TIMESTAMP),
        ("TIMESTAMP(9)", "TIMESTAMP(9)", model.TIMESTAMP_NS),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", model.TIMESTAMPTZ),
        (
            "TIMESTAMP(7) WITH LOCAL TIME ZONE NOT NULL",
            "TIMESTAMP(7) WITH LOCAL TIME ZONE NOT NULL",
            model.TIMESTAMPTZ_NS,
        ),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)", model.TIMESTAMP),
        ("VARIANT", "VARIANT", model.VARIANT),
        ("GEOMETRY('srid:4326')", "GEOMETRY('srid:4326')", model.Geometry("srid:4326")),
    ],
)
def test_types_are_kept_as_they_are_declared_and_known_as_what_all_tables_have(
    text: str, shown: str, kind: model.Type
) -> None:
    found = parse_type(text, "c")
    assert str(found) == shown
    assert parse_type(type_json(found), "c") == found
    assert model_fields(parse_fields([{"id": 3, "name": "c", "type": text}], ""))[0].type == kind


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "INTEGER(3)",
        "DECIMAL(40, 0)",
        "CHAR(0)",
        "TIME(10)",
        "INT WITH LOCAL TIME ZONE",
        "UUID",
        7,
        {},
        {"type": "LIST"},
    ],
)
def test_what_is_no_type_is_refused_by_the_name_of_its_field(raw: Any) -> None:
    with pytest.raises(InvalidMetadata, match="price"):
        parse_type(raw, "price")


def test_nested_types_keep_what_they_hold_and_get_ids_as_java_gives_them() -> None:
    raw = [
        {
            "id": 2,
            "name": "m",
            "type": {
                "type": "MAP NOT NULL",
                "key": "STRING NOT NULL",
                "value": {
                    "type": "ARRAY",
                    "element": {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT"}]},
                },
                "later": 1,
            },
        },
        {"id": 7, "name": "s", "type": {"type": "MULTISET", "element": "STRING NOT NULL"}, "hidden": True},
    ]
    fields = parse_fields(raw, "fields")
    assert [type_json(each.type) for each in fields] == [each["type"] for each in raw]
    assert fields[1].unknown == FrozenDict({"hidden": True})
    found, multiset = model_fields(fields)
    assert isinstance(found.type, model.Map)
    assert (found.type.key_id, found.type.value_id) == (536870911 - 2049, 536870911 + 2049)
    assert isinstance(found.type.value, model.List)
    assert found.type.value.element_id == 536870911 + 2050
    assert isinstance(multiset.type, model.Map)
    assert multiset.type.value is model.INT
    assert multiset.type.value_required


def test_types_of_other_writers_are_written_back() -> None:
    for table in everyone():
        for field in table.schema.fields:
            assert parse_type(type_json(field.type), "") == field.type


def test_nesting_is_limited() -> None:
    raw: Any = "INT"
    for _ in range(200):
        raw = {"type": "ARRAY", "element": raw}
    with pytest.raises(LimitExceeded):
        parse_type(raw, "deep")


def test_types_that_cannot_be_read_are_refused_by_name() -> None:
    for kind in (
        Simple.BLOB,
        Vector(DataType(Simple.FLOAT), 3),
        Array(DataType(Vector(DataType(Simple.INT), 2))),
    ):
        [field] = parse_fields([{"id": 0, "name": "picture", "type": "INT"}], "")
        field = type(field)(0, "picture", DataType(kind))
        with pytest.raises(NotSupported, match="picture"):
            check_readable((field,))
    check_readable(parse_fields([{"id": 0, "name": "a", "type": "INT"}], ""))


def test_parameters_are_limited() -> None:
    assert Sized("CHAR", 1).length == 1
    assert Timestamp(9).precision == 9
    assert model.Decimal(38, 0).precision == 38
