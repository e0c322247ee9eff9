"""A canary goes everywhere a secret goes, and must come out nowhere."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from lakeplane.errors import InvalidInput, LakeplaneError
from lakeplane.model.location import parse_location
from lakeplane.storage.open import open_recipe, open_router, open_store
from lakeplane.storage.options import user_options
from lakeplane.storage.recipe import Recipe
from lakeplane.storage.remote import RemoteStore
from lakeplane.storage.secret import Secret, mask
from lakeplane.storage.store import Store
from tests.storage.fake_server import Answer, FakeServer
from tests.storage.s3 import KEY, SECRET, TOKEN, s3_options

ROOT = parse_location("s3://lake")
CANARIES = (KEY, SECRET, TOKEN, quote(SECRET, safe=""), quote(TOKEN, safe=""))
AZURE = {
    "adls.sas-token.account.dfs.core.windows.net": f"sv=2026&sig={quote(SECRET, safe='')}",
    "adls.account-key": "Y2FuYXJ5LWtleQ==",
}


def shows(text: str) -> list[str]:
    return [canary for canary in (*CANARIES, "Y2FuYXJ5LWtleQ") if canary in text]


def all_texts(error: BaseException) -> str:
    return "\n".join([*traceback.format_exception(error), repr(error), str(error), repr(vars(error))])


def test_a_secret_does_not_show() -> None:
    secret = Secret(SECRET)
    texts = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>9}",
        f"{secret!r}",
        f"{secret}",
    ]
    texts += [repr({"key": secret}), repr(user_options({"s3.secret-access-key": SECRET})), str(dir(secret))]
    assert [text for text in texts if shows(text)] == []
    assert secret.reveal() == SECRET
    assert secret == Secret(SECRET) != Secret("another")
    assert secret != SECRET
    assert len({secret, Secret(SECRET)}) == 1
    assert copy.deepcopy({"key": secret}) == {"key": secret}
    assert not hasattr(secret, "__dict__")


def test_a_secret_does_not_travel() -> None:
    for thing in (Secret(SECRET), user_options({"s3.secret-access-key": SECRET})):
        with pytest.raises(InvalidInput, match="does not travel"):
            pickle.dumps(thing)


def test_secrets_are_cut_out_of_texts() -> None:
    text = f"GET /?token={quote(SECRET, safe='')} key {SECRET}, {TOKEN}; ab"
    assert mask(text, [Secret(SECRET), Secret(TOKEN), Secret("ab")]) == "GET /?token=*** key ***, ***; ab"


def stores(fake: FakeServer) -> Iterator[Store]:
    yield open_store(ROOT, s3_options(fake.url))
    yield open_router([ROOT], vended={ROOT / "t": s3_options(fake.url)}, elsewhere={"s3"})
    yield open_store(parse_location("abfss://c@account.dfs.core.windows.net/t"), AZURE)
    yield open_store(parse_location("gs://lake"), {"gcs.oauth2.token": SECRET})


def test_a_store_shows_no_secret_and_does_not_travel(fake: FakeServer) -> None:
    """A Spark closure that holds a store would carry the keys to every executor and into event logs."""
    for store in stores(fake):
        assert not shows(f"{store!r} {store}")
        if isinstance(store, RemoteStore):
            assert not shows(repr(vars(store)))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(LakeplaneError, match="recipe"):
                pickle.dumps(store, protocol)


def test_a_recipe_has_secrets_by_consent_only(fake: FakeServer) -> None:
    for store in stores(fake):
        recipe = store.recipe()
        assert not recipe.has_secrets
        assert not shows(repr(recipe) + str(pickle.dumps(recipe)))
        consented = store.recipe(with_secrets=True)
        assert not shows(repr(consented) + str(consented))
        again: Recipe = pickle.loads(pickle.dumps(consented))  # noqa: S301  # our own
        assert again == consented
        assert again.has_secrets


def test_a_store_made_from_a_recipe_works(fake: FakeServer) -> None:
    store = open_store(ROOT, s3_options(fake.url))
    for recipe, keys in ((store.recipe(with_secrets=True), KEY), (store.recipe(), "")):
        if keys:
            open_recipe(recipe).put(ROOT / "x", b"x", if_absent=True)
            assert keys in fake.requests[-1].headers["authorization"]
        assert dict(recipe.parts[0].options)["s3.endpoint"] == fake.url


def error_of(do: Callable[[], object]) -> Exception | None:
    try:
        do()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is looked at
        return error
    return None


def test_errors_and_logs_show_no_secret(
    fake: FakeServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 repeats tokens in its errors, and libraries quote the requests that failed."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("time.sleep", lambda _: None)
    body = f"<Error><Code>ExpiredToken</Code><Message>{SECRET}</Message><Token-0>{TOKEN}</Token-0></Error>"
    store = open_store(ROOT, s3_options(fake.url, max_retries="0", request_timeout_seconds="1"))
    at = ROOT / "t/file"
    for status in (400, 403, 404, 409, 412, 500, 503):
        for do in (
            lambda: store.read(at),
            lambda: store.stat(at),
            lambda: store.put(at, b""),
            lambda: store.put(at, b"", if_match="x"),
            lambda: list(store.files(at)),
            lambda: store.folders(at),
            lambda: store.delete(at),
        ):
            fake.answers = [Answer(status, body.encode())] * 8
            error = error_of(do)
            if error is not None:
                assert isinstance(error, LakeplaneError)
                assert not shows(all_texts(error))
                assert not shows(str(pickle.dumps(error)))
                logging.getLogger("app").error("failed", exc_info=error)
    assert "ExpiredToken" in caplog.text
    assert not shows(caplog.text)


def test_a_failing_vendor_of_credentials_shows_nothing(fake: FakeServer) -> None:
    def vend() -> dict[str, str]:
        raise RuntimeError(f"the catalog said {SECRET}")

    expired = {**s3_options(fake.url), "s3.session-token-expires-at-ms": "1000"}
    store = open_store(ROOT, vended=expired, vend=vend)
    store.put(ROOT / "x", b"")
    with pytest.raises(LakeplaneError, match="no credentials") as caught:
        store.put(ROOT / "x", b"")
    assert not shows(all_texts(caught.value))


def test_options_that_are_refused_show_nothing() -> None:
    for options in (
        {"s3.secret-acess-key": SECRET},
        {"s3.secret-access-key": SECRET},
        {"s3.secret-access-key": SECRET, "s3.access-key-id": KEY, "s3.endpoint": f"ftp://{KEY}:{TOKEN}@host"},
        {"adls.client-secret": SECRET},
        {"gcs.oauth2.token": SECRET, "gcs.service.host": "not a url"},
    ):
        scheme = next(iter(options)).partition(".")[0]
        at = {"s3": "s3://lake", "adls": "abfss://c@a.dfs.core.windows.net", "gcs": "gs://lake"}[scheme]
        with pytest.raises(LakeplaneError) as caught:
            open_store(parse_location(at), options)
        assert not shows(all_texts(caught.value))
