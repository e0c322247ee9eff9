"""A pruned plan never loses a row: files are left out only when none of their rows can match."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.model.expressions.bounds import may_match, must_match, summary_stats
from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.project import project
from lakeplane.model.expressions.residual import residuals
from lakeplane.model.transforms import result_type
from tests.model.expressions.oracle import (
    COLUMNS,
    FOCI,
    NAMES,
    SCHEMA,
    Condition,
    Names,
    Row,
    any_conditions,
    conditions,
    rows_of,
)
from tests.model.expressions.tables import (
    arrow_array,
    column_stats,
    columns_of,
    files,
    partition_columns,
    specs,
    table_stats,
)


class Example(NamedTuple):
    names: Names
    condition: Condition
    rows: list[Row]


@st.composite
def examples(draw: st.DrawFn, *, only_understood: bool = False) -> Example:
    names = draw(FOCI)
    condition = draw((conditions if only_understood else any_conditions)(names))
    return Example(names, condition, draw(st.lists(rows_of(names), min_size=1, max_size=6)))


@given(st.data(), examples())
def test_statistics_leave_out_no_file_with_matching_rows(data: st.DataObject, example: Example) -> None:
    names, condition, rows = example
    predicate = parse_predicate(condition.sql, SCHEMA)
    found = data.draw(files(rows, data.draw(specs(names))))
    stats = data.draw(table_stats(found, names))
    kept = may_match(predicate, stats.get, len(found))
    certain = must_match(predicate, stats.get, len(found))
    for file, keep, all_match in zip(found, kept, certain, strict=True):
        matching = [condition.holds(row) is True for row in file.rows]
        assert keep or not any(matching), condition.sql
        assert all(matching) or not all_match, condition.sql


@given(st.data(), examples())
def test_partitions_leave_out_no_file_with_matching_rows(data: st.DataObject, example: Example) -> None:
    names, condition, rows = example
    predicate, spec = parse_predicate(condition.sql, SCHEMA), data.draw(specs(names))
    found = data.draw(files(rows, spec))
    columns = partition_columns(found, spec).__getitem__
    kept = matches_rows(project(predicate, spec, strict=False), columns, len(found))
    certain = matches_rows(project(predicate, spec, strict=True), columns, len(found))
    for file, keep, all_match in zip(found, kept, certain, strict=True):
        matching = [condition.holds(row) is True for row in file.rows]
        assert keep or not any(matching), condition.sql
        assert all(matching) or not all_match, condition.sql


@given(st.data(), examples())
def test_summaries_leave_out_no_manifest_with_matching_rows(data: st.DataObject, example: Example) -> None:
    names, condition, rows = example
    predicate, spec = parse_predicate(condition.sql, SCHEMA), data.draw(specs(names))
    found = data.draw(files(rows, spec))
    summaries = {}
    for n, field in enumerate(spec.fields):
        type_ = result_type(field.transform, COLUMNS[NAMES[field.source_id]])
        values = [file.partition[n] for file in found]
        facts = data.draw(column_stats(type_, values))
        lower, upper = (arrow_array(type_, [bound]) for bound in (facts.lower, facts.upper))
        flags = [None if count is None else count > 0 for count in (facts.nulls, facts.nans)]
        summaries[field.field_id] = summary_stats(
            lower, upper, *(pa.array([flag], pa.bool_()) for flag in flags)
        )
    kept = may_match(project(predicate, spec, strict=False), summaries.get, 1)
    assert kept[0] or not any(condition.holds(row) is True for file in found for row in file.rows), (
        condition.sql
    )


@given(st.data(), examples(only_understood=True))
def test_residuals_keep_the_same_rows(data: st.DataObject, example: Example) -> None:
    names, condition, rows = example
    predicate, spec = parse_predicate(condition.sql, SCHEMA), data.draw(specs(names))
    found = data.draw(files(rows, spec))
    codes, distinct = residuals(predicate, spec, partition_columns(found, spec).__getitem__, len(found))
    assert len(set(distinct)) == len(distinct)
    for file, code in zip(found, codes, strict=True):
        matched = matches_rows(distinct[code], columns_of(file.rows).__getitem__, len(file.rows))
        assert matched.tolist() == [condition.holds(row) is True for row in file.rows], condition.sql
