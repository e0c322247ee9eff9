"""Clients of object stores, made from options.

obstore takes from the environment whatever it is not told, setting by setting. That would mix a session token
of the environment with keys from options, or send a catalog's requests to another endpoint. So credentials
that are given are given whole, through a provider that overrules the environment, and what an option decides
is decided for every setting that competes with it. Without credentials in the options, the usual chains of
each platform apply: environment, profile, workload identity, instance.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from lakeplane.errors import InvalidInput, InvalidLocation, StoreCannot
from lakeplane.model.location import Location
from lakeplane.storage.aws_profile import profile_credentials
from lakeplane.storage.options import Options

Platform: TypeAlias = Literal["s3", "gcs", "azure", "http"]
Credentials: TypeAlias = Mapping[str, str]
Refresh: TypeAlias = Callable[[], Credentials]
"""Gives the current credentials of a family, by their names without it."""

TIMEOUT_SECONDS: Final = 30
MAX_RETRIES: Final = 6
_BACKOFF: Final = {
    "init_backoff": timedelta(milliseconds=100),
    "max_backoff": timedelta(seconds=5),
    "base": 2,
}


class Clients(NamedTuple):
    """Two clients for one bucket."""

    platform: Platform
    patient: Any
    """Repeats requests: for what can be done twice."""
    strict: Any
    """Sends each request exactly once: for writes with a condition."""


def make_clients(root: Location, options: Options, refresh: Refresh | None = None) -> Clients:
    """Make the clients for the bucket, container or host of a location."""
    match root.scheme:
        case "s3":
            return _both("s3", _s3_settings(root.authority, options, refresh), options)
        case "gs":
            return _both("gcs", _gcs_settings(root.authority, options, refresh), options)
        case "abfs" | "wasb":
            return _both("azure", _azure_settings(root.authority, options, refresh), options)
        case "http" | "https":
            return _both("http", {"url": f"{root.scheme}://{root.authority}"}, options)
    hint = "There are stores for file, s3, gs, abfss, wasbs, https and http"
    raise InvalidLocation(f"no store for the scheme {root.scheme!r}", source=root.text, hint=hint)


def _both(platform: Platform, settings: dict[str, Any], options: Options) -> Clients:
    from obstore import store  # noqa: PLC0415  # heavy, and not needed for local files

    kinds = {"s3": store.S3Store, "gcs": store.GCSStore, "azure": store.AzureStore, "http": store.HTTPStore}
    timeout = options.count("store.request-timeout-seconds", default=TIMEOUT_SECONDS)
    client_options: dict[str, Any] = {"timeout": timedelta(seconds=timeout)}
    if urlsplit(_endpoint_in(settings, platform)).scheme == "http":
        client_options["allow_http"] = True
    if "s3.proxy-uri" in options.secret and platform == "s3":
        client_options["proxy_url"] = options.secret["s3.proxy-uri"].reveal()
    retries = options.count("store.max-retries", default=MAX_RETRIES)
    settings["client_options"] = client_options
    make: Any = kinds[platform]
    try:
        patient = make(**settings, retry_config=_retries(retries, timeout))
        strict = make(**settings, retry_config=_retries(0, timeout))
    except Exception:  # noqa: BLE001  # its text quotes the options, secrets and all
        problem = InvalidInput(f"no client for {platform} can be made of these options")
    else:
        return Clients(platform, patient, strict)
    raise problem


def _retries(times: int, timeout_seconds: int) -> dict[str, Any]:
    return {
        "max_retries": times,
        "backoff": _BACKOFF,
        "retry_timeout": timedelta(seconds=2 * timeout_seconds),
    }


def _endpoint_in(settings: dict[str, Any], platform: Platform) -> str:
    """Where requests go, as far as it was said: plain HTTP has to be allowed, and is if it was asked for."""
    config = settings.get("config", {})
    said = [settings.get("url"), config.get("endpoint"), config.get("base_url")]
    if platform == "s3":
        said += map(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    return next(filter(None, said), "")


def _checked_endpoint(options: Options, name: str) -> str | None:
    endpoint = options.plain.get(name)
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise InvalidInput("not an endpoint", field=name, hint="Write https://host:port")
    return endpoint


def _s3_settings(bucket: str, options: Options, refresh: Refresh | None) -> dict[str, Any]:
    config: dict[str, Any] = {"conditional_put": "etag", "disable_bulk_delete": True}
    if region := options.plain.get("s3.region"):
        config["region"] = region
    by_path = options.flag("s3.path-style-access", default="s3.endpoint" in options.plain or "." in bucket)
    config["virtual_hosted_style_request"] = not by_path
    if endpoint := _checked_endpoint(options, "s3.endpoint"):
        parts = urlsplit(endpoint)
        host = parts.netloc if by_path else f"{bucket}.{parts.netloc}"
        # Two names, or the one in the environment would win over ours.
        config["endpoint"] = config["aws_endpoint_url_s3"] = f"{parts.scheme}://{host}"
    if bucket.endswith("--x-s3"):
        config["s3_express"] = True
    config |= _s3_encryption(options)
    settings: dict[str, Any] = {"bucket": bucket, "config": config}
    given = options.credentials("s3")
    if options.flag("s3.anonymous", default=False):
        config["skip_signature"] = True
    elif "access-key-id" in given or "secret-access-key" in given:
        if not {"access-key-id", "secret-access-key"} <= given.keys():
            raise InvalidInput("s3.access-key-id and s3.secret-access-key belong together")
        config["skip_signature"] = False
        settings["credential_provider"] = _Provider(
            _s3_credential, given, "session-token-expires-at-ms", refresh
        )
    elif (provider := profile_credentials(options.plain.get("s3.profile-name"))) is not None:
        settings["credential_provider"] = provider
    return settings


def _s3_encryption(options: Options) -> dict[str, Any]:
    kind = options.plain.get("s3.sse.type", "none").lower()
    key = options.plain.get("s3.sse.key")
    match kind:
        case "none":
            return {}
        case "s3":
            return {"server_side_encryption": "AES256"}
        case "kms" | "dsse-kms":
            algorithm = "aws:kms" if kind == "kms" else "aws:kms:dsse"
            return {"server_side_encryption": algorithm, **({"sse_kms_key_id": key} if key else {})}
    raise StoreCannot(f"the encryption s3.sse.type={kind!r} is not supported", hint="Use s3, kms or dsse-kms")


def _gcs_settings(bucket: str, options: Options, refresh: Refresh | None) -> dict[str, Any]:
    config: dict[str, Any] = {}
    settings: dict[str, Any] = {"bucket": bucket, "config": config}
    if host := _checked_endpoint(options, "gcs.service.host"):
        config["base_url"] = host
    given = options.credentials("gcs")
    if options.flag("gcs.no-auth", default=False):
        config["skip_signature"] = True
    elif "oauth2.token" in given:
        config["skip_signature"] = False
        settings["credential_provider"] = _Provider(
            _gcs_credential, given, "oauth2.token-expires-at", refresh
        )
    elif file := options.plain.get("gcs.application-credentials"):
        config["application_credentials"] = file
    return settings


def _azure_settings(authority: str, options: Options, refresh: Refresh | None) -> dict[str, Any]:
    container, _, host = authority.rpartition("@")
    account = host.partition(".")[0] if container else options.plain.get("adls.account-name", "")
    config: dict[str, Any] = {"account_name": account} if account else {}
    if endpoint := _checked_endpoint(options, "adls.endpoint"):
        config["endpoint"] = endpoint
    given = _for_account(options.credentials("adls"), account, host)
    settings: dict[str, Any] = {"container_name": container or authority, "config": config}
    if {"account-key", "sas-token", "token"} & given.keys():
        config["skip_signature"] = False
        expiry = "sas-token-expires-at-ms"
        current = (lambda: _for_account(refresh(), account, host)) if refresh else None
        settings["credential_provider"] = _Provider(_azure_credential, given, expiry, current)
    elif "client-secret" in given:
        names = {"client_id": "client-id", "client_secret": "client-secret", "tenant_id": "tenant-id"}
        absent = [f"adls.{name}" for name in names.values() if name not in given]
        if absent:
            raise InvalidInput(f"adls.client-secret also needs {' and '.join(absent)}")
        config |= {key: given[name] for key, name in names.items()} | {"credential_type": "client_secret"}
    return settings


def _for_account(given: Credentials, account: str, host: str) -> dict[str, str]:
    """Credentials with those that are meant for this account alone in the place of the general ones."""
    found = {name: value for name, value in given.items() if not name.startswith("sas-token")}
    for name in ("sas-token", "sas-token-expires-at-ms"):
        for key in (name, f"{name}.{account}", f"{name}.{host}"):
            if key in given:
                found[name] = given[key].removeprefix("?")
    return found


class _Provider:
    """Answers obstore's question for credentials, with new ones when those before are about to expire."""

    def __init__(
        self,
        shape: Callable[[Credentials], dict[str, Any]],
        given: Credentials,
        expiry: str,
        refresh: Refresh | None,
    ) -> None:
        self._shape, self._given, self._expiry, self._refresh = shape, given, expiry, refresh
        self._is_first = True

    def __repr__(self) -> str:
        return "credentials(***)"

    def __call__(self) -> dict[str, Any]:
        if self._refresh is not None and not self._is_first:
            self._given = self._refresh()
        self._is_first = False
        return {**self._shape(self._given), "expires_at": self._expires_at()}

    def _expires_at(self) -> datetime | None:
        """When to ask again; never, if there is nobody who has newer ones."""
        text = self._given.get(self._expiry, "")
        if self._refresh is None or not text.isdigit():
            return None
        return datetime.fromtimestamp(int(text) / 1000, UTC)


def _s3_credential(given: Credentials) -> dict[str, Any]:
    return {
        "access_key_id": given["access-key-id"],
        "secret_access_key": given["secret-access-key"],
        "token": given.get("session-token"),
    }


def _gcs_credential(given: Credentials) -> dict[str, Any]:
    return {"token": given["oauth2.token"]}


def _azure_credential(given: Credentials) -> dict[str, Any]:
    if token := given.get("sas-token"):
        return {"sas_token": token}
    if key := given.get("account-key"):
        return {"access_key": key}
    return {"token": given["token"]}
