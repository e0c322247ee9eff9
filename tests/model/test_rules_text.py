"""Partition fields and sort keys as text."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model.partitioning import PartitionField, PartitionSpec, check_spec
from lakeplane.model.rules_text import (
    UNASSIGNED,
    default_name,
    parse_partition_field,
    parse_sort_key,
    partition_text,
    sort_text,
)
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder, check_order
from lakeplane.model.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    accepts,
)
from lakeplane.model.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMPTZ, Field, List, Struct
from tests.model.schema_strategies import NAMES

SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "at", TIMESTAMPTZ),
        Field(3, "Name", STRING),
        Field(4, "amount", DOUBLE),
        Field(5, "s", Struct((Field(6, "b", LONG), Field(7, "when", DATE)))),
        Field(8, "l", List(9, Struct((Field(10, "x", INT),)))),
        Field(11, "odd name`", INT),
        Field(12, "p.q", INT),
        Field(13, "days", DATE),
        Field(14, "desc", INT),
        Field(15, "CASE", INT),
        Field(16, "case", LONG),
    )
)


# The names are those of Iceberg's PartitionSpec.Builder, and after the comma, where they differ, those of its
# BaseUpdatePartitionSpec; the functions are those of Spark3Util.toPartitionSpec.
@pytest.mark.parametrize(
    ("text", "source", "transform", "name"),
    [
        ("id", 1, Identity(), "id"),
        ("identity(id)", 1, Identity(), "id"),
        ("ID", 1, Identity(), "id"),
        ("name", 3, Identity(), "Name"),
        ("s.b", 6, Identity(), "s.b"),
        ("`s`.`b`", 6, Identity(), "s.b"),
        ("S . B", 6, Identity(), "s.b"),
        ("`odd name```", 11, Identity(), "odd name`"),
        ("`p.q`", 12, Identity(), "p.q"),
        ("p.q", 12, Identity(), "p.q"),
        ("days", 13, Identity(), "days"),
        ("CASE", 15, Identity(), "CASE"),
        ("case", 16, Identity(), "case"),
        ("year(at)", 2, Year(), "at_year"),
        ("years(at)", 2, Year(), "at_year"),
        ("month(at)", 2, Month(), "at_month"),
        ("MONTHS(at)", 2, Month(), "at_month"),
        ("day(at)", 2, Day(), "at_day"),
        ("Days( AT )", 2, Day(), "at_day"),
        ("date(at)", 2, Day(), "at_day"),
        ("days(days)", 13, Day(), "days_day"),
        ("days(s.when)", 7, Day(), "s.when_day"),
        ("hour(at)", 2, Hour(), "at_hour"),
        ("hours(at)", 2, Hour(), "at_hour"),
        ("date_hour(at)", 2, Hour(), "at_hour"),
        ("bucket(16, id)", 1, Bucket(16), "id_bucket,id_bucket_16"),
        ("bucket(id, 16)", 1, Bucket(16), "id_bucket,id_bucket_16"),
        ("BUCKET(2147483647,s.b)", 6, Bucket(2**31 - 1), "s.b_bucket,s.b_bucket_2147483647"),
        ("truncate(4, name)", 3, Truncate(4), "Name_trunc,Name_trunc_4"),
        ("truncate(name, 4)", 3, Truncate(4), "Name_trunc,Name_trunc_4"),
        ("void(id)", 1, Void(), "id_null"),
        ("void(amount) AS gone", 4, Void(), "gone"),
        ("days(at) AS day", 2, Day(), "day"),
        ("bucket(16, id) as `my shard`", 1, Bucket(16), "my shard"),
        ("id AS x /* note */;", 1, Identity(), "x"),
    ],
)
def test_partition_fields(text: str, source: int, transform: Transform, name: str) -> None:
    new, _, evolving = name.partition(",")
    field = parse_partition_field(text, SCHEMA)
    assert field == PartitionField((source,), UNASSIGNED, new, transform)
    check_spec(PartitionSpec(0, (field,)), SCHEMA)
    assert parse_partition_field(text, SCHEMA, evolving=True).name == (evolving or new)
    for mode in (False, True):
        again = partition_text(field, SCHEMA, evolving=mode)
        assert parse_partition_field(again, SCHEMA, evolving=mode) == field


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("day(AT)", "days(at)"),
        ("days(at) AS at_day", "days(at)"),
        ("date_hour(at)", "hours(at)"),
        ("month(s.when)", "months(s.when)"),
        ("year(at) as y", "years(at) AS y"),
        ("bucket(id, 16)", "bucket(16, id)"),
        ("identity(`odd name```)", "`odd name```"),
        ("`p.q`", "`p.q`"),
        ("truncate(name,4) AS `a b`", "truncate(4, Name) AS `a b`"),
    ],
)
def test_partition_fields_are_written(text: str, written: str) -> None:
    assert partition_text(parse_partition_field(text, SCHEMA), SCHEMA) == written


@pytest.mark.parametrize(
    ("text", "source", "transform", "direction", "null_order"),
    [
        ("amount", 4, Identity(), "asc", "nulls-first"),
        ("amount ASC", 4, Identity(), "asc", "nulls-first"),
        ("amount desc", 4, Identity(), "desc", "nulls-last"),
        ("amount DESC NULLS FIRST", 4, Identity(), "desc", "nulls-first"),
        ("amount DESC NULLS LAST", 4, Identity(), "desc", "nulls-last"),
        ("amount nulls last", 4, Identity(), "asc", "nulls-last"),
        ("amount ASC NULLS FIRST", 4, Identity(), "asc", "nulls-first"),
        ("bucket(16, id)", 1, Bucket(16), "asc", "nulls-first"),
        ("truncate(s.b, 10) DESC", 6, Truncate(10), "desc", "nulls-last"),
        ("days(at) DESC", 2, Day(), "desc", "nulls-last"),
        ("desc desc", 14, Identity(), "desc", "nulls-last"),
        ("desc", 14, Identity(), "asc", "nulls-first"),
    ],
)
def test_sort_keys(text: str, source: int, transform: Transform, direction: Any, null_order: Any) -> None:
    key = parse_sort_key(text, SCHEMA)
    assert key == SortField((source,), transform, direction, null_order)
    check_order(SortOrder(1, (key,)), SCHEMA)
    assert parse_sort_key(sort_text(key, SCHEMA), SCHEMA) == key


def test_sort_keys_are_written_in_full() -> None:
    assert sort_text(parse_sort_key("amount", SCHEMA), SCHEMA) == "amount ASC NULLS FIRST"
    assert sort_text(parse_sort_key("Bucket(id, 4) desc", SCHEMA), SCHEMA) == "bucket(4, id) DESC NULLS LAST"


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("", "expected a name at the end", ""),
        ("amuont", "no column 'amuont' at character 1", "Did you mean amount?"),
        ("days(att)", "no column 'att' at character 6, near 'att)'", "Did you mean at"),
        ("s.c", "no column 's.c'", "s.b"),
        (
            "dayz(at)",
            "unknown function 'dayz' at character 1",
            "Did you mean day or days? Known: bucket(n, x)",
        ),
        ("zorder(id, at)", "unknown function 'zorder'", "Known: bucket(n, x), truncate(width, x), years(x)"),
        ("days()", "expected a name at character 6", ""),
        ("days(at", "'(' is never closed", ""),
        ("days(at, id)", "expected ')' after one column at character 8", ""),
        ("days(name)", "day does not take Name, a string at character 1", ""),
        ("hours(days)", "hour does not take days, a date", ""),
        ("s", "identity does not take s, a struct", ""),
        ("bucket(4, amount)", "bucket[4] does not take amount, a double", ""),
        ("bucket(id)", "expected a comma and a whole number at character 10", ""),
        ("bucket(16)", "expected a comma and a column at character 10", ""),
        ("bucket(0, id)", "the number of buckets must be 1 to 2147483647, not 0 at character 1", ""),
        ("bucket(2147483648, id)", "the number of buckets must be", ""),
        (f"bucket({'9' * 9999}, id)", "expected a whole number", ""),
        ("bucket(1.5, id)", "expected a whole number at character 8", ""),
        ("bucket(-1, id)", "expected a name at character 8", ""),
        ("bucket(4, id, 5)", "expected ')' at character 13", ""),
        ("bucket(id, at)", "expected a whole number at character 12", ""),
        ("l.x", "l.element.x is inside a list or map", ""),
        ("id;at", "unexpected character at character 3", ""),
        ("`id", "a quote is never closed", ""),
        ("cAsE", "the name 'cAsE' fits more than one column", "case_sensitive=True"),
    ],
)
def test_errors_of_terms(text: str, problem: str, hint: str) -> None:
    for read, source in ((parse_partition_field, "partition field"), (parse_sort_key, "sort key")):
        with pytest.raises(InvalidInput) as caught:
            read(text, SCHEMA)
        assert (caught.value.source or "").startswith(f"{source} {text[:50]!r:.50}")
        assert problem in caught.value.problem
        assert hint in (caught.value.hint or "")


def test_errors_of_what_follows_a_term() -> None:
    for text, problem in {
        "id DESC": "expected AS or the end at character 4, near 'DESC'",
        "id AS": "expected a name at the end",
        "id AS a b": "expected the end at character 9",
        "id AS 'a'": "expected a name at character 7",
    }.items():
        with pytest.raises(InvalidInput) as caught:
            parse_partition_field(text, SCHEMA)
        assert problem in caught.value.problem
    for text, problem in {
        "id AS x": "expected ASC, DESC, NULLS FIRST, NULLS LAST or the end at character 4",
        "id NULLS": "expected FIRST or LAST at the end",
        "id DESC ASC": "expected ASC, DESC",
        "id, at": "expected ASC, DESC, NULLS FIRST, NULLS LAST or the end at character 3",
    }.items():
        with pytest.raises(InvalidInput) as caught:
            parse_sort_key(text, SCHEMA)
        assert problem in caught.value.problem


def test_case_matters_when_it_is_asked_to() -> None:
    assert parse_partition_field("Name", SCHEMA, case_sensitive=True).source_id == 3
    with pytest.raises(InvalidInput, match="no column 'name'"):
        parse_partition_field("name", SCHEMA, case_sensitive=True)


def test_what_no_text_stands_for_is_written_for_people() -> None:
    unknown = PartitionField((1, 2), 1000, "x", UnknownTransform("zorder"))
    assert partition_text(unknown, SCHEMA) == "zorder(id, at) AS x"
    dropped = PartitionField((99,), 1000, "x", Void())
    assert partition_text(dropped, SCHEMA) == "void(<dropped column 99>) AS x"
    key = SortField((99,), Identity(), "asc", "nulls-first")
    assert sort_text(key, SCHEMA) == "<dropped column 99> ASC NULLS FIRST"


def test_default_names() -> None:
    assert default_name(Day(), "a.b") == "a.b_day"
    assert default_name(Truncate(4), "a", evolving=True) == "a_trunc_4"


@st.composite
def rules(draw: st.DrawFn) -> tuple[Schema, int, Transform]:
    """A schema of odd names, one of its columns, and a transform that takes it."""
    ids = itertools.count(1)
    names = draw(
        st.lists(NAMES | NAMES.map(lambda name: f"{name}.{name}"), min_size=2, max_size=4, unique=True)
    )
    leaves = st.sampled_from([INT, STRING, DATE, TIMESTAMPTZ, DOUBLE])
    inner = Struct(tuple(Field(next(ids), name, draw(leaves)) for name in names))
    schema = Schema((Field(next(ids), draw(NAMES), inner), Field(next(ids), names[0] + "_", draw(leaves))))
    sources = [field for field in schema.all_fields if not isinstance(field.type, Struct)]
    source = draw(st.sampled_from(sources))
    numbers = st.integers(1, 2**31 - 1)
    plain: list[Transform] = [Identity(), Year(), Month(), Day(), Hour(), Void()]
    any_transform = st.sampled_from(plain) | st.builds(Bucket, numbers) | st.builds(Truncate, numbers)
    return schema, source.id, draw(any_transform.filter(lambda each: accepts(each, source.type)))


@given(rule=rules(), name=NAMES | st.none(), evolving=st.booleans())
def test_partition_fields_round_trip(
    rule: tuple[Schema, int, Transform], name: str | None, *, evolving: bool
) -> None:
    schema, source, transform = rule
    name = name or default_name(transform, schema.name_of(source), evolving=evolving)
    field = PartitionField((source,), UNASSIGNED, name, transform)
    text = partition_text(field, schema, evolving=evolving)
    assert parse_partition_field(text, schema, evolving=evolving) == field


@given(rules(), st.sampled_from(["asc", "desc"]), st.sampled_from(["nulls-first", "nulls-last"]))
def test_sort_keys_round_trip(rule: tuple[Schema, int, Transform], direction: Any, nulls: Any) -> None:
    schema, source, transform = rule
    key = SortField((source,), transform, direction, nulls)
    assert parse_sort_key(sort_text(key, schema), schema) == key


@given(st.text(st.sampled_from("idatnsbucket(),.`' 0123ASDECNULLS;") | st.characters(), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_partition_field, parse_sort_key):
        try:
            read(text, SCHEMA)
        except InvalidInput as error:
            assert error.source  # noqa: PT017  # most texts are refused
