"""What answers mean: against S3's protocol on a good day, and against a server that has bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeplane.errors import (
    AccessDenied,
    FileChanged,
    FileExists,
    FileMissing,
    InvalidLocation,
    LimitExceeded,
    NoSpace,
    OutcomeUnknown,
    StorageError,
    StoreCannot,
)
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.open import open_store
from lakeplane.storage.probe import require_put_if_absent
from lakeplane.storage.remote import COLLISIONS
from lakeplane.storage.store import Range, Store
from tests.storage.fake_server import Answer, FakeServer
from tests.storage.s3 import S3, TOKEN, s3_options

ROOT = parse_location("s3://lake")
AT = ROOT / "t/v1.metadata.json"


def store_on(fake: FakeServer, **more: str) -> Store:
    return open_store(ROOT, s3_options(fake.url, request_timeout_seconds="1", **more))


def create(store: Store) -> str | None:
    return store.put(AT, b"ours", if_absent=True)


def update(store: Store) -> str | None:
    return store.put(AT, b"ours", if_match='"before"')


conditional = pytest.mark.parametrize("put", [create, update])
Put = Callable[[Store], str | None]


@conditional
@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 0, -1])
def test_a_lost_answer_is_unknown_and_the_write_is_not_repeated(
    put: Put, status: int, fake: FakeServer
) -> None:
    """Others took a 503 for "not done" and deleted the files of a commit that had landed."""
    fake.answers = [Answer(status)]
    with pytest.raises(OutcomeUnknown) as caught:
        put(store_on(fake))
    assert caught.value.source == AT.text
    assert fake.sent("PUT") == 1
    assert not isinstance(caught.value, StorageError)


@conditional
@pytest.mark.parametrize("status", [500, 503, 504, 0])
def test_a_write_that_landed_without_an_answer_is_recognised(put: Put, status: int, fake: FakeServer) -> None:
    fake.answers = [Answer(status, applies=True)]
    assert put(store_on(fake)) == '"stored"'
    assert fake.sent("PUT") == 1


@conditional
def test_a_request_that_a_proxy_delivered_twice_has_not_lost(put: Put, fake: FakeServer) -> None:
    """The second delivery fails on the first one: a conflict with oneself."""
    fake.answers = [Answer(412, applies=True)]
    assert put(store_on(fake)) == '"stored"'


@conditional
def test_a_success_without_an_etag_is_recognised(put: Put, fake: FakeServer) -> None:
    fake.answers = [Answer(200, applies=True)]
    assert put(store_on(fake)) == '"stored"'


@pytest.mark.parametrize("status", [503, 0])
def test_an_unknown_create_over_somebody_elses_file_has_lost(status: int, fake: FakeServer) -> None:
    fake.files["/lake/t/v1.metadata.json"] = (b"theirs", {"x-amz-meta-lakeplaneput": "another"})
    fake.answers = [Answer(status)]
    with pytest.raises(FileExists):
        create(store_on(fake))


def test_an_unknown_create_over_a_file_of_unknown_origin_stays_unknown(fake: FakeServer) -> None:
    """A store that does not keep metadata cannot tell whose file it is."""
    fake.files["/lake/t/v1.metadata.json"] = (b"?", {})
    fake.answers = [Answer(503)]
    with pytest.raises(OutcomeUnknown):
        create(store_on(fake))


@conditional
def test_a_lost_race_is_told_as_such(put: Put, fake: FakeServer) -> None:
    fake.files["/lake/t/v1.metadata.json"] = (b"theirs", {"x-amz-meta-lakeplaneput": "another"})
    fake.answers = [Answer(412)]
    with pytest.raises(FileExists if put is create else FileChanged):
        put(store_on(fake))
    assert fake.sent("PUT") == 1


def test_an_update_of_what_is_gone_has_lost(fake: FakeServer) -> None:
    fake.answers = [Answer(404, b"<Error><Code>NoSuchKey</Code></Error>")]
    with pytest.raises(FileChanged):
        update(store_on(fake))


@conditional
def test_writes_that_meet_are_sent_again(put: Put, fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers 409 when conditional writes meet. Nothing was decided: it is not a lost race."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    conflict = Answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
    fake.answers = [conflict, conflict]
    assert put(store_on(fake)) == '"fresh"'
    assert fake.sent("PUT") == 3
    fake.requests.clear()
    fake.answers = [conflict] * (COLLISIONS + 1)
    with pytest.raises(StorageError, match="got in the way") as caught:
        put(store_on(fake))
    assert not isinstance(caught.value, FileExists | FileChanged)
    assert fake.sent("PUT") == COLLISIONS + 1


@conditional
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "InvalidRequest", StorageError),
        (401, "", AccessDenied),
        (403, "AccessDenied", AccessDenied),
        (413, "EntityTooLarge", StorageError),
        (429, "SlowDown", StorageError),
        (501, "NotImplemented", StoreCannot),
        (507, "XMinioStorageFull", NoSpace),
        (302, "", StorageError),
        (307, "", StorageError),
    ],
)
def test_a_refused_write_certainly_did_not_happen(
    put: Put, status: int, code: str, error: type, fake: FakeServer
) -> None:
    body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    fake.answers = [Answer(status, body, {"Location": f"{fake.url}/elsewhere"})]
    with pytest.raises(StorageError) as caught:
        put(store_on(fake))
    assert type(caught.value) is error
    assert str(status) in str(caught.value)
    assert code in str(caught.value)
    assert fake.sent("PUT") == 1
    assert not [request for request in fake.requests if "elsewhere" in request.path], "followed a redirect"


@conditional
def test_a_wrong_region_is_told_as_such(put: Put, fake: FakeServer) -> None:
    fake.answers = [Answer(301, b"<Error><Code>PermanentRedirect</Code></Error>")]
    with pytest.raises(StorageError, match="check region"):
        put(store_on(fake))


@conditional
def test_without_a_connection_nothing_happened(put: Put) -> None:
    store = open_store(ROOT, s3_options("http://127.0.0.1:1"))
    with pytest.raises(StorageError, match="no connection"):
        put(store)


def test_a_plain_write_is_repeated_and_a_conditional_one_says_so_to_the_server(fake: FakeServer) -> None:
    store = store_on(fake)
    fake.answers = [Answer(503), Answer(500)]
    store.put(AT, b"x")
    assert fake.sent("PUT") == 3
    fake.requests.clear()
    create(store)
    update(store)
    sent = [request.headers for request in fake.requests if request.method == "PUT"]
    assert [(headers.get("if-none-match"), headers.get("if-match")) for headers in sent] == [
        ("*", None),
        (None, '"before"'),
    ]


def test_a_plain_write_that_was_repeated_in_vain_is_unknown(fake: FakeServer) -> None:
    """The last answer is a refusal, but the first request may have been carried out."""
    store = store_on(fake, max_retries="1")
    fake.answers = [Answer(503), Answer(400)]
    with pytest.raises(OutcomeUnknown):
        store.put(AT, b"x")
    fake.answers = [Answer(400)]
    with pytest.raises(StorageError):
        store.put(AT, b"x")


@pytest.mark.parametrize("status", [500, 503, 429, 0])
def test_reads_are_repeated(status: int, fake: FakeServer) -> None:
    fake.files["/lake/t/v1.metadata.json"] = (b"data", {})
    fake.answers = [Answer(status), Answer(status)]
    assert store_on(fake).read(AT) == b"data"
    assert fake.sent("GET") == 3


def test_reads_give_up(fake: FakeServer) -> None:
    fake.answers = [Answer(503)] * 9
    with pytest.raises(StorageError, match="503") as caught:
        store_on(fake, max_retries="2").read(AT)
    assert not isinstance(caught.value, FileMissing)
    assert fake.sent("GET") == 3


def test_a_server_without_ranges_is_read_whole(fake: FakeServer) -> None:
    fake.files["/lake/t/v1.metadata.json"] = (b"0123456789", {})
    store = store_on(fake)
    assert store.read(AT, start=2, length=3) == b"234"
    assert store.read(AT, start=-3) == b"789"
    with pytest.raises(LimitExceeded):
        store.read(AT, start=2, length=3, limit=9)


def test_the_limit_is_kept_before_anything_is_loaded(fake: FakeServer) -> None:
    header = {"ETag": '"e"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Content-Length": str(1 << 40)}
    fake.answers = [Answer(200, b"tiny", header)]
    with pytest.raises(LimitExceeded, match="1099511627776 bytes"):
        store_on(fake).read(AT)


def test_a_store_that_ignores_the_condition_is_found_out(fake: FakeServer) -> None:
    """Some stores that speak S3's protocol answer that all went well: two writers would both win."""
    with pytest.raises(StoreCannot, match="ignores put-if-absent") as caught:
        require_put_if_absent(store_on(fake), ROOT / "warehouse")
    assert "SQL or REST catalog" in str(caught.value)


