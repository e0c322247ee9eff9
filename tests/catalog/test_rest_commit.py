"""Commits whose answers are lost, garbled, repeated or refused: what was acknowledged stays true."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.catalog import Change, Committed, Conflict, Unknown
from lakeplane.catalog.names import Name
from lakeplane.errors import (
    AccessDenied,
    CatalogCannot,
    CatalogUnavailable,
    InvalidChange,
    InvalidInput,
    NotFound,
)
from lakeplane.iceberg import requirements as r
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.update_json import write_requirements, write_updates
from lakeplane.testing.catalog_subject import (
    a_table,
    as_table,
    make,
    property_set,
    table_updates,
    view_updates,
)
from tests.catalog.rest_server import ENDPOINTS, Fault
from tests.catalog.rest_world import ORDERS, Setup, a_setup, appending

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = "POST .*/tables/orders$"
ONE = "POST /v1/namespaces/shop/tables/orders"
LOOK = "GET /v1/namespaces/shop/tables/orders"
LOST = {
    "500": Fault(COMMIT, status=500),
    "502": Fault(COMMIT, status=502, body=b"<html>Bad Gateway</html>"),
    "503": Fault(COMMIT, status=503, headers={"Retry-After": "1"}),
    "504": Fault(COMMIT, status=504, body=b""),
    "reset": Fault(COMMIT, reset=True),
    "nothing": Fault(COMMIT, cut=True),
    "garbage": Fault(COMMIT, status=200, body=b"\x00\xff not JSON"),
    "half an answer": Fault(COMMIT, status=200, body=b'{"metadata": {"format-version": 2'),
    "another table": Fault(COMMIT, status=200, body=b'{"metadata": {"format-version": 99}}'),
}


@pytest.fixture
def setup() -> Iterator[Setup]:
    with a_setup() as made:
        yield made


def test_a_commit_is_sent_as_the_spec_has_it(setup: Setup) -> None:
    catalog = setup.with_table()
    change, snapshot_id = appending(catalog)
    setup.server.seen.clear()
    done = catalog.commit([change])
    assert isinstance(done, Committed)
    [entry] = done.entries
    assert as_table(entry).current_snapshot_id == snapshot_id
    assert entry.metadata_location == setup.server.entries["tables"]["shop", "orders"][1]
    [sent] = setup.server.seen
    assert str(sent) == ONE
    assert sent.body == {
        "identifier": {"namespace": ["shop"], "name": "orders"},
        "requirements": json.loads(json.dumps(write_requirements(change.requirements))),
        "updates": json.loads(json.dumps(write_updates(change.updates))),
    }
    assert "idempotency-key" not in sent.headers


def test_keys_are_sent_only_to_servers_that_announce_them(setup: Setup) -> None:
    """Iceberg's own fixture keeps every answer under its key, until its memory ends."""
    setup.server.config["idempotency-key-lifetime"] = "PT30M"
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.seen.clear()
    assert isinstance(catalog.commit([change]), Committed)
    key = setup.server.seen[0].headers["idempotency-key"]
    assert len(key) == 36
    assert key[14] == "7"
    assert key[19] in "89ab"
    assert int(key.replace("-", "")[:12], 16) == int(setup.clock.time * 1000)


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_lost_answer_to_a_commit_that_happened_is_found_again(setup: Setup, fault: Fault) -> None:
    """The files of a commit that had happened were deleted after a 503 (iceberg #12818 and its like)."""
    catalog = setup.with_table()
    change, snapshot_id = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(fault._replace(applied=1))
    done = catalog.commit([change])
    assert isinstance(done, Committed), done
    assert as_table(done.entries[0]).current_snapshot_id == snapshot_id
    assert setup.server.paths() == [ONE, LOOK], "it is not sent again"
    assert setup.server.snapshots("shop", "orders") == [snapshot_id]


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_lost_answer_to_a_commit_that_is_not_there_stays_unknown(setup: Setup, fault: Fault) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.script.append(fault)
    outcome = catalog.commit([change])
    assert isinstance(outcome, Unknown), "it may yet arrive"
    assert setup.server.paths("POST") == [ONE]


