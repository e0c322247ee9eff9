"""What a REST catalog is set up with: the options of its user, and what its server may add to them.

A user's option that is not known is refused, with the nearest name. What a server sends is taken from an
allow-list, key by key, and the rest is ignored: a server may say where its catalog lies below the address
that the user trusts, and how storage is reached, but it never chooses code, other hosts, or weaker TLS.
"""

from __future__ import annotations

import difflib
import ipaddress
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, LakeplaneError
from lakeplane.model.location import parse_location
from lakeplane.storage.options import Given, is_store_option, user_options
from lakeplane.storage.secret import Secret

log = logging.getLogger(__name__)

HEADER: Final = "header."
DELEGATION: Final = "X-Iceberg-Access-Delegation"
DEFAULT_SEPARATOR: Final = "%1F"

_KNOWN: Final = (
    "warehouse",
    "prefix",
    "token",
    "credential",
    "oauth2-server-uri",
    "scope",
    "audience",
    "resource",
    "snapshot-loading-mode",
    "rest-page-size",
    "view-endpoints-supported",
    "ssl.cabundle",
    "ssl.client.cert",
    "ssl.client.key",
    "request-timeout-seconds",
    "response-timeout-seconds",
    "response-limit-bytes",
    "retry.max-attempts",
    "retry.max-wait-seconds",
    "allow-plain-http",
    "allow-local-files",
    "extra-locations",
)
_FROM_SERVER: Final = ("prefix", "namespace-separator", "rest-page-size", "snapshot-loading-mode")
_FOR_SERVERS_TO_SAY: Final = ("view-endpoints-supported",)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "idempotency-key"}
)
_PREFIX_PART: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+")
_SEPARATOR: Final = re.compile(r"(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9._~$-]){1,16}")


class World(NamedTuple):
    """What a client asks of the world around it; tests put their own in its place."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: random.Random = random.SystemRandom()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The user's options, checked; secrets are wrapped."""

    uri: str
    plain: dict[str, str]
    headers: dict[str, Secret]
    token: Secret | None
    credential: tuple[str | None, Secret] | None
    """Client id and client secret."""
    oauth_uri: str
    storage: dict[str, str | Secret | bool | int]
    views_assumed: bool
    allow_local_files: bool
    extra_locations: tuple[str, ...]
    timeout_s: float
    deadline_s: float
    size_limit: int
    attempts: int
    max_wait_s: float

    @property
    def secrets(self) -> list[Secret]:
        """What must not be seen."""
        found = [*self.headers.values()]
        if self.token is not None:
            found.append(self.token)
        if self.credential is not None:
            found.append(self.credential[1])
        return [*found, *(value for value in self.storage.values() if isinstance(value, Secret))]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's answer to ``/v1/config`` adds, after the allow-list."""

    prefix: str | None
    separator: str
    """As it stands in paths: percent-encoded, in the server's own spelling."""
    page_size: int | None
    snapshots: str
    endpoints: frozenset[str] | None
    key_lifetime_s: float | None
    storage_defaults: dict[str, Secret]
    storage_overrides: dict[str, Secret]


def read_settings(uri: str, options: Mapping[str, Any]) -> Settings:
    """Check what the user gave; refuse what is not known."""
    given = {_option(name): value for name, value in options.items()}
    plain = {
        name: _text(name, value)
        for name, value in given.items()
        if name in _KNOWN and name not in ("token", "credential")
    }
    storage: Given = {name: value for name, value in given.items() if is_store_option(name)}
    hidden = user_options(storage).secret
    headers = {
        name.removeprefix(HEADER): _header(name.removeprefix(HEADER), value)
        for name, value in given.items()
        if name.startswith(HEADER)
    }
    token, credential = _secret(given.get("token")), _secret(given.get("credential"))
    uri = _address(uri, "uri").rstrip("/").removesuffix("/v1")
    oauth = plain.get("oauth2-server-uri", "v1/oauth/tokens")
    oauth = _address(oauth, "oauth2-server-uri") if "://" in oauth else f"{uri}/{oauth.lstrip('/')}"
    if not _flag(plain, "allow-plain-http") and (token or credential or headers):
        for each in (uri, oauth) if credential else (uri,):
            _check_private(each)
    mode = plain.get("snapshot-loading-mode", "all").lower()
    if mode not in ("all", "refs"):
        raise InvalidInput("snapshot-loading-mode must be all or refs")
    return Settings(
        uri=uri,
        plain=plain,
        headers=headers,
        token=token,
        credential=None if credential is None else _client(credential),
        oauth_uri=oauth,
        storage={
            key: Secret(_text(key, each)) if key in hidden and not isinstance(each, Secret) else each
            for key, each in storage.items()
        },
        views_assumed=_flag(plain, "view-endpoints-supported"),
        allow_local_files=_flag(plain, "allow-local-files") or is_loopback(urlsplit(uri).hostname),
        extra_locations=tuple(filter(None, map(str.strip, plain.get("extra-locations", "").split(",")))),
        timeout_s=_number(plain, "request-timeout-seconds", 60),
        deadline_s=_number(plain, "response-timeout-seconds", 300),
        size_limit=int(_number(plain, "response-limit-bytes", 256 * 2**20)),
        attempts=max(1, int(_number(plain, "retry.max-attempts", 5))),
        max_wait_s=_number(plain, "retry.max-wait-seconds", 30),
    )


