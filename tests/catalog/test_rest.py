"""What is asked of a REST server, and what its answers become."""

from __future__ import annotations

import copy
import logging
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.catalog.names import Name
from lakeplane.catalog.rest import RestCatalog
from lakeplane.catalog.rest_paths import DEFAULT_ENDPOINTS
from lakeplane.errors import (
    AccessDenied,
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    InvalidInput,
    InvalidLocation,
    InvalidMetadata,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
    OutcomeUnknown,
)
from lakeplane.model.location import parse_location
from lakeplane.storage.secret import Secret
from lakeplane.testing.catalog_subject import a_table, as_table
from tests.catalog.rest_server import ENDPOINTS, Fault
from tests.catalog.rest_world import ORDERS, Setup, a_setup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOAD = "GET /v1/namespaces/shop/tables/orders"
CANARY = "canary-s3cr3t/+="


@pytest.fixture
def setup() -> Iterator[Setup]:
    with a_setup() as made:
        yield made


def test_nothing_is_sent_before_the_first_question(setup: Setup) -> None:
    catalog = setup.connect(warehouse="wh")
    assert setup.server.seen == []
    catalog.namespaces()
    assert [str(each) for each in setup.server.seen] == ["GET /v1/config", "GET /v1/namespaces"]
    assert setup.server.seen[0].query == {"warehouse": "wh"}
    catalog.namespaces()
    assert len(setup.server.seen) == 3, "the configuration is asked for once"


def test_a_server_says_where_its_catalog_is(setup: Setup) -> None:
    setup.server.config["overrides"] = {"prefix": "in/here"}
    catalog = setup.connect(prefix="not/there")
    catalog.namespaces()
    assert setup.server.paths() == ["GET /v1/in/here/namespaces"]


def test_an_endpoint_that_is_not_offered_is_named(setup: Setup) -> None:
    setup.server.config["endpoints"] = [each for each in ENDPOINTS if "rename" not in each]
    catalog = setup.with_table()
    with pytest.raises(CatalogCannot, match=r"POST /v1/\{prefix\}/tables/rename"):
        catalog.rename("table", ORDERS, Name(("shop",), "new"))


def test_a_server_that_does_not_tell_has_what_the_spec_assumes(setup: Setup) -> None:
    del setup.server.config["endpoints"]
    catalog = setup.with_table()
    assert len(DEFAULT_ENDPOINTS) == 13
    assert catalog.exists("table", ORDERS)
    assert LOAD in setup.server.paths(), "HEAD is not among them"
    with pytest.raises(CatalogCannot, match="views"):
        catalog.names("view", ("shop",))
    assert setup.connect(**{"view-endpoints-supported": True}).names("view", ("shop",)) == []


def test_names_are_encoded(setup: Setup) -> None:
    catalog = setup.connect()
    namespace = ("a b", "c+d&e", "ü#;")
    catalog.create_namespace(namespace, {})
    name = Name(namespace, "t;=,@(日)")
    a_table(catalog, name)
    assert catalog.load("table", name).name == name
    assert catalog.names("table", namespace) == [name]
    assert catalog.namespaces(()) == [("a b",)]
    path = "/v1/namespaces/a%20b%1Fc%2Bd%26e%1F%C3%BC%23%3B/tables/t%3B%3D%2C%40%28%E6%97%A5%29"
    assert f"GET {path}" in setup.server.paths()


@pytest.mark.parametrize("part", ["..", ".", "", "a\x1fb", "\ud800"])
def test_names_that_would_lead_elsewhere_are_not_sent(setup: Setup, part: str) -> None:
    catalog = setup.connect()
    catalog.namespaces()
    before = len(setup.server.seen)
    with pytest.raises(InvalidInput):
        catalog.namespace((part, "x"))
    if part != "a\x1fb":
        with pytest.raises(InvalidInput):
            catalog.load("table", Name(("x",), part))
    assert len(setup.server.seen) == before


def test_pages_are_followed_to_the_end(setup: Setup) -> None:
    catalog = setup.with_table(**{"rest-page-size": "2"})
    for number in range(4):
        a_table(catalog, Name(("shop",), f"t{number}"))
    setup.server.seen.clear()
    assert len(catalog.names("table", ("shop",))) == 5
    tokens = [each.query.get("pageToken") for each in setup.server.seen]
    assert tokens == ["", "2", "4"]