def test_a_real_store_passes_the_probe_and_keeps_nothing_of_it(s3: S3, s3_folder: Location) -> None:
    store = open_store(ROOT, s3.options())
    require_put_if_absent(store, s3_folder)
    assert list(store.files(s3_folder)) == []


def test_a_bucket_that_is_not_there(s3: S3) -> None:
    root = parse_location("s3://nowhere")
    store = open_store(root, s3.options())
    with pytest.raises(StorageError, match="no such bucket"):
        store.put(root / "x", b"", if_absent=True)
    with pytest.raises(StorageError):
        list(store.files(root / "x"))


def test_another_bucket_or_prefix_is_outside(s3: S3, s3_folder: Location) -> None:
    store = open_store(s3_folder / "test", s3.options())
    store.put(s3_folder / "test/file", b"x")
    for text in ("s3://other/x", f"{s3_folder}/test2/file", f"{s3_folder}/tes"):
        with pytest.raises(InvalidLocation):
            store.read(parse_location(text))
    assert [stat.location.text for stat in store.files(s3_folder / "test")] == [f"{s3_folder}/test/file"]


def test_a_bucket_with_dots(s3: S3) -> None:
    root = parse_location("s3://with.dots")
    options = {name: value for name, value in s3.options().items() if name != "s3.path-style-access"}
    store = open_store(root, options)
    store.put(root / "x", b"x", if_absent=True)
    assert store.read(root / "x") == b"x"