def test_a_commit_that_was_applied_and_hidden_by_a_later_one_is_found(setup: Setup) -> None:
    catalog, other = setup.with_table(**{"snapshot-loading-mode": "refs"}), setup.connect()
    change, snapshot_id = appending(catalog)
    setup.server.script.append(Fault(COMMIT, applied=1, status=504))
    setup.server.script.append(Fault(LOOK.replace("GET", "^GET"), status=503))
    later: list[int] = []

    def sleep(_: float) -> None:
        # Between the commit and the second look, somebody else commits on top of it.
        if not later:
            on_top, later_id = appending(other)
            assert isinstance(other.commit([on_top]), Committed)
            later.append(later_id)

    catalog._session._world = setup.clock.world()._replace(sleep=sleep)
    done = catalog.commit([change])
    assert isinstance(done, Committed), done
    assert {each.snapshot_id for each in as_table(done.entries[0]).snapshots} == {snapshot_id, *later}
    assert all("snapshots" not in each.query for each in setup.server.seen[-2:])


def test_a_look_that_fails_leaves_it_unknown(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.script.append(Fault(COMMIT, applied=1, status=500))
    setup.server.script.extend([Fault("GET", status=503)] * 9)
    assert isinstance(catalog.commit([change]), Unknown)


def test_a_conflict_with_ourselves_is_none(setup: Setup) -> None:
    """A proxy sent the request twice, and the second one was refused: we were told that we had lost."""
    catalog = setup.with_table()
    change, snapshot_id = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(Fault(COMMIT, applied=2))
    done = catalog.commit([change])
    assert isinstance(done, Committed), done
    assert setup.server.paths() == [ONE, LOOK]
    assert setup.server.snapshots("shop", "orders") == [snapshot_id]


def test_a_conflict_with_others_is_one(setup: Setup) -> None:
    catalog, other = setup.with_table(), setup.connect()
    change, _ = appending(catalog)
    winner, winner_id = appending(other)
    assert isinstance(other.commit([winner]), Committed)
    assert isinstance(catalog.commit([change]), Conflict)
    assert setup.server.snapshots("shop", "orders") == [winner_id]


def test_a_conflict_that_no_catalog_has_said_is_unknown(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.script.append(Fault(COMMIT, status=409, body=b"<html>Conflict</html>"))
    assert isinstance(catalog.commit([change]), Unknown)


def test_a_conflict_that_cannot_be_looked_into_is_unknown(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.script.append(Fault(COMMIT, applied=2))
    setup.server.script.extend([Fault("GET", status=503)] * 9)
    assert isinstance(catalog.commit([change]), Unknown)


def test_the_same_change_of_another_table_of_that_name_is_not_ours(setup: Setup) -> None:
    """A property that the new table happened to have made a lost commit to the old one look done."""
    catalog, other = setup.with_table(), setup.connect()
    table = as_table(catalog.load("table", ORDERS))
    mine = Change("table", ORDERS, (r.AssertTableUuid(table.table_uuid or ""),), (property_set("a", "1"),))
    other.drop("table", ORDERS)
    a_table(other, ORDERS, properties={"a": "1"})
    assert isinstance(catalog.commit([mine]), Conflict)


def test_properties_that_were_set_and_lost_are_found(setup: Setup) -> None:
    catalog = setup.with_table()
    change = Change("table", ORDERS, (), (property_set("a", "1"),))
    setup.server.script.append(Fault(COMMIT, applied=1, cut=True))
    assert isinstance(catalog.commit([change]), Committed)


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InvalidInput), (403, AccessDenied), (404, NotFound), (406, CatalogCannot), (501, CatalogCannot)],
)
def test_a_refusal_is_an_error_of_its_own(setup: Setup, status: int, error: type[Exception]) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(Fault(COMMIT, status=status))
    with pytest.raises(error):
        catalog.commit([change])
    assert setup.server.paths("POST") == [ONE]