def test_pages_that_go_in_circles_are_left(setup: Setup) -> None:
    catalog = setup.with_table()
    body = b'{"identifiers": [], "next-page-token": "x"}'
    setup.server.script.extend([Fault("GET .*/tables$", status=200, body=body)] * 3)
    with pytest.raises(InvalidMetadata, match="same page"):
        catalog.names("table", ("shop",))


def test_a_table_that_is_known_is_not_sent_again(setup: Setup) -> None:
    catalog = setup.with_table()
    first = catalog.load("table", ORDERS)
    assert catalog.load("table", ORDERS) is first
    assert all("if-none-match" in each.headers for each in setup.server.seen)
    other = setup.connect()
    a_table(other, Name(("shop",), "else"))
    other.drop("table", ORDERS)
    with pytest.raises(NotFound):
        catalog.load("table", ORDERS)
    a_table(other, ORDERS)
    assert catalog.load("table", ORDERS).metadata != first.metadata
    assert "if-none-match" not in setup.server.seen[-1].headers


def test_snapshots_can_be_loaded_by_refs_only(setup: Setup) -> None:
    catalog = setup.with_table(**{"snapshot-loading-mode": "refs"})
    catalog.load("table", ORDERS)
    assert setup.server.seen[-1].query == {"snapshots": "refs"}


def test_errors_of_the_server_are_errors_of_the_tree(setup: Setup) -> None:
    catalog = setup.with_table()
    name = Name(("shop",), "none")
    expected: list[tuple[type[LakeplaneError], Callable[[], object]]] = [
        (NotFound, lambda: catalog.load("table", name)),
        (NotFound, lambda: catalog.drop("table", name)),
        (NotFound, lambda: catalog.rename("table", name, Name(("shop",), "x"))),
        (NotFound, lambda: catalog.namespace(("none",))),
        (NotFound, lambda: catalog.names("table", ("none",))),
        (AlreadyExists, lambda: catalog.create_namespace(("shop",), {})),
        (NamespaceNotEmpty, lambda: catalog.drop_namespace(("shop",))),
        (InvalidInput, lambda: catalog.change_namespace(("shop",), {"a": "1"}, ["a"])),
        (
            AlreadyExists,
            lambda: catalog.register("table", ORDERS, catalog.load("table", ORDERS).metadata_location),
        ),
    ]
    for error, do in expected:
        with pytest.raises(error):
            do()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidInput),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (406, CatalogCannot),
        (419, AccessDenied),
        (501, CatalogCannot),
        (500, CatalogUnavailable),
        (307, CatalogUnavailable),
    ],
)
def test_statuses_are_errors_of_the_tree(setup: Setup, status: int, error: type[LakeplaneError]) -> None:
    catalog = setup.with_table()
    setup.server.script.extend([Fault(LOAD, status=status)] * 9)
    with pytest.raises(error):
        catalog.load("table", ORDERS)


def test_a_404_of_a_proxy_does_not_say_that_there_is_no_table(setup: Setup) -> None:
    catalog = setup.with_table()
    setup.server.script.append(Fault(LOAD, status=404, body=b"<html>not here</html>"))
    with pytest.raises(CatalogUnavailable):
        catalog.load("table", ORDERS)


@pytest.mark.parametrize(
    "fault",
    [Fault(LOAD, status=503), Fault(LOAD, status=429), Fault(LOAD, cut=True), Fault(LOAD, reset=True)],
    ids=["503", "429", "cut", "reset"],
)
def test_reading_is_tried_again_with_growing_pauses(setup: Setup, fault: Fault) -> None:
    catalog = setup.with_table()
    setup.server.script.extend([fault] * 3)
    catalog.load("table", ORDERS)
    assert setup.server.paths() == [LOAD] * 4
    assert len(setup.clock.slept) == 3
    assert all(0.1 * 2**n <= pause <= 0.2 * 2**n for n, pause in enumerate(setup.clock.slept))