def test_keys_with_empty_names_are_refused(s3: S3) -> None:
    """The lower layer would drop the empty name and use another key."""
    store = open_store(ROOT, s3.options())
    for do in (store.read, store.stat, store.delete, lambda at: store.put(at, b"")):
        with pytest.raises(InvalidLocation, match="empty names"):
            do(parse_location("s3://lake/a//b"))


def test_options_win_over_the_environment(fake: FakeServer, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of the environment beside keys from options, or another endpoint, would be somebody else's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROM-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "FROM-ENVIRONMENT")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "FROM-ENVIRONMENT")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    options = s3_options(fake.url)
    del options["s3.session-token"]
    store = open_store(ROOT, options)
    store.put(AT, b"x")
    headers = fake.requests[-1].headers
    assert "AKIACANARY" in headers["authorization"]
    assert "eu-central-1" in headers["authorization"]
    assert "x-amz-security-token" not in headers
    assert "FROM-ENVIRONMENT" not in str(fake.requests)


def test_without_options_the_environment_is_used(
    s3: S3, s3_folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = open_store(ROOT, {"s3.path-style-access": "true"})
    store.put(s3_folder / "x", b"x")
    assert store.read(s3_folder / "x") == b"x"


def test_a_profile_is_used(fake: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    profiles = tmp_path / "credentials"
    profiles.write_text(
        "[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key = s%s\n"
        "[team]\naws_access_key_id = TEAMKEY\naws_secret_access_key = s2\naws_session_token = t2\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    places = {"s3.endpoint": fake.url, "s3.region": "eu-central-1", "s3.path-style-access": "true"}
    for more, key in (({}, "DEFAULTKEY"), ({"s3.profile-name": "team"}, "TEAMKEY")):
        open_store(ROOT, {**places, **more}).put(AT, b"x")
        assert f"Credential={key}/" in fake.requests[-1].headers["authorization"]


def test_credentials_are_vended_again_before_they_expire(fake: FakeServer) -> None:
    vended = 0

    def vend() -> dict[str, str]:
        nonlocal vended
        vended += 1
        return {
            "s3.access-key-id": f"VENDED{vended}",
            "s3.secret-access-key": "s",
            "s3.session-token": "t",
            "s3.session-token-expires-at-ms": "1000",  # long ago
        }

    places = {"s3.endpoint": fake.url, "s3.region": "eu-central-1", "s3.path-style-access": "true"}
    store = open_store(ROOT, places, vended=vend(), vend=vend)
    for _ in range(3):
        store.put(AT, b"x")
    keys = [request.headers["authorization"].partition("Credential=")[2][:7] for request in fake.requests]
    assert keys == ["VENDED1", "VENDED2", "VENDED3"]


def test_read_many_from_one_slow_server_is_concurrent(fake: FakeServer) -> None:
    for n in range(64):
        fake.files[f"/lake/many/{n}"] = (b"%d" % n, {})
    found = store_on(fake).read_many([Range(ROOT / f"many/{n}") for n in range(64)])
    assert found == [b"%d" % n for n in range(64)]


def test_a_web_server_is_read_from(fake: FakeServer) -> None:
    root = parse_location(f"{fake.url}/public")
    fake.files["/public/a%20b"] = (b"0123456789", {})
    store = open_store(root)
    assert store.read(root / "a b") == b"0123456789"
    assert store.read(root / "a b", start=-2) == b"89"
    assert store.stat(root / "a b").size == 10
    with pytest.raises(FileMissing):
        store.read(root / "none")
    for do in (
        lambda: store.put(root / "x", b"", if_absent=True),
        lambda: store.put(root / "x", b""),
        lambda: store.delete(root / "x"),
        lambda: list(store.files(root)),
        lambda: store.folders(root),
    ):
        with pytest.raises(StoreCannot):
            do()
    assert not store.can_put_if_absent
    assert {request.method for request in fake.requests} <= {"GET", "HEAD"}


@pytest.mark.parametrize("put", [create, update])
def test_no_credentials_are_told_as_such(put: Put, fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain ends at the machine's metadata service: a question that failed, not a write."""
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    places = {"s3.endpoint": fake.url, "s3.region": "eu-central-1", "s3.path-style-access": "true"}
    with pytest.raises(AccessDenied, match="no credentials"):
        put(open_store(ROOT, places))
    assert fake.sent("PUT") == 0


def test_the_token_of_a_write_is_not_the_session_token(fake: FakeServer) -> None:
    create(store_on(fake))
    headers = next(request.headers for request in fake.requests if request.method == "PUT")
    assert headers["x-amz-security-token"] == TOKEN
    assert len(headers["x-amz-meta-lakeplaneput"]) == 32


def test_google_and_azure_are_asked_in_their_own_words(fake: FakeServer) -> None:
    """Google compares generations; Azure takes letters and digits in names of metadata."""
    google = parse_location("gs://lake")
    store = open_store(google, {"gcs.service.host": fake.url, "gcs.oauth2.token": "token"})
    answer = Answer(headers={"ETag": '"e"', "x-goog-generation": "18"})
    fake.answers = [answer, answer]
    assert store.put(google / "a b", b"x", if_absent=True) == "18"
    assert store.put(google / "a b", b"x", if_match="17") == "18"
    generations = [request.headers["x-goog-if-generation-match"] for request in fake.requests]
    assert generations == ["0", "17"]
    assert fake.requests[0].headers["authorization"] == "Bearer token"

    fake.requests.clear()
    taken = b"<Code>BlobAlreadyExists</Code>"
    azure = parse_location("abfss://container@account.dfs.core.windows.net")
    store = open_store(azure, {"adls.endpoint": fake.url, "adls.sas-token.account": "?sv=1&sig=a%3D"})
    fake.answers = [
        Answer(201, headers={"ETag": '"e"'}),
        Answer(412),
        Answer(409, taken),
    ]
    assert store.put(azure / "a b", b"x", if_absent=True) == '"e"'
    for _ in range(2):
        with pytest.raises(FileExists):
            store.put(azure / "a b", b"x", if_absent=True)
    first = fake.requests[0]
    assert first.path == "/container/a%20b?sv=1&sig=a%3D"
    assert first.headers["if-none-match"] == "*"
    assert len(first.headers["x-ms-meta-lakeplaneput"]) == 32
