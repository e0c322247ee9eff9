"""Whether a change is part of what a table is now."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from lakeplane.catalog.catalog import Change
from lakeplane.catalog.landed import has_landed
from lakeplane.catalog.names import Name
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.view import ViewMetadata, apply_to_view
from lakeplane.model.location import parse_location
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, Field
from lakeplane.testing.catalog_subject import COLUMNS, append, property_set, view_version

NAME = Name(("shop",), "orders")
WIDER = Schema((*COLUMNS.fields, Field(3, "added", LONG)))


def a_table() -> TableMetadata:
    place = str(parse_location("memory://lake/shop/orders"))
    return apply(None, creation(COLUMNS, uuid=str(uuid.uuid4()), location=place), now_ms=1)


def of_table(*updates: u.Update) -> Change:
    return Change("table", NAME, (), updates)


def then(table: TableMetadata, *updates: u.TableUpdate) -> TableMetadata:
    return apply(table, updates, now_ms=table.last_updated_ms + 1)


def a_view(view_uuid: str) -> tuple[tuple[u.ViewUpdate, ...], ViewMetadata]:
    updates = (
        u.AssignUuid(view_uuid),
        u.SetLocation("memory://lake/shop/totals"),
        u.AddSchema(COLUMNS),
        u.AddViewVersion(view_version("SELECT 1", ("shop",))),
        u.SetCurrentViewVersion(),
    )
    return updates, apply_to_view(None, updates, now_ms=1)


def test_a_snapshot_tells_also_after_others() -> None:
    table = a_table()
    _, ours, _ = append(table)
    change = of_table(*ours)
    assert not has_landed(change, table)
    table = then(table, *ours)
    assert has_landed(change, table)
    table = then(table, *append(table)[1])
    assert has_landed(change, table)


def test_the_snapshot_of_another_is_not_ours() -> None:
    """Equal work by somebody else, such as the same retry of a task, must not be taken for ours."""
    table = a_table()
    _, ours, _ = append(table)
    theirs = then(table, *append(table)[1])
    assert not has_landed(of_table(*ours), theirs)
    assert not has_landed(of_table(property_set("a", "1"), *ours), then(theirs, property_set("a", "1")))


def test_all_snapshots_of_a_change_must_be_there() -> None:
    table = a_table()
    _, first, _ = append(table)
    table = then(table, *first)
    assert not has_landed(of_table(*first, *append(table)[1]), table)


@pytest.mark.parametrize(
    "update", [property_set("a", "1"), u.RemoveProperties(("b",)), u.UpgradeFormatVersion(3)], ids=str
)
def test_another_change_has_landed_when_there_is_nothing_left_to_do(update: u.TableUpdate) -> None:
    table = then(a_table(), property_set("b", "2"))
    assert not has_landed(of_table(update), table)
    assert has_landed(of_table(update), then(table, update))


def test_a_schema_has_landed_when_it_is_the_current_one() -> None:
    table = a_table()
    change = of_table(u.AddSchema(WIDER), u.SetCurrentSchema())
    assert not has_landed(change, table)
    after = then(table, u.AddSchema(WIDER), u.SetCurrentSchema())
    assert has_landed(change, after)
    assert not has_landed(change, then(after, u.SetCurrentSchema(0)))


def test_a_change_that_does_not_fit_any_more_has_not_landed() -> None:
    assert not has_landed(of_table(u.SetCurrentSchema(77)), a_table())
    assert not has_landed(of_table(u.UpgradeFormatVersion(1), property_set("a", "1")), a_table())


def test_a_creation_has_landed_when_the_uuid_is_ours() -> None:
    table = a_table()
    ours = creation(COLUMNS, uuid=table.table_uuid or "", location=table.location)
    theirs = creation(COLUMNS, uuid=str(uuid.uuid4()), location=table.location)
    assert has_landed(of_table(*ours), then(table, property_set("a", "1")))
    assert not has_landed(of_table(*theirs), table)


def test_views_tell_by_uuid_or_by_having_nothing_left_to_do() -> None:
    updates, view = a_view(str(uuid.uuid4()))
    assert has_landed(Change("view", NAME, (), updates), view)
    assert not has_landed(Change("view", NAME, (), a_view(str(uuid.uuid4()))[0]), view)
    change = Change("view", NAME, (), (property_set("a", "1"),))
    assert not has_landed(change, view)
    assert has_landed(change, apply_to_view(view, (property_set("a", "1"),), now_ms=2))
    unfit = Change("view", NAME, (), (u.SetCurrentViewVersion(9),))
    assert not has_landed(unfit, view)


def test_a_uuid_in_other_letters_is_the_same() -> None:
    """A server may write it in its own way, and a creation that landed would be made again."""
    table = a_table()
    shouted = creation(COLUMNS, uuid=(table.table_uuid or "").upper(), location=table.location)
    assert has_landed(of_table(*shouted), table)
    assert has_landed(of_table(*shouted), msgspec.structs.replace(table, table_uuid=(table.table_uuid or "")))