def test_reading_is_given_up_in_the_end(setup: Setup) -> None:
    catalog = setup.with_table(**{"retry.max-attempts": 3})
    setup.server.script.extend([Fault(LOAD, status=503)] * 9)
    with pytest.raises(CatalogUnavailable, match="503"):
        catalog.load("table", ORDERS)
    assert setup.server.paths() == [LOAD] * 3


@pytest.mark.parametrize("wait", ["7", "Wed, 15 Jan 2027 08:00:07 GMT"])
def test_the_server_says_when_to_come_back(setup: Setup, wait: str) -> None:
    catalog = setup.with_table()
    setup.clock.time = 1_800_000_000.0
    setup.server.script.append(Fault(LOAD, status=503, headers={"Retry-After": wait}))
    catalog.load("table", ORDERS)
    assert setup.clock.slept == [7.0]


def test_nobody_waits_for_hours(setup: Setup) -> None:
    catalog = setup.with_table()
    setup.server.script.append(Fault(LOAD, status=503, headers={"Retry-After": "7200"}))
    with pytest.raises(CatalogUnavailable):
        catalog.load("table", ORDERS)
    assert setup.clock.slept == []


WRITES: dict[str, tuple[str, Callable[[RestCatalog], object]]] = {
    "create namespace": ("POST .*/namespaces$", lambda c: c.create_namespace(("new",), {"a": "1"})),
    "change namespace": ("POST .*/properties$", lambda c: c.change_namespace(("shop",), {"a": "1"}, ["b"])),
    "drop namespace": ("DELETE .*/empty$", lambda c: c.drop_namespace(("empty",))),
    "drop": ("DELETE", lambda c: c.drop("table", ORDERS)),
    "rename": ("POST .*/rename$", lambda c: c.rename("table", ORDERS, Name(("shop",), "new"))),
    "register": (
        "POST .*/register$",
        lambda c: c.register("table", Name(("shop",), "new"), c.load("table", ORDERS).metadata_location),
    ),
}


@pytest.mark.parametrize("applied", [0, 1])
@pytest.mark.parametrize("case", WRITES.values(), ids=WRITES)
def test_a_lost_answer_to_a_write_is_looked_for(
    setup: Setup, case: tuple[str, Callable[[RestCatalog], object]], applied: int
) -> None:
    pattern, do = case
    catalog = setup.with_table()
    catalog.create_namespace(("empty",), {})
    setup.server.script.append(Fault(pattern, applied=applied, status=502))
    setup.server.seen.clear()
    if applied:
        do(catalog)
    else:
        with pytest.raises(OutcomeUnknown):
            do(catalog)
    writes = [each for each in setup.server.seen if each.method in ("POST", "DELETE")]
    assert len(writes) == 1, "it is not sent again"


RETRIED = ("drop", "rename")


@pytest.mark.parametrize("what", RETRIED)
def test_a_repeated_request_is_not_refused_for_what_the_first_one_did(setup: Setup, what: str) -> None:
    """The server keeps keys, and has lost this one: its second answer is that there is no such table."""
    setup.server.config["idempotency-key-lifetime"] = "PT30M"
    pattern, do = WRITES[what]
    catalog = setup.with_table()
    setup.server.script.append(Fault(pattern, applied=1, status=503))
    do(catalog)
    writes = [each for each in setup.server.seen if re.search(pattern, str(each))]
    assert len(writes) == 2
    assert len({each.headers["idempotency-key"] for each in writes}) == 1
    with pytest.raises(NotFound):
        catalog.load("table", ORDERS)


def test_a_rename_that_was_delivered_twice_has_happened(setup: Setup) -> None:
    """A proxy sent it twice, and the second answer was that there is no such table."""
    catalog, new = setup.with_table(), Name(("shop",), "new")
    uuid = as_table(catalog.load("table", ORDERS)).table_uuid
    setup.server.script.append(Fault("POST .*/rename$", applied=2))
    catalog.rename("table", ORDERS, new)
    assert as_table(catalog.load("table", new)).table_uuid == uuid


def test_a_rename_onto_another_table_is_refused(setup: Setup) -> None:
    catalog, new = setup.with_table(), Name(("shop",), "new")
    a_table(catalog, new)
    with pytest.raises(AlreadyExists):
        catalog.rename("table", ORDERS, new)
    other = setup.connect()
    other.drop("table", ORDERS)
    with pytest.raises(NotFound):
        catalog.rename("table", ORDERS, new)


