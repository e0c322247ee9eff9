"""Schema evolution: the cases of the reference implementation as data, the tables of the spec, and laws."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeplane.errors import InvalidChange
from lakeplane.model.evolution import (
    AddColumn,
    After,
    Before,
    DropColumn,
    EvolutionRules,
    First,
    MoveColumn,
    Position,
    RenameColumn,
    SchemaChange,
    SetIdentifierFields,
    UpdateColumn,
    assign_fresh_ids,
    evolve,
)
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.promotion import can_promote
from lakeplane.model.schema import Schema, check_compatible
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import parse_transform
from lakeplane.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_FIELD_ID,
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
    children,
    is_nested,
)
from tests.model.schema_strategies import NAMES, default_of, schemas, types


def req(number: int, name: str, type_: Type) -> Field:
    return Field(number, name, type_, required=True)


def opt(number: int, name: str, type_: Type) -> Field:
    return Field(number, name, type_)


ADDRESS = Struct(
    (req(20, "address", STRING), req(21, "city", STRING), req(22, "state", STRING), req(23, "zip", INT))
)
SCHEMA = Schema(
    (
        req(1, "id", INT),
        opt(2, "data", STRING),
        Field(
            3,
            "preferences",
            Struct((req(8, "feature1", BOOLEAN), opt(9, "feature2", BOOLEAN))),
            doc="options",
        ),
        req(
            4,
            "locations",
            Map(
                10, ADDRESS, 11, Struct((req(12, "lat", FLOAT), req(13, "long", FLOAT))), value_required=True
            ),
        ),
        opt(5, "points", List(14, Struct((req(15, "x", LONG), req(16, "y", LONG))))),
        req(6, "doubles", List(17, DOUBLE, element_required=True)),
        opt(7, "properties", Map(18, STRING, 19, STRING)),
    )
)
LAST = 23


def rules(version: int = 3, last: int = LAST, **more: Any) -> EvolutionRules:
    return EvolutionRules(format_version=version, last_column_id=last, **more)


def changed(*changes: SchemaChange, schema: Schema = SCHEMA, **more: Any) -> Schema:
    more.setdefault(
        "last", max(LAST, schema.highest_field_id) if schema is SCHEMA else schema.highest_field_id
    )
    return evolve(schema, changes, rules(**more))[0]


def lines(schema: Schema) -> list[str]:
    """One line for each field at each depth, in order: everything that a change can change."""
    found = []
    for field in schema.all_fields:
        kind = type(field.type).__name__.lower() if is_nested(field.type) else str(field.type)
        needed = "required" if field.required else "optional"
        found.append(f"{field.id} {schema.name_of(field.id)}: {needed} {kind}")
    return found


BASE = lines(SCHEMA)


def replaced(**edits: str | None) -> list[str]:
    """The lines of ``SCHEMA`` with the line of an id (``_12``) changed, or removed by None."""
    by_id = {f"_{line.split()[0]}": line for line in BASE} | edits
    return [line for line in by_id.values() if line is not None]


def refused(problem: str, *changes: SchemaChange, schema: Schema = SCHEMA, **more: Any) -> InvalidChange:
    with pytest.raises(InvalidChange, match=problem) as caught:
        changed(*changes, schema=schema, **more)
    return caught.value


def test_the_lines_tell_what_is_there() -> None:
    assert len(BASE) == LAST
    assert BASE[:4] == [
        "1 id: required int",
        "2 data: optional string",
        "3 preferences: optional struct",
        "8 preferences.feature1: required boolean",
    ]
    assert replaced() == BASE


# No-ops


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (RenameColumn("data", "data"),),
        (UpdateColumn("id", type=INT, required=True),),
        (UpdateColumn("data", doc=None, write_default=None),),
        (UpdateColumn("properties.key", type=STRING),),
        (MoveColumn("id", First()),),
        (MoveColumn("data", After("id")),),
        (MoveColumn("id", Before("data")),),
        (RenameColumn("data", "d"), RenameColumn("d", "data")),
        (SetIdentifierFields(("id",)), SetIdentifierFields(())),
    ],
)
def test_changes_that_change_nothing_give_the_schema_itself(changes: tuple[SchemaChange, ...]) -> None:
    assert evolve(SCHEMA, changes, rules()) == (SCHEMA, LAST)
    assert evolve(SCHEMA, changes, rules())[0] is SCHEMA


def test_the_schema_keeps_its_id_and_what_is_not_known_of_it() -> None:
    schema = Schema(SCHEMA.fields, 7, (1,), FrozenDict({"x": 1}))
    new = changed(DropColumn("data"), schema=schema)
    assert (new.schema_id, new.identifier_field_ids, new.unknown) == (7, (1,), {"x": 1})


# Dropping


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("id", [1]),
        ("data", [2]),
        ("preferences", [3, 8, 9]),
        ("preferences.feature1", [8]),
        ("preferences.feature2", [9]),
        ("locations", [4, 10, 20, 21, 22, 23, 11, 12, 13]),
        ("locations.lat", [12]),
        ("locations.value.long", [13]),
        ("points", [5, 14, 15, 16]),
        ("points.x", [15]),
        (("points", "element", "y"), [16]),
        (("points", "y"), [16]),
        ("doubles", [6, 17]),
        ("properties", [7, 18, 19]),
    ],
)
def test_dropping_takes_a_field_and_what_is_inside(path: Any, gone: list[int]) -> None:
    new, last = evolve(SCHEMA, [DropColumn(path)], rules())
    assert lines(new) == [line for line in BASE if int(line.split()[0]) not in gone]
    assert last == LAST


def test_what_cannot_be_dropped() -> None:
    assert "data" in (refused("no column 'dat'", DropColumn("dat")).hint or "")
    refused("no column 'x.y'", DropColumn(("x", "y")))
    refused("no column ''", DropColumn(()))
    refused("keys of a map cannot be changed", DropColumn("locations.key"))
    refused("keys of a map cannot be changed", DropColumn("locations.key.zip"))
    refused("part of its type", DropColumn("locations.value"))
    refused("part of its type", DropColumn("points.element"))
    refused("no column 'id'", DropColumn("id"), DropColumn("id"))


def test_a_name_in_another_case_is_found_only_when_told() -> None:
    refused("no column 'Points.X'", DropColumn("Points.X"))
    for path in ("Points.X", ("POINTS", "x"), "points.Element.x"):
        assert changed(DropColumn(path), case_sensitive=False) == changed(DropColumn("points.x"))


# Adding


def test_adding_at_every_depth() -> None:
    new, last = evolve(
        SCHEMA,
        [
            AddColumn("toplevel", Decimal(9, 2)),
            AddColumn("locations.alt", FLOAT),
            AddColumn("points.z", LONG),
            AddColumn(("points", "t.t"), LONG, doc="with a dot"),
        ],
        rules(1),
    )
    expected = replaced(
        _13="13 locations.value.long: required float\n25 locations.value.alt: optional float",
        _16="16 points.element.y: required long\n26 points.element.z: optional long\n"
        "27 points.element.t.t: optional long",
        _19="19 properties.value: optional string\n24 toplevel: optional decimal(9,2)",
    )
    assert lines(new) == "\n".join(expected).split("\n")
    assert new.field(27).doc == "with a dot"
    assert last == 27


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (
            Struct((req(1, "lat", INT), opt(2, "long", INT))),
            ["2 new: optional struct", "3 new.lat: required int", "4 new.long: optional int"],
        ),
        (
            Map(1, ADDRESS, 2, Struct((req(9, "lat", INT), opt(8, "long", INT)))),
            [
                *("2 new: optional map", "3 new.key: required struct", "5 new.key.address: required string"),
                *("6 new.key.city: required string", "7 new.key.state: required string"),
                *("8 new.key.zip: required int", "4 new.value: optional struct"),
                *("9 new.value.lat: required int", "10 new.value.long: optional int"),
            ],
        ),
        (
            List(1, Struct((req(9, "lat", INT), opt(8, "long", INT)))),
            [
                *("2 new: optional list", "3 new.element: optional struct"),
                *("4 new.element.lat: required int", "5 new.element.long: optional int"),
            ],
        ),
        (
            Struct((opt(0, "a", Struct((opt(0, "b", INT),))), opt(0, "c", List(0, INT)))),
            [
                *("2 new: optional struct", "3 new.a: optional struct", "5 new.a.b: optional int"),
                *("4 new.c: optional list", "6 new.c.element: optional int"),
            ],
        ),
    ],
)
def test_ids_inside_a_new_type_are_given_in_the_order_of_the_reference(
    type_: Type, expected: list[str]
) -> None:
    schema = Schema((req(1, "id", INT),))
    new, last = evolve(schema, [AddColumn("new", type_)], rules(last=1))
    assert lines(new)[1:] == expected
    assert last == max(int(line.split()[0]) for line in expected)


def test_ids_go_on_after_the_last_one_even_when_it_is_too_low() -> None:
    assert evolve(SCHEMA, [AddColumn("a", INT)], rules(last=50))[1] == 51
    assert evolve(SCHEMA, [AddColumn("a", INT)], rules(last=0))[1] == LAST + 1
    refused("reserved", AddColumn("a", INT), last=MAX_FIELD_ID)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (AddColumn("preferences", BOOLEAN), "there is a column 'preferences' already"),
        (AddColumn("preferences.feature1", BOOLEAN), "there is a column 'feature1' already"),
        (AddColumn("points.x", BOOLEAN), "there is a column 'x' already"),
        (AddColumn(("points", "element", "x"), BOOLEAN), "there is a column 'x' already"),
        (AddColumn("", INT), "needs a name"),
        (AddColumn((), INT), "needs a name"),
        (AddColumn("preferences.", INT), "needs a name"),
        (AddColumn("nowhere.x", INT), "no column 'nowhere'"),
        (AddColumn("id.x", INT), "id is no struct but int"),
        (AddColumn("doubles.x", INT), "doubles.element is no struct but double"),
        (AddColumn("doubles.element.x", INT), "no struct but double"),
        (AddColumn("properties.x", INT), "properties.value is no struct but string"),
        (AddColumn("locations.key.line2", STRING), "keys of a map cannot be changed"),
        (AddColumn(("preferences.feature1",), INT), "full name 'preferences.feature1'"),
        (AddColumn("s", Struct((opt(1, "a", INT), opt(2, "a", INT)))), "two columns are called 'a'"),
        (AddColumn("u", UNKNOWN, required=True, default=None), "needs a default"),
        (AddColumn("m", Map(1, UNKNOWN, 2, INT)), "unknown cannot be required"),
    ],
)
def test_what_cannot_be_added(change: AddColumn, problem: str) -> None:
    refused(problem, change)


def test_a_new_name_with_a_dot_is_a_tuple() -> None:
    error = refused("no column 'a'", AddColumn("a.b", INT))
    assert "tuple" in (error.hint or "")
    assert error.field == "a.b"
    assert changed(AddColumn(("a.b",), INT)).find("a.b").id == 24


@pytest.mark.parametrize("type_", [TIMESTAMP_NS, TIMESTAMPTZ_NS, UNKNOWN, VARIANT, Geometry(), Geography()])
def test_new_types_need_their_format_version(type_: Type) -> None:
    for within in (type_, List(1, type_), Struct((opt(1, "a", type_),)), Map(1, STRING, 2, type_)):
        refused("needs format version 3, the table has 2", AddColumn("a", within), version=2)
        assert changed(AddColumn("a", within)).find("a").id == 24


def test_a_required_column_needs_a_default() -> None:
    error = refused("needs a default", AddColumn("a", STRING, required=True))
    assert "allow_incompatible=True" in (error.hint or "")
    new = changed(AddColumn("a", STRING, required=True), allow_incompatible=True)
    assert new.find("a") == Field(24, "a", STRING, required=True)
    new = changed(AddColumn("a", STRING, required=True, default="n/a"))
    assert new.find("a") == Field(24, "a", STRING, True, None, "n/a", "n/a")  # noqa: FBT003
    refused("format version 3", AddColumn("a", STRING, required=True, default="n/a"), version=2)
    refused("format version 3", AddColumn("a", STRING, default="n/a"), version=2)
    refused("unknown cannot be required", AddColumn("a", UNKNOWN, required=True), allow_incompatible=True)


@pytest.mark.parametrize(
    ("type_", "given_value", "kept"),
    [
        (LONG, 5, 5),
        (DOUBLE, 1, 1.0),
        (DATE, datetime.date(1970, 1, 11), 10),
        (Decimal(5, 2), decimal.Decimal("1.5"), decimal.Decimal("1.50")),
        (Struct((opt(1, "x", INT),)), {}, FrozenDict()),
        (List(1, INT), [1, 2], (1, 2)),
        (BINARY, b"", b""),
        (BOOLEAN, False, False),
    ],
)
def test_a_default_is_given_naturally_and_kept_canonically(type_: Type, given_value: Any, kept: Any) -> None:
    field = changed(AddColumn("a", type_, default=given_value)).find("a")
    assert (field.initial_default, field.write_default) == (kept, kept)


@pytest.mark.parametrize(
    ("type_", "value", "problem"),
    [
        (INT, "1", "the default does not fit int"),
        (INT, 2**31, "the default does not fit int"),
        (INT, True, "the default does not fit int"),
        (Fixed(2), b"abc", "the default does not fit"),
        (UNKNOWN, 1, "can only default to null"),
        (VARIANT, 1, "can only default to null"),
        (Geometry(), "POINT (1 1)", "can only default to null"),
        (Geography(), "POINT (1 1)", "can only default to null"),
        (Struct((opt(1, "x", INT),)), {"x": 1}, "holds no field values"),
        (Struct((opt(1, "x", INT),)), 1, "holds no field values"),
    ],
)
def test_defaults_that_do_not_fit(type_: Type, value: Any, problem: str) -> None:
    assert refused(problem, AddColumn("a", type_, default=value)).field == "a"
    if not is_nested(type_):
        refused(problem, AddColumn("a", type_), UpdateColumn("a", write_default=value))


def test_an_empty_default_of_a_struct_needs_defaults_inside() -> None:
    bare, full = Struct((req(1, "x", INT),)), Struct((Field(1, "x", INT, True, None, 0, 0),))  # noqa: FBT003
    assert refused("needs a default", AddColumn("p", bare, default={})).field == "p.x"
    assert changed(AddColumn("p", full, required=True, default={})).find("p.x").initial_default == 0
    assert changed(AddColumn("p", bare)).find("p.x").required
    outer = Struct((req(1, "inner", bare),))
    assert refused("needs a default", AddColumn("p", outer, default={})).field == "p.inner"


def test_adding_at_a_position() -> None:
    def names(change: AddColumn) -> list[str]:
        return [field.name for field in changed(change, schema=small).fields]

    small = Schema((req(1, "id", LONG), req(2, "data", STRING)))
    assert names(AddColumn("n", INT)) == ["id", "data", "n"]
    assert names(AddColumn("n", INT, position=First())) == ["n", "id", "data"]
    assert names(AddColumn("n", INT, position=After("id"))) == ["id", "n", "data"]
    assert names(AddColumn("n", INT, position=Before("data"))) == ["id", "n", "data"]
    refused("no column 'x'", AddColumn("n", INT, position=After("x")), schema=small)
    refused("beside itself", AddColumn("n", INT, position=After("n")), schema=small)
    inside = changed(AddColumn("points.z", INT, position=Before("y")))
    assert [child.name for child in children(inside.field(14).type)] == ["x", "z", "y"]


def test_names_that_differ_in_case_only() -> None:
    assert changed(AddColumn("ID", INT)).find("ID").id == 24
    refused("there is a column 'id' already", AddColumn("ID", INT), case_sensitive=False)
    refused("'new' already", AddColumn("new", INT), AddColumn("NEW", INT), case_sensitive=False)
    refused("there is a column 'id' already", RenameColumn("data", "ID"), case_sensitive=False)
    assert changed(RenameColumn("data", "ID")).find("ID").id == 2
    assert changed(RenameColumn("DATA", "Data"), case_sensitive=False).find("Data").id == 2
    refused("no column 'NO'", UpdateColumn("NO", doc="a"), case_sensitive=False)


# Renaming


def test_renaming_at_every_depth() -> None:
    new = changed(
        RenameColumn("data", "json"),
        RenameColumn("preferences", "options"),
        RenameColumn("options.feature2", "newfeature"),
        RenameColumn("locations.lat", "latitude"),
        RenameColumn("points.x", "X"),
        RenameColumn("points.y", "y.y"),
    )
    assert lines(new) == replaced(
        _2="2 json: optional string",
        _3="3 options: optional struct",
        _8="8 options.feature1: required boolean",
        _9="9 options.newfeature: optional boolean",
        _12="12 locations.value.latitude: required float",
        _15="15 points.element.X: required long",
        _16="16 points.element.y.y: required long",
    )
    assert new.field(3).doc == "options"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (RenameColumn("col", "fail"), "no column 'col'"),
        (RenameColumn("id", "data"), "there is a column 'data' already"),
        (RenameColumn("points.x", "y"), "there is a column 'y' already"),
        (RenameColumn("id", ""), "needs a name"),
        (RenameColumn("points.element", "item"), "part of its type"),
        (RenameColumn("properties.value", "v"), "part of its type"),
        (RenameColumn("properties.key", "k"), "keys of a map cannot be changed"),
        (RenameColumn("locations.key.zip", "z"), "keys of a map cannot be changed"),
        (RenameColumn("data", "preferences.feature1"), "full name"),
    ],
)
def test_what_cannot_be_renamed(change: RenameColumn, problem: str) -> None:
    refused(problem, change)


def test_two_columns_swap_their_names_by_way_of_a_third() -> None:
    new = changed(RenameColumn("id", "tmp"), RenameColumn("data", "id"), RenameColumn("tmp", "data"))
    assert (new.find("id").id, new.find("data").id) == (2, 1)


# Moving

ABCD = Schema(tuple(req(number, name, INT) for number, name in enumerate("abcd", 1)))
FLAT = (opt(5, "ts", TIMESTAMPTZ), req(3, "count", LONG), req(4, "data", STRING))
ROW = Struct(FLAT)


@pytest.mark.parametrize(
    ("moves", "order"),
    [
        ([("b", First())], "bacd"),
        ([("b", Before("a"))], "bacd"),
        ([("a", After("d"))], "bcda"),
        ([("d", After("a"))], "adbc"),
        ([("a", Before("c"))], "bacd"),
        ([("d", First()), ("c", First()), ("b", After("d")), ("d", Before("a"))], "cbda"),
    ],
)
def test_moving_columns(moves: list[tuple[str, Any]], order: str) -> None:
    new = changed(*(MoveColumn(name, position) for name, position in moves), schema=ABCD)
    assert "".join(field.name for field in new.fields) == order
    assert {field.name: field.id for field in new.fields} == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize(
    ("type_", "prefix"), [(ROW, "s"), (List(6, ROW), "s.element"), (Map(6, STRING, 7, ROW), "s.value")]
)
def test_moving_fields_of_structs(type_: Type, prefix: str) -> None:
    schema = Schema((req(1, "id", LONG), req(2, "s", type_)))
    for path in ("s", prefix):
        for beside in ("data", f"{prefix}.data", f"{path}.data", ("s", "data")):
            new = changed(MoveColumn(f"{path}.ts", Before(beside)), schema=schema)
            inner = [
                field.name for field in new.all_fields if (new.parent_of(field.id) or field).id in (2, 6, 7)
            ]
            assert [name for name in inner if name in ("count", "ts", "data")] == ["count", "ts", "data"]
    first = changed(MoveColumn("s.data", First()), schema=schema)
    assert [each.name for each in first.all_fields if each.id in (3, 4, 5)] == ["data", "ts", "count"]
    last = changed(MoveColumn("s.ts", After("data")), schema=schema)
    assert [each.name for each in last.all_fields if each.id in (3, 4, 5)] == ["count", "data", "ts"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (MoveColumn("items", First()), "no column 'items'"),
        (MoveColumn("items", Before("id")), "no column 'items'"),
        (MoveColumn("id", Before("items")), "no column 'items'"),
        (MoveColumn("id", Before("id")), "beside itself"),
        (MoveColumn("id", After("id")), "beside itself"),
        (MoveColumn("id", After("points.x")), "not in the same struct"),
        (MoveColumn("points.x", After("id")), "id is not in the same struct"),
        (MoveColumn("points.x", After("locations.lat")), "not in the same struct"),
        (MoveColumn("properties.key", Before("value")), "keys of a map cannot be changed"),
        (MoveColumn("properties.value", Before("key")), "part of its type"),
        (MoveColumn("doubles.element", First()), "part of its type"),
        (MoveColumn("locations.key.zip", First()), "keys of a map cannot be changed"),
    ],
)
def test_what_cannot_be_moved(change: MoveColumn, problem: str) -> None:
    refused(problem, change)


def test_added_columns_are_moved_and_moves_come_after_adds() -> None:
    small = Schema((req(1, "id", LONG), req(2, "data", STRING)))
    new = changed(
        AddColumn("ts", TIMESTAMPTZ),
        AddColumn("count", LONG),
        MoveColumn("ts", After("id")),
        MoveColumn("count", After("ts")),
        schema=small,
    )
    assert [field.id for field in new.fields] == [1, 3, 4, 2]
    refused("no column 'ts'", MoveColumn("ts", First()), AddColumn("ts", LONG), schema=small)


# Types

FLAT_TYPES: list[Type] = [
    *(BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, STRING, UUID, BINARY),
    *(Fixed(3), Fixed(4), Decimal(9, 2), Decimal(9, 3), Decimal(18, 2), TIMESTAMP_NS, TIMESTAMPTZ_NS),
    *(UNKNOWN, VARIANT, Geometry(), Geometry("srid:3857"), Geography(), Geography("srid:4269", "karney")),
]
ALWAYS: set[tuple[Type, Type]] = {(INT, LONG), (FLOAT, DOUBLE), (Decimal(9, 2), Decimal(18, 2))}
SINCE_V3: set[tuple[Type, Type]] = {(DATE, TIMESTAMP), (DATE, TIMESTAMP_NS)} | {
    (UNKNOWN, each) for each in FLAT_TYPES if each is not UNKNOWN
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("old", FLAT_TYPES, ids=str)
def test_every_pair_of_types_against_the_table_of_promotions(old: Type, version: int) -> None:
    allowed = ALWAYS | SINCE_V3 if version >= 3 else ALWAYS
    schema = Schema((opt(1, "col", old),))
    for new in FLAT_TYPES:
        assert can_promote(old, new, version) == ((old, new) in allowed)
        if old == new:
            continue
        if (old, new) in allowed:
            assert changed(UpdateColumn("col", type=new), schema=schema, version=version).field(1).type == new
        else:
            error = refused("cannot become", UpdateColumn("col", type=new), schema=schema, version=version)
            assert error.field == "col"
            assert error.hint


def test_widening_at_every_depth() -> None:
    new = changed(
        UpdateColumn("id", type=LONG),
        UpdateColumn("locations.lat", type=DOUBLE),
        UpdateColumn("locations.value.long", type=DOUBLE),
        version=1,
    )
    assert lines(new) == replaced(
        _1="1 id: required long",
        _12="12 locations.value.lat: required double",
        _13="13 locations.value.long: required double",
    )
    inside = Schema((opt(1, "l", List(2, INT)), opt(3, "m", Map(4, INT, 5, FLOAT))))
    new = changed(UpdateColumn("l.element", type=LONG), UpdateColumn("m.value", type=DOUBLE), schema=inside)
    assert (new.field(2).type, new.field(5).type) == (LONG, DOUBLE)
    refused("keys of a map cannot be changed", UpdateColumn("m.key", type=LONG), schema=inside)
    refused("keys of a map cannot be changed", UpdateColumn("locations.key.zip", type=LONG))
    refused("no column 'col'", UpdateColumn("col", type=LONG))


def test_nested_types_are_not_replaced_as_a_whole() -> None:
    for path, type_ in (
        ("preferences", BOOLEAN),
        ("id", Struct((opt(1, "id", INT),))),
        ("doubles", List(17, STRING)),
        ("doubles", DOUBLE),
        ("properties", Map(18, STRING, 19, INT)),
        ("data", VARIANT),
    ):
        refused("cannot become", UpdateColumn(path, type=type_))


def test_an_unknown_column_becomes_a_struct_with_ids_of_its_own() -> None:
    schema = Schema((opt(1, "u", UNKNOWN), opt(2, "a", INT)))
    new, last = evolve(
        schema, [UpdateColumn("u", type=Struct((opt(1, "x", INT), opt(2, "y", INT))))], rules(last=2)
    )
    assert lines(new) == [
        "1 u: optional struct",
        "3 u.x: optional int",
        "4 u.y: optional int",
        "2 a: optional int",
    ]
    assert last == 4


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        (INT, LONG, 34, 34),
        (FLOAT, DOUBLE, 0.5, 0.5),
        (Decimal(9, 2), Decimal(18, 2), decimal.Decimal("1.50"), decimal.Decimal("1.50")),
        (DATE, TIMESTAMP, -1, -86_400_000_000),
        (DATE, TIMESTAMP_NS, 2, 172_800_000_000_000),
    ],
)
def test_defaults_are_promoted_with_their_column(old: Type, new: Type, before: Any, after: Any) -> None:
    schema = Schema((Field(1, "a", old, True, "doc", before, before),))  # noqa: FBT003
    field = changed(UpdateColumn("a", type=new), schema=schema).field(1)
    assert field == Field(1, "a", new, True, "doc", after, after)  # noqa: FBT003
    assert isinstance(field.initial_default, type(before))


def test_a_date_that_nanoseconds_cannot_hold_stops_the_promotion_of_its_column() -> None:
    schema = Schema((Field(1, "a", DATE, initial_default=200_000, write_default=0),))
    refused("outside the range", UpdateColumn("a", type=TIMESTAMP_NS), schema=schema)
    assert (
        changed(UpdateColumn("a", type=TIMESTAMP), schema=schema).field(1).initial_default
        == 200_000 * 86400 * 10**6
    )


def spec(transform: str, source: int = 1, name: str = "part", spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(spec_id, (PartitionField((source,), 1000, name, parse_transform(transform)),))


@pytest.mark.parametrize(
    ("old", "new", "transform", "safe"),
    [
        (INT, LONG, "bucket[4]", True),
        (INT, LONG, "truncate[4]", True),
        (INT, LONG, "identity", True),
        (Decimal(9, 2), Decimal(18, 2), "bucket[4]", True),
        (FLOAT, DOUBLE, "identity", True),
        (DATE, TIMESTAMP, "bucket[4]", False),
        (DATE, TIMESTAMP_NS, "bucket[4]", False),
        (DATE, TIMESTAMP, "identity", False),
        (DATE, TIMESTAMP, "day", True),
        (DATE, TIMESTAMP_NS, "month", True),
        (DATE, TIMESTAMP, "year", True),
        (DATE, TIMESTAMP, "void", True),
        (DATE, TIMESTAMP, "secret[3]", False),
        (INT, LONG, "secret[3]", False),
        (UNKNOWN, VARIANT, "identity", False),
        (UNKNOWN, INT, "identity", True),
    ],
)
def test_a_type_may_not_change_partition_values(old: Type, new: Type, transform: str, safe: bool) -> None:  # noqa: FBT001
    schema = Schema((opt(1, "col", old), opt(2, "other", old)))
    for where in ({"specs": (spec(transform, spec_id=7),)}, {"default_spec": spec(transform, spec_id=7)}):
        if safe:
            assert changed(UpdateColumn("col", type=new), schema=schema, **where).field(1).type == new
        else:
            error = refused("'part' of spec 7", UpdateColumn("col", type=new), schema=schema, **where)
            assert error.field == "col"
        assert changed(UpdateColumn("other", type=new), schema=schema, **where).field(2).type == new


# Nullability, docs, defaults


def test_columns_become_optional_freely_and_required_only_when_told() -> None:
    assert not changed(UpdateColumn("id", required=False)).field(1).required
    assert not changed(UpdateColumn("doubles.element", required=False)).field(17).required
    assert not changed(UpdateColumn("locations.value", required=False)).field(11).required
    refused("keys of a map cannot be changed", UpdateColumn("locations.key", required=False))
    error = refused("an optional column cannot become required", UpdateColumn("data", required=True))
    assert error.field == "data"
    assert changed(UpdateColumn("data", required=True), allow_incompatible=True).field(2).required


def test_an_added_column_with_a_default_can_be_required_in_the_same_evolution() -> None:
    new = changed(AddColumn("a", STRING, default="x"), UpdateColumn("a", required=True))
    assert new.find("a") == Field(24, "a", STRING, True, None, "x", "x")  # noqa: FBT003
    late = (AddColumn("a", STRING), UpdateColumn("a", write_default="x"), UpdateColumn("a", required=True))
    refused("cannot become required", *late)
    schema = Schema((Field(1, "a", INT, initial_default=1),))
    refused("cannot become required", UpdateColumn("a", required=True), schema=schema)


@pytest.mark.parametrize("required", [True, False])
def test_a_required_column_is_added_with_both_defaults(required: bool) -> None:  # noqa: FBT001
    """The spec: "When a required field is added, both defaults must be set to a non-null value"."""
    add = AddColumn("a", STRING, required=required, default="x")
    refused("both defaults", add, UpdateColumn("a", required=True, write_default=None))
    assert changed(add, UpdateColumn("a", required=False, write_default=None)).find("a").write_default is None


def test_one_property_of_a_column_is_changed_without_the_others() -> None:
    field = Field(1, "i", INT, True, "description", 34, 35, FrozenDict({"x": 1}))  # noqa: FBT003
    schema = Schema((field,))
    with_doc = changed(UpdateColumn("i", doc="longer"), schema=schema).field(1)
    assert with_doc == Field(1, "i", INT, True, "longer", 34, 35, field.unknown)  # noqa: FBT003
    assert changed(UpdateColumn("i", doc=None), schema=schema).field(1).doc is None
    with_default = changed(UpdateColumn("i", write_default=123456), schema=schema).field(1)
    assert with_default == Field(1, "i", INT, True, "description", 34, 123456, field.unknown)  # noqa: FBT003
    without = changed(UpdateColumn("i", write_default=None), schema=schema).field(1)
    assert (without.initial_default, without.write_default) == (34, None)
    refused("format version 3", UpdateColumn("data", write_default="a"), version=2)


def test_elements_and_values_have_no_doc_and_no_default() -> None:
    refused("has a doc and a default", UpdateColumn("doubles.element", doc="a"))
    refused("has a doc and a default", UpdateColumn("properties.value", write_default="a"))
    assert changed(UpdateColumn("points.x", doc="a")).field(15).doc == "a"


# Identifier fields

KEYED = Schema((*SCHEMA.fields, req(24, "out", Struct((req(25, "nested", STRING),)))), 0, (1,))


def test_identifier_fields_are_chosen_by_path() -> None:
    assert changed(SetIdentifierFields(("id",))).identifier_field_ids == (1,)
    assert changed(SetIdentifierFields(("out.nested", "id", "id")), schema=KEYED).identifier_field_ids == (
        25,
        1,
    )
    assert changed(SetIdentifierFields(()), schema=KEYED).identifier_field_ids == ()
    new = changed(
        AddColumn(("dot.field",), STRING, required=True),
        SetIdentifierFields(("id", "dot.field")),
        allow_incompatible=True,
    )
    assert new.identifier_field_ids == (1, 24)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("unknown", "no column 'unknown'"),
        ("locations", "not of a primitive type"),
        ("data", "data is not required"),
        ("locations.key.zip", "inside a list or map"),
        ("points.element.x", "points.element.x is inside"),
        ("preferences.feature1", "inside the optional struct preferences"),
    ],
)
def test_fields_that_cannot_identify_rows(path: str, problem: str) -> None:
    refused(problem, SetIdentifierFields((path,)))
    number = Schema((req(1, "f", FLOAT), req(2, "d", DOUBLE)))
    refused("f is a floating point", SetIdentifierFields(("f",)), schema=number)
    refused("d is a floating point", SetIdentifierFields(("d",)), schema=number)


def test_identifier_fields_stay_identifier_fields() -> None:
    assert changed(RenameColumn("id", "id2"), schema=KEYED).identifier_field_ids == (1,)
    for position in (First(), After("locations"), Before("locations")):
        assert changed(MoveColumn("id", position), schema=KEYED).identifier_field_ids == (1,)
    assert changed(UpdateColumn("id", type=LONG), schema=KEYED).identifier_field_ids == (1,)
    refused("id is not required", UpdateColumn("id", required=False), schema=KEYED)


def test_identifier_fields_are_dropped_only_when_others_are_chosen() -> None:
    error = refused("rows are identified by id", DropColumn("id"), schema=KEYED)
    assert error.field == "id"
    for changes in (
        (DropColumn("id"), SetIdentifierFields(())),
        (SetIdentifierFields(()), DropColumn("id")),
        (DropColumn("id"), SetIdentifierFields(("out.nested",))),
    ):
        new = changed(*changes, schema=KEYED)
        assert not new.has(1)
        assert 1 not in new.identifier_field_ids
    nested = Schema(KEYED.fields, 0, (25,))
    refused(r"rows are identified by out\.nested", DropColumn("out"), schema=nested)
    refused(r"rows are identified by out\.nested", DropColumn("out.nested"), schema=nested)
    refused("rows are identified by id", SetIdentifierFields(("id",)), DropColumn("id"))


# Partition specs and sort orders


def test_a_column_that_new_files_are_partitioned_by_is_not_dropped() -> None:
    error = refused(
        "partition field 'part' is made from it", DropColumn("id"), default_spec=spec("bucket[4]")
    )
    assert "'part'" in (error.hint or "")
    refused("'part'", DropColumn("preferences"), default_spec=spec("identity", 8))
    refused("'part'", DropColumn("preferences.feature1"), default_spec=spec("identity", 8))
    refused("'part'", DropColumn("id"), default_spec=spec("secret"))
    assert not changed(DropColumn("id"), default_spec=spec("void")).has(1)
    assert not changed(DropColumn("data"), default_spec=spec("identity")).has(2)


def test_a_column_that_only_older_specs_use_is_dropped_and_its_name_free_again() -> None:
    older = (spec("identity", name="id"), spec("identity", 2, name="data", spec_id=1))
    new = changed(DropColumn("id"), specs=older, default_spec=older[1])
    assert not new.has(1)
    new = changed(DropColumn("id"), AddColumn("id", STRING), specs=older, default_spec=older[1])
    assert new.find("id").id == 24


def test_a_column_that_new_files_are_sorted_by_is_not_dropped() -> None:
    key = SortField((15,), parse_transform("identity"), "asc", "nulls-first")
    order = SortOrder(1, (key,))
    for path in ("points.x", "points"):
        refused("sorted by it", DropColumn(path), default_order=order)
    assert not changed(DropColumn("points.y"), default_order=order).has(16)
    schema = Schema((opt(15, "u", UNKNOWN),))
    refused("sorted by it", UpdateColumn("u", type=VARIANT), schema=schema, default_order=order)
    assert changed(UpdateColumn("u", type=INT), schema=schema, default_order=order).field(15).type is INT


def test_no_column_gets_the_name_of_a_partition_field() -> None:
    # The reference implementation refuses to open such a table.
    daily = (spec("bucket[4]", name="id_bucket"),)
    for change in (AddColumn("id_bucket", INT), RenameColumn("data", "id_bucket")):
        assert refused("partition field of spec 0", change, specs=daily).field == "id_bucket"
    assert changed(RenameColumn("id", "id_bucket"), specs=daily).find("id_bucket").id == 1
    by_id = (spec("identity", name="id"),)
    refused("partition field", RenameColumn("id", "x"), RenameColumn("data", "id"), specs=by_id)
    assert changed(RenameColumn("id", "x"), specs=by_id).find("x").id == 1
    inherited = Schema((*SCHEMA.fields, opt(24, "id_bucket", INT)))
    assert not changed(DropColumn("data"), schema=inherited, specs=daily).has(2)


# Several changes


def test_many_changes_at_once() -> None:
    new, last = evolve(
        SCHEMA,
        [
            AddColumn("toplevel", Decimal(9, 2)),
            AddColumn("locations.alt", FLOAT),
            AddColumn("points.z", LONG),
            AddColumn(("points", "t.t"), LONG, doc="name with '.'"),
            RenameColumn("data", "json"),
            RenameColumn("preferences", "options"),
            RenameColumn("options.feature2", "newfeature"),
            RenameColumn("locations.lat", "latitude"),
            RenameColumn("points.x", "X"),
            RenameColumn("points.y", "y.y"),
            UpdateColumn("id", type=LONG, doc="unique id"),
            UpdateColumn("locations.latitude", type=DOUBLE, doc="latitude"),
            DropColumn("locations.long"),
            DropColumn("properties"),
            UpdateColumn("points.X", required=False),
            UpdateColumn("json", required=True),
            AddColumn("locations.description", STRING, required=True, doc="Location description"),
        ],
        rules(2, allow_incompatible=True),
    )
    assert lines(new) == [
        "1 id: required long",
        "2 json: required string",
        "3 options: optional struct",
        "8 options.feature1: required boolean",
        "9 options.newfeature: optional boolean",
        *(line for line in BASE if line.split()[0] in ("4", "10", "20", "21", "22", "23", "11")),
        "12 locations.value.latitude: required double",
        "25 locations.value.alt: optional float",
        "28 locations.value.description: required string",
        "5 points: optional list",
        "14 points.element: optional struct",
        "15 points.element.X: optional long",
        "16 points.element.y.y: required long",
        "26 points.element.z: optional long",
        "27 points.element.t.t: optional long",
        "6 doubles: required list",
        "17 doubles.element: required double",
        "24 toplevel: optional decimal(9,2)",
    ]
    docs = {field.id: field.doc for field in new.all_fields if field.doc}
    assert docs == {
        1: "unique id",
        3: "options",
        12: "latitude",
        27: "name with '.'",
        28: "Location description",
    }
    assert last == 28


def test_changes_see_what_the_changes_before_them_did() -> None:
    new = changed(
        AddColumn("a", INT), RenameColumn("a", "b"), UpdateColumn("b", type=LONG), MoveColumn("b", First())
    )
    assert lines(new)[0] == "24 b: optional long"
    refused("no column 'id'", RenameColumn("id", "col"), DropColumn("id"))
    refused("no column 'id'", DropColumn("id"), RenameColumn("id", "identifier"))
    refused("no column 'id'", DropColumn("id"), UpdateColumn("id", type=LONG))


def test_a_name_is_free_again_after_a_drop_and_gets_a_new_id() -> None:
    new = changed(DropColumn("preferences.feature1"), AddColumn("preferences.feature1", BOOLEAN))
    assert [child.id for child in children(new.field(3).type)] == [9, 24]
    new = changed(
        DropColumn("id"),
        AddColumn("id", INT, required=True),
        MoveColumn("id", First()),
        allow_incompatible=True,
    )
    assert lines(new)[0] == "24 id: required int"


def test_the_id_of_a_column_that_was_added_and_dropped_is_not_given_again() -> None:
    schema, last = evolve(SCHEMA, [AddColumn("a", INT), DropColumn("a")], rules())
    assert (schema, last) == (SCHEMA, 24)
    assert (
        evolve(SCHEMA, [AddColumn("a", INT), DropColumn("a"), AddColumn("a", INT)], rules())[0].find("a").id
        == 25
    )


# Fresh ids


def test_a_new_table_is_numbered_struct_by_struct() -> None:
    schema = Schema(
        (
            req(9, "s", Struct((req(7, "x", INT), opt(8, "l", List(3, INT))))),
            req(2, "id", INT),
            opt(5, "m", Map(11, STRING, 12, Struct((opt(13, "v", INT),)))),
        ),
        4,
        (7, 2),
        FrozenDict({"x": 1}),
    )
    new = assign_fresh_ids(schema)
    assert lines(new) == [
        "1 s: required struct",
        "4 s.x: required int",
        "5 s.l: optional list",
        "6 s.l.element: optional int",
        "2 id: required int",
        "3 m: optional map",
        "7 m.key: required string",
        "8 m.value: optional struct",
        "9 m.value.v: optional int",
    ]
    assert (new.schema_id, new.identifier_field_ids, new.unknown) == (4, (4, 2), {"x": 1})


def test_a_schema_that_replaces_another_keeps_the_ids_of_its_names() -> None:
    base = Schema((opt(0, "zero", INT), opt(5, "points", List(14, Struct((opt(15, "x", LONG),))))))
    new = assign_fresh_ids(
        Schema(
            (
                opt(1, "points", List(2, Struct((opt(3, "x", LONG), opt(4, "y", LONG))))),
                opt(6, "zero", STRING),
                opt(7, "points.x", INT),
            )
        ),
        base=base,
        last_column_id=30,
    )
    assert lines(new) == [
        "5 points: optional list",
        "14 points.element: optional struct",
        "15 points.element.x: optional long",
        "32 points.element.y: optional long",
        "0 zero: optional string",
        "31 points.x: optional int",
    ]


@given(schemas())
def test_fresh_ids_change_nothing_but_ids(schema: Schema) -> None:
    new = assign_fresh_ids(schema)
    assert sorted(field.id for field in new.all_fields) == list(range(1, new.highest_field_id + 1))
    assert [line.split(" ", 1)[1] for line in lines(new)] == [line.split(" ", 1)[1] for line in lines(schema)]
    assert assign_fresh_ids(new) == new


# Laws


def paths(schema: Schema) -> st.SearchStrategy[str]:
    return st.sampled_from([schema.name_of(field.id) for field in schema.all_fields] or ["none"])


@st.composite
def any_change(draw: st.DrawFn, schema: Schema) -> SchemaChange:
    """A change that makes some sense for a schema, and may be refused."""
    path = draw(paths(schema))
    beside = draw(paths(schema))
    positions: list[Position] = [First(), Before(beside), After(beside)]
    position = draw(st.sampled_from(positions))
    match draw(st.sampled_from(["add", "add inside", "drop", "rename", "move", "widen", "edit", "identify"])):
        case "add":
            type_ = draw(types())
            return AddColumn((draw(NAMES),), type_, draw(st.booleans()), default=draw(default_of(type_)))
        case "add inside":
            return AddColumn(
                (*path.split("."), draw(NAMES)), draw(types()), position=draw(st.none() | st.just(position))
            )
        case "drop":
            return DropColumn(path)
        case "rename":
            return RenameColumn(path, draw(NAMES))
        case "move":
            structs = [schema.fields, *(children(each.type) for each in schema.all_fields)]
            siblings = draw(st.sampled_from([each for each in structs if len(each) > 1] or [schema.fields]))
            names = [schema.name_of(each.id) for each in siblings] or ["none"]
            mover, beside = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            ways: list[Position] = [First(), Before(beside), After(beside)]
            return MoveColumn(mover, draw(st.sampled_from(ways)))
        case "widen":
            wider: dict[Type, Type] = {INT: LONG, FLOAT: DOUBLE, DATE: TIMESTAMP}
            able = [each for each in schema.all_fields if each.type in wider or each.type is UNKNOWN]
            if not able:
                return UpdateColumn(path, type=draw(types()))
            field = draw(st.sampled_from(able))
            return UpdateColumn(schema.name_of(field.id), type=wider.get(field.type) or draw(types()))
        case "edit":
            return UpdateColumn(path, required=draw(st.booleans()), doc=draw(st.none() | st.text(max_size=2)))
        case _:
            return SetIdentifierFields(tuple(draw(st.lists(paths(schema), max_size=2))))


@settings(max_examples=60)
@given(schemas(), st.integers(0, 5), st.booleans(), st.data())
def test_ids_are_stable_and_never_come_back(
    schema: Schema,
    slack: int,
    incompatible: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    last = schema.highest_field_id + slack
    spent: set[int] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        change = data.draw(any_change(schema))
        with contextlib.suppress(InvalidChange):
            new, new_last = evolve(schema, [change], rules(last=last, allow_incompatible=incompatible))
            check_compatible(new, 3)
            before, after = ({field.id for field in each.all_fields} for each in (schema, new))
            spent |= before - after
            assert not spent & after
            assert all(last < each <= new_last for each in after - before)
            if not isinstance(change, RenameColumn | DropColumn):
                assert all(new.name_of(each) == schema.name_of(each) for each in before)
            for each in before & after:
                old_type, new_type = schema.field(each).type, new.field(each).type
                promoted = can_promote(old_type, new_type, 3)
                assert promoted or is_nested(old_type) or old_type == new_type
                assert new.field(each).initial_default == schema.field(each).initial_default or promoted
            schema, last = new, new_last


@settings(max_examples=60)
@given(schemas(), st.data())
def test_changes_at_once_are_changes_one_by_one(schema: Schema, data: st.DataObject) -> None:
    steps: list[SchemaChange] = []
    current, last = schema, schema.highest_field_id
    for _ in range(data.draw(st.integers(1, 5))):
        change = data.draw(any_change(current))
        with contextlib.suppress(InvalidChange):
            current, last = evolve(current, [change], rules(last=last))
            steps.append(change)
    assert evolve(schema, steps, rules(last=schema.highest_field_id)) == (current, last)


def test_wide_schemas_evolve_in_reasonable_time() -> None:
    wide = Schema(tuple(opt(number, f"c{number}", INT) for number in range(1, 1001)))
    new = changed(*(AddColumn(f"n{number}", INT) for number in range(1000)), schema=wide)
    assert new.highest_field_id == len(new.fields) == 2000
