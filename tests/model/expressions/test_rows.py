"""Rows are matched as Spark matches them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.expressions.sql_text import to_sql
from lakeplane.model.expressions.tree import Opaque, leaves, negate
from tests.model.expressions.oracle import FOCI, SCHEMA, Names, any_conditions, conditions, rows_of
from tests.model.expressions.tables import columns_of


@given(st.data(), FOCI)
def test_a_filter_keeps_the_rows_for_which_its_text_is_true(data: st.DataObject, names: Names) -> None:
    condition, rows = data.draw(conditions(names)), data.draw(st.lists(rows_of(names), max_size=10))
    predicate = parse_predicate(condition.sql, SCHEMA)
    assert not any(isinstance(leaf, Opaque) for leaf in leaves(predicate)), condition.sql
    found = matches_rows(predicate, columns_of(rows).__getitem__, len(rows))
    assert found.tolist() == [condition.holds(row) is True for row in rows], condition.sql


@given(st.data(), FOCI)
def test_the_text_of_a_predicate_parses_to_the_same_predicate(data: st.DataObject, names: Names) -> None:
    predicate = parse_predicate(data.draw(any_conditions(names)).sql, SCHEMA)
    assert parse_predicate(to_sql(predicate, SCHEMA), SCHEMA) == predicate


@given(st.data(), FOCI)
def test_no_row_matches_a_predicate_and_its_negation(data: st.DataObject, names: Names) -> None:
    condition, rows = data.draw(conditions(names)), data.draw(st.lists(rows_of(names), max_size=10))
    predicate, columns = parse_predicate(condition.sql, SCHEMA), columns_of(rows).__getitem__
    both = [matches_rows(each, columns, len(rows)) for each in (predicate, negate(predicate))]
    assert not (both[0] & both[1]).any()
