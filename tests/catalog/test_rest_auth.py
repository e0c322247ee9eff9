"""Tokens: fetched, renewed before they end, and once more when they are refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakeplane.catalog.catalog import Committed
from lakeplane.errors import AccessDenied, CatalogCannot, CatalogUnavailable
from tests.catalog.rest_server import Fault
from tests.catalog.rest_world import ORDERS, Setup, a_setup, appending

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKENS = "POST /v1/oauth/tokens"
LOGIN = {"credential": "client:s3cr3t-of-client"}


@pytest.fixture
def setup() -> Iterator[Setup]:
    with a_setup() as made:
        made.server.tokens = set()
        yield made


def test_credentials_are_exchanged_for_a_token(setup: Setup) -> None:
    catalog = setup.connect(**LOGIN, scope="PRINCIPAL_ROLE:ALL", audience="lake")
    catalog.namespaces()
    first, *others = setup.server.seen
    assert str(first) == TOKENS
    assert first.body == {
        "grant_type": "client_credentials",
        "client_id": "client",
        "client_secret": "s3cr3t-of-client",
        "scope": "PRINCIPAL_ROLE:ALL",
        "audience": "lake",
    }
    assert "authorization" not in first.headers
    assert {each.headers["authorization"] for each in others} == {"Bearer fetched-token-0"}


def test_a_token_is_renewed_before_it_ends(setup: Setup) -> None:
    catalog = setup.connect(**LOGIN)
    catalog.namespaces()
    setup.clock.time += 3200
    catalog.namespaces()
    assert setup.server.paths().count(TOKENS) == 1
    setup.clock.time += 200
    catalog.namespaces()
    assert setup.server.paths().count(TOKENS) == 2


def test_an_old_token_serves_while_no_new_one_is_to_be_had(setup: Setup) -> None:
    catalog = setup.connect(**LOGIN)
    catalog.namespaces()
    setup.clock.time += 3400
    setup.server.script.extend([Fault("oauth", status=503)] * 10)
    catalog.namespaces()
    catalog.namespaces()
    assert setup.server.paths().count(TOKENS) == 6, "one login, and one renewal in five attempts"
    setup.clock.time += 3400
    with pytest.raises(CatalogUnavailable):
        catalog.namespaces()


def test_a_refused_token_is_renewed_once(setup: Setup) -> None:
    setup.server.config["idempotency-key-lifetime"] = "PT30M"
    catalog = setup.with_table(**LOGIN)
    change, _ = appending(catalog)
    setup.server.seen.clear()
    assert setup.server.tokens is not None
    setup.server.tokens.clear()
    assert isinstance(catalog.commit([change]), Committed)
    commit = "POST /v1/namespaces/shop/tables/orders"
    assert setup.server.paths() == [commit, TOKENS, commit]
    first, _, second = setup.server.seen
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    setup.server.script.extend([Fault("GET .*/orders$", status=401)] * 2)
    setup.server.seen.clear()
    with pytest.raises(AccessDenied):
        catalog.load("table", ORDERS)
    assert setup.server.paths().count(TOKENS) == 1


def test_many_threads_renew_a_token_once(setup: Setup) -> None:
    catalog = setup.connect(**LOGIN)
    catalog.namespaces()
    assert setup.server.tokens is not None
    setup.server.tokens.clear()
    setup.server.seen.clear()
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: catalog.namespaces(), range(8)))) == 8
    assert setup.server.paths().count(TOKENS) == 1


def test_a_token_without_credentials_cannot_be_renewed(setup: Setup) -> None:
    catalog = setup.connect(token="outdated-token")  # noqa: S106
    with pytest.raises(AccessDenied, match="no such token"):
        catalog.namespaces()
    assert len(setup.server.seen) == 1


def test_a_wrong_secret_is_said_and_not_shown(setup: Setup) -> None:
    catalog = setup.connect(credential="client:wrong-s3cr3t")
    with pytest.raises(AccessDenied) as refused:
        catalog.namespaces()
    assert "wrong-s3cr3t" not in str(refused.value)
    assert len(setup.server.seen) == 1


def test_another_oauth_server_gets_the_credential_and_nothing_else(setup: Setup) -> None:
    with a_setup() as oauth:
        oauth.server.tokens = set()
        catalog = setup.connect(
            **LOGIN,
            **{"oauth2-server-uri": f"{oauth.server.uri}/v1/oauth/tokens", "header.X-Key": "for the catalog"},
        )
        setup.server.tokens = {"fetched-token-0"}
        catalog.namespaces()
        [asked] = oauth.server.seen
        assert "x-key" not in asked.headers
        assert TOKENS not in setup.server.paths()
        assert "s3cr3t" not in str(setup.server.seen)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"access_token": "a", "token_type": "mac"}', CatalogCannot),
        (b'{"access_token": "a b\\r\\nEvil: 1", "token_type": "bearer"}', AccessDenied),
        (b'{"access_token": 7, "token_type": "bearer"}', AccessDenied),
    ],
)
def test_tokens_that_cannot_be_sent_are_refused(setup: Setup, body: bytes, error: type[Exception]) -> None:
    setup.server.script.append(Fault("oauth", status=200, body=body))
    with pytest.raises(error):
        setup.connect(**LOGIN).namespaces()


def test_a_token_that_does_not_say_when_it_ends_is_kept(setup: Setup) -> None:
    setup.server.token_lifetime = None
    catalog = setup.connect(**LOGIN)
    catalog.namespaces()
    setup.clock.time += 1e6
    catalog.namespaces()
    assert setup.server.paths().count(TOKENS) == 1