def read_config(document: Mapping[str, Any], settings: Settings) -> Config:
    """Take from the server's answer what it may say: defaults, then the user's options, then overrides."""
    defaults, overrides = _strings(document, "defaults"), _strings(document, "overrides")
    for key in sorted({*defaults, *overrides}):
        if key not in (*_FROM_SERVER, *_FOR_SERVERS_TO_SAY) and not is_store_option(key):
            log.debug("the catalog's server sent the option %.60r, which is not taken from servers", key)
    merged = {
        key: value
        for key, value in {**defaults, **settings.plain, **overrides}.items()
        if key in _FROM_SERVER
    }
    endpoints = document.get("endpoints")
    if endpoints is not None and not (
        isinstance(endpoints, list) and all(isinstance(each, str) for each in endpoints)
    ):
        raise InvalidMetadata("expected a list of endpoints", field="endpoints")
    mode = merged.get("snapshot-loading-mode", "all").lower()
    page = merged.get("rest-page-size", "")
    prefix = merged.get("prefix", "").strip("/")
    separator = merged.get("namespace-separator", DEFAULT_SEPARATOR)
    if prefix and not all(map(_is_prefix_part, prefix.split("/"))):
        raise InvalidMetadata("the server's prefix is not a path", field="prefix")
    if not _SEPARATOR.fullmatch(separator) or unquote(separator) in ("/", "%"):
        raise InvalidMetadata("the server's namespace separator cannot be used", field="namespace-separator")
    return Config(
        prefix=prefix or None,
        separator=separator,
        page_size=int(page) if re.fullmatch(r"[1-9]\d{0,8}", page) else None,
        snapshots=mode if mode in ("all", "refs") else "all",
        # An empty list is what old servers send that do not know the field.
        endpoints=frozenset(endpoints) if endpoints else None,
        key_lifetime_s=_duration(document.get("idempotency-key-lifetime")),
        storage_defaults={key: Secret(defaults[key]) for key in defaults if is_store_option(key)},
        storage_overrides={key: Secret(overrides[key]) for key in overrides if is_store_option(key)},
    )


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _option(name: str) -> str:
    if name in _KNOWN or name.startswith(HEADER) or is_store_option(name):
        return name
    if (spelled := name.replace("_", "-")) in _KNOWN:
        return spelled
    near = difflib.get_close_matches(spelled, _KNOWN, n=1)
    hint = f"Did you mean {near[0]}?" if near else "See docs/catalog-rest.md for those that there are"
    raise InvalidInput(f"unknown option {name!r:.100} of a REST catalog", hint=hint)


def _address(text: str, field: str) -> str:
    try:
        parts: SplitResult = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput("not an address", field=field) from None
    shows = text.isascii() and text.isprintable() and " " not in text
    if parts.scheme not in ("http", "https") or not host or not shows:
        raise InvalidInput("not an http or https address", field=field)
    if parts.username is not None or parts.password is not None:
        hint = "Give credentials as the options token or credential"
        raise InvalidInput("an address must not carry a password", field=field, hint=hint)
    if parts.query or parts.fragment:
        raise InvalidInput("an address must end with its path", field=field, hint="Give options as options")
    try:
        parse_location(f"{parts.scheme}://{parts.netloc}")
    except LakeplaneError as error:
        raise InvalidInput(error.problem, field=field) from None
    return text


def _check_private(uri: str) -> None:
    parts = urlsplit(uri)
    if parts.scheme != "https" and not is_loopback(parts.hostname):
        hint = "Use an https address, or set allow-plain-http=true if the network is yours"
        raise InvalidInput("credentials would be sent without encryption", source=uri, hint=hint)


def _client(credential: Secret) -> tuple[str | None, Secret]:
    name, colon, secret = credential.reveal().partition(":")
    return (name, Secret(secret)) if colon else (None, credential)


def _header(name: str, value: object) -> Secret:
    found = _secret(value)
    text = found.reveal() if found else ""
    good = text.isascii() and text.isprintable() and text == text.strip()
    if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS or found is None or not good:
        raise InvalidInput("not a header that can be sent", field=f"{HEADER}{name:.60}")
    return found


def _secret(value: object) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value:
        raise InvalidInput("a token, credential or header must be a text that is not empty")
    return Secret(value)


def _text(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            raise InvalidInput("expected a text", field=name)


def _flag(plain: Mapping[str, str], name: str) -> bool:
    text = plain.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} must be true or false")
    return text == "true"


def _number(plain: Mapping[str, str], name: str, default: float) -> float:
    text = plain.get(name, str(default)).strip()
    if not re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text):
        raise InvalidInput(f"{name} must be a number that is not negative")
    return float(text)


def _strings(document: Mapping[str, Any], key: str) -> dict[str, str]:
    found = document.get(key) or {}
    if not isinstance(found, dict):
        raise InvalidMetadata("expected an object", field=key)
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _is_prefix_part(part: str) -> bool:
    return bool(_PREFIX_PART.fullmatch(part)) and set(unquote(part)) != {"."} and "\0" not in unquote(part)


def _duration(text: object) -> float | None:
    """An ISO 8601 duration of days and less, in seconds."""
    found = re.fullmatch(
        r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6})(?:\.\d+)?S)?)?",
        text if isinstance(text, str) else "",
    )
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