def test_a_second_delivery_that_is_refused_as_unsound_is_still_ours(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.script.append(Fault(COMMIT, applied=1, status=400))
    assert isinstance(catalog.commit([change]), Committed)


def test_too_many_requests_are_sent_again_after_the_time_that_is_asked_for(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(Fault(COMMIT, status=429, headers={"Retry-After": "3"}))
    assert isinstance(catalog.commit([change]), Committed)
    assert setup.server.paths() == [ONE, ONE]
    assert setup.clock.slept == [3.0]


def test_a_server_that_keeps_keys_is_asked_again_with_the_same_one(setup: Setup) -> None:
    setup.server.config["idempotency-key-lifetime"] = "PT30M"
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(Fault(COMMIT, status=503))
    assert isinstance(catalog.commit([change]), Committed)
    assert setup.server.paths() == [ONE, ONE]
    assert len({each.headers["idempotency-key"] for each in setup.server.seen}) == 1


def test_a_key_is_not_used_after_its_life(setup: Setup) -> None:
    setup.server.config["idempotency-key-lifetime"] = "PT1S"
    catalog = setup.with_table()
    change, _ = appending(catalog)
    setup.server.seen.clear()
    setup.server.script.append(Fault(COMMIT, status=503, headers={"Retry-After": "5"}))
    assert isinstance(catalog.commit([change]), Unknown)
    assert setup.server.paths("POST") == [ONE]


def test_a_refused_connection_is_no_unknown_outcome(setup: Setup) -> None:
    catalog = setup.with_table()
    change, _ = appending(catalog)
    catalog._session.settings = type(catalog._session.settings)(
        **{
            **{
                name: getattr(catalog._session.settings, name)
                for name in catalog._session.settings.__struct_fields__
            },
            "uri": "http://127.0.0.1:1",
        }
    )
    with pytest.raises(CatalogUnavailable):
        catalog.commit([change])
    assert len(setup.clock.slept) == 4


def test_what_the_format_forbids_is_not_sent(setup: Setup) -> None:
    catalog = setup.with_table()
    setup.server.seen.clear()
    with pytest.raises(InvalidChange):
        catalog.commit([Change("table", ORDERS, (), (u.SetCurrentSchema(77),))])
    assert setup.server.paths("POST") == []


def test_what_changes_nothing_is_not_sent(setup: Setup) -> None:
    catalog = setup.with_table()
    before = catalog.load("table", ORDERS)
    done = catalog.commit([Change("table", ORDERS, (), (u.RemoveProperties(("never",)),))])
    assert done == Committed((before,))
    assert setup.server.paths("POST") == []


def test_a_table_is_staged_and_then_committed_under_the_identity_it_was_given(setup: Setup) -> None:
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    updates = table_updates(catalog, ORDERS, location="s3://lake/shop/orders")
    setup.server.seen.clear()
    done = make(catalog, "table", ORDERS, updates)
    assert isinstance(done, Committed)
    assert setup.server.paths("POST") == ["POST /v1/namespaces/shop/tables", ONE]
    stage, commit = (each.body for each in setup.server.seen if each.method == "POST")
    assert stage["stage-create"] is True
    assert stage["location"] == "s3://lake/shop/orders"
    assert commit["requirements"] == [{"type": "assert-create"}]
    assert commit["updates"][0]["action"] == "assign-uuid"
    assert done.entries[0].metadata.location == "s3://lake/shop/orders"


def test_a_creation_whose_answer_was_lost_is_found_by_its_identity(setup: Setup) -> None:
    catalog, other = setup.connect(), setup.connect()
    catalog.create_namespace(("shop",), {})
    updates = table_updates(catalog, ORDERS)
    setup.server.script.append(Fault(COMMIT, applied=1, status=502))
    assert isinstance(make(catalog, "table", ORDERS, updates), Committed)
    assert isinstance(make(other, "table", ORDERS, updates), Conflict)


def test_a_server_that_stages_nothing_creates_at_once(setup: Setup) -> None:
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    setup.server.script.append(Fault("POST .*/tables$", status=501))
    updates = table_updates(catalog, ORDERS, location="s3://lake/shop/orders")
    setup.server.seen.clear()
    assert isinstance(make(catalog, "table", ORDERS, updates), Committed)
    bodies = [each.body for each in setup.server.seen if each.method == "POST"]
    assert [body["stage-create"] for body in bodies] == [True, False]
    assert isinstance(make(catalog, "table", ORDERS, updates), Conflict)


def test_several_tables_are_one_request(setup: Setup) -> None:
    catalog = setup.with_table()
    second = Name(("shop",), "items")
    a_table(catalog, second)
    changes = [Change("table", each, (), (property_set("a", "1"),)) for each in (ORDERS, second)]
    setup.server.seen.clear()
    done = catalog.commit(changes)
    assert isinstance(done, Committed)
    assert [entry.name for entry in done.entries] == [ORDERS, second]
    assert setup.server.paths("POST") == ["POST /v1/transactions/commit"]


@pytest.mark.parametrize("applied", [0, 1])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_lost_answer_to_a_transaction_is_looked_for_in_all_tables(
    setup: Setup, status: int, applied: int
) -> None:
    catalog = setup.with_table()
    second = Name(("shop",), "items")
    a_table(catalog, second)
    changes = [Change("table", each, (), (property_set("a", "1"),)) for each in (ORDERS, second)]
    setup.server.script.append(Fault("POST .*transactions", applied=applied, status=status))
    assert isinstance(catalog.commit(changes), Committed if applied else Unknown)


def test_a_transaction_needs_a_server_that_has_them(setup: Setup) -> None:
    setup.server.config["endpoints"] = [each for each in ENDPOINTS if "transactions" not in each]
    catalog = setup.with_table()
    second = Name(("shop",), "items")
    a_table(catalog, second)
    changes = [Change("table", each, (), (property_set("a", "1"),)) for each in (ORDERS, second)]
    with pytest.raises(CatalogCannot, match=r"POST /v1/\{prefix\}/transactions/commit"):
        catalog.commit(changes)


def test_a_requirement_of_a_change_of_nothing_is_sent_along(setup: Setup) -> None:
    """What is only required must hold at the moment of the others, or the transaction is none."""
    catalog = setup.with_table()
    second = Name(("shop",), "items")
    a_table(catalog, second)
    guard = Change("table", ORDERS, (r.AssertRefSnapshotId("main", None),), (u.RemoveProperties(("never",)),))
    change = Change("table", second, (), (property_set("a", "1"),))
    setup.server.seen.clear()
    assert isinstance(catalog.commit([guard, change]), Committed)
    [sent] = [each.body for each in setup.server.seen if each.method == "POST"]
    assert len(sent["table-changes"]) == 2


@pytest.mark.parametrize("applied", [0, 1])
def test_a_lost_answer_to_a_new_view(setup: Setup, applied: int) -> None:
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {"location": "s3://lake/shop"})
    name = Name(("shop",), "totals")
    updates = view_updates(catalog, name)
    setup.server.script.append(Fault("POST .*/views$", applied=applied, status=502))
    assert isinstance(make(catalog, "view", name, updates), Committed if applied else Unknown)
    if applied:
        assert isinstance(make(catalog, "view", name, updates), Conflict)


def test_no_memory_for_an_answer_is_a_lost_answer(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running out of memory over the answer started the clean-up of a live commit (iceberg #4673)."""
    catalog = setup.with_table()
    change, snapshot_id = appending(catalog)
    take, calls = catalog._entries.take, []

    def short_of_memory(*args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise MemoryError
        return take(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog._entries, "take", short_of_memory)
    done = catalog.commit([change])
    assert isinstance(done, Committed)
    assert as_table(done.entries[0]).current_snapshot_id == snapshot_id
