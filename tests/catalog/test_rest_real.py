"""The client against Iceberg's own REST server, which is not ours: both must mean the same."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog import rest_http
from lakeplane.catalog.catalog import Change, Committed, Conflict
from lakeplane.catalog.names import Name
from lakeplane.catalog.rest import RestCatalog
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    NamespaceNotEmpty,
    NotFound,
)
from lakeplane.iceberg import requirements as r
from lakeplane.iceberg import updates as u
from lakeplane.testing.catalog import ALL, CATALOG_CHECKS, Ability, Check, Subject
from lakeplane.testing.catalog_subject import (
    a_namespace,
    a_table,
    a_view,
    append,
    as_table,
    property_set,
    table_of,
    table_updates,
    view_of,
)
from tests.catalog.rest_fixture import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS, COMMITS = 8, 20

UNABLE: dict[str, type[Exception] | tuple[type[Exception], ...]] = {
    # The protocol has no transaction with views.
    "commits_tables_and_views_at_once": CatalogCannot,
    # This server looks for a lost metadata file for minutes, and says nothing meanwhile.
    "does_not_lose_a_table_without_its_metadata": (CatalogUnavailable, AssertionError),
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    properties = {
        "include-credentials": "true",
        "s3.access-key-id": "vended-key",
        "s3.secret-access-key": "vended-secret",
    }
    with running_server(tmp_path_factory.mktemp("rest"), **properties) as address:
        yield address


@pytest.fixture
def catalog(uri: str) -> Iterator[RestCatalog]:
    made = RestCatalog(uri)
    yield made
    made.close()


@pytest.mark.parametrize("check", CATALOG_CHECKS, ids=lambda each: each.__name__)
def test_keeps_the_contract_of_catalogs(check: Check, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[RestCatalog] = []
    slow = check.__name__ in UNABLE
    options = {"request-timeout-seconds": 2, "retry.max-attempts": 1} if slow else {}
    # A Jetty that refuses a path closes the connection, on a busy machine only after the next request is on
    # its way: the answer to that one is lost, and a catalog says so. So each request has its own connection.
    monkeypatch.setattr(rest_http, "_KEPT_OPEN", 0)

    def connect() -> RestCatalog:
        opened.append(RestCatalog(uri, options))
        return opened[-1]

    subject = Subject(connect, ALL - {Ability.KEEPS_UNKNOWN})
    try:
        if slow:
            with pytest.raises(UNABLE[check.__name__]):
                check(subject)
        else:
            check(subject)
    finally:
        for each in opened:
            each.close()


def test_namespaces_in_namespaces(catalog: RestCatalog) -> None:
    top = a_namespace(catalog)
    inner = (*top, "köln süd")
    catalog.create_namespace(inner, {"owner": "me"})
    assert catalog.namespaces(top) == [inner]
    assert top in catalog.namespaces()
    catalog.change_namespace(inner, {"a": "1"}, ["owner"])
    assert catalog.namespace(inner)["a"] == "1"
    assert "owner" not in catalog.namespace(inner)
    with pytest.raises(AlreadyExists):
        catalog.create_namespace(inner, {})
    name = Name(inner, "t")
    a_table(catalog, name)
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(inner)
    assert catalog.names("table", inner) == [name]
    catalog.drop("table", name)
    catalog.drop_namespace(inner)
    with pytest.raises(NotFound):
        catalog.namespace(inner)


def test_pages_of_a_listing_are_followed(uri: str) -> None:
    catalog = RestCatalog(uri, {"rest-page-size": 2})
    namespace = a_namespace(catalog)
    names = [Name(namespace, f"t{number}") for number in range(5)]
    for name in names:
        a_table(catalog, name)
    assert catalog.names("table", namespace) == names
    assert namespace in catalog.namespaces()
    catalog.close()


def test_a_table_through_its_life(catalog: RestCatalog) -> None:
    namespace = a_namespace(catalog)
    name, new = Name(namespace, "orders"), Name(namespace, "renamed")
    updates = table_updates(catalog, name)
    done = catalog.commit([Change("table", name, (r.AssertCreate(),), updates)])
    assert isinstance(done, Committed)
    again = catalog.commit([Change("table", name, (r.AssertCreate(),), updates)])
    assert isinstance(again, Conflict), "somebody else's table of the same name is not ours"
    assert catalog.exists("table", name)
    requirements, snapshot, snapshot_id = append(table_of(catalog, name))
    change = Change("table", name, requirements, snapshot)
    first, second = catalog.commit([change]), catalog.commit([change])
    assert isinstance(first, Committed)
    assert isinstance(second, Committed), "a second delivery of our own commit is no conflict"
    assert [each.snapshot_id for each in table_of(catalog, name).snapshots] == [snapshot_id]
    catalog.rename("table", name, new)
    assert not catalog.exists("table", name)
    entry = catalog.load("table", new)
    catalog.drop("table", new)
    assert catalog.register("table", name, entry.metadata_location).metadata == entry.metadata


def test_a_load_without_a_change_moves_no_metadata(catalog: RestCatalog) -> None:
    name = Name(a_namespace(catalog), "orders")
    a_table(catalog, name)
    assert catalog.load("table", name) is catalog.load("table", name)


def test_tables_are_committed_together(catalog: RestCatalog) -> None:
    namespace = a_namespace(catalog)
    names = [Name(namespace, each) for each in ("a", "b")]
    for name in names:
        a_table(catalog, name)
    changes = []
    ids = []
    for name in names:
        requirements, updates, snapshot_id = append(table_of(catalog, name))
        changes.append(Change("table", name, requirements, updates))
        ids.append(snapshot_id)
    done = catalog.commit(changes)
    assert isinstance(done, Committed)
    assert [as_table(entry).current_snapshot_id for entry in done.entries] == ids
    assert isinstance(catalog.commit(changes), Committed), "and so when it was delivered twice"


def test_views_are_replaced(catalog: RestCatalog) -> None:
    name = Name(a_namespace(catalog), "totals")
    a_view(catalog, name, "SELECT 1")
    assert view_of(catalog, name).current_version.sql_for("spark") == "SELECT 1"
    assert catalog.names("view", name.namespace) == [name]
    assert catalog.names("table", name.namespace) == []


def test_credentials_that_the_server_vends_are_kept_and_hidden(catalog: RestCatalog) -> None:
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name)
    access = catalog._entries.access(catalog.load("table", name))
    assert access.config["s3.access-key-id"].reveal() == "vended-key"
    assert "vended" not in f"{access!r} {catalog!r} {entry!r}"


def test_every_acknowledged_commit_of_many_writers_is_in_the_history_once(uri: str) -> None:
    first = RestCatalog(uri)
    name = Name(a_namespace(first), "busy")
    a_table(first, name)
    acknowledged: list[int] = []
    lock = threading.Lock()

    def write(_: int) -> None:
        catalog = RestCatalog(uri)
        done = 0
        while done < COMMITS:
            requirements, updates, snapshot_id = append(table_of(catalog, name))
            outcome = catalog.commit([Change("table", name, requirements, updates)])
            if isinstance(outcome, Committed):
                done += 1
                with lock:
                    acknowledged.append(snapshot_id)
            else:
                assert isinstance(outcome, Conflict), outcome
        catalog.close()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(THREADS)))
    table = table_of(first, name)
    assert table.current_snapshot_id is not None
    history = Counter(each.snapshot_id for each in table.ancestors(table.current_snapshot_id))
    assert history == Counter(acknowledged)
    assert len(acknowledged) == THREADS * COMMITS
    first.close()


def test_changes_of_definitions_mean_the_same_to_both(catalog: RestCatalog) -> None:
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name, properties={"format-version": "3"})
    table = as_table(entry)
    assert table.format_version == 3
    requirement = r.AssertTableUuid(table.table_uuid or "")
    done = catalog.commit([Change("table", name, (requirement,), (property_set("a", "1"),))])
    assert isinstance(done, Committed)
    stale = r.AssertTableUuid("00000000-0000-0000-0000-000000000000")
    wrong = catalog.commit([Change("table", name, (stale,), (u.RemoveProperties(("a",)),))])
    assert isinstance(wrong, Conflict)