def test_a_registration_that_was_delivered_twice_has_happened(setup: Setup) -> None:
    catalog, new = setup.with_table(), Name(("shop",), "new")
    at = catalog.load("table", ORDERS).metadata_location
    setup.server.script.append(Fault("POST .*/register$", applied=2))
    assert catalog.register("table", new, at).metadata_location == at
    with pytest.raises(AlreadyExists):
        catalog.register("table", new, at)


def test_dropping_purges_nothing(setup: Setup) -> None:
    catalog = setup.with_table()
    catalog.drop("table", ORDERS)
    assert setup.server.seen[-1].query == {"purgeRequested": "false"}


def test_no_redirect_is_followed(setup: Setup) -> None:
    with a_setup() as stranger:
        catalog = setup.with_table(token=CANARY)
        target = f"{stranger.server.uri}/v1/config"
        for status in (301, 302, 303, 307, 308):
            setup.server.script.append(Fault(LOAD, status=status, headers={"Location": target}))
            with pytest.raises(CatalogUnavailable, match="elsewhere"):
                catalog.load("table", ORDERS)
        assert stranger.server.seen == []


def test_an_answer_is_no_larger_than_is_accepted(setup: Setup) -> None:
    catalog = setup.with_table(**{"response-limit-bytes": 100_000})
    setup.server.script.append(Fault(LOAD, status=200, body=b" " * 200_000))
    with pytest.raises(CatalogUnavailable, match="100000 bytes"):
        catalog.load("table", ORDERS)
    assert setup.server.paths() == [LOAD], "it would be as large again"


def test_an_answer_that_trickles_is_left(setup: Setup) -> None:
    catalog = setup.with_table(**{"response-timeout-seconds": "0.2", "retry.max-attempts": 1})
    world = setup.clock.world()
    ticks = iter(range(10_000))
    catalog._session._wire._world = world._replace(monotonic=lambda: next(ticks) / 10)
    setup.server.script.append(Fault(LOAD, status=200, body=b" " * 500, drip=True))
    with pytest.raises(CatalogUnavailable, match="slowly"):
        catalog.load("table", ORDERS)


POISON = {
    "uri": "http://169.254.169.254/",
    "oauth2-server-uri": "http://127.0.0.1:1/steal",
    "token": "poison",
    "credential": "poison",
    "header.Authorization": "poison",
    "io-impl": "os.system",
    "py-io-impl": "os.system",
    "rest.client.class": "os.system",
    "auth.impl": "os.system",
    "rest.sigv4-enabled": "true",
    "ssl.cabundle": "/etc/passwd",
    "allow-plain-http": "true",
    "allow-local-files": "true",
    "extra-locations": "file:///etc",
    "s3.proxy-uri": "http://127.0.0.1:1",
    "s3.profile-name": "admin",
    "s3.anonymous": "true",
}


def test_a_poisoned_configuration_changes_nothing(setup: Setup) -> None:
    setup.server.config["defaults"] = dict(POISON)
    setup.server.config["overrides"] = dict(POISON)
    catalog = setup.with_table(token=CANARY)
    catalog.load("table", ORDERS)
    assert {each.headers["authorization"] for each in setup.server.seen} == {f"Bearer {CANARY}"}
    settings, config = catalog._session.settings, catalog._session.config
    assert settings.plain == {}
    assert set(config.storage_defaults) == {"s3.proxy-uri", "s3.profile-name", "s3.anonymous"}


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254", "file:///etc", "http://0xa9fea9fe/"])
def test_keys_are_not_sent_where_a_poisoned_table_says(setup: Setup, endpoint: str) -> None:
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    a_table(catalog, ORDERS, location="s3://lake/shop/orders")
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.endpoint": endpoint}
    setup.server.extras = {"config": keys}
    other = setup.connect()
    with pytest.raises(LakeplaneError):
        other.store_for(other.load("table", ORDERS))


@pytest.mark.parametrize("prefix", ["../x", "a/../b", "a//b", "a?b", "a#b", "%2e%2e/x", "a b", "x/%00"])
def test_a_prefix_that_leads_elsewhere_is_refused(setup: Setup, prefix: str) -> None:
    setup.server.config["overrides"] = {"prefix": prefix}
    with pytest.raises(InvalidMetadata, match="prefix"):
        setup.connect().namespaces()


