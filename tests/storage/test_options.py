from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakeplane.errors import InvalidInput, InvalidLocation, StoreCannot
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.open import open_recipe, open_router, open_store
from lakeplane.storage.options import OPTIONS, is_store_option, merge, user_options, vended_options
from lakeplane.storage.secret import Secret

USERS = user_options(
    {"s3.access-key-id": "U", "s3.secret-access-key": "U", "s3.session-token": "U", "s3.region": "eu-west-1"}
)
VENDED = {"s3.access-key-id": "V", "s3.secret-access-key": "V"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("s3.acces-key-id", "s3.access-key-id"),
        ("s3.endpont", "s3.endpoint"),
        ("adls.sastoken", "adls.sas-token"),
        ("io-impl", "docs/storage.md"),
    ],
)
def test_a_users_typing_error_is_refused(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(hint)):
        user_options({name: "x"})


def test_the_names_of_other_clients_are_understood() -> None:
    options = user_options({"client.region": "eu-west-1", "client.access-key-id": "k", "gcs.token": "t"})
    assert options.plain == {"s3.region": "eu-west-1"}
    assert options.secret == {"s3.access-key-id": Secret("k"), "gcs.oauth2.token": Secret("t")}
    accounts = user_options({"adls.sas-token.acc.dfs.core.windows.net": "sig"})
    assert accounts.credentials("adls") == {"sas-token.acc.dfs.core.windows.net": "sig"}


def test_what_a_server_must_not_decide_is_ignored() -> None:
    """A server that names a class, a proxy or a profile gets neither our process nor our traffic."""
    evil = {
        "io-impl": "evil.Module",
        "s3.proxy-uri": "http://evil",
        "s3.profile-name": "admin",
        "s3.signer": "evil",
        "s3.anonymous": "true",
        "adls.endpoint": "http://evil",
        "adls.client-secret": "x",
        "gcs.application-credentials": "/etc/passwd",
        "store.max-retries": "1000000",
        "py-io-impl": "evil",
    }
    assert vended_options(evil) == vended_options({})


def test_credentials_are_never_mixed() -> None:
    """Keys of the catalog with a session token of the user are neither's, and reach the wrong party."""
    merged = merge(USERS, vended_options(VENDED))
    assert merged.credentials("s3") == {"access-key-id": "V", "secret-access-key": "V"}
    assert merged.plain == {"s3.region": "eu-west-1"}
    assert merge(USERS, vended_options({"gcs.oauth2.token": "V"})).credentials("s3") == USERS.credentials(
        "s3"
    )


def test_a_server_does_not_lead_the_users_credentials_elsewhere() -> None:
    says = {"s3.endpoint": "https://evil.example", "s3.region": "us-east-1"}
    assert merge(USERS, vended_options(says)).plain == {"s3.region": "us-east-1"}
    assert merge(USERS, vended_options({**VENDED, **says})).plain["s3.endpoint"] == "https://evil.example"


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254", "http://0xa9fea9fe/latest", "https://[fe80::1]"]
)
def test_a_server_does_not_lead_to_link_local_addresses(endpoint: str) -> None:
    with pytest.raises(InvalidLocation, match="link-local"):
        merge(USERS, vended_options({**VENDED, "s3.endpoint": endpoint}))


def test_a_server_does_not_have_tokens_sent_in_the_clear() -> None:
    vended = vended_options({"gcs.oauth2.token": "V", "gcs.service.host": "http://host"})
    with pytest.raises(InvalidInput, match="without encryption"):
        merge(user_options({}), vended)


def test_remote_signing_is_refused_with_the_way_out() -> None:
    with pytest.raises(StoreCannot, match="vended credentials"):
        vended_options({"s3.remote-signing-enabled": "true"})
    assert vended_options({**VENDED, "s3.remote-signing-enabled": "true"}).credentials("s3")


def test_values_are_checked() -> None:
    at = parse_location("s3://lake")
    for options in (
        {"s3.path-style-access": "maybe"},
        {"store.max-retries": "-1"},
        {"store.request-timeout-seconds": "soon"},
        {"s3.endpoint": "localhost:9000"},
        {"s3.access-key-id": "k"},
        {"s3.region": Secret("x")},
        {"s3.profile-name": "nobody"},
    ):
        with pytest.raises(InvalidInput):
            open_store(at, options)
    with pytest.raises(StoreCannot, match="custom"):
        open_store(at, {"s3.sse.type": "custom"})


def test_schemes(tmp_path: Path) -> None:
    assert isinstance(open_store(parse_location(str(tmp_path))), LocalStore)
    for text in (
        "s3a://lake/x",
        "gs://lake",
        "abfss://c@a.dfs.core.windows.net/x",
        "wasbs://c@a/x",
        "https://h/x",
    ):
        assert text in repr(open_store(parse_location(text), {"s3.region": "eu-west-1"}))
    for text in ("hdfs://name/x", "ftp://host/x"):
        with pytest.raises(InvalidLocation, match="no store for the scheme"):
            open_store(parse_location(text))
    with pytest.raises(InvalidInput, match="MemoryStore"):
        open_store(parse_location("memory://lake"))
    with pytest.raises(InvalidLocation, match="no bucket"):
        open_store(parse_location("s3:/x"))


def test_a_router_opens_nothing_else_unless_allowed(lake: Location, tmp_path: Path) -> None:
    """What poisoned metadata points to is refused before anything is opened."""
    (tmp_path / "secret").write_bytes(b"x")
    secret = parse_location(str(tmp_path / "secret"))
    router = open_router([lake])
    for at in (secret, parse_location("s3://lake/x"), parse_location("https://127.0.0.1/x")):
        with pytest.raises(InvalidLocation, match="no storage is configured"):
            router.read(at)
    allowed = open_router([lake], elsewhere={"file"})
    assert allowed.read(secret) == b"x"
    with pytest.raises(InvalidLocation):
        allowed.read(parse_location("s3://lake/x"))


def test_the_longest_prefix_wins_by_whole_segments() -> None:
    outer, inner = parse_location("s3://lake"), parse_location("s3a://lake/db/t")
    router = open_router([outer], vended={inner: VENDED})
    assert router.store_at(parse_location("s3://lake/db/t/data/f")) is router.store_at(inner)
    for text in ("s3://lake/db/t2/f", "s3://lake/db", "s3://lake"):
        assert router.store_at(parse_location(text)) is router.store_at(outer)


def test_a_local_recipe(lake: Location) -> None:
    store = open_store(lake)
    store.put(lake / "x", b"1")
    again = open_recipe(store.recipe())
    assert again.read(lake / "x") == b"1"
    with pytest.raises(InvalidLocation):
        again.read(lake.parent / "y")
    router = open_recipe(open_router([lake], elsewhere={"file"}).recipe())
    assert router.read(lake / "x") == b"1"


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "storage.md").read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"`{name}`" not in page] == []
    assert all(map(is_store_option, OPTIONS))
    assert not is_store_option("warehouse")


def test_local_files_do_not_load_obstore() -> None:
    program = """
import sys
import lakeplane
from lakeplane.storage.open import open_store
from lakeplane.model.location import parse_location
open_store(parse_location("/tmp")).stat
print([name for name in sys.modules if name.partition(".")[0] in ("obstore", "boto3", "pyarrow")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