@pytest.mark.parametrize("separator", ["/", "%2F", "%25", "", "%", "a/b", "?"])
def test_a_separator_that_cannot_separate_is_refused(setup: Setup, separator: str) -> None:
    setup.server.config["overrides"] = {"namespace-separator": separator}
    with pytest.raises(InvalidMetadata, match="separator"):
        setup.connect().namespaces()


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("ftp://host", {}),
        ("https://", {}),
        ("https://user:secret@host", {}),
        ("https://host?token=x", {}),
        ("https://169.254.169.254", {}),
        ("https://host", {"tokn": "x"}),
        ("https://host", {"s3.acces-key-id": "x"}),
        ("https://host", {"header.X-A": "a\r\nEvil: yes"}),
        ("https://host", {"header.Host": "x"}),
        ("https://host", {"retry.max-attempts": "-1"}),
        ("https://host", {"snapshot-loading-mode": "some"}),
        ("http://host", {"token": "x"}),
        ("https://host", {"credential": "a:b", "oauth2-server-uri": "http://host/token"}),
    ],
)
def test_options_that_cannot_be_meant_are_refused(uri: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        RestCatalog(uri, options)
    assert "secret" not in str(refused.value)


def test_an_address_on_this_machine_may_be_plain() -> None:
    for uri in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        RestCatalog(uri, token="x")  # noqa: S106 - goes nowhere
    RestCatalog("http://rest:8181", token="x", allow_plain_http=True)  # noqa: S106


def test_no_secret_is_seen(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    given: dict[str, Any] = {
        "token": CANARY,
        "credential": f"me:{CANARY}",
        "header.X-Key": CANARY,
        "s3.secret-access-key": CANARY,
        "s3.access-key-id": CANARY,
    }
    catalog = setup.with_table(**given)
    vended = {"s3.secret-access-key": f"vended-{CANARY}", "s3.access-key-id": "k", "token": f"table-{CANARY}"}
    setup.server.extras = {"config": vended, "storage-credentials": [{"prefix": "s3", "config": vended}]}
    fresh = setup.connect(**given)
    entry = fresh.load("table", ORDERS)
    said = f'{{"error": {{"message": "you sent {CANARY}", "type": "X", "code": 400}}}}'.encode()
    setup.server.script.append(Fault(LOAD, status=400, body=said))
    with pytest.raises(InvalidInput, match=r"you sent \*\*\*") as refused:
        catalog.load("table", ORDERS)
    shown = [
        *map(repr, (catalog, fresh, entry, fresh._session, fresh._session.settings, fresh._session.config)),
        repr(fresh._entries._kept),
        repr(fresh._session._tokens),
        str(vars(fresh)),
        str(refused.value),
        repr(refused.value),
        pickle.dumps(refused.value).decode("latin-1"),
        caplog.text,
    ]
    assert [text for text in shown if "s3cr3t" in text] == []
    with pytest.raises(InvalidInput):
        pickle.dumps(catalog)
    with pytest.raises(InvalidInput):
        copy.deepcopy(catalog)


def test_a_catalog_without_secrets_travels(setup: Setup) -> None:
    setup.with_table()
    there = pickle.loads(pickle.dumps(setup.opened[0]))  # noqa: S301 - our own
    assert there.load("table", ORDERS).name == ORDERS
    there.close()


def test_headers_of_the_user_are_sent(setup: Setup) -> None:
    catalog = setup.with_table(
        **{"header.X-Tenant": "t1", "header.x-iceberg-access-delegation": "remote-signing"}
    )
    catalog.load("table", ORDERS)
    headers = setup.server.seen[-1].headers
    assert headers["x-tenant"] == "t1"
    assert headers["x-iceberg-access-delegation"] == "remote-signing"


def test_a_token_for_the_table_is_used_for_it(setup: Setup) -> None:
    catalog = setup.with_table(token="general")  # noqa: S106
    setup.server.extras = {"config": {"token": "for-the-table"}}
    setup.server.entries["tables"]["shop", "orders"] = (
        setup.server.entries["tables"]["shop", "orders"][0],
        "s3://lake/shop/orders/metadata/00009.metadata.json",
    )
    catalog.load("table", ORDERS)
    catalog.load("table", ORDERS)
    catalog.namespaces()
    sent = [each.headers["authorization"] for each in setup.server.seen]
    assert sent == ["Bearer general", "Bearer for-the-table", "Bearer general"]


def test_the_longest_prefix_wins_and_credentials_do_not_mix(setup: Setup) -> None:
    from lakeplane.catalog.rest_storage import _vended  # noqa: PLC0415

    setup.server.extras = {
        "config": {
            "s3.access-key-id": "config",
            "s3.session-token": "of-config",
            "client.region": "eu",
            "io-impl": "x",
        },
        "storage-credentials": [
            {"prefix": "s3", "config": {"s3.access-key-id": "any"}},
            {"prefix": "s3://lake/shop", "config": {"s3.access-key-id": "shop", "s3.secret-access-key": "s"}},
            {"prefix": "s3://lake/sho", "config": {"s3.access-key-id": "neighbour"}},
        ],
    }
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    entry = a_table(catalog, ORDERS, location="s3://lake/shop/orders")
    catalog.load("table", ORDERS)
    setup.server.entries["tables"]["shop", "orders"] = (entry.metadata, "s3://lake/other.metadata.json")
    catalog.load("table", ORDERS)
    access = catalog._entries.access(entry)
    found = _vended(catalog._session, access, parse_location("s3://lake/shop/orders"))
    assert found == {
        "s3.region": "eu",
        "s3.access-key-id": Secret("shop"),
        "s3.secret-access-key": Secret("s"),
    }
    elsewhere = _vended(catalog._session, access, parse_location("s3://lake/shopping"))
    assert elsewhere["s3.access-key-id"] == Secret("any")


def test_credentials_that_end_are_asked_for_again(setup: Setup) -> None:
    ends = int((setup.clock.time + 600) * 1000)
    vended = {
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.session-token-expires-at-ms": str(ends),
    }
    setup.server.extras = {"config": vended}
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    a_table(catalog, ORDERS, location="s3://lake/shop/orders")
    entry = setup.connect().load("table", ORDERS)
    catalog._entries.forget("table", ORDERS)
    catalog.load("table", ORDERS)
    setup.server.seen.clear()
    catalog.store_for(entry)
    assert setup.server.paths() == [], "they are good for a while"
    setup.clock.time += 400
    catalog.store_for(entry)
    assert setup.server.paths() == [LOAD]
    assert "if-none-match" not in setup.server.seen[-1].headers


def test_files_of_this_machine_are_not_opened_for_a_stranger(setup: Setup) -> None:
    catalog = setup.connect()
    catalog.create_namespace(("shop",), {})
    entry = a_table(catalog, ORDERS, location="file:///etc")
    settings = catalog._session.settings
    assert settings.allow_local_files, "the server runs on this machine"
    remote = RestCatalog("https://somewhere.example")
    remote._session._config, remote._entries = catalog._session.config, catalog._entries
    with pytest.raises(InvalidLocation, match="files of this machine"):
        remote.store_for(entry)


def test_a_default_location_is_the_servers_choice(setup: Setup) -> None:
    catalog = setup.with_table()
    name = Name(("shop",), "new")
    assert str(catalog.default_location("table", name)) == "memory://store/wh/shop/new"
    assert not catalog.exists("table", name), "asking makes nothing"
    setup.server.namespaces[("shop",)]["location"] = "s3://lake/shop"
    assert str(catalog.default_location("view", name)) == "s3://lake/shop/new"
    setup.server.script.append(Fault("POST .*/tables$", status=501))
    assert str(catalog.default_location("table", name)) == "s3://lake/shop/new"


def test_two_catalogs_keep_their_tokens_apart(setup: Setup) -> None:
    with a_setup() as second:
        one, two = setup.connect(token="one"), second.connect(token="two")  # noqa: S106
        for _ in range(2):
            one.namespaces()
            two.namespaces()
        assert {each.headers["authorization"] for each in setup.server.seen} == {"Bearer one"}
        assert {each.headers["authorization"] for each in second.server.seen} == {"Bearer two"}
